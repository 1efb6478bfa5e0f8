"""Whole numbers in Parquet's hybrid encoding: runs of one value, and numbers that are packed bit by bit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

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
