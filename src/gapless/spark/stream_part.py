"""One partition of a stream's batch: planned on the driver, read by a Python worker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from gapless.dialects.timeseries.actions import TableMeta, TableState
from gapless.model.protocols import Store
from gapless.model.segment import Segment
from gapless.parquet.scan import ReadPlan, read
from gapless.runtime.driver import Rim
from gapless.scan.plan import ReadGroup
from gapless.spark.packing import packs_of
from gapless.spark.shown import shown_batches, shown_schema
from gapless.table.changes import Told
from gapless.table.travel import absence_told


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
    told: tuple[Told, ...]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows in Spark's types, a row group in memory at a time, or what telling a change apart takes.

        Raises VersionNotFound where a version expired since it was planned and its files are gone; CorruptTable, StoreError.
        """
        rim, shown = Rim(store=self.store), shown_schema(self.declared)
        for one in self.told:
            with absence_told(rim, one.version - bool(one.change.removed)):
                yield from shown_batches(self._rows(one), shown)

    def _rows(self, told: Told) -> Iterator[pa.RecordBatch]:
        if self.feed:
            return told.rows(self.store, TableState(meta=self.meta, live={}), self.declared)
        assert self.meta.schema is not None
        plan = ReadPlan(
            groups=tuple(ReadGroup(segments=(segment,), sort=False) for segment in told.change.added),
            index=self.meta.index,
            schema=self.meta.schema,
            ids=self.meta.ids,
            columns=tuple(self.declared.names),
        )
        return read(self.store, plan)


def packed(told: Sequence[Told], cores: int) -> list[tuple[Told, ...]]:
    """The changes, in their order, in packs of about one size, as `packs_of` makes them of segments."""
    rest = iter(told)
    return [tuple(next(rest) for _ in pack) for pack in packs_of(map(_weighed, told), cores)]


def _weighed(told: Told) -> Segment:
    """A segment as large as all that must be read for a change."""
    segments = (*told.change.removed, *told.change.added)
    known = [one.size for one in segments if one.size is not None]
    size = sum(known) if len(known) == len(segments) else None
    return replace(segments[0], size=size, rows=sum(one.rows for one in segments))
