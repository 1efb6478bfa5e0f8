"""Statistics of one column in one segment, in the order that values of its type have."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import cast

import pyarrow as pa

from gapless.model.instant import NS_PER, Unit

Bound = bool | int | float | str | bytes | Decimal
"""A comparable value: timestamps are ns, dates days, times and durations ns, all as ints."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnStats:
    """Absent is not null and not zero: None means "not known", and pruning must then keep the segment.

    `min` and `max` are inclusive, ignore nulls and NaN, and may be wider than the data; both are None
    where every value is null or NaN. A zero `min` stands for -0.0 and a zero `max` for +0.0.
    """

    min: Bound | None = None
    max: Bound | None = None
    nulls: int | None = None
    nans: int | None = None
    """Count of NaN in a floating column; None for other types or where not known."""


_NO_BOUNDS = ("is_null", "is_nested", "is_dictionary")


@lru_cache(256)
def supports_bounds(type_: pa.DataType) -> bool:
    """Whether values of an Arrow type have a `Bound`: not nulls, nested types, dictionaries or extensions."""
    if isinstance(type_, pa.BaseExtensionType):
        return False
    return not any(getattr(pa.types, check)(type_) for check in _NO_BOUNDS) and not pa.types.is_interval(type_)


def stats_value(value: object, type_: pa.DataType) -> Bound:
    """An Arrow scalar, or what `pa.scalar(value, type_)` accepts, as a `Bound`: exact, never rounded.

    Raises ValueError for a null and TypeError for a type without bounds.

    >>> stats_value(pa.scalar(1, pa.timestamp("us")), pa.timestamp("us"))
    1000
    """
    if not supports_bounds(type_):
        raise TypeError(f"values of {type_} have no bounds")
    scalar = value if isinstance(value, pa.Scalar) else pa.scalar(value, type_)
    if not scalar.is_valid:
        raise ValueError("a null is no bound")
    if pa.types.is_date64(type_):
        return int(scalar.value) // 86_400_000
    if pa.types.is_date32(type_):
        return int(scalar.value)
    if pa.types.is_temporal(type_):
        return int(scalar.value) * NS_PER[cast("Unit", type_.unit)]
    bound: Bound = float(scalar.as_py()) if pa.types.is_floating(type_) else scalar.as_py()
    return bound


def arrow_scalar(value: Bound, type_: pa.DataType) -> pa.Scalar:
    """A bound as a scalar of `type_`: ns and days go back to the type's own unit. Raises TypeError for what is no value of it."""
    if not pa.types.is_temporal(type_):
        return pa.scalar(value, type_)
    if not isinstance(value, int):
        raise TypeError(f"{value!r} is no instant")
    days = pa.types.is_date(type_)
    steps = value * (86_400_000 if pa.types.is_date64(type_) else 1) if days else value // NS_PER[cast("Unit", type_.unit)]
    return pa.scalar(steps, type_)
