"""The segments of one checkpoint of a sink in the making."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa

from gapless.files.ingest.batches import Batches
from gapless.files.sort.merge import MOST_RUNS, CompressedRun, merge, pieces_of
from gapless.files.sort.run import Run, gather_runs, pieces, sort_run
from gapless.files.write.file_writer import ROW_GROUP_BYTES
from gapless.files.write.segment_encoder import SegmentEncoder, encode_segment
from gapless.files.write.staged_write import BegunSegment, StagedWrite
from gapless.formats.timeseries.actions import TableMeta
from gapless.formats.timeseries.codec.metadata import encode_meta, with_features
from gapless.formats.timeseries.codec.segment import encode_segment as said_of
from gapless.formats.timeseries.replay import sidecars_of
from gapless.model.fit import to_declared
from gapless.model.operation import SequenceId
from gapless.model.schema import entity_types, stored_schema
from gapless.runtime.committer import calling_on_error
from gapless.tables.shared.compaction import TARGET_BYTES
from gapless.tables.shared.handle import table_id
from gapless.tables.shared.prepared import PreparedCommit, PreparedFile
from gapless.tables.timeseries.context import SeriesContext
from gapless.tables.timeseries.correct.corrections import CorrectionArguments
from gapless.tables.timeseries.handle import context_of
from gapless.tables.timeseries.table import TimeSeriesTable
from gapless.tables.timeseries.write.append import Appender
from gapless.tables.timeseries.write.prepared import policy_of
from gapless.tables.timeseries.write.stage import Stager, as_written
from gapless.tables.timeseries.write.staged_append import schema_with, stands

_PIECES = 32
"""Rows are laid together in pieces of a thirtieth of a segment."""
_SAMPLED, _LEAST_SAMPLE, _MOST_SAMPLE = 8, 1 << 20, 16 << 20
"""An eighth of the rows tells how small they become on disk, but no less and no more than so much Arrow memory: few take more room each."""
_GROUP_SHARE, _LEAST_GROUP_BYTES = 4, 1 << 20
"""Rows of a row group are held until it is made: so large a share of what may be held, but no less."""


@dataclass(slots=True, kw_only=True)
class SeriesEpoch:
    """The segments of one epoch in the making, all for the version of the table that was the newest when it began.

    Rows that make no whole segment wait for more, sorted and compressed; then they are merged, so that each segment is in one order.
    """

    context: SeriesContext
    given: pa.Schema
    stager: Stager
    meta: TableMeta
    attempt: StagedWrite
    table_id: str
    target_bytes: int
    """About how large a segment becomes on disk, where there are so many rows."""
    held_bytes: int
    """How much memory rows may take that wait."""
    waiting: tuple[CompressedRun, ...] = ()
    waiting_size: int = 0
    """About how many bytes they become on disk."""

    @classmethod
    def begin(cls, table: TimeSeriesTable, given: pa.Schema, target_bytes: int | None, held_bytes: int) -> SeriesEpoch:
        """For rows of these columns, in segments of about so many bytes on disk, or 128 MiB.

        Raises SchemaMismatch, UnsupportedType, UpgradeNeeded, UnsupportedTable, StoreError.
        """
        context = context_of(table, to_write=True)
        context = replace(context, snapshot=context.refresh())
        state = context.snapshot.state
        meta = with_features(replace(state.meta, schema=schema_with(given, context, state, "the rows")))
        return cls(
            context=context,
            given=given,
            stager=Stager.of(context, replace(state, meta=meta), "allow"),
            meta=meta,
            attempt=StagedWrite.begin(context.env, committed_here=True),
            table_id=table_id(table),
            target_bytes=target_bytes or TARGET_BYTES,
            held_bytes=held_bytes,
        )

    def fit(self, rows: pa.Table) -> list[pa.RecordBatch]:
        """Rows as the table stores them. Raises DataError where one does not fit."""
        part = Batches(source="the rows", schema=rows.schema, read=lambda: iter(rows.to_batches()), rows_hint=rows.num_rows)
        return list(self.stager.fitted((part,), self.schema))

    def add(self, rows: Sequence[pa.RecordBatch], *, close: bool) -> Callable[[], None]:
        """Take fitted rows; see `connect.sinks.epoch.Epoch.add`."""
        undo = partial(self._undo, self.waiting, self.waiting_size, len(self.attempt.written), len(self.attempt.segments))
        with calling_on_error(undo):
            if close and not self.waiting:
                self._write_apart(rows)
            elif close:
                self._write_merged(rows, self.waiting_size + self._size_of(rows))
            else:
                self._take(rows)
        return undo

    @property
    def schema(self) -> pa.Schema:
        """The table's schema once it has taken the rows."""
        assert self.meta.schema is not None
        return self.meta.schema

    def prepared(self, operation: SequenceId, change: Mapping[str, Any], attempt: str) -> PreparedCommit:
        """The document that says all; not stored yet. Raises CoverageOverlap under "reject", as far as the newest version goes."""
        self._check_overlap(change)
        segments = self.attempt.segments
        return PreparedCommit(
            kind="timeseries",
            table=self.context.store.url,
            table_id=self.table_id,
            operation=operation,
            change=change,
            files=tuple(PreparedFile(path=one.path, rows=one.rows, size=one.size or 0) for one in segments),
            kept=tuple(path for one in segments for path in sidecars_of(one)),
            staged={
                "instant": self.attempt.instant,
                "meta": encode_meta(self.meta),
                "given": base64.b64encode(self.given.serialize().to_pybytes()).decode(),
                "segments": [said_of(one) for one in segments],
            },
            prepared_ns=self.context.env.clock.now_ns(),
            attempt=attempt,
        )

    def _take(self, rows: Sequence[pa.RecordBatch]) -> None:
        """Have rows wait for more, or write them with those that wait, where the next ones would make them too many."""
        size = self._size_of(rows)
        total, memory = self.waiting_size + size, sum(one.data.size for one in self.waiting)
        if total + size // 2 < self.target_bytes and memory + size <= self.held_bytes and len(self.waiting) < MOST_RUNS - 1:
            self.waiting, self.waiting_size = (*self.waiting, CompressedRun.of(self._sorted(rows))), total
        elif self.waiting:
            self._write_merged(rows, total)
        else:
            self._write_apart(rows)

    def _write_apart(self, rows: Sequence[pa.RecordBatch]) -> None:
        """Write rows as segments of their own, in order of arrival."""
        types = entity_types(self.schema, self.meta.index)
        limit = self._run_bytes(rows)
        parts = (piece for batch in rows for piece in pieces(batch, max(1, limit // _PIECES)))
        for run in gather_runs(parts, self._stored, self.meta.index, self.context.grid, limit):
            self.stager.write(run, self.attempt, types)

    def _write_merged(self, rows: Sequence[pa.RecordBatch], size: int) -> None:
        """Write rows with all that wait, which become so many bytes together, as segments that follow each other."""
        runs = [one.pieces() for one in self.waiting] + ([pieces_of(self._sorted(rows))] if rows else [])
        count = sum(one.rows for one in self.waiting) + sum(one.num_rows for one in rows)
        segments = max(1, round(size / self.target_bytes))
        with ExitStack() as stack:
            writer = _SegmentWriter(epoch=self, most_rows=-(-count // segments), stack=stack)
            writer.write(merge(runs, self.meta.index, self.context.grid))
        self.waiting, self.waiting_size = (), 0

    def _sorted(self, rows: Sequence[pa.RecordBatch]) -> Run:
        return sort_run(pa.Table.from_batches(rows, self._stored), self.meta.index, self.context.grid)

    def _run_bytes(self, rows: Sequence[pa.RecordBatch]) -> int:
        """How much Arrow memory of these rows makes a segment, so that all are of one size and near the target."""
        memory = sum(int(batch.nbytes) for batch in rows)
        if memory <= self.target_bytes:
            return max(memory, 1)
        segments = max(1, round(self._size_of(rows) / self.target_bytes))
        return memory // segments + 1

    def _size_of(self, rows: Sequence[pa.RecordBatch]) -> int:
        """About how many bytes rows become on disk, as a sample tells."""
        memory, count = sum(int(batch.nbytes) for batch in rows), sum(batch.num_rows for batch in rows)
        if not count:
            return 0
        wanted = min(_MOST_SAMPLE, max(_LEAST_SAMPLE, memory // _SAMPLED))
        sample = pa.Table.from_batches(rows).slice(0, max(1, count * wanted // max(1, memory)))
        run = as_written(sort_run(sample, self.meta.index, self.context.grid), self.meta)
        encoded = encode_segment(run, self.meta.index, self.meta.properties.codec)
        return memory * encoded.size // max(1, int(sample.nbytes))

    @property
    def _stored(self) -> pa.Schema:
        return stored_schema(self.schema, self.meta.ids)

    def _undo(self, waiting: tuple[CompressedRun, ...], waiting_size: int, written: int, segments: int) -> None:
        self.waiting, self.waiting_size = waiting, waiting_size
        self.attempt.undo(written)
        del self.attempt.segments[segments:], self.attempt.coverage[segments:]

    def _check_overlap(self, change: Mapping[str, Any]) -> None:
        said = policy_of(change)
        if said not in (None, "reject"):
            return
        context, state = self.context, self.context.refresh().state
        if (said or state.meta.properties.on_overlap) == "reject":
            stands(Appender(context=context, on_overlap="reject"), state, self.attempt)


def fit_inside(
    epoch: SeriesEpoch, span: tuple[object, object], entity: Mapping[str, object] | None
) -> Callable[[pa.Table], object]:
    """Raises DataError for rows that the table does not take, and InvalidValue for one that lies outside of the range and the entities.

    Raises itself InvalidTime, UnknownColumn, InvalidOption for a range or entities that the table cannot have.
    """
    meta, state = epoch.meta, epoch.context.snapshot.state
    asked = CorrectionArguments(start=span[0], end=span[1], entity=entity)
    replacement = asked.replace(meta.index, epoch.schema)

    def fit(rows: pa.Table) -> None:
        stored = epoch.fit(rows)
        declared = [to_declared(batch, epoch.schema, ids=meta.ids) for batch in stored]
        replacement.check_inside(state, epoch.schema, pa.Table.from_batches(declared, epoch.schema))

    return fit


@dataclass(slots=True, kw_only=True)
class _SegmentWriter:
    """Writes runs that follow each other as segments of so many rows."""

    epoch: SeriesEpoch
    most_rows: int
    stack: ExitStack
    """What the segment in the making is closed by."""
    encoder: SegmentEncoder | None = None
    begun: BegunSegment | None = None
    types: Any = field(init=False)

    def __post_init__(self) -> None:
        self.types = entity_types(self.epoch.schema, self.epoch.meta.index)

    def write(self, runs: Iterable[Run]) -> None:
        """All of them."""
        for run in runs:
            start, end = 0, run.rows.count
            while start < end:
                encoder = self._opened(run)
                upto = min(end, start + self.most_rows - encoder.rows)
                encoder.write(as_written(run.part(start, upto), self.epoch.meta))
                start = upto
                if encoder.rows == self.most_rows:
                    self._finish(encoder)
        if self.encoder is not None:
            self._finish(self.encoder)

    def _opened(self, first: Run) -> SegmentEncoder:
        if self.encoder is None:
            meta, attempt = self.epoch.meta, self.epoch.attempt
            self.begun = self.stack.enter_context(attempt.begun(self.epoch.target_bytes))
            schema = as_written(first, meta).rows.schema
            group_bytes = min(ROW_GROUP_BYTES, max(_LEAST_GROUP_BYTES, self.epoch.held_bytes // _GROUP_SHARE))
            self.encoder = SegmentEncoder(
                schema, meta.index, meta.properties.codec, onto=self.begun.onto, group_bytes=group_bytes
            )
        return self.encoder

    def _finish(self, encoder: SegmentEncoder) -> None:
        self.epoch.attempt.write(encoder.finish(), self.epoch.stager.state, self.types, begun=self.begun)
        self.stack.close()
        self.encoder = self.begun = None
