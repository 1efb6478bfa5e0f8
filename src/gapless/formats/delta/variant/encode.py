"""Encode Python values as Delta's variant type (Parquet's variant encoding). Pure.

Source: Parquet's VariantEncoding.md. A value is its header, a byte, and what follows; an object names its fields by their places in a
dictionary, the metadata, and has them in the order of their names.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from gapless.errors import InvalidValue

NULL = b"\x00"
_OBJECT, _ARRAY = 2, 3
_SHORT = 63
"""Bytes of a text that is told by its header."""
_INTEGERS = ((3, "b", 7), (4, "h", 15), (5, "i", 31), (6, "q", 63))
"""The types of whole numbers: code, form and bits."""
_DECIMALS = ((8, 4, 9), (9, 8, 18), (10, 16, 38))
"""The types of decimals: code, bytes, and the digits that fit."""
_MOST_DIGITS = 38
_DEEPEST = 180
_EPOCH_DAY = date(1970, 1, 1)
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001
_US = timedelta(microseconds=1)


def encode_variant(value: object) -> tuple[bytes, bytes]:
    """The `metadata` and the `value` of a variant: what the two fields of a variant column hold.

    Args:
        value: None, bool, int, float, str, bytes, Decimal, date, time, datetime (with a zone an instant), UUID, a list or tuple, or a mapping with
            texts as keys, whose order a variant does not keep.

    An int takes as few bytes as it needs; one of more than 64 bits becomes a decimal. Raises InvalidValue for what a variant cannot hold: numbers
    of more than 38 digits, Decimal's NaN and infinities, a time with a zone, 180 levels, and values of other types.

    >>> from gapless.formats.delta.variant.decode import decode_variant
    >>> metadata, value = encode_variant({"b": 1, "a": [True, None]})
    >>> decode_variant(metadata, value)
    {'a': [True, None], 'b': 1}
    """
    metadata, encoding = metadata_of(value)
    return metadata, encoding.value(value)


@dataclass(frozen=True, slots=True)
class Encoding:
    """Encodes values whose fields are named in one variant's metadata."""

    ids: Mapping[str, int]

    def value(self, value: Any) -> bytes:
        """A value, or a part of one. Raises InvalidValue."""
        match value:
            case Mapping():
                return object_of((self.ids[name], self.value(value[name])) for name in sorted(value, key=_in_order))
            case list() | tuple():
                return array_of([self.value(one) for one in value])
        return scalar(value)


def metadata_of(value: object) -> tuple[bytes, Encoding]:
    """The metadata of a value, and what encodes it and its parts. Raises InvalidValue for names and nesting that no variant has."""
    names = sorted({_in_order(name) for name in _names(value, 0)})
    return _metadata(names), Encoding({name.decode(errors="surrogatepass"): at for at, name in enumerate(names)})


def _names(value: object, depth: int) -> Iterator[str]:
    if depth > _DEEPEST:
        raise _refuse(value, f"It has more than {_DEEPEST} levels", "Say it with fewer levels")
    if isinstance(value, Mapping):
        for name, one in value.items():
            if not isinstance(name, str):
                raise _refuse(name, "Fields of an object are called by texts", "Pass texts as keys")
            yield name
            yield from _names(one, depth + 1)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _names(one, depth + 1)


def _metadata(names: Sequence[bytes]) -> bytes:
    size = sum(map(len, names))
    width = _width(max(size, len(names)))
    ends = [0]
    for name in names:
        ends.append(ends[-1] + len(name))
    head = 1 | 1 << 4 | (width - 1) << 6
    return bytes([head]) + b"".join(one.to_bytes(width, "little") for one in (len(names), *ends)) + b"".join(names)


