"""Versions of a Delta table: its commits as users see them, which one a caller means, and the way to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from gapless.errors import InvalidOption, InvalidTime, ObjectNotFound, VersionNotFound
from gapless.formats.delta.actions import AddFile, Commit, Json, TableState
from gapless.formats.delta.features import check_readable
from gapless.formats.delta.format import DELTA
from gapless.formats.delta.properties import Settings
from gapless.log.effects import Conversation, Get, ListNames, Now, perform
from gapless.log.format import Snapshot
from gapless.log.snapshot import BATCH, cleaned_until, load, read_entries
from gapless.log.versions import read_back
from gapless.model.instant import NS_PER, format_instant
from gapless.model.operation import OperationId
from gapless.runtime.environment import TOGETHER, Environment
from gapless.tables.delta.files.places import Place, Places
from gapless.tables.delta.handle import DeltaHandle
from gapless.tables.shared.versions import parse_instant_value, parse_version


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaMoment:
    """A version, by its number or by a time when it was the newest: exactly one of them."""

    version: int | None = None
    time_ns: int | None = None
    """Nanoseconds since 1970 UTC."""

    @classmethod
    def parse(cls, version: object, time: object) -> DeltaMoment:
        """From the arguments of `at` and `restore`; raises InvalidOption, or InvalidTime for a time without a zone."""
        if (version is None) == (time is None):
            raise InvalidOption(
                f"a version is asked for by {'nothing' if version is None else 'version and time'}",
                why="One of the two says which",
                fix="Pass version=3 or time=datetime(2026, 1, 5, tzinfo=UTC)",
                option="version",
                value=version,
            )
        if time is not None:
            return cls(time_ns=parse_instant_value(time, name="time"))
        return cls(version=parse_version(version, first=DELTA.first))


def find_version(
    env: Environment, newest: Snapshot[TableState], *, version: object = None, time: object = None
) -> Snapshot[TableState]:
    """The snapshot of a version that there is up to `newest`, by its number or by a time when it was the newest.

    `time` is an aware datetime, an ISO text with an offset, or a pandas Timestamp with a zone, and is held against the commit times in
    the log: a time after the last commit means the newest version. Whether the files of a version are still there is for
    `require_stored` to say. Raises VersionNotFound, which names what there is; InvalidTime for a time before the first commit or without
    a zone; InvalidOption, CorruptTable, StoreError.
    """
    moment = DeltaMoment.parse(version, time)
    number = _at_time(env, newest, moment.time_ns) if moment.time_ns is not None else moment.version
    assert number is not None
    return open_version(env, newest, number)


def open_version(env: Environment, newest: Snapshot[TableState], version: int) -> Snapshot[TableState]:
    """The snapshot of a version by its number. Raises VersionNotFound, CorruptTable, UnsupportedTable, StoreError."""
    if not DELTA.first <= version <= newest.version:
        raise no_version(version, newest.version)
    snapshot = newest if version == newest.version else env.drive(load(DELTA, version))
    assert snapshot is not None
    check_readable(snapshot.state.protocol, env.store.url, snapshot.state.metadata)
    return snapshot


def no_version(version: int, newest: int) -> VersionNotFound:
    """The error for a version that there never was."""
    why = f"The table has versions {DELTA.first} to {newest}"
    return VersionNotFound(f"version {version} does not exist", why=why, version=version)


# -- by time -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TooEarly:
    """No version that the log still tells is as old as that; the first of them was committed then (nanoseconds since 1970 UTC)."""

    first: int
    time_ns: int


def version_by_time(env: Environment, newest: Snapshot[TableState], time: object, *, name: str = "to_time") -> int:
    """The last version that was committed by a time; raises as `find_version`, naming the argument."""
    return _at_time(env, newest, parse_instant_value(time, name=name))


def version_since(env: Environment, newest: Snapshot[TableState], time: object, *, name: str = "from_time") -> int:
    """The first version that was committed at a time or later, of those that the log still tells; one past the newest where there is none.

    Raises InvalidTime for a time without a zone, CorruptTable, StoreError.
    """
    found = env.drive(version_at(newest, parse_instant_value(time, name=name) - 1))
    return found.first if isinstance(found, TooEarly) else found + 1


def _at_time(env: Environment, newest: Snapshot[TableState], time_ns: int) -> int:
    found = env.drive(version_at(newest, time_ns))
    if not isinstance(found, TooEarly):
        return found
    asked, first = format_instant(time_ns), format_instant(found.time_ns)
    if found.first > DELTA.first:
        raise VersionNotFound(
            f"the version that was the newest at {asked} can be read no longer",
            why=f"The log was cleaned of versions before {found.first}, which was committed at {first}",
            fix="Pass a later time",
            version=found.first,
        )
    raise InvalidTime(
        f"time={asked!r} is before the table's first commit",
        why=f"Version {found.first} was committed at {first}",
        fix=f"Pass a time from {first} on",
        value=asked,
    )


def version_at(newest: Snapshot[TableState], time_ns: int) -> Conversation[int | TooEarly]:
    """The newest version that was committed at `time_ns` (since 1970 UTC) or before, of those that the log still tells.

    A version's time is the latest of the times that it and those before it say, so that it never runs backward. In-commit timestamps grow
    by themselves and are searched by halves; where there are none, commits are read from the first one on until one is later.
    """
    if time_ns >= max(newest.time_ns, (yield from perform(Now()))):
        return newest.version
    earliest, stamped = (yield from earliest_version()), _stamped_from(newest.state)
    if stamped is not None and time_ns >= (yield from _time_of(max(stamped, earliest))):
        late = time_ns >= newest.time_ns
        return newest.version if late else (yield from _last_before(max(stamped, earliest), newest.version, time_ns))
    first_ns = yield from _time_of(earliest)
    if time_ns < first_ns:
        return TooEarly(first=earliest, time_ns=first_ns)
    end = newest.version + 1 if stamped is None else stamped
    return (yield from _first_later(earliest, end, time_ns)) - 1


def earliest_version() -> Conversation[int]:
    """The first version that the log can still tell; later than 0 where it was cleaned."""
    names = yield from perform(ListNames(DELTA.folder))
    return cleaned_until(DELTA, names, DELTA.first) or DELTA.first


def _stamped_from(state: TableState) -> int | None:
    """The first version with an in-commit timestamp; None where the table has none."""
    settings = Settings.of(state.configuration)
    return (settings.in_commit_timestamps_since or DELTA.first) if settings.in_commit_timestamps else None


def _last_before(low: int, high: int, time_ns: int) -> Conversation[int]:
    """The last version of `[low, high)` that was committed by then, where `low` was and `high` was not, and times grow."""
    while high - low > 1:
        middle = (low + high) // 2
        if (yield from _time_of(middle)) <= time_ns:
            low = middle
        else:
            high = middle
    return low


def _first_later(start: int, end: int, time_ns: int) -> Conversation[int]:
    """The first version of `(start, end)` that was committed after a time; `end` where none was."""
    for first in range(start + 1, end, BATCH):
        for version, _, at_ns in (yield from read_entries(DELTA, first, min(first + BATCH, end))):
            if at_ns > time_ns:
                return version
    return end


def _time_of(version: int) -> Conversation[int]:
    """A version's commit time by its commit; by a log checkpoint where the log was cleaned of that."""
    data = yield from perform(Get(DELTA.path_of(version)))
    if data is not None:
        return DELTA.decode(data, version)[1]
    snapshot = yield from load(DELTA, version)
    assert snapshot is not None
    return snapshot.time_ns


