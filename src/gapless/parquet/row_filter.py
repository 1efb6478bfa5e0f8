"""Which rows a scan keeps, and which row groups may hold such."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from gapless.scan.opaque import guarantee, prune_by_expression
from gapless.scan.predicate import Constant, Predicate
from gapless.scan.prune import ALWAYS, Asking, StatsOf, asking, sieve

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
    shown: pa.Schema | None = None
    """The types under which `expression` sees the columns, where these are not the declared ones."""

    @cached_property
    def _matches(self) -> Callable[[StatsOf, int | None], bool]:
        return sieve(self.predicate, self.schema)

    @cached_property
    def _ask(self) -> Asking:
        return asking(self.predicate, self.schema)

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
        schema = self.schema if self.shown is None else self.shown
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
