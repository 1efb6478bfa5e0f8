"""Compaction of time-series tables (OPTIMIZE): the same rows in larger segments, sorted or clustered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Self, cast

import pyarrow as pa

from gapless.coverage.bucket import Grid
from gapless.errors import CorruptTable, DataError
from gapless.files.read.row_filter import EVERYTHING
from gapless.files.read.scan import ReadPlan, read
from gapless.files.read.source import open_segment
from gapless.files.sort.curve_sort import z_order
from gapless.files.sort.run import Run, gather_runs, pieces
from gapless.files.write.segment_encoder import CODEC_KEY, SegmentEncoder
from gapless.files.write.staged_write import BegunSegment, StagedWrite
from gapless.formats.timeseries.actions import Action, AddSegment, Commit, RemoveSegment, TableState, UpdateTableMeta
from gapless.formats.timeseries.codec.metadata import with_features
from gapless.formats.timeseries.conflict.maintenance import CompactChecker
from gapless.log.format import Snapshot
from gapless.model.fit import fit
from gapless.model.properties import CODECS, Codec
from gapless.model.protocols import Store
from gapless.model.schema import entity_types, stored_schema
from gapless.model.segment import Segment
from gapless.predicate.plan import ReadGroup, prune
from gapless.predicate.range import index_range
from gapless.runtime.committer import Proposal
from gapless.tables.shared.compaction import (
    Compaction,
    CompactionProgress,
    CompactionReport,
    GivenUp,
    WrittenBin,
    check_stored_values,
)
from gapless.tables.shared.findings import count
from gapless.tables.timeseries.care.compact_plan import Bin, CompactionPlan, CompactOptions, plan_compaction
from gapless.tables.timeseries.context import SeriesContext, SeriesProposal, new_commit
from gapless.tables.timeseries.verify.segment_check import check_bytes
from gapless.tables.timeseries.write.stage import as_written

SegmentBin = WrittenBin[Bin, Segment]
"""A bin's segments as they were written again."""

CLUSTERED_GROUP_ROWS = 32_768
"""Rows of a row group whose rows lie along a z-order: small ones let a filter pass over more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compactor(Compaction[Commit, TableState, Bin, Segment]):
    """Compacts one table in this process, one bin after the other."""

    context: SeriesContext
    options: CompactOptions
    codecs: Mapping[str, Codec] = field(default_factory=dict)
    """Codecs of the segments that were live when it began, by path, where the options name one."""

    noun = "segment"

    def plan(self, snapshot: Snapshot[TableState]) -> CompactionPlan:
        """What `compact` would begin with; reads the segments' footers where their compression matters. Raises CorruptTable."""
        return self._begun(snapshot.state).next_plan(snapshot.state)

    def compact(self, snapshot: Snapshot[TableState]) -> CompactionReport:
        """See `Compaction.run`; with `max_bytes` only what the first plan holds."""
        return self._begun(snapshot.state).run(snapshot)

    def _begun(self, state: TableState) -> Self:
        codecs = {} if self.options.codec is None else codecs_of(self.context.store, state.segments)
        return replace(self, codecs=codecs, progress=CompactionProgress(before=state.live))

    def next_plan(self, state: TableState) -> CompactionPlan:
        """What is left to be rewritten, and what to leave."""
        meta = state.meta
        if meta.schema is None:
            return CompactionPlan(bins=(), left={}, target_size=self.options.target_size)
        return plan_compaction(
            [segment for segment in state.segments if self._is_meant(segment.path)],
            meta.index,
            meta.schema,
            self.options,
            ids=meta.ids,
            codecs=self.codecs,
            settled=self.progress.made.keys(),
            hopeless=self.progress.hopeless,
        )

    def _is_meant(self, path: str) -> bool:
        only = self.options.only
        return self.progress.is_own(path) and (only is None or path in only)

    @property
    def commit_bytes(self) -> int:
        """The target size."""
        return self.options.target_size

    def next_bins(self, state: TableState) -> Sequence[Bin]:
        """See `Compaction`."""
        spent = self.progress.rounds and self.options.max_bytes is not None
        return () if spent else self.next_plan(state).bins

    def write(self, state: TableState, bins: Sequence[Bin]) -> Iterator[SegmentBin | GivenUp]:
        """Each of some bins in its order, as `write_bin` gives it; the files of all are named with one instant.

        Raises StoreError, and what keeps others from their work; what was not given then is not there, or left to vacuum.
        """
        env, grid = self.context.env, self.context.grid
        instant = StagedWrite.begin(env).instant
        attempts = (StagedWrite(env, instant, committed_here=True) for _ in bins)
        return (write_bin(one, mine, state, self.options, grid) for one, mine in zip(bins, attempts, strict=True))

    def propose(self, snapshot: Snapshot[TableState], written: Sequence[SegmentBin]) -> SeriesProposal:
        """See `Compaction`."""
        meta, options = snapshot.state.meta, self.options
        actions: list[Action] = [] if meta.is_ours else [UpdateTableMeta(with_features(meta))]
        for one in written:
            actions += [RemoveSegment(path) for path in one.bin.paths]
            actions += [AddSegment(segment) for segment in one.files]
        parameters: dict[str, object] = {"bins": len(written), "target_size": options.target_size}
        if options.cluster_by:
            parameters["cluster_by"] = list(options.cluster_by)
        entry = new_commit(self.context.env, "compact", parameters, actions)
        return Proposal(commit=entry, check_conflict=CompactChecker(removed=frozenset(entry.removed)).check_conflict)

    def landed(self, written: Sequence[SegmentBin]) -> None:
        """Remember what the segments cover."""
        for one in written:
            self.context.remember(one.files, one.coverage)

    def live(self, state: TableState) -> Container[str]:
        """By path."""
        return state.live

    def key_of(self, file: Segment) -> str:
        """Its path."""
        return file.path

    def rows_of(self, file: Segment) -> int:
        """As the log says."""
        return file.rows


