"""Commits of Iceberg metadata as pyiceberg takes them, and the one version of the format that is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import TypeAdapter
from pyiceberg.table.metadata import TableMetadata, TableMetadataV2
from pyiceberg.table.update import TableRequirement, TableUpdate

from gapless.errors import ForeignCommit
from gapless.formats.iceberg.schema import JsonObject

_REQUIREMENTS: TypeAdapter[tuple[TableRequirement, ...]] = TypeAdapter(tuple[TableRequirement, ...])
_UPDATES: TypeAdapter[tuple[TableUpdate, ...]] = TypeAdapter(tuple[TableUpdate, ...])


@dataclass(frozen=True, slots=True)
class TableChange:
    """A commit of a table's metadata."""

    requirements: tuple[TableRequirement, ...]
    updates: tuple[TableUpdate, ...]
    snapshot_id: int
    """The snapshot that it adds."""

    @classmethod
    def parse(cls, requirements: Sequence[JsonObject], updates: Sequence[JsonObject], snapshot_id: int) -> TableChange:
        """From JSON."""
        return cls(_REQUIREMENTS.validate_python(requirements), _UPDATES.validate_python(updates), snapshot_id)


def as_version_2(metadata: TableMetadata, where: str) -> TableMetadataV2:
    """The metadata, which `where` holds. Raises ForeignCommit where another writer made it another version of the format."""
    if isinstance(metadata, TableMetadataV2):
        return metadata
    raise ForeignCommit(
        f"{where} is of version {metadata.format_version} of Iceberg, and gapless publishes version 2",
        why="Another writer made it, or upgraded it; there is no way back",
        fix="`gapless repair --apply` begins the description anew; in a catalog drop that table first",
        format="iceberg",
        published_version=metadata.current_snapshot_id or -1,
    )
