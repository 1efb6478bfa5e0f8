"""Filters as users write them, read into conditions. Pure.

An operator that is not known is an error wherever it stands: passed over, it would let a delete take every document.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from bson.regex import Regex

from gapless.documents.expressions.parse import parse_expression
from gapless.documents.expressions.scope import Evaluate
from gapless.documents.filters.operands import (
    invalid,
    parse_bits,
    parse_list,
    parse_mod,
    parse_regex,
    parse_size,
    parse_type,
)
from gapless.documents.filters.tree import (
    All,
    At,
    Compares,
    Comparison,
    Computed,
    Condition,
    Contains,
    Each,
    ElementIs,
    ElementMatches,
    Equals,
    Exists,
    HasSize,
    IsIn,
    Neither,
    Not,
    Pattern,
    Some,
    Test,
)
from gapless.documents.values.order import sort_key
from gapless.errors import InvalidFilter, NotSupported, nearest

_JOINED: Mapping[str, Callable[[tuple[Condition, ...]], Condition]] = {"$and": All, "$or": Some, "$nor": Neither}
_COMMENT, _EXPR = "$comment", "$expr"
_DBREF = ("$ref", "$id", "$db")
_COMPARISONS: Mapping[str, Comparison] = {"$gt": "$gt", "$gte": "$gte", "$lt": "$lt", "$lte": "$lte"}
_BITS = ("$bitsAllSet", "$bitsAnySet", "$bitsAllClear", "$bitsAnyClear")
FIELD_OPERATORS = (
    "$eq", "$ne", *_COMPARISONS, "$in", "$nin", "$not", "$exists", "$type", "$all", "$elemMatch", "$size", "$regex", "$options", "$mod",
    *_BITS, _COMMENT,
)  # fmt: skip
"""Operators that stand below a field."""
TOP_OPERATORS = (*_JOINED, _EXPR, _COMMENT)
"""Operators that stand where a field could."""
_REFUSED: Mapping[str, str] = {
    "$where": "It runs JavaScript",
    "$text": "There is no full-text index",
    "$jsonSchema": "Schemas are checked by other means",
    "$sampleRate": "The same filter would find other documents each time",
    "$rand": "The same filter would find other documents each time",
    **dict.fromkeys(
        ("$geoWithin", "$geoIntersects", "$near", "$nearSphere", "$within", "$geometry", "$maxDistance", "$minDistance"),
        "There is no geometry",
    ),
}
_DEEPEST = 180
"""Levels of nesting; BSON itself has 200 at most."""


def parse_filter(given: object, *, now: datetime | None = None, names: frozenset[str] = frozenset()) -> Condition:
    """The condition that a filter is.

    `now` and `names` are what `$expr` knows, as `parse_expression` takes them. Raises InvalidFilter, NotSupported, InvalidValue.

    >>> parse_filter({"v": 1})
    At(path=('v',), test=Equals(key=(<TypeOrder.NUMBER: 10>, 1, 1)))
    """
    return _filter(given, _Place(partial(parse_expression, now=now, names=names)))


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in a filter something stands."""

    expression: Callable[[Any], Evaluate] | None
    """How an `$expr` is read; None where none may be."""
    depth: int = 0


def _filter(given: object, at: _Place) -> Condition:
    if not isinstance(given, Mapping):
        raise invalid("a filter", given, "It is a mapping of fields to what is asked of them", "Pass {'age': {'$gte': 30}}")
    if at.depth > _DEEPEST:
        raise invalid("a filter", "one so deep", f"It has more than {_DEEPEST} levels", "Say it with fewer levels")
    found = [_condition(name, operand, at) for name, operand in given.items() if name != _COMMENT]
    return found[0] if len(found) == 1 else All(tuple(found))


def _condition(name: object, operand: Any, at: _Place) -> Condition:
    if not isinstance(name, str):
        raise invalid("a filter", name, "Fields are called by texts", "Pass the name of a field")
    if name in _JOINED:
        parts = parse_list(name, operand)
        if not parts:
            raise invalid(name, operand, "It joins at least one filter", f"Leave {name} out, or give it filters")
        return _JOINED[name](tuple(_filter(one, replace(at, depth=at.depth + 1)) for one in parts))
    if name == _EXPR:
        if at.expression is None:
            raise invalid(name, operand, "It is of a whole document, not of an element", "Say it beside $elemMatch")
        return Computed(at.expression(operand))
    if name.startswith("$"):
        raise _unknown(name, TOP_OPERATORS, "Where a field could stand")
    return At(tuple(name.split(".")), _test_of_field(operand, at.depth + 1))


def _test_of_field(operand: Any, depth: int) -> Test:
    """What is asked of a field: a pattern, operators, or that it equals a value."""
    if isinstance(operand, Regex | re.Pattern):
        return parse_regex(operand)
    return _operators(operand, depth) if has_operators(operand) else Equals(sort_key(operand))


def has_operators(operand: object) -> bool:
    """Whether what stands below a field are operators, and not a value."""
    if not isinstance(operand, Mapping) or not operand:
        return False
    first = next(iter(operand))
    return isinstance(first, str) and first.startswith("$") and first not in _DBREF


