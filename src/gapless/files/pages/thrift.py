"""Thrift's compact protocol, as far as Parquet footers use it: bytes to plain values and back, the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_TRUE, _FALSE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 4, 5, 6, 7, 8, 9, 10, 12

Struct = dict[int, tuple[int, Any]]
"""By field number in the order of the bytes: the compact type's number, and the value.

Numbers and truth values are Python's, doubles the eight bytes they are, binaries and texts bytes, lists `Items`, structs as here.
"""


@dataclass(frozen=True, slots=True)
class Items:
    """A list's elements, all of one compact type."""

    kind: int
    values: list[Any]


def decode(data: bytes) -> Struct:
    """The struct at the beginning of `data`. Raises ValueError for a type that footers do not use, IndexError where bytes lack."""
    return _Decoder(data).struct()


def decode_first(data: bytes) -> tuple[Struct, int]:
    """As `decode`, with the number of bytes that the struct takes; IndexError also where a text or binary is cut off."""
    decoder = _Decoder(data)
    struct = decoder.struct()
    if decoder.at > len(data):
        raise IndexError(decoder.at)
    return struct, decoder.at


def encode(struct: Struct) -> bytes:
    """A struct's bytes; those that `decode` read it from."""
    return fields(struct, 0) + _STOP


def fields(struct: Struct, last: int) -> bytes:
    """The bytes of the fields of a struct that follow field number `last`, without its end."""
    out = bytearray()
    _put_fields(out, struct, last)
    return bytes(out)


def listed(structs: Sequence[bytes]) -> bytes:
    """The bytes of a list of structs, which are encoded."""
    count = len(structs)
    head = bytes([count << 4 | _STRUCT]) if count < 15 else bytes([15 << 4 | _STRUCT]) + unsigned(count)
    return b"".join((head, *structs))


def signed(value: int) -> bytes:
    """A whole number's bytes.

    >>> signed(-1).hex(), signed(100).hex()
    ('01', 'c801')
    """
    return unsigned((value << 1) ^ (value >> 63))


def unsigned(value: int) -> bytes:
    """The bytes of a number that is not below zero, where none may be: lengths, and headers of runs."""
    if value < 1 << 7:
        return _BYTES[value]
    if value < 1 << 14:
        return bytes((value & 127 | 128, value >> 7))
    if value < 1 << 21:
        return bytes((value & 127 | 128, value >> 7 & 127 | 128, value >> 14))
    if 1 << 28 <= value < 1 << 35:  # checksums, mostly
        return bytes((value & 127 | 128, value >> 7 & 127 | 128, value >> 14 & 127 | 128, value >> 21 & 127 | 128, value >> 28))
    out = bytearray()
    _put_varint(out, value)
    return bytes(out)


_BYTES = [bytes([number]) for number in range(128)]
_STOP = b"\0"


class _Decoder:
    """Reads one value after the other."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    @property
    def at(self) -> int:
        """Bytes read so far."""
        return self._at

    def struct(self) -> Struct:
        fields: Struct = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._signed()
            kind = head & 15
            fields[number] = kind, kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind)
        return fields

    def _value(self, kind: int) -> Any:
        match kind:
            case 4 | 5 | 6:
                return self._signed()
            case 8:
                return self._take(self._varint())
            case 12:
                return self.struct()
            case 9 | 10:
                return self._items()
            case 1 | 2 | 3:
                return self._byte()
            case 7:
                return self._take(8)
        raise ValueError(f"a Parquet footer with a Thrift value of compact type {kind}")

    def _items(self) -> Items:
        head = self._byte()
        count = head >> 4 if head >> 4 < 15 else self._varint()
        kind = head & 15
        return Items(kind, [self._value(kind) for _ in range(count)])

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _take(self, length: int) -> bytes:
        self._at += length
        return self._data[self._at - length : self._at]

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise ValueError("a Thrift number of more than ten bytes")

    def _signed(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)


def _put_struct(out: bytearray, struct: Struct) -> None:
    _put_fields(out, struct, 0)
    out += _STOP


def _put_fields(out: bytearray, struct: Struct, last: int) -> None:
    for number, (kind, value) in struct.items():
        if 0 < number - last < 16:
            out.append((number - last) << 4 | kind)
        else:
            out.append(kind)
            _put_signed(out, number)
        last = number
        if kind not in (_TRUE, _FALSE):
            _put_value(out, kind, value)


def _put_value(out: bytearray, kind: int, value: Any) -> None:
    if kind in (_I16, _I32, _I64):
        _put_signed(out, value)
    elif kind == _BINARY:
        _put_varint(out, len(value))
        out += value
    elif kind == _STRUCT:
        _put_struct(out, value)
    elif kind in (_LIST, _SET):
        _put_items(out, value)
    elif kind == _DOUBLE:
        out += value
    else:
        out.append(value)


def _put_items(out: bytearray, items: Items) -> None:
    count = len(items.values)
    out.append(min(count, 15) << 4 | items.kind)
    if count >= 15:
        _put_varint(out, count)
    for value in items.values:
        _put_value(out, items.kind, value)


def _put_varint(out: bytearray, value: int) -> None:
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


def _put_signed(out: bytearray, value: int) -> None:
    _put_varint(out, (value << 1) ^ (value >> 63))