# -- one bin: its segments read, sorted and written anew, in bounded memory ---------------------------------------------


def write_bin(one: Bin, attempt: StagedWrite, state: TableState, options: CompactOptions, grid: Grid) -> SegmentBin | GivenUp:
    """Write a bin's rows as segments of an attempt that holds nothing else; what is given up is discarded. Of `state` only `meta` counts.

    Given up are segments that are damaged, hold rows that the table cannot hold, or not as many as the log says: the bin's others may be
    planned anew. A whole bin is, if it makes no fewer segments than it has and that is all it was for. Raises StoreError, with nothing
    left behind.
    """
    with attempt.discarded_on_error():
        refused = _damage(attempt.env.store, one.segments) or _written(one, _Writer(state, options, grid, attempt))
        # A commit of it that loses is tried again, with the same files.
        attempt.settle()
    if refused is not None:
        attempt.discard()
        return refused
    order = {"sorted_by": (), "clustered_by": one.cluster_by} if one.cluster_by else {}
    segments = tuple(replace(segment, data_change=False, **order) for segment in attempt.segments)  # type: ignore[arg-type]
    return WrittenBin(bin=one, attempt=attempt, files=segments, coverage=attempt.coverage)


def _damage(store: Store, segments: Iterable[Segment]) -> GivenUp | None:
    """The first damaged segment, if there is one.

    Parquet passes over some flipped bits; written again they would have a checksum that is right.
    """
    findings = (finding for segment in segments for finding in check_bytes(store, segment).findings)
    return next((GivenUp(paths=(finding.path,), why=finding.what) for finding in findings), None)


def _written(one: Bin, writer: _Writer) -> GivenUp | None:
    """Why what was written may not take the bin's place; None where it may."""
    try:
        writer.write(one)
    except (CorruptTable, DataError) as error:
        return GivenUp(paths=(writer.reading,), why=f"segment {writer.reading} cannot be rewritten: {error.what}")
    for segment in one.segments:
        if (rows := writer.rows[segment.path]) != segment.rows:
            why = f"segment {segment.path} gave {count(rows, 'row')}, and the log says {segment.rows:,}"
            return GivenUp(paths=(segment.path,), why=why)
    made = len(writer.attempt.segments)
    if one.must_shrink and made >= len(one.segments):
        why = f"{count(len(one.segments), 'segment')} would make {made}: their rows take more memory than was guessed"
        return GivenUp(paths=tuple(segment.path for segment in one.segments), why=why)
    return None


