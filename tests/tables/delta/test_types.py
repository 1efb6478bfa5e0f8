"""Types end to end: what is written comes back to us and to deltalake, value for value, and is found by what it is."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable as DeltaLakeTable
from deltalake import write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless.errors import GaplessError, InvalidChange, InvalidValue, SchemaMismatch, UnsupportedType
from gapless.tables.delta.table import DeltaTable
from support.delta_rows import counted, counted_table, told
from support.delta_tables import made, ordered, rows_of
from support.theirs import their_rows

UTC = dt.UTC
TS, NTZ = pa.timestamp("us", "UTC"), pa.timestamp("us")

chars = st.characters(codec="utf-8", exclude_characters="\0")
texts = st.text(chars, max_size=40) | st.sampled_from(["", "x" * 32, "x" * 33, "é" * 40, "\U0010ffff" * 33, "'", "\\", "null"])
VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-128, 127),
    pa.int16(): st.integers(-(2**15), 2**15 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float32(): st.floats(width=32) | st.sampled_from([-0.0, 0.0, math.nan, math.inf, -math.inf]),
    pa.float64(): st.floats() | st.sampled_from([-0.0, 0.0, math.nan, math.inf, -math.inf]),
    pa.decimal128(38, 18): st.decimals(-(10**19), 10**19, places=18),
    pa.decimal128(5, 2): st.decimals(-999, 999, places=2),
    pa.string(): texts,
    pa.binary(): st.binary(max_size=8),
    pa.date32(): st.dates(),
    TS: st.datetimes(timezones=st.just(UTC)),
    NTZ: st.datetimes(),
}
FOUND = {type_: values for type_, values in VALUES.items() if type_ != pa.binary()}
"""What can be looked for, and partitioned by."""
KEYS = [pa.string(), pa.int64(), pa.date32()]

leaf_types: st.SearchStrategy[pa.DataType] = st.sampled_from(list(VALUES))


def _struct(types: list[pa.DataType]) -> pa.DataType:
    return pa.struct([pa.field(f"f{place}", type_) for place, type_ in enumerate(types)])


nested_types = st.recursive(
    leaf_types,
    lambda inner: (
        inner.map(pa.list_)
        | st.tuples(st.sampled_from(KEYS), inner).map(lambda pair: pa.map_(*pair))
        | st.lists(inner, min_size=1, max_size=3).map(_struct)
    ),
    max_leaves=4,
)


def _values(type_: pa.DataType) -> st.SearchStrategy[Any]:
    if type_ in VALUES:
        return VALUES[type_]
    if pa.types.is_struct(type_):
        return st.fixed_dictionaries({field.name: st.none() | _values(field.type) for field in type_})
    if pa.types.is_map(type_):
        pairs = st.dictionaries(_values(type_.key_type), st.none() | _values(type_.item_type), max_size=2)
        return pairs.map(lambda found: list(found.items()))
    return st.lists(st.none() | _values(type_.value_type), max_size=2)


@st.composite
def tables(draw: st.DrawFn) -> tuple[pa.Table, list[str]]:
    """Rows of any columns, and those of them to partition by."""
    types = draw(st.lists(nested_types, min_size=1, max_size=3))
    fields = [pa.field("id", pa.int64(), nullable=False)]
    fields += [pa.field(f"c{place}", type_, nullable=draw(st.booleans())) for place, type_ in enumerate(types)]
    rows = []
    for number in range(draw(st.integers(1, 4))):
        row: dict[str, Any] = {"id": number}
        row |= {
            field.name: draw((st.none() | _values(field.type)) if field.nullable else _values(field.type))
            for field in fields[1:]
        }
        rows.append(row)
    # deltalake's pyarrow dataset reads a partition of -591.20 as "-591.-20".
    flat = [field.name for field in fields[1:] if field.type in FOUND and not pa.types.is_decimal(field.type)]
    chosen = draw(st.lists(st.sampled_from(flat), unique=True, max_size=2)) if flat else []
    by = [name for name in chosen if all(row[name] != "" for row in rows)]
    return pa.Table.from_pylist(rows, pa.schema(fields)), by


@given(tables())
@settings(max_examples=40)
def test_rows_of_any_type_come_back_here_and_in_deltalake(drawn: tuple[pa.Table, list[str]]) -> None:
    rows, by = drawn
    with TemporaryDirectory() as folder:
        table = DeltaTable.create(folder, rows.schema, partition_by=by)
        table.append(rows.slice(0, 1))
        table.append(rows.slice(1))
        found = DeltaTable.open(folder).scan().to_arrow()
        assert found.schema == rows.schema
        assert counted_table(found) == counted_table(rows)
        assert their_rows(Path(folder)) == counted_table(rows)
        table.compact()
        assert rows_of(table) == counted_table(rows)


@pytest.mark.parametrize("type_", FOUND, ids=str)
@pytest.mark.parametrize("partitioned", [False, True])
@given(data=st.data())
@settings(max_examples=6)
def test_each_value_is_found_by_what_it_is(type_: pa.DataType, partitioned: bool, data: st.DataObject) -> None:
    """Over files of which statistics or partition values could hide some, by `=`, by a range and by null."""
    values = data.draw(st.lists(st.none() | FOUND[type_].filter(lambda value: value != ""), min_size=2, max_size=5))
    rows = pa.table({"x": pa.array(values, type_), "n": pa.array(range(len(values)))})
    with TemporaryDirectory() as folder:
        table = DeltaTable.create(folder, rows.schema, partition_by=["x"] if partitioned else [])
        for at in range(0, len(values), 2):
            table.append(rows.slice(at, 2))
        _check_found(table, rows, type_)


@pytest.mark.parametrize("type_", FOUND, ids=str)
@given(data=st.data())
@settings(max_examples=5)
def test_each_value_is_found_where_deltalake_wrote_it(type_: pa.DataType, data: st.DataObject) -> None:
    """Its statistics are its own: decimals by way of floats, no microseconds cut, whole texts."""
    values = data.draw(st.lists(st.none() | FOUND[type_], min_size=2, max_size=5))
    rows = pa.table({"x": pa.array(values, type_), "n": pa.array(range(len(values)))})
    with TemporaryDirectory() as folder:
        for at in range(0, len(values), 2):
            write_deltalake(folder, rows.slice(at, 2), mode="append")
        _check_found(DeltaTable.open(folder), rows, type_)


def _check_found(table: DeltaTable, rows: pa.Table, type_: pa.DataType) -> None:
    """Against pyarrow's own filter of the rows; NaN is found by `is_nan` alone."""
    x = pc.field("x")
    wheres = [x.is_null()]
    for value in rows["x"].unique():
        if value.is_valid and not (pa.types.is_floating(type_) and math.isnan(value.as_py())):
            wheres += [x == value] if type_ == pa.bool_() else [x == value, x >= value, x < value]
    for where in wheres:
        expected = rows.filter(where)["n"].to_pylist()
        assert sorted(table.scan(where=where).to_arrow()["n"].to_pylist()) == expected, str(where)


