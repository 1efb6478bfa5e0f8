"""Values taken out of single pages are those that Arrow reads, or are left to Arrow."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gapless.files.pages.page import MOST_RUNS, runs_of
from gapless.files.pages.page_map import map_pages
from gapless.files.pages.page_slice import ColumnPages, RowRanges
from gapless.files.pages.page_values import coded_runs, number_values

ROWS = 3_000
PLAIN: dict[str, pa.DataType] = {
    "i32": pa.int32(), "u32": pa.uint32(), "i64": pa.int64(), "u64": pa.uint64(), "f32": pa.float32(), "f64": pa.float64(),
    "date": pa.date32(), "ms": pa.timestamp("ms"), "us": pa.timestamp("us", "UTC"), "ns": pa.timestamp("ns", "Europe/Paris"),
    "time32": pa.time32("ms"), "time64": pa.time64("us"), "time_ns": pa.time64("ns"),
}  # fmt: skip
OTHER: dict[str, pa.DataType] = {
    "i8": pa.int8(), "i16": pa.int16(), "u16": pa.uint16(), "s": pa.timestamp("s"), "time_s": pa.time32("s"), "date64": pa.date64(),
    "f16": pa.float16(), "flag": pa.bool_(), "text": pa.string(), "fixed": pa.binary(4), "cents": pa.decimal128(22, 2),
}  # fmt: skip
"""What Arrow holds otherwise than Parquet's pages do."""


def values(kind: pa.DataType, rows: int = ROWS) -> pa.Array:
    numbers = np.random.default_rng(3).integers(0, 100, rows)
    if pa.types.is_floating(kind):
        odd = [0.0, -0.0, math.nan, math.inf, -math.inf]
        return pa.array(np.array([odd[n % 5] if n < 50 else n / 7 for n in numbers], np.dtype(kind.to_pandas_dtype())), kind)
    if kind == pa.binary(4):
        return pa.array([b"%04d" % n for n in numbers], kind)
    if kind == pa.date64():
        return pa.array(numbers * 86_400_000).cast(kind)
    if pa.types.is_time32(kind) or kind == pa.date32():
        return pa.array(numbers.astype(np.int32)).cast(kind)
    return pa.array(numbers).cast(kind)


def written(table: pa.Table, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    given = {"write_page_checksum": True, "data_page_size": 2_000, "write_batch_size": 100, "use_dictionary": False}
    pq.write_table(table, sink, **given | options)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def pages_of(data: bytes, name: str, start: int = 0, end: int = ROWS) -> ColumnPages:
    metadata = pq.read_metadata(pa.BufferReader(data))
    leaf = metadata.schema.names.index(name)
    chunk = metadata.row_group(0).column(leaf)
    found = map_pages(pa.BufferReader(data), chunk, metadata.row_group(0).num_rows)
    assert found is not None
    optional = metadata.schema.column(leaf).max_definition_level > 0
    return ColumnPages(chunk=chunk, map=found, pages=found.around(start, end), optional=optional)


def bits(array: pa.Array) -> bytes:
    """The values' bytes, so that NaN is itself and -0.0 is not 0.0."""
    width = array.type.bit_width // 8
    found: bytes = array.buffers()[1].to_pybytes()[array.offset * width : (array.offset + len(array)) * width]
    return found


def check_numbers(data: bytes, kinds: Mapping[str, pa.DataType]) -> None:
    """Whether the numbers taken from the pages of these columns, of several pages each, are those that Arrow reads, bit for bit."""
    read = pq.read_table(pa.BufferReader(data)).combine_chunks()
    for name, kind in kinds.items():
        for start, end in ((0, ROWS), (0, 1), (ROWS - 1, ROWS), (249, 251), (700, 2_100), (5, 5)):
            pages = pages_of(data, name, start, max(end, start + 1))
            taken = number_values(pa.BufferReader(data), pages, kind, start, end)
            assert taken is not None, name
            taken.validate(full=True)
            assert taken.type == kind
            assert bits(taken) == bits(read.column(name).chunk(0).slice(start, end - start)), (name, start, end)
        assert len(pages_of(data, name).map.pages) > 3


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "brotli", "zstd", "lz4"])
@pytest.mark.parametrize("nullable", [True, False])
def test_plain_numbers_are_those_that_arrow_reads(compression: str, nullable: bool) -> None:
    schema = pa.schema([pa.field(name, kind, nullable=nullable) for name, kind in PLAIN.items()])
    table = pa.table([values(kind) for kind in PLAIN.values()], schema=schema)
    data = written(table, compression=compression, coerce_timestamps=None, version="2.6")
    check_numbers(data, PLAIN)


