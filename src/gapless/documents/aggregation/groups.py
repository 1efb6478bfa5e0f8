"""Stages that gather documents into groups: `$group` and `$sortByCount`. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gapless.documents.aggregation.fields import Parse
from gapless.documents.aggregation.gathering import Gather, Gathering
from gapless.documents.aggregation.operands import field_name
from gapless.documents.aggregation.rows import Sorted
from gapless.documents.aggregation.stages import Document, Parsing, Running, Stage, wrong_stage
from gapless.documents.expressions.accumulators import ENDS, FEW, PLAIN, Accumulator, Count
from gapless.documents.expressions.arrays import count_of
from gapless.documents.expressions.operands import read_named, wrong_call
from gapless.documents.expressions.parse import OPERATORS, unknown_expression
from gapless.documents.expressions.scope import Constant, Evaluate
from gapless.documents.find.sort import order_key, parse_sort
from gapless.documents.values.codec import ID
from gapless.errors import InvalidFilter, nearest

ACCUMULATORS = (*PLAIN, *FEW, *ENDS, "$count")


def parse_gather(given: Any, at: Parsing) -> Gather:
    """An accumulator with its operand: `{"$sum": "$price"}`. Raises InvalidFilter, NotSupported, InvalidValue."""
    if not isinstance(given, Mapping) or len(given) != 1:
        raise wrong_call("an accumulator", given, "It is a mapping of one operator to its operand", "Pass {'$sum': 1}")
    ((operator, operand),) = given.items()
    if operator in PLAIN:
        plain = PLAIN[operator]
        return Gather(operator=operator, fresh=lambda _: plain(), value=at.expression(operand))
    if operator == "$count":
        read_named(operator, operand, ())
        return Gather(operator=operator, fresh=lambda _: Count(), value=Constant(None))
    if operator in FEW:
        operands = read_named(operator, operand, ("input", "n"))
        return _few(operator, FEW[operator], at.expression(operands["n"]), at.expression(operands["input"]))
    if operator in ENDS:
        return _ends(operator, operand, at)
    raise _unknown(operator)


def _few(operator: str, made: Callable[[int], Accumulator], count: Evaluate, value: Evaluate) -> Gather:
    return Gather(operator=operator, fresh=lambda scope: made(count_of(operator, count(scope))), value=value)


def _ends(operator: str, operand: Any, at: Parsing) -> Gather:
    several = operator.endswith("N")
    operands = read_named(operator, operand, ("sortBy", "output", "n") if several else ("sortBy", "output"))
    if not isinstance(operands["sortBy"], Mapping) or not operands["sortBy"]:
        raise wrong_call(operator, operands["sortBy"], "sortBy is a mapping of paths to 1 or -1", "Pass {'score': -1}")
    by, output = parse_sort(operands["sortBy"]), at.expression(operands["output"])
    count = at.expression(operands["n"] if several else 1)
    return _few(operator, ENDS[operator], count, lambda scope: (order_key(scope["ROOT"], by), output(scope)))


def _unknown(operator: Any) -> InvalidFilter | Exception:
    if not isinstance(operator, str) or operator in OPERATORS:
        why = "It is an expression of one document" if operator in OPERATORS else "Accumulators are called by texts"
        return wrong_call("an accumulator", operator, why, f"Use one of {', '.join(ACCUMULATORS)}")
    found = unknown_expression(operator)
    if not isinstance(found, InvalidFilter):
        return found
    return InvalidFilter(
        f"{operator} is no accumulator",
        why=f"There are {', '.join(ACCUMULATORS)}; no document was looked at",
        fix=nearest(operator, ACCUMULATORS),
        where=operator,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Group(Stage):
    """`$group`. What is gathered of one group is held in memory, whatever the limit."""

    by: Evaluate
    fields: Mapping[str, Gather]

    def run(self, documents: Iterator[Document], at: Running) -> Iterator[Document]:
        """See `Stage`."""
        return Gathering(by=self.by, fields=self.fields, at=at).run(documents)


def _group(stage: str, given: Any, at: Parsing) -> tuple[Stage, ...]:
    if not isinstance(given, Mapping) or ID not in given:
        raise wrong_stage(stage, given, "It takes a mapping with an _id to group by", "Pass {'_id': '$kind', 'n': {'$sum': 1}}")
    return (Group(by=at.expression(given[ID]), fields=parse_output(stage, given, at)),)


def parse_output(stage: str, given: Any, at: Parsing) -> dict[str, Gather]:
    """Fields with their accumulators, but for `_id`. Raises InvalidOption, InvalidFilter, NotSupported, InvalidValue."""
    if not isinstance(given, Mapping):
        raise wrong_stage(stage, given, "Fields are a mapping of names to accumulators", "Pass {'n': {'$sum': 1}}")
    return {field_name(stage, name): parse_gather(one, at) for name, one in given.items() if name != ID}


def _sort_by_count(stage: str, given: Any, at: Parsing) -> tuple[Stage, ...]:
    plain = isinstance(given, str) and given.startswith("$")
    if not plain and not (isinstance(given, Mapping) and len(given) == 1 and str(next(iter(given))).startswith("$")):
        raise wrong_stage(stage, given, "It takes a path or an expression", "Pass '$kind'")
    return (*_group(stage, {ID: given, "count": {"$sum": 1}}, at), Sorted(by=parse_sort({"count": -1})))


GROUP_STAGES: Mapping[str, Parse] = {"$group": _group, "$sortByCount": _sort_by_count}
