"""Appends to an Iceberg table in two phases: prepared as durable data files and a document, finalized by whoever has that."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
from pyiceberg.manifest import DataFile, ManifestEntryStatus
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask
from pyiceberg.table.metadata import TableMetadata

from gapless.errors import SchemaMismatch
from gapless.files.write.staged_files import StagedFiles
from gapless.formats.iceberg.operations import GIVEN_UP
from gapless.model.operation import SequenceId, Tally
from gapless.runtime.committer import nothing
from gapless.tables.iceberg.columns import arrow_schema, paths
from gapless.tables.iceberg.commits import Change, land, land_change
from gapless.tables.iceberg.data_files import FileFormatOf, file_from_json, file_to_json
from gapless.tables.iceberg.file_writer import DataFiles, WrittenFile, base_of
from gapless.tables.iceberg.fitting import Fitter
from gapless.tables.iceberg.place import Loaded
from gapless.tables.iceberg.reading import plan_tasks, read_task
from gapless.tables.iceberg.table import IcebergTable
from gapless.tables.shared.landing import ChangeOutcome
from gapless.tables.shared.prepared import EpochOfOpenFiles, PreparedCommit, unreadable_files


@dataclass(slots=True, kw_only=True)
class IcebergEpoch(EpochOfOpenFiles):
    """The data files of one epoch in the making, all for the columns and partitions that the table had when it began."""

    table: IcebergTable
    table_id: str
    fitter: Fitter
    attempt: StagedFiles
    files: DataFiles

    @classmethod
    def begin(
        cls, table: IcebergTable, given: pa.Schema, *, target_bytes: int | None = None, held_bytes: int | None = None
    ) -> IcebergEpoch:
        """For rows of these columns; sizes as `DataFiles` has them. Raises SchemaMismatch, UnsupportedTable, StoreError."""
        metadata = table.refresh().metadata
        table.require_writable()
        attempt = StagedFiles(table.env, committed_here=True)
        return cls(
            table=table,
            table_id=table.table_id,
            fitter=Fitter.of(given, arrow_schema(metadata.schema())),
            attempt=attempt,
            files=DataFiles.of(attempt, metadata, table.io.location, target_bytes, held_bytes),
        )

    def fit(self, rows: pa.Table) -> list[pa.RecordBatch]:
        """Rows as the table stores them. Raises DataError where one does not fit."""
        return self.fitter.rows(rows)

    def prepared(self, operation: SequenceId, change: Mapping[str, Any], attempt: str) -> PreparedCommit:
        """The document that says all; not stored yet."""
        env, form = self.table.env, self.files.format
        return PreparedCommit(
            kind="iceberg",
            table=env.store.url,
            table_id=self.table_id,
            operation=operation,
            change=change,
            files=tuple(one.file for one in self.files.stored),
            staged=staged_files(form, [told_file(form, one) for one in self.files.stored]),
            prepared_ns=env.clock.now_ns(),
            attempt=attempt,
        )


def told_file(form: FileFormatOf, file: WrittenFile) -> dict[str, Any]:
    """What a prepared commit keeps of a stored file beside its path, rows and size."""
    return file_to_json(file.described, form.spec, form.schema)


def staged_files(form: FileFormatOf, told: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What a prepared commit keeps of its data files, each told as by `told_file`, in the order of its `files`."""
    return {"schema_id": form.schema.schema_id, "spec_id": form.spec.spec_id, "files": [*told]}


def finalize_append(table: IcebergTable, prepared: PreparedCommit, check: Callable[[], None] = nothing) -> ChangeOutcome:
    """Commit prepared files as one append to the newest version, or say that they were; see `_finalized`."""
    return _finalized(table, prepared, check, "append")


def finalize_overwrite(table: IcebergTable, prepared: PreparedCommit, check: Callable[[], None] = nothing) -> ChangeOutcome:
    """Commit prepared files in the place of all that the newest version has, or say that they were; see `_finalized`."""
    return _finalized(table, prepared, check, "overwrite")


