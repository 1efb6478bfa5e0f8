"""An upsert of rows that the table has already writes no segment, whichever way its segments are written."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest

import gapless as gl
from gapless.tables.timeseries.table import TimeSeriesTable

T0 = datetime(2026, 1, 5)
FLAT = pa.schema([("ts", pa.timestamp("us")), ("s", pa.string()), ("v", pa.float64())])
NESTED = FLAT.append(pa.field("l", pa.list_(pa.struct([("x", pa.float64())]))))
VALUES = [0.0, math.nan, None, 1.5, -0.0, math.inf]


def rows(schema: pa.Schema, *hours: int, **other: float | None) -> pa.Table:
    """Rows of two series at these hours; `other` is the value of a series in all its rows."""
    values: list[dict[str, Any]] = [
        {"ts": T0 + timedelta(hours=hour), "s": s, "v": other.get(s, VALUES[hour % 6])} for s in "ab" for hour in hours
    ]
    for one in values:
        one["l"] = [{"x": one["v"]}]
    return pa.Table.from_pylist(values, schema=schema)


def made(schema: pa.Schema, **properties: object) -> TimeSeriesTable:
    """A table of two segments: the hours 0 to 5 and 6 to 11."""
    table = gl.create(f"memory://{uuid4()}", index="ts", bucket="1h", entity=["s"], schema=schema, properties=properties)
    table.append(rows(schema, *range(6)))
    table.append(rows(schema, *range(6, 12)))
    return table


LAYOUTS: Mapping[str, tuple[pa.Schema, Mapping[str, object]]] = {
    "flat": (FLAT, {}),
    "nested": (NESTED, {}),
    "smallest": (FLAT, {"codec": "smallest"}),
    "fastest": (NESTED, {"codec": "fastest"}),
    "inline": (FLAT, {"inline_bytes": 1 << 20}),
    "inline nested": (NESTED, {"inline_bytes": 1 << 20}),
    "unique": (FLAT, {"unique": True}),
}


@pytest.mark.parametrize(("schema", "properties"), LAYOUTS.values(), ids=LAYOUTS)
def test_ups_13_an_upsert_of_identical_rows_writes_nothing(schema: pa.Schema, properties: Mapping[str, object]) -> None:
    table = made(schema, **properties)
    before, version = table.segments(), table.version
    for given in (rows(schema, 1), rows(schema, *range(12)), rows(schema, 3, 4).slice(1, 2), rows(schema, *range(11, -1, -1))):
        report = table.upsert(given)
        assert (report.rows, report.updated_rows, report.removed_rows, report.segments, report.version) == (0, 0, 0, 0, version)
    assert (table.refresh().version, table.segments()) == (version, before)


@pytest.mark.parametrize(("schema", "properties"), LAYOUTS.values(), ids=LAYOUTS)
def test_ups_13_only_the_segment_in_which_a_value_changes_is_written(
    schema: pa.Schema, properties: Mapping[str, object]
) -> None:
    table = made(schema, **properties)
    first, second = table.segments()
    report = table.upsert(pa.concat_tables([rows(schema, *range(6)), rows(schema, 7, a=8.0)]))
    assert first.path in {one.path for one in table.segments()}
    assert second.path not in {one.path for one in table.segments()}
    assert (report.rows, report.updated_rows, report.inserted_rows, report.segments, report.removed_segments) == (
        14,
        14,
        0,
        1,
        1,
    )
    assert table.scan(where="v = 8.0").count() == 1
    assert (table.scan().count(), table.verify(deep=True).findings) == (24, ())


@pytest.mark.parametrize("schema", [FLAT, NESTED], ids=["flat", "nested"])
def test_ups_13_another_sign_of_zero_is_another_value(schema: pa.Schema) -> None:
    table = made(schema)
    assert table.upsert(rows(schema, 0, a=-0.0)).updated_rows == 2
    found = table.scan(end=T0 + timedelta(hours=1), entity={"s": "a"}, columns=["v"]).to_arrow()["v"].to_pylist()
    assert [math.copysign(1, one) for one in found] == [-1.0]


@pytest.mark.parametrize("schema", [FLAT, NESTED], ids=["flat", "nested"])
def test_ups_13_a_row_that_is_new_or_doubled_is_a_change(schema: pa.Schema) -> None:
    table = made(schema)
    assert table.upsert(rows(schema, 11, 12)).inserted_rows == 2
    table.append(rows(schema, 2), on_overlap="allow")
    report = table.upsert(rows(schema, 2))
    assert (report.updated_rows, report.removed_rows) == (2, 4)
    assert table.scan().count() == 26


@pytest.mark.parametrize("schema", [FLAT, NESTED], ids=["flat", "nested"])
def test_ups_13_by_another_key(schema: pa.Schema) -> None:
    table = gl.create(f"memory://{uuid4()}", index="ts", bucket="1h", entity=["s"], schema=schema)
    table.append(rows(schema, *range(3), a=1.0, b=2.0).filter(pa.compute.equal(pa.array([1, 1, 1, 0, 0, 0]), 1)).slice(0, 1))
    table.append(rows(schema, 5, a=1.0, b=2.0).slice(1, 1))
    version = table.version
    same = pa.concat_tables([rows(schema, 0, a=1.0).slice(0, 1), rows(schema, 5, b=2.0).slice(1, 1)])
    assert table.upsert(same, key="s").version == version
    moved = rows(schema, 1, a=1.0).slice(0, 1)
    assert table.upsert(moved, key="s").updated_rows == 1
    assert table.scan(entity={"s": "a"}).to_arrow()["ts"].to_pylist() == [T0 + timedelta(hours=1)]


def test_ups_13_the_operation_is_remembered_though_no_row_changes() -> None:
    table = made(FLAT)
    before = table.segments()
    report = table.upsert(rows(FLAT, 1), operation_id="again")
    assert (report.rows, report.segments, table.segments()) == (0, 0, before)
    again = table.upsert(rows(FLAT, 1, a=9.0), operation_id="again")
    assert (again.already_applied, again.version, again.rows) == (True, report.version, 0)
    assert table.changes(report.version).count() == 0


def test_ups_13_delta_a_merge_of_identical_rows_commits_nothing() -> None:
    table = gl.delta.create(f"memory://{uuid4()}", NESTED)
    table.append(rows(NESTED, *range(4)))
    merge = table.merge(rows(NESTED, 0, 1, 2), on="t.ts = s.ts and t.s = s.s")
    same = merge.when_matched_update_all().when_not_matched_insert_all()
    report = same.execute()
    assert (report.rows, report.segments, report.version, table.version) == (0, 0, 1, 1)
    named = same.execute(operation_id="again")
    assert (named.rows, named.segments, same.execute(operation_id="again").already_applied) == (0, 0, True)
