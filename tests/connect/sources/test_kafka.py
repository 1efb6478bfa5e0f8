"""Records of Kafka topics: each once, from any cursor, and told where they are gone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from gapless.connect import Cursor, source
from gapless.connect.sources.kafka import RECORDS, KafkaSource, parse_start
from gapless.errors import (
    InvalidOption,
    InvalidTime,
    ObjectNotFound,
    SchemaMismatch,
    StoreUnavailable,
    UnreadableInput,
    VersionNotFound,
)
from support.kafka import Cluster
from support.pipelines import all_polled


def opened(cluster: Cluster, topic: str, **options: Any) -> Any:
    return source(f"kafka:{topic}", brokers=cluster.brokers, **options)


def told(*numbers: int) -> list[bytes | None]:
    return [b"%d" % number for number in numbers]


def values(polled: Any) -> list[int]:
    return [int(value) for batch in polled for value in batch.column("value").to_pylist()]


drained = partial(all_polled, read=values)


@pytest.mark.parametrize("limit", [1, 3, None])
def test_records_come_once_each_partition_in_its_order(kafka_cluster: Cluster, limit: int | None) -> None:
    topic = kafka_cluster.topic()
    kafka_cluster.send(topic, told(*range(10)))
    reader = opened(kafka_cluster, topic)
    found = drained(reader, limit)
    assert [one for one in found if one % 2] == [1, 3, 5, 7, 9]
    assert [one for one in found if not one % 2] == [0, 2, 4, 6, 8]
    assert drained(reader, limit) == []
    kafka_cluster.send(topic, told(10, 11, 12))
    assert sorted(drained(reader, limit)) == [10, 11, 12]
    assert reader.cursor.state["offsets"] == {"0": 7, "1": 6, "2": 0, "3": 0}
    reader.close()


def test_a_cursor_goes_on_at_the_very_record(kafka_cluster: Cluster) -> None:
    topic = kafka_cluster.topic()
    kafka_cluster.send(topic, told(*range(9)))
    for taken in (1, 4, 8):
        first = opened(kafka_cluster, topic)
        begun = values(first.poll(taken))
        assert len(begun) == taken
        other = opened(kafka_cluster, topic)
        other.start(Cursor.from_json(first.cursor.to_json()))
        assert sorted(begun + drained(other, 2)) == list(range(9))
        first.close()
        other.close()


def test_a_record_has_all_that_it_came_with(kafka_cluster: Cluster) -> None:
    topic = kafka_cluster.topic()
    at = datetime(2026, 1, 5, 12, tzinfo=UTC)
    headers = [("h", b"\xff"), ("h", None)]
    for value in (b"\x00v", None):
        kafka_cluster.send(topic, [value], 1, key=b"k", headers=headers, timestamp=int(at.timestamp() * 1000))
    kafka_cluster.send(topic, [b""], 1)
    reader = opened(kafka_cluster, topic)
    assert reader.schema == RECORDS
    rows = [row for batch in reader.poll() for row in batch.to_pylist()]
    expected = {"key": b"k", "value": b"\x00v", "topic": topic, "partition": 0, "offset": 0, "timestamp": at}
    assert rows[0] == {**expected, "headers": [{"name": "h", "value": b"\xff"}, {"name": "h", "value": None}]}
    assert (rows[1]["value"], rows[1]["offset"]) == (None, 1)
    assert (rows[2]["value"], rows[2]["key"], rows[2]["headers"]) == (b"", None, None)
    assert reader.cursor.timestamp == rows[2]["timestamp"] > at


def test_fields_of_json_are_columns(kafka_cluster: Cluster) -> None:
    topic = kafka_cluster.topic()
    objects = [{"id": 1, "price": 1.10, "at": "2026-01-05T00:00:00Z"}, {"id": 2}]
    kafka_cluster.send(topic, [json.dumps(one).encode() for one in objects], 1)
    kafka_cluster.send(topic, [None], 1, key=b"gone")
    schema = pa.schema([("id", pa.int64()), ("price", pa.decimal128(20, 4)), ("at", pa.timestamp("us", "UTC"))])
    reader = opened(kafka_cluster, topic, format="json", schema=schema)
    assert reader.schema.names == ["id", "price", "at", "key", "topic", "partition", "offset", "timestamp", "headers"]
    rows = [row for batch in reader.poll() for row in batch.to_pylist()]
    assert [(row["id"], str(row["price"]), row["at"]) for row in rows] == [
        (1, "1.1000", datetime(2026, 1, 5, tzinfo=UTC)),
        (2, "None", None),
        (None, "None", None),
    ]
    assert rows[2]["key"] == b"gone"
    bare = opened(kafka_cluster, topic, format="json", metadata=False)
    assert bare.schema.names == ["id", "price", "at"]
    cursor = bare.cursor
    kafka_cluster.send(topic, [b'{"id": 3, "new": 1}'], 1)
    with pytest.raises(SchemaMismatch, match="new: is not known"):
        drained_rows(bare)
    again = opened(kafka_cluster, topic, format="json", metadata=False)
    again.start(Cursor.from_json(cursor.to_json()))
    assert again.schema == bare.schema


def drained_rows(reader: Any) -> None:
    while reader.poll().rows:
        pass


@pytest.mark.parametrize("value", [b"{", b"[1]", b'{"a": 1, "a": 2}', b"\xff", b'{"a": 1e999}', b'{"a": NaN}', b""])
def test_a_value_that_is_no_json_object_is_named_by_its_offset(kafka_cluster: Cluster, value: bytes) -> None:
    topic = kafka_cluster.topic()
    kafka_cluster.send(topic, [b'{"a": 1}', value], 1)
    reader = opened(kafka_cluster, topic, format="json", metadata=False, schema=pa.schema([("a", pa.int64())]))
    with pytest.raises(UnreadableInput, match="offset 1 of partition 0"):
        drained_rows(reader)


def test_a_field_with_the_name_of_a_column_of_the_record_is_refused(kafka_cluster: Cluster) -> None:
    topic = kafka_cluster.topic()
    kafka_cluster.send(topic, [b'{"offset": 1}'], 1)
    with pytest.raises(InvalidOption, match="metadata=False"):
        opened(kafka_cluster, topic, format="json").poll()


def test_where_it_begins(kafka_cluster: Cluster) -> None:
    topic = kafka_cluster.topic()
    kafka_cluster.send(topic, told(*range(6)))
    latest, offsets = opened(kafka_cluster, topic, start="latest"), opened(kafka_cluster, topic, start={1: 2})
    assert drained(latest) == []
    assert sorted(drained(offsets)) == [0, 2, 4, 5]
    kafka_cluster.send(topic, told(6))
    assert drained(latest) == [6]
    with pytest.raises(InvalidOption, match="partition 7"):
        opened(kafka_cluster, topic, start={7: 0}).poll()


def test_offsets_that_retention_took_are_told(kafka_cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mock keeps all records: that the first ones are gone is said by its answer alone."""
    topic = kafka_cluster.topic()
    kafka_cluster.send(topic, told(*range(6)), 1)
    first = opened(kafka_cluster, topic)
    assert values(first.poll(2)) == [0, 1]
    at = first.cursor

    def begun(**options: Any) -> KafkaSource:
        reader: KafkaSource = opened(kafka_cluster, topic, **options)
        reader.start(at)
        monkeypatch.setattr(type(reader._topic), "earliest", lambda _, __: {0: 4, 1: 0, 2: 0, 3: 0})
        return reader

    with pytest.raises(VersionNotFound, match="offsets 2 to 3 of partition 0") as error:
        begun().poll()
    assert error.value.version == 2
    assert values(begun(on_missing="earliest").poll()) == [4, 5]


