"""SQL expressions over rows: what they give, in which types, and which are refused."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.errors import InvalidQuery, InvalidValue, SchemaMismatch, UnknownColumn
from gapless.tables.delta.expressions.evaluate import evaluate
from gapless.tables.delta.expressions.sql import columns_read

TABLE = pa.table({
    "v": pa.array([1, 2, None], pa.int64()),
    "small": pa.array([1, 127, None], pa.int8()),
    "f": pa.array([math.nan, -0.0, 1.5], pa.float64()),
    "s": pa.array(["a", "B", None]),
    "st": pa.array([{"x": 1, "In Ner": {"y": "z"}}, None, {"x": None, "In Ner": None}]),
    "l": pa.array([[1, 2], [], None], pa.list_(pa.int64())),
    "m": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int64())),
    "d": pa.array([Decimal("1.10"), Decimal("-2.00"), None], pa.decimal128(10, 2)),
    "ts": pa.array([datetime(2026, 1, 1, 23, 30, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC), None], pa.timestamp("us", "UTC")),
    "wall": pa.array([datetime(2026, 1, 1), datetime(1, 1, 1), None], pa.timestamp("us")),  # wall times
    "day": pa.array([date(2026, 1, 1), date(9999, 12, 31), None]),
    "t.id": pa.array([5, 6, 7]),
    'odd "name"': pa.array([1, 2, 3]),
})  # fmt: skip


def value(expression: str, type_: pa.DataType, dialect: Any = "duckdb") -> list[Any]:
    """One computed column."""
    return list(evaluate(TABLE, {"out": expression}, pa.schema([("out", type_)]), dialect=dialect).column("out").to_pylist())


@pytest.mark.parametrize(
    ("expression", "type_", "expected"),
    [
        ("v + 1", pa.int64(), [2, 3, None]),
        ("V + 1", pa.int32(), [2, 3, None]),
        ('"v" * 2', pa.int8(), [2, 4, None]),
        ("v / 2", pa.float64(), [0.5, 1.0, None]),
        ("floor(v / 2)", pa.int64(), [0, 1, None]),
        ("v // 2", pa.int64(), [0, 1, None]),
        ("s || '!'", pa.string(), ["a!", "B!", None]),
        ("upper(s)", pa.string(), ["A", "B", None]),
        ("coalesce(s, 'none')", pa.string(), ["a", "B", "none"]),
        ("CASE WHEN v = 1 THEN 'one' END", pa.string(), ["one", None, None]),
        ("NULL", pa.string(), [None, None, None]),
        ("NULL", pa.struct([("x", pa.int8())]), [None, None, None]),
        ("st.x", pa.int64(), [1, None, None]),
        ('st."in ner".y', pa.string(), ["z", None, None]),
        ("l[1]", pa.int64(), [1, None, None]),
        ("m['k']", pa.int64(), [1, None, None]),
        ("list_transform(l, lambda x: x + 1)", pa.list_(pa.int64()), [[2, 3], [], None]),
        ("{'x': v}", pa.struct([("x", pa.int32())]), [{"x": 1}, {"x": 2}, {"x": None}]),
        ("d * 2", pa.decimal128(12, 2), [Decimal("2.20"), Decimal("-4.00"), None]),
        ("d", pa.float64(), [1.1, -2.0, None]),
        ("v", pa.decimal128(5, 1), [Decimal("1.0"), Decimal("2.0"), None]),
        (
            "ts + INTERVAL 1 HOUR",
            pa.timestamp("us", "UTC"),
            [datetime(2026, 1, 2, 0, 30, tzinfo=UTC), datetime(1, 1, 1, 1, tzinfo=UTC), None],
        ),
        ("CAST(ts AS DATE)", pa.date32(), [date(2026, 1, 1), date(1, 1, 1), None]),
        ("hour(ts)", pa.int64(), [23, 0, None]),
        ("day", pa.timestamp("us"), [datetime(2026, 1, 1), datetime(9999, 12, 31), None]),  # wall times
        ('"t.id"', pa.int64(), [5, 6, 7]),
        ('"odd ""name"""', pa.int64(), [1, 2, 3]),
        ("7", pa.int64(), [7, 7, 7]),
        ("f = 'nan'", pa.bool_(), [True, False, False]),
    ],
)
def test_what_an_expression_gives(expression: str, type_: pa.DataType, expected: list[Any]) -> None:
    assert value(expression, type_) == expected


def test_floats_come_bit_for_bit() -> None:
    same = value("f", pa.float64())
    assert math.isnan(same[0])
    assert math.copysign(1, same[1]) == -1
    halves = value("f / 3", pa.float32())
    assert halves[2] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("expression", "type_", "row"),
    [
        ("v * 1.5", pa.int64(), 0),
        ("v + 126", pa.int8(), 1),
        ("small + 1", pa.int8(), 1),
        ("CAST(s AS INTEGER)", pa.int32(), 0),
        ("CAST(d * 50 AS TINYINT) + 73::TINYINT", pa.int8(), 0),
        ("d + 0.01", pa.decimal128(3, 1), 0),
        ("v * 1e300", pa.float32(), 0),
        ("v * 9007199254740993", pa.float64(), 0),
        ("d / 3", pa.int64(), 0),
    ],
)
def test_a_value_that_the_type_does_not_hold_is_refused(expression: str, type_: pa.DataType, row: int | None) -> None:
    with pytest.raises((InvalidValue, InvalidQuery, SchemaMismatch)) as caught:
        value(expression, type_)
    if row is not None:
        assert isinstance(caught.value, InvalidValue)
        assert caught.value.row == row


