"""Handles of every kind of table: what lies at a location, the first commit, which version a handle sees, what a call works with."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, Self

import pyarrow as pa

from gapless.errors import InvalidOption, ObjectNotFound, TableExists, TableNotFound, VersionNotFound
from gapless.log.format import Entry, Snapshot, State
from gapless.model.protocols import Store
from gapless.runtime.committer import Committer
from gapless.runtime.concurrency import ForkSafeLock
from gapless.runtime.environment import Environment
from gapless.store.open import open_store

if TYPE_CHECKING:
    from gapless.runtime.condition import Condition


class AtVersion(ABC, Generic[State]):
    """A table at one version. Pickled as its place and that version, and opened anew where it is unpickled."""

    def __init__(self, env: Environment, name: str, snapshot: Snapshot[State]) -> None:
        """The table that `env` reaches, at the version of `snapshot`."""
        self._env, self._name, self._snapshot = env, name, snapshot
        self._moving = ForkSafeLock()
        self._condition: Condition[Any] | None = None

    @property
    def name(self) -> str:
        """The last part of its path, by which SQL knows it."""
        return self._name

    @property
    def url(self) -> str:
        """Where it lies."""
        return self._env.store.url

    @property
    def version(self) -> int:
        """The version this handle sees."""
        return self._snapshot.version

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle as the place, with what its store was opened with (credentials among it), and the version.

        Pickling raises NotSupported for a table in memory. Unpickling raises TableNotFound, VersionNotFound (the version is expired, or of a
        table that was made anew in its place), UnsupportedTable, CorruptTable, StoreError.
        """
        return _unpickled, (type(self), self._env, self.version, self._table_id), self._carried()

    def __copy__(self) -> Self:
        """A handle of its own, at the same version; nothing is read."""
        copy = self._made(self._env, self._snapshot, self._newest_known)
        copy.__dict__.update(self._carried())
        return copy

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """As `copy.copy`: versions never change."""
        return self.__copy__()

    @classmethod
    @abstractmethod
    def _opened(cls, env: Environment, version: int) -> tuple[Snapshot[State], Snapshot[State] | None]:
        """A version, and the newest one where that can be read; raises as `open_at`."""

    @classmethod
    @abstractmethod
    def _made(cls, env: Environment, snapshot: Snapshot[State], newest: Snapshot[State] | None) -> Self:
        """A handle of this kind; `newest` is the newest version, where it is known."""

    @property
    @abstractmethod
    def _table_id(self) -> object:
        """What tells the table from another one that is made in its place."""

    @property
    def _newest_known(self) -> Snapshot[State] | None:
        """The newest version, where this handle is at an older one and knows it."""
        return None

    def _carried(self) -> dict[str, object]:
        """What a copy takes over beside place and version."""
        return {}

    def _move_to(self, snapshot: Snapshot[State]) -> None:
        # Threads that share the handle may publish in any order; it never moves back.
        with self._moving:
            if snapshot.version > self._snapshot.version:
                self._snapshot = snapshot


def _unpickled(kind: type[AtVersion[State]], env: Environment, version: int, table_id: object) -> AtVersion[State]:
    # Both are of the class above.
    snapshot, newest = kind._opened(env, version)  # noqa: SLF001
    found = kind._made(env, snapshot, newest)  # noqa: SLF001
    if found._table_id != table_id:  # noqa: SLF001
        raise VersionNotFound(
            f"version {version} of the table at {env.store.url} is not the one that was pickled",
            why="That table was removed, and another one made in its place",
            fix="Open what lies there now by its place, with gl.open or gl.delta.open",
            version=version,
        )
    return found


@contextmanager
def committing_on(handle: AtVersion[State], condition: Condition[Any]) -> Iterator[None]:
    """Within it, what this handle commits needs the condition to hold. For one thread at a time."""
    # Of the class above.
    handle._condition = condition  # noqa: SLF001
    try:
        yield
    finally:
        handle._condition = None  # noqa: SLF001


def table_id(handle: AtVersion[State]) -> str:
    """What tells a table from another one that is made in its place, as a document or a cursor has it."""
    return str(handle._table_id)  # noqa: SLF001  # of the class above


