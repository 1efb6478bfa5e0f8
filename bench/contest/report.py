"""What a run found, as text and as JSON."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from contest.case import Case
from contest.rounds import NOT_ASKED, Played, disagreeing, ratios

_MIB = 1 << 20


def figures(case: Case, played: Played) -> dict[str, Any]:
    """A case as JSON keeps it: by contender ratios, seconds, processor seconds, memory, bytes, whether the answer is right; or why not."""
    wrong = disagreeing(played)
    found: dict[str, Any] = {}
    for name, entry in played.items():
        if entry.why_not == NOT_ASKED:
            continue
        if not entry.counted():
            found[name] = {"why_not": entry.why_not or "not run"}
            continue
        turns = list(entry.counted().values())
        found[name] = {
            "ratios": list(ratios(case, played, name)),
            "seconds": [turn["seconds"] for turn in turns],
            "cpu": [turn["cpu"] for turn in turns],
            "memory_bytes": max(turn["peak"] - turn["held"] for turn in entry.turns.values()),
            "right": name not in wrong,
            **_extras(turns),
        }
        if entry.why_not:
            found[name]["stopped"] = entry.why_not
    return {"title": case.title, "floor": case.floor, "rate": case.rate, "found": found}


def _extras(turns: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    kept = ("bytes", "appends", "p50", "first", "last", "failed", "errors", "astray")
    return {key: [turn[key] for turn in turns] for key in kept if key in turns[-1]}


def block(figure: Mapping[str, Any]) -> str:
    """A case as text, a line a contender, the best first."""
    found, kind = figure["found"], "rate" if figure["rate"] else "time"
    lines = [f"\n{figure['title']}: {kind} x {figure['floor']}", _head()]
    there = {name: each for name, each in found.items() if each.get("ratios")}
    order = sorted(there, key=lambda name: statistics.median(there[name]["ratios"]), reverse=figure["rate"])
    floor = there.get(figure["floor"])
    lines += [_line(name, there[name], floor) for name in order]
    lines += [
        f"  {name:16} - {each.get('why_not', 'no round beside the floor')}" for name, each in found.items() if name not in there
    ]
    return "\n".join(lines)


def _head() -> str:
    return f"  {'':16}{'min':>8}{'median':>8}{'max':>8}{'cpu x':>8}{'memory':>10}{'on disk':>10}{'n':>4}"


def _line(name: str, each: Mapping[str, Any], floor: Mapping[str, Any] | None) -> str:
    ratios = each["ratios"]
    spread = "".join(
        f"{value:8.2f}" if value < 100 else f"{value:8,.0f}" for value in (min(ratios), statistics.median(ratios), max(ratios))
    )
    cpu = _share(each["cpu"], floor["cpu"]) if floor else "-"
    disk = f"{each['bytes'][-1] / _MIB:,.1f} MiB" if "bytes" in each else ""
    line = f"  {name:16}{spread}{cpu:>8}{each['memory_bytes'] / _MIB:>6,.0f} MiB{disk:>12}{len(ratios):>4}"
    return line + "".join(f"  {note}" for note in _notes(each))


def _share(values: Sequence[float], floor: Sequence[float]) -> str:
    below = statistics.median(floor)
    return f"{statistics.median(values) / below:.2f}" if below else "-"


def _notes(each: Mapping[str, Any]) -> Iterable[str]:
    if not each["right"]:
        yield "ANOTHER ANSWER"
    if sum(each.get("failed", ())):
        often = max(each["errors"][-1] or {"?": 0}, key=lambda what: each["errors"][-1][what])
        yield f"{sum(each['failed'])} errors, such as {often[:80]}"
    if any(each.get("astray", ())):
        yield f"rows beside those acknowledged: {each['astray']}"
    if "last" in each:
        yield f"last tenth x first {statistics.median(each['last']) / statistics.median(each['first']):.2f}, of {each['appends'][-1]:,}"
    if "stopped" in each:
        yield f"stopped: {each['stopped'][:80]}"


def roll(hellos: Mapping[str, Mapping[str, Any]]) -> str:
    """Who was there, in which version, and what outlives a power cut; figures are of what each does by default."""
    lines = [f"  {name:16} {hello['version']:24} {hello['durability']}" for name, hello in hellos.items()]
    return "\n".join(["\nwhat each has on disk when an append returns, by default:", *lines])
