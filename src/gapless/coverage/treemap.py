"""One bitmap as bytes: the 64-bit Roaring "treemap", in its canonical form.

Little-endian: `u64 n`, then n times a `u32` of high bits and a 32-bit Roaring bitmap in the portable format. Canonical: no
empty part, every container in its smallest form.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final

from pyroaring import BitMap64

from gapless.coverage.bitmap import array_of, range_bitmap

_U16, _2U16, _3U32, _U64 = Struct("<H"), Struct("<HH"), Struct("<III"), Struct("<Q")
_CONTAINER: Final = 2**16
_ARRAY_MAX: Final = 4096
_BITSET_BYTES: Final = 8192
_RUN_COOKIE: Final = 12_347
_OFFSETS_FROM: Final = 4


class Damage(Exception):
    """Bytes that are no coverage; the text says what is wrong."""


def encode_treemap(bitmap: BitMap64) -> bytes:
    """The canonical bytes of a bitmap: equal sets have equal bytes, whatever was done to make them."""
    bitmap.run_optimize()  # changes how it is held, not what it holds
    data = bitmap.serialize()
    if not bitmap.get_statistics()["n_run_containers"]:
        return data
    # Where runs take as many bytes as an array, the library keeps a container as it was, so that its history would show.
    # Built anew from its members (and not by `bitmap_of`, which makes runs), it is an array, as 0.9.0 has it.
    tied = [range_bitmap(at, at + _CONTAINER) for at, last, runs in _run_containers(data) if last == 2 * runs]
    if not tied:
        return data
    mask = BitMap64.union(*tied)
    return ((bitmap - mask) | BitMap64(array_of(bitmap & mask).tolist())).serialize()


def decode_treemap(data: bytes) -> BitMap64:
    """Read a bitmap, canonical or not run-optimised; raises Damage unless the bytes are one and nothing else."""
    if len(data) < _U64.size:
        raise Damage(f"a bitmap of {len(data)} bytes is cut off")
    try:
        bitmap = BitMap64.deserialize(data)
    except ValueError as error:
        raise Damage(str(error)) from error
    # The decoder ignores trailing bytes and container offsets; what it took must be all there is.
    if bitmap.serialize() != data:
        raise Damage("a bitmap holds bytes that mean nothing")
    return bitmap


def _run_containers(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Of each container that is held as runs: its first possible id, its members less one, its runs."""
    at = _U64.size
    for _ in range(_U64.unpack_from(data)[0]):
        high, cookie, count = _3U32.unpack_from(data, at)
        heads, flags = at + 12, b""
        if cookie & 0xFFFF == _RUN_COOKIE:
            count = (cookie >> 16) + 1
            heads = at + 8 + (count + 7) // 8
            flags = data[at + 8 : heads]
        at = heads + (4 if flags and count < _OFFSETS_FROM else 8) * count
        for place in range(count):
            key, last = _2U16.unpack_from(data, heads + 4 * place)
            if flags and flags[place // 8] >> place % 8 & 1:
                (runs,) = _U16.unpack_from(data, at)
                at += 2 + 4 * runs
                yield high << 32 | key << 16, last, runs
            else:
                at += 2 * (last + 1) if last < _ARRAY_MAX else _BITSET_BYTES
