"""A pipeline from a topic, in a process of its own: Spark's connector for Kafka comes from Maven Central, once."""

from __future__ import annotations

import json
import signal
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import gapless as gl
from support.doomed_runs import live
from support.kafka import PARTITIONS, Cluster

ROOT = Path(__file__).resolve().parents[3]
START = datetime(2026, 1, 5, tzinfo=UTC)
SQL = """CREATE SOURCE trips (id BIGINT NOT NULL, ts TIMESTAMP, fare DECIMAL(9, 2))
WITH (type='kafka', bootstrap_servers='{brokers}', topic='{topic}', max_records=4);
{more}
CREATE SINK trips_delta WITH (type='delta', location='{root}/delta') AS SELECT id, ts, fare, _partition, _offset FROM trips;
CREATE SINK trips_series WITH (type='timeseries', location='{root}/series', index='ts', bucket='1h') AS SELECT id, ts, fare FROM trips;
"""
SENT = """CREATE SINK sent WITH (type='kafka', bootstrap_servers='{brokers}', topic='{topic}', key='id', delivery='at_least_once')
AS SELECT id, CAST(NULL AS STRING) AS note FROM trips;"""


def test_killed_between_a_commit_and_its_note_records_come_once_into_tables_and_no_less_into_a_topic(
    kafka_broker: Cluster, tmp_path: Path
) -> None:
    topic, out = kafka_broker.topic(), kafka_broker.topic()
    sql = _pipeline(tmp_path, kafka_broker, topic, SENT.format(brokers=kafka_broker.brokers, topic=out))
    kafka_broker.send(topic, [_record(one) for one in range(10)])
    for doomed in ("after:trips_series:*", "after:trips_delta:1"):
        assert live(sql, doomed).returncode == -signal.SIGKILL
    kafka_broker.send(topic, [_record(one) for one in range(10, 12)])
    done = live(sql)
    assert done.returncode == 0, done.stderr[-3000:]
    for table in (gl.delta.open(tmp_path / "delta"), gl.open(tmp_path / "series")):
        assert sorted(table.scan().to_arrow().column("id").to_pylist()) == list(range(12))
    sent = _records(kafka_broker, out)
    assert dict(sent) == {f"{one}".encode(): {"id": one, "note": None} for one in range(12)}
    assert len(sent) > 12  # a topic does not know what it has


def test_records_come_once_into_tables_of_both_kinds_and_a_bad_one_stops_it(kafka_broker: Cluster, tmp_path: Path) -> None:
    topic = kafka_broker.topic()
    sql = _pipeline(tmp_path, kafka_broker, topic)
    kafka_broker.send(topic, [_record(one) for one in range(10)])
    done = live(sql)
    assert done.returncode == 0, done.stderr[-3000:]
    assert set(json.loads(done.stdout)["sinks"]) == {"trips_delta", "trips_series"}
    kafka_broker.send(topic, [_record(one) for one in range(10, 15)])
    assert live(sql).returncode == 0
    delta = gl.delta.open(tmp_path / "delta").scan().to_arrow()
    assert sorted(delta.column("id").to_pylist()) == list(range(15))
    places = set(zip(delta.column("_partition").to_pylist(), delta.column("_offset").to_pylist(), strict=True))
    assert len(places) == 15
    series = gl.open(tmp_path / "series").scan().to_arrow()
    assert sorted(str(one) for one in series.column("fare").to_pylist()) == sorted(f"{one}.50" for one in range(15))
    kafka_broker.send(topic, [b'{"id": "no number"}'])
    stopped = live(sql)
    assert stopped.returncode == 1
    assert "pipeline-failed" in stopped.stderr
    assert gl.delta.open(tmp_path / "delta").scan().count() == 15


AVRO = """CREATE SOURCE trips (id BIGINT NOT NULL, ts TIMESTAMP, fare DECIMAL(9, 2), note STRING)
WITH (type='kafka', bootstrap_servers='{brokers}', topic='{topic}', max_records=4, format='avro', avro_schema='${{file:{root}/trips.avsc}}');
CREATE SINK trips_delta WITH (type='delta', location='{root}/delta') AS SELECT id, ts, fare, note, _offset FROM trips;
"""
SCHEMA = {
    "type": "record",
    "name": "trip",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "fare", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "note", "type": ["null", "string"]},
        {"name": "unread", "type": "boolean"},
    ],
}


