"""How full a cell is, in steps that every drawing shares: told apart by symbol, by lightness and by hue.

The hues run from blue to yellow, which people with any of the common colour vision deficiencies tell apart, and grow lighter
with what is missing, so that a print in grey keeps the order. A cell that lacks anything never looks complete.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan


@dataclass(frozen=True, slots=True, kw_only=True)
class Shade:
    """One step."""

    name: str
    """What it means, for a legend."""
    symbol: str
    """One character of a terminal."""
    plain: str
    """The same where only ASCII can be written."""
    colour: str
    """`#rrggbb`, for a fill."""


SHADES = (
    Shade(name="complete", symbol="█", plain="#", colour="#1f5a99"),
    Shade(name="99% or more", symbol="▓", plain="+", colour="#c05a1e"),
    Shade(name="90% or more", symbol="▒", plain="-", colour="#db7f2f"),
    Shade(name="50% or more", symbol="░", plain=":", colour="#ee9f47"),
    Shade(name="under 50%", symbol="·", plain=".", colour="#f8c46a"),
    Shade(name="missing", symbol="×", plain="x", colour="#fff08a"),
    Shade(name="nothing expected", symbol=" ", plain=" ", colour="#ececec"),
)
"""From complete to missing; the last is where nothing is expected."""
COMPLETE, MISSING, UNEXPECTED = 0, 5, 6


def shade_of(fraction: float) -> int:
    """The place in `SHADES` of a covered fraction, 0.0 to 1.0, or NaN where nothing is expected.

    >>> SHADES[shade_of(0.999_999)].name
    '99% or more'
    """
    if isnan(fraction):
        return UNEXPECTED
    if fraction in (0.0, 1.0):
        return MISSING if fraction == 0.0 else COMPLETE
    return 1 + sum(fraction < bound for bound in (0.99, 0.9, 0.5))
