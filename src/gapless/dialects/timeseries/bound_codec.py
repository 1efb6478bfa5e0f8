"""Bounds and defaults as JSON, which has no infinities, bytes or decimals: those go as one-key objects."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

from gapless.model.stats import Bound

_AS_THEY_ARE = (str, int, bool, type(None))


def encode_bound(bound: Bound | None) -> object:
    """A bound as strict JSON has it.

    >>> encode_bound(float("-inf")), encode_bound(b"k")
    ({'float': '-inf'}, {'bytes': '6b'})
    """
    if type(bound) in _AS_THEY_ARE:
        return bound
    match bound:
        case Decimal():
            return {"decimal": str(bound)}
        case bytes():
            return {"bytes": bound.hex()}
        case float() if not math.isfinite(bound):
            return {"float": str(bound)}
        case _:
            return bound


_PLAIN = (str, int, float, bool)


def decode_bound(raw: Any) -> Bound | None:
    """A bound that is not understood is no bound (None): the segment is then kept."""
    if raw is None or isinstance(raw, _PLAIN):
        return raw
    match raw:
        case {"decimal": str(text)}:
            return Decimal(text)
        case {"bytes": str(text)}:
            return bytes.fromhex(text)
        case {"float": str(text)}:
            return float(text)
    return None
