"""Values of several types in one column, at any depth: none is made another by what Arrow would take them for."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import InvalidValue, UnreadableInput
from gapless.tables.delta.table import DeltaTable
from gapless.tables.timeseries.table import TimeSeriesTable

Table = TimeSeriesTable | DeltaTable
Make = Callable[[pa.DataType | None], Table]
T0 = datetime(2026, 1, 5)
NOON = datetime(2026, 1, 5, 12)
IN_KARACHI = datetime(2026, 1, 5, 12, tzinfo=timezone(timedelta(hours=5)))
FINE = pd.Timestamp("2026-01-05T00:00:00.000000001")
MIXED: list[tuple[Any, Any, str]] = [
    (date(2026, 1, 5), NOON, "mixes dates and datetimes"),
    (NOON, date(2026, 1, 5), "mixes dates and datetimes"),
    (NOON, IN_KARACHI, "mixes naive and aware datetimes"),
    (IN_KARACHI, NOON, "mixes naive and aware datetimes"),
    ("a", b"b", "mixes text and bytes"),
    (b"a", "b", "mixes text and bytes"),
    ("a", bytearray(b"b"), "mixes text and bytes"),
    (1.5, True, "mixes booleans and numbers"),
    (True, 1.5, "mixes booleans and numbers"),
    (np.True_, 1, "mixes booleans and numbers"),
    (2, True, "mixes booleans and numbers"),
    (time(1), time(1, tzinfo=UTC), "holds times of day that have a zone"),
]
WRAPS: list[Callable[[object], object]] = [
    lambda value: value,
    lambda value: [value],
    lambda value: (value, value),
    lambda value: {"x": value},
    lambda value: [{"x": [value]}],
    lambda value: np.fromiter([value], object, 1),
]


def series(type_: pa.DataType | None) -> TimeSeriesTable:
    schema = None if type_ is None else pa.schema([("ts", pa.timestamp("us")), ("a", type_)])
    return gl.create(f"memory://{uuid4()}", index="ts", bucket="1h", schema=schema)


def delta(type_: pa.DataType | None) -> DeltaTable:
    return gl.delta.create(
        f"memory://{uuid4()}", None if type_ is None else pa.schema([("ts", pa.timestamp("us")), ("a", type_)])
    )


@pytest.fixture(params=[series, delta], ids=["series", "delta"])
def make(request: pytest.FixtureRequest) -> Make:
    """Makes a table, whose column `a` has a type or none yet."""
    made: Make = request.param
    return made


def rows(*values: object) -> list[dict[str, object]]:
    return [{"ts": T0 + timedelta(hours=at), "a": value} for at, value in enumerate(values)]


def values(table: Table) -> list[object]:
    return list(table.scan(columns=["a"]).to_arrow()["a"].to_pylist())


@pytest.mark.parametrize("wrap", WRAPS, ids=["itself", "list", "tuple", "mapping", "deeper", "array"])
@pytest.mark.parametrize(("first", "second", "what"), MIXED, ids=lambda one: str(one)[:30])
def test_values_that_arrow_would_change_are_refused_at_any_depth(
    make: Make, wrap: Callable[[object], object], first: object, second: object, what: str
) -> None:
    table = make(None)
    given = rows(wrap(first), None, wrap(second))
    times = [row["ts"] for row in given]
    objects = pd.Series([row["a"] for row in given], dtype=object)
    inputs: list[object] = [
        given,
        {"ts": times, "a": list(objects)},
        {"ts": times, "a": objects},
        pd.DataFrame({"ts": times, "a": objects}),
    ]
    for data in inputs:
        with pytest.raises(UnreadableInput, match=f"column 'a' of .* {what} in its rows"):
            table.append(data)
    assert table.refresh().scan().to_arrow().num_rows == 0


def test_an_index_of_pandas_is_looked_at_too(make: Make) -> None:
    frame = pd.DataFrame({"a": [1, 2]}, index=pd.Index([NOON, IN_KARACHI], dtype=object, name="ts"))
    with pytest.raises(UnreadableInput, match=r"column 'ts' of .* mixes naive and aware"):
        make(pa.int64()).append(frame)


def test_nanoseconds_of_pandas_are_kept_or_refused() -> None:
    table = series(pa.duration("us"))
    with pytest.raises(InvalidValue, match="cannot keep the value 1 ns of row 0"):
        table.append(rows(pd.Timedelta(1, "ns")))
    finer = series(pa.duration("ns"))
    finer.append(rows(pd.Timedelta(1, "ns"), timedelta(1), pd.NaT))
    assert values(finer) == [pd.Timedelta(1, "ns"), pd.Timedelta(1, "D"), None]
    for value in ([FINE], {"x": FINE}, [{"x": [FINE]}], [pd.Timedelta(1, "ns")]):
        with pytest.raises(UnreadableInput, match=r"'a' of .* holds nanoseconds"):
            series(None).append(rows(value))
    for value in (FINE, pd.Timedelta(1, "ns")):
        frame = pd.DataFrame({"ts": [T0], "a": pd.Series([value], dtype=object)})
        with pytest.raises(UnreadableInput, match=r"'a' of .* holds nanoseconds"):
            series(None).append(frame)


def test_values_that_go_together_are_taken(make: Make) -> None:
    nan = float("nan")
    cases: list[tuple[list[Any], list[object]]] = [
        ([True, nan, None], [True, None, None]),
        (["a", nan, None], ["a", None, None]),
        ([1, 2.5, np.int64(3), nan], [1.0, 2.5, 3.0, None]),
        ([pd.Timestamp("2026-01-05T12"), NOON, pd.NaT], [NOON, NOON, None]),
        ([[1, 2.5], [], [None]], [[1.0, 2.5], [], [None]]),
        ([{"x": 1}, {"y": "b"}, {}], [{"x": 1, "y": None}, {"x": None, "y": "b"}, {"x": None, "y": None}]),
        ([np.array([1, 2]), [3.5]], [[1.0, 2.0], [3.5]]),
        ([Decimal("1.5"), 2], [Decimal("1.5"), Decimal("2.0")]),
    ]
    for given, stored in cases:
        times = pd.date_range(T0, periods=len(given), freq="h", unit="us")
        table = make(None)
        table.append(pd.DataFrame({"ts": times, "a": pd.Series(given, dtype=object)}))
        assert values(table) == stored


def test_large_integers_beside_doubles_are_judged_by_their_value(make: Make) -> None:
    table = make(pa.float64())
    table.append(rows(1.5, 2**60, None, 2**70, np.int64(2**54)))
    assert values(table) == [1.5, float(2**60), None, float(2**70), float(2**54)]
    exact = make(pa.decimal128(38, 1))
    exact.append(rows(1.5, 2**53 + 1, 0.1))
    assert values(exact) == [Decimal("1.5"), Decimal(2**53 + 1), Decimal("0.1")]


@pytest.mark.parametrize(
    ("given", "value", "row"),
    [
        ([1.5, np.int64(2**53 + 1)], 2**53 + 1, 1),
        ([1.5, None, 10**400], 10**400, 2),
        ([[1.5], [0.5, 2**53 + 1]], 2**53 + 1, 1),
        ([{"x": 1.5}, {"x": 2**53 + 1}], 2**53 + 1, 1),
        ([[1.5], [2**60]], 2**60, 1),
        ([[1], [2**64]], 2**64, 1),
        ([1, 2**64], 2**64, 1),
    ],
    ids=str,
)
def test_the_integer_that_does_not_fit_is_named_with_its_row(make: Make, given: list[object], value: int, row: int) -> None:
    with pytest.raises(InvalidValue, match=f"in row {row}") as refused:
        make(None).append(rows(*given))
    assert (refused.value.facts["value"], refused.value.facts["row"]) == (value, row)


@pytest.mark.parametrize("value", [{None: 1}, [(None, 1)], {"k": 1, None: 2}], ids=str)
def test_a_map_with_a_null_key_is_refused_by_row(make: Make, value: object) -> None:
    for type_, given in ((pa.map_(pa.string(), pa.int8()), value), (pa.list_(pa.map_(pa.string(), pa.int8())), [value])):
        with pytest.raises((InvalidValue, UnreadableInput), match="A key of a map is never null") as refused:
            make(type_).append(rows({"k": 1} if given is value else [{"k": 1}], given))
        assert given is not value or refused.value.facts["row"] == 1


def test_a_number_of_json_that_is_no_double_is_no_infinity(make: Make, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    for number in ("1e400", "-1E+0309", "[1, 2e999]", '{"x": ' + "9" * 400 + ".0}"):
        path.write_text(f'{{"ts": "2026-01-05T00:00:00"}}\n{{"ts": "2026-01-05T01:00:00", "a": {number}}}\n')
        with pytest.raises(InvalidValue, match=r"line 2 of .*a\.jsonl holds the number .* too large for a double"):
            make(None).append_file(path)
    path.write_text('{"ts": "2026-01-05T00:00:00", "a": 1e308}\n{"ts": "2026-01-05T01:00:00", "a": -Infinity}\n')
    table = make(None)
    table.append_file(path)
    assert values(table) == [1e308, float("-inf")]
