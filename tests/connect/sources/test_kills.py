"""A pipeline out of each kind of source, killed at any changing call of its stores and run again: every row is in the sink once."""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gapless.connect import AfterValue, CheckpointStore, Runner, Source, sink, source
from gapless.store.open import open_store
from gapless.testing.store.stores import Killed
from support.dying_store import DyingStore, Life
from support.http_service import Answer, Service
from support.kafka import Cluster
from support.pipelines import SCHEMA, made, opened, rows

ROWS = 12
Opened = Callable[[], Source]
Feed = Callable[[str], Opened]


def landed(place: str) -> Opened:
    """Three files, of which the last came with the oldest time."""
    store = open_store(f"{place}-landing")
    for first, name in ((0, "c"), (4, "b"), (8, "a")):
        onto = pa.BufferOutputStream()
        pq.write_table(rows(first, 4), onto, row_group_size=3)
        store.put(f"{name}.parquet", memoryview(onto.getvalue()))
    return lambda: source(f"files:{place}-landing/*.parquet")


@pytest.fixture
def kafka(kafka_cluster: Cluster) -> Feed:
    """A topic of several partitions, whose values are JSON."""

    def feed(_place: str) -> Opened:
        topic = kafka_cluster.topic()
        kafka_cluster.send(topic, [json.dumps(row, default=str).encode() for row in rows(0, ROWS).to_pylist()], 3)
        options = {"format": "json", "metadata": False, "schema": SCHEMA}
        return lambda: source(f"kafka:{topic}", brokers=kafka_cluster.brokers, **options)

    return feed


@pytest.fixture
def files() -> Feed:
    return landed


@pytest.fixture
def sql(tmp_path: Path) -> Feed:
    """A table of SQLite whose rows have ties in the column that they are read by."""

    def feed(_place: str) -> Opened:
        path = tmp_path / f"{uuid.uuid4().hex}.db"
        with closing(sqlite3.connect(path)) as database:
            database.execute("CREATE TABLE feed (ts DATETIME NOT NULL, id BIGINT NOT NULL, v BIGINT PRIMARY KEY)")
            for row in rows(0, ROWS).to_pylist():
                database.execute("INSERT INTO feed VALUES (?, ?, ?)", (f"{row['ts']:%Y-%m-%d %H:%M:%S}", row["id"], row["v"]))
            database.commit()
        # SQLite has no instants: a text that says the zone is read as one.
        query = "SELECT ts || '+00:00' AS ts, id, v FROM feed"
        return lambda: source(f"sql:sqlite:///{path}", query=query, cursor_column="id", key="v", schema=SCHEMA)

    return feed


@pytest.fixture
def http(http_service: Service) -> Feed:
    """A service that gives six rows a time."""
    everything = [{**row, "ts": row["ts"].isoformat()} for row in rows(0, ROWS).to_pylist()]

    def answer(_path: str, query: dict[str, str]) -> Answer:
        return 200, {}, json.dumps([row for row in everything if row["v"] > int(query.get("since", -1))][:6]).encode()

    http_service.answer = answer
    return lambda _place: lambda: source(http_service.url, pagination=AfterValue("since", "v"), schema=SCHEMA)


STEPS = {"files": 1, "kafka": 5, "sql": 3, "http": 4}
"""Of each kind of source, after how many calls more it is killed the next time: it takes long to reach some."""


def pipeline(place: str, feed: Opened) -> Runner:
    sinks = {"main": sink(f"delta:{place}-sink", pipeline="orders", name="main", spill_bytes=1)}
    return Runner(feed(), None, sinks, CheckpointStore(f"{place}-checkpoints"), checkpoint_rows=5)


def living(monkeypatch: pytest.MonkeyPatch, life: Life) -> None:
    """All stores that are opened from now on belong to a process with this life."""
    for module in ("gapless.tables.shared.handle", "gapless.connect.checkpoint_store", "gapless.connect.sources.files"):
        monkeypatch.setattr(f"{module}.open_store", lambda *place: DyingStore(open_store(*place), life))


@pytest.mark.parametrize("kind", STEPS)
@pytest.mark.parametrize("after", [False, pytest.param(True, marks=pytest.mark.long)], ids=["before", "after"])
def test_killed_at_any_call_and_run_again_each_row_is_there_once(
    kind: str, after: bool, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    feed: Feed = request.getfixturevalue(kind)
    dies_at, finished = 0, False
    while not finished:
        dies_at += STEPS[kind]
        place = f"memory://{uuid.uuid4()}"
        made("delta", f"{place}-sink")
        feeding = feed(place)
        with monkeypatch.context() as patched:
            living(patched, Life(dies_at=dies_at, after=after))
            try:
                pipeline(place, feeding).run()
                finished = True
            except Killed:
                pass
        pipeline(place, feeding).run()
        table = opened("delta", f"{place}-sink")
        found = sorted(table.scan().to_arrow()["v"].to_pylist())
        assert found == list(range(ROWS)), f"killed at call {dies_at}"
        again = pipeline(place, feeding)
        assert again.run().rows == 0
        again.source.close()
    assert dies_at > 10
