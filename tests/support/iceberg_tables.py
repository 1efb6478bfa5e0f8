"""Iceberg tables in a directory as strangers make, change and read them: all by pyiceberg, over whichever store the table lies in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io import InputFile
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableResponse, DataScan, StaticTable, Table
from pyiceberg.table.metadata import TableMetadataUtil, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import update_table_metadata
from pyiceberg.types import LongType, NestedField, TimestamptzType

from gapless.errors import ObjectExists
from gapless.publish.iceberg.io import StoreIO
from gapless.store.open import open_store
from gapless.tables.iceberg.options import parse_iceberg_options
from gapless.tables.iceberg.sweep import remove_orphans
from gapless.tables.iceberg.table import open_iceberg_table

SCHEMA = Schema(
    NestedField(1, "ts", TimestamptzType(), required=True), NestedField(2, "id", LongType()), NestedField(3, "v", LongType())
)
_NAME = re.compile(r"metadata/v(\d+)\.metadata\.json")


class DirectoryCatalog(NoopCatalog):
    """One table, whose newest metadata is the one with the highest number."""

    def __init__(self, place: str, storage: Mapping[str, str] | None) -> None:
        super().__init__("test")
        self.store = open_store(place, storage)
        self.io = StoreIO(self.store)

    def load_table(self, identifier: Any = ("d", "t")) -> Table:
        """The newest version."""
        number, path = max((int(match[1]), match[0]) for match in self._names())
        metadata = TableMetadataUtil.parse_raw(self.store.get(path).decode())
        self.io.root = metadata.location
        return Table(identifier, metadata, f"{number}", self.io, self)

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        """By put-if-absent."""
        now = self.load_table(table.name())
        for one in requirements:
            one.validate(now.metadata)
        changed = update_table_metadata(now.metadata, updates, metadata_location=self.io.location("metadata/before"))
        number = int(now.metadata_location) + 1
        self.io.settle()
        try:
            self.store.put(f"metadata/v{number}.metadata.json", changed.model_dump_json(exclude_none=True).encode())
        except ObjectExists as error:
            raise CommitFailedException(str(error)) from error
        return CommitTableResponse.model_validate({"metadata": changed, "metadata-location": f"{number}"})

    def _names(self) -> list[re.Match[str]]:
        return [match for info in self.store.list("metadata") if (match := _NAME.fullmatch(info.path))]


@dataclass(frozen=True)
class Handle:
    """What tests do with a table, through pyiceberg."""

    place: str
    storage: Mapping[str, str] | None

    @property
    def table(self) -> Table:
        return DirectoryCatalog(self.place, self.storage).load_table()

    @property
    def version(self) -> int:
        """The number of its newest metadata."""
        return int(self.table.metadata_location)

    def scan(self) -> DataScan:
        return self.table.scan()

    def append(self, rows: pa.Table) -> None:
        if rows.num_rows:
            self.table.append(rows)

    def delete(self, condition: str) -> None:
        """Copy on write."""
        self.table.delete(condition)

    def verify(self, *, deep: bool) -> SimpleNamespace:
        """Whether every file that the table names is there, with the rows that it says."""
        told = [task for task in self.table.scan().plan_files() if not task.delete_files]
        counted = sum(task.file.record_count for task in told)
        return SimpleNamespace(ok=deep and counted == self.table.scan().to_arrow().num_rows)

    def sweep(self) -> None:
        """Forget older snapshots, and remove what nothing names."""
        current = self.table.current_snapshot()
        gone = [one.snapshot_id for one in self.table.snapshots() if current is not None and one != current]
        if gone:
            self.table.maintenance.expire_snapshots().by_ids(gone).commit()
        remove_orphans(open_iceberg_table(parse_iceberg_options(self.place, {}, self.storage)), timedelta(0), dry_run=False)


def make(
    place: str,
    storage: Mapping[str, str] | None,
    *,
    schema: Schema = SCHEMA,
    spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
    properties: Mapping[str, str] | None = None,
) -> Handle:
    """An empty table."""
    catalog = DirectoryCatalog(place, storage)
    metadata = new_table_metadata(schema, spec, UNSORTED_SORT_ORDER, catalog.io.root, dict(properties or {}))
    catalog.store.put("metadata/v1.metadata.json", metadata.model_dump_json(exclude_none=True).encode())
    return Handle(place, storage)


class _Moved(PyArrowFileIO):
    """Files of a table whose objects were copied into a folder."""

    def __init__(self, root: str, folder: Path) -> None:
        super().__init__()
        self._root, self._folder = root, folder

    def new_input(self, location: str) -> InputFile:  # type: ignore[override]  # of pyarrow's
        return super().new_input(f"file://{self._folder}{location.removeprefix(self._root)}")


def copied_table(root: Path) -> Table:
    """The newest version of a copy on disk, wherever the table itself lies."""
    found = [match for path in root.glob("metadata/*.json") if (match := _NAME.fullmatch(str(path.relative_to(root))))]
    _, path = max((int(match[1]), root / match[0]) for match in found)
    metadata = TableMetadataUtil.parse_raw(path.read_text(encoding="utf-8"))
    return StaticTable(("d", "t"), metadata, str(path), _Moved(metadata.location, root), NoopCatalog("test"))


def copied_rows(root: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = copied_table(root).scan().to_arrow().to_pylist()
    return rows


def copied_files(root: Path) -> set[str]:
    """The paths of the data files of that version."""
    table = copied_table(root)
    return {task.file.file_path.removeprefix(f"{table.location()}/") for task in table.scan().plan_files()}
