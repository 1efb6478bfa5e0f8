"""Read a table's state from its log: open the newest or an older version, refresh; and write it back as a log checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Generic

from gapless.errors import CorruptTable, StoreError, TableError, VersionNotFound
from gapless.log.checkpoint import (
    decode_objects,
    objects_of,
    parse_hint,
    point_to_checkpoint,
    read_checkpoint,
    read_hint,
    store_checkpoint,
)
from gapless.log.effects import Concurrently, Conversation, Get, GetDrive, ListNames, NewId, Now, Put, Warn, perform
from gapless.log.format import Entry, Packed, Snapshot, State, StoredCheckpoint, TableFormat
from gapless.log.segment import BATCH, LogListing, LogSegment, decode_commit, list_log, lost_commit, read_commits
from gapless.model.protocols import is_old

FAR = 64
"""Commits that `refresh` reads before it asks whether a log checkpoint is the shorter way."""


def load(table_format: TableFormat[Entry, State], at: int | None = None) -> Conversation[Snapshot[State] | None]:
    """Read the snapshot of version `at`, or the newest; None where there is no log at all.

    Reads the newest log checkpoint that is whole and the commits after it. Raises CorruptTable where a commit is missing,
    VersionNotFound where `at` is no version, or one that the log was cleaned of.
    """
    while True:
        began_ns = yield from perform(Now())
        found = yield from _load(table_format, at)
        # In so long a time the log may have been cleaned, and a late put may lie on a number that was free again.
        if not is_old((yield from perform(Now())), began_ns):
            return found


@dataclass(frozen=True, slots=True)
class _Base(Generic[State]):
    """The checkpoint that replay begins with, and the snapshot it holds."""

    checkpoint: StoredCheckpoint
    snapshot: Snapshot[State]


@dataclass(frozen=True, slots=True)
class _Prefetched(Generic[State]):
    """What was read at once, as the hints let one expect it."""

    base: _Base[State] | None
    """The checkpoint that the hint names, if it can be read."""
    listing: LogListing
    """Of the whole log, or from the base on where there is one."""
    commits: Mapping[str, bytes]
    """Commits that were found, by path."""


def _load(
    table_format: TableFormat[Entry, State], at: int | None, *, stuck: int | None = None
) -> Conversation[Snapshot[State] | None]:
    """See `load`; from the version `stuck` it was tried before, in vain."""
    # The hints first: read after the listing, CURRENT could name a commit that the listing was too early for.
    hinted, named = yield from _read_hints(table_format)
    if named is not None and at is not None and named.version > at:
        named = None
    prefetched = yield from _prefetch(table_format, named, hinted if at is None else at)
    base, listing = prefetched.base, prefetched.listing
    if base is None:
        base = yield from _newest_checkpoint(table_format, listing, at, tried=named)
    newest = max((_start(table_format, base), *listing.commits[-1:]))
    if newest < table_format.first and hinted == 0:
        return None
    if hinted > newest and (at is None or newest < at <= hinted):
        why = f"{table_format.hint} names version {hinted}, but the newest commit found is {newest}"
        raise lost_commit(table_format, newest + 1, why)
    target = newest if at is None else at
    if not table_format.first <= target <= newest:
        why = f"The table has versions {table_format.first} to {newest}"
        raise VersionNotFound(f"version {at} does not exist", why=why, version=target)
    if (start := _start(table_format, base)) < target and start + 1 not in listing.commits:
        # The hint may lag behind a log that was cleaned since.
        base = (yield from _newest_checkpoint(table_format, listing, at)) or base
        start = _start(table_format, base)
        _check_kept(listing, start + 1, target)
    try:
        # By number, whatever was listed: only a Get says that a commit is lost.
        before_ns = base.snapshot.time_ns if base else 0
        entries = yield from read_commits(table_format, range(start + 1, target + 1), prefetched.commits, before_ns=before_ns)
    except CorruptTable:
        if start == stuck or (yield from list_log(table_format)).cleaned_until(start + 1) is None:
            raise
        # Someone cleaned the log between the listing and the reading.
        return (yield from _load(table_format, at, stuck=start))
    segment = LogSegment(
        version=max(start, target),
        checkpoint=base.checkpoint if base else None,
        commits=tuple(version for version, _, _ in entries),
        first=table_format.first,
    )
    snapshot = base.snapshot if base else None
    return _replay(table_format, snapshot, entries) if segment.commits else snapshot


def _start(table_format: TableFormat[Entry, State], base: _Base[State] | None) -> int:
    """The version that commits are replayed after."""
    return base.checkpoint.version if base else table_format.first - 1


def _read_hints(table_format: TableFormat[Entry, State]) -> Conversation[tuple[int, StoredCheckpoint | None]]:
    """The version that CURRENT names (0 for none), and the log checkpoint that the other hint does."""
    hints = () if table_format.hint is None else (Get(table_format.hint),)
    *current, pointer = yield from perform(Concurrently((*hints, Get(table_format.last_checkpoint))))
    return parse_current(current[0] if current else None), parse_hint(table_format, pointer)


def parse_current(data: bytes | None) -> int:
    """The version that CURRENT names; 0 where it is missing or cannot be read."""
    text = (data or b"").strip().removeprefix(b"+")
    return int(text) if text.isdigit() and len(text) <= 10 else 0


def _prefetch(
    table_format: TableFormat[Entry, State], named: StoredCheckpoint | None, newest: int
) -> Conversation[_Prefetched[State]]:
    """Read the checkpoint `named`, a listing, and the commits after it up to `newest`, as far as they are few; where no
    checkpoint is named, the listing says first where to begin.
    """
    if named is None:
        return _Prefetched(None, (yield from list_log(table_format)), {})
    last = min(newest, named.version + BATCH)
    commits = [Get(table_format.path_of(version)) for version in range(named.version + 1, last + 1)]
    objects, listing = objects_of(table_format, named), ListNames(table_format.folder, table_format.path_of(named.version))
    answers = yield from perform(Concurrently((*objects, listing, *commits)))
    snapshot = yield from decode_objects(table_format, named, answers[: len(objects)])
    names, *found = answers[len(objects) :]
    whole = LogListing.parse(table_format, names) if snapshot else (yield from list_log(table_format))
    return _Prefetched(
        _Base(named, snapshot) if snapshot else None,
        whole,
        {get.path: data for get, data in zip(commits, found, strict=True) if data is not None},
    )


def _newest_checkpoint(
    table_format: TableFormat[Entry, State], listing: LogListing, at: int | None, *, tried: StoredCheckpoint | None = None
) -> Conversation[_Base[State] | None]:
    """The newest checkpoint of a listing, up to version `at`, that can be read; one that was `tried` cannot."""
    for checkpoint in reversed(listing.checkpoints):
        if checkpoint == tried or (at is not None and checkpoint.version > at):
            continue
        if (snapshot := (yield from read_checkpoint(table_format, checkpoint))) is not None:
            return _Base(checkpoint, snapshot)
    return None


def _check_kept(listing: LogListing, start: int, target: int) -> None:
    """Raise VersionNotFound where the log was cleaned of a commit of `[start, target]`."""
    kept = listing.cleaned_until(start) if start <= target else None
    if kept is not None and kept > target:
        raise VersionNotFound(
            f"version {target} can be read no longer",
            why=f"The log was cleaned of its commits; after it, version {kept} is the earliest that can be read",
            fix=f"Take version {kept} or a later one",
            version=target,
        )


def refresh(table_format: TableFormat[Entry, State], snapshot: Snapshot[State]) -> Conversation[Snapshot[State]]:
    """The newest snapshot, reading only the commits after `snapshot`; by a log checkpoint where those are many, or gone.

    Raises CorruptTable where a commit cannot be read, the log is there no more, or is that of another table.
    """
    entries: list[tuple[int, Entry, int]] = []
    found: Sequence[bytes | None]
    base, *found = yield from perform(
        Concurrently((Get(table_format.path_of(snapshot.version)), Get(table_format.path_of(snapshot.version + 1))))
    )
    # Commits that follow by number may be those of a table that was made in the place of this one, or late puts on numbers that were free
    # again: they follow this snapshot only if its own commit is there.
    if base is not None and not _has_time(table_format, base, snapshot.version, snapshot.time_ns):
        raise _replaced(table_format, snapshot.version)
    if base is None and not (yield from _has_checkpoint(table_format, snapshot.version)):
        return (yield from _reload(table_format, snapshot))
    while True:
        version = snapshot.version + len(entries) + 1
        for data in takewhile(lambda data: data is not None, found):
            before_ns = entries[-1][2] if entries else snapshot.time_ns
            entries.append(decode_commit(table_format, data, version, before_ns))
            version += 1
        if None in found:
            break
        if len(entries) == FAR:
            hinted = yield from read_hint(table_format)
            if hinted is not None and hinted.version >= version:
                return (yield from _reload(table_format, snapshot))
        # Mostly there are none or one; where there are two, there may be many.
        width = max(1, min(len(entries), FAR - len(entries))) if len(entries) < FAR else FAR
        found = yield from perform(Concurrently(tuple(Get(table_format.path_of(version + step)) for step in range(width))))
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
        return (yield from _has_checkpoint(table_format, version))
    return _has_time(table_format, data, version, time_ns)


def _has_time(table_format: TableFormat[Entry, State], data: bytes, version: int, time_ns: int) -> bool:
    """Whether a commit has this commit time; one that cannot be read is taken to have it."""
    try:
        return table_format.has_commit_time(data, time_ns) or table_format.time_of(data, version) in (
            (time_ns, 0) if table_format.foreign_checkpoints else (time_ns,)
        )
    except TableError:
        return True  # damaged, and so there


def _has_checkpoint(table_format: TableFormat[Entry, State], version: int) -> Conversation[bool]:
    """Whether a log checkpoint may be all that is left of a version's commit, and is there: such go before the commits after them do."""
    if not table_format.foreign_checkpoints:
        return False
    listing = yield from list_log(table_format)
    checkpoints = {checkpoint.version for checkpoint in listing.checkpoints}
    if version not in checkpoints:
        return False
    # One made late, of a version that the log was cleaned past, stands before a gap.
    is_newest = not any(later > version for later in (*listing.commits, *checkpoints))
    return is_newest or (yield from perform(Get(table_format.path_of(version + 1)))) is not None


