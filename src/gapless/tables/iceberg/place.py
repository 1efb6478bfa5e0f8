"""Where an Iceberg table's metadata is kept, and swapped: in a directory by put-if-absent, or by a catalog."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata, TableMetadataV2, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

from gapless.errors import CommitOutcomeUnknown, StoreError, UnsupportedTable
from gapless.publish.iceberg.changes import TableChange
from gapless.publish.iceberg.directory import Directory, Found
from gapless.publish.iceberg.io import StoreIO, root_location, spellings_of
from gapless.runtime.backoff import Backoff
from gapless.runtime.environment import Environment
from gapless.tables.iceberg.catalogs import open_catalog, refuse
from gapless.tables.iceberg.options import IcebergOptions, file_io_properties
from gapless.tables.shared.handle import open_environment

FORMAT_VERSION = "2"
_CREATE_TRIES = 3
_BACKOFF = Backoff(first_s=0.05, longest_s=5.0)

Outcome = Literal["landed", "lost", "unclear"]
"""What became of a commit: it is there; it is certainly not, and never will be; or no answer says, and it is not there yet."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A table as its place had it."""

    table: Table
    number: int = 0
    """Of the metadata in a directory."""

    @property
    def metadata(self) -> TableMetadata:
        """What it says."""
        return self.table.metadata


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTable:
    """What a table is made with."""

    schema: Schema
    spec: PartitionSpec
    properties: Mapping[str, str]
    location: str | None = None
    """Where a catalog's table lies, if not where the catalog says."""


class Place(Protocol):
    """Where the metadata of one table is kept."""

    def load(self) -> Loaded | None:
        """The newest; None where there is no table. Raises UnsupportedTable, AccessDenied, CorruptTable, StoreError: an error is never "not there"."""
        ...

    def create(self, made: NewTable) -> bool:
        """Make the table; False where there is one. Raises AccessDenied, StoreError."""
        ...

    def commit(self, loaded: Loaded, change: TableChange, time_ms: int) -> Outcome:
        """Swap the metadata. Raises CommitOutcomeUnknown where nobody says whether it happened, StoreError."""
        ...

    @property
    def env(self) -> Environment:
        """The environment that the table's files are reached by; once it is loaded."""
        ...

    @property
    def io(self) -> StoreIO:
        """The same as files of pyiceberg."""
        ...


class DirectoryPlace:
    """A table in a directory of its own, as Hadoop catalogs have them: `metadata/v<N>.metadata.json`."""

    def __init__(self, options: IcebergOptions, env: Environment | None = None) -> None:
        """Nothing is read."""
        self.env = env or open_environment(options.location, dict(options.storage_options) or None)
        self._directory = Directory(self.env, "", _any_version)
        self.io = self._directory.io
        self.io.elsewhere = PyArrowFileIO(file_io_properties(options.storage_options))
        self._name = options.place

    def load(self) -> Loaded | None:
        """See `Place.load`."""
        found = self._directory.load()
        if found is None:
            self._refuse_a_catalogs()
            return None
        self.io.root = found.metadata.location.rstrip("/")
        self.io.spellings = (*spellings_of(self.io.root), root_location(self.env.store))
        location = self._directory.metadata_location(found.number)
        table = Table(("directory", self._name), found.metadata, location, self.io, NoopCatalog("directory"))
        return Loaded(table, found.number)

    def _refuse_a_catalogs(self) -> None:
        """Raise UnsupportedTable where a catalog keeps its metadata, which alone knows the newest."""
        name = next((one.path for one in self.env.store.list("metadata") if one.path.endswith(".metadata.json")), None)
        if name is not None:
            raise UnsupportedTable(
                f"the Iceberg table at {self._name} is one of a catalog",
                why=f"It has such as {name}, and no metadata/v<N>.metadata.json: the catalog alone knows which is the newest",
                fix='Say "iceberg:" with its name in the catalog, and catalog_type= and catalog_uri=',
                needs="its catalog",
            )

    def create(self, made: NewTable) -> bool:
        """See `Place.create`."""
        properties = {**made.properties}
        metadata = new_table_metadata(made.schema, made.spec, UNSORTED_SORT_ORDER, self._directory.location, properties)
        return self._directory.begin(metadata)  # type: ignore[arg-type]  # version 2

    def commit(self, loaded: Loaded, change: TableChange, time_ms: int) -> Outcome:
        """See `Place.commit`."""
        found = Found(loaded.number, loaded.metadata)  # type: ignore[arg-type]  # version 2
        try:
            return "lost" if self._directory.commit(found, change, time_ms) == "lost" else "landed"
        except CommitFailedException:  # another branch's snapshot
            return "lost"


