"""`meta.sqlite`: what the manifests of a lake say, for queries; and the leases of its pipelines. Made anew from the manifests where it is gone."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from gapless.errors import LeaseRefused, StoreError
from gapless.lake.cursors import furthest
from gapless.lake.layout.manifest import Manifest, RunCursor
from gapless.lake.layout.schema import LakeSchema
from gapless.lake.layout.snapshots import Snapshot
from gapless.model.instant import NS_PER

FILE = "meta.sqlite"
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
_REBUILT = ("schemas", "runs", "files", "cursors", "snapshots", "snapshot_runs")
LEASE_S = 60.0
"""For how long a lease holds unless it is renewed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right to commit runs of one pipeline."""

    table: str
    pipeline: str
    holder: str
    fence: int
    """Larger than that of every lease before."""


@dataclass(frozen=True, slots=True)
class Catalog:
    """The database at a path of this machine. Each call opens it anew, so that processes, threads and forks may share the value."""

    path: str

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A connection that alone may write until the end of the block, which commits. Raises StoreError."""
        try:
            connection = sqlite3.connect(self.path, timeout=60, isolation_level=None)
        except sqlite3.Error as error:
            raise self._broken(error) from error
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("BEGIN IMMEDIATE")
            self._create(connection)
            yield connection
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._broken(error) from error
        finally:
            # What is not committed is rolled back.
            connection.close()

    def _create(self, connection: sqlite3.Connection) -> None:
        (found,) = connection.execute("PRAGMA user_version").fetchone()
        if found > USER_VERSION:
            raise StoreError(
                f"{self.path} was written by a newer gapless",
                why=f"Its user_version is {found}, and this release knows {USER_VERSION}",
                fix="Upgrade gapless",
                path=self.path,
            )
        if found < USER_VERSION:
            for statement in filter(str.strip, DDL.split(";\n")):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {USER_VERSION}")

    def _broken(self, error: sqlite3.Error) -> StoreError:
        return StoreError(
            f"{self.path} cannot be used: {error}",
            why="It is SQLite's, and holds nothing that the manifests do not say, but for leases",
            fix="Look for space and permissions; a damaged one may be removed while no run is at work: it is made anew",
            path=self.path,
        )

    # -- what manifests say ----------------------------------------------------------------------------------------------

    def known_runs(self, table: str) -> set[tuple[str, str]]:
        """Run and node of the manifests it has."""
        with self.transaction() as connection:
            found = connection.execute('SELECT run, node FROM runs WHERE "table" = ?', (table,))
            return {(str(run), str(node)) for run, node in found}

    def newest_run(self) -> str | None:
        """The largest id of a run of any table."""
        with self.transaction() as connection:
            (found,) = connection.execute("SELECT max(run) FROM runs").fetchone()
            return None if found is None else str(found)

    def last_runs(self) -> dict[tuple[str, str], int]:
        """When the last run of each pipeline began, in nanoseconds since 1970 UTC, by table and pipeline."""
        with self.transaction() as connection:
            found = connection.execute(
                'SELECT "table", pipeline, max(started_ns) FROM runs WHERE pipeline IS NOT NULL GROUP BY "table", pipeline'
            )
            return {(str(table), str(pipeline)): int(began) for table, pipeline, began in found}

    def known_schemas(self, table: str) -> set[int]:
        """Versions of the columns it has."""
        with self.transaction() as connection:
            return {int(one) for (one,) in connection.execute('SELECT version FROM schemas WHERE "table" = ?', (table,))}

    def record(
        self, manifests: Sequence[Manifest], schemas: Sequence[tuple[str, LakeSchema]], snapshots: Sequence[Snapshot]
    ) -> None:
        """Add what they say; what it has already stays."""
        with self.transaction() as connection:
            for table, schema in schemas:
                record_schema(connection, table, schema)
            for manifest in manifests:
                record_manifest(connection, manifest)
            for snapshot in snapshots:
                record_snapshot(connection, snapshot)

    def known_snapshots(self, table: str) -> set[str]:
        """The snapshots it has."""
        with self.transaction() as connection:
            return {str(one) for (one,) in connection.execute('SELECT snapshot FROM snapshots WHERE "table" = ?', (table,))}

    def forget_files(self, table: str, run: str, node: str) -> None:
        """Remove the files of a run that a snapshot has the rows of; the run and its pipeline's cursor stay."""
        with self.transaction() as connection:
            connection.execute(
                'DELETE FROM files WHERE "table" = ? AND run = ? AND node = ? AND NOT quarantined', (table, run, node)
            )

    def forget_run(self, table: str, run: str, node: str) -> None:
        """Remove a run whose manifest is gone. Its pipeline's cursor stays: rows before it are not to be read again."""
        with self.transaction() as connection:
            for name in ("runs", "files"):
                connection.execute(f'DELETE FROM {name} WHERE "table" = ? AND run = ? AND node = ?', (table, run, node))  # noqa: S608  # ours

    def cursor(self, table: str, pipeline: str) -> RunCursor | None:
        """How far a pipeline has come; None before its first run."""
        with self.transaction() as connection:
            found = _cursor(connection, table, pipeline)
            return None if found is None else found[0]

    def rows(self, query: str, parameters: Sequence[object] = ()) -> list[dict[str, Any]]:
        """The answer to a query."""
        with self.transaction() as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(query, tuple(parameters))]

    def content(self) -> dict[str, list[tuple[Any, ...]]]:
        """All rows that can be made anew, by table: two catalogs of one lake are equal in it."""
        with self.transaction() as connection:
            return {name: sorted(connection.execute(f"SELECT * FROM {name}"), key=repr) for name in _REBUILT}  # noqa: S608  # ours

    # -- leases ----------------------------------------------------------------------------------------------------------

    def acquire(self, table: str, pipeline: str, holder: str, now_ns: int, ttl_s: float = LEASE_S) -> Lease:
        """Take the lease of a pipeline, if nobody holds it or its time is over. Raises LeaseRefused, StoreError."""
        with self.transaction() as connection:
            held = _lease(connection, table, pipeline)
            if held is not None and held[0] != holder and held[2] > now_ns:
                raise LeaseRefused(
                    f"{held[0]} holds the lease of the pipeline {pipeline!r} into {table!r}",
                    why=f"Two runs from one cursor would bring the same rows; the lease ends in {_seconds(held[2] - now_ns)} unless it is renewed",
                    fix="Wait for that run to end, and run again",
                    pipeline=pipeline,
                    holder=held[0],
                )
            cursor = _cursor(connection, table, pipeline)
            fence = max(0 if held is None else held[1], 0 if cursor is None else cursor[0].fence) + 1
            connection.execute(
                "INSERT OR REPLACE INTO leases VALUES (?, ?, ?, ?, ?)", (table, pipeline, holder, fence, now_ns + _ns(ttl_s))
            )
        return Lease(table=table, pipeline=pipeline, holder=holder, fence=fence)

    def renew(self, lease: Lease, now_ns: int, ttl_s: float = LEASE_S) -> None:
        """Hold it for longer. Raises LeaseRefused where its time is over."""
        with self.transaction() as connection:
            check_lease(connection, lease, now_ns)
            connection.execute(
                'UPDATE leases SET expires_ns = ? WHERE "table" = ? AND pipeline = ?',
                (now_ns + _ns(ttl_s), lease.table, lease.pipeline),
            )

    def release(self, lease: Lease) -> None:
        """Give it back; its number stays."""
        with self.transaction() as connection:
            connection.execute(
                'UPDATE leases SET expires_ns = 0 WHERE "table" = ? AND pipeline = ? AND fence = ?',
                (lease.table, lease.pipeline, lease.fence),
            )


