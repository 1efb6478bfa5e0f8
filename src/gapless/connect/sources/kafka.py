"""A source of the records of a Kafka topic; its cursor is the next offset of each partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Literal

import pyarrow as pa

from gapless.connect.sources.kafka_topic import Arrived, KafkaTopic, Record
from gapless.connect.sources.piecewise import Piece
from gapless.connect.sources.positioned import Position, PositionedSource, start_time
from gapless.errors import InvalidOption, UnreadableInput, VersionNotFound, one_of, shorten
from gapless.files.ingest.batches import Batches
from gapless.files.ingest.json_records import json_records, load_json
from gapless.runtime.environment import SystemClock

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HEADER = pa.struct([("name", pa.string()), ("value", pa.binary())])
_VALUE = pa.field("value", pa.binary())
METADATA = pa.schema(
    [
        ("key", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("ms", "UTC")),
        ("headers", pa.list_(_HEADER)),
    ]
)
"""The columns of a record beside its value."""
RECORDS = pa.schema([METADATA.field("key"), _VALUE, *list(METADATA)[1:]])
"""The columns of records whose values are bytes."""
FORMATS = ("bytes", "json")
ON_MISSING = ("error", "earliest")


class KafkaSource(PositionedSource):
    """Committed records of a topic, each partition's in the order of its offsets. Made by `gl.connect.source`.

    Partitions that are added later are read from their first record.
    """

    kind = "kafka"

    def __init__(
        self,
        topic: KafkaTopic,
        *,
        start: str | int | Mapping[int, int],
        values: Callable[[Sequence[Record]], Batches],
        schema: pa.Schema | None,
        on_missing: str,
    ) -> None:
        """`start`: "earliest", "latest", milliseconds since 1970 UTC, or offsets by partition. `values` gives the rows of records."""
        super().__init__(f"kafka:{topic.name}", schema)
        self._topic, self._from, self._values, self._on_missing = topic, start, values, on_missing
        self._told: Mapping[int, int] = {}

    def acknowledge(self, checkpoint_id: int) -> None:  # noqa: ARG002 - what counts is the cursor that was stored last
        """Tell the consumer group, where one was given, how far the last cursor that was asked for has come."""
        self._topic.tell_group(self._told)

    def close(self) -> None:
        """Leave the cluster."""
        self._topic.close()

    def _first(self) -> Position:
        partitions = self._topic.partitions()
        if self._from == "earliest":
            offsets = self._topic.earliest(partitions)
        elif self._from == "latest":
            offsets = self._topic.ends(partitions)
        elif isinstance(self._from, int):
            offsets = self._topic.since(partitions, self._from)
        else:
            assert not isinstance(self._from, str)
            if unknown := sorted(self._from.keys() - set(partitions)):
                raise InvalidOption(
                    f"start names partition {unknown[0]}, which {self.place} does not have",
                    why=f"It has {', '.join(map(str, partitions))}",
                    fix="Name the offsets of these",
                    option="start",
                    value=self._from,
                )
            offsets = {**self._topic.earliest(partitions), **self._from}
        return Position(state={"offsets": offsets})

    def _resumed(self, state: Mapping[str, Any]) -> Position:
        offsets = {int(partition): offset for partition, offset in state["offsets"].items()}
        if any(type(offset) is not int or offset < 0 for offset in offsets.values()):
            raise ValueError(f"offsets {offsets}")
        return Position(state={"offsets": offsets})

    def _stored(self, position: Position) -> Mapping[str, Any]:
        self._told = position.state["offsets"]
        return {"offsets": {str(partition): offset for partition, offset in sorted(self._told.items())}}

    def _read(self, position: Position) -> Iterator[Piece[Position]]:
        offsets, ends = self._reachable(position.state["offsets"])
        time = position.timestamp
        for arrived in self._topic.read(offsets, ends):
            part = self._values(arrived.records)
            rows = pa.Table.from_batches(self._fitted(part), self._schema).combine_chunks() if arrived.records else None
            batches = [] if rows is None else rows.to_batches()
            empty = pa.RecordBatch.from_pylist([], schema=self._schema or pa.schema([]))
            after = partial(_after, offsets, time, arrived)
            yield Piece(rows=batches[0] if batches else empty, after=after)
            offsets, time = {**offsets, **arrived.offsets}, after(len(arrived.records)).timestamp

    def _reachable(self, known: Mapping[int, int]) -> tuple[dict[int, int], dict[int, int]]:
        """Where to read on, by partition, and up to where. Raises VersionNotFound where records are gone that were not read."""
        partitions = self._topic.partitions()
        first, ends = self._topic.earliest(partitions), self._topic.ends(partitions)
        offsets = {partition: known.get(partition, first[partition]) for partition in partitions}
        for partition, offset in known.items():
            if partition not in ends or offset > ends[partition]:
                there = f"it ends at {ends[partition]}" if partition in ends else "there is no such partition"
                raise VersionNotFound(
                    f"offset {offset} of partition {partition} of {self.place}, up to which it was read, is not there: {there}",
                    why="The topic was made anew in its place, or an older copy of the cluster was brought back",
                    fix="Start without the cursor, into a sink of a higher generation",
                    version=offset,
                )
            if offset < first[partition] and self._on_missing == "error":
                raise VersionNotFound(
                    f"offsets {offset} to {first[partition] - 1} of partition {partition} of {self.place} are gone",
                    why="Retention removed them before they were read",
                    fix='Pass on_missing="earliest" to go on behind them, and keep records longer than the pipeline rests',
                    version=offset,
                )
            offsets[partition] = max(offset, first[partition])
        return offsets, ends


def _after(before: Mapping[int, int], time: datetime | None, arrived: Arrived, rows: int) -> Position:
    """Behind the first so many records."""
    offsets = {**before, **{one.partition: one.offset + 1 for one in arrived.records[:rows]}}
    latest = arrived.records[rows - 1].timestamp if rows else None
    if rows == len(arrived.records):
        offsets |= arrived.offsets
    return Position(state={"offsets": offsets}, timestamp=time if latest is None else _EPOCH + timedelta(milliseconds=latest))


def _columns(records: Sequence[Record]) -> dict[str, pa.Array]:
    """All columns of records but their values'."""
    values: dict[str, list[Any]] = {name: [getattr(one, name) for one in records] for name in METADATA.names}
    values["headers"] = [
        None if one is None else [{"name": name, "value": value} for name, value in one] for one in values["headers"]
    ]
    return {name: pa.array(values[name], type_) for name, type_ in zip(METADATA.names, METADATA.types, strict=True)}


