"""Which segments new rows belong to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gapless.coverage.bitmap import CoverageMap
from gapless.model.segment import Segment
from gapless.parquet.run import Run


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
