"""Data skipping: whether a segment may hold a row that a predicate keeps, by its statistics, or by its index range and identity alone. Pure.

Each predicate gets the set of truth values that rows may give (true, false, null). The set may be too large, never too small, so NOT can
swap it and what is unknown keeps the segment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple

import pyarrow as pa

from gapless.model.index import Identity, IdentityValue, IndexSpec
from gapless.model.instant import NS_PER_DAY, ns_from_date
from gapless.model.segment import May
from gapless.model.stats import Bound, ColumnStats
from gapless.predicate import predicate as p
from gapless.predicate.coerce import coerce_literal, column_type, holds, is_nan, kind_of, plain_type, same_kind
from gapless.predicate.predicate import Predicate, literal_prefix

StatsOf = Callable[[str], ColumnStats | None]
"""Statistics of a column by its `stats_name`; None where there are none."""


def stats_name(path: Sequence[str]) -> str:
    """What statistics are asked for by: the name of a top-level column, or the path to a field of structs, joined by NUL.

    Those of a nested field count a null of a struct around it as a null of it.
    """
    return "\0".join(path)


@dataclass(frozen=True, slots=True)
class TruthValues:
    """Which truth values a predicate may give for the rows of a segment."""

    true: bool
    false: bool
    null: bool

    def __or__(self, other: TruthValues) -> TruthValues:
        """TruthValues of either."""
        return TruthValues(self.true or other.true, self.false or other.false, self.null or other.null)


UNKNOWN = TruthValues(True, True, True)
ALWAYS = TruthValues(True, False, False)
"""Every row makes the predicate true."""
_NONE = TruthValues(False, False, False)
_NULL = TruthValues(False, False, True)


class _Known(NamedTuple):
    """What is known of one column's values in a segment."""

    type: pa.DataType
    low: Bound | None = None
    high: Bound | None = None
    nulls: bool = True
    """May hold nulls."""
    nans: bool = False
    """May hold NaN."""
    numbers: bool = True
    """May hold values that are neither null nor NaN."""


_Check = Callable[[_Known], TruthValues]
TruthByStats = Callable[[StatsOf, int | None], TruthValues]
"""The truth values that a segment's rows may give, by its statistics and row count."""


def may_match(predicate: p.Predicate, stats: StatsOf, schema: pa.Schema, *, rows: int | None = None) -> bool:
    """False only where no row of the segment can make `predicate` true.

    `rows` is the segment's row count: without it, a segment of nothing but nulls is not seen to be one. Pure; raises
    UnknownColumn for a column that `schema` lacks.
    """
    return compile_pruner(predicate, schema)(stats, rows)


def compile_pruner(predicate: p.Predicate, schema: pa.Schema) -> Callable[[StatsOf, int | None], bool]:
    """`may_match` of one predicate, for many segments: what does not depend on their statistics is coerced once; raises UnknownColumn."""
    terms = [compile_truth_values(term, schema) for term in (predicate.terms if isinstance(predicate, p.And) else (predicate,))]
    return lambda stats, rows: rows != 0 and all(term(stats, rows).true for term in terms)


def possible_truth_values(predicate: p.Predicate, stats: StatsOf, schema: pa.Schema, rows: int | None) -> TruthValues:
    """The truth values that rows of the segment may give."""
    return compile_truth_values(predicate, schema)(stats, rows)


def compile_truth_values(predicate: p.Predicate, schema: pa.Schema) -> TruthByStats:
    """The truth values that rows of a segment may give, by its statistics and row count; raises UnknownColumn where `schema` lacks a column."""
    match predicate:
        case p.Constant(value=value):
            return _always(TruthValues(value is True, value is False, value is None))
        case p.Not(term=term):
            inner = compile_truth_values(term, schema)
            return lambda stats, rows: _inverted(inner(stats, rows))
        case p.And(terms=terms):
            each = [compile_truth_values(term, schema) for term in terms]
            return lambda stats, rows: _all([ask(stats, rows) for ask in each])
        case p.Or(terms=terms):
            each = [compile_truth_values(term, schema) for term in terms]
            return lambda stats, rows: _inverted(_all([_inverted(ask(stats, rows)) for ask in each]))
        case p.IsTruth():
            return _truth(predicate, schema)
        case p.Comparison(left=p.Column() as left, right=p.Column() as right):
            op, one, other = predicate.op, _knowing(left, schema), _knowing(right, schema)
            return lambda stats, rows: _columns(op, one(stats, rows), other(stats, rows))
        case p.Comparison(left=p.Column() as left, right=p.Value() as value):
            return _of(_literal(predicate.op, value, column_type(left, schema)), left, schema)
        case p.Distinct(left=p.Column() as left, right=p.Value() as value):
            return _of(_distinct(value, column_type(left, schema)), left, schema)
        case p.Comparison() | p.Distinct():
            return _always(UNKNOWN)
        case _:
            return _single(predicate, schema)


