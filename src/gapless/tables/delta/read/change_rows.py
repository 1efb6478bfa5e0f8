"""The rows that a commit of a Delta table changed: in which files they lie, by the log, and reading them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
import pyarrow as pa

from gapless.files.compare.row_diff import CHANGE_TYPE, DELETE, INSERT, all_rows, surplus_rows
from gapless.formats.delta.actions import AddFile, CdcFile, Commit, Metadata, RemoveFile
from gapless.formats.delta.deletion_vector import Positions
from gapless.formats.delta.file_path import canonical
from gapless.formats.delta.schema.changes import may_widen
from gapless.formats.delta.schema.types import PrimitiveType, StructField
from gapless.tables.delta.files.open_file import PathResolver, Projection, read_vector
from gapless.tables.delta.files.reading import FileReader
from gapless.tables.shared.changes import TYPE_FIELD, CommitChange


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeFile:
    """A change data file of the commit (`cdc`)."""

    file: AddFile
    """As if it were a data file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeFile:
    """A data file that was added or removed, with all its live rows."""

    kind: str
    """`row_diff.INSERT` or `DELETE`."""
    file: AddFile


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacedVector:
    """A data file whose deletion vector was replaced: rows that it deletes now and did not are deleted, others inserted again."""

    before: AddFile
    after: AddFile


FileChange = ChangeFile | WholeFile | ReplacedVector
Live = Callable[[AddFile | RemoveFile], AddFile | None]
"""The file as it was live before the commit; None where it was not, or is not known."""


def changed_files(commit: Commit, live: Live) -> Iterator[FileChange]:
    """The files by which a commit changed rows, deletions first; its change data files alone, where it has some."""
    if commit.change_files:
        yield from (ChangeFile(file=_as_data(file)) for file in commit.change_files)
        return
    removed = {canonical(file.path): _as_live(file, live) for file in commit.removed if file.data_change}
    added = {canonical(file.path): file for file in commit.added if file.data_change}
    for path, before in removed.items():
        if path not in added:
            yield WholeFile(kind=DELETE, file=before)
        elif _vector(before) != _vector(added[path]):
            yield ReplacedVector(before=before, after=added[path])
    for path, after in added.items():
        # One that was live already was added again with other metadata, and no row came with it.
        if path not in removed and live(after) is None:
            yield WholeFile(kind=INSERT, file=after)


def files_of(part: FileChange) -> tuple[AddFile, ...]:
    """The files that are read for a change."""
    match part:
        case ChangeFile(file=file) | WholeFile(file=file):
            return (file,)
        case ReplacedVector(before=before, after=after):
            return before, after


def _as_live(gone: RemoveFile, live: Live) -> AddFile:
    """A file that was removed, as it was; from its removal alone where it is not known otherwise."""
    known = live(gone)
    return known or AddFile(
        path=gone.path,
        partition_values=gone.partition_values or {},
        size=gone.size or 0,
        modified_ms=0,
        deletion_vector=gone.deletion_vector,
    )


def _as_data(file: CdcFile) -> AddFile:
    return AddFile(path=file.path, partition_values=file.partition_values, size=file.size, modified_ms=0)


def _vector(file: AddFile) -> str | None:
    return None if file.deletion_vector is None else file.deletion_vector.id


def unreadable_as(before: Metadata, target: Metadata) -> str | None:
    """Why rows written under one schema cannot be read as another; None where they can, as far as plain columns tell."""
    known = {field.physical_name: field for field in before.schema.fields}
    for field in target.schema.fields:
        then = known.get(field.physical_name)
        if then is not None and _contradict(then, field):
            return f"column {field.name!r} was {_type(then)} and is {_type(field)}"
    return None


def _contradict(then: StructField, now: StructField) -> bool:
    if isinstance(then.type, PrimitiveType) and isinstance(now.type, PrimitiveType):
        void = PrimitiveType("void")
        return then.type not in (now.type, void) and not may_widen(then.type, now.type)
    return type(then.type) is not type(now.type)


def _type(field: StructField) -> str:
    return field.type.name if isinstance(field.type, PrimitiveType) else type(field.type).__name__.removesuffix("Type").lower()


def with_change_type(metadata: Metadata, name: str) -> Metadata:
    """The metadata of files that have a column of a row's kind of change behind the table's own, `name`."""
    field = StructField(name=name, type=PrimitiveType("string"))
    return replace(metadata, schema=replace(metadata.schema, fields=(*metadata.schema.fields, field)))


