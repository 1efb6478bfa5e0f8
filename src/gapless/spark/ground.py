"""What the tasks of a correction stand on: one version of a table, and the rows that arrive, as segments that no commit names yet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gapless.coverage.bitmap import CoverageMap
from gapless.coverage.bucket import index_grid
from gapless.coverage.span import reach
from gapless.dialects.timeseries.actions import TableMeta, TableState
from gapless.model.protocols import Store
from gapless.model.segment import Segment
from gapless.parquet.keys import KeyIds, KeySet
from gapless.parquet.run import Run, sort_run
from gapless.scan.range import index_range
from gapless.table.before import Before, Filter
from gapless.table.coverage import CoverageCache

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
class Ground:
    """A version's columns, and the arriving segments, by their places in the list; picklable."""

    store: Store
    meta: TableMeta
    """The version's."""
    schema: pa.Schema
    """The declared schema, with what the arriving rows settle of it."""
    arrivals: tuple[Segment, ...]

    def before(self) -> Before:
        """The version, without the list of its segments."""
        grid = index_grid(self.meta.index)
        state = TableState(meta=self.meta, live={})
        return Before(store=self.store, state=state, schema=self.schema, grid=grid, cache=CoverageCache(self.store, grid))

    def rows_in(self, before: Before, arrivals: Iterable[int], coverage: CoverageMap) -> Run:
        """The arriving rows of these segments whose bucket is in `coverage`, which covers something."""
        wanted = Filter(
            columns=tuple(self.schema.names), predicate=index_range(before.index, self.schema, *reach(coverage, before.grid))
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
        self, before: Before, arrivals: Sequence[int], columns: tuple[str, ...], coverage: CoverageMap | None = None
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

    def _read(self, before: Before, arrivals: Iterable[int], wanted: Filter) -> pa.Table:
        empty = pa.schema([self.schema.field(name) for name in wanted.columns]).empty_table()
        return pa.concat_tables([empty, *(t for number in arrivals for t in before.rows(self.arrivals[number], wanted))])
