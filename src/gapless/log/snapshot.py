"""The conversations that read a table's state from the log: open, an older version, refresh."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from types import MappingProxyType
from typing import Generic

from gapless.errors import CorruptTable, TableError, VersionNotFound
from gapless.log.effects import Conversation, Get, ListNames, Now, Together, perform
from gapless.log.format import Entry, Snapshot, State, Stored, TableFormat
from gapless.log.segment import decode_read, objects_of, parse_pointer, read_checkpoint, read_hint
from gapless.model.protocols import is_old

BATCH = 256
"""Commits that are asked for together."""
FAR = 64
"""Commits that `refresh` reads before it asks whether a log checkpoint is the shorter way."""


def load(table_format: TableFormat[Entry, State], at: int | None = None) -> Conversation[Snapshot[State] | None]:
    """Read the snapshot of version `at`, or the newest; None where there is no log at all.

    Reads the newest log checkpoint that serves and the commits after it. Raises CorruptTable where a commit is missing,
    VersionNotFound where `at` is no version, or one that the log was cleaned of.
    """
    while True:
        began_ns = yield from perform(Now())
        found = yield from _load(table_format, at)
        # In so long a time the log may have been cleaned, and a late put may lie on a number that was free again.
        if not is_old((yield from perform(Now())), began_ns):
            return found


def _load(
    table_format: TableFormat[Entry, State], at: int | None, *, stuck: int | None = None
) -> Conversation[Snapshot[State] | None]:
    """See `load`; from the version `stuck` it was tried before, and no further came of it."""
    # The hints first: read after the listing, CURRENT could name a commit that the listing was too early for.
    hinted, named = yield from _read_hints(table_format)
    if named is not None and at is not None and named.version > at:
        named = None
    ahead = yield from _look_ahead(table_format, named, hinted if at is None else at)
    base, names = ahead.base, ahead.names
    if base is None:
        base = yield from _listed_base(table_format, names, at, tried=named)
    start = base.version if base else table_format.first - 1
    versions = {v for name in names if (v := table_format.version_of(name)) is not None and v > start}
    newest = max(versions, default=start)
    if newest < table_format.first and hinted == 0:
        return None
    if hinted > newest and (at is None or newest < at <= hinted):
        raise lost(
            table_format, newest + 1, f"{table_format.hint} names version {hinted}, but the newest commit found is {newest}"
        )
    target = newest if at is None else at
    if not table_format.first <= target <= newest:
        why = f"The table has versions {table_format.first} to {newest}"
        raise VersionNotFound(f"version {at} does not exist", why=why, version=target)
    if start < target and start + 1 not in versions:
        # The hint may lag behind a log that was cleaned since.
        base = (yield from _listed_base(table_format, names, at)) or base
        start = base.version if base else table_format.first - 1
        _check_kept(table_format, names, target, first=start + 1)
    try:
        before_ns = base.time_ns if base else 0
        entries = yield from read_entries(table_format, start + 1, target + 1, ahead.commits, before_ns=before_ns)
    except CorruptTable:
        names = yield from perform(ListNames(table_format.folder))
        if start == stuck or cleaned_until(table_format, names, start + 1) is None:
            raise
        # Someone cleaned the log between the listing and the reading.
        return (yield from _load(table_format, at, stuck=start))
    return _fold(table_format, base, entries) if entries else base


def _read_hints(table_format: TableFormat[Entry, State]) -> Conversation[tuple[int, Stored | None]]:
    """The version that the hint names (0 for none), and the log checkpoint that the other one does."""
    hints = () if table_format.hint is None else (Get(table_format.hint),)
    *current, pointer = yield from perform(Together((*hints, Get(table_format.last_checkpoint))))
    return _parse_hint(current[0] if current else None), parse_pointer(table_format, pointer)


@dataclass(frozen=True, slots=True)
class _Ahead(Generic[State]):
    """What was read at once, as the hints made one expect it."""

    base: Snapshot[State] | None
    """The checkpoint that the hint named, if it serves."""
    names: tuple[str, ...]
    """A listing of the log: from the base on, where there is one."""
    commits: Mapping[str, bytes]
    """Commits that were found, by path."""


def _look_ahead(table_format: TableFormat[Entry, State], named: Stored | None, newest: int) -> Conversation[_Ahead[State]]:
    """Read the checkpoint `named`, a listing, and the commits after it up to `newest`, as far as they are few; where no
    checkpoint is named, the listing says first where to begin.
    """
    if named is None:
        return _Ahead(None, (yield from perform(ListNames(table_format.folder))), {})
    last = min(newest, named.version + BATCH)
    commits = [Get(table_format.path_of(version)) for version in range(named.version + 1, last + 1)]
    objects, listing = objects_of(table_format, named), ListNames(table_format.folder, table_format.path_of(named.version))
    answers = yield from perform(Together((*objects, listing, *commits)))
    base = yield from decode_read(table_format, named, answers[: len(objects)])
    names, *found = answers[len(objects) :]
    if base is None:
        names = yield from perform(ListNames(table_format.folder))
    return _Ahead(base, names, {get.path: data for get, data in zip(commits, found, strict=True) if data is not None})


def refresh(table_format: TableFormat[Entry, State], snapshot: Snapshot[State]) -> Conversation[Snapshot[State]]:
    """The newest snapshot, reading only the commits after `snapshot`; by a log checkpoint where those are many, or gone.

    Raises CorruptTable where a commit cannot be read, the log is there no more, or is that of another table.
    """
    entries: list[tuple[int, Entry, int]] = []
    found: Sequence[bytes | None]
    base, *found = yield from perform(
        Together((Get(table_format.path_of(snapshot.version)), Get(table_format.path_of(snapshot.version + 1))))
    )
    # Commits that follow by number may be those of a table that was made in the place of this one, or late puts on numbers that were free
    # again: they follow this snapshot only if its own commit is there.
    if base is not None and not _says(table_format, base, snapshot.version, snapshot.time_ns):
        raise _replaced(table_format, snapshot.version)
    if base is None and not (yield from _is_told(table_format, snapshot.version)):
        return (yield from _reload(table_format, snapshot))
    while True:
        version = snapshot.version + len(entries) + 1
        for data in takewhile(lambda data: data is not None, found):
            before_ns = entries[-1][2] if entries else snapshot.time_ns
            entries.append(decode_after(table_format, data, version, before_ns))
            version += 1
        if None in found:
            break
        if len(entries) == FAR and _leads(version, (yield from read_hint(table_format))):
            return (yield from _reload(table_format, snapshot))
        # Mostly there are none or one; where there are two, there may be many.
        width = max(1, min(len(entries), FAR - len(entries))) if len(entries) < FAR else FAR
        found = yield from perform(Together(tuple(Get(table_format.path_of(version + step)) for step in range(width))))
    # What was cleaned while it was asked for, or between the two answers, would look as if nothing had come after.
    if is_old((yield from perform(Now())), snapshot.time_ns) and not (
        yield from is_there(table_format, snapshot.version, snapshot.time_ns)
    ):
        return (yield from _reload(table_format, snapshot))
    return advance(table_format, snapshot, entries)


def is_there(table_format: TableFormat[Entry, State], version: int, time_ns: int) -> Conversation[bool]:
    """Whether the commit of a version that was read before, with this commit time, is still in the log; where a log
    checkpoint may be all that is left of it, whether there is one.
    """
    data = yield from perform(Get(table_format.path_of(version)))
    if data is None:
        return (yield from _is_told(table_format, version))
    return _says(table_format, data, version, time_ns)


def _says(table_format: TableFormat[Entry, State], data: bytes, version: int, time_ns: int) -> bool:
    """Whether a commit has this commit time; one that cannot be read is taken to have it."""
    try:
        return table_format.says_time(data, time_ns) or table_format.time_of(data, version) in (
            (time_ns, 0) if table_format.bare else (time_ns,)
        )
    except TableError:
        return True  # damaged, and so there


def _is_told(table_format: TableFormat[Entry, State], version: int) -> Conversation[bool]:
    """Whether a log checkpoint may be all that is left of a version's commit, and is there: such go before the commits after them do."""
    if not table_format.bare:
        return False
    names = yield from perform(ListNames(table_format.folder))
    return any(stored.version == version for stored in table_format.checkpoints_in(names))


