"""Sinks into copy-on-write Hudi tables: keys, partitions, overwrites, file sizes, what is refused, and what the timeline remembers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gapless.connect import CommitInfo, Sink, sink
from gapless.errors import (
    CommitConflict,
    GaplessError,
    InvalidOption,
    InvalidValue,
    NotSupported,
    NullKey,
    SchemaMismatch,
    TableNotFound,
    UnsupportedTable,
    UnsupportedType,
)
from gapless.formats.hudi.instants import parse_completed
from gapless.formats.hudi.properties import decode_properties, encode_properties
from gapless.formats.hudi.table_commits import TableCommit, encode_table_commit
from gapless.tables.hudi import care, changes, commit
from gapless.tables.hudi.commit import under_lock
from gapless.tables.hudi.lock import LOCK_FILE, LOCK_OBJECT
from gapless.tables.hudi.table import HudiTable
from support.hudi_targets import rows as rows_seen

START = datetime(2026, 1, 5, tzinfo=UTC)
SCHEMA = pa.schema([("id", pa.int64()), ("region", pa.string()), ("v", pa.int64()), ("ts", pa.timestamp("us", "UTC"))])
Rows = list[tuple[int, str, int, int]]
"""id, region, v, and hours after the start."""


def table_of(rows: Rows) -> pa.Table:
    ids, regions, values, hours = zip(*rows, strict=True) if rows else ((), (), (), ())
    times = [START + timedelta(hours=one) for one in hours]
    return pa.table({"id": ids, "region": regions, "v": values, "ts": times}, schema=SCHEMA)


def started(place: Path, mode: str, *, name: str = "main", schema: pa.Schema = SCHEMA, **options: Any) -> Sink:
    into = sink(f"hudi:{place}", pipeline="orders", name=name, mode=mode, **options)
    into.initialize(schema)
    return into


def sent(into: Sink, number: int, rows: Rows) -> CommitInfo:
    into.write(table_of(rows))
    return into.finalize(into.prepare(number))


def seen(place: Path) -> set[tuple[int, str, int]]:
    """As hudi-rs reads them."""
    found = [(row["id"], row["region"], row["v"]) for row in rows_seen(place)]
    assert len(set(found)) == len(found)
    return set(found)


def made(place: Path, **create: Any) -> Sink:
    return started(place, "upsert", key="id", create={"partition_by": "region", **create})


def live(place: Path) -> list[str]:
    table = HudiTable.open(str(place))
    return [one.path for one in table.state.live(table.timeline.files())]


# -- changes -------------------------------------------------------------------------------------------------------------


def test_the_newest_row_of_a_key_stands_whatever_partition_it_comes_to(tmp_path: Path) -> None:
    into = started(tmp_path, "upsert", key="id", order_by="ts", create={"partition_by": "region"})
    sent(into, 1, [(1, "us", 10, 1), (2, "us", 20, 1), (3, "eu", 30, 1)])
    info = sent(into, 2, [(1, "eu", 11, 2), (2, "us", 19, 0), (4, "eu", 40, 2)])
    assert seen(tmp_path) == {(1, "eu", 11), (2, "us", 20), (3, "eu", 30), (4, "eu", 40)}
    assert info.late_rows == 1
    properties = decode_properties((tmp_path / ".hoodie/hoodie.properties").read_bytes())
    assert properties["hoodie.table.recordkey.fields"] == "id"
    assert properties["hoodie.table.ordering.fields"] == "ts"
    # What nobody changed says still when it was written: incremental queries give only changes.
    times = {
        row["id"]: row["_hoodie_commit_time"]
        for path in live(tmp_path)
        for row in pq.read_table(tmp_path / path, partitioning=None).to_pylist()
    }
    assert times[3] < times[1] == times[4]
    # And a table's own order counts where the sink names none.
    other = started(tmp_path, "upsert", name="other")
    assert sent(other, 1, [(1, "us", 0, 0)]).late_rows == 1


def test_with_the_partition_in_the_key_rows_of_one_id_are_different_ones(tmp_path: Path) -> None:
    sent(made(tmp_path), 1, [(1, "us", 10, 0)])
    scoped = started(tmp_path, "upsert", name="scoped", key=["id", "region"])
    sent(scoped, 1, [(1, "eu", 11, 0)])
    assert seen(tmp_path) == {(1, "us", 10), (1, "eu", 11)}
    gone = started(tmp_path, "delete", name="gone", key=["id", "region"])
    sent(gone, 1, [(1, "us", 0, 0)])
    assert seen(tmp_path) == {(1, "eu", 11)}


def test_overwrites_take_the_place_of_all_or_of_partitions(tmp_path: Path) -> None:
    sent(made(tmp_path), 1, [(1, "us", 10, 0), (2, "eu", 20, 0)])
    parts = started(tmp_path, "overwrite", name="parts", partition_overwrite="dynamic")
    sent(parts, 1, [(3, "us", 30, 0)])
    assert seen(tmp_path) == {(3, "us", 30), (2, "eu", 20)}
    sent(parts, 2, [])
    assert len(seen(tmp_path)) == 2
    whole = started(tmp_path, "overwrite", name="whole", on_empty="clear")
    sent(whole, 1, [(4, "eu", 40, 0)])
    assert seen(tmp_path) == {(4, "eu", 40)}
    sent(whole, 2, [])
    assert seen(tmp_path) == set()


def test_changes_say_what_happened_to_each_row(tmp_path: Path) -> None:
    into = sink(f"hudi:{tmp_path}", pipeline="p", mode="cdc", key="id", create={}, change_type="op")
    first = table_of([(1, "us", 1, 0), (2, "us", 2, 0), (3, "us", 3, 0)])
    into.initialize(first.append_column("op", pa.array(["insert"] * 3)).schema)
    into.write(first.append_column("op", pa.array(["insert"] * 3)))
    into.finalize(into.prepare(1))
    second = table_of([(1, "us", 10, 0), (2, "us", 0, 0), (4, "us", 4, 0), (4, "us", 5, 0)])
    into.write(second.append_column("op", pa.array(["update_postimage", "delete", "insert", "update_postimage"])))
    into.finalize(into.prepare(2))
    assert seen(tmp_path) == {(1, "us", 10), (3, "us", 3), (4, "us", 5)}


def test_small_files_are_grown_and_full_ones_left_alone(tmp_path: Path) -> None:
    into = started(tmp_path, "append", create={})
    for number in range(3):
        sent(into, number, [(number, "us", number, 0)])
    assert len(live(tmp_path)) == 1
    full = started(tmp_path, "append", name="full", target_bytes=1000)
    before = live(tmp_path)
    sent(full, 1, [(n, "us", n, 0) for n in range(10, 60)])
    assert set(before) < set(live(tmp_path))
    assert len(live(tmp_path)) > 2
    assert {row[0] for row in seen(tmp_path)} == {0, 1, 2, *range(10, 60)}


def test_columns_are_added_and_widened_where_readers_follow(tmp_path: Path) -> None:
    narrow = pa.schema([("id", pa.int64()), ("n", pa.int32())])
    into = started(tmp_path, "upsert", key="id", create={}, schema=narrow)
    into.write(pa.table({"id": [1], "n": [1]}, schema=narrow))
    into.finalize(into.prepare(1))
    wide = pa.schema([("id", pa.int64()), ("n", pa.int64()), ("note", pa.string())])
    with pytest.raises(SchemaMismatch, match="note"):
        started(tmp_path, "upsert", schema=wide, name="b")
    grown = started(tmp_path, "upsert", schema=wide, name="c", schema_evolution="widen")
    grown.write(pa.table({"id": [2], "n": [2**40], "note": ["x"]}, schema=wide))
    grown.finalize(grown.prepare(1))
    assert sorted(map(str, rows_seen(tmp_path))) == sorted(
        map(str, [{"id": 1, "n": 1, "note": None}, {"id": 2, "n": 2**40, "note": "x"}])
    )


# -- what is refused -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "error", "says"),
    [
        ({"hoodie.table.type": "MERGE_ON_READ"}, NotSupported, "MERGE_ON_READ"),
        ({"hoodie.table.version": "6"}, UnsupportedTable, "table version 6"),
        ({"hoodie.populate.meta.fields": "false"}, NotSupported, "populate.meta.fields"),
        ({"hoodie.table.cdc.enabled": "true"}, NotSupported, "cdc.enabled"),
        ({"hoodie.table.keygenerator.type": "TIMESTAMP"}, NotSupported, "TIMESTAMP"),
        ({"hoodie.datasource.write.drop.partition.columns": "true"}, NotSupported, "drop.partition"),
    ],
)
def test_tables_that_it_cannot_write_are_refused_by_name(
    found: Mapping[str, str], error: type[GaplessError], says: str, tmp_path: Path
) -> None:
    made(tmp_path)
    path = tmp_path / ".hoodie/hoodie.properties"
    path.write_bytes(encode_properties({**decode_properties(path.read_bytes()), **found}))
    with pytest.raises(error, match=says):
        started(tmp_path, "append")


def test_options_and_keys_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    for options, says in (
        ({"mode": "append", "keys": "id"}, "keys"),
        ({"mode": "append", "create": {"partitionby": "region"}}, "partition_by"),
        ({"mode": "overwrite", "partition_overwrite": "dynamics"}, "dynamic"),
        ({"mode": "append", "key": "id"}, "key"),
    ):
        with pytest.raises(InvalidOption, match=says):
            sink(f"hudi:{tmp_path}", pipeline="p", **options)
    with pytest.raises(TableNotFound, match="no Hudi table"):
        started(tmp_path, "append")
    with pytest.raises(UnsupportedType, match="differ from writer to writer"):
        started(tmp_path, "upsert", key="f", create={}, schema=pa.schema([("f", pa.float64())]))
    made(tmp_path)
    for key, mode in ((["v"], "upsert"), ("*", "cdc"), (["region"], "delete")):
        with pytest.raises((InvalidOption, SchemaMismatch)):
            started(
                tmp_path,
                mode,
                key=key,
                schema=SCHEMA.append(pa.field("_change_type", pa.string())) if mode == "cdc" else SCHEMA,
            )


def test_rows_that_hudi_could_not_hold_are_refused_when_they_are_written(tmp_path: Path) -> None:
    into = made(tmp_path)
    for row, error in (((None, "us", 1, 0), NullKey), ((1, "a/b", 1, 0), InvalidValue)):
        with pytest.raises(error):
            into.write(table_of([row]))  # type: ignore[list-item]  # a null
    lists = pa.schema([("id", pa.int64()), ("l", pa.list_(pa.int64()))])
    other = started(tmp_path / "lists", "append", create={}, schema=lists)
    with pytest.raises(InvalidValue, match="null in row 1"):
        other.write(pa.table({"id": [1, 2], "l": [[1], [None]]}, schema=lists))


def test_partition_values_are_escaped_where_the_table_says_so(tmp_path: Path) -> None:
    into = started(tmp_path, "append", create={"partition_by": "region", "url_encode": True, "hive_style": False})
    sent(into, 1, [(1, "a/b", 1, 0), (2, "", 2, 0), (3, "c d", 3, 0)])
    folders = {path.rpartition("/")[0] for path in live(tmp_path)}
    assert folders == {"a%2Fb", "__HIVE_DEFAULT_PARTITION__", "c d"}


def test_a_table_may_be_called_by_what_is_no_name_in_avro(tmp_path: Path) -> None:
    place = tmp_path / "4 trips-é"
    sent(started(place, "append", create={"table_name": "4 trips-x"}), 1, [(1, "us", 1, 0)])
    assert seen(place) == {(1, "us", 1)}


def test_a_sink_shows_no_secrets(tmp_path: Path) -> None:
    into = sink("hudi:s3://bucket/t", pipeline="p", storage_options={"secret_access_key": "hush"})
    assert "hush" not in repr(into)
    assert "hudi:s3://bucket/t" in repr(into)


# -- the timeline --------------------------------------------------------------------------------------------------------


def test_the_timeline_is_cleaned_and_archived_and_marks_are_not_forgotten(tmp_path: Path) -> None:
    early = made(tmp_path)
    sent(early, 7, [(1000, "us", 0, 0)])
    into = started(tmp_path, "upsert", name="many")
    for number in range(45):
        sent(into, number, [(number % 5, "us", number, 0)])
    commits = [
        one
        for path in (tmp_path / ".hoodie/timeline").iterdir()
        if (one := parse_completed(path.name)) is not None and one.is_commit
    ]
    assert care.MIN_INSTANTS <= len(commits) <= care.MAX_INSTANTS
    files = list((tmp_path / "region=us").glob("*.parquet"))
    assert len(files) <= care.MAX_INSTANTS + 1
    history = list((tmp_path / ".hoodie/timeline/history").glob("*.parquet"))
    archived = [row for path in history for row in pq.read_table(path).to_pylist()]
    requested = [row["instantTime"] for row in archived]
    assert len(requested) == len(set(requested)) > 10
    assert early.last_committed() == 7
    assert seen(tmp_path) == {(1000, "us", 0), *((n % 5, "us", n) for n in range(40, 45))}


def test_marks_are_found_in_the_archive_where_hudi_put_all_our_commits_there(tmp_path: Path) -> None:
    into = made(tmp_path)
    info = sent(into, 5, [(1, "us", 1, 0)])
    table = HudiTable.open(str(tmp_path))
    for number in range(3):
        # As of another writer: without our marks.
        told = encode_table_commit(TableCommit(operation="INSERT", schema=table.state.schema_text))
        (tmp_path / f".hoodie/timeline/2099010100000000{number}_2099010100000010{number}.commit").write_bytes(told)
    for path in tmp_path.rglob("*.parquet"):
        assert path.name[-25:-8] == str(info.version)
    moved = under_lock(table.timeline, lambda lock, state: care.archived(table.timeline, state, lock, 2))
    assert moved >= 2
    assert started(tmp_path, "upsert").last_committed() == 5
    again = started(tmp_path, "upsert")
    again.write(table_of([(9, "us", 9, 0)]))
    with pytest.warns(match="not new to the table"):
        prepared = again.prepare(5)
    assert again.finalize(prepared).already_committed
    assert seen(tmp_path) == {(1, "us", 1)}


def test_the_instant_of_a_writer_that_does_not_lock_is_not_passed(tmp_path: Path) -> None:
    into = made(tmp_path)
    sent(into, 1, [(1, "us", 1, 0)])
    pending = tmp_path / ".hoodie/timeline/20260105000000000.commit.requested"
    pending.touch()
    into.write(table_of([(2, "us", 2, 0)]))
    prepared = into.prepare(2)
    with pytest.raises(CommitConflict, match="20260105000000000 of the Hudi table"):
        into.finalize(prepared)
    heart = tmp_path / ".hoodie/.heartbeat/20260105000000000"
    heart.parent.mkdir()
    heart.touch()
    into.finalize(prepared)
    assert seen(tmp_path) == {(1, "us", 1), (2, "us", 2)}


def test_hudis_metadata_table_is_taken_away_before_a_commit_it_would_not_know(tmp_path: Path) -> None:
    into = made(tmp_path)
    path = tmp_path / ".hoodie/hoodie.properties"
    path.write_bytes(path.read_bytes() + b"hoodie.table.metadata.partitions=files\n")
    (tmp_path / ".hoodie/.hoodie.properties.crc").write_bytes(b"crc")
    (tmp_path / ".hoodie/metadata/files").mkdir(parents=True)
    (tmp_path / ".hoodie/metadata/files/x").touch()
    sent(into, 1, [(1, "us", 1, 0)])
    assert "hoodie.table.metadata.partitions" not in decode_properties(path.read_bytes())
    assert not (tmp_path / ".hoodie/.hoodie.properties.crc").exists()
    assert not [one for one in (tmp_path / ".hoodie/metadata").rglob("*") if one.is_file()]


# -- several writers -----------------------------------------------------------------------------------------------------

WRITER = """
import sys
import pyarrow as pa
from gapless.connect import sink
place, name = sys.argv[1:]
schema = pa.schema([("id", pa.int64()), ("region", pa.string()), ("v", pa.int64()), ("ts", pa.timestamp("us", "UTC"))])
into = sink(f"hudi:{place}", pipeline=name, mode="upsert")
into.initialize(schema)
for number in range(8):
    ids = [int(name) * 100 + number, 7]
    into.write(pa.table({"id": ids, "region": ["us", "us"], "v": ids, "ts": [None, None]}, schema=schema))
    into.finalize(into.prepare(number))
