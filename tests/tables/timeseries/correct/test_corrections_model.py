"""Corrections against a list of rows: random tables of tiny segments, random changes, and what three readers then see."""

from __future__ import annotations

import itertools
import math
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gapless as gl
from gapless.errors import DuplicateKey
from gapless.files.write import file_writer
from gapless.tables.timeseries.write import stage

Row = tuple[Any, ...]
"""(ts, site, n, x)."""
Rows = list[Row]

BASE = datetime(1969, 12, 31, 22, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        pa.field("ts", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("site", pa.string(), nullable=False),
        ("n", pa.int64()),
        ("x", pa.float64()),
    ]
)
NAMES = SCHEMA.names
_counter = itertools.count()


def at(minutes: int) -> datetime:
    return BASE + timedelta(minutes=minutes)


row = st.tuples(
    st.integers(0, 40).map(lambda m: at(m * 10)),
    st.sampled_from(["a", "b"]),
    st.none() | st.integers(0, 3),
    st.none() | st.sampled_from([math.nan, -0.0, 0.0, 1.5]),
)
rows_of = st.lists(row, min_size=1, max_size=12)


def same(value: Any) -> Any:
    """A key's value as one that equals what it matches: NaN itself, -0.0 zero, null null."""
    return "NaN" if isinstance(value, float) and math.isnan(value) else value + 0.0 if isinstance(value, float) else value


def exact(one: Row) -> Row:
    return tuple(repr(value) if isinstance(value, float) else value for value in one)


def bucket_of(one: Row) -> tuple[str, datetime]:
    return one[1], one[0].replace(minute=0)


def table_of(rows: Rows) -> pa.Table:
    return pa.table([list(column) for column in zip(*rows, strict=True)] or [[]] * 4, schema=SCHEMA)


@dataclass
class Model:
    rows: Rows

    def upsert(self, new: Rows, key: tuple[str, ...]) -> None:
        places = [NAMES.index(name) for name in key]

        def key_of(one: Row) -> Row:
            return tuple(same(one[place]) for place in places)

        last = {key_of(one): one for one in new}
        self.rows = [one for one in self.rows if key_of(one) not in last] + list(last.values())

    def delete(self, goes: Callable[[Row], bool | None]) -> None:
        self.rows = [one for one in self.rows if not goes(one)]

    def replace_buckets(self, new: Rows) -> None:
        covered = {bucket_of(one) for one in new}
        self.rows = [one for one in self.rows if bucket_of(one) not in covered] + new


CONDITIONS: list[tuple[str, Callable[[Row], bool | None]]] = [
    ("n = 2", lambda r: r[2] is not None and r[2] == 2),
    ("n <> 2", lambda r: r[2] is not None and r[2] != 2),
    ("NOT (x > 1)", lambda r: r[3] is not None and not (math.isnan(r[3]) or r[3] > 1)),
    ("x IS NULL", lambda r: r[3] is None),
    ("isnan(x) OR site = 'a'", lambda r: (r[3] is not None and math.isnan(r[3])) or r[1] == "a"),
    ("true", lambda _r: True),
    ("n IS NOT NULL AND site >= 'a'", lambda r: r[2] is not None),
]
KEYS: list[tuple[str, ...]] = [("site", "ts"), ("n",), ("x",), ("site", "n"), ("x", "n"), ("ts",), ("ts", "site", "x")]


@st.composite
def changes(draw: st.DrawFn) -> tuple[Any, ...]:
    kind = draw(st.sampled_from(["upsert", "delete", "span", "replace", "append", "drop"]))
    start = draw(st.integers(0, 40)) * 10
    end = start + draw(st.integers(0, 30)) * 10
    sites = draw(st.none() | st.sampled_from([["a"], ["b"], ["a", "b"]]))
    match kind:
        case "upsert":
            return kind, draw(rows_of), draw(st.sampled_from(KEYS))
        case "delete":
            return kind, draw(st.sampled_from(CONDITIONS)), sites
        case "span":
            return kind, at(start), at(end), sites
        case "replace":
            inside = [
                r for r in draw(st.lists(row, max_size=12)) if at(start) <= r[0] < at(end) and (sites is None or r[1] in sites)
            ]
            return kind, at(start), at(end), sites, inside
        case "append":
            return kind, draw(rows_of)
    return kind, at(start)


def change(table: gl.TimeSeriesTable, model: Model, what: tuple[Any, ...]) -> None:
    """Make a change to both, and hold the report against the model."""
    before = len(model.rows)
    match what:
        case "upsert", new, key:
            report: Any = table.upsert(table_of(new), key=key, on_duplicate="last")
            model.upsert(new, key)
        case "delete", (text, goes), sites:
            report = table.delete(text, entity=None if sites is None else {"site": sites})
            model.delete(lambda r: goes(r) and (sites is None or r[1] in sites))
        case "span", start, end, sites:
            report = table.delete(start=start, end=end, entity=None if sites is None else {"site": sites})
            model.delete(lambda r: start <= r[0] < end and (sites is None or r[1] in sites))
        case "replace", start, end, sites, new:
            report = table.replace((start, end), table_of(new), entity=None if sites is None else {"site": sites})
            model.delete(lambda r: start <= r[0] < end and (sites is None or r[1] in sites))
            model.rows += new
        case "append", new:
            report = table.append(table_of(new), on_overlap="replace")
            model.replace_buckets(new)
        case "drop", end:
            report = table.drop_before(end)
            model.delete(lambda r: r[0] < end)
    assert before - report.removed_rows + report.rows == len(model.rows)


