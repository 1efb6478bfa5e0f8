"""Evaluate a predicate as a pyarrow expression, or on the columns of a table, with SQL's three-valued logic."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gapless.model.stats import Bound, arrow_scalar
from gapless.predicate import predicate as p
from gapless.predicate.coerce import coerce_literal, column_type, is_nan, kind_of, plain_type, type_of, unit_ns
from gapless.predicate.predicate import tokens

Answer = Any
"""An expression, or the array or scalar that it stands for."""


class SchemaColumns:
    """Columns by their names: what is made of them is an expression."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema

    def column(self, path: Sequence[str]) -> pc.Expression:
        """A column or a field of structs."""
        return pc.field(*path)

    def scalar(self, value: pa.Scalar) -> pc.Expression:
        """A value that all rows have in common."""
        return pc.scalar(value)


class TableColumns:
    """The columns of a table: what is made of them are values."""

    def __init__(self, rows: pa.Table) -> None:
        self.schema, self._rows = rows.schema, rows

    def column(self, path: Sequence[str]) -> pa.ChunkedArray:
        """A column or a field of structs."""
        found = self._rows.column(path[0])
        return pc.struct_field(found, list(path[1:])) if len(path) > 1 else found

    def scalar(self, value: pa.Scalar) -> pa.Scalar:
        """A value that all rows have in common."""
        return value


ColumnSource = SchemaColumns | TableColumns


_KERNELS: dict[p.Op, Callable[..., Any]] = {
    "=": pc.equal, "!=": pc.not_equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal,
}  # fmt: skip
_EXACT = pa.decimal256(76, 38)
"""Holds every integer and decimal of up to 38 digits, so that mixed ones compare without rounding."""
_FEW_ROWS = 65_536
"""Of more, Arrow's engine filters columns side by side."""
_Side = tuple[p.Op, Bound] | bool
"""A comparison with a literal, coerced to the column's type; None apart: it is always null."""


def to_expression(predicate: p.Predicate, schema: pa.Schema) -> pc.Expression:
    """The rows for which `predicate` is true, as a filter for tables and batches of `schema`.

    Not for a scan of Parquet files by Arrow, which takes the bounds of a row group for all its floats and so drops
    groups whose NaN the predicate keeps: prune row groups with `may_match`, then filter the rows.

    The expression is null where the predicate is null, and a filter drops nulls. Integers against floats compare as
    float64. Raises UnknownColumn where `schema` lacks a column.
    """
    return _evaluate(predicate, SchemaColumns(schema))


def evaluate_predicate(predicate: p.Predicate, rows: pa.Table) -> pa.ChunkedArray | pa.Scalar:
    """What `predicate` is of each row, or of all rows alike: what `to_expression` says, of few rows sooner than Arrow's engine starts.

    Raises UnknownColumn where the table lacks a column.
    """
    return _evaluate(predicate, TableColumns(rows))


def kept_rows(predicate: p.Predicate, rows: pa.Table) -> pa.Table:
    """The rows of a table for which `predicate` is true, in their order. Raises UnknownColumn where the table lacks a column."""
    if rows.num_rows > _FEW_ROWS:
        return rows.filter(to_expression(predicate, rows.schema))
    result = evaluate_predicate(predicate, rows)
    if isinstance(result, pa.Scalar):
        return rows if result.as_py() else rows.schema.empty_table()
    return rows if pc.all(result, skip_nulls=False).as_py() else rows.filter(result)


def _unknown() -> pa.Scalar:
    """A null of three-valued logic. Not a constant: `pa.scalar` imports pandas where that is installed."""
    return pa.scalar(None, pa.bool_())


def _null(source: ColumnSource) -> Answer:
    """That, of all rows."""
    return source.scalar(_unknown())


def _evaluate(predicate: p.Predicate, source: ColumnSource) -> Answer:
    match predicate:
        case p.Constant(value=value):
            return source.scalar(pa.scalar(value, pa.bool_()))
        case p.And(terms=terms):
            return _fold(pc.and_kleene, [_evaluate(term, source) for term in terms])
        case p.Or(terms=terms):
            return _fold(pc.or_kleene, [_evaluate(term, source) for term in terms])
        case p.Not(term=term):
            return pc.invert(_evaluate(term, source))
        case p.IsTruth(term=term, value=None):
            return pc.is_null(_evaluate(term, source))
        case p.IsTruth(term=term, value=value):
            inner = _evaluate(term, source)
            return pc.coalesce(inner if value else pc.invert(inner), pa.scalar(False))
        case p.Comparison(op=op, left=left, right=right):
            return _comparison(op, left, right, source)
        case p.Distinct(left=left, right=right):
            return _distinct(left, right, source)
        case p.In():
            return _membership(predicate, source)
        case _:
            return _single(predicate, source)


