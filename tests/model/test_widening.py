"""What may be widened: every pair of types, with the ends of what each holds."""

from __future__ import annotations

import itertools
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from gapless.model.convert import Misfit, convert
from gapless.model.stats import stats_value
from gapless.model.types import stored_type
from gapless.model.widening import why_not, why_not_widen, wider_types

WHOLE = [pa.type_for_alias(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)]
FLOATS = [pa.float16(), pa.float32(), pa.float64()]
TIMES = [
    *(pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC")),
    pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"), pa.date32(), pa.date64(),
    *(pa.duration(unit) for unit in ("s", "ms", "us", "ns")),
]  # fmt: skip
DECIMALS = [
    pa.decimal128(4, 2),
    pa.decimal128(9, 2),
    pa.decimal128(9, 4),
    pa.decimal128(38, 2),
    pa.decimal256(76, 2),
    pa.decimal32(9, 2),
]
OTHERS = [pa.bool_(), pa.string(), pa.binary(), pa.binary(2)]
TYPES = [*WHOLE, *FLOATS, *TIMES, *DECIMALS, *OTHERS]


def ends(type_: pa.DataType) -> pa.Array:
    """The smallest and the largest values that a table can hold of a type, and some between."""
    if pa.types.is_integer(type_):
        low = -(2 ** (type_.bit_width - 1)) if pa.types.is_signed_integer(type_) else 0
        return pa.array([low, low + (2**type_.bit_width - 1), 1], type_)
    if pa.types.is_floating(type_):
        return pa.array([0.5, -0.0, float("inf"), 2.0 ** {16: 15, 32: 127, 64: 1023}[type_.bit_width]], type_)
    if pa.types.is_decimal(type_):
        most = [Decimal((sign, (9,) * type_.precision, -type_.scale)) for sign in (0, 1)]
        return pa.array(most, type_)
    if pa.types.is_temporal(type_):
        return _moments(type_)
    values: dict[Any, list[Any]] = {pa.bool_(): [True], pa.string(): ["ä"], pa.binary(): [b"\xff"], pa.binary(2): [b"ab"]}
    return pa.array(values[type_], type_)


def _moments(type_: pa.DataType) -> pa.Array:
    """As far as the stored type reaches: declared seconds and milliseconds lie as microseconds."""
    per_day = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
    if pa.types.is_date(type_):
        reach = 10_000_000 * (1 if pa.types.is_date32(type_) else 86_400_000)
    elif pa.types.is_time(type_):
        reach = per_day[type_.unit] - 1
        return pa.array([0, reach], pa.int32() if type_.bit_width == 32 else pa.int64()).cast(type_)
    else:
        shrink = {"s": 10**6, "ms": 10**3}.get(type_.unit, 1) if pa.types.is_timestamp(type_) else 1
        reach = (2**63 - 1) // shrink
    return pa.array([-reach, reach], pa.int32() if type_.bit_width == 32 else pa.int64()).cast(type_)


def plain(array: pa.Array) -> list[Any]:
    """Values that compare across types: times in ns."""
    if not pa.types.is_temporal(array.type):
        return list(array.to_pylist())
    return [stats_value(one, array.type) for one in array]


@pytest.mark.parametrize("source", TYPES, ids=str)
def test_every_value_survives_what_is_allowed(source: pa.DataType) -> None:
    stored = convert(ends(source), stored_type(source))
    for target in TYPES:
        if why_not_widen(source, target) is None:
            assert plain(convert(stored, target)) == plain(convert(stored, source)), target


def test_what_is_allowed_is_what_an_input_may_be() -> None:
    for source, target in itertools.product(TYPES, TYPES):
        if why_not_widen(source, target) is None:
            assert why_not(source, target) is None


@pytest.mark.parametrize("source", [*WHOLE, *FLOATS, *TIMES], ids=str)
def test_what_is_refused_has_a_value_that_says_why(source: pa.DataType) -> None:
    """Of numbers and instants: no pair is refused out of caution alone."""
    known = {str(pa.float64()), *map(str, TIMES[-4:])}
    stored = convert(ends(source), stored_type(source))
    for target in [*WHOLE, *FLOATS, *(one for one in TIMES if pa.types.is_timestamp(one))]:
        comparable = pa.types.is_timestamp(source) == pa.types.is_timestamp(target) and not pa.types.is_date(source)
        if why_not_widen(source, target) is None or not comparable or str(source) in known or source == target:
            continue
        try:
            read = convert(stored, target)
        except Misfit:
            continue
        pytest.fail(f"{source} as {target} would be {read}")


def test_the_list_of_what_is_allowed_is_whole() -> None:
    for source in TYPES:
        told = wider_types(source)
        found = {str(t) for t in TYPES if t != source and not pa.types.is_decimal(t) and why_not_widen(source, t) is None}
        zoned = {text for text in found if "timestamp" not in text or ("tz" in text) == ("tz" in str(source))}
        assert {text for text in told if "decimal" not in text} == zoned, source
        assert any("decimal" in text for text in told) == pa.types.is_decimal(source)


@pytest.mark.parametrize(
    ("source", "target", "fits"),
    [
        (pa.list_(pa.int8()), pa.list_(pa.int16()), True), (pa.list_(pa.int16()), pa.list_(pa.int8()), False),
        (pa.list_(pa.int8(), 2), pa.list_(pa.int8()), True), (pa.list_(pa.int8()), pa.list_(pa.int8(), 2), False),
        (pa.list_(pa.duration("s")), pa.list_(pa.duration("ms")), False),
        (pa.struct([("a", pa.int8())]), pa.struct([("b", pa.int8()), ("a", pa.int16())]), True),
        (pa.struct([("a", pa.int8())]), pa.struct([pa.field("b", pa.int8(), nullable=False), ("a", pa.int8())]), False),
        (pa.struct([("a", pa.int8())]), pa.struct([("b", pa.int8())]), False),
        (pa.map_(pa.string(), pa.timestamp("s")), pa.map_(pa.string(), pa.timestamp("us")), True),
        (pa.map_(pa.string(), pa.timestamp("s")), pa.map_(pa.string(), pa.timestamp("ns")), False),
        (pa.null(), pa.list_(pa.int8()), True),
    ],
    ids=str,
)  # fmt: skip
def test_nested_types_are_judged_part_by_part(source: pa.DataType, target: pa.DataType, fits: bool) -> None:
    assert (why_not_widen(source, target) is None) == fits
