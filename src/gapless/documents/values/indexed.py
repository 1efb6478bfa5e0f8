"""What the column of an indexed path says of a document: one value, or that something else lies there. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from bson.decimal128 import Decimal128

from gapless.documents.values.order import MISSING, TypeOrder, sort_key, type_number

DATES_MS = 9_000_000_000_000
"""Dates so far from 1970 that every reader of statistics holds them as nanoseconds: from 1684 to 2255. Later ones are `other`."""
_OTHER: dict[str, Any] = {"other": True}


def indexed_value(document: Mapping[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """What a column says of what lies at its path.

    >>> indexed_value({"a": {"b": 5}}, ("a", "b"))
    {'number': 5.0, 'kind': 16}
    >>> indexed_value({"a": [5]}, ("a",)), indexed_value({}, ("a",))
    ({'other': True}, {})
    """
    value: Any = document
    for name in path:
        if not isinstance(value, Mapping):
            # Of arrays on the way elements count; what has no fields has nothing there.
            return _OTHER if isinstance(value, list | tuple) else {}
        value = value.get(name, MISSING)
    key = sort_key(value)
    match key[0]:
        case TypeOrder.NULL:
            return {}
        case TypeOrder.NUMBER:
            return _number(value)
        case TypeOrder.STRING:
            return {"text": value}
        case TypeOrder.DATE if -DATES_MS <= key[1] <= DATES_MS:
            return {"date": key[1] * 1_000}
        case _:
            return _OTHER


def _number(value: float | Decimal128) -> dict[str, Any]:
    """A number as the nearest double, with BSON's number of its type: a negative one where the double is not the number, as it was written."""
    nearest = float(value.to_decimal() if isinstance(value, Decimal128) else value)
    if not math.isfinite(nearest):
        return _OTHER
    told = not isinstance(value, Decimal128) and nearest == value and (nearest != 0 or math.copysign(1, nearest) > 0)
    return {"number": nearest, "kind": type_number(value) if told else -type_number(value)}
