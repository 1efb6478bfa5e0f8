"""Statistics as JSON: strict, never narrower than the rows, and what others write is never believed further than it holds."""

from __future__ import annotations

import json
import math
import struct
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.formats.delta.properties import Settings
from gapless.formats.delta.schema.arrow_types import arrow_type, from_arrow
from gapless.formats.delta.schema.changes import widen
from gapless.formats.delta.schema.column_mapping import assign
from gapless.formats.delta.schema.types import PrimitiveType, StructField, StructType
from gapless.formats.delta.stats_bounds import read_bound, write_bound
from gapless.formats.delta.stats_codec import FileStats, StatsReader, encode_stats, indexed_leaves, leaves, parse_stats, rows_of
from gapless.model.stats import Bound, ColumnStats, arrow_scalar, stats_value, text_above


def _schema(**types: str) -> StructType:
    return StructType(fields=tuple(StructField(name=name, type=PrimitiveType(type_)) for name, type_ in types.items()))


Columns = dict[tuple[str, ...], ColumnStats]


def _strict(text: str) -> Any:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse, parse_float=Decimal)


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "byte": st.integers(-128, 127),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32),
    "double": st.floats(),
    "boolean": st.booleans(),
    "string": st.text(st.characters(codec="utf-8"), max_size=50)
    | st.text("ab\ud7ff\uffff\U0010ffff", min_size=30, max_size=40),
    "date": st.dates(),
    "timestamp": st.datetimes(),
    "timestamp_ntz": st.datetimes(),
    "decimal(38,20)": st.decimals(-(10**17), 10**17, places=20),
    "decimal(9,2)": st.decimals(-(10**6), 10**6, places=2),
}


def _truth(values: list[Any], type_: pa.DataType) -> tuple[ColumnStats, list[Bound]]:
    """The statistics a writer takes, and the values that they have to hold."""
    bounds = [stats_value(value, type_) for value in pa.array(values, type_) if value.is_valid]
    numbers = [bound for bound in bounds if not (isinstance(bound, float) and math.isnan(bound))]
    nans = len(bounds) - len(numbers) if pa.types.is_floating(type_) else None
    low, high = (min(numbers), max(numbers)) if numbers else (None, None)
    return ColumnStats(min=low, max=high, nulls=len(values) - len(bounds), nans=nans), numbers


@pytest.mark.parametrize("name", VALUES)
@given(data=st.data())
def test_bounds_hold_every_value_after_they_were_written(name: str, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.none() | VALUES[name], min_size=1, max_size=5))
    type_ = arrow_type(PrimitiveType(name))
    stats, numbers = _truth(values, type_)
    schema = _schema(x=name)
    text = encode_stats(len(values), {("x",): stats}, schema)
    raw = _strict(text)
    assert raw["numRecords"] == len(values)
    found = parse_stats(text, schema)
    assert found.rows == len(values)
    column = found.columns[("x",)]
    assert column.nulls == stats.nulls
    assert column.min is None or all(column.min <= value for value in numbers)  # type: ignore[operator]
    assert column.max is None or all(column.max >= value for value in numbers)  # type: ignore[operator]
    assert all(arrow_scalar(bound, type_).type == type_ for bound in (column.min, column.max) if bound is not None)
    if numbers and stats.nans in (0, None):
        assert column.min is not None
        assert column.max is not None or isinstance(numbers[0], str)


@pytest.mark.parametrize("name", VALUES)
@given(data=st.data())
def test_stat_01_delta_texts_of_bounds_hold_at_face_value_too(name: str, data: st.DataObject) -> None:
    """For readers that take the JSON as it stands, as most do."""
    value = data.draw(VALUES[name])
    type_ = arrow_type(PrimitiveType(name))
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return
    bound = stats_value(value, type_)
    for top in (False, True):
        text = write_bound(bound, PrimitiveType(name), top=top)
        if text is None:
            assert isinstance(bound, str)
            continue
        face = _strict(text)
        if isinstance(value, datetime):
            face, value = datetime.fromisoformat(face).replace(tzinfo=UTC), value.replace(tzinfo=UTC)
        elif isinstance(bound, float):
            face, value = float(face), bound
        elif name == "date":
            value = str(value)
        assert face >= value if top else face <= value
        if not isinstance(value, str):
            assert face == value, "nothing but texts is cut"


