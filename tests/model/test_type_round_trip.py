"""Every Arrow type that Parquet holds: input -> adopt -> fit -> Parquet file -> restore is the declared type, bit by bit."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless.formats.timeseries.codec.schema import decode_schema, encode_schema
from gapless.model.fit import fit, to_declared
from gapless.model.index import IndexSpec, parse_bucket
from gapless.model.schema import adopt_schema, reconcile
from gapless.model.types import children, is_any_list

FEWER = settings(max_examples=max(10, settings().max_examples // 5))
"""For tests that run once for each of many types."""
INDEX = IndexSpec(column="k", type="int64", bucket=parse_bucket(1, "int64"))
Values = st.SearchStrategy[Any]

_DIVISORS = {"s": 10**6, "ms": 10**3, "us": 1, "ns": 1}
_INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
_ZONES = (None, "UTC", "+00:00", "Europe/Paris", "-03:30")


def _signed(bits: int, divisor: int = 1) -> Values:
    return st.integers(-(2 ** (bits - 1)) // divisor + 1, (2 ** (bits - 1) - 1) // divisor)


def _decimals(precision: int, scale: int) -> Values:
    return st.integers(-(10**precision) + 1, 10**precision - 1).map(lambda n: Decimal(f"{n}E-{scale}"))


LEAVES: dict[pa.DataType, Values] = {
    pa.bool_(): st.booleans(),
    **{t: st.integers(-(2 ** (t.bit_width - 1)), 2 ** (t.bit_width - 1) - 1) for t in _INTEGERS[:4]},
    **{t: st.integers(0, 2**t.bit_width - 1) for t in _INTEGERS[4:]},
    **{t: st.floats(width=t.bit_width) for t in (pa.float16(), pa.float32(), pa.float64())},
    **{
        t: st.text(max_size=5)
        for t in (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int16(), pa.string()))
    },
    **{t: st.binary(max_size=5) for t in (pa.binary(), pa.large_binary(), pa.binary_view())},
    pa.binary(3): st.binary(min_size=3, max_size=3),
    pa.date32(): _signed(32),
    pa.date64(): _signed(32).map(lambda days: days * 86_400_000),
    pa.time32("s"): st.integers(0, 86_399),
    pa.time32("ms"): st.integers(0, 86_399_999),
    pa.time64("us"): st.integers(0, 86_399_999_999),
    pa.time64("ns"): st.integers(0, 86_399_999_999_999),
    **{pa.duration(unit): _signed(64) for unit in _DIVISORS},
    **{pa.timestamp(unit, zone): _signed(64, d) for unit, d in _DIVISORS.items() for zone in _ZONES},
    pa.decimal32(7, 2): _decimals(7, 2),
    pa.decimal64(15, 0): _decimals(15, 0),
    pa.decimal128(38, 5): _decimals(38, 5),
    pa.decimal256(70, 7): _decimals(70, 7),
    pa.decimal256(5, 1): _decimals(5, 1),
}

Typed = tuple[pa.DataType, Values]
WRAPPERS: dict[str, Callable[[Typed], Typed]] = {
    "list": lambda x: (pa.list_(x[0]), st.lists(_or_null(x[1]), max_size=3)),
    "large_list": lambda x: (pa.large_list(x[0]), st.lists(_or_null(x[1]), max_size=3)),
    "list_view": lambda x: (pa.list_view(x[0]), st.lists(_or_null(x[1]), max_size=3)),
    "fixed_size_list": lambda x: (pa.list_(x[0], 2), st.lists(_or_null(x[1]), min_size=2, max_size=2)),
    "element": lambda x: (pa.list_(pa.field("element", x[0], nullable=False)), st.lists(x[1], max_size=3)),
    "struct": lambda x: (pa.struct([("ä b", x[0]), pa.field("b", x[0], nullable=False)]), st.fixed_dictionaries({"ä b": _or_null(x[1]), "b": x[1]})),
    "map": lambda x: (pa.map_(pa.string(), x[0]), st.lists(st.tuples(st.text(max_size=2), _or_null(x[1])), max_size=3)),
}  # fmt: skip


def _or_null(values: Values) -> Values:
    return st.none() | values


def bits(array: pa.Array) -> list[Any]:
    """The values as Python compares them exactly: floats by their bits, times by their count."""
    type_ = array.type
    if pa.types.is_struct(type_):
        rows = list(zip(*(bits(child) for child in array.flatten()), strict=True))
        return [row if valid else None for row, valid in zip(rows, array.is_valid().to_pylist(), strict=True)]
    if pa.types.is_map(type_):
        offsets = array.offsets.to_pylist()
        pairs = list(zip(bits(array.keys), bits(array.items), strict=True))
        return [
            pairs[low:high] if ok else None
            for low, high, ok in zip(offsets, offsets[1:], array.is_valid().to_pylist(), strict=False)
        ]
    if is_any_list(type_):
        items = iter(bits(array.flatten()))
        lengths = pc.list_value_length(array).to_pylist()
        return [None if length is None else [next(items) for _ in range(length)] for length in lengths]
    if pa.types.is_floating(type_):
        return list(array.view({16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}[type_.bit_width]).to_pylist())
    if pa.types.is_temporal(type_):
        return list(array.view(pa.int32() if type_.bit_width == 32 else pa.int64()).to_pylist())
    return list(array.to_pylist())


def there_and_back(array: pa.Array) -> pa.Array:
    """Through everything that a column passes on its way into a table and back, in two row groups."""
    batch = pa.record_batch({"k": pa.array(range(len(array)), pa.int64()), "v": array})
    schema = adopt_schema(batch.schema, INDEX)
    schema = decode_schema(encode_schema(reconcile(schema, batch.schema, INDEX).schema))
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_batches([fit(batch, schema, INDEX, 0)]), sink, row_group_size=2)
    back = to_declared(pq.read_table(pa.BufferReader(sink.getvalue())), schema)
    back.validate(full=True)
    assert back.schema.equals(schema, check_metadata=True)
    return back.column("v").combine_chunks()


def check(array: pa.Array) -> None:
    plain = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
    assert bits(there_and_back(array)) == bits(plain)
    assert bits(there_and_back(array.slice(1, 3))) == bits(plain.slice(1, 3))


@pytest.mark.parametrize("type_", LEAVES, ids=str)
@FEWER
@given(data=st.data())
def test_every_leaf_type(type_: pa.DataType, data: st.DataObject) -> None:
    check(pa.array(data.draw(st.lists(_or_null(LEAVES[type_]), max_size=5)), type_))


@pytest.mark.parametrize("outer", WRAPPERS)
@pytest.mark.parametrize("inner", [None, *WRAPPERS])
@FEWER
@given(data=st.data())
def test_every_nesting(outer: str, inner: str | None, data: st.DataObject) -> None:
    typed = data.draw(st.sampled_from([item for item in LEAVES.items() if not pa.types.is_dictionary(item[0])]))
    if inner is not None:
        typed = WRAPPERS[inner](typed)
    type_, values = WRAPPERS[outer](typed)
    check(pa.array(data.draw(st.lists(_or_null(values), max_size=4)), type_))


def test_nan_payloads_zeros_infinities_and_empty_values() -> None:
    payload = pa.array([0x7FF4000000000001, 0xFFF8000000000000, 0x7FF8000000000000], pa.uint64()).view(pa.float64())
    check(payload)
    for width in (pa.float16(), pa.float32(), pa.float64()):
        check(pa.array([-0.0, 0.0, math.inf, -math.inf, math.nan, None], width))
    check(pa.array(["", None, "\0", "a"]))
    check(pa.array([b"", None, b"\0"]))


def test_declared_types_are_those_of_the_input_but_for_their_encoding() -> None:
    assert there_and_back(pa.array(["a", None]).dictionary_encode()).type == pa.string()
    assert there_and_back(pa.array(["a"], pa.string_view())).type == pa.string()
    assert there_and_back(pa.array([b"a"], pa.large_binary())).type == pa.binary()
    for type_ in (pa.timestamp("s"), pa.timestamp("ms", "Asia/Tokyo"), pa.date64(), pa.time32("s"), pa.uint32(), pa.float16(),
                  pa.duration("ms"), pa.decimal32(5, 2), pa.list_(pa.int8(), 2), pa.large_list(pa.int8())):  # fmt: skip
        assert there_and_back(pa.nulls(2, type_)).type.equals(type_, check_metadata=True)
    assert there_and_back(pa.nulls(2)).type == pa.null()


def test_children_stay_children() -> None:
    type_ = pa.map_(pa.string(), pa.struct([("a", pa.list_(pa.int8()))]))
    assert [child.name for child in children(there_and_back(pa.nulls(1, type_)).type)] == ["key", "value"]