def _single(predicate: p.Truth | p.Like | p.StartsWith | p.IsNan | p.IsNull, source: ColumnSource) -> Answer:
    """A predicate on one operand."""
    if isinstance(predicate, p.IsNull) and isinstance(predicate.operand, p.Column):
        column_type(predicate.operand, source.schema)
        return source.column(predicate.operand.path).is_null()
    operand, type_ = _operand(predicate.operand, source)
    match predicate:
        case p.IsNull():
            return operand.is_null()
        case _ if pa.types.is_null(type_):
            return _null(source)
        case p.IsNan():
            return pc.is_nan(operand) if pa.types.is_floating(type_) else _where_valid(operand, answer=False)
        case p.Like(pattern=pattern, escape=escape, ignore_case=ignore_case):
            return pc.match_substring_regex(operand, _regex(pattern, escape), ignore_case=ignore_case)
        case p.StartsWith(prefix=prefix):
            return pc.starts_with(operand, prefix)
        case _:
            return operand


def _fold(join: Callable[..., Any], parts: Sequence[Answer]) -> Answer:
    """Join many expressions as a balanced tree, so that a long list makes no deep one."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return join(_fold(join, parts[:middle]), _fold(join, parts[middle:]))


def _where_valid(operand: Answer, *, answer: bool) -> Answer:
    return pc.if_else(operand.is_valid(), pa.scalar(answer), _unknown())


def _operand(operand: p.Operand, source: ColumnSource) -> tuple[Answer, pa.DataType]:
    """An operand and its plain type, in which kernels can work on it."""
    if isinstance(operand, p.Value):
        raise TypeError("a literal takes the type of what it is compared with")
    type_ = type_of(operand, source.schema)
    plain = plain_type(type_)
    if isinstance(operand, p.Column):
        field = source.column(operand.path)
        return (field if plain == type_ else field.cast(plain)), plain
    first, inner = _operand(operand.args[0], source)
    if pa.types.is_null(inner) and operand.name != "coalesce":
        return first, inner
    match operand.name:
        case "abs":
            return pc.abs(first if inner == plain else first.cast(plain)), plain
        case "lower":
            return pc.utf8_lower(first), plain
        case "upper":
            return pc.utf8_upper(first), plain
        case "length":
            return pc.utf8_length(first).cast(pa.int64()), plain
        case "coalesce":
            return pc.coalesce(first, *(_substitute(other, plain, source) for other in operand.args[1:])), plain


def _substitute(other: p.Operand, type_: pa.DataType, source: ColumnSource) -> Answer:
    if not isinstance(other, p.Value):
        return _operand(other, source)[0]
    coerced = coerce_literal("=", other, type_)
    return arrow_scalar(coerced[1], type_) if isinstance(coerced, tuple) else pa.scalar(None, type_)


def _comparison(op: p.Op, left: p.Operand, right: p.Operand, source: ColumnSource) -> Answer:
    operand, type_ = _operand(left, source)
    if isinstance(right, p.Value):
        coerced = coerce_literal(op, right, _grid(left, source))
        return _null(source) if coerced is None else _with_literal(operand, coerced, type_)
    other, other_type = _operand(right, source)
    if pa.types.is_null(type_) or pa.types.is_null(other_type):
        return _null(source)
    if type_ != other_type or not pa.types.is_floating(type_):
        operand, other, floating = _common(operand, type_, other, other_type)
    else:
        floating = True
    compared = _KERNELS[op](operand, other)
    return _with_nans(op, compared, operand, other) if floating else compared


def _grid(operand: p.Operand, source: ColumnSource) -> pa.DataType:
    """The type that a literal is coerced to: of a half float column its own, not the float it is read as."""
    if isinstance(operand, p.Value):
        raise TypeError("two literals are a constant")
    found = type_of(operand, source.schema)
    return found if pa.types.is_float16(found) else plain_type(found)


def _with_literal(operand: Answer, coerced: _Side, type_: pa.DataType) -> Answer:
    if isinstance(coerced, bool):
        return _where_valid(operand, answer=coerced)
    op, value = coerced
    if is_nan(value):
        return _against_nan(op, operand)
    compared = _KERNELS[op](operand, arrow_scalar(value, type_))
    above = op in (">", ">=") and pa.types.is_floating(type_)
    return pc.or_kleene(compared, pc.is_nan(operand)) if above else compared


def _against_nan(op: p.Op, operand: Answer) -> Answer:
    match op:
        case "=" | ">=":
            return pc.is_nan(operand)
        case "!=" | "<":
            return pc.invert(pc.is_nan(operand))
        case _:
            return _where_valid(operand, answer=op == "<=")


def _common(left: Answer, left_type: pa.DataType, right: Answer, right_type: pa.DataType) -> tuple[Answer, Answer, bool]:
    """Both sides in one type that rounds neither (but integers and decimals beside floats), and whether it is floating."""
    kinds = {kind_of(left_type), kind_of(right_type)}
    if left_type == right_type and not pa.types.is_timestamp(left_type):
        return left, right, False
    if kinds == {"number"}:
        floating = pa.types.is_floating(left_type) or pa.types.is_floating(right_type)
        target = pa.float64() if floating else _EXACT
        return left.cast(target, safe=False) if floating else left.cast(target), right.cast(target, safe=False), floating
    if kinds <= {"text", "bytes"}:
        target = pa.large_string() if kinds == {"text"} else pa.large_binary()
        return left.cast(target), right.cast(target), False
    if left_type.bit_width == right_type.bit_width and unit_ns(left_type) == unit_ns(right_type) and len(kinds) == 1:
        whole = pa.int64() if left_type.bit_width == 64 else pa.int32()
        return left.cast(whole), right.cast(whole), False
    return _nanoseconds(left, left_type), _nanoseconds(right, right_type), False


def _nanoseconds(operand: Answer, type_: pa.DataType) -> Answer:
    """A temporal operand in ns, as decimals: no unit overflows."""
    step = 1_000_000 if pa.types.is_date64(type_) else unit_ns(type_)
    whole = operand.cast(pa.int32() if type_.bit_width == 32 else pa.int64())
    return pc.multiply(whole.cast(pa.decimal128(19, 0)), pa.scalar(Decimal(step), pa.decimal128(15, 0)))


def _with_nans(op: p.Op, compared: Answer, left: Answer, right: Answer) -> Answer:
    """IEEE's answer mended: NaN equals NaN and is above every number; a null stays null."""
    nan_left, nan_right = pc.is_nan(left), pc.is_nan(right)
    neither = pc.and_kleene(pc.invert(nan_left), pc.invert(nan_right))
    answers: dict[p.Op, Answer] = {
        "=": pc.and_kleene(nan_left, nan_right),
        "!=": pc.xor(nan_left, nan_right),
        "<": pc.and_kleene(pc.invert(nan_left), nan_right),
        "<=": nan_right,
        ">": pc.and_kleene(nan_left, pc.invert(nan_right)),
        ">=": nan_left,
    }
    both = pc.and_kleene(left.is_valid(), right.is_valid())
    return pc.if_else(both, pc.if_else(neither, compared, answers[op]), _unknown())


