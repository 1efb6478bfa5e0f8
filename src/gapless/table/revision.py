"""One correction made to one version of a table: which segments it touches, and what takes their place."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from gapless.coverage.bitmap import CoverageMap
from gapless.dialects.timeseries.actions import TableMeta
from gapless.dialects.timeseries.live import live_meeting
from gapless.model.report import Tally
from gapless.parquet.attempt import Attempt
from gapless.parquet.run import Run
from gapless.table.before import Before
from gapless.table.cut import Cut
from gapless.table.placement import place
from gapless.table.successor import SuccessorWriter


@dataclass(frozen=True, slots=True)
class Decision:
    """What a correction does to one version."""

    rows: Run
    """What comes, in declared types."""
    cut: Cut
    """What goes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """What was written for a decision, beside the segments of the attempt."""

    removed: tuple[str, ...]
    """Paths of the segments that go."""
    coverage: CoverageMap
    """What the new rows cover."""
    tally: Tally
    keeps_overlaps: bool
    """Whether buckets of the segments that were written are covered by others too, as they were before."""


def revise(before: Before, meta: TableMeta, decision: Decision, attempt: Attempt) -> Revision:
    """Write what takes the place of the segments that the decision touches, as segments of `attempt`.

    `meta` is the table's after the change. A new row goes into the successor of the segment that covers its bucket, if one does. Segments
    of which every row certainly goes are not read. Raises CorruptTable, StoreError.
    """
    cut, segments, coverage = decision.cut, before.state.segments, decision.rows.coverage
    reach = {s.path: cut.reach(s, partial(before.coverage, s)) for s in cut.near(segments)}
    dropped = [segment for segment in segments if reach.get(segment.path) == "all"]
    holders = [(s, before.coverage(s)) for s in live_meeting(before.state, coverage, before.grid)]
    placement = place(decision.rows, [(s, covered) for s, covered in holders if reach.get(s.path) != "all"])
    writer = SuccessorWriter(before=before, meta=meta, cut=cut, attempt=attempt)
    rewritten = []
    for segment in segments:
        arrivals, reached = placement.homes.get(segment.path), reach.get(segment.path)
        if arrivals is not None or (reached == "some" and writer.loses_rows(segment)):
            writer.succeed(segment, arrivals)
            rewritten.append(segment)
    writer.write_new(placement.rest)
    removed = [*dropped, *rewritten]
    covered_before = CoverageMap.union_of(covered for _, covered in holders).intersection(coverage)
    tally = Tally(
        rows=decision.rows.table.num_rows,
        segments=len(attempt.segments),
        buckets=coverage.cardinality(),
        removed_rows=writer.losses.rows + sum(segment.rows for segment in dropped),
        removed_segments=len(removed),
        replaced_buckets=covered_before.cardinality(),
        updated_rows=writer.losses.keys,
    )
    paths = tuple(segment.path for segment in removed)
    return Revision(
        removed=paths, coverage=coverage, tally=tally, keeps_overlaps=_keeps_overlaps(before, attempt, frozenset(paths))
    )


def _keeps_overlaps(before: Before, attempt: Attempt, removed: frozenset[str]) -> bool:
    return any(
        not covered.is_disjoint(before.coverage(other))
        for covered in attempt.coverage
        for other in live_meeting(before.state, covered, before.grid)
        if other.path not in removed
    )
