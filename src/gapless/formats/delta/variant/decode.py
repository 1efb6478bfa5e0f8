"""Decode Delta's variant type (Parquet's variant encoding) to Python values. Pure."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pyarrow as pa

from gapless.errors import CorruptTable

Read = Callable[[bytes, int], Any]
"""Reads a primitive whose bytes begin at an offset."""

_PRIMITIVE, _SHORT_TEXT, _OBJECT = 0, 1, 2
_TEXT = 16
_DEPTH = 200
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001


class _Damaged(Exception):
    """What is no variant, before the error has its facts."""


def decode_variant(metadata: bytes, value: bytes) -> Any:
    """The value: None, bool, int, float, str, bytes, Decimal, date, time, datetime (aware where it is an instant), UUID, list or dict.

    Raises CorruptTable for bytes that are no variant.
    """
    with _telling_damage():
        return _Reader(value, _names(metadata)).value(0, 0)


@contextmanager
def _telling_damage() -> Iterator[None]:
    """Raise CorruptTable where bytes are no variant."""
    try:
        yield
    except (_Damaged, IndexError, struct.error, UnicodeDecodeError, OverflowError, ValueError) as error:
        raise CorruptTable(
            f"a variant is damaged: {error}",
            why="Its bytes do not follow Parquet's variant encoding",
            fix="Restore the data file, or read the column as struct<metadata: binary, value: binary>",
            path="",
        ) from error


def dictionary_of(metadata: bytes) -> tuple[str, ...]:
    """The field names in the metadata of a variant, of which one may be there several times. Raises CorruptTable."""
    with _telling_damage():
        return _names(metadata)


def object_parts(value: bytes) -> list[tuple[int, bytes]]:
    """The fields of an object, each by the place of its name, as they are encoded. Raises CorruptTable for what is no object."""
    with _telling_damage():
        return _Reader(value, ()).parts()


def is_object(value: bytes) -> bool:
    """Whether an encoded value is an object."""
    return bool(value) and value[0] & 0b11 == _OBJECT


def scalar_kind(value: bytes) -> int | None:
    """The type of an encoded value that has no parts, by its code in the encoding; None for objects and arrays."""
    basic, header = (value[0] & 0b11, value[0] >> 2) if value else (_OBJECT, 0)
    return header if basic == _PRIMITIVE else _TEXT if basic == _SHORT_TEXT else None


def decode_part(value: bytes) -> Any:
    """An encoded value that has no parts. Raises CorruptTable."""
    with _telling_damage():
        return _Reader(value, ()).value(0, 0)


def _names(metadata: bytes) -> tuple[str, ...]:
    """The dictionary of field names."""
    if not metadata or metadata[0] & 0x0F != 1:
        raise _Damaged("its metadata has no version 1")
    width = (metadata[0] >> 6) + 1
    count = _unsigned(metadata, 1, width)
    starts = [_unsigned(metadata, 1 + width * (1 + at), width) for at in range(count + 1)]
    base = 1 + width * (count + 2)
    return tuple(_piece(metadata, base + start, base + end).decode() for start, end in pairwise(starts))


class _Reader:
    """Reads the values of one variant, each part of its bytes once at most: offsets that say otherwise are damage."""

    def __init__(self, data: bytes, names: tuple[str, ...]) -> None:
        self._data, self._names = data, names
        self._left = len(data)

    def value(self, at: int, depth: int) -> Any:
        """The value that begins at an offset."""
        basic, header = self._data[at] & 0b11, self._data[at] >> 2
        self._left -= 1
        if depth > _DEPTH or self._left < 0:
            raise _Damaged("it is nested too deep, or in itself")
        if basic == _PRIMITIVE:
            read = _PRIMITIVES.get(header)
            if read is None:
                raise _Damaged(f"it has the unknown type {header}")
            return read(self._data, at + 1)
        if basic == _SHORT_TEXT:
            return _piece(self._data, at + 1, at + 1 + header).decode()
        return self._object(at, depth) if basic == _OBJECT else self._array(at, depth)

    def _object(self, at: int, depth: int) -> dict[str, Any]:
        header = self._data[at] >> 2
        id_width = (header >> 2 & 0b11) + 1
        count, ids = self._count(at + 1, 4 if header >> 4 & 1 else 1)
        starts, base = self._starts(ids + count * id_width, count, (header & 0b11) + 1)
        names = [self._names[_unsigned(self._data, ids + index * id_width, id_width)] for index in range(count)]
        if len(set(names)) < count:
            raise _Damaged("an object has a field twice")
        return {name: self.value(base + start, depth + 1) for name, start in zip(names, starts, strict=True)}

    def parts(self) -> list[tuple[int, bytes]]:
        """The fields of the object that begins at 0, by the places of their names, as they are encoded."""
        if self._data[0] & 0b11 != _OBJECT:
            raise _Damaged("what is left of an object is no object")
        header = self._data[0] >> 2
        id_width = (header >> 2 & 0b11) + 1
        count, ids = self._count(1, 4 if header >> 4 & 1 else 1)
        starts, base = self._starts(ids + count * id_width, count + 1, (header & 0b11) + 1)
        base -= (header & 0b11) + 1
        if max(starts) != starts[-1] or base + starts[-1] > len(self._data):
            raise _Damaged("an object has a field beyond its end")
        # Fields may lie in another order than their names.
        ends = dict(pairwise(sorted(set(starts))))
        places = [_unsigned(self._data, ids + index * id_width, id_width) for index in range(count)]
        return [
            (place, _piece(self._data, base + start, base + ends.get(start, start)))
            for place, start in zip(places, starts[:-1], strict=True)
        ]

    def _array(self, at: int, depth: int) -> list[Any]:
        header = self._data[at] >> 2
        count, offsets = self._count(at + 1, 4 if header >> 2 & 1 else 1)
        starts, base = self._starts(offsets, count, (header & 0b11) + 1)
        return [self.value(base + start, depth + 1) for start in starts]

    def _count(self, at: int, width: int) -> tuple[int, int]:
        """How many parts there are, and where what follows begins."""
        count = _unsigned(self._data, at, width)
        if count > len(self._data):
            raise _Damaged(f"it says {count:,} parts, and has {len(self._data):,} bytes")
        return count, at + width

    def _starts(self, at: int, count: int, width: int) -> tuple[list[int], int]:
        """Where the parts begin, counted from the second: the end of their offsets, of which the last is the end of all."""
        return [_unsigned(self._data, at + index * width, width) for index in range(count)], at + (count + 1) * width


def _unsigned(data: bytes, at: int, width: int) -> int:
    return int.from_bytes(_piece(data, at, at + width), "little")


def _piece(data: bytes, start: int, end: int) -> bytes:
    if not 0 <= start <= end <= len(data):
        raise _Damaged(f"it ends after {len(data):,} bytes, where {end:,} are needed")
    return data[start:end]


def _constant(value: object) -> Read:
    return lambda _data, _at: value


def _packed(form: str, convert: Callable[[Any], Any] = lambda value: value) -> Read:
    reader = struct.Struct("<" + form)

    def read(data: bytes, at: int) -> Any:
        return convert(reader.unpack(_piece(data, at, at + reader.size))[0])

    return read


def _decimal(width: int) -> Read:
    def read(data: bytes, at: int) -> Decimal:
        scale = data[at]
        unscaled = int.from_bytes(_piece(data, at + 1, at + 1 + width), "little", signed=True)
        if scale > 38:
            raise _Damaged(f"a decimal has scale {scale}")
        digits = tuple(int(digit) for digit in str(abs(unscaled)))
        return Decimal((unscaled < 0, digits, -scale))

    return read


def _sized(convert: Callable[[bytes], Any]) -> Read:
    def read(data: bytes, at: int) -> Any:
        return convert(_piece(data, at + 4, at + 4 + _unsigned(data, at, 4)))

    return read


def _uuid(data: bytes, at: int) -> Any:
    # The core makes no ids, and so may not import uuid; Arrow makes values of its class.
    storage = pa.scalar(_piece(data, at, at + 16), pa.binary(16))
    return pa.ExtensionScalar.from_storage(pa.uuid(), storage).as_py()


def _time(us: int) -> time:
    if not 0 <= us < 86_400_000_000:
        raise _Damaged("a time of day is not within a day")
    return _local(us).time()


def _local(us: int) -> datetime:
    return _EPOCH + timedelta(microseconds=us)


def _instant(us: int) -> datetime:
    return _local(us).replace(tzinfo=UTC)


def _whole_us(ns: int) -> int:
    us, rest = divmod(ns, 1_000)
    if rest:
        raise _Damaged(f"an instant of {ns:,} ns is no whole number of microseconds, which Python's datetimes are")
    return us


_PRIMITIVES: dict[int, Read] = {
    0: _constant(None),
    1: _constant(True),
    2: _constant(False),
    3: _packed("b"),
    4: _packed("h"),
    5: _packed("i"),
    6: _packed("q"),
    7: _packed("d"),
    8: _decimal(4),
    9: _decimal(8),
    10: _decimal(16),
    11: _packed("i", lambda days: date(1970, 1, 1) + timedelta(days=days)),
    12: _packed("q", _instant),
    13: _packed("q", _local),
    14: _packed("f"),
    15: _sized(bytes),
    16: _sized(bytes.decode),
    17: _packed("q", _time),
    18: _packed("q", lambda ns: _instant(_whole_us(ns))),
    19: _packed("q", lambda ns: _local(_whole_us(ns))),
    20: _uuid,
}