def _always(found: TruthValues) -> TruthByStats:
    return lambda _stats, _rows: found


def _truth(predicate: p.IsTruth, schema: pa.Schema) -> TruthByStats:
    ask, value = compile_truth_values(predicate.term, schema), predicate.value

    def test(stats: StatsOf, rows: int | None) -> TruthValues:
        inner = ask(stats, rows)
        yes = {True: inner.true, False: inner.false, None: inner.null}
        return TruthValues(yes[value], any(may for key, may in yes.items() if key is not value), False)

    return test


def _of(check: _Check, column: p.Column, schema: pa.Schema) -> TruthByStats:
    knowing = _knowing(column, schema)
    return lambda stats, rows: check(knowing(stats, rows))


def _single(predicate: p.Truth | p.In | p.Like | p.StartsWith | p.IsNan | p.IsNull, schema: pa.Schema) -> TruthByStats:
    if not isinstance(predicate.operand, p.Column):
        return _always(TruthValues(True, True, False) if isinstance(predicate, p.IsNull) else UNKNOWN)
    return _of(_check(predicate, column_type(predicate.operand, schema)), predicate.operand, schema)


def _check(predicate: p.Truth | p.In | p.Like | p.StartsWith | p.IsNan | p.IsNull, type_: pa.DataType) -> _Check:
    match predicate:
        case p.IsNull():
            return lambda known: TruthValues(known.nulls, known.numbers or known.nans, False)
        case p.IsNan():
            return lambda known: TruthValues(known.nans, known.numbers, known.nulls)
        case p.Truth():
            return _literal("=", p.Value(kind="bool", value=True), type_)
        case p.In(values=values):
            each = [_literal("=", value, type_) for value in values]
            return lambda known: _inverted(_all([_inverted(one(known)) for one in each]))
        case p.StartsWith(prefix=prefix):
            return _prefix(prefix)
        case p.Like(ignore_case=True):
            return _prefix("")
        case p.Like(pattern=pattern, escape=escape):
            prefix, whole = literal_prefix(pattern, escape)
            return _literal("=", p.Value(kind="text", value=prefix), type_) if whole else _prefix(prefix)


def _inverted(found: TruthValues) -> TruthValues:
    return TruthValues(found.false, found.true, found.null)


def _all(terms: list[TruthValues]) -> TruthValues:
    """Kleene's AND: true if all are, false if any is, else null."""
    true = all(term.true for term in terms)
    null = all(term.true or term.null for term in terms) and any(term.null for term in terms)
    return TruthValues(true, any(term.false for term in terms), null)


def _knowing(column: p.Column, schema: pa.Schema) -> Callable[[StatsOf, int | None], _Known]:
    """What is known of a column of a segment, by the segment's statistics and row count."""
    type_ = column_type(column, schema)
    floating = pa.types.is_floating(plain_type(type_))
    name = stats_name(column.path)

    def known(stats: StatsOf, rows: int | None) -> _Known:
        found = stats(name)
        if found is None:
            return _Known(type=type_, nans=floating)
        all_null = rows is not None and found.nulls is not None and found.nulls >= rows
        counted = (found.nulls or 0) + (found.nans or 0)
        return _Known(
            type=type_,
            low=None if is_nan(found.min) else found.min,
            high=None if is_nan(found.max) else found.max,
            nulls=found.nulls != 0,
            nans=floating and found.nans != 0 and not all_null,
            numbers=rows is None or counted < rows,
        )

    return known


def _within(test: Callable[[Bound | None, Bound | None], tuple[bool, bool]], nan: TruthValues, known: _Known) -> TruthValues:
    """TruthValues of the values between the bounds (`test` says: may be true, may be false), of NaN and of null."""
    found = _NONE
    if known.numbers:
        true, false = test(known.low, known.high)
        found = TruthValues(true, false, False)
    if known.nans:
        found = found | nan
    return TruthValues(found.true, found.false, True) if known.nulls else found