@contextmanager
def tiny(run_bytes: int, group_rows: int) -> Iterator[None]:
    """Segments and row groups of a few rows."""
    with (
        patch.object(stage, "RUN_BYTES", run_bytes),
        patch.object(file_writer, "row_group_rows", lambda _table: group_rows),
        patch.object(file_writer, "MAX_ROW_GROUP_ROWS", group_rows),
    ):
        yield


sizes = st.tuples(st.sampled_from([200, 10**6]), st.sampled_from([1, 3, 50]))


def check(table: gl.TimeSeriesTable, model: Model) -> None:
    found = [tuple(one.values()) for one in table.scan().to_arrow().to_pylist()]
    assert Counter(map(exact, found)) == Counter(map(exact, model.rows))
    buckets = {(one.identity[0], one.start) for one in table.coverage().buckets()} if model.rows else set()
    assert buckets == {bucket_of(one) for one in model.rows}
    report = table.verify(deep=True)
    assert [finding.what for finding in report.findings] == []
    in_order: dict[str, datetime] = {}
    for one in found:
        assert in_order.get(one[1], one[0]) <= one[0]
        in_order[one[1]] = one[0]


@given(
    appends=st.lists(rows_of, max_size=4), allow=st.booleans(), size=sizes, steps=st.lists(changes(), min_size=1, max_size=4)
)
@settings(max_examples=50)
def test_corrections_do_what_they_do_to_a_list_of_rows(
    appends: list[Rows], allow: bool, size: tuple[int, int], steps: list[tuple[Any, ...]]
) -> None:
    """Also where buckets lie in several segments, whether the table's policy allows that or only an append of old did."""
    table = gl.create(
        f"memory://corrections-{next(_counter)}",
        index="ts", entity=["site"], bucket="1h", schema=SCHEMA,
        properties={"on_overlap": "allow" if allow else "reject"},
    )  # fmt: skip
    model = Model([])
    with tiny(*size):
        for rows in appends:
            table.append(table_of(rows), on_overlap="allow")
            model.rows += rows
        for step in steps:
            change(table, model, step)
            check(table, model)


@given(appends=st.lists(rows_of, min_size=1, max_size=3), steps=st.lists(changes(), min_size=1, max_size=3))
@settings(max_examples=15)
def test_the_files_of_a_version_hold_its_rows(appends: list[Rows], steps: list[tuple[Any, ...]]) -> None:
    """DuckDB reads the live files; segments that a change does not touch keep their bytes."""
    with tempfile.TemporaryDirectory() as folder, tiny(10**6, 3):
        table = gl.create(Path(folder) / "t", index="ts", entity=["site"], bucket="1h", schema=SCHEMA)
        model = Model([])
        for rows in appends:
            table.append(table_of(rows), on_overlap="replace")
            model.replace_buckets(rows)
        for step in steps:
            kept = {s.path: (Path(folder) / "t" / s.path).read_bytes() for s in table.segments()}
            change(table, model, step)
            assert all((Path(folder) / "t" / path).read_bytes() == data for path, data in kept.items())
            assert read_by_duckdb(Path(folder) / "t", table) == Counter(map(exact, model.rows))


def read_by_duckdb(root: Path, table: gl.TimeSeriesTable) -> Counter[Row]:
    files = [str(root / segment.path) for segment in table.segments()]
    if not files:
        return Counter()
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        found = connection.sql("SELECT ts, site, n, x FROM read_parquet($1)", params=[files]).to_arrow_table().to_pylist()
    return Counter(exact((one["ts"].astimezone(UTC), one["site"], one["n"], one["x"])) for one in found)


unique_steps = st.lists(
    st.tuples(st.sampled_from(["allow", "skip", "replace"]), rows_of)
    | st.tuples(st.just("upsert"), rows_of, st.sampled_from(KEYS)),
    max_size=5,
)


@given(steps=unique_steps, size=sizes)
@settings(max_examples=40)
def test_a_unique_table_never_holds_a_key_twice(steps: list[tuple[Any, ...]], size: tuple[int, int]) -> None:
    """What would double a key is refused whole; all else lands."""
    table = gl.create(
        f"memory://unique-{next(_counter)}",
        index="ts", entity=["site"], bucket="1h", schema=SCHEMA, properties={"unique": True},
    )  # fmt: skip
    model = Model([])
    with tiny(*size):
        for step in steps:
            wanted = Model(list(model.rows))
            act: partial[Any]
            match step:
                case "upsert", new, key:
                    wanted.upsert(new, key)
                    act = partial(table.upsert, table_of(new), key=key, on_duplicate="last")
                case policy, new:
                    covered = {bucket_of(one) for one in model.rows}
                    fresh = [one for one in new if policy != "skip" or bucket_of(one) not in covered]
                    if policy == "replace":
                        wanted.replace_buckets(new)
                    else:
                        wanted.rows += fresh
                    act = partial(table.append, table_of(new), on_overlap=policy)
            keys = Counter((one[1], one[0]) for one in wanted.rows)
            if max(keys.values(), default=0) > 1:
                with pytest.raises(DuplicateKey):
                    act()
            else:
                act()
                model = wanted
            check(table, model)