def test_a_topic_made_anew_is_told(kafka_cluster: Cluster) -> None:
    topic = kafka_cluster.topic()
    kafka_cluster.send(topic, told(0, 1), 1)
    reader = opened(kafka_cluster, topic)
    for offsets in ({"0": 3}, {"0": 0, "9": 0}):
        reader.start(Cursor(source="kafka", state={**reader.cursor.state, "offsets": offsets}))
        with pytest.raises(VersionNotFound, match="made anew"):
            reader.poll()
    offsets_of: tuple[Mapping[str, Any], ...] = ({"0": -1}, {"0": "1"}, {"x": 1})
    for wrong in offsets_of:
        with pytest.raises(InvalidOption, match="cannot start"):
            reader.start(Cursor(source="kafka", state={**reader.cursor.state, "offsets": wrong}))


def test_a_partition_that_is_added_is_read_from_its_first_record(kafka_cluster: Cluster) -> None:
    """As a cursor that does not know it yet shows."""
    topic = kafka_cluster.topic()
    kafka_cluster.send(topic, told(*range(4)))
    reader = opened(kafka_cluster, topic)
    reader.start(Cursor(source="kafka", state={"place": f"kafka:{topic}", "offsets": {"0": 1, "2": 0, "3": 0}}))
    assert sorted(drained(reader)) == [1, 2, 3]


