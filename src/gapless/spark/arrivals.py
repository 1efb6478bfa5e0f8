"""A DataFrame's rows on their way into a correction: written once as segments, which no commit names until they are placed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import pyarrow as pa

from gapless.coverage.bitmap import CoverageMap
from gapless.dialects.timeseries.actions import TableState
from gapless.dialects.timeseries.conflict import SCHEMA
from gapless.log.commit import Conflict
from gapless.log.verdict import Clash
from gapless.model.segment import Segment
from gapless.parquet.attempt import Attempt
from gapless.runtime.committer import refuse_conflict
from gapless.scan.predicate import Predicate
from gapless.spark.answers import required, spread_work
from gapless.spark.append import arrow_schema, written
from gapless.spark.encode import Encoding
from gapless.spark.examine import Examination, Suspects
from gapless.spark.ground import Ground
from gapless.spark.inside import inside_to_write
from gapless.spark.staging import begin, gather
from gapless.spark.wishes import Arrived
from gapless.table.before import Before
from gapless.table.table import TimeSeriesTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Columns = tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class Arrivals:
    """The rows, staged for the columns that a version has; staged anew, so computed again, for one that has others."""

    frame: DataFrame
    handle: TimeSeriesTable
    _encoding: Encoding | None = None
    _columns: object = None
    _attempt: Attempt | None = None
    _examined: tuple[tuple[Columns, ...], tuple[Predicate, ...]] | None = None

    def schema_for(self, state: TableState) -> pa.Schema:
        """The declared schema of this version, the newest, once it has taken the rows; raises SchemaMismatch, CommitConflict."""
        columns = _columns_of(state)
        if self._encoding is None or self._columns != columns:
            self.discard()
            self._encoding, self._columns = begin(self.handle, arrow_schema(self.frame)), columns
            seen = inside_to_write(self.handle).snapshot
            if _columns_of(seen.state) != columns:
                self._encoding = None
                raise refuse_conflict(Conflict(seen.version, Clash(SCHEMA)))
        assert self._encoding.meta.schema is not None
        return self._encoding.meta.schema

    def staged(self, before: Before, distinct: tuple[Columns, ...]) -> Arrived:
        """The rows as segments, no two of which rows have one of the lists of columns `distinct` alike.

        `before` has the schema of `schema_for`. Raises what wrong rows deserve, with none of them stored any more.
        """
        if self._attempt is None:
            assert self._encoding is not None
            outcomes = written(self.frame, self._encoding, spread=True)
            self._attempt = gather(inside_to_write(self.handle), self._encoding, outcomes)
        if self._examined is None or self._examined[0] != distinct:
            self._examined = distinct, self._examine(before, self._attempt, distinct)
        return Arrived(attempt=self._attempt, coverage=self._attempt.covered, bounds=self._examined[1])

    def discard(self, adopted: Iterable[Segment] = ()) -> None:
        """Remove what is stored of the rows, but for the segments that a commit has adopted."""
        if self._attempt is None:
            return
        kept = {path for segment in adopted for path in segment.files}
        attempt, self._attempt, self._examined = self._attempt, None, None
        attempt.written = [path for path in attempt.written if path not in kept]
        attempt.discard()

    def _examine(self, before: Before, attempt: Attempt, distinct: tuple[Columns, ...]) -> tuple[Predicate, ...]:
        if not distinct:
            return ()
        ground = Ground(store=before.store, meta=before.meta, schema=before.schema, arrivals=tuple(attempt.segments))
        by_bucket = all(set(before.keys) <= set(columns) for columns in distinct)
        others = _sharing(attempt.coverage) if by_bucket else {}
        last = len(attempt.segments)
        suspects = [
            Suspects(number, tuple(others.get(number, ())) if by_bucket else tuple(range(number + 1, last)))
            for number in range(last)
        ]
        examination = Examination(ground=ground, distinct=distinct)
        return tuple(required(spread_work(self.frame.sparkSession, examination.bounds, suspects)))


def _columns_of(state: TableState) -> object:
    return state.meta.index, state.meta.ids, state.meta.schema


def _sharing(coverage: list[CoverageMap]) -> dict[int, list[int]]:
    """By place, the later ones that cover a bucket of it."""
    found: dict[int, list[int]] = {}
    for (one, mine), (other, theirs) in combinations(enumerate(coverage), 2):
        if not mine.is_disjoint(theirs):
            found.setdefault(one, []).append(other)
    return found
