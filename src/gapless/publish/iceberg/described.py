"""What the metadata of a published table says, and how it differs from the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadataV2

from gapless.formats.iceberg.commits import FIELD_IDS, PARTITIONED_BY, SchemaChange
from gapless.formats.iceberg.file_partitions import PARTITION_SPEC, UNPARTITIONED, Partitioning, partitioning, parts_of
from gapless.formats.iceberg.partitions import spec_fields
from gapless.formats.iceberg.schema import FieldIds, JsonObject
from gapless.publish.iceberg.columns import published_columns
from gapless.publish.source import Source, SourceColumns


def field_ids_of(metadata: TableMetadataV2) -> FieldIds:
    """The ids that were given, as its properties tell them."""
    try:
        return FieldIds.parse(metadata.properties.get(FIELD_IDS, "[]"), metadata.last_column_id)
    except ValueError:
        return FieldIds(last=metadata.last_column_id)  # another writer's; the next commit writes it anew


def spec_of(metadata: TableMetadataV2, columns: SourceColumns, fields: Sequence[JsonObject]) -> PartitionSpec:
    """By what files are partitioned: a spec that the metadata has, or a new one."""
    wanted = PartitionSpec.model_validate({"spec-id": 0, "fields": spec_fields(columns.partition_by, fields)})
    if not wanted.fields:
        return metadata.specs().get(0) or wanted
    known = next((one for one in metadata.specs().values() if partition_ids(one) == partition_ids(wanted)), None)
    return known or PartitionSpec(*wanted.fields, spec_id=max(metadata.specs()) + 1)


def layout_of(metadata: TableMetadataV2, source: Source, columns: Mapping[str, tuple[int, str]]) -> Partitioning:
    """How files of a version that hold all columns are told apart by their bounds; `columns` has ids and types by stored name."""
    parts = parts_of(source.settings.iceberg_partition, source.columns.ids.stored_name)
    specs = [one.model_dump(by_alias=True, mode="json") for one in metadata.partition_specs]
    return partitioning(parts, columns, specs, metadata.last_partition_id or 0)


def partition_ids(spec: PartitionSpec) -> str:
    """The ids of the partition columns, between commas."""
    return ",".join(str(one.source_id) for one in spec.fields)


def has_own_spec(metadata: TableMetadataV2) -> bool:
    """Whether its files are partitioned as we said it last."""
    told = metadata.properties.get(PARTITIONED_BY)
    if told:
        return partition_ids(metadata.spec()) == told
    return str(metadata.default_spec_id) == metadata.properties.get(PARTITION_SPEC, str(UNPARTITIONED))


def contradicts(metadata: TableMetadataV2, columns: SourceColumns) -> bool:
    """Whether the table has other partitions, or its files other ids, than what is described, so that this begins anew."""
    if columns.schema is None or metadata.current_snapshot() is None:
        return False
    known = field_ids_of(metadata)
    if known.contradicts(columns.field_ids):
        return True
    fields, _ = published_columns(columns, known)
    return partition_ids(spec_of(metadata, columns, fields)) != (metadata.properties.get(PARTITIONED_BY) or "")


def schema_of(fields: Sequence[JsonObject], number: int) -> Schema:
    """These fields as a schema of pyiceberg."""
    return Schema.model_validate({"type": "struct", "schema-id": number, "fields": list(fields)})


def schema_change(metadata: TableMetadataV2, fields: Sequence[JsonObject]) -> SchemaChange:
    """The schema of a snapshot: one that the metadata has, if it says the same."""
    number = max(one.schema_id for one in metadata.schemas) + 1
    known = next((one.schema_id for one in metadata.schemas if one == schema_of(fields, number)), None)
    return SchemaChange(
        schema_id=number if known is None else known,
        fields=fields,
        is_new=known is None,
        is_current=known == metadata.current_schema_id,
    )
