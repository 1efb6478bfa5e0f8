"""How far a stream has come, as Spark keeps it in its checkpoint: pure.

One partition of a stream's batch: planned on the driver, read by a Python worker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from gapless.errors import InvalidOption
from gapless.files.read.scan import ReadPlan, read
from gapless.formats.timeseries.actions import TableMeta, TableState
from gapless.formats.timeseries.stream_plan import Cursor
from gapless.model.instant import format_instant, parse_instant
from gapless.model.protocols import Store
from gapless.model.segment import Segment
from gapless.predicate.plan import ReadGroup
from gapless.runtime.environment import Environment
from gapless.spark.reading.arrow_columns import shown_batches, shown_schema
from gapless.spark.setup.executors import packs_of
from gapless.tables.timeseries.read.changes import CommitRows, rows_of_changes
from gapless.tables.timeseries.read.versions import reading_version

FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """A cursor, of which table it is, and where its stream began.

    Spark keeps where a batch ends and asks again where the stream begins: each offset therefore says it, so that a first batch that is
    planned again is the same, whatever was committed meanwhile.
    """

    created_ns: int
    """When the table was made, which tells it from another one at its place."""
    cursor: Cursor
    begin: Cursor

    @classmethod
    def first(cls, created_ns: int, begin: Cursor) -> Offset:
        """Where a stream begins."""
        return cls(created_ns=created_ns, cursor=begin, begin=begin)

    def at(self, cursor: Cursor) -> Offset:
        """Another offset of the same stream."""
        return replace(self, cursor=cursor)

    def start_of(self, end: Offset) -> Cursor:
        """Where the batch from here to `end` starts."""
        return end.begin if self.cursor == self.begin else self.cursor

    def to_json(self) -> dict[str, Any]:
        """As Spark writes it; the same offset is always the same text.

        >>> Offset.first(0, Cursor(version=3)).to_json()["version"]
        3
        """
        return {
            "gapless": FORMAT,
            "table": format_instant(self.created_ns),
            "version": self.cursor.version,
            "index": self.cursor.index,
            "whole": self.cursor.whole,
            "begin": {"version": self.begin.version, "whole": self.begin.whole},
        }

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Offset:
        """Read one back; raises InvalidOption for what no release up to this one wrote."""
        if said.get("gapless") != FORMAT:
            raise _unreadable(said, f"This release writes and reads format {FORMAT}")
        try:
            begin = said["begin"]
            return cls(
                created_ns=parse_instant(said["table"])[0],
                cursor=Cursor(version=int(said["version"]), index=int(said["index"]), whole=bool(said["whole"])),
                begin=Cursor(version=int(begin["version"]), whole=bool(begin["whole"])),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise _unreadable(said, f"{type(error).__name__}: {error}") from error


def _unreadable(said: Mapping[str, Any], why: str) -> InvalidOption:
    return InvalidOption(
        f"the checkpoint has an offset that cannot be read: {dict(said)!r}",
        why=why,
        fix="Use the release that wrote it or a later one; the checkpoint of another source does not serve a table",
        option="checkpointLocation",
        value=dict(said),
    )


@dataclass(frozen=True, kw_only=True)
class StreamPart(InputPartition):
    """Changes whose rows one task gives; picklable."""

    store: Store
    meta: TableMeta
    """The columns under which rows are read."""
    declared: pa.Schema
    """What is given of them, in the table's types."""
    feed: bool
    """Whether the columns of a change feed are behind; without them, changes only bring rows."""
    told: tuple[CommitRows, ...]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows in Spark's types, a row group in memory at a time, or what telling a change apart takes.

        Raises VersionNotFound where a version expired since it was planned and its files are gone; CorruptTable, StoreError.
        """
        env, shown = Environment(store=self.store), shown_schema(self.declared)
        for one in self.told:
            with reading_version(env, one.version - bool(one.change.removed)):
                yield from shown_batches(self._rows(one), shown)

    def _rows(self, told: CommitRows) -> Iterator[pa.RecordBatch]:
        if self.feed:
            return rows_of_changes(self.store, TableState(meta=self.meta, live={}), (told,), self.declared).read()
        assert self.meta.schema is not None
        plan = ReadPlan(
            groups=tuple(ReadGroup(segments=(segment,), sort=False) for segment in told.change.added),
            index=self.meta.index,
            schema=self.meta.schema,
            ids=self.meta.ids,
            columns=tuple(self.declared.names),
        )
        return read(self.store, plan)


def packed(told: Sequence[CommitRows], cores: int) -> list[tuple[CommitRows, ...]]:
    """The changes, in their order, in packs of about one size, as `packs_of` makes them of segments."""
    rest = iter(told)
    return [tuple(next(rest) for _ in pack) for pack in packs_of(map(_weighed, told), cores)]


def _weighed(told: CommitRows) -> Segment:
    """A segment as large as all that must be read for a change."""
    segments = (*told.change.removed, *told.change.added)
    known = [one.size for one in segments if one.size is not None]
    size = sum(known) if len(known) == len(segments) else None
    return replace(segments[0], size=size, rows=sum(one.rows for one in segments))