def check_lease(connection: sqlite3.Connection, lease: Lease, now_ns: int) -> None:
    """Raise LeaseRefused where a lease is not held any more."""
    held = _lease(connection, lease.table, lease.pipeline)
    if held is not None and held[:2] == (lease.holder, lease.fence) and held[2] > now_ns:
        return
    raise LeaseRefused(
        f"the lease of the pipeline {lease.pipeline!r} into {lease.table!r} is lost",
        why="Its time was over before the commit: the machine slept, or a page took longer than the lease holds",
        fix="Run again: nothing was committed, and the next run begins at the cursor that is there now",
        pipeline=lease.pipeline,
        holder=lease.holder if held is None else held[0],
    )


def forget_table(connection: sqlite3.Connection, table: str) -> None:
    """Remove what manifests say of a table, which is to be recorded anew; how far its pipelines have come stays."""
    for name in _REBUILT:
        if name != "cursors":
            connection.execute(f'DELETE FROM {name} WHERE "table" = ?', (table,))  # noqa: S608  # ours


def forget_snapshot(connection: sqlite3.Connection, table: str, snapshot: str) -> None:
    """Remove a snapshot whose manifest is gone."""
    for name in ("snapshots", "snapshot_runs"):
        connection.execute(f'DELETE FROM {name} WHERE "table" = ? AND snapshot = ?', (table, snapshot))  # noqa: S608  # ours


