"""The default of a column: one value, exactly of its type."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pyarrow as pa

from gapless.errors import InvalidOption
from gapless.model.convert import Misfit, convert
from gapless.model.stats import Bound, stats_value
from gapless.model.types import children


def parse_default(value: object, type_: pa.DataType, name: str) -> Bound:
    """A default as the log keeps it; `type_` is the column's declared type, `name` its own, for messages.

    Takes what `pyarrow.array` does. Nothing is rounded, but that a Python float means the nearest value of a narrower float.
    Raises InvalidOption for a value that is none of the type, and for a nested column, which has no default but null.
    """
    if any(children(type_)) or pa.types.is_null(type_):
        raise _refused(value, type_, name, "A default is a single value, and this type has parts, or is not known yet")
    try:
        return stats_value(_array(value, type_)[0], type_)
    except (Misfit, pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise _refused(value, type_, name, str(error)) from error


def _array(value: object, type_: pa.DataType) -> pa.Array:
    if isinstance(value, np.number | np.bool_):
        value = value.item()
    if isinstance(value, int) and not isinstance(value, bool) and not pa.types.is_temporal(type_):
        if pa.types.is_integer(type_):
            return pa.array([value], type_)
        value = Decimal(value)
    if isinstance(value, Decimal) and pa.types.is_floating(type_):
        found = pa.array([float(value)], type_)
        if found[0].as_py() != value:
            raise ValueError(f"{type_} does not hold it exactly")
        return found
    if isinstance(value, float) and pa.types.is_floating(type_):
        found = pa.array([value], type_)
        if math.isinf(found[0].as_py()) and not math.isinf(value):
            raise ValueError(f"{type_} does not reach so far")
        return found
    if isinstance(value, bytes):
        return pa.array([value], type_)
    return convert(pa.array([value]), type_)


def _refused(value: object, type_: pa.DataType, name: str, why: str) -> InvalidOption:
    shown = value.as_py() if isinstance(value, pa.Scalar) else value
    return InvalidOption(
        f"{shown!r} is no default of column {name!r}, which is {type_}",
        why=why,
        fix=f"Pass one value that {type_} holds exactly, or leave the default out: older rows are then null",
        option="default", value=value,
    )  # fmt: skip
