"""The demo's chart of the year: what was cancelled, how late the others left, and the wind."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from gapless.table.table import TimeSeriesTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DAYS = """
    select cast(timezone('America/New_York', time_hour) as date) as day, 100.0 * sum(cancelled) / sum(flights) as cancelled,
        sum(delay_minutes) / sum(departed) as late, max(wind_speed) as wind
    from this group by day order by day
"""
_PANELS = (
    ("cancelled", "cancelled flights, % of the day's", "#b2182b"),
    ("late", "mean delay at departure, minutes", "#2166ac"),
    ("wind", "strongest hourly wind, mph", "#666666"),
)


def draw_chart(table: TimeSeriesTable, path: Path) -> None:
    """Draw the days of a table of hourly departures into a PNG, three panels under each other; matplotlib must be there."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    days = table.sql(_DAYS).to_arrow()
    figure = Figure(figsize=(12, 6.5), dpi=150, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    figure.suptitle("Departures from New York in 2013, by day", x=0.0034, ha="left", size=13, weight="bold")
    for axes, (name, title, colour) in zip(figure.subplots(len(_PANELS), sharex=True), _PANELS, strict=True):
        _draw_panel(axes, days, name, colour)
        axes.set_title(title, loc="left", size=9, color="#555555")
    figure.savefig(path, format="png")


def _draw_panel(axes: Axes, days: pa.Table, name: str, colour: str) -> None:
    """One column as bars; its highest days say their date."""
    pairs = [
        (day, value) for day, value in zip(days["day"].to_pylist(), days[name].to_pylist(), strict=True) if value is not None
    ]
    axes.bar([day for day, _ in pairs], [value for _, value in pairs], width=1.0, color=colour)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.005)
    axes.set_ylim(min(0, *(value for _, value in pairs)), 1.15 * max(value for _, value in pairs))
    for day, value in _peaks(pairs):
        axes.annotate(f"{day.day} {day:%b}", (day, value), ha="center", va="bottom", size=8)


def _peaks(pairs: list[tuple[date, float]], count: int = 3) -> list[tuple[date, float]]:
    """The highest days, none of them within two weeks of a higher one."""
    found: list[tuple[date, float]] = []
    for day, value in sorted(pairs, key=lambda pair: pair[1], reverse=True):
        if len(found) < count and all(abs((day - other).days) > 14 for other, _ in found):
            found.append((day, value))
    return found
