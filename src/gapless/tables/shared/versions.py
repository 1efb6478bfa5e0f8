"""Time travel for every kind of table: find and open a version by number, commit time or tag."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from operator import index
from typing import Generic

import numpy as np

from gapless.errors import CorruptTable, InvalidOption, InvalidTime, LogWarning, VersionNotFound, nearest
from gapless.log.effects import Conversation
from gapless.log.format import Entry, Snapshot, State, TableFormat
from gapless.log.snapshot import load
from gapless.log.versions import TooEarly
from gapless.model.instant import NS_PER, format_instant, ns_from_date, ns_from_datetime
from gapless.model.time.iso_text import parse_iso
from gapless.runtime.environment import Environment


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionQuery:
    """A version by its number, by a time when it was the newest, or by a tag: exactly one of them."""

    version: int | None = None
    time_ns: int | None = None
    """Nanoseconds since 1970 UTC."""
    tag: str | None = None


class Versions(ABC, Generic[Entry, State]):
    """The versions of one kind of table. Subclasses say what is kept of them, how commit times are searched and what the tags are."""

    table_format: TableFormat[Entry, State]
    names: tuple[str, ...] = ("version", "time")
    """The arguments by which callers name a version."""

    @abstractmethod
    def version_at(self, newest: Snapshot[State], time_ns: int) -> Conversation[int | TooEarly]:
        """The newest version, of those that can be read, that was committed at `time_ns` (since 1970 UTC) or before."""

    @abstractmethod
    def why_gone(self, newest: State, first: int, time: str) -> tuple[str, str]:
        """Why versions before `first`, which was committed at `time`, can be read no longer, and what to do, as in an error."""

    def tags(self, newest: State) -> Mapping[str, int]:  # noqa: ARG002  # a kind without tags has none
        """The named versions."""
        return {}

    def check_kept(self, newest: State, version: int) -> None:
        """Raise VersionNotFound for a version that the newest state no longer keeps."""

    def check_readable(self, snapshot: Snapshot[State], url: str) -> None:
        """Raise UnsupportedTable for a version that this release cannot read."""

    def parse(self, version: object = None, time: object = None, tag: object = None) -> VersionQuery:
        """The arguments of `at` and `restore`; raises InvalidOption, or InvalidTime for a time without a zone."""
        given = [name for name, one in (("version", version), ("time", time), ("tag", tag)) if one is not None]
        if len(given) != 1:
            examples = {"version": "version=3", "time": "time=datetime(2026, 1, 5, tzinfo=UTC)", "tag": "tag='name'"}
            raise InvalidOption(
                f"a version is asked for by {' and '.join(given) or 'nothing'}",
                why=f"One of {_listed(self.names, 'and')} says which",
                fix=f"Pass {_listed([examples[name] for name in self.names], 'or')}",
                option="version",
                value=version,
            )
        if time is not None:
            return VersionQuery(time_ns=parse_instant_value(time, name="time"))
        if tag is not None:
            return VersionQuery(tag=str(tag))
        return VersionQuery(version=parse_version(version, first=self.table_format.first))

    def find(self, env: Environment, newest: Snapshot[State], query: VersionQuery) -> int:
        """The version that is meant, which the newest one keeps; raises VersionNotFound, InvalidTime, CorruptTable, StoreError.

        A time after the last commit means the newest version.
        """
        version = query.version
        if query.tag is not None:
            tags = self.tags(newest.state)
            if query.tag not in tags:
                raise VersionNotFound(f"there is no tag {query.tag!r}", fix=nearest(query.tag, tags), version=0)
            version = tags[query.tag]
        elif query.time_ns is not None:
            version = self.at_time(env, newest, query.time_ns)
        assert version is not None
        self._check_exists(newest, version)
        self.check_kept(newest.state, version)
        return version

    def since(self, env: Environment, newest: Snapshot[State], time_ns: int) -> int:
        """The first version that was committed at a time (nanoseconds since 1970 UTC) or later; one past the newest where there is none.

        Raises VersionNotFound where that may be one that can be read no longer; CorruptTable, StoreError.
        """
        found = env.drive(self.version_at(newest, time_ns - 1))
        if not isinstance(found, TooEarly):
            return found + 1
        # Versions that are gone may have come at that time or later, unless the earliest that is left came then.
        if found.first == self.table_format.first or found.time_ns <= time_ns:
            return found.first
        asked, first = format_instant(time_ns), format_instant(found.time_ns)
        why, _ = self.why_gone(newest.state, found.first, first)
        raise VersionNotFound(
            f"the first version that was committed at {asked} or later may be one that can be read no longer",
            why=why,
            fix=f"Ask from {first} or from version {found.first} on",
            version=found.first,
        )

    def at_time(self, env: Environment, newest: Snapshot[State], time_ns: int, *, name: str = "time") -> int:
        """The version that was the newest at a time (nanoseconds since 1970 UTC), given as the argument `name`; raises as `find`."""
        found = env.drive(self.version_at(newest, time_ns))
        if not isinstance(found, TooEarly):
            return found
        asked, first = format_instant(time_ns), format_instant(found.time_ns)
        if found.first > self.table_format.first:
            why, fix = self.why_gone(newest.state, found.first, first)
            raise VersionNotFound(
                f"the version that was the newest at {asked} can be read no longer",
                why=why,
                fix=fix if name == "time" else f"Pass {name}={first!r} or later",
                version=found.first,
            )
        raise InvalidTime(
            f"{name}={asked!r} is before the table's first commit",
            why=f"Version {found.first} was committed at {first}",
            fix=f"Pass a time from {first} on",
            value=asked,
        )

    def open(self, env: Environment, newest: Snapshot[State], version: int) -> Snapshot[State]:
        """The snapshot of a version up to the newest. Raises VersionNotFound, CorruptTable, UnsupportedTable, StoreError."""
        self._check_exists(newest, version)
        if version != newest.version:
            return self._load(env, version)
        self.check_readable(newest, env.store.url)
        return newest

    def resolve(self, env: Environment, newest: Snapshot[State], query: VersionQuery) -> Snapshot[State]:
        """The snapshot that is meant; raises as `find` and `open`."""
        return self.open(env, newest, self.find(env, newest, query))

    def open_at(
        self, env: Environment, query: VersionQuery, open_newest: Callable[[], Snapshot[State]]
    ) -> tuple[Snapshot[State], Snapshot[State] | None]:
        """The snapshot that is meant of a table that was not opened, and the newest, which `open_newest` opens.

        A version by its number can be had though a later commit is damaged: then there is a LogWarning and no newest. Raises as `find`,
        `open` and `open_newest`.
        """
        try:
            newest = open_newest()
        except CorruptTable as damage:
            if query.version is None:
                raise
            snapshot = self._load(env, query.version)
            warn_of_damage(damage)
            return snapshot, None
        return self.resolve(env, newest, query), newest

    def _load(self, env: Environment, version: int) -> Snapshot[State]:
        snapshot = env.drive(load(self.table_format, version))
        assert snapshot is not None
        self.check_readable(snapshot, env.store.url)
        return snapshot

    def _check_exists(self, newest: Snapshot[State], version: int) -> None:
        if not self.table_format.first <= version <= newest.version:
            raise no_version(version, newest.version, first=self.table_format.first)


def check_past(env: Environment, time_ns: int, names: tuple[str, str]) -> None:
    """Raise InvalidTime for a time in the future from which versions are to be read; `names` are the options of a version and of a time."""
    if time_ns > env.clock.now_ns():
        raise InvalidTime(
            f"{names[1]}={format_instant(time_ns)!r} lies in the future",
            why="Which version will be the first then is not known yet",
            fix=f'Pass a time that has been, or {names[0]} "latest"',
            value=time_ns,
        )


def no_version(version: int, newest: int, *, first: int) -> VersionNotFound:
    """The error for a version that there never was, of a table that has those from `first` to `newest`."""
    why = f"The table has versions {first} to {newest}"
    return VersionNotFound(f"version {version} does not exist", why=why, version=version)


@contextmanager
def explained(explain: Callable[[], None]) -> Iterator[None]:
    """While files of a version are read: `explain` may raise VersionNotFound instead of the CorruptTable that a missing file looks like."""
    try:
        yield
    except CorruptTable:
        explain()
        raise


def _listed(names: Sequence[str], word: str) -> str:
    *others, last = names
    return f"{', '.join(others)} {word} {last}"


def warn_of_damage(damage: CorruptTable) -> None:
    """Warn that commits which could have expired versions were not read."""
    what = f"{damage.what}; whether a later commit expired the version that was asked for is not known"
    warnings.warn(what, LogWarning, stacklevel=2)


def parse_version(value: object, name: str = "version", *, first: int = 1) -> int:
    """A caller's version number, of a table whose versions begin with `first`; raises InvalidOption for what is no whole number."""
    number = whole_number(value)
    if number is None:
        raise InvalidOption(
            f"{name}={value!r} is no version",
            why=f"Versions are whole numbers from {first}",
            fix=f"Pass {name}={first}",
            option=name,
            value=value,
        )
    return number