def advance(
    table_format: TableFormat[Entry, State], snapshot: Snapshot[State], entries: Iterable[tuple[int, Entry, int]]
) -> Snapshot[State]:
    """Fold further (version, entry, commit time) onto a snapshot."""
    entries = list(entries)
    return _replay(table_format, snapshot, entries) if entries else snapshot


def _reload(table_format: TableFormat[Entry, State], snapshot: Snapshot[State]) -> Conversation[Snapshot[State]]:
    found = yield from load(table_format)
    if found is None or found.version < snapshot.version:
        raise lost_commit(table_format, snapshot.version, "It was there when the table was opened")
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


def _replay(
    table_format: TableFormat[Entry, State], snapshot: Snapshot[State] | None, entries: Sequence[tuple[int, Entry, int]]
) -> Snapshot[State]:
    state = table_format.replay(snapshot.state if snapshot else None, entries)
    version, _, time_ns = entries[-1]
    return Snapshot(version, time_ns, state)


def write_checkpoint(table_format: TableFormat[Entry, State], snapshot: Snapshot[State]) -> Conversation[None]:
    """Store a checkpoint of `snapshot` and point the hint at it; a failure is a warning, since the commit stands.

    The snapshot rests on the checkpoint's parts afterwards.
    """
    path = table_format.checkpoint_path(snapshot.version)
    try:
        packed = yield from _packed(table_format, snapshot)
        put, size = yield from store_checkpoint(table_format, packed)
    except (StoreError, TableError) as error:
        yield from perform(Warn(f"the log checkpoint {path} was not written: {error.what}"))
        return
    if put in (Put.DONE, Put.LATE) and packed.snapshot is not snapshot:
        table_format.share_parts(snapshot, packed.snapshot)
    if put is not Put.NO_ANSWER:
        yield from point_to_checkpoint(table_format, packed.snapshot, size)


def _packed(table_format: TableFormat[Entry, State], snapshot: Snapshot[State]) -> Conversation[Packed[State]]:
    """The snapshot with the parts that it owes; on those of the newest checkpoint, where others wrote it."""
    parts_version = table_format.parts_version(snapshot)
    if not parts_version and not table_format.needs_parts(snapshot):
        return Packed(snapshot, ())
    hinted = yield from read_hint(table_format)
    if hinted is not None and parts_version < hinted.version < snapshot.version:
        snapshot = yield from _on_newest(table_format, snapshot)
    return table_format.pack(snapshot, (yield from perform(NewId())), (yield from perform(GetDrive())))


def _on_newest(table_format: TableFormat[Entry, State], snapshot: Snapshot[State]) -> Conversation[Snapshot[State]]:
    """The same version, as the log has it; as it is where that cannot be read."""
    try:
        found = yield from load(table_format, snapshot.version)
    except (TableError, VersionNotFound):
        return snapshot
    return snapshot if found is None or found.time_ns != snapshot.time_ns else found
