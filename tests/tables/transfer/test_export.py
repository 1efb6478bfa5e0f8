"""A plain copy of a version, which others read without us."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable as DeltaLakeTable
from pyiceberg.table import StaticTable

import gapless as gl
from gapless.errors import CorruptTable, InvalidOption, InvalidPath, NotSupported, TableExists, UnsupportedType
from gapless.store.open import open_store
from gapless.tables.shared import export as exporting
from gapless.tables.transfer import parquet_files
from interop.delta.scenes import SCENES
from support.delta_rows import counted_table
from support.folders import bytes_below
from support.hudi_reader import files_seen, rows_seen

START = dt.datetime(2026, 1, 5, tzinfo=dt.UTC)


def hours(*which: int, symbol: str = "A", **more: Any) -> pa.Table:
    times = [START + dt.timedelta(hours=hour) for hour in which]
    return pa.table({"ts": pa.array(times, pa.timestamp("us", "UTC")), "symbol": [symbol] * len(which), **more})


@pytest.fixture
def series(tmp_path: Path) -> gl.TimeSeriesTable:
    """Three versions of rows; in the last one an hour less."""
    table = gl.create(tmp_path / "series", index="ts", entity="symbol", bucket="1h", properties={"codec": "smallest"})
    table.append(hours(0, 1, 2, x=[0.5, None, 2.5]))
    table.append(hours(0, 1, symbol="B", x=[1.0, float("nan")]))
    table.delete(where="symbol = 'A' and x = 0.5")
    return table


@pytest.fixture
def trips(tmp_path: Path) -> gl.delta.DeltaTable:
    table = gl.delta.create(
        tmp_path / "trips", hours(0, x=[1.0]).schema, partition_by="symbol", name="trips", properties={"delta.constraints.low": "x < 100"}
    )  # fmt: skip
    table.append(hours(0, 1, x=[1.0, 2.0]))
    table.append(hours(5, symbol="B", x=[5.0]))
    table.delete("x = 1.0")
    return table


def rows(view: gl.TableView | gl.delta.DeltaView) -> Any:
    return counted_table(view.scan().to_arrow())


def in_folder(folder: Path) -> Any:
    return counted_table(pa.concat_tables([pq.read_table(path) for path in sorted(folder.glob("*.parquet"))]))


@pytest.mark.parametrize("kind", ["series", "trips"])
def test_as_parquet_any_reader_reads_it(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    table = request.getfixturevalue(kind)
    before = bytes_below(table.url)
    report = table.export(tmp_path / "copy")
    assert (report.format, report.version, report.files) == ("parquet", table.version, 1)
    assert sorted(path.name for path in (tmp_path / "copy").iterdir()) == ["_SUCCESS", "part-00000.parquet"]
    assert in_folder(tmp_path / "copy") == rows(table)
    with duckdb.connect() as connection:
        (found,) = connection.sql(f"select count(*) from '{tmp_path / 'copy'}/*.parquet'").fetchall()
    assert found[0] == report.rows == table.count()
    assert bytes_below(table.url) == before


@pytest.mark.parametrize("kind", ["series", "trips"])
def test_as_delta_others_read_it(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    table = request.getfixturevalue(kind)
    report = table.export(tmp_path / "copy", "delta")
    copy = gl.delta.open(tmp_path / "copy")
    assert rows(copy) == rows(table)
    theirs = DeltaLakeTable(tmp_path / "copy").to_pyarrow_table().select(copy.schema.names).cast(copy.schema)
    assert counted_table(theirs) == rows(table)
    assert report.rows == copy.count()
    assert copy.partition_by == (("symbol",) if kind == "trips" else ())
    assert copy.properties == {}
    told = "\n".join(report.not_kept)
    assert ("the constraint low: x < 100" in told) is (kind == "trips")
    assert "partitioning" not in told
    assert table.export(tmp_path / "by", "delta", partition_by=["symbol"]).files == 2


def test_as_timeseries_it_keeps_index_and_properties(series: gl.TimeSeriesTable, tmp_path: Path) -> None:
    report = series.export(tmp_path / "copy", "timeseries")
    copy = gl.open(tmp_path / "copy")
    assert (copy.index, copy.properties, copy.schema) == (series.index, series.properties, series.schema)
    assert rows(copy) == rows(series)
    assert copy.coverage().gaps() == series.coverage().gaps()
    assert report.not_kept == ("history: versions 1 to 3",)
    assert gl.verify(tmp_path / "copy", deep=True).ok


def test_a_delta_table_as_timeseries_needs_an_index(trips: gl.delta.DeltaTable, tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="needs index and bucket"):
        trips.export(tmp_path / "copy", "timeseries")
    trips.export(tmp_path / "copy", "timeseries", index="ts", bucket="1h", entity="symbol")
    assert rows(gl.open(tmp_path / "copy")) == rows(trips)


def test_an_older_version_is_exported_from_its_view(
    series: gl.TimeSeriesTable, trips: gl.delta.DeltaTable, tmp_path: Path
) -> None:
    for table, version in ((series, 2), (trips, 1)):
        view = table.at(version)
        for kind in ("parquet", "delta"):
            target = tmp_path / f"{table.name}-{kind}"
            assert view.export(target, kind).version == version
        assert in_folder(tmp_path / f"{table.name}-parquet") == rows(view)
        assert rows(gl.delta.open(tmp_path / f"{table.name}-delta")) == rows(view)


@pytest.mark.parametrize("name", sorted(SCENES))
def test_each_kind_of_delta_table_is_copied(name: str, tmp_path: Path) -> None:
    SCENES[name](str(tmp_path / "source"))
    table = gl.delta.open(tmp_path / "source")
    table.export(tmp_path / "copy", "delta")
    copy = gl.delta.open(tmp_path / "copy")
    assert rows(copy) == rows(table)
    assert (copy.schema, copy.partition_by) == (table.schema, table.partition_by)


def test_what_lies_at_the_target_stays(series: gl.TimeSeriesTable, trips: gl.delta.DeltaTable, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    (tmp_path / "empty").mkdir()
    for table in (series, trips):
        for kind in ("parquet", "delta"):
            for target in (tmp_path / "full", series.url, trips.url):
                before = bytes_below(target)
                with pytest.raises((TableExists, InvalidPath)):
                    table.export(target, kind)
                assert bytes_below(target) == before
    with pytest.raises(InvalidPath, match="One lies in the other"):
        series.export(Path(series.url) / "copy")
    assert series.export(tmp_path / "empty").rows == 4


def test_formats_and_options_are_refused_by_name(series: gl.TimeSeriesTable, tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="detla"):
        series.export(tmp_path / "copy", "detla")  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="partition_by means nothing"):
        series.export(tmp_path / "copy", "parquet", partition_by="symbol")
    with pytest.raises(InvalidOption, match="has no option 'order'"):
        series.export(tmp_path / "copy", order="index")  # type: ignore[call-arg]
    with pytest.raises(NotSupported, match="has no columns"):
        gl.create(tmp_path / "bare", index="ts", bucket="1h").export(tmp_path / "copy")
    gl.create(tmp_path / "fine", index="ts", bucket="1h").append(pa.table({"ts": pa.array([1], pa.timestamp("ns"))}))
    with pytest.raises(UnsupportedType, match="'ts'"):
        gl.open(tmp_path / "fine").export(tmp_path / "copy", "delta")
    assert not (tmp_path / "copy").exists()
    with pytest.raises(UnsupportedType, match="'ts'"):
        gl.open(tmp_path / "fine").export(tmp_path / "copy", "iceberg")
    gl.open(tmp_path / "fine").export(tmp_path / "copy")
    assert pq.read_table(tmp_path / "copy")["ts"].type == pa.timestamp("ns")


@pytest.mark.parametrize("kind", ["series", "trips"])
def test_an_iceberg_table_that_others_may_go_on_with(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    table = request.getfixturevalue(kind)
    report = table.export(tmp_path / "copy", "iceberg")
    assert (report.format, report.rows, report.files) == ("iceberg", table.scan().count(), 1)
    found = StaticTable.from_metadata(str(tmp_path / "copy"))
    assert counted_table(found.scan().to_arrow().select(table.schema.names)) == rows(table)
    assert found.properties.get("gc.enabled") is None
    assert len(list(found.scan("ts > '2030-01-01T00:00:00+00:00'").plan_files())) == 0  # it has bounds
    # The first metadata are whole: at no time was there a table without rows.
    assert [path.name for path in (tmp_path / "copy" / "metadata").glob("*.metadata.json")] == ["v1.metadata.json"]
    with pytest.raises(TableExists):
        table.export(tmp_path / "copy", "iceberg")


def test_a_hudi_table(series: gl.TimeSeriesTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_files, "FILE_BYTES", 1)
    monkeypatch.setattr(parquet_files, "fills_group", lambda *_: True)
    report = series.export(tmp_path / "copy", "hudi")
    store = open_store(str(tmp_path / "copy"))
    assert report.files > 1
    assert len(files_seen(store) or ()) == report.files
    assert sum((rows_seen(store) or Counter()).values()) == report.rows == series.scan().count()


def test_milliseconds_are_written_as_microseconds_where_readers_take_them_for_such(tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1h")
    times = pa.array([START, START + dt.timedelta(hours=1)], pa.timestamp("ms", "UTC"))
    table.append(pa.table({"ts": times, "at": times}))
    table.export(tmp_path / "copy", "iceberg")
    (file,) = (tmp_path / "copy" / "data").glob("*.parquet")
    assert [pq.read_schema(file).field(name).type.unit for name in ("ts", "at")] == ["us", "us"]
    assert StaticTable.from_metadata(str(tmp_path / "copy")).scan().to_arrow()["at"].to_pylist() == times.to_pylist()
    nested = gl.create(tmp_path / "n", index="ts", bucket="1h")
    ms = pa.timestamp("ms", "UTC")
    lists = pa.array([[START], []], pa.list_(ms))
    structs = pa.array([{"m": [("a", START)]}, None], pa.struct([("m", pa.map_(pa.string(), ms))]))
    nested.append(pa.table({"ts": times, "lists": lists, "structs": structs}))
    nested.export(tmp_path / "nested", "iceberg")
    found = StaticTable.from_metadata(str(tmp_path / "nested")).scan().to_arrow()
    assert (found["lists"].to_pylist(), found["structs"].to_pylist()) == (lists.to_pylist(), structs.to_pylist())


def test_tables_without_rows(tmp_path: Path) -> None:
    table = gl.create(tmp_path / "none", index="ts", bucket="1h", schema=hours(x=pa.array([], pa.float64())).schema)
    assert table.export(tmp_path / "parquet").rows == 0
    assert pq.read_table(tmp_path / "parquet" / "part-00000.parquet").schema.names == ["ts", "symbol", "x"]
    assert table.export(tmp_path / "delta", "delta").rows == 0
    assert gl.delta.open(tmp_path / "delta").schema.names == ["ts", "symbol", "x"]
    typed = gl.create(tmp_path / "typed", index="ts", bucket="1h", schema=hours(0).schema)
    assert typed.export(tmp_path / "iceberg", "iceberg").rows == 0
    assert StaticTable.from_metadata(str(tmp_path / "iceberg")).scan().to_arrow().num_rows == 0
    assert typed.export(tmp_path / "hudi", "hudi").rows == 0


def test_values_of_every_type_come_back_from_plain_files(tmp_path: Path) -> None:
    given = pa.table(
        {
            "ts": pa.array([1, 2], pa.timestamp("ms", "UTC")), "d": pa.array([1, None], pa.duration("us")),
            "t": pa.array([1, None], pa.time64("ns")), "n": pa.nulls(2), "u": pa.array([2**63, None], pa.uint64()),
            "h": pa.array([1.5, None], pa.float16()), "l": pa.array([[1], None], pa.list_(pa.int8())),
            "m": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64())), "b": pa.array([b"ab", None], pa.binary(2)),
            "dec": pa.array([None, 1], pa.decimal128(10, 2)), "st": pa.array([{"a": 1}, None]),
        }
    )  # fmt: skip
    table = gl.create(tmp_path / "t", index="ts", bucket="1s")
    table.append(given)
    table.export(tmp_path / "copy")
    found = pq.read_table(tmp_path / "copy" / "part-00000.parquet")
    assert found.to_pylist() == given.to_pylist()
    assert found.schema.field("ts").type == given.schema.field("ts").type


def test_large_tables_are_several_files(series: gl.TimeSeriesTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_files, "FILE_BYTES", 1)
    monkeypatch.setattr(parquet_files, "fills_group", lambda _rows, _size: True)
    report = series.export(tmp_path / "copy")
    assert report.files == len([*(tmp_path / "copy").glob("part-*.parquet")]) > 1
    assert in_folder(tmp_path / "copy") == rows(series)


def test_damage_of_the_source_leaves_no_copy_that_looks_whole(series: gl.TimeSeriesTable, tmp_path: Path) -> None:
    (Path(series.url) / series.segments()[0].path).unlink()
    for kind in ("parquet", "delta", "timeseries"):
        with pytest.raises(CorruptTable):
            series.export(tmp_path / kind, kind)
    assert not (tmp_path / "parquet" / "_SUCCESS").exists()
    assert gl.delta.open(tmp_path / "delta").count() == 0
    assert gl.open(tmp_path / "timeseries").count() == 0


def test_a_copy_in_another_store(series: gl.TimeSeriesTable) -> None:
    series.export("memory://export-copy", "timeseries")
    assert rows(gl.open("memory://export-copy")) == rows(series)
    assert gl.open("memory://export-copy").export("memory://export-parquet").rows == 4


def test_the_writer_that_is_looked_up_is_there() -> None:
    assert exporting._export().__module__ == "gapless.tables.transfer.export"
