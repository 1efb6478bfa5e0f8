"""A filter over the columns of a table as a predicate, by which files, row groups and rows are left out. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import cast

import pyarrow as pa

from gapless.documents.filters.match import value_meets
from gapless.documents.filters.prune import LITERAL_START
from gapless.documents.filters.tree import (
    All,
    At,
    Bits,
    Compares,
    Comparison,
    Condition,
    Contains,
    Each,
    Equals,
    Exists,
    HasType,
    IsIn,
    Modulo,
    Neither,
    Not,
    Path,
    Pattern,
    Some,
    Test,
)
from gapless.documents.rows.values import MS_PER_DAY, is_variant
from gapless.documents.values.order import Key, TypeOrder
from gapless.model.instant import NS_PER
from gapless.model.types import bare_type
from gapless.predicate import predicate as sql
from gapless.predicate.predicate import Predicate


@dataclass(frozen=True, slots=True)
class Told:
    """What a filter says as a predicate."""

    predicate: Predicate
    """True of every row that matches, whatever it is of others."""
    exact: bool
    """Whether it is true of no other row."""


ALL_ROWS, NO_ROW = Told(sql.Constant(value=True), exact=True), Told(sql.Constant(value=False), exact=True)
ANY_ROW = Told(sql.Constant(value=True), exact=False)
"""Nothing is told."""
_OPS: Mapping[Comparison, sql.Op] = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
_BSON_TYPES: Mapping[pa.DataType, int] = {
    pa.bool_(): 8, pa.int8(): 16, pa.int16(): 16, pa.int32(): 16, pa.int64(): 18, pa.float32(): 1, pa.float64(): 1, pa.string(): 2,
    pa.binary(): 5, pa.date32(): 9,
}  # fmt: skip


def row_predicate(condition: Condition, schema: pa.Schema) -> Told:
    """What a condition says of rows of these columns, each of which has its path, as `check_paths` sees to."""
    match condition:
        case All(conditions):
            return _all(row_predicate(one, schema) for one in conditions)
        case Some(conditions):
            return _any(row_predicate(one, schema) for one in conditions)
        case Neither(conditions):
            return _not(_any(row_predicate(one, schema) for one in conditions))
        case At(path, test):
            column = _scalar(path, schema)
            return ANY_ROW if column is None else column.told(test)
    return ANY_ROW


def _all(parts: Iterable[Told]) -> Told:
    found = list(parts)
    terms = tuple(one.predicate for one in found if one.predicate != ALL_ROWS.predicate)
    predicate = ALL_ROWS.predicate if not terms else terms[0] if len(terms) == 1 else sql.And(terms=terms)
    return Told(predicate, all(one.exact for one in found))


def _any(parts: Iterable[Told]) -> Told:
    found = list(parts)
    if not found:
        return NO_ROW
    predicate = found[0].predicate if len(found) == 1 else sql.Or(terms=tuple(one.predicate for one in found))
    return Told(predicate, all(one.exact for one in found))


def _not(told: Told) -> Told:
    """Rows of which it is not true: where it is false, and where it is null."""
    if not told.exact:
        return ANY_ROW
    if isinstance(told.predicate, sql.Constant):
        return NO_ROW if told.predicate.value else ALL_ROWS
    return Told(sql.Not(term=sql.IsTruth(term=told.predicate, value=True)), exact=True)


def _scalar(path: Path, schema: pa.Schema) -> Scalar | None:
    """The column of values at a path, through structs; None where there is another, or none."""
    fields, field = {one.name: one for one in schema}, None
    for name in path:
        field = fields.get(name)
        if field is None or is_variant(field):
            return None
        fields = {one.name: one for one in field.type} if pa.types.is_struct(field.type) else {}
    assert field is not None
    return scalar_of(path, bare_type(field.type))


def scalar_of(path: Path, type_: pa.DataType) -> Scalar | None:
    """A column of a type; None where its values are no single ones, or are not compared."""
    order = _order_of(type_)
    return None if order is None else Scalar(column=sql.Column(path=path), type=type_, order=order)


def _order_of(type_: pa.DataType) -> TypeOrder | None:
    if pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_):
        return TypeOrder.NUMBER
    if pa.types.is_timestamp(type_) or pa.types.is_date32(type_):
        return TypeOrder.DATE
    if pa.types.is_string(type_):
        return TypeOrder.STRING
    if pa.types.is_binary(type_):
        return TypeOrder.BINARY
    return TypeOrder.BOOL if pa.types.is_boolean(type_) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar:
    """A column of values that are no arrays and no documents: null, or of one type."""

    column: sql.Column
    type: pa.DataType
    order: TypeOrder

    def told(self, test: Test) -> Told:
        """What a test says of it."""
        match test:
            case Equals(key):
                return self._equal(key)
            case Compares(by, key):
                return self._side(by, key)
            case IsIn(keys, patterns):
                return _any([*map(self._equal, sorted(keys)), *map(self.told, patterns)])
            case Pattern():
                return self._pattern(test)
            case Not(inner):
                return _not(self.told(inner))
            case Each(tests):
                return _all(map(self.told, tests))
            case Contains(tests):
                return _all(map(self.told, tests)) if tests else NO_ROW
            case Exists(wanted):
                # A field of a struct is missing where the struct is null.
                return ANY_ROW if len(self.column.path) > 1 else ALL_ROWS if wanted else NO_ROW
            case HasType(numbers):
                return self._has_type(numbers)
            case Modulo() if self.order is TypeOrder.NUMBER:
                return self._some_value()
            case Bits() if self.order in (TypeOrder.NUMBER, TypeOrder.BINARY):
                return self._some_value()
            case _:
                return NO_ROW

    # -- null, and types ---------------------------------------------------------------------------------------------------

    @property
    def _null(self) -> Predicate:
        return sql.IsNull(operand=self.column)

    def _valued(self) -> Told:
        return Told(sql.Not(term=self._null), exact=True)

    def _some_value(self) -> Told:
        """That there is a value, and nothing else."""
        return Told(sql.Not(term=self._null), exact=False)

    def _has_type(self, numbers: frozenset[int]) -> Told:
        own = 19 if pa.types.is_decimal(self.type) else 9 if pa.types.is_timestamp(self.type) else _BSON_TYPES.get(self.type)
        if own is None:
            return ANY_ROW
        parts = [self._valued()] if own in numbers else []
        if 10 in numbers:
            # Of a struct that is null the field is missing, which has no type.
            parts.append(Told(self._null, exact=len(self.column.path) == 1))
        return _any(parts)

    # -- values ------------------------------------------------------------------------------------------------------------

    def _equal(self, key: Key) -> Told:
        if key[0] is TypeOrder.NULL:
            return Told(self._null, exact=True)
        if key[0] is not self.order:
            return NO_ROW
        match self.order:
            case TypeOrder.NUMBER:
                return self._number("=", key)
            case TypeOrder.DATE:
                return self._date("=", key[1])
            case TypeOrder.STRING:
                return self._compared("=", sql.Value(kind="text", value=key[1]))
            case TypeOrder.BINARY:
                _, _, subtype, data = key
                return NO_ROW if subtype else self._compared("=", sql.Value(kind="bytes", value=data))
            case _:
                return self._truths(lambda value: value is key[1])

    def _side(self, by: Comparison, key: Key) -> Told:
        if key[0] in (TypeOrder.MIN_KEY, TypeOrder.MAX_KEY):
            return ALL_ROWS if (by in ("$gt", "$gte")) is (key[0] is TypeOrder.MIN_KEY) else NO_ROW
        if key[0] is TypeOrder.NULL:
            return Told(self._null, exact=True) if by in ("$gte", "$lte") else NO_ROW
        if key[0] is not self.order:
            return NO_ROW
        match self.order:
            case TypeOrder.NUMBER:
                return self._number(_OPS[by], key)
            case TypeOrder.DATE:
                return self._date(_OPS[by], key[1])
            case TypeOrder.STRING:
                return self._compared(_OPS[by], sql.Value(kind="text", value=key[1]))
            case TypeOrder.BINARY:
                # Shorter ones come first here, and not in a predicate.
                return self._some_value()
            case _:
                return self._truths(lambda value: value_meets(Compares(by, key), value))

    def _truths(self, meets: Callable[[bool], bool]) -> Told:
        found = [value for value in (False, True) if meets(value)]
        truth: Predicate = sql.Truth(operand=self.column)
        return _any(Told(truth if value else sql.Not(term=truth), exact=True) for value in found)

    def _compared(self, op: sql.Op, value: sql.Value) -> Told:
        return Told(sql.Comparison(op=op, left=self.column, right=value), exact=True)

    def _number(self, op: sql.Op, key: Key) -> Told:
        floating = pa.types.is_floating(self.type)
        if not key[1]:  # NaN, which is neither more nor less than a number, nor than itself
            return Told(sql.IsNan(operand=self.column), exact=True) if floating and op in ("=", ">=", "<=") else NO_ROW
        value = cast("int | float | Decimal", key[2])
        if isinstance(value, Decimal) and not value.is_finite():
            value = float(value)
        if not floating:
            return self._compared(op, sql.Value(kind="number", value=value))
        if isinstance(value, Decimal) and value != value.to_integral_value():
            # Predicates take it for the double that is nearest.
            floor, exact = _floor(value)
            if not exact:
                if op == "=":
                    return NO_ROW
                op, value = "<=" if op in ("<", "<=") else ">", floor
            else:
                value = floor
        told = self._compared(op, sql.Value(kind="number", value=value))
        if op not in (">", ">="):
            return told
        return _all([told, Told(sql.Not(term=sql.IsNan(operand=self.column)), exact=True)])

    def _date(self, op: sql.Op, ms: int) -> Told:
        """By whole milliseconds, whatever more a column's values have."""
        if pa.types.is_date32(self.type):
            days, rest = divmod(ms, MS_PER_DAY)
            if rest:
                if op == "=":
                    return NO_ROW
                op = "<=" if op in ("<", "<=") else ">"
            return self._compared(op, sql.Value(kind="date", value=days))
        kind: sql.Kind = "timestamp" if self.type.tz is None else "timestamptz"
        first, following = (sql.Value(kind=kind, value=one * NS_PER["ms"]) for one in (ms, ms + 1))
        match op:
            case "=":
                return _all([self._compared(">=", first), self._compared("<", following)])
            case ">":
                return self._compared(">=", following)
            case "<=":
                return self._compared("<", following)
            case _:
                return self._compared(op, first)

    def _pattern(self, pattern: Pattern) -> Told:
        if self.order is not TypeOrder.STRING:
            return NO_ROW
        found = LITERAL_START.fullmatch(pattern.text) if not pattern.options else None
        if found is None:
            return self._some_value()
        return Told(sql.StartsWith(operand=self.column, prefix=found.group(1)), exact=True)


def _floor(value: Decimal) -> tuple[float, bool]:
    """The greatest double that is not above a number with a fraction, and whether it is that number."""
    found, wanted = float(value), Fraction(value)
    if Fraction(found) > wanted:
        found = math.nextafter(found, -math.inf)
    return found, Fraction(found) == wanted
