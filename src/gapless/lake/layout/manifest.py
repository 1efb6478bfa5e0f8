"""The manifest of a run: what names the files of one node's part of a run, written last. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from gapless.errors import CorruptTable, UnsupportedTable
from gapless.tables.shared.prepared import is_intact, sealed

FORMAT = 1
"""A higher one was written by a newer release."""
MANIFEST = "_manifest.json"
RECEIPT = "_commit.json"
"""Beside the manifest of a run that is a commit of a table's own log: the version that it became."""

Status = Literal["complete", "partial"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFile:
    """A file that a manifest names."""

    path: str
    """Relative to the folder of the manifest."""
    rows: int
    size: int
    """Bytes."""
    sha256: str
    """Of its bytes, in hexadecimal."""
    schema_version: int

    @property
    def body(self) -> dict[str, Any]:
        """As JSON's values."""
        return {
            "path": self.path,
            "rows": self.rows,
            "bytes": self.size,
            "sha256": self.sha256,
            "schema_version": self.schema_version,
        }

    @classmethod
    def from_body(cls, body: Mapping[str, Any]) -> RunFile:
        """Read it back; raises KeyError, TypeError or ValueError."""
        path = str(body["path"])
        if not path or path.startswith("/") or ".." in path.split("/"):
            raise ValueError(f"{path!r} lies outside of the folder")
        return cls(
            path=path,
            rows=int(body["rows"]),
            size=int(body["bytes"]),
            sha256=str(body["sha256"]),
            schema_version=int(body["schema_version"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCursor:
    """How far a pipeline had come when a run was committed."""

    pipeline: str
    kind: str
    """"monotonic", "opaque" or "snapshot"."""
    before: Any
    after: Any
    """JSON; the same as `before` where the run brought no rows."""
    fence: int = 0
    """The number of the lease under which it was committed; 0 where the kind needs none."""

    @property
    def body(self) -> dict[str, Any]:
        """As JSON's values."""
        return {
            "pipeline": self.pipeline,
            "kind": self.kind,
            "before": self.before,
            "after": self.after,
            "fence": self.fence,
        }

    @classmethod
    def from_body(cls, body: Mapping[str, Any]) -> RunCursor:
        """Read it back; raises KeyError, TypeError or ValueError."""
        return cls(
            pipeline=str(body["pipeline"]),
            kind=str(body["kind"]),
            before=body["before"],
            after=body["after"],
            fence=int(body["fence"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What one node committed of a run."""

    table: str
    run: str
    node: str
    status: Status = "complete"
    """"partial" where the source failed behind the rows that are here."""
    failure: str | None = None
    """The code of the error that ended a partial run."""
    source: str = ""
    """What the rows came from, without secrets."""
    cursor: RunCursor | None = None
    schema_version: int
    """The newest that its files have."""
    columns: Mapping[str, str]
    """The column of each field of the source."""
    files: tuple[RunFile, ...]
    quarantined: tuple[RunFile, ...] = ()
    """Rows that the table's drift policy put aside: no reader of the table sees them."""
    operation: str | None = None
    """Where the table has a log of its own: the operation id of the commit that has the rows."""
    rows: int
    started_ns: int
    finished_ns: int
    """Nanoseconds since 1970 UTC, by the node's clock."""
    written_by: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Fields that a newer release wrote."""

    @property
    def folder(self) -> str:
        """Where it lies."""
        return run_folder(self.table, self.run, self.node)

    @property
    def path(self) -> str:
        """Its own."""
        return f"{self.folder}/{MANIFEST}"

    def encode(self) -> bytes:
        """The document, with its checksum."""
        return sealed(self.body).encode()

    @property
    def body(self) -> dict[str, Any]:
        """As JSON's values."""
        return {
            **self.extra,
            "format": FORMAT,
            "table": self.table,
            "run": self.run,
            "node": self.node,
            "status": self.status,
            "failure": self.failure,
            "source": self.source,
            "cursor": None if self.cursor is None else self.cursor.body,
            "schema_version": self.schema_version,
            "columns": dict(sorted(self.columns.items())),
            "files": [one.body for one in self.files],
            "quarantined": [one.body for one in self.quarantined],
            "operation": self.operation,
            "rows": self.rows,
            "started_ns": self.started_ns,
            "finished_ns": self.finished_ns,
            "written_by": self.written_by,
        }

    def same_rows(self, other: Manifest) -> bool:
        """Whether two manifests of one run and node name the same files, or the same commit, and the same place to go on at."""
        return self._said == other._said

    @property
    def _said(self) -> tuple[object, ...]:
        after = None if self.cursor is None else (self.cursor.pipeline, self.cursor.kind, self.cursor.after)
        return self.files, self.operation, self.rows, after


_STATUSES: Mapping[str, Status] = {"complete": "complete", "partial": "partial"}
_KNOWN = frozenset({
    "format", "table", "run", "node", "status", "failure", "source", "cursor", "schema_version", "columns", "files", "quarantined",
    "operation", "rows", "started_ns", "finished_ns", "written_by", "checksum",
})  # fmt: skip


def run_folder(table: str, run: str, node: str) -> str:
    """The folder of one node's part of a run, below the lake's root."""
    return f"tables/{table}/data/runs/run-{run}/{node}"


def run_of(path: str) -> tuple[str, str]:
    """The run and the node whose part of it an object belongs to, by the path of the object.

    >>> run_of("tables/t/data/runs/run-01J/main/_manifest.json")
    ('01J', 'main')
    """
    *_, run, node, _ = path.split("/")
    return run.removeprefix("run-"), node


def decode(data: bytes, path: str) -> Manifest:
    """Read a manifest. Raises CorruptTable for one that is torn or altered, or lies where another belongs; UnsupportedTable for a newer format."""
    found = manifest_of(load_sealed(data, path), path)
    if found.path != path:
        raise damaged(path, f"It is that of {found.path}")
    return found


def manifest_of(body: Mapping[str, Any], path: str) -> Manifest:
    """The manifest of JSON's values, which are in `path`. Raises CorruptTable, UnsupportedTable."""
    try:
        check_format(body, path)
        cursor, status = body["cursor"], str(body["status"])
        return Manifest(
            table=str(body["table"]),
            run=str(body["run"]),
            node=str(body["node"]),
            status=_STATUSES[status],
            failure=body["failure"],
            source=str(body["source"]),
            cursor=None if cursor is None else RunCursor.from_body(cursor),
            schema_version=int(body["schema_version"]),
            columns=dict(body["columns"]),
            files=tuple(map(RunFile.from_body, body["files"])),
            quarantined=tuple(map(RunFile.from_body, body["quarantined"])),
            operation=body["operation"],
            rows=int(body["rows"]),
            started_ns=int(body["started_ns"]),
            finished_ns=int(body["finished_ns"]),
            written_by=str(body["written_by"]),
            extra={name: value for name, value in body.items() if name not in _KNOWN},
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise damaged(path, f"{type(error).__name__}: {error}") from error


def check_format(body: Mapping[str, Any], path: str) -> None:
    """Raise UnsupportedTable for a document of a newer release; KeyError, TypeError or ValueError where it does not say its format."""
    if int(body["format"]) > FORMAT:
        raise UnsupportedTable(
            f"{path} has format {body['format']}",
            why=f"This release knows format {FORMAT}",
            fix="Read the lake with a newer gapless",
            needs=f"lake format {body['format']}",
        )


def load_sealed(data: bytes, path: str) -> dict[str, Any]:
    """The values of a sealed document. Raises CorruptTable."""
    try:
        body = json.loads(data)
        intact = is_intact(body)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise damaged(path, f"{type(error).__name__}: {error}") from error
    if not intact:
        raise damaged(path, "Its checksum is not that of what it says")
    return dict(body)


def damaged(path: str, why: str) -> CorruptTable:
    """The error for a document of a lake that cannot be read."""
    return CorruptTable(
        f"{path} cannot be read",
        why=why,
        fix="Bring the file back from a backup or a replica; a run whose manifest is damaged is as if it were not there",
        path=path,
    )
