"""A heat map of coverage as a matplotlib figure (PNG, SVG) with fonts that this machine has; any drawing saved to a file."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gapless.coverage.gap import Coverage
from gapless.draw.chart import SHADES, UNEXPECTED, Chart, plan_chart
from gapless.draw.label import printable, shorten
from gapless.draw.page import draw_page
from gapless.errors import InvalidOption, NotSupported, nearest
from gapless.store.local.file_system import typed_os_errors

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_OWN = "DejaVu Sans"
_OTHERS = ("Noto Sans", "Arial Unicode", "Segoe UI", "PingFang", "Hiragino Sans", "Microsoft YaHei", "Yu Gothic", "Malgun Gothic",
           "WenQuanYi", "Source Han Sans", "Droid Sans", "Unifont")  # fmt: skip


class Fonts:
    """The families that show some texts, and the texts as they can be shown."""

    __slots__ = ("_known", "families")

    families: list[str]
    """In the order to try them."""

    def __init__(self, texts: Iterable[str]) -> None:
        """Find fonts for all characters of these texts."""
        missing = {character for text in texts for character in text} - _characters(_OWN)
        self.families, lacking = [_OWN], set(missing)
        for family in _installed() if lacking else ():
            if found := lacking & _characters(family):
                self.families.append(family)
                lacking -= found
        self._known = {ord(character): _escape(character) for character in lacking}

    def shown(self, text: str) -> str:
        """The text, with what no font here can show written as escapes."""
        return text.translate(self._known)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii") if character.isprintable() else character


def _installed() -> list[str]:
    from matplotlib.font_manager import fontManager

    names = {entry.name for entry in fontManager.ttflist}
    return sorted(name for name in names if name.startswith(_OTHERS))


def _characters(family: str) -> set[str]:
    from matplotlib.font_manager import findfont, get_font

    return {chr(code) for code in get_font(findfont(family)).get_charmap()}


SUFFIXES = (".png", ".svg", ".html")
"""What a drawing can be saved as."""

_COLUMNS, _ROWS = 400, 60
_WIDTH_IN, _DPI = 12.0, 150
_LABEL_CELLS = 36
_TICK_CELLS = 105
"""Characters that fit along the axis."""
_INK, _QUIET, _HATCH = "#222222", "#555555", "#bdbdbd"


def save_figure(coverage: Coverage[Any], path: str | PathLike[str], title: str = "") -> None:
    """Draw coverage into a file: `.png` or `.svg` (which need matplotlib), or `.html`, one page that needs nothing else.

    Replaces a file that is there. Raises InvalidOption for another suffix (before anything is drawn), NotSupported without
    matplotlib, a StoreError where the file cannot be written.
    """
    file = Path(path).expanduser()
    suffix = file.suffix.lower()
    if suffix not in SUFFIXES:
        raise InvalidOption(
            f"a drawing cannot be saved as {file.name!r}",
            why=f"The suffix says the format, and {suffix!r} is none of {', '.join(SUFFIXES)}",
            fix=nearest(suffix, SUFFIXES),
            option="plot",
            value=str(path),
        )
    data = draw_page(coverage, title).encode() if suffix == ".html" else _bytes_of(draw_figure(coverage, title), suffix[1:])
    with typed_os_errors("writing", file.name, str(file.parent)):
        file.write_bytes(data)


def draw_figure(coverage: Coverage[Any], title: str = "") -> Figure:
    """Coverage as a matplotlib figure on a canvas of its own: identities down, time across in the zone of the index.

    At most 60 rows (neighbours share one where there are more identities) and 400 columns; a cell that lacks a single
    bucket differs from a complete one. Raises NotSupported without matplotlib.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise NotSupported(
            "a picture cannot be drawn here",
            why="matplotlib is not installed",
            fix="pip install 'gapless[plot]'; or save as .html, which needs nothing more",
            feature="plot",
        ) from error
    gaps = coverage.gaps()
    chart = plan_chart(coverage, gaps, _COLUMNS, _ROWS)
    figure = Figure(figsize=(_WIDTH_IN, _height_in(chart)), dpi=_DPI, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    heading = "\n".join(textwrap.wrap(printable(title), 100)) or "Coverage"
    names = [row.label(_LABEL_CELLS) for row in chart.rows]
    fonts = Fonts([heading, *names])
    style: dict[str, Any] = {"family": fonts.families, "parse_math": False}
    axes = figure.add_subplot()
    figure.suptitle(fonts.shown(heading), x=0.0034, ha="left", size=13, weight="bold", color=_INK, **style)
    caption = "\n".join(sentence for sentence in (chart.summary, chart.scale) if sentence)
    axes.set_title(caption, loc="left", size=9, color=_QUIET, **style)
    if chart.columns and chart.rows:
        _cells(axes, chart)
        _label_time(axes, chart)
        _label_rows(axes, chart, [shorten(fonts.shown(name), _LABEL_CELLS) for name in names], style)
        _legend(figure, chart)
    else:
        axes.set_axis_off()
    return figure


def _bytes_of(figure: Figure, format_: str) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=format_, metadata={"Date": None} if format_ == "svg" else None)
    return buffer.getvalue()