CommitRows = CommitChange[tuple[FileChange, ...]]
"""What one commit changed, file by file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedRows:
    """Reader of changed rows, in the columns of one version."""

    places: PathResolver
    metadata: Metadata
    """The columns in which they are returned."""

    def rows(self, commits: Sequence[CommitRows], names: tuple[str, ...]) -> Iterator[tuple[CommitRows, pa.Table]]:
        """The changed rows in these columns, with their kind of change behind, each table with its commit."""
        parts = [(one, part) for one in commits for part in one.change]
        for (kind, parted), some in groupby(parts, key=lambda found: (type(found[1]), self._parted(found[1]))):
            reader = self._reader(parted, marked=kind is ChangeFile)
            if kind is ReplacedVector:
                yield from ((one, rows) for one, part in some for rows in self._between(reader, part, names))
            else:
                yield from self._read(reader, list(some), (*names, CHANGE_TYPE) if kind is ChangeFile else names)

    def _parted(self, part: FileChange) -> tuple[str, ...]:
        """The columns whose values the log has for a part's files, by whatever the table was partitioned when they were written."""
        values = files_of(part)[0].partition_values
        return tuple(one.name for one in self.metadata.schema.fields if one.physical_name in values)

    def _reader(self, parted: tuple[str, ...], *, marked: bool) -> FileReader:
        """The reader of files so partitioned; `marked` are those that say themselves what happened to each row."""
        metadata = replace(self.metadata, partition_by=parted)
        return FileReader.of(self.places, with_change_type(metadata, CHANGE_TYPE) if marked else metadata)

    def _read(
        self, reader: FileReader, parts: Sequence[tuple[CommitRows, FileChange]], names: tuple[str, ...]
    ) -> Iterator[tuple[CommitRows, pa.Table]]:
        """The rows of whole files, in order; together, so that those that follow are fetched meanwhile."""
        # A file may come twice, when it came and when it went.
        files = [copy(files_of(part)[0]) for _, part in parts]
        known = {id(file): found for file, found in zip(files, parts, strict=True)}
        for file, rows in reader.read(files, Projection(columns=names)):
            one, part = known[id(file)]
            yield one, _with_type(rows, part.kind) if isinstance(part, WholeFile) else rows

    def _between(self, reader: FileReader, part: FileChange, names: tuple[str, ...]) -> Iterator[pa.Table]:
        """The rows that one deletion vector deletes and the other does not."""
        before, after = files_of(part)
        old, new = self._gone(before), self._gone(after)
        for kind, positions in (
            (DELETE, np.setdiff1d(new, old, assume_unique=True)),
            (INSERT, np.setdiff1d(old, new, assume_unique=True)),
        ):
            if len(positions):
                for batch in reader.batches(after, Projection(columns=names), only=positions):
                    yield _with_type(pa.Table.from_batches([batch]), kind)

    def _gone(self, file: AddFile) -> Positions:
        vector = file.deletion_vector
        return np.empty(0, dtype=np.int64) if vector is None else read_vector(self.places, vector)


def rows_of_commit(
    places: PathResolver, target: Metadata, one: CommitRows, names: tuple[str, ...], *, fed: bool
) -> Iterator[pa.Table]:
    """The rows that a commit changed, in these columns of `target`, with their kind of change behind, deletions first.

    Of a commit that wrote rows anew without a change data feed (`fed`), those come that only its files before or only those after have; all
    rows of these files are held for that. Raises CorruptTable, StoreError.
    """
    reader = ChangedRows(places=places, metadata=target)

    def read(parts: Sequence[FileChange], wanted: tuple[str, ...]) -> Iterator[pa.Table]:
        return (rows for _, rows in reader.rows([replace(one, change=tuple(parts))], wanted))

    rewritten = [part for part in one.change if isinstance(part, WholeFile)] if not fed else []
    if len({part.kind for part in rewritten}) < 2:
        yield from read(one.change, names)
        return
    yield from read([part for part in one.change if not isinstance(part, WholeFile)], names)
    every = tuple(field.name for field in target.schema.fields)
    empty = FileReader.of(places, target).schema().empty_table()
    gone, came = (
        pa.concat_tables([empty, *(rows.remove_column(rows.num_columns - 1) for rows in read(parts, every))])
        for parts in ([part for part in rewritten if part.kind == kind] for kind in (DELETE, INSERT))
    )
    for kind, rows in zip((DELETE, INSERT), surplus_rows(gone, came), strict=True):
        for batch in rows.to_batches():
            told = all_rows(batch, kind)
            yield told.select([*names, told.column_names[-1]]) if names != every else told


def _with_type(rows: pa.Table, kind: str) -> pa.Table:
    return rows.append_column(TYPE_FIELD, pa.repeat(pa.scalar(kind, pa.string()), rows.num_rows))
