"""What a source needs of a table of any kind: its columns at a version, and what each version's commit did to the rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

import pyarrow as pa

from gapless.connect.sources.table.place import Place
from gapless.errors import VersionNotFound
from gapless.files.compare.row_diff import INSERT
from gapless.log.format import Snapshot
from gapless.model.protocols import Clock
from gapless.runtime.environment import Environment
from gapless.tables.shared.changes import TYPE_FIELD
from gapless.tables.shared.handle import AtVersion, Kind, environment_of, table_id
from gapless.tables.shared.schema_diff import SchemaDiff, diff_columns
from gapless.tables.shared.versions import Versions
from gapless.tables.shared.versions_gone import Follower

FOLLOWER = Follower(
    option="on_missing_versions", afresh="Start the source without its cursor, into a sink of a higher generation"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceColumns:
    """The columns of a table at a version."""

    schema: pa.Schema
    stored: tuple[str, ...]
    """What tells each of them from another of its name: the name by which files hold it, which a rename leaves."""
    meta: Any
    """The table's metadata, as its kind has it."""

    def to(self, other: SourceColumns) -> SchemaDiff:
        """How they differ from those of another version."""
        return diff_columns(self._by_identity, other._by_identity)

    def loosened(self, other: SourceColumns) -> list[str]:
        """The names of columns that may be null there and not here."""
        theirs = other._by_identity
        return [
            field.name
            for stored, field in self._by_identity.items()
            if not field.nullable and stored in theirs and theirs[stored].nullable
        ]

    @property
    def _by_identity(self) -> dict[str, pa.Field]:
        return dict(zip(self.stored, self.schema, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """Where a source begins, as its user says it; all rows of the newest version first where it says nothing."""

    version: int | Literal["earliest", "latest"] | None = None
    """What the commit of this version did, inclusive."""
    time_ns: int | None = None
    """Nanoseconds since 1970 UTC: the first version that was committed then or later."""
    option: str = "start"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRead:
    """What one version's commit did to the rows, or all rows of a version."""

    time_ns: int
    """Its commit time, nanoseconds since 1970 UTC."""
    columns: SourceColumns
    """The table's columns then."""
    changes_rows: bool = False
    """Whether it changed or removed rows, rather than only adding some or laying them out anew."""
    files: int
    """How many files hold the rows."""
    rows: Callable[[SourceColumns], Iterator[pa.RecordBatch | pa.Table]]
    """Reads the rows in these columns, with the kind of change of each behind."""


class SourceTable(Protocol):
    """A table of one kind, as a source needs it."""

    url: str
    kind: ClassVar[Kind]

    @property
    def table_id(self) -> str:
        """What tells it from a table made in its place."""
        ...

    @property
    def clock(self) -> Clock:
        """The clock of its environment."""
        ...

    def newest(self) -> int:
        """The newest version, asked for now. Raises VersionNotFound where another table lies there now, StoreError."""
        ...

    def at_or_after(self, version: int) -> int:
        """The first version that there is from this one on, of those that are known; this one where there is none."""
        ...

    def count(self, first: int, last: int) -> int:
        """How many versions there are from the first to the last, inclusive; 0 where the last comes before."""
        ...

    def begin(self, at: Begin) -> tuple[int, bool]:
        """The version to begin with, and whether with all its rows. Raises VersionNotFound, InvalidTime."""
        ...

    def version_of(self, version: object, time: object) -> int:
        """A version that is kept, by its number or by a time at which it was the newest. Raises as the table's `at`."""
        ...

    def last_by(self, time_ns: int) -> int:
        """The newest version that was committed at a time, argument `until`, or before. Raises VersionNotFound, InvalidTime."""
        ...

    def columns_at(self, version: int) -> SourceColumns:
        """The columns of a version; of the newest that is known where it is not there any more, or not yet."""
        ...

    def encode(self, columns: SourceColumns) -> Mapping[str, Any]:
        """Columns as JSON, for a cursor."""
        ...

    def decode(self, body: Mapping[str, Any]) -> SourceColumns:
        """Read them back. Raises KeyError, TypeError or ValueError, or what the log's own would."""
        ...

    def whole(self, version: int) -> CommitRead:
        """All rows of a version, as inserts. Raises VersionNotFound."""
        ...

    def commit(self, version: int) -> CommitRead:
        """What the commit of a version did. Raises VersionNotFound where that can be told no longer, CorruptTable, StoreError."""
        ...

    def past_missing(self, place: Place, gone: VersionNotFound) -> int:
        """The version to go on with, where what is next can be told no longer; raises VersionNotFound where that is an error."""
        ...

    def mark(self, place: Place) -> Mapping[str, Any]:
        """What a cursor keeps besides: of a table whose history may go back and on in another way, what was read last."""
        ...

    def check_mark(self, place: Place, state: Mapping[str, Any]) -> None:
        """Raise VersionNotFound where what a cursor's state says was read last is not before the place any more."""
        ...


class ReadLog(Protocol):
    """The log of a table, as it is followed."""

    @property
    def env(self) -> Environment:
        """The environment that the table is reached by."""
        ...

    @property
    def newest(self) -> Snapshot[Any]:
        """The newest version that is known."""
        ...

    def refresh(self) -> object:
        """Ask for the newest version. Raises VersionNotFound, StoreError."""
        ...


class ConsecutiveVersions:
    """Of tables whose versions are counted."""

    def at_or_after(self, version: int) -> int:
        """See `SourceTable.at_or_after`: there are all of them."""
        return version

    def count(self, first: int, last: int) -> int:
        """See `SourceTable.count`."""
        return max(0, last + 1 - first)


class FollowedTable(ConsecutiveVersions, ABC):
    """What tables of every kind do alike as sources; its class says how that kind's log is followed, and what its columns are."""

    versions: ClassVar[Versions[Any, Any]]

    def __init__(self, handle: AtVersion[Any]) -> None:
        """Through this handle."""
        self._handle, self.url = handle, handle.url

    @property
    @abstractmethod
    def _log(self) -> ReadLog:
        """The table's log."""

    @abstractmethod
    def _columns(self, state: Any) -> SourceColumns:
        """The columns of a version, by its state."""

    @property
    def table_id(self) -> str:
        """See `SourceTable.table_id`."""
        return table_id(self._handle)

    @property
    def clock(self) -> Clock:
        """See `SourceTable.clock`."""
        return environment_of(self._handle).clock

    def newest(self) -> int:
        """See `SourceTable.newest`."""
        self._log.refresh()
        return self._log.newest.version

    def version_of(self, version: object, time: object) -> int:
        """See `SourceTable.version_of`."""
        return self.versions.find(self._log.env, self._log.newest, self.versions.parse(version, time))

    def last_by(self, time_ns: int) -> int:
        """See `SourceTable.last_by`."""
        return self.versions.at_time(self._log.env, self._log.newest, time_ns, name="until")

    def mark(self, place: Place) -> Mapping[str, Any]:  # noqa: ARG002 - a log only grows
        """See `SourceTable.mark`."""
        return {}

    def check_mark(self, place: Place, state: Mapping[str, Any]) -> None:  # a log only grows
        """See `SourceTable.check_mark`."""

    def columns_at(self, version: int) -> SourceColumns:
        """See `SourceTable.columns_at`."""
        newest = self._log.newest
        try:
            return self._columns(self.versions.open(self._log.env, newest, min(version, newest.version)).state)
        except VersionNotFound:
            return self._columns(newest.state)


def inserted(batch: pa.RecordBatch) -> pa.RecordBatch:
    """All rows as inserts."""
    kinds = pa.repeat(pa.scalar(INSERT, TYPE_FIELD.type), batch.num_rows)
    return pa.RecordBatch.from_arrays([*batch.columns, kinds], schema=batch.schema.append(TYPE_FIELD))