def advance(
    table_format: TableFormat[Entry, State], snapshot: Snapshot[State], entries: Iterable[tuple[int, Entry, int]]
) -> Snapshot[State]:
    """Fold further (version, entry, commit time) onto a snapshot."""
    entries = list(entries)
    return _fold(table_format, snapshot, entries) if entries else snapshot


def read_entries(
    table_format: TableFormat[Entry, State],
    start: int,
    end: int,
    known: Mapping[str, bytes] = MappingProxyType({}),
    *,
    before_ns: int = 0,
) -> Conversation[list[tuple[int, Entry, int]]]:
    """The commits of versions `[start, end)` as (version, entry, commit time); `known` has some of them by path, `before_ns` is the
    commit time of the version before.

    Raises CorruptTable where one is missing.
    """
    entries: list[tuple[int, Entry, int]] = []
    for first in range(start, end, BATCH):
        paths = {version: table_format.path_of(version) for version in range(first, min(first + BATCH, end))}
        unread = tuple(Get(path) for path in paths.values() if path not in known)
        answers = yield from perform(Together(unread))
        read = {**known, **{get.path: data for get, data in zip(unread, answers, strict=True) if data is not None}}
        for version, path in paths.items():
            if path not in read:
                raise lost(table_format, version, "The commit is missing although later ones exist")
            entries.append(decode_after(table_format, read[path], version, entries[-1][2] if entries else before_ns))
    return entries


