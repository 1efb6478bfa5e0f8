"""`format("gapless_connect")`: a source of `gapless.connect` as a batch read and as a stream; only Spark loads this.

A stream polls its source once for a batch, in the process that plans it, and keeps the rows beside the checkpoints before it tells Spark
where the batch ends. Executors read them there, and so does whoever runs the batch again: the source is not asked twice.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from gapless.connect.sources.protocol import Cursor, Source
from gapless.errors import InvalidOption
from gapless.runtime.environment import RandomIds
from gapless.spark.connected.described import FORMAT, OPTION, DescribedSource, unpacked
from gapless.spark.connected.kept_rows import KeptBatch, KeptRows
from gapless.spark.setup.coded import coded
from gapless.spark.stream.offset import unreadable

# ruff: noqa: N802  # methods as Spark calls them

VERSION = 1
_POLL_ROWS = 1 << 18
_PART_ROWS = 1 << 14
"""Fewer rows than that in a part are not worth a task of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOffset:
    """Where a batch ends: the cursor behind it, and its rows."""

    cursor: str | None
    """JSON; None before the first batch."""
    batch: KeptBatch | None

    @property
    def number(self) -> int:
        """Of the batch; 0 before the first."""
        return 0 if self.batch is None else self.batch.number

    def to_json(self) -> dict[str, Any]:
        """As Spark writes it."""
        one = self.batch
        if one is None:
            return {"gapless_connect": VERSION, "number": 0}
        body = {"stream": one.stream, "number": one.number, "tag": one.tag, "parts": one.parts}
        return {"gapless_connect": VERSION, **body, "cursor": self.cursor}

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> StreamOffset:
        """Read one back; raises InvalidOption for what no release up to this one wrote."""
        if said.get("gapless_connect") != VERSION:
            raise unreadable(said, f"This release writes and reads format {VERSION}")
        try:
            if said["number"] == 0:
                return FIRST
            names = {name: said[name] for name in ("stream", "number", "tag", "parts")}
            return cls(cursor=str(said["cursor"]), batch=KeptBatch(**names))
        except (KeyError, TypeError) as error:
            raise unreadable(said, f"{type(error).__name__}: {error}") from error


FIRST = StreamOffset(cursor=None, batch=None)


