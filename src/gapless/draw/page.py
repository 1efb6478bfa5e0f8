"""A heat map of coverage as one HTML page that loads nothing: an inline SVG with a tooltip a cell, and the longest gaps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import nsmallest
from html import escape
from itertools import groupby
from typing import Any

from rich.cells import cell_len

from gapless.coverage.gap import Coverage, Gap
from gapless.draw.axis import Axis
from gapless.draw.chart import COMPLETE, MISSING, SHADES, UNEXPECTED, Chart, Row, gap_texts, plan_chart
from gapless.draw.label import printable

_COLUMNS, _ROWS, _GAPS = 366, 60, 50
_LABEL_CELLS, _TICK_CELLS = 30, 120
_PLOT, _RIGHT, _BELOW, _LETTER = 1000, 65, 56, 8
"""Widths of the cells, the ratios and a letter, and the height of the time axis, in px."""

_STYLE = """
:root { color-scheme: light dark; --ink: #222; --quiet: #555; --ground: #fff; --line: #ccc; --none: #ececec; --hatch: #b5b5b5; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e6e6; --quiet: #aaa; --ground: #161616; --line: #444; --none: #262626; --hatch: #555; }
}
body { margin: 2rem auto; padding: 0 1rem; max-width: 82rem; color: var(--ink); background: var(--ground);
  font: 15px/1.45 system-ui, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .3rem; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 2rem 0 .4rem; }
