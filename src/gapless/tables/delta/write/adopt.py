"""Appending Parquet files to a Delta table as they are: of each the footer is read, and columns whose values may be what their type forbids."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from gapless.errors import CorruptTable, InvalidValue, NotSupported
from gapless.files.adopt.copy_or_link import Adopt, FileTransfer, TransferredFile, remove_moved
from gapless.files.adopt.layout import column_differences, refuse_layout
from gapless.files.adopt.source import Source, footer_stats
from gapless.files.ingest.batches import Batches, Progress
from gapless.files.ingest.hive_folders import folder_values
from gapless.formats.delta.actions import AddFile, Commit, TableState
from gapless.formats.delta.file_path import log_path
from gapless.formats.delta.partitions import decode_value, encode_value, folder_of
from gapless.formats.delta.properties import Settings
from gapless.formats.delta.schema.arrow_types import to_arrow
from gapless.formats.delta.schema.char_varchar import text_lengths
from gapless.formats.delta.schema.types import PrimitiveType
from gapless.formats.delta.stats_codec import encode_stats
from gapless.log.format import Snapshot
from gapless.model.operation import OperationId, Tally
from gapless.runtime.committer import Committer, Proposal
from gapless.tables.delta.expressions.checks import constraints
from gapless.tables.delta.files.data_file import indexed_columns
from gapless.tables.delta.files.layout import may_be_old_calendar
from gapless.tables.delta.files.write import StagedWrite
from gapless.tables.delta.write.inputs import DEFAULT, IDENTITY
from gapless.tables.delta.write.landing import StagedRows
from gapless.tables.delta.write.merge_schema import EvolvedVersion, SchemaMode, evolve_schema
from gapless.tables.shared.landing import ChangeOutcome, land_change, skip_applied

KIND = "append"


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopter:
    """Adopts files into one Delta table."""

    committer: Committer[Commit, TableState]
    propose: Callable[[Snapshot[TableState], StagedRows], Proposal[Commit] | Tally]
    """As that of `RowCommitter`."""
    how: Adopt
    mode: SchemaMode
    operation: OperationId | None
    progress: Progress | None = None

    def adopt(self, snapshot: Snapshot[TableState], sources: Sequence[Source]) -> ChangeOutcome:
        """Commit the files as files of the newest version, all of them or none; a file without rows brings its columns alone.

        A file that is moved goes from its place once the commit has landed, and never where that is not certain. Raises SchemaMismatch
        where one does not lie as the table's files do, NotSupported for a table whose rows must be looked at, InvalidValue, and as `append` does.
        """
        if (known := skip_applied(self.committer, snapshot, self.operation, KIND)) is not None:
            return known
        lost = self.committer.until_deadline()
        self._evolved(snapshot.state, sources)
        attempt = StagedWrite.begin(self.committer.env)
        with attempt.discarded_on_error():
            placed = self._place(snapshot.state, sources, attempt)

        def propose(now: Snapshot[TableState]) -> Proposal[Commit] | Tally:
            return self.propose(now, self._staged(now.state, sources, placed, attempt))

        outcome = land_change(self.committer, snapshot, propose, self.operation, KIND, discard=attempt.discard, lost=lost)
        for source in sources if self.how == "move" and not outcome.already else ():
            remove_moved(source)
        return outcome

    def _place(
        self, state: TableState, sources: Sequence[Source], attempt: StagedWrite
    ) -> list[tuple[Source, str, TransferredFile]]:
        """The files that have rows, under names of the table, while their values are looked at."""
        done, total = 0, sum(source.rows for source in sources)
        with FileTransfer(attempt.env.store, self.how) as transfer:
            begun = []
            for number, source in enumerate(one for one in sources if one.rows):
                path = self._path(state, source, number, attempt)
                # Named before it is stored, so that it is removed whatever comes.
                attempt.written.append(path)
                begun.append((source, path, transfer.begin(source, path)))
            for source, _, _ in begun:
                source.check_values()
                done += source.rows
                if self.progress is not None:
                    self.progress(done, total)
            return [(source, path, placed.result()) for source, path, placed in begun]

    def _path(self, state: TableState, source: Source, number: int, attempt: StagedWrite) -> str:
        folder = folder_of([*partition_texts(state, source).items()])
        name = f"part-{number:05}-{attempt.env.ids.uuid()}.parquet"
        return f"{folder}/{name}" if folder else name

    def _staged(
        self,
        state: TableState,
        sources: Sequence[Source],
        placed: Sequence[tuple[Source, str, TransferredFile]],
        attempt: StagedWrite,
    ) -> StagedRows:
        """The files for a version, held against its columns and rules."""
        evolved = self._evolved(state, sources)
        files = tuple(_added(evolved.state, source, path, one.size, attempt) for source, path, one in placed)
        given = frozenset(name for source in sources for name in source.layout.schema.names)
        rows = sum(source.rows for source in sources)
        return StagedRows(attempt=attempt, evolved=evolved, files=files, rows=rows, given=given)

    def _evolved(self, state: TableState, sources: Sequence[Source]) -> EvolvedVersion:
        """The version that takes the files; raises SchemaMismatch, NotSupported."""
        parts = (Batches(source=one.layout.source, schema=_all_columns(state, one), read=_no_rows) for one in sources)
        evolved = evolve_schema(state, parts, self.mode, lambda: f"col-{self.committer.env.ids.uuid()}")
        check_takes_files(evolved.state, self.committer.env.store.url)
        for source in sources:
            if differences := [*_differences(evolved.state, source)]:
                raise refuse_layout(source.layout, differences)
        return evolved


def _no_rows() -> Iterator[pa.RecordBatch]:
    return iter(())


def _all_columns(state: TableState, source: Source) -> pa.Schema:
    """A file's columns and those that its folders say, for a table whose first input it may be."""
    found = source.layout.schema
    for name in state.metadata.partition_by:
        if name not in found.names:
            declared = state.metadata.schema.field(name)
            found = found if declared is None else found.append(to_arrow(state.metadata.schema).field(name))
    return found


