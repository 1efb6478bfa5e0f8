"""A scan against a list of rows: random appends, cut into tiny segments and row groups, and random questions."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given
from hypothesis import strategies as st

import gapless as gl
from gapless.files.write import file_writer
from gapless.predicate import plan
from gapless.tables.timeseries.write import stage

Row = tuple[Any, ...]
Test = Callable[[Row], bool | None]
"""Whether the row passes; null as None."""

NAMES = ("ts", "site", "n", "x", "s", "ms")
BASE = datetime(1969, 12, 31, 22, tzinfo=UTC)
_counter = itertools.count()

SCHEMA = pa.schema(
    [
        pa.field("ts", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("site", pa.string(), nullable=False),
        ("n", pa.int64()),
        ("x", pa.float64()),
        ("s", pa.string()),
        ("ms", pa.timestamp("ms", "America/New_York")),
    ]
)


def _time(minutes: int) -> datetime:
    return BASE + timedelta(minutes=minutes)


rows_of = st.tuples(
    st.integers(0, 300).map(_time),
    st.sampled_from(["a", "b", "é"]),
    st.none() | st.integers(-3, 3) | st.sampled_from([2**53 + 1, -(2**63)]),
    st.none() | st.sampled_from([math.nan, -0.0, 0.0, 1.5, -2.0, math.inf, -math.inf]),
    st.none() | st.sampled_from(["", "a", "ab", "b%", "Z"]),
    st.none() | st.integers(0, 300).map(_time),
)
appends_of = st.lists(st.lists(rows_of, min_size=1, max_size=30), max_size=5)


def _sql_key(x: float) -> tuple[bool, float]:
    """NaN is the largest number and equal to itself."""
    return (math.isnan(x), 0.0 if math.isnan(x) else x)


def _if_valid(at: int, test: Callable[[Any], bool]) -> Test:
    return lambda row: None if row[at] is None else test(row[at])


NAN_LAST: list[tuple[str, Test]] = [
    ("x > 1", _if_valid(3, lambda x: _sql_key(x) > _sql_key(1.0))),
    ("x <= 0", _if_valid(3, lambda x: _sql_key(x) <= _sql_key(0.0))),
    ("x = 'NaN'::DOUBLE", _if_valid(3, math.isnan)),
    ("x <> 1.5", _if_valid(3, lambda x: x != 1.5)),
    ("isnan(x)", _if_valid(3, math.isnan)),
    ("x BETWEEN 0 AND 2", _if_valid(3, lambda x: 0 <= x <= 2)),
    ("n > 0", _if_valid(2, lambda n: n > 0)),
    ("n = 9007199254740993", _if_valid(2, lambda n: n == 2**53 + 1)),
    ("n IN (1, 2, -9223372036854775808)", _if_valid(2, lambda n: n in (1, 2, -(2**63)))),
    ("n IS NULL", lambda row: row[2] is None),
    ("s LIKE 'a%'", _if_valid(4, lambda s: s.startswith("a"))),
    ("s >= 'b'", _if_valid(4, lambda s: s >= "b")),
    ("s IS NOT NULL", lambda row: row[4] is not None),
    ("ms < TIMESTAMPTZ '1970-01-01T00:00:00Z'", _if_valid(5, lambda t: t < _time(120))),
    ("ms = TIMESTAMPTZ '1970-01-01T01:00:00+01:00'", _if_valid(5, lambda t: t == _time(120))),
    ("ts >= TIMESTAMPTZ '1969-12-31T23:59:00Z'", lambda row: row[0] >= _time(119)),
    ("site = 'é'", lambda row: row[1] == "é"),
]


def _negated(test: Test) -> Test:
    return lambda row: None if (found := test(row)) is None else not found


def _both(one: Test, other: Test) -> Test:
    """Kleene's AND."""

    def test(row: Row) -> bool | None:
        found = one(row), other(row)
        return False if False in found else None if None in found else True

    return test


@st.composite
def sql_filters(draw: st.DrawFn) -> tuple[str, Test]:
    text, test = draw(st.sampled_from(NAN_LAST))
    form = draw(st.sampled_from(["plain", "not", "and", "or"]))
    if form == "plain":
        return text, test
    if form == "not":
        return f"NOT ({text})", _negated(test)
    other_text, other = draw(st.sampled_from(NAN_LAST))
    if form == "and":
        return f"({text}) AND ({other_text})", _both(test, other)
    return f"({text}) OR ({other_text})", _negated(_both(_negated(test), _negated(other)))


ARROW: list[tuple[pc.Expression, Test]] = [
    (pc.field("x") > 1, _if_valid(3, lambda x: x > 1)),
    (pc.field("x") <= 0, _if_valid(3, lambda x: x <= 0)),
    (~(pc.field("x") > 1), _if_valid(3, lambda x: not x > 1)),
    (pc.is_nan(pc.field("x")), _if_valid(3, math.isnan)),
    (pc.field("n") == 2**53 + 1, _if_valid(2, lambda n: n == 2**53 + 1)),
    (pc.field("n").is_null(), lambda row: row[2] is None),
    (pc.field("n").isin([1, 2]) & (pc.field("site") == "a"), lambda row: row[2] in (1, 2) and row[1] == "a"),
    (pc.field("s") > "a", _if_valid(4, lambda s: s > "a")),
    (pc.field("ts") < pa.scalar(_time(119), pa.timestamp("us", "UTC")), lambda row: row[0] < _time(119)),
    (
        pc.field("ms") >= pa.scalar(_time(120), pa.timestamp("ms", "America/New_York")),
        _if_valid(5, lambda t: t >= _time(120)),
    ),
]


