"""The rows that were fetched for a gap: whether they belong to it, and which of them a table takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gapless.coverage.bucket import Grid
from gapless.coverage.expected import Span
from gapless.errors import InvalidValue
from gapless.files.ingest.batches import Batches, read_once, without_empty
from gapless.files.ingest.table_types import with_table_types
from gapless.files.sort.run import unit_ns
from gapless.model.fit import fit
from gapless.model.index import Identity, IndexSpec
from gapless.model.schema import adopt_schema
from gapless.tables.shared.inputs.rows import as_batches
from gapless.tables.timeseries.read.values import format_index_value
from gapless.tables.timeseries.write.refusals import format_identity

_Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedRows:
    """One gap, or a part of one, that was asked for, and of what table."""

    identity: Identity
    span: Span
    """Its bucket ids."""
    index: IndexSpec
    schema: pa.Schema | None
    grid: Grid

    def __str__(self) -> str:
        """Its bounds, and whose it is."""
        start, end = (
            format_index_value(value, self.index, self.schema)
            for value in (self.grid.start(self.span.start), self.grid.end(self.span.end - 1))
        )
        return f"[{start}, {end})" + (f" of {format_identity(self.index, self.identity)}" if self.identity else "")

    def rows_of(self, answer: object) -> Batches | None:
        """The answer as rows to append, checked as they are read; None where it holds none.

        `answer` is None or anything that `append` takes. Entity columns that it leaves out are filled in. A row of another identity or
        of a bucket outside of the gap raises InvalidValue while it is read; an object that is no rows UnreadableInput here.
        """
        if answer is None:
            return None
        batches = answer if isinstance(answer, Batches) else as_batches(answer, self.schema)
        if not batches.schema.names:
            # Rows without any field are the append's to refuse.
            return next(iter(without_empty([batches])), None)
        batches = with_table_types(batches, self.schema)
        read = iter(batches)
        first = next((batch for batch in read if batch.num_rows), None)
        if first is None:
            return None
        missing = [name for name in self.index.entity if name not in batches.schema.names]
        named = self._named(first, missing)
        checked = self._checked(chain([named], map(partial(self._named, missing=missing), read)), named.schema)
        return replace(batches, schema=named.schema, read=read_once(batches.source, checked))

    def _named(self, batch: pa.RecordBatch, missing: list[str]) -> pa.RecordBatch:
        for name in missing:
            value = self.identity[self.index.entity.index(name)]
            kind = None if self.schema is None else self.schema.field(name).type
            batch = batch.append_column(name, pa.repeat(pa.scalar(value, kind), batch.num_rows))
        return batch

    def _checked(self, batches: Iterator[pa.RecordBatch], given: pa.Schema) -> Iterator[pa.RecordBatch]:
        schema = adopt_schema(given, self.index) if self.schema is None else self.schema
        keys = pa.schema([schema.field(name) for name in (self.index.column, *self.index.entity)])
        row = 0
        for batch in batches:
            # Without its index column the append refuses it in its own words.
            if self.index.column in batch.schema.names:
                self._check(fit(batch.select(keys.names), keys, self.index, row), row)
            yield batch
            row += batch.num_rows

    def _check(self, keys: pa.RecordBatch, row: int) -> None:
        index = keys.column(0)
        values = index.cast(pa.int64()) if pa.types.is_timestamp(index.type) else index
        ids = self.grid.ids(values.to_numpy(), unit_ns(index.type))
        self._refuse(keys, 0, (ids < self.span.start) | (ids >= self.span.end), row)
        for column, value in enumerate(self.identity, 1):
            differs = pc.not_equal(keys.column(column), pa.scalar(value, keys.column(column).type))
            self._refuse(keys, column, differs.to_numpy(zero_copy_only=False), row)

    def _refuse(self, keys: pa.RecordBatch, column: int, outside: _Mask, row: int) -> None:
        """Raise InvalidValue for the first row of the mask."""
        if not outside.any():
            return
        at = int(outside.argmax())
        value: Any = keys.column(column)[at]
        value = value.as_py() if column else self._shown(value)
        count = int(outside.sum())
        name = keys.schema.names[column]
        raise InvalidValue(
            f"what was fetched for {self} holds {count:,} row{'s' * (count != 1)} of other gaps: row {row + at} has {name} {value}",
            why="A fill appends what it asked for, so that a mistake in fetch cannot land elsewhere",
            fix="Return the rows of the asked range, from start up to but not including end",
            column=name, row=row + at, value=value,
        )  # fmt: skip

    def _shown(self, value: pa.Scalar) -> str:
        whole = value.value * unit_ns(value.type) if pa.types.is_timestamp(value.type) else value.as_py()
        # A time that was fetched says itself whether it has a zone.
        known = self.schema or pa.schema([(self.index.column, value.type)])
        return format_index_value(whole, self.index, known)
