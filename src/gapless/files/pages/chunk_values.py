"""Values of a flat column in the encodings of data pages: plain, dictionary indices, DELTA_BINARY_PACKED for even steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gapless.files.pages.page import DELTA_NUMBER, PLAIN_NUMBER, RLE_DICTIONARY_NUMBER, Bytes
from gapless.files.pages.thrift import signed, unsigned
from gapless.model.stats import distinct

Array = npt.NDArray[Any]
Valid = npt.NDArray[np.bool_]


class Values(Protocol):
    """What a column chunk holds besides nulls."""

    @property
    def encoding(self) -> int:
        """Its number in parquet.thrift."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes of all values, about."""
        ...

    def body(self, start: int, end: int) -> Bytes:
        """The bytes of values `[start, end)` in a page."""
        ...


@dataclass(frozen=True, slots=True)
class PlainNumbers:
    """Plain values of one width each."""

    values: Array
    """Of the type that files hold them in."""
    encoding: int = PLAIN_NUMBER

    @property
    def nbytes(self) -> int:
        """Bytes of all values."""
        return int(self.values.nbytes)

    def body(self, start: int, end: int) -> Bytes:
        """The bytes as they lie in memory."""
        values = self.values[start:end]
        return values.view(np.uint8).data if len(values) else b""


@dataclass(frozen=True, slots=True)
class PlainBooleans:
    """Plain truth values, a bit each."""

    values: Valid
    encoding: int = PLAIN_NUMBER

    @property
    def nbytes(self) -> int:
        """Bytes of all values, about."""
        return len(self.values) // 8

    def body(self, start: int, end: int) -> Bytes:
        """Eight to a byte, the lowest bit first."""
        return np.packbits(self.values[start:end], bitorder="little").tobytes()


@dataclass(frozen=True, slots=True)
class PlainByteArrays:
    """Plain texts or bytes, each after its length."""

    data: Bytes
    """All of them."""
    starts: Array
    """Where each begins, and the end of the last."""
    encoding: int = PLAIN_NUMBER

    @property
    def nbytes(self) -> int:
        """Bytes of all texts with their lengths."""
        return len(self.data)

    def body(self, start: int, end: int) -> Bytes:
        """Some of them, one after the other."""
        return self.data[int(self.starts[start]) : int(self.starts[end])]


