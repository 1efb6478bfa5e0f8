"""Columns encoded side by side make the file that `pyarrow` makes of them one after the other: its rows, its schema and its statistics."""

from __future__ import annotations

import datetime as dt
import decimal
import io
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless.files.pages.column_chunk import WriterOptions
from gapless.files.pages.encodings import Encodings
from gapless.files.pages.file_assembly import GrowingFile
from gapless.files.sort.order import DictionaryEncoded, Ordered
from gapless.files.write import parallel_writer
from gapless.files.write.parallel_writer import ParallelWriter
from gapless.model.stats import ColumnStats

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


def options(encodings: Encodings, codec: str = "zstd", min_bytes: int = 0) -> WriterOptions:
    level = 1 if codec == "zstd" else None
    return WriterOptions(
        compression=codec, compression_level=level, encodings=encodings, min_bytes=min_bytes, notes={"codec": codec, "why": "ü"}
    )


def by_pyarrow(parts: list[tuple[pa.Table, int]], chosen: WriterOptions) -> pa.Buffer:
    """The same with all that is written left to Arrow."""
    sink = pa.BufferOutputStream()
    encodings = chosen.encodings
    with pq.ParquetWriter(
        sink, parts[0][0].schema, compression=chosen.compression, compression_level=chosen.compression_level,
        use_dictionary=encodings.dictionary, column_encoding=dict(encodings.others) or None, write_page_checksum=True,
    ) as writer:  # fmt: skip
        writer.add_key_value_metadata(dict(chosen.notes))
        for table, group_rows in parts:
            writer.write_table(table, row_group_size=group_rows)
    return sink.getvalue()


def side_by_side(
    parts: list[tuple[pa.Table, int]], chosen: WriterOptions, meanwhile: Callable[[], None] = lambda: None, cores: int = 2
) -> bytes:
    sink = GrowingFile()
    writer = ParallelWriter(sink, parts[0][0].schema, chosen)
    for table, group_rows in parts:
        writer.write(Ordered(table), group_rows, cores=cores, meanwhile=meanwhile)
    writer.close()
    return b"".join(sink.pieces)


def in_bits(table: pa.Table) -> pa.Table:
    """The table with floats told by their bits: no NaN is equal to another."""
    bits = {pa.float16(): pa.int16(), pa.float32(): pa.int32(), pa.float64(): pa.int64()}
    columns = [
        pa.chunked_array([chunk.view(bits[column.type]) for chunk in column.chunks], bits[column.type])
        if column.type in bits
        else column
        for column in table.columns
    ]
    return pa.table(columns, table.column_names)


def is_the_same(data: bytes, expected: pa.Buffer) -> None:
    """Both files have the same rows, schema and metadata, and say the same of each column chunk."""
    ours, theirs = pq.ParquetFile(io.BytesIO(data), page_checksum_verification=True), pq.ParquetFile(pa.BufferReader(expected))
    assert in_bits(ours.read()).equals(in_bits(theirs.read()))
    assert ours.schema_arrow.equals(theirs.schema_arrow, check_metadata=True)
    assert ours.metadata.schema.equals(theirs.metadata.schema)
    assert ours.metadata.metadata == theirs.metadata.metadata
    assert ours.metadata.num_row_groups == theirs.metadata.num_row_groups
    for number in range(ours.metadata.num_row_groups):
        group, other = ours.metadata.row_group(number), theirs.metadata.row_group(number)
        assert (group.num_rows, group.num_columns) == (other.num_rows, other.num_columns)
        sizes = [group.column(at).total_compressed_size for at in range(group.num_columns)]
        assert group.total_byte_size == sum(group.column(at).total_uncompressed_size for at in range(group.num_columns))
        assert sum(sizes) < len(data)
        for at in range(group.num_columns):
            one, its = group.column(at), other.column(at)
            assert (one.path_in_schema, one.physical_type, one.num_values) == (
                its.path_in_schema,
                its.physical_type,
                its.num_values,
            )
            assert one.statistics == its.statistics, one.path_in_schema


