"""The conversations that read a table's state from the log: open, an older version, refresh."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import takewhile
from types import MappingProxyType
from typing import Generic

from gapless.errors import CorruptTable, TableError, VersionNotFound
from gapless.log.checkpoint import decode_read, parse_pointer, read_checkpoint, read_hint
from gapless.log.dialect import Dialect, Snapshot, State
from gapless.log.requests import Get, ListNames, Now, Talk, Together, ask
from gapless.log.verdict import Entry
from gapless.model.horizon import is_old

BATCH = 256
"""Commits that are asked for together."""
FAR = 64
"""Commits that `refresh` reads before it asks whether a log checkpoint is the shorter way."""


def load(dialect: Dialect[Entry, State], at: int | None = None) -> Talk[Snapshot[State] | None]:
    """Read the snapshot of version `at`, or the newest; None where there is no log at all.

    Reads the newest log checkpoint that serves and the commits after it. Raises CorruptTable where a commit is missing,
    VersionNotFound where `at` is no version, or one that the log was cleaned of.
    """
    while True:
        began_ns = yield from ask(Now())
        found = yield from _load(dialect, at)
        # In so long a time the log may have been cleaned, and a late put may lie on a number that was free again.
        if not is_old((yield from ask(Now())), began_ns):
            return found


def _load(dialect: Dialect[Entry, State], at: int | None) -> Talk[Snapshot[State] | None]:
    # The hints first: read after the listing, CURRENT could name a commit that the listing was too early for.
    current, pointer = yield from ask(Together((Get(dialect.hint), Get(dialect.last_checkpoint))))
    hinted, named = _parse_hint(current), parse_pointer(pointer)
    ahead = yield from _look_ahead(dialect, named if at is None or named <= at else 0, hinted if at is None else at)
    base, names = ahead.base, ahead.names
    if base is None:
        base = yield from _listed_base(dialect, names, at)
    start = base.version if base else 0
    versions = {v for name in names if (v := dialect.version_of(name)) is not None and v > start}
    newest = max(versions, default=start)
    if newest == 0 and hinted == 0:
        return None
    if hinted > newest and (at is None or newest < at <= hinted):
        raise lost(dialect, newest + 1, f"{dialect.hint} names version {hinted}, but the newest commit found is {newest}")
    target = newest if at is None else at
    if not 1 <= target <= newest:
        raise VersionNotFound(f"version {at} does not exist", why=f"The table has versions 1 to {newest}", version=target)
    if start < target and start + 1 not in versions:
        # The hint may lag behind a log that was cleaned since.
        base = (yield from _listed_base(dialect, names, at)) or base
        start = base.version if base else 0
        _check_kept(dialect, names, target, first=start + 1)
    try:
        entries = yield from read_entries(dialect, start + 1, target + 1, ahead.commits)
    except CorruptTable:
        names = yield from ask(ListNames(dialect.folder))
        if cleaned_until(dialect, names, start + 1) is None:
            raise
        # Someone cleaned the log between the listing and the reading.
        return (yield from _load(dialect, at))
    return _fold(dialect, base, entries) if entries else base


@dataclass(frozen=True, slots=True)
class _Ahead(Generic[State]):
    """What was read at once, as the hints made one expect it."""

    base: Snapshot[State] | None
    """The checkpoint that the hint named, if it serves."""
    names: tuple[str, ...]
    """A listing of the log: from the base on, where there is one."""
    commits: Mapping[str, bytes]
    """Commits that were found, by path."""


def _look_ahead(dialect: Dialect[Entry, State], named: int, newest: int) -> Talk[_Ahead[State]]:
    """Read the checkpoint of version `named`, a listing, and the commits after it up to `newest`, as far as they are few; where no
    checkpoint is named (0), the listing says first where to begin.
    """
    if not named:
        return _Ahead(None, (yield from ask(ListNames(dialect.folder))), {})
    commits = [Get(dialect.path_of(version)) for version in range(named + 1, min(newest, named + BATCH) + 1)]
    checkpoint, listing = Get(dialect.checkpoint_path(named)), ListNames(dialect.folder, dialect.path_of(named))
    data, names, *found = yield from ask(Together((checkpoint, listing, *commits)))
    base = yield from decode_read(dialect, named, data)
    if base is None:
        names = yield from ask(ListNames(dialect.folder))
    return _Ahead(base, names, {get.path: data for get, data in zip(commits, found, strict=True) if data is not None})


def refresh(dialect: Dialect[Entry, State], snapshot: Snapshot[State]) -> Talk[Snapshot[State]]:
    """The newest snapshot, reading only the commits after `snapshot`; by a log checkpoint where those are many, or gone.

    Raises CorruptTable where a commit cannot be read, or the log is there no more.
    """
    entries: list[tuple[int, Entry, int]] = []
    width, more = 1, True
    while more:
        version = snapshot.version + len(entries) + 1
        found = yield from ask(Together(tuple(Get(dialect.path_of(version + step)) for step in range(width))))
        more = None not in found
        for data in takewhile(lambda data: data is not None, found):
            entries.append((version, *dialect.decode(data, version)))
            version += 1
        if more and len(entries) == FAR and (yield from read_hint(dialect)) >= version:
            return (yield from _reload(dialect, snapshot))
        # Mostly there are none or one; where there are two, there may be many.
        width = max(1, min(len(entries), FAR - len(entries))) if len(entries) < FAR else FAR
    # The log may have been cleaned up to here and beyond: that the next commit is missing then says nothing, and one that is there
    # may be a late put on a number that was free again, which is no commit.
    doubtful = not entries or is_old((yield from ask(Now())), snapshot.time_ns)
    if doubtful and not (yield from is_there(dialect, snapshot.version, snapshot.time_ns)):
        return (yield from _reload(dialect, snapshot))
    return advance(dialect, snapshot, entries)


def is_there(dialect: Dialect[Entry, State], version: int, time_ns: int) -> Talk[bool]:
    """Whether the commit of a version that was read before, with this commit time, is still in the log."""
    data = yield from ask(Get(dialect.path_of(version)))
    try:
        return data is not None and (dialect.says_time(data, time_ns) or dialect.decode(data, version)[1] == time_ns)
    except TableError:
        return True  # damaged, and so there


def advance(
    dialect: Dialect[Entry, State], snapshot: Snapshot[State], entries: Iterable[tuple[int, Entry, int]]
) -> Snapshot[State]:
    """Fold further (version, entry, commit time) onto a snapshot."""
    entries = list(entries)
    return _fold(dialect, snapshot, entries) if entries else snapshot


def read_entries(
    dialect: Dialect[Entry, State], start: int, end: int, known: Mapping[str, bytes] = MappingProxyType({})
) -> Talk[list[tuple[int, Entry, int]]]:
    """The commits of versions `[start, end)` as (version, entry, commit time); `known` has some of them by path.

    Raises CorruptTable where one is missing.
    """
    entries = []
    for first in range(start, end, BATCH):
        paths = {version: dialect.path_of(version) for version in range(first, min(first + BATCH, end))}
        unread = tuple(Get(path) for path in paths.values() if path not in known)
        answers = yield from ask(Together(unread))
        read = {**known, **{get.path: data for get, data in zip(unread, answers, strict=True) if data is not None}}
        for version, path in paths.items():
            if path not in read:
                raise lost(dialect, version, "The commit is missing although later ones exist")
            entries.append((version, *dialect.decode(read[path], version)))
    return entries


def cleaned_until(dialect: Dialect[Entry, State], names: Iterable[str], version: int) -> int | None:
    """The log checkpoint at or past `version` from which a listing of the log shows it to be whole again, where the log was
    cleaned of that version's commit; None where the commit is there, or lost.

    Cleaning takes the oldest commits and leaves a log checkpoint behind them; a commit that is missing among others is lost.
    """
    commits: set[int] = set()
    checkpoints: list[int] = []
    for name in names:
        if (commit := dialect.version_of(name)) is not None:
            commits.add(commit)
        elif (checkpoint := dialect.checkpoint_of(name)) is not None:
            checkpoints.append(checkpoint)
    if any(commit <= version for commit in commits):
        return None
    oldest = min(commits, default=version + 1)
    return min((c for c in checkpoints if c >= version and c >= oldest - 1), default=None)


def lost(dialect: Dialect[Entry, State], version: int, why: str) -> CorruptTable:
    """The error for a commit that should be there and is not."""
    before = f"; gl.open_at(path, version={version - 1}) reads what was before it" if version > 1 else ""
    return CorruptTable(
        f"version {version} is lost: {dialect.path_of(version)} is not there",
        why=why,
        fix=f"Bring the file back from a backup{before}",
        path=dialect.path_of(version),
    )


def _check_kept(dialect: Dialect[Entry, State], names: Iterable[str], target: int, *, first: int) -> None:
    """Raise VersionNotFound where the log was cleaned of a commit of `[first, target]`."""
    kept = cleaned_until(dialect, names, first) if first <= target else None
    if kept is not None and kept > target:
        raise VersionNotFound(
            f"version {target} can be read no longer",
            why=f"The log was cleaned of its commits; after it, version {kept} is the earliest that can be read",
            fix="Take a later version, or one that a tag names",
            version=target,
        )


def _reload(dialect: Dialect[Entry, State], snapshot: Snapshot[State]) -> Talk[Snapshot[State]]:
    found = yield from load(dialect)
    if found is None or found.version < snapshot.version:
        raise lost(dialect, snapshot.version, "It was there when the table was opened")
    return found if found.version > snapshot.version else snapshot


def _listed_base(dialect: Dialect[Entry, State], names: Iterable[str], at: int | None) -> Talk[Snapshot[State] | None]:
    """The newest checkpoint in a listing that serves."""
    versions = (v for name in names if (v := dialect.checkpoint_of(name)) is not None and (at is None or v <= at))
    for version in sorted(versions, reverse=True):
        snapshot = yield from read_checkpoint(dialect, version)
        if snapshot is not None:
            return snapshot
    return None


def _fold(
    dialect: Dialect[Entry, State], snapshot: Snapshot[State] | None, entries: list[tuple[int, Entry, int]]
) -> Snapshot[State]:
    state = dialect.replay(snapshot.state if snapshot else None, entries)
    version, _, time_ns = entries[-1]
    return Snapshot(version, time_ns, state)


def _parse_hint(data: bytes | None) -> int:
    text = (data or b"").strip().removeprefix(b"+")
    return int(text) if text.isdigit() and len(text) <= 10 else 0
