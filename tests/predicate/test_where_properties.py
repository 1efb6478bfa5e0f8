"""`where` against DuckDB on the same rows, and pruning against the rows a filter keeps."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import product
from random import Random

import duckdb
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gapless.model.stats import Bound, ColumnStats, stats_value, supports_bounds
from gapless.predicate.expression import kept_rows, to_expression
from gapless.predicate.plan import guarantee, prune_by_expression
from gapless.predicate.prune import may_match
from gapless.predicate.where import parse_where

SCHEMA = pa.schema(
    [
        ("i8", pa.int8()), ("i", pa.int64()), ("j", pa.int64()), ("u", pa.uint64()),
        ("f", pa.float64()), ("g", pa.float64()), ("f4", pa.float32()),
        ("s", pa.string()), ("t", pa.string()), ("b", pa.bool_()), ("c", pa.bool_()),
        ("ts", pa.timestamp("us")), ("ms", pa.timestamp("ms")), ("tz", pa.timestamp("us", "UTC")),
        ("d", pa.date32()), ("dec", pa.decimal128(9, 2)), ("dec4", pa.decimal128(12, 4)),
    ]
)  # fmt: skip

_INTS = (-128, -1, 0, 1, 2, 5, 127)
_FLOATS = (math.nan, math.inf, -math.inf, -0.0, 0.0, 1.0, -1.5, 2.5, 5.0, 0.1)
_TEXTS = ("", "a", "ab", "abc", "b", "B", "é", "a%b", "a_b", "a\nb", "Z", "日本")
_WALLS = (datetime(1969, 12, 31, 23, 59, 59), datetime(1970, 1, 1), datetime(2024, 5, 1), datetime(2024, 5, 1, 10))
_DAYS = (date(1969, 12, 31), date(1970, 1, 1), date(2024, 5, 1))
_DECIMALS = tuple(map(Decimal, ("-1.50", "0.00", "1.00", "2.50", "5.00", "0.10")))
POOLS: dict[str, tuple[object, ...]] = {
    "i8": _INTS, "i": (*_INTS, 2**62, -(2**63)), "j": _INTS, "u": (0, 1, 2, 5, 2**64 - 1),
    "f": _FLOATS, "g": _FLOATS, "f4": tuple(_FLOATS), "s": _TEXTS, "t": _TEXTS, "b": (True, False), "c": (True, False),
    "ts": (*_WALLS, datetime(2024, 5, 1, 10, 0, 0, 1)), "ms": _WALLS, "tz": tuple(w.replace(tzinfo=UTC) for w in _WALLS),
    "d": _DAYS, "dec": _DECIMALS, "dec4": (*_DECIMALS, Decimal("2.5001")),
}  # fmt: skip

_NUMBERS = ("-200", "-1", "0", "1", "2", "2.5", "5", "-1.5", "1000", "0.1", "2.500", "5.001", "1e0", "'NaN'::DOUBLE", "NULL")
_FLOATING = ("'inf'::DOUBLE", "'-inf'::DOUBLE", "-0.0")
_QUOTED = ("''", "'a'", "'ab'", "'b'", "'é'", "'a%b'", "NULL")
_DATES = ("DATE '1970-01-01'", "DATE '2024-05-01'", "'2024-05-01'", "NULL")
_NAIVE = ("TIMESTAMP '2024-05-01 10:00:00'", "'1969-12-31 23:59:59.5'", "TIMESTAMP '2024-05-01 00:00:00'")
_AWARE = ("TIMESTAMPTZ '2024-05-01 12:00:00+02:00'", "'2024-05-01T10:00:00Z'", "'1969-12-31 23:59:59Z'")
LITERALS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("i8", "i", "j", "u", "dec", "dec4"), _NUMBERS), **dict.fromkeys(("f", "g"), _NUMBERS + _FLOATING),
    # DuckDB reads 0.1 as another number once a DOUBLE stands in the same list; we read each item by itself.
    "f4": tuple(n for n in _NUMBERS + _FLOATING if n not in ("0.1", "5.001")),
    "s": _QUOTED, "t": _QUOTED, "b": ("TRUE", "FALSE", "NULL"), "c": ("TRUE", "FALSE", "NULL"),
    "ts": _DATES + _NAIVE, "ms": _DATES + _NAIVE, "tz": _DATES + _AWARE, "d": _DATES + _NAIVE[:1],
}  # fmt: skip
PARTNERS = (
    {"i8", "i", "j", "u", "dec", "dec4"}, {"f", "g", "f4"}, {"i8", "j", "f", "f4"}, {"dec", "f"}, {"s", "t"}, {"b", "c"}, {"ts", "ms", "d"}, {"tz"},
)  # fmt: skip
_TEXT_TESTS = (
    "LIKE 'a%'",
    "NOT LIKE '%b'",
    "LIKE 'a$%%' ESCAPE '$'",
    "ILIKE 'A_'",
    "LIKE 'ab'",
    "LIKE '_'",
    "NOT ILIKE 'B%'",
    "LIKE '%'",
)
_TEXT_CALLS = ("lower({}) = 'b'", "upper({}) > 'A'", "length({}) <= 2", "starts_with({}, 'ab')", "coalesce({}, 'a') = 'a'")


@st.composite
def leaves(draw: st.DrawFn) -> str:
    """One test of one or two columns."""
    column = draw(st.sampled_from(sorted(POOLS)))
    literal = st.sampled_from(LITERALS[column])
    op = draw(st.sampled_from(("=", "<>", "!=", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")))
    forms = ["compare", "mirror", "in", "between", "null", "pair", "call"]
    match draw(st.sampled_from(forms)):
        case "compare":
            return f"{column} {op} {draw(literal)}"
        case "mirror":
            return f"{draw(literal)} {op} {column}"
        case "in":
            items = ", ".join(draw(st.lists(literal, min_size=1, max_size=3)))
            return f"{column} {draw(st.sampled_from(('IN', 'NOT IN')))} ({items})"
        case "between":
            return f"{column} {draw(st.sampled_from(('', 'NOT ')))}BETWEEN {draw(literal)} AND {draw(literal)}"
        case "null":
            return f"{column} IS {draw(st.sampled_from(('', 'NOT ')))}NULL"
        case "pair":
            group = draw(st.sampled_from([g for g in PARTNERS if column in g]))
            return f"{column} {op} {draw(st.sampled_from(sorted(group)))}"
    return _call(draw, column)


def _call(draw: st.DrawFn, column: str) -> str:
    if column in ("s", "t"):
        if draw(st.booleans()):
            return f"{column} {draw(st.sampled_from(_TEXT_TESTS))}"
        return draw(st.sampled_from(_TEXT_CALLS)).format(column)
    if column in ("b", "c"):
        return draw(st.sampled_from(("{}", "NOT {}", "{} IS TRUE", "{} IS NOT FALSE"))).format(column)
    if column in ("f", "g", "f4"):
        return draw(st.sampled_from(("isnan({})", "abs({}) > 1", "coalesce({}, 0) = 0"))).format(column)
    return f"coalesce({column}, {column}) IS NOT NULL"


def _join(terms: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pairs = st.tuples(terms, st.sampled_from(("AND", "OR")), terms).map(lambda t: f"({t[0]} {t[1]} {t[2]})")
    tests = st.tuples(terms, st.sampled_from(("IS TRUE", "IS NOT TRUE", "IS FALSE", "IS NULL"))).map(
        lambda t: f"({t[0]}) {t[1]}"
    )
    return pairs | terms.map(lambda t: f"NOT ({t})") | tests.map(lambda t: f"({t})")


predicates = st.recursive(leaves(), _join, max_leaves=4)


@st.composite
def tables(draw: st.DrawFn, max_rows: int = 40) -> pa.Table:
    """Rows of SCHEMA from small pools, so that values meet; any value may be null."""
    rows, dice = draw(st.integers(0, max_rows)), Random(draw(st.integers(0, 2**32)))
    columns = [
        dice.choices((None, *dice.sample(pool, dice.randint(1, len(pool)))), k=rows)
        for pool in map(POOLS.__getitem__, SCHEMA.names)
    ]
    return pa.table([pa.array(values, field.type) for values, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    yield connection
    connection.close()


def _kept(table: pa.Table, where: str) -> list[int]:
    numbered = table.append_column("row", pa.array(range(table.num_rows), pa.int64()))
    predicate = parse_where(where, SCHEMA)
    found: list[int] = numbered.filter(to_expression(predicate, SCHEMA))["row"].to_pylist()
    # Few rows are asked without an expression, chunk by chunk or all at once.
    assert kept_rows(predicate, numbered)["row"].to_pylist() == found
    halves = pa.concat_tables([numbered.slice(0, table.num_rows // 2), numbered.slice(table.num_rows // 2)])
    assert kept_rows(predicate, halves)["row"].to_pylist() == found
    return found


many_predicates = st.lists(predicates, min_size=10, max_size=10)


@given(table=tables(), wheres=many_predicates)
def test_where_keeps_the_rows_that_duckdb_keeps(duck: duckdb.DuckDBPyConnection, table: pa.Table, wheres: list[str]) -> None:
    duck.register("given_rows", table.append_column("row", pa.array(range(table.num_rows), pa.int64())))
    duck.execute("CREATE OR REPLACE TEMP TABLE rows AS SELECT * FROM given_rows")
    for where in wheres:
        expected = [row for (row,) in duck.execute(f"SELECT row FROM rows WHERE {where} ORDER BY row").fetchall()]
        assert _kept(table, where) == expected, where


@st.composite
def segments(draw: st.DrawFn) -> list[tuple[pa.Table, dict[str, ColumnStats]]]:
    """Parts of one table with statistics that are true, but may be absent, partial or wider than the data."""
    parts, dice = draw(st.lists(tables(max_rows=3), min_size=2, max_size=4)), Random(draw(st.integers(0, 2**32)))
    return [(part, {name: s for name in SCHEMA.names if (s := _stats(part[name], dice)) is not None}) for part in parts]


def honest_stats(column: pa.ChunkedArray) -> ColumnStats:
    """What a writer says of a column."""
    values: list[Bound] = [stats_value(v, column.type) for v in column if v.is_valid and supports_bounds(column.type)]
    numbers = [v for v in values if not (isinstance(v, float) and math.isnan(v))]
    nans = len(values) - len(numbers) if pa.types.is_floating(column.type) else None
    low, high = (min(numbers), max(numbers)) if numbers else (None, None)
    return ColumnStats(min=low, max=high, nulls=column.null_count, nans=nans)


def _stats(column: pa.ChunkedArray, dice: Random) -> ColumnStats | None:
    honest = honest_stats(column)
    form = dice.choice(("honest", "partial", "partial", "absent"))
    if form != "partial":
        return honest if form == "honest" else None
    low, high = honest.min, honest.max
    if isinstance(low, int | float | Decimal) and not isinstance(low, bool) and isinstance(high, int | float | Decimal):
        step = dice.choice((0, 0, 1, 3))
        low, high = low - step, high + step
    known = [dice.random() > 0.25 for _ in range(4)]
    return ColumnStats(
        min=low if known[0] else None,
        max=high if known[1] else None,
        nulls=honest.nulls if known[2] else None,
        nans=honest.nans if known[3] else None,
    )


@given(parts=segments(), wheres=many_predicates, counted=st.booleans())
def test_pruning_loses_no_row(parts: list[tuple[pa.Table, dict[str, ColumnStats]]], wheres: list[str], counted: bool) -> None:
    for where, (part, stats) in product(wheres, parts):
        kept = may_match(parse_where(where, SCHEMA), stats.get, SCHEMA, rows=part.num_rows if counted else None)
        assert kept or not _kept(part, where), where


@given(parts=segments(), wheres=many_predicates)
@example(parts=[(SCHEMA.empty_table(), {})], wheres=["i = 1"])
def test_pruning_by_expression_loses_no_row(parts: list[tuple[pa.Table, dict[str, ColumnStats]]], wheres: list[str]) -> None:
    truths = [guarantee(stats, part.num_rows, SCHEMA) for part, stats in parts]
    assert all(
        part.filter(truth).num_rows == part.num_rows
        for truth, (part, _) in zip(truths, parts, strict=True)
        if truth is not None
    )
    for where in wheres:
        kept = prune_by_expression(to_expression(parse_where(where, SCHEMA), SCHEMA), truths, SCHEMA)
        assert all(keep or not _kept(part, where) for keep, (part, _) in zip(kept, parts, strict=True)), where
