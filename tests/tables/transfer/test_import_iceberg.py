"""An Iceberg table that pyiceberg wrote becomes a time-series table."""

from __future__ import annotations

import datetime as dt
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gapless as gl
from gapless.errors import (
    ImportRefused,
    InvalidOption,
    NotSupported,
    TableExists,
    TableNotFound,
    UnknownColumn,
    VersionNotFound,
)
from support.delta_rows import counted_table
from support.folders import bytes_below

pyiceberg = pytest.importorskip("pyiceberg", reason="Iceberg tables are read by pyiceberg: pip install 'gapless[iceberg]'")

START = dt.datetime(2026, 1, 5, tzinfo=dt.UTC)


def day(number: int, **more: Any) -> pa.Table:
    times = [START + dt.timedelta(days=number, hours=hour) for hour in range(24)]
    values = {"site": ["north"] * 24, "x": [float(hour) for hour in range(24)]}
    return pa.table({"ts": pa.array(times, pa.timestamp("us", "UTC")), **values, **more})


@pytest.fixture
def properties(tmp_path: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}


@pytest.fixture
def catalog(properties: dict[str, str]) -> Any:
    from pyiceberg.catalog import load_catalog

    found = load_catalog(**properties)
    found.create_namespace("weather")
    return found


@pytest.fixture
def hours(catalog: Any) -> Any:
    """Two days and a gap between them."""
    table = catalog.create_table("weather.hours", day(0).schema)
    table.append(day(0))
    table.append(day(2))
    return table


def imported(source: object, target: Path, **options: Any) -> gl.ImportReport:
    return gl.import_table(source, target, **{"index": "ts", "entity": "site", "bucket": "1h", **options})


def rows(target: Path) -> Any:
    return counted_table(gl.open(target).scan().to_arrow())


def theirs(table: Any) -> Any:
    found = table.scan().to_arrow()
    return counted_table(found)


def test_a_table_of_a_catalog(hours: Any, properties: dict[str, str], tmp_path: Path) -> None:
    before = bytes_below(tmp_path / "warehouse")
    plan = imported("weather.hours", tmp_path / "t", catalog=properties, dry_run=True)
    assert not (tmp_path / "t").exists()
    report = imported("weather.hours", tmp_path / "t", catalog=properties)
    assert plan.files == report.files
    assert (report.format, report.rows(), report.source_version) == ("iceberg", 48, str(hours.current_snapshot().snapshot_id))
    assert {file.outcome for file in report.files} == {"rewritten"}
    assert rows(tmp_path / "t") == theirs(hours)
    (gap,) = gl.open(tmp_path / "t").coverage().gaps()
    assert (gap.start, gap.end) == (START + dt.timedelta(days=1), START + dt.timedelta(days=2))
    assert report.not_kept == ("history: 1 other snapshots",)
    assert bytes_below(tmp_path / "warehouse") == before
    assert imported("weather.hours", tmp_path / "t", catalog=properties).already_applied


def test_a_directory_a_metadata_file_and_an_open_table_are_the_same(hours: Any, tmp_path: Path) -> None:
    folder = Path(hours.location().removeprefix("file://"))
    metadata = hours.metadata_location.removeprefix("file://")
    for number, source in enumerate((folder, str(folder), metadata, hours)):
        report = imported(source, tmp_path / f"t{number}")
        assert (report.format, report.rows()) == ("iceberg", 48)
        assert rows(tmp_path / f"t{number}") == theirs(hours)
    assert imported(folder, tmp_path / "named", format="iceberg").rows() == 48


def test_columns_that_were_added_renamed_and_dropped(hours: Any, tmp_path: Path) -> None:
    from pyiceberg.types import LongType

    with hours.update_schema() as change:
        change.add_column("n", LongType(), doc="how many")
        change.rename_column("x", "temp")
    hours.append(day(3, n=list(range(24))).rename_columns(["ts", "site", "temp", "n"]))
    with hours.update_schema() as change:
        change.delete_column("temp")
    with hours.update_schema() as change:
        change.add_column("temp", LongType())
    imported(hours, tmp_path / "t")
    assert rows(tmp_path / "t") == theirs(hours)
    found = gl.open(tmp_path / "t").scan().to_arrow()
    assert found["temp"].null_count == 72
    assert found["n"].null_count == 48
    schema = gl.open(tmp_path / "t").schema
    assert schema is not None
    assert schema.field("n").metadata == {b"comment": b"how many"}


