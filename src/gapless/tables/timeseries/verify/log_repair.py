"""Repair a log: commits for the numbers of lost ones, with what a later checkpoint says they did, or nothing. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from gapless.errors import CorruptTable
from gapless.formats.timeseries.actions import (
    Action,
    AddSegment,
    Commit,
    ExpireVersions,
    ForgetSegments,
    RemoveSegment,
    SetTag,
    SetTransaction,
    TableState,
    UpdateTableMeta,
)
from gapless.formats.timeseries.codec.metadata import with_features
from gapless.formats.timeseries.format import TIME_SERIES
from gapless.log.format import Snapshot
from gapless.runtime.committer import ENGINE
from gapless.tables.timeseries.verify.log_check import LogView
from gapless.tables.timeseries.verify.log_fold import Entry, RecoveredVersions, same_state

MAX_LOST = 10_000
"""More lost commits than this look like a damaged CURRENT."""
_TICK_NS = 1_000

Actions = dict[int, tuple[Action, ...]]


def fill_versions(view: LogView, schema: pa.Schema | None, now_ns: int, id_prefix: str) -> tuple[Entry, ...] | str:
    """Commits for all lost and damaged versions, or why none can stand there.

    `schema` is what a live segment holds, for a table whose own is lost. The commits are empty but for what a later
    checkpoint knows and the schema; with them the log replays, as far as it can be told, to what it was.
    """
    lost = [version for run in view.missing if len(run) <= MAX_LOST for version in run] + list(view.damaged)
    if not lost or len(lost) > MAX_LOST or any(len(run) > MAX_LOST for run in view.missing):
        return f"more than {MAX_LOST:,} versions are lost, so that a damaged CURRENT is likelier: look at it, and remove it if it is"
    actions: Actions = dict.fromkeys(lost, ())
    before = view.base.state if view.base else None
    times: dict[int, int] = {}
    for bridge in view.bridges:
        told = rebuild(bridge)
        if told is None:
            return f"what is left contradicts the log checkpoint of version {bridge.end}"
        actions |= told
        times |= _times(bridge)
    state = _replayed(view.entries, actions, times, before)
    if state is None:
        return "the commits that are left cannot stand without it"
    if state.meta.schema is None and state.live:
        start = next((version for version, commit, _ in view.entries if commit.meta is not None), 0)
        place = next((version for version in sorted(lost) if version > start), None)
        if schema is None or place is None:
            return "it said which columns the table has, and they cannot be told from what is left"
        actions[place] = (UpdateTableMeta(with_features(replace(state.meta, schema=schema))), *actions[place])
        if _replayed(view.entries, actions, times, before) is None:
            return "the commits that are left cannot stand without it"
    stamp = _Stamp(now_ns - now_ns % _TICK_NS, id_prefix, view.base.time_ns if view.base else None)
    return _timed(view.entries, actions, times, stamp)


def rebuild(bridge: RecoveredVersions) -> Actions | None:
    """What the versions of a bridge that cannot be read did, as far as it still shows; None where it does not add up."""
    read = _read(bridge)
    if bridge.end - bridge.start - len(read) > MAX_LOST:
        return None
    lost = [version for version in range(bridge.start + 1, bridge.end + 1) if version not in read]
    if not lost:
        return None
    actions: dict[int, list[Action]] = {version: [] for version in lost}
    for live in bridge.after.live.values():
        if live.version in actions:
            actions[live.version].append(AddSegment(live.segment))
    for known in bridge.after.applied.values():
        if known.version in actions:
            actions[known.version].append(SetTransaction(known.operation, known.tally, known.kind))
    for path, version in _removals(bridge, actions.keys()):
        actions[version].append(RemoveSegment(path))
    for meta in ([], [UpdateTableMeta(bridge.after.meta)]):
        told = {version: (*(meta if version == lost[0] else ()), *done) for version, done in actions.items()}
        state = _replayed(bridge.entries, told, _times(bridge), bridge.before)
        if state is None:
            continue
        told[lost[-1]] += tuple(_maintenance(state, bridge.after))
        state = _replayed(bridge.entries, told, _times(bridge), bridge.before)
        if state is not None and same_state(state, Snapshot(bridge.end, bridge.time_ns, bridge.after)):
            return told
    return None


def _removals(bridge: RecoveredVersions, lost: Collection[int]) -> Iterator[tuple[str, int]]:
    """The segments that lost versions removed, each with the version that did, or the last lost one where that is not known."""
    for path in sorted(_live_paths(bridge)):
        live, tombstone = bridge.after.live.get(path), bridge.after.removed.get(path)
        if live is None or live.version in lost:
            yield path, tombstone.removed if tombstone is not None and tombstone.removed in lost else max(lost)


def _maintenance(state: TableState, after: TableState) -> Iterator[Action]:
    """What vacuum, expiry and tags did, where a state that lacks it should be `after`."""
    if forgotten := sorted(state.removed.keys() - after.removed.keys()):
        yield ForgetSegments(tuple(forgotten))
    for name in sorted(state.tags.keys() | after.tags.keys()):
        if state.tags.get(name) != after.tags.get(name):
            yield SetTag(name, after.tags.get(name))
    if after.earliest > state.earliest:
        yield ExpireVersions(after.earliest)


def _live_paths(bridge: RecoveredVersions) -> set[str]:
    """Paths that would be live after the bridge if the lost versions had removed nothing."""
    paths = set(bridge.before.live) if bridge.before else set()
    for _, commit, _ in bridge.entries:
        paths |= {segment.path for segment in commit.added}
        paths -= {action.path for action in commit.actions if isinstance(action, RemoveSegment)}
    return paths


def _times(bridge: RecoveredVersions) -> dict[int, int]:
    """Commit times of lost versions, where the checkpoint has them."""
    known = {applied.version: applied.time_ns for applied in bridge.after.applied.values()}
    known |= {gone.removed: gone.removed_ns for gone in bridge.after.removed.values()}
    return known | {bridge.end: bridge.time_ns}


def _read(bridge: RecoveredVersions) -> frozenset[int]:
    return frozenset(version for version, _, _ in bridge.entries)


def _replayed(
    entries: Sequence[Entry], actions: Actions, times: Mapping[int, int], before: TableState | None = None
) -> TableState | None:
    try:
        return TIME_SERIES.replay(
            before, _merged(entries, {v: (_commit(done, ""), times.get(v, 0)) for v, done in actions.items()})
        )
    except CorruptTable:
        return None


def _merged(entries: Sequence[Entry], fillers: Mapping[int, tuple[Commit, int]]) -> list[Entry]:
    return sorted([*entries, *((version, *filler) for version, filler in fillers.items())], key=lambda entry: entry[0])


def _commit(actions: tuple[Action, ...], commit_id: str) -> Commit:
    return Commit(id=commit_id, operation="repair", engine=ENGINE, parameters={"accept_loss": True}, actions=actions)


@dataclass(frozen=True, slots=True)
class _Stamp:
    now_ns: int
    id_prefix: str
    start_ns: int | None
    """Commit time of the log checkpoint at which the log starts."""


def _timed(entries: Sequence[Entry], actions: Actions, times: Mapping[int, int], stamp: _Stamp) -> tuple[Entry, ...]:
    """The fillers with their commit times: those that are known, else just after the commit before and never past the one after."""
    known = {**{version: times[version] for version in actions if version in times}, **{v: time for v, _, time in entries}}
    fillers: list[Entry] = []
    before = stamp.start_ns
    for version, following in _with_following(sorted({*actions, *known}), known):
        time_ns = known.get(version)
        if time_ns is None:
            bound = stamp.now_ns if following is None else following
            after = bound if before is None else before + _TICK_NS
            time_ns = max(after, bound) if following is None else min(after, following)
        before = time_ns
        if version in actions:
            fillers.append((version, _commit(actions[version], f"{stamp.id_prefix}-{version}"), time_ns))
    return tuple(fillers)


def _with_following(versions: Sequence[int], known: Mapping[int, int]) -> list[tuple[int, int | None]]:
    """Each version with the next known commit time after it."""
    following: int | None = None
    found: list[tuple[int, int | None]] = []
    for version in reversed(versions):
        found.append((version, following))
        following = known.get(version, following)
    return found[::-1]
