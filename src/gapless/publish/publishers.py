"""The publishers by the format that they write, loaded when one is asked for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol, cast

from gapless.errors import InvalidChange, UnsupportedType
from gapless.model.protocols import Store
from gapless.model.publishing import PublishedFormat, PublishSettings
from gapless.publish.source import Source, SourceColumns, SourceFile, check_described
from gapless.publish.stored_types import StoredColumns, stored_columns
from gapless.runtime.environment import Environment


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """How far a table is published in one format."""

    format: str
    version: int | None
    """The version of the table that is published; None where nothing is yet."""
    published_version: int | None
    """What the other format calls it: Delta's version, the id of Iceberg's snapshot."""
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

    def differences(self, source: Source) -> list[str]:
        """How the description that `published` looked at last differs from the version that it says it describes, which `source` is.

        Raises as `published`.
        """
        ...

    def publish(self, source: Source, *, mend: bool = False) -> int:
        """Publish what is not published yet up to a version of the table; returns the format's own number of that.

        With `mend` what another writer did to the description is undone by a commit that follows it, and one that cannot be read is begun
        anew. Raises ForeignCommit without it, UnsupportedType, CommitConflict, CommitOutcomeUnknown, CorruptTable, StoreError.
        """
        ...


class _Home(Protocol):
    """The module of a publisher."""

    def publisher(self, env: Environment, settings: PublishSettings) -> Publisher:
        """The publisher of the table that `env` reaches, to where these settings say."""
        ...

    def check_columns(self, columns: SourceColumns, before: SourceColumns | None) -> None:
        """Raise UnsupportedType or SchemaMismatch for columns that the format cannot have, or that cannot follow those of `before`."""
        ...

    def check_stored(self, columns: SourceColumns, stored: StoredColumns) -> None:
        """Raise UnsupportedType for columns that files hold so that readers of the format do not take them for those of now."""
        ...


def _home(name: str) -> _Home:
    return cast("_Home", import_module(f"gapless.publish.{name}.publisher"))


def publisher_of(name: str, env: Environment, settings: PublishSettings) -> Publisher:
    """The publisher of a format, as the property `publish` names it, for the table that `env` reaches, to where its settings say.

    Raises NotSupported where a library that it needs is not installed.
    """
    return _home(name).publisher(env, settings)


def check_publishable(formats: Iterable[PublishedFormat], columns: SourceColumns, before: SourceColumns | None = None) -> None:
    """Raise what makes a table that is to be published in some formats one that a format cannot describe, or not after it was described with
    the columns `before`: UnsupportedType, SchemaMismatch, InvalidChange.
    """
    names = tuple(formats)
    for name in names:
        _home(name).check_columns(columns, before)
    for path in columns.ids.defaults if names else ():
        raise InvalidChange(
            f"column {'.'.join(path)!r} has a default, and the table is published as {' and '.join(names)}",
            why="Files that lack the column would read as null there",
            fix="Leave the default out, and fill the rows of before by an upsert",
            column=".".join(path),
        )


def unpublishable(
    store: Store, formats: Iterable[PublishedFormat], columns: SourceColumns, files: Iterable[SourceFile]
) -> frozenset[str]:
    """The paths of the files for which `check_files` refuses a table: written again, their rows can be published.

    Raises CorruptTable, StoreError.
    """
    names = tuple(formats)
    if not names:
        return frozenset()
    files = tuple(files)
    found = {file.path for file in files if file.obstacle}
    stored = stored_columns(store, columns, (file for file in files if not file.obstacle))
    each = [
        (paths, StoredColumns({path: {type_: paths}})) for path, types in stored.older.items() for type_, paths in types.items()
    ]
    for paths, one in [*each, (stored.other_ids, StoredColumns({}, stored.other_ids))]:
        for name in names:
            try:
                _home(name).check_stored(columns, one)
            except UnsupportedType:
                found.update(paths)
    return frozenset(found)


def check_files(store: Store, formats: Iterable[PublishedFormat], columns: SourceColumns, files: Iterable[SourceFile]) -> None:
    """Raise what makes files, live in a table that is to be published, ones that a format cannot describe: NotSupported for rows that lie in
    no file, UnsupportedType for a column that they hold in another type, or under another id. Looks into their footers; raises CorruptTable, StoreError.
    """
    names = tuple(formats)
    if not names:
        return
    files = tuple(files)
    check_described(files)
    stored = stored_columns(store, columns, files)
    for name in names if stored else ():
        _home(name).check_stored(columns, stored)
