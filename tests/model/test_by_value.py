"""Values of inferred types as a column's type: every value that the type holds is taken, and no other."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.model.by_value import convert_by_value, why_never
from gapless.model.convert import Misfit

INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
FLOATS = [pa.float32(), pa.float64()]
DECIMALS = [pa.decimal128(9, 2), pa.decimal128(38, 0), pa.decimal256(60, 20)]
EDGES = [
    bits + step
    for power in (7, 8, 15, 16, 24, 31, 32, 53, 54, 62, 63)
    for bits in (2**power, -(2**power))
    for step in (-1, 0, 1)
    if -(2**63) <= bits + step < 2**63
]


def held(array: pa.Array, target: pa.DataType) -> list[object] | None:
    """The converted values; None where one is refused."""
    try:
        found = convert_by_value(array, target)
    except Misfit:
        return None
    found.validate(full=True)
    assert found.type == target
    return list(found.to_pylist())


def holds(type_: pa.DataType, value: int) -> bool:
    """Whether a type holds an integer, by Python's numbers alone."""
    if pa.types.is_integer(type_):
        bits: int = type_.bit_width - pa.types.is_signed_integer(type_)
        return (0 if bits == type_.bit_width else -(1 << bits)) <= value < 1 << bits
    if pa.types.is_decimal(type_):
        return abs(value) < int(10 ** (type_.precision - type_.scale))
    mantissa: int = {16: 11, 32: 24, 64: 53}[type_.bit_width]
    odd = abs(value)
    while odd and odd % 2 == 0:
        odd //= 2
    return odd < 1 << mantissa and not (type_.bit_width == 16 and abs(value) > 65_504)


@pytest.mark.parametrize("target", [*INTEGERS, pa.float16(), *FLOATS, *DECIMALS], ids=str)
def test_an_integer_is_taken_where_the_type_holds_it(target: pa.DataType) -> None:
    for value in (0, *EDGES):
        found = held(pa.array([None, value, 0], pa.int64()), target)
        assert (found is not None) == holds(target, value), value
        assert found is None or found == [None, value, 0]


@pytest.mark.parametrize("target", [*INTEGERS, *FLOATS, *DECIMALS], ids=str)
def test_the_largest_unsigned_integers_are_no_exception(target: pa.DataType) -> None:
    for value in (2**64 - 1, 2**64 - 2**11, 2**63, 0):
        assert (held(pa.array([value], pa.uint64()), target) is not None) == holds(target, value), value


@given(st.floats(allow_nan=False), st.sampled_from([*INTEGERS, *DECIMALS]))
def test_a_float_is_a_whole_number_or_a_decimal_where_it_says_that(value: float, target: pa.DataType) -> None:
    found = held(pa.array([value]), target)
    if pa.types.is_decimal(target):
        text = Decimal(repr(value))
        scaled = Fraction(text) * 10**target.scale if text.is_finite() else Fraction(1, 2)
        fits = scaled.denominator == 1 and abs(scaled) < 10**target.precision
        assert found == ([text] if fits else None)
    else:
        assert found == ([int(value)] if value.is_integer() and holds(target, int(value)) else None)


def test_a_float_past_a_decimal_is_refused_where_arrow_would_wrap_it() -> None:
    for value in (1.2611294676837539e39, -1.3e39, 1e38, 3.402823669209385e38, 1.1718549621908463e-220, 5e-324, -1e-39):
        assert held(pa.array([value]), pa.decimal128(38, 0)) is None
        assert held(pa.array([value]), pa.decimal128(9, 2)) is None


@given(st.floats())
def test_a_float_becomes_the_nearest_narrower_float_or_is_refused(value: float) -> None:
    array = pa.array([value])
    nearest = held(array, pa.float32())
    if nearest is None:
        assert abs(value) > 3.4e38
        return
    assert str(nearest) == str(pa.array([value], pa.float32()).to_pylist())
    try:
        exact = convert_by_value(array, pa.float32(), "exact").to_pylist()
    except Misfit:
        assert nearest != [value]
    else:
        assert str(exact) == str([value]) == str(nearest)


def test_decimals_are_integers_and_floats_where_they_hold_them() -> None:
    assert held(pa.array([Decimal("2.00"), None]), pa.int8()) == [2, None]
    assert held(pa.array([Decimal("2.50")]), pa.int8()) is None
    assert held(pa.array([Decimal("0.1")]), pa.float64()) == [0.1]
    assert held(pa.array([Decimal("1e60")]), pa.float32()) is None
    assert held(pa.array([Decimal("1.500")]), pa.decimal128(9, 2)) == [Decimal("1.50")]
    assert held(pa.array([Decimal("1.505")]), pa.decimal128(9, 2)) is None


def test_nested_values_are_judged_each_and_refused_by_the_row_that_holds_them() -> None:
    lists = pa.array([[1, 2], None, [3, 300]])
    assert held(lists, pa.list_(pa.int16())) == [[1, 2], None, [3, 300]]
    with pytest.raises(Misfit) as refused:
        convert_by_value(lists, pa.list_(pa.int8()))
    assert refused.value.row == 2
    assert refused.value.value is not None
    assert refused.value.value.as_py() == 300
    pairs = pa.list_(pa.float32(), 2)
    assert held(pa.array([[1, 2], None]), pairs) == [[1.0, 2.0], None]
    assert held(pa.array([[1, 2], [3]]), pairs) is None
    deep = pa.struct([("a", pa.large_list(pa.struct([("x", pa.int16())]))), ("b", pa.string())])
    assert held(pa.array([{"a": [{"x": 1.0}]}, None]), deep) == [{"a": [{"x": 1}], "b": None}, None]
    maps = pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int64()))
    assert held(maps, pa.map_(pa.string(), pa.float32())) == [[("k", 1.0)], []]


def test_bytes_have_the_width_that_the_column_wants() -> None:
    assert held(pa.array([b"ab", None]), pa.binary(2)) == [b"ab", None]
    assert held(pa.array([b"ab", b"a"]), pa.binary(2)) is None


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (pa.bool_(), pa.int8()),
        (pa.int64(), pa.bool_()),
        (pa.string(), pa.int64()),
        (pa.int64(), pa.string()),
        (pa.int64(), pa.timestamp("us")),
        (pa.date32(), pa.timestamp("us")),
        (pa.timestamp("us"), pa.timestamp("us", "UTC")),
        (pa.list_(pa.bool_()), pa.list_(pa.int64())),
        (pa.struct([("a", pa.int64()), ("z", pa.int64())]), pa.struct([("a", pa.int8())])),
    ],
)
def test_kinds_of_values_are_never_one_another(source: pa.DataType, target: pa.DataType) -> None:
    assert why_never(source, target) is not None