# -- whether its files are there ---------------------------------------------------------------------------------------


def require_stored(env: Environment, version: int, newest: Snapshot[TableState], files: Iterable[AddFile]) -> None:
    """Raise VersionNotFound where one of these files of an older version is gone, before anything of that version is read.

    Files that the newest version has are not asked for. The message names the earliest version all of whose files are there.
    """
    gone = first_missing(env, (file.path for file in files if file.key not in newest.state.files))
    if gone is not None:
        kept = earliest_stored(env, newest)
        raise VersionNotFound(
            f"version {version} can be read no longer: its file {gone} is gone",
            why=f"A vacuum deleted files that only older versions had; the earliest version that is whole is {kept}",
            fix=f"Read version {kept} or a later one",
            version=version,
        )


def earliest_stored(env: Environment, newest: Snapshot[TableState]) -> int:
    """The earliest version from which on every version has all its data files stored, by the log that there is."""
    entries = env.drive(read_back(DELTA, newest.version))
    for version, commit, _ in reversed(entries):
        if first_missing(env, (file.path for file in commit.removed)) is not None:
            return version
    return max(env.drive(earliest_version()), entries[0][0] - 1 if entries else DELTA.first)


def first_missing(env: Environment, paths: Iterable[str]) -> str | None:
    """The first of some files, by their paths in the log, that is not stored. Raises StoreError."""
    places = Places(env.store)
    asked = {path: places.of(path) for path in sorted(set(paths))}
    if not env.store.capabilities.concurrent or len(asked) < 2:
        return next((path for path, place in asked.items() if not _is_stored(place)), None)
    with ThreadPoolExecutor(min(len(asked), TOGETHER)) as pool:
        found = pool.map(_is_stored, asked.values())
        return next((path for path, there in zip(asked, found, strict=True) if not there), None)


