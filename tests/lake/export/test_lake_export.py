"""Snapshots exported as Delta and Iceberg: independent readers have the snapshot's rows, before and after whatever happens to the lake."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import deltalake
import duckdb
import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

import gapless as gl
from gapless.errors import (
    CorruptTable,
    ForeignCommit,
    InvalidOption,
    NotSupported,
    ReadOnlyReplica,
    UnsupportedType,
)
from gapless.lake.export import exports
from gapless.lake.lake import Lake
from gapless.lake.opening import init, open_lake, pull
from gapless.lake.table import LakeTable
from gapless.store.open import open_store
from gapless.testing.store.stores import Killed
from lake.test_lake_kills import DyingChanges
from support.dying_store import Life

FORMATS = ("delta", "iceberg")
DAY = datetime(2026, 3, 1, tzinfo=UTC)


def plain(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in pa.Table.from_pylist(rows).to_pylist()) if rows else []


def read(table: LakeTable, format_: str) -> list[str]:
    """What a library that knows nothing of gapless reads."""
    folder = Path(table.location).parent
    if format_ == "delta":
        return plain(deltalake.DeltaTable(str(folder)).to_pyarrow_table().to_pylist())
    return plain(StaticTable.from_metadata(str(folder / "_iceberg")).scan().to_arrow().to_pylist())


def of_snapshot(lake: Lake, name: str) -> list[str]:
    return plain(lake.query("SELECT * FROM t", snapshots={"t": name}).to_arrow().to_pylist())


def rows(first: int, count: int, value: int = 0) -> list[dict[str, Any]]:
    return [
        {"id": n, "site": ("a/b", None, "", "x" * 200, "a%2Fb", "é")[n % 6], "v": value + n, "ts": DAY + timedelta(hours=n)}
        for n in range(first, first + count)
    ]


@pytest.fixture
def keyed(lake: Lake) -> LakeTable:
    table = lake.create_table("t", key="id", partition_by=["site", "day(ts)"])
    lake.run("t", rows(0, 12))
    table.compact()
    return table


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_a_life_of_runs_compactions_expiries_and_exports(lake: Lake, format_: str, seed: int) -> None:
    """At each step the export has the rows of the snapshot that it names, as they were when it was exported."""
    random, told = Random(seed), list[str]()
    table = lake.create_table("t", key=[] if seed else ["id"], partition_by=["hour(ts)"])
    exported = None
    for step in range(16):
        act = "run" if step == 0 else random.choice(("run", "compact", "expire", "export", "export"))
        if act == "run":
            lake.run("t", [row | ({f"c{step % 3}": step} if step % 2 else {}) for row in rows(random.randrange(8), 5, step)])
        elif act == "compact":
            table.compact(incremental=bool(seed) and step % 3 == 0)
        elif act == "expire":
            table.expire(keep_s=-1)
        elif table.snapshots():
            newest = table.snapshots()[-1].name
            done = table.export(format_)
            assert (done.snapshot, done.changed) == (newest, newest != exported)
            exported, told = newest, of_snapshot(lake, newest)
        if exported is not None:
            assert read(table, format_) == told
    assert exported is not None
    assert lake.doctor() == ()


def test_nothing_is_copied_and_the_next_version_takes_files_away(lake: Lake, keyed: LakeTable, tmp_path: Path) -> None:
    before = set(tmp_path.rglob("*.parquet"))
    assert (keyed.export("delta").version, keyed.export("iceberg").changed) == (0, True)
    assert set(tmp_path.rglob("*.parquet")) == before
    first = {one.path for one in keyed.snapshots()[0].files}
    lake.run("t", rows(3, 4, 100))
    keyed.compact()
    assert [keyed.export("delta").version, keyed.export("delta").changed] == [1, False]
    lines = (tmp_path / "lake/tables/t/_delta_log/00000000000000000001.json").read_text().splitlines()
    actions = [next(iter(json.loads(line))) for line in lines]
    assert actions.count("remove") == len(first)
    assert actions.count("add") == len(keyed.snapshots()[1].files)
    assert deltalake.DeltaTable(str(tmp_path / "lake/tables/t"), version=0).to_pyarrow_table().num_rows == 12


def test_readers_leave_files_out_by_partitions_and_statistics(keyed: LakeTable, tmp_path: Path) -> None:
    """The pages of all files of another day are damaged, their footers are not."""
    for format_ in FORMATS:
        keyed.export(format_)
    iceberg = StaticTable.from_metadata(str(tmp_path / "lake/tables/t/_iceberg"))
    assert [str(one.transform) for one in iceberg.spec().fields] == ["identity", "day"]
    snapshot = keyed.snapshots()[0]
    for file in snapshot.files:
        if "site=%C3%A9" not in file.path:
            path = tmp_path / "lake" / snapshot.folder / file.path
            data = bytearray(path.read_bytes())
            footer = int.from_bytes(data[-8:-4], "little")
            data[4 : len(data) - 8 - footer] = bytes(len(data) - 12 - footer)
            path.write_bytes(data)
    assert sorted(iceberg.scan(row_filter="site = 'é'").to_arrow()["id"].to_pylist()) == [5, 11]
    dataset = deltalake.DeltaTable(str(tmp_path / "lake/tables/t")).to_pyarrow_dataset()
    assert sorted(dataset.to_table(filter=pa.compute.field("site") == "é")["id"].to_pylist()) == [5, 11]
    with pytest.raises(OSError, match=r"[Pp]arquet|Unexpected|snappy|ZSTD|page"):
        dataset.to_table()


# -- what is refused ------------------------------------------------------------------------------------------------------


def test_only_a_whole_snapshot_of_a_table_with_a_key(lake: Lake, tmp_path: Path) -> None:
    table = lake.create_table("t", key="id")
    lake.run("t", rows(0, 2))
    with pytest.raises(NotSupported, match="no snapshot") as refused:
        table.export("delta")
    assert "gapless lake compact" in refused.value.fix
    complete = table.compact().snapshot
    lake.run("t", rows(1, 2, 50))
    table.compact(incremental=True)
    with pytest.raises(NotSupported, match="only adds rows") as refused:
        table.export("delta")
    assert "gapless lake snapshot" in refused.value.fix
    assert not (tmp_path / "lake/tables/t/_delta_log").exists()
    assert table.export("delta", snapshot=complete).rows == 2
    lake.run("t", rows(5, 1))
    table.compact()
    assert table.export("delta").rows == 4


def test_snapshots_that_add_rows_are_exported_with_what_they_add_to(lake: Lake) -> None:
    table = lake.create_table("t")
    lake.run("t", [{"a": 1}])
    table.compact()
    assert table.export("iceberg").rows == 1
    lake.run("t", [{"a": 2, "b": "new"}])
    table.compact(incremental=True)
    assert table.export("iceberg").files == 2
    assert read(table, "iceberg") == plain([{"a": 1, "b": None}, {"a": 2, "b": "new"}])
    lake.run("t", [{"a": 2**40, "b": 3}])
    lake.run("t", [{"a": "n/a", "b": 3}])
    table.compact(incremental=True)
    for format_ in FORMATS:  # the files of before hold numbers
        with pytest.raises(UnsupportedType, match="'a'"):
            table.export(format_)
    table.compact()
    assert table.compact().snapshot is None
    lake.run("t", [{"a": "x"}])
    table.compact()
    assert table.export("iceberg").changed
    assert len(read(table, "iceberg")) == 5


def test_a_snapshot_before_the_one_that_is_exported(lake: Lake, keyed: LakeTable) -> None:
    lake.run("t", rows(0, 1))
    keyed.compact()
    first, second = (one.name for one in keyed.snapshots())
    keyed.export("delta")
    with pytest.raises(InvalidOption, match="newer snapshot"):
        keyed.export("delta", snapshot=first)
    assert keyed.export("iceberg", snapshot=first).snapshot == first
    assert keyed.export("iceberg", snapshot=second).changed
    with pytest.raises(InvalidOption, match="no snapshot 'nope'"):
        keyed.export("iceberg", snapshot="nope")
    with pytest.raises(InvalidOption, match="as_='deltas'") as refused:
        keyed.export("deltas")
    assert "'delta'" in refused.value.fix


def test_what_is_no_table_of_runs_or_no_lake_to_write_into(lake: Lake, keyed: LakeTable, tmp_path: Path) -> None:
    lake.create_table("d", kind="delta")
    lake.run("d", [{"a": 1}])
    with pytest.raises(NotSupported, match="kind 'delta'") as refused:
        lake.table("d").export("delta")
    assert "publish" in refused.value.fix
    keyed.export("delta")
    pull(tmp_path / "lake", tmp_path / "replica")
    assert not (tmp_path / "replica/tables/t/_delta_log").exists()  # it stays behind
    with pytest.raises(ReadOnlyReplica):
        open_lake(tmp_path / "replica").table("t").export("delta")


def test_columns_that_a_format_has_not_are_refused_by_name(lake: Lake, tmp_path: Path) -> None:
    table = lake.create_table("t")
    lake.run("t", pa.table({"id": [1], "fine": pa.array([1], pa.timestamp("ns", "UTC"))}))
    table.compact()
    for format_, folder in exports.FOLDERS.items():
        with pytest.raises(UnsupportedType, match="'fine'"):
            table.export(format_)
        assert not (tmp_path / "lake/tables/t" / folder).exists()


def test_types_that_readers_take_as_they_are(lake: Lake) -> None:
    rows_ = pa.table({
        "flag": [True, None], "small": pa.array([1, None], pa.int8()), "n": pa.array([2**40, -1], pa.int64()),
        "x": [float("nan"), 1.5], "f": pa.array([0.25, None], pa.float32()), "text": ["", None], "raw": [b"\0\xff", None],
        "day": pa.array([date(1969, 12, 31), None]), "at": pa.array([DAY, None], pa.timestamp("ms", "Asia/Kolkata")),
        "local": pa.array([datetime(2026, 1, 1), None], pa.timestamp("s")),
        "d": pa.array([Decimal("1.25"), None], pa.decimal128(20, 4)), "lots": [[1, None], None], "deal": [{"by": "é"}, None],
        "unknown": pa.nulls(2),
    })  # fmt: skip
    table = lake.create_table("t")
    lake.run("t", rows_)
    table.compact()
    told = lake.query("SELECT * FROM t").to_arrow().to_pylist()
    for format_ in FORMATS:
        table.export(format_)
        assert read(table, format_) == plain(told)


def test_files_that_are_gone_or_altered(lake: Lake, keyed: LakeTable, tmp_path: Path) -> None:
    snapshot = keyed.snapshots()[0]
    path = tmp_path / "lake" / snapshot.folder / snapshot.files[0].path
    data = path.read_bytes()
    path.unlink()
    with pytest.raises(CorruptTable, match="part-"):
        keyed.export("delta")
    path.write_bytes(data[:4] + b"more" + data[4:])
    with pytest.raises(CorruptTable, match="not the file"):
        keyed.export("iceberg")
    assert not list((tmp_path / "lake/tables/t").glob("_*"))
    path.write_bytes(data)
    keyed.export("delta")
    shutil.rmtree(tmp_path / "lake" / snapshot.folder)
    assert [one.code for one in lake.doctor() if one.code == "export-differs"] == ["export-differs"]
    with pytest.raises(NotSupported, match="no snapshot"):
        open_lake(tmp_path / "lake").table("t").export("delta")


# -- other writers --------------------------------------------------------------------------------------------------------


def test_other_writers_of_delta_are_kept_out_and_found(lake: Lake, keyed: LakeTable, tmp_path: Path) -> None:
    keyed.export("delta")
    root = tmp_path / "lake/tables/t"
    there = deltalake.DeltaTable(str(root))
    with pytest.raises(Exception, match=r"gapless|[Uu]nsupported|feature"):
        deltalake.write_deltalake(str(root), there.to_pyarrow_table(), mode="append")
    # It heeds no features in a vacuum, as the page of lakes says: without full=True it takes files of exports before alone.
    lake.run("t", rows(20, 1))
    assert there.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False) == []
    with pytest.raises(Exception, match=r"gapless|[Uu]nsupported|feature"):
        there.optimize.compact()
    (root / "_delta_log/00000000000000000001.json").write_text('{"commitInfo":{"operation":"WRITE"}}\n')
    with pytest.raises(ForeignCommit) as refused:
        keyed.export("delta")
    assert "--mend" in refused.value.fix
    assert [one.code for one in lake.doctor()] == ["export-differs"]
    assert keyed.export("delta", mend=True).version == 2
    assert lake.doctor() == ()
    assert read(keyed, "delta") == of_snapshot(lake, keyed.snapshots()[0].name)


def test_what_another_writer_made_there_is_left_alone(lake: Lake, keyed: LakeTable, tmp_path: Path) -> None:
    deltalake.write_deltalake(str(tmp_path / "lake/tables/t"), pa.table({"a": [1]}))
    before = {path.name: path.read_bytes() for path in (tmp_path / "lake/tables/t/_delta_log").iterdir()}
    with pytest.raises(ForeignCommit):
        keyed.export("delta")
    assert {path.name: path.read_bytes() for path in (tmp_path / "lake/tables/t/_delta_log").iterdir()} == before
    assert keyed.export("iceberg").changed


def test_an_iceberg_table_that_was_moved_is_described_anew(keyed: LakeTable, tmp_path: Path) -> None:
    keyed.export("iceberg")
    keyed.export("delta")
    shutil.copytree(tmp_path / "lake", tmp_path / "moved")
    (tmp_path / "lake").rename(tmp_path / "gone")
    moved = open_lake(tmp_path / "moved").table("t")
    assert len(read(moved, "delta")) == 12  # its paths are relative
    with pytest.raises(ForeignCommit, match="lies at"):
        moved.export("iceberg")
    moved.export("iceberg", mend=True)
    assert len(read(moved, "iceberg")) == 12


# -- what stays -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format_", FORMATS)
def test_expiry_keeps_what_is_exported_or_was_until_lately(lake: Lake, keyed: LakeTable, format_: str) -> None:
    first = keyed.snapshots()[0].name
    keyed.export(format_)
    for value in (100, 200):
        lake.run("t", rows(0, 3, value))
        keyed.compact()
    told = of_snapshot(lake, first)
    report = keyed.expire(keep_s=-1)
    assert (report.runs, report.snapshots, report.kept, report.waits_for) == (3, 1, (first,), (format_,))
    assert read(keyed, format_) == told
    keyed.export(format_)
    assert keyed.expire(keep_s=0).kept == () or keyed.snapshots()[0].name != first
    assert keyed.expire(keep_s=-1).kept == ()
    assert len(keyed.snapshots()) == 1
    assert read(keyed, format_) == of_snapshot(lake, keyed.snapshots()[0].name)


@pytest.mark.parametrize("format_", FORMATS)
def test_who_reads_the_export_before_has_time_to_end(lake: Lake, keyed: LakeTable, format_: str, tmp_path: Path) -> None:
    first = keyed.snapshots()[0]
    keyed.export(format_)
    lake.run("t", rows(0, 3, 100))
    keyed.compact()
    keyed.export(format_)
    held = exports.held_by_exports(
        exports.table_environment(lake._env, "t"), {one.name: one for one in keyed.snapshots()}, keep_s=3600
    )
    assert first.name in held.snapshots
    held = exports.held_by_exports(
        exports.table_environment(lake._env, "t"), {one.name: one for one in keyed.snapshots()}, keep_s=-1
    )
    assert held.snapshots == {keyed.snapshots()[1].name}


def test_a_description_that_cannot_be_read_keeps_all(lake: Lake, keyed: LakeTable, tmp_path: Path) -> None:
    keyed.export("delta")
    lake.run("t", rows(0, 3, 100))
    keyed.compact()
    (tmp_path / "lake/tables/t/_delta_log/00000000000000000001.json").write_text('{"commitInfo":{"operation":"WRITE"}}\n')
    report = keyed.expire(keep_s=-1)
    assert (report.snapshots, len(report.kept), report.waits_for) == (0, 1, ("delta",))
    shutil.rmtree(tmp_path / "lake/tables/t/_delta_log")
    assert keyed.expire(keep_s=-1).snapshots == 1


def test_a_snapshot_that_others_add_to_stays_with_them(lake: Lake) -> None:
    table = lake.create_table("t")
    for step in range(2):
        lake.run("t", [{"a": step}])
        table.compact(incremental=True)
    table.export("delta")
    lake.run("t", [{"a": 2}])
    table.compact()
    assert len(table.expire(keep_s=-1).kept) == 2
    assert read(table, "delta") == plain([{"a": 0}, {"a": 1}])


# -- deaths and races -----------------------------------------------------------------------------------------------------


class DyingOnDisk(DyingChanges):
    """Iceberg names files by where they lie on the disk."""

    def local_path(self, path: str) -> str | None:  # type: ignore[override]
        return self.inner.local_path(path)


@pytest.mark.parametrize("after", [False, pytest.param(True, marks=pytest.mark.long)], ids=["before", "after"])
@pytest.mark.parametrize("format_", FORMATS)
def test_a_death_at_each_change_of_an_export(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format_: str, after: bool
) -> None:
    """Readers have the export of before or the one of after, and the next export ends what was begun."""
    deaths = 0
    while True:
        root = tmp_path / str(deaths)
        table = (lake := init(root)).create_table("t", key="id")
        for value in (0, 100):
            lake.run("t", rows(0, 3, value))
            table.compact()
        first, second = (one.name for one in table.snapshots())
        table.export(format_, snapshot=first)
        life = Life(dies_at=deaths + 1, after=after)
        with monkeypatch.context() as patched:
            patched.setattr(exports, "open_store", lambda url, options, life=life: DyingOnDisk(open_store(url, options), life))
            try:
                lake.table("t").export(format_)
            except Killed:
                deaths += 1
            else:
                break
        assert read(table, format_) in (of_snapshot(lake, first), of_snapshot(lake, second))
        assert table.expire(keep_s=-1).runs == 2
        assert read(table, format_) in (of_snapshot(lake, second), plain(rows(0, 3)))
        assert table.export(format_).snapshot == second
        assert read(table, format_) == of_snapshot(lake, second)
    assert deaths >= 1


_EXPORTER = """
import sys, gapless as gl
table = gl.lake.open(sys.argv[1]).table("t")
for _ in range(4):
    for format_ in ("delta", "iceberg"):
        print(table.export(format_).changed)
    table.expire(keep_s=-1)
