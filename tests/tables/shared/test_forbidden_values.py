"""Values that their own column's type forbids: no way in takes them, `verify` sees those that are there, and no raw error comes of them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gapless as gl
from gapless.errors import CorruptTable, FillStopped, InvalidValue, NotSupported, UnreadableInput, UnsupportedType
from gapless.files.adopt.copy_or_link import Adopt
from support.forbidden import LATIN, decimals, delta_holding, series_holding, texts
from support.hand_made import column

SMALL = pa.decimal128(4, 2)
HOURS = pa.array([datetime(2026, 1, 5, hour) for hour in range(3)], pa.timestamp("us"))
FORBIDDEN = {
    "decimal": (decimals([100, None, 32767], SMALL), Decimal("327.67"), pa.array([Decimal("1.00")] * 3, SMALL)),
    "text": (texts([b"a", None, LATIN]), LATIN, pa.array(["a"] * 3)),
    "list": (
        pa.ListArray.from_arrays(pa.array([0, 1, 1, 3], pa.int32()), decimals([1, 2, 32767], SMALL)),
        Decimal("327.67"),
        pa.array([[]] * 3, pa.list_(SMALL)),
    ),
    "struct": (
        pa.StructArray.from_arrays([texts([b"a", b"b", LATIN])], ["s"]),
        LATIN,
        pa.array([{"s": "a"}] * 3, pa.struct([("s", pa.string())])),
    ),
    "map": (
        pa.MapArray.from_arrays(pa.array([0, 1, 1, 2], pa.int32()), pa.array(["k", "k"]), texts([b"a", LATIN])),
        LATIN,
        pa.array([[]] * 3, pa.map_(pa.string(), pa.string())),
    ),
}
"""An array whose row 2 holds what its type forbids; that value; and one of the type that does not."""


def table_of(array: pa.Array) -> pa.Table:
    return pa.table({"ts": HOURS, "v": array})


def file_of(array: pa.Array, folder: Path) -> Path:
    path = folder / "given.parquet"
    pq.write_table(table_of(array), path, use_dictionary=False)
    return path


@pytest.fixture(params=FORBIDDEN)
def case(request: pytest.FixtureRequest) -> tuple[pa.Array, object, pa.Array]:
    """One kind of forbidden value."""
    return FORBIDDEN[request.param]


def refused(act: Callable[[], object], value: object) -> None:
    with pytest.raises(InvalidValue) as caught:
        act()
    assert (caught.value.column, caught.value.row, caught.value.value) == ("v", 2, value)
    assert "row 2" in str(caught.value)


def test_t2_37_no_way_into_a_time_series_takes_a_value_outside_of_its_type(
    case: tuple[pa.Array, object, pa.Array], tmp_path: Path
) -> None:
    array, value, fine = case
    bad = table_of(array)
    table = gl.create(tmp_path / "t", index="ts", bucket="1h")
    table.append(table_of(fine))
    before = table.refresh().version
    ways: dict[str, Callable[[], object]] = {
        "append": lambda: table.append(bad, on_overlap="allow"),
        "a reader": lambda: table.append(bad.to_reader(), on_overlap="allow"),
        "batches": lambda: table.append(bad.to_batches(max_chunksize=1), on_overlap="allow"),
        "columns": lambda: table.append(dict(zip(bad.column_names, bad.columns, strict=True)), on_overlap="allow"),
        "file": lambda: table.append_file(file_of(array, tmp_path), on_overlap="allow"),
        "upsert": lambda: table.upsert(bad),
        "replace": lambda: table.replace((datetime(2026, 1, 1), datetime(2027, 1, 1)), bad),
        "append in their place": lambda: table.append(bad, on_overlap="replace"),
    }
    for act in ways.values():
        refused(act, value)
    with pytest.raises(FillStopped) as caught:
        table.fill(lambda *_: bad, datetime(2026, 1, 5), datetime(2026, 1, 6))
    assert isinstance(caught.value.__cause__, InvalidValue)
    assert table.refresh().version == before
    assert table.scan().count() == 3


def test_t2_37_no_way_into_a_delta_table_takes_a_value_outside_of_its_type(
    case: tuple[pa.Array, object, pa.Array], tmp_path: Path
) -> None:
    array, value, fine = case
    bad = table_of(array)
    table = gl.delta.create(tmp_path / "d", bad.schema)
    table.append(table_of(fine))
    before = table.refresh().version
    ways: dict[str, Callable[[], object]] = {
        "append": lambda: table.append(bad),
        "file": lambda: table.append_file(file_of(array, tmp_path)),
        "overwrite": lambda: table.overwrite(bad),
        "merge": lambda: table.merge(bad, "s.ts = t.ts").when_matched_update_all().execute(),
    }
    for act in ways.values():
        refused(act, value)
    assert table.refresh().version == before
    assert table.scan().count() == 3


@pytest.mark.parametrize("how", ["copy", "link", "move"])
@pytest.mark.parametrize("name", ["text", "struct", "map", "list"])
def test_t2_31_adopt_reads_what_its_columns_hold(name: str, how: Adopt, tmp_path: Path) -> None:
    array, value, _ = FORBIDDEN[name]
    if name == "list":
        array = pa.ListArray.from_arrays(pa.array([0, 1, 1, 3], pa.int32()), texts([b"a", b"b", LATIN]))
        value = LATIN
    path = file_of(array, tmp_path)
    table = gl.create(tmp_path / "t", index="ts", bucket="1h")
    refused(lambda: table.append_file(path, adopt=how), value)
    assert path.exists()
    assert table.refresh().version == 1
    assert not list((tmp_path / "t" / "data").glob("*.parquet"))


@pytest.mark.parametrize("statistics", [True, False])
def test_t2_37_adopt_looks_at_decimals(statistics: bool, tmp_path: Path) -> None:
    # Four digits fit into two bytes, which hold 327.67 besides.
    path = tmp_path / "given.parquet"
    table = gl.create(tmp_path / "t", index="ts", bucket="1h")
    pq.write_table(table_of(decimals([100, None, 32767], SMALL)), path, write_statistics=statistics)
    refused(lambda: table.append_file(path, adopt="copy"), Decimal("327.67"))
    pq.write_table(table_of(decimals([100, None, 9999], SMALL)), path, write_statistics=statistics)
    assert table.append_file(path, adopt="copy").rows == 3


def test_t2_31_adopt_names_the_row_of_an_identity(tmp_path: Path) -> None:
    path = tmp_path / "given.parquet"
    pq.write_table(pa.table({"ts": HOURS, "v": texts([b"a", b"b", LATIN])}), path)
    table = gl.create(tmp_path / "t", index="ts", bucket="1h", entity=["v"])
    refused(lambda: table.append_file(path, adopt="copy"), LATIN)


def holding_text(root: Path) -> gl.TimeSeriesTable | gl.delta.DeltaTable:
    """A table, of the kind that its path's name says, that holds text in Latin-1 in the last of three rows of a file of another writer."""
    rows = table_of(texts([b"a", None, LATIN]))
    if root.name == "delta":
        return delta_holding(root, [column("ts", "timestamp_ntz"), column("v", "string")], rows)
    return series_holding(root, table_of(pa.array(["a", None, "c"])), rows)