def _is_stored(place: Place) -> bool:
    try:
        place.store.head(place.path)
    except ObjectNotFound:
        return False
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaHistoryEntry:
    """One commit, as `history` shows it."""

    version: int
    time: datetime
    """Commit time from the log, UTC; never runs backward."""
    operation: str
    """Delta's name for it: WRITE, DELETE, MERGE, OPTIMIZE and the like."""
    engine: str
    parameters: Mapping[str, Json]
    metrics: Mapping[str, int]
    """What the writer counted, by Delta's names."""
    files: int
    """Files it made live."""
    bytes: int
    """Bytes of these."""
    removed_files: int
    """Files it took away."""
    read_version: int | None
    """The version it was decided on; None where the writer did not say."""
    isolation: str
    blind_append: bool
    """Whether it read nothing of the table."""
    user: str | None
    """Who committed, as far as the writer said."""
    message: str | None
    """What the writer noted (`userMetadata`)."""
    operation_id: OperationId | None
    duration: timedelta | None
    """From the call to the commit; None where the writer did not say."""
    commit_id: str


def history_entries(entries: Iterable[tuple[int, Commit, int]]) -> Iterator[DeltaHistoryEntry]:
    """The entries of commits (version, commit, commit time), oldest first; a time that runs backward is shown as the one before."""
    latest = 0
    for version, commit, time_ns in entries:
        latest = max(latest, time_ns)
        yield _entry(version, commit, latest)


def _entry(version: int, commit: Commit, time_ns: int) -> DeltaHistoryEntry:
    added = commit.added
    user = commit.info.get("userName") or commit.info.get("userId")
    message = commit.info.get("userMetadata")
    return DeltaHistoryEntry(
        version=version,
        time=datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time_ns // NS_PER["us"]),
        operation=commit.operation,
        engine=commit.engine,
        parameters=commit.parameters,
        metrics=commit.metrics,
        files=len(added),
        bytes=sum(file.size for file in added),
        removed_files=len(commit.removed),
        read_version=commit.read_version,
        isolation=commit.isolation,
        blind_append=commit.blind_append,
        user=None if user is None else str(user),
        message=None if message is None else str(message),
        operation_id=commit.operation_id,
        duration=None if commit.duration_ms is None else timedelta(milliseconds=commit.duration_ms),
        commit_id=commit.id,
    )


class Recalling(DeltaHandle):
    """A Delta table's past, as its log tells it."""

    def history(self, limit: int | None = None) -> list[DeltaHistoryEntry]:
        """The newest `limit` commits up to this version (all where not given), oldest first; a log that was cleaned has the later ones only.

        Raises InvalidOption for a limit below 0, CorruptTable where a commit is lost, StoreError.
        """
        if limit is not None and (isinstance(limit, bool) or not hasattr(limit, "__index__") or limit < 0):
            raise InvalidOption(
                f"limit={limit!r} is no whole number from 0 up", fix="Pass limit=20", option="limit", value=limit
            )
        return list(history_entries(self._env.drive(read_back(DELTA, self.version, limit))))
