"""Columns that change: what old rows, new rows, old versions and other readers of the files make of it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import gapless as gl
from gapless.errors import InvalidChange, InvalidOption, InvalidValue, SchemaMismatch, UnknownColumn, UnsupportedType
from gapless.store.open import open_store

T0 = datetime(2024, 1, 1, tzinfo=UTC)
TS = pa.field("ts", pa.timestamp("us", "UTC"))
_counter = itertools.count()


@pytest.fixture
def place() -> str:
    return f"memory://evolution-{next(_counter)}"


def hours(*which: int, **columns: Any) -> pa.Table:
    """One row for each of these hours; `columns` as arrays, or as values for `pa.array`."""
    times = pa.array([T0 + timedelta(hours=hour) for hour in which], TS.type)
    return pa.table({"ts": times, **columns})


def make(place: str, **columns: Any) -> gl.TimeSeriesTable:
    """A table of one append that starts at hour 0, with these columns."""
    table = gl.create(place, index="ts", bucket="1h")
    count = len(next(iter(columns.values())))
    table.append(hours(*range(count), **columns))
    return table


def read(table: gl.TimeSeriesTable, *columns: str, **options: Any) -> list[Any]:
    """Rows in order: tuples of these columns, or bare values of one."""
    rows = table.scan(columns=columns or None, order="index", **options).to_arrow().to_pylist()
    return [row[columns[0]] if len(columns) == 1 else tuple(row.values()) for row in rows]


def names(table: gl.TimeSeriesTable) -> list[str]:
    assert table.schema is not None
    return list(table.schema.names)


def problems(table: gl.TimeSeriesTable) -> list[str]:
    return [finding.what for finding in table.verify(deep=True).findings if finding.severity != "note"]


# -- each change by itself ---------------------------------------------------------------------------------------------


def test_an_added_column_is_null_in_old_rows_and_may_be_left_out(place: str) -> None:
    table = make(place, x=[1])
    assert table.add_column("y", "string", comment="why") == table.version == 3
    table.append(hours(1, x=[2]))
    table.append(hours(2, x=[3], y=["a"]))
    assert read(table, "x", "y") == [(1, None), (2, None), (3, "a")]
    assert read(table, "x", where="y is null") == [1, 2]
    assert table.schema is not None
    assert table.schema.field("y").metadata == {b"comment": b"why"}
    assert problems(gl.open(place)) == []


def test_a_default_is_what_rows_without_the_column_have_and_a_null_stays_null(place: str) -> None:
    table = make(place, x=[1])
    table.add_column("y", pa.int32(), default=7)
    table.append(hours(1, x=[2]))
    table.append(hours(2, 3, x=[3, 4], y=pa.array([None, 8], pa.int32())))
    assert read(table, "y") == [7, 7, None, 8]
    assert read(table, "x", where="y = 7") == [1, 2]
    assert read(table, "x", where="y is null") == [3]
    assert read(table, "x", where=pc.field("y") == 7) == [1, 2]
    assert table.sql("SELECT sum(y)::BIGINT AS s FROM this").to_arrow()["s"].to_pylist() == [22]
    table.widen_column("y", pa.float64())
    table.rename_column("y", "z")
    assert read(table, "z") == [7.0, 7.0, None, 8.0]


def test_a_name_that_comes_back_brings_no_old_values(place: str) -> None:
    table = make(place, x=[1, 2], y=[10, 20])
    table.drop_column("y")
    table.add_column("y", pa.int64())
    assert read(table, "x", "y") == [(1, None), (2, None)]
    assert read(table, "x", where="y is null") == [1, 2]
    assert read(table, "x", where="y = 10") == []
    table.append(hours(2, x=[3], y=[30]))
    table.drop_column("y")
    table.add_column("y", pa.string(), default="new")
    assert read(table, "y") == ["new", "new", "new"]
    assert problems(gl.open(place)) == []
    assert [read(table.at(version=v), "y") for v in (2, 5)] == [[10, 20], [None, None, 30]]  # type: ignore[arg-type]


def test_names_that_change_places_keep_their_values(place: str) -> None:
    table = make(place, a=[1], b=[2])
    table.rename_column("a", "c")
    table.rename_column("b", "a")
    table.rename_column("c", "b")
    table.append(hours(1, a=[20], b=[10]))
    assert names(table) == ["ts", "b", "a"]
    assert read(table, "b", "a") == [(1, 2), (10, 20)]
    assert read(table, "b", where="a = 2") == [1]
    assert read(table, "b", where="a = 1") == []
    table.rename_column("b", "a~")
    table.rename_column("a", "b")
    table.rename_column("a~", "a")
    assert read(table, "a", "b") == [(1, 2), (10, 20)]


def test_segments_stay_byte_for_byte_and_new_ones_hold_stored_names(place: str) -> None:
    table = make(place, x=[1], s=[{"k": 1}])
    store = open_store(place)
    (first,) = table.segments()
    before = store.get(first.path)
    table.rename_column("x", "y")
    table.rename_column("s.k", "m")
    table.add_column("s.k", pa.string())
    table.append(hours(1, y=[2], s=[{"m": 2, "k": "a"}]))
    assert store.get(first.path) == before
    there = pq.read_table(pa.BufferReader(store.get(table.segments()[1].path)))
    assert there.schema.names == ["ts", "x", "s"]
    assert there.to_pylist()[0]["s"] == {"k": 2, "k~2": "a"}
    assert set(table.segments()[1].stats) == {"x", "s"}
    assert not (there.schema.metadata or {}).keys() & {b"PARQUET:field_id"}


def test_the_last_column_beside_the_index_may_go(place: str) -> None:
    table = make(place, x=[1, 2])
    table.drop_column("x")
    assert read(table) == [(T0,), (T0 + timedelta(hours=1),)]
    table.append(hours(2))
    assert table.scan(columns=[]).count() == 3
    assert problems(gl.open(place)) == []


def test_the_order_is_that_of_the_columns_named_first(place: str) -> None:
    table = make(place, a=[1], b=[2], s=[{"x": 1, "y": 2}])
    table.reorder_columns(["s", "b"])
    assert names(table) == ["s", "b", "ts", "a"]
    table.reorder_columns(["y"], within="s")
    assert read(table, "s") == [{"y": 2, "x": 1}]
    table.append(hours(1, a=[3], b=[4], s=[{"x": 3, "y": 4}]))
    assert [list(row) for row in table.scan(order="index").to_arrow().column("s").to_pylist()] == [["y", "x"]] * 2
    assert read(table, "b", "a") == [(2, 1), (4, 3)]


def test_what_changes_nothing_makes_no_commit(place: str) -> None:
    table = make(place, a=[1], b=[2])
    table.comment_column("a", "first")
    version = table.version
    assert table.rename_column("a", "a") == version
    assert table.widen_column("a", pa.int64()) == version
    assert table.reorder_columns(["ts", "a"]) == version
    assert table.reorder_columns([]) == version
    assert table.comment_column("a", "first") == version
    assert table.set_metadata({"no": None}) == version
    assert gl.open(place).version == version


def test_each_change_is_one_commit_that_says_what_it_did(place: str) -> None:
    table = make(place, a=pa.array([1], pa.int32()), s=[{"x": 1}])
    table.add_column("b", pa.float32(), default=0.5, after="a", comment="c")
    table.widen_column("a", pa.int64())
    table.rename_column("s.x", "y")
    table.reorder_columns(["b"])
    table.comment_column(("s", "y"), None)
    table.set_metadata({"owner": "me"})
    table.drop_column("b")
    told = [(entry.operation, dict(entry.parameters)) for entry in table.history()[2:]]
    assert told == [
        ("alter", {"change": "add column", "column": "b", "type": "float", "default": "0.5", "after": "a", "comment": "c"}),
        ("alter", {"change": "widen column", "column": "a", "type": "int64"}),
        ("alter", {"change": "rename column", "column": "s.x", "new": "y"}),
        ("alter", {"change": "reorder columns", "names": ["b"]}),
        ("alter", {"change": "set metadata", "metadata": {"owner": "me"}}),
        ("alter", {"change": "drop column", "column": "b"}),
    ]


def test_schema_and_rows_show_nothing_of_identities(place: str) -> None:
    table = make(place, a=[1], s=[{"x": 1}])
    table.rename_column("a", "b")
    table.add_column("s.y", pa.int64(), default=1)
    table.drop_column("b")
    table.add_column("b", pa.int8())
    fresh = gl.open(place)
    assert fresh.schema is not None
    plain = pa.schema([TS.with_nullable(False), ("s", pa.struct([("x", pa.int64()), ("y", pa.int64())])), ("b", pa.int8())])
    assert fresh.schema.equals(plain, check_metadata=True)
    assert fresh.scan().to_arrow().schema.equals(plain, check_metadata=True)


# -- nested fields -----------------------------------------------------------------------------------------------------

NESTS: dict[str, tuple[tuple[str, ...], Callable[[Any], Any]]] = {
    "struct": (("v",), lambda one: one),
    "list": (("v", "element"), lambda one: [one, one]),
    "map": (("v", "value"), lambda one: [("k", one)]),
    "struct in a struct": (("v", "in"), lambda one: {"in": one}),
    "list in a list": (("v", "element", "element"), lambda one: [[one], []]),
}


@pytest.mark.parametrize("nest", NESTS)
def test_nested_fields_change_by_identity(place: str, nest: str) -> None:
    path, wrap = NESTS[nest]
    kinds: dict[str, Callable[[pa.DataType], pa.DataType]] = {
        "struct": lambda t: t, "list": pa.list_, "map": lambda t: pa.map_(pa.string(), t),
        "struct in a struct": lambda t: pa.struct([("in", t)]), "list in a list": lambda t: pa.list_(pa.list_(t)),
    }  # fmt: skip

    def column(values: list[Any], *fields: tuple[str, pa.DataType]) -> pa.Array:
        return pa.array([None if value is None else wrap(value) for value in values], kinds[nest](pa.struct(list(fields))))

    table = make(place, v=column([{"a": 1, "b": "x"}, None], ("a", pa.int32()), ("b", pa.string())))
    table.rename_column((*path, "a"), "c")
    table.drop_column((*path, "b"))
    table.add_column((*path, "b"), pa.bool_())
    table.add_column((*path, "a"), pa.string(), default="d", after="c")
    table.widen_column((*path, "c"), pa.int64())
    assert read(table, "v") == [wrap({"c": 1, "a": "d", "b": None}), None]
    table.append(hours(2, 3, v=column([{"c": 2**40, "b": True}, {"c": 3, "b": None}], ("c", pa.int64()), ("b", pa.bool_()))))
    table.append(hours(4, v=column([{"a": None}], ("a", pa.string()))))
    expected = [
        wrap({"c": 1, "a": "d", "b": None}), None, wrap({"c": 2**40, "a": "d", "b": True}), wrap({"c": 3, "a": "d", "b": None}),
        wrap({"c": None, "a": None, "b": None}),
    ]  # fmt: skip
    assert read(gl.open(place), "v") == expected
    table.rename_column("v", "w")
    assert read(gl.open(place), "w") == expected
    assert problems(table) == []
    with pytest.raises(SchemaMismatch, match="'x' is not in the table"):
        table.append(hours(9, w=column([{"x": 1}], ("x", pa.int8()))))


def test_a_struct_whose_first_fields_are_all_gone_still_tells_null_from_there(place: str) -> None:
    table = make(place, s=pa.array([{"a": 1}, None, {"a": None}], pa.struct([("a", pa.int64())])))
    table.add_column("s.b", pa.int64())
    table.drop_column("s.a")
    assert read(table, "s") == [{"b": None}, None, {"b": None}]
    table.add_column("s.a", pa.int64(), default=5)
    assert read(table, "s") == [{"b": None, "a": 5}, None, {"b": None, "a": 5}]


def test_a_column_whose_name_holds_dots_goes_by_its_name_or_a_tuple(place: str) -> None:
    table = make(place, **{"TEST:A1.RAW-1": [1], "s": [{"a.b": 1}]})
    table.rename_column("TEST:A1.RAW-1", "x.y")
    table.rename_column(("s", "a.b"), "c.d")
    table.add_column(("new.name",), pa.int64())
    assert names(table) == ["ts", "x.y", "s", "new.name"]
    assert read(table, "s") == [{"c.d": 1}]
    with pytest.raises(UnknownColumn, match="tuple"):
        table.add_column("adress.city", pa.string())


# -- types -------------------------------------------------------------------------------------------------------------

MIDNIGHT = datetime(2024, 1, 1)
WIDENINGS: list[tuple[Any, pa.DataType, pa.DataType]] = [
    *(([-128, 127, None], pa.int8(), new) for new in (pa.int16(), pa.int32(), pa.int64(), pa.float16(), pa.float32(), pa.float64())),
    *(([0, 255], pa.uint8(), new) for new in (pa.uint16(), pa.uint32(), pa.uint64(), pa.int16(), pa.int32(), pa.int64(), pa.float32())),
    ([-(2**31), 2**31 - 1], pa.int32(), pa.int64()), ([-(2**31), 2**31 - 1], pa.int32(), pa.float64()),
    ([2**32 - 1], pa.uint32(), pa.float64()), ([2**32 - 1], pa.uint32(), pa.int64()),
    ([0.1, float("inf"), -0.0, None], pa.float32(), pa.float64()), ([1.5, -65504.0], pa.float16(), pa.float32()),
    ([Decimal("-99.99"), Decimal("0.01")], pa.decimal128(4, 2), pa.decimal128(38, 2)),
    ([Decimal("-99.99"), Decimal("0.01")], pa.decimal32(4, 2), pa.decimal64(12, 2)),
    ([Decimal("-99.99"), Decimal("0.01")], pa.decimal128(4, 2), pa.decimal256(60, 2)),
    ([datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59)], pa.timestamp("s"), pa.timestamp("ms")),
    ([datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59)], pa.timestamp("s", "UTC"), pa.timestamp("us", "UTC")),
    ([datetime(1, 1, 1), datetime(9999, 12, 31)], pa.timestamp("ms", "Asia/Kolkata"), pa.timestamp("us", "Asia/Kolkata")),
    ([time(23, 59, 59)], pa.time32("s"), pa.time32("ms")), ([time(23, 59, 59)], pa.time32("ms"), pa.time64("ns")),
    ([date(1, 1, 1), date(9999, 12, 31)], pa.date32(), pa.date64()),
    ([[1], [], None, [None]], pa.list_(pa.int8()), pa.list_(pa.int64())),
    ([[1], []], pa.list_(pa.int8()), pa.large_list(pa.int16())),
    ([[1, 2]], pa.list_(pa.int8(), 2), pa.list_(pa.int16(), 2)), ([[1, 2]], pa.list_(pa.int8(), 2), pa.list_(pa.int8())),
    ([[("a", 1)]], pa.map_(pa.string(), pa.int8()), pa.map_(pa.string(), pa.float32())),
    ([{"x": 1}], pa.struct([("x", pa.int8())]), pa.struct([("x", pa.int32())])),
]  # fmt: skip


@pytest.mark.parametrize(
    ("values", "old", "new"), WIDENINGS, ids=lambda value: str(value) if isinstance(value, pa.DataType) else ""
)
def test_widening_keeps_every_value_and_what_is_known_of_it(
    place: str, values: list[Any], old: pa.DataType, new: pa.DataType
) -> None:
    table = make(place, v=pa.array(values, old), n=range(len(values)))
    before = read(table, "v")
    for low in range(len(values)):
        table.append(hours(100 + low, v=pa.array([values[low]], old), n=[100 + low]))
    table.widen_column("v", new)
    table.append(hours(200, v=pa.array([values[0]], old), n=[200]))
    found = gl.open(place).scan(order="index").to_arrow()["v"]
    assert found.type == new
    assert found.to_pylist() == [*before, *before, before[0]]
    for value in {value for value in before if isinstance(value, int | float | Decimal) and abs(value) != float("inf")}:
        expected = [n for n, one in zip(read(table, "n"), found.to_pylist(), strict=True) if one == value]
        assert read(table, "n", where=f"v = {value!r}".replace("Decimal('", "").replace("')", "")) == expected
    assert problems(table) == []


REFUSED: list[tuple[pa.DataType, pa.DataType, str]] = [
    (pa.int64(), pa.int32(), "int32 does not hold every int64"),
    (pa.int64(), pa.float64(), "double does not hold every int64"),
    (pa.int32(), pa.float32(), "It may become int64 or double"),
    (pa.int8(), pa.uint64(), "does not hold"),
    (pa.uint64(), pa.float64(), "No other type holds every value"),
    (pa.float64(), pa.float32(), "does not hold"),
    (pa.decimal128(10, 2), pa.decimal128(12, 4), "the scale of a decimal is fixed"),
    (pa.decimal128(10, 2), pa.decimal128(9, 2), "more than 10 digits"),
    (pa.timestamp("us"), pa.timestamp("ns"), "does not reach as far"),
    (pa.timestamp("us"), pa.timestamp("ms"), "coarser"),
    (pa.timestamp("us"), pa.timestamp("us", "UTC"), "naive"),
    (pa.duration("s"), pa.duration("ms"), "does not hold every"),
    (pa.time64("us"), pa.time32("ms"), "does not hold every"),
    (pa.string(), pa.binary(), "no lossless conversion"),
    (pa.int32(), pa.string(), "no lossless conversion"),
    (pa.struct([("x", pa.int8())]), pa.struct([("x", pa.int8()), ("y", pa.int8())]), "other fields"),
    (pa.struct([("x", pa.int8())]), pa.struct([("y", pa.int8())]), "other fields"),
    (pa.list_(pa.int8()), pa.list_(pa.int8(), 2), "every list must have 2 values"),
]


@pytest.mark.parametrize(("old", "new", "said"), REFUSED, ids=str)
def test_what_could_lose_something_is_refused_and_says_what_is_allowed(
    place: str, old: pa.DataType, new: pa.DataType, said: str
) -> None:
    table = make(place, v=pa.nulls(1, old))
    with pytest.raises(InvalidChange, match=said) as refusal:
        table.widen_column("v", new)
    assert refusal.value.column == "v"
    assert table.version == 2


DEFAULTS: list[tuple[pa.DataType, object, object]] = [
    (pa.bool_(), True, True), (pa.int8(), -128, -128), (pa.uint64(), 2**64 - 1, 2**64 - 1), (pa.float64(), 0, 0.0),
    (pa.float32(), 0.1, pytest.approx(0.1)), (pa.float16(), 1.5, 1.5), (pa.float64(), float("-inf"), float("-inf")),
    (pa.string(), "päivä", "päivä"), (pa.binary(), b"\x00\xff", b"\x00\xff"), (pa.binary(2), b"ab", b"ab"),
    (pa.decimal128(5, 2), Decimal("1.5"), Decimal("1.50")), (pa.decimal256(60, 1), 7, Decimal("7.0")),
    (pa.date32(), date(1, 1, 1), date(1, 1, 1)), (pa.date64(), date(9999, 12, 31), date(9999, 12, 31)),
    (pa.time32("s"), time(1, 2, 3), time(1, 2, 3)), (pa.time64("us"), time(1, 2, 3, 4), time(1, 2, 3, 4)),
    (pa.timestamp("s"), MIDNIGHT, MIDNIGHT), (pa.timestamp("us", "UTC"), T0, T0), (pa.timestamp("ms", "+05:30"), T0, T0),
    (pa.duration("ms"), timedelta(seconds=-1.5), timedelta(seconds=-1.5)), (pa.int64(), pa.scalar(5, pa.int8()), 5),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "given", "value"), DEFAULTS, ids=str)
def test_a_default_of_each_type_survives_the_log_and_its_checkpoints(
    place: str, type_: pa.DataType, given: object, value: object
) -> None:
    table = gl.create(place, index="ts", bucket="1h", properties={"checkpoint_interval": 2})
    table.append(hours(0, x=[1]))
    table.add_column("v", type_, default=given)
    table.add_column("w", pa.struct([("x", pa.int64())]))
    table.add_column("w.v", type_, default=given)
    table.append(hours(1, x=[2], w=[{"x": 1}]))
    for found in (table, gl.open(place)):
        assert read(found, "v") == [value, value]
        assert [row and row["v"] for row in read(found, "w")] == [None, value]
    assert problems(gl.open(place)) == []


@pytest.mark.parametrize(
    ("type_", "default"),
    [(pa.int8(), 128), (pa.int32(), 1.5), (pa.int8(), True), (pa.float64(), 2**53 + 1), (pa.float32(), 1e300), (pa.string(), 3),
     (pa.decimal128(5, 1), Decimal("0.05")), (pa.timestamp("ms"), datetime(2024, 1, 1, 0, 0, 0, 1)), (pa.timestamp("us"), T0),
     (pa.timestamp("us", "UTC"), MIDNIGHT), (pa.list_(pa.int8()), [1]), (pa.binary(2), b"a"), (pa.date32(), "2024-01-01")],
    ids=str,
)  # fmt: skip
def test_a_default_that_the_type_does_not_hold_is_refused(place: str, type_: pa.DataType, default: object) -> None:
    with pytest.raises(InvalidOption) as refusal:
        make(place, x=[1]).add_column("v", type_, default=default)
    assert refusal.value.option == "default"


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_the_index_and_the_entity_columns_stay(place: str) -> None:
    table = gl.create(place, index="ts", bucket="1h", entity=["sym"])
    table.append(hours(0, sym=["A"], x=[1]))
    for name in ("ts", "sym"):
        for change in (
            table.drop_column,
            lambda one: table.rename_column(one, "z"),
            lambda one: table.widen_column(one, pa.timestamp("ns", "UTC")),
        ):
            with pytest.raises(InvalidChange, match="it is the index or an entity column") as refusal:
                change(name)
            assert refusal.value.column == name
    table.comment_column("ts", "when")
    table.reorder_columns(["x"])
    table.append(hours(1, sym=["A"], x=[2]))
    assert read(table, "x") == [1, 2]
    assert table.coverage().covered == 2


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        (lambda t: t.add_column("x", pa.int8()), InvalidChange, "exists already"),
        (lambda t: t.add_column("", pa.int8()), InvalidOption, "names no column"),
        (lambda t: t.add_column((), pa.int8()), InvalidOption, "names no column"),
        (lambda t: t.add_column(("y", 3), pa.int8()), InvalidOption, "names no column"),
        (lambda t: t.drop_column(3), InvalidOption, "names no column"),
        (lambda t: t.add_column("y", "int"), InvalidOption, "'int' is no Arrow type"),
        (lambda t: t.widen_column("x", 64), InvalidOption, "64 is no Arrow type"),
        (lambda t: t.add_column("\0", pa.int8()), InvalidChange, "is no name"),
        (lambda t: t.add_column("x.y", pa.int8()), InvalidChange, "has no fields of its own"),
        (lambda t: t.add_column("l.y", pa.int8()), InvalidChange, "l.element"),
        (lambda t: t.add_column("m.key.y", pa.int8()), InvalidChange, "keys of a map"),
        (lambda t: t.add_column("y", pa.int8(), after="z"), UnknownColumn, "no column 'z'"),
        (lambda t: t.add_column("y", pa.month_day_nano_interval()), UnsupportedType, "y"),
        (lambda t: t.rename_column("z", "y"), UnknownColumn, "There are"),
        (lambda t: t.rename_column("x", ""), InvalidChange, "is no name"),
        (lambda t: t.rename_column("x", "s"), InvalidChange, "exists already"),
        (lambda t: t.rename_column("l.element", "y"), InvalidChange, "no field but the values"),
        (lambda t: t.drop_column("s.a.b"), UnknownColumn, "no column 's.a.b'"),
        (lambda t: t.drop_column("s.a"), InvalidChange, "last field of its struct"),
        (lambda t: t.drop_column("m.value"), InvalidChange, "no field but the values"),
        (lambda t: t.widen_column("m.key.k", pa.int64()), InvalidChange, "keys of a map"),
        (lambda t: t.reorder_columns(["x", "x"]), InvalidOption, "different names"),
        (lambda t: t.reorder_columns("x"), InvalidOption, "different names"),
        (lambda t: t.reorder_columns(None), InvalidOption, "different names"),
        (lambda t: t.reorder_columns([["x"]]), InvalidOption, "different names"),
        (lambda t: t.add_column("y", pa.int8(), after=5), UnknownColumn, "no column 5"),
        (lambda t: t.add_column("y", pa.int8(), comment=5), InvalidOption, "5 is no text"),
        (lambda t: t.comment_column("x", 5), InvalidOption, "5 is no text"),
        (lambda t: t.set_metadata({"a": 5}), InvalidOption, "5 is no text"),
        (lambda t: t.set_metadata({5: "a"}), InvalidOption, "5 is no text"),
        (lambda t: t.set_metadata(["a"]), InvalidOption, "is no metadata"),
        (lambda t: t.rename_column("x", None), InvalidChange, "a name is a text"),
        (lambda t: t.reorder_columns(["z"]), UnknownColumn, "no column 'z'"),
        (lambda t: t.reorder_columns(["a"], within="x"), InvalidChange, "has no fields"),
        (lambda t: t.comment_column("z", "c"), UnknownColumn, "no column 'z'"),
    ],
)
def test_wrong_changes_are_refused_and_commit_nothing(place: str, change: Any, error: type[Exception], said: str) -> None:
    keys = pa.map_(pa.struct([("k", pa.int8())]), pa.int8())
    table = make(place, x=[1], s=[{"a": 1}], l=[[{"b": 1}]], m=pa.array([[({"k": 1}, 1)]], keys))
    with pytest.raises(error, match=said):
        change(table)
    assert gl.open(place).version == 2


def test_a_table_without_columns_has_none_to_change(place: str) -> None:
    with pytest.raises(InvalidChange, match="no columns yet"):
        gl.create(place, index="ts", bucket="1h").add_column("x", pa.int8())


def test_an_input_that_goes_by_an_old_name_is_told_the_new_one(place: str) -> None:
    table = make(place, a=[1], d=[1])
    table.rename_column("a", "b")
    table.rename_column("b", "c")
    table.drop_column("d")
    for name in ("a", "b"):
        with pytest.raises(SchemaMismatch, match=f"{name}: not in the table: it is called 'c' now"):
            table.append(hours(1, **{name: [2]}))
    with pytest.raises(SchemaMismatch, match="d: not in the table: it was dropped"):
        table.append(hours(1, d=[2]))
    table.add_column("a", pa.int64())
    table.append(hours(1, a=[2]))
    assert read(table, "c", "a") == [(1, None), (None, 2)]


# -- versions, inputs, other readers -----------------------------------------------------------------------------------


def test_an_old_version_reads_with_its_own_columns(place: str) -> None:
    table = make(place, a=pa.array([1], pa.int32()))
    table.rename_column("a", "b")
    table.widen_column("b", pa.int64())
    table.append(hours(1, b=[2**40]))
    table.drop_column("b")
    table.add_column("a", pa.string(), default="x")
    assert [(names(table.at(version=v))[1:], read(table.at(version=v))[0][1:]) for v in (2, 3, 5, 6, 7)] == [  # type: ignore[arg-type]
        (["a"], (1,)), (["b"], (1,)), (["b"], (1,)), ([], ()), (["a"], ("x",)),
    ]  # fmt: skip
    assert read(table.at(version=2), where="a = 1") == [(T0, 1)]  # type: ignore[arg-type]


def test_files_are_appended_under_the_names_of_now(place: str, tmp_path: Path) -> None:
    table = make(place, a=[1])
    table.rename_column("a", "b")
    table.add_column("c", pa.string(), default="x")
    (tmp_path / "rows.csv").write_text("ts,b\n2024-01-01T05:00:00Z,5\n")
    pq.write_table(hours(6, b=[6], c=["y"]), tmp_path / "rows.parquet")
    table.append_file(tmp_path / "rows.csv")
    table.append_file(tmp_path / "rows.parquet")
    assert read(table, "b", "c") == [(1, "x"), (5, "x"), (6, "y")]


def test_duckdb_reads_the_files_by_stored_names(tmp_path: Path) -> None:
    table = make(str(tmp_path / "t"), a=[1], b=[2])
    table.rename_column("a", "c")
    table.append(hours(1, c=[3], b=[4]))
    files = [str(tmp_path / "t" / segment.path) for segment in table.segments()]
    found = duckdb.execute(f"SELECT a, b FROM read_parquet({files}) ORDER BY ts").fetchall()
    assert found == [(1, 2), (3, 4)] == read(table, "c", "b")


def test_sql_knows_the_names_of_now(place: str) -> None:
    table = make(place, a=[1, 2], s=[{"x": 1}, {"x": 2}])
    table.rename_column("a", "b")
    table.rename_column("s.x", "y")
    table.add_column("a", pa.int64(), default=9)
    found = table.sql("SELECT b, a, s.y AS y FROM this WHERE b > 1 AND a = 9").to_arrow().to_pylist()
    assert found == [{"b": 2, "a": 9, "y": 2}]
    assert read(table, "b", where="s.y = 1") == [1]
    with pytest.raises(UnknownColumn):
        table.scan(where="s.x = 1")


def test_entities_gaps_and_coverage_do_not_change(place: str) -> None:
    table = gl.create(place, index="ts", bucket="1h", entity=["sym"])
    table.append(hours(0, 2, sym=["A", "A"], x=[1, 2]))
    before = table.coverage().gaps()
    table.rename_column("x", "y")
    table.drop_column("y")
    table.add_column("x", pa.int64())
    assert gl.open(place).coverage().gaps() == before
    with pytest.raises(gl.CoverageOverlap):
        table.append(hours(0, sym=["A"], x=[1]))


def test_repair_finds_nothing_to_do_in_a_table_whose_columns_changed(place: str) -> None:
    table = make(place, a=[1, None], b=[1.5, float("nan")])
    table.rename_column("a", "c")
    table.drop_column("b")
    table.add_column("b", pa.float64(), default=2.5)
    table.append(hours(5, c=[3]))
    report = gl.repair(place, deep=True)
    assert (report.steps, report.left) == ((), ())


# -- failures from the field -------------------------------------------------------------------------------------------


def test_type_06_names_of_list_children_do_not_matter_to_a_change(place: str) -> None:
    inner = pa.struct([("x", pa.int8()), ("deep", pa.list_(pa.field("element", pa.int8())))])
    table = make(place, v=pa.array([[{"x": 1, "deep": [1]}]], pa.list_(pa.field("item", inner))))
    table.add_column("v.element.y", pa.int64())
    table.widen_column(
        "v", pa.list_(pa.field("array", pa.struct([("x", pa.int16()), ("deep", pa.list_(pa.int32())), ("y", pa.int64())])))
    )
    other = pa.struct([("x", pa.int8()), ("deep", pa.list_(pa.field("bag", pa.int8()))), ("y", pa.int64())])
    table.append(hours(1, v=pa.array([[{"x": 2, "deep": [2], "y": 3}]], pa.list_(pa.field("element", other)))))
    assert read(table, "v") == [[{"x": 1, "deep": [1], "y": None}], [{"x": 2, "deep": [2], "y": 3}]]


def test_type_07_a_column_of_unknown_type_is_renamed_widened_and_dropped(place: str) -> None:
    table = make(place, a=pa.nulls(1), b=pa.nulls(1), c=pa.nulls(1))
    table.rename_column("a", "x")
    table.widen_column("b", pa.int32())
    table.drop_column("c")
    table.add_column("c", pa.null())
    table.append(hours(1, x=["now a text"], b=pa.array([2], pa.int32())))
    table.append(hours(2, c=[3]))
    fresh = gl.open(place)
    assert fresh.schema is not None
    assert fresh.schema.types[1:] == [pa.string(), pa.int32(), pa.int64()]
    assert read(fresh, "x", "b", "c") == [(None, None, None), ("now a text", 2, None), (None, None, 3)]


def test_type_10_a_wider_number_comes_in_after_the_column_was_widened(place: str) -> None:
    table = make(place, i=pa.array([1, 2], pa.int32()), f=pa.array([0.5, 0.25], pa.float32()))
    with pytest.raises(SchemaMismatch, match="i: int32 in the table, int64 in the input"):
        table.append(hours(2, i=[5]))
    table.widen_column("i", pa.int64())
    table.widen_column("f", pa.float64())
    table.append(hours(2, 3, i=[5, 2**40], f=[0.1, None]))
    assert read(table, "i", "f") == [(1, 0.5), (2, 0.25), (5, 0.1), (2**40, None)]
    assert read(table, "i", where=f"i = {2**40} or f = 0.25") == [2, 2**40]


def test_type_11_an_integer_becomes_a_double_only_where_no_value_is_rounded(place: str) -> None:
    table = make(place, v=[1, 2**53 + 1], w=pa.array([1, 2], pa.int32()))
    with pytest.raises(InvalidChange, match="double does not hold every int64"):
        table.widen_column("v", pa.float64())
    table.widen_column("w", pa.float64())
    table.append(hours(2, w=[7.8]))
    for drift in (["n/a"], [date(2024, 1, 1)], [True]):
        with pytest.raises(SchemaMismatch, match="w: double in the table"):
            table.append(hours(3, w=drift))
    assert read(table, "v", "w") == [(1, 1.0), (2**53 + 1, 2.0), (None, 7.8)]


def test_type_12_signed_and_unsigned_meet_in_a_type_that_holds_both(place: str) -> None:
    table = make(place, small=pa.array([-1], pa.int8()), large=pa.array([-1], pa.int64()))
    table.widen_column("small", pa.int16())
    table.append(hours(1, small=pa.array([200], pa.uint8())))
    assert read(table, "small") == [-1, 200]
    with pytest.raises(InvalidChange, match="does not hold"):
        table.widen_column("large", pa.uint64())
    with pytest.raises(SchemaMismatch, match="large"):
        table.append(hours(2, large=pa.array([2**64 - 1], pa.uint64())))


@pytest.mark.parametrize("newest_first", [False, True])
def test_type_13_parts_that_came_later_are_null_at_each_level(place: str, newest_first: bool) -> None:
    table = make(place, a=[1], s=[{"x": 1}], l=[[{"x": 1}]])
    for name in ("b", "s.y", "l.element.y", "nobody"):
        table.add_column(name, pa.int64())
    later = [hours(-1 if newest_first else 1, a=[2], b=[2], s=[{"x": 2, "y": 2}], l=[[{"x": 2, "y": 2}]])]
    table.append(later[0])
    found = sorted(read(table, "a", "b", "s", "l", "nobody"))
    assert found == [
        (1, None, {"x": 1, "y": None}, [{"x": 1, "y": None}], None), (2, 2, {"x": 2, "y": 2}, [{"x": 2, "y": 2}], None),
    ]  # fmt: skip
    assert read(table, "a", where="b is null") == [1]
    assert read(table, "a", where="s.y is null") == [1]
    assert len(read(table, "a", where="nobody is null")) == 2


SPECIAL = ["TEST:A1.RAW-1", "$data", "my/col", "#event", "a b", "päivä", "x`y", 'a"b', "1st", "a~2", "select"]


@pytest.mark.parametrize("name", SPECIAL)
def test_type_19_any_name_may_be_given_taken_and_given_again(place: str, name: str) -> None:
    table = make(place, a=[1])
    table.rename_column("a", name)
    table.append(hours(1, **{name: [2]}))
    quoted = '"' + name.replace('"', '""') + '"'
    assert read(table, name, where=f"{quoted} = 2") == [2]
    assert table.sql(f"SELECT {quoted} AS v FROM this ORDER BY v").to_arrow()["v"].to_pylist() == [1, 2]
    table.drop_column((name,))
    table.add_column((name,), pa.string(), default=name)
    assert read(gl.open(place), name) == [name, name]
    assert problems(table) == []


def test_type_20_the_order_does_not_depend_on_how_a_column_came(place: str) -> None:
    table = make(place, a=[1])
    table.add_column("b", pa.int64())
    table.append(pa.table({"b": [20], "a": [10], "ts": [T0 + timedelta(hours=1)]}))
    assert names(table) == ["ts", "a", "b"]
    assert read(table, "a", "b") == [(1, None), (10, 20)]


def test_type_22_decimals_gain_digits_in_front_of_the_point_alone(place: str) -> None:
    table = make(place, d=pa.array([Decimal("-12345678.90"), None], pa.decimal128(10, 2)))
    with pytest.raises(InvalidChange, match="the scale of a decimal is fixed"):
        table.widen_column("d", pa.decimal128(12, 4))
    table.widen_column("d", pa.decimal128(12, 2))
    table.append(hours(2, d=pa.array([Decimal("9999999999.99")], pa.decimal128(12, 2))))
    with pytest.raises(SchemaMismatch, match="d: decimal128"):
        table.append(hours(3, d=pa.array([1], pa.int64())))
    assert read(table, "d") == [Decimal("-12345678.90"), None, Decimal("9999999999.99")]
    assert read(table, "d", where="d < 0") == [Decimal("-12345678.90")]
    assert read(table, "d", where="d = 9999999999.99") == [Decimal("9999999999.99")]
    with pytest.raises((SchemaMismatch, InvalidValue)):
        table.append(hours(3, d=pa.array([Decimal("10000000000.00")], pa.decimal128(13, 2))))
