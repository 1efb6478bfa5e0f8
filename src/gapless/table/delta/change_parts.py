"""What one commit of a Delta table did to its rows, as far as the log tells it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from gapless.dialects.delta.actions import AddFile, CdcFile, Commit, Metadata, RemoveFile
from gapless.dialects.delta.file_path import canonical
from gapless.dialects.delta.schema import PrimitiveType, StructField
from gapless.dialects.delta.schema_changes import may_widen
from gapless.parquet.row_diff import DELETE, INSERT


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Change rows that the commit's writer stored."""

    file: AddFile
    """The change file, as if it were a data file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """All live rows of a file came, or went."""

    kind: str
    """`row_diff.INSERT` or `DELETE`."""
    file: AddFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Vectors:
    """A file's deletion vector was replaced: rows that it deletes now and did not are gone, others came back."""

    before: AddFile
    after: AddFile


Part = Written | Whole | Vectors
Live = Callable[[AddFile | RemoveFile], AddFile | None]
"""The file as it was live before the commit; None where it was not, or is not known."""


def parts_of(commit: Commit, live: Live) -> Iterator[Part]:
    """What a commit changed, deletions first. Where it has change files, they alone tell it."""
    if commit.change_files:
        yield from (Written(file=_as_data(file)) for file in commit.change_files)
        return
    removed = {canonical(file.path): _as_live(file, live) for file in commit.removed if file.data_change}
    added = {canonical(file.path): file for file in commit.added if file.data_change}
    for path, before in removed.items():
        if path not in added:
            yield Whole(kind=DELETE, file=before)
        elif _vector(before) != _vector(added[path]):
            yield Vectors(before=before, after=added[path])
    for path, after in added.items():
        # One that was live as it is came with another word of it, and with no row.
        if path not in removed and live(after) is None:
            yield Whole(kind=INSERT, file=after)


def files_of(part: Part) -> tuple[AddFile, ...]:
    """The files that are read to tell a part."""
    match part:
        case Written(file=file) | Whole(file=file):
            return (file,)
        case Vectors(before=before, after=after):
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


def unreadable_as(before: Metadata, shown: Metadata) -> str | None:
    """Why rows that were written under one metadata cannot be shown under another; None where they can, as far as plain columns tell."""
    known = {field.physical_name: field for field in before.schema.fields}
    for field in shown.schema.fields:
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
