"""Appending Parquet files as they are: each becomes a segment, of which only the footer and the key columns are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace

import pyarrow as pa

from gapless.coverage.bitmap import CoverageMap
from gapless.coverage.bucket import Grid
from gapless.errors import CoverageOverlap
from gapless.files.adopt.copy_or_link import Adopt, FileTransfer, TransferredFile, remove_moved
from gapless.files.adopt.keys import KeyScan
from gapless.files.adopt.source import Source, adopted_stats
from gapless.files.ingest.batches import Batches, Progress
from gapless.files.sort.run import sort_run
from gapless.files.write.staged_write import StagedWrite, only_identity
from gapless.formats.timeseries.actions import SetTransaction, TableState, segment_path
from gapless.log.commit import Conflict
from gapless.log.format import Snapshot
from gapless.model.fit import to_declared
from gapless.model.index import IndexSpec
from gapless.model.operation import AppendReport, Tally
from gapless.model.properties import OnOverlap
from gapless.model.schema import entity_types
from gapless.model.segment import Segment
from gapless.tables.shared.landing import ChangeOutcome, land_change
from gapless.tables.timeseries.context import SeriesProposal
from gapless.tables.timeseries.correct.operations import ReplaceCovered
from gapless.tables.timeseries.correct.rewrite import Made, Rewriter
from gapless.tables.timeseries.correct.rewrite_affected import AffectedFiles, RowChanges, rewrite_affected
from gapless.tables.timeseries.correct.row_selection import BaseVersion, CoverageSelector
from gapless.tables.timeseries.write.append import APPEND, Appender
from gapless.tables.timeseries.write.layout import check_layout
from gapless.tables.timeseries.write.refusals import overlap_error
from gapless.tables.timeseries.write.stage import Stager


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectedFile:
    """A file whose key columns were read."""

    source: Source
    scan: KeyScan
    coverage: CoverageMap

    def keys(self, schema: pa.Schema, index: IndexSpec) -> Iterator[pa.RecordBatch]:
        """Its index and entity columns once more, as `schema` declares them; raises UnreadableInput where the file changed since."""
        keyed = pa.schema([schema.field(name) for name in index.keys])
        for batch in self.source.keys(index):
            yield to_declared(batch, keyed)


@dataclass(frozen=True, slots=True)
class ImportedFile:
    """A file that lies in the store as a segment, and is not committed yet."""

    surveyed: InspectedFile
    segment: Segment

    @property
    def coverage(self) -> CoverageMap:
        """What its rows cover."""
        return self.surveyed.coverage


@dataclass(frozen=True, slots=True)
class _Begun:
    """A file that is being placed."""

    file_id: str
    path: str
    """Relative to the table root."""
    placed: Future[TransferredFile]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileImporter:
    """Takes files in for one version of a table."""

    state: TableState
    schema: pa.Schema
    """The table's once it has taken the files, which `check_layout` accepted."""
    grid: Grid
    how: Adopt
    progress: Progress | None = None

    def take(
        self, sources: Sequence[Source], attempt: StagedWrite, check_overlap: Callable[[Sequence[InspectedFile]], object]
    ) -> list[ImportedFile]:
        """The files that have rows, as segments that `attempt` has written.

        `check_overlap` is asked as soon as all keys are known; where it raises, no more is copied. Raises NullKey and the other DataErrors,
        InvalidOption where a file cannot be linked, StoreError, with the attempt to be discarded.
        """
        holding = [source for source in sources if source.rows]
        with FileTransfer(attempt.env.store, self.how) as placing:
            begun = [self._begin(source, number, attempt, placing) for number, source in enumerate(holding)]
            surveyed = list(self._survey(holding))
            check_overlap(surveyed)
            return [self._taken(one, place, attempt) for one, place in zip(surveyed, begun, strict=True)]

    def _begin(self, source: Source, number: int, attempt: StagedWrite, placing: FileTransfer) -> _Begun:
        file_id = attempt.env.ids.uuid()
        path = segment_path(file_id, number, attempt.instant)
        # Named before it is stored, so that it is removed whatever comes.
        attempt.written.append(path)
        return _Begun(file_id, path, placing.begin(source, path))

    def _survey(self, sources: Sequence[Source]) -> Iterator[InspectedFile]:
        index, total = self.state.meta.index, sum(source.rows for source in sources)
        done = 0
        for source in sources:
            scan = KeyScan(index, self.grid)
            for batch in source.keys(index):
                scan.add(batch)
                if self.progress is not None:
                    self.progress(done + scan.rows, total)
            source.check_values(index.keys)
            done += scan.rows
            yield InspectedFile(source=source, scan=scan, coverage=scan.coverage)

    def _taken(self, one: InspectedFile, begun: _Begun, attempt: StagedWrite) -> ImportedFile:
        file, layout, scan = begun.placed.result(), one.source.layout, one.scan
        meta, schema, index = self.state.meta, self.schema, self.state.meta.index
        types = entity_types(schema, index)
        identity, identity_types = only_identity(one.coverage, types)
        assert scan.bounds is not None
        segment = Segment(
            path=begun.path,
            rows=scan.rows,
            size=file.size,
            bounds=scan.bounds,
            index_type=index.type,
            identity=identity,
            identity_types=identity_types,
            coverage=attempt.put_coverage(begun.file_id, one.coverage, types),
            stats=adopted_stats(layout.metadata, layout.schema.names, schema, meta.ids, index, one.coverage.identities()),
            checksum=file.checksum,
            footer_checksum=file.footer_checksum,
            sorted_by=index.keys if scan.in_order else (),
        )
        return ImportedFile(one, segment)


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopter:
    """Adopts files into one table."""

    appender: Appender
    how: Adopt
    newest: Callable[[], int]
    """The newest version that is known."""
    progress: Progress | None = None

    def adopt(self, snapshot: Snapshot[TableState], sources: Sequence[Source]) -> AppendReport:
        """Commit the files as segments of the newest version, all of them or none; a file without rows brings its columns alone.

        Under "skip" a file whose buckets are all covered is left out; one with others besides is refused. A file that is moved goes
        from its place once the commit has landed, and never where that is not certain. Raises as `append_file`.
        """
        if (known := self.appender.known(snapshot)) is not None:
            return known
        attempt = StagedWrite.begin(self.appender.context.env)
        with attempt.discarded_on_error():
            taken = self._take(snapshot.state, sources, attempt)
        land = self._replace if self.appender.on_overlap == "replace" else self._append
        outcome, kept = land(snapshot, sources, taken, attempt)
        if not outcome.already:
            attempt.discard_others({path for one in kept for path in one.segment.files})
            for one in kept if self.how == "move" else ():
                remove_moved(one.surveyed.source)
        return outcome.append_report

    def _take(self, state: TableState, sources: Sequence[Source], attempt: StagedWrite) -> Sequence[ImportedFile]:
        """Place the files while their keys are read; raises DataError where one does not fit, with the attempt to be discarded."""
        schema = self._schema(state, sources)
        taking = FileImporter(state=state, schema=schema, grid=self.appender.context.grid, how=self.how, progress=self.progress)
        return taking.take(sources, attempt, lambda surveyed: self._left_out(self.appender, state, schema, surveyed))

    def _schema(self, state: TableState, sources: Sequence[Source]) -> pa.Schema:
        """The table's schema once it has taken the files; raises SchemaMismatch where one cannot be a segment of this version."""
        layouts = [source.layout for source in sources]
        schema = self._stager(state).schema_for(
            tuple(Batches(source=one.source, schema=one.schema, read=_no_rows) for one in layouts)
        )
        assert schema is not None
        for layout in layouts:
            check_layout(layout, schema, state.meta)
        return schema

    def _append(
        self, snapshot: Snapshot[TableState], sources: Sequence[Source], taken: Sequence[ImportedFile], attempt: StagedWrite
    ) -> tuple[ChangeOutcome, Sequence[ImportedFile]]:
        """Commit the files under a policy that takes nothing away; one that lost a race is judged again, and stays where it lies."""
        appender, operation = self.appender, self.appender.operation
        kept, view, lost = taken, attempt, list[Conflict]()

        def propose(now: Snapshot[TableState]) -> SeriesProposal | Tally:
            nonlocal appender, kept, view
            if lost:
                appender = appender.after(lost[-1], now, view)
            schema = self._schema(now.state, sources)
            kept, view = self._chosen(appender, now.state, schema, taken, attempt)
            applied = () if operation is None else (SetTransaction(operation, view.tally),)
            return appender.proposal(appender.stager(now).staged(view, schema, applied))

        # What may be tried again is for `after` to say, as in an append: no deadline ends it.
        outcome = land_change(
            appender.context.committer,
            snapshot,
            propose,
            operation,
            APPEND,
            discard=attempt.discard,
            lost=lost.append,
            retry_missing=False,
        )
        return outcome, kept

    def _chosen(
        self, appender: Appender, state: TableState, schema: pa.Schema, taken: Sequence[ImportedFile], attempt: StagedWrite
    ) -> tuple[Sequence[ImportedFile], StagedWrite]:
        """The files that this version takes, and the attempt with them alone; raises CoverageOverlap, DuplicateKey."""
        left_out = self._left_out(appender, state, schema, [one.surveyed for one in taken])
        kept = [one for one, out in zip(taken, left_out, strict=True) if not out]
        skipped = [one for one, out in zip(taken, left_out, strict=True) if out]
        self._check_keys(self._stager(state, appender.on_overlap), schema, kept)
        view = _holding(attempt, kept)
        view.skipped_rows = sum(one.segment.rows for one in skipped)
        view.skipped = CoverageMap.union_of(one.coverage for one in skipped)
        return kept, view

    def _left_out(
        self, appender: Appender, state: TableState, schema: pa.Schema, surveyed: Sequence[InspectedFile]
    ) -> list[bool]:
        """Of each file, whether it is left out, since the table covers all its buckets under "skip"; raises CoverageOverlap."""
        if appender.on_overlap in ("allow", "replace"):
            return [False] * len(surveyed)
        context, types = appender.context, entity_types(schema, state.meta.index)
        stager, left_out = self._stager(state), []
        for one in surveyed:
            present, found = stager.meet(state, one.coverage, types)
            whole = appender.on_overlap == "skip" and not one.coverage.difference(present)
            if found is not None and not whole:
                raise _refuse_overlap(one.source, overlap_error(state, context.cache, found, types, context.grid))
            left_out.append(whole)
        return left_out

    def _check_keys(self, stager: Stager, schema: pa.Schema, taken: Sequence[ImportedFile]) -> None:
        """In a unique table, raise DuplicateKey where rows of the files share a key, or have one of the table's."""
        index = stager.state.meta.index
        keyed = pa.schema([schema.field(name) for name in index.keys])
        if stager.state.meta.properties.unique and taken:
            batches = [batch for one in taken for batch in one.surveyed.keys(schema, index)]
            stager.check_keys(sort_run(pa.Table.from_batches(batches, keyed), index, stager.grid), keyed)

    def _replace(
        self, snapshot: Snapshot[TableState], sources: Sequence[Source], taken: Sequence[ImportedFile], attempt: StagedWrite
    ) -> tuple[ChangeOutcome, Sequence[ImportedFile]]:
        """Commit the files in the place of the rows that the table has in their buckets."""
        rewriter = Rewriter(context=self.appender.context, operation=self.appender.operation)

        def make(state: TableState) -> Made:
            return self._made(rewriter, state, sources, taken, attempt)

        return rewriter.land(snapshot, "append", make, attempt.discard), taken

    def _made(
        self,
        rewriter: Rewriter,
        state: TableState,
        sources: Sequence[Source],
        taken: Sequence[ImportedFile],
        attempt: StagedWrite,
    ) -> Made:
        """The files as an addition to this version, less the rows that give way to theirs, which is written anew."""
        replacement = ReplaceCovered(by_table=self.newest if self.appender.by_table else None)
        schema, index, grid = self._schema(state, sources), state.meta.index, self.appender.context.grid
        self._check_keys(self._stager(state), schema, taken)
        before = BaseVersion(state=state, schema=schema, cache=self.appender.context.cache)
        replacement.check(before)
        coverage = CoverageMap.union_of(one.coverage for one in taken)
        cut = CoverageSelector.of(before, coverage)
        fresh = _holding(replace(attempt, written=[]), taken)
        with fresh.discarded_on_error():
            rewritten = rewrite_affected(before, RowChanges(sort_run(schema.empty_table(), index, grid), cut), fresh)
        tally = replace(
            rewritten.tally,
            rows=sum(one.segment.rows for one in taken),
            buckets=coverage.cardinality(),
            replaced_buckets=AffectedFiles.of(before, cut, coverage).replaced(coverage),
        )
        return rewriter.made(before, replacement, cut, replace(rewritten, coverage=coverage, tally=tally), fresh)

    def _stager(self, state: TableState, on_overlap: OnOverlap | None = None) -> Stager:
        return Stager.of(self.appender.context, state, on_overlap or self.appender.on_overlap)


def _no_rows() -> Iterator[pa.RecordBatch]:
    return iter(())


def _holding(attempt: StagedWrite, taken: Sequence[ImportedFile]) -> StagedWrite:
    """The attempt with these segments alone; what it has written is the same list."""
    return replace(attempt, segments=[one.segment for one in taken], coverage=[one.coverage for one in taken])


def _refuse_overlap(source: Source, error: CoverageOverlap) -> CoverageOverlap:
    return CoverageOverlap(
        f"{source.layout.source}: {error.what}",
        why=f"{error.why}; a file becomes a segment whole, so no row of it can be left out",
        fix='Pass on_overlap="replace" or "allow", or append it without adopt and with on_overlap="skip"',
        **error.facts,
    )
