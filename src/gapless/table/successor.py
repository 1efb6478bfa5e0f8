"""What takes the place of a segment from which rows go or to which rows come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gapless.dialects.timeseries.actions import TableMeta
from gapless.errors import NullKey
from gapless.model.distinct import distinct
from gapless.model.fit import fit
from gapless.model.schema import stored_schema
from gapless.model.segment import Segment
from gapless.parquet.attempt import Attempt
from gapless.parquet.gather import as_written, gather_runs
from gapless.parquet.keys import KeyIds
from gapless.parquet.merge import merge_runs
from gapless.parquet.run import Run, sort_run
from gapless.parquet.segment_encoder import SegmentEncoder
from gapless.table import stage
from gapless.table.before import Before
from gapless.table.cut import KeyCut, Splitting
from gapless.table.patch import Patcher


@dataclass(slots=True)
class Losses:
    """What has been taken away so far."""

    rows: int = 0
    hits: list[KeyIds] = field(default_factory=list)
    """The numbers of the keys for which rows went, segment by segment."""

    @property
    def keys(self) -> int:
        """For how many keys rows went."""
        return len(distinct(np.concatenate(self.hits))) if self.hits else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SuccessorWriter:
    """Writes what remains of segments, and new rows, as segments of an attempt."""

    before: Before
    meta: TableMeta
    """The table's metadata after the change."""
    cut: Splitting
    attempt: Attempt
    losses: Losses = field(default_factory=Losses)

    def loses_rows(self, segment: Segment) -> bool:
        """Whether a row of the segment goes; reads no more columns than tell."""
        seen = self.before.rows(segment, self.cut.seen)
        return any(self.cut.split(rows).kept.num_rows < rows.num_rows for rows in seen)

    def succeed(self, segment: Segment, arrivals: Run | None) -> None:
        """Write the segment's rows less those that go, and `arrivals`, as one segment; nothing where no row is left.

        A segment whose rows are in no order, as other writers leave them, becomes as many segments as an append of its rows would.
        """
        index, grid, schema = self.before.index, self.before.grid, self.before.schema
        if arrivals is not None and self._patched(segment, arrivals):
            return
        kept = self._kept(segment)
        if segment.sorted_by == self.before.keys:
            new = sort_run(schema.empty_table(), index, grid) if arrivals is None else arrivals
            self.write(merge_runs(kept, new, index, grid))
            return
        tables = chain(kept, () if arrivals is None else (arrivals.table,))
        batches = (batch for table in tables for batch in table.to_batches())
        for run in gather_runs(batches, schema, index, grid, stage.RUN_BYTES):
            self.write((run,))

    def _patched(self, segment: Segment, arrivals: Run) -> bool:
        """Write the segment with `arrivals` in the place of as many rows that have their keys; False where it has other rows, too."""
        if not isinstance(self.cut, KeyCut):
            return False
        patcher = Patcher(before=self.before, meta=self.meta, cut=self.cut)
        patched = patcher.patch(segment, arrivals.table, self._stored(arrivals).table)
        if patched is None:
            return False
        self.losses.rows += len(patched.hits)
        self.losses.hits.append(patched.hits)
        self.attempt.write(patched.encoded, self.before.state, self.before.entity_types)
        return True

    def write_new(self, rows: Run) -> None:
        """Write new rows as segments of bounded size."""
        count = rows.table.num_rows
        each = max(1, count * stage.RUN_BYTES // max(1, rows.table.nbytes))
        for start in range(0, count, each):
            self.write((rows.part(start, min(count, start + each)),))

    def write(self, runs: Iterable[Run]) -> None:
        """Write runs, each of which belongs after those before it, as one segment; nothing where they hold no rows."""
        encoder: SegmentEncoder | None = None
        for run in runs:
            stored = as_written(self._stored(run), self.meta)
            if encoder is None:
                encoder = SegmentEncoder(stored.rows.schema, self.before.index, self.meta.properties.codec)
            encoder.write(stored)
        if encoder is not None and encoder.rows:
            self.attempt.write(encoder.finish(), self.before.state, self.before.entity_types)

    def _kept(self, segment: Segment) -> Iterator[pa.Table]:
        first = 0
        for rows in self.before.rows(segment):
            split = self.cut.split(rows)
            self._check_keys(segment, rows, split.kept, first)
            self.losses.rows += rows.num_rows - split.kept.num_rows
            if len(split.hits):
                self.losses.hits.append(split.hits)
            first += rows.num_rows
            yield split.kept

    def _check_keys(self, segment: Segment, rows: pa.Table, kept: pa.Table, first: int) -> None:
        """Raise NullKey for a kept row without an index value or identity, which other writers may have left."""
        for name in self.before.keys:
            if kept.column(name).null_count:
                row = first + pc.index(rows.column(name).is_null(), True).as_py()
                raise NullKey(
                    f"column {name!r} is null in row {row} of segment {segment.path}, which this change would write again",
                    why="Another writer left the row, and every row that is written needs its index value and its identity",
                    fix=f'Delete such rows first: table.delete(where="{name} IS NULL")',
                    column=name, row=row,
                )  # fmt: skip

    def _stored(self, run: Run) -> Run:
        schema, ids = self.before.schema, self.meta.ids
        stored = stored_schema(schema, ids)
        if run.rows.schema.equals(stored):
            # Restored or fitted once already: to fit the values again would give the same.
            return run.with_rows(run.rows.with_schema(stored))
        batches = [fit(batch, schema, self.before.index, 0, ids) for batch in run.table.to_batches()]
        return run.with_rows(pa.Table.from_batches(batches, stored))