@pytest.mark.parametrize("kind", ["series", "delta"])
def test_t2_31_verify_finds_text_that_is_not_utf8(kind: str, tmp_path: Path) -> None:
    holding_text(tmp_path / kind)
    assert gl.verify(tmp_path / kind).ok
    (problem,) = gl.verify(tmp_path / kind, deep=True).problems
    assert problem.code == "values-invalid"
    assert "'v', row 2" in problem.what
    assert problem.path.endswith(".parquet")


@pytest.mark.parametrize("kind", ["series", "delta"])
def test_t2_31_a_compaction_gives_up_a_file_of_such_text_and_says_why(kind: str, tmp_path: Path) -> None:
    table = holding_text(tmp_path / kind)
    table.append({"ts": [datetime(2026, 1, 7)], "v": ["d"]})
    report = table.compact() if isinstance(table, gl.delta.DeltaTable) else table.compact(codec="gzip")
    assert [given_up.why for given_up in report.given_up if "UTF-8" in given_up.why]
    assert table.scan().count() == 4


@pytest.mark.parametrize("kind", ["series", "delta"])
def test_t2_31_such_text_reads_as_arrow_and_nowhere_else_raw(kind: str, tmp_path: Path) -> None:
    rows = holding_text(tmp_path / kind).scan()
    assert rows.to_arrow().column("v").cast(pa.binary()).to_pylist().count(LATIN) == 1
    for convert in (rows.to_polars, rows.to_pandas, rows.to_duckdb):
        with pytest.raises(NotSupported, match=r"'v' holds b'caf"):
            convert()
    assert len(holding_text(tmp_path / "again" / kind).scan(columns=["ts"]).to_polars()) == 3