def _distinct(left: p.Operand, right: p.Operand, source: ColumnSource) -> Answer:
    first, _ = _operand(left, source)
    if isinstance(right, p.Value) and right.value is None:
        return first.is_valid()
    differ = pc.coalesce(_comparison("!=", left, right, source), pa.scalar(True))
    if isinstance(right, p.Value):
        return differ
    second, _ = _operand(right, source)
    return pc.and_kleene(differ, pc.invert(pc.and_kleene(first.is_null(), second.is_null())))


def _membership(predicate: p.In, source: ColumnSource) -> Answer:
    operand, type_ = _operand(predicate.operand, source)
    grid = _grid(predicate.operand, source)
    if pa.types.is_null(type_):
        return _null(source)
    coerced = [coerce_literal("=", value, grid) for value in predicate.values]
    values = [found[1] for found in coerced if isinstance(found, tuple)]
    found = pc.is_in(operand, value_set=_value_set([value for value in values if not is_nan(value)], type_))
    if any(is_nan(value) for value in values):
        found = pc.or_kleene(found, pc.is_nan(operand))
    if None in coerced:
        found = pc.or_kleene(found, _unknown())
    return pc.if_else(operand.is_valid(), found, _unknown())


def _value_set(values: Sequence[Bound], type_: pa.DataType) -> pa.Array:
    """Values for `isin`, which tells -0.0 from 0.0: one brings the other."""
    if pa.types.is_floating(type_) and 0 in values:
        values = [*values, 0.0, -0.0]
    if not pa.types.is_temporal(type_):
        return pa.array(values, type_)
    steps = [arrow_scalar(value, type_).value for value in values]
    return pa.array(steps, pa.int32() if type_.bit_width == 32 else pa.int64()).cast(type_)


def _regex(pattern: str, escape: str | None) -> str:
    """LIKE's pattern as RE2's, anchored."""
    wild = {"%": ".*", "_": "."}
    parts = (
        wild[text] if special else re.sub(r"[^\w]|_", lambda m: f"\\x{{{ord(m[0]):x}}}", text)
        for text, special in tokens(pattern, escape)
    )
    return rf"(?s)\A{''.join(parts)}\z"