class ConnectStreamReader(DataSourceStreamReader):
    """Follows a source. Made anew in each process that needs it, so making one reads nothing."""

    def __init__(self, described: DescribedSource) -> None:
        self._described = described
        if described.kept is None:
            raise InvalidOption(
                f"a stream of {described} has no place for the rows of its batches",
                why="They are kept until a batch is committed",
                fix="Run it as a pipeline",
                option="kept",
                value=None,
            )
        self._kept = KeptRows(described.kept)
        self._source: Source | None = None
        self._stands: StreamOffset | None = None
        """Where the open source stands."""
        self._position = FIRST
        self._planned: tuple[StreamOffset, StreamOffset] | None = None
        """Where the batch that was planned last begins and ends: its rows are polled once, however often Spark asks."""

    def initialOffset(self) -> dict[str, Any]:
        """Before the first row: where that is, the first batch says."""
        return FIRST.to_json()

    @coded()
    def latestOffset(self, start: Mapping[str, Any] | None = None, limit: object = None) -> dict[str, Any]:  # noqa: ARG002
        """Where the next batch ends, which begins at `start`, or at the end of the last one where Spark (4.1) does not say that.

        Polls the source and keeps the rows. Raises as the source does, and as `DescribedSource.rows_of`.
        """
        begin = self._position if start is None else StreamOffset.from_json(start)
        if self._planned is None or self._planned[0] != begin:
            self._planned = (begin, self._poll(begin))
            if self._planned[1] == begin:
                self._planned = None
                return begin.to_json()
        return self._planned[1].to_json()

    @coded()
    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[InputPartition]:
        """The rows of the batch that ends at `end`; none between an offset and itself, as which Spark 4.1 tells where a query stands."""
        first, last = StreamOffset.from_json(start), StreamOffset.from_json(end)
        self._advance(last)
        if first == last or last.batch is None:
            return []
        if last.number != first.number + 1:
            raise unreadable(start, f"The batch that ends at number {last.number} begins at {last.number - 1}")
        return [InputPartition(last.batch.path(part)) for part in range(last.batch.parts)]

    @coded()
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a part."""
        with coded():
            yield from self._kept.read(partition.value)

    @coded()
    def commit(self, end: Mapping[str, Any]) -> None:
        """A batch is done, and its rows are needed no more."""
        done = StreamOffset.from_json(end)
        self._advance(done)
        if done.batch is not None:
            self._kept.forget(done.batch.stream, done.number)

    def stop(self) -> None:
        """Close the source."""
        if self._source is not None:
            self._source.close()
            self._source = self._stands = None

    # ------------------------------------------------------------------------------------------------------------------

    def _advance(self, end: StreamOffset) -> None:
        if end.number > self._position.number:
            self._position = end

    def _poll(self, begin: StreamOffset) -> StreamOffset:
        """Poll what comes after `begin`, keep it, and say where it ends; `begin` where the source has not moved."""
        source = self._opened(begin)
        self._stands = None
        before, rows, taken = source.cursor.to_json(), 0, list[pa.RecordBatch]()
        while rows < self._described.max_rows:
            columns = source.schema
            polled = source.poll(self._described.max_rows - rows)
            taken += self._described.rows_of(polled, columns)
            rows += polled.rows
            if not polled.schema_changed:
                break
        cursor = source.cursor.to_json()
        if not taken and cursor == before and begin.batch is not None:
            self._stands = begin
            return begin
        ids = RandomIds()
        stream = ids.uuid() if begin.batch is None else begin.batch.stream
        parts = self._parts(taken)
        batch = KeptBatch(stream=stream, number=begin.number + 1, tag=ids.uuid()[:8], parts=len(parts))
        self._kept.put(batch, parts)
        self._stands = StreamOffset(cursor=cursor, batch=batch)
        return self._stands

    def _opened(self, begin: StreamOffset) -> Source:
        """The source, standing at an offset."""
        if self._source is None:
            self._source = self._described.open()
        if self._stands != begin:
            self._source.start(None if begin.cursor is None else Cursor.from_json(begin.cursor))
        return self._source

    def _parts(self, batches: list[pa.RecordBatch]) -> list[pa.Table]:
        """The rows in parts of about one size, as many as there are cores; none without rows."""
        if not batches:
            return []
        rows = pa.Table.from_batches(batches, self._described.shown)
        size = max(_PART_ROWS, -(-rows.num_rows // (os.cpu_count() or 1)))
        return [rows.slice(first, size) for first in range(0, rows.num_rows, size)]


class ConnectReader(DataSourceReader):
    """All rows that a source has, in one task: its cursor tells where they go on, and not how they could be divided."""

    def __init__(self, described: DescribedSource) -> None:
        self._described = described

    def partitions(self) -> Sequence[InputPartition]:
        """One."""
        return [InputPartition(0)]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """The rows from where the options say that the source begins."""
        with coded(), self._described.open() as source:
            source.start()
            while True:
                columns = source.schema
                polled = source.poll(_POLL_ROWS)
                if not polled:
                    return
                yield from self._described.rows_of(polled, columns)


class ConnectSource(DataSource):
    """Made by `gapless.spark.connected.described.connected_frame`, which says its columns."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    def reader(self, schema: StructType) -> ConnectReader:  # noqa: ARG002
        """What is there when it is run."""
        return ConnectReader(replace(unpacked(self.options[OPTION]), kept=None))

    def streamReader(self, schema: StructType) -> ConnectStreamReader:  # noqa: ARG002
        """What comes."""
        return ConnectStreamReader(unpacked(self.options[OPTION]))
