"""A log of change records: producers and consumers, in several processes, killed, and what a read costs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import deltalake
import pytest

import gapless as gl
from gapless.cdc import ChangeLog, ChangeSource, CheckpointOffsets, DeltaOffsets, MemoryOffsets, Offsets, Record, subscribe
from gapless.connect import CheckpointStore
from gapless.errors import (
    CommitConflict,
    CorruptTable,
    InvalidFilter,
    InvalidOption,
    InvalidTime,
    UnsupportedTable,
    VersionNotFound,
)
from gapless.runtime.environment import Environment
from gapless.tables.delta.lifecycle import open_table
from gapless.tables.delta.table import DeltaTable
from support.counting_store import CountingStore

SOURCE = ChangeSource(system="mysql", database="shop", collection="orders", server_id="7")
OFFSETS = ("memory", "delta", "checkpoints")


def offsets(kind: str, changes: ChangeLog, place: Path) -> Offsets:
    if kind == "delta":
        return DeltaOffsets(changes.table)
    return MemoryOffsets() if kind == "memory" else CheckpointOffsets(CheckpointStore(place / "offsets"))


def ids(records: list[Record]) -> list[Any]:
    return [one._id for one in records]


def filled(place: Path, commits: int = 4, each: int = 3) -> ChangeLog:
    changes = gl.cdc.log(place / "log")
    producer = changes.producer(SOURCE)
    for commit in range(commits):
        producer.emit([change(commit * each + row) for row in range(each)])
    return changes


def change(number: int, operation: str = "c") -> Record:
    after = None if operation == "d" else {"n": number, "wide": 2**53 + number}
    return Record(_id=number, _seq=(1, number), _op=operation, _after=after, _ts=number, _source=SOURCE, _txn="t")


def test_records_come_back_in_commit_order_with_their_place_in_the_log(tmp_path: Path) -> None:
    changes = gl.cdc.log(tmp_path / "log")
    producer = changes.producer({"system": "app", "collection": "users"})
    producer.create({"a": 1, "b": "x"}, {"v": 2**63}, ts=5, txn="t1")
    producer.update(2, {"v": 1}, before={"v": None})
    producer.delete("x", before={"v": 1.5})
    producer.delete("y")
    producer.snapshot([(n, {"v": n}) for n in range(3)])
    found = subscribe(changes).poll()
    assert [(one._op, one._id, one._before, one._after) for one in found] == [
        ("c", {"a": 1, "b": "x"}, None, {"v": 2**63}),
        ("u", 2, {"v": None}, {"v": 1}),
        ("d", "x", {"v": 1.5}, None),
        ("d", "y", None, None),
        *(("r", n, None, {"v": n}) for n in range(3)),
    ]
    assert (found[0]._ts, found[0]._txn, found[0]._source.collection) == (5, "t1", "users")
    assert [one._seq for one in found] == [
        version << 24 | row for version, row in [(1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (5, 1), (5, 2)]
    ]
    # Another reader finds the same rows, and the order that their source gave them.
    producer.emit(change(9))
    rows = deltalake.DeltaTable(tmp_path / "log").to_pyarrow_table().to_pylist()
    (row,) = (one for one in rows if one["_id"] == "9")
    assert (row["_source"]["system"], json.loads(row["_source_seq"]), json.loads(row["_after"])["wide"]) == (
        "mysql",
        [1, 9],
        2**53 + 9,
    )


def test_an_operation_id_adds_records_once_and_wrong_calls_are_refused(tmp_path: Path) -> None:
    changes = gl.cdc.log(tmp_path / "log")
    producer = changes.producer()
    for _ in range(2):
        producer.emit([change(1), change(2)], operation_id=("orders", 7))
    assert ids(subscribe(changes).poll()) == [1, 2]
    with pytest.raises(InvalidOption):
        producer.emit([{"_id": 1}])  # type: ignore[list-item]  # what a test is about
    gl.delta.create(tmp_path / "other", changes.table.schema)
    with pytest.raises(UnsupportedTable):
        gl.cdc.log(tmp_path / "other")


@pytest.mark.parametrize("kind", OFFSETS)
def test_a_group_goes_on_where_it_saved(kind: str, tmp_path: Path) -> None:
    changes = filled(tmp_path)
    where = offsets(kind, changes, tmp_path)
    first = subscribe(changes, group="a", offsets=where)
    assert ids(first.poll(5)) == [0, 1, 2, 3, 4]
    first.commit()
    assert ids(first.poll(2)) == [5, 6]
    again = offsets(kind, changes, tmp_path) if kind != "memory" else where
    second = subscribe(changes, group="a", offsets=again)
    assert ids(second.poll()) == list(range(5, 12))
    second.commit()
    version = changes.table.refresh().version
    assert second.poll() == []
    second.commit()  # no record was passed, nothing is saved
    assert changes.table.refresh().version == version
    second.reset()
    assert ids(second.poll(1)) == [0]
    second.commit()
    third = subscribe(changes, group="a", offsets=offsets(kind, changes, tmp_path) if kind != "memory" else where)
    assert ids(third.poll()) == list(range(1, 12))
    third.seek((2 << 24) + 1)
    assert ids(third.poll(3)) == [4, 5, 6]
    if kind == "checkpoints":
        second.poll()
        with pytest.raises(CommitConflict):
            second.commit()
    else:
        assert subscribe(changes, group="b", offsets=where).position == 0


@pytest.mark.parametrize("kind", OFFSETS)
def test_records_that_are_left_out_move_the_place(kind: str, tmp_path: Path) -> None:
    changes = filled(tmp_path, commits=2)
    changes.producer().emit([change(6, "d"), change(7, "d"), change(8)])
    where = offsets(kind, changes, tmp_path)
    consumer = subscribe(changes, offsets=where, operations=("d",), where=lambda one: one._id == 6)
    assert ids(consumer.poll()) == [6]
    consumer.commit()
    place = subscribe(changes, offsets=where).position
    assert place > (3 << 24) + 2
    nothing = subscribe(
        changes, group="none", offsets=where if kind != "checkpoints" else MemoryOffsets(), where=lambda _: False
    )
    assert nothing.poll() == []
    assert nothing.position >= place


def test_records_are_chosen_by_a_filter_of_mongodbs(tmp_path: Path) -> None:
    changes = filled(tmp_path)
    for filter_, wanted in (
        ({"_after.n": {"$gte": 10}}, [10, 11]),
        ({"_id": 3, "_source.system": "mysql"}, [3]),
        ({"_after.wide": 2**53 + 5}, [5]),
        ({"_op": "d"}, []),
    ):
        assert ids(subscribe(changes, where=filter_).poll()) == wanted, filter_
    with pytest.raises(InvalidFilter):
        subscribe(changes, where={"_after.n": {"$gtt": 1}})


def test_auto_commit_saves_with_the_next_poll(tmp_path: Path) -> None:
    changes, where = filled(tmp_path), MemoryOffsets()
    consumer = subscribe(changes, offsets=where, auto_commit=True)
    consumer.poll(4)
    assert where.load("default") is None
    consumer.poll(4)
    assert where.load("default") == (2 << 24) + 1


def test_an_error_of_a_filter_leaves_the_place(tmp_path: Path) -> None:
    changes, calls = filled(tmp_path), []

    def fails_once(record: Record) -> bool:
        calls.append(record._id)
        if calls == [0, 1, 2, 3]:
            raise RuntimeError
        return True

    consumer = subscribe(changes, where=fails_once)
    with pytest.raises(RuntimeError):
        consumer.poll()
    assert ids(consumer.poll()) == list(range(12))


def test_a_handler_that_fails_gets_its_record_again_and_those_before_it_are_not_lost_by_a_commit(tmp_path: Path) -> None:
    changes, where, handled = filled(tmp_path), MemoryOffsets(), []

    def handle(record: Record) -> None:
        if record._id == 5 and -1 not in handled:
            handled.append(-1)
            raise RuntimeError
        handled.append(record._id)

    consumer = subscribe(changes, offsets=where)
    with pytest.raises(RuntimeError):
        consumer.run(handle)
    consumer.commit()
    assert subscribe(changes, offsets=where).poll(1)[0]._id == 5
    assert consumer.run(handle) == 7
    assert handled == [*range(5), -1, *range(5, 12)]
    with pytest.raises(InvalidOption):
        consumer.run(handle, limit=0)


def test_a_consumer_begins_at_a_time_or_place_and_refuses_what_is_none(tmp_path: Path) -> None:
    changes = filled(tmp_path)
    time = next(one.time for one in changes.table.history() if one.version == 3)
    assert ids(subscribe(changes, from_time=time).poll())[-6:] == list(range(6, 12))
    assert ids(subscribe(changes, from_seq=(4 << 24) + 2).poll()) == [11]
    consumer = subscribe(changes)
    consumer.seek_to_time(time)
    assert ids(consumer.poll())[-6:] == list(range(6, 12))
    for wrong, error in (
        ({"operations": ("x",)}, InvalidOption),
        ({"from_seq": -1}, InvalidOption),
        ({"from_seq": 9 << 24}, VersionNotFound),
        ({"from_seq": 1, "from_time": time}, InvalidOption),
        ({"from_time": "2999-01-01T00:00:00Z"}, InvalidTime),
        ({"group": ""}, InvalidOption),
    ):
        with pytest.raises(error):
            subscribe(changes, **wrong)
    with pytest.raises(InvalidOption):
        consumer.poll(0)


def test_a_compaction_gives_nothing_again(tmp_path: Path) -> None:
    changes = filled(tmp_path)
    consumer = subscribe(changes)
    assert len(consumer.poll()) == 12
    changes.table.compact()
    assert consumer.poll() == []
    changes.producer().emit(change(12))
    assert ids(consumer.poll()) == [12]
    assert len(subscribe(changes).poll()) == 13


def test_a_saved_place_is_read_from_without_the_files_before_it(tmp_path: Path) -> None:
    changes = filled(tmp_path)
    consumer = subscribe(changes, offsets=DeltaOffsets(changes.table))
    consumer.poll()
    consumer.commit()
    for file in (tmp_path / "log").glob("*.parquet"):
        file.unlink()
    changes.producer().emit([change(12), change(13)])
    again = subscribe(changes, offsets=DeltaOffsets(changes.table))
    assert ids(again.poll()) == [12, 13]
    with pytest.raises(CorruptTable):
        subscribe(changes).poll()


class FarStore(CountingStore):
    """A disk that says that it is far away, so that each read is counted."""

    def local_path(self, path: str) -> None:
        return None


def test_what_a_read_opens_is_what_changed(tmp_path: Path) -> None:
    changes = filled(tmp_path, commits=12)
    saved = subscribe(changes)
    saved.poll()
    changes.producer().emit([change(36), change(37)])
    store = FarStore(changes.table.url)
    env = Environment(store=store)
    followed = ChangeLog(DeltaTable(env, changes.table.url, open_table(env, changes.table.url)))
    store.forget()
    consumer = subscribe(followed, from_seq=saved.position)
    assert ids(consumer.poll()) == [36, 37]
    assert len([path for path in store.reads if path.endswith(".parquet")]) == 1
    store.forget()
    assert consumer.poll() == []
    assert [path for path in store.reads if path.endswith(".parquet")] == []
    assert len(subscribe(followed).poll()) == 38
    assert len([path for path in store.reads if path.endswith(".parquet")]) == 13


CONSUMER = """
import os, signal, sys
import gapless as gl
from gapless.connect import CheckpointStore
place, kind, kill_at = sys.argv[1], sys.argv[2], int(sys.argv[3])
log = gl.cdc.log(f"{place}/log", create=False)
offsets = gl.cdc.DeltaOffsets(log.table) if kind == "delta" else gl.cdc.CheckpointOffsets(CheckpointStore(f"{place}/offsets"))
def handle(record):
    with open(f"{place}/handled", "a") as out:
        out.write(f"{record._id}\\n")
    if record._id == kill_at:
        os.kill(os.getpid(), signal.SIGKILL)