def _as_bytes(records: Sequence[Record]) -> Batches:
    columns = {**_columns(records), "value": pa.array([one.value for one in records], pa.binary())}
    rows = pa.RecordBatch.from_arrays([columns[name] for name in RECORDS.names], schema=RECORDS)
    return Batches(source="Kafka", schema=RECORDS, read=lambda: iter([rows]), rows_hint=rows.num_rows)


def _as_json(records: Sequence[Record], *, topic: str, schema: pa.Schema | None, metadata: bool) -> Batches:
    """The fields of values that are JSON objects, and where `metadata` says so, what else a record has."""
    values = [{} if one.value is None else _object(one, one.value) for one in records]
    part = json_records(values, f"kafka:{topic}", schema)
    if not metadata:
        return part
    if taken := sorted(set(part.schema.names) & set(METADATA.names)):
        raise InvalidOption(
            f"values of kafka:{topic} have a field {taken[0]!r}, and so has the record itself",
            why="Two columns of a row cannot have one name",
            fix="Pass metadata=False, which leaves out what the record has beside its value",
            option="metadata",
            value=metadata,
        )
    beside = _columns(records)

    def read() -> Iterator[pa.RecordBatch]:
        fields = {name: column for batch in part for name, column in zip(batch.schema.names, batch.columns, strict=True)}
        yield pa.RecordBatch.from_arrays([*fields.values(), *beside.values()], names=[*fields, *beside])

    return replace(part, schema=pa.schema([*part.schema, *METADATA]), read=read)


