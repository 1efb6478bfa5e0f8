"""Apply one correction to one version: the segments it affects, the files that replace them, and where new rows go."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from gapless.coverage.bitmap import CoverageMap
from gapless.files.sort.run import Run
from gapless.files.write.staged_write import StagedWrite
from gapless.formats.timeseries.replay import segments_covering
from gapless.model.operation import Tally
from gapless.model.segment import Segment
from gapless.tables.timeseries.correct.rewrite_segment import SegmentRewriter
from gapless.tables.timeseries.correct.row_selection import BaseVersion, RowSelector


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """New rows, by the segment whose successor takes them."""

    homes: dict[str, Run]
    """By the segment's path; each holds rows."""
    rest: Run
    """Rows that belong to no segment that is there."""


def place(rows: Run, holders: Sequence[tuple[Segment, CoverageMap]]) -> Placement:
    """Put rows where their bucket is covered already, so that no two segments cover one; where several do, the last takes them. Pure.

    `holders` are the live segments, in their order, that may cover a bucket of the rows, with what they cover.
    """
    homes: dict[str, Run] = {}
    free = np.ones(rows.table.num_rows, dtype=bool)
    for path, common in homes_of(rows.coverage, holders).items():
        at = rows.positions(common)
        free[at] = False
        homes[path] = rows.take(at)
    return Placement(homes=homes, rest=rows.take(np.flatnonzero(free)))


def homes_of(coverage: CoverageMap, holders: Sequence[tuple[Segment, CoverageMap]]) -> dict[str, CoverageMap]:
    """By segment, the buckets of `coverage` whose rows its successor takes; see `place`. Pure."""
    homes: dict[str, CoverageMap] = {}
    for segment, covered in reversed(holders):
        common = coverage.intersection(covered)
        if common:
            coverage = coverage.difference(common)
            homes[segment.path] = common
    return homes


@dataclass(frozen=True, slots=True)
class RowChanges:
    """What a correction does to one version."""

    rows: Run
    """What comes, in declared types."""
    cut: RowSelector
    """What goes."""
    skipped_rows: int = 0
    """How many more came and were left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteResult:
    """What was written for some changes, beside the segments of the attempt."""

    removed: tuple[str, ...]
    """Paths of the segments that go."""
    coverage: CoverageMap
    """What the new rows cover."""
    tally: Tally
    keeps_overlaps: bool
    """Whether buckets of the segments that were written are covered by others too, as they were before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AffectedFiles:
    """Which segments of a version a change may touch, as far as that shows without reading them."""

    reached: frozenset[str]
    """Paths of those from which rows may go."""
    dropped: tuple[Segment, ...]
    """Those of which every row certainly goes."""
    holders: tuple[tuple[Segment, CoverageMap], ...]
    """Those that may cover a bucket of the new rows, in their order, with what they cover."""

    @classmethod
    def of(cls, before: BaseVersion, cut: RowSelector, coverage: CoverageMap) -> AffectedFiles:
        """What rows that go by `cut`, and rows that come and have this coverage, touch; raises CorruptTable, StoreError."""
        segments = before.state.segments
        reach = {s.path: cut.reach(s, partial(before.coverage, s)) for s in cut.near(segments)}
        return cls(
            reached=frozenset(path for path, how in reach.items() if how == "some"),
            dropped=tuple(segment for segment in segments if reach.get(segment.path) == "all"),
            holders=tuple((s, before.coverage(s)) for s in segments_covering(before.state, coverage, before.grid)),
        )

    @property
    def lasting(self) -> list[tuple[Segment, CoverageMap]]:
        """The holders that are not dropped."""
        gone = {segment.path for segment in self.dropped}
        return [(segment, covered) for segment, covered in self.holders if segment.path not in gone]

    def replaced(self, coverage: CoverageMap) -> int:
        """How many buckets of the new rows' coverage the version covers."""
        return CoverageMap.union_of(covered for _, covered in self.holders).intersection(coverage).cardinality()


def rewrite_affected(before: BaseVersion, changes: RowChanges, attempt: StagedWrite) -> RewriteResult:
    """Write what takes the place of the segments that the changes affect, as segments of `attempt`.

    A new row goes into the successor of the segment that covers its bucket, if one does. A segment whose rows would be what they are stays.
    Segments of which every row certainly goes are not read. Raises CorruptTable, StoreError.
    """
    cut, coverage = changes.cut, changes.rows.coverage
    affected = AffectedFiles.of(before, cut, coverage)
    placement = place(changes.rows, affected.lasting)
    writer = SegmentRewriter(before=before, cut=cut, attempt=attempt)
    rewritten = []
    for segment in before.state.segments:
        arrivals = placement.homes.get(segment.path)
        if arrivals is not None or (segment.path in affected.reached and writer.loses_rows(segment)):
            rewritten += [segment] if writer.succeed(segment, arrivals) else []
    writer.write_new(placement.rest)
    removed = [*affected.dropped, *rewritten]
    tally = Tally(
        rows=changes.rows.table.num_rows,
        segments=len(attempt.segments),
        buckets=coverage.cardinality(),
        skipped_rows=changes.skipped_rows,
        removed_rows=writer.losses.rows + sum(segment.rows for segment in affected.dropped),
        removed_segments=len(removed),
        replaced_buckets=affected.replaced(coverage),
        updated_rows=writer.losses.keys,
    )
    if not removed and not attempt.segments:
        # Every row that comes is there already.
        tally = Tally(skipped_rows=changes.skipped_rows)
    paths = tuple(segment.path for segment in removed)
    return RewriteResult(
        removed=paths, coverage=coverage, tally=tally, keeps_overlaps=keeps_overlaps(before, attempt.coverage, frozenset(paths))
    )


def keeps_overlaps(before: BaseVersion, added: Iterable[CoverageMap], removed: frozenset[str]) -> bool:
    """Whether a segment that is added covers a bucket of one that stays; `removed` are the paths of those that do not."""
    return any(
        not covered.is_disjoint(before.coverage(other))
        for covered in added
        for other in segments_covering(before.state, covered, before.grid)
        if other.path not in removed
    )
