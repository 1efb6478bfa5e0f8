"""Parquet files as record batches, by row groups."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gapless.errors import InvalidValue
from gapless.parquet.batches import Batches
from gapless.parquet.text_files import reading

BATCH_ROWS = 1 << 16


@contextmanager
def _open(path: Path, int96_unit: str = "us") -> Iterator[pq.ParquetFile]:
    # An open file, not its path: pyarrow must see neither a URI in it nor partitions such as Year=2022.
    with reading(path), pa.OSFile(str(path), "r") as source:
        yield pq.ParquetFile(source, coerce_int96_timestamp_unit=int96_unit)


def open_parquet(path: Path) -> Batches:
    """A Parquet file as batches of at most 65,536 rows; no more than a row group's column chunks are held.

    The columns are those in the file: names in its path are not read. INT96 timestamps come as microseconds, which hold
    every year; one with nanoseconds raises InvalidValue. Raises UnreadableInput.
    """
    with _open(path) as file:
        schema, rows = file.schema_arrow.remove_metadata(), file.metadata.num_rows
        legacy = [name for name in schema.names if _is_int96(file, name)]

    def read() -> Iterator[pa.RecordBatch]:
        batches = _exact_batches(path, legacy) if legacy else _batches(path, None, "us")
        return (pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in batches)

    return Batches(source=str(path), schema=schema, read=read, rows_hint=rows, bytes_hint=path.stat().st_size)


def _batches(path: Path, columns: list[str] | None, int96_unit: str) -> Iterator[pa.RecordBatch]:
    with _open(path, int96_unit) as file:
        yield from file.iter_batches(batch_size=BATCH_ROWS, columns=columns)


def _exact_batches(path: Path, legacy: list[str]) -> Iterator[pa.RecordBatch]:
    """Batches whose INT96 columns, `legacy`, were checked to lose nothing as microseconds."""
    row = 0
    for batch, fine in zip(_batches(path, None, "us"), _batches(path, legacy, "ns"), strict=True):
        for name in legacy:
            _check_exact(batch.column(name), fine.column(name), name, path, row)
        yield batch
        row += batch.num_rows


def _is_int96(file: pq.ParquetFile, name: str) -> bool:
    columns = (file.schema.column(at) for at in range(len(file.schema)))
    return any(column.path == name and column.physical_type == "INT96" for column in columns)


def _check_exact(values: pa.Array, fine: pa.Array, name: str, path: Path, row: int) -> None:
    """Refuse an INT96 value with nanoseconds: `fine` is the same read as ns, which wraps outside 1678 to 2261."""
    micros, nanos = values.cast(pa.int64()), fine.cast(pa.int64())
    whole = pc.multiply(pc.divide(nanos, 1000), 1000)
    in_range = pc.less(pc.abs(micros), 2**63 // 1000 - 1)
    at = pc.index(pc.and_(in_range, pc.not_equal(whole, nanos)), pa.scalar(True)).as_py()
    if at >= 0:
        raise InvalidValue(
            f"column {name!r} holds {fine[at]} in row {row + at} (from 0) of {path}",
            why="It is a legacy INT96 timestamp with nanoseconds, and those are read as microseconds",
            fix="Write the file anew with timestamp[ns] columns",
            column=name, row=row + at, value=str(fine[at]), source=str(path),
        )  # fmt: skip
