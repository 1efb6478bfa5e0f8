"""A directory of Parquet files as the source of an import, its partition folders read as columns."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path

import pyarrow as pa

from gapless.errors import DataError, InvalidPath, UnknownColumn, UnreadableInput, nearest
from gapless.files.adopt.source import Source
from gapless.files.ingest.batches import Batches, unified_schema
from gapless.files.ingest.hive_folders import folder_values
from gapless.files.ingest.input_file import InputFile
from gapless.files.ingest.parquet_file import open_parquet
from gapless.tables.delta.files.layout import check_calendar, may_be_old_calendar
from gapless.tables.shared.scan import given_names
from gapless.tables.transfer.sources.foreign import ForeignFile, ForeignTable, Refusal

SUFFIXES = (".parquet", ".pq")
_INTEGER = re.compile(r"-?(0|[1-9]\d{0,17})", re.ASCII)
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


def open_directory(folder: Path, exclude: Collection[str] | None) -> ForeignTable:
    """The Parquet files below a directory, in the order of their paths; raises InvalidPath where there is none, UnknownColumn.

    Folders named `column=value` are columns of the files in them: whole numbers, days or texts, as all values of the column allow. What
    begins with `.` or `_` is left out. Types are settled over all files; a file that does not fit those before it is refused.
    """
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and not _is_hidden(path.relative_to(folder)))
    found = [path for path in paths if path.suffix.lower() in SUFFIXES]
    if not found:
        raise InvalidPath(
            f"there is no Parquet file below {folder}",
            why=f"Names end in {' or '.join(SUFFIXES)}; what begins with '.' or '_' does not count",
            fix="Check the path",
            path=str(folder),
        )
    parts = Partitions.of([path.relative_to(folder) for path in found])
    left_out = frozenset(given_names("exclude", exclude) or ())
    opened = [*_zoned([_open(path, folder, parts, left_out) for path in found])]
    schema, files = _settled(opened)
    known = {*schema.names, *(name for one in opened for name in one.dropped)}
    for name in left_out - known:
        raise UnknownColumn(
            f"exclude names a column {name!r} that the files do not have",
            fix=nearest(name, known),
            column=name,
            columns=tuple(known),
        )
    others = [path for path in paths if path.suffix.lower() not in SUFFIXES]
    return ForeignTable(
        format="parquet",
        url=str(folder),
        id=_digest([str(folder.resolve())]),
        version=_digest(f"{one.name} {one.size} {one.stamp}" for one in files),
        schema=schema,
        files=files,
        not_kept=tuple(_not_kept(opened, others, folder)),
    )


def _is_hidden(path: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.parts)


def _digest(lines: Sequence[str] | Iterator[str]) -> str:
    return sha256("\n".join(lines).encode(errors="surrogateescape")).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Partitions:
    """The partition columns of a directory, and their types."""

    types: Mapping[str, pa.DataType]

    @classmethod
    def of(cls, paths: Sequence[Path]) -> Partitions:
        """Those of files at these paths below the directory.

        >>> Partitions.of([Path("day=2026-01-05/n=1/a.parquet"), Path("day=2026-01-06/n=x/a.parquet")]).types["day"]
        DataType(date32[day])
        """
        texts: dict[str, set[str]] = {}
        for path in paths:
            for name, text in folder_values(path).items():
                texts.setdefault(name, set()).update(() if text is None else (text,))
        return cls({name: _type_of(values) for name, values in texts.items()})

    def scalar(self, name: str, text: str | None) -> pa.Scalar:
        """A folder's value."""
        type_ = self.types[name]
        if text is None or type_ == pa.string():
            return pa.scalar(text, type_)
        return pa.scalar(int(text) if type_ == pa.int64() else dt.date.fromisoformat(text), type_)


def _type_of(texts: Collection[str]) -> pa.DataType:
    if texts and all(_INTEGER.fullmatch(text) and text != "-0" for text in texts):
        return pa.int64()
    return pa.date32() if texts and all(_is_day(text) for text in texts) else pa.string()


def _is_day(text: str) -> bool:
    try:
        return _DAY.fullmatch(text) is not None and dt.date.fromisoformat(text) is not None
    except ValueError:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    file: ForeignFile
    dropped: tuple[str, ...] = ()
    """Columns that are left out."""
    legacy: tuple[str, ...] = ()
    """Its INT96 columns, of which the file does not say whether they are instants."""
    ignored: tuple[str, ...] = ()
    """Columns that the file has, and its folders too."""