def decode_after(table_format: TableFormat[Entry, State], data: bytes, version: int, before_ns: int) -> tuple[int, Entry, int]:
    """A commit as (version, entry, commit time), which is that of the commit before it where it says none. Raises CorruptTable."""
    entry, told_ns = table_format.decode(data, version)
    return version, entry, told_ns or before_ns


def _leads(version: int, hinted: Stored | None) -> bool:
    """Whether the log checkpoint that a hint names is at or past a version."""
    return hinted is not None and hinted.version >= version


def cleaned_until(table_format: TableFormat[Entry, State], names: Iterable[str], version: int) -> int | None:
    """The log checkpoint at or past `version` from which a listing of the log shows it to be whole again, where the log was
    cleaned of that version's commit; None where the commit is there, or lost.

    Cleaning takes the oldest commits and leaves a log checkpoint behind them; a commit that is missing among others is lost.
    """
    names = tuple(names)
    oldest = min((commit for name in names if (commit := table_format.version_of(name)) is not None), default=version + 1)
    if oldest <= version:
        return None
    checkpoints = (stored.version for stored in table_format.checkpoints_in(names))
    return min((found for found in checkpoints if found >= version and found >= oldest - 1), default=None)


def lost(table_format: TableFormat[Entry, State], version: int, why: str) -> CorruptTable:
    """The error for a commit that should be there and is not."""
    before = (
        f"; {table_format.open_at}(path, version={version - 1}) reads what was before it"
        if version > table_format.first
        else ""
    )
    return CorruptTable(
        f"version {version} is lost: {table_format.path_of(version)} is not there",
        why=why,
        fix=f"Bring the file back from a backup{before}",
        path=table_format.path_of(version),
    )


def _check_kept(table_format: TableFormat[Entry, State], names: Iterable[str], target: int, *, first: int) -> None:
    """Raise VersionNotFound where the log was cleaned of a commit of `[first, target]`."""
    kept = cleaned_until(table_format, names, first) if first <= target else None
    if kept is not None and kept > target:
        raise VersionNotFound(
            f"version {target} can be read no longer",
            why=f"The log was cleaned of its commits; after it, version {kept} is the earliest that can be read",
            fix=f"Take version {kept} or a later one",
            version=target,
        )


def _reload(table_format: TableFormat[Entry, State], snapshot: Snapshot[State]) -> Conversation[Snapshot[State]]:
    found = yield from load(table_format)
    if found is None or found.version < snapshot.version:
        raise lost(table_format, snapshot.version, "It was there when the table was opened")
    if found.version == snapshot.version and found.time_ns != snapshot.time_ns:
        raise _replaced(table_format, snapshot.version)
    return found if found.version > snapshot.version else snapshot


def _replaced(table_format: TableFormat[Entry, State], version: int) -> CorruptTable:
    """The error for a handle's version that is another commit now."""
    return CorruptTable(
        f"version {version} is not the commit that was read when the table was opened: {table_format.path_of(version)} has another commit time",
        why="The table was removed, and another was made in its place",
        fix="Open the table anew",
        path=table_format.path_of(version),
    )


def _listed_base(
    table_format: TableFormat[Entry, State], names: Iterable[str], at: int | None, *, tried: Stored | None = None
) -> Conversation[Snapshot[State] | None]:
    """The newest checkpoint in a listing that serves; one that was `tried` does not."""
    for stored in reversed(table_format.checkpoints_in(names)):
        if stored == tried or (at is not None and stored.version > at):
            continue
        snapshot = yield from read_checkpoint(table_format, stored)
        if snapshot is not None:
            return snapshot
    return None


def _fold(
    table_format: TableFormat[Entry, State], snapshot: Snapshot[State] | None, entries: list[tuple[int, Entry, int]]
) -> Snapshot[State]:
    state = table_format.replay(snapshot.state if snapshot else None, entries)
    version, _, time_ns = entries[-1]
    return Snapshot(version, time_ns, state)


def _parse_hint(data: bytes | None) -> int:
    text = (data or b"").strip().removeprefix(b"+")
    return int(text) if text.isdigit() and len(text) <= 10 else 0