@dataclass(frozen=True, slots=True)
class DictionaryIndices:
    """Values as their places in a dictionary."""

    codes: Array
    """Whole numbers of 8 or 16 bits."""
    width: int
    """The bits that a place takes: 1, 2, 4, 8 or 16, so that they are parts of bytes or whole ones."""
    encoding: int = RLE_DICTIONARY_NUMBER

    @property
    def nbytes(self) -> int:
        """Bytes of all places, at most."""
        return int(self.codes.nbytes)

    def body(self, start: int, end: int) -> Bytes:
        """The width, and a run for each stretch of one value; or one run of all, each by itself, where stretches are short."""
        codes, width = self.codes[start:end], bytes([self.width])
        if not len(codes):
            return width
        changes = codes[1:] != codes[:-1]
        if np.count_nonzero(changes) >= max(1, len(codes) // _LONG):
            return b"".join((width, unsigned(-(-len(codes) // 8) << 1 | 1), packed(codes, self.width)))
        lasts = np.append(changes.nonzero()[0], len(codes) - 1)
        parts, size, begin = [width], -(-self.width // 8), -1
        for last, code in zip(lasts.tolist(), codes[lasts].tolist(), strict=True):
            parts += unsigned((last - begin) << 1), code.to_bytes(size, "little")
            begin = last
        return b"".join(parts)


_LONG = 64
"""Rows that a stretch has in the mean, from which on stretches are written one by one."""
_ZERO = np.zeros(1, dtype=np.int64)


def width_for(count: int) -> int:
    """The bits of a place among so many, which are 65,536 at most."""
    return next(width for width in (1, 2, 4, 8, 16) if count <= 1 << width)


def packed(codes: Array, width: int) -> bytes:
    """Numbers of that many bits each, the lowest of a byte first, filled up to a multiple of eight numbers."""
    if missing := -len(codes) % 8:
        codes = np.concatenate((codes, np.zeros(missing, dtype=codes.dtype)))
    if width >= 8:
        return codes.astype(f"<u{width // 8}", copy=False).tobytes()
    parts = codes.astype(np.uint8, copy=False).reshape(-1, 8 // width)
    out = parts[:, 0].copy()
    for at in range(1, 8 // width):
        out |= parts[:, at] << np.uint8(at * width)
    return out.tobytes()


_FEW_TEXTS = 64
"""Up to so many texts are put together by Python, which begins sooner than Arrow."""


def _few_texts(starts: Array, data: pa.Buffer | None) -> PlainByteArrays:
    """Texts that lie in `data` one after the other, as pages hold them."""
    text = memoryview(b"" if data is None else data)
    parts: list[Bytes] = []
    for start, end in pairwise(starts.tolist()):
        parts += (end - start).to_bytes(4, "little"), text[start:end]
    return PlainByteArrays(b"".join(parts), starts - starts[0] + np.arange(0, 4 * len(starts), 4))


_NOTHING = {
    kind: pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(bytes(16)), pa.py_buffer(b"")])[0]
    for kind in (pa.binary(), pa.large_binary())
}
"""No bytes, by type; `pa.scalar` imports pandas."""


def texts_of(values: pa.Array) -> PlainByteArrays:
    """Texts or bytes without nulls, as pages hold them."""
    large = pa.types.is_large_string(values.type) or pa.types.is_large_binary(values.type)
    kind, offset = (pa.large_binary(), np.dtype("<i8")) if large else (pa.binary(), np.dtype("<i4"))
    count = len(values)
    if not count:
        return PlainByteArrays(b"", _ZERO)
    starts = np.frombuffer(values.buffers()[1], offset, count + 1, values.offset * offset.itemsize)
    if count <= _FEW_TEXTS:
        return _few_texts(starts, values.buffers()[2])
    lengths = np.diff(starts).astype("<i4")
    fours = np.arange(0, 4 * count + 4, 4, dtype=offset)
    before = pa.Array.from_buffers(kind, count, [None, pa.py_buffer(fours), pa.py_buffer(lengths)])
    after = pa.Array.from_buffers(kind, count, [None, *values.buffers()[1:]], offset=values.offset)
    joined = pc.binary_join_element_wise(before, after, _NOTHING[kind])
    ends = np.frombuffer(joined.buffers()[1], offset, count + 1, joined.offset * offset.itemsize)
    return PlainByteArrays(memoryview(joined.buffers()[2]).cast("B"), ends)


_BLOCK, _MINI = 128, 32
"""Differences of a block, which have their smallest in common, and of a miniblock, which are of one width."""
_HEAD = unsigned(_BLOCK) + unsigned(_BLOCK // _MINI)
_NO_WIDTHS = bytes(_BLOCK // _MINI)
_EVEN = 1_024
"""Values for each change of the step, from which on the differences are made here: others Arrow's writer makes faster."""


@dataclass(frozen=True, slots=True)
class DeltaBinaryPacked:
    """Values of eight bytes by their differences."""

    values: Array
    encoding: int = DELTA_NUMBER

    @property
    def nbytes(self) -> int:
        """Bytes of all values, at most."""
        return int(self.values.nbytes)

    def body(self, start: int, end: int) -> bytes:
        """The first value, and blocks of differences."""
        values = self.values[start:end].view(np.int64)
        first = int(values[0]) if len(values) else 0
        return b"".join((_HEAD, unsigned(len(values)), signed(first), *_blocks(np.diff(values))))


def rises_evenly(values: Array) -> bool:
    """Whether the differences of such values are made here."""
    steps = np.diff(values)
    return len(values) > _EVEN and int(np.count_nonzero(steps[1:] != steps[:-1])) <= len(values) // _EVEN


def _blocks(steps: Array) -> Iterator[bytes]:
    """The blocks of differences; those without any of their own, as many as follow each other, at once."""
    changed = np.flatnonzero(steps[1:] != steps[:-1]) + 1
    uneven = distinct(changed[changed % _BLOCK > 0] // _BLOCK)
    packed = dict(zip(uneven.tolist(), _uneven(steps, uneven), strict=True))
    edges = {0, *(changed // _BLOCK).tolist(), *packed, *(at + 1 for at in packed), -(-len(steps) // _BLOCK)}
    for start, end in pairwise(sorted(edges)):
        yield packed[start] if start in packed else (signed(int(steps[start * _BLOCK])) + _NO_WIDTHS) * (end - start)


def _uneven(steps: Array, blocks: Array) -> list[bytes]:
    """Blocks of several differences: the smallest, and what the others have above it, in as many bits as that takes in a miniblock."""
    if not len(blocks):
        return []
    # What fills up the last block takes no bits.
    filling = np.repeat(steps[len(steps) // _BLOCK * _BLOCK :].min(initial=steps[-1]), -len(steps) % _BLOCK)
    chosen = np.concatenate((steps, filling)).reshape(-1, _BLOCK)[blocks]
    least = chosen.min(axis=1)
    minis = (chosen - least[:, None]).view(np.uint64).reshape(-1, _MINI)
    widths = [int(most).bit_length() for most in minis.max(axis=1)]
    bits, count = _packed(minis, widths), _BLOCK // _MINI
    return [
        b"".join((signed(low), bytes(widths[at : at + count]), *bits[at : at + count]))
        for low, at in zip(least.tolist(), range(0, len(minis), count), strict=True)
    ]


def _packed(minis: Array, widths: Sequence[int]) -> list[bytes]:
    """The lowest bits of each number, the lowest of a byte first; as many of each miniblock as it is wide."""
    packed = [b""] * len(minis)
    for width in set(widths) - {0}:
        same = [at for at, one in enumerate(widths) if one == width]
        bits = np.unpackbits(minis[same].view(np.uint8).reshape(len(same), _MINI, 8), axis=2, bitorder="little")
        for at, row in zip(
            same, np.packbits(bits[:, :, :width].reshape(len(same), -1), axis=1, bitorder="little"), strict=True
        ):
            packed[at] = row.tobytes()
    return packed