def _foreign(value: Any, name: str, *, top: bool) -> Any:
    """A bound as other writers put it: cut to milliseconds, to 32 characters, through a 64-bit float, as the shortest 32-bit float."""
    match name:
        case "timestamp" | "timestamp_ntz":
            return value.isoformat(timespec="milliseconds") + ("Z" if name == "timestamp" else "")
        case "string":
            return value if len(value) <= 32 else value[:32] + ("\ufffd" if top else "")
        case "decimal(38,20)":
            return float(value)
        case "float":
            return float(pa.scalar(value, pa.float32()).cast(pa.string()).as_py())
        case "date":
            return str(value)
        case "decimal(9,2)":
            return float(value)
    return value


@pytest.mark.parametrize("name", VALUES)
@given(data=st.data())
def test_stat_01_delta_bounds_of_other_writers_hold(name: str, data: st.DataObject) -> None:
    value = data.draw(VALUES[name].filter(lambda one: not isinstance(one, float) or math.isfinite(one)))
    type_ = arrow_type(PrimitiveType(name))
    truth = stats_value(value, type_)
    schema = _schema(x=name)
    raw = {
        "numRecords": 1,
        "minValues": {"x": _foreign(value, name, top=False)},
        "maxValues": {"x": _foreign(value, name, top=True)},
        "nullCount": {"x": 0},
    }
    found = parse_stats(json.dumps(raw), schema).columns[("x",)]
    assert found.min is None or found.min <= truth  # type: ignore[operator]
    assert found.max is None or found.max >= truth  # type: ignore[operator]
    assert found.min is not None