@pytest.mark.parametrize(
    ("expression", "type_"),
    [("s", pa.int64()), ("v", pa.string()), ("wall", pa.timestamp("us", "UTC")), ("ts", pa.timestamp("us"))],
)
def test_types_that_do_not_fit_are_refused(expression: str, type_: pa.DataType) -> None:
    with pytest.raises(SchemaMismatch, match="cast"):
        value(expression, type_)


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("sum(v)", "aggregate"), ("count(*)", "holds"), ("list(v)", "aggregate"), ("max(v) + 1", "aggregate"),
        ("row_number() OVER ()", "window"), ("(SELECT 1)", "query"), ("v IN (SELECT 1)", "query"), ("random()", "same each time"),
        ("uuid()", "same each time"), ("now()", "same each time"), ("current_timestamp", "time of now"), ("current_date", "time of now"),
        ("unnest(list_value(v))", "several rows"), ("generate_subscripts([v, v], 1)", "several rows"), ("regexp_split_to_table(s, 'a')", "several rows"),
        ("?", "parameter"), ("$1", "parameter"), ("v +", "no SQL expression"), ("", "no SQL expression"), ("v; DROP TABLE x", "no SQL expression"),
        ("v AS w", "no SQL expression"), ("v, s", "no SQL expression"), ("nope(v)", "nope"), ("nextval('x')", "same each time"),
    ],
)  # fmt: skip
def test_what_a_row_alone_does_not_settle_is_refused(expression: str, says: str) -> None:
    with pytest.raises(InvalidQuery, match=says):
        value(expression, pa.int64())


@pytest.mark.parametrize("expression", ["nope", "st.nope", "v.x", '"Nope"', "st.x.y"])
def test_unknown_names_are_refused(expression: str) -> None:
    with pytest.raises(UnknownColumn):
        value(expression, pa.int64())


def test_a_name_that_could_be_two_columns_is_refused() -> None:
    table = pa.table({"a": [1], "A": [2]})
    with pytest.raises(UnknownColumn, match="could be"):
        evaluate(pa.table({"aB": [1], "Ab": [2]}), {"o": "AB"}, pa.schema([("o", pa.int64())]))
    assert evaluate(table, {"o": "A"}, pa.schema([("o", pa.int64())])).column("o").to_pylist() == [2]


def test_now_is_allowed_where_it_may_be_and_one_for_all_rows() -> None:
    schema = pa.schema([("o", pa.timestamp("us", "UTC"))])
    found = evaluate(TABLE, {"o": "current_timestamp()"}, schema, dialect="spark", deterministic=False).column("o").to_pylist()
    assert len(set(found)) == 1
    assert abs((found[0] - datetime.now(UTC)).total_seconds()) < 60


def test_the_columns_that_an_expression_reads() -> None:
    assert columns_read('st.x + "T.ID" + V', TABLE.schema) == ("v", "st", "t.id")
    assert columns_read("1", TABLE.schema) == ()


def test_an_error_counts_rows_from_where_the_caller_does() -> None:
    with pytest.raises(InvalidValue, match="row 11"):
        evaluate(TABLE, {"o": "v + 126"}, pa.schema([("o", pa.int8())]), first_row=10)


def test_a_row_that_cannot_be_computed_is_named_with_what_it_has() -> None:
    table = pa.table({"v": pa.chunked_array([[1] * 70, [2**62, 5], [2**62]], pa.int64())})
    with pytest.raises(InvalidValue, match=r"row 80.*v=4611686018427387904") as caught:
        evaluate(table, {"o": "v * 4"}, pa.schema([("o", pa.int64())]), first_row=10)
    assert (caught.value.column, caught.value.row, caught.value.value) == ("v", 80, 2**62)
    with pytest.raises(InvalidQuery, match="cannot compute"):
        evaluate(table, {"o": "CAST('x' AS INTEGER)"}, pa.schema([("o", pa.int64())]))


def test_no_rows_give_no_rows() -> None:
    assert evaluate(TABLE.slice(0, 0), {"o": "v + 1"}, pa.schema([("o", pa.int64())])).num_rows == 0


@given(st.lists(st.one_of(st.none(), st.integers(-(2**62), 2**62)), max_size=300))
def test_rows_come_in_their_order(values: list[int | None]) -> None:
    table = pa.table({"v": pa.chunked_array([pa.array(values[:100], pa.int64()), pa.array(values[100:], pa.int64())])})
    found = evaluate(table, {"o": "v - 1"}, pa.schema([("o", pa.int64())])).column("o").to_pylist()
    assert found == [None if one is None else one - 1 for one in values]
