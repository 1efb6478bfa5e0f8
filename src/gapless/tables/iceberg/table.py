"""One Iceberg table, opened: its newest metadata, what it remembers of sinks' checkpoints, and the snapshots that it follows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot as IcebergSnapshot
from pyiceberg.transforms import parse_transform

from gapless.errors import InvalidOption, TableExists, TableNotFound, UnsupportedTable, nearest
from gapless.formats.iceberg.operations import Applied, Operations
from gapless.formats.iceberg.partitioning import PartitionColumn, parse_partition_by
from gapless.formats.iceberg.schema import FieldIds, iceberg_schema
from gapless.log.format import Snapshot
from gapless.model.column_ids import ColumnIds
from gapless.model.instant import NS_PER
from gapless.model.operation import SequenceId
from gapless.publish.iceberg.io import StoreIO
from gapless.runtime.environment import Environment
from gapless.tables.iceberg.columns import arrow_schema
from gapless.tables.iceberg.options import IcebergOptions
from gapless.tables.iceberg.place import Loaded, NewTable, Place, place_of_table
from gapless.tables.shared.landing import ChangeOutcome

WRITTEN_VERSION = 2


class IcebergTable:
    """A handle: it sees the metadata that was the newest when it was opened or refreshed."""

    def __init__(self, options: IcebergOptions, place: Place, loaded: Loaded) -> None:
        """See `open_iceberg_table`."""
        self.options, self.place, self.loaded = options, place, loaded

    def __repr__(self) -> str:
        """Which table it is."""
        return f"<{type(self).__name__} {self.options.place}>"

    @property
    def env(self) -> Environment:
        """The environment that its files are reached by."""
        return self.place.env

    @property
    def io(self) -> StoreIO:
        """The same as files of pyiceberg."""
        return self.place.io

    @property
    def metadata(self) -> TableMetadata:
        """The newest that is known."""
        return self.loaded.metadata

    @property
    def table_id(self) -> str:
        """What tells it from another one made in its place."""
        return str(self.metadata.table_uuid)

    @property
    def version(self) -> int:
        """The sequence number of the current snapshot; 0 for none."""
        return version_of(self.metadata.current_snapshot())

    @property
    def schema(self) -> pa.Schema:
        """Its columns."""
        return arrow_schema(self.metadata.schema())

    def refresh(self) -> Loaded:
        """The newest metadata, to which the handle moves. Raises TableNotFound, AccessDenied, StoreError."""
        found = self.place.load()
        if found is None:
            raise _no_table(self.options)
        self.loaded = found
        return found

    def require_writable(self) -> None:
        """Raise UnsupportedTable for another version of the format than the one that is written."""
        version = self.metadata.format_version
        if version != WRITTEN_VERSION:
            raise UnsupportedTable(
                f"{self.options.place} is of version {version} of Iceberg, and version {WRITTEN_VERSION} is written",
                why="pyiceberg writes no version 3" if version > WRITTEN_VERSION else "Version 1 has no sequence numbers",
                fix="Upgrade it in Spark: ALTER TABLE … SET TBLPROPERTIES ('format-version'='2')"
                if version < WRITTEN_VERSION
                else "Make the table as version 2",
                needs=f"Iceberg version {version}",
            )

    # -- what it remembers -----------------------------------------------------------------------------------------------

    def ancestors(self) -> Iterator[IcebergSnapshot]:
        """The snapshots that the current one follows, itself first, as far as they are kept."""
        return ancestors_of(self.metadata, self.metadata.current_snapshot())

    def known(self, operation: SequenceId, kind: str) -> ChangeOutcome | None:
        """What the known version tells of an operation. Raises OperationReused where it was a change of another kind, CorruptTable."""
        return ChangeOutcome.before(self._remembered, operation, kind)

    def last(self, app: str) -> int | None:
        """The highest checkpoint of an app. Raises CorruptTable."""
        found = self._remembered.state.last(app)
        return None if found is None else found.operation.sequence

    def applied(self) -> Iterable[Applied]:
        """The highest checkpoint of each app. Raises CorruptTable."""
        return self._remembered.state.all()

    def time_of(self, version: int) -> int | None:
        """When the snapshot with a sequence number was committed (nanoseconds since 1970 UTC); None where it is not kept."""
        found = next((one for one in self.metadata.snapshots if one.sequence_number == version), None)
        return None if found is None else found.timestamp_ms * NS_PER["ms"]

    @property
    def _remembered(self) -> Snapshot[Operations]:
        told = [(version_of(one), one.summary.additional_properties) for one in self.ancestors() if one.summary is not None]
        return Snapshot(self.version, 0, Operations(properties=self.metadata.properties, snapshots=told))


def version_of(snapshot: IcebergSnapshot | None) -> int:
    """A snapshot's sequence number: it grows from commit to commit, and its id does not."""
    return 0 if snapshot is None else snapshot.sequence_number or 0