def test_stat_01_delta_the_case_itself() -> None:
    at = datetime(2023, 3, 29, 23, 59, 59, 807126, UTC)
    ns = (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1_000
    type_ = PrimitiveType("timestamp")
    assert read_bound("2023-03-29T23:59:59.807Z", type_, top=True) == ns - 126_000 + 999_000
    assert read_bound("2023-03-29T23:59:59.807Z", type_, top=False) == ns - 126_000
    assert write_bound(ns, type_, top=True) == '"2023-03-29T23:59:59.807126Z"'
    assert read_bound("2023-03-29T23:59:59.807126Z", type_, top=True) == ns
    assert read_bound("2023-03-29T23:59:59.807", type_, top=True) is None, "of an unknown zone"
    assert read_bound("2023-03-29T23:59:59.807", PrimitiveType("timestamp_ntz"), top=True) is not None


def test_stat_02_delta_nan_is_no_bound_and_hides_the_largest() -> None:
    schema = _schema(x="double", s="string")
    columns: Columns = {
        ("x",): ColumnStats(min=300.0, max=300.0, nulls=0, nans=1),
        ("s",): ColumnStats(min="a", max="d", nulls=0),
    }
    text = encode_stats(2, columns, schema)
    raw = _strict(text)
    assert not raw.keys() & {"minValues", "maxValues"}, "deltalake's datasets take a missing bound for null"
    assert parse_stats(text, schema).columns == {**columns, ("x",): ColumnStats(min=300.0, nulls=0, nans=1)}
    unknown = _strict(encode_stats(2, {("x",): ColumnStats(min=1.0, max=2.0, nulls=0)}, schema))
    assert "maxValues" not in unknown
    for odd in ("NaN", math.nan):
        text = json.dumps(
            {"numRecords": 2, "minValues": {"x": odd}, "maxValues": {"x": odd, "s": "d"}, "nullCount": {"x": 0, "s": 0}}
        )
        found = parse_stats(text, schema)
        assert found.columns[("x",)] == ColumnStats(nulls=0)
        assert found.columns[("s",)] == ColumnStats(max="d", nulls=0)


def test_stat_03_delta_infinity_is_no_bare_word() -> None:
    schema = _schema(x="double")
    text = encode_stats(3, {("x",): ColumnStats(min=-math.inf, max=math.inf, nulls=0, nans=0)}, schema)
    raw = _strict(text)
    assert (raw["minValues"], raw["maxValues"]) == ({"x": "-Infinity"}, {"x": "Infinity"})
    assert parse_stats(text, schema).columns == {("x",): ColumnStats(min=-math.inf, max=math.inf, nulls=0, nans=0)}
    for word in ('"Infinity"', '"inf"', "Infinity"):
        found = parse_stats(f'{{"numRecords":1,"maxValues":{{"x":{word}}}}}', schema)
        assert found.columns[("x",)].max == math.inf


def test_stat_04_delta_zeros_take_both_signs() -> None:
    assert write_bound(0.0, PrimitiveType("double"), top=False) == "-0.0"
    assert write_bound(-0.0, PrimitiveType("double"), top=True) == "0.0"


def test_stat_05_delta_a_column_of_nulls_has_counts_alone() -> None:
    schema = _schema(x="long")
    assert _strict(encode_stats(2, {("x",): ColumnStats(nulls=2)}, schema)) == {
        "numRecords": 2, "minValues": {}, "maxValues": {}, "nullCount": {"x": 2},
    }  # fmt: skip
    explicit = parse_stats('{"numRecords":2,"minValues":{"x":null},"maxValues":{"x":null},"nullCount":{"x":2}}', schema)
    assert explicit.columns == {("x",): ColumnStats(nulls=2)}
    odd = parse_stats('{"numRecords":2,"minValues":{"x":7},"maxValues":{"x":9},"nullCount":{"x":2}}', schema)
    assert odd.columns == {("x",): ColumnStats(nulls=2)}, "the protocol gives bounds of nulls no meaning"


def test_stat_06_delta_absent_is_neither_null_nor_zero() -> None:
    schema = _schema(x="long", y="long")
    found = parse_stats('{"numRecords":5,"nullCount":{"x":1}}', schema)
    assert found.columns == {("x",): ColumnStats(nulls=1)}
    assert ("y",) not in found.columns
    assert found.columns.get(("y",)) is None
    assert parse_stats('{"numRecords":5,"minValues":{"x":1}}', schema).columns == {("x",): ColumnStats(min=1)}
    for nothing in (None, "", "{}", "null", "[]", "{", '{"numRecords":-1}', '{"numRecords":true}', "[" * 10_000):
        stats = parse_stats(nothing, schema)
        assert (stats.rows, dict(stats.columns)) == (None, {})


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("a\ufffd", "a", "b"),  # a byte that is no UTF-8, as decoders replace it
        ("\ufffd", "", None),
        ("\ud83d", None, None),  # half of a surrogate pair
        ("x" * 32, "x" * 32, "x" * 31 + "y"),
        ("x" * 31, "x" * 31, "x" * 31),
        ("x" * 32 + "\U0010ffff", "x" * 32 + "\U0010ffff", "x" * 31 + "y"),
    ],
)
def test_stat_10_delta_odd_bounds_of_texts(text: str, low: str | None, high: str | None) -> None:
    type_ = PrimitiveType("string")
    assert read_bound(text, type_, top=False) == low
    assert read_bound(text, type_, top=True) == high


@given(st.text(st.characters(codec="utf-8"), min_size=1), st.text(st.characters(codec="utf-8")))
def test_above_comes_after_every_text_with_the_prefix(prefix: str, rest: str) -> None:
    found = text_above(prefix)
    assert found is None or (prefix + rest < found and len(found) <= len(prefix))
    assert (found is None) == (not prefix.rstrip("\U0010ffff"))


def test_stat_12_delta_offsets_that_lack_their_seconds() -> None:
    """Berlin was +00:53:28 until 1893; texts say +00:53."""
    type_ = PrimitiveType("timestamp")
    exact = read_bound("1850-01-01T00:07:33.000000Z", type_, top=False)
    told = "1850-01-01T01:01:01.000+00:53"
    low, high = read_bound(told, type_, top=False), read_bound(told, type_, top=True)
    assert isinstance(exact, int)
    assert isinstance(low, int)
    assert isinstance(high, int)
    assert low <= exact <= high
    assert read_bound("2000-01-01T00:00:00.000001-08:00", type_, top=False) == 946_713_600_000_001_000