def _height_in(chart: Chart) -> float:
    if not (chart.columns and chart.rows):
        return 1.0
    return 2.05 + len(chart.rows) * min(0.5, max(0.17, 5 / len(chart.rows)))


def _cells(axes: Axes, chart: Chart) -> None:
    """The cells; what is not drawn over shows the hatched ground."""
    from matplotlib.colors import BoundaryNorm, ListedColormap

    axes.patch.set(facecolor=SHADES[UNEXPECTED].colour, hatch="////", edgecolor=_HATCH, linewidth=0)
    shades = np.array([row.shades for row in chart.rows])
    axes.pcolormesh(
        [chart.axis.place(edge) for edge in chart.axis.drawn],
        range(len(chart.rows) + 1),
        np.ma.masked_equal(shades, UNEXPECTED),
        cmap=ListedColormap([shade.colour for shade in SHADES]),
        norm=BoundaryNorm(np.arange(len(SHADES) + 1) - 0.5, len(SHADES)),
        rasterized=True,
    )
    axes.hlines(range(1, len(chart.rows)), 0, 1, color="white", linewidth=1)
    axes.set(xlim=(0, 1), ylim=(len(chart.rows), 0))
    axes.spines[:].set_color(_HATCH)


def _label_time(axes: Axes, chart: Chart) -> None:
    ticks = chart.axis.ticks(_TICK_CELLS)
    # The second line is never empty, or matplotlib would set the first line of some ticks lower than that of others.
    axes.set_xticks([chart.axis.place(tick.value) for tick in ticks], [f"{tick.text}\n{tick.below or ' '}" for tick in ticks])
    axes.set_xlabel(chart.axis.name, color=_QUIET)
    axes.tick_params(axis="x", labelsize=9, color=_HATCH, labelcolor=_INK)


def _label_rows(axes: Axes, chart: Chart, labels: list[str], style: dict[str, Any]) -> None:
    """Names at the left, ratios at the right."""
    middles = [at + 0.5 for at in range(len(labels))]
    axes.set_yticks(middles, labels, **style)
    axes.set_ylabel("identity", color=_QUIET)
    ratios = axes.secondary_yaxis("right")
    ratios.set_yticks(middles, [row.ratio for row in chart.rows])
    ratios.set_ylabel("covered", color=_QUIET)
    ratios.spines[:].set_visible(False)
    for side in (axes, ratios):
        side.tick_params(axis="y", labelsize=9 if len(labels) <= 30 else 8, length=0, labelcolor=_INK)


def _legend(figure: Figure, chart: Chart) -> None:
    from matplotlib.patches import Patch

    patches = [
        Patch(
            facecolor=SHADES[at].colour, label=SHADES[at].name, linewidth=0, edgecolor=_HATCH, hatch="////" * (at == UNEXPECTED)
        )
        for at in chart.shades_shown
    ]
    figure.legend(handles=patches, loc="outside lower left", ncols=len(patches), frameon=False, fontsize=9, labelcolor=_INK)
