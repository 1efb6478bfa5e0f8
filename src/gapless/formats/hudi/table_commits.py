"""Commits of copy-on-write tables of version 8 and later, as Avro; partitioned, with file groups that are written anew. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gapless.errors import CorruptTable
from gapless.formats.hudi.avro import MAGIC, decode_container, encode_container

_SCHEMA_KEY = "schema"
_TEXT = {"type": "string", "avro.java.string": "String"}


def _optional(kind: object) -> list[object]:
    return ["null", kind]


def _map(values: object) -> dict[str, object]:
    return {"type": "map", "values": values, "avro.java.string": "String"}


def _fields(**kinds: object) -> list[dict[str, object]]:
    return [{"name": name, "type": _optional(kind), "default": None} for name, kind in kinds.items()]


_STAT = {
    "type": "record",
    "name": "HoodieWriteStat",
    "fields": _fields(
        fileId=_TEXT,
        path=_TEXT,
        prevCommit=_TEXT,
        numWrites="long",
        numDeletes="long",
        numUpdateWrites="long",
        totalWriteBytes="long",
        totalWriteErrors="long",
        partitionPath=_TEXT,
        numInserts="long",
        fileSizeInBytes="long",
        prevBaseFile=_TEXT,
    ),
}
_TOLD = [
    *_fields(partitionToWriteStats=_map({"type": "array", "items": _STAT}), compacted="boolean", extraMetadata=_map(_TEXT)),
    {"name": "version", "type": ["int", "null"], "default": 1},
    *_fields(operationType=_TEXT),
]
_COMMIT = {
    "type": "record",
    "name": "HoodieCommitMetadata",
    "namespace": "org.apache.hudi.avro.model",
    "fields": _TOLD,
}
_REPLACE = {
    **_COMMIT,
    "name": "HoodieReplaceCommitMetadata",
    "fields": [*_TOLD, *_fields(partitionToReplaceFileIds=_map({"type": "array", "items": _TEXT}))],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """A base file that a commit added: the first of a new file group, or the next of one."""

    partition: str
    """Its folder below the base path; empty for a table without partitions."""
    file_id: str
    name: str
    rows: int
    size: int
    """Bytes."""
    before: str = ""
    """The name of the file of the group that it takes the place of."""
    inserted: int = 0
    updated: int = 0
    deleted: int = 0

    @property
    def path(self) -> str:
        """Below the base path."""
        return in_partition(self.partition, self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCommit:
    """What an instant did to a table's files."""

    operation: str
    """What Hudi calls it, such as UPSERT."""
    files: tuple[WrittenFile, ...] = ()
    replaced: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By partition the file groups that are seen no more."""
    schema: str = ""
    """The Avro schema of the table from here on, as JSON."""
    extra: Mapping[str, str] = field(default_factory=dict)
    """What writers keep beside it."""
    logged: tuple[WrittenFile, ...] = ()
    """Log files of a merge-on-read table that it added."""

    @property
    def action(self) -> str:
        """What its instant is called for."""
        return "replacecommit" if self.replaced or "OVERWRITE" in self.operation else "commit"


def in_partition(partition: str, name: str) -> str:
    """A path below the base path."""
    return f"{partition}/{name}" if partition else name


def encode_table_commit(commit: TableCommit) -> bytes:
    """The file of a completed instant."""
    stats: dict[str, list[dict[str, object]]] = {}
    for one in commit.files:
        stats.setdefault(one.partition, []).append(_stat(one))
    told = {
        "partitionToWriteStats": stats,
        "compacted": False,
        "extraMetadata": {_SCHEMA_KEY: commit.schema, **commit.extra},
        "operationType": commit.operation,
        "partitionToReplaceFileIds": {partition: list(ids) for partition, ids in commit.replaced.items()},
    }
    return encode_container(_REPLACE if commit.action == "replacecommit" else _COMMIT, told)


def decode_table_commit(data: bytes, path: str) -> TableCommit:
    """What the file of a completed instant says; of tables before version 8 too, which have JSON. Raises CorruptTable, naming `path`."""
    try:
        (told,) = decode_container(data, path) if data.startswith(MAGIC) else [json.loads(data or b"{}")]
        extra = dict(told.get("extraMetadata") or {})
        groups = (told.get("partitionToWriteStats") or {}).items()
        stats = [_file(partition, stat) for partition, found in groups for stat in found]
        replaced = told.get("partitionToReplaceFileIds") or {}
        return TableCommit(
            operation=told.get("operationType") or "UNKNOWN",
            files=tuple(one for one in stats if one.name.endswith(".parquet")),
            logged=tuple(one for one in stats if not one.name.endswith(".parquet")),
            replaced={partition: tuple(ids) for partition, ids in replaced.items()},
            schema=extra.pop(_SCHEMA_KEY, ""),
            extra=extra,
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptTable(
            f"{path} is no commit of a Hudi table",
            why=f"It does not read as one: {error!r}",
            fix="Bring it back from a copy of the table",
            path=path,
        ) from error


def _stat(file: WrittenFile) -> dict[str, object]:
    before = file.before.rpartition("_")[2].removesuffix(".parquet")
    return {
        "fileId": file.file_id,
        "path": file.path,
        "prevCommit": before or "null",
        "numWrites": file.rows,
        "numDeletes": file.deleted,
        "numUpdateWrites": file.updated,
        "totalWriteBytes": file.size,
        "totalWriteErrors": 0,
        "partitionPath": file.partition,
        "numInserts": file.inserted,
        "fileSizeInBytes": file.size,
        "prevBaseFile": file.before or None,
    }


def _file(partition: str, stat: Mapping[str, Any]) -> WrittenFile:
    path = stat["path"] or ""
    return WrittenFile(
        partition=partition,
        file_id=stat["fileId"],
        name=path.rpartition("/")[2],
        rows=stat.get("numWrites") or 0,
        size=stat.get("fileSizeInBytes") or 0,
        before=stat.get("prevBaseFile") or "",
        inserted=stat.get("numInserts") or 0,
        updated=stat.get("numUpdateWrites") or 0,
        deleted=stat.get("numDeletes") or 0,
    )
