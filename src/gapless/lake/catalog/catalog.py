"""The catalog of a lake: what manifests say, for queries; and the leases of its pipelines. Made anew from the manifests where it is gone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

from gapless.errors import LeaseRefused, StoreError
from gapless.lake.catalog.rows import (
    REBUILT,
    USER_VERSION,
    Connection,
    Lease,
    check_lease,
    cursor_of,
    lease_of,
    put_lease,
    record_manifest,
    record_schema,
    record_snapshot,
)
from gapless.lake.layout.manifest import Manifest, RunCursor
from gapless.lake.layout.schema import LakeSchema
from gapless.lake.layout.snapshots import Snapshot
from gapless.model.instant import NS_PER

LEASE_S = 60.0
"""For how long a lease holds unless it is renewed."""


class Catalog(ABC):
    """What every catalog does, over the transactions of one kind of database."""

    __slots__ = ()
    shared: ClassVar[bool] = False
    """Whether other copies of the lake may have it too: it may know runs whose manifests are not here."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[Connection]:
        """A connection that alone may write until the end of the block, which commits; an error in the block takes all back. Raises StoreError."""

    def reading(self) -> AbstractContextManager[Connection]:
        """A connection that only reads. Raises StoreError."""
        return self.transaction()

    @staticmethod
    def newer(place: str, found: int) -> StoreError:
        """The error for a catalog whose tables this release does not know."""
        return StoreError(
            f"{place} was written by a newer gapless",
            why=f"Its version is {found}, and this release knows {USER_VERSION}",
            fix="Upgrade gapless",
            path=place,
        )

    # -- what manifests say ----------------------------------------------------------------------------------------------

    def known_runs(self, table: str) -> set[tuple[str, str]]:
        """Run and node of the manifests it has."""
        with self.reading() as connection:
            found = connection.execute('SELECT run, node FROM runs WHERE "table" = ?', (table,))
            return {(str(run), str(node)) for run, node in found}

    def newest_run(self) -> str | None:
        """The largest id of a run of any table."""
        with self.reading() as connection:
            (found,) = connection.execute("SELECT max(run) FROM runs").fetchone()
            return None if found is None else str(found)

    def last_runs(self) -> dict[tuple[str, str], int]:
        """When the last run of each pipeline began, in nanoseconds since 1970 UTC, by table and pipeline."""
        with self.reading() as connection:
            found = connection.execute(
                'SELECT "table", pipeline, max(started_ns) FROM runs WHERE pipeline IS NOT NULL GROUP BY "table", pipeline'
            )
            return {(str(table), str(pipeline)): int(began) for table, pipeline, began in found}

    def known_schemas(self, table: str) -> set[int]:
        """Versions of the columns it has."""
        with self.reading() as connection:
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
        with self.reading() as connection:
            return {str(one) for (one,) in connection.execute('SELECT snapshot FROM snapshots WHERE "table" = ?', (table,))}

    def forget_files(self, table: str, run: str, node: str) -> None:
        """Remove the files of a run that a snapshot has the rows of; the run and its pipeline's cursor stay."""
        with self.transaction() as connection:
            connection.execute(
                'DELETE FROM files WHERE "table" = ? AND run = ? AND node = ? AND quarantined = 0', (table, run, node)
            )

    def forget_run(self, table: str, run: str, node: str) -> None:
        """Remove a run whose manifest is gone. Its pipeline's cursor stays: rows before it are not to be read again."""
        with self.transaction() as connection:
            for name in ("runs", "files"):
                connection.execute(f'DELETE FROM {name} WHERE "table" = ? AND run = ? AND node = ?', (table, run, node))  # noqa: S608  # ours

    def cursor(self, table: str, pipeline: str) -> RunCursor | None:
        """How far a pipeline has come; None before its first run."""
        with self.reading() as connection:
            found = cursor_of(connection, table, pipeline)
            return None if found is None else found[0]

    def rows(self, query: str, parameters: Sequence[object] = ()) -> list[dict[str, Any]]:
        """The answer to a query."""
        with self.reading() as connection:
            found = connection.execute(query, tuple(parameters))
            names = [str(one[0]) for one in found.description]
            return [dict(zip(names, row, strict=True)) for row in found]

    def content(self) -> dict[str, list[tuple[Any, ...]]]:
        """All rows that can be made anew, by table: two catalogs of one lake are equal in it."""
        with self.reading() as connection:
            return {name: sorted(connection.execute(f"SELECT * FROM {name}"), key=repr) for name in REBUILT}  # noqa: S608  # ours

    # -- leases ----------------------------------------------------------------------------------------------------------

    def acquire(self, table: str, pipeline: str, holder: str, now_ns: int, ttl_s: float = LEASE_S) -> Lease:
        """Take the lease of a pipeline, if nobody holds it or its time is over. Raises LeaseRefused, StoreError."""
        with self.transaction() as connection:
            held = lease_of(connection, table, pipeline)
            if held is not None and held[0] != holder and held[2] > now_ns:
                raise LeaseRefused(
                    f"{held[0]} holds the lease of the pipeline {pipeline!r} into {table!r}",
                    why=f"Two runs from one cursor would bring the same rows; the lease ends in {_seconds(held[2] - now_ns)} unless it is renewed",
                    fix="Wait for that run to end, and run again",
                    pipeline=pipeline,
                    holder=held[0],
                )
            cursor = cursor_of(connection, table, pipeline)
            fence = max(0 if held is None else held[1], 0 if cursor is None else cursor[0].fence) + 1
            put_lease(connection, (table, pipeline, holder, fence, now_ns + _ns(ttl_s)))
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


def _ns(seconds: float) -> int:
    return int(seconds * NS_PER["s"])


def _seconds(ns: int) -> str:
    return f"{ns / NS_PER['s']:.1f} s"
