"""A Delta table becomes a time-series table: files are taken as they are, or their rows are written anew, and none is lost."""

from __future__ import annotations

import datetime as dt
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable as DeltaLakeTable
from deltalake import write_deltalake

import gapless as gl
from gapless.errors import ImportRefused, InvalidOption, InvalidPath, SchemaMismatch, TableExists, TableNotFound, UnknownColumn
from interop.delta.scenes import SCENES
from support.delta_rows import counted_table
from support.folders import bytes_below

START = dt.datetime(2026, 1, 5, tzinfo=dt.UTC)
GOLDEN = Path(__file__).resolve().parents[4] / "shared" / "golden" / "delta"


def day(number: int, symbol: str = "A", **more: Any) -> pa.Table:
    """A row an hour of one day."""
    times = [START + dt.timedelta(days=number, hours=hour) for hour in range(24)]
    values = {"symbol": [symbol] * 24, "x": [float(hour) for hour in range(24)]}
    return pa.table({"ts": pa.array(times, pa.timestamp("us", "UTC")), **values, **more})


def imported(source: Path | str, target: Path, **options: Any) -> gl.ImportReport:
    return gl.import_table(source, target, **{"index": "ts", "entity": "symbol", "bucket": "1h", **options})


def rows(table: gl.TableView | gl.delta.DeltaView) -> Counter[str]:
    return counted_table(table.scan().to_arrow())


def stored(target: Path) -> dict[str, int]:
    """The inode of each data file."""
    return {path.name: path.stat().st_ino for path in (target / "data").iterdir()}


