"""The conversations that clean a log of commits which no version that is kept needs.

A cleaned log starts at a log checkpoint. Of the first version whose commit stays and of the one before it a checkpoint was read back,
so that either serves where the other is damaged. Commits go in order: where one is there, all after it are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from gapless.errors import CorruptTable, StoreUnavailable
from gapless.log.checkpoint import point_to_checkpoint, read_checkpoint, read_hint
from gapless.log.dialect import Dialect, Entry, State
from gapless.log.requests import Delete, Get, ListNames, Put, PutNew, Talk, ask
from gapless.log.snapshot import load, lost


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
    """Remove the commits below `floor`, and the log checkpoints that are then of no use; returns their paths, in order.

    Nothing goes before the checkpoints are there that stand for it: two at the floor, and one at each tagged version below. Raises
    CorruptTable where one cannot be made or read back, StoreError.
    """
    names = yield from ask(ListNames(dialect.folder))
    stay = {floor - 1, floor} | {version for version in tagged if version < floor}
    commits = sorted(v for name in names if (v := dialect.version_of(name)) is not None and v < floor)
    checkpoints = sorted(c for name in names if (c := dialect.checkpoint_of(name)) is not None and c < floor and c not in stay)
    if floor < 2 or not (commits or checkpoints):
        return ()
    for version in sorted(stay):
        yield from _ensure_checkpoint(dialect, version)
    if (yield from read_hint(dialect)) in checkpoints:
        yield from point_to_checkpoint(dialect, floor)
    gone = [*map(dialect.checkpoint_path, checkpoints), *map(dialect.path_of, commits)]
    for path in gone:
        yield from ask(Delete(path))
    return tuple(gone)


def _ensure_checkpoint(dialect: Dialect[Entry, State], version: int) -> Talk[None]:
    """See to it that a version's checkpoint is there and reads back."""
    path = dialect.checkpoint_path(version)
    if (yield from ask(Get(path))) is not None:
        if (yield from read_checkpoint(dialect, version)) is not None:
            return
        # Damaged, it serves no one, and a create would not replace it.
        yield from ask(Delete(path))
    snapshot = yield from load(dialect, version)
    if snapshot is None:
        raise lost(dialect, version, "The log is there no more")
    put = yield from ask(PutNew(path, dialect.encode_checkpoint(snapshot)))
    if (yield from read_checkpoint(dialect, version)) is None:
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


def _commits(dialect: Dialect[Entry, State]) -> Talk[Sequence[int]]:
    names: Iterable[str] = yield from ask(ListNames(dialect.folder))
    return sorted(version for name in names if (version := dialect.version_of(name)) is not None)
