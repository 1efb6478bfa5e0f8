"""The quick look at many files' statistics says nothing that reading them one by one would not."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.formats.delta import stats_columns
from gapless.formats.delta.schema.arrow_types import arrow_type, from_arrow
from gapless.formats.delta.schema.changes import widen
from gapless.formats.delta.schema.column_mapping import assign
from gapless.formats.delta.schema.types import PrimitiveType, StructField, StructType
from gapless.formats.delta.stats_codec import ColumnPath, encode_stats, parse_stats, rows_of
from gapless.formats.delta.stats_columns import read_bounds, read_many, read_rows
from gapless.model.stats import ColumnStats, stats_value

MADE = {
    "string": st.text(max_size=4) | st.sampled_from(["x" * 32, "x" * 40, "a\ufffd", "\ufffd", "é" * 32, "\U0010ffff" * 32]),
    "long": st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3),
    "integer": st.integers(-(2**31), 2**31 - 1),
    "byte": st.integers(-128, 127),
    "double": st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.0, -0.0, 0.1]),
    "date": st.dates().map(str),
    "timestamp": st.datetimes().map(lambda at: at.isoformat(timespec="milliseconds") + "Z")
    | st.datetimes().map(lambda at: at.isoformat(timespec="microseconds") + "Z")
    | st.sampled_from(
        ["1850-01-01T01:01:01.000+00:53", "2020-01-01T00:00:00.000-08:00", "2020-01-01T00:00:00", "1969-12-31T23:59:59Z"]
    ),
    "timestamp_ntz": st.datetimes().map(lambda at: at.isoformat(timespec="milliseconds")),
}
ODD: st.SearchStrategy[Any] = st.sampled_from([None, "x", "NaN", "Infinity", 1.5, 10**20, True, [], {}, "9999-99-99"])
COUNTS = st.integers(0, 3) | st.none()


@st.composite
def _bodies(draw: st.DrawFn, name: str) -> dict[str, Any]:
    bound = MADE[name]
    low: Any = draw(bound) if draw(st.integers(0, 9)) else draw(ODD)
    high: Any = draw(bound) if draw(st.integers(0, 9)) else draw(ODD)
    if type(low) is type(high) and isinstance(low, str | int | float) and low > high and draw(st.booleans()):
        low, high = high, low
    body = {"numRecords": draw(COUNTS), "minValues": {"x": low}, "maxValues": {"x": high}, "nullCount": {"x": draw(COUNTS)}}
    body["nanCount"] = {"x": draw(COUNTS)}
    if not draw(st.integers(0, 3)):
        body["tightBounds"] = draw(st.booleans())
    for key in draw(st.lists(st.sampled_from(sorted(body)), max_size=2, unique=True)):
        del body[key]
    return body


def _holds(texts: list[str | None], path: ColumnPath, schema: StructType, type_: pa.DataType) -> None:
    found = read_bounds(texts, path, schema)
    if found is None:
        return
    for at, text in enumerate(texts):
        one = parse_stats(text, schema)
        exact = one.columns.get(path) or ColumnStats()
        low, high, nulls, nans, rows = (column[at] for column in (found.low, found.high, found.nulls, found.nans, found.rows))
        empty = exact.nulls is not None and exact.nulls == one.rows
        if low.is_valid and high.is_valid and low.as_py() <= high.as_py() and not empty:
            assert exact.min is not None, text
            assert exact.max is not None, text
            assert stats_value(low, type_) <= exact.min, text  # type: ignore[operator]
            assert stats_value(high, type_) >= exact.max, text  # type: ignore[operator]
        if nulls == pa.scalar(0):
            assert exact.nulls == 0 or exact == ColumnStats(), text
        if rows.is_valid and rows == nulls and rows.as_py() > 0:
            assert exact.nulls == one.rows, text
        if nans == pa.scalar(0) and low.is_valid and high.is_valid and not empty:
            assert exact.nans == 0, text


@pytest.mark.parametrize("name", MADE)
@given(data=st.data())
def test_it_is_never_narrower(name: str, data: st.DataObject) -> None:
    bodies = data.draw(st.lists(st.none() | _bodies(name), min_size=1, max_size=4))
    schema = StructType(fields=(StructField(name="x", type=PrimitiveType(name)),))
    texts = [None if body is None else json.dumps(body) for body in bodies]
    _holds(texts, ("x",), schema, arrow_type(PrimitiveType(name)))


@given(st.lists(_bodies("double"), min_size=1, max_size=3))
def test_it_is_never_narrower_where_a_float_was_widened(bodies: list[dict[str, Any]]) -> None:
    schema = widen(StructType(fields=(StructField(name="x", type=PrimitiveType("float")),)), ("x",), PrimitiveType("double"))
    _holds([json.dumps(body) for body in bodies], ("x",), schema, pa.float64())


@pytest.mark.parametrize("odd", ["null", " null", "[]", "1", "", None])
def test_a_text_that_is_no_object_tells_nothing_and_spoils_no_other(odd: str | None) -> None:
    schema = from_arrow(pa.schema([("x", pa.int64())]))
    whole = '{"numRecords": 1, "minValues": {"x": 1}, "maxValues": {"x": 2}}'
    for texts, expected in (([odd], [None]), ([odd, whole], [None, 1]), ([whole, odd, odd], [1, None, None])):
        found = read_bounds(texts, ("x",), schema)
        assert found is not None
        assert found.low.to_pylist() == expected


def test_it_does_read_what_is_whole() -> None:
    """Else the tests above would show nothing."""
    arrow = pa.schema(
        [("s", pa.struct([("n", pa.int64()), ("t", pa.timestamp("us", "UTC")), ("x", pa.string()), ("d", pa.float64())]))]
    )
    names = iter("abcde")
    schema, _ = assign(from_arrow(arrow), "name", 0, lambda: next(names))
    stats: dict[ColumnPath, ColumnStats] = {
        ("s", "n"): ColumnStats(min=1, max=5, nulls=1),
        ("s", "t"): ColumnStats(min=1_000, max=5_001_000, nulls=0),
        ("s", "x"): ColumnStats(min="a", max="b", nulls=0),
        ("s", "d"): ColumnStats(min=1.5, max=2.5, nulls=0, nans=0),
    }
    texts = [encode_stats(9, stats, schema), None]
    for path, exact in stats.items():
        found = read_bounds(texts, path, schema)
        assert found is not None, path
        type_ = arrow.field("s").type.field(path[-1]).type
        assert stats_value(found.low[0], type_) <= exact.min  # type: ignore[operator]
        assert stats_value(found.high[0], type_) >= exact.max  # type: ignore[operator]
        assert found.nulls.to_pylist() == [exact.nulls, None]
        assert found.rows.to_pylist() == [9, None]
        assert found.nans.to_pylist() == [exact.nans, None]
        assert not found.low[1].is_valid


def test_bounds_that_others_are_not_to_see_are_read() -> None:
    schema = from_arrow(pa.schema([("i", pa.int64()), ("x", pa.float64())]))
    told: dict[ColumnPath, ColumnStats] = {
        ("i",): ColumnStats(min=1, max=2, nulls=0),
        ("x",): ColumnStats(min=1.0, max=2.0, nulls=0, nans=1),
    }
    texts = [encode_stats(3, told, schema), None, encode_stats(3, {("i",): told[("i",)]}, schema)]
    assert ['"minValues"' in (text or "") for text in texts] == [False, False, True]
    found = read_bounds(texts, ("i",), schema)
    assert found is not None
    assert (found.low.to_pylist(), found.high.to_pylist()) == ([1, None, 1], [2, None, 2])


@given(
    st.lists(
        st.none()
        | _bodies("long").map(json.dumps)
        | st.sampled_from(
            ['{"numRecords": -1}', '{"numRecords": 2.5}', '{"numRecords": true}', '{"numRecords": "3"}', "null", "{"]
        )
        | st.sampled_from(['{"numRecords":2,\n"x":1}', '{"numRecords":1} {"numRecords":2}', '{"numRecords":1,"numRecords":2}']),
        max_size=5,
    )
)
def test_rows_read_at_once_are_those_read_one_by_one(texts: list[str | None]) -> None:
    found = read_rows(pa.array(texts, pa.large_string()))
    assert found in (None, [rows_of(text) for text in texts])


def test_rows_are_read_at_once() -> None:
    """Else the test above would show nothing."""
    texts = ['{"numRecords":2,"minValues":{"x":{"y":"z"}}}', None, '{"minValues":{}}', '{"numRecords":0,"tightBounds":false}']
    assert read_rows(pa.array(texts, pa.large_string())) == [2, None, None, 0]


@pytest.mark.parametrize("name", ["long", "double", "string", "timestamp"])
@given(data=st.data())
def test_small_pieces_say_what_all_at_once_say(name: str, data: st.DataObject) -> None:
    bodies = data.draw(st.lists(st.none() | _bodies(name), min_size=1, max_size=6))
    schema = StructType(fields=(StructField(name="x", type=PrimitiveType(name)),))
    lines = data.draw(st.sampled_from([None, 1]))
    texts = pa.array([None if body is None else json.dumps(body, indent=lines) for body in bodies], pa.large_string())
    skipped = data.draw(st.integers(0, len(texts) - 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stats_columns, "_PIECE_BYTES", data.draw(st.sampled_from([1, 100, 250])))
        cut = read_many(texts.slice(skipped), [("x",)], schema)[("x",)]
    whole = read_many(pa.array(texts.to_pylist()[skipped:], pa.large_string()), [("x",)], schema)[("x",)]
    assert cut == whole


def test_texts_of_several_lines_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the test above would show nothing of them."""
    schema = from_arrow(pa.schema([("x", pa.int64())]))
    texts = [
        json.dumps({"numRecords": at, "minValues": {"x": at}, "maxValues": {"x": 2**63 - at}}, indent=2) for at in range(1, 9)
    ]
    for size in (1, 200, 1 << 20):
        monkeypatch.setattr(stats_columns, "_PIECE_BYTES", size)
        found = read_bounds(texts, ("x",), schema)
        assert found is not None
        assert found.low.to_pylist() == list(range(1, 9))
        assert found.high.to_pylist() == [2**63 - at for at in range(1, 9)]


def test_a_text_of_two_values_is_not_taken_for_two_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats_columns, "_PIECE_BYTES", 1)
    assert read_rows(pa.array(['{"numRecords":1}{"numRecords":2}', '{"numRecords":3}'], pa.large_string())) is None


def test_no_texts_have_no_rows() -> None:
    assert read_rows(pa.array([], pa.large_string())) == []
