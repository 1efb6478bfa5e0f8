"""An Iceberg table of a catalog that pyiceberg is configured for: SQL, REST, Glue, Hive. The catalog swaps the pointer; that is the commit."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import NoReturn

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadataV2

from gapless.errors import CommitOutcomeUnknown, InvalidOption, StoreUnavailable
from gapless.formats.iceberg.commits import FIELD_IDS, NAME_MAPPING, first_properties
from gapless.publish.iceberg.changes import TableChange, as_version_2
from gapless.publish.iceberg.directory import FOLDER
from gapless.publish.iceberg.io import StoreIO
from gapless.publish.iceberg.place import Missed
from gapless.runtime.backoff import Backoff
from gapless.runtime.environment import Environment

_CREATE_TRIES = 3
_BACKOFF = Backoff(first_s=0.1, longest_s=5.0)
_TRIES = 12
"""Looks at the catalog after an answer that says nothing."""
_MOST_FAILED = 5
"""Commits in a row that a catalog does not do, for no reason of ours."""


@dataclass(frozen=True, slots=True)
class Found:
    """The table as the catalog had it."""

    table: Table
    metadata: TableMetadataV2


class CatalogTable:
    """One table of a catalog."""

    def __init__(self, env: Environment, catalog: str, table: str) -> None:
        """`table` is `namespace.name`; its metadata lies beside the files of the table that `env` reaches."""
        self._env, self._name = env, catalog
        self._identifier = tuple(table.split("."))
        self._catalog: Catalog | None = None
        self.io = StoreIO(env.store)
        self._location = self.io.location(FOLDER)
        self.rewrites_mappings = False
        self._failed = 0

    @property
    def what(self) -> str:
        """What messages call it."""
        return f"the Iceberg table {'.'.join(self._identifier)} of the catalog {self._name!r}"

    @property
    def location(self) -> str:
        """Where its metadata lies: beside the table's own, or where the catalog wants all tables. To be asked after `load`."""
        return self._location

    def load(self) -> Found | None:
        """What the catalog has; None for no table. Raises InvalidOption for a catalog that is not configured, StoreUnavailable."""
        catalog = self._open()
        try:
            table = catalog.load_table(self._identifier)
        except (NoSuchTableError, NoSuchNamespaceError):
            return None
        except Exception as error:  # noqa: BLE001 - each catalog has a client with errors of its own
            self._refuse(error)
        written = table.metadata.properties.get(FIELD_IDS)
        self.rewrites_mappings = written is not None and written != table.metadata.properties.get(NAME_MAPPING)
        self.io.elsewhere, self._location = table.io, table.metadata.location.rstrip("/")
        return Found(table, as_version_2(table.metadata, self.what))

    def create(self, time_ms: int) -> None:  # noqa: ARG002 - the catalog dates it
        """Make the table and its namespace, unless they are there. Raises StoreUnavailable."""
        catalog = self._open()
        for tries_left in reversed(range(_CREATE_TRIES)):
            try:
                with contextlib.suppress(NamespaceAlreadyExistsError):
                    catalog.create_namespace(self._identifier[:-1])
                self._create_table(catalog)
            except TableAlreadyExistsError:
                return
            except Exception as error:  # noqa: BLE001 - see above
                # Another publisher may have made one or the other a moment ago, for which some catalogs have other errors.
                if self.load() is not None:
                    return
                if not tries_left:
                    self._refuse(error)
            else:
                return

    def settle(self) -> None:
        """Nothing: the catalog itself names the newest metadata."""

    def blank(self, time_ms: int) -> None:  # noqa: ARG002 - see `Place`
        """None: a catalog has no step that puts one table in the place of another."""
        return

    def _create_table(self, catalog: Catalog) -> None:
        properties = {**first_properties(self.io.root), "format-version": "2"}
        try:
            catalog.create_table(self._identifier, Schema(), location=self._location, properties=properties)
        except BadRequestError:  # some catalogs want all metadata in a place of theirs
            catalog.create_table(self._identifier, Schema(), properties=properties)

    def commit(self, found: Found, change: TableChange, time_ms: int) -> Found | Missed:  # noqa: ARG002 - the snapshot has it
        """What the catalog has after a commit, or how it missed.

        Raises CommitOutcomeUnknown, StoreUnavailable where the catalog fails again and again, StoreError.
        """
        self.io.settle()
        try:
            answer = self._open().commit_table(found.table, change.requirements, change.updates)
        except CommitFailedException:
            return "lost"
        except Exception as error:  # noqa: BLE001 - see above
            landed = self._reconcile(change.snapshot_id, error)
            self._failed = 0 if landed is not None else self._failed + 1
            if self._failed == _MOST_FAILED:
                self._failed = 0
                self._refuse(error)
            return landed or "unclear"
        self._failed = 0
        table = found.table
        table.metadata, table.metadata_location = answer.metadata, answer.metadata_location
        return Found(table, as_version_2(table.metadata, self.what))

    def _reconcile(self, wanted: int, error: Exception) -> Found | None:
        """What became of a commit whose answer does not say it: it is looked for."""
        for attempt in range(1, _TRIES):
            try:
                now = self.load()
            except StoreUnavailable:
                self._env.clock.sleep(_BACKOFF.wait_s(attempt, self._env.ids.jitter()))
                continue
            is_there = now is not None and now.metadata.snapshot_by_id(wanted) is not None
            return now if is_there else None
        raise CommitOutcomeUnknown(
            f"whether {self.what} has snapshot {wanted} is not known",
            why=f"The catalog gave no usable answer: {type(error).__name__}: {error}",
            fix="Publish again when it answers: what landed is found",
            version=0,
            commit_id=str(wanted),
        ) from error

    def _open(self) -> Catalog:
        if self._catalog is None:
            try:
                self._catalog = load_catalog(self._name)
            except Exception as error:
                raise InvalidOption(
                    f"the Iceberg catalog {self._name!r} cannot be opened: {error}",
                    why="iceberg_catalog names a catalog that pyiceberg is configured for on this machine",
                    fix=f"Describe it in .pyiceberg.yaml, or by PYICEBERG_CATALOG__{self._name.upper()}__URI and its like",
                    option="iceberg_catalog",
                    value=self._name,
                ) from error
        return self._catalog

    def _refuse(self, error: Exception) -> NoReturn:
        raise StoreUnavailable(
            f"the Iceberg catalog {self._name!r} did not answer as it should: {type(error).__name__}: {error}",
            why="Nothing was published",
            fix="Look at the catalog, and publish again",
        ) from error
