"""Whether floats of which many, and not all, are distinct are shorter with a dictionary: an estimate, since making one takes long."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Floats = npt.NDArray[np.floating[Any]]

_GAIN = 0.9
"""A dictionary is made where it takes less than this share of the bytes."""

_PACKED = 0.6
"""What compression leaves of a dictionary of floats, about."""


def dictionary_bytes(distinct: int, sampled: int, group_rows: int, width: int) -> float:
    """Bytes a value with a dictionary, in a row group of so many rows of values of `width` bytes, after `distinct` of `sampled` values.

    Every value is taken to be as frequent as the others.
    """
    values = _values(distinct, sampled)
    here = values * -math.expm1(-group_rows / values)
    return math.ceil(math.log2(max(2.0, here))) / 8 + _PACKED * width * here / group_rows


def plain_bytes(values: Floats, compression: str) -> float:
    """Bytes a value where such floats, which lie next to each other, are compressed as they are; 0 where there are none."""
    if compression == "none" or not len(values):
        return float(values.itemsize if len(values) else 0)
    return len(pa.compress(values.tobytes(), codec=compression, asbytes=True)) / len(values)


def is_shorter(with_dictionary: float, plain: float) -> bool:
    """Whether a dictionary is worth its making."""
    return with_dictionary < _GAIN * plain


def may_be_shorter(distinct: int, count: int, width: int) -> bool:
    """Whether so many values, of `width` bytes in a file, may take fewer with a dictionary than without one, both compressed: not where the places
    in it, which hardly compress, take more bits than all values that occur again. True where there are none.
    """
    return not count or count * math.log2(max(2, distinct)) < 8 * width * (count - distinct)


def _values(distinct: int, sampled: int) -> float:
    """How many values there are in all, if each of `sampled` ones is any of them and `distinct` were found."""
    low, high = float(max(1, distinct)), 1e12
    for _ in range(60):
        middle = math.sqrt(low * high)
        if middle * -math.expm1(-sampled / middle) < distinct:
            low = middle
        else:
            high = middle
    return low
