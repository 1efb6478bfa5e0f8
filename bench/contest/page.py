"""The run as tables in docs/performance.md, between two marks, and the plot beside it."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from contest.environment import ROOT
from contest.plot import draw

_PAGE, _PLOT = ROOT / "docs" / "performance.md", ROOT / "docs" / "assets" / "bench_peers.png"
_BEGIN, _END = "<!-- bench_peers.py --publish: begin -->", "<!-- bench_peers.py --publish: end -->"
_GROUPS = {
    "Writing, by rate: more is better": ("bulk", "bulk_ticks", "bulk_devices", "forty", "tiny", "writers"),
    "Reading and changing, by time: less is better": (
        "day", "day_ticks", "day_devices", "day_forty", "by_hour", "gaps", "update", "open_10000", "open_100000", "open_1000000",
    ),
}  # fmt: skip


def publish(about: Mapping[str, Any]) -> None:
    """Put a run's figures into the page, and its plot beside it. Raises SystemExit for a run that did not come to its end."""
    if "minutes" not in about:
        raise SystemExit("the run did not come to its end: its figures are not published")
    before, _, rest = _PAGE.read_text().partition(_BEGIN)
    _, _, after = rest.partition(_END)
    _PAGE.write_text(f"{before}{_BEGIN}\n\n{_text(about)}\n\n{_END}{after}")
    draw(about, _PLOT)


def _text(about: Mapping[str, Any]) -> str:
    kind = "A quick run, which shows no more than that all of it runs: " if about["quick"] else ""
    took = f"{about['minutes']:.0f} minutes"
    shown = f"{kind}{about['rows']:,} rows, {about['cores']} cores, Python {about['python']}, {took}."
    picture = f"![A panel for each case, with a bar for each engine](assets/{_PLOT.name})"
    return "\n\n".join([shown, picture, *(_table(title, names, about) for title, names in _GROUPS.items()), _versions(about)])


def _table(title: str, names: Sequence[str], about: Mapping[str, Any]) -> str:
    cases = [about["cases"][name] for name in names if name in about["cases"]]
    lines = [f"{title}. Median (min to max) x the floor, which is 1.", ""]
    lines += ["| | " + " | ".join(case["title"] for case in cases) + " |", "|---" * (len(cases) + 1) + "|"]
    there = [name for name in about["contenders"] if any(case["found"].get(name, {}).get("ratios") for case in cases)]
    lines += [f"| {name} | " + " | ".join(_cell(case["found"].get(name, {})) for case in cases) + " |" for name in there]
    reasons = list(_reasons(cases))
    return "\n".join([*lines, *([""] if reasons else []), *reasons])


def _cell(each: Mapping[str, Any]) -> str:
    ratios = each.get("ratios")
    if not ratios:
        return "-"
    low, middle, high = (f"{value:.2f}" if value < 100 else f"{value:,.0f}" for value in _spread(ratios))
    return f"{middle} ({low} to {high})" + ("" if each["right"] else ", another answer")


def _spread(ratios: Sequence[float]) -> tuple[float, float, float]:
    return min(ratios), statistics.median(ratios), max(ratios)


def _reasons(cases: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for case in cases:
        said = {name: each["why_not"] for name, each in case["found"].items() if "why_not" in each}
        if said:
            yield f"- {case['title']}, without " + "; ".join(
                f"{name} ({' '.join(why.split())[:120]})" for name, why in said.items()
            )


def _versions(about: Mapping[str, Any]) -> str:
    lines = ["| | version | on disk when an append returns, by default |", "|---|---|---|"]
    return "\n".join(
        [*lines, *(f"| {name} | {one['version']} | {one['durability']} |" for name, one in about["contenders"].items())]
    )
