"""A catalog in a file of SQLite beside the tables: `meta.sqlite`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from gapless.errors import StoreError
from gapless.lake.catalog.catalog import Catalog
from gapless.lake.catalog.rows import DDL, USER_VERSION, Connection, statements_of

FILE = "meta.sqlite"


@dataclass(frozen=True, slots=True)
class SqliteCatalog(Catalog):
    """The database at a path of this machine. Each call opens it anew, so that processes, threads and forks may share the value."""

    path: str

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """See `Catalog.transaction`."""
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
            raise self.newer(self.path, found)
        if found < USER_VERSION:
            for statement in statements_of(DDL):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {USER_VERSION}")

    def _broken(self, error: sqlite3.Error) -> StoreError:
        return StoreError(
            f"{self.path} cannot be used: {error}",
            why="It is SQLite's, and holds nothing that the manifests do not say, but for leases",
            fix="Look for space and permissions; a damaged one may be removed while no run is at work: it is made anew",
            path=self.path,
        )
