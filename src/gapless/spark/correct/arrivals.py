"""A DataFrame's rows on their way into a correction: stored once as segments, their keys checked by executors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from gapless.coverage.bitmap import CoverageMap
from gapless.errors import DuplicateKey
from gapless.files.compare.keys import KeySet
from gapless.files.write.staged_write import StagedWrite
from gapless.formats.timeseries.actions import TableState
from gapless.formats.timeseries.conflict.rows import SCHEMA
from gapless.log.commit import Conflict
from gapless.log.format import Conflicting
from gapless.model.segment import Segment
from gapless.predicate.plan import prune
from gapless.predicate.predicate import Predicate
from gapless.predicate.range import key_bounds
from gapless.runtime.committer import refuse_conflict
from gapless.spark.correct.revise import CorrectionContext
from gapless.spark.correct.revision_plan import Arrived
from gapless.spark.setup.executors import required, spread_work
from gapless.spark.setup.job_context import job_context
from gapless.spark.writing.append import arrow_schema, written
from gapless.spark.writing.bucket_columns import repartition
from gapless.spark.writing.encode import Encoding, Outcome
from gapless.spark.writing.series_target import SeriesTarget, gather
from gapless.spark.writing.target import Delivery
from gapless.tables.timeseries.correct.row_selection import BaseVersion, Filter
from gapless.tables.timeseries.table import TimeSeriesTable
from gapless.tables.timeseries.write.refusals import refuse_duplicates

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class PossibleDuplicates:
    """An arriving segment, and later ones that may hold rows with its keys; places among those that arrive."""

    number: int
    others: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """Finds arriving rows that share a key; picklable."""

    context: CorrectionContext
    distinct: tuple[tuple[str, ...], ...]
    """Lists of columns, each of which no two rows may have alike."""

    def bounds(self, suspects: PossibleDuplicates) -> Predicate:
        """What the keys of the segment's rows, by the first list of columns, say of rows that have one of them.

        Raises DuplicateKey where rows of the suspects share a key with the segment's, or these among themselves.
        """
        before = self.context.before()
        found = [self._examined(before, suspects, columns) for columns in self.distinct]
        return found[0]

    def _examined(self, before: BaseVersion, suspects: PossibleDuplicates, columns: tuple[str, ...]) -> Predicate:
        segments = self.context.arrivals
        rows = pa.concat_tables(before.rows(segments[suspects.number], Filter(columns=columns)))
        keys = KeySet.of(rows, columns)
        if keys.count < rows.num_rows:
            raise self._refused(rows.take(pa.array(keys.repeated())), columns)
        near = key_bounds(rows, columns)
        others = [segments[number] for number in suspects.others]
        for other in prune(others, near, before.index, before.schema, before.meta.ids):
            for table in before.rows(other, Filter(columns=columns, predicate=near)):
                shared = np.flatnonzero(keys.match(table) >= 0)
                if len(shared):
                    raise self._refused(table.take(pa.array(shared)), columns)
        return near

    def _refused(self, rows: pa.Table, columns: tuple[str, ...]) -> DuplicateKey:
        shown = tuple(name for name in self.context.meta.index.keys if name in columns)
        shown += tuple(name for name in columns if name not in shown)
        error = refuse_duplicates(rows, shown, "more than once in the input", self._why(columns))
        fix = "Leave one row of each key in the DataFrame: the one that should stay"
        return DuplicateKey(error.what, why=error.why, fix=fix, **error.facts)

    def _why(self, columns: tuple[str, ...]) -> str:
        if self.context.meta.properties.unique and set(columns) == set(self.context.meta.index.keys):
            return "The table is unique: no two rows may have one identity and index value"
        return "Which of the rows should stay is not said"


Columns = tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class StagedInput:
    """The rows, staged for the columns that a version has; staged anew, so computed again, for one that has others."""

    frame: DataFrame
    handle: TimeSeriesTable
    _encoding: Encoding | None = None
    _columns: object = None
    _attempt: StagedWrite | None = None
    _examined: tuple[tuple[Columns, ...], tuple[Predicate, ...]] | None = None

    def schema_for(self, state: TableState) -> pa.Schema:
        """The declared schema of this version, the newest, once it has taken the rows; raises SchemaMismatch, CommitConflict."""
        columns = _columns_of(state)
        if self._encoding is None or self._columns != columns:
            self.discard()
            self._encoding, self._columns = (
                SeriesTarget(handle=self.handle).begin(arrow_schema(self.frame), Delivery()),
                columns,
            )
            seen = job_context(self.handle, to_write=True).snapshot
            if _columns_of(seen.state) != columns:
                self._encoding = None
                raise refuse_conflict(Conflict(seen.version, Conflicting(SCHEMA)))
        assert self._encoding.meta.schema is not None
        return self._encoding.meta.schema

    def staged(self, before: BaseVersion, distinct: tuple[Columns, ...]) -> Arrived:
        """The rows as segments, no two of which rows have one of the lists of columns `distinct` alike.

        `before` has the schema of `schema_for`. Raises what wrong rows deserve, with none of them stored any more.
        """
        if self._attempt is None:
            assert self._encoding is not None
            outcomes = written(repartition(self.frame, self.handle.index), self._encoding)
            stored = [one for one in outcomes if isinstance(one, Outcome)]
            self._attempt = gather(job_context(self.handle, to_write=True), self._encoding, stored)
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

    def _examine(self, before: BaseVersion, attempt: StagedWrite, distinct: tuple[Columns, ...]) -> tuple[Predicate, ...]:
        if not distinct:
            return ()
        context = CorrectionContext.of(before, attempt.segments)
        by_bucket = all(set(before.keys) <= set(columns) for columns in distinct)
        others = _sharing(attempt.coverage) if by_bucket else {}
        last = len(attempt.segments)
        suspects = [
            PossibleDuplicates(number, tuple(others.get(number, ())) if by_bucket else tuple(range(number + 1, last)))
            for number in range(last)
        ]
        examination = Examination(context=context, distinct=distinct)
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
