"""Which version a caller means, and the way to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from gapless.errors import CorruptTable, InvalidOption, InvalidTime, VersionNotFound, nearest
from gapless.formats.timeseries.actions import TableState
from gapless.formats.timeseries.format import TIME_SERIES
from gapless.log.format import Snapshot
from gapless.log.snapshot import load, refresh
from gapless.log.versions import TooEarly, version_at
from gapless.model.instant import format_instant
from gapless.runtime.environment import Environment
from gapless.tables.shared.versions import parse_instant_value, parse_version, warn_of_damage
from gapless.tables.timeseries.lifecycle import open_table


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A version, by its number, by a time when it was the newest, or by a tag: exactly one of them."""

    version: int | None = None
    time_ns: int | None = None
    """Nanoseconds since 1970 UTC."""
    tag: str | None = None

    @classmethod
    def parse(cls, version: object, time: object, tag: object) -> Moment:
        """From the arguments of `at` and `restore`; raises InvalidOption, or InvalidTime for a time without a zone."""
        given = [name for name, one in (("version", version), ("time", time), ("tag", tag)) if one is not None]
        if len(given) != 1:
            raise InvalidOption(
                f"a version is asked for by {' and '.join(given) or 'nothing'}",
                why="One of version, time and tag says which",
                fix="Pass version=3, time=datetime(2026, 1, 5, tzinfo=UTC) or tag='name'",
                option="version",
                value=version,
            )
        if time is not None:
            return cls(time_ns=parse_instant_value(time, name="time"))
        if tag is not None:
            return cls(tag=str(tag))
        return cls(version=parse_version(version))


def open_moment(env: Environment, path: str, moment: Moment) -> Snapshot[TableState]:
    """The snapshot that is meant of a table that was not opened; a version can be had though a later commit is damaged.

    Raises TableNotFound, and as `find_version` and `open_version`.
    """
    try:
        newest = open_table(env, path)
    except CorruptTable as damage:
        if moment.version is None:
            raise
        snapshot = env.drive(load(TIME_SERIES, moment.version))
        assert snapshot is not None
        warn_of_damage(damage)
        return snapshot
    return open_version(env, newest, find_version(env, newest, moment))


def newest_of(env: Environment, snapshot: Snapshot[TableState]) -> Snapshot[TableState]:
    """The newest version of the log; that of `snapshot`, with a warning, where a later commit cannot be read."""
    try:
        return env.drive(refresh(TIME_SERIES, snapshot))
    except CorruptTable as damage:
        warn_of_damage(damage)
        return snapshot


def find_version(env: Environment, newest: Snapshot[TableState], moment: Moment) -> int:
    """The version that is meant, which the newest one keeps; raises VersionNotFound or InvalidTime where there is none."""
    version = moment.version
    if moment.tag is not None:
        version = _tagged(newest, moment.tag)
    elif moment.time_ns is not None:
        version = _at_time(env, newest, moment.time_ns)
    assert version is not None
    if not 1 <= version <= newest.version:
        raise no_version(version, newest)
    check_kept(newest.state, version)
    return version


def no_version(version: int, newest: Snapshot[TableState]) -> VersionNotFound:
    """The error for a version that there never was."""
    why = f"The table has versions 1 to {newest.version}"
    return VersionNotFound(f"version {version} does not exist", why=why, version=version)


def open_version(env: Environment, newest: Snapshot[TableState], version: int) -> Snapshot[TableState]:
    """The snapshot of a version up to the newest. Raises VersionNotFound, CorruptTable, UnsupportedTable."""
    if version == newest.version:
        return newest
    snapshot = env.drive(load(TIME_SERIES, version))
    assert snapshot is not None
    return snapshot


def check_kept(state: TableState, version: int) -> None:
    """Raise VersionNotFound for a version that the newest state, `state`, no longer keeps."""
    if not state.keeps(version):
        raise VersionNotFound(
            f"version {version} can be read no longer",
            why=f"It was expired, and files that only it used may be gone; {remains(state)}",
            fix="Take one of those; a tag keeps a version from expiring",
            version=version,
        )


@contextmanager
def expiry_told(env: Environment, snapshot: Snapshot[TableState]) -> Iterator[None]:
    """Tell what is missing since the version of `snapshot` expired as VersionNotFound, and not as the CorruptTable it looks like."""
    try:
        yield
    except CorruptTable:
        check_kept(newest_of(env, snapshot).state, snapshot.version)
        raise


@contextmanager
def absence_told(env: Environment, version: int) -> Iterator[None]:
    """The same as `expiry_told`, for who knows only the number of the version whose files it reads."""
    try:
        yield
    except CorruptTable:
        check_kept(open_table(env, env.store.url).state, version)
        raise


def remains(state: TableState) -> str:
    """Which versions are kept, as a sentence's part: "the earliest that remains is 7, and tag 'a' keeps 3"."""
    earlier = [f"{name!r} ({at})" for name, at in sorted(state.tags.items()) if at < state.earliest]
    tags = f", and the tag{'s' * (len(earlier) > 1)} {', '.join(earlier)}" if earlier else ""
    return f"what remains begins with version {state.earliest}{tags}"


def _tagged(newest: Snapshot[TableState], tag: str) -> int:
    tags = newest.state.tags
    if tag not in tags:
        raise VersionNotFound(f"there is no tag {tag!r}", fix=nearest(tag, tags), version=0)
    return tags[tag]


def _at_time(env: Environment, newest: Snapshot[TableState], time_ns: int) -> int:
    earliest = newest.state.earliest
    found = env.drive(version_at(TIME_SERIES, newest, time_ns, first=earliest))
    if not isinstance(found, TooEarly):
        return found
    asked, first = format_instant(time_ns), format_instant(found.time_ns)
    if earliest > 1:
        raise VersionNotFound(
            f"the version that was the newest at {asked} can be read no longer",
            why=f"Versions before {earliest}, which was committed at {first}, are expired; {remains(newest.state)}",
            fix="Pass a later time, or tag= where a tag keeps it",
            version=earliest,
        )
    raise InvalidTime(
        f"time={asked!r} is before the table's first commit",
        why=f"Version 1 was committed at {first}",
        fix=f"Pass a time from {first} on",
        value=asked,
    )
