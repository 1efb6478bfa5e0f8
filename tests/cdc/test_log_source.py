"""Logs of change records and messages of Debezium and MongoDB as sources of pipelines, killed on the way."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gapless as gl
from gapless.cdc import Record, envelope_rows, subscribe, to_debezium
from gapless.connect import CheckpointStore, Runner, Source, sink, source
from gapless.errors import (
    InvalidOption,
    InvalidRecord,
    InvalidTime,
    NullKey,
    RetractingInput,
    SchemaMismatch,
    TableNotFound,
    UnknownColumn,
    VersionNotFound,
)
from gapless.testing import SourceContract
from gapless.testing.connect.rows import SCHEMA as CONTRACT_SCHEMA
from gapless.testing.connect.rows import numbered
from support.record_histories import SOURCE, told

if TYPE_CHECKING:
    from support.kafka import Cluster

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])
FED = {"delta.enableChangeDataFeed": "true"}


def change(number: int, key: int, *, gone: bool = False) -> Record:
    after = None if gone else {"id": key, "v": number}
    return Record(_id=key, _seq=number, _op="d" if gone else "u", _after=after, _ts=number, _source=SOURCE)


class TestLogSource(SourceContract):
    """A log is held to the contract of sources."""

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.place = tmp_path / "log"
        gl.cdc.log(self.place)

    def make_source(self) -> Source:
        return source(f"cdc:{self.place}", schema=CONTRACT_SCHEMA, key="id", collection="things")

    def feed(self, first: int, count: int) -> None:
        rows = numbered(first, count).to_pylist()
        found = [
            Record(_id=row["id"], _seq=0, _op="c", _after=row | {"ts": row["ts"].isoformat()}, _ts=0, _source=SOURCE)
            for row in rows
        ]
        other = Record(_id=1, _seq=0, _op="c", _after={}, _ts=0, _source={"system": "x", "collection": "other"})  # type: ignore[arg-type]
        gl.cdc.log(self.place).producer().emit([one for record in found for one in (other, record)])


def test_a_source_begins_where_it_is_asked_to(tmp_path: Path) -> None:
    producer = (changes := gl.cdc.log(tmp_path / "log")).producer()
    producer.emit([change(n, n) for n in range(3)])
    second = [one._seq for one in subscribe(changes).poll()][1]

    def read(**options: Any) -> list[tuple[Any, Any]]:
        found = source(f"cdc:{tmp_path}/log", schema=SCHEMA, key="id", **options)
        found.start()
        producer.emit([change(9, 9, gone=True)])
        rows = [row for batch in found.poll() for row in batch.to_pylist()]
        return [(row["id"], row["_change_type"]) for row in rows]

    assert read(start="latest") == [(9, "delete")]
    assert read(start=second)[:3] == [(1, "update_postimage"), (2, "update_postimage"), (9, "delete")]
    assert read(start="2020-01-01T00:00:00Z")[0] == (0, "update_postimage")
    assert set(read(operations=["d"])) == {(9, "delete")}
    assert read(collection="other") == []


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({}, InvalidOption),
        ({"schema": SCHEMA}, InvalidOption),
        ({"schema": "id", "key": "id"}, InvalidOption),
        ({"schema": SCHEMA, "key": "x"}, UnknownColumn),
        ({"schema": SCHEMA, "key": "id", "start": "nowhere"}, InvalidOption),
        ({"schema": SCHEMA, "key": "id", "start": "2999-01-01T00:00:00Z"}, InvalidTime),
        ({"schema": SCHEMA, "key": "id", "operations": ["x"]}, InvalidOption),
        ({"schema": SCHEMA, "key": "id", "strat": 1}, InvalidOption),
    ],
)
def test_wrong_calls_of_a_source(options: dict[str, Any], error: type[Exception], tmp_path: Path) -> None:
    gl.cdc.log(tmp_path / "log")
    with pytest.raises(error):
        source(f"cdc:{tmp_path}/log", **options)


def test_places_and_tables_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(TableNotFound):
        source(f"cdc:{tmp_path}/log", schema=SCHEMA, key="id")
    gl.cdc.log(tmp_path / "log")
    with pytest.raises(VersionNotFound):
        source(f"cdc:{tmp_path}/log", schema=SCHEMA, key="id", start=9 << 24).start()
    gl.delta.create(tmp_path / "t", SCHEMA)
    into = sink(f"delta:{tmp_path}/t", pipeline="p", mode="append")
    store = CheckpointStore(tmp_path / "checkpoints")
    with pytest.raises(RetractingInput):
        Runner(source(f"cdc:{tmp_path}/log", schema=SCHEMA, key="id"), None, {"main": into}, store).run()


# -- killed ------------------------------------------------------------------------------------------------------------

KILLING = """
import os, signal, sys
import gapless as gl
from gapless.connect import CheckpointStore, Runner, sink, source
place, kill_at = sys.argv[1], int(sys.argv[2])
calls = [0]
def counted(inner, after):
    def call(*given, **named):
        found = inner(*given, **named) if after else None
        calls[0] += 1
        if calls[0] == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return found if after else inner(*given, **named)
    return call
