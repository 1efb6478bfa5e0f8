"""The tables of a catalog, and what manifests and leases are in them; alike in every database: statements with `?` for values."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gapless.errors import LeaseRefused
from gapless.lake.cursors import furthest
from gapless.lake.layout.manifest import Manifest, RunCursor
from gapless.lake.layout.schema import LakeSchema
from gapless.lake.layout.snapshots import Snapshot

USER_VERSION = 1
"""Of the tables below: SQLite's `user_version`."""
DDL = """
CREATE TABLE schemas (
  "table" TEXT NOT NULL, version INTEGER NOT NULL, fingerprint TEXT NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY ("table", version)
) WITHOUT ROWID;
CREATE TABLE runs (
  "table" TEXT NOT NULL, run TEXT NOT NULL, node TEXT NOT NULL, status TEXT NOT NULL, failure TEXT, source TEXT NOT NULL,
  schema_version INTEGER NOT NULL, rows INTEGER NOT NULL, operation TEXT, started_ns INTEGER NOT NULL, finished_ns INTEGER NOT NULL,
  pipeline TEXT, cursor_kind TEXT, cursor_before TEXT, cursor_after TEXT, fence INTEGER,
  PRIMARY KEY ("table", run, node)
) WITHOUT ROWID;
CREATE TABLE files (
  "table" TEXT NOT NULL, path TEXT NOT NULL, run TEXT NOT NULL, node TEXT NOT NULL, rows INTEGER NOT NULL, bytes INTEGER NOT NULL,
  sha256 TEXT NOT NULL, schema_version INTEGER NOT NULL, quarantined INTEGER NOT NULL,
  PRIMARY KEY ("table", path)
) WITHOUT ROWID;
CREATE TABLE cursors (
  "table" TEXT NOT NULL, pipeline TEXT NOT NULL, kind TEXT NOT NULL, value TEXT NOT NULL, fence INTEGER NOT NULL,
  run TEXT NOT NULL, node TEXT NOT NULL,
  PRIMARY KEY ("table", pipeline)
) WITHOUT ROWID;
CREATE TABLE snapshots (
  "table" TEXT NOT NULL, snapshot TEXT NOT NULL, base TEXT, complete INTEGER NOT NULL, schema_version INTEGER NOT NULL,
  rows INTEGER NOT NULL, files INTEGER NOT NULL,
  PRIMARY KEY ("table", snapshot)
) WITHOUT ROWID;
CREATE TABLE snapshot_runs (
  "table" TEXT NOT NULL, snapshot TEXT NOT NULL, run TEXT NOT NULL, node TEXT NOT NULL,
  PRIMARY KEY ("table", snapshot, run, node)
) WITHOUT ROWID;
CREATE TABLE leases (
  "table" TEXT NOT NULL, pipeline TEXT NOT NULL, holder TEXT NOT NULL, fence INTEGER NOT NULL, expires_ns INTEGER NOT NULL,
  PRIMARY KEY ("table", pipeline)
) WITHOUT ROWID;
CREATE VIEW lineage AS
  SELECT f."table", f.path, f.rows, f.schema_version, r.run, r.node, r.source, r.pipeline, r.cursor_before, r.cursor_after
  FROM files f JOIN runs r USING ("table", run, node);
"""
"""What is in it; docs/reference/lake-layout.md repeats it."""
REBUILT = ("schemas", "runs", "files", "cursors", "snapshots", "snapshot_runs")
_PUT_CURSOR = """
INSERT INTO cursors VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT ("table", pipeline) DO UPDATE SET
  kind = excluded.kind, value = excluded.value, fence = excluded.fence, run = excluded.run, node = excluded.node
"""
_PUT_LEASE = """
INSERT INTO leases VALUES (?, ?, ?, ?, ?) ON CONFLICT ("table", pipeline) DO UPDATE SET
  holder = excluded.holder, fence = excluded.fence, expires_ns = excluded.expires_ns
"""


class Answer(Protocol):
    """What a statement found."""

    @property
    def description(self) -> Any:
        """Of each column a tuple that begins with its name."""
        ...

    def fetchone(self) -> Any:
        """The next row; None where there is none."""
        ...

    def __iter__(self) -> Iterator[Any]:
        """The rows."""
        ...


class Connection(Protocol):
    """A transaction of a database."""

    def execute(self, statement: str, parameters: Sequence[Any] = ..., /) -> Answer:
        """Run a statement, with a value for each `?`."""
        ...

    def executemany(self, statement: str, parameters: Sequence[Sequence[Any]], /) -> object:
        """Run a statement for each of these rows of values."""
        ...


