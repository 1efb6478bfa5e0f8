"""Variants that we encode: what comes out is what went in, by the decoder that is held against DuckDB and Spark."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gapless as gl
from gapless.errors import InvalidValue

ZONES = dt.timezone(dt.timedelta(hours=5, minutes=30))
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**37), 10**37),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=80),
    st.binary(max_size=80),
    st.decimals(-(10**20), 10**20, places=5),
    st.dates(),
    st.times(),
    st.datetimes(),
    st.datetimes(timezones=st.just(dt.UTC)),
    st.uuids(),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5),
        st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), inner, max_size=5),
    ),
    max_leaves=25,
)


def plain(value: Any) -> Any:
    """What is given back: an integer beyond 64 bits is a decimal."""
    match value:
        case bool():
            return value
        case int() if not -(2**63) <= value < 2**63:
            return Decimal(value)
        case list():
            return [plain(one) for one in value]
        case dict():
            return {name: plain(one) for name, one in value.items()}
    return value


def same(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return isinstance(other, dict) and one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


@given(VALUES)
def test_what_goes_in_comes_out(value: Any) -> None:
    assert same(gl.delta.decode_variant(*gl.delta.encode_variant(value)), plain(value))


@pytest.mark.parametrize("count", [0, 1, 255, 256, 300, 70_000])
def test_many_parts(count: int) -> None:
    assert gl.delta.decode_variant(*gl.delta.encode_variant(list(range(count)))) == list(range(count))
    fields = {f"f{number}": number for number in range(min(count, 66_000))}
    assert gl.delta.decode_variant(*gl.delta.encode_variant(fields)) == fields


@pytest.mark.parametrize("length", [0, 63, 64, 255, 256, 70_000])
def test_long_texts(length: int) -> None:
    for value in ("x" * length, b"x" * length, {"é" * length: 1}):
        assert gl.delta.decode_variant(*gl.delta.encode_variant(value)) == value


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (None, b"\x00"), (True, b"\x04"), (False, b"\x08"), (5, b"\x0c\x05"), (-129, b"\x10\x7f\xff"), (2**31, b"\x18\x00\x00\x00\x80" + b"\0" * 4),
        ("ab", b"\x09ab"), (Decimal("1.50"), b"\x20\x02\x96\x00\x00\x00"), ([], b"\x03\x00\x00"), ({}, b"\x02\x00\x00"), (dt.date(1970, 1, 2), b"\x2c\x01\x00\x00\x00"),
        (UUID(int=1), b"\x50" + b"\0" * 15 + b"\x01"),
    ],
    ids=repr,
)  # fmt: skip
def test_bytes_by_the_page_of_the_encoding(value: object, encoded: bytes) -> None:
    assert gl.delta.encode_variant(value) == (b"\x11\x00\x00", encoded)


def test_names_are_sorted_once() -> None:
    metadata, value = gl.delta.encode_variant([{"b": 1, "a": 2}, {"b": 3}])
    assert metadata == b"\x11\x02\x00\x01\x02ab"
    assert value == b"\x03\x02\x00\x0b\x12" + b"\x02\x02\x00\x01\x00\x02\x04\x0c\x02\x0c\x01" + b"\x02\x01\x01\x00\x02\x0c\x03"


def test_nan_and_zones() -> None:
    assert math.isnan(gl.delta.decode_variant(*gl.delta.encode_variant(math.nan)))
    moment = dt.datetime(2026, 1, 1, 5, 30, tzinfo=ZONES)
    assert gl.delta.decode_variant(*gl.delta.encode_variant(moment)) == dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


DEEP: list[Any] = []
for _ in range(200):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    "value",
    [
        10**38,
        Decimal("NaN"),
        Decimal("Infinity"),
        Decimal("1e99999"),
        Decimal("1e-39"),
        dt.time(1, tzinfo=dt.UTC),
        "\ud800",
        {1: 2},
        object(),
        {1},
        DEEP,
    ],
    ids=[
        "39 digits",
        "nan",
        "infinity",
        "huge",
        "tiny",
        "time with a zone",
        "half a character",
        "key",
        "object",
        "set",
        "deep",
    ],
)
def test_what_no_variant_holds(value: object) -> None:
    with pytest.raises(InvalidValue):
        gl.delta.encode_variant(value)