"""


def test_processes_that_write_one_table_lose_nothing(tmp_path: Path) -> None:
    made(tmp_path)
    runs = [subprocess.Popen([sys.executable, "-c", WRITER, tmp_path, str(name)]) for name in (1, 2, 3)]
    assert [run.wait() for run in runs] == [0, 0, 0]
    wanted = {name * 100 + number for name in (1, 2, 3) for number in range(8)}
    assert {row[0] for row in seen(tmp_path)} == wanted | {7}
    assert not (tmp_path / LOCK_FILE).exists()


def test_a_writer_that_stood_still_and_lost_the_lock_decides_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    into, other = made(tmp_path), started(tmp_path, "upsert", name="other")
    decided: list[str] = []
    change_rows = changes.change_rows

    def standing_still(base: Any, *given: Any) -> Any:
        found = change_rows(base, *given)
        decided.append(base.writer.instant)
        if len(decided) == 1:
            # Meanwhile its lock runs out, and another writer commits.
            (tmp_path / LOCK_OBJECT).write_text('{"owner": "gapless:x", "validUntil": 0, "expired": false}')
            (tmp_path / LOCK_FILE).unlink()
            sent(other, 1, [(1, "us", 100, 0)])
        return found

    monkeypatch.setattr("gapless.connect.sinks.table.hudi_table.change_rows", standing_still)
    info = sent(into, 1, [(1, "us", 1, 0), (2, "us", 2, 0)])
    assert len(decided) == 3
    assert str(info.version) == decided[2] > decided[1]
    assert seen(tmp_path) == {(1, "us", 1), (2, "us", 2)}
    assert not list(tmp_path.rglob(f"*{decided[0]}*"))


def test_who_comes_next_completes_a_claimed_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    into, other = made(tmp_path), started(tmp_path, "upsert", name="other")

    def dies(*_given: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(commit, "complete", dies)
        into.write(table_of([(1, "us", 1, 0)]))
        prepared = into.prepare(1)
        with pytest.raises(KeyboardInterrupt):
            into.finalize(prepared)
    assert seen(tmp_path) == set()
    sent(other, 1, [(2, "us", 2, 0)])
    assert seen(tmp_path) == {(1, "us", 1), (2, "us", 2)}
    assert into.finalize(prepared).already_committed
    assert into.last_committed() == 1


def test_another_writers_lock_is_waited_for(tmp_path: Path) -> None:
    into = made(tmp_path)
    (tmp_path / LOCK_FILE).write_text('{"lockThreadName": "hudi"}')
    into.write(table_of([(1, "us", 1, 0)]))
    prepared = into.prepare(1)
    table = HudiTable.open(str(tmp_path))
    assert table.known(prepared.operation, "upsert") is None
    release = subprocess.Popen(
        [sys.executable, "-c", f"import os, time; time.sleep(1.5); os.remove({str(tmp_path / LOCK_FILE)!r})"]
    )
    into.finalize(prepared)
    assert release.wait() == 0
    assert seen(tmp_path) == {(1, "us", 1)}


def test_rows_that_a_dead_writer_staged_go_after_a_day_and_those_of_a_document_stay(tmp_path: Path) -> None:
    into = started(tmp_path, "append", create={})
    into.write(table_of([(1, "eu", 1, 1)]))
    prepared = into.prepare(1)
    folder = tmp_path / ".hoodie" / "gapless" / prepared.path.rpartition("/")[0]
    named = {tmp_path / ".hoodie" / "gapless" / path for path in (prepared.path, *prepared.data_files)}
    old, young = folder / "rows-old.parquet", folder / "rows-young.parquet"
    for path in (old, young):
        path.write_bytes(b"rows")
    for path in (old, *named):
        os.utime(path, (START.timestamp(),) * 2)
    other = started(tmp_path, "append", name="other")
    assert {*folder.iterdir()} == {*named, young}
    sent(other, 1, [(2, "eu", 2, 2)])
    into.finalize(prepared)
    assert seen(tmp_path) == {(1, "eu", 1), (2, "eu", 2)}
