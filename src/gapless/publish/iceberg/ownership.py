"""Whose an Iceberg table's newest state is: the publisher's, or another writer's."""

from __future__ import annotations

from pyiceberg.table.metadata import TableMetadataV2
from pyiceberg.table.snapshots import Snapshot

from gapless.formats.iceberg.commits import SOURCE_TABLE
from gapless.formats.iceberg.snapshots import SOURCE_VERSION
from gapless.publish.iceberg.described import has_own_spec


def why_foreign(metadata: TableMetadataV2, root: str) -> str:
    """What shows that another writer changed metadata of the table at `root`; empty where none did."""
    told = metadata.properties.get(SOURCE_VERSION)
    if told is None:
        return "was not made by gapless"
    source = metadata.properties.get(SOURCE_TABLE)
    if source != root:
        return f"describes the table at {source}, and this one lies at {root}"
    current = metadata.current_snapshot()
    if current is None:
        return "" if told == "0" else "has lost its snapshot"
    version = version_of(current)
    if version is None:
        return f"has a snapshot that was not made by gapless: {current.snapshot_id}"
    if str(version) != told:
        return f"was set back to snapshot {current.snapshot_id} by another writer"
    if current.schema_id != metadata.current_schema_id or not has_own_spec(metadata):
        return "was given other columns or partitions by another writer"
    return ""


def version_of(snapshot: Snapshot) -> int | None:
    """The version of the table that a snapshot describes; None for another writer's."""
    told = None if snapshot.summary is None else snapshot.summary[SOURCE_VERSION]
    return int(told) if told is not None and str(told).isdigit() else None