@pytest.mark.parametrize(
    "options", [{}, {"dictionary_pagesize_limit": 200}, {"compression": "none"}, {"version": "1.0"}], ids=str
)
@pytest.mark.parametrize("nullable", [True, False])
def test_numbers_in_a_dictionary_are_those_that_arrow_reads(options: dict[str, Any], nullable: bool) -> None:
    """Pages after a full dictionary are plain; those of the first version name the encoding otherwise."""
    kinds = {
        name: kind for name, kind in PLAIN.items() if options.get("version") != "1.0" or name in ("i32", "i64", "f32", "f64")
    }
    schema = pa.schema([pa.field(name, kind, nullable=nullable) for name, kind in kinds.items()])
    table = pa.table([values(kind) for kind in kinds.values()], schema=schema)
    data = written(table, **{"use_dictionary": True, "compression": "zstd", "version": "2.6", "data_page_size": 200} | options)
    check_numbers(data, kinds)
    assert all(pages_of(data, name).map.dictionary is not None for name in kinds)


def test_places_beyond_a_dictionary_are_left_to_arrow() -> None:
    data = written(pa.table({"a": pa.array([1.5, 2.5] * 1_500)}), use_dictionary=True)
    other = written(pa.table({"a": pa.array([1.5] * ROWS)}), use_dictionary=True)
    pages, short = pages_of(data, "a"), pages_of(other, "a").map.dictionary
    joined = data + other
    assert short is not None
    moved = replace(short, start=short.start + len(data), body=short.body + len(data), end=short.end + len(data))
    assert number_values(pa.BufferReader(joined), pages, pa.float64(), 0, ROWS) is not None
    assert (
        number_values(pa.BufferReader(joined), replace(pages, map=replace(pages.map, dictionary=moved)), pa.float64(), 0, 9)
        is None
    )
    assert (
        number_values(pa.BufferReader(joined), replace(pages, map=replace(pages.map, dictionary=None)), pa.float64(), 0, 9)
        is None
    )


def test_texts_in_runs_are_given_dictionary_encoded() -> None:
    column = pa.array(RUNS["short ones among them"])
    data = written(pa.table({"a": column}), use_dictionary=True)
    runs = coded_runs(pa.BufferReader(data), pages_of(data, "a"), pa.string())
    assert runs is not None
    for start, end in ((0, ROWS), (400, 401), (399, 2_411)):
        encoded = runs.of(start, end, encoded=True)
        encoded.validate(full=True)
        assert encoded.type == pa.dictionary(pa.int32(), pa.string())
        assert encoded.dictionary_decode().equals(column.slice(start, end - start))


@pytest.mark.parametrize("name", OTHER)
def test_other_types_are_left_to_arrow(name: str) -> None:
    data = written(pa.table({name: values(OTHER[name])}))
    assert number_values(pa.BufferReader(data), pages_of(data, name), OTHER[name], 0, ROWS) is None


