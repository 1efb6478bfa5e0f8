"""What a scan takes, gives and refuses; the property tests hold it against a list of rows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import gapless as gl
from gapless.errors import InvalidFilter, InvalidOption, InvalidTime, UnknownColumn
from gapless.files.read import row_group_batches
from gapless.files.read.source import read_groups
from gapless.files.write import file_writer
from gapless.model.segment import Segment
from gapless.predicate.plan import expression_columns, expression_text, prune_by_expression
from support.faulty_store import open_faulty

_counter = itertools.count()
DAY = datetime(2024, 3, 9)


def days(zone: str | None, timezone: str | None = None) -> gl.TimeSeriesTable:
    """One row at each midnight (UTC, or naive) of five days."""
    table = gl.create(f"memory://scan-{next(_counter)}", index="ts", entity=["k"], bucket="1d", timezone=timezone)
    times = pa.array([DAY + timedelta(days=n) for n in range(5)], pa.timestamp("us"))
    table.append({"ts": times.cast(pa.timestamp("us", zone)) if zone else times, "k": ["a", "b", "a", "b", "a"], "n": range(5)})
    return table


def numbers(rows: gl.Rows) -> list[int]:
    found: list[int] = sorted(rows.to_arrow().column("n").to_pylist())
    return found


SPELLINGS: list[Any] = [
    DAY + timedelta(days=2), "2024-03-11", "2024-03-11T00:00", "2024-03-11 00:00:00.000", date(2024, 3, 11), np.datetime64("2024-03-11"),
    np.datetime64("2024-03-11T00:00:00.000000000"), pd.Timestamp("2024-03-11"),
]  # fmt: skip


@pytest.mark.parametrize("value", SPELLINGS, ids=repr)
def test_start_is_inclusive_and_end_is_not_in_every_spelling(value: Any) -> None:
    table = days(None)
    assert numbers(table.scan(value)) == [2, 3, 4]
    assert numbers(table.scan(end=value)) == [0, 1]
    assert numbers(table.scan(value, value)) == []


@pytest.mark.parametrize(
    "value", [datetime(2024, 3, 11, tzinfo=UTC), "2024-03-11T00:00Z", "2024-03-11T05:30:00+05:30", pd.Timestamp("2024-03-11", tz="UTC"), date(2024, 3, 11)], ids=repr
)  # fmt: skip
def test_an_aware_index_takes_instants_and_dates(value: Any) -> None:
    assert numbers(days("UTC").scan(value)) == [2, 3, 4]
    assert numbers(days("Asia/Tokyo").scan(value)) == [2, 3, 4]


def test_naive_against_aware_says_what_to_pass() -> None:
    with pytest.raises(InvalidTime) as refusal:
        days("UTC").scan(DAY)
    assert "2024-03-09T00:00:00Z" in refusal.value.fix
    with pytest.raises(InvalidTime) as refusal:
        days(None).scan(DAY.replace(tzinfo=UTC))
    assert "naive" in refusal.value.fix


def test_a_naive_time_is_the_wall_clock_of_a_table_with_a_zone() -> None:
    table = days(None, "America/New_York")
    assert numbers(table.scan("2024-03-11")) == [2, 3, 4]
    assert numbers(table.scan("2024-03-11T03:59:59Z", "2024-03-11T04:00:01Z")) == [2], "the clocks changed on the 10th"
    with pytest.raises(InvalidTime, match="skipped"):
        table.scan("2024-03-10T02:30")
    assert table.coverage().union().gaps() == []


@pytest.mark.parametrize(
    "value", [float("nan"), None, "NaT", pd.NaT, "yesterday", 5, 1.5, b"x", np.datetime64("NaT"), "2024-13-01", True]
)
def test_what_is_no_time(value: Any) -> None:
    if value is not None:
        with pytest.raises(InvalidTime):
            days(None).scan(value)


def test_an_integer_index_takes_integers() -> None:
    table = gl.create(f"memory://scan-{next(_counter)}", index="i", index_type="uint64", bucket=10)
    table.append({"i": pa.array([0, 5, 2**64 - 1], pa.uint64()), "n": [0, 1, 2]})
    assert numbers(table.scan(np.int64(5))) == [1, 2]
    assert numbers(table.scan("5", 2**64)) == [1, 2]
    for value in (-1, 1.0, True, DAY, "x", 2**64 + 1):
        with pytest.raises(InvalidTime):
            table.scan(value)
    with pytest.raises(InvalidTime, match="lies after"):
        table.scan(5, 4)


def test_stat_12_local_mean_time_is_found_exactly() -> None:
    table = gl.create(f"memory://scan-{next(_counter)}", index="ts", bucket="1d", timezone="Europe/Berlin")
    table.append({"ts": [datetime(1850, 1, 1, 1, 1, 1)], "n": [0]})
    (instant,) = table.scan().to_arrow().column("ts").cast(pa.timestamp("us", "UTC")).to_pylist()
    assert instant == datetime(1850, 1, 1, 0, 7, 33, tzinfo=UTC)
    assert numbers(table.scan("1850-01-01T01:01:01", "1850-01-01T01:01:02")) == [0]
    assert numbers(table.scan(where="ts = TIMESTAMPTZ '1850-01-01T00:07:33Z'")) == [0]
    assert numbers(
        table.scan(where="ts BETWEEN TIMESTAMPTZ '1850-01-01T00:07:32Z' AND TIMESTAMPTZ '1850-01-01T00:07:34Z'")
    ) == [0]


def test_stat_01_the_last_microseconds_are_not_cut_from_a_bound() -> None:
    table = gl.create(f"memory://scan-{next(_counter)}", index="i", index_type="int64", bucket=1)
    moment = datetime(2023, 3, 29, 23, 59, 59, 807_126, tzinfo=UTC)
    table.append({"i": [1], "t": pa.array([moment], pa.timestamp("us", "UTC")), "n": [0]})
    for where in ("t = TIMESTAMPTZ '2023-03-29T23:59:59.807126Z'", "t >= TIMESTAMPTZ '2023-03-29T23:59:59.807100Z'"):
        assert numbers(table.scan(where=where)) == [0]
        assert table.sql(f"FROM this WHERE {where}").count() == 1


def test_stat_04_signed_zeros_are_one_value_in_every_segment() -> None:
    table = gl.create(f"memory://scan-{next(_counter)}", index="i", index_type="int64", bucket=1)
    table.append({"i": [1], "x": [-0.0]})
    table.append({"i": [2, 3], "x": [0.0, 1.0]})
    assert [table.scan(where=w).count() for w in ("x = 0.0", "x >= 0.0", "x < 0.0", "x = -0.0", "x <= -0.0")] == [2, 3, 0, 2, 2]
    assert [table.scan(where=w).count() for w in (pc.field("x") == 0.0, pc.field("x") >= 0.0, pc.field("x") < 0.0)] == [2, 3, 0]
    assert [table.sql(f"FROM this WHERE {w}").count() for w in ("x = 0.0", "x >= 0.0", "x < 0.0")] == [2, 3, 0]


def test_stat_05_and_07_nulls_in_some_rows_of_some_segments() -> None:
    table = gl.create(f"memory://scan-{next(_counter)}", index="i", index_type="int64", bucket=1)
    for first, values in enumerate(([12, None], [None, None], [15, 67])):
        table.append({"i": [first, first], "x": pa.array(values, pa.int64())})
    assert table.scan(where="x IS NULL").count() == table.scan(where=pc.field("x").is_null()).count() == 3
    assert table.scan(where="NOT (x IS NULL)").count() == table.scan(where=~pc.field("x").is_null()).count() == 3
    assert table.scan(where="x = 67").count() == 1
    assert table.sql("FROM this WHERE x IS NULL").count() == 3


@pytest.mark.parametrize("where", ["n > 3", pc.field("n") > 3, "n > 3 AND k = 'a'"])
def test_segments_that_cannot_match_are_not_opened(where: Any) -> None:
    place = f"memory://scan-{next(_counter)}"
    table = gl.create(place, index="i", index_type="int64", entity=["k"], bucket=1)
    for number in range(6):
        table.append({"i": [number], "k": ["ab"[number % 2]], "n": [number]})
    reader, store = open_faulty(place)
    opened: set[str] = set()
    store.before_get = opened.add
    assert numbers(reader.scan(where=where))[-1] in (4, 5)
    assert len(opened) <= 2
    opened.clear()
    assert numbers(reader.scan(2, 4, entity={"k": "a"})) == [2]
    assert len(opened) == 1
    opened.clear()
    assert reader.sql("FROM this WHERE n >= 4").count() == 2
    assert len(opened) == 2, "DuckDB's filter prunes segments"


def test_row_groups_that_cannot_match_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_writer, "row_group_rows", lambda _table: 2)
    table = gl.create(f"memory://scan-{next(_counter)}", index="i", index_type="int64", bucket=1)
    table.append({"i": range(20), "n": range(20)})
    read: list[int] = []

    def spy(file: Any, segment: Segment, numbers: Sequence[int], names: Sequence[str]) -> pa.Table:
        read.extend(numbers)
        return read_groups(file, segment, numbers, names)

    monkeypatch.setattr(row_group_batches, "read_groups", spy)
    questions: list[Callable[[], gl.Rows]] = [
        lambda: table.scan(where="n > 16"),
        lambda: table.scan(where=pc.field("n") > 16),
        lambda: table.scan(17),
        lambda: table.sql("FROM this WHERE n > 16"),
    ]
    for ask in questions:
        assert numbers(ask()) == [17, 18, 19]
        assert sorted(set(read)) == [8, 9]
        read.clear()


def test_columns_that_are_not_asked_for_are_not_read() -> None:
    schema = pa.schema([("a", pa.int8()), ("b", pa.struct([("c", pa.int8())])), ("ab", pa.int8()), ("x y", pa.int8())])
    assert expression_columns(pc.field("a") > 1, schema) == ("a",)
    assert "b" in expression_columns(pc.field("b", "c") > 1, schema)
    assert expression_columns(pc.field("x y") == 1, schema) == ("x y",)
    assert expression_columns(pc.field(2) > 1, schema) == tuple(schema.names), "by position"
    assert expression_columns(pc.field("nope") > 1, schema) == tuple(schema.names), "reading says what is wrong"


def test_a_list_of_texts_that_arrow_cuts_within_a_character_is_a_filter_like_any_other() -> None:
    expression = pc.field("s").isin(["💡" * 26, "b" * 63])
    with pytest.raises(UnicodeDecodeError):
        str(expression)
    schema = pa.schema([("s", pa.string()), ("n", pa.int8())])
    assert expression_columns(expression, schema) == ("s", "n")
    assert expression_text(expression)
    with pytest.raises(InvalidFilter):
        prune_by_expression(expression, [None], pa.schema([("n", pa.int8())]))


def test_wrong_arguments() -> None:
    table = days(None)
    with pytest.raises(UnknownColumn, match="'n'"):
        table.scan(columns=["nn"])
    for columns in (["n", "n"], "n"):
        with pytest.raises(InvalidOption):
            table.scan(columns=columns)
    with pytest.raises(InvalidOption, match="index"):
        table.scan(order="random")
    with pytest.raises(UnknownColumn, match="no entity column"):
        table.scan(entity={"n": 1})
    with pytest.raises(InvalidOption):
        table.scan(entity={"k": 1})
    for where in ("n >", "n + 1 > 2", "k > 1", "1"):
        with pytest.raises(InvalidFilter):
            table.scan(where=where)
    with pytest.raises(InvalidFilter):
        table.scan(where=7)
    with pytest.raises(UnknownColumn, match="nope"):
        table.scan(where="nope = 1")
    with pytest.raises(InvalidFilter):
        table.scan(where=pc.field("nope") == 1).to_arrow()
    with pytest.raises(InvalidFilter):
        table.scan(where=pc.field("k") > 1).to_arrow()


def test_rows_go_wherever_arrow_goes() -> None:
    rows = days(None).scan(order="index")
    assert "ts: timestamp[us]" in repr(rows)
    arrow = rows.to_arrow()
    assert pa.table(rows) == arrow == pa.RecordBatchReader.from_stream(rows).read_all()
    assert rows.to_reader().read_all() == arrow
    assert rows.to_pandas()["n"].tolist() == rows.to_polars()["n"].to_list() == [0, 1, 2, 3, 4]
    assert pl.DataFrame(rows).height == rows.count() == 5
    assert rows.to_duckdb().aggregate("sum(n)").fetchall() == [(10,)]
    assert rows.to_arrow(dictionary=["k"]).schema.field("k").type == pa.dictionary(pa.int32(), pa.string())
    with pytest.raises(UnknownColumn):
        rows.to_arrow(dictionary=["nope"])


def test_a_scan_may_be_appended_to_another_table() -> None:
    table = days(None)
    copy = gl.create(f"memory://scan-{next(_counter)}", index="ts", entity=["k"], bucket="1d")
    assert copy.append(table.scan()).rows == 5
    assert copy.append(table.sql("SELECT ts + INTERVAL 10 DAY AS ts, k, n FROM this")).rows == 5
    assert copy.scan(order="index").to_arrow().slice(0, 5) == table.scan(order="index").to_arrow()
