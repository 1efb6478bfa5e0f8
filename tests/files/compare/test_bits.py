"""Rows that are the same to the last bit, nested ones too."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

from gapless.files.compare.bits import same_bits

F = pa.float64()


@pytest.mark.parametrize(
    "type_",
    [
        F,
        pa.list_(F),
        pa.list_(F, 1),
        pa.large_list(F),
        pa.struct([("x", F)]),
        pa.map_(pa.string(), F),
        pa.list_(pa.struct([("x", pa.map_(pa.string(), F))])),
    ],
    ids=str,
)
def test_zeros_have_signs_and_nan_is_itself_at_any_depth(type_: pa.DataType) -> None:
    def value(one: float | None, kind: pa.DataType = type_) -> object:
        if kind == F:
            return one
        if pa.types.is_struct(kind):
            return {"x": value(one, kind.field("x").type)}
        return [("k", value(one, kind.item_type))] if pa.types.is_map(kind) else [value(one, kind.value_type)]

    def table(*values: float | None, null: bool = False) -> pa.Table:
        column = pa.array([*map(value, values), None if null else value(7.0)], type_)
        return pa.table({"c": pa.chunked_array([column.slice(0, 1), column.slice(1)])})

    base = table(0.0, math.nan, None)
    assert same_bits(base, table(0.0, math.nan, None))
    assert not same_bits(base, table(-0.0, math.nan, None))
    assert not same_bits(base, table(0.0, 1.0, None))
    assert not same_bits(base, table(0.0, math.nan, 2.0))
    assert not same_bits(base, table(0.0, math.nan, None, null=True))
    assert not same_bits(base, base.slice(1))