def test_decimals_that_went_through_a_float() -> None:
    type_ = PrimitiveType("decimal(38,18)")
    truth = Decimal("12345678901234567.123456789012345678")
    low, high = read_bound(float(truth), type_, top=False), read_bound(float(truth), type_, top=True)
    assert isinstance(low, Decimal)
    assert isinstance(high, Decimal)
    assert low <= truth <= high
    assert read_bound(Decimal(str(truth)), type_, top=True) == truth
    assert read_bound("0.1", type_, top=True) == Decimal("0.1")
    assert read_bound(12.34, PrimitiveType("decimal(10,2)"), top=True) == Decimal("12.34")
    assert read_bound(1e25, PrimitiveType("decimal(5,0)"), top=True) == 99_999
    wrong: tuple[object, ...] = ("x", "NaN", True, [], {})
    for odd in wrong:
        assert read_bound(odd, type_, top=True) is None


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("integer", "7"), ("integer", 3e9), ("integer", 1.5), ("integer", True), ("long", 2**63), ("long", [1]), ("double", "x"),
        ("double", {"a": 1}), ("float", 1e300), ("string", 7), ("date", "2020-13-01"), ("date", 7), ("timestamp", "x"),
        ("timestamp", 7), ("boolean", "true"), ("binary", "abc"), ("variant", "abc"), ("void", 1),
    ],
)  # fmt: skip
def test_what_is_no_bound_of_the_type_is_not_known(name: str, raw: object) -> None:
    assert read_bound(raw, PrimitiveType(name), top=True) is None
    assert read_bound(raw, PrimitiveType(name), top=False) is None


def test_bounds_the_wrong_way_round_are_not_known() -> None:
    found = parse_stats('{"numRecords":2,"minValues":{"x":9},"maxValues":{"x":7},"nullCount":{"x":9}}', _schema(x="long"))
    assert dict(found.columns) == {}


def test_years_that_others_lack_are_left_out() -> None:
    schema = _schema(d="date", t="timestamp")
    far = ColumnStats(min=-1_000_000, max=3_000_000, nulls=0)
    farther = ColumnStats(min=-1_000_000 * 86_400 * 10**9, max=3_000_000 * 86_400 * 10**9, nulls=0)
    raw = _strict(encode_stats(1, {("d",): far, ("t",): farther}, schema))
    assert not raw.keys() & {"minValues", "maxValues"}


def test_a_struct_has_bounds_even_if_none_is_known_of_what_is_in_it() -> None:
    """Else deltalake's datasets lose the rows in which it is null."""
    schema = from_arrow(pa.schema([("i", pa.int64()), ("s", pa.struct([("b", pa.binary()), ("x", pa.float64())]))]))
    known: Columns = {("i",): ColumnStats(min=1, max=2, nulls=0), ("s", "x"): ColumnStats(nulls=1, nans=1)}
    raw = _strict(encode_stats(2, known, schema))
    assert raw["minValues"] == {"i": 1, "s": {}}
    assert raw["maxValues"] == {"i": 2, "s": {}}


def test_nested_columns_by_their_physical_names() -> None:
    arrow = pa.schema(
        [
            ("s", pa.struct([("a", pa.int64()), ("t", pa.struct([("b", pa.string())])), ("l", pa.list_(pa.int8()))])),
            ("m", pa.map_(pa.string(), pa.int8())),
            ("bin", pa.binary()),
        ]
    )
    names = iter(f"c{number}" for number in range(9))
    schema, _ = assign(from_arrow(arrow), "name", 0, lambda: next(names))
    columns: Columns = {
        ("s", "a"): ColumnStats(min=1, max=2, nulls=0),
        ("s", "t", "b"): ColumnStats(min="x", max="y", nulls=1),
        ("s", "l"): ColumnStats(nulls=2),
        ("m",): ColumnStats(nulls=3),
        ("bin",): ColumnStats(min=b"a", max=b"b", nulls=4),
    }
    raw = _strict(encode_stats(9, columns, schema))
    assert raw["minValues"] == {"c0": {"c1": 1, "c2": {"c3": "x"}}}
    assert raw["nullCount"] == {"c0": {"c1": 0, "c2": {"c3": 1}, "c4": 2}, "c5": 3, "c6": 4}
    found = StatsReader(schema).parse(json.dumps({**raw, "minValues": {"c0": 5}}))
    assert found.columns[("s", "a")] == ColumnStats(max=2, nulls=0), "what should be an object is not known"
    assert dict(parse_stats(json.dumps(raw), schema).columns) == {**columns, ("bin",): ColumnStats(nulls=4)}
    assert [leaf.path for leaf in leaves(schema)] == [("s", "a"), ("s", "t", "b"), ("s", "l"), ("m",), ("bin",)]


