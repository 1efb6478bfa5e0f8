"""Plan the VACUUM of a time-series table: which files go, and why each of the others stays. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gapless.formats.timeseries.actions import (
    CLAIMS_FOLDER,
    COVERAGE_FOLDER,
    DATA_FOLDER,
    OwnName,
    Removed,
    TableState,
    parse_own_name,
)
from gapless.formats.timeseries.format import TIME_SERIES
from gapless.formats.timeseries.replay import sidecars_of
from gapless.model.protocols import ObjectInfo
from gapless.store.location import is_own_unfinished
from gapless.tables.shared.prepared import PREPARED_FOLDER
from gapless.tables.shared.vacuum import FileStatus, Limits, VacuumEntry, VacuumPlan, is_below, plan_entries


@dataclass(frozen=True, slots=True, kw_only=True)
class PartsInUse:
    """What log checkpoints say of the objects in the folder of their parts."""

    named: frozenset[str] = frozenset()
    """The paths that a stored checkpoint names."""
    settled: frozenset[int] = frozenset()
    """Versions whose checkpoint is there, or can come no more: what was written for it, and is not named, never will be."""

    def status_of(self, info: ObjectInfo, limits: Limits) -> FileStatus | None:
        """What becomes of a part; None for any other object."""
        version = TIME_SERIES.part_of(info.path)
        if version is None:
            return None
        if info.path in self.named:
            return FileStatus("live")
        waits = limits.is_orphan(info.modified_ns) and version not in self.settled
        return FileStatus("in-flight" if waits else limits.reason_of_unnamed(info.modified_ns))


def plan_vacuum(
    state: TableState,
    stored: Sequence[ObjectInfo],
    limits: Limits,
    *,
    linked: frozenset[str] = frozenset(),
    parts: PartsInUse = PartsInUse(),
    prepared: frozenset[str] = frozenset(),
) -> VacuumPlan:
    """Judge each stored object by the newest state; `linked` are folders that symbolic links lead to, in which nothing may go, `prepared`
    the paths that prepared commits keep.

    Every object was listed before the state and `parts` were read: one that was committed in between is then named by them.
    """
    named = _named(state, limits)
    by_id = {name.file_id: status for path, status in named.items() if (name := parse_own_name(path)) is not None}
    names = {info.path: parse_own_name(info.path) for info in stored}
    written = _last_written(stored, names)

    def status_of(info: ObjectInfo) -> FileStatus:
        name = names[info.path]
        if info.path in named:
            return named[info.path]
        if info.path in prepared:
            return FileStatus("prepared")
        if name is not None:
            # A segment's coverage is kept or deleted with the segment.
            return by_id.get(name.file_id) or FileStatus(limits.reason_of_unnamed(written[name.file_id]))
        if status := parts.status_of(info, limits):
            return status
        ours = is_own_unfinished(info.path) or info.path.startswith((f"{PREPARED_FOLDER}/", f"{CLAIMS_FOLDER}/"))
        return FileStatus(limits.reason_of_unnamed(info.modified_ns) if ours else "unknown")

    entries = plan_entries(stored, status_of, linked)
    return VacuumPlan(entries=entries, forget=_forgotten(state, named, entries, linked))


def _named(state: TableState, limits: Limits) -> dict[str, FileStatus]:
    """The status of every path that the state names; a path that is live again is live."""
    named: dict[str, FileStatus] = {}
    for gone in state.removed.values():
        named |= dict.fromkeys((gone.path, *gone.sidecars), _status_of(gone, state, limits))
    for live in state.live.values():
        named |= dict.fromkeys((live.segment.path, *sidecars_of(live.segment)), FileStatus("live"))
    return named


def _status_of(gone: Removed, state: TableState, limits: Limits) -> FileStatus:
    if max(gone.added, state.earliest) < gone.removed:
        return FileStatus("retained", gone.removed - 1)
    for tag, version in sorted(state.tags.items()):
        if gone.added <= version < gone.removed:
            return FileStatus("tagged", version, tag)
    return FileStatus("recent" if limits.now_ns - gone.removed_ns < limits.older_than_ns else "expired")


def _last_written(stored: Iterable[ObjectInfo], names: Mapping[str, OwnName | None]) -> dict[str, int]:
    """By file id, the last sign that a segment or its coverage was being written: its instant, or the store's time of either."""
    written: dict[str, int] = {}
    for info in stored:
        name = names[info.path]
        if name is not None:
            signs = (info.modified_ns, name.instant_ns or info.modified_ns, written.get(name.file_id, info.modified_ns))
            written[name.file_id] = max(signs)
    return written


def _forgotten(
    state: TableState, named: dict[str, FileStatus], entries: Iterable[VacuumEntry], linked: frozenset[str]
) -> tuple[str, ...]:
    """Segments that the log is to forget: what goes of them, and what is known to be of no use though no file is there; and what goes of
    files that were never committed, coverage too, whose segment its writer may not have stored yet.
    """
    segments = (f"{DATA_FOLDER}/", f"{COVERAGE_FOLDER}/")
    expired = {path for path in state.removed if named[path].reason == "expired" and not is_below(path, linked)}
    orphans = {entry.path for entry in entries if entry.reason == "orphan" and not is_own_unfinished(entry.path)}
    return tuple(sorted(path for path in expired | orphans if path.startswith(segments)))
