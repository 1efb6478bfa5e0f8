"""Values of one type as those of another, where each of them is a value of that too."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from gapless.model.convert import Misfit, convert, exact_cast, opened
from gapless.model.types import bare_type, children, is_any_list, with_children
from gapless.model.widening import why_not

_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
"""Of whole numbers, by their bits."""


def lifted(source: pa.DataType, target: pa.DataType) -> pa.DataType:
    """The source type with whole numbers as decimals wherever the target has decimals, and bytes of one size as any, at any depth.

    >>> lifted(pa.int64(), pa.decimal128(10, 2))
    Decimal128Type(decimal128(19, 0))
    """
    bare = bare_type(source)
    if pa.types.is_integer(bare) and pa.types.is_decimal(target):
        return pa.decimal128(20 if bare == pa.uint64() else _DIGITS[bare.bit_width], 0)
    if pa.types.is_fixed_size_binary(bare) and pa.types.is_binary(target):
        return target
    if pa.types.is_struct(bare) and pa.types.is_struct(target):
        wanted = {one.name: one.type for one in target}
        return with_children(bare, lambda one: one.with_type(lifted(one.type, wanted.get(one.name, one.type))))
    same_kind = (is_any_list(bare) and is_any_list(target)) or (pa.types.is_map(bare) and pa.types.is_map(target))
    if not same_kind:
        return source
    wanted_below = iter([one.type for one in children(target)])
    return with_children(bare, lambda one: one.with_type(lifted(one.type, next(wanted_below))))


def why_unfit(source: pa.DataType, target: pa.DataType) -> str | None:
    """Why values of an input's type cannot be kept as a column's; None where they can, each that the column's type holds."""
    return why_not(lifted(source, target), target)


def fitted_values(array: pa.Array, target: pa.DataType) -> pa.Array:
    """An input's values as a column's type; raises Misfit at the first that it does not hold."""
    array = opened(array)
    wide = lifted(array.type, target)
    if wide != array.type:
        array = array.cast(wide)
    return convert(array, target)


def assigned_values(array: pa.Array, target: pa.DataType, *, naive_is_utc: bool) -> pa.Array:
    """Computed values as a column's type: numbers of any kind, as long as none loses anything but what a float rounds.

    `naive_is_utc` reads naive times as UTC where the column has instants. Raises Misfit.
    """
    t, source = pa.types, array.type
    if t.is_floating(source) and t.is_floating(target):
        return _rounded(array, target)
    if t.is_decimal(source) and t.is_floating(target):
        return pc.cast(array, target)
    if (lost := _lost_field(source, target)) is not None:
        raise Misfit(f"the column has no field {lost!r}")
    exact = (
        ((t.is_floating(source) or t.is_decimal(source)) and t.is_integer(target))
        or (t.is_integer(source) and t.is_floating(target))
        or (t.is_date(source) and t.is_timestamp(target))
        or (naive_is_utc and t.is_timestamp(source) and source.tz is None and t.is_timestamp(target))
    )  # fmt: skip
    return exact_cast(array, target) if exact else fitted_values(array, target)


def _lost_field(source: pa.DataType, target: pa.DataType) -> str | None:
    """A field of a struct, at any depth, that the target does not have."""
    if pa.types.is_struct(source) and pa.types.is_struct(target):
        known = {one.name: one.type for one in target}
        return next((one.name for one in source if one.name not in known), None) or _first_lost(
            (one.type, known[one.name]) for one in source
        )
    if (is_any_list(source) and is_any_list(target)) or (pa.types.is_map(source) and pa.types.is_map(target)):
        return _first_lost((one.type, other.type) for one, other in zip(children(source), children(target), strict=True))
    return None


def _first_lost(pairs: Iterable[tuple[pa.DataType, pa.DataType]]) -> str | None:
    return next((lost for source, target in pairs if (lost := _lost_field(source, target)) is not None), None)


def _rounded(array: pa.Array, target: pa.DataType) -> pa.Array:
    found = pc.cast(array, target)
    overflown = pc.and_(pc.is_inf(found), pc.is_finite(array))
    row = pc.index(overflown, True).as_py() if len(array) else -1
    if row >= 0:
        raise Misfit(f"{target} does not reach that far", row, array[row])
    return found