def test_t2_31_a_row_of_such_text_can_be_deleted(tmp_path: Path) -> None:
    delta, series = holding_text(tmp_path / "delta"), holding_text(tmp_path / "series")
    assert isinstance(delta, gl.delta.DeltaTable)
    delta.delete("ts = timestamp '2026-01-05 00:00:00'")
    assert delta.scan().to_arrow().column("v").cast(pa.binary()).to_pylist().count(LATIN) == 1
    delta.delete("ts = timestamp '2026-01-05 02:00:00'")
    assert isinstance(series, gl.TimeSeriesTable)
    series.delete(start=datetime(2026, 1, 5, 2), end=datetime(2026, 1, 5, 3))
    for table in (delta, series):
        assert LATIN not in table.scan().to_arrow().column("v").cast(pa.binary()).to_pylist()
    assert gl.verify(tmp_path / "delta", deep=True).ok
    assert gl.verify(tmp_path / "series", deep=True).ok


@pytest.mark.parametrize("stored_as_int", [True, False])
def test_t2_37_verify_of_a_delta_table_finds_a_decimal_of_too_many_digits(stored_as_int: bool, tmp_path: Path) -> None:
    rows = pa.table({"v": decimals([1, 32767], SMALL)})
    table = delta_holding(tmp_path / "d", [column("v", "decimal(4,2)")], rows, store_decimal_as_integer=stored_as_int)
    assert gl.verify(tmp_path / "d").ok
    (problem,) = gl.verify(tmp_path / "d", deep=True).problems
    assert problem.code == "values-invalid"
    assert "Decimal('327.67') in column 'v', row 1" in problem.what
    table.append({"v": [Decimal("2.00")]})
    (given_up,) = table.compact().given_up
    assert "327.67" in given_up.why


def test_t2_37_a_change_of_rows_never_stores_another_number(tmp_path: Path) -> None:
    """An INT32 holds more digits than the two bytes in which the file written anew would keep the decimal."""
    rows = pa.table({"n": [1, 2], "v": decimals([1, 39996], SMALL)})
    columns = [column("n", "long"), column("v", "decimal(4,2)")]
    table = delta_holding(tmp_path / "d", columns, rows, store_decimal_as_integer=True)
    assert table.scan().to_arrow().column("v").to_pylist() == [Decimal("0.01"), Decimal("399.96")]
    with pytest.raises(CorruptTable, match=r"399\.96"):
        table.delete("n = 1")
    assert table.refresh().version == 0
    table.delete("n = 2")
    assert table.scan().to_arrow().to_pydict() == {"n": [1], "v": [Decimal("0.01")]}


def test_t2_37_a_huge_integer_of_duckdb_is_held_against_its_type(tmp_path: Path) -> None:
    table = gl.delta.create(tmp_path / "d", pa.schema([("v", pa.decimal128(38, 0))]))
    connection = duckdb.connect()
    most = 2**127 - 1
    with pytest.raises(InvalidValue) as caught:
        table.append(connection.sql(f"select {most}::HUGEINT as v"))
    assert caught.value.value == Decimal(most)
    with pytest.raises(UnsupportedType, match=r"UHUGEINT.*DECIMAL"):
        table.append(connection.sql(f"select {2**128 - 1}::UHUGEINT as v"))
    table.append(connection.sql("select 12345678901234567890::HUGEINT as v"))
    assert table.scan().to_arrow().column("v").to_pylist() == [Decimal(12345678901234567890)]


def test_t2_31_a_column_name_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    table = gl.delta.create(tmp_path / "d", pa.schema([("v", pa.int64())]))
    path = tmp_path / "named.parquet"
    pq.write_table(pa.table({"caf\u00e9": [1]}), path, compression="none")
    path.write_bytes(path.read_bytes().replace("caf\u00e9".encode(), b"caf\xff\xff"))
    with pytest.raises(UnreadableInput):
        table.append_file(path)


def test_text_of_polars_is_taken_as_it_is(tmp_path: Path) -> None:
    table = gl.delta.create(tmp_path / "d", pa.schema([("v", pa.string())]))
    table.append(pl.DataFrame({"v": ["é" * 40, None, "a"]}))
    assert table.scan().to_arrow().column("v").to_pylist() == ["é" * 40, None, "a"]
