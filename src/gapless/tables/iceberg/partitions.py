"""Rows by their partition: the values of an Iceberg table's hidden partitions, for whole columns."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    UnknownTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.typedef import Record

from gapless.errors import UnsupportedTable
from gapless.files.compare.keys import row_codes
from gapless.model.column_ids import ColumnPath
from gapless.tables.iceberg.columns import source_paths

_UNITS = {YearTransform: "Y", MonthTransform: "M", DayTransform: "D", HourTransform: "h"}
_PLAIN_FOLDER = re.compile(r"[A-Za-z0-9_=.+-]{1,200}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitions:
    """How rows of a table's columns are parted."""

    spec: PartitionSpec
    schema: Schema
    sources: tuple[ColumnPath, ...]
    """The path of the column of each partition field."""

    @classmethod
    def of(cls, spec: PartitionSpec, schema: Schema) -> Partitions:
        """Raises UnsupportedTable for a transform that is not known."""
        paths = source_paths(schema)
        for field in spec.fields:
            if isinstance(field.transform, UnknownTransform):
                raise UnsupportedTable(
                    f"the table is partitioned by {field.transform} of a column, which is no transform that is known",
                    why="The table spec has identity, bucket, truncate, year, month, day, hour and void",
                    fix="Write it with the engine that made it",
                    needs=str(field.transform),
                )
        return cls(spec=spec, schema=schema, sources=tuple(paths.get(one.source_id, ()) for one in spec.fields))

    def split(self, batch: pa.RecordBatch) -> Iterator[tuple[tuple[Any, ...], pa.RecordBatch]]:
        """The rows of each partition, with its values as metadata has them, in their order; whole batches are not copied."""
        if not batch.num_rows:
            return
        if not self.spec.fields:
            yield (), batch
            return
        columns = [self._values(batch, field, path) for field, path in zip(self.spec.fields, self.sources, strict=True)]
        codes = row_codes(columns, batch.num_rows)
        order = np.argsort(codes, kind="stable")
        ordered = codes[order]
        starts = np.concatenate([[0], np.flatnonzero(np.diff(ordered)) + 1])
        rows = batch if len(starts) == 1 else batch.take(pa.array(order))
        for start, end in zip(starts, [*starts[1:], batch.num_rows], strict=True):
            first = int(order[start])
            yield tuple(column[first].as_py() for column in columns), rows.slice(start, end - start)

    def folder(self, values: tuple[Any, ...]) -> str:
        """A folder for the files of a partition; readers go by metadata, and not by it."""
        path = self.spec.partition_to_path(Record(*values), self.schema)
        if all(_PLAIN_FOLDER.fullmatch(part) for part in path.split("/")):
            return path
        # Stores and file systems bear long names and odd characters each in their own way.
        return f"p-{hashlib.sha256(path.encode()).hexdigest()[:24]}"

    def _values(self, batch: pa.RecordBatch, field: PartitionField, path: ColumnPath) -> pa.Array:
        if isinstance(field.transform, VoidTransform) or not path:
            return pa.nulls(batch.num_rows, pa.int32())
        column: pa.Array = batch.column(path[0])
        for name in path[1:]:
            column = pc.struct_field(column, name)
        return self._transformed(_internal(column), column.type, field)

    def _transformed(self, column: pa.Array, type_: pa.DataType, field: PartitionField) -> pa.Array:
        if isinstance(field.transform, IdentityTransform):
            return column
        if (unit := _UNITS.get(type(field.transform))) is not None:
            return _since_1970(column, "D" if pa.types.is_date(type_) else "us", unit)
        # The library computes value by value; so each one once.
        transform = field.transform.transform(self.schema.find_field(field.source_id).field_type)
        encoded = pc.dictionary_encode(column)
        made = pa.array([transform(value) for value in encoded.dictionary.to_pylist()])
        return made.take(encoded.indices)


def _internal(column: pa.Array) -> pa.Array:
    """Values as metadata has them: times as numbers."""
    if pa.types.is_timestamp(column.type) or pa.types.is_time64(column.type):
        return column.cast(pa.int64())
    return column.cast(pa.int32()) if pa.types.is_date32(column.type) else column


def _since_1970(column: pa.Array, unit: str, wanted: str) -> pa.Array:
    """Whole years, months, days or hours since 1970, of days or microseconds."""
    numbers = pc.fill_null(column, 0).to_numpy(zero_copy_only=False).astype(np.int64)
    found = numbers.astype(f"M8[{unit}]").astype(f"M8[{wanted}]").astype(np.int64).astype(np.int32)
    return pa.array(found, mask=column.is_null().to_numpy(zero_copy_only=False))
