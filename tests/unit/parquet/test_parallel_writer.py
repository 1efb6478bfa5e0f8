"""Columns encoded side by side make the very file that `pyarrow` makes of them one after the other."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless.parquet import parallel_writer
from gapless.parquet.encodings import Encodings
from gapless.parquet.ordered import Ordered
from gapless.parquet.parallel_writer import ParallelWriter, WriterOptions

ROWS = 5_000
DELTA = "DELTA_BINARY_PACKED"


def wide(rows: int = ROWS) -> pa.Table:
    """Columns of many types, nested and null ones among them, under names and metadata of their own."""
    dice = np.random.default_rng(5)
    numbers = dice.integers(-(2**62), 2**62, rows)
    some_null = [None if number % 7 == 0 else int(number) for number in numbers]
    table = pa.table(
        {
            "ts": pa.array(np.arange(rows) * 1_000, pa.timestamp("us", "Europe/Berlin")),
            "déjà vu.x": pa.array(np.char.add("k", (numbers % 50).astype(str))),
            "large": pa.array([str(number) * 3 for number in numbers], pa.large_string()),
            "x": pa.array([None if n is None else n / 7 for n in some_null], pa.float64()),
            "n": pa.array(some_null, pa.int64()),
            "small": pa.array(numbers % 100, pa.uint8()),
            "yes": pa.array(numbers % 2 == 0),
            "nothing": pa.nulls(rows),
            "day": pa.array([dt.date(2024, 1, 1) + dt.timedelta(int(n % 900)) for n in numbers]),
            "money": pa.array([decimal.Decimal(int(n % 10_000)) / 100 for n in numbers], pa.decimal128(12, 2)),
            "wait": pa.array(numbers % 10_000, pa.duration("ns")),
            "list": pa.array([[1, None, int(n % 5)] if n % 3 else [] for n in numbers], pa.list_(pa.int32())),
            "struct": pa.array([{"a": int(n % 9), "b": {"c": str(n % 4)}} if n % 5 else None for n in numbers]),
            "map": pa.array([[("k", int(n % 3))] for n in numbers], pa.map_(pa.string(), pa.int8())),
        }
    )
    schema = pa.schema([field.with_metadata({"PARQUET:field_id": str(n + 1)}) for n, field in enumerate(table.schema)])
    return table.cast(schema.with_metadata({"owner": "desk 4"}))


def options(encodings: Encodings, codec: str = "zstd") -> WriterOptions:
    return WriterOptions(compression=codec, compression_level=1 if codec == "zstd" else None, encodings=encodings)


def one_by_one(parts: list[tuple[pa.Table, int]], chosen: WriterOptions) -> bytes:
    sink = pa.BufferOutputStream()
    with chosen.open(sink, parts[0][0].schema) as writer:
        for table, group_rows in parts:
            writer.write_table(table, row_group_size=group_rows)
    return bytes(sink.getvalue().to_pybytes())


def side_by_side(
    parts: list[tuple[pa.Table, int]], chosen: WriterOptions, meanwhile: Callable[[], None] = lambda: None
) -> bytes:
    sink = pa.BufferOutputStream()
    writer = ParallelWriter(sink, parts[0][0].schema, chosen)
    for table, group_rows in parts:
        writer.write(Ordered(table), group_rows, meanwhile=meanwhile)
    writer.close()
    return bytes(sink.getvalue().to_pybytes())


ALL = Encodings(dictionary=True, others={})
SOME = Encodings(dictionary=["déjà vu.x", "small", "day"], others={"ts": DELTA, "n": DELTA, "x": "BYTE_STREAM_SPLIT"})


@pytest.mark.parametrize("share_bytes", [1, 100_000, 1 << 40], ids=["alone", "a few", "all"])
@pytest.mark.parametrize(
    ("codec", "encodings"), [("zstd", SOME), ("zstd", ALL), ("snappy", SOME), ("lz4", ALL), ("none", SOME)]
)
def test_the_bytes_are_those_of_pyarrow(
    codec: str, encodings: Encodings, share_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel_writer, "_SHARE_BYTES", share_bytes)
    table, chosen = wide(), options(encodings, codec)
    parts = [(table, ROWS), (table.slice(100, 3_000), 700), (table.slice(0, 1), 10)]
    assert side_by_side(parts, chosen) == one_by_one(parts, chosen)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 60), st.integers(1, 40)), min_size=1, max_size=4),
    st.integers(1, 20),
    st.sampled_from([ALL, SOME]),
)
def test_the_bytes_are_those_of_pyarrow_however_many_row_groups_and_columns(
    sizes: list[tuple[int, int]], columns: int, encodings: Encodings
) -> None:
    table = wide(60)
    table = table.select(table.column_names[:columns])
    parts = [(table.slice(0, rows), group_rows) for rows, group_rows in sizes]
    chosen = options(encodings)
    share_bytes = parallel_writer._SHARE_BYTES
    parallel_writer._SHARE_BYTES = 1
    try:
        assert side_by_side(parts, chosen) == one_by_one(parts, chosen)
    finally:
        parallel_writer._SHARE_BYTES = share_bytes


def test_what_is_done_meanwhile_is_done_once_and_what_it_raises_is_raised() -> None:
    table, done = wide(), []
    data = side_by_side([(table, 1_000)], options(SOME), meanwhile=lambda: done.append(1))
    assert done == [1]
    assert pq.read_table(pa.BufferReader(data)).equals(table)

    def fail() -> None:
        raise RuntimeError("no coverage")

    with pytest.raises(RuntimeError, match="no coverage"):
        side_by_side([(table, 1_000)], options(SOME), meanwhile=fail)


def test_a_column_that_cannot_be_encoded_raises_what_pyarrow_raises() -> None:
    table = pa.table({"a": pa.array(range(10)), "b": pa.array([None] * 10, pa.month_day_nano_interval())})
    with pytest.raises(pa.ArrowNotImplementedError):
        one_by_one([(table, 10)], options(ALL))
    with pytest.raises(pa.ArrowNotImplementedError):
        side_by_side([(table, 10)], options(ALL))
