"""Rows of an Iceberg table's files, as its deletes leave them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import ManifestContent, ManifestEntry, ManifestEntryStatus, ManifestFile
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, ManifestGroupPlanner
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from gapless.errors import CorruptTable, GaplessError, NotSupported
from gapless.tables.iceberg.columns import arrow_schema
from gapless.tables.shared.library_errors import said


def plan_tasks(
    metadata: TableMetadata, io: FileIO, snapshot: Snapshot | None, where: BooleanExpression | None = None
) -> list[FileScanTask]:
    """The data files of a snapshot that may have rows of `where`, with what deletes rows of each, in the order in which they came.

    Raises NotSupported, CorruptTable, StoreError.
    """
    return [] if snapshot is None else plan_manifests(metadata, io, snapshot.manifests(io), where)


def plan_manifests(
    metadata: TableMetadata,
    io: FileIO,
    manifests: Iterable[ManifestFile],
    where: BooleanExpression | None = None,
    added_by: int | None = None,
) -> list[FileScanTask]:
    """The same of some manifests; of those files alone that the snapshot `added_by` brought, if one is given."""
    planner = _Planner(metadata, io, where or AlwaysTrue())
    with typed_reading(metadata.location):
        if added_by is None:
            tasks = planner.plan_files(list(manifests))
        else:
            tasks = planner.plan_files(
                list(manifests), lambda one: one.snapshot_id == added_by and one.status == ManifestEntryStatus.ADDED
            )
        return sorted(tasks, key=lambda task: (planner.since.get(task.file.file_path, 0), task.file.file_path))


def removes_rows(manifest: ManifestFile) -> bool:
    """Whether it says that files, or rows of files, are gone."""
    return manifest.content == ManifestContent.DELETES or bool(manifest.deleted_files_count)


class _Planner(ManifestGroupPlanner):
    """Remembers since which sequence number each file is there."""

    since: dict[str, int]

    def plan_manifest_entries(self, manifests: Iterable[ManifestFile]) -> Iterator[list[ManifestEntry]]:
        self.since = {}
        for entries in super().plan_manifest_entries(manifests):
            self.since |= {one.data_file.file_path: one.sequence_number or 0 for one in entries}
            yield entries


def read_task(metadata: TableMetadata, io: FileIO, task: FileScanTask, columns: Schema) -> Iterator[pa.RecordBatch]:
    """The live rows of a data file in some columns, which are found by field id, in plain types. Raises NotSupported, CorruptTable, StoreError."""
    schema = arrow_schema(columns)
    whole = FileScanTask(task.file, task.delete_files)
    with typed_reading(task.file.file_path):
        for batch in ArrowScan(metadata, io, columns, AlwaysTrue()).to_record_batches([whole]):
            yield batch.select(schema.names).cast(schema)


@contextmanager
def typed_reading(what: str) -> Iterator[None]:
    """Raise NotSupported for what pyiceberg does not read, CorruptTable for its other errors and those of Arrow below it."""
    try:
        yield
    except GaplessError:
        raise
    except Exception as error:
        words = said(error)
        if isinstance(error, NotImplementedError) or "not yet support" in words or "not supported" in words.lower():
            feature = "equality deletes" if "equality" in words.lower() else "Iceberg tables of this kind"
            raise NotSupported(
                f"{what} cannot be read: {feature}",
                why=f"pyiceberg says: {words}",
                fix="Rewrite the table's data files in Spark (call system.rewrite_data_files), which applies deletes",
                feature=feature,
            ) from error
        raise CorruptTable(
            f"{what} cannot be read",
            why=f"pyiceberg says: {words}",
            fix="Check that all files of the table are there and whole",
            path=what,
        ) from error