@pytest.mark.parametrize("nulls", [[0], [ROWS - 1], list(range(0, ROWS, 2)), list(range(ROWS))], ids=str)
@pytest.mark.parametrize("kind", [pa.int64(), pa.string()], ids=str)
def test_pages_with_nulls_are_left_to_arrow(nulls: list[int], kind: pa.DataType) -> None:
    mask = np.zeros(ROWS, np.bool_)
    mask[nulls] = True
    array = pa.array(["x", "y"] * (ROWS // 2) if kind == pa.string() else list(range(ROWS)), kind, mask=mask)
    data = written(pa.table({"a": array}), use_dictionary=kind == pa.string())
    take = coded_runs if kind == pa.string() else partial(number_values, start=0, end=ROWS)
    assert take(pa.BufferReader(data), pages_of(data, "a"), kind) is None


@pytest.mark.parametrize("options", [{"data_page_version": "2.0"}, {"column_encoding": {"a": "DELTA_BINARY_PACKED"}},
                                     {"column_encoding": {"a": "BYTE_STREAM_SPLIT"}}])  # fmt: skip
def test_other_pages_are_left_to_arrow(options: dict[str, Any]) -> None:
    data = written(pa.table({"a": values(pa.int64())}), **options)
    assert number_values(pa.BufferReader(data), pages_of(data, "a"), pa.int64(), 0, ROWS) is None


RUNS = {
    "one value": ["one"] * ROWS,
    "long runs": [f"k{n // 400}" for n in range(ROWS)],
    "runs that end in a page": [f"k{n // 333}" for n in range(ROWS)],
    "short ones among them": [f"k{n // 400}" if n % 400 > 9 else f"s{n % 3}" for n in range(ROWS)],
    "empty and long texts": ["" if n < 1_500 else "é" * 300 for n in range(ROWS)],
    "many values": [f"v{n // 5}" for n in range(ROWS)],
}


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("kind", [pa.string(), pa.binary()], ids=str)
@pytest.mark.parametrize("compression", ["none", "zstd", "lz4"])
def test_texts_in_runs_are_those_that_arrow_reads(name: str, kind: pa.DataType, compression: str) -> None:
    column = pa.array(RUNS[name], pa.string()).cast(kind)
    data = written(pa.table({"a": column}), use_dictionary=True, compression=compression, data_page_size=60)
    for start, end in ((0, ROWS), (0, 1), (ROWS - 1, ROWS), (333, 334), (700, 2_100)):
        runs = coded_runs(pa.BufferReader(data), pages_of(data, "a", start, end), kind)
        assert (runs is None) is (name == "many values" and end - start > 1_000)
        if runs is not None:
            assert runs.of(start, end).equals(column.slice(start, end - start))


def test_the_rows_of_wanted_values_are_found() -> None:
    column = pa.array(RUNS["short ones among them"])
    data = written(pa.table({"a": column}), use_dictionary=True)
    runs = coded_runs(pa.BufferReader(data), pages_of(data, "a"), pa.string())
    assert runs is not None
    texts = column.to_pylist()
    for wanted in (["k2"], ["s0"], ["k1", "k6"], ["nope"], ["k0", "s2"]):
        mask = np.isin(np.array(runs.values.to_pylist(), object), wanted)
        for start, end in ((0, ROWS), (450, 2_411), (400, 401), (1_199, 1_203)):
            kept = [row for row in range(start, end) if texts[row] in wanted]
            assert runs.spans(mask, start, end) == RowRanges(
                ((kept[0], kept[-1] + 1),) if kept else (), exact=not kept or kept[-1] + 1 - kept[0] == len(kept)
            )


def test_a_byte_that_is_flipped_is_found() -> None:
    table = pa.table({"n": values(pa.float64()), "k": RUNS["long runs"], "c": values(pa.int64())})
    for compression in ("none", "zstd"):
        data = written(table, compression=compression, use_dictionary=["k", "c"])
        for name, kind, take in (
            ("n", pa.float64(), partial(number_values, start=0, end=ROWS)),
            ("k", pa.string(), coded_runs),
            ("c", pa.int64(), partial(number_values, start=0, end=ROWS)),
        ):
            pages = pages_of(data, name)
            spans = [*pages.map.pages, *([] if pages.map.dictionary is None else [pages.map.dictionary])]
            for page in spans:
                for at in range(page.body, page.end, max(1, (page.end - page.body) // 7)):
                    altered = data[:at] + bytes([data[at] ^ 16]) + data[at + 1 :]
                    with pytest.raises(pa.ArrowException):
                        take(pa.BufferReader(altered), pages, kind)


def hybrid(runs: list[tuple[int, int]], width: int, packed: bool) -> bytes:
    """Numbers in Parquet's hybrid encoding: each run on its own, or all of them packed in groups of eight."""
    length = (width + 7) // 8
    if not packed:
        return b"".join(varint(times << 1) + value.to_bytes(length, "little") for value, times in runs)
    numbers = [value for value, times in runs for _ in range(times)]
    numbers += [0] * (-len(numbers) % 8)
    whole = sum(number << (width * at) for at, number in enumerate(numbers))
    return varint((len(numbers) // 8) << 1 | 1) + whole.to_bytes(len(numbers) * width // 8, "little")


def varint(value: int) -> bytes:
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + varint(value >> 7)


@pytest.mark.parametrize("width", [1, 2, 3, 5, 7, 8, 9, 13, 16, 20, 31, 32])
def test_numbers_of_any_width(width: int) -> None:
    dice = np.random.default_rng(width)
    runs = [(int(dice.integers(0, 2**width)), int(dice.integers(1, 40))) for _ in range(30)]
    count = sum(times for _, times in runs)
    flat = [value for value, times in runs for _ in range(times)]
    assert runs_of(hybrid(runs, width, packed=False), width, count) == runs
    found = runs_of(hybrid(runs, width, packed=True), width, count)
    assert found is not None
    assert [value for value, times in found for _ in range(times)] == flat
    both = hybrid(runs, width, packed=False) + hybrid(runs[:3], width, packed=True)
    more = sum(times for _, times in runs[:3])
    assert sum(times for _, times in runs_of(both, width, count + more) or []) == count + more


def test_bytes_that_do_not_hold_the_numbers_are_left_to_arrow() -> None:
    for packed in (False, True):
        good = hybrid([(1, 9), (2, 300), (3, 1)], 2, packed=packed)
        assert runs_of(good, 2, 310) is not None
        assert runs_of(good + b"\2\1", 2, 310) is None, "more than the numbers need"
        assert [runs_of(good[:end], 2, 310) for end in range(len(good) - (not packed))] == [None] * (len(good) - (not packed))
    assert runs_of(b"", 2, 1) is None
    assert runs_of(b"\x80", 2, 1) is None
    assert runs_of(hybrid([(0, 8)], 1, packed=False), 0, 8) is None
    many = [(n % 2, 1) for n in range(MOST_RUNS + 2)]
    assert runs_of(hybrid(many, 1, packed=False), 1, len(many)) is None
    assert runs_of(hybrid(many, 1, packed=True), 1, len(many)) is None
    assert all(one != other for one, other in pairwise(many))
