"""Which parts of log checkpoints are in use, and which of the others can be named by none any more."""

from __future__ import annotations

from collections.abc import Iterable

from gapless.dialects.timeseries.actions import TableState
from gapless.dialects.timeseries.dialect import TIME_SERIES
from gapless.errors import CorruptTable, StoreError, VersionNotFound
from gapless.log.checkpoint_writing import store_snapshot
from gapless.log.cleanup import parts_in_use
from gapless.log.dialect import Snapshot
from gapless.log.requests import Get, ListNames, Talk, ask
from gapless.log.snapshot import load
from gapless.maintain.vacuum_plan import Limits, PartsInUse
from gapless.model.protocols import ObjectInfo


def survey_parts(
    stored: Iterable[ObjectInfo], snapshot: Snapshot[TableState], limits: Limits, *, dry_run: bool
) -> Talk[PartsInUse]:
    """What the log checkpoints say of the stored parts, which were listed before.

    A writer that hangs between a part and the checkpoint that names it may still store that one. So, but for a dry run, the checkpoint
    is stored in its place first: then it comes too late. Raises StoreError.
    """
    parts = {info.path: info for info in stored if TIME_SERIES.part_of(info.path) is not None}
    if not parts:
        return PartsInUse()
    named = yield from parts_in_use(TIME_SERIES, parts.keys())
    stray = (info for path, info in parts.items() if path not in named and limits.is_stray(info.modified_ns))
    owing = {version for info in stray if (version := TIME_SERIES.part_of(info.path)) is not None}
    there = set(map(TIME_SERIES.checkpoint_of, (yield from ask(ListNames(TIME_SERIES.folder)))))
    settled: set[int] = set()
    for version in sorted(owing):
        if version in there or (version <= snapshot.version and (dry_run or (yield from _forestall(version)))):
            settled.add(version)
    return PartsInUse(named=named, settled=frozenset(settled))


def _forestall(version: int) -> Talk[bool]:
    """See to it that no one else can store the checkpoint of a version any more; False where that failed."""
    try:
        snapshot = yield from load(TIME_SERIES, version)
        if snapshot is None:
            return False
        yield from store_snapshot(TIME_SERIES, snapshot)
        return (yield from ask(Get(TIME_SERIES.checkpoint_path(version)))) is not None
    except VersionNotFound:
        return True  # the log was cleaned past it: a checkpoint of it leads nowhere
    except (CorruptTable, StoreError):
        return False
