"""Partitions that Iceberg's readers are told of files that were written without: pruned by, and right where a file lies in several."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

import gapless as gl
from gapless.errors import InvalidOption
from gapless.formats.iceberg.file_partitions import partition_value
from gapless.model.stats import ColumnStats

START = datetime(2026, 1, 30, tzinfo=UTC)


def rows(day: int, hours: int = 3, site: str = "a") -> pa.Table:
    moments = [START + timedelta(days=day, hours=hour) for hour in range(hours)]
    return pa.table(
        {
            "ts": pa.array(moments, pa.timestamp("us", "UTC")),
            "site": [site] * hours,
            "v": [float(day * 100 + hour) for hour in range(hours)],
        }
    )


def made(path: Path, partition: str, **properties: Any) -> gl.TimeSeriesTable:
    told = {"publish": ["iceberg"], "iceberg_partition": partition, "on_overlap": "allow", **properties}
    return gl.create(path, index="ts", bucket="1h", entity=["site"], properties=told)


def there(path: Path) -> StaticTable:
    return StaticTable.from_metadata(str(path / "_iceberg"))


def same(path: Path, table: gl.TimeSeriesTable) -> None:
    """Each day's rows are the table's for pyiceberg, whatever partition a file lies in."""
    mine = table.refresh().scan().to_arrow().to_pylist()
    for day in range(-1, 8):
        start, end = START + timedelta(days=day), START + timedelta(days=day + 1)
        wanted = sorted(row["v"] for row in mine if start <= row["ts"] < end)
        condition = f"ts >= '{start.isoformat()}' and ts < '{end.isoformat()}'"
        assert sorted(there(path).scan(row_filter=condition).to_arrow()["v"].to_pylist()) == wanted
    for site in ("a", "b"):
        wanted = sorted(row["v"] for row in mine if row["site"] == site)
        assert sorted(there(path).scan(row_filter=f"site = '{site}'").to_arrow()["v"].to_pylist()) == wanted


def specs(path: Path) -> dict[int, int]:
    """Live files by the spec that they are described by."""
    found = there(path)
    counted: dict[int, int] = {}
    current = found.current_snapshot()
    assert current is not None
    for manifest in current.manifests(found.io):
        for entry in manifest.fetch_manifest_entry(found.io):
            spec = int(entry.data_file.spec_id)
            counted[spec] = counted.get(spec, 0) + 1
    return counted


def test_a_file_of_one_day_has_a_partition_and_one_of_several_has_none(tmp_path: Path) -> None:
    table = made(tmp_path / "t", "day(ts)")
    for day in range(4):
        table.append(rows(day))
    table.append(rows(1, hours=30, site="b"))
    assert [str(field) for field in there(tmp_path / "t").spec().fields] == ["1000: ts_day: day(1)"]
    assert specs(tmp_path / "t") == {1: 4, 0: 1}
    same(tmp_path / "t", table)
    (report,) = there(tmp_path / "t").scan(row_filter=f"ts = '{START.isoformat()}'").plan_files()
    assert report.file.partition[0] == (START - datetime(1970, 1, 1, tzinfo=UTC)).days
    table.delete("v = 101")
    table.compact()
    same(tmp_path / "t", table)
    assert gl.verify(tmp_path / "t").ok


def test_many_files_are_described_in_manifests_that_a_reader_passes_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gapless.publish.iceberg.manifests.MANIFEST_ENTRIES", 3)
    table = made(tmp_path / "t", "day(ts)", publish_on_commit=False)
    for number in range(12):
        table.append(rows(number % 4))
    table.publish()
    found = there(tmp_path / "t")
    current = found.current_snapshot()
    assert current is not None
    days = [(one.partitions or [])[0] for one in current.manifests(found.io)]
    assert [one.lower_bound == one.upper_bound for one in days] == [True] * 4
    same(tmp_path / "t", table)


@pytest.mark.parametrize("partition", ["site", "month(ts), site", "hour(ts)", "year(ts)"])
def test_other_partitions(tmp_path: Path, partition: str) -> None:
    table = made(tmp_path / "t", partition)
    table.append(pa.concat_tables([rows(0), rows(0, site="b")]))
    for day in (1, 2, 3):
        table.append(rows(day, hours=1, site="ab"[day % 2]))
    same(tmp_path / "t", table)
    assert gl.verify(tmp_path / "t").ok
    assert specs(tmp_path / "t")[1] >= 3


def test_the_property_comes_and_goes_and_files_follow(tmp_path: Path) -> None:
    table = made(tmp_path / "t", "")
    for day in range(3):
        table.append(rows(day))
    files = there(tmp_path / "t").inspect.files().num_rows
    for partition, wanted in (("day(ts)", 1), ("month(ts)", 2), ("day(ts)", 1), ("", 0)):
        table.set_properties({"iceberg_partition": partition})
        found = there(tmp_path / "t")
        assert found.spec().spec_id == wanted
        assert specs(tmp_path / "t") == {wanted: files}
        current = found.current_snapshot()
        assert current is not None
        assert current.summary is not None
        assert current.summary.operation.value == "replace"
        assert current.summary["total-data-files"] == str(files)
        same(tmp_path / "t", table)
        assert gl.verify(tmp_path / "t").ok
    table.set_properties({"iceberg_partition": "day(ts)"})
    table.restore(2)
    assert table.properties.iceberg_partition == "day(ts)"
    same(tmp_path / "t", table)


def test_a_column_cannot_have_the_name_of_a_partition(tmp_path: Path) -> None:
    table = made(tmp_path / "t", "day(ts)")
    table.append(rows(0))
    with pytest.raises(InvalidOption, match="would be called so"):
        table.add_column("ts_day", "int64")
    with pytest.raises(InvalidOption, match="would be called so"):
        made(tmp_path / "u", "day(ts)").append(rows(0).append_column("ts_day", pa.array([1, 2, 3])))


@pytest.mark.parametrize(
    ("partition", "why"),
    [
        ("week(ts)", "names no partitions"),
        ("day(ts), day(ts)", "names no partitions"),
        ("day(v)", "names 'v'"),
        ("day(site)", "holds no times"),
        ("ts", "No file has one 'ts' alone"),
    ],
)
def test_what_is_no_partition_is_refused(tmp_path: Path, partition: str, why: str) -> None:
    with pytest.raises(InvalidOption, match=why):
        made(tmp_path / "t", partition)


def test_a_partition_is_said_where_bounds_prove_it_alone() -> None:
    day = 86_400_000_000_000
    assert partition_value("day", ColumnStats(min=day, max=2 * day - 1, nulls=0)) == 1
    assert partition_value("day", ColumnStats(min=day, max=2 * day, nulls=0)) is None
    assert partition_value("hour", ColumnStats(min=-1, max=-1, nulls=0)) == -1
    assert partition_value("month", ColumnStats(min=-1, max=-1, nulls=0)) == -1
    assert partition_value("year", ColumnStats(min=-day, max=-1, nulls=0)) == -1
    assert partition_value("identity", ColumnStats(min="a", max="a", nulls=None)) is None
    assert partition_value("identity", ColumnStats(min="a", max="a", nulls=1)) is None
    assert partition_value("identity", ColumnStats(min="a", max="b", nulls=0)) is None
    assert partition_value("identity", ColumnStats(min=0.0, max=0.0, nulls=0)) is None
    assert partition_value("day", None) is None