def codecs_of(store: Store, segments: Iterable[Segment]) -> dict[str, Codec]:
    """The codec of segments, by path, as their footers have it: by name, or their compression. Raises CorruptTable, StoreError."""
    return {segment.path: codec for segment in segments if (codec := _codec_of(store, segment)) is not None}


def _codec_of(store: Store, segment: Segment) -> Codec | None:
    with open_segment(store, segment) as file:
        if not file.metadata.num_row_groups or not file.metadata.num_columns:
            return None
        said = (file.metadata.metadata or {}).get(CODEC_KEY.encode())
        name = file.metadata.row_group(0).column(0).compression.lower() if said is None else said.decode()
    known = {"uncompressed": "none", "lz4_raw": "lz4"}.get(name, name)
    return cast("Codec", known) if known in CODECS else None


@dataclass(slots=True)
class _Writer:
    """Writes runs as segments: one after another into the same, while they continue it and it is below the target size."""

    state: TableState
    options: CompactOptions
    grid: Grid
    attempt: StagedWrite
    rows: Counter[str] = field(default_factory=Counter)
    """Rows read of each segment, by path."""
    reading: str = ""
    """The segment that is being read."""
    encoder: SegmentEncoder | None = None
    begun: BegunSegment | None = None
    """Where `encoder` writes."""
    last: object = None
    """The key of the last row of `encoder`; None where its rows are in no order."""
    _open: ExitStack = field(default_factory=ExitStack)
    """What `begun` is closed by."""

    def write(self, one: Bin) -> None:
        with self._open:
            for window in one.windows or (None,):
                for run in self._runs(one, window):
                    self._add(as_written(run, self.state.meta), one.cluster_by)
            self._finish()

    def _runs(self, one: Bin, window: tuple[int, int] | None) -> Iterator[Run]:
        meta = self.state.meta
        plan = ReadPlan(
            groups=(),
            index=meta.index,
            schema=self._schema,
            ids=meta.ids,
            columns=tuple(self._schema.names),
            predicate=EVERYTHING if window is None else index_range(meta.index, self._schema, *window),
        )
        stored = stored_schema(self._schema, meta.ids)
        return gather_runs(self._fitted(one, plan), stored, meta.index, self.grid, self.options.sort_bytes)

    def _fitted(self, one: Bin, plan: ReadPlan) -> Iterator[pa.RecordBatch]:
        """The bin's rows as files hold them, segment after segment."""
        for segment in prune(one.segments, plan.predicate, plan.index, plan.schema, plan.ids):
            self.reading = segment.path
            for batch in read(self.attempt.env.store, plan.over((ReadGroup(segments=(segment,), sort=False),))):
                check_stored_values(batch, self.rows[segment.path], segment.path)
                self.rows[segment.path] += batch.num_rows
                for piece in pieces(batch, self.options.sort_bytes):
                    yield fit(piece, plan.schema, plan.index, 0, plan.ids)

    def _add(self, run: Run, cluster_by: tuple[str, ...]) -> None:
        index = self.state.meta.index
        follows = self.last is not None and self.last <= run.edge_key(0)  # type: ignore[operator]
        if self.encoder is not None and (not follows or self.encoder.size >= self.options.target_size):
            self._finish()
        if self.encoder is None:
            codec = self.options.codec or self.state.meta.properties.codec
            group_rows = CLUSTERED_GROUP_ROWS if cluster_by else None
            self.begun = self._open.enter_context(self.attempt.begun(run.rows.source.nbytes))
            self.encoder = SegmentEncoder(run.rows.schema, index, codec, group_rows, self.begun.onto)
        if cluster_by:
            self.encoder.write_table(run.table.take(pa.array(z_order(run.table, cluster_by))), run.coverage)
        else:
            self.encoder.write(run)
            self.last = run.edge_key(-1)

    def _finish(self) -> None:
        if self.encoder is not None:
            types = entity_types(self._schema, self.state.meta.index)
            self.attempt.write(self.encoder.finish(), self.state, types, begun=self.begun)
            self._open.close()
        self.encoder = self.begun = self.last = None

    @property
    def _schema(self) -> pa.Schema:
        assert self.state.meta.schema is not None
        return self.state.meta.schema