def _object(record: Record, value: bytes) -> object:
    place = f"the value at offset {record.offset} of partition {record.partition} of kafka:{record.topic}"
    found = load_json(value, place)
    if not isinstance(found, dict):
        raise UnreadableInput(
            f"{place} is {shorten(found)}, and no JSON object",
            why="Each of its fields is a column",
            fix='Pass format="bytes", and take it apart in a transform',
            source=place,
        )
    return found


def open_kafka_source(
    topic: str,
    *,
    brokers: str,
    start: object = None,
    format: Literal["bytes", "json"] = "bytes",  # noqa: A002 - as everywhere
    schema: pa.Schema | None = None,
    metadata: bool = True,
    on_missing: Literal["error", "earliest"] = "error",
    config: Mapping[str, Any] | None = None,
) -> KafkaSource:
    """A source of the committed records of a topic.

    Args:
        topic: Its name.
        brokers: "host:port", several with commas between.
        start: None or "earliest", "latest", a time with its zone (the first record of each partition from then on), or a dict of the
            first offset by partition; partitions that it leaves out begin at their first record.
        format: "bytes", or "json": the fields of the value, a JSON object, are columns; a record without a value has nulls in them.
        schema: Of JSON, the columns of the value; without it those of the first records.
        metadata: Of JSON, whether key, topic, partition, offset, timestamp and headers follow as columns.
        on_missing: What to do where records are gone that were not read: "error", or go on at the "earliest" that is there.
        config: Further settings of librdkafka, such as those of SASL. A `group.id` there is told the offsets that were committed, for
            those who watch its lag; its offsets are never read.

    Raises InvalidOption, UnsupportedType; NotSupported without confluent-kafka, as it is started.
    """
    for option, value, known in (("format", format, FORMATS), ("on_missing", on_missing, ON_MISSING)):
        one_of(option, value, known)
    if format == "bytes" and schema is not None:
        raise InvalidOption(
            "schema= was given for records whose values are bytes",
            why=f"They have the columns {', '.join(RECORDS.names)}",
            fix='Leave it out, or pass format="json"',
            option="schema",
            value=schema,
        )
    whole = schema
    if format == "bytes":
        whole = RECORDS
    elif isinstance(schema, pa.Schema) and metadata:
        whole = pa.schema([*schema, *METADATA])
    values = _as_bytes if format == "bytes" else partial(_as_json, topic=topic, schema=schema, metadata=metadata)
    settings = dict(config or {})
    group = settings.pop("group.id", None)
    reached = KafkaTopic(name=topic, brokers=brokers, clock=SystemClock(), group=group, config=settings)
    return KafkaSource(reached, start=parse_start(start), values=values, schema=whole, on_missing=on_missing)


def parse_start(start: object) -> str | int | Mapping[int, int]:
    """Where a caller lets it begin: a word, milliseconds since 1970 UTC, or offsets by partition. Raises InvalidOption, InvalidTime."""
    if start is None or start == "earliest":
        return "earliest"
    if start == "latest":
        return "latest"
    if (time_ns := start_time(start)) is not None:
        # The first millisecond that is not before it.
        return -(-time_ns // 10**6)
    if isinstance(start, Mapping) and all(type(one) is int and one >= 0 for pair in start.items() for one in pair):
        return dict(start)
    raise InvalidOption(
        f"start={start!r} is no place in a topic",
        why="A source of a topic begins at its first records, behind its last, at a time, or at offsets by partition",
        fix='Pass "earliest", "latest", a time such as "2026-01-05T00:00:00Z", or a dict such as {0: 100}',
        option="start",
        value=start,
    )
