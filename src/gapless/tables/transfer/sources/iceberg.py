"""An Iceberg table as the source of an import, read by pyiceberg: of a catalog, in a directory, or open already."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gapless.errors import GaplessError, InvalidOption, NotSupported, TableNotFound, UnreadableInput, VersionNotFound
from gapless.files.ingest.batches import Batches
from gapless.model.types import declared_field
from gapless.tables.shared.library_errors import missing_library, said
from gapless.tables.shared.scan import parse_columns
from gapless.tables.transfer.sources.foreign import ForeignFile, ForeignTable, Refusal

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import FileScanTask, Table

Catalog = str | Mapping[str, str]
"""A catalog by the name that pyiceberg is configured for, or by its properties."""
_METADATA = re.compile(r"v?(\d+)(?:-[^/]*)?\.metadata\.json", re.ASCII)
EMPTY = "none"
"""The version of a table without a snapshot."""


def is_iceberg_table(source: object) -> bool:
    """Whether it is an open table of pyiceberg."""
    return any(one.__module__ == "pyiceberg.table" and one.__name__ == "Table" for one in type(source).__mro__)


def open_iceberg(
    source: Any,
    catalog: Catalog | None,
    version: int | str | None,
    exclude: Collection[str] | None,
    options: Mapping[str, str] | None,
) -> ForeignTable:
    """A snapshot of an Iceberg table, the current one where none is named.

    `source` is `namespace.name` of a catalog, the directory of a table or a metadata file, or an open table. `options` are pyiceberg's, of a table in a
    directory. Raises NotSupported where pyiceberg is not installed or cannot read it, TableNotFound, VersionNotFound, InvalidOption, UnknownColumn,
    UnreadableInput.
    """
    try:
        import pyiceberg.table  # noqa: F401
    except ImportError as error:
        raise missing_library("Iceberg tables", "pyiceberg", "iceberg") from error
    table = source if is_iceberg_table(source) else _loaded(source, catalog, options)
    with _typed(table.location()):
        return _read(table, version, exclude)


def _loaded(source: object, catalog: Catalog | None, options: Mapping[str, str] | None) -> Table:
    from pyiceberg.catalog import load_catalog
    from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
    from pyiceberg.table import StaticTable

    if catalog is None:
        found = _newest_metadata(str(source))
        with _typed(str(source)):
            return StaticTable.from_metadata(found, dict(options or {}))
    try:
        opened = load_catalog(catalog) if isinstance(catalog, str) else load_catalog(**catalog)
    except Exception as error:
        raise InvalidOption(
            f"the Iceberg catalog {_name(catalog)!r} cannot be opened",
            why=said(error),
            fix="Name a catalog of .pyiceberg.yaml, or pass its properties, such as {'type': 'sql', 'uri': 'sqlite:///catalog.db'}",
            option="catalog",
            value=_name(catalog),
        ) from error
    try:
        return opened.load_table(str(source))
    except (NoSuchTableError, NoSuchNamespaceError, ValueError) as error:
        raise TableNotFound(
            f"the Iceberg catalog {_name(catalog)!r} has no table {str(source)!r}",
            why=said(error),
            fix="Name it as namespace.table",
            path=str(source),
        ) from error
    except Exception as error:
        raise UnreadableInput(
            f"the Iceberg table {str(source)!r} cannot be loaded",
            why=f"The catalog says: {said(error)}",
            fix="Check the catalog, and where the table's metadata lie",
            source=str(source),
        ) from error


def _name(catalog: Catalog) -> str:
    return catalog if isinstance(catalog, str) else catalog.get("name", catalog.get("type", "import"))


def _newest_metadata(source: str) -> str:
    """The metadata file of a table in a directory: that of `version-hint.text`, or else the one with the highest number."""
    if source.endswith(".metadata.json") or "://" in source.removeprefix("file://"):
        return source
    folder = Path(source.removeprefix("file://")).expanduser().resolve() / "metadata"
    hint = folder / "version-hint.text"
    hinted = f"v{hint.read_text().strip()}.metadata.json" if hint.is_file() else ""
    if hinted and (folder / hinted).is_file():
        return str(folder / hinted)
    numbered = [(int(match[1]), path) for path in folder.glob("*.metadata.json") if (match := _METADATA.fullmatch(path.name))]
    if not numbered:
        raise TableNotFound(
            f"there is no Iceberg table at {source}",
            why="It has no metadata/*.metadata.json",
            fix="Check the path; pass catalog= for a table of a catalog",
            path=source,
        )
    return str(max(numbered)[1])


def _read(table: Table, version: int | str | None, exclude: Collection[str] | None) -> ForeignTable:
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    current = table.current_snapshot()
    snapshot_id = (None if current is None else current.snapshot_id) if version in (None, EMPTY) else _parse(table, version)
    scan = table.scan(snapshot_id=snapshot_id)
    whole = table.schema() if current is None or snapshot_id == current.snapshot_id else scan.projection()
    columns = schema_to_pyarrow(whole, include_field_ids=False)
    names = parse_columns(None, columns, exclude)
    schema = pa.schema([_declared(columns.field(name)) for name in names])
    reading = _Reading(table=table, columns=whole.select(*names), schema=schema, always=tuple(_always(table, whole)))
    tasks = () if snapshot_id is None or version == EMPTY else sorted(scan.plan_files(), key=lambda task: task.file.file_path)
    return ForeignTable(
        format="iceberg",
        url=_local(table.location()) or table.location(),
        id=str(table.metadata.table_uuid),
        version=EMPTY if snapshot_id is None else str(snapshot_id),
        schema=schema,
        files=[reading.file(task) for task in tasks],
        not_kept=tuple(_not_kept(table)),
    )


def _parse(table: Table, version: int | str | None) -> int:
    text = str(version)
    found = table.metadata.snapshot_by_id(int(text)) if text.isascii() and text.isdigit() else None
    if found is None:
        raise VersionNotFound(
            f"the Iceberg table at {table.location()} has no snapshot {text}",
            why="It may have expired",
            fix="Pass the id of a snapshot as source_version, or leave it out for the current one",
            version=0,
        )
    return found.snapshot_id


def _declared(field: pa.Field) -> pa.Field:
    """A column as the source declares it, with its description as a comment."""
    declared = declared_field(field)
    doc = (field.metadata or {}).get(b"doc")
    return declared.with_metadata({b"comment": doc} if doc else None)


def _local(location: str) -> str | None:
    """The path on this machine that a location of Iceberg's names; None for one elsewhere."""
    for scheme in ("file://", "file:"):
        location = location.removeprefix(scheme)
    return location if location.startswith("/") else None


