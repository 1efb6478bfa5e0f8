"""Numbers out of Parquet's hybrid encoding are those that went in, whichever of them are asked for."""

from __future__ import annotations

import numpy as np
import pytest

from gapless.files.pages.page import MOST_BITS, MOST_RUNS, numbers_between, runs_of, unpacked


def varint(value: int) -> bytes:
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + varint(value >> 7)


def packed(numbers: list[int], width: int) -> bytes:
    """Bit by bit in one long integer: slow, and nothing like numpy."""
    filled = numbers + [0] * (-len(numbers) % 8)
    whole = sum(number << (width * at) for at, number in enumerate(filled))
    return whole.to_bytes(len(filled) * width // 8, "little")


def hybrid(parts: list[list[int]], width: int) -> bytes:
    """Each part as a run where its numbers are one, else packed; a packed part but the last has a multiple of eight numbers."""
    out = b""
    for part in parts:
        if len(set(part)) == 1:
            out += varint(len(part) << 1) + part[0].to_bytes((width + 7) // 8, "little")
        else:
            out += varint(-(-len(part) // 8) << 1 | 1) + packed(part, width)
    return out


@pytest.mark.parametrize("width", range(1, 33))
def test_any_stretch_of_numbers_is_what_was_written(width: int) -> None:
    dice = np.random.default_rng(width)
    parts = [
        dice.integers(0, 2**width, 64).tolist(),
        [int(dice.integers(0, 2**width))] * 37,
        [2**width - 1] * 5,
        [0, 2**width - 1] * 12,
        dice.integers(0, 2**width, 21).tolist(),
    ]
    flat = [number for part in parts for number in part]
    data = memoryview(hybrid(parts, width))
    for start, end in [(0, len(flat)), (0, 0), (63, 65), (3, 5), (64, 101), (100, 107), (len(flat) - 1, len(flat)), (70, 130)]:
        found = numbers_between(data, width, len(flat), start, end)
        assert found is not None
        assert found.tolist() == flat[start:end], (start, end)


@pytest.mark.parametrize("width", [1, 3, 8, 13, 16, 24, 31, 32, 33, 47, 63, 64])
def test_packed_numbers_of_any_width(width: int) -> None:
    dice = np.random.default_rng(width)
    numbers = [
        int(dice.integers(0, 2**63)) >> (64 - width) if width < 64 else int(dice.integers(0, 2**63)) * 2 + 1 for _ in range(40)
    ]
    numbers = [number % 2**width for number in numbers]
    for start, end in [(0, 40), (7, 9), (8, 16), (39, 40), (5, 5)]:
        assert unpacked(memoryview(packed(numbers, width)), width, start, end).tolist() == numbers[start:end]


def test_bytes_that_do_not_hold_the_numbers_are_left_to_arrow() -> None:
    parts = [[1, 2, 3, 0] * 8, [3] * 300, [1] * 2]
    good = hybrid(parts, 2)
    assert numbers_between(good, 2, 334, 30, 40) is not None
    assert numbers_between(good + b"\2\1", 2, 334, 30, 40) is None, "more than the numbers need"
    assert [numbers_between(good[:end], 2, 334, 0, 1) for end in range(len(good))] == [None] * len(good), (
        "also where they lie before"
    )
    assert numbers_between(b"\x80", 2, 1, 0, 1) is None
    assert numbers_between(hybrid([[0] * 8], 1), 0, 8, 0, 8) is None


def test_a_number_without_an_end_is_cut_off() -> None:
    assert numbers_between(b"\xff" * 3_000_000, 2, 100, 0, 10) is None
    assert runs_of(b"\xff" * 3_000_000, 1, 100) is None


def test_many_runs_and_many_odd_bits_are_left_to_arrow() -> None:
    parts = [[n % 2] * 9 for n in range(MOST_RUNS + 2)]
    assert numbers_between(hybrid(parts, 1), 1, 9 * len(parts), 0, 1) is None
    assert numbers_between(hybrid(parts[:-3], 1), 1, 9 * len(parts[:-3]), 0, 1) is not None
    many = MOST_BITS // 3 + 1
    assert numbers_between(hybrid([[5] * many], 3), 3, many, 0, many) is None
    assert numbers_between(hybrid([[5] * many], 8), 8, many, 0, many) is not None
