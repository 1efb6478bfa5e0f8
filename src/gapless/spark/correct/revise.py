"""What tasks of a correction do on executors: rewrite some segments of one version with the rows that arrive."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap64

from gapless.coverage.bitmap import CoverageMap, bitmap_of
from gapless.coverage.bucket import index_grid
from gapless.coverage.codec import decode
from gapless.coverage.expected import covered_range
from gapless.files.compare.keys import KeyIds, KeySet
from gapless.files.sort.run import Run, sort_run
from gapless.files.write.staged_write import StagedWrite
from gapless.formats.timeseries.actions import TableMeta, TableState
from gapless.model.protocols import Store
from gapless.model.segment import Segment
from gapless.predicate.range import index_range
from gapless.runtime.environment import Environment
from gapless.spark.writing.encode import Outcome
from gapless.tables.timeseries.correct.rewrite_segment import Patcher, SegmentRewriter
from gapless.tables.timeseries.correct.row_selection import (
    BaseVersion,
    ConditionSelector,
    Filter,
    KeySelector,
    RowSplitter,
    SplitRows,
)
from gapless.tables.timeseries.read.coverage import CoverageCache
from gapless.tables.timeseries.write.refusals import refuse_duplicates

_KEYS_AT_ONCE = 4_000_000
"""Rows whose keys a task holds in memory at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedKeys:
    """The keys of arriving rows, no two alike, and what number each row has among all that arrive."""

    keys: KeySet
    numbers: KeyIds
    """By number of the key."""

    def hits(self, rows: pa.Table) -> tuple[np.ndarray, KeyIds]:
        """Which of the rows have one of the keys, as a mask, and the numbers of those arriving rows."""
        found = self.keys.match(rows)
        return found >= 0, self.numbers[found[found >= 0]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectionContext:
    """A version's columns, and the arriving segments, by their places in the list; picklable."""

    store: Store
    meta: TableMeta
    """The version's."""
    schema: pa.Schema
    """The declared schema, with what the arriving rows settle of it."""
    arrivals: tuple[Segment, ...]

    @classmethod
    def of(cls, before: BaseVersion, arrivals: Iterable[Segment]) -> CorrectionContext:
        """That of a version, without its list of segments."""
        return cls(store=before.store, meta=before.meta, schema=before.schema, arrivals=tuple(arrivals))

    def before(self) -> BaseVersion:
        """The version, without the list of its segments."""
        grid = index_grid(self.meta.index)
        state = TableState(meta=self.meta, live={})
        return BaseVersion(state=state, schema=self.schema, cache=CoverageCache(self.store, grid))

    def rows_in(self, before: BaseVersion, arrivals: Iterable[int], coverage: CoverageMap) -> Run:
        """The arriving rows of these segments whose bucket is in `coverage`, which covers something."""
        wanted = Filter(
            columns=tuple(self.schema.names),
            predicate=index_range(before.index, self.schema, *covered_range(coverage, before.grid)),
        )
        run = sort_run(self._read(before, arrivals, wanted), before.index, before.grid)
        return run.take(run.positions(coverage))

    def key_groups(self, arrivals: Iterable[int]) -> Iterator[list[int]]:
        """The segments in groups whose keys a task can hold in memory."""
        group: list[int] = []
        held = 0
        for number in sorted(arrivals):
            if group and held + self.arrivals[number].rows > _KEYS_AT_ONCE:
                yield group
                group, held = [], 0
            group.append(number)
            held += self.arrivals[number].rows
        if group:
            yield group

    def keys_of(
        self, before: BaseVersion, arrivals: Sequence[int], columns: tuple[str, ...], coverage: CoverageMap | None = None
    ) -> NumberedKeys:
        """The keys of the rows of some arriving segments, in one order of columns; of those in `coverage` alone where it is given.

        With a coverage the columns hold those of the entity and the index.
        """
        first = np.cumsum([0, *(segment.rows for segment in self.arrivals)])
        tables, numbers = [], []
        for number in arrivals:
            rows = self._read(before, [number], Filter(columns=columns))
            places = np.arange(rows.num_rows)
            if coverage is not None:
                run = sort_run(rows, before.index, before.grid)
                places = run.positions(coverage)
                rows = run.take(places).table
            tables.append(rows)
            numbers.append(first[number] + places)
        keys = KeySet.of(pa.concat_tables(tables), columns)
        by_key = np.zeros(keys.count, dtype=np.int64)
        by_key[keys.ids] = np.concatenate(numbers)
        return NumberedKeys(keys=keys, numbers=by_key)

    def _read(self, before: BaseVersion, arrivals: Iterable[int], wanted: Filter) -> pa.Table:
        empty = pa.schema([self.schema.field(name) for name in wanted.columns]).empty_table()
        return pa.concat_tables([empty, *(t for number in arrivals for t in before.rows(self.arrivals[number], wanted))])


Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class AffectedSegment:
    """A live segment that a correction may touch."""

    segment: Segment
    reached: bool
    """Whether rows of it may go."""
    home: bytes = b""
    """The coverage, encoded, of the arriving rows that its successor takes; empty where it takes none."""
    rows_from: tuple[int, ...] = ()
    """The places, among the arriving segments, of those that may hold such rows."""
    keys_from: tuple[int, ...] = ()
    """Of those that may hold a key of its rows."""


@dataclass(frozen=True, slots=True)
class UnmatchedRows:
    """Rows of an arriving segment that belong to no live one: its place, and their coverage, encoded."""

    number: int
    coverage: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionTask:
    """What one task does."""

    touched: tuple[AffectedSegment, ...] = ()
    rests: tuple[UnmatchedRows, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Revised:
    """What one task did."""

    outcome: Outcome
    removed: tuple[str, ...]
    """Paths of the segments that were written anew, or of which no row is left."""
    removed_rows: int
    hits: BitMap64
    """The numbers of the arriving rows whose key was there: at most a bit for each of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ByKey:
    """Rows that have the key of an arriving row go."""

    columns: tuple[str, ...]
    covered: bool
    """Whether rows with one key lie in one bucket of one identity."""
    unique: bool
    """Whether no row that stays may have the identity and index value of an arriving one, and the key does not say that."""


@dataclass(slots=True)
class _Marked:
    """Rows that are marked go; for one reading of a segment from its first row to its last."""

    gone: Mask
    at: int = 0
    seen: Filter = field(default_factory=lambda: Filter(columns=()))

    def split(self, rows: pa.Table) -> SplitRows:
        gone = self.gone[self.at : self.at + rows.num_rows]
        self.at += rows.num_rows
        return SplitRows(rows.filter(pa.array(~gone)) if gone.any() else rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reviser:
    """Revises segments; picklable. What it raises leaves nothing stored; a task that is killed leaves orphans."""

    context: CorrectionContext
    instant: str
    goes: ByKey | Filter
    """Which rows go."""

    def revise(self, task: RevisionTask) -> Revised:
        """Write what takes the place of the task's segments; raises NullKey, DuplicateKey, CorruptTable, StoreError."""
        before, attempt = self.context.before(), StagedWrite(Environment(store=self.context.store), self.instant)
        with attempt.discarded_on_error():
            return self._revise(task, before, attempt)

    def _revise(self, task: RevisionTask, before: BaseVersion, attempt: StagedWrite) -> Revised:
        hits, marks = BitMap64(), dict[str, Mask]()
        if isinstance(self.goes, ByKey):
            marks, hits = self._marked(task, before, self.goes)
        removed, removed_rows = [], 0
        for touched in task.touched:
            writer = SegmentRewriter(before=before, cut=self._cut(touched, before, marks), attempt=attempt)
            arriving = self._arriving(before, touched.rows_from, touched.home)
            if self._stands(before, touched, arriving, marks):
                removed_rows += int(marks[touched.segment.path].sum())
            elif touched.home or self._loses(touched, writer, marks):
                writer.succeed(touched.segment, arriving)
                removed.append(touched.segment.path)
                removed_rows += writer.losses.rows
        for rest in task.rests:
            writer = SegmentRewriter(before=before, cut=_Marked(np.zeros(0, dtype=bool)), attempt=attempt)
            rows = self._arriving(before, (rest.number,), rest.coverage)
            if rows is not None:
                writer.write_new(rows)
        outcome = Outcome.of(attempt, before.entity_types)
        return Revised(outcome=outcome, removed=tuple(removed), removed_rows=removed_rows, hits=hits)

    def _arriving(self, before: BaseVersion, arrivals: tuple[int, ...], coverage: bytes) -> Run | None:
        return self.context.rows_in(before, arrivals, decode(coverage, before.entity_types)) if coverage else None

    def _cut(self, touched: AffectedSegment, before: BaseVersion, marks: dict[str, Mask]) -> RowSplitter:
        if isinstance(self.goes, Filter):
            return ConditionSelector(before=before, seen=self.goes)
        none = np.zeros(touched.segment.rows, dtype=bool)
        return _Marked(marks.get(touched.segment.path, none))

    def _stands(self, before: BaseVersion, touched: AffectedSegment, arriving: Run | None, marks: dict[str, Mask]) -> bool:
        """Whether each arriving row is one of the segment's already, and no other row goes."""
        mask = marks.get(touched.segment.path)
        if arriving is None or mask is None or not isinstance(self.goes, ByKey) or mask.sum() != arriving.table.num_rows:
            return False
        columns = self.goes.columns
        cut = KeySelector(before=before, keys=KeySet.of(arriving.table, columns), seen=Filter(columns=columns))
        return Patcher(before=before, cut=cut).standing(touched.segment, arriving.table) is not None

    def _loses(self, touched: AffectedSegment, writer: SegmentRewriter, marks: dict[str, Mask]) -> bool:
        if isinstance(self.goes, Filter):
            return touched.reached and writer.loses_rows(touched.segment)
        path = touched.segment.path
        return path in marks and bool(marks[path].any())

    def _marked(self, task: RevisionTask, before: BaseVersion, key: ByKey) -> tuple[dict[str, Mask], BitMap64]:
        """The rows of each segment that have the key of an arriving row, and the numbers of those."""
        near = CoverageMap.union_of(before.coverage(one.segment) for one in task.touched) if key.covered else None
        marks, hits = dict[str, Mask](), BitMap64()
        for group in self.context.key_groups({number for one in task.touched if one.reached for number in one.keys_from}):
            keys = self.context.keys_of(before, group, key.columns, near)
            for touched in task.touched:
                if touched.reached and not set(group).isdisjoint(touched.keys_from):
                    found = [keys.hits(rows) for rows in before.rows(touched.segment, Filter(columns=key.columns))]
                    mask = np.concatenate([np.zeros(0, dtype=bool), *(marked for marked, _ in found)])
                    known = marks.get(touched.segment.path)
                    marks[touched.segment.path] = mask if known is None else known | mask
                    hits |= BitMap64().union(*(bitmap_of(numbers.astype(np.uint64)) for _, numbers in found))
        if key.unique:
            for touched in task.touched:
                self._check_absent(touched, before, marks.get(touched.segment.path))
        return marks, hits

    def _check_absent(self, touched: AffectedSegment, before: BaseVersion, gone: Mask | None) -> None:
        """Raise DuplicateKey where a row that stays has identity and index value of an arriving one."""
        if not touched.rows_from:
            return
        coverage = before.coverage(touched.segment)
        keys = self.context.keys_of(before, touched.rows_from, before.keys, coverage)
        for rows in _lasting(before, touched.segment, gone):
            again, _ = keys.hits(rows)
            if again.any():
                raise refuse_duplicates(
                    rows.filter(pa.array(again)),
                    before.keys,
                    f"in the table already, in segment {touched.segment.path}",
                    "The table is unique: no two rows may have one identity and index value",
                )


def _lasting(before: BaseVersion, segment: Segment, gone: Mask | None) -> Iterator[pa.Table]:
    """The keys of a segment's rows, less those that go."""
    rows = before.rows(segment, Filter(columns=before.keys))
    if gone is None:
        return rows
    marked = _Marked(gone)
    return (marked.split(table).kept for table in rows)