def whole_number(value: object) -> int | None:
    """What Python takes for a whole number, but no truth value; None for all else, arrays of several among it.

    >>> whole_number(5), whole_number(True), whole_number(5.0)
    (5, None, None)
    """
    if isinstance(value, bool):
        return None
    try:
        return index(value)  # type: ignore[arg-type]  # it says so itself
    except TypeError:
        return None


def _differs_from_itself(value: object) -> bool:
    """Whether it is a NaN or NaT."""
    try:
        return bool(value != value)  # noqa: PLR0124
    except (ArithmeticError, TypeError, ValueError):
        # A signalling NaN; arrays and frames, whose answer is no single one.
        return False


def parse_instant_value(value: object, *, name: str) -> int:
    """An instant that is no index value, in ns since 1970 UTC, from what `parse_index_value` takes for a timestamp.

    Raises InvalidTime, naming the argument, also for a time without a zone and for a date.
    """
    ns, aware = read_time(value, name)
    if not aware:
        raise InvalidTime(
            f"{name}={value!r} has no time zone",
            why="Without a zone it could be any of some forty instants",
            fix=f"Pass an offset, such as {format_instant(ns)!r}, or an aware datetime",
            value=value,
        )
    return ns


def read_time(value: object, name: str) -> tuple[int, bool | None]:
    """A caller's time in ns since 1970 UTC, and whether it had a zone; None for a date, which never has."""
    if value is None or _differs_from_itself(value) or str(value) == "NaT":
        raise InvalidTime(f"{name}={value!r} is no instant", fix="Leave the argument out for an open end", value=value)
    if isinstance(value, datetime):
        return ns_from_datetime(value) + int(getattr(value, "nanosecond", 0)), value.tzinfo is not None
    if isinstance(value, date):
        return ns_from_date(value), None
    if isinstance(value, np.datetime64):
        unit, count = np.datetime_data(value.dtype)
        if unit in NS_PER:
            return int(value.astype(np.int64)) * count * NS_PER[unit], False
        return int(value.astype("datetime64[s]").astype(np.int64)) * NS_PER["s"], None if unit in (
            "Y",
            "M",
            "W",
            "D",
        ) else False
    if isinstance(value, str):
        try:
            found = parse_iso(value)
        except ValueError as error:
            fix = 'Pass an ISO 8601 text such as "2013-01-31" or "2013-01-31T06:00:00Z"'
            raise InvalidTime(f"{name}={value!r} cannot be read", why=str(error), fix=fix, value=value) from error
        return found.ns, None if found.is_date else found.aware
    raise InvalidTime(
        f"{name}={value!r} is of type {type(value).__name__}, which is no time",
        why="A bare number would need its unit said" if isinstance(value, int | float) else "The index is a timestamp",
        fix="Pass a datetime, a date, an ISO 8601 text, or a numpy or pandas timestamp",
        value=value,
    )