def last_sequence(metadata: TableMetadata) -> int:
    """The highest sequence number that was given, on whichever branch."""
    return int(getattr(metadata, "last_sequence_number", 0))


def ancestors_of(metadata: TableMetadata, snapshot: IcebergSnapshot | None) -> Iterator[IcebergSnapshot]:
    """A snapshot and those that it follows, as far as they are kept; by parents, since ids say nothing."""
    by_id = {one.snapshot_id: one for one in metadata.snapshots}
    while snapshot is not None:
        yield snapshot
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else by_id.get(parent)


def open_iceberg_table(options: IcebergOptions) -> IcebergTable:
    """The table there. Raises TableNotFound, AccessDenied, NotSupported where a library is missing, InvalidOption, CorruptTable, StoreError."""
    place = place_of_table(options)
    loaded = place.load()
    if loaded is None:
        raise _no_table(options)
    return IcebergTable(options, place, loaded)


def create_iceberg_table(options: IcebergOptions, schema: pa.Schema, create: Mapping[str, Any]) -> IcebergTable:
    """A new table with these columns, all of which may be null; `create` has options of `CREATE_OPTIONS`.

    Raises TableExists, InvalidOption, UnsupportedType, SchemaMismatch, AccessDenied, StoreError.
    """
    fields, _ = iceberg_schema(schema, ColumnIds(), FieldIds())
    made = Schema.model_validate({"type": "struct", "schema-id": 0, "fields": fields})
    spec = partition_spec(made, parse_partition_by(create.get("partition_by") or ()))
    place = place_of_table(options)
    properties = {str(name): str(value) for name, value in (create.get("properties") or {}).items()}
    wanted = NewTable(schema=made, spec=spec, properties=properties, location=create.get("location"))
    if not place.create(wanted):
        raise TableExists(
            f"there is an Iceberg table {options.place} already", why="Another made it", fix="Open it", path=options.place
        )
    return open_iceberg_table(options)


def partition_spec(schema: Schema, columns: Sequence[PartitionColumn]) -> PartitionSpec:
    """The partitioning by these columns. Raises InvalidOption for a column that the table lacks, or a transform that its type does not take."""
    fields = []
    names = {one.lower(): one for one in schema.column_names}
    for number, one in enumerate(columns):
        source = names.get(one.source.lower())
        if source is None:
            raise _refuse(one, f"The table has no such column. {nearest(one.source, schema.column_names)}")
        found, transform = schema.find_field(source), parse_transform(one.transform)
        if not transform.can_transform(found.field_type):
            raise _refuse(one, f"{source} is of type {found.field_type}, which has no {one.transform}")
        name = one.name.replace(one.source, source, 1)
        if name != source and name in schema.column_names:
            raise _refuse(one, f"The table has a column {name!r}, as the partition would be called")
        fields.append(PartitionField(source_id=found.field_id, field_id=1000 + number, transform=transform, name=name))
    return PartitionSpec(*fields, spec_id=0)


def _refuse(column: PartitionColumn, why: str) -> InvalidOption:
    return InvalidOption(
        f"partition_by names {column.transform} of {column.source!r}, which cannot be",
        why=why,
        fix='Pass such as partition_by=["day(ts)", "bucket(16, id)"]',
        option="partition_by",
        value=column.source,
    )


def _no_table(options: IcebergOptions) -> TableNotFound:
    where = "directory" if options.catalog_type == "directory" else f"catalog {options.catalog_name!r}"
    return TableNotFound(
        f"there is no Iceberg table {options.place} in the {where}"
        if where != "directory"
        else f"there is no Iceberg table at {options.place}",
        why="It has no metadata/v<N>.metadata.json" if where == "directory" else "The catalog knows no such table",
        fix="Check the name, or make it: a sink does with create={} or partition_by=",
        path=options.place,
    )