def test_an_acknowledged_checkpoint_is_told_to_the_group(kafka_cluster: Cluster) -> None:
    from confluent_kafka import Consumer, TopicPartition

    topic = kafka_cluster.topic()
    kafka_cluster.send(topic, told(*range(5)), 1)
    reader = opened(kafka_cluster, topic, config={"group.id": f"g-{topic}"})
    reader.poll(3)
    assert reader.cursor.state["offsets"]["0"] == 3
    reader.poll(1)
    reader.acknowledge(1)
    other = Consumer({"bootstrap.servers": kafka_cluster.brokers, "group.id": f"g-{topic}"})
    assert other.committed([TopicPartition(topic, 0)], timeout=10)[0].offset == 3
    other.close()
    reader.close()


def test_what_cannot_be_read_is_told(kafka_cluster: Cluster) -> None:
    with pytest.raises(ObjectNotFound, match="nowhere"):
        opened(kafka_cluster, "nowhere", config={"allow.auto.create.topics": False}).poll()
    silent = source("kafka:t", brokers="127.0.0.1:9")
    assert isinstance(silent, KafkaSource)
    silent._topic.timeout_s = 0.2
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:9"):
        silent.poll()
    with pytest.raises(InvalidOption, match="needs brokers="):
        source("kafka:t")
    with pytest.raises(InvalidOption, match="config"):
        source("kafka:t", brokers="x", config={"sasl.pasword": "secret"}).poll()
    wrong: tuple[tuple[str, Any], ...] = (
        ("start", 7),
        ("start", "lastest"),
        ("start", {0: -1}),
        ("format", "avro"),
        ("on_missing", "skip"),
        ("schema", pa.schema([("a", pa.int64())])),
        ("config", {"enable.auto.commit": True}),
    )
    for name, value in wrong:
        with pytest.raises(InvalidOption, match=name):
            source("kafka:t", brokers="x", **{name: value})


def test_a_time_to_begin_at_is_an_instant_as_text_or_datetime() -> None:
    at = datetime(2026, 1, 5, 0, 0, 0, 1, tzinfo=UTC)
    # The first millisecond that is not before it.
    assert parse_start(at) == parse_start("2026-01-05T01:00:00.000001+01:00") == int(at.timestamp()) * 1000 + 1
    for naive in (datetime(2026, 1, 5), "2026-01-05"):
        with pytest.raises(InvalidTime, match="start="):
            source("kafka:t", brokers="x", start=naive)


def test_secrets_are_in_no_repr(kafka_cluster: Cluster) -> None:
    topic = kafka_cluster.topic()
    reader = opened(kafka_cluster, topic, config={"sasl.password": "hunter2"})
    kafka_cluster.send(topic, told(1), 1)
    assert values(reader.poll()) == [1]
    shown = (repr(reader), str(vars(reader)), reader.cursor.to_json())
    assert not any("hunter2" in one for one in shown)