def check_takes_files(state: TableState, url: str) -> None:
    """Raise NotSupported for a table whose rows must be looked at one by one, or are stored under other names."""
    reason = next(_reasons(state), None)
    if reason is not None:
        raise NotSupported(
            f"files cannot be adopted by {url}",
            why=reason,
            fix="Append them without adopt: their rows are then read, checked and written",
            feature="adopt",
        )


def _reasons(state: TableState) -> Iterator[str]:
    if Settings.of(state.configuration).column_mapping != "none":
        yield "Column mapping: its files have columns under names and ids that no other file has"
    for one in constraints(state):
        yield f"{one.name[0].upper()}{one.name[1:]} is to hold for each row: {one.expression}"
    for field in state.metadata.schema:
        if IDENTITY in field.metadata:
            yield f"Column {field.name!r} is counted by the table"
        if text_lengths(field):
            yield f"The texts of column {field.name!r} have a length, which is to hold for each row"


def _differences(state: TableState, source: Source) -> Iterator[str]:
    """Why a file is not as files of a version are; nothing where it is."""
    declared, layout, parts = to_arrow(state.metadata.schema), source.layout, state.metadata.partition_by
    if may_be_old_calendar(layout.metadata):
        yield "its writer may have meant dates in the old calendar"
    known = {name.lower(): name for name in declared.names}
    unknown = []
    for name in layout.schema.names:
        if name in declared.names:
            continue
        unknown.append(name)
        same = known.get(name.lower())
        yield f"{name}: not in the table" + (f", which calls it {same!r}" if same else '; schema_mode="merge" adds it')
    for field in declared:
        if field.name in parts or field.name in layout.schema.names:
            continue
        if not field.nullable:
            yield f"{field.name}: missing, and it may not be null"
        elif DEFAULT in state.metadata.schema.field(field.name).metadata:  # type: ignore[union-attr]  # it is a column
            yield f"{field.name}: missing, and rows that lack it get a default"
    folders = folder_values(source.path)
    for name in parts:
        if name in layout.schema.names:
            yield f"{name}: a partition column, which the table's files do not hold"
        elif name not in folders:
            yield f"{name}: a partition column, and no folder of the path is named {name}=…"
        elif not (folders[name] or declared.field(name).nullable):
            yield f"{name}: never null in the table, and its folder is that of null"
    held = pa.schema([field for field in declared if field.name not in parts])
    shared = replace(
        layout, schema=pa.schema([field for field in layout.schema if field.name not in unknown and field.name not in parts])
    )
    if not unknown and not set(parts) & set(layout.schema.names):
        yield from column_differences(shared, held)


def partition_texts(state: TableState, source: Source) -> dict[str, str | None]:
    """A file's partition values by physical names, as the log has them, by the folders of its path. Raises InvalidValue."""
    folders, found = folder_values(source.path), {}
    for name in state.metadata.partition_by:
        field, text = state.metadata.schema.field(name), folders[name]
        assert field is not None
        assert isinstance(field.type, PrimitiveType)
        try:
            found[field.physical_name] = encode_value(decode_value(text, field.type), column=name)
        except CorruptTable as error:
            raise InvalidValue(
                f"the folder {name}={text} of {source.path} is no {field.type.name}",
                why="A partition column has the value that the folder says",
                fix="Append the file without adopt, or rename the folder",
                column=name, row=0, value=text, source=str(source.path),
            ) from error  # fmt: skip
    return found


def _added(state: TableState, source: Source, path: str, size: int, attempt: StagedWrite) -> AddFile:
    schema, settings = state.metadata.schema, Settings.of(state.configuration)
    stored = replace(schema, fields=tuple(one for one in schema.fields if one.name not in state.metadata.partition_by))
    wanted = [leaf.path[0] for leaf in indexed_columns(stored, settings) if len(leaf.path) == 1]
    names = [name for name in wanted if name in source.layout.schema.names]
    known = footer_stats(source.layout.metadata, names, to_arrow(schema))
    return AddFile(
        path=log_path(path),
        partition_values=partition_texts(state, source),
        size=size,
        modified_ms=attempt.instant_ms,
        data_change=True,
        stats=encode_stats(
            source.rows, {(name,): one for name, one in known.items()}, schema, text_length=settings.stats_text_length
        ),
    )
