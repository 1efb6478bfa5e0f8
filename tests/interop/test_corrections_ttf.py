"""Corrections of tables that timeseries-table-format 0.9.0 wrote: rows in no order, rows without an index value; it reads the result."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import timeseries_table_format as ttf

import gapless as gl
from gapless.errors import NullKey

Query = Callable[..., pa.Table]
START = datetime(2024, 1, 1)


def rows(*hours: float | None, sym: str = "A", x: float = 0.0) -> pa.Table:
    times = [None if hour is None else START + timedelta(hours=hour) for hour in hours]
    return pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us")),
            "sym": [sym] * len(times),
            "x": [x + (hour or 0) for hour in hours],
        }
    )


def made_there(root: Path, *parts: pa.Table) -> gl.TimeSeriesTable:
    there = ttf.TimeSeriesTable.create(
        table_root=str(root), index_column="ts", index_type="timestamp", index_granularity="1h", entity_columns=["sym"]
    )
    for part in parts:
        there.append(part)
    return gl.open(root, upgrade=True)


def told(found: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(((row["ts"] - START) / timedelta(hours=1), row["sym"], row["x"]) for row in found.to_pylist() if row["ts"])


def check(root: Path, table: gl.TimeSeriesTable, expected: list[tuple[Any, ...]], query_there: Query) -> None:
    assert told(table.scan().to_arrow()) == expected
    assert told(query_there(root)) == expected
    assert {(b.identity[0], (b.start - START) / timedelta(hours=1)) for b in table.coverage().buckets()} == {
        (sym, float(int(hour))) for hour, sym, _ in expected
    }
    assert not table.verify(deep=True).problems


def test_rows_in_no_order_are_corrected_and_read_there(tmp_path: Path, query_there: Query) -> None:
    root = tmp_path / "t"
    table = made_there(root, pa.concat_tables([rows(5, 3, 4), rows(3, 1, sym="B")]), rows(9, 8))
    report = table.upsert(pa.concat_tables([rows(4, 4.5, x=100.0), rows(20, sym="B")]))
    assert (report.updated_rows, report.inserted_rows) == (1, 2)
    expected = [
        (1, "B", 1),
        (3, "A", 3),
        (3, "B", 3),
        (4, "A", 104),
        (4.5, "A", 104.5),
        (5, "A", 5),
        (8, "A", 8),
        (9, "A", 9),
        (20, "B", 20),
    ]
    check(root, table, expected, query_there)
    table.delete("x > 100")
    table.replace((START + timedelta(hours=3), START + timedelta(hours=9)), rows(7, 6), entity={"sym": "A"})
    check(root, table, [(1, "B", 1), (3, "B", 3), (6, "A", 6), (7, "A", 7), (9, "A", 9), (20, "B", 20)], query_there)
    table.append(rows(9.5, 1.5, sym="B"), on_overlap="replace")
    check(
        root,
        table,
        [(1.5, "B", 1.5), (3, "B", 3), (6, "A", 6), (7, "A", 7), (9, "A", 9), (9.5, "B", 9.5), (20, "B", 20)],
        query_there,
    )


def test_rows_without_an_index_value_are_neither_lost_nor_written_again(tmp_path: Path) -> None:
    root = tmp_path / "t"
    table = made_there(root, rows(1, None, 2), rows(8, 9))
    for act in (
        lambda: table.upsert(rows(2, x=1.0)),
        lambda: table.append(rows(1, 2, x=1.0), on_overlap="replace"),
        lambda: table.delete(start=START, end=START + timedelta(hours=3)),
    ):
        with pytest.raises(NullKey, match="column 'ts' is null in row 1 of segment") as refusal:
            act()
        assert 'where="ts IS NULL"' in refusal.value.fix
    assert table.upsert(rows(8, x=1.0)).updated_rows == 1, "what it does not touch does not matter"
    assert table.scan(where="ts IS NULL").count() == 1
    assert table.delete("ts IS NULL", entity={"sym": "A"}).removed_rows == 1
    table.delete(start=START, end=START + timedelta(hours=3))
    assert [hour for hour, _, _ in told(table.scan().to_arrow())] == [8, 9]
    assert not table.verify(deep=True).problems


def test_deleting_everything_takes_rows_without_an_index_value_too(tmp_path: Path) -> None:
    table = made_there(tmp_path / "t", rows(1, None, 2))
    assert table.delete("true").removed_rows == 3
    assert table.scan().count() == 0
