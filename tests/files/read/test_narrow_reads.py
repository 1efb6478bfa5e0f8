"""Reading few rows of a large row group: the same rows as reading all of it, out of fewer bytes, with every byte checked."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import gapless as gl
from gapless.errors import CorruptTable
from gapless.files.pages import page_slice as spans
from gapless.files.pages import page_values
from gapless.files.pages.page_map import Page, map_pages
from gapless.files.pages.page_slice import slice_file
from gapless.files.pages.thrift import unsigned
from gapless.files.read import page_pruning
from support.releases import needs_pyarrow

ROWS, SYMBOLS, SPAN = 60_000, 6, 1_000_000


def ticks(seed: int) -> pa.Table:
    dice = np.random.default_rng(seed)
    some = dice.random(ROWS) < 0.1
    return pa.table(
        {
            "i": dice.integers(0, SPAN, ROWS),
            "k": np.array([f"S{n}" for n in range(SYMBOLS)])[dice.integers(0, SYMBOLS, ROWS)],
            "x": pa.array(np.round(dice.normal(0, 1, ROWS), 3), mask=some),
            "wide": dice.integers(-(2**62), 2**62, ROWS),
            "flag": pa.array(dice.random(ROWS) < 0.5, mask=some),
            "note": pa.array([f"note {n % 97}" * (n % 5) for n in range(ROWS)], mask=some),
            "day": pa.array(dice.integers(0, 20_000, ROWS).astype(np.int32), pa.date32()),
            "cents": pa.array(dice.integers(0, 10**6, ROWS)).cast(pa.decimal128(22, 2)),
        }
    )


def made(folder: Path, data: pa.Table, codec: Any = "balanced", entity: list[str] | None = None) -> gl.TimeSeriesTable:
    keys = ["k"] if entity is None else entity
    table = gl.create(folder, index="i", index_type="int64", entity=keys, bucket=1_000, properties={"codec": codec})
    table.append(data)
    return table


def file_of(table: gl.TimeSeriesTable) -> Path:
    (segment,) = table.segments()
    return Path(table.url.removeprefix("file://")) / segment.path


def by_key(rows: pa.Table) -> pa.Table:
    return rows.sort_by([(name, "ascending") for name in ("k", "i", "wide")])


@pytest.fixture
def sliced(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of pages that were taken as they lie, and of the files that were put together out of others."""
    sizes: list[int] = []
    read_body = page_values.read_body

    def spy_page(file: Any, page: Page, compression: str) -> Any:
        sizes.append(page.end - page.start)
        return read_body(file, page, compression)

    def spy(*given: Any) -> pa.Buffer:
        made = slice_file(*given)
        sizes.append(made.size)
        return made

    monkeypatch.setattr(page_pruning, "slice_file", spy)
    monkeypatch.setattr(page_values, "read_body", spy_page)
    return sizes