def record_schema(connection: sqlite3.Connection, table: str, schema: LakeSchema) -> None:
    """Add a version of a table's columns."""
    body = json.dumps(schema.body, ensure_ascii=False, sort_keys=True)
    connection.execute("INSERT OR IGNORE INTO schemas VALUES (?, ?, ?, ?)", (table, schema.version, schema.fingerprint, body))


def record_manifest(connection: sqlite3.Connection, manifest: Manifest) -> None:
    """Add what a manifest says of its run, files and cursor."""
    one, cursor = manifest, manifest.cursor
    told = (
        (None,) * 5
        if cursor is None
        else (cursor.pipeline, cursor.kind, _text(cursor.before), _text(cursor.after), cursor.fence)
    )
    connection.execute(
        "INSERT OR IGNORE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            one.table, one.run, one.node, one.status, one.failure, one.source, one.schema_version, one.rows, one.operation,
            one.started_ns, one.finished_ns, *told,
        ),
    )  # fmt: skip
    connection.executemany(
        "INSERT OR IGNORE INTO files VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
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
    known = _cursor(connection, one.table, cursor.pipeline)
    if known is None or furthest(known[0], cursor, (one.run, one.node), known[1]):
        connection.execute(
            "INSERT OR REPLACE INTO cursors VALUES (?, ?, ?, ?, ?, ?, ?)",
            (one.table, cursor.pipeline, cursor.kind, _text(cursor.after), cursor.fence, one.run, one.node),
        )


def record_snapshot(connection: sqlite3.Connection, snapshot: Snapshot) -> None:
    """Add what a snapshot's manifest says of it and of its runs."""
    one = snapshot
    connection.execute(
        "INSERT OR IGNORE INTO snapshots VALUES (?, ?, ?, ?, ?, ?, ?)",
        (one.table, one.name, one.base, int(one.complete), one.schema_version, one.rows, len(one.files)),
    )
    connection.executemany(
        "INSERT OR IGNORE INTO snapshot_runs VALUES (?, ?, ?, ?)",
        [(one.table, one.name, run.run, run.node) for run in one.runs],
    )
    for run in one.runs:
        record_manifest(connection, run)


def _cursor(connection: sqlite3.Connection, table: str, pipeline: str) -> tuple[RunCursor, tuple[str, str]] | None:
    found = connection.execute(
        'SELECT kind, value, fence, run, node FROM cursors WHERE "table" = ? AND pipeline = ?', (table, pipeline)
    ).fetchone()
    if found is None:
        return None
    kind, value, fence, run, node = found
    at = json.loads(value)
    return RunCursor(pipeline=pipeline, kind=kind, before=at, after=at, fence=fence), (run, node)


def _lease(connection: sqlite3.Connection, table: str, pipeline: str) -> tuple[str, int, int] | None:
    found = connection.execute(
        'SELECT holder, fence, expires_ns FROM leases WHERE "table" = ? AND pipeline = ?', (table, pipeline)
    ).fetchone()
    return None if found is None else (found[0], found[1], found[2])


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _ns(seconds: float) -> int:
    return int(seconds * NS_PER["s"])


def _seconds(ns: int) -> str:
    return f"{ns / NS_PER['s']:.1f} s"