def test_partitioned_tables_and_deleted_rows(catalog: Any, tmp_path: Path) -> None:
    from pyiceberg.transforms import IdentityTransform

    table = catalog.create_table("weather.parts", day(0).schema)
    with table.update_spec() as spec:
        spec.add_field("site", IdentityTransform(), "site")
    table.append(pa.concat_tables([day(0), day(1).set_column(1, "site", pa.array(["south"] * 24))]))
    table.delete("x == 5.0")
    report = imported(table, tmp_path / "t")
    assert rows(tmp_path / "t") == theirs(table)
    assert report.rows() == 46
    assert any(line.startswith("partitioning") for line in report.not_kept)


def test_files_that_were_added_without_field_ids_are_taken(catalog: Any, tmp_path: Path) -> None:
    table = catalog.create_table("weather.added", day(0).schema)
    for number in range(2):
        pq.write_table(day(number), tmp_path / f"{number}.parquet")
    table.add_files([f"file://{tmp_path}/{number}.parquet" for number in range(2)])
    report = imported(table, tmp_path / "t")
    assert [file.outcome for file in report.files] == ["taken"] * 2
    assert rows(tmp_path / "t") == theirs(table)
    with table.update_schema() as change:
        change.rename_column("x", "temp")
    report = imported(table, tmp_path / "t2")
    assert "name mapping: files may have column 'temp' under another name" in report.files[0].reason
    assert rows(tmp_path / "t2") == theirs(table)


def test_a_partition_column_that_is_not_in_the_file_is_written(catalog: Any, tmp_path: Path) -> None:
    from pyiceberg.transforms import IdentityTransform

    table = catalog.create_table("weather.hive", day(0).schema)
    with table.update_spec() as spec:
        spec.add_field("site", IdentityTransform(), "site")
    pq.write_table(day(0), tmp_path / "whole.parquet")
    table.add_files([f"file://{tmp_path}/whole.parquet"])
    assert [file.outcome for file in imported(table, tmp_path / "t").files] == ["taken"]


def test_what_we_published_is_imported_again(tmp_path: Path) -> None:
    made = gl.create(tmp_path / "ours", index="ts", entity="site", bucket="1h", properties={"publish": ["iceberg"]})
    made.append(day(0))
    made.append(day(1))
    report = imported(tmp_path / "ours" / "_iceberg", tmp_path / "t")
    assert [file.outcome for file in report.files] == ["taken"] * 2
    assert rows(tmp_path / "t") == rows(tmp_path / "ours")


def test_an_older_snapshot_and_what_came_meanwhile(hours: Any, tmp_path: Path) -> None:
    first = hours.metadata.snapshots[0].snapshot_id
    report = imported(hours, tmp_path / "t", source_version=first)
    assert (report.rows(), report.source_version) == (24, str(first))
    with pytest.raises(VersionNotFound):
        imported(hours, tmp_path / "t2", source_version=7)
    # The same call goes on with the snapshot of then, which is done.
    assert imported(hours, tmp_path / "t").already_applied
    with pytest.raises(TableExists, match="begun there"):
        imported(hours, tmp_path / "t", source_version=hours.current_snapshot().snapshot_id)


def test_an_empty_table_and_columns_that_are_left_out(catalog: Any, hours: Any, tmp_path: Path) -> None:
    table = catalog.create_table("weather.none", day(0).schema)
    report = imported(table, tmp_path / "t")
    assert (report.source_version, report.files) == ("none", ())
    assert gl.open(tmp_path / "t").scan().to_arrow().schema.names == ["ts", "site", "x"]
    imported(hours, tmp_path / "t2", exclude=["x"])
    assert gl.open(tmp_path / "t2").scan().to_arrow().schema.names == ["ts", "site"]
    with pytest.raises(UnknownColumn):
        imported(hours, tmp_path / "t3", exclude=["y"])


def test_what_is_not_there_is_named(hours: Any, properties: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(TableNotFound, match="has no table"):
        imported("weather.minutes", tmp_path / "t", catalog=properties)
    with pytest.raises(InvalidOption, match="cannot be opened"):
        imported("weather.hours", tmp_path / "t", catalog="nowhere-configured")
    with pytest.raises(InvalidOption, match="catalog= means nothing"):
        imported("weather.hours", tmp_path / "t", catalog=properties, format="delta")
    with pytest.raises(TableNotFound, match="no Iceberg table"):
        imported(tmp_path, tmp_path / "t", format="iceberg")
    lost = Path(next(iter(hours.scan().plan_files())).file.file_path.removeprefix("file://"))
    lost.unlink()
    with pytest.raises(ImportRefused, match=lost.name):
        imported(hours, tmp_path / "t")
    assert not (tmp_path / "t").exists()


def test_without_pyiceberg_it_says_what_to_install(hours: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(hours.location().removeprefix("file://"))
    monkeypatch.setitem(sys.modules, "pyiceberg.table", None)
    with pytest.raises(NotSupported, match=r"gapless\[iceberg\]"):
        imported(folder, tmp_path / "t")