@needs_pyarrow(23, "ends pages by size, not by rows")
@pytest.mark.parametrize("codec", ["fastest", "balanced", "smallest", "gzip", "snappy", "none"])
def test_a_range_of_one_identity_is_what_a_filter_over_the_file_gives(tmp_path: Path, codec: str, sliced: list[int]) -> None:
    table = made(tmp_path / "t", ticks(3), codec)
    whole = pq.read_table(file_of(table))
    dice = np.random.default_rng(5)
    for symbol in range(SYMBOLS):
        start, width = int(dice.integers(0, SPAN)), int(dice.integers(1, SPAN // 3))
        kept = (pc.field("k") == f"S{symbol}") & (pc.field("i") >= start) & (pc.field("i") < start + width)
        rows = table.scan(start, start + width, entity={"k": f"S{symbol}"}).to_arrow()
        assert by_key(rows).equals(by_key(whole.filter(kept).cast(rows.schema))), (symbol, start, width)
    assert len(sliced) >= 2 * SYMBOLS
    assert sum(sliced) < 0.6 * SYMBOLS * file_of(table).stat().st_size, "pages that are not near are not read"


@pytest.mark.parametrize(
    "where",
    ["k = 'S9'", "k = 'S2' and i >= 999990 and x > 1", "i < 4000", "k in ('S0', 'S5')", "k > 'S3' and flag", "k = 'S1' or i < 10",
     "k = 'S1' and note is null", "k <> 'S3' and i between 500 and 900"],
)  # fmt: skip
def test_any_filter_gives_the_same_rows(tmp_path: Path, where: str) -> None:
    data = ticks(4)
    rows = made(tmp_path / "t", data).scan(where=where).to_arrow()
    assert by_key(rows).equals(by_key(by_duckdb(data, where).cast(rows.schema)))


EXPRESSIONS = {
    "k = 'S2' and i >= 999990 and x > 1": (pc.field("k") == "S2") & (pc.field("i") >= 999_990) & (pc.field("x") > 1),
    "k = 'S3' and i between 2000 and 90000": (pc.field("k") == "S3") & (pc.field("i") >= 2_000) & (pc.field("i") <= 90_000),
    "k in ('S0', 'S5') and i < 30000": pc.field("k").isin(["S0", "S5"]) & (pc.field("i") < 30_000),
    "k = 'S9'": pc.field("k") == "S9",
    "i < 4000": pc.field("i") < 4_000,
    "k > 'S3' and flag": (pc.field("k") > "S3") & pc.field("flag"),
    "k = 'S1' or i < 10": (pc.field("k") == "S1") | (pc.field("i") < 10),
    "not k <> 'S4' and note is null": ~(pc.field("k") != "S4") & pc.field("note").is_null(),
    "k >= 'S5'": pc.field("k") >= "S5",
    "length(k) = 2 and i % 1000 = 0": (pc.utf8_length(pc.field("k")) == 2)
    & (pc.field("i") - pc.divide(pc.field("i"), 1_000) * 1_000 == 0),
}


@pytest.mark.parametrize("where", EXPRESSIONS)
@pytest.mark.parametrize("entity", [["k"], [], ["day", "k"]], ids=str)
def test_an_expression_and_sql_find_the_same_rows(tmp_path: Path, where: str, entity: list[str]) -> None:
    data = ticks(14)
    table = made(tmp_path / "t", data, entity=entity)
    expected = by_key(by_duckdb(data, where))
    scanned = by_key(table.scan(where=EXPRESSIONS[where]).to_arrow())
    assert scanned.equals(expected.cast(scanned.schema))
    assert by_key(table.sql(f"select * from this where {where}").to_arrow()).equals(expected)
    in_range = table.scan(1_000, 500_000, where=EXPRESSIONS[where]).to_arrow()
    assert by_key(in_range).equals(by_key(by_duckdb(data, f"({where}) and i >= 1000 and i < 500000")).cast(scanned.schema))


def test_sql_over_one_identity_reads_its_pages_alone(tmp_path: Path, sliced: list[int]) -> None:
    table = made(tmp_path / "t", ticks(15))
    assert table.sql("select count(i) n, sum(wide) > 0 s from this where k = 'S2' and i < 9000").to_arrow().num_rows == 1
    assert 0 < sum(sliced) < 0.4 * file_of(table).stat().st_size


def by_duckdb(data: pa.Table, where: str) -> pa.Table:
    with duckdb.connect() as connection:
        connection.register("data", data)
        return connection.sql(f"select * from data where {where}").to_arrow_table()


def test_columns_whose_pages_cannot_be_read_apart_are_read_whole(tmp_path: Path, sliced: list[int]) -> None:
    data = ticks(6).append_column("several", pa.array([[n, n + 1] for n in range(ROWS)]))
    table = made(tmp_path / "t", data)
    rows = table.scan(where="k = 'S2' and i < 20000").to_arrow()
    kept = data.filter((pc.field("k") == "S2") & (pc.field("i") < 20_000))
    assert by_key(rows).equals(by_key(kept.cast(rows.schema)))
    assert sliced, "the keys are looked at"


def test_a_table_without_entity_columns_is_narrowed_by_its_index(tmp_path: Path, sliced: list[int]) -> None:
    data = ticks(7)
    table = made(tmp_path / "t", data, entity=[])
    rows = table.scan(5_000, 9_000).to_arrow()
    kept = data.filter((pc.field("i") >= 5_000) & (pc.field("i") < 9_000))
    assert by_key(rows).equals(by_key(kept.cast(rows.schema)))
    assert len(sliced) >= 2


def test_renamed_and_added_columns_are_narrowed_by_their_stored_names(tmp_path: Path, sliced: list[int]) -> None:
    data = ticks(8)
    table = made(tmp_path / "t", data)
    table.rename_column("x", "price")
    table.rename_column("note", "x")
    table.add_column("later", "int32")
    rows = table.scan(0, 9_000, entity={"k": "S4"}, columns=["x", "later", "price", "wide"]).to_arrow()
    kept = data.filter((pc.field("k") == "S4") & (pc.field("i") < 9_000)).sort_by([("i", "ascending"), ("wide", "ascending")])
    rows = rows.take(pc.index_in(kept.column("wide"), rows.column("wide")))
    assert rows.column("x").to_pylist() == kept.column("note").to_pylist()
    assert rows.column("price").to_pylist() == kept.column("x").to_pylist()
    assert rows.column("later").null_count == kept.num_rows
    assert len(sliced) >= 2


def test_a_byte_that_is_flipped_in_a_page_that_is_read_is_found(tmp_path: Path) -> None:
    table = made(tmp_path / "t", ticks(9))
    path = file_of(table)
    good = path.read_bytes()
    metadata = pq.read_metadata(path)
    names = metadata.schema.to_arrow_schema().names
    expected = table.scan(0, 100_000, entity={"k": "S3"}).to_arrow()
    for name in names:
        chunk = metadata.row_group(0).column(names.index(name))
        found = map_pages(pa.BufferReader(good), chunk, metadata.row_group(0).num_rows)
        assert found is not None
        middle = found.pages[len(found.pages) // 2]
        for at in range(middle.start, middle.end, max(1, (middle.end - middle.start) // 10)):
            path.write_bytes(good[:at] + bytes([good[at] ^ 4]) + good[at + 1 :])
            try:
                rows = gl.open(table.url).scan(0, 100_000, entity={"k": "S3"}).to_arrow()
            except CorruptTable:
                path.write_bytes(good)
                assert gl.open(table.url).scan(0, 100_000, entity={"k": "S3"}).to_arrow().equals(expected), "once it is mended"
                continue
            # What is flipped lies in a page that is not read, or in what is not part of the data.
            assert rows.equals(expected), (name, at)


def test_a_page_header_that_tells_of_more_rows_is_not_believed(tmp_path: Path) -> None:
    table = made(tmp_path / "t", ticks(10))
    path = file_of(table)
    metadata = pq.read_metadata(path)
    chunk = metadata.row_group(0).column(0)
    rows = metadata.row_group(0).num_rows
    assert map_pages(pa.BufferReader(path.read_bytes()), chunk, rows) is not None
    with pytest.raises(pa.ArrowInvalid, match=f"have {rows} values and not {rows + 1}"):
        map_pages(pa.BufferReader(path.read_bytes()), chunk, rows + 1)


def test_a_page_that_is_said_to_have_more_values_is_an_error_where_it_is_looked_at(tmp_path: Path) -> None:
    """Of nullable values Arrow takes the bits that fill up the last byte of levels for nulls, and shifts what follows."""
    data = ticks(19).select(["i", "k"]).sort_by([("k", "ascending"), ("i", "ascending")])
    data = data.append_column("x", pa.array([None if row % 2 else float(row) for row in range(ROWS)]))
    options: dict[str, Any] = {"write_page_checksum": True, "data_page_size": 2_000, "write_batch_size": 101}
    pq.write_table(data, tmp_path / "f.parquet", **options)
    table = gl.create(tmp_path / "t", index="i", index_type="int64", entity=["k"], bucket=1_000)
    table.append_file(tmp_path / "f.parquet", adopt="copy")
    path = file_of(table)
    good, chunk = path.read_bytes(), pq.read_metadata(path).row_group(0).column(data.column_names.index("x"))
    found = map_pages(pa.BufferReader(good), chunk, ROWS)
    assert found is not None
    sizes = [after.first - page.first for page, after in pairwise(found.pages)]
    page, size = next((page, size) for page, size in zip(found.pages[1:], sizes[1:], strict=False) if size % 8)
    told = b"\x1c\x15" + unsigned(size << 1)
    header = good[page.start : page.body]
    assert header.count(told) == 1
    altered = header.replace(told, b"\x1c\x15" + unsigned((size + 1) << 1))
    path.write_bytes(good[: page.start] + altered + good[page.body :])
    with pytest.raises(CorruptTable, match=f"pages of x have {ROWS + 1} values and not {ROWS}"):
        gl.open(table.url).scan(0, 100_000, entity={"k": "S3"}).to_arrow()


@needs_pyarrow(23, "ends pages by size, not by rows")
def test_headers_that_are_not_headers_are_left_to_arrow(tmp_path: Path) -> None:
    table = made(tmp_path / "t", ticks(11))
    good = file_of(table).read_bytes()
    metadata = pq.read_metadata(pa.BufferReader(good))
    chunk, rows = metadata.row_group(0).column(0), metadata.row_group(0).num_rows
    found = map_pages(pa.BufferReader(good), chunk, rows)
    assert found is not None
    for at in range(found.pages[1].start, found.pages[1].start + 24):
        for flipped in (1, 4, 32, 64, 128, 255):
            altered = good[:at] + bytes([good[at] ^ flipped]) + good[at + 1 :]
            try:
                told = map_pages(pa.BufferReader(altered), chunk, rows)
            except pa.ArrowInvalid:
                continue
            # Sizes may be wrong, which checksums of pages show; which rows a page holds may not.
            assert told is None or [page.first for page in told.pages] == [page.first for page in found.pages]
    start = found.pages[1].start
    nested = good[:start] + b"\x1c" * 4_000 + good[start + 4_000 :]
    assert map_pages(pa.BufferReader(nested), chunk, rows) is None, "structs in structs without an end"


PARTS = [
    "i between 2000 and 90000",
    "i < 5000",
    "i >= 990000",
    "i < 3000 or i > 995000",
    "i > 20000",
    "i = -1",
    "k in ('S0', 'S4') and i < 9000",
    "k <> 'S2' and i between 400000 and 410000",
    "i between 2000 and 90000 and x > 0",
    "(i < 70000 or k = 'S1') and i < 90000",
]
"""Of each symbol a stretch, most of which are pages apart, or nearly all of it."""


@pytest.mark.parametrize("where", PARTS)
@pytest.mark.parametrize(
    "options", [{"write_page_checksum": True}, {"use_dictionary": False}, {"data_page_version": "2.0"}], ids=str
)
def test_a_range_of_all_identities_is_read_in_stretches(
    tmp_path: Path, where: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spans, "GAP_ROWS", 300)
    data = ticks(17).sort_by([("k", "ascending"), ("i", "ascending")])
    data = data.set_column(data.schema.get_field_index("cents"), "cents", pc.cast(data.column("cents"), pa.decimal128(22, 2)))
    pq.write_table(data, tmp_path / "f.parquet", data_page_size=2_000, write_batch_size=100, **options)
    table = gl.create(tmp_path / "t", index="i", index_type="int64", entity=["k"], bucket=1_000)
    table.append_file(tmp_path / "f.parquet", adopt="copy")
    kept = by_key(by_duckdb(data, where))
    assert by_key(table.scan(where=where).to_arrow()).equals(kept.cast(table.schema))
    assert table.scan(where=where, columns=["x"]).to_arrow().num_rows == table.scan(where=where).count() == kept.num_rows
    found = table.sql(f"select * from this where {where}").to_arrow()
    assert by_key(found.cast(kept.schema)).equals(kept)
    grouped = "select k, count(*) n, sum(wide) w, max(x) x from this where {} group by k order by k"
    assert table.sql(grouped.format(where)).to_arrow().equals(by_duckdb_sql(data, grouped.format(where)))


def test_pages_between_the_stretches_of_a_range_are_not_read(
    tmp_path: Path, sliced: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spans, "GAP_ROWS", 300)
    data = ticks(18).sort_by([("k", "ascending"), ("i", "ascending")])
    pq.write_table(data, tmp_path / "f.parquet", data_page_size=2_000, write_batch_size=100, use_dictionary=["k"])
    table = gl.create(tmp_path / "t", index="i", index_type="int64", entity=["k"], bucket=1_000)
    table.append_file(tmp_path / "f.parquet", adopt="copy")
    size = file_of(table).stat().st_size
    index = pq.read_metadata(file_of(table)).row_group(0).column(0).total_compressed_size
    assert table.scan(400_000, 440_000).to_arrow().num_rows > 1_000
    assert 0 < sum(sliced) < index + 0.2 * size
    sliced.clear()
    assert (
        table.sql("select sum(wide) w, max(note) n, max(x) x from this where i >= 400000 and i < 440000").to_arrow().num_rows
        == 1
    )
    assert 0 < sum(sliced) < index + 0.2 * size


def by_duckdb_sql(data: pa.Table, query: str) -> pa.Table:
    with duckdb.connect() as connection:
        connection.register("this", data)
        return connection.sql(query).to_arrow_table()


ODD_FILES: dict[str, dict[str, Any]] = {
    "decimals as integers": {"store_decimal_as_integer": True},
    "brotli": {"compression": "brotli"},
    "small pages of the second kind": {"data_page_version": "2.0", "data_page_size": 2_000, "write_page_index": True},
    "texts by their differences": {
        "use_dictionary": False,
        "column_encoding": {"k": "DELTA_BYTE_ARRAY", "note": "DELTA_LENGTH_BYTE_ARRAY"},
    },
    "full dictionaries": {"dictionary_pagesize_limit": 500, "data_page_size": 2_000, "write_batch_size": 50},
    "no statistics": {"write_statistics": False, "data_page_size": 2_000},
    "no checksums": {"write_page_checksum": False},
}


@pytest.mark.parametrize("options", ODD_FILES.values(), ids=list(ODD_FILES))
def test_files_that_arrow_wrote_otherwise_are_adopted_and_read_right(tmp_path: Path, options: dict[str, Any]) -> None:
    data = ticks(13).sort_by([("k", "ascending"), ("i", "ascending")])
    data = data.set_column(
        data.schema.get_field_index("cents"), "cents", data.column("cents").cast(pa.decimal128(9, 2), safe=False)
    )
    pq.write_table(data, tmp_path / "f.parquet", **options)
    table = gl.create(tmp_path / "t", index="i", index_type="int64", entity=["k"], bucket=1_000)
    table.append_file(tmp_path / "f.parquet", adopt="copy")
    assert table.segments()[0].sorted_by == ("k", "i")
    where = "k = 'S3' and i between 2000 and 90000"
    rows, found = table.scan(where=where), table.sql(f"select * from this where {where}").to_arrow()
    kept = by_key(by_duckdb(data, where))
    assert by_key(rows.to_arrow()).equals(kept.cast(rows.schema))
    assert by_key(found.cast(kept.schema)).equals(kept)
    assert rows.count() == kept.num_rows > 0


def test_an_entity_of_which_hardly_a_value_repeats_is_read_however_it_is_encoded(tmp_path: Path) -> None:
    """Arrow gives texts that are stored by their differences in no dictionary."""
    names = [f"{n * 7919 % 40_009:x}-{n % 11}" for n in range(30_000)]
    data = pa.table({"i": np.arange(len(names)), "k": names})
    table = made(tmp_path / "t", data, "smallest")
    encodings = pq.read_metadata(file_of(table)).row_group(0).column(1).encodings
    assert {"DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"} & set(encodings)
    assert table.scan(entity={"k": names[77]}).to_arrow().column("i").to_pylist() == [77]
    assert table.sql(f"select i from this where k = '{names[77]}'").to_arrow().column("i").to_pylist() == [77]
    assert table.sql("select count(distinct k) n from this").to_arrow().column("n").to_pylist() == [len(set(names))]
