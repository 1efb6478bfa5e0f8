"""Arrow values as strict JSON, exactly."""

from __future__ import annotations

import json
import math
import uuid
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.cli.show.console import cell_text, encode_json, json_text
from gapless.cli.show.values import moment_text, plain_index_value, plain_values, zone_of

NEW_YORK = ZoneInfo("America/New_York")


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array([None, None]), [None, None]),
        (pa.array([True, None]), [True, None]),
        (pa.array([2**63 - 1, -(2**63)]), [2**63 - 1, -(2**63)]),
        (pa.array([2**64 - 1], pa.uint64()), [2**64 - 1]),
        (pa.array([1.5, None, math.nan, math.inf, -math.inf]), [1.5, None, "NaN", "Infinity", "-Infinity"]),
        (pa.array(np.array([0.5], np.float16)), [0.5]),
        (pa.array(["a", "", None]), ["a", "", None]),
        (pa.array(["a"], pa.string_view()), ["a"]),
        (pa.array([b"ab", None]), ["YWI=", None]),
        (pa.array([b"ab"], pa.binary(2)), ["YWI="]),
        (pa.array([Decimal("1.50"), None]), ["1.50", None]),
        (pa.array([Decimal(10**30)], pa.decimal128(38, 0)), [10**30]),
        (pa.array([date(1969, 12, 31)]), ["1969-12-31"]),
        (pa.array([date(1969, 12, 31)], pa.date64()), ["1969-12-31"]),
        (pa.array([-1, None], pa.timestamp("ns")), ["1969-12-31T23:59:59.999999999", None]),
        (pa.array([0], pa.timestamp("s", "UTC")), ["1970-01-01T00:00:00Z"]),
        (pa.array([0], pa.timestamp("ms", "America/New_York")), ["1969-12-31T19:00:00-05:00"]),
        (pa.array([0], pa.timestamp("us", "+05:30")), ["1970-01-01T05:30:00+05:30"]),
        (pa.array([34_200], pa.time32("s")), ["09:30:00"]),
        (pa.array([1], pa.time64("ns")), ["00:00:00.000000001"]),
        (pa.array([-1_500], pa.duration("ms")), ["-PT1.5S"]),
        (pa.array([60], pa.duration("s")), ["PT60S"]),
        (pa.array([[1, None], None, []]), [[1, None], None, []]),
        (pa.array([[math.nan]], pa.list_(pa.float64(), 1)), [["NaN"]]),
        (pa.array([{"a": 1, "b": None}, None]), [{"a": 1, "b": None}, None]),
        (pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())), [[["k", 1]], None]),
        (pa.array(["x", "y", "x"]).dictionary_encode(), ["x", "y", "x"]),
        (pa.array([(1, 2, 3)], pa.month_day_nano_interval()), [{"months": 1, "days": 2, "nanoseconds": 3}]),
        (pa.array([uuid.UUID(int=7).bytes], pa.uuid()), [str(uuid.UUID(int=7))]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_a_value_of_each_type_is_what_the_documentation_says(array: pa.Array, expected: list[object]) -> None:
    found = plain_values(array)
    assert found == expected
    assert [type(value) for value in found] == [type(value) for value in expected]
    json.loads(json_text(found), parse_constant=pytest.fail)  # strict: no NaN, no Infinity


@given(st.lists(st.one_of(st.none(), st.floats())))
def test_doubles_come_back_bit_for_bit(values: list[float | None]) -> None:
    array = pa.array(values, pa.float64())
    read = [float(v) if isinstance(v, str) else v for v in json.loads(json_text(plain_values(array)))]
    assert [None if v is None else math.copysign(1, v) for v in read] == [
        None if v is None else 1.0 if math.isnan(v) else math.copysign(1, v) for v in values
    ]
    assert all(
        a == b or (a is not None and b is not None and math.isnan(a) and math.isnan(b))
        for a, b in zip(read, values, strict=True)
    )


@given(st.datetimes(timezones=st.just(NEW_YORK)))
def test_moment_text_is_pythons_isoformat_where_that_can_say_it(moment: datetime) -> None:
    instant = moment.astimezone(UTC)
    ns = (instant - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1_000
    assert datetime.fromisoformat(moment_text(ns, NEW_YORK)) == instant


def test_moment_text_past_the_years_of_datetime_is_utc() -> None:
    assert moment_text(2**63 * 1_000, NEW_YORK).endswith("Z")


def test_an_index_value_that_datetime_cannot_hold_stays_exact() -> None:
    assert plain_index_value(np.datetime64(1, "ns"), aware=True) == "1970-01-01T00:00:00.000000001Z"
    assert plain_index_value(np.datetime64(1, "ns"), aware=False) == "1970-01-01T00:00:00.000000001"
    assert plain_index_value(2**63, aware=False) == 2**63
    assert plain_index_value(datetime(2013, 7, 1, tzinfo=NEW_YORK), aware=True) == "2013-07-01T00:00:00-04:00"


def test_zones_are_iana_names_or_offsets() -> None:
    assert zone_of(None) is None
    assert zone_of("-03:30") == timezone(-timedelta(hours=3, minutes=30))
    assert zone_of("Europe/Berlin") == ZoneInfo("Europe/Berlin")


def test_a_stray_byte_of_a_file_name_becomes_an_escape_that_reads_back() -> None:
    assert json.loads(encode_json({"table": "caf\udce9"})) == {"table": "caf\udce9"}


def test_cells_tell_a_text_from_null_by_nothing_but_emptiness() -> None:
    assert [cell_text(value) for value in (None, "", "a", 1, True, [None], {"a": "ü"})] == [
        "", "", "a", "1", "true", "[null]", '{"a": "ü"}',
    ]  # fmt: skip