def test_type_01_delta_far_dates_and_times_do_not_wrap(tmp_path: Path) -> None:
    days = [dt.date(1, 1, 1), dt.date(1677, 1, 1), dt.date(2400, 1, 1), dt.date(9999, 12, 31)]
    times = [dt.datetime(day.year, day.month, day.day, 23, 59, 59, 999_999) for day in days]
    rows = pa.table(
        {"d": pa.array(days), "t": pa.array([at.replace(tzinfo=UTC) for at in times], TS), "n": pa.array(times, NTZ)}
    )
    table = made(tmp_path / "t", rows)
    assert rows_of(table) == counted_table(rows) == their_rows(tmp_path / "t")
    for day, at in zip(days, times, strict=True):
        for where in (f"d = DATE '{day}'", f"n = TIMESTAMP '{at}'", f"t = TIMESTAMPTZ '{at}+00'"):
            assert table.scan(where=where).to_arrow()["d"].to_pylist() == [day]
    frame = table.scan().to_pandas()
    assert [str(value)[:10] for value in frame["t"]] == [str(day) for day in days]
    assert [str(value)[:10] for value in frame["n"]] == [str(day) for day in days]
    with pytest.raises(pa.ArrowInvalid):
        table.scan().to_arrow()["n"].cast(pa.timestamp("ns"))


