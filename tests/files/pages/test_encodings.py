"""Each column is encoded in the way that its values deserve."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gapless.coverage.bucket import grid_of
from gapless.files.pages.column_chunk import WriterOptions, encoded_size
from gapless.files.pages.encodings import CODEC_PROFILES, DICTIONARY, Encodings, choose_encodings, values_of
from gapless.files.sort.order import DictionaryEncoded, Ordered
from gapless.files.sort.run import sort_run
from gapless.files.write import file_writer as encoding_trial
from gapless.files.write.segment_encoder import CODEC_KEY, ENCODINGS_KEY, SegmentEncoder, encode_segment
from gapless.model.index import IndexSpec, IntWidth
from gapless.model.properties import CODECS, Codec

ROWS = 20_000
DELTA = "DELTA_BINARY_PACKED"
INDEX = IndexSpec(column="i", type="int64", bucket=IntWidth(10), entity=("k",))
GRID = grid_of(INDEX.bucket, signed=True)
DICE = np.random.default_rng(11)


def table(**columns: Any) -> pa.Table:
    return pa.table({"i": pa.array(np.arange(ROWS) // 2), "k": ["a", "b"] * (ROWS // 2)} | columns)


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        (np.arange(ROWS) * 0.5, "plain"),
        (np.arange(ROWS) % 100 * 0.5, "dictionary"),
        (pa.nulls(ROWS, pa.string()), "dictionary"),
        (DICE.integers(0, 1_000, ROWS), "dictionary"),
        (DICE.integers(0, 10_000, ROWS), DELTA),
        (DICE.integers(0, 10_000, ROWS).astype(np.uint16), DELTA),
        (pa.array(DICE.integers(0, 10_000, ROWS), pa.timestamp("ns", "UTC")), DELTA),
        (pa.array(DICE.integers(0, 10_000, ROWS), pa.duration("ms")), DELTA),
        (pa.array(DICE.integers(0, 10_000, ROWS).astype(np.int32), pa.date32()), DELTA),
        (DICE.integers(0, 10_000, ROWS) * 1_000_003, "dictionary"),
        (DICE.integers(-(2**62), 2**62, ROWS), DELTA),
        (DICE.integers(0, 2**64, ROWS, dtype=np.uint64), DELTA),
        (DICE.integers(0, 2**64, 4_000, dtype=np.uint64)[DICE.integers(0, 4_000, ROWS)], "dictionary"),
    ],
)
def test_a_dictionary_where_values_repeat_and_differences_for_numbers_that_lie_dense(values: Any, wanted: str) -> None:
    chosen = choose_encodings(Ordered(table(v=values)), "i", CODEC_PROFILES["balanced"])
    found = "dictionary" if "v" in list(chosen.dictionary) else chosen.others.get("v", "plain")  # type: ignore[arg-type]
    assert found == wanted
    assert chosen.others["i"] == DELTA
    assert "k" in list(chosen.dictionary)  # type: ignore[arg-type]


def test_small_tables_have_plain_numbers_and_nested_ones_dictionaries_for_all() -> None:
    few = choose_encodings(
        Ordered(table(money=pa.array(range(ROWS), pa.decimal128(9, 2))).slice(0, 8_191)), "i", CODEC_PROFILES["balanced"]
    )
    assert (few.dictionary, dict(few.others), few.uncompressed) == (["k", "money"], {}, frozenset())
    assert [few.of(name) for name in ("i", "k", "money")] == ["PLAIN", "RLE_DICTIONARY", "RLE_DICTIONARY"]
    for rows in (1, ROWS):
        nested = choose_encodings(Ordered(table(n=pa.array([[1]] * ROWS)).slice(0, rows)), "i", CODEC_PROFILES["fastest"])
        assert nested == Encodings(dictionary=True, others={}, why={"*": "RLE_DICTIONARY: a column is nested"})
        assert nested.of("n") == "RLE_DICTIONARY"


@pytest.mark.parametrize(
    ("codec", "spread", "wanted"),
    [
        ("fastest", 5_000, "dictionary"),
        ("fastest", 5_001, DELTA),
        ("balanced", 1_250, "dictionary"),
        ("balanced", 4_000, DELTA),
    ],
)
def test_whole_numbers_of_a_small_range_get_a_dictionary_of_it(codec: Codec, spread: int, wanted: str) -> None:
    values = np.arange(ROWS) * 7_919 % spread - 600
    values[[0, -1]] = [-600, spread - 601]  # the sample has both ends
    said, file = chosen_by(codec, v=pa.array(values, mask=values == 0))
    column = file.metadata.row_group(0).column(2)
    assert said.of("v") == ("RLE_DICTIONARY" if wanted == "dictionary" else DELTA)
    assert column.has_dictionary_page is (wanted == "dictionary")


@pytest.mark.parametrize("worth_threads", [1, 1 << 40], ids=["side by side", "one by one"])
def test_a_segment_is_encoded_so_and_reads_as_it_was_written(worth_threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gapless.files.write.file_writer.WORTH_THREADS_BYTES", worth_threads)
    rows = table(x=np.arange(ROWS) * 0.5, v=DICE.integers(0, 10_000, ROWS), s=pa.nulls(ROWS, pa.string()))
    run = sort_run(rows, INDEX, GRID)
    segment = encode_segment(run, INDEX, "zstd")
    file = pq.ParquetFile(io.BytesIO(segment.data), page_checksum_verification=True)
    columns = [file.metadata.row_group(0).column(n) for n in range(5)]
    assert [column.has_dictionary_page for column in columns] == [False, True, False, False, True]
    assert [DELTA in column.encodings for column in columns] == [True, False, False, True, False]
    assert file.read().equals(run.table)
    assert (segment.bounds.first, segment.bounds.last) == (0, ROWS // 2 - 1)
    assert (segment.stats["k"].min, segment.stats["k"].max, segment.stats["k"].nulls) == ("a", "b", 0)
    assert (segment.stats["x"].min, segment.stats["x"].max) == (0.0, (ROWS - 1) * 0.5)
    assert segment.coverage == run.coverage


def test_an_index_in_no_order_is_not_said_to_rise() -> None:
    run = sort_run(table(), INDEX, GRID)
    clustered = SegmentEncoder(run.table.schema, INDEX, "zstd")
    clustered.write_table(run.table.take(pa.array(np.arange(ROWS)[::-1])), run.coverage)
    data = clustered.finish()
    file = pq.ParquetFile(io.BytesIO(data.data))
    # It has 10,000 values in a range as wide: judged as any other column.
    assert DELTA in file.metadata.row_group(0).column(0).encodings
    assert (data.stats["k"].min, data.stats["k"].max) == ("a", "b"), "not those of the first and the last row"


def chosen_by(codec: Codec, **columns: Any) -> tuple[Encodings, pq.ParquetFile]:
    """What a codec makes of these columns, and the file."""
    rows = table(**columns)
    run = sort_run(rows, INDEX, GRID)
    file = pq.ParquetFile(io.BytesIO(encode_segment(run, INDEX, codec).data), page_checksum_verification=True)
    assert file.read().equals(run.table)
    said = json.loads(file.metadata.metadata[ENCODINGS_KEY.encode()])
    assert file.metadata.metadata[CODEC_KEY.encode()].decode() == codec
    chosen = Encodings(
        dictionary=[name for name, why in said.items() if why.startswith("RLE_DICTIONARY:")],
        others={name: why.split(":")[0] for name, why in said.items() if not why.startswith(("RLE_DICTIONARY:", "PLAIN:"))},
        why=said,
    )
    return chosen, file


def in_file(file: pq.ParquetFile) -> dict[str, tuple[bool, set[str], str]]:
    """Of each column whether it has a dictionary, its encodings and its compression, as the footer has it."""
    group = file.metadata.row_group(0)
    columns = [group.column(at) for at in range(group.num_columns)]
    return {one.path_in_schema: (one.has_dictionary_page, set(one.encodings), one.compression) for one in columns}


COLUMNS = {
    "price": np.round(DICE.normal(100, 9, ROWS), 4),
    "few": DICE.integers(0, 9, ROWS) * 0.25,
    "count": DICE.integers(0, 10_000, ROWS),
    "word": pa.array([f"word {number}" for number in DICE.integers(0, 40, ROWS)]),
    "text": pa.array([f"line {number:05}, the same beginning each time" for number in range(ROWS)]),
}


def test_the_fastest_compresses_no_numbers_and_makes_few_dictionaries() -> None:
    said, file = chosen_by("fastest", **COLUMNS)
    found = in_file(file)
    assert said.dictionary == ["k", "few", "word"]
    assert said.others == {"count": DELTA}, "and the index is plain, of so few rows"
    assert [name for name, (has, _, _) in found.items() if has] == ["k", "few", "word"]
    bare = {name for name, (_, _, compression) in found.items() if compression == "UNCOMPRESSED"}
    assert bare == {"i", "price", "count", "k"}, "a few bytes are not compressed either"
    assert {compression for _, _, compression in found.values()} == {"UNCOMPRESSED", "LZ4"}


def test_the_smallest_is_what_a_trial_finds() -> None:
    said, file = chosen_by("smallest", **COLUMNS)
    found = in_file(file)
    assert said.others["text"] == "DELTA_BYTE_ARRAY"
    assert "DELTA_BYTE_ARRAY" in found["text"][1]
    assert said.others["i"] == DELTA
    assert {compression for _, _, compression in found.values()} == {"ZSTD"}
    sizes = {codec: len(encode_segment(sort_run(table(**COLUMNS), INDEX, GRID), INDEX, codec).data) for codec in CODECS}
    assert min(sizes, key=sizes.__getitem__) == "smallest"
    assert sizes["smallest"] < 0.9 * sizes["balanced"] < sizes["fastest"]


@pytest.mark.parametrize("codec", CODECS)
def test_no_file_has_an_encoding_that_spark_cannot_read(codec: Codec) -> None:
    _, file = chosen_by(codec, **COLUMNS, wide=DICE.integers(-(2**62), 2**62, ROWS), real=DICE.normal(0, 1, ROWS).astype("f4"))
    found = set().union(*(encodings for _, encodings, _ in in_file(file).values()))
    assert found <= {"PLAIN", "RLE", "RLE_DICTIONARY", DELTA, "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"}


@pytest.mark.parametrize("codec", ["fastest", "balanced", "smallest"])
def test_the_file_says_why(codec: Codec) -> None:
    said, file = chosen_by(codec, **COLUMNS)
    for name, (has_dictionary, encodings, _) in in_file(file).items():
        named = said.why[name].split(":")[0]
        assert named in encodings, name
        assert has_dictionary is (named == "RLE_DICTIONARY"), name


def test_what_a_file_says_is_bounded() -> None:
    wide = {f"column {number}": np.arange(ROWS) for number in range(150)}
    said, _ = chosen_by("balanced", **wide)
    assert len(said.why) == 100


@pytest.mark.parametrize("codec", ["fastest", "balanced", "smallest", "gzip"])
def test_the_bytes_do_not_depend_on_the_number_of_cores_or_the_order_of_arrival(
    codec: Codec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gapless.files.write.file_writer.WORTH_THREADS_BYTES", 1)
    monkeypatch.setattr("gapless.runtime.concurrency.WORTH_THREADS_BYTES", 1)
    rows, usual = table(**COLUMNS), pa.cpu_count()
    made = set()
    try:
        for cores in (1, 2, 7):
            pa.set_cpu_count(cores)
            for order in (
                rows,
                rows.sort_by([("k", "ascending"), ("i", "ascending")]),
                pa.concat_tables([rows.slice(0, 9), rows.slice(9)]),
            ):
                made.add(bytes(encode_segment(sort_run(order, INDEX, GRID), INDEX, codec).data))
    finally:
        pa.set_cpu_count(usual)
    assert len(made) == 1


def test_a_prices_dictionary_is_made_only_where_it_is_shorter() -> None:
    walk = np.round(100 + DICE.normal(0, 1, ROWS).cumsum() * 0.01, 4)
    said, _ = chosen_by("balanced", walk=walk, often=np.round(walk, 1))
    assert said.dictionary == ["k", "often"]
    assert "with a dictionary they take about" in said.why["walk"]


def test_floats_of_which_most_are_null_are_judged_by_the_others() -> None:
    sparse = pa.array(np.where(DICE.random(ROWS) < 0.999, np.nan, DICE.normal(0, 1, ROWS)), from_pandas=True)
    ends = pa.array([None if ROWS // 4 < at < ROWS - ROWS // 4 else at * 0.5 for at in range(ROWS)])
    said, _ = chosen_by("balanced", sparse=sparse, ends=ends)
    assert set(said.why) == {"i", "k", "sparse", "ends"}


FEW = [0, 1, 1, None, 5, 120, None, 120, 7]


@pytest.mark.parametrize(
    "kind",
    [
        pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64(), pa.float16(), pa.float32(),
        pa.float64(), pa.date32(), pa.date64(), pa.time32("s"), pa.time64("us"), pa.timestamp("ns", "UTC"), pa.duration("ms"),
        pa.string(), pa.large_binary(), pa.bool_(), pa.decimal128(9, 2), pa.decimal64(9, 2),
    ],
    ids=str,
)  # fmt: skip
def test_different_values_are_counted_as_arrow_counts_them(kind: pa.DataType) -> None:
    if pa.types.is_string(kind) or pa.types.is_large_binary(kind):
        base = pa.array([None if n is None else str(n) for n in FEW]).cast(kind)
    elif pa.types.is_decimal(kind):
        base = pa.array([None if n is None else Decimal(n) for n in FEW], kind)
    elif pa.types.is_temporal(kind):
        step = 86_400_000 if kind == pa.date64() else 1
        base = pa.array(
            [None if n is None else n * step for n in FEW], pa.int32() if kind.bit_width == 32 else pa.int64()
        ).view(kind)
    else:
        base = pa.array(FEW).cast(kind, safe=False)
    for column in (
        pa.chunked_array([base]),
        pa.chunked_array([base.slice(1, 2), base.slice(3, 1), base.slice(4)]),
        pa.chunked_array([base.slice(3, 1)]),
        pa.chunked_array([], kind),
    ):
        known = values_of(column)
        told = [value for value in column.to_pylist() if value is not None]
        assert (known.kind, known.count, known.distinct) == (kind, len(told), len(set(told)))
    if pa.types.is_integer(kind):
        assert values_of(pa.chunked_array([base])).spread == 120


def test_numbers_are_told_apart_by_their_bits() -> None:
    assert values_of(pa.chunked_array([pa.array([0.0, -0.0, np.nan, np.nan, 1.0])])).distinct == 4
    ends = [-(2**63), 2**63 - 1, 0]
    assert values_of(pa.chunked_array([pa.array(ends)])).spread == 2**64 - 1
    assert values_of(pa.chunked_array([pa.array([0, 2**64 - 1], pa.uint64())])).spread == 2**64 - 1


@pytest.mark.parametrize("codec", ["fastest", "balanced"])
def test_a_sample_is_the_same_of_one_piece_and_of_many(codec: Codec) -> None:
    rows = table(price=np.round(DICE.normal(100, 9, ROWS), 2), count=DICE.integers(0, 1_000, ROWS).astype(np.int32))
    cut = pa.concat_tables([rows.slice(start, end - start) for start, end in pairwise([0, 1, 7, 9_000, 9_000, ROWS])])
    assert cut.column("price").num_chunks > 1
    after = pa.concat_tables([rows, rows]).combine_chunks().slice(ROWS)
    chosen = [choose_encodings(Ordered(one), "i", CODEC_PROFILES[codec]) for one in (rows, cut, after)]
    assert chosen[0] == chosen[1] == chosen[2]


def test_a_column_known_by_places_is_chosen_as_its_values_are() -> None:
    places = np.sort(DICE.integers(0, 60, ROWS))
    for values in (
        pa.array([f"k{n:02}" for n in range(60)]),
        pa.array(np.arange(60) * 3 - 20),
        pa.array(np.arange(60) * 2.0**40),
    ):
        spelled = DictionaryEncoded(values, places)
        rows = pa.table({"i": np.arange(ROWS), "k": values.take(pa.array(places))})
        for codec in CODECS[:2]:
            known = choose_encodings(Ordered(rows, {"k": spelled}), "i", CODEC_PROFILES[codec])
            assert known == choose_encodings(Ordered(rows), "i", CODEC_PROFILES[codec])


def test_numbers_that_hardly_repeat_are_not_tried_with_a_dictionary(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[tuple[list[str], str]] = []

    def size(rows: pa.Table, how: WriterOptions) -> int:
        tried.append((rows.column_names, how.encodings.of(rows.column_names[0])))
        return encoded_size(rows, how)

    monkeypatch.setattr(encoding_trial, "encoded_size", size)
    noise, few = DICE.normal(0, 1, ROWS), DICE.integers(0, 9, ROWS) * 0.25
    said, _ = chosen_by("smallest", noise=noise, few=few, gone=pa.nulls(ROWS, pa.float64()))
    assert said.why["noise"] == f"PLAIN: {ROWS:,} of {ROWS:,} values are distinct"
    assert not [names for names, _ in tried if names == ["noise"]]
    for name in ("few", "gone"):
        assert [how for names, how in tried if names == [name]] == [DICTIONARY, "PLAIN"]


@pytest.mark.parametrize("kind", ["i1", "u1", "i2", "u2", "i4", "f4"])
@pytest.mark.parametrize("kinds", [3, 256, 5_000, 15_000])
def test_narrow_numbers_take_no_more_bytes_than_in_any_other_encoding(kind: str, kinds: int) -> None:
    values = DICE.integers(0, 2**62, kinds)[DICE.integers(0, kinds, ROWS)]
    rows = pa.table({"v": (values % 2**24).astype(kind)})
    aim = CODEC_PROFILES["smallest"]
    chosen = encoding_trial.try_encodings(Ordered(rows), aim)

    def size(how: Encodings) -> int:
        return encoded_size(rows, WriterOptions(compression=aim.compression, compression_level=aim.level, encodings=how))

    others = {} if kind == "f4" else {"v": DELTA}
    every = [
        Encodings(dictionary=["v"], others={}),
        Encodings(dictionary=[], others={}),
        Encodings(dictionary=[], others=others),
    ]
    assert size(chosen) == min(map(size, every))
