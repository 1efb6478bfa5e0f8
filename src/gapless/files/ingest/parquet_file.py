"""Parquet files as record batches, by row groups."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gapless.errors import InvalidValue, UnreadableInput
from gapless.files.ingest.batches import Batches, checked_values, rows_without_columns
from gapless.files.ingest.first_bytes import HEAD_BYTES, identify, is_parquet, refuse_content
from gapless.files.ingest.input_file import InputFile, reading

BATCH_ROWS = 1 << 16


@contextmanager
def _open(file: InputFile, int96_unit: str = "us") -> Iterator[pq.ParquetFile]:
    # An open file, not its path: pyarrow must see neither a URI in it nor partitions such as Year=2022.
    with reading(file.name), pa.OSFile(str(file.path), "r") as source:
        try:
            opened = pq.ParquetFile(source, coerce_int96_timestamp_unit=int96_unit)
        except pa.ArrowInvalid as cause:
            raise _refuse_parquet(file, cause) from cause
        yield opened


def _refuse_parquet(file: InputFile, cause: pa.ArrowInvalid) -> UnreadableInput:
    """The error for a file that Arrow does not read as Parquet: by its first bytes, where they say what it is."""
    head = file.head(HEAD_BYTES)
    found = None if is_parquet(head) else identify(head)
    if found is not None:
        return refuse_content(file.name, found, "Parquet")
    if not head:
        why, fix = "It is empty: a Parquet file without rows has a footer", "Write it again, or leave it out"
    elif is_parquet(head):
        why, fix = " ".join(str(cause).split()), "It is cut short or damaged: fetch or write it again"
    else:
        text = head[:60].decode("utf-8", errors="replace")
        why = f"It begins with {text!r}, where Parquet begins with 'PAR1'"
        fix = 'Where it is text, pass format="csv" or "jsonl"; else fetch or write it again'
    return UnreadableInput(f"{file.name} is no Parquet file", why=why[:500], fix=fix, source=file.name)


def open_parquet(file: InputFile) -> Batches:
    """A Parquet file as batches of at most 65,536 rows; no more than a row group's column chunks are held.

    The columns are those in the file: names in its path are not read. INT96 timestamps come as microseconds, which hold
    every year; one with nanoseconds raises InvalidValue, and so does text that is not UTF-8. Raises UnreadableInput.
    """
    with _open(file) as opened:
        schema, rows = opened.schema_arrow.remove_metadata(), opened.metadata.num_rows
        legacy = [name for name in schema.names if _is_int96(opened, name)]

    def read() -> Iterator[pa.RecordBatch]:
        if not schema.names:
            # Arrow reads no batch of them.
            return rows_without_columns(rows)
        batches = _exact_batches(file, legacy) if legacy else _batches(file, None, "us")
        return (pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in batches)

    found = Batches(source=file.name, schema=schema, read=read, rows_hint=rows, bytes_hint=file.size)
    return checked_values(found)


def _batches(file: InputFile, columns: list[str] | None, int96_unit: str) -> Iterator[pa.RecordBatch]:
    with _open(file, int96_unit) as opened:
        yield from opened.iter_batches(batch_size=BATCH_ROWS, columns=columns)


def _exact_batches(file: InputFile, legacy: list[str]) -> Iterator[pa.RecordBatch]:
    """Batches whose INT96 columns, `legacy`, were checked to lose nothing as microseconds."""
    row = 0
    for batch, fine in zip(_batches(file, None, "us"), _batches(file, legacy, "ns"), strict=True):
        for name in legacy:
            _check_exact(batch.column(name), fine.column(name), name, file, row)
        yield batch
        row += batch.num_rows


def _is_int96(file: pq.ParquetFile, name: str) -> bool:
    columns = (file.schema.column(at) for at in range(len(file.schema)))
    return any(column.path == name and column.physical_type == "INT96" for column in columns)


def _check_exact(values: pa.Array, fine: pa.Array, name: str, file: InputFile, row: int) -> None:
    """Refuse an INT96 value with nanoseconds: `fine` is the same read as ns, which wraps outside 1678 to 2261."""
    micros, nanos = values.cast(pa.int64()), fine.cast(pa.int64())
    whole = pc.multiply(pc.divide(nanos, 1000), 1000)
    in_range = pc.less(pc.abs(micros), 2**63 // 1000 - 1)
    at = pc.index(pc.and_(in_range, pc.not_equal(whole, nanos)), pa.scalar(True)).as_py()
    if at >= 0:
        raise InvalidValue(
            f"column {name!r} holds {fine[at]} in row {row + at} (from 0) of {file}",
            why="It is a legacy INT96 timestamp with nanoseconds, and those are read as microseconds",
            fix="Write the file anew with timestamp[ns] columns",
            column=name, row=row + at, value=str(fine[at]), source=file.name,
        )  # fmt: skip