def _width(number: int) -> int:
    return max(1, -(-number.bit_length() // 8))


def _in_order(name: str) -> bytes:
    return name.encode(errors="surrogatepass")


def object_of(fields: Iterable[tuple[int, bytes]]) -> bytes:
    """An object of fields, each by its place in the metadata and encoded, which come in the order of their names."""
    parts = list(fields)
    width, large = _width(max((place for place, _ in parts), default=0)), len(parts) > 0xFF
    ends, offset_width = _ends([one for _, one in parts])
    header = _OBJECT | (offset_width - 1) << 2 | (width - 1) << 4 | large << 6
    places = b"".join(place.to_bytes(width, "little") for place, _ in parts)
    return bytes([header]) + _count(len(parts), large=large) + places + ends + b"".join(one for _, one in parts)


def array_of(elements: Sequence[bytes]) -> bytes:
    """An array of encoded elements."""
    large = len(elements) > 0xFF
    ends, offset_width = _ends(elements)
    return (
        bytes([_ARRAY | (offset_width - 1) << 2 | large << 4]) + _count(len(elements), large=large) + ends + b"".join(elements)
    )


def _count(count: int, *, large: bool) -> bytes:
    return count.to_bytes(4 if large else 1, "little")


def _ends(parts: Sequence[bytes]) -> tuple[bytes, int]:
    """Where each part begins, and where the last one ends; and in how many bytes each of these is."""
    at = [0]
    for one in parts:
        at.append(at[-1] + len(one))
    width = _width(at[-1])
    return b"".join(one.to_bytes(width, "little") for one in at), width


def scalar(value: Any) -> bytes:
    """A value that is neither an object nor an array. Raises InvalidValue."""
    match value:
        case None:
            return NULL
        case bool():
            return bytes([(1 if value else 2) << 2])
        case int():
            return _integer(value)
        case float():
            return packed(7, "d", value)
        case str():
            return text(value)
        case bytes():
            return sized(15, value)
        case Decimal():
            return _decimal(value)
        case datetime():
            return instant(value)
        case date():
            return packed(11, "i", (value - _EPOCH_DAY).days)
        case time() if value.tzinfo is None:
            us = ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
            return packed(17, "q", us)
    if type(value).__module__ == "uuid":  # the core makes none, and so may not import its class
        return bytes([20 << 2]) + bytes(value.bytes)
    raise _refuse(value, f"A variant has no type for a {type(value).__name__}", "Pass a text, number, time, list or mapping")


def packed(code: int, form: str, value: float) -> bytes:
    """A number of a type by its code."""
    return bytes([code << 2]) + struct.pack(f"<{form}", value)


def sized(code: int, data: bytes) -> bytes:
    """Bytes of a type by its code."""
    return bytes([code << 2]) + len(data).to_bytes(4, "little") + data


def text(value: str) -> bytes:
    """A text. Raises InvalidValue for half of a character."""
    try:
        data = value.encode()
    except UnicodeEncodeError as error:
        raise _refuse(value, "It holds half of a character beyond the Basic Multilingual Plane", "Pass valid text") from error
    return bytes([len(data) << 2 | 1]) + data if len(data) <= _SHORT else sized(16, data)


def decimal(unscaled: int, scale: int, digits: int = 0) -> bytes:
    """A decimal of at most 38 digits and a scale from 0 to 38, of the type for so many `digits`, or for those that it has."""
    wanted = max(digits, scale, len(str(abs(unscaled))))
    code, size, _ = next(one for one in _DECIMALS if wanted <= one[2])
    return bytes([code << 2, scale]) + unscaled.to_bytes(size, "little", signed=True)


def instant(value: datetime) -> bytes:
    """An instant, or a time without a zone."""
    if value.tzinfo is None:
        return packed(13, "q", (value - _EPOCH) // _US)
    return packed(12, "q", (value - _EPOCH.replace(tzinfo=UTC)) // _US)


def _integer(value: int) -> bytes:
    for code, form, bits in _INTEGERS:
        if -(1 << bits) <= value < 1 << bits:
            return packed(code, form, value)
    return _decimal(Decimal(value))


def _decimal(value: Decimal) -> bytes:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise _refuse(value, "A decimal of a variant is a number", "Pass a float, whose NaN and infinities it has")
    unscaled = int("".join(map(str, digits)) or "0") * 10 ** min(max(exponent, 0), 2 * _MOST_DIGITS)
    if len(str(unscaled)) > _MOST_DIGITS or -exponent > _MOST_DIGITS:
        raise _refuse(value, f"A decimal of a variant has up to {_MOST_DIGITS} digits", "Pass a float, or a text")
    return decimal(-unscaled if sign else unscaled, max(-exponent, 0))


def _refuse(value: object, why: str, fix: str) -> InvalidValue:
    shown = repr(value)
    what = f"{shown if len(shown) <= 80 else f'{shown[:77]}…'} cannot be a variant"
    return InvalidValue(what, why=why, fix=fix, column="", row=0, value=None)
