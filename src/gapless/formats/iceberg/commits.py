"""A commit of a table's metadata, as JSON that every catalog takes. Pure (the table spec, and "TableUpdate" of the REST catalog's)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gapless.formats.iceberg.schema import JsonObject
from gapless.formats.iceberg.snapshots import SOURCE_VERSION, Operation

NAME_MAPPING = "schema.name-mapping.default"
FIELD_IDS = "gapless.field-ids"
"""Among the properties: the mapping as it was meant. Some catalogs add the names of columns to the other one."""
PARTITIONED_BY = "gapless.partitioned-by"
"""Among the properties: the ids of the partition columns, of a table that has some."""
GUARD = {"gc.enabled": "false"}
"""Without it other engines' maintenance deletes the table's segments."""
SOURCE_TABLE = "gapless.table"
"""Among the properties: where the table lies whose files are named."""
_FIRST = {
    "write.metadata.previous-versions-max": "50",
    "write.metadata.delete-after-commit.enabled": "true",
    NAME_MAPPING: "[]",
    SOURCE_VERSION: "0",
}
_COUNTED = (("data-files", "added", "deleted"), ("records", "added", "deleted"), ("files-size", "added", "removed"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Files, their rows and bytes."""

    files: int = 0
    rows: int = 0
    bytes: int = 0

    def __iter__(self) -> Iterator[int]:
        """In the order of a summary."""
        return iter((self.files, self.rows, self.bytes))


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSnapshot:
    """What a snapshot says."""

    snapshot_id: int
    parent_id: int | None
    sequence: int
    time_ms: int
    manifest_list: str
    schema_id: int
    operation: Operation
    version: int
    """The version of the table that it describes."""
    added: Tally
    removed: Tally
    before: Mapping[str, str] = field(default_factory=dict)
    """The summary of the snapshot that its totals go on from."""

    def summary(self) -> dict[str, str]:
        """Its summary."""
        told = {"operation": self.operation, SOURCE_VERSION: str(self.version)}
        for (name, come, go), more, fewer in zip(_COUNTED, self.added, self.removed, strict=True):
            told |= {f"{verb}-{name}": str(count) for verb, count in ((come, more), (go, fewer)) if count}
            told[f"total-{name}"] = str(max(0, _number(self.before.get(f"total-{name}")) + more - fewer))
        return told | {f"total-{name}": "0" for name in ("delete-files", "position-deletes", "equality-deletes")}


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaChange:
    """The columns from a snapshot on."""

    schema_id: int
    fields: Sequence[JsonObject]
    is_new: bool
    """Whether the metadata has no such schema yet."""
    is_current: bool


def first_metadata(location: str, source: str, table_id: str, time_ms: int) -> JsonObject:
    """The metadata of a table that has no column yet, of the files of the table at `source`."""
    return {
        "format-version": 2,
        "table-uuid": table_id,
        "location": location,
        "last-sequence-number": 0,
        "last-updated-ms": time_ms,
        "last-column-id": 0,
        "schemas": [{"type": "struct", "schema-id": 0, "fields": []}],
        "current-schema-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "default-spec-id": 0,
        "last-partition-id": 999,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "properties": first_properties(source),
    }


def first_properties(source: str) -> dict[str, str]:
    """The properties that a table is made with."""
    return {**GUARD, **_FIRST, SOURCE_TABLE: source}


def requirements(table_id: str, parent_id: int | None) -> list[JsonObject]:
    """What must hold when the commit lands: no one has come between."""
    return [
        {"type": "assert-table-uuid", "uuid": table_id},
        {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": parent_id},
    ]


def updates(
    snapshot: NewSnapshot,
    schema: SchemaChange,
    properties: Mapping[str, str],
    expired: Sequence[int],
    spec: JsonObject | None = None,
) -> list[JsonObject]:
    """What a commit changes: columns, properties and the snapshot, in one step; `expired` snapshots leave, and a new partition `spec` comes."""
    told: list[JsonObject] = []
    if schema.is_new:
        told.append(
            {"action": "add-schema", "schema": {"type": "struct", "schema-id": schema.schema_id, "fields": list(schema.fields)}}
        )
    if not schema.is_current:
        told.append({"action": "set-current-schema", "schema-id": -1 if schema.is_new else schema.schema_id})
    if spec is not None:
        told += [{"action": "add-spec", "spec": spec}, {"action": "set-default-spec", "spec-id": -1}]
    told += [
        {
            "action": "add-snapshot",
            "snapshot": {
                "snapshot-id": snapshot.snapshot_id,
                "parent-snapshot-id": snapshot.parent_id,
                "sequence-number": snapshot.sequence,
                "timestamp-ms": snapshot.time_ms,
                "manifest-list": snapshot.manifest_list,
                "summary": snapshot.summary(),
                "schema-id": snapshot.schema_id,
            },
        },
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot.snapshot_id},
        {"action": "set-properties", "updates": {**properties, SOURCE_VERSION: str(snapshot.version)}},
    ]
    return told + ([{"action": "remove-snapshots", "snapshot-ids": list(expired)}] if expired else [])


def mending(*, location: str | None, spec_id: int | None) -> list[JsonObject]:
    """What another writer, or a move of the table, changed, set back."""
    told: list[JsonObject] = [] if location is None else [{"action": "set-location", "location": location}]
    return told + ([] if spec_id is None else [{"action": "set-default-spec", "spec-id": spec_id}])


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isdigit() else 0
