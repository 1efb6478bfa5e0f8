"""Filters as values: conditions on documents, and tests of what lies at a path. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from gapless.documents.expressions.scope import Evaluate
from gapless.documents.values.order import Key

Comparison = Literal["$gt", "$gte", "$lt", "$lte"]
Path = tuple[str, ...]


# -- of a document -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class All:
    """All of some conditions; with none, every document."""

    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Some:
    """At least one of some conditions."""

    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Neither:
    """None of some conditions."""

    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class At:
    """A test of what lies at a path."""

    path: Path
    test: Test


@dataclass(frozen=True, slots=True)
class Computed:
    """`$expr`: an expression of the document is true."""

    expression: Evaluate


Condition = All | Some | Neither | At | Computed


# -- of what lies at a path --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Equals:
    """`$eq`: a value, or an element of an array, is this one; null is a missing value too."""

    key: Key


@dataclass(frozen=True, slots=True)
class Compares:
    """`$gt` and its like: a value, or an element of an array, of the same type order is on that side."""

    by: Comparison
    key: Key


@dataclass(frozen=True, slots=True)
class IsIn:
    """`$in`: a value, or an element of an array, is one of these, or a text that one of the patterns matches."""

    keys: frozenset[Key]
    patterns: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Pattern:
    """`$regex`: a text, or an element of an array, holds what the expression describes, or is that very expression."""

    text: str
    options: str
    """Letters out of i, m, s and x, in this order."""
    compiled: Any
    """As the `regex` library has it."""


@dataclass(frozen=True, slots=True)
class Exists:
    """`$exists`."""

    wanted: bool


@dataclass(frozen=True, slots=True)
class HasType:
    """`$type`: a value, or an element of an array, has one of these types."""

    numbers: frozenset[int]


@dataclass(frozen=True, slots=True)
class HasSize:
    """`$size`: an array of so many elements."""

    size: int


@dataclass(frozen=True, slots=True)
class Modulo:
    """`$mod`: a number, cut to a whole one, has this remainder, whose sign is the number's."""

    divisor: int
    remainder: int


@dataclass(frozen=True, slots=True)
class Bits:
    """`$bitsAllSet` and its like, of whole numbers in two's complement and of binary values from their first byte on."""

    every: bool
    """Whether all of the bits are to be so, or any."""
    set: bool
    positions: frozenset[int]


@dataclass(frozen=True, slots=True)
class Contains:
    """`$all`: each of some tests is met by the value or an element of the array; with none, nothing is."""

    tests: tuple[Test, ...]


@dataclass(frozen=True, slots=True)
class ElementIs:
    """`$elemMatch` with operators: one element of an array meets all of them."""

    test: Test


@dataclass(frozen=True, slots=True)
class ElementMatches:
    """`$elemMatch` with a filter: one document in an array matches it."""

    condition: Condition


@dataclass(frozen=True, slots=True)
class Not:
    """`$not`, `$ne` and `$nin`: whatever does not meet a test, a missing value too."""

    test: Test


@dataclass(frozen=True, slots=True)
class Each:
    """Several operators on one field, each met by whichever element."""

    tests: tuple[Test, ...]


Test = (
    Equals
    | Compares
    | IsIn
    | Pattern
    | Exists
    | HasType
    | HasSize
    | Modulo
    | Bits
    | Contains
    | ElementIs
    | ElementMatches
    | Not
    | Each
)