def outcomes(report: gl.ImportReport) -> list[str]:
    return [file.outcome for file in report.files]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Three days by deltalake, with a gap of one."""
    for number in (0, 1, 3):
        write_deltalake(tmp_path / "source", day(number), mode="append")
    return tmp_path / "source"


def test_files_that_fit_are_taken_and_their_coverage_is_known(source: Path, tmp_path: Path) -> None:
    before = bytes_below(source)
    report = imported(source, tmp_path / "t")
    table = gl.open(tmp_path / "t")
    assert outcomes(report) == ["taken"] * 3
    assert (report.rows(), report.rows("taken"), report.version, report.source_version) == (72, 72, table.version, "2")
    assert rows(table) == rows(gl.delta.open(source))
    (gap,) = table.coverage().gaps()
    assert (gap.start, gap.end) == (START + dt.timedelta(days=2), START + dt.timedelta(days=3))
    theirs = {data for path, data in before.items() if path.endswith(".parquet") and "_log" not in path}
    assert {path.read_bytes() for path in (tmp_path / "t" / "data").iterdir()} == theirs
    assert gl.verify(tmp_path / "t", deep=True).ok
    assert bytes_below(source) == before


def test_a_linked_file_is_the_file_itself(source: Path, tmp_path: Path) -> None:
    theirs = {path.stat().st_ino for path in source.glob("*.parquet")}
    imported(source, tmp_path / "t", adopt="link")
    assert set(stored(tmp_path / "t").values()) == theirs
    imported(source, tmp_path / "copied")
    assert theirs.isdisjoint(stored(tmp_path / "copied").values())


def test_a_source_that_cannot_be_written_to_is_read(source: Path, tmp_path: Path) -> None:
    for path in (source, *source.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        imported(source, tmp_path / "t")
    finally:
        for path in (source, *source.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
    assert gl.open(tmp_path / "t").sql("select count(*) n from t").to_arrow()["n"].to_pylist() == [72]


def test_a_dry_run_says_what_would_be_and_writes_nothing(source: Path, tmp_path: Path) -> None:
    gl.delta.open(source).alter.set_properties({"delta.enableDeletionVectors": "true"})
    gl.delta.open(source).delete("x = 5 and ts < '2026-01-06T00:00:00Z'")
    before = bytes_below(source)
    plan = imported(source, tmp_path / "t", dry_run=True)
    assert plan.dry_run
    assert plan.version is None
    assert not (tmp_path / "t").exists()
    done = imported(source, tmp_path / "t")
    assert plan.files == done.files
    assert Counter(outcomes(done)) == {"taken": 2, "rewritten": 1}
    (written,) = [file for file in done.files if file.outcome == "rewritten"]
    assert written.reason == "a deletion vector deletes 1 of its rows"
    assert written.rows == 23
    assert rows(gl.open(tmp_path / "t")) == rows(gl.delta.open(source))
    assert bytes_below(source) == before


@pytest.mark.parametrize("name", sorted(SCENES.keys() - {"types", "documents"}))  # which have no index without nulls
def test_each_kind_of_table_keeps_its_rows(name: str, tmp_path: Path) -> None:
    SCENES[name](str(tmp_path / "source"))
    view = gl.delta.open(tmp_path / "source")
    found = view.scan().to_arrow()
    index = next(one.name for one in view.schema if pa.types.is_integer(one.type) and not found[one.name].null_count)
    before = bytes_below(tmp_path / "source")
    report = gl.import_table(tmp_path / "source", tmp_path / "t", index=index, index_type="int64", bucket=10)
    assert rows(gl.open(tmp_path / "t")) == rows(view)
    assert report.rows() == view.count()
    assert gl.verify(tmp_path / "t", deep=True).ok
    assert bytes_below(tmp_path / "source") == before


def test_values_of_every_type_stay_what_they_are(tmp_path: Path) -> None:
    SCENES["types"](str(tmp_path / "source"))
    table = gl.delta.open(tmp_path / "source")
    table.delete("ts is null")
    gl.import_table(table.url, tmp_path / "t", index="ts", bucket="1d")
    assert rows(gl.open(tmp_path / "t")) == rows(table)


@pytest.mark.filterwarnings("ignore::gapless.errors.LogWarning")  # some log checkpoints are broken on purpose
@pytest.mark.parametrize("name", sorted(path.name for path in GOLDEN.iterdir()) if GOLDEN.is_dir() else [])
def test_a_golden_table_keeps_its_rows(name: str, tmp_path: Path, shared: Path) -> None:
    place = shared / "golden" / "delta" / name / "delta"
    try:
        view = gl.delta.open(place)
        found = view.scan().to_arrow()
    except (gl.TableError, TableNotFound):
        with pytest.raises((gl.TableError, gl.CallError, gl.DataError)):
            imported(place, tmp_path / "t")
        assert not (tmp_path / "t").exists()
        return
    kinds = {"int64": pa.types.is_signed_integer, "timestamp": pa.types.is_timestamp}
    keys = [(one.name, kind) for kind, is_kind in kinds.items() for one in view.schema if is_kind(one.type)]
    keys = [(key, kind) for key, kind in keys if not found[key].null_count]
    if not keys or not found.num_rows:
        return
    (key, kind), *_ = keys
    gl.import_table(place, tmp_path / "t", index=key, index_type=kind, bucket=1 if kind == "int64" else "1h")
    table = gl.open(tmp_path / "t")
    assert rows(table) == counted_table(found)
    assert gl.verify(tmp_path / "t", deep=True).ok


def test_an_older_version_is_imported_where_it_is_named(source: Path, tmp_path: Path) -> None:
    report = imported(source, tmp_path / "t", source_version=0)
    assert (report.source_version, report.rows()) == ("0", 24)
    assert not any("history" in line for line in report.not_kept)
    with pytest.raises(InvalidOption, match="source_version"):
        imported(source, tmp_path / "t2", source_version="first")


def test_what_is_not_kept_is_told(tmp_path: Path) -> None:
    schema = pa.schema(
        [
            pa.field("ts", pa.timestamp("us", "UTC"), metadata={"comment": "when"}),
            ("symbol", pa.string()),
            ("x", pa.float64()),
            pa.field("day", pa.date32(), metadata={"delta.generationExpression": "CAST(ts AS DATE)"}),
        ]
    )
    made = gl.delta.create(
        tmp_path / "source",
        schema,
        partition_by="day",
        properties={"delta.constraints.positive": "x >= 0", "delta.appendOnly": True},
    )
    made.append(day(0))
    report = imported(tmp_path / "source", tmp_path / "t")
    told = "\n".join(report.not_kept)
    for words in ("the constraint positive: x >= 0", "column 'day' is generated as CAST(ts AS DATE)", "partitioning by day",
                  "delta.appendOnly", "history: versions 0 to 0"):  # fmt: skip
        assert words in told
    assert report.files[0].reason == "the partition column 'day' is not in the file"
    table = gl.open(tmp_path / "t")
    assert table.schema is not None
    assert table.schema.field("ts").metadata == {b"comment": b"when"}
    assert rows(table) == rows(made)


def test_columns_are_left_out(tmp_path: Path) -> None:
    made = gl.delta.create(tmp_path / "source", day(0, p=["p"] * 24).schema, partition_by="p")
    made.append(day(0, p=["p"] * 24))
    report = imported(tmp_path / "source", tmp_path / "t", exclude=["p"])
    assert outcomes(report) == ["taken"]
    report = imported(tmp_path / "source", tmp_path / "t2", exclude=["x"])
    assert report.files[0].reason == "the partition column 'p' is not in the file"
    report = imported(tmp_path / "source", tmp_path / "t4", exclude=["x", "p"])
    assert report.files[0].reason == "x: not in the table. There are: 'symbol', 'ts'"
    assert gl.open(tmp_path / "t2").scan().to_arrow().schema.names == ["ts", "symbol", "p"]
    with pytest.raises(UnknownColumn):
        imported(tmp_path / "source", tmp_path / "t3", exclude=["y"])


def test_all_rows_are_written_anew_where_that_is_asked_for(source: Path, tmp_path: Path) -> None:
    report = imported(source, tmp_path / "t", adopt=None)
    assert {(file.outcome, file.reason) for file in report.files} == {("rewritten", "it was asked for")}
    table = gl.open(tmp_path / "t")
    assert len(table.segments()) == 1
    assert rows(table) == rows(gl.delta.open(source))
    with pytest.raises(InvalidOption, match="takes the files away"):
        imported(source, tmp_path / "t2", adopt="move")


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_a_missing_file_and_a_damaged_one_are_refused_by_name(source: Path, tmp_path: Path) -> None:
    lost, damaged, _ = sorted(source.glob("*.parquet"))
    lost.unlink()
    os.truncate(damaged, 400)
    with pytest.raises(ImportRefused) as refused:
        imported(source, tmp_path / "t")
    assert set(refused.value.files) == {lost.name, damaged.name}
    assert "2 of 3 files" in str(refused.value)
    assert not (tmp_path / "t").exists()
    plan = imported(source, tmp_path / "t", dry_run=True)
    assert sorted(outcomes(plan)) == ["refused", "refused", "taken"]
    assert all(file.reason and file.fix for file in plan.files if file.outcome == "refused")


def test_a_file_with_null_keys_is_refused(source: Path, tmp_path: Path) -> None:
    write_deltalake(source, day(5).set_column(1, "symbol", pa.array([None] * 24, pa.string())), mode="append")
    with pytest.raises(ImportRefused, match="column 'symbol' is null in 24 of its rows"):
        imported(source, tmp_path / "t")
    assert not (tmp_path / "t").exists()


def test_a_column_that_is_no_index_is_refused(source: Path, tmp_path: Path) -> None:
    with pytest.raises(SchemaMismatch):
        imported(source, tmp_path / "t", index="x")
    with pytest.raises(SchemaMismatch):
        imported(source, tmp_path / "t", index="when")
    assert not (tmp_path / "t").exists()


def test_a_time_series_table_and_nothing_are_no_sources(tmp_path: Path) -> None:
    gl.create(tmp_path / "series", index="ts", bucket="1h")
    with pytest.raises(InvalidPath, match="is a time-series table already"):
        imported(tmp_path / "series", tmp_path / "t")
    with pytest.raises(InvalidPath):
        imported(tmp_path / "nothing", tmp_path / "t")
    with pytest.raises(InvalidOption, match="format='detla' is not known"):
        imported(tmp_path / "series", tmp_path / "t", format="detla")
    with pytest.raises(InvalidPath, match="names no table"):
        imported(7, tmp_path / "t")  # type: ignore[arg-type]


def test_source_and_target_do_not_lie_in_one_another(source: Path) -> None:
    for target in (source, source / "t", source.parent):
        with pytest.raises((InvalidPath, TableExists)):
            imported(source, target)


def test_a_target_with_anything_else_is_refused(source: Path, tmp_path: Path) -> None:
    gl.create(tmp_path / "full", index="ts", entity="symbol", bucket="1h").append(day(9))
    gl.create(tmp_path / "other", index="ts", bucket="1h")
    gl.delta.create(tmp_path / "delta", day(0).schema)
    for name in ("full", "other", "delta"):
        before = bytes_below(tmp_path / name)
        with pytest.raises(TableExists):
            imported(source, tmp_path / name)
        assert bytes_below(tmp_path / name) == before


def test_an_empty_table_that_was_made_for_it_is_filled(source: Path, tmp_path: Path) -> None:
    gl.create(tmp_path / "t", index="ts", entity="symbol", bucket="1h", properties={"codec": "smallest"})
    imported(source, tmp_path / "t")
    table = gl.open(tmp_path / "t")
    assert (table.properties.codec, rows(table)) == ("smallest", rows(gl.delta.open(source)))
    assert pc.sum(table.scan().to_arrow()["x"]).as_py() == 3 * 276


def test_a_table_of_memory_is_read_and_written(tmp_path: Path) -> None:
    made = gl.delta.create("memory://import-source", day(0).schema)
    made.append(day(0))
    report = gl.import_table("memory://import-source", "memory://import-target", index="ts", entity="symbol", bucket="1h")
    assert report.files[0].reason == "it does not lie on a disk of this machine"
    assert rows(gl.open("memory://import-target")) == rows(made)


def test_a_file_of_deltalakes_other_types_is_written_anew(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "source", day(0, n=pa.array(range(24), pa.int32())))
    assert DeltaLakeTable(tmp_path / "source").version() == 0
    gl.delta.open(tmp_path / "source").alter.set_properties({"delta.enableTypeWidening": "true"})
    gl.delta.open(tmp_path / "source").append(day(1, n=pa.array(range(24), pa.int64())), schema_mode="merge")
    report = imported(tmp_path / "source", tmp_path / "t")
    assert {file.outcome: file.reason for file in report.files}["rewritten"] == "n: int32 in the file, int64 in the table's"
    assert rows(gl.open(tmp_path / "t")) == rows(gl.delta.open(tmp_path / "source"))
