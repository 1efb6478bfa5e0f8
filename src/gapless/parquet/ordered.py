"""Rows in another order than they lie in memory, put into it as they are asked for: a part at a time, or never."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gapless.parquet.threads import side_by_side

Positions = npt.NDArray[np.integer[Any]]


def in_one_chunk(table: pa.Table) -> pa.Table:
    """The same rows, each column in one piece of memory where it can be: Arrow joins them for each gathering else."""
    if all(column.num_chunks <= 1 for column in table.columns):
        return table
    columns = side_by_side([column.combine_chunks for column in table.columns], table.nbytes)
    return pa.Table.from_arrays(columns, schema=table.schema)


@dataclass(frozen=True, slots=True)
class Spelled:
    """A column said otherwise: for each row, in order, the place of its value in `values`."""

    values: pa.Array
    places: Positions


@dataclass(frozen=True, slots=True)
class Ordered:
    """The rows of `source` at the positions `order`, which is a permutation; as they lie where it is None."""

    source: pa.Table
    order: Positions | None = None
    made: Mapping[str, pa.Array] = field(default_factory=dict)
    """Columns that are in order already."""
    spelled: Mapping[str, Spelled] = field(default_factory=dict)
    """Columns that are made faster than by gathering them."""

    @property
    def count(self) -> int:
        """How many rows."""
        return int(self.source.num_rows)

    @property
    def schema(self) -> pa.Schema:
        """That of the rows."""
        return self.source.schema

    def column(self, name: str, start: int = 0, end: int | None = None) -> pa.ChunkedArray:
        """The values of the rows `[start, end)`."""
        end = self.count if end is None else end
        column = self.source.column(name)
        if self.order is None:
            return column.slice(start, end - start)
        taken: pa.Array | pa.ChunkedArray
        if (made := self.made.get(name)) is not None:
            taken = made.slice(start, end - start)
        elif (known := self.spelled.get(name)) is not None:
            taken = known.values.take(pa.array(known.places[start:end]))
        else:
            taken = pc.take(column.chunk(0) if column.num_chunks == 1 else column, pa.array(self.order[start:end]))
        return taken if isinstance(taken, pa.ChunkedArray) else pa.chunked_array([taken])

    def columns(self, names: list[str], start: int, end: int) -> pa.Table:
        """These columns of the rows `[start, end)`."""
        schema = pa.schema([self.schema.field(name) for name in names], self.schema.metadata)
        return pa.Table.from_arrays([self.column(name, start, end) for name in names], schema=schema)

    def at(self, positions: Positions) -> pa.Table:
        """The rows at some positions."""
        return self.source.take(pa.array(positions if self.order is None else self.order[positions]))

    def table(self) -> pa.Table:
        """All rows, on all cores."""
        if self.order is None:
            return self.source
        acts = [lambda name=name: self.column(name) for name in self.schema.names]
        return pa.Table.from_arrays(side_by_side(acts, self.source.nbytes), schema=self.schema)

    def with_schema(self, schema: pa.Schema) -> Ordered:
        """The same columns under a schema of the same types."""
        return replace(self, source=pa.Table.from_arrays(self.source.columns, schema=schema))