def _finalized(
    table: IcebergTable, prepared: PreparedCommit, check: Callable[[], None], kind: Literal["append", "overwrite"]
) -> ChangeOutcome:
    """Commit prepared files. None of them is removed.

    Columns are found by field id, so that a rename is followed. Where the table is partitioned otherwise by now, the rows are written anew.
    `check` may raise, at each version that this is tried at. Raises SchemaMismatch where a column of the files is gone, or the table has a new
    one that may not be null; CorruptTable for a document that makes no sense, and as `land_change`.
    """

    def propose(loaded: Loaded) -> Change:
        schema, files = _staged(table, prepared, loaded.metadata)
        _check_columns(schema, loaded.metadata.schema())
        at = loaded.metadata.current_snapshot()
        gone = [task.file for task in plan_tasks(loaded.metadata, table.io, at)] if kind == "overwrite" else []
        tally = Tally(rows=prepared.records_written, removed_rows=sum(one.record_count for one in gone))
        if loaded.metadata.default_spec_id == prepared.staged["spec_id"]:
            return Change(added=files, removed=gone, tally=tally)
        attempt = StagedFiles(table.env)
        with attempt.discarded_on_error():
            anew = DataFiles.of(attempt, loaded.metadata, table.io.location)
            anew.write(_rows(table, loaded.metadata, files))
            anew.close()
        return Change(added=anew.described, removed=gone, tally=tally, discard=attempt.discard)

    return land_change(table, propose, prepared.operation, kind, check)


def _rows(table: IcebergTable, metadata: TableMetadata, files: Sequence[DataFile]) -> Iterator[pa.RecordBatch]:
    for one in files:
        yield from read_task(metadata, table.io, FileScanTask(one), metadata.schema())


def _staged(table: IcebergTable, prepared: PreparedCommit, metadata: TableMetadata) -> tuple[Schema, list[DataFile]]:
    said = prepared.staged
    try:
        schema = next(one for one in metadata.schemas if one.schema_id == said["schema_id"])
        spec = metadata.specs()[said["spec_id"]]
        files = [
            file_from_json(table.io.location(file.path), file.rows, file.size, told, spec=spec, schema=schema)
            for file, told in zip(prepared.files, said["files"], strict=True)
        ]
    except (KeyError, ValueError, TypeError, StopIteration) as error:
        raise unreadable_files(prepared, "data files", error) from error
    return schema, files


def _check_columns(staged: Schema, now: Schema) -> None:
    """Raise SchemaMismatch where the table's columns of now cannot take files of those."""
    here = {one.field_id for one in paths(now).values()}
    had = {one.field_id for one in paths(staged).values()}
    differences = [
        f"{'.'.join(path)}: not in the table any more" for path, one in paths(staged).items() if one.field_id not in here
    ]
    differences += [
        f"{'.'.join(path)}: missing, and it may not be null"
        for path, one in paths(now).items()
        if one.field_id not in had and one.required and len(path) == 1
    ]
    if differences:
        raise SchemaMismatch(
            f"prepared files do not fit the table: {'; '.join(differences)}",
            why="Its columns were changed since they were prepared; nothing was committed",
            fix="Abort the prepared commit, and send its rows again from the source",
            differences=tuple(differences),
        )


def give_up(table: IcebergTable, prepared: PreparedCommit) -> None:
    """Commit that no finalization of it follows any more, unless one came first. Its document must say already that it is aborted.

    It is a snapshot of the same files: whoever finalizes follows an older one, and fails. Raises as `land`.
    """
    app, checkpoint = prepared.operation.app, prepared.operation.sequence
    said = Change(summary={GIVEN_UP: prepared.path, f"{GIVEN_UP}.app": app, f"{GIVEN_UP}.checkpoint": str(checkpoint)})

    def is_done() -> bool:
        last = table.last(app)
        return (last is not None and last >= checkpoint) or was_given_up(table, prepared)

    land(table, lambda _: said, is_done)


def was_given_up(table: IcebergTable, prepared: PreparedCommit) -> bool:
    """Whether a snapshot says that, as far back as they are kept."""
    summaries = (one.summary for one in table.ancestors())
    return any(one is not None and one.additional_properties.get(GIVEN_UP) == prepared.path for one in summaries)


def held(table: IcebergTable, names: Sequence[str]) -> frozenset[str]:
    """Which of these files, by their paths below the root, a snapshot that is kept has named.

    Only manifests are read that are younger than the files: their names say since when they could be in one.
    """
    bases = {name: base for name in names if (base := base_of(name)) is not None}
    if not bases:
        return frozenset()
    oldest = min(bases.values())
    found, seen = set[str](), set[str]()
    for snapshot in table.metadata.snapshots:
        if (snapshot.sequence_number or 0) <= oldest:
            continue
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path in seen or (manifest.sequence_number or 0) <= oldest:
                continue
            seen.add(manifest.manifest_path)
            entries = manifest.fetch_manifest_entry(table.io, discard_deleted=False)
            live = (one.data_file.file_path for one in entries if one.status != ManifestEntryStatus.DELETED)
            found |= {path for location in live if (path := table.io.path(location)) in bases}
    return frozenset(found)
