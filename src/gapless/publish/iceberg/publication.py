"""The publisher of Iceberg: what a version's snapshot is, and that each version is there once, whoever publishes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadataV2

from gapless.errors import CorruptTable, ForeignCommit, GaplessError, NotSupported, SchemaMismatch, UnsupportedType
from gapless.files.read.source import segment_footer
from gapless.formats.iceberg.commits import (
    FIELD_IDS,
    GUARD,
    NAME_MAPPING,
    PARTITIONED_BY,
    SOURCE_TABLE,
    NewSnapshot,
    mending,
    requirements,
    updates,
)
from gapless.formats.iceberg.file_partitions import PARTITION_SPEC, Partitioning
from gapless.formats.iceberg.metrics import file_metrics
from gapless.formats.iceberg.partitions import partition_values
from gapless.formats.iceberg.schema import FieldIds, JsonObject, stored_columns
from gapless.formats.iceberg.snapshots import Described, expired, operation_of
from gapless.model.instant import NS_PER
from gapless.model.publishing import PublishedFormat, PublishSettings
from gapless.publish.iceberg.catalog import CatalogTable
from gapless.publish.iceberg.changes import TableChange
from gapless.publish.iceberg.cleaning import EVERY, clean_expired, clean_orphans
from gapless.publish.iceberg.columns import check_columns, check_stored, published_columns
from gapless.publish.iceberg.described import (
    contradicts,
    field_ids_of,
    layout_of,
    partition_ids,
    schema_change,
    schema_of,
    spec_of,
)
from gapless.publish.iceberg.differences import different_files
from gapless.publish.iceberg.directory import FOLDER, Directory
from gapless.publish.iceberg.file_index import FILE_INDEX
from gapless.publish.iceberg.manifests import Manifests, SnapshotWriter, data_file
from gapless.publish.iceberg.ownership import version_of, why_foreign
from gapless.publish.iceberg.place import Place
from gapless.publish.source import Source, SourceChange, SourceColumns, SourceFile
from gapless.publish.stored_types import check_change
from gapless.runtime.environment import Environment


class IcebergPublisher:
    """Keeps the Iceberg table of one table. That is the publisher's only memory: its current snapshot says which version it describes."""

    format: PublishedFormat = "iceberg"
    folder = FOLDER

    def __init__(
        self, env: Environment, settings: PublishSettings, place: Place | None = None, *, guarded: bool = True
    ) -> None:
        """For the table that `env` reaches, to where its settings say, or to a `place`; not `guarded` for one that others shall write to."""
        self._env, self._guarded = env, guarded
        catalog, table = settings.iceberg_catalog, settings.iceberg_table
        self._place: Place = place or (CatalogTable(env, catalog, table) if catalog else Directory(env))
        self._manifests: Manifests | None = None

    def published(self) -> tuple[int, int] | None:
        """The version of the table that is published, and the id of its snapshot; None where nothing is.

        Raises ForeignCommit where another writer made the newest one, CorruptTable, StoreError.
        """
        found = self._place.load()
        if found is None:
            return None
        version = self._source_version(found.metadata)
        return None if version is None else (version, found.metadata.current_snapshot_id)

    def differences(self, source: Source) -> list[str]:
        """See `Publisher.differences`."""
        found = self._place.load()
        return [] if found is None or source.columns.schema is None else self._differences(source, found.metadata)

    def _differences(self, source: Source, metadata: TableMetadataV2) -> list[str]:
        told = different_files(self._wanted(source, metadata), {one.file_path: one for one in self._known.live(metadata)})
        fields, ids = self._columns(source.whole(), metadata)
        if schema_of(fields, 0) != metadata.schema():
            told.append("it has other columns")
        told += [
            f"it does not lead to the values of {'.'.join(path)!r}"
            for path in ids.misled(metadata.properties.get(NAME_MAPPING, ""))
        ]
        lacking = (
            f"it lacks the property {key}={value}" for key, value in GUARD.items() if metadata.properties.get(key) != value
        )
        return [*told, *lacking]

    def publish(self, source: Source, *, mend: bool = False) -> int:
        """See `Publisher.publish`: each version in a snapshot of its own. Several may do so at once, and each version is published once.
        Versions whose commits are cleaned away come as one.
        """
        found = self._found(source, mend=mend)
        if found is None:
            if source.columns.schema is None:
                return -1  # no columns to describe yet
            self._place.create(source.whole().time_ns // NS_PER["ms"])
            found = self._loaded()
        if (mend and self._why_foreign(found.metadata)) or contradicts(found.metadata, source.columns):
            found = self._follow(found, source.whole(), source, whole=True, mend=True)
        while (published := self._source_version(found.metadata)) is None or published < source.version:
            if published is None and source.columns.schema is None:
                return -1
            changes = None if published is None else source.changes_after(published, self.format)
            for change in [source.whole()] if changes is None else changes:
                try:
                    found = self._follow(found, change, source, whole=changes is None)
                except (NotSupported, UnsupportedType, SchemaMismatch):
                    # A version of before that Iceberg cannot describe; the newest one may be another matter.
                    if changes is None or change.version == source.version:
                        raise
                    found = self._follow(found, source.whole(), source, whole=True)
                    break
        if mend and self._is_wrong(found.metadata, source):
            found = self._follow(found, source.whole(), source, whole=True, mend=True)
        self._place.settle()
        return int(found.metadata.current_snapshot_id)

    def begin(self, source: Source) -> None:
        """Describe a table where nothing is, in one step. Raises UnsupportedType, CommitOutcomeUnknown, CorruptTable, StoreError."""
        change = source.whole()
        self._follow(self._place.blank(change.time_ns // NS_PER["ms"]), change, source, whole=True)

    # -- steps -----------------------------------------------------------------------------------------------------------

    def _found(self, source: Source, *, mend: bool) -> Any | None:
        """The newest metadata, None where there are none; with `mend` those to begin anew with where they cannot be followed."""
        try:
            return self._place.load()
        except (CorruptTable, ForeignCommit):
            blank = self._place.blank(source.whole().time_ns // NS_PER["ms"]) if mend else None
            if blank is None:
                raise
            return blank

    def _is_wrong(self, metadata: TableMetadataV2, source: Source) -> bool:
        """Whether another writer's state is the newest, or one that is not what it says, or that cannot be read."""
        if self._why_foreign(metadata) or contradicts(metadata, source.columns):
            return True
        if source.columns.schema is None or self._source_version(metadata) != source.version:
            return False
        try:
            return bool(self._differences(source, metadata))
        except CorruptTable:
            return True

    def _loaded(self) -> Any:
        """The metadata of a table that was made. Raises CorruptTable where it is gone."""
        if (found := self._place.load()) is not None:
            return found
        raise CorruptTable(
            f"{self._place.what} is gone",
            why="It was there a moment ago: another process takes it away",
            fix="Publish again",
            path=self.folder,
        )

    def _follow(self, found: Any, change: SourceChange, source: Source, *, whole: bool, mend: bool = False) -> Any:
        """Publish one change, unless it is by now. Raises ForeignCommit, CommitOutcomeUnknown, StoreError."""
        while True:
            anew = mend and self._is_wrong(found.metadata, source)
            version = None if anew else self._source_version(found.metadata)
            if version is not None and version >= change.version:
                return found
            writer, update, time_ms = self._prepare(found.metadata, change, source, whole=whole, anew=anew)
            landed = self._place.commit(found, update, time_ms)
            if not isinstance(landed, str):
                self._clean(found.metadata, landed.metadata)
                return landed
            if landed == "lost":
                writer.undo()
            found = self._loaded()

    def _prepare(
        self, metadata: TableMetadataV2, change: SourceChange, source: Source, *, whole: bool, anew: bool
    ) -> tuple[SnapshotWriter, TableChange, int]:
        """Write the manifests of a change's snapshot; returns what wrote them, the commit, and its time in milliseconds."""
        self._check(change)
        other_ids = anew and field_ids_of(metadata).contradicts(change.columns.field_ids)
        fields, ids = self._columns(change, metadata, other_ids=other_ids)
        if (whole or not change.looked_at) and change.columns.holds_more:
            # Columns that were dropped before anyone published them lie in files still.
            ids = reduce(FieldIds.with_file, self._file_schemas(change.added), ids)
        schema = schema_change(metadata, fields)
        columns = stored_columns(fields, ids)
        spec, layout = spec_of(metadata, change.columns, fields), Partitioning()
        keeps_spec = False
        if not change.columns.partition_by:
            layout = layout_of(metadata, source, columns)
            if layout.spec_id != metadata.default_spec_id and change.version != source.version:
                keeps_spec, layout = True, Partitioning()  # the newest version's files come all at once
            elif layout.spec_id:
                spec = PartitionSpec.model_validate(layout.spec) if layout.spec else metadata.specs()[layout.spec_id]
        moves = not keeps_spec and spec.spec_id != metadata.default_spec_id
        writer = self._writer(metadata, schema_of(fields, schema.schema_id), spec)
        added, removed = change.added, frozenset(map(self._place.io.location, change.removed))
        if (whole or moves) and not anew:
            live = {self._place.io.location(file.path): file for file in (source.whole() if moves else change).added}
            there = {one.file_path for one in self._known.live(metadata)}
            added = tuple(file for location, file in live.items() if moves or location not in there)
            removed = frozenset(there if moves else there - live.keys())
        files = [self._data_file(file, change.columns, columns, spec, layout) for file in added]
        written = writer.write(files, removed, anew=anew)
        before = metadata.current_snapshot()
        changes_rows = change.changes_rows and bool(change.added or change.removed)
        snapshot = NewSnapshot(
            snapshot_id=writer.snapshot_id,
            parent_id=metadata.current_snapshot_id,
            sequence=metadata.last_sequence_number + 1,
            time_ms=max(change.time_ns // NS_PER["ms"], metadata.last_updated_ms),
            manifest_list=written.manifest_list,
            schema_id=schema.schema_id,
            operation=operation_of(adds=bool(files), removes=bool(written.removed.files), changes_rows=changes_rows),
            version=change.version,
            added=written.added,
            removed=written.removed,
            before={} if anew or before is None or before.summary is None else before.summary.additional_properties,
        )
        known = [Described(snapshot_id=one.snapshot_id, version=version_of(one)) for one in metadata.snapshots]
        gone = [one.snapshot_id for one in known] if other_ids else expired(known, change.earliest, source.kept)
        moved = metadata.location.rstrip("/") != self._place.location
        mapping = ids.name_mapping()
        self._check_mapping(fields, ids)
        properties = {NAME_MAPPING: mapping, FIELD_IDS: mapping, SOURCE_TABLE: self._place.io.root}
        properties |= GUARD if self._guarded else {}
        if change.columns.partition_by:
            properties[PARTITIONED_BY] = partition_ids(spec)
        else:
            properties[PARTITION_SPEC] = str(metadata.default_spec_id if keeps_spec else spec.spec_id)
        if written.file_index is not None:
            properties[FILE_INDEX] = written.file_index
        is_new = spec.spec_id not in metadata.specs()
        reset = spec.spec_id if moves and not is_new else None
        told: list[JsonObject] = [] if self._guarded else [{"action": "remove-properties", "removals": [*GUARD]}]
        told += mending(location=self._place.location if moved else None, spec_id=reset)
        told += updates(snapshot, schema, properties, gone, spec.model_dump(by_alias=True) if is_new else None)
        needed = requirements(str(metadata.table_uuid), metadata.current_snapshot_id)
        return writer, TableChange.parse(needed, told, snapshot.snapshot_id), snapshot.time_ms

    def _file_schemas(self, files: Iterable[SourceFile]) -> Iterator[pa.Schema]:
        for file in files:
            yield segment_footer(self._env.store, file).schema

    def _check_mapping(self, fields: Sequence[JsonObject], ids: FieldIds) -> None:
        """Raise NotSupported where the catalog would leave readers without the stored names of columns that were dropped."""
        for path in ids.dropped(fields) if self._place.rewrites_mappings else ():
            raise NotSupported(
                f"column {'.'.join(path)!r} was dropped, which {self._place.what} does not bear",
                why="Its catalog writes the table's name mapping anew from the columns of now: readers fail at files that hold others, or "
                "take their values for those of a column that has the name later",
                fix="Publish to the table's own folder: set_properties({'iceberg_catalog': None, 'iceberg_table': None})",
                feature="dropped columns in a catalog that writes name mappings",
            )

    def _check(self, change: SourceChange) -> None:
        """Raise where files of a change cannot be described: NotSupported, UnsupportedType."""
        check_change(self._env.store, change, check_stored)
        if not change.looked_at:
            check_columns(change.columns, None)

    def _writer(self, metadata: TableMetadataV2, schema: Schema, spec: PartitionSpec) -> SnapshotWriter:
        number = int(self._env.ids.uuid().replace("-", "")[:16], 16) >> 1 or 1
        return SnapshotWriter(
            manifests=self._known,
            io=self._place.io,
            metadata=metadata,
            schema=schema,
            snapshot_id=number,
            name=self._env.ids.uuid,
            location=self._place.location,
            spec=spec,
        )

    @property
    def _known(self) -> Manifests:
        if self._manifests is None:
            self._manifests = Manifests(self._place.io)
        return self._manifests

    def _columns(
        self, change: SourceChange, metadata: TableMetadataV2, *, other_ids: bool = False
    ) -> tuple[list[JsonObject], FieldIds]:
        """The columns of a version; where it has none, since a restore brought the time before them back, those of before."""
        known = FieldIds(last=metadata.last_column_id) if other_ids else field_ids_of(metadata)
        if change.columns.schema is None:
            return [one.model_dump(by_alias=True) for one in metadata.schema().fields], known
        return published_columns(change.columns, known)

    def _data_file(
        self,
        file: SourceFile,
        declared: SourceColumns,
        columns: dict[str, tuple[int, str]],
        spec: PartitionSpec,
        layout: Partitioning,
    ) -> DataFile:
        size = self._env.store.head(file.path).size if file.size is None else file.size
        location, metrics = self._place.io.location(file.path), file_metrics(file.rows, file.stats, columns)
        if declared.partition_by:
            values = partition_values(declared.partition_by, file.partition)
            return data_file(location, file.rows, size, metrics, spec.spec_id, values)
        if (value := layout.value(file.stats)) is None:
            return data_file(location, file.rows, size, metrics)
        return data_file(location, file.rows, size, metrics, layout.spec_id, value)

    def _wanted(self, source: Source, metadata: TableMetadataV2) -> dict[str, DataFile]:
        change = source.whole()
        fields, ids = self._columns(change, metadata)
        columns = stored_columns(fields, ids)
        spec, layout = spec_of(metadata, change.columns, fields), layout_of(metadata, source, columns)
        layout = layout if layout.spec_id == metadata.default_spec_id else Partitioning()
        return {
            self._place.io.location(file.path): self._data_file(file, change.columns, columns, spec, layout)
            for file in change.added
        }

    def _clean(self, before: TableMetadataV2, after: TableMetadataV2) -> None:
        """Remove metadata that no snapshot names any more. Whatever fails is left for the next time."""
        with contextlib.suppress(GaplessError, OSError, ValueError):
            clean_expired(self._place.io, before, after)
            if after.last_sequence_number % EVERY == 0:
                clean_orphans(self._place.io, self._env.store, after, self._env.clock.now_ns())

    # -- whose it is -----------------------------------------------------------------------------------------------------

    def _source_version(self, metadata: TableMetadataV2) -> int | None:
        """The version that is published; None where nothing is yet. Raises ForeignCommit where the newest state is not ours."""
        if why := self._why_foreign(metadata):
            raise ForeignCommit(
                f"{self._place.what} {why}",
                why="It only describes the files of the table, which another writer would damage",
                fix="`gapless repair` describes the table anew; write to the table itself, with gl.open",
                format=self.format,
                published_version=metadata.current_snapshot_id or -1,
            )
        current = metadata.current_snapshot()
        return None if current is None else version_of(current)

    def _why_foreign(self, metadata: TableMetadataV2) -> str:
        return why_foreign(metadata, self._place.io.root)


def describe_own(env: Environment, source: Source) -> None:
    """Describe files as an Iceberg table at the root of what `env` reaches, which is its own from then on. Raises as `IcebergPublisher.begin`."""
    IcebergPublisher(env, source.settings, Directory(env, ""), guarded=False).begin(source)


def described_versions(env: Environment) -> list[tuple[int, int]]:
    """The versions that the table in a directory describes, oldest first, each with the time of its snapshot, in nanoseconds since 1970 UTC.

    Raises CorruptTable, StoreError.
    """
    place = Directory(env)
    if (found := place.load()) is None:
        return []
    place.settle()  # readers go by a hint, which may lag behind where its writer died
    told = [(version_of(one), one.timestamp_ms * NS_PER["ms"]) for one in found.metadata.snapshots]
    return sorted(((version, time_ns) for version, time_ns in told if version is not None), key=lambda one: one[1])
