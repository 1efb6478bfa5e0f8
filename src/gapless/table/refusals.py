"""The errors a write ends with, from the values that say why."""

from __future__ import annotations

from gapless.coverage.bitmap import bias, clip
from gapless.coverage.bucket import Grid
from gapless.coverage.overlap import Overlap
from gapless.dialects.timeseries.actions import TableState
from gapless.dialects.timeseries.live import segments_meeting
from gapless.errors import CommitOutcomeUnknown, CoverageOverlap
from gapless.model.index import EntityType, Identity, IndexSpec
from gapless.table.coverage import CoverageCache
from gapless.table.values import format_index_value, presenter


def overlap_error(
    state: TableState, cache: CoverageCache, found: Overlap, types: tuple[EntityType, ...], grid: Grid
) -> CoverageOverlap:
    """The refusal of an append, naming the commit that covers its first overlapping bucket."""
    start, end = grid.start(found.first), grid.end(found.first)
    version = None
    stored = found.first + bias(signed=grid.signed)
    wanted = frozenset({found.identity})
    for segment in segments_meeting(state, start, end, wanted):
        bitmap = cache.of(segment, types, wanted).get(found.identity)
        if bitmap is not None and clip(bitmap, stored, stored + 1):
            version = state.live[segment.path].version
            break
    return refuse_overlap(state, found, grid, version)


def refuse_overlap(state: TableState, found: Overlap, grid: Grid, version: int | None) -> CoverageOverlap:
    """The refusal of an append whose buckets version `version` covers."""
    index = state.meta.index
    start, end = grid.start(found.first), grid.end(found.last)
    who = f" for {format_identity(index, found.identity)}" if index.entity else ""
    others = found.identities - 1
    more = f" and overlaps {others} more identit{'y' if others == 1 else 'ies'}" if others else ""
    span = f"[{format_index_value(start, index)}, {format_index_value(end, index)})"
    present = presenter(index, state.meta.schema)
    return CoverageOverlap(
        f"the table already covers {span}{who}{more}: {found.buckets:,} bucket{'s' * (found.buckets != 1)}",
        why=f"{'An earlier commit' if version is None else f'Version {version}'} holds rows there; nothing was written",
        fix='Pass on_overlap="skip" to keep what is there and append the rest, or on_overlap="allow" to hold both',
        identity=found.identity,
        start=present(start),
        end=present(end),
        buckets=found.buckets,
        identities=found.identities,
        version=version,
    )


def group_interrupted() -> CommitOutcomeUnknown:
    """The error for an append whose group's leading thread was interrupted."""
    return CommitOutcomeUnknown(
        "whether the append landed is not known",
        why="It shared a commit with others, and the thread that led them was interrupted",
        fix="Look for its rows, or send it again; with an operation_id that is harmless",
        version=0,
        commit_id="",
    )


def format_identity(index: IndexSpec, identity: Identity) -> str:
    """`symbol='AAPL', venue=7`."""
    return ", ".join(f"{name}={value!r}" for name, value in zip(index.entity, identity, strict=True))