def _open(path: Path, folder: Path, parts: Partitions, left_out: frozenset[str]) -> _Opened:
    """A file with the columns of its folders; one that cannot be read is refused."""
    name, info = str(path.relative_to(folder)), path.stat()
    try:
        metadata = Source.open(path).layout.metadata
        held = open_parquet(InputFile(path=path, name=str(path)))
    except UnreadableInput as error:
        nothing = Batches(source=str(path), schema=pa.schema([]), read=lambda: iter(()))
        refused = Refusal(error.why or error.what, error.fix)
        return _Opened(file=ForeignFile(name=name, size=info.st_size, path=path, live=nothing, refused=refused))
    values = folder_values(path.relative_to(folder))
    added = {one: parts.scalar(one, text) for one, text in values.items() if one not in held.schema.names}
    fields = [*held.schema, *(pa.field(one, value.type) for one, value in added.items())]
    schema = pa.schema([field for field in fields if field.name not in left_out])
    old = may_be_old_calendar(metadata)

    def read() -> Iterator[pa.RecordBatch]:
        for batch in held:
            if old:
                check_calendar(pa.Table.from_batches([batch]), metadata, str(path))
            arrays = {one: pa.repeat(value, batch.num_rows) for one, value in added.items()}
            columns = dict(zip(batch.schema.names, batch.columns, strict=True)) | arrays
            yield pa.RecordBatch.from_arrays([columns[one] for one in schema.names], schema=schema)

    given = [f"the partition column {one!r} is not in the file" for one in added if one in schema.names]
    file = ForeignFile(
        name=name,
        size=info.st_size,
        path=path,
        live=Batches(source=str(path), schema=schema, read=read, rows_hint=held.rows_hint),
        stamp=info.st_mtime_ns,
        must_rewrite=tuple(given),
    )
    dropped = tuple(one.name for one in fields if one.name in left_out)
    ignored = tuple(one for one in values if one in held.schema.names)
    leaves = [metadata.schema.column(at) for at in range(len(metadata.schema))]
    legacy = tuple(leaf.path for leaf in leaves if leaf.physical_type == "INT96" and leaf.path in schema.names)
    return _Opened(file=file, dropped=dropped, ignored=ignored, legacy=legacy)


def _zoned(opened: Sequence[_Opened]) -> Iterator[_Opened]:
    """The files; their INT96 columns are in the zone of the column in the first file that says one."""
    zones: dict[str, str] = {}
    for field in (field for one in opened for field in one.file.live.schema):
        if pa.types.is_timestamp(field.type) and field.type.tz is not None:
            zones.setdefault(field.name, field.type.tz)
    for one in opened:
        given = one.file.live
        schema = pa.schema(
            [
                field.with_type(pa.timestamp("us", zones[field.name]))
                if field.name in one.legacy and field.name in zones
                else field
                for field in given.schema
            ]
        )
        read = partial(_cast, given, schema)
        yield (
            one
            if schema == given.schema
            else replace(one, file=replace(one.file, live=replace(given, schema=schema, read=read)))
        )


def _cast(part: Batches, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    return (batch.cast(schema) for batch in part)


def _settled(opened: Sequence[_Opened]) -> tuple[pa.Schema, list[ForeignFile]]:
    """The columns of all files together, and the files; one whose columns have no common type with those before it is refused."""
    so_far: Batches | None = None
    files = []
    for one in opened:
        file = one.file
        if file.refused is None and so_far is None:
            so_far = file.live
        elif file.refused is None and so_far is not None and file.live.schema != so_far.schema:
            try:
                merged = unified_schema([so_far, file.live])
                so_far = Batches(source="the files before it", schema=merged, read=file.live.read)
            except DataError as error:
                fix = "Import it into a table of its own, or leave the column out with exclude="
                file = replace(file, refused=Refusal(error.what, fix))
        files.append(file)
    return pa.schema([]) if so_far is None else so_far.schema, files


def _not_kept(opened: Sequence[_Opened], others: Sequence[Path], folder: Path) -> Iterator[str]:
    for name in sorted({name for one in opened for name in one.ignored}):
        yield f"what folders say of {name!r}: files have a column of that name, whose values stay"
    for path in others:
        yield f"{path.relative_to(folder)}: it is no Parquet file"
