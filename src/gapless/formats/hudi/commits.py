"""Commits of a Hudi timeline of version 6, as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from gapless.errors import CorruptTable
from gapless.formats.hudi.names import Action, parse_file_name

_SCHEMA = "schema"
_UNPARTITIONED = ""
"""The name of the one partition of a table without partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A Parquet file of the base path."""

    name: str
    rows: int
    size: int
    """Bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HudiCommit:
    """What an instant did."""

    operation: str
    """What Hudi calls it, such as INSERT."""
    added: tuple[DataFile, ...] = ()
    replaced: tuple[str, ...] = ()
    """File ids whose files are seen no more from here on."""
    schema: str = ""
    """The Avro schema of the table from here on."""
    extra: Mapping[str, str] = field(default_factory=dict)
    """What writers keep beside it."""

    @property
    def action(self) -> Action:
        """What its instant is called for."""
        return "replacecommit" if self.replaced else "commit"


def encode_commit(commit: HudiCommit, action: Action) -> bytes:
    """A file of the timeline, of an instant that is called for `action`."""
    told: dict[str, object] = {
        "partitionToWriteStats": {_UNPARTITIONED: [_write_stat(one) for one in commit.added]} if commit.added else {},
        "compacted": False,
        "extraMetadata": {_SCHEMA: commit.schema, **commit.extra},
        "operationType": commit.operation,
    }
    if action == "replacecommit":
        told["partitionToReplaceFileIds"] = {_UNPARTITIONED: list(commit.replaced)} if commit.replaced else {}
    return json.dumps(told, separators=(",", ":")).encode()


def decode_commit(data: bytes, path: str) -> HudiCommit:
    """What a file of the timeline says. Raises CorruptTable, naming `path`."""
    try:
        told = json.loads(data)
        stats = [stat for partition in (told.get("partitionToWriteStats") or {}).values() for stat in partition]
        replaced = [one for ids in (told.get("partitionToReplaceFileIds") or {}).values() for one in ids]
        extra = {str(key): str(value) for key, value in (told.get("extraMetadata") or {}).items()}
        return HudiCommit(
            operation=str(told.get("operationType")),
            added=tuple(
                DataFile(name=stat["path"], rows=int(stat["numWrites"]), size=int(stat["fileSizeInBytes"])) for stat in stats
            ),
            replaced=tuple(map(str, replaced)),
            schema=extra.pop(_SCHEMA, ""),
            extra=extra,
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptTable(
            f"{path} is no commit of a Hudi table",
            why=f"It does not read as one: {error!r}",
            fix="`gapless repair` begins the description of the table anew",
            path=path,
        ) from error


def _write_stat(file: DataFile) -> dict[str, object]:
    """With what hudi-rs and Spark's incremental reads need, which give no rows where the size is missing."""
    name = parse_file_name(file.name)
    assert name is not None
    return {
        "fileId": name.file_id,
        "path": file.name,
        "prevCommit": "null",
        "numWrites": file.rows,
        "numDeletes": 0,
        "numUpdateWrites": 0,
        "numInserts": file.rows,
        "totalWriteBytes": file.size,
        "totalWriteErrors": 0,
        "partitionPath": _UNPARTITIONED,
        "fileSizeInBytes": file.size,
    }
