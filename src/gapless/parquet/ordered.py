"""Rows in the order of their table, of which some columns are known by few values and may be spelled out, or never."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.model.numbers import arrow_of
from gapless.parquet.threads import side_by_side

Positions = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True)
class Spelled:
    """A column said otherwise: for each row, in order, the place of its value in `values`."""

    values: pa.Array
    """Distinct and ascending."""
    places: Positions

    @property
    def ends(self) -> pa.ChunkedArray:
        """The smallest and the largest value that a row has, of rows of which there is one."""
        return pa.chunked_array([self.values.slice(int(end), 1) for end in (self.places.min(), self.places.max())])

    def column(self, rows: slice | Positions) -> pa.ChunkedArray:
        """The values of these rows."""
        return pa.chunked_array([self.values.take(arrow_of(self.places[rows]))])


@dataclass(frozen=True, slots=True)
class Ordered:
    """The rows of `source`, in its order."""

    source: pa.Table
    spelled: Mapping[str, Spelled] = field(default_factory=dict)
    """Columns that are known by places in few values too."""
    loose: frozenset[str] = frozenset()
    """Those of them whose values lie in another order in `source`, where they were left."""

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
        if name in self.loose:
            return self.spelled[name].column(slice(start, end))
        column = self.source.column(name)
        if not start and (end is None or end >= self.count):
            return column
        return column.slice(start, None if end is None else end - start)

    def columns(self, names: list[str], start: int, end: int) -> pa.Table:
        """These columns of the rows `[start, end)`."""
        schema = pa.schema([self.schema.field(name) for name in names], self.schema.metadata)
        return pa.Table.from_arrays([self.column(name, start, end) for name in names], schema=schema)

    def at(self, positions: Positions) -> pa.Table:
        """The rows at some positions."""
        found = self.source.take(arrow_of(positions))
        return self._with({name: self.spelled[name].column(positions) for name in self.loose}, found)

    def table(self) -> pa.Table:
        """All rows."""
        names = list(self.loose)
        made = side_by_side([partial(self.column, name) for name in names], self.source.nbytes) if names else []
        return self._with(dict(zip(names, made, strict=True)), self.source)

    def _with(self, made: Mapping[str, pa.ChunkedArray], table: pa.Table) -> pa.Table:
        if not made:
            return table
        columns = [made.get(name, table.column(name)) for name in self.schema.names]
        return pa.Table.from_arrays(columns, schema=self.schema)

    def with_schema(self, schema: pa.Schema) -> Ordered:
        """The same columns under a schema of the same types."""
        return replace(self, source=pa.Table.from_arrays(self.source.columns, schema=schema))
