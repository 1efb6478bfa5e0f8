"""Pages as Parquet files have them: a header with a checksum, and what it is the checksum of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from zlib import crc32

import pyarrow as pa

from gapless.parquet.thrift import signed, unsigned

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


def cuts(count: int, most: int) -> Iterator[tuple[int, int]]:
    """Ranges `[start, end)` of `most` rows each, and one of what is left.

    >>> list(cuts(5, 2))
    [(0, 2), (2, 4), (4, 5)]
    """
    for start in range(0, count, most):
        yield start, min(count, start + most)
