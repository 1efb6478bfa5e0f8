"""Operands of expressions: how operators read theirs, and the errors for those that they do not take. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from gapless.documents.expressions.scope import Constant, Evaluate, Scope, is_null
from gapless.documents.filters.operands import TYPE_ALIASES
from gapless.documents.values.order import MISSING, type_number
from gapless.errors import GaplessError, InvalidFilter, InvalidValue, nearest, shorten

Given = Mapping[str, Any]
"""Evaluated operands by their names, without those that were left out."""
Read = Callable[[Any, "Parsing"], Evaluate]
Make = Callable[[str, Any, "Parsing"], Evaluate]
"""Of an operator's name and its operand the expression. It raises InvalidFilter, NotSupported."""
_ALIASES = {number: name for name, number in TYPE_ALIASES.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsing:
    """What an expression is parsed in."""

    reader: Read
    names: frozenset[str] = frozenset()
    """The variables that there are beside those of the system."""
    now: datetime | None = None
    """What `$$NOW` is; None where there is no clock."""
    depth: int = 0

    def read(self, given: Any) -> Evaluate:
        """An expression one level below. Raises InvalidFilter, NotSupported, InvalidValue."""
        return self.reader(given, replace(self, depth=self.depth + 1))

    def knowing(self, *names: str) -> Parsing:
        """The same, with more variables."""
        return replace(self, names=self.names | set(names))


def function(call: Callable[..., Any], least: int, most: int | None = 0) -> Make:
    """An operator of a list of operands, at least and at most so many: `most` is 0 for as many as `least`, None for any number."""
    limit = least if most == 0 else most

    def make(operator: str, given: Any, at: Parsing) -> Evaluate:
        operands = list(given) if isinstance(given, list | tuple) else [given]
        if len(operands) < least or (limit is not None and len(operands) > limit):
            wanted = f"{least}" if limit == least else f"at least {least}" if limit is None else f"{least} to {limit}"
            raise wrong_call(operator, given, f"It takes {wanted} operands", "Pass them as a list")
        return applied(call, [at.read(one) for one in operands])

    return make


def applied(call: Callable[..., Any], operands: list[Evaluate]) -> Evaluate:
    """A function of what some expressions give."""
    match operands:
        case [one]:
            return lambda scope: call(one(scope))
        case [one, other]:
            return lambda scope: call(one(scope), other(scope))
    return lambda scope: call(*[one(scope) for one in operands])


def named(call: Callable[[Given], Any], required: tuple[str, ...], optional: tuple[str, ...] = ()) -> Make:
    """An operator of a mapping of named operands."""

    def make(operator: str, given: Any, at: Parsing) -> Evaluate:
        operands = read_named(operator, given, required, optional)
        parts = {name: at.read(one) for name, one in operands.items()}
        return lambda scope: call({name: one(scope) for name, one in parts.items()})

    return make


def read_named(operator: str, given: Any, required: tuple[str, ...], optional: tuple[str, ...] = ()) -> Mapping[str, Any]:
    """Named operands as they were given. Raises InvalidFilter where one is not known, or one is not there."""
    return checked_names(wrong_call, operator, given, required, optional)


def checked_names(
    wrong: Callable[[str, object, str, str], GaplessError],
    name: str,
    given: Any,
    required: tuple[str, ...],
    optional: tuple[str, ...] = (),
) -> Mapping[str, Any]:
    """The mapping that `name` takes. Raises what `wrong` makes of the name, what it does not take, why and a fix: where it is no mapping, one in
    it is not known, or one is not there.
    """
    known = (*required, *optional)
    if not isinstance(given, Mapping):
        raise wrong(name, given, f"It takes a mapping of {', '.join(known)}", f"Pass {{{name!r}: {{…}}}}")
    unknown = next((one for one in given if one not in known), None)
    if unknown is not None:
        raise wrong(name, unknown, f"It takes {', '.join(known)}", nearest(str(unknown), known))
    absent = next((one for one in required if one not in given), None)
    if absent is not None:
        raise wrong(name, given, f"{absent} is not there", f"Pass {', '.join(required)}")
    return given


def constant_text(operator: str, name: str, given: object) -> str:
    """An operand that is a text without expressions in it. Raises InvalidFilter."""
    if isinstance(given, Mapping) and list(given) == ["$literal"]:
        given = given["$literal"]
    elif isinstance(given, str) and given.startswith("$"):
        given = None
    if not isinstance(given, str):
        raise wrong_call(operator, given, f"{name} is a text, the same for all documents", "Pass the text itself")
    return given


def null_through(call: Callable[..., Any]) -> Callable[..., Any]:
    """A function that gives null where an operand is null or missing."""

    def through(*values: Any) -> Any:
        return None if any(map(is_null, values)) else call(*values)

    return through


def constant_or(evaluate: Evaluate, made: Callable[[Any], Any]) -> Callable[[Scope], Any]:
    """What is made of an operand: once where it is the same for all documents."""
    if isinstance(evaluate, Constant):
        once = made(evaluate.value)
        return lambda _: once
    return lambda scope: made(evaluate(scope))


def type_name(value: Any) -> str:
    """The name of a value's type, as `$type` gives it."""
    return "missing" if value is MISSING else _ALIASES[type_number(value)]


def wrong_call(operator: str, given: object, why: str, fix: str) -> InvalidFilter:
    """The error for an operand that an expression cannot be parsed with."""
    return InvalidFilter(f"{operator} does not take {shorten(given)}", why=why, fix=fix, where=operator)


def wrong_value(operator: str, value: Any, wanted: str) -> InvalidValue:
    """The error for a value that an expression does not take."""
    shown = "a missing value" if value is MISSING else shorten(value)
    return InvalidValue(
        f"{operator} does not take {shown}",
        why=f"It is of type {type_name(value)}, and {wanted} is wanted",
        fix="Leave such documents out with $match, or test the value with $type, $isNumber or $ifNull",
        column=operator,
        row=0,
        value=None if value is MISSING else value,
    )


def wrong_result(operator: str, value: Any, why: str) -> InvalidValue:
    """The error for a value of the right type that an expression has no answer to."""
    return InvalidValue(
        f"{operator} has no answer to {shorten(value)}",
        why=why,
        fix="Leave such documents out with $match, or test the value with $cond",
        column=operator,
        row=0,
        value=value,
    )
