"""Scan planning: which segments are read, and in which order. Pure.

Rows of one identity always come in index order. Segments whose ranges do not overlap are read one after another; those that do are
sorted together, in windows of the index where they would not fit in memory at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa

from gapless.model.column_ids import ColumnIds
from gapless.model.index import Identity, IndexSpec
from gapless.model.segment import Segment
from gapless.model.stats import ColumnStats
from gapless.predicate.predicate import Predicate
from gapless.predicate.prune import StatsOf, compile_pruner

SORT_BYTES = 128 << 20
"""What segments that overlap may take in Arrow's memory to be sorted together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadGroup:
    """Segments that are read together; groups are read in their order."""

    segments: tuple[Segment, ...]
    sort: bool
    """Whether the rows must be sorted: not where one segment holds them in order already."""
    windows: tuple[tuple[int, int], ...] = ()
    """Where the group is too large to sort at once: index ranges `[start, end)` to sort one by one."""


def known_stats(segment: Segment, index: IndexSpec, ids: ColumnIds) -> dict[str, ColumnStats]:
    """What the log knows of a segment's columns, by the names that `ids` give them: the log has stored names."""
    # Other writers leave rows without an index value, which no bound speaks of.
    return {**ids.named(segment.stats), index.column: ColumnStats(min=segment.bounds.first, max=segment.bounds.last)}


def stats_of(segment: Segment, index: IndexSpec, ids: ColumnIds) -> StatsOf:
    """`known_stats` of the columns that are asked for, by their declared names."""
    stats, bounds = segment.stats, segment.bounds
    return lambda name: (
        ColumnStats(min=bounds.first, max=bounds.last) if name == index.column else stats.get(ids.stored_name(name))
    )


def prune(
    segments: Iterable[Segment], predicate: Predicate, index: IndexSpec, schema: pa.Schema, ids: ColumnIds
) -> tuple[Segment, ...]:
    """The segments that may hold a row the predicate keeps; `schema` and `ids` are the table's."""
    matches = compile_pruner(predicate, schema)
    return tuple(s for s in segments if matches(stats_of(s, index, ids), s.rows))


def plan_groups(segments: Iterable[Segment], index: IndexSpec, schema: pa.Schema, *, by_index: bool) -> tuple[ReadGroup, ...]:
    """Put segments in reading order.

    Within each identity rows then come in index order; with `by_index` over all identities. `schema` holds the columns that
    will be read, for an estimate of their memory.
    """
    limit = max(1, SORT_BYTES // row_bytes(schema))
    groups = []
    for together in _components(tuple(segments), apart=bool(index.entity) and not by_index):
        sort = len(together) > 1 or not _is_sorted(together[0], index, by_index=by_index)
        groups.append(ReadGroup(segments=together, sort=sort, windows=index_windows(together, limit) if sort else ()))
    return tuple(groups)


def _is_sorted(segment: Segment, index: IndexSpec, *, by_index: bool) -> bool:
    if segment.sorted_by != index.keys:
        return False
    return not by_index or segment.identity is not None


def _components(segments: Sequence[Segment], *, apart: bool) -> list[tuple[Segment, ...]]:
    """Maximal sets of segments linked by overlap, in index order; identities `apart` where each segment holds just one."""
    by_identity: dict[Identity | None, list[Segment]] = {}
    apart = apart and all(s.identity is not None for s in segments)
    for segment in segments:
        by_identity.setdefault(segment.identity if apart else None, []).append(segment)
    components: list[list[Segment]] = []
    for members in by_identity.values():
        last: int | None = None
        for segment in sorted(members, key=lambda s: (s.bounds.first, s.bounds.last, s.path)):
            if last is None or segment.bounds.first >= last:
                components.append([])
            components[-1].append(segment)
            last = segment.bounds.last if last is None else max(last, segment.bounds.last)
    return [tuple(component) for component in components]


def index_windows(segments: Sequence[Segment], limit: int) -> tuple[tuple[int, int], ...]:
    """Cut the segments' common range into windows `[start, end)` of about `limit` rows each, as if their rows were spread evenly.

    None where all their rows together are no more than `limit`.
    """
    if sum(s.rows for s in segments) <= limit:
        return ()
    # Rows per step as whole numbers of 2**-96, so that what a segment adds is taken away to the last bit.
    change: dict[int, int] = defaultdict(int)
    for s in segments:
        density = (s.rows << 96) // (s.bounds.last + 1 - s.bounds.first)
        change[s.bounds.first] += density
        change[s.bounds.last + 1] -= density
    points, full = sorted(change), limit << 96
    edges, density, held = [points[0]], 0, 0
    for at, end in pairwise(points):
        density += change[at]
        while held + density * (end - at) >= full and at < end:
            at = min(end, at + max(1, (full - held) // density))  # noqa: PLW2901  # the rest of this stretch
            edges.append(at)
            held = 0
        held += density * (end - at)
    ends = edges[1:] if edges[-1] == points[-1] else [*edges[1:], points[-1]]
    return tuple(zip(edges, ends, strict=False))


def row_bytes(schema: pa.Schema) -> int:
    """A guess of one row's Arrow memory."""
    return max(1, sum(_type_bytes(field.type) for field in schema))


def _type_bytes(kind: pa.DataType) -> int:
    try:
        return max(1, int(kind.bit_width) // 8)
    except ValueError:
        return 32 * max(1, int(kind.num_fields))