def statements_of(ddl: str) -> list[str]:
    """The statements of a text that has one behind the other."""
    return [one for one in ddl.split(";\n") if one.strip()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right to commit runs of one pipeline."""

    table: str
    pipeline: str
    holder: str
    fence: int
    """Larger than that of every lease before."""


def check_lease(connection: Connection, lease: Lease, now_ns: int) -> None:
    """Raise LeaseRefused where a lease is not held any more."""
    held = lease_of(connection, lease.table, lease.pipeline)
    if held is not None and held[:2] == (lease.holder, lease.fence) and held[2] > now_ns:
        return
    raise LeaseRefused(
        f"the lease of the pipeline {lease.pipeline!r} into {lease.table!r} is lost",
        why="Its time was over before the commit: the machine slept, or a page took longer than the lease holds",
        fix="Run again: nothing was committed, and the next run begins at the cursor that is there now",
        pipeline=lease.pipeline,
        holder=lease.holder if held is None else held[0],
    )


def forget_table(connection: Connection, table: str) -> None:
    """Remove what manifests say of a table, which is to be recorded anew; how far its pipelines have come stays."""
    for name in REBUILT:
        if name != "cursors":
            connection.execute(f'DELETE FROM {name} WHERE "table" = ?', (table,))  # noqa: S608  # ours


def forget_snapshot(connection: Connection, table: str, snapshot: str) -> None:
    """Remove a snapshot whose manifest is gone."""
    for name in ("snapshots", "snapshot_runs"):
        connection.execute(f'DELETE FROM {name} WHERE "table" = ? AND snapshot = ?', (table, snapshot))  # noqa: S608  # ours


def record_schema(connection: Connection, table: str, schema: LakeSchema) -> None:
    """Add a version of a table's columns."""
    body = json.dumps(schema.body, ensure_ascii=False, sort_keys=True)
    connection.execute(
        "INSERT INTO schemas VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING", (table, schema.version, schema.fingerprint, body)
    )


def record_manifest(connection: Connection, manifest: Manifest) -> None:
    """Add what a manifest says of its run, files and cursor."""
    one, cursor = manifest, manifest.cursor
    told = (
        (None,) * 5
        if cursor is None
        else (cursor.pipeline, cursor.kind, _text(cursor.before), _text(cursor.after), cursor.fence)
    )
    connection.execute(
        "INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (
            one.table, one.run, one.node, one.status, one.failure, one.source, one.schema_version, one.rows, one.operation,
            one.started_ns, one.finished_ns, *told,
        ),
    )  # fmt: skip
    connection.executemany(
        "INSERT INTO files VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        [
            (
                one.table, f"{one.folder}/{file.path}", one.run, one.node, file.rows, file.size, file.sha256, file.schema_version,
                int(aside),
            )
            for aside, files in enumerate((one.files, one.quarantined))
            for file in files
        ],
    )  # fmt: skip
    if cursor is None or cursor.after is None:
        return
    known = cursor_of(connection, one.table, cursor.pipeline)
    if known is None or furthest(known[0], cursor, (one.run, one.node), known[1]):
        connection.execute(
            _PUT_CURSOR, (one.table, cursor.pipeline, cursor.kind, _text(cursor.after), cursor.fence, one.run, one.node)
        )


def record_snapshot(connection: Connection, snapshot: Snapshot) -> None:
    """Add what a snapshot's manifest says of it and of its runs."""
    one = snapshot
    connection.execute(
        "INSERT INTO snapshots VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (one.table, one.name, one.base, int(one.complete), one.schema_version, one.rows, len(one.files)),
    )
    connection.executemany(
        "INSERT INTO snapshot_runs VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
        [(one.table, one.name, run.run, run.node) for run in one.runs],
    )
    for run in one.runs:
        record_manifest(connection, run)


def cursor_of(connection: Connection, table: str, pipeline: str) -> tuple[RunCursor, tuple[str, str]] | None:
    """How far a pipeline has come, and the run and node that brought it there."""
    found = connection.execute(
        'SELECT kind, value, fence, run, node FROM cursors WHERE "table" = ? AND pipeline = ?', (table, pipeline)
    ).fetchone()
    if found is None:
        return None
    kind, value, fence, run, node = found
    at = json.loads(value)
    return RunCursor(pipeline=pipeline, kind=kind, before=at, after=at, fence=fence), (run, node)


def put_lease(connection: Connection, lease: tuple[str, str, str, int, int]) -> None:
    """Write who holds the lease of a table's pipeline: table, pipeline, holder, fence, when it ends."""
    connection.execute(_PUT_LEASE, lease)


def lease_of(connection: Connection, table: str, pipeline: str) -> tuple[str, int, int] | None:
    """Who held the lease of a pipeline last, its number and when it ends."""
    found = connection.execute(
        'SELECT holder, fence, expires_ns FROM leases WHERE "table" = ? AND pipeline = ?', (table, pipeline)
    ).fetchone()
    return None if found is None else (found[0], found[1], found[2])


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
