"""The simplest table: versions, each a list of columns and a list of rows, by which `test_table_life` measures the real one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

WIDTH = 10
"""Index values per bucket."""

Row = dict[int, Any]
"""Values by column number; absent means the column's default."""
TS, KEY, VALUE = 0, 1, 2
"""The numbers of the first columns."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its number stays, whatever its name becomes."""

    number: int
    name: str
    type: str
    default: Any = None


@dataclass(frozen=True, slots=True)
class Version:
    """The table at one version."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]

    def shown(self, row: Row) -> tuple[Any, ...]:
        """A row as a scan shows it."""
        return tuple(row.get(column.number, column.default) for column in self.columns)

    def counted(self) -> Counter[tuple[Any, ...]]:
        """All rows as a scan shows them."""
        return Counter(self.shown(row) for row in self.rows)

    def covered(self) -> set[tuple[str, int]]:
        """The (entity, bucket) pairs that hold rows."""
        return {bucket_of(row) for row in self.rows}

    def column(self, name: str) -> Column:
        """The column of that name."""
        return next(column for column in self.columns if column.name == name)


def bucket_of(row: Row) -> tuple[str, int]:
    """Where a row lies."""
    return row[KEY], row[TS] // WIDTH


def key_of(row: Row) -> tuple[int, str]:
    """The key by which upserts know a row."""
    return row[TS], row[KEY]


FIRST = (Column(TS, "ts", "int64"), Column(KEY, "k", "string"), Column(VALUE, "v", "int32"))


@dataclass(slots=True)
class Model:
    """Every version that there was."""

    versions: list[Version] = field(default_factory=lambda: [Version(FIRST, ())])
    """Version 1 first."""
    tags: dict[str, int] = field(default_factory=dict)
    earliest: int = 1
    next_column: int = 3

    @property
    def newest(self) -> int:
        """The newest version's number."""
        return len(self.versions)

    @property
    def now(self) -> Version:
        """The newest version."""
        return self.versions[-1]

    def at(self, version: int) -> Version:
        """One version."""
        return self.versions[version - 1]

    def keeps(self, version: int) -> bool:
        """Whether it can be read."""
        return version >= self.earliest or version in self.tags.values()

    def land(self, rows: Iterable[Row] | None = None, columns: tuple[Column, ...] | None = None) -> None:
        """A new version, with other rows or columns."""
        now = self.now
        self.versions.append(replace(now, rows=now.rows if rows is None else tuple(rows), columns=columns or now.columns))

    # -- what a table holds after a change ---------------------------------------------------------------------------------

    def append(self, rows: list[Row], policy: str) -> list[Row] | None:
        """The rows after an append; None where it must be refused."""
        covered, mine = self.now.covered(), {bucket_of(row) for row in rows}
        if policy == "reject" and covered & mine:
            return None
        if policy == "skip":
            rows = [row for row in rows if bucket_of(row) not in covered]
        kept = [row for row in self.now.rows if policy != "replace" or bucket_of(row) not in mine]
        return kept + rows

    def upsert(self, rows: list[Row]) -> list[Row]:
        """The rows after an upsert; the last of several with one key counts."""
        newest = {key_of(row): row for row in rows}
        return [row for row in self.now.rows if key_of(row) not in newest] + list(newest.values())

    def without(self, takes: Callable[[Row], bool]) -> list[Row]:
        """The rows that a deletion leaves."""
        return [row for row in self.now.rows if not takes(row)]

    # -- columns -------------------------------------------------------------------------------------------------------

    def add_column(self, name: str, kind: str, default: Any) -> tuple[Column, ...]:
        """The columns with another at the end."""
        self.next_column += 1
        return (*self.now.columns, Column(self.next_column, name, kind, default))

    def changed(self, which: str, **change: Any) -> tuple[Column, ...]:
        """The columns with one of them changed."""
        return tuple(replace(column, **change) if column.name == which else column for column in self.now.columns)
