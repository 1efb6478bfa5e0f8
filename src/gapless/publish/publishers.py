"""The publishers by the format that they write, loaded when one is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Protocol, cast

from gapless.errors import InvalidChange
from gapless.formats.timeseries.actions import TableMeta, TableState
from gapless.log.format import Snapshot
from gapless.runtime.environment import Environment


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """How far a table is published in one format."""

    format: str
    version: int | None
    """The version of the table that is published; None where nothing is yet."""
    published_version: int | None
    """What the other format calls it: Delta's version."""
    behind: int
    """Versions that are still to be published."""
    why: str = ""
    """Why they are not, where the last try failed."""


class Publisher(Protocol):
    """Keeps one format's description of one table."""

    def published(self) -> tuple[int, int] | None:
        """The version of the table that is published, and the format's own number of it; None where nothing is.

        Raises ForeignCommit where another writer made the newest one, CorruptTable, StoreError.
        """
        ...

    @property
    def folder(self) -> str:
        """Where the description lies, relative to the table root."""
        ...

    def differences(self, source: Snapshot[TableState]) -> list[str]:
        """How the description differs from the version that it says it describes, which `source` is. Raises as `published`."""
        ...

    def publish(self, source: Snapshot[TableState], *, mend: bool = False) -> int:
        """Publish what is not published yet up to a version of the table; returns the format's own number of that.

        With `mend` what another writer did to the description is undone by a commit that follows it. Raises ForeignCommit without it,
        UnsupportedType, CommitConflict, CommitOutcomeUnknown, CorruptTable, StoreError.
        """
        ...


class _Home(Protocol):
    """The module of a publisher."""

    def publisher(self, env: Environment) -> Publisher:
        """The publisher of the table that `env` reaches."""
        ...

    def check_columns(self, meta: TableMeta, before: TableMeta | None) -> None:
        """Raise UnsupportedType or SchemaMismatch for columns that the format cannot have, or that cannot follow those of `before`."""
        ...


def _home(name: str) -> _Home:
    return cast("_Home", import_module(f"gapless.publish.{name}"))


def publisher_of(name: str, env: Environment) -> Publisher:
    """The publisher of a format, as the property `publish` names it, for the table that `env` reaches."""
    return _home(name).publisher(env)


def check_publishable(meta: TableMeta, before: TableMeta | None = None) -> None:
    """Raise what makes a table that is to be published one that a format cannot describe, or not after it was described as `before`:
    UnsupportedType, SchemaMismatch, InvalidChange.
    """
    for name in meta.properties.publish:
        _home(name).check_columns(meta, before)
    for path in meta.ids.defaults if meta.properties.publish else ():
        raise InvalidChange(
            f"column {'.'.join(path)!r} has a default, and the table is published as {' and '.join(meta.properties.publish)}",
            why="Files that lack the column would read as null there",
            fix="Leave the default out, and fill the rows of before by an upsert",
            column=".".join(path),
        )
