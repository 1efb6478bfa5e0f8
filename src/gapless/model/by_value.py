"""Values whose type nobody declared, such as Python's and JSON's numbers, as a column's type: each that the type holds is taken."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gapless.model.column_ids import AS_NAMED
from gapless.model.convert import Misfit, convert, convert_leaf, exact_cast
from gapless.model.widening import MANTISSA_BITS, compare_types, why_leaf_does_not_fit

Floats = Literal["nearest", "exact"]
"""What becomes of a float that a column of narrower floats does not hold exactly: its nearest float there, or a refusal."""

_MOST_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
"""Of an integer, by its bits."""


def why_never(source: pa.DataType, target: pa.DataType) -> str | None:
    """Why no value of an inferred type is one of the type `target`; None where its values decide, at any depth.

    Numbers of every kind may be one another's, lists of any length those of a fixed size, bytes those of a fixed width. Booleans are no
    numbers, texts nothing but texts, dates no timestamps.

    >>> why_never(pa.int64(), pa.int8())
    >>> why_never(pa.bool_(), pa.int8())
    'no lossless conversion'
    """
    return compare_types(source, target, _why_never, sizes=False)


def _why_never(source: pa.DataType, target: pa.DataType) -> str | None:
    if (_is_number(source) and _is_number(target)) or (pa.types.is_binary(source) and pa.types.is_fixed_size_binary(target)):
        return None
    return why_leaf_does_not_fit(source, target)


def _is_number(type_: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_))


def convert_by_value(array: pa.Array, target: pa.DataType, floats: Floats = "nearest") -> pa.Array:
    """The values as type `target`; raises Misfit at the first that it does not hold.

    Whole numbers are integers however they are written, integers are floats and decimals where these hold them exactly, and a float is a
    decimal where the shortest text that means the float is one: 0.1 is 0.10.
    """
    return convert(array, target, AS_NAMED, partial(_leaf, floats=floats))


def _leaf(array: pa.Array, target: pa.DataType, floats: Floats) -> pa.Array:
    t, source = pa.types, array.type
    if source == target or not (_is_number(source) and _is_number(target)):
        return exact_cast(array, target) if _is_sized(source, target) else convert_leaf(array, target)
    if t.is_floating(target):
        if t.is_floating(source):
            return _narrowed(array, target, floats) if source.bit_width > target.bit_width else pc.cast(array, target)
        return _float_of_integer(array, target) if t.is_integer(source) else _float_of_decimal(array, target)
    if t.is_decimal(target) and t.is_floating(source):
        return _decimal_of_float(array, target)
    if t.is_decimal(target) and t.is_integer(source):
        array = pc.cast(array, pa.decimal128(_MOST_DIGITS[source.bit_width], 0))
    return exact_cast(array, target)


def _is_sized(source: pa.DataType, target: pa.DataType) -> bool:
    return bool(pa.types.is_binary(source) and pa.types.is_fixed_size_binary(target))


def _narrowed(array: pa.Array, target: pa.DataType, floats: Floats) -> pa.Array:
    found = pc.cast(array, target)
    back = pc.cast(found, array.type)
    if floats == "nearest":
        _refuse(pc.and_(pc.is_inf(back), pc.is_finite(array)), array, f"{target} does not reach that far")
    else:
        _refuse(pc.and_not(pc.not_equal(back, array), pc.is_nan(array)), array, f"{target} does not hold it exactly")
    return found


def _float_of_decimal(array: pa.Array, target: pa.DataType) -> pa.Array:
    wide = pc.cast(array, pa.float64())
    return wide if target == pa.float64() else _narrowed(wide, target, "nearest")


def _float_of_integer(array: pa.Array, target: pa.DataType) -> pa.Array:
    if target != pa.float16():
        try:
            return pc.cast(array, target)
        except pa.ArrowInvalid:
            pass  # Arrow refuses those beyond the range in which all are exact, even where one of them is.
    if array.type.bit_width <= MANTISSA_BITS[target] - 1:
        return pc.cast(array, target)
    whole: npt.NDArray[Any] = array.fill_null(0).to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):
        found = whole.astype(target.to_pandas_dtype())
    wide, bits = found.astype(np.float64), array.type.bit_width - pa.types.is_signed_integer(array.type)
    # A float past the integers would wrap on its way back.
    inside = (wide < 2.0**bits) & (wide >= -(2.0**bits))
    back = np.where(inside, wide, 0).astype(whole.dtype)
    _refuse(pa.array(~inside | (back != whole)), array, f"{target} does not hold it exactly")
    return pa.array(found, target, mask=array.is_null().to_numpy(zero_copy_only=False))


def _decimal_of_float(array: pa.Array, target: pa.DataType) -> pa.Array:
    wide = pc.cast(array, pa.float64())
    # Arrow makes other numbers of texts that are far out of a decimal's reach, on either side.
    size = pc.abs(wide)
    too_large = pc.greater_equal(size, float(f"1e{target.precision - target.scale}"))
    too_small = pc.and_(pc.greater(size, 0.0), pc.less(size, float(f"1e-{target.scale}")))
    _refuse(pc.or_(too_large, too_small), array, f"{target} does not hold it exactly")
    texts = pc.cast(wide, pa.string())
    try:
        return exact_cast(texts, target)
    except Misfit as misfit:
        row = misfit.row or 0
        raise Misfit(f"{target} does not hold it exactly", row, array[row]) from None


def _refuse(bad: pa.Array, array: pa.Array, why: str) -> None:
    row = pc.index(bad, pa.scalar(True)).as_py() if len(array) else -1
    if row >= 0:
        raise Misfit(why, row, array[row])
