"""What of a filter the columns of a collection can tell: a predicate that holds of every document which matches. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gapless.documents.filters.parse import parse_filter
from gapless.documents.filters.tree import (
    All,
    At,
    Bits,
    Compares,
    Comparison,
    Condition,
    Contains,
    Each,
    ElementIs,
    ElementMatches,
    Equals,
    HasSize,
    IsIn,
    Modulo,
    Path,
    Pattern,
    Some,
    Test,
)
from gapless.documents.values.identity import WHOLE_NUMBERS, key_text, number_prefix
from gapless.documents.values.indexed import DATES_MS
from gapless.documents.values.order import Key, TypeOrder
from gapless.predicate import predicate as sql
from gapless.predicate.predicate import Predicate

EVERYTHING = sql.Constant(value=True)
ID_PATH: Path = ("_id",)
ID = sql.Column(path=("_id",))
_OPS: Mapping[Comparison, tuple[sql.Op, sql.Op]] = {
    "$gt": (">", ">="),
    "$gte": (">=", ">="),
    "$lt": ("<", "<="),
    "$lte": ("<=", "<="),
}
"""Exact, and as rounded numbers are compared."""
_SIDED_TYPES: Mapping[TypeOrder, str] = {
    TypeOrder.NUMBER: "n:",
    TypeOrder.STRING: "s:",
    TypeOrder.OBJECT_ID: "o:",
    TypeOrder.DATE: "d:",
}
"""The types whose ids have texts in their order, and how these begin."""
LITERAL_START = re.compile(r"\^([A-Za-z0-9 _-]+)\Z")
"""An expression that is nothing but what a text begins with."""


def filter_to_predicate(filter: Mapping[str, Any], columns: Mapping[Path, str]) -> Predicate:  # noqa: A002  # as `matches`
    """A predicate over the columns of a collection that is true of the row of every document which matches the filter.

    Of others it may be true as well: what it keeps is to be matched again. `columns` are the columns of indexed paths, as
    `collection/storage.py` lays them out; `_id` has one always. Raises as `matches`.

    >>> filter_to_predicate({"age": {"$ne": 5}}, {("age",): "by_age"})
    Constant(value=True)
    """
    return to_predicate(parse_filter(filter), columns)


def to_predicate(condition: Condition, columns: Mapping[Path, str]) -> Predicate:
    """The same, of a filter that was parsed."""
    match condition:
        case All(conditions):
            return _all([to_predicate(one, columns) for one in conditions])
        case Some(conditions):
            return _any([to_predicate(one, columns) for one in conditions])
        case At(path, test) if path == ID_PATH:
            return _of_id(test)
        case At(path, test) if path in columns:
            return _of_path(test, columns[path])
    return EVERYTHING


def _all(parts: list[Predicate]) -> Predicate:
    told = tuple(one for one in parts if one != EVERYTHING)
    return EVERYTHING if not told else told[0] if len(told) == 1 else sql.And(terms=told)


def _any(parts: list[Predicate]) -> Predicate:
    if EVERYTHING in parts:
        return EVERYTHING
    return parts[0] if len(parts) == 1 else sql.Or(terms=tuple(parts))


def _text(value: str) -> sql.Value:
    return sql.Value(kind="text", value=value)


# -- of the id ---------------------------------------------------------------------------------------------------------


def ids_in(texts: list[str]) -> Predicate:
    """That the id is one of some, by their texts; of many, that it lies between the least and the greatest."""
    if len(texts) <= _MANY_IDS:
        return sql.In(operand=ID, values=tuple(_text(one) for one in texts)) if texts else sql.Constant(value=False)
    low, high = (
        sql.Comparison(op=">=", left=ID, right=_text(min(texts))),
        sql.Comparison(op="<=", left=ID, right=_text(max(texts))),
    )
    return sql.And(terms=(low, high))


_MANY_IDS = 256


def _of_id(test: Test) -> Predicate:
    """An id is no array, so that a test is of the value itself."""
    match test:
        case Equals(key):
            return sql.Comparison(op="=", left=ID, right=_text(key_text(key)))
        case IsIn(keys, ()):
            return ids_in([key_text(key) for key in keys])
        case Compares(by, key) if key[0] in _SIDED_TYPES:
            return _id_side(by, key)
        case Each(tests):
            return _all([_of_id(one) for one in tests])
    return EVERYTHING


def _id_side(by: Comparison, key: Key) -> Predicate:
    """That the id is of one type, and not clearly on the other side."""
    start = _SIDED_TYPES[key[0]]
    least, most, bound = start, f"{start[:-1]};", key_text(key)
    if key[0] is TypeOrder.NUMBER:
        if not bound.startswith(WHOLE_NUMBERS):
            return EVERYTHING
        bound = number_prefix(key)
    if by in ("$gt", "$gte"):
        least = bound
    else:
        most = f"{bound}~" if key[0] is TypeOrder.NUMBER else bound
    low, high = sql.Comparison(op=">=", left=ID, right=_text(least)), sql.Comparison(op="<=", left=ID, right=_text(most))
    return sql.And(terms=(low, high))


# -- of an indexed path ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Literals:
    """The fields of an index's column."""

    number: sql.Column
    kind: sql.Column
    text: sql.Column
    date: sql.Column

    @classmethod
    def of(cls, column: str) -> Literals:
        """Those of a column."""
        return cls(**{name: sql.Column(path=(column, name)) for name in ("number", "kind", "text", "date")})

    def of_value(self, value: sql.Value) -> sql.Column:
        """The field that a literal is compared with."""
        return {"number": self.number, "text": self.text}.get(value.kind, self.date)


