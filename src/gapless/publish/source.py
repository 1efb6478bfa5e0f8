"""What publishers need of the table whose files they describe again, whatever kind of table it is."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, Self

import pyarrow as pa

from gapless.errors import NotSupported
from gapless.model.column_ids import PLAIN, ColumnIds, ColumnPath
from gapless.model.operation import SequenceId
from gapless.model.publishing import PublishedFormat, PublishSettings
from gapless.model.stats import ColumnStats


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceColumns:
    """The columns of a table at one version."""

    schema: pa.Schema | None
    """Declared names and types; None for a table that has none yet."""
    ids: ColumnIds = PLAIN
    """Under which names files hold them."""
    partition_by: tuple[str, ...] = ()
    """Declared names of columns that files do not hold, since all rows of one have the same value."""
    field_ids: Mapping[ColumnPath, int] = field(default_factory=dict)
    """By stored path the ids that files carry for columns and fields of structs; empty where files carry none."""
    holds_more: bool = False
    """Whether files may hold columns that the table does not have any more, or never had."""
    created_ns: int = 0
    """When the table was made, nanoseconds since 1970 UTC."""


Obstacle = Literal["", "inlined", "deleted rows", "elsewhere"]
"""Why no reader of another format could read a file's rows; empty where they can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A live file of a table."""

    path: str
    """Relative to the table root."""
    rows: int
    size: int | None
    """Bytes; None where the log does not say."""
    stats: Mapping[str, ColumnStats] = field(default_factory=dict)
    """Of columns, by their stored names."""
    partition: Mapping[str, pa.Scalar] = field(default_factory=dict)
    """The values of the partition columns, by declared name."""
    obstacle: Obstacle = ""
    data: None = None
    footer_checksum: str | None = None
    """As `gapless.model.segment.DataFile` has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceChange:
    """What a commit did to the files and columns of a table."""

    version: int
    time_ns: int
    """Its commit time, nanoseconds since 1970 UTC."""
    operation: str
    """What the log of a time-series table calls it."""
    columns: SourceColumns
    """The table's from this version on."""
    added: tuple[SourceFile, ...] = ()
    removed: tuple[str, ...] = ()
    """Paths."""
    changes_rows: bool = True
    """False where rows were only laid out anew."""
    earliest: int = 0
    """Files of versions below may be gone, or will be soon."""
    looked_at: bool = True
    """Whether the files that it adds are known to hold the columns as the log says; those of other writers may not."""


class Source(Protocol):
    """One version of a table that is published, the newest one that was looked at."""

    @property
    def version(self) -> int:
        """Its number."""
        ...

    @property
    def settings(self) -> PublishSettings:
        """How it is to be published."""
        ...

    @property
    def columns(self) -> SourceColumns:
        """Its columns."""
        ...

    @property
    def kept(self) -> Collection[int]:
        """Versions that are whole though others of before and after may have lost files."""
        ...

    def whole(self) -> SourceChange:
        """All that it has, as one change: what a description begins with, or goes on with past versions whose commits are cleaned away."""
        ...

    def changes_after(self, published: int, format_: PublishedFormat) -> list[SourceChange] | None:
        """The commits after version `published` up to this one, oldest first; None where they come as one: the log was cleaned of one of them,
        or the table was not to be published in the format at one, so that nobody looked whether it can be described.

        Raises CorruptTable, StoreError.
        """
        ...

    def at(self, version: int | None) -> Source | None:
        """Another version of the same table, the newest where none is said; None where there is no table. Raises VersionNotFound, CorruptTable, StoreError."""
        ...

    def remembered(self, format_: str) -> int:
        """The version that the table's own log remembers to be published in a format; 0 for none."""
        ...

    def is_live(self, path: str) -> bool:
        """Whether it has a file."""
        ...

    def was_removed(self, path: str) -> bool:
        """Whether an earlier version had a file, as far as the log still knows."""
        ...


class OneVersion:
    """What sources have in common that are one version of some files, with no log behind them. See `Source`."""

    __slots__ = ()
    if TYPE_CHECKING:

        @property
        def version(self) -> int: ...  # noqa: D102  # as in `Source`
        @property
        def files(self) -> Sequence[SourceFile]: ...  # noqa: D102  # all of them

    def at(self, version: int | None) -> Self | None:
        """Itself, as its one version and the newest."""
        return self if version in (None, self.version) else None

    def remembered(self, format_: str) -> int:  # noqa: ARG002 - as the protocol has it
        """0: there is no log that would remember."""
        return 0

    def is_live(self, path: str) -> bool:
        """Whether it has a file."""
        return any(one.path == path for one in self.files)

    def was_removed(self, path: str) -> bool:  # noqa: ARG002 - as the protocol has it
        """False: nothing is known of files before."""
        return False


def check_described(files: Iterable[SourceFile]) -> None:
    """Raise NotSupported where rows of a table that is to be published lie where readers of other formats do not find them, or as they do not
    read them.
    """
    found: dict[Obstacle, list[SourceFile]] = {}
    for file in files:
        if file.obstacle:
            found.setdefault(file.obstacle, []).append(file)
    for obstacle, those in found.items():
        what, why, fix, feature = _OBSTACLES[obstacle]
        raise NotSupported(what.format(count=len(those), path=those[0].path), why=why, fix=fix, feature=feature)


_REWRITE = "or set the property with rewrite=True (gapless publish --rewrite)"
_OBSTACLES: Mapping[Obstacle, tuple[str, str, str, str]] = {
    "inlined": (
        "{count} appends lie in the log, not in files, and cannot be published",
        "Readers of other formats read files alone",
        f"Call compact() first, which writes them into files, {_REWRITE}",
        "publishing of inlined rows",
    ),
    "deleted rows": (
        "rows of {count} files are deleted by deletion vectors, and cannot be published so: {path} is the first",
        "Readers of other formats do not know Delta's deletion vectors, and would show the rows",
        f"Call compact(), which writes such files anew, {_REWRITE}",
        "publishing of deletion vectors",
    ),
    "elsewhere": (
        "{count} files do not lie under the table's root, and cannot be published: {path} is the first",
        "What is published is kept, moved and deleted with the table; files of a shallow clone are another's",
        f"Write their rows anew, by an overwrite, {_REWRITE}",
        "publishing of files elsewhere",
    ),
}
"""What is the matter, why, what to do, and what that is called."""


def published_mark(format_: str, version: int) -> SequenceId:
    """What the table's own log calls it that a version is published in a format."""
    return SequenceId(f"gapless.published.{format_}", version)