ALL = Encodings(dictionary=True, others={})
NONE = Encodings(dictionary=False, others={})
SOME = Encodings(dictionary=["déjà vu.x", "small", "day"], others={"ts": DELTA, "n": DELTA, "x": "BYTE_STREAM_SPLIT"})


@pytest.mark.parametrize("share_bytes", [1, 100_000, 1 << 40], ids=["alone", "a few", "all"])
@pytest.mark.parametrize(
    ("codec", "encodings"),
    [
        ("zstd", SOME),
        ("zstd", ALL),
        ("zstd", NONE),
        ("snappy", SOME),
        ("lz4", ALL),
        ("none", SOME),
        ("gzip", ALL),
        ("gzip", NONE),
    ],
)
def test_the_file_is_that_of_pyarrow(
    codec: str, encodings: Encodings, share_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel_writer, "_SHARE_BYTES", share_bytes)
    table, chosen = wide(), options(encodings, codec)
    parts = [(table, ROWS), (table.slice(100, 3_000), 700), (table.slice(0, 1), 10)]
    data = side_by_side(parts, chosen)
    is_the_same(data, by_pyarrow(parts, chosen))
    assert data == side_by_side(parts, chosen, cores=1), "whoever encodes it"


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 60), st.integers(1, 40)), min_size=1, max_size=4),
    st.integers(1, 20),
    st.sampled_from([ALL, SOME, NONE]),
    st.sampled_from([0, 300, 1 << 30]),
)
def test_the_file_is_that_of_pyarrow_however_many_row_groups_and_columns(
    sizes: list[tuple[int, int, int]], columns: int, encodings: Encodings, min_bytes: int
) -> None:
    table = wide(100)
    table = table.select(table.column_names[:columns])
    parts = [(table.slice(start, rows), group_rows) for start, rows, group_rows in sizes]
    chosen = options(encodings, min_bytes=min_bytes)
    is_the_same(side_by_side(parts, chosen), by_pyarrow(parts, chosen))


KINDS = [
    pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
    pa.float16(), pa.float32(), pa.float64(), pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.string_view(),
    pa.binary(3), pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"),
    pa.duration("s"), pa.duration("ns"), pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us", "UTC"), pa.timestamp("ns"),
    pa.decimal128(5, 2), pa.decimal32(5, 2), pa.null(),
]  # fmt: skip


def some(kind: pa.DataType, numbers: list[int | None]) -> pa.Array:
    """Values of a type, one for each number."""
    if pa.types.is_null(kind):
        return pa.nulls(len(numbers))
    if pa.types.is_boolean(kind):
        return pa.array([None if n is None else n % 2 == 1 for n in numbers], kind)
    if pa.types.is_fixed_size_binary(kind):
        return pa.array([None if n is None else n.to_bytes(3, "little") for n in numbers], kind)
    if pa.types.is_floating(kind):
        odd = {0: float("nan"), 1: -0.0, 2: 0.0, 3: float("inf"), 4: float("-inf")}
        floats = [None if n is None else odd.get(n, n * 0.5 - 30) for n in numbers]
        mask = np.array([x is None for x in floats], np.bool_)
        return pa.array(np.array([0.0 if x is None else x for x in floats], kind.to_pandas_dtype()), kind, mask=mask)
    if pa.types.is_decimal(kind):
        return pa.array([None if n is None else decimal.Decimal(n) / 100 for n in numbers], kind)
    texts = pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view()
    if texts or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        spelled = [None if n is None else ["", "é", "\0", "long " * 9][n % 4] * (n % 5) for n in numbers]
        return pa.array(spelled if texts else [None if s is None else s.encode() for s in spelled], kind)
    if kind == pa.date64():
        return pa.array([None if n is None else n * 86_400_000 for n in numbers], pa.int64()).cast(kind)
    if pa.types.is_temporal(kind):
        bits = pa.int64() if kind.bit_width == 64 else pa.int32()
        return pa.array(numbers, bits).cast(kind)
    signed = pa.types.is_signed_integer(kind)
    return pa.array([None if n is None else n - 60 if signed else n for n in numbers], kind)


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(KINDS),
    st.lists(st.lists(st.none() | st.integers(0, 120), max_size=40), min_size=1, max_size=3),
    st.sampled_from([ALL, NONE]),
    st.integers(0, 5),
    st.booleans(),
)
def test_every_type_with_nulls_and_in_several_sliced_chunks_is_written_as_pyarrow_writes_it(
    kind: pa.DataType, chunks: list[list[int | None]], encodings: Encodings, cut: int, required: bool
) -> None:
    filled = [[n or 0 for n in chunk] if required else chunk for chunk in chunks]
    required = required and not pa.types.is_null(kind)
    arrays = [some(kind, [7, *chunk, 9]).slice(1, len(chunk)) for chunk in filled]
    schema = pa.schema([pa.field("v", kind, nullable=not required), pa.field("w", kind)])
    column = pa.chunked_array(arrays, kind)
    table = pa.Table.from_arrays([column, column], schema=schema).slice(cut)
    if not table.num_rows:
        return
    parts = [(table, 17)]
    for codec in ("zstd", "none"):
        chosen = options(encodings, codec)
        is_the_same(side_by_side(parts, chosen), by_pyarrow(parts, chosen))


