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
from gapless.draw.axis import Axis
from gapless.draw.chart import COMPLETE, SHADES, UNEXPECTED, Chart, plan_chart
from gapless.draw.label import printable, shorten
from gapless.errors import InvalidOption

_RATIO_CELLS = 7
_DARK = "#4a2008"
# Both colours are set where a symbol leaves room, so that a cell looks the same on a light and on a dark terminal.
_STYLES = tuple(
    "" if at == UNEXPECTED
    else shade.colour if at == COMPLETE
    else f"{shade.colour} on {_DARK}" if shade.symbol in "▓▒"
    else f"{_DARK} on {shade.colour}"
    for at, shade in enumerate(SHADES)
)  # fmt: skip
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
    """Coverage as lines for rich to print: at most `width` (30 or more) cells wide, and `height` lines high where a row of
    cells and what stands around it fit.

    Identities down, each with its ratio at the right (neighbours share a row where there are too many), time across, in the
    zone of the index. Raises InvalidOption for a lesser width, or a height below 1.
    """
    if width < 30:
        raise InvalidOption(f"width={width} is too narrow for a heat map", fix="Pass 30 or more", option="width", value=width)
    gaps = coverage.gaps()
    rows = height
    while True:
        label = _label_cells(plan_chart(coverage, gaps, 1, rows), width)
        room = width - label - 2 - _RATIO_CELLS
        chart = plan_chart(coverage, gaps, room, rows)
        lines = [*_head(title, width), *_body(chart, label, room), *_foot(chart, width)]
        if len(lines) <= height or rows == 1:
            return TerminalMap(lines=tuple(lines))
        rows = max(1, min(rows - 1, len(chart.rows) + height - len(lines)))


def _label_limit(width: int) -> int:
    return max(8, width // 4)


def _label_cells(chart: Chart, width: int) -> int:
    return max((cell_len(row.label(_label_limit(width))) for row in chart.rows), default=0)


def _head(title: str, width: int) -> Iterator[Text]:
    if title:
        yield Text(shorten(printable(title), width), style="bold")


def _body(chart: Chart, label: int, room: int) -> Iterator[Text]:
    columns = _columns(chart.columns, room)
    for row in chart.rows:
        name = row.label(max(label, 8))
        line = Text(name + " " * (label - cell_len(name) + 1))
        for shade, run in groupby(row.shades[at] for at in columns):
            line.append(SHADES[shade].symbol * len(list(run)), style=_STYLES[shade])
        line.append(f" {row.ratio:>{_RATIO_CELLS}}")
        yield line
    for below in _axis(chart.axis, columns):
        indent = min(label + 1, label + 1 + room + _RATIO_CELLS + 1 - len(below))
        yield Text(" " * indent + below, style="dim")


def _columns(columns: int, room: int) -> list[int]:
    """The column that each character shows: all equally wide, unless that would leave a quarter of the room empty."""
    if not columns:
        return []
    even = room // columns * columns
    characters = even if even >= room * 3 // 4 else room
    return [at * columns // characters for at in range(characters)]


def _axis(axis: Axis, columns: Sequence[int]) -> Iterator[str]:
    """A rule with marks, and the index values at them: as many as fit, the two ends at least."""
    if not columns:
        return
    for parts in (4, 2, 1):
        marks = [len(columns) * part // parts for part in range(parts)]
        texts = axis.texts([*(axis.edges[columns[mark]] for mark in marks), axis.edges[-1]])
        if parts == 1 or (marks[1] > 2 * len(texts[0]) and len(set(marks)) == parts):
            break
    rule = ["─"] * len(columns)
    for mark in marks[1:]:
        rule[mark] = "┴"
    rule[0], rule[-1] = "└", "┘"
    yield "".join(rule)
    yield from _beneath([*marks, len(columns)], texts)


def _beneath(marks: Sequence[int], texts: Sequence[str]) -> Iterator[str]:
    """Texts under marks: the first flush left, the last flush right (in a line of its own where it must), others centred."""
    line = texts[0]
    for mark, text in zip(marks[1:-1], texts[1:-1], strict=True):
        line = line.ljust(mark - len(text) // 2) + text
    start = marks[-1] - len(texts[-1])
    if start <= len(line):
        yield line
        line = ""
    yield line.ljust(start) + texts[-1]


def _foot(chart: Chart, width: int) -> Iterator[Text]:
    for sentence in (chart.summary, chart.scale):
        yield from (Text(line) for line in textwrap.wrap(sentence, width))
    line = Text()
    for at in chart.shades_shown:
        symbol = "(blank)" if at == UNEXPECTED else SHADES[at].symbol
        entry = Text.assemble((symbol, _STYLES[at]), f" {SHADES[at].name}")
        if line and line.cell_len + 3 + entry.cell_len > width:
            yield line
            line = Text()
        line.append_text(Text("   ") + entry if line else entry)
    if line:
        yield line