def _literal(op: p.Op, literal: p.Value, type_: pa.DataType) -> _Check:
    grid = type_ if pa.types.is_float16(type_) else plain_type(type_)
    coerced = coerce_literal(op, literal, grid)
    if coerced is None:
        return lambda _known: _NULL
    if isinstance(coerced, bool):
        constant = TruthValues(coerced, not coerced, False)
        return lambda known: _within(lambda *_: (coerced, not coerced), constant, known)
    op, value = coerced
    nan = pa.types.is_floating(grid) and holds(op, float("nan"), value)
    for_nan = TruthValues(nan, not nan, False)
    return lambda known: _within(lambda low, high: _interval(op, low, high, value), for_nan, known)


def _interval(op: p.Op, low: Bound | None, high: Bound | None, value: Bound) -> tuple[bool, bool]:
    """Whether some x in [low, high] (None: no end) may make `x op value` true, and whether some may make it false."""
    low = low if low is not None and same_kind(low, value) else None
    high = high if high is not None and same_kind(high, value) else None
    match op:
        case "<" | "<=":
            return low is None or holds(op, low, value), high is None or not holds(op, high, value)
        case ">" | ">=":
            return high is None or holds(op, high, value), low is None or not holds(op, low, value)
        case _:
            overlaps = (low is None or holds("<=", low, value)) and (high is None or holds(">=", high, value))
            only = low is not None and high is not None and holds("=", low, value) and holds("=", high, value)
            return (overlaps, not only) if op == "=" else (not only, overlaps)


def _distinct(literal: p.Value, type_: pa.DataType) -> _Check:
    if literal.value is None:
        return lambda known: TruthValues(known.numbers or known.nans, known.nulls, False)
    differing = _literal("!=", literal, type_)

    def check(known: _Known) -> TruthValues:
        found = differing(known)
        return TruthValues(found.true or found.null, found.false, False)

    return check


def _prefix(prefix: str) -> _Check:
    def test(low: Bound | None, high: Bound | None) -> tuple[bool, bool]:
        above = isinstance(low, str) and low[: len(prefix)] > prefix
        below = isinstance(high, str) and high < prefix
        return not (above or below), True

    return lambda known: _within(test, _NONE, known)


def _columns(op: p.Op, left: _Known, right: _Known) -> TruthValues:
    """`left op right` of two columns: by their bounds where both hold values of one kind, and neither NaN."""
    null = left.nulls or right.nulls
    if not (left.numbers or left.nans) or not (right.numbers or right.nans):
        return _NULL
    plain = plain_type(left.type), plain_type(right.type)
    mixed = kind_of(plain[0]) != kind_of(plain[1]) or pa.types.is_floating(plain[0]) != pa.types.is_floating(plain[1])
    bounds = (left.low, left.high, right.low, right.high)
    if mixed or left.nans or right.nans or None in bounds:
        return TruthValues(True, True, null)
    true, false = _intervals(op, left, right)
    return TruthValues(true, false, null)


def _intervals(op: p.Op, left: _Known, right: _Known) -> tuple[bool, bool]:
    low, high, other_low, other_high = left.low, left.high, right.low, right.high
    if low is None or high is None or other_low is None or other_high is None or not same_kind(low, other_low):
        return True, True
    match op:
        case "<" | "<=":
            return holds(op, low, other_high), not holds(op, high, other_low)
        case ">" | ">=":
            return holds(op, high, other_low), not holds(op, low, other_high)
        case _:
            overlaps = holds("<=", low, other_high) and holds(">=", high, other_low)
            only = holds("=", low, high) and holds("=", other_low, other_high) and holds("=", low, other_low)
            return (overlaps, not only) if op == "=" else (not only, overlaps)


def may_hold(predicate: Predicate, index: IndexSpec, schema: pa.Schema) -> May:
    """Whether segments of an index range and an identity may hold a row that the predicate keeps; raises UnknownColumn."""
    matches = compile_pruner(predicate, schema)

    def may(first: int | None, last: int | None, identity: Identity | None) -> bool:
        known = {index.column: ColumnStats(min=first, max=last)}
        for name, value in zip(index.entity, identity or (), strict=False):
            bound = _bound(value)
            known[name] = ColumnStats(min=bound, max=bound)
        return matches(known.get, None)

    return may


def _bound(value: IdentityValue) -> bool | int | str:
    """A value as statistics have it."""
    return ns_from_date(value) // NS_PER_DAY if isinstance(value, date) else value