gl.cdc.subscribe(log, group="g", offsets=offsets).run(handle, limit=4)
"""


@pytest.mark.parametrize("kind", ["delta", "checkpoints"])
def test_a_process_that_is_killed_after_its_handler_and_before_the_commit_gets_the_records_again(
    kind: str, tmp_path: Path
) -> None:
    filled(tmp_path)

    def consume(kill_at: int) -> int:
        return subprocess.run([sys.executable, "-c", CONSUMER, tmp_path, kind, str(kill_at)], check=False).returncode

    assert consume(5) == -signal.SIGKILL
    assert consume(-1) == 0
    handled = [int(line) for line in (tmp_path / "handled").read_text().split()]
    assert handled == [*range(6), *range(4, 12)]


PRODUCER = """
import sys
import gapless as gl
producer = gl.cdc.log(sys.argv[1]).producer({"system": "app"})
for number in range(6):
    producer.emit([gl.cdc.Record(_id=[sys.argv[2], number, row], _seq=0, _op="c", _after={}, _ts=0, _source={"system": "app"}) for row in range(2)])
"""


def test_producers_in_several_processes_share_no_place_and_a_consumer_gets_each_record_once(tmp_path: Path) -> None:
    place = tmp_path / "log"
    changes = gl.cdc.log(place)
    running = [subprocess.Popen([sys.executable, "-c", PRODUCER, place, name]) for name in "ab"]
    consumer, found = subscribe(changes), []
    while any(one.poll() is None for one in running):
        found += consumer.poll()
    found += consumer.poll()
    assert [one.returncode for one in running] == [0, 0]
    places = [one.order for one in found]
    assert places == sorted(set(places))
    for name in "ab":
        assert [one._id for one in found if one._id[0] == name] == [
            [name, number, row] for number in range(6) for row in range(2)
        ]
    assert found == subscribe(changes).poll()