"""


def test_processes_that_export_and_expire_at_once(lake: Lake, keyed: LakeTable, tmp_path: Path) -> None:
    """Each snapshot becomes one version, and no export names a file that an expiry took."""
    command = [sys.executable, "-c", _EXPORTER, str(tmp_path / "lake")]
    others = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for value in range(6):
        lake.run("t", rows(0, 3, value))
        keyed.compact()
    told = [other.communicate(timeout=120)[0].split() for other in others]
    assert [other.returncode for other in others] == [0, 0]
    assert sum(one.count("True") for one in told) >= 2
    for format_ in FORMATS:
        keyed.export(format_)
        assert read(keyed, format_) == of_snapshot(lake, keyed.snapshots()[-1].name)
    versions = [
        json.loads(line)["commitInfo"]["gapless.version"]
        for path in sorted((tmp_path / "lake/tables/t/_delta_log").glob("*.json"))
        for line in path.read_text().splitlines()
        if "commitInfo" in line
    ]
    assert versions == sorted(set(versions))


def test_duckdb_reads_the_files_of_an_export_without_the_lake(keyed: LakeTable, tmp_path: Path) -> None:
    keyed.export("delta")
    dataset = deltalake.DeltaTable(str(tmp_path / "lake/tables/t")).to_pyarrow_dataset()
    with duckdb.connect() as connection:
        connection.register("t", dataset)
        assert connection.sql("SELECT count(*), count(site), sum(v) FROM t").fetchall() == [(12, 10, 66)]
    assert gl.delta.open(str(tmp_path / "lake/tables/t")).scan().count() == 12
