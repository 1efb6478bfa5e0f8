"""A `where` filter as a value: frozen nodes of columns and exact literals, without SQL text or Arrow data.

Literals are not tied to a column's type: `coerce.coerce_literal` does that when an expression is built or statistics are looked at, so that
one predicate serves a table's schema and a file's. LIKE patterns are tokens, character by character.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from gapless.model.stats import Bound

Kind = Literal["null", "bool", "number", "text", "bytes", "date", "timestamp", "timestamptz", "time", "duration"]
"""What values may be compared with each other; "timestamp" is naive, "timestamptz" aware."""

Op = Literal["=", "!=", "<", "<=", ">", ">="]
MIRRORED: dict[Op, Op] = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""`a op b` is `b MIRRORED[op] a`."""

Function = Literal["abs", "lower", "upper", "length", "coalesce"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column, or a field inside struct columns."""

    path: tuple[str, ...]
    """The top-level column, then the struct fields down to the value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A literal: timestamps are ns since 1970, dates days, times ns since midnight."""

    kind: Kind
    value: Bound | None
    """Exact: an int, or a Decimal as it was typed, or a float where DOUBLE was asked for. None is NULL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A function of columns and literals."""

    name: Function
    args: tuple[Operand, ...]


Operand = Column | Value | Call


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """True, false or null for every row."""

    value: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """A boolean operand alone."""

    operand: Operand


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """`left op right`; null where a side is null. NaN equals itself and is above every number; -0.0 equals 0.0."""

    op: Op
    left: Operand
    right: Operand


@dataclass(frozen=True, slots=True, kw_only=True)
class Distinct:
    """`left IS DISTINCT FROM right`: never null, and two nulls are the same."""

    left: Operand
    right: Operand


@dataclass(frozen=True, slots=True, kw_only=True)
class In:
    """`operand IN (values)`: null where the operand is null, or where nothing equals it and a value is null."""

    operand: Operand
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Like:
    """`operand LIKE pattern`: `%` is any run of characters, `_` is one; `escape` (if any) makes the next literal."""

    operand: Operand
    pattern: str
    escape: str | None = None
    ignore_case: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StartsWith:
    """`starts_with(operand, prefix)`."""

    operand: Operand
    prefix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IsNan:
    """`isnan(operand)`; null where the operand is null."""

    operand: Operand


@dataclass(frozen=True, slots=True, kw_only=True)
class IsNull:
    """`operand IS NULL`: never null."""

    operand: Operand


@dataclass(frozen=True, slots=True, kw_only=True)
class IsTruth:
    """`term IS TRUE`, `IS FALSE` or (None) `IS UNKNOWN`: never null."""

    term: Predicate
    value: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Not:
    """`NOT term`: null stays null."""

    term: Predicate


@dataclass(frozen=True, slots=True, kw_only=True)
class And:
    """All terms, in Kleene's logic."""

    terms: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Or:
    """Any term, in Kleene's logic."""

    terms: tuple[Predicate, ...]


Predicate = Constant | Truth | Comparison | Distinct | In | Like | StartsWith | IsNan | IsNull | IsTruth | Not | And | Or


def _operands(predicate: Predicate) -> Iterator[Operand]:
    match predicate:
        case And(terms=terms) | Or(terms=terms):
            for term in terms:
                yield from _operands(term)
        case Not(term=term) | IsTruth(term=term):
            yield from _operands(term)
        case Comparison(left=left, right=right) | Distinct(left=left, right=right):
            yield from (left, right)
        case Constant():
            return
        case _:
            yield predicate.operand


def _paths(operand: Operand) -> Iterator[tuple[str, ...]]:
    if isinstance(operand, Column):
        yield operand.path
    elif isinstance(operand, Call):
        for arg in operand.args:
            yield from _paths(arg)


def columns_of(predicate: Predicate) -> frozenset[str]:
    """Names of the top-level columns a predicate reads: what a scan must fetch to answer it."""
    return frozenset(path[0] for operand in _operands(predicate) for path in _paths(operand))


def paths_of(predicate: Predicate) -> frozenset[tuple[str, ...]]:
    """Paths of the columns and struct fields that a predicate reads."""
    return frozenset(path for operand in _operands(predicate) for path in _paths(operand))


def conjuncts_on(predicate: Predicate, column: str) -> tuple[Predicate, ...]:
    """What a predicate asks of one column alone, whatever else it asks: terms, of which a row that it keeps makes each true."""
    if isinstance(predicate, And):
        return tuple(found for term in predicate.terms for found in conjuncts_on(term, column))
    return (predicate,) if columns_of(predicate) == {column} else ()


def tokens(pattern: str, escape: str | None) -> Iterator[tuple[str, bool]]:
    """The characters of a LIKE pattern, each with whether it is a wildcard (`%` any run, `_` one character)."""
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            yield next(characters, character), False
        else:
            yield character, character in "%_"


def literal_prefix(pattern: str, escape: str | None) -> tuple[str, bool]:
    """What every match starts with, and whether that is the whole pattern.

    >>> literal_prefix("AB%", None)
    ('AB', False)
    """
    prefix = ""
    for character, special in tokens(pattern, escape):
        if special:
            return prefix, False
        prefix += character
    return prefix, True
