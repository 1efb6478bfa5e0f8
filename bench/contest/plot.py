"""The run as a picture: a panel a case, a bar a contender on a logarithmic scale, the floor at 1."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_OURS, _OTHERS, _FLOORS = "#0b7a75", "#b8c4cc", "#7d8a93"


def draw(about: Mapping[str, Any], path: Path) -> None:
    """Draw what `bench_peers.py` keeps as JSON into a PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    cases = [case for case in about["cases"].values() if any(each.get("ratios") for each in case["found"].values())]
    if not cases:
        return
    columns = 3
    rows = math.ceil(len(cases) / columns)
    figure = Figure(figsize=(15, 3.2 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    for number, case in enumerate(cases, 1):
        _panel(figure.add_subplot(rows, columns, number), case)
    figure.savefig(path, dpi=90)


def _panel(axes: Any, case: Mapping[str, Any]) -> None:
    there = {name: each["ratios"] for name, each in case["found"].items() if each.get("ratios")}
    order = sorted(there, key=lambda name: statistics.median(there[name]), reverse=not case["rate"])
    middle = [statistics.median(there[name]) for name in order]
    spread = [[value - min(there[name]) for name, value in zip(order, middle, strict=True)]]
    spread.append([max(there[name]) - value for name, value in zip(order, middle, strict=True)])
    colours = [_colour(name) for name in order]
    axes.barh(order, middle, color=colours, xerr=spread, error_kw={"elinewidth": 0.8, "ecolor": "#444444"})
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("")
    axes.axvline(1, color="#444444", linewidth=0.8)
    axes.set_title(case["title"], fontsize=9, loc="left")
    axes.set_xlabel(
        f"{'rate' if case['rate'] else 'time'} x {case['floor']} ({'more' if case['rate'] else 'less'} is better)", fontsize=8
    )
    axes.tick_params(labelsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for at, value in enumerate(middle):
        axes.text(max(there[order[at]]) * 1.08, at, f"{value:.2f}" if value < 100 else f"{value:,.0f}", va="center", fontsize=7)
    low, high = min(map(min, there.values())), max(map(max, there.values()))
    axes.set_xlim(min(low, 1) / 1.5, max(high, 1) * 2.5)


def _colour(name: str) -> str:
    if name.startswith("gapless"):
        return _OURS
    return _FLOORS if name.startswith("pyarrow") else _OTHERS
