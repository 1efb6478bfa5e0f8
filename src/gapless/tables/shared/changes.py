"""History and change data feed of every kind of table: commits up to a version, and changed rows commit by commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Generic, Literal, TypeVar

import pyarrow as pa

from gapless.errors import InvalidOption
from gapless.files.compare.row_diff import CHANGE_TYPE
from gapless.log.format import Entry, Snapshot, State, TableFormat
from gapless.log.versions import read_back
from gapless.model.instant import NS_PER, datetime_from_ns
from gapless.runtime.environment import Environment
from gapless.tables.shared.scan import Rows, parse_columns
from gapless.tables.shared.versions import Versions, no_version, parse_instant_value, parse_version, whole_number

COMMIT_VERSION = "_commit_version"
COMMIT_TIMESTAMP = "_commit_timestamp"

TYPE_FIELD = pa.field(CHANGE_TYPE, pa.string(), nullable=False)
COMMIT_FIELDS = (
    pa.field(COMMIT_VERSION, pa.int64(), nullable=False),
    pa.field(COMMIT_TIMESTAMP, pa.timestamp("us", "UTC"), nullable=False),
)

Change = TypeVar("Change")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitChange(Generic[Change]):
    """What one commit changed, by the log."""

    version: int
    time_ns: int
    """Its commit time (nanoseconds since 1970 UTC)."""
    change: Change


@dataclass(frozen=True, slots=True)
class ChangesEnd:
    """An end of a range of changes, as a caller gave it: `from_version` or `from_time`, or `to_version` or `to_time`."""

    which: Literal["from", "to"]
    version: object
    time: object

    def check(self) -> None:
        """Raise InvalidOption where it is given twice, or is a beginning and not given."""
        both = self.version is not None and self.time is not None
        none = self.version is None and self.time is None
        if both or (none and self.which == "from"):
            twice = "two beginnings" if self.which == "from" else "two ends"
            raise InvalidOption(
                f"the range of changes has {twice if both else 'no beginning'}",
                why="A version or a time says it",
                fix=f"Pass {self.which}_version= or {self.which}_time=",
                option=f"{self.which}_version",
                value=self.version,
            )


def find_range(
    versions: Versions[Entry, State],
    env: Environment,
    newest: Snapshot[State],
    begin: ChangesEnd,
    end: ChangesEnd,
    *,
    seen: int,
) -> tuple[int, int]:
    """The first and the last version, both inclusive, of a range of changes; the last is `seen` where no end is given.

    Raises InvalidOption, InvalidTime; VersionNotFound for a time from which, or by which, versions were committed that can be read no longer;
    CorruptTable, StoreError.
    """
    begin.check()
    end.check()
    if end.time is not None:
        last = versions.at_time(env, newest, parse_instant_value(end.time, name="to_time"), name="to_time")
    else:
        last = seen if end.version is None else parse_version(end.version, "to_version", first=versions.table_format.first)
    if begin.time is None:
        return parse_version(begin.version, "from_version", first=versions.table_format.first), last
    first = versions.since(env, newest, parse_instant_value(begin.time, name="from_time"))
    # A handle that lags has seen nothing of that time: no changes, and no range to swap.
    return (first if end.version is not None or end.time is not None else min(first, last + 1)), last


def check_range(first: int, last: int, *, earliest: int, newest: int) -> None:
    """Raise VersionNotFound or InvalidOption unless there are versions `[first, last]` of a table with those from `earliest` to `newest`.

    One past the newest is a range without versions, where a reader that has seen all goes on.
    """
    for version in (first, last):
        if not earliest <= version <= newest + (version == first):
            raise no_version(version, newest, first=earliest)
    if first > last + 1:
        raise InvalidOption(
            f"the changes from version {first} on begin after version {last}",
            fix="Swap them",
            option="from_version",
            value=first,
        )


def collect_changes(
    entries: Iterable[tuple[int, Entry, int]], change_of: Callable[[int, Entry], Change | None], *, since_ns: int | None
) -> list[CommitChange[Change]]:
    """The changes of commits (version, entry, commit time) by `change_of`, asked in turn; commits of which it gives None are left out.

    A commit time that runs backward is that of the commit before, `since_ns` for the first; where that is None, times are as they were told.
    """
    found = []
    for version, entry, told_ns in entries:
        time_ns = told_ns if since_ns is None else max(since_ns, told_ns)
        since_ns = None if since_ns is None else time_ns
        change = change_of(version, entry)
        if change is not None:
            found.append(CommitChange(version=version, time_ns=time_ns, change=change))
    return found


def change_feed(schema: pa.Schema, read: Callable[[], Iterable[tuple[CommitChange[Change], pa.Table]]]) -> Rows:
    """A feed whose rows `read` gives commit by commit, in at least the columns of `schema`, with their kind of change behind; not read yet."""

    def batches() -> Iterator[pa.RecordBatch]:
        for commit, rows in read():
            yield from _stamped(rows, commit.version, commit.time_ns, schema).to_batches()

    return Rows(schema, batches)


FEED_FIELDS = (TYPE_FIELD, *COMMIT_FIELDS)
"""What stands behind the columns of a table in a change feed."""


def feed_schema(
    schema: pa.Schema, columns: object, exclude: object = None, *, ours: tuple[pa.Field, ...] = FEED_FIELDS
) -> pa.Schema:
    """The chosen columns of a table (see `parse_columns`), with ours behind. Raises UnknownColumn, InvalidOption."""
    names = parse_columns(columns, schema, exclude)
    taken = {field.name for field in ours} & set(names)
    if taken:
        raise InvalidOption(
            f"columns={columns!r} cannot be shown beside {', '.join(field.name for field in ours)}",
            why=f"The table has a column {min(taken)!r} of its own",
            fix=f"Leave those with these names out: exclude={sorted(taken)!r}",
            option="columns",
            value=columns,
        )
    return pa.schema([*(schema.field(name) for name in names), *ours], metadata=schema.metadata)


def _stamped(rows: pa.Table, version: int, time_ns: int, schema: pa.Schema) -> pa.Table:
    """Rows with their kind of change behind, in the columns of a feed: with the version that changed them, and its commit time."""
    stamp = version, time_ns // NS_PER["us"]
    stamps = [pa.repeat(pa.scalar(value, field.type), rows.num_rows) for value, field in zip(stamp, COMMIT_FIELDS, strict=True)]
    # By place: the table may have a column that is called as ours.
    places = {name: at for at, name in reversed([*enumerate(rows.column_names)])}
    columns = [rows.column(places[name]) for name in schema.names[: -1 - len(stamps)]]
    return pa.Table.from_arrays([*columns, rows.column(rows.num_columns - 1), *stamps], schema=schema)


def read_history(
    env: Environment, table_format: TableFormat[Entry, State], version: int, limit: int | None, *, ordered: bool
) -> list[tuple[int, Entry, datetime]]:
    """The newest `limit` commits up to `version` (all where None) as (version, entry, commit time), oldest first.

    A log that was cleaned gives the later ones only. Commit times are in UTC; where they are `ordered`, one that runs backward is that of the
    commit before. Raises InvalidOption for a limit below 0, CorruptTable where a commit is lost, StoreError.
    """
    number = None if limit is None else whole_number(limit)
    if limit is not None and (number is None or number < 0):
        raise InvalidOption(f"limit={limit!r} is no whole number from 0 up", fix="Pass limit=20", option="limit", value=limit)
    latest, found = 0, []
    for at, entry, time_ns in env.drive(read_back(table_format, version, number)):
        latest = max(latest, time_ns) if ordered else time_ns
        found.append((at, entry, datetime_from_ns(latest)))
    return found


def duration_of(milliseconds: int | None) -> timedelta | None:
    """How long a change took, as history shows it."""
    return None if milliseconds is None else timedelta(milliseconds=milliseconds)
