"""Log cleanup: delete the commits and log checkpoints that no retained version needs.

A cleaned log starts at a log checkpoint. Of the first version that stays and of the one before it a checkpoint was read back, and no part
is in both, so that either serves where the other is damaged; where checkpoints may not say their commit's time, that earlier one's commit
stays as well. Commits go in order: where one is there, all after it are. Last go the parts that only removed checkpoints named.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import islice

from gapless.errors import CorruptTable, StoreUnavailable, UnsupportedTable
from gapless.log.checkpoint import (
    decode_objects,
    objects_of,
    point_to_checkpoint,
    read_checkpoint,
    read_hint,
    read_whole,
    store_snapshot,
)
from gapless.log.effects import Concurrently, Conversation, Delete, Get, ListNames, Put, perform
from gapless.log.format import Entry, Snapshot, State, StoredCheckpoint, TableFormat
from gapless.log.segment import list_log, lost_commit
from gapless.log.snapshot import load

_TOGETHER = 32
"""Commits, or log checkpoints, that are read at a time."""


def find_floor(table_format: TableFormat[Entry, State], earliest: int, cutoff_ns: int) -> Conversation[int]:
    """The first version whose commit must stay: `earliest`, or one before it that was committed after `cutoff_ns` (since 1970 UTC).

    One that says no time may be as young as the next that says one. Reads the commits before `earliest`, some at a time; raises CorruptTable
    where one cannot be read.
    """
    commits = [version for version in (yield from list_log(table_format)).commits if version < earliest]
    untimed: int | None = None
    for first in range(0, len(commits), _TOGETHER):
        some = commits[first : first + _TOGETHER]
        found = yield from perform(Concurrently(tuple(Get(table_format.path_of(version)) for version in some)))
        for version, data in zip(some, found, strict=True):
            if data is None:
                continue
            time_ns = table_format.decode(data, version)[1]
            if time_ns > cutoff_ns:
                return version if untimed is None else untimed
            if time_ns:
                untimed = None
            elif untimed is None:
                untimed = version
    return earliest if untimed is None else untimed


def clean(
    table_format: TableFormat[Entry, State], floor: int, tagged: Collection[int], *, commits_first: bool = False
) -> Conversation[tuple[str, ...]]:
    """Remove the commits below `floor`, and the log checkpoints that are then of no use, with their parts; returns their paths, in order.

    Nothing goes before the checkpoints are there that stand for it: two at the floor, and one at each tagged version below. With
    `commits_first` a checkpoint goes only when the commits that it stands for are gone. Raises CorruptTable where one cannot be made or
    read back, StoreError.
    """
    names = yield from perform(ListNames(table_format.folder))
    stay = {floor - 1, floor} | {version for version in tagged if version < floor}
    checkpoints = [
        stored for stored in table_format.checkpoints_in(names) if stored.version < floor and stored.version not in stay
    ]
    gone = _of_no_use(table_format, names, floor, stay, commits_first=commits_first)
    if floor <= table_format.first or not gone:
        return ()
    shared = _parts_of(table_format, (yield from _ensure_checkpoint(table_format, floor)))
    yield from _ensure_checkpoint(table_format, floor - 1, apart=shared)
    for version in sorted(stay - {floor, floor - 1}):
        yield from _ensure_checkpoint(table_format, version)
    if (hinted := (yield from read_hint(table_format))) is not None and hinted in checkpoints:
        yield from _point_to(table_format, floor)
    freed = yield from _parts_named(table_format, checkpoints)
    for path in gone:
        yield from perform(Delete(path))
    for path in (parts := sorted(freed - (yield from parts_in_use(table_format, freed)))):
        yield from perform(Delete(path))
    return (*gone, *parts)


def _of_no_use(
    table_format: TableFormat[Entry, State], names: Iterable[str], floor: int, stay: Collection[int], *, commits_first: bool
) -> list[str]:
    """What goes, in order: log checkpoints and pieces of such, then what lies aside, then commits; or commits before all of these."""
    first = floor - 1 if table_format.foreign_checkpoints else floor
    checkpoints, asides, commits = [], [], []
    for name in names:
        if (version := table_format.checkpoint_of(name)) is not None:
            checkpoints += [(version, name)] if version < floor and version not in stay else []
        elif (version := table_format.version_of(name)) is not None:
            commits += [(version, name)] if version < first else []
        elif (version := table_format.auxiliary_of(name)) is not None:
            asides += [(version, name)] if version < first else []
    beside = (*sorted(checkpoints), *sorted(asides))
    return [name for _, name in ((*sorted(commits), *beside) if commits_first else (*beside, *sorted(commits)))]


def _point_to(table_format: TableFormat[Entry, State], version: int) -> Conversation[None]:
    """Let the hint name our checkpoint of a version; the one that it named is to go."""
    path = table_format.checkpoint_path(version)
    data = yield from perform(Get(path))
    snapshot = yield from read_checkpoint(table_format, StoredCheckpoint(version, (path,)))
    if data is not None and snapshot is not None:
        yield from point_to_checkpoint(table_format, snapshot, len(data))


def parts_in_use(table_format: TableFormat[Entry, State], parts: Collection[str]) -> Conversation[frozenset[str]]:
    """Those of some parts, by path, that a stored log checkpoint names; all, where one cannot be told to name none. Raises StoreError."""
    if not parts:
        return frozenset()
    checkpoints = (yield from list_log(table_format)).checkpoints
    try:
        return (yield from _parts_named(table_format, checkpoints)) & frozenset(parts)
    except UnsupportedTable:
        return frozenset(parts)


def _parts_named(
    table_format: TableFormat[Entry, State], checkpoints: Sequence[StoredCheckpoint]
) -> Conversation[frozenset[str]]:
    """The parts, by path, that these log checkpoints name; a damaged one serves no one, and so names none."""
    named: set[str] = set()
    for first in range(0, len(checkpoints), _TOGETHER):
        some = checkpoints[first : first + _TOGETHER]
        asked = [objects_of(table_format, stored) for stored in some]
        found = iter((yield from perform(Concurrently(tuple(get for gets in asked for get in gets)))))
        for stored, gets in zip(some, asked, strict=True):
            pieces = tuple(islice(found, len(gets)))
            snapshot = None if pieces[0] is None else (yield from decode_objects(table_format, stored, pieces))
            named |= frozenset() if snapshot is None else _parts_of(table_format, snapshot)
    return frozenset(named)


def _ensure_checkpoint(
    table_format: TableFormat[Entry, State], version: int, *, apart: frozenset[str] = frozenset()
) -> Conversation[Snapshot[State]]:
    """See to it that a checkpoint of a version, with the name that ours have, is there and reads back; returns what it holds, with no part
    of `apart`.
    """
    path = table_format.checkpoint_path(version)
    stored = yield from perform(Get(path))
    found = None if stored is None else (yield from read_whole(table_format, StoredCheckpoint(version, (path,))))
    if found is not None and apart.isdisjoint(_parts_of(table_format, found)):
        return found
    snapshot = yield from load(table_format, version)
    if snapshot is None:
        raise lost_commit(table_format, version, "The log is there no more")
    if stored is not None:
        if found is not None and (yield from perform(Get(table_format.path_of(version)))) is None:
            return found  # nothing else tells of this version
        # A create would not replace it.
        yield from perform(Delete(path))
        if (checksum := table_format.checksum_path(path)) is not None:
            yield from perform(Delete(checksum))
    put, _ = yield from store_snapshot(table_format, snapshot, apart)
    if (found := (yield from read_whole(table_format, StoredCheckpoint(version, (path,))))) is not None:
        return found
    if put not in (Put.DONE, Put.LATE):
        raise StoreUnavailable(
            f"the write of the log checkpoint {path} was not confirmed",
            why="Whether it is stored is not known; the log was not cleaned",
            fix="Try again",
            path=path,
        )
    raise CorruptTable(
        f"the log checkpoint {path} was written and cannot be read back",
        why="The store lost or altered it; the log was not cleaned",
        fix="Check the disk or the bucket, then try again",
        path=path,
    )


def _parts_of(table_format: TableFormat[Entry, State], snapshot: Snapshot[State]) -> frozenset[str]:
    return frozenset(part.path for part in table_format.parts_of(snapshot))
