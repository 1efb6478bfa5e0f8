"""Pruning by statistics: it must drop what it can and nothing else."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from gapless.errors import InvalidFilter, UnknownColumn
from gapless.model.stats import ColumnStats, stats_value, supports_bounds
from gapless.predicate.plan import guarantee, prune_by_expression
from gapless.predicate.prune import may_match
from gapless.predicate.where import parse_where

SCHEMA = pa.schema(
    [
        ("x", pa.float64()),
        ("k", pa.int64()),
        ("j", pa.int64()),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("ts", pa.timestamp("us", "UTC")),
    ]
)


def keeps(where: str, stats: Mapping[str, ColumnStats], rows: int | None = 2) -> bool:
    """Whether a segment with these statistics is kept."""
    return may_match(parse_where(where, SCHEMA), stats.get, SCHEMA, rows=rows)


def keeps_each(where: str, *segments: Mapping[str, ColumnStats]) -> list[bool]:
    """For each segment of two rows, whether it is kept."""
    return [keeps(where, stats) for stats in segments]


def test_stat_01_a_bound_is_exact_to_the_last_nanosecond() -> None:
    last = 1_680_134_399_807_126_000
    stats = {"ts": ColumnStats(min=last, max=last, nulls=0)}
    assert keeps("ts = '2023-03-29T23:59:59.807126Z'", stats)
    assert keeps("ts >= '2023-03-29T23:59:59.807100Z'", stats)
    assert not keeps("ts > '2023-03-29T23:59:59.807126Z'", stats)
    assert not keeps("ts >= '2023-03-29T23:59:59.807126001Z'", stats)


def test_stat_02_nan_is_no_bound_and_spoils_none() -> None:
    def segment(low: float, high: float, nans: int | None, letter: str) -> dict[str, ColumnStats]:
        return {"x": ColumnStats(min=low, max=high, nulls=0, nans=nans), "s": ColumnStats(min=letter, max=letter, nulls=0)}

    files = [segment(0, 9, 0, "a"), segment(100, 109, 0, "b"), segment(200, 209, 0, "c"), segment(300, 300, 1, "d")]
    assert keeps_each("x > 250", *files) == [False, False, False, True]
    assert keeps_each("x > 301", *files) == [False, False, False, True]
    assert keeps_each("x < 5", *files) == [True, False, False, False]
    assert keeps_each("isnan(x)", *files) == [False, False, False, True]
    assert keeps_each("NOT isnan(x)", *files) == [True] * 4
    assert keeps_each("s LIKE 'a%'", *files) == [True, False, False, False]
    assert keeps("x > 1000", segment(0, 9, None, "a"))
    assert keeps("x > 1000", {"x": ColumnStats(min=math.nan, max=math.nan)})


def test_stat_04_a_zero_bound_is_both_zeros() -> None:
    files = [{"x": ColumnStats(min=-0.0, max=-0.0, nulls=0, nans=0)}, {"x": ColumnStats(min=0.0, max=1.0, nulls=0, nans=0)}]
    assert keeps_each("x = 0.0", *files) == [True, True]
    assert keeps_each("x = -0.0", *files) == [True, True]
    assert keeps_each("x < 0.0", *files) == [False, False]
    assert keeps_each("x >= 0.0", *files) == [True, True]


def test_stat_05_a_segment_of_nulls_is_kept_for_is_null_alone() -> None:
    nulls = {"k": ColumnStats(nulls=2)}
    partly = {"k": ColumnStats(min=1, max=2, nulls=2)}
    assert keeps_each("k = 2", nulls) == [False]
    assert keeps_each("k != 2", nulls) == [False]
    assert keeps_each("k IS NULL", nulls) == [True]
    assert keeps_each("k IS NOT NULL", nulls) == [False]
    assert keeps_each("NOT (k = 2)", nulls) == [False]
    assert keeps("k = 2", partly, rows=4)
    assert keeps("k IS NULL", partly, rows=4)
    assert not keeps("k = 3", partly, rows=4)
    assert keeps("k IS NOT DISTINCT FROM NULL", nulls)
    assert keeps("k IS DISTINCT FROM 5", nulls)


def test_stat_06_a_null_count_alone_says_nothing_of_bounds() -> None:
    assert keeps("k > 5", {"k": ColumnStats(nulls=0)})
    assert keeps("k > 5", {"k": ColumnStats(nulls=1)})
    assert keeps("k > 5", {"k": ColumnStats()})
    assert keeps("k > 5", {})
    assert keeps("k > 5", {"k": ColumnStats(nulls=2)}, rows=None)


def test_stat_07_is_null_keeps_segments_with_some_nulls() -> None:
    files = [
        {"k": ColumnStats(min=12, max=12, nulls=1)}, {"k": ColumnStats(nulls=2)}, {"k": ColumnStats(min=15, max=67, nulls=0)},
    ]  # fmt: skip
    assert keeps_each("k IS NULL", *files) == [True, True, False]
    assert keeps_each("NOT (k IS NULL)", *files) == [True, False, True]
    truths = [guarantee(stats, 2, SCHEMA) for stats in files]
    assert prune_by_expression(pc.field("k").is_null(), truths, SCHEMA) == [True, True, False]
    assert prune_by_expression(~pc.field("k").is_null(), truths, SCHEMA) == [True, False, True]


def test_stat_05_and_06_with_expressions() -> None:
    files = [{"k": ColumnStats(nulls=2)}, {"k": ColumnStats(nulls=0)}, {"k": ColumnStats(min=1, max=2, nulls=None)}, {}]
    truths = [guarantee(stats, 2, SCHEMA) for stats in files]
    assert prune_by_expression(pc.field("k") == 2, truths, SCHEMA) == [False, True, True, True]
    assert prune_by_expression(pc.field("k") > 5, truths, SCHEMA) == [False, True, False, True]
    assert prune_by_expression(pc.field("k").is_null(), truths, SCHEMA) == [True, False, True, True]


def test_stat_02_an_expression_prunes_no_floats_that_may_be_nan() -> None:
    truths = [guarantee({"x": ColumnStats(min=0.0, max=9.0, nulls=0, nans=nans)}, 2, SCHEMA) for nans in (0, 1, None)]
    assert prune_by_expression(~(pc.field("x") <= 9), truths, SCHEMA) == [False, True, True]
    assert prune_by_expression(pc.field("x").isin([50.0]), truths, SCHEMA) == [False, True, True]


def test_an_expression_that_does_not_fit_is_refused() -> None:
    with pytest.raises(InvalidFilter, match="zz"):
        prune_by_expression(pc.field("zz") > 1, [None], SCHEMA)
    assert prune_by_expression(pc.field("k") > 1, [], SCHEMA) == []


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("k > 0", [False, True]),
        ("k != 2450824", [False, False]),
        ("k IS NOT NULL", [False, True]),
        ("k IS NULL", [True, False]),
    ],
)
def test_path_07_a_segment_of_one_null_value(where: str, kept: list[bool]) -> None:
    null, value = {"k": ColumnStats(nulls=2)}, {"k": ColumnStats(min=2450824, max=2450824, nulls=0)}
    assert keeps_each(where, null, value) == kept


@pytest.mark.parametrize("where", ["ts = '2024-05-01T10:00:00Z'", "ts >= '2024-05-01T09:00:00Z'", "ts < '2024-05-02'"])
def test_path_14_an_instant_is_found_by_date_and_time(where: str) -> None:
    ten = stats_value(pa.scalar(1_714_557_600, pa.timestamp("s", "UTC")), pa.timestamp("s", "UTC"))
    assert keeps(where, {"ts": ColumnStats(min=ten, max=ten, nulls=0)})
    assert not keeps("ts >= '2024-05-02'", {"ts": ColumnStats(min=ten, max=ten, nulls=0)})


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("k = 5", True), ("k = 21", False), ("k < 1", False), ("NOT (k >= 1)", False), ("NOT (k < 1)", True), ("k IN (0, 21)", False),
        ("k IN (0, 7)", True), ("k NOT IN (3)", True), ("k NOT IN (3, NULL)", False), ("k BETWEEN 30 AND 40", False), ("k NOT BETWEEN 0 AND 30", False),
        ("k = 5 AND k = 50", False), ("k = 50 OR k = 5", True), ("k = 50 OR k = 60", False), ("k = NULL", False), ("k > 20.5", False),
        ("k = 5.5", False), ("j > k", False), ("j <= k", True), ("NOT (j <= k)", False), ("j = k", False), ("(k > 50) IS NULL", False),
        ("(k > 50) IS TRUE", False), ("(k > 50) IS FALSE", True), ("(k > 50) IS NOT TRUE", True), ("s LIKE 'b%'", True), ("s LIKE 'd%'", False),
        ("s LIKE 'a%'", False), ("s NOT LIKE 'd%'", True), ("s ILIKE 'd%'", True), ("starts_with(s, 'bb')", False), ("s LIKE 'dd'", False), ("b", False),
        ("NOT b", True), ("abs(k) > 100", True), ("FALSE", False), ("TRUE", True), ("k IS NULL", False), ("k IS DISTINCT FROM 5", True),
    ],
)  # fmt: skip
def test_what_bounds_can_tell(where: str, kept: bool) -> None:
    stats = {
        "k": ColumnStats(min=1, max=20, nulls=0), "j": ColumnStats(min=-5, max=0, nulls=0),
        "s": ColumnStats(min="ba", max="bar", nulls=0), "b": ColumnStats(min=False, max=False, nulls=0),
    }  # fmt: skip
    assert keeps(where, stats) is kept


def test_a_bound_of_another_type_says_nothing() -> None:
    assert keeps("k = 5", {"k": ColumnStats(min="7", max="9", nulls=0)})
    assert keeps("s = 'a'", {"s": ColumnStats(min=b"\xe2", max=None)})
    assert guarantee({"k": ColumnStats(min="7", max="9")}, 2, SCHEMA) is None


def test_no_rows_match_nothing_and_unknown_columns_are_named() -> None:
    assert not keeps("TRUE", {}, rows=0)
    with pytest.raises(UnknownColumn):
        may_match(parse_where("k = 1", SCHEMA), lambda _: None, pa.schema([("z", pa.int8())]))


@pytest.mark.parametrize(
    ("value", "type_", "bound"),
    [
        (pa.scalar(1, pa.timestamp("s")), pa.timestamp("s"), 1_000_000_000), (pa.scalar(-1, pa.timestamp("ns", "UTC")), pa.timestamp("ns", "UTC"), -1),
        (pa.scalar(2**62, pa.timestamp("s")), pa.timestamp("s"), 2**62 * 10**9), (3, pa.date32(), 3), (86_400_000, pa.date64(), 1),
        (5, pa.time32("ms"), 5_000_000), (5, pa.time64("ns"), 5), (5, pa.duration("us"), 5000), (Decimal("1.10"), pa.decimal128(5, 2), Decimal("1.10")),
        (0.5, pa.float16(), 0.5), (0.1, pa.float32(), 0.10000000149011612), (True, pa.bool_(), True), ("é", pa.large_string(), "é"), (b"a", pa.binary(1), b"a"),
    ],
)  # fmt: skip
def test_stats_values_are_exact(value: object, type_: pa.DataType, bound: object) -> None:
    found = stats_value(value, type_)
    assert found == bound
    assert type(found) is type(bound)


def test_which_types_have_bounds() -> None:
    assert supports_bounds(pa.string_view())
    assert not any(
        map(supports_bounds, (pa.null(), pa.list_(pa.int8()), pa.struct([]), pa.dictionary(pa.int8(), pa.string()), pa.uuid()))
    )
    with pytest.raises(ValueError, match="null"):
        stats_value(None, pa.int8())