p { margin: .2rem 0; color: var(--quiet); }
.map { overflow-x: auto; margin: 1rem 0 .4rem; }
svg { display: block; min-width: 50rem; width: 100%; height: auto; }
svg text { font-size: 12.5px; fill: var(--ink); }
svg .quiet { fill: var(--quiet); }
svg .line { stroke: var(--line); }
svg .hatch { stroke: var(--hatch); }
svg .ground { fill: var(--none); }
svg g rect { shape-rendering: crispEdges; }
svg g rect:hover { stroke: var(--ink); stroke-width: 1.5; }
ul.legend { list-style: none; display: flex; flex-wrap: wrap; gap: .2rem 1.4rem; margin: 0; padding: 0; }
ul.legend svg { display: inline-block; min-width: 0; width: 16px; vertical-align: -2px; margin-right: .4rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .25rem 1.5rem .25rem 0; border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }
th { color: var(--quiet); font-weight: 600; }
th:last-child, td:last-child { text-align: right; padding-right: 0; }
"""
_HATCH = (
    '<pattern id="hatch" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect class="ground" width="7" height="7"/><line class="hatch" y2="7" stroke-width="2"/></pattern>'
)


def draw_page(coverage: Coverage[Any], title: str = "") -> str:
    """Coverage as the text of an HTML document (UTF-8), for light and dark screens.

    At most 60 rows (neighbours share one where there are more identities) and 366 columns, and the 50 longest gaps with
    their bounds `[from, to)` in the zone of the index.
    """
    gaps = coverage.gaps()
    chart = plan_chart(coverage, gaps, _COLUMNS, _ROWS)
    heading = escape(printable(title) or "Coverage")
    parts = [
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{heading}</title>\n<style>{_STYLE}{_fills()}</style>\n</head>\n<body>\n<main>",
        f"<h1>{heading}</h1>\n<p>{escape(chart.summary)}.</p>",
        *_map(chart),
        *_table(chart.axis, gaps),
        "</main>\n</body>\n</html>\n",
    ]
    return "\n".join(parts)


def _fills() -> str:
    rules = (f".s{at} {{ fill: {shade.colour}; }}" for at, shade in enumerate(SHADES) if at != UNEXPECTED)
    return "\n".join((*rules, f".s{UNEXPECTED} {{ fill: url(#hatch); }}", ""))


def _map(chart: Chart) -> Iterator[str]:
    """The scale, the SVG and its legend; nothing where there is no cell."""
    if not (chart.columns and chart.rows):
        return
    row_px = max(18.0, min(44.0, 400 / len(chart.rows)))
    bottom = row_px * len(chart.rows)
    yield f"<p>{escape(chart.scale)}.</p>"
    left = _LETTER * max(cell_len(row.label(_LABEL_CELLS)) for row in chart.rows) + 16
    box = f"{-left} 0 {left + _PLOT + _RIGHT} {bottom + _BELOW:g}"
    yield f'<div class="map"><svg viewBox="{box}" role="img" aria-labelledby="what">'
    yield f'<title id="what">Heat map, identities down and time across. {escape(chart.summary)}</title>'
    yield f"<defs>{_HATCH}</defs>"
    for at, row in enumerate(chart.rows):
        yield _row(chart.axis, row, at * row_px, row_px)
    yield from _ticks(chart.axis, bottom)
    yield '</svg></div>\n<ul class="legend">'
    for at in chart.shades_shown:
        box = f'<svg viewBox="0 0 16 16" aria-hidden="true"><rect class="s{at}" width="16" height="16"/></svg>'
        yield f"<li>{box}{SHADES[at].name}</li>"
    yield "</ul>"


def _row(axis: Axis, row: Row, top: float, height: float) -> str:
    """A name, cells (equal neighbours as one; each reaches a little under the next, or seams would show) and a ratio."""
    name, middle = escape(row.label(10_000)), top + height / 2
    short = escape(row.label(_LABEL_CELLS))
    parts = [f'<g><text x="-8" y="{middle:g}" text-anchor="end" dy=".35em">{short}<title>{name}</title></text>']
    texts = axis.texts(axis.edges)
    for (shade, value), run in groupby(range(len(row.shades)), key=lambda at: (row.shades[at], _tooltip(row, at))):
        columns = list(run)
        first, end = columns[0], columns[-1] + 1
        left, right = (_PLOT * axis.place(axis.drawn[edge]) for edge in (first, end))
        parts.append(
            f'<rect class="s{shade}" x="{left:.2f}" y="{top:g}" width="{min(_PLOT, right + 0.5) - left:.2f}" height="{height - 1:g}">'
            f"<title>{name}\n{texts[first]} to {texts[end]}\n{value}</title></rect>"
        )
    parts.append(f'<text class="quiet" x="{_PLOT + 8}" y="{middle:g}" dy=".35em">{row.ratio}</text></g>')
    return "".join(parts)


def _tooltip(row: Row, column: int) -> str:
    shade = row.shades[column]
    if shade in (COMPLETE, MISSING, UNEXPECTED):
        return SHADES[shade].name
    return f"{int(row.values[column] * 10_000) / 100:.2f}% covered"


def _ticks(axis: Axis, bottom: float) -> Iterator[str]:
    for tick in axis.ticks(_TICK_CELLS):
        x = f"{_PLOT * axis.place(tick.value):.1f}"
        yield f'<line class="line" x1="{x}" x2="{x}" y1="{bottom:g}" y2="{bottom + 5:g}"/>'
        yield f'<text x="{x}" y="{bottom + 19:g}" text-anchor="middle">{tick.text}</text>'
        yield f'<text class="quiet" x="{x}" y="{bottom + 35:g}" text-anchor="middle">{tick.below}</text>' if tick.below else ""
    yield (f'<text class="quiet" x="{_PLOT / 2}" y="{bottom + 51:g}" text-anchor="middle">{escape(axis.name)}</text>')


def _table(axis: Axis, gaps: Sequence[Gap[Any]]) -> Iterator[str]:
    """The longest gaps first; of equal ones in canonical order."""
    if not gaps:
        return
    shown = nsmallest(_GAPS, gaps, key=lambda gap: -gap.buckets)
    yield "<h2>Longest gaps</h2>"
    if len(shown) < len(gaps):
        yield f"<p>{len(shown)} of {len(gaps):,} gaps.</p>"
    heads = "".join(f'<th scope="col">{head}</th>' for head in ("Identity", "From", "To (exclusive)", "Buckets"))
    yield f"<table>\n<thead><tr>{heads}</tr></thead>\n<tbody>"
    for texts in gap_texts(axis, shown):
        yield "".join(("<tr>", *(f"<td>{escape(text)}</td>" for text in texts), "</tr>"))
    yield "</tbody>\n</table>"