def _always(table: Table, schema: Schema) -> Iterator[str]:
    """Why no file can be taken by the names of its columns; those with field ids tell so themselves."""
    mapping = table.name_mapping()
    if mapping is None:
        yield "its columns are found by field id"
        return
    known = {one.field_id: one.names for one in mapping.root}
    for field in schema.fields:
        if known.get(field.field_id) != [field.name]:
            yield f"name mapping: files may have column {field.name!r} under another name"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """How the files of one snapshot are read."""

    table: Table
    columns: Schema
    schema: pa.Schema
    always: tuple[str, ...]

    def file(self, task: FileScanTask) -> ForeignFile:
        """A data file; its live rows are held in memory as they are read."""
        found, root = task.file, self.table.location().rstrip("/") + "/"
        name = found.file_path.removeprefix(root)
        path = _local(found.file_path)
        count = len(task.delete_files)
        deleted = (f"{count} delete file{'s' if count > 1 else ''} take rows of it away",) if count else ()
        is_parquet = str(found.file_format.value).upper() == "PARQUET"
        return ForeignFile(
            name=name,
            size=found.file_size_in_bytes,
            path=None if path is None else Path(path),
            live=Batches(
                source=name,
                schema=self.schema,
                read=partial(self._rows, task),
                rows_hint=None if count else found.record_count,
            ),
            must_rewrite=(*self.always, *deleted),
            has_deleted_rows=bool(count),
            complete=True,
            refused=None if is_parquet else Refusal("it is no Parquet file", "Write the table's files as Parquet, in Spark"),
        )

    def _rows(self, task: FileScanTask) -> Iterator[pa.RecordBatch]:
        from pyiceberg.expressions import AlwaysTrue
        from pyiceberg.io.pyarrow import ArrowScan

        scan = ArrowScan(self.table.metadata, self.table.io, self.columns, AlwaysTrue())
        with _typed(task.file.file_path):
            for batch in scan.to_record_batches([task]):
                yield batch.select(self.schema.names).cast(self.schema)


def _not_kept(table: Table) -> Iterator[str]:
    spec, order = table.spec(), table.sort_order()
    if spec.fields:
        yield f"partitioning: {spec}"
    if order.fields:
        yield f"the sort order: {order}"
    names = sorted(name for name in table.refs() if name != "main")
    if names:
        yield f"branches and tags: {', '.join(names)}"
    snapshots = len(table.metadata.snapshots)
    if snapshots > 1:
        yield f"history: {snapshots - 1} other snapshots"


@contextmanager
def _typed(url: str) -> Iterator[None]:
    """Raise UnreadableInput, or NotSupported for what pyiceberg does not read, for its errors and those of Arrow below it."""
    try:
        yield
    except GaplessError:
        raise
    except Exception as error:
        words = said(error)
        if isinstance(error, NotImplementedError) or "not yet support" in words:
            raise NotSupported(
                f"{url} cannot be read by pyiceberg",
                why=words,
                fix="Rewrite the table's data files in Spark (call system.rewrite_data_files), which applies deletes",
                feature="Iceberg tables of this kind",
            ) from error
        raise UnreadableInput(
            f"{url} cannot be read",
            why=f"pyiceberg says: {words}",
            fix="Check that all files of the table are there and whole",
            source=url,
        ) from error