class CatalogPlace:
    """A table of a catalog."""

    def __init__(self, options: IcebergOptions) -> None:
        """Nothing is opened."""
        self._options = options
        self._opened: Catalog | None = None
        self._env: Environment | None = None
        self._io: StoreIO | None = None

    @property
    def env(self) -> Environment:
        """See `Place.env`."""
        assert self._env is not None
        return self._env

    @property
    def io(self) -> StoreIO:
        """See `Place.io`."""
        assert self._io is not None
        return self._io

    def load(self) -> Loaded | None:
        """See `Place.load`."""
        try:
            table = self._catalog.load_table(self._options.identifier)
        except (NoSuchTableError, NoSuchNamespaceError):
            return None
        except Exception as error:  # noqa: BLE001 - each catalog has a client with errors of its own
            refuse(self._options, error)
        location = table.metadata.location.rstrip("/")
        if self._io is None or self._io.root != location:
            self._env = open_environment(_store_location(location), dict(self._options.storage_options) or None)
            self._io = StoreIO(self._env.store)
            # As the table's metadata spells it, which names its files so.
            self._io.root, self._io.spellings = location, spellings_of(location)
        self._io.elsewhere = table.io
        table.io = self._io
        return Loaded(table)

    def create(self, made: NewTable) -> bool:
        """See `Place.create`."""
        catalog, identifier = self._catalog, self._options.identifier
        properties = {**made.properties, "format-version": FORMAT_VERSION}
        for tries_left in reversed(range(_CREATE_TRIES)):
            try:
                with contextlib.suppress(NamespaceAlreadyExistsError):
                    catalog.create_namespace(identifier[:-1])
                catalog.create_table(identifier, made.schema, made.location, made.spec, properties=properties)
            except TableAlreadyExistsError:
                return False
            except Exception as error:  # noqa: BLE001 - see above
                # Another may have made one or the other a moment ago, for which some catalogs have other errors.
                if self.load() is not None:
                    return False
                if not tries_left:
                    refuse(self._options, error)
            else:
                return True
        return False

    def commit(self, loaded: Loaded, change: TableChange, time_ms: int) -> Outcome:  # noqa: ARG002 - the snapshot has it
        """See `Place.commit`. An answer that says nothing is looked into: the snapshot may be there, and have been expired since."""
        self.io.settle()
        try:
            self._catalog.commit_table(loaded.table, change.requirements, change.updates)
        except CommitFailedException:
            return "lost"
        except Exception as error:  # noqa: BLE001 - see above
            return "landed" if self._is_there(change, error) else "unclear"
        return "landed"

    def _is_there(self, change: TableChange, error: Exception) -> bool:
        clock, ids = self.env.clock, self.env.ids
        until, attempt = clock.monotonic() + self.env.deadline_s, 0
        while True:
            try:
                now = self.load()
            except StoreError:
                attempt += 1
                if clock.monotonic() >= until:
                    break
                clock.sleep(_BACKOFF.wait_s(attempt, ids.jitter()))
                continue
            return now is not None and now.metadata.snapshot_by_id(change.snapshot_id) is not None
        raise CommitOutcomeUnknown(
            f"whether {self._options.place} has snapshot {change.snapshot_id} is not known",
            why=f"The catalog gave no usable answer: {self._options.shown(error)}",
            fix="Finalize again when it answers: what landed is found",
            version=0,
            commit_id=str(change.snapshot_id),
        ) from error

    @property
    def _catalog(self) -> Catalog:
        if self._opened is None:
            self._opened = open_catalog(self._options)
        return self._opened


def place_of_table(options: IcebergOptions) -> Place:
    """Where a table's metadata is. Raises InvalidPath, InvalidOption."""
    return DirectoryPlace(options) if options.catalog_type == "directory" else CatalogPlace(options)


def _any_version(metadata: TableMetadata, _where: str) -> TableMetadataV2:
    return metadata  # type: ignore[return-value]  # what is refused is said where it is used


def _store_location(location: str) -> str:
    """A location of Iceberg's as `open_store` takes it: `file:/x` is an absolute path."""
    bare = location.removeprefix("file:")
    return location if bare == location or bare.startswith("//") else bare