def test_type_02_delta_nothing_of_ours_is_int96(tmp_path: Path) -> None:
    made(tmp_path / "t", pa.table({"t": pa.array([dt.datetime(1000, 1, 1, tzinfo=UTC)], TS)}))
    (file,) = (tmp_path / "t").glob("*.parquet")
    assert pq.ParquetFile(file).schema.column(0).physical_type == "INT64"


ODD = ["TEST:A1.RAW-1", "$data", "my/col", "#event", "päivä", "x`y", 'a"b', "1st", "a%20b", "select", "_hidden", ".dot"]
MAPPED = ["a b", "c,d", "e;f", "g{h}", "(i)", "j=k", "l\tm", "n\no"]


@pytest.mark.parametrize(("names", "mode"), [(ODD, "none"), ([*ODD, *MAPPED], "name"), ([*ODD, *MAPPED], "id")])
@pytest.mark.parametrize("nested", [False, True])
def test_type_19_delta_odd_names_come_back(names: list[str], mode: str, nested: bool, tmp_path: Path) -> None:
    found: dict[str, int | None] = {name: place for place, name in enumerate(names)}
    flat = [found, dict.fromkeys(names)]
    type_ = pa.struct([(name, pa.int64()) for name in names])
    rows = pa.table({"s": pa.array(flat, type_)}) if nested else pa.Table.from_pylist(flat, pa.schema(type_))
    table = made(tmp_path / "t", rows, {"delta.columnMapping.mode": mode})
    assert rows_of(DeltaTable.open(tmp_path / "t")) == counted_table(rows)
    for place, name in enumerate(names):
        column = pc.field("s", name) if nested else pc.field(name)
        assert table.scan(where=column == place).count() == 1
        quoted = '"' + name.replace('"', '""') + '"'
        assert table.scan(where=f"s.{quoted} = {place}" if nested else f"{quoted} = {place}").count() == 1
    if mode == "none":
        assert their_rows(tmp_path / "t") == counted_table(rows)


@pytest.mark.parametrize("name", MAPPED)
def test_type_19_delta_names_that_want_column_mapping_say_so(name: str, tmp_path: Path) -> None:
    with pytest.raises(SchemaMismatch, match=r"delta\.columnMapping\.mode"):
        DeltaTable.create(tmp_path / "t", pa.schema([(name, pa.int64())]))
    assert not (tmp_path / "t" / "_delta_log").exists()


@pytest.mark.parametrize("names", [[""], ["a", "A"]])
def test_type_19_delta_names_that_cannot_be(names: list[str], tmp_path: Path) -> None:
    with pytest.raises(UnsupportedType):
        DeltaTable.create(tmp_path / "t", pa.schema([(name, pa.int64()) for name in names]))


def test_type_21_delta_days_before_1582_are_stored_proleptic(tmp_path: Path) -> None:
    texts = ["1001-01-01", "1582-10-04", "1582-10-15", "1000-02-28"]
    days = [dt.date.fromisoformat(text) for text in texts]
    rows = pa.table(
        {"d": pa.array(days), "p": pa.array(days), "t": pa.array([dt.datetime(d.year, d.month, d.day) for d in days], NTZ)}
    )
    table = made(tmp_path / "t", rows, partition_by=("p",))
    assert rows_of(table) == counted_table(rows) == their_rows(tmp_path / "t")
    stored = {
        file.parent.name: pq.ParquetFile(file).read()["d"].cast(pa.int32()).to_pylist()
        for file in (tmp_path / "t").rglob("p=*/*.parquet")
    }
    assert stored["p=1001-01-01"] == [-353_920]
    found = (
        duckdb.connect()
        .execute(f"select cast(d as varchar), cast(t as varchar) from read_parquet('{tmp_path}/t/*/*.parquet')")
        .fetchall()
    )
    assert sorted(found) == sorted((text, f"{text} 00:00:00") for text in texts)