def test_records_of_avro_come_by_their_schema_and_one_that_is_cut_off_stops_it(kafka_broker: Cluster, tmp_path: Path) -> None:
    topic = kafka_broker.topic()
    sql = _pipeline(tmp_path, kafka_broker, topic, text=AVRO)
    (tmp_path / "trips.avsc").write_text(json.dumps(SCHEMA), encoding="utf-8")
    kafka_broker.send(topic, [_avro_record(one, None if one % 3 else "né") for one in range(8)], partitions=1)
    kafka_broker.send(topic, [_avro_record(8, "cut off")[:-4]], partitions=1)
    stopped = live(sql)
    assert stopped.returncode == 1, stopped.stderr[-3000:]
    assert "pipeline-failed" in stopped.stderr
    assert gl.delta.open(tmp_path / "delta").scan().to_arrow().sort_by("id").to_pylist() == [
        {
            "id": one,
            "ts": START + timedelta(hours=one),
            "fare": Decimal(f"-{one}.50"),
            "note": None if one % 3 else "né",
            "_offset": one,
        }
        for one in range(8)
    ]


PROTOBUF = """CREATE SOURCE trips (id BIGINT, ts TIMESTAMP, note STRING, tags ARRAY<STRING>)
WITH (type='kafka', bootstrap_servers='{brokers}', topic='{topic}', format='protobuf', descriptor_file='{root}/trips.desc', message='Trip');
CREATE SINK trips_delta WITH (type='delta', location='{root}/delta') AS SELECT id, ts, note, tags, _offset FROM trips;
"""


def test_messages_of_protobuf_come_by_their_descriptor_and_one_that_is_cut_off_stops_it(
    kafka_broker: Cluster, tmp_path: Path
) -> None:
    topic = kafka_broker.topic()
    sql = _pipeline(tmp_path, kafka_broker, topic, text=PROTOBUF)
    (tmp_path / "trips.desc").write_bytes(_descriptors())
    kafka_broker.send(topic, [_message(one, None if one % 3 else "né") for one in range(8)], partitions=1)
    kafka_broker.send(topic, [_message(8, "cut off")[:-4]], partitions=1)
    stopped = live(sql)
    assert stopped.returncode == 1, stopped.stderr[-3000:]
    assert "is no Trip of Protobuf" in stopped.stderr
    (tmp_path / "trips.sql").write_text(sql.read_text().replace("message=", "on_bad_record='null', message="), encoding="utf-8")
    done = live(sql)
    assert done.returncode == 0, done.stderr[-3000:]
    assert gl.delta.open(tmp_path / "delta").scan().to_arrow().sort_by("_offset").to_pylist() == [
        {
            # proto3 does not write what is 0.
            "id": one or None,
            "ts": START + timedelta(hours=one),
            "note": None if one % 3 else "né",
            "tags": ["a", str(one)],
            "_offset": one,
        }
        if one < 8
        else {"id": None, "ts": None, "note": None, "tags": None, "_offset": 8}
        for one in range(9)
    ]


def _descriptors() -> bytes:
    """Of `message Trip { int64 id = 1; google.protobuf.Timestamp ts = 2; string note = 3; repeated string tags = 4; }`."""
    from google.protobuf import descriptor_pb2, timestamp_pb2

    trip = descriptor_pb2.DescriptorProto(name="Trip")
    for number, (name, kind) in enumerate({"id": 3, "ts": 11, "note": 9, "tags": 9}.items(), 1):
        trip.field.add(name=name, number=number, type=kind, label=3 if name == "tags" else 1)
    trip.field[1].type_name = ".google.protobuf.Timestamp"
    needed = descriptor_pb2.FileDescriptorProto.FromString(timestamp_pb2.DESCRIPTOR.serialized_pb)
    made = descriptor_pb2.FileDescriptorProto(
        name="trips.proto", syntax="proto3", dependency=[needed.name], message_type=[trip]
    )
    written: bytes = descriptor_pb2.FileDescriptorSet(file=[needed, made]).SerializeToString()
    return written


def _message(number: int, note: str | None) -> bytes:
    """A Trip, byte by byte as the page of the wire format says."""

    def text(tag: bytes, value: bytes) -> bytes:
        return tag + bytes([len(value)]) + value

    seconds, parts = int((START + timedelta(hours=number)).timestamp()), b""
    while seconds:
        parts, seconds = parts + bytes([seconds & 0x7F | (0x80 if seconds > 0x7F else 0)]), seconds >> 7
    out = (b"\x08" + bytes([number]) if number else b"") + text(b"\x12", b"\x08" + parts)
    out += b"" if note is None else text(b"\x1a", note.encode())
    return out + text(b"\x22", b"a") + text(b"\x22", str(number).encode())