@contextmanager
def tiny(run_bytes: int, group_rows: int, sort_bytes: int) -> Iterator[None]:
    """Segments, row groups and sorts of a few rows."""
    with (
        patch.object(stage, "RUN_BYTES", run_bytes),
        patch.object(file_writer, "row_group_rows", lambda _table: group_rows),
        patch.object(plan, "SORT_BYTES", sort_bytes),
    ):
        yield


sizes = st.tuples(st.sampled_from([200, 1_500, 10**6]), st.sampled_from([1, 3, 50]), st.sampled_from([1, 300, 2_000, 10**6]))


def filled(appends: list[list[Row]], entity: list[str]) -> gl.TimeSeriesTable:
    table = gl.create(f"memory://model-{next(_counter)}", index="ts", entity=entity, bucket="1h", schema=SCHEMA)
    for rows in appends:
        table.append(pa.table(list(map(list, zip(*rows, strict=True))), schema=SCHEMA), on_overlap="allow")
    return table


def key(row: Row) -> Row:
    """A row as a value that equals itself: NaN too, and -0.0 is not 0.0."""
    return tuple(repr(value) if isinstance(value, float) else value for value in row)


def read(rows: gl.Rows) -> list[Row]:
    return [key(tuple(row.values())) for batch in rows.to_batches() for row in batch.to_pylist()]


def in_order(rows: list[Row], entity: list[str], *, by_index: bool) -> bool:
    last: dict[Any, datetime] = {}
    for row in rows:
        series = None if by_index or not entity else row[1]
        if series in last and last[series] > row[0]:
            return False
        last[series] = row[0]
    return True


@given(
    appends=appends_of,
    size=sizes,
    entity=st.sampled_from([[], ["site"]]),
    start=st.none() | st.integers(0, 300).map(_time),
    length=st.none() | st.integers(0, 200),
    sites=st.none() | st.sets(st.sampled_from(["a", "b", "é", "none"]), min_size=1),
    where=st.none() | sql_filters() | st.sampled_from(ARROW),
    order=st.sampled_from([None, "index"]),
)
def test_a_scan_gives_the_rows_of_a_list(
    appends: list[list[Row]],
    size: tuple[int, int, int],
    entity: list[str],
    start: datetime | None,
    length: int | None,
    sites: set[str] | None,
    where: tuple[str | pc.Expression, Test] | None,
    order: str | None,
) -> None:
    end = None if length is None else (start or BASE) + timedelta(minutes=length)
    tests: list[Test] = []
    if start is not None:
        tests.append(lambda row: row[0] >= start)
    if end is not None:
        tests.append(lambda row: row[0] < end)
    if sites is not None and entity:
        tests.append(lambda row: row[1] in sites)
    if where is not None:
        tests.append(where[1])
    expected = [key(row) for rows in appends for row in rows if all(test(row) for test in tests)]
    with tiny(*size):
        found = read(
            filled(appends, entity).scan(
                start,
                end,
                where=None if where is None else where[0],
                entity={"site": sorted(sites)} if sites is not None and entity else None,
                order=order,
            )
        )
    assert Counter(found) == Counter(expected)
    assert in_order(found, entity, by_index=order == "index")


@given(appends=appends_of, size=sizes, columns=st.lists(st.sampled_from(NAMES), unique=True), where=st.none() | sql_filters())
def test_columns_are_those_asked_for_in_that_order(
    appends: list[list[Row]], size: tuple[int, int, int], columns: list[str], where: tuple[str, Test] | None
) -> None:
    text, test = where or (None, lambda _row: True)
    kept = [row for rows in appends for row in rows if test(row)]
    with tiny(*size):
        rows = filled(appends, ["site"]).scan(columns=columns, where=text)
        batches = list(rows.to_batches())
    assert rows.schema.names == columns
    assert all(batch.schema.equals(rows.schema) for batch in batches)
    assert sum(batch.num_rows for batch in batches) == len(kept)
    found = Counter(key(tuple(row.values())) for batch in batches for row in batch.to_pylist())
    assert not columns or found == Counter(key(tuple(row[NAMES.index(name)] for name in columns)) for row in kept)


@given(appends=appends_of, size=sizes, where=sql_filters())
def test_sql_gives_the_rows_of_a_scan(appends: list[list[Row]], size: tuple[int, int, int], where: tuple[str, Test]) -> None:
    """DuckDB pushes what it can into Arrow, which prunes row groups by bounds that know nothing of NaN."""
    with tiny(*size):
        table = filled(appends, ["site"])
        found = [
            (row["site"], str(row["x"]), row["n"], row["s"])
            for row in table.sql(f"FROM this WHERE {where[0]}").to_arrow().to_pylist()
        ]
    expected = [(row[1], str(row[3]), row[2], row[4]) for rows in appends for row in rows if where[1](row)]
    assert Counter(found) == Counter(expected)


@given(appends=appends_of, size=sizes)
def test_segments_say_what_they_hold(appends: list[list[Row]], size: tuple[int, int, int]) -> None:
    """Counts, bounds and coverage in the log are those of all rows, however they were cut."""
    with tiny(*size):
        table = filled(appends, ["site"])
    rows = [row for part in appends for row in part]
    assert sum(segment.rows for segment in table.segments()) == len(rows)
    times = [int((row[0] - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(microseconds=1)) * 1_000 for row in rows]
    bounds = [segment.bounds for segment in table.segments()]
    assert [min((b.first for b in bounds), default=None), max((b.last for b in bounds), default=None)] == (
        [min(times, default=None), max(times, default=None)]
    )
    buckets = {(row[1], row[0].replace(minute=0)) for row in rows}
    assert {(one.identity[0], one.start) for one in table.coverage().buckets()} == buckets
