"""A version of a Delta table as DuckDB scans it."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from gapless.parquet.dataset import Pinned, pin
from gapless.parquet.delta.read import FileReader, Wanted
from gapless.scan.opaque import expression_columns
from gapless.table.delta.guard import Guard
from gapless.table.delta.scan import Condition, Planner, whole_files


def pin_version(planner: Planner, reader: FileReader, shown: pa.Schema, guard: Guard) -> Pinned:
    """All rows of a version as a dataset of `shown`, some of its columns in types that hold all their values."""

    def scan(columns: tuple[str, ...], expression: pc.Expression | None) -> Iterator[pa.RecordBatch]:
        named = () if expression is None else expression_columns(expression, shown)
        found = planner.select(Condition(schema=shown, expression=expression, columns=named))
        files, wanted = [one.file for one in found], Wanted(columns=columns, expression=expression, shown=shown)
        with guard.reading(files):
            for _, table in reader.read(files, wanted, whole=whole_files(found)):
                yield from table.to_batches()

    return pin(shown, scan)
