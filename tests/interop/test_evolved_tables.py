"""Tables whose columns changed, as timeseries-table-format 0.9.0 meets them: read right, or refused by the feature's name."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import timeseries_table_format as ttf

import gapless as gl

Query = Callable[..., pa.Table]
T0 = datetime(2024, 1, 1, tzinfo=UTC)


def hour(number: int, **columns: Any) -> pa.Table:
    return pa.table({"ts": pa.array([T0 + timedelta(hours=number)], pa.timestamp("us", "UTC")), "n": [number], **columns})


@pytest.fixture
def table(tmp_path: Path) -> gl.TimeSeriesTable:
    """One row in columns ts, n, s."""
    made = gl.create(tmp_path / "t", index="ts", bucket="1h")
    made.append(hour(0, s=[{"a": 1}]))
    return made


def features(root: Path) -> list[str]:
    """The reader features of the newest metadata in the log."""
    found: list[str] = []
    for path in sorted((root / "_timeseries_log").glob("*.json")):
        for action in json.loads(path.read_text())["actions"]:
            found = action.get("UpdateTableMeta", {}).get("required_reader_features", found)
    return found


def test_columns_that_were_added_are_read_there(tmp_path: Path, table: gl.TimeSeriesTable, query_there: Query) -> None:
    table.add_column("x", pa.float64())
    table.add_column("first", pa.string(), after="ts", comment="where it stands is ours to know")
    table.append(hour(1, x=[0.5], first=["a"]))
    table.add_column("second", pa.int64(), after="ts")
    table.append(hour(2, second=[7]))
    there = query_there(tmp_path / "t", "select ts, second, first, n, s, x from t order by n")
    assert there.to_pylist() == table.scan(order="index").to_arrow().to_pylist()
    assert table.schema is not None
    assert table.schema.names == ["ts", "second", "first", "n", "s", "x"]
    assert gl.open(tmp_path / "t").schema.equals(table.schema, check_metadata=True)  # type: ignore[union-attr]
    assert features(tmp_path / "t") == ["schema_add_columns"]


def test_comments_and_metadata_change_nothing_there(tmp_path: Path, table: gl.TimeSeriesTable, query_there: Query) -> None:
    table.comment_column("n", "how many")
    table.comment_column("s.a", "inside")
    table.set_metadata({"owner": "me"})
    assert query_there(tmp_path / "t").to_pylist() == table.scan().to_arrow().to_pylist()
    assert features(tmp_path / "t") == []
    schema = gl.open(tmp_path / "t").schema
    assert schema is not None
    assert schema.metadata == {b"owner": b"me"}
    assert (schema.field("n").metadata, schema.field("s").type.field("a").metadata) == (
        {b"comment": b"how many"}, {b"comment": b"inside"},
    )  # fmt: skip


CHANGES: dict[str, Callable[[gl.TimeSeriesTable], int]] = {
    "a default": lambda t: t.add_column("x", pa.int64(), default=1),
    "a nested field": lambda t: t.add_column("s.b", pa.int64()),
    "a name": lambda t: t.rename_column("n", "m"),
    "a nested name": lambda t: t.rename_column("s.a", "m"),
    "a column less": lambda t: t.drop_column("n"),
    "another order": lambda t: t.reorder_columns(["n"]),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_protocol_7_cannot_say_is_refused_there(
    tmp_path: Path, table: gl.TimeSeriesTable, query_there: Query, change: Callable[[gl.TimeSeriesTable], int]
) -> None:
    assert query_there(tmp_path / "t").num_rows == 1
    change(table)
    with pytest.raises(ttf.TimeseriesTableError, match="gapless_columns"):
        query_there(tmp_path / "t")
    assert gl.open(tmp_path / "t").scan().count() == 1


def test_a_wider_type_is_refused_there(tmp_path: Path, query_there: Query) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1h")
    table.append(hour(0, x=pa.array([1], pa.int32())))
    assert query_there(tmp_path / "t").num_rows == 1
    table.widen_column("x", pa.int64())
    with pytest.raises(ttf.TimeseriesTableError, match="gapless_columns"):
        query_there(tmp_path / "t")


def test_a_name_that_comes_back_is_another_column_there_as_well(
    tmp_path: Path, table: gl.TimeSeriesTable, query_there: Query
) -> None:
    table.add_column("x", pa.float64())
    table.drop_column("x")
    table.add_column("x", pa.float64())
    with pytest.raises(ttf.TimeseriesTableError, match="gapless_columns"):
        query_there(tmp_path / "t")


def there_made(root: Path) -> None:
    """A table of 0.9.0 with metadata under its own key, which every file repeats."""
    made = ttf.TimeSeriesTable.create(table_root=str(root), index_column="ts", index_type="timestamp", index_granularity="1h")
    fields = [pa.field("ts", pa.timestamp("us", "UTC")), pa.field("n", pa.int64(), metadata={"unit": "m"})]
    made.append(pa.table([pa.array([T0], fields[0].type), [0]], schema=pa.schema(fields, metadata={"owner": "me"})))


def test_a_table_of_theirs_grows_and_is_read_by_both(tmp_path: Path, query_there: Query) -> None:
    there_made(tmp_path / "t")
    table = gl.open(tmp_path / "t", upgrade=True)
    table.add_column("x", pa.float64())
    table.append(hour(1, x=[0.5]))
    there = query_there(tmp_path / "t", "select ts, n, x from t order by n")
    assert there.to_pylist() == table.scan(order="index").to_arrow().to_pylist()
    assert features(tmp_path / "t") == ["schema_add_columns", "schema_metadata"]


def test_a_comment_beside_their_metadata_shuts_them_out(tmp_path: Path, query_there: Query) -> None:
    """Each file would repeat it, and 0.9.0 holds that against what the log says under its own key."""
    there_made(tmp_path / "t")
    table = gl.open(tmp_path / "t", upgrade=True)
    table.comment_column("n", "how many")
    table.append(hour(1))
    with pytest.raises(ttf.TimeseriesTableError, match="gapless_columns"):
        query_there(tmp_path / "t")
    schema = gl.open(tmp_path / "t").schema
    assert schema is not None
    assert (schema.metadata, schema.field("n").metadata) == ({b"owner": b"me"}, {b"unit": b"m", b"comment": b"how many"})
    assert table.scan().count() == 2