def killed(into):
    store = CheckpointStore(f"{place}/checkpoints")
    into.prepare, into.finalize = counted(into.prepare, True), counted(into.finalize, True)
    store.record, store.decide, store.finish = counted(store.record, False), counted(store.decide, True), counted(store.finish, False)
    return {"main": into}, store
"""
"""A sink and a store that kill the process at one of their calls."""
RUN = (
    KILLING
    + """
table = gl.delta.open(f"{place}/t")
into, store = killed(sink(f"delta:{place}/t", pipeline="p", name="main", mode="cdc", key="id"))
Runner(source(f"cdc:{place}/log", schema=table.schema, key="id"), None, into, store, checkpoint_rows=4).run()
"""
)
FROM_KAFKA = (
    KILLING
    + """
into, store = killed(sink(f"delta:{place}/log", pipeline="p", name="main"))
messages = source(f"kafka:{sys.argv[3]}", brokers=sys.argv[4])
Runner(messages, gl.cdc.envelope_rows("debezium", tombstones="skip"), into, store, checkpoint_rows=7).run()
"""
)


def test_records_of_a_log_are_in_the_table_once_however_often_the_pipeline_is_killed(tmp_path: Path) -> None:
    producer = gl.cdc.log(tmp_path / "log").producer()
    wanted: dict[int, int] = {}
    for commit in range(5):
        numbers = range(commit * 6, commit * 6 + 6)
        found = [change(n, n % 4, gone=n % 7 == 6) for n in numbers]
        producer.emit(found)
        for one in found:
            wanted.pop(one._id, None)
            wanted |= {one._id: one._after["v"]} if one._after else {}
    table = gl.delta.create(tmp_path / "t", SCHEMA, properties=FED)

    def run(kill_at: int) -> int:
        return subprocess.run([sys.executable, "-c", RUN, str(tmp_path), str(kill_at)], check=False).returncode

    kills = [run(kill_at) for kill_at in (1, 2, 3, 4, 5, 7, 9)]
    assert set(kills) == {-signal.SIGKILL}
    assert run(999) == 0
    table.refresh()
    rows = {row["id"]: row["v"] for row in table.scan().to_arrow().to_pylist()}
    assert rows == wanted
    replayed: dict[int, Any] = {}
    last = -1
    for one in gl.cdc.changes(table, 1, key="id"):
        assert one._before == replayed.get(one._id)
        replayed.pop(one._id, None)
        if one._after is not None:
            replayed[one._id] = one._after
            assert one._after["v"] > last - 4
            last = max(last, one._after["v"])
    assert {key: row["v"] for key, row in replayed.items()} == wanted


# -- messages of others ------------------------------------------------------------------------------------------------


def message(one: Record) -> tuple[bytes, bytes]:
    key, value = to_debezium(one)
    return json.dumps(key).encode(), json.dumps(value).encode()


def history() -> list[Record]:
    return [change(n, n % 4, gone=n % 7 == 6) for n in range(30)]


def test_debezium_in_kafka_becomes_rows_and_a_log_with_its_tombstones(kafka_cluster: Cluster, tmp_path: Path) -> None:
    topic = kafka_cluster.topic()
    for one in history():
        key, value = message(one)
        kafka_cluster.producer.produce(topic, key=key, value=value, partition=one._id % 2)
        if one._op == "d":
            kafka_cluster.producer.produce(topic, key=key, value=None, partition=one._id % 2)
    kafka_cluster.producer.produce(topic, key=b'{"id": 0}', value=None, partition=0)
    assert kafka_cluster.producer.flush(10) == 0
    table = gl.delta.create(tmp_path / "t", SCHEMA)
    changes = gl.cdc.log(tmp_path / "log")

    def run(place: str, transform: Any, **options: Any) -> None:
        into = sink(f"delta:{tmp_path}/{place}", pipeline="p", name="main", **options)
        store = CheckpointStore(tmp_path / f"{place}-checkpoints")
        taken = source(f"kafka:{topic}", brokers=kafka_cluster.brokers)
        Runner(taken, transform, {"main": into}, store, checkpoint_rows=1000).run()

    run("t", envelope_rows("debezium", schema=SCHEMA, key="id"), mode="cdc", key="id")
    last = {one._id: one._after for one in history()}
    rows = {row["id"]: row for row in table.refresh().scan().to_arrow().to_pylist()}
    assert rows == {key: row for key, row in last.items() if row is not None and key != 0}

    run("log", envelope_rows("debezium"), mode="append")
    found = subscribe(changes).poll()
    for partition in (0, 1):
        mine = [one for one in told(found) if one[1] % 2 == partition]
        alone = [("d", 0, None, None)] if partition == 0 else []
        assert mine == [one for one in told(history()) if one[1] % 2 == partition] + alone
    seqs = changes.table.refresh().scan(columns=["_source_seq"]).to_arrow().column(0).to_pylist()
    assert {str(one.order[0]) for one in history()} <= set(seqs)


def test_messages_of_kafka_are_in_a_log_once_however_often_the_pipeline_is_killed(
    kafka_cluster: Cluster, tmp_path: Path
) -> None:
    topic = kafka_cluster.topic()
    for one in history():
        key, value = message(one)
        kafka_cluster.producer.produce(topic, key=key, value=value, partition=one._id % 2)
    assert kafka_cluster.producer.flush(10) == 0
    changes = gl.cdc.log(tmp_path / "log")

    def run(kill_at: int) -> int:
        command = [sys.executable, "-c", FROM_KAFKA, str(tmp_path), str(kill_at), topic, kafka_cluster.brokers]
        return subprocess.run(command, check=False).returncode

    assert {run(kill_at) for kill_at in (1, 3, 4, 5)} == {-signal.SIGKILL}
    assert run(999) == 0
    found = subscribe(changes).poll()
    for partition in (0, 1):
        assert [one for one in told(found) if one[1] % 2 == partition] == [
            one for one in told(history()) if one[1] % 2 == partition
        ]


def test_events_of_mongodb_in_files_become_rows(tmp_path: Path) -> None:
    def event(number: int, operation: str, document: Any, **more: Any) -> str:
        body = {
            "_id": {"_data": f"8263A1B2C30000000{number:x}2B0204"},
            "operationType": operation,
            "clusterTime": {"$timestamp": {"t": 1671541443, "i": number}},
            "wallTime": {"$date": "2022-12-20T13:04:03.123Z"},
            "ns": {"db": "shop", "coll": "users"},
            "documentKey": {"_id": {"$oid": f"{number % 2:024x}"}},
            "fullDocument": document,
            **more,
        }
        return json.dumps(body)

    def document(number: int, **fields: Any) -> dict[str, Any]:
        return {"_id": {"$oid": f"{number % 2:024x}"}, **fields}

    born = {"$date": "2001-02-03T04:05:06.789Z"}
    events = [
        event(0, "insert", document(0, born=born, n={"$numberLong": "9007199254740993"})),
        event(1, "insert", document(1, n=1)),
        event(2, "update", document(2, n=2)),
        event(3, "update", None, updateDescription={"updatedFields": {"n": 3}, "removedFields": []}),
        event(5, "delete", None),
    ]
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"value": events}), tmp_path / "in" / "a.parquet")
    schema = pa.schema([("_id", pa.string()), ("born", pa.timestamp("ms", "UTC")), ("n", pa.int64())])
    table = gl.delta.create(tmp_path / "t", schema)
    into = sink(f"delta:{tmp_path}/t", pipeline="p", name="main", mode="cdc", key="_id")
    transform = envelope_rows("mongodb", schema=schema, key="_id", collection="users", on_missing_image="skip")
    store = CheckpointStore(tmp_path / "checkpoints")
    Runner(source(f"files:{tmp_path}/in/*.parquet"), transform, {"main": into}, store).run()
    assert table.refresh().scan().to_arrow().to_pylist() == [{"_id": f"{0:024x}", "born": None, "n": 2}]
    with pytest.raises(InvalidRecord):
        envelope_rows("mongodb")(pa.RecordBatch.from_pydict({"value": events[3:4]}))


def test_cdc_09_a_message_without_a_key_goes_to_the_error_channel() -> None:
    key, value = message(change(1, 5))
    _, gone = message(change(2, 5, gone=True))
    batch = pa.RecordBatch.from_pydict({"key": [key, None, key, key, key], "value": [value, value, gone, None, b"{}"]})
    with pytest.raises(NullKey):
        envelope_rows("debezium")(batch)
    odd: list[tuple[Any, type[Exception]]] = []
    transform = envelope_rows(
        "debezium", schema=SCHEMA, key="id", on_error=lambda row, error: odd.append((row["value"], type(error)))
    )
    assert [row["_change_type"] for row in transform(batch).to_pylist()] == ["update_postimage", "delete"]
    assert odd == [(value, NullKey), (b"{}", InvalidRecord)]
    alone = pa.RecordBatch.from_pydict({"key": [key], "value": pa.array([None], pa.binary())})
    assert envelope_rows("debezium", schema=SCHEMA, key="id")(alone).to_pylist() == [
        {"id": 5, "v": None, "_change_type": "delete"}
    ]
    assert envelope_rows("debezium", tombstones="skip")(alone).num_rows == 0
    assert envelope_rows("debezium", collection="others", tombstones="skip")(batch.slice(0, 1)).num_rows == 0


@pytest.mark.parametrize(
    "options",
    [
        {"envelope": "maxwell"},
        {"envelope": "debezium", "schema": SCHEMA},
        {"envelope": "debezium", "key": "id"},
        {"envelope": "debezium", "collection": "users"},
        {"envelope": "debezium", "tombstones": "keep"},
        {"envelope": "mongodb", "on_missing_image": "drop"},
    ],
)
def test_wrong_calls_of_envelope_rows(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption):
        envelope_rows(**options)
    with pytest.raises(SchemaMismatch, match="have no column 'key'"):
        envelope_rows("debezium")(pa.RecordBatch.from_pydict({"k": [1], "value": [b""]}))
