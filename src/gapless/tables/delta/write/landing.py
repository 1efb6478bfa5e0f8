"""New rows on their way into a Delta table: written once for a version, and committed to it or to a later one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

import pyarrow as pa

from gapless.errors import CorruptTable, InvalidValue, SchemaMismatch
from gapless.files.ingest.batches import Batches
from gapless.files.ingest.table_types import with_table_types
from gapless.formats.delta.actions import AddFile, Commit, Metadata, TableState
from gapless.formats.delta.file_path import canonical
from gapless.formats.delta.schema.arrow_types import to_arrow
from gapless.formats.delta.schema.column_mapping import renamed_since
from gapless.log.format import Snapshot
from gapless.model.operation import OperationId, Tally
from gapless.runtime.committer import Committer, Proposal, calling_on_error, nothing, require_file
from gapless.tables.delta.files.open_file import Projection
from gapless.tables.delta.files.reading import FileReader
from gapless.tables.delta.files.write import StagedWrite, Target, write_rows
from gapless.tables.delta.write.inputs import fitted, input_columns
from gapless.tables.delta.write.merge_schema import EvolvedVersion, SchemaMode, evolve_schema
from gapless.tables.shared.inputs.rows import ReadParts
from gapless.tables.shared.landing import ChangeOutcome, Prepared, skip_applied

Check = Callable[[pa.RecordBatch, int, TableState], None]
"""Refuses rows for a version of the table, of which the first has this number in its input, by raising DataError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedRows:
    """Rows that were written for a version of the table, and are not in it yet."""

    attempt: StagedWrite
    evolved: EvolvedVersion
    """The version, with the columns that the rows have."""
    files: tuple[AddFile, ...]
    rows: int
    given: frozenset[str]
    """The columns that an input had; others were filled in."""

    @property
    def tally(self) -> Tally:
        """What was written."""
        return Tally(rows=self.rows, segments=len(self.files))

    def fits(self, state: TableState) -> bool:
        """Whether the files are what would be written for another version, too."""
        return self.evolved.fits(state)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, read back. Raises CorruptTable, StoreError."""
        return self._read(self.evolved.state.metadata, Projection())

    def given_rows(self, newest: TableState, source: str) -> Batches:
        """The rows in the columns that an input had, under the names that these have in a version, to be read back."""
        before = self.evolved.state.metadata
        schema = renamed_since(before.schema, newest.metadata.schema)
        names = [now.name for was, now in zip(before.schema.fields, schema.fields, strict=True) if was.name in self.given]
        declared = to_arrow(schema)
        columns, metadata = pa.schema([declared.field(name) for name in names]), replace(newest.metadata, schema=schema)
        wanted = Projection(columns=tuple(names))
        return Batches(source=source, schema=columns, read=lambda: self._read(metadata, wanted), rows_hint=self.rows)

    def _read(self, metadata: Metadata, wanted: Projection) -> Iterator[pa.RecordBatch]:
        reader = FileReader.of(self.attempt.env.store, metadata)
        return chain.from_iterable(reader.batches(file, wanted) for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCommitter:
    """Commits new rows to one table."""

    committer: Committer[Commit, TableState]
    propose: Callable[[Snapshot[TableState], StagedRows], Proposal[Commit] | Tally]
    """The change as it should be made to a version, whose `discard` leaves the staged rows; what it counts, where nothing is to be committed."""
    kind: str
    """What kind of change it is: "append" or "overwrite"."""
    check_writable: Callable[[], None]
    """Raises UnsupportedTable where the newest known version may not be written to."""
    mode: SchemaMode = "strict"
    operation: OperationId | None = None
    check: Check | None = None
    keeps: bool = False
    """Whether staged files are made durable by themselves, so that a change which is decided again on each version need not write them again."""

    def land(self, snapshot: Snapshot[TableState], read: ReadParts) -> ChangeOutcome:
        """Write the rows and commit them, or nothing; an operation that was applied before is not applied again, and its input not read.

        What lost to a commit that it cannot follow is decided again on the newest version until the environment's deadline, its rows read back
        where they have to be written anew. Raises DataError where the input does not fit, CommitConflict, CommitOutcomeUnknown, StoreError.
        """
        lost = self.committer.until_deadline()
        if self.operation is not None:
            snapshot = self.committer.refresh(snapshot)
        if (known := skip_applied(self.committer, snapshot, self.operation, self.kind)) is not None:
            return known
        return replace(self._prepared(snapshot, read(), durable=False), lost=lost).land(self.committer)

    def prepare(self, snapshot: Snapshot[TableState], parts: Sequence[Batches]) -> Prepared[TableState, Commit]:
        """Write the rows to durable files for this version, or the newest, to be committed later. Raises DataError, StoreError."""
        return self._prepared(snapshot, parts, durable=True)

    def resume(self, snapshot: Snapshot[TableState], staged: StagedRows) -> Prepared[TableState, Commit]:
        """Durable files that were staged elsewhere, or earlier, to be committed to this version or a later one."""
        return self._of(None, snapshot, staged, durable=True)

    def _prepared(
        self, snapshot: Snapshot[TableState], parts: Sequence[Batches], *, durable: bool
    ) -> Prepared[TableState, Commit]:
        base, first = self._begun(snapshot, parts, settle=durable or self.keeps)
        return self._of(base, base, first, durable=durable)

    def _of(
        self, base: Snapshot[TableState] | None, snapshot: Snapshot[TableState], first: StagedRows, *, durable: bool
    ) -> Prepared[TableState, Commit]:
        """What was staged for the version `base`, or for whichever; it is proposed to `snapshot` first."""
        staged, files = first, [*first.files]

        def propose(now: Snapshot[TableState]) -> Proposal[Commit] | Tally:
            nonlocal staged
            if now is base:
                return self.propose(now, staged)
            fresh = self._again(now, staged, durable=durable)
            if not durable:
                staged = fresh
            if fresh is not staged:
                files.extend(fresh.files)
            with calling_on_error(nothing if fresh is staged else fresh.attempt.discard):
                proposal = self.propose(now, fresh)
            if fresh is staged or not isinstance(proposal, Proposal):
                return proposal
            return proposal.discarding(fresh.attempt.discard)

        def discard() -> None:
            staged.attempt.discard()

        return Prepared(
            snapshot=snapshot,
            propose=propose,
            operation=self.operation,
            kind=self.kind,
            files=first.attempt.written,
            held=partial(holds_files, files),
            discard=discard,
        )

    def _begun(
        self, snapshot: Snapshot[TableState], parts: Sequence[Batches], *, settle: bool
    ) -> tuple[Snapshot[TableState], StagedRows]:
        """The rows, written for this version, or for the newest where that has columns which this one lacks, or wider types."""
        self.check_writable()
        try:
            inputs = self._fitted(snapshot, parts)
        except SchemaMismatch:
            if (newest := self._with_other_columns(snapshot)) is None:
                raise
            snapshot, inputs = newest, self._fitted(newest, parts)
        try:
            return snapshot, self._written(inputs, settle=settle)
        except InvalidValue:
            # Of other inputs what was read may be gone.
            if not all(part.inferred for part in parts) or (newest := self._with_other_columns(snapshot)) is None:
                raise
        return newest, self._written(self._fitted(newest, parts), settle=settle)

    def _with_other_columns(self, snapshot: Snapshot[TableState]) -> Snapshot[TableState] | None:
        """The newest version, where its columns or rules are others than those of this one."""
        newest = self.committer.refresh(snapshot)
        if newest.state.metadata == snapshot.state.metadata:
            return None
        self.check_writable()
        return newest

    def _fitted(self, snapshot: Snapshot[TableState], parts: Sequence[Batches]) -> FittedRows:
        """The inputs on their way, none of which was read yet. Raises SchemaMismatch."""
        now = evolve_schema(snapshot.state, parts, self.mode, lambda: f"col-{self.committer.env.ids.uuid()}")
        declared = to_arrow(now.state.metadata.schema)
        if parts and not declared.names:
            raise _no_columns(parts[0].source)
        parts = [with_table_types(part, declared) for part in parts]
        return FittedRows.of(now, parts, self.check)

    def _written(self, inputs: FittedRows, *, settle: bool) -> StagedRows:
        attempt = StagedWrite.begin(self.committer.env)
        with attempt.discarded_on_error():
            staged = inputs.stage(attempt)
            if settle:
                attempt.settle()
        return staged

    def _again(self, snapshot: Snapshot[TableState], lost: StagedRows, *, durable: bool) -> StagedRows:
        """The same rows for a later version; their files are the same where those are durable and it has the same columns and rules."""
        self.check_writable()
        if (self.keeps or durable) and lost.fits(snapshot.state):
            return lost
        part = lost.given_rows(snapshot.state, "rows staged before")
        try:
            fresh = self._written(self._fitted(snapshot, [part]), settle=self.keeps)
        except CorruptTable:
            for path in lost.attempt.written:
                require_file(self.committer.env, path, snapshot.version)
            raise
        if not durable:
            lost.attempt.discard()
        return fresh


def holds_files(files: Sequence[AddFile], state: TableState) -> bool:
    """Whether a version has one of these files, or keeps it for older versions."""
    paths = {canonical(file.path) for file in files}
    live, removed = ({canonical(file.path) for file in known.values()} for known in (state.files, state.removed))
    return not paths.isdisjoint(live | removed)


def _no_columns(source: str) -> SchemaMismatch:
    """The error for rows without any field that come to a table without columns."""
    return SchemaMismatch(
        f"{source} holds rows, and neither they nor the table have a column",
        why="A file of a table keeps rows as values of its columns",
        fix="Give the rows a field, or the table a column",
        differences=("there is no column",),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedRows:
    """Inputs that fit a version by their columns, on their way into files of it."""

    evolved: EvolvedVersion
    streams: list[Iterator[pa.RecordBatch]]
    given: frozenset[str]

    @classmethod
    def of(cls, evolved: EvolvedVersion, parts: Sequence[Batches], check: Check | None = None) -> FittedRows:
        """None of the inputs was read yet. Raises SchemaMismatch."""
        state = evolved.state
        declared = to_arrow(state.metadata.schema)
        return cls(
            evolved=evolved,
            streams=[_checked(fitted(part, state), state, check) for part in parts],
            given=frozenset(name for part in parts for name in input_columns(part.schema, declared)),
        )

    def stage(self, attempt: StagedWrite) -> StagedRows:
        """Write the rows, once. Raises DataError, StoreError; what was written stays for the caller to discard."""
        counted = _Counted(chain.from_iterable(self.streams))
        files = write_rows(attempt, Target.of(self.evolved.state), counted)
        return StagedRows(attempt=attempt, evolved=self.evolved, files=tuple(files), rows=counted.rows, given=self.given)


def _checked(batches: Iterator[pa.RecordBatch], state: TableState, check: Check | None) -> Iterator[pa.RecordBatch]:
    row = 0
    for batch in batches:
        if check is not None:
            check(batch, row, state)
        row += batch.num_rows
        yield batch


class _Counted:
    """Batches, whose rows are counted as they pass."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self.rows = 0
        self._batches = batches

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            self.rows += batch.num_rows
            yield batch