def test_wide_bounds_keep_the_null_counts_that_are_certain() -> None:
    schema = _schema(a="long", b="long", c="long")
    text = encode_stats(
        4,
        {("a",): ColumnStats(min=1, max=2, nulls=0), ("b",): ColumnStats(min=1, max=2, nulls=2), ("c",): ColumnStats(nulls=4)},
        schema,
        tight=False,
    )
    assert _strict(text)["tightBounds"] is False
    wide = {("a",): ColumnStats(min=1, max=2, nulls=0), ("b",): ColumnStats(min=1, max=2), ("c",): ColumnStats(nulls=4)}
    found = parse_stats(text, schema)
    assert (found.tight, dict(found.columns)) == (False, wide)
    tight = text.replace(',"tightBounds":false', "")
    assert parse_stats(tight, schema).columns[("b",)].nulls == 2
    assert dict(parse_stats(tight, schema, deleted=True).columns) == wide, "a deletion vector loosens them, said or not"


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_type_widening_leaves_shortest_texts_of_floats_behind(value: float) -> None:
    schema = widen(_schema(x="float"), ("x",), PrimitiveType("double"))
    short = pa.scalar(value, pa.float32()).cast(pa.string()).as_py()
    found = parse_stats(f'{{"numRecords":1,"minValues":{{"x":{short}}},"maxValues":{{"x":{short}}}}}', schema)
    column = found.columns[("x",)]
    exact = struct.unpack("f", struct.pack("f", value))[0]
    assert isinstance(column.min, float)
    assert isinstance(column.max, float)
    assert column.min <= exact <= column.max


def test_a_widened_column_reads_its_old_bounds() -> None:
    schema = _schema(i="decimal(12,2)", d="timestamp_ntz", b="long")
    found = parse_stats(
        '{"numRecords":1,"minValues":{"i":7,"d":"2020-01-01","b":3},"maxValues":{"i":8,"d":"2020-01-02","b":4}}', schema
    )
    assert found.columns[("i",)] == ColumnStats(min=Decimal("7.00"), max=Decimal("8.00"))
    assert found.columns[("b",)] == ColumnStats(min=3, max=4)
    day = found.columns[("d",)]
    assert day.min == 1_577_836_800 * 10**9
    assert isinstance(day.max, int)
    assert day.max >= 1_577_923_200 * 10**9


def test_which_columns_have_statistics() -> None:
    schema = from_arrow(
        pa.schema([("a", pa.int64()), ("s", pa.struct([("x", pa.int8()), ("y", pa.int8())])), ("b", pa.int64())])
    )
    paths = [("a",), ("s", "x"), ("s", "y"), ("b",)]
    for settings, kept in (
        ({}, paths),
        ({"delta.dataSkippingNumIndexedCols": "2"}, paths[:2]),
        ({"delta.dataSkippingNumIndexedCols": "-1"}, paths),
        ({"delta.dataSkippingNumIndexedCols": "0"}, []),
        ({"delta.dataSkippingStatsColumns": "b, s.y"}, [("s", "y"), ("b",)]),
        ({"delta.dataSkippingStatsColumns": "s", "delta.dataSkippingNumIndexedCols": "0"}, [("s", "x"), ("s", "y")]),
    ):
        assert [leaf.path for leaf in indexed_leaves(schema, Settings.of(settings))] == kept


def test_texts_are_cut_as_the_table_says() -> None:
    schema = _schema(s="string")
    columns: Columns = {("s",): ColumnStats(min="abcdef", max="abcdef", nulls=0)}
    raw = _strict(encode_stats(1, columns, schema, text_length=3))
    assert (raw["minValues"], raw["maxValues"]) == ({"s": "abc"}, {"s": "abd"})
    assert "minValues" not in _strict(encode_stats(1, columns, schema, text_length=0))


def test_nothing_known() -> None:
    assert [rows_of(text) for text in (None, "{", "{}", '{"numRecords":7}', '{"numRecords":"7"}')] == [
        None,
        None,
        None,
        7,
        None,
    ]
    assert FileStats() == FileStats(rows=None, tight=True, columns={})