def _operators(operand: Mapping[str, Any], depth: int) -> Test:
    tests = [_operator(name, value, operand, depth) for name, value in operand.items() if name not in ("$options", _COMMENT)]
    if "$options" in operand and "$regex" not in operand:
        raise invalid("$options", operand["$options"], "They are those of a $regex, and none is there", "Add a $regex")
    return tests[0] if len(tests) == 1 else Each(tuple(tests))


def _operator(name: str, value: Any, beside: Mapping[str, Any], depth: int) -> Test:
    if name == "$regex":
        return parse_regex(value, beside.get("$options"))
    if name in _BITS:
        return parse_bits(name, value)
    if name in _COMPARISONS:
        _refuse_pattern(name, value)
        return Compares(_COMPARISONS[name], sort_key(value))
    parse = _PARSERS.get(name)
    if parse is None:
        raise _unknown(name, FIELD_OPERATORS, "Below a field")
    return parse(value, depth)


def _not_equals(value: Any, depth: int) -> Test:  # noqa: ARG001  # as all of `_PARSERS`
    _refuse_pattern("$ne", value)
    return Not(Equals(sort_key(value)))


def _is_in(operator: str, value: Any) -> IsIn:
    keys, patterns = set(), list[Pattern]()
    for one in parse_list(operator, value):
        if isinstance(one, Regex | re.Pattern):
            patterns.append(parse_regex(one))
        elif has_operators(one):
            raise invalid(operator, one, "Its elements are values and patterns, no operators", "Say $or of several filters")
        else:
            keys.add(sort_key(one))
    return IsIn(frozenset(keys), tuple(patterns))


def _not(value: Any, depth: int) -> Test:
    if isinstance(value, Regex | re.Pattern):
        return Not(parse_regex(value))
    if not isinstance(value, Mapping) or not value:
        raise invalid(
            "$not", value, "It turns operators or a pattern round", "Pass {'$not': {'$gt': 5}}; $ne asks for another value"
        )
    if not has_operators(value):
        raise invalid("$not", value, "What it turns round is not a value", "Pass {'$ne': …}")
    return Not(_operators(value, depth + 1))


def _contains(value: Any, depth: int) -> Test:
    parts = parse_list("$all", value)
    nested = [isinstance(one, Mapping) and next(iter(one), None) == "$elemMatch" for one in parts]
    if any(nested):
        if not all(nested):
            raise invalid("$all", value, "Where one element is an $elemMatch, all are", "Say $and of several filters")
        return Contains(tuple(_operators(one, depth + 1) for one in parts))
    tests: list[Test] = []
    for one in parts:
        if isinstance(one, Regex | re.Pattern):
            tests.append(parse_regex(one))
        elif has_operators(one):
            raise invalid("$all", one, "Its elements are values, patterns or $elemMatch", "Say $and of several filters")
        else:
            tests.append(Equals(sort_key(one)))
    return Contains(tuple(tests))


def parse_element_test(value: Any) -> ElementIs | ElementMatches:
    """What an `$elemMatch` looks for. Raises InvalidFilter, NotSupported, InvalidValue."""
    return _element(value, 0)


def parse_value_test(value: Any) -> Test:
    """What is asked of one value, as it stands below a field. Raises as `parse_element_test`."""
    return _test_of_field(value, 0)


def _element(value: Any, depth: int) -> ElementIs | ElementMatches:
    if not isinstance(value, Mapping):
        raise invalid("$elemMatch", value, "It takes operators or a filter", "Pass {'$elemMatch': {'$gt': 1}}")
    if has_operators(value) and next(iter(value)) not in (*TOP_OPERATORS, *_REFUSED):
        return ElementIs(_operators(value, depth + 1))
    return ElementMatches(_filter(value, _Place(None, depth + 1)))


_PARSERS: Mapping[str, Callable[[Any, int], Test]] = {
    "$eq": lambda value, _: Equals(sort_key(value)),
    "$ne": _not_equals,
    "$in": lambda value, _: _is_in("$in", value),
    "$nin": lambda value, _: Not(_is_in("$nin", value)),
    "$not": _not,
    "$exists": lambda value, _: Exists(_is_true(value)),
    "$type": lambda value, _: parse_type(value),
    "$all": _contains,
    "$elemMatch": _element,
    "$size": lambda value, _: HasSize(parse_size(value)),
    "$mod": lambda value, _: parse_mod(value),
}


def _is_true(value: Any) -> bool:
    """As MongoDB takes options: all is true but false, null and a number that is 0."""
    return sort_key(value) not in (sort_key(False), sort_key(None), sort_key(0))


def _refuse_pattern(operator: str, value: object) -> None:
    if isinstance(value, Regex | re.Pattern):
        raise invalid(
            operator, value, "A pattern is matched, and is neither more nor less than a text", "Pass {'$not': pattern}"
        )


def _unknown(name: str, known: tuple[str, ...], where: str) -> InvalidFilter | NotSupported:
    if name in _REFUSED:
        return NotSupported(
            f"{name} is not supported in filters",
            why=_REFUSED[name],
            fix=f"Use {', '.join(known[:6])} or others that docs/howto/documents.md lists",
            feature=name,
        )
    return InvalidFilter(
        f"{name} is no operator",
        why=f"{where} there are {', '.join(known)}; no document was looked at",
        fix=nearest(name, known),
        where=name,
    )
