"""Filter text: what it keeps, what it refuses, and how it says so."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from gapless.errors import InvalidFilter, InvalidTime, UnknownColumn
from gapless.predicate.expression import kept_rows, to_expression
from gapless.predicate.predicate import columns_of
from gapless.predicate.where import parse_where


def kept(where: str, column: pa.Array, name: str = "x") -> list[object]:
    """Values of one column that a filter on it keeps."""
    table = pa.table({name: column})
    predicate = parse_where(where, table.schema)
    found: list[object] = table.filter(to_expression(predicate, table.schema))[name].to_pylist()
    assert repr(kept_rows(predicate, table)[name].to_pylist()) == repr(found)  # NaN is not itself
    return found


NAN = math.nan


def test_stat_02_nan_is_the_largest_value_and_equal_to_itself() -> None:
    floats = pa.array([5.0, 300.0, NAN, None, math.inf])
    assert [str(v) for v in kept("x > 250", floats)] == ["300.0", "nan", "inf"]
    assert kept("x < 301", floats) == [5.0, 300.0]
    assert [str(v) for v in kept("NOT (x < 301)", floats)] == ["nan", "inf"]
    assert [str(v) for v in kept("isnan(x)", floats)] == ["nan"]
    assert [str(v) for v in kept("x = 'NaN'::DOUBLE", floats)] == ["nan"]
    assert [str(v) for v in kept("x IN (5, 'NaN'::DOUBLE)", floats)] == ["5.0", "nan"]
    assert [str(v) for v in kept("x NOT BETWEEN 0 AND 1000", floats)] == ["nan", "inf"]


def test_stat_04_signed_zeros_are_one_value() -> None:
    zeros = pa.array([-0.0, 0.0, 1.0])
    assert len(kept("x = 0.0", zeros)) == 2
    assert len(kept("x IN (-0.0)", zeros)) == 2
    assert len(kept("x >= 0.0", zeros)) == 3
    assert kept("x < 0.0", zeros) == []
    assert kept("x < -0.0", zeros) == []


@pytest.mark.parametrize(
    ("where", "rows"), [("k > 0", 1), ("k != 2450824", 0), ("k IS NOT NULL", 1), ("k IS NULL", 1), ("NOT (k = 2450824)", 0)]
)
def test_path_07_nulls_pass_no_comparison(where: str, rows: int) -> None:
    assert len(kept(where, pa.array([None, 2450824], pa.int64()), "k")) == rows


def test_path_08_text_is_never_read_as_a_number() -> None:
    assert kept("id = '007'", pa.array(["007", "7"]), "id") == ["007"]
    assert kept("day < 9", pa.array([6, 10]), "day") == [6]
    with pytest.raises(InvalidFilter, match=r"'id' \(string\) is of kind text, and 7 is of kind number"):
        kept("id = 7", pa.array(["007"]), "id")
    with pytest.raises(InvalidFilter, match=r"'x' \(int64\) is of kind number, and '25' is of kind text"):
        kept("x = '25'", pa.array([25]))


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ("x = '2024-05-01T10:00:00Z'", 1), ("x >= '2024-05-01T09:00:00Z'", 1), ("x < '2024-05-02'", 1),
        ("x >= DATE '2024-05-01'", 1), ("x = TIMESTAMPTZ '2024-05-01 12:00:00+02:00'", 1), ("x < DATE '2024-05-01'", 0),
    ],
)  # fmt: skip
def test_path_14_dates_and_instants_compare(where: str, rows: int) -> None:
    assert len(kept(where, pa.array([datetime(2024, 5, 1, 10, tzinfo=UTC)], pa.timestamp("us", "UTC")))) == rows


def test_path_14_a_date_column_against_a_time_of_day() -> None:
    days = pa.array([date(2024, 5, 1), date(2024, 5, 2)])
    assert kept("x < '2024-05-01T10:00'", days) == [date(2024, 5, 1)]
    assert kept("x = TIMESTAMP '2024-05-01 10:00:00'", days) == []
    assert kept("x >= TIMESTAMP '2024-05-01 00:00:00'", days) == days.to_pylist()


def test_stat_12_local_mean_time_is_exact() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    ts = pa.array([datetime(1850, 1, 1, 1, 1, 1, tzinfo=berlin)], pa.timestamp("us", "Europe/Berlin"))
    assert len(kept("x = '1850-01-01T01:01:01+00:53:28'", ts)) == 1
    assert len(kept("x = '1850-01-01T00:07:33Z'", ts)) == 1
    assert len(kept("x BETWEEN '1850-01-01T01:01:00+00:53:28' AND '1850-01-01T01:01:02+00:53:28'", ts)) == 1
    assert kept("x BETWEEN '1850-01-01T01:01:02+00:53:28' AND '1850-01-01T01:01:03+00:53:28'", ts) == []


def test_stat_01_fractions_finer_than_the_column_are_not_cut() -> None:
    ts = pa.array([datetime(2023, 3, 29, 23, 59, 59, 807126)], pa.timestamp("us"))
    assert len(kept("x = '2023-03-29T23:59:59.807126'", ts)) == 1
    assert len(kept("x >= '2023-03-29T23:59:59.807100'", ts)) == 1
    assert kept("x >= '2023-03-29T23:59:59.807126001'", ts) == []
    assert len(kept("x < '2023-03-29T23:59:59.807126001'", ts)) == 1


NAMES = ["TEST:A1.RAW-1", "$data", "my/col", "#event", "a b", "päivä", "x`y", 'a"b', "1st", "select", "a'b", "a\\b"]


@pytest.mark.parametrize("name", NAMES)
def test_type_19_any_name_can_be_filtered_by(name: str) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    assert kept(f"{quoted} > 1", pa.array([1, 2, 3]), name) == [2, 3]


def test_type_19_the_empty_name_is_refused() -> None:
    with pytest.raises(UnknownColumn):
        kept('"" = 1', pa.array([1]))


@pytest.mark.parametrize(
    ("where", "type_", "values", "expected"),
    [
        ("x > 2.5", pa.int64(), [2, 3], [3]),
        ("x = 2.5", pa.int64(), [2, 3, None], []),
        ("x != 2.5", pa.int64(), [2, 3, None], [2, 3]),
        ("x < 1000", pa.int8(), [-128, 127, None], [-128, 127]),
        ("x = 1000", pa.int8(), [-24], []),
        ("x > -1", pa.uint64(), [0, 2**64 - 1], [0, 2**64 - 1]),
        ("x IN (-1, 5)", pa.uint64(), [2**64 - 1, 5], [5]),
        ("x = 9007199254740993", pa.float64(), [2.0**53, 2.0**53 + 2], []),
        ("x > 9007199254740993", pa.float64(), [2.0**53, 2.0**53 + 2], [2.0**53 + 2]),
        ("x = 9007199254740993", pa.int64(), [2**53, 2**53 + 1], [2**53 + 1]),
        ("x = 9007199254740992::DOUBLE", pa.int64(), [2**53, 2**53 + 1], [2**53]),
        ("x = 0.1", pa.float32(), [0.1], [pytest.approx(0.1)]),
        ("x >= 16777217", pa.float32(), [2.0**24], []),
        ("x = 1.101", pa.decimal128(5, 2), [Decimal("1.10")], []),
        ("x < 1.101", pa.decimal128(5, 2), [Decimal("1.10")], [Decimal("1.10")]),
        ("x < 100000000000", pa.decimal128(5, 2), [Decimal("1.10")], [Decimal("1.10")]),
        ("x = 12345678901234567890123456789012345678", pa.decimal128(38, 0), [12345678901234567890123456789012345678], [Decimal(12345678901234567890123456789012345678)]),
        ("x > 1.0", pa.float16(), [1.5, 0.5], [1.5]),
        ("x = 'a'", pa.dictionary(pa.int8(), pa.string()), ["a", "b"], ["a"]),
        ("x > '09:30'", pa.time64("us"), [1, 34_200_000_001], None),
        ("x = 'ab'::BLOB", pa.binary(), [b"ab", b"b"], [b"ab"]),
        ("x = '2024-05-01'", pa.date64(), [date(2024, 5, 1), date(2024, 5, 2)], [date(2024, 5, 1)]),
        ("abs(x) = 128", pa.int8(), [-128, 127], [-128]),
        ("abs(x) > 9223372036854775807", pa.int64(), [-(2**63), 5], [-(2**63)]),
        ("x = 1", pa.null(), [None], []),
    ],
)  # fmt: skip
def test_literals_are_compared_exactly(
    where: str, type_: pa.DataType, values: list[object], expected: list[object] | None
) -> None:
    found = kept(where, pa.array(values).cast(type_) if pa.types.is_time(type_) else pa.array(values, type_))
    assert len(found) == 1 if expected is None else found == expected


def test_columns_of_different_types_compare_without_overflow() -> None:
    table = pa.table(
        {
            "u": pa.array([2**64 - 1, 0], pa.uint64()), "i": [-1, 5], "dec": pa.array([Decimal("-0.50"), Decimal("5.00")]),
            "s": pa.array([2**40, 0], pa.timestamp("s")), "ns": pa.array([2**62, 0], pa.timestamp("ns")),
        }
    )  # fmt: skip
    expected = {"u > i": [2**64 - 1], "dec = i": [0], "dec > i": [2**64 - 1], "s > ns": [2**64 - 1], "s = ns": [0]}
    for where, rows in expected.items():
        assert table.filter(to_expression(parse_where(where, table.schema), table.schema))["u"].to_pylist() == rows


def test_an_aware_column_needs_an_offset_and_a_naive_one_none() -> None:
    aware, naive = pa.array([0], pa.timestamp("us", "UTC")), pa.array([0], pa.timestamp("us"))
    with pytest.raises(InvalidTime, match=r"Add the offset, as in '2024-05-01T09:30:00Z'"):
        kept("x > '2024-05-01 10:00'", aware)
    with pytest.raises(InvalidTime, match="Leave the offset out"):
        kept("x > '2024-05-01 10:00Z'", naive)
    with pytest.raises(InvalidTime, match="no offset"):
        kept("x > TIMESTAMP '2024-05-01 10:00:00'", pa.array([0], pa.timestamp("us", "Europe/Paris")))
    with pytest.raises(InvalidTime, match="Leave the offset out"):
        kept("x > TIMESTAMP '2024-05-01 10:00:00Z'", naive)
    with pytest.raises(InvalidTime, match="no such day"):
        kept("x > '2024-13-01'", naive)


@pytest.mark.parametrize("zone", ["UTC", "Etc/UTC", "+00:00"])
@pytest.mark.parametrize(
    "literal",
    [
        "TIMESTAMP '2024-05-01 10:00:00'", "TIMESTAMP '2024-05-01T10:00:00Z'", "TIMESTAMP '2024-05-01 12:00:00+02:00'",
        "TIMESTAMPTZ '2024-05-01 10:00:00+00'", "CAST('2024-05-01 10:00:00' AS TIMESTAMP)", "'2024-05-01 10:00Z'",
        "DATE '2024-05-01' + INTERVAL 10 HOURS", "TIMESTAMP '2024-05-02 10:00:00' - INTERVAL '1 day'",
        "(TIMESTAMP '2024-05-08 10:00:01' - INTERVAL '1' WEEK) - INTERVAL '1 second'",
    ],
)  # fmt: skip
def test_a_typed_literal_beside_a_column_in_utc_is_meant_in_utc(zone: str, literal: str) -> None:
    ten = datetime(2024, 5, 1, 10, tzinfo=UTC)
    values = [ten - timedelta(seconds=1), ten, ten + timedelta(seconds=1), None]
    aware = pa.array(values, pa.timestamp("us", zone))
    assert kept(f"x = {literal}", aware) == [ten]
    assert kept(f"x >= {literal}", aware) == values[1:3]
    assert kept(f"{literal} > x", aware) == values[:1]
    assert kept(f"x IN ({literal})", aware) == [ten]
    assert kept(f"x BETWEEN {literal} AND {literal}", aware) == [ten]
    assert kept(f"x IS DISTINCT FROM {literal}", aware) == [values[0], values[2], None]


@pytest.mark.parametrize(
    "literal", ["TIMESTAMP '2024-05-01' + INTERVAL 1 MONTH", "DATE '2024-05-01' + INTERVAL '1.5 days'", "x + INTERVAL 1 DAY"]
)
def test_what_is_no_fixed_time_is_not_guessed(literal: str) -> None:
    with pytest.raises(InvalidFilter):
        kept(f"x > {literal}", pa.array([0], pa.timestamp("us", "UTC")))


@pytest.mark.parametrize(
    ("zone", "day", "midnight_utc"),
    [
        ("America/New_York", "2024-05-01", datetime(2024, 5, 1, 4, tzinfo=UTC)),
        ("America/Sao_Paulo", "2018-11-04", datetime(2018, 11, 4, 3, tzinfo=UTC)),
        ("Asia/Beirut", "2024-03-31", datetime(2024, 3, 30, 22, tzinfo=UTC)),
        ("+02:00", "2024-05-01", datetime(2024, 4, 30, 22, tzinfo=UTC)),
    ],
)
def test_a_date_is_midnight_on_the_clocks_of_the_columns_zone(zone: str, day: str, midnight_utc: datetime) -> None:
    ts = pa.array([midnight_utc], pa.timestamp("us", zone))
    assert len(kept(f"x = '{day}'", ts)) == 1
    assert kept(f"x < DATE '{day}'", ts) == []


def test_names_match_exactly_and_else_without_case_where_unique() -> None:
    schema = pa.schema([("Price", pa.int64()), ("a", pa.int64()), ("A", pa.int64()), ("aB", pa.int64()), ("Ab", pa.int64())])
    assert columns_of(parse_where("PRICE > 1 AND a = A", schema)) == {"Price", "a", "A"}
    with pytest.raises(InvalidFilter, match="could be 'aB' or 'Ab'"):
        parse_where("AB = 1", schema)
    with pytest.raises(UnknownColumn, match="Did you mean 'Price'") as caught:
        parse_where("pirce = 1", schema)
    assert caught.value.column == "pirce"


def test_struct_fields_can_be_filtered_by() -> None:
    table = pa.table({"s": pa.array([{"x": 1}, {"x": None}, None]), "s.x": [7, 8, 9]})
    schema = table.schema
    assert table.filter(to_expression(parse_where("s.x = 1", schema), schema)).num_rows == 1
    assert kept_rows(parse_where("s.x = 1", schema), table).num_rows == 1
    assert kept_rows(parse_where("s.x IS NULL", schema), table).num_rows == 2
    assert table.filter(to_expression(parse_where("s.x IS NULL", schema), schema)).num_rows == 2
    assert table.filter(to_expression(parse_where('"s.x" = 8', schema), schema))["s.x"].to_pylist() == [8]


@pytest.mark.parametrize(
    ("where", "named"),
    [
        ("x + 1 > 2", r"know \+"), ("x = (SELECT 1)", "a subquery"), ("x IN (SELECT 1)", "list of literals"),
        ("now() > 1", "NOW"), ("CASE WHEN b THEN b END", "CASE"), ("x = ?", "placeholder"), ("1 < x < 5", r"1 < x"),
        ("x", "neither true nor false"), ("5", "neither true nor false"), ("CAST(s AS INT) = 1", "casts literals only"),
        ("x = 1; DROP TABLE t", "no SQL condition"), ("x = 1 GROUP BY x", "no SQL condition"), ("", "no SQL condition"),
        ("x >", "no SQL condition"), ("s = 'a", "no SQL condition"), ("x IS b", "IS goes with"), ("x = 300::TINYINT", "300 is no TINYINT"),
        ("l = 1", "has no order"), ("s LIKE 'a$' ESCAPE '$'", "ends in its escape"), ("x LIKE 'a%'", "takes a text column"),
        ("b = 1", "of kind bool"), ("1 = 'a'", "of kind text"), ("x = s", "do not compare"), ("coalesce(x, 2.5) = 1", "cannot hold"),
        ("x BETWEEN SYMMETRIC 5 AND 1", "BETWEEN"),
    ],
)  # fmt: skip
def test_what_a_scan_cannot_answer_is_named(where: str, named: str) -> None:
    schema = pa.schema([("x", pa.int64()), ("s", pa.string()), ("b", pa.bool_()), ("l", pa.list_(pa.int64()))])
    with pytest.raises(InvalidFilter, match=named) as caught:
        parse_where(where, schema)
    assert caught.value.where == where


def test_two_literals_are_answered_at_once() -> None:
    x = pa.array([1, 2])
    assert kept("1 = 1.0 AND x = 1", x) == [1]
    assert kept("1 > 2 OR NULL", x) == []
    assert kept("NULL IS NOT DISTINCT FROM NULL", x) == [1, 2]


def test_long_chains_and_lists_are_no_deep_trees() -> None:
    x = pa.array(range(10))
    assert kept(" OR ".join(f"x = {n}" for n in range(3000, 0, -1)), x) == list(range(1, 10))
    assert kept(f"x IN ({', '.join(map(str, range(5, 5000)))})", x) == [5, 6, 7, 8, 9]


def test_the_expression_is_null_where_sql_is_null() -> None:
    table = pa.table({"x": pa.array([1, None, 2])})
    for where, expected in {
        "x > 1": [False, None, True],
        "x IN (1, NULL)": [True, None, None],
        "x != 1.5": [True, None, True],
    }.items():
        column = table.to_batches()[0]
        expression = to_expression(parse_where(where, table.schema), table.schema)
        shown = pa.table({"x": column["x"]}).filter(expression.is_null()).num_rows
        assert shown == expected.count(None)
        assert pa.table({"x": column["x"]}).filter(pc.invert(expression)).num_rows == expected.count(False)