def test_type_22_delta_decimals_widen_by_rule(tmp_path: Path) -> None:
    rows = pa.table({"x": pa.array([Decimal("12345678.25"), Decimal("-0.01")], pa.decimal128(10, 2))})
    table = made(tmp_path / "t", rows, {"delta.enableTypeWidening": "true"})
    with pytest.raises(InvalidChange, match="cannot become"):
        table.alter.widen("x", pa.decimal128(10, 3))
    with pytest.raises(InvalidChange, match="cannot become"):
        table.alter.widen("x", pa.decimal128(11, 4))
    for type_ in (pa.decimal128(12, 2), pa.decimal128(14, 4)):
        table.alter.widen("x", type_)
        table.append(pa.table({"x": pa.array([Decimal("9999999999.25")], type_)}))
        found = table.scan().to_arrow()
        assert found.schema.field("x").type == type_
        assert table.scan(where="x = 12345678.25").count() == 1
        assert table.scan(where="x < 0").count() == 1
    assert table.scan(where="x > 9999999999").count() == 2
    assert told(table.scan(where="x < 0").to_arrow()["x"].to_pylist()) == told([Decimal("-0.0100")])


def test_type_22_delta_whole_numbers_and_decimals(tmp_path: Path) -> None:
    """A decimal(38,0) holds every int64; an int64 column takes no decimal that it cannot hold."""
    table = made(tmp_path / "t", pa.table({"id": pa.array([Decimal(1000)], pa.decimal128(38, 0))}))
    table.append(pa.table({"id": pa.array([1002], pa.int64())}))
    assert [row["id"] for row in ordered(table)] == [Decimal(1000), Decimal(1002)]
    whole = made(tmp_path / "u", pa.table({"id": pa.array([1], pa.int64())}))
    with pytest.raises(GaplessError):
        whole.append(pa.table({"id": pa.array([Decimal(10) ** 20], pa.decimal128(38, 0))}))
    assert whole.count() == 1


def test_stat_12_delta_old_local_times_are_found(tmp_path: Path) -> None:
    """Berlin kept +00:53:28 in 1850."""
    at = dt.datetime(1850, 1, 1, 0, 7, 33, tzinfo=UTC)
    rows = pa.table({"t": pa.array([at], pa.timestamp("us", "Europe/Berlin"))})
    table = made(tmp_path / "t", rows)
    second = dt.timedelta(seconds=1)
    assert table.scan(where=f"t = TIMESTAMPTZ '{at}'").count() == 1
    assert table.scan(where=f"t BETWEEN TIMESTAMPTZ '{at - second}' AND TIMESTAMPTZ '{at + second}'").count() == 1
    assert table.scan(where=f"t < TIMESTAMPTZ '{at}'").count() == 0
    assert table.scan().to_arrow()["t"].to_pylist() == [at]
    assert DeltaLakeTable(str(tmp_path / "t")).to_pyarrow_table()["t"].to_pylist() == [at]


def test_nanoseconds_of_data_fit_where_they_are_whole_microseconds(tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path / "t", pa.schema([("t", TS)]))
    table.append(pa.table({"t": pa.array([1_000, None], pa.timestamp("ns", "UTC"))}))
    with pytest.raises(InvalidValue):
        table.append(pa.table({"t": pa.array([1_001], pa.timestamp("ns", "UTC"))}))
    assert table.scan().to_arrow()["t"].cast(pa.int64()).to_pylist() == [1, None]
    with pytest.raises(UnsupportedType, match="whole microseconds"):
        DeltaTable.create(tmp_path / "u", pa.schema([("t", pa.timestamp("ns"))]))


def test_counted_tells_values_apart() -> None:
    assert counted([{"x": 0.0}]) != counted([{"x": -0.0}])


@pytest.mark.parametrize("nulls", [5_000, 70_000])
def test_type_08_delta_a_late_first_value_settles_its_column(tmp_path: Path, nulls: int) -> None:
    table = DeltaTable.create(tmp_path, pa.schema([("x", pa.int64())]))
    rows = ({"name": "N" if at == nulls else None, "x": at} for at in range(nulls + 1))
    assert table.append(rows, schema_mode="merge").rows == nulls + 1
    assert table.schema.field("name").type == pa.string()
    assert table.scan(where="name is not null").to_pylist() == [{"x": nulls, "name": "N"}]
