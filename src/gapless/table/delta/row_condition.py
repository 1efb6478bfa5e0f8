"""Which rows a change of rows means: any SQL condition over a row, as far as possible in words that statistics understand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gapless.dialects.delta.deletion_vector import Positions
from gapless.errors import InvalidFilter
from gapless.parquet.delta.read import POSITION, Wanted
from gapless.scan.expression import to_expression
from gapless.scan.predicate import columns_of
from gapless.scan.range import conjunction
from gapless.table.delta.expression_sql import columns_read, parsed
from gapless.table.delta.merge_plan import terms
from gapless.table.delta.rewrite import Before
from gapless.table.delta.row_edit import Mask
from gapless.table.delta.scan import Candidate, Condition, parse_condition
from gapless.table.delta.truth import true_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCondition:
    """A `where`, understood in two parts, both of which must be true."""

    near: Condition
    """What scans understand: it prunes files and row groups."""
    rest: str | None = None
    """SQL that only DuckDB answers, row by row; None where there is none."""

    @classmethod
    def parse(cls, where: str | pc.Expression | None, schema: pa.Schema) -> RowCondition:
        """Read a `where`: what a scan takes, or any SQL expression over a row.

        Raises InvalidFilter, UnknownColumn, InvalidTime, InvalidQuery.
        """
        try:
            return cls(near=parse_condition(where, schema))
        except InvalidFilter:
            if not isinstance(where, str):
                raise
        near, rest = [], []
        for term in terms(parsed(where)):
            text = str(term.sql(dialect="duckdb"))
            try:
                near.append(parse_condition(text, schema).predicate)
            except InvalidFilter:
                rest.append(f"({text})")
        predicate, text = conjunction(near), " AND ".join(rest)
        columns_read(text, schema)
        named = columns_of(predicate)
        columns = tuple(name for name in schema.names if name in named)
        return cls(near=Condition(schema=schema, predicate=predicate, columns=columns), rest=text)

    def takes_whole(self, candidate: Candidate) -> bool:
        """Whether every row of a file is certainly meant."""
        return candidate.whole and self.rest is None

    @property
    def columns(self) -> tuple[str, ...]:
        """The top-level columns that it reads, in the schema's order."""
        read = set(self.near.columns) | set(() if self.rest is None else columns_read(self.rest, self.near.schema))
        return tuple(name for name in self.near.schema.names if name in read)

    def mask(self, rows: pa.Table) -> Mask:
        """For each of these rows, which have the schema's columns, whether it is true of it. Raises InvalidQuery."""
        near = self.near
        kept = np.zeros(rows.num_rows, dtype=bool)
        numbered = rows.append_column(POSITION, pa.array(np.arange(rows.num_rows)))
        found = numbered.filter(to_expression(near.predicate, near.schema))
        found = found if near.expression is None else found.filter(near.expression)
        kept[found.column(POSITION).to_numpy()] = True
        return kept if self.rest is None else kept & true_rows(rows, self.rest)

    def positions(self, before: Before, candidate: Candidate) -> Positions:
        """Where in a file the live rows lie that are meant. Raises InvalidQuery, CorruptTable, StoreError."""
        found = list(self._positions(before, candidate))
        return np.concatenate([np.empty(0, np.int64), *found])

    def _positions(self, before: Before, candidate: Candidate) -> Iterator[Positions]:
        columns = () if self.rest is None else columns_read(self.rest, before.schema)
        near = self.near
        wanted = Wanted(columns=columns, predicate=near.predicate, expression=near.expression, position=True)
        for batch in before.reader.batches(candidate.file, wanted):
            positions: Positions = batch.column(POSITION).to_numpy()
            if self.rest is not None:
                positions = positions[true_rows(pa.Table.from_batches([batch]), self.rest)]
            yield positions