def test_bits_of_floats_survive() -> None:
    bits = np.array([0x7FF8000000000001, 0xFFF8000000000000, 0x7FF0000000000001, 1 << 63, 0, 0x3FF0000000000000] * 9, np.uint64)
    for part in (bits, bits[:3], bits[3:5]):
        table = pa.table({"x": pa.array(part.view(np.float64))})
        for encodings in (ALL, NONE):
            data = side_by_side([(table, 100)], options(encodings))
            found = pq.read_table(pa.BufferReader(data)).column("x").to_numpy().view(np.uint64)
            assert found.tolist() == part.tolist()
            is_the_same(data, by_pyarrow([(table, 100)], options(encodings)))


def long_columns(rows: int) -> pa.Table:
    """Columns of several pages, whose values come in stretches, at random, and as nulls in between."""
    dice = np.random.default_rng(3)
    null = dice.random(rows) < 0.3
    names = np.array([f"name {n}" for n in range(70_000)])
    late = null & (np.arange(rows) > rows // 2)
    return pa.table(
        {
            "stretch": pa.array(names[np.arange(rows) // 3_000]),
            "short stretch": pa.array(names[np.arange(rows) // 40]),
            "any": pa.array(names[dice.integers(0, 300, rows)], mask=null),
            "any of many": pa.array(names[dice.integers(0, 70_000, rows)], mask=null),
            "distinct": pa.array([f"{n} of all" for n in range(rows)]),
            "two": pa.array(names[dice.integers(0, 2, rows)], mask=late),
            "twelve": pa.array(dice.integers(0, 12, rows), mask=null),
            "thousands": pa.array(dice.integers(0, 3_000, rows) * 10**9, mask=late),
            "x": pa.array(dice.normal(0, 1, rows), mask=null),
            "none": pa.nulls(rows, pa.string()),
            "no number": pa.nulls(rows, pa.int32()),
            "yes": pa.array(dice.random(rows) < 0.5, mask=late),
            "long": pa.array(["word " * 50] * rows),
        }
    )


@pytest.mark.parametrize("encodings", [ALL, NONE], ids=["dictionaries", "plain"])
@pytest.mark.parametrize("rows", [1, 7, 8, 20_000, 20_001, 90_000])
def test_pages_of_stretches_and_nulls_are_read_by_others(rows: int, encodings: Encodings, tmp_path: Path) -> None:
    table = long_columns(rows)
    for codec in ("none", "lz4"):
        data = side_by_side([(table, 60_000)], options(encodings, codec))
        is_the_same(data, by_pyarrow([(table, 60_000)], options(encodings, codec)))
        file = tmp_path / "file.parquet"
        file.write_bytes(data)
        assert pl.read_parquet(file).to_arrow().cast(table.schema).equals(table)
        with duckdb.connect() as session:
            assert session.sql(f"select * from '{file}'").to_arrow_table().cast(table.schema).equals(table)


def test_a_changed_byte_of_a_page_is_noticed() -> None:
    table = long_columns(1_000).select(["any", "x", "yes", "none"])
    data = side_by_side([(table, 1_000)], options(ALL, "none"))
    group = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(0)
    for at in range(3):
        chunk = group.column(at)
        end = (chunk.dictionary_page_offset or chunk.data_page_offset) + chunk.total_compressed_size
        torn = bytearray(data)
        torn[end - 1] ^= 1
        with pytest.raises(OSError, match="CRC"):
            pq.ParquetFile(io.BytesIO(torn), page_checksum_verification=True).read()


def test_a_null_where_none_may_be_is_refused() -> None:
    schema = pa.schema([pa.field("v", pa.int64(), nullable=False)])
    table = pa.Table.from_arrays([pa.chunked_array([pa.array([1, None])])], schema=schema)
    with pytest.raises(ValueError, match="'v' is declared non-nullable"):
        side_by_side([(table, 10)], options(NONE))


def test_numbers_too_many_for_a_dictionary_are_told_with_the_others() -> None:
    """The log would have the bounds of the other row groups alone, and scans would leave out the rows of these."""
    values = pa.array(range(70_000))
    places = np.concatenate([np.zeros(10, np.int64), np.arange(70_000)])
    table = pa.table({"k": values.take(pa.array(places))})
    sink = GrowingFile()
    writer = ParallelWriter(sink, table.schema, options(ALL))
    for part in (slice(10), slice(10, None)):
        rows = Ordered(table[part], {"k": DictionaryEncoded(values, places[part])}, frozenset("k"))
        writer.write(rows, 100_000, cores=1, meanwhile=lambda: None)
    writer.close()
    assert writer.stats["k"].stats == ColumnStats(min=0, max=69_999, nulls=0)
    is_the_same(b"".join(sink.pieces), by_pyarrow([(table[:10], 10), (table[10:], 70_000)], options(ALL)))


def test_few_bytes_are_not_compressed() -> None:
    table = pa.table({"a": [1] * 200, "b": [2] * 200})
    kinds = []
    for min_bytes in (0, 1_600, 1_700):
        file = pq.ParquetFile(io.BytesIO(side_by_side([(table, 200)], options(NONE, min_bytes=min_bytes))))
        kinds.append(file.metadata.row_group(0).column(0).compression)
    assert kinds == ["ZSTD", "ZSTD", "UNCOMPRESSED"]


def test_what_is_done_meanwhile_is_done_once_and_what_it_raises_is_raised() -> None:
    table, done = wide(), []
    for cores in (1, 2):
        data = side_by_side([(table, 1_000)], options(SOME), meanwhile=lambda: done.append(1), cores=cores)
        assert pq.read_table(pa.BufferReader(data)).equals(table)
    assert done == [1, 1]

    def fail() -> None:
        raise RuntimeError("no coverage")

    with pytest.raises(RuntimeError, match="no coverage"):
        side_by_side([(table, 1_000)], options(SOME), meanwhile=fail)


def test_a_column_that_cannot_be_encoded_raises_what_pyarrow_raises() -> None:
    table = pa.table({"a": pa.array(range(10)), "b": pa.array([None] * 10, pa.month_day_nano_interval())})
    with pytest.raises(pa.ArrowNotImplementedError):
        by_pyarrow([(table, 10)], options(ALL))
    with pytest.raises(pa.ArrowNotImplementedError):
        side_by_side([(table, 10)], options(ALL))