def environment_of(handle: AtVersion[Any]) -> Environment:
    """The environment that a table is reached by."""
    return handle._env  # noqa: SLF001  # of the class above


@dataclass(frozen=True, slots=True, kw_only=True)
class TableContext(Generic[Entry, State]):
    """The table of one call: the version that the handle saw when the call began, and how it commits. Handles make one per call."""

    snapshot: Snapshot[State]
    committer: Committer[Entry, State]

    @property
    def env(self) -> Environment:
        """The environment that the table is reached by."""
        return self.committer.env

    @property
    def store(self) -> Store:
        """Where the table lies."""
        return self.committer.env.store

    def refresh(self) -> Snapshot[State]:
        """The newest version, to which the handle moves; raises StoreError."""
        return self.committer.refresh(self.snapshot)


Location = str | os.PathLike[str]
Kind = Literal["timeseries", "delta", "iceberg", "hudi"]

LOG_FOLDERS: dict[Literal["timeseries", "delta"], str] = {"timeseries": "_timeseries_log", "delta": "_delta_log"}
"""The log of each kind. Where both lie the first one's is the table, and the other only describes its files to other readers."""


def open_environment(location: Location, storage_options: Mapping[str, str] | None) -> Environment:
    """The environment of the table at a location; raises InvalidPath or InvalidOption."""
    return Environment(store=open_store(location, storage_options))


def place_for_library(store: Store, location: Location) -> str:
    """The root of a store as a library of its own takes it that knows no working directory: the location, or on a disk its absolute path."""
    local = store.local_path("x")
    return os.fspath(location) if local is None else str(Path(local).parent)


def is_stored(store: Store, path: str) -> bool:
    """Whether an object is there. Raises StoreError."""
    try:
        store.head(path)
    except ObjectNotFound:
        return False
    return True


def kind_of(store: Store) -> Literal["timeseries", "delta"] | None:
    """The kind of the table in the root of a store; None where neither log has an object. Raises StoreError."""
    return next((kind for kind, folder in LOG_FOLDERS.items() if next(iter(store.list(folder)), None) is not None), None)


def kind_of_any(store: Store) -> Kind | None:
    """`kind_of`, or that of a table of others: Hudi's, or Iceberg's in a directory or below a catalog. Raises StoreError."""
    if (kind := kind_of(store)) is not None:
        return kind
    if any(True for _ in store.list(".hoodie")):
        return "hudi"
    return "iceberg" if any(one.path.endswith(".metadata.json") for one in store.list("metadata")) else None


def table_exists(path: str, why: str, fix: str) -> TableExists:
    """The error for a new table where one is."""
    return TableExists(f"there is a table at {path} already", why=why, fix=fix, path=path)


def not_opened(path: str, kind: Literal["iceberg", "hudi"]) -> TableNotFound:
    """The error for opening a table of another format as one of ours."""
    has = "a .hoodie/" if kind == "hudi" else "a metadata/ with *.metadata.json"
    return TableNotFound(
        f"the table at {path} is {'an Iceberg' if kind == 'iceberg' else 'a Hudi'} table, which is not opened as one of gapless",
        why=f"It has {has}, and neither a {' nor a '.join(f'{folder}/' for folder in LOG_FOLDERS.values())}",
        fix=f"Read it with gl.connect.source({f'{kind}:{path}'!r}), write it with gl.connect.sink, or take a copy with gl.import_table",
        path=path,
    )


def parse_schema(given: object) -> pa.Schema | None:
    """The schema that a caller gave: a `pyarrow.Schema`, or a list of its fields; None where there is none. Raises InvalidOption."""
    if given is None or isinstance(given, pa.Schema):
        return given
    if isinstance(given, list | tuple) and all(isinstance(field, pa.Field) for field in given):
        return pa.schema(list(given))
    raise InvalidOption(
        f"schema is of type {type(given).__name__}",
        why="A table's columns are said by a pyarrow.Schema",
        fix='Pass pa.schema([("ts", pa.timestamp("us"))]), or that of rows: pa.table(frame).schema',
        option="schema",
        value=given,
    )
