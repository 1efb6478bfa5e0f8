"""A cell that lacks anything never looks complete, and lightness alone keeps the order."""

from __future__ import annotations

from itertools import pairwise
from math import nan, nextafter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.draw.chart import COMPLETE, MISSING, SHADES, UNEXPECTED, shade_of


@pytest.mark.parametrize(
    ("fraction", "shade"),
    [
        (1.0, COMPLETE), (nextafter(1.0, 0.0), 1), (0.99, 1), (0.989, 2), (0.9, 2), (0.5, 3), (0.49, 4), (1e-12, 4),
        (0.0, MISSING), (nan, UNEXPECTED),
    ],
)  # fmt: skip
def test_steps(fraction: float, shade: int) -> None:
    assert shade_of(fraction) == shade


@given(st.floats(0, 1, exclude_min=True, exclude_max=True))
def test_partly_covered_is_neither_complete_nor_missing(fraction: float) -> None:
    assert shade_of(fraction) not in (COMPLETE, MISSING, UNEXPECTED)


def test_what_is_missing_is_lighter() -> None:
    lightness = [_luminance(shade.colour) for shade in SHADES[: MISSING + 1]]
    assert all(low + 0.05 < high for low, high in pairwise(lightness)), lightness
    # To eyes without red-green vision the blue against yellow is what is left: the first step must be a leap in it.
    assert _blue_share(SHADES[COMPLETE].colour) > 0.5
    assert max(_blue_share(shade.colour) for shade in SHADES[1:UNEXPECTED]) < 0.25


def test_symbols_differ() -> None:
    for symbols in ([s.symbol for s in SHADES], [s.plain for s in SHADES]):
        assert len(set(symbols)) == len(SHADES)
    assert all(shade.plain.isascii() for shade in SHADES)


def _channels(colour: str) -> list[float]:
    return [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]


def _luminance(colour: str) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in _channels(colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _blue_share(colour: str) -> float:
    channels = _channels(colour)
    return channels[2] / sum(channels)