def _of_path(test: Test, column: str) -> Predicate:
    fields, elsewhere = Literals.of(column), sql.Not(term=sql.IsNull(operand=sql.Column(path=(column, "other"))))
    match test:
        case Equals(key):
            return _equal(key, fields, elsewhere)
        case IsIn(keys, ()):
            return _any([_equal(key, fields, elsewhere) for key in sorted(keys)] or [sql.Constant(value=False)])
        case Compares(by, key):
            return _side(by, key, fields, elsewhere)
        case Pattern():
            found = LITERAL_START.fullmatch(test.text) if not test.options else None
            starts: Predicate = sql.Not(term=sql.IsNull(operand=fields.text))
            if found is not None:
                starts = sql.StartsWith(operand=fields.text, prefix=found.group(1))
            return sql.Or(terms=(starts, elsewhere))
        case Modulo() | Bits():
            return sql.Or(terms=(sql.Not(term=sql.IsNull(operand=fields.number)), elsewhere))
        case HasSize() | ElementIs() | ElementMatches():
            return elsewhere
        case Each(tests) | Contains(tests) if tests:
            return _all([_of_path(one, column) for one in tests])
    return EVERYTHING


def _equal(key: Key, fields: Literals, elsewhere: Predicate) -> Predicate:
    if key[0] is TypeOrder.NULL:
        return EVERYTHING
    found = bound(key)
    return elsewhere if found is None else sql.Or(terms=(_compared("=", found, fields), elsewhere))


def _side(by: Comparison, key: Key, fields: Literals, elsewhere: Predicate) -> Predicate:
    if key[0] in (TypeOrder.NULL, TypeOrder.MIN_KEY, TypeOrder.MAX_KEY):
        return EVERYTHING
    if (found := bound(key)) is not None:
        return sql.Or(terms=(_compared(_OPS[by][found.kind == "number"], found, fields), elsewhere))
    stored = {TypeOrder.NUMBER: fields.number, TypeOrder.DATE: fields.date}.get(key[0])
    if stored is None:
        return elsewhere
    # NaN, what is beyond doubles, or a date beyond the column's: only that a value of the type is there.
    return sql.Or(terms=(sql.Not(term=sql.IsNull(operand=stored)), elsewhere))


def _compared(op: sql.Op, value: sql.Value, fields: Literals) -> Predicate:
    return sql.Comparison(op=op, left=fields.of_value(value), right=value)


def bound(key: Key) -> sql.Value | None:
    """The literal that a column compares with, as the column stores it; None for a value that lies in `other`."""
    match key[0]:
        case TypeOrder.NUMBER if key[1]:
            value: int | float | Decimal = key[2]
            nearest = float(value)
            return sql.Value(kind="number", value=nearest) if math.isfinite(nearest) else None
        case TypeOrder.STRING:
            return _text(key[1])
        case TypeOrder.DATE if -DATES_MS <= key[1] <= DATES_MS:
            return sql.Value(kind="timestamptz", value=key[1] * 1_000_000)
    return None
