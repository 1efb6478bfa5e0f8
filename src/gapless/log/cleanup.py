"""The conversations that clean a log of commits which no version that is kept needs.

A cleaned log starts at a log checkpoint. Of the first version whose commit stays and of the one before it a checkpoint was read back,
and no part is in both, so that either serves where the other is damaged. Commits go in order: where one is there, all after it are.
Last go the parts that only removed checkpoints named.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from gapless.errors import CorruptTable, StoreUnavailable, UnsupportedTable
from gapless.log.checkpoint import decode_read, point_to_checkpoint, read_hint, read_whole
from gapless.log.checkpoint_writing import store_snapshot
from gapless.log.dialect import Dialect, Snapshot, State
from gapless.log.requests import Delete, Get, ListNames, Put, Talk, Together, ask
from gapless.log.snapshot import load, lost
from gapless.log.verdict import Entry

_TOGETHER = 32
"""Log checkpoints that are read at a time."""


def find_floor(dialect: Dialect[Entry, State], earliest: int, cutoff_ns: int) -> Talk[int]:
    """The first version whose commit must stay: `earliest`, or one before it that was committed after `cutoff_ns` (since 1970 UTC).

    Reads each commit before it; raises CorruptTable where one cannot be read.
    """
    for version in (yield from _commits(dialect)):
        if version >= earliest:
            break
        data = yield from ask(Get(dialect.path_of(version)))
        if data is not None and dialect.decode(data, version)[1] > cutoff_ns:
            return version
    return earliest


def clean(dialect: Dialect[Entry, State], floor: int, tagged: Collection[int]) -> Talk[tuple[str, ...]]:
    """Remove the commits below `floor`, and the log checkpoints that are then of no use, with their parts; returns their paths, in order.

    Nothing goes before the checkpoints are there that stand for it: two at the floor, and one at each tagged version below. Raises
    CorruptTable where one cannot be made or read back, StoreError.
    """
    names = yield from ask(ListNames(dialect.folder))
    stay = {floor - 1, floor} | {version for version in tagged if version < floor}
    commits = sorted(v for name in names if (v := dialect.version_of(name)) is not None and v < floor)
    checkpoints = sorted(c for name in names if (c := dialect.checkpoint_of(name)) is not None and c < floor and c not in stay)
    if floor < 2 or not (commits or checkpoints):
        return ()
    shared = yield from _ensure_checkpoint(dialect, floor)
    yield from _ensure_checkpoint(dialect, floor - 1, apart=shared)
    for version in sorted(stay - {floor, floor - 1}):
        yield from _ensure_checkpoint(dialect, version)
    if (yield from read_hint(dialect)) in checkpoints:
        yield from point_to_checkpoint(dialect, floor)
    freed = yield from _parts_named(dialect, checkpoints)
    gone = [*map(dialect.checkpoint_path, checkpoints), *map(dialect.path_of, commits)]
    for path in gone:
        yield from ask(Delete(path))
    for path in (parts := sorted(freed - (yield from parts_in_use(dialect, freed)))):
        yield from ask(Delete(path))
    return (*gone, *parts)


def parts_in_use(dialect: Dialect[Entry, State], parts: Collection[str]) -> Talk[frozenset[str]]:
    """Those of some parts, by path, that a stored log checkpoint names; all, where one cannot be told to name none. Raises StoreError."""
    if not parts:
        return frozenset()
    names = yield from ask(ListNames(dialect.folder))
    checkpoints = [version for name in names if (version := dialect.checkpoint_of(name)) is not None]
    try:
        return (yield from _parts_named(dialect, checkpoints)) & frozenset(parts)
    except UnsupportedTable:
        return frozenset(parts)


def _parts_named(dialect: Dialect[Entry, State], checkpoints: Sequence[int]) -> Talk[frozenset[str]]:
    """The parts, by path, that the log checkpoints of these versions name; a damaged one serves no one, and so names none."""
    named: set[str] = set()
    for first in range(0, len(checkpoints), _TOGETHER):
        some = checkpoints[first : first + _TOGETHER]
        found = yield from ask(Together(tuple(Get(dialect.checkpoint_path(version)) for version in some)))
        for version, data in zip(some, found, strict=True):
            snapshot = None if data is None else (yield from decode_read(dialect, version, data))
            named |= frozenset() if snapshot is None else _parts_of(dialect, snapshot)
    return frozenset(named)


def _ensure_checkpoint(
    dialect: Dialect[Entry, State], version: int, *, apart: frozenset[str] = frozenset()
) -> Talk[frozenset[str]]:
    """See to it that a version's checkpoint is there and reads back; returns the paths of its parts, none of which is in `apart`."""
    path = dialect.checkpoint_path(version)
    stored = yield from ask(Get(path))
    found = None if stored is None else (yield from read_whole(dialect, version))
    if found is not None and apart.isdisjoint(named := _parts_of(dialect, found)):
        return named
    snapshot = yield from load(dialect, version)
    if snapshot is None:
        raise lost(dialect, version, "The log is there no more")
    if stored is not None:
        if found is not None and (yield from ask(Get(dialect.path_of(version)))) is None:
            return named  # nothing else tells of this version
        # A create would not replace it.
        yield from ask(Delete(path))
    put = yield from store_snapshot(dialect, snapshot, apart)
    if (found := (yield from read_whole(dialect, version))) is not None:
        return _parts_of(dialect, found)
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


def _parts_of(dialect: Dialect[Entry, State], snapshot: Snapshot[State]) -> frozenset[str]:
    return frozenset(part.path for part in dialect.parts_of(snapshot))


def _commits(dialect: Dialect[Entry, State]) -> Talk[Sequence[int]]:
    names: Iterable[str] = yield from ask(ListNames(dialect.folder))
    return sorted(version for name in names if (version := dialect.version_of(name)) is not None)
