"""Spark's SQL, answered as Spark answers it or not at all."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from gapless.errors import InvalidQuery, InvalidValue, SchemaMismatch
from gapless.tables.delta.expressions.evaluate import evaluate
from support.spark_rows import ANSWERS, ROWS, arrow_type, told


def ours(expression: str, type_: pa.DataType) -> list[Any]:
    made = evaluate(ROWS, {"out": expression}, pa.schema([("out", type_)]), dialect="spark")
    return [told(one) for one in made.column("out").to_pylist()]


@pytest.mark.parametrize("expression", sorted(ANSWERS))
def test_what_is_answered_is_sparks_answer(expression: str) -> None:
    name, expected = ANSWERS[expression]
    try:
        found = ours(expression, arrow_type(name))
    except (InvalidQuery, SchemaMismatch):
        return  # how many may be is counted below
    plain = [{} if one == [] and name.startswith("map") else one for one in found]
    assert plain == expected


def test_most_is_answered() -> None:
    answered = 0
    for expression, (name, _) in ANSWERS.items():
        try:
            ours(expression, arrow_type(name))
        except (InvalidQuery, SchemaMismatch):
            continue
        answered += 1
    assert answered >= 205


@pytest.mark.parametrize(
    "expression",
    [
        "CAST(f AS STRING)", "CAST(ts AS STRING)", "concat(s, f)", "CAST(s AS INT)", "CAST(s AS DATE)", "CAST(f AS DECIMAL(10,1))",
        "hash(v)", "xxhash64(v)", "initcap(s)", "trunc(day, 'DAY')", "s = v", "s > 5", "v IN ('1', '2')", "day = '2024-5-1'",
        "coalesce(s, v)", "round(f, 1)", "l[0]", "substring(s, 0, 2)", "substring(s, i, 2)", "s LIKE 'a\\\\_b'", "s LIKE s", "d / 3",
        "date_format(ts, 'EEEE')", "date_format(ts, 'M')", "date_trunc('CENTURY', ts)", "regexp_extract(s, 'a', 0)", "split(s, ',')[0]",
        "my_udf(v)", "ts + INTERVAL 1 MONTH", "CAST(ts AS BIGINT)", "CAST('2024-05-01T10:00:00+02:00' AS TIMESTAMP)", "transform(l, x -> x)",
    ],
)  # fmt: skip
def test_what_may_mean_something_else_there_is_refused(expression: str) -> None:
    with pytest.raises(InvalidQuery, match=r"may not mean the same here|DuckDB cannot compute"):
        ours(expression, pa.string())


def test_a_refusal_names_columns_as_the_table_does() -> None:
    with pytest.raises(InvalidQuery, match=r"CAST\(f AS STRING\) may not mean the same"):
        ours("concat('x', CAST(f AS STRING))", pa.string())


def test_casts_to_whole_numbers_cut_as_spark_does() -> None:
    table = pa.table({"x": [0.5, 1.5, 2.5, -0.5, -1.5, 9.99, 1e15 + 0.5]})
    made = evaluate(table, {"n": "CAST(x AS BIGINT)"}, pa.schema([("n", pa.int64())]), dialect="spark")
    assert made.column("n").to_pylist() == [0, 1, 2, 0, -1, 9, 10**15]


@pytest.mark.parametrize("expression", ["v / w", "v % w", "v div w", "f % w", "f / w"])
def test_what_is_divided_by_zero_is_null(expression: str) -> None:
    rows = pa.table({"v": [7, 7], "f": [7.5, 7.5], "w": [0, 4]})
    (zero, other) = (
        evaluate(rows, {"out": expression}, pa.schema([("out", pa.float64())]), dialect="spark").column("out").to_pylist()
    )
    assert zero is None
    within = evaluate(rows, {"out": f"CAST({expression} AS INT)"}, pa.schema([("out", pa.int32())]), dialect="spark")
    assert within.column("out").to_pylist() == [None, int(other)]
    assert other in (1.75, 3, 1, 3.5, 1.875)


@pytest.mark.parametrize("expression", ["CAST(v AS TINYINT)", "CAST(f AS INT)", "CAST(f AS FLOAT)"])
def test_a_number_that_its_cast_does_not_hold_is_no_null(expression: str) -> None:
    rows = pa.table({"v": [1, 300], "f": [1.5, 1e300]})
    with pytest.raises(InvalidValue, match="row 1"):
        evaluate(rows, {"out": expression}, pa.schema([("out", pa.float64())]), dialect="spark")


@pytest.mark.parametrize(
    ("expression", "text", "expected"),
    [
        ("upper(s)", "straße é ÿ ж λ 日本 💡", "STRASSE É Ÿ Ж Λ 日本 💡"), ("lower(s)", "ÀÉ ŒЖ Λ 日本 💡", "àé œж λ 日本 💡"),
        ("trim(s)", " \u00a0x\t ", "\u00a0x\t"), ("upper(trim(s))", " ab ", "AB"), ("concat(upper(s), lower(s))", "aB", "ABab"),
    ],
)  # fmt: skip
def test_letters_turn_into_those_that_spark_gives(expression: str, text: str, expected: str) -> None:
    made = evaluate(pa.table({"s": [text, None]}), {"out": expression}, pa.schema([("out", pa.string())]), dialect="spark")
    assert made.column("out").to_pylist() == [expected, None]


@pytest.mark.parametrize(
    ("expression", "text"), [("upper(s)", "ﬁn"), ("upper(s)", "ŉ"), ("upper(s)", "𐐨"), ("lower(s)", "ΣΑΣ"), ("lower(s)", "İ")]
)
def test_a_letter_that_spark_may_turn_into_another_is_refused_by_its_row(expression: str, text: str) -> None:
    rows = pa.table({"s": ["plain", text]})
    with pytest.raises(InvalidValue, match=r"row 1.*letters that Spark may turn into others"):
        evaluate(rows, {"out": expression}, pa.schema([("out", pa.string())]), dialect="spark")
