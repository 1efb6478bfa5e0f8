"""A heat map of coverage in a terminal: told apart by character first, so that pipes and NO_COLOR lose nothing."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from gapless.coverage.gap import Coverage
from gapless.draw.chart import Chart, Row, plan_chart
from gapless.draw.label import printable, shorten
from gapless.draw.shade import COMPLETE, MISSING, SHADES, UNEXPECTED

_RATIO_CELLS = 7
_STYLES = {
    at: f"bold #000000 on {shade.colour}" if at == MISSING else "" if at == UNEXPECTED else shade.colour
    for at, shade in enumerate(SHADES)
}
_PLAIN = str.maketrans(
    {shade.symbol: shade.plain for shade in SHADES} | {"…": "~", "–": "-", "└": "+", "┴": "+", "┘": "+", "─": "-"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalMap:
    """A heat map that rich can print; where the output takes ASCII only, it is drawn in ASCII."""

    lines: tuple[Text, ...]
    """None is wider than the drawing was asked to be."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """One line after another."""
        for line in self.lines:
            shown = line.copy()
            if options.ascii_only:
                shown.plain = "".join(c if c.isascii() else "?" * cell_len(c) for c in line.plain.translate(_PLAIN))
            shown.no_wrap, shown.overflow = True, "crop"
            yield shown

    def __str__(self) -> str:
        """The drawing without colour, each line ended by a line feed."""
        return "".join(f"{line.plain.rstrip()}\n" for line in self.lines)


def draw_terminal(coverage: Coverage[Any], width: int, height: int = 40, title: str = "") -> TerminalMap:
    """Coverage as lines for rich to print, at most `width` cells wide and (for 16 or more) `height` lines high.

    Identities down, each with its ratio at the right (neighbours share a line where there are too many), time across in
    the zone of the index. Raises InvalidOption unless both are above zero.
    """
    gaps = coverage.gaps()
    taken = min(max(10, width // 4), _longest(coverage))
    room = max(1, width - taken - 2 - _RATIO_CELLS)
    around = len(_around(plan_chart(coverage, gaps, room, max(1, height)), width, room, title))
    chart = plan_chart(coverage, gaps, room, max(1, height - around) if height > 0 else height)
    label = max((cell_len(row.label(taken)) for row in chart.rows), default=0)
    room = max(1, width - label - 2 - _RATIO_CELLS)
    lines = [*_head(title, width), *_body(chart, label, taken, room), *_foot(chart, width)]
    return TerminalMap(lines=tuple(lines))