ECHO = """CREATE SOURCE trips (id BIGINT, ts TIMESTAMP) WITH (type='kafka', bootstrap_servers='{brokers}', topic='{topic}');
CREATE SINK air WITH (type='timeseries', location='{root}/air', index='ts', bucket='1h') AS SELECT id, ts FROM trips;
CREATE SINK echo WITH (type='kafka', bootstrap_servers='{brokers}', topic='{topic}', key='id', delivery='at_least_once')
AS SELECT id + 100 AS id, ts - INTERVAL 1 HOUR AS ts FROM trips WHERE id % 100 = 3;
{more}
"""


def test_a_gap_is_filled_from_what_a_topic_had_as_the_run_began(kafka_broker: Cluster, tmp_path: Path) -> None:
    """Each run sends one more record into the topic that it reads, which is for the next one."""
    topic = kafka_broker.topic()
    kafka_broker.send(topic, [_record(one) for one in range(6)])
    assert live(_pipeline(tmp_path, kafka_broker, topic, text=ECHO)).returncode == 0
    air = gl.open(tmp_path / "air")
    air.delete(start=START + timedelta(hours=1), end=START + timedelta(hours=2))
    assert sorted(air.scan().to_arrow()["id"].to_pylist()) == [0, 2, 3, 4, 5]
    fill = "BACKFILL air FROM '2026-01-05T00:00Z' TO '2026-01-05T02:00Z';"
    done = live(_pipeline(tmp_path, kafka_broker, topic, fill, text=ECHO))
    assert done.returncode == 0, done.stderr[-3000:]
    # Of the hour that was missing there is 1, and meanwhile 203, which this run sent.
    assert sorted(air.refresh().scan().to_arrow()["id"].to_pylist()) == [0, 1, 2, 3, 4, 5, 103]
    assert live(_pipeline(tmp_path, kafka_broker, topic, text=ECHO)).returncode == 0
    assert sorted(air.refresh().scan().to_arrow()["id"].to_pylist()) == [0, 1, 2, 3, 4, 5, 103, 203]


def _avro_record(number: int, note: str | None) -> bytes:
    """A record of SCHEMA, byte by byte as Avro's specification says: whole numbers as zigzag in groups of seven bits."""
    micros = int((START + timedelta(hours=number)).timestamp()) * 1_000_000
    fare = (-number * 100 - 50).to_bytes(4, "big", signed=True)
    text = b"" if note is None else note.encode()
    union = _zigzag(0) if note is None else _zigzag(1) + _zigzag(len(text)) + text
    return _zigzag(number) + _zigzag(micros) + _zigzag(len(fare)) + fare + union + b"\x01"


def _zigzag(value: int) -> bytes:
    rest, out = value << 1 ^ value >> 63, b""
    while rest >= 0x80:
        out, rest = out + bytes([rest & 0x7F | 0x80]), rest >> 7
    return out + bytes([rest])


def _pipeline(root: Path, broker: Cluster, topic: str, more: str = "", text: str = SQL) -> Path:
    sql = root / "trips.sql"
    sql.write_text(text.format(brokers=broker.brokers, topic=topic, root=root, more=more), encoding="utf-8")
    ivy = f'[pipelines.spark]\n"spark.jars.ivy" = "{ROOT / "build" / "ivy"}"\n"spark.driver.memory" = "1g"\n'
    (root / "gapless.toml").write_text(ivy, encoding="utf-8")
    return sql


def _record(number: int) -> bytes:
    return json.dumps({"id": number, "ts": (START + timedelta(hours=number)).isoformat(), "fare": f"{number}.50"}).encode()


def _records(broker: Cluster, topic: str) -> list[tuple[bytes | None, object]]:
    """All records of a topic, by a client that is not Spark's."""
    from confluent_kafka import Consumer, TopicPartition

    reader = Consumer({"bootstrap.servers": broker.brokers, "group.id": topic, "enable.auto.commit": False})
    found = []
    for partition in range(PARTITIONS):
        place = TopicPartition(topic, partition)
        first, end = reader.get_watermark_offsets(place, timeout=20)
        reader.assign([TopicPartition(topic, partition, first)])
        for _ in range(first, end):
            record = reader.poll(20)
            assert record is not None
            assert record.error() is None
            found.append((record.key(), json.loads(record.value() or b"")))
    reader.close()
    return found
