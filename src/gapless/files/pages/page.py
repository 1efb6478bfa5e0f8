"""Data pages as Parquet files have them: headers with checksums, and the hybrid of runs and packed bits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.files.pages.thrift import signed, unsigned

Bytes = bytes | memoryview
"""Views are of single bytes."""

PLAIN_NUMBER, RLE_NUMBER, DELTA_NUMBER, RLE_DICTIONARY_NUMBER = 0, 3, 5, 8
"""Encodings, as parquet.thrift numbers them."""

_I32 = b"\x15"
"""A field of four bytes, whose number is the next after that before it."""
_DATA_PAGE, _DATA_HEADER, _ENDS = _I32 + b"\0", b"\x1c", b"\0\0"
_LEVELS = _I32 + signed(RLE_NUMBER) + _I32 + signed(RLE_NUMBER) + _ENDS
"""How a data page says that its levels are run lengths, and that nothing follows."""
_DICTIONARY_PAGE, _DICTIONARY_HEADER = _I32 + signed(2), b"\x3c"
_NOT_SAID_TO_BE_SORTED = _I32 + signed(PLAIN_NUMBER) + b"\x12" + _ENDS


_SHORT = 4_096
"""Bytes of which fewer are put together with a header: a piece less takes less than the copy."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page as it lies in a file."""

    pieces: tuple[Bytes, ...]
    """Its bytes, the header's first."""
    size: int
    """How many bytes these are."""
    plain_size: int
    """How many they were before compression."""


def data_page(body: Sequence[Bytes], count: int, encoding: int, codec: pa.Codec | None) -> Page:
    """A data page (of version 1) of `count` rows; `body` are its levels and its values."""
    return _page(body, codec, _DATA_PAGE, _data_header(count, encoding))


@lru_cache(maxsize=1_024)
def _data_header(count: int, encoding: int) -> bytes:
    return b"".join((_DATA_HEADER, _I32, signed(count), _I32, signed(encoding), _LEVELS))


def dictionary_page(values: Bytes, count: int, codec: pa.Codec | None) -> Page:
    """A dictionary page of so many plain values."""
    header = b"".join((_DICTIONARY_HEADER, _I32, signed(count), _NOT_SAID_TO_BE_SORTED))
    return _page((values,), codec, _DICTIONARY_PAGE, header)


def _page(body: Sequence[Bytes], codec: pa.Codec | None, kind: bytes, kind_header: bytes) -> Page:
    size = plain = sum(map(len, body))
    if codec is not None:
        body = (codec.compress(body[0] if len(body) == 1 else b"".join(body), asbytes=True),)
        size = len(body[0])
    check = 0
    for piece in body:
        check = crc32(piece, check)
    # The checksum is of four bytes with a sign.
    check = check if check < 1 << 31 else check - (1 << 32)
    header = b"".join((kind, _I32, signed(plain), _I32, signed(size), _I32, signed(check), kind_header))
    pieces: tuple[Bytes, ...]
    if size < _SHORT:
        pieces = (b"".join((header, *body)),)
    elif len(body[0]) < _SHORT:
        pieces = (b"".join((header, body[0])), *body[1:])
    else:
        pieces = (header, *body)
    return Page(pieces, len(header) + size, len(header) + plain)


@lru_cache(maxsize=1_024)
def levels_of_all(count: int, level: int = 1) -> bytes:
    """The definition levels of rows that all have a value; or none has, where the level is 0."""
    run = unsigned(count << 1) + bytes([level])
    return len(run).to_bytes(4, "little") + run


def levels_of_some(bits: bytes) -> bytes:
    """The definition levels of rows of which those have a value whose bit is set, the lowest of a byte first."""
    header = unsigned(len(bits) << 1 | 1)
    return (len(header) + len(bits)).to_bytes(4, "little") + header + bits


MOST_RUNS = 1_024
"""Where there are more runs than these they are left to Arrow: each takes a step of Python."""
MOST_BITS = 1 << 18
"""So many bits are unpacked at most where numbers are no whole bytes: of more, Arrow's loop is faster."""

_MOST_BYTES = 10
"""Of a number: as many as one of 64 bits takes. To put together a longer one would take the time of its square."""

Codes = npt.NDArray[np.int64]
Data = bytes | memoryview


def runs_of(data: Data, width: int, count: int) -> list[tuple[int, int]] | None:
    """`count` whole numbers of `width` bits, as values and how often each comes in a row.

    None where there are more than `MOST_RUNS`, and where the bytes are not as many as the numbers need.
    """
    found: list[tuple[int, int]] = []
    for first, times, value in _runs(data, width, count):
        if first < 0 or len(found) > MOST_RUNS:
            return None
        if isinstance(value, int):
            found.append((value, times))
        elif times > MOST_RUNS + 8:
            return None
        else:
            found += [(number, 1) for number in unpacked(value, width, 0, times).tolist()]
    return found if len(found) <= MOST_RUNS else None


def numbers_between(data: Data, width: int, count: int, start: int, end: int) -> Codes | None:
    """Numbers `[start, end)` of `count`; None where there are too many runs or bits, and where the bytes are not as many as the numbers need."""
    found = np.empty(end - start, np.int64)
    if width % 8 and found.size * width > MOST_BITS:
        return None
    for number, (first, times, value) in enumerate(_runs(data, width, count)):
        if first < 0 or number > MOST_RUNS:
            return None
        low, high = max(first, start), min(first + times, end)
        if low < high:
            part = value if isinstance(value, int) else unpacked(value, width, low - first, high - first)
            found[low - start : high - start] = part
    return found


def _runs(data: Data, width: int, count: int) -> Iterator[tuple[int, int, int | Data]]:
    """Run by run: its first number's place, how many numbers it has, and the value of all of them or their packed bits.

    A last one at -1 where the bytes are not as many as `count` numbers need.
    """
    at, first, length = 0, 0, (width + 7) // 8
    while width and first < count and at < len(data):
        header, at = varint(data, at)
        times = header >> 1
        size, times = (times * width, times * 8) if header & 1 else (length, times)
        if at + size > len(data):
            break
        value = data[at : at + size] if header & 1 else int.from_bytes(data[at : at + size], "little")
        yield first, min(times, count - first), value
        at, first = at + size, first + times
    if first < count or at != len(data) or not width:
        yield -1, 0, 0


def unpacked(data: Data, width: int, start: int, end: int) -> npt.NDArray[np.unsignedinteger]:
    """Numbers `[start, end)` of those that are packed with `width` bits each, at most 64, without gaps and the lowest bit first."""
    if width in (8, 16, 32, 64):
        return np.frombuffer(data, f"<u{width // 8}", end - start, start * width // 8)
    first = start // 8 * 8
    bytes_ = np.frombuffer(data, np.uint8)[first * width // 8 : -(-end // 8) * width]
    bits = np.unpackbits(bytes_, bitorder="little").reshape(-1, width)
    whole = 32 if width < 32 else 64
    filled = np.zeros((len(bits), whole), np.uint8)
    filled[:, :width] = bits
    numbers = np.packbits(filled, axis=1, bitorder="little").view(f"<u{whole // 8}").reshape(-1)
    return numbers[start - first : end - first]


def varint(data: Data, at: int) -> tuple[int, int]:
    """A number of which each byte holds seven bits, and what follows it; what there is where it is cut off, also after `_MOST_BYTES`."""
    value = shift = 0
    for byte in data[at : at + _MOST_BYTES]:
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            break
    return value, at
