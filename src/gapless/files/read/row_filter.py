"""Row filters of a scan: which rows it keeps, which row groups may hold such by their statistics, and which columns find pages."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gapless.files.pages.column_stats import column_stats
from gapless.files.pages.footer import Footer
from gapless.files.read.page_pruning import FEW_ROWS, KeyFilter, Positions, kept_positions
from gapless.model.column_ids import ColumnIds
from gapless.model.fit import to_declared
from gapless.model.index import IndexSpec
from gapless.model.segment import Segment
from gapless.predicate.plan import guarantee, prune_by_expression
from gapless.predicate.predicate import And, Constant, Predicate, columns_of, conjuncts_on
from gapless.predicate.prune import ALWAYS, StatsOf, TruthByStats, compile_pruner, compile_truth_values
from gapless.predicate.range import conjunction

EVERYTHING = Constant(value=True)


@dataclass(frozen=True, kw_only=True)
class RowFilter:
    """A predicate, an expression in Arrow's own semantics, or both."""

    schema: pa.Schema
    """The declared columns, over which the predicate is."""
    predicate: Predicate = EVERYTHING
    expression: pc.Expression | None = None
    columns: tuple[str, ...] = ()
    """What `expression` may read."""
    cast_to: pa.Schema | None = None
    """The types under which `expression` sees the columns, where these are not the declared ones."""

    @cached_property
    def _matches(self) -> Callable[[StatsOf, int | None], bool]:
        return compile_pruner(self.predicate, self.schema)

    @cached_property
    def _ask(self) -> TruthByStats:
        return compile_truth_values(self.predicate, self.schema)

    @property
    def keeps_all(self) -> bool:
        """Whether every row is kept."""
        return self.expression is None and self.predicate == EVERYTHING

    def matching(self, stats: Sequence[StatsOf], rows: Sequence[int]) -> list[tuple[int, bool]]:
        """Of row groups with these statistics and row counts: the numbers of those that may hold a row which is kept, and of each whether
        it is certain that all of its rows are.
        """
        if self.keeps_all:
            return [(number, True) for number, count in enumerate(rows) if count]
        near = [number for number, known in enumerate(stats) if self._matches(known, rows[number])]
        kept = [(number, self._ask(stats[number], rows[number]) == ALWAYS) for number in near]
        if self.expression is None or not kept:
            return kept
        schema = self.schema if self.cast_to is None else self.cast_to
        known = [{name: of for name in self.columns if (of := stats[n](name)) is not None} for n, _ in kept]
        truths = [guarantee(of, rows[n], schema) for (n, _), of in zip(kept, known, strict=True)]
        matching = prune_by_expression(self.expression, truths, schema)
        left = [(found, truth) for found, truth, keep in zip(kept, truths, matching, strict=True) if keep]
        failing = prune_by_expression(~self.expression | self.expression.is_null(), [truth for _, truth in left], schema)
        return [(number, sure and not fails) for ((number, sure), _), fails in zip(left, failing, strict=True)]


def within(limit: int, numbers: Sequence[int], rows: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Row groups in sets of at most `limit` rows; a larger one by itself."""
    together: list[int] = []
    held = 0
    for number in numbers:
        if together and held + rows[number] > limit:
            yield tuple(together)
            together, held = [], 0
        together.append(number)
        held += rows[number]
    if together:
        yield tuple(together)


BLOCKS = 8
"""An expression is asked about so many stretches of a column: what it may keep of each is told by the stretch's bounds."""


@dataclass(frozen=True, slots=True)
class PageFilter:
    """A filter, and what there is to know of the table that it is asked of."""

    filter: RowFilter
    index: IndexSpec
    ids: ColumnIds

    def stages(self, segment: Segment, footer: Footer) -> tuple[KeyFilter, ...]:
        """How near rows are found in a segment's row groups; none where that is not worth its while."""
        if segment.sorted_by != self.index.keys or max(footer.groups.rows, default=0) <= FEW_ROWS:
            return ()
        return tuple(self._stages(segment.path))

    @property
    def complete(self) -> bool:
        """Whether the filter keeps all rows that all stages of a segment keep."""
        keys = self.index.keys
        if self.filter.expression is not None:
            return self.filter.predicate == EVERYTHING and self.filter.columns in [(name,) for name in keys]
        return _asks_apart(self.filter.predicate, keys)

    def _stages(self, path: str) -> Iterator[KeyFilter]:
        leading = True
        for name in self.index.keys:
            terms = conjuncts_on(self.filter.predicate, name)
            if terms:
                yield KeyFilter(name=self.ids.stored_name(name), keep=partial(self._kept, conjunction(terms), name, path))
            elif self.filter.expression is not None and (
                name in self.filter.columns if leading else self.filter.columns == (name,)
            ):
                yield KeyFilter(name=self.ids.stored_name(name), keep=partial(self._possible, name, path))
            else:
                # Behind a key that may be anything, a stretch of rows holds all values of the next.
                leading = False

    def _kept(self, predicate: Predicate, name: str, path: str, rows: pa.Table) -> Positions:
        """The rows of a table of the column `name`, as files hold it, that a predicate on it alone keeps."""
        return kept_positions(predicate, self._declared(name, path, rows))

    def _declared(self, name: str, path: str, rows: pa.Table) -> pa.Table:
        return to_declared(rows, pa.schema([self.filter.schema.field(name)]), ids=self.ids, path=path)

    def _possible(self, name: str, path: str, rows: pa.Table) -> Positions:
        """The rows of a table of the column `name`, as files hold it, for which the expression may be true."""
        assert self.filter.expression is not None
        schema = self.filter.schema if self.filter.cast_to is None else self.filter.cast_to
        seen = self._declared(name, path, rows).cast(pa.schema([schema.field(name)]))
        if self.filter.columns == (name,):
            numbered = seen.append_column(f"number of a row of {name}", pa.array(np.arange(seen.num_rows)))
            found: Positions = numbered.filter(self.filter.expression).column(1).to_numpy()
            return found
        size = max(1, -(-seen.num_rows // BLOCKS))
        blocks = [seen.slice(start, size) for start in range(0, seen.num_rows, size)]
        truths = [guarantee(column_stats(block, ""), block.num_rows, schema) for block in blocks]
        kept = prune_by_expression(self.filter.expression, truths, schema)
        return np.flatnonzero(np.repeat(np.array(kept, np.bool_), [block.num_rows for block in blocks]))


def _asks_apart(predicate: Predicate, names: Collection[str]) -> bool:
    """Whether a predicate is terms of which each is on one of the columns alone."""
    if isinstance(predicate, And):
        return all(_asks_apart(term, names) for term in predicate.terms)
    return any(columns_of(predicate) == {name} for name in names)
