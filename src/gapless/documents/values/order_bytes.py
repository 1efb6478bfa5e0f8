"""The order of BSON values as bytes, which compare as the values do. Pure.

The bytes of a value are never the beginning of another's, so that those of several values in a row compare value by value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from struct import Struct
from sys import float_info

from gapless.documents.values.order import Key, TypeOrder

_DOUBLE, _BITS, _EXPONENT, _DATE = Struct(">d"), Struct(">Q"), Struct(">H"), Struct(">Q")
_SIGN, _ALL = 1 << 63, (1 << 64) - 1
_REVERSED = bytes(255 - one for one in range(256))
_EXACT = Context(prec=800)
"""Digits enough for a double with another number taken off."""
_NAN, _NUMBER = b"\x00", b"\x01"
_BELOW, _EQUAL, _ABOVE = b"\x00", b"\x01", b"\x02"
_END = b"\x00"


def order_bytes(key: Key) -> bytes:
    """What a value compares by, as bytes; `key` is as `sort_key` gives it. Equal keys have the same.

    >>> from gapless.documents.values.order import sort_key
    >>> order_bytes(sort_key(2)) < order_bytes(sort_key(2.5)) < order_bytes(sort_key(10)) < order_bytes(sort_key("10"))
    True
    """
    made = _BYTES.get(key[0])
    # From 1 on: the least type is -1, and 0 ends an array.
    head = bytes((key[0] + 2,))
    return head if made is None else head + made(key)


def reversed_bytes(data: bytes) -> bytes:
    """Bytes that compare the other way."""
    return data.translate(_REVERSED)


def _text(value: str) -> bytes:
    return value.encode("utf-8", "surrogatepass").replace(b"\x00", b"\x00\xff") + b"\x00\x00"


def _number(key: Key) -> bytes:
    if key[1] == 0:
        return _NAN
    value: int | float | Decimal = key[2]
    nearest = float(value)
    # The nearest double keeps the order of all numbers; what is left of a number parts those that share one.
    if not math.isfinite(nearest) and not _is_infinite(value):
        nearest = math.copysign(float_info.max, nearest)
    (bits,) = _BITS.unpack(_DOUBLE.pack(nearest or 0.0))
    return (
        _NUMBER + _BITS.pack(bits ^ (_ALL if bits & _SIGN else _SIGN)) + (_EQUAL if value == nearest else _rest(value, nearest))
    )


def _is_infinite(value: float | Decimal) -> bool:
    return value.is_infinite() if isinstance(value, Decimal) else math.isinf(value)


def _rest(value: float | Decimal, nearest: float) -> bytes:
    exact = Decimal(value)
    # Beyond doubles the number itself is told, which is more than any rest.
    rest = exact if abs(exact) > _LARGEST else _EXACT.subtract(exact, Decimal(nearest))
    digits = "".join(map(str, rest.as_tuple().digits)).rstrip("0").encode()
    size = _EXPONENT.pack(rest.adjusted() + 0x8000) + digits + _END
    return _BELOW + reversed_bytes(size) if rest < 0 else _ABOVE + size


_LARGEST = Decimal(float_info.max) * 2


def _object(key: Key) -> bytes:
    return b"".join(bytes((order + 2,)) + _text(name) + order_bytes(one) for order, name, one in key[1]) + _END


_BYTES: Mapping[int, Callable[[Key], bytes]] = {
    TypeOrder.NUMBER: _number,
    TypeOrder.STRING: lambda key: _text(key[1]),
    TypeOrder.OBJECT: _object,
    TypeOrder.ARRAY: lambda key: b"".join(map(order_bytes, key[1])) + _END,
    TypeOrder.BINARY: lambda key: key[1].to_bytes(4, "big") + bytes((key[2],)) + key[3],
    TypeOrder.OBJECT_ID: lambda key: key[1],
    TypeOrder.BOOL: lambda key: bytes((key[1],)),
    TypeOrder.DATE: lambda key: _DATE.pack(key[1] + _SIGN),
    TypeOrder.TIMESTAMP: lambda key: key[1].to_bytes(4, "big") + key[2].to_bytes(4, "big"),
    TypeOrder.REGEX: lambda key: _text(key[1]) + _text(key[2]),
    TypeOrder.CODE: lambda key: _text(key[1]),
    TypeOrder.CODE_WITH_SCOPE: lambda key: _text(key[1]) + order_bytes(key[2]),
}  # fmt: skip
"""What follows the type; nothing for types of one value."""
