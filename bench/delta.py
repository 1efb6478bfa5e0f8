"""gapless beside deltalake, one process, interleaved: each round both sides do the case once, the order drawn; told as ratios of a round.

    python bench/delta.py [--quick] [--only TEXT] [--rounds 5] [--json build/bench/delta.json]

A ratio is our time divided by deltalake's in the same round: below 1 we are faster. gapless syncs files and commits; deltalake leaves them
to the page cache. Goals: at most 1.2 everywhere; below 1 where long logs are opened, and at planning.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any

from delta_bench.cases import Case, cases
from delta_bench.sides import SIDES, Side

OUT = Path(__file__).resolve().parents[1] / "build" / "bench" / "delta.json"


def play(case: Case, folder: Path, rounds: int) -> dict[str, Any]:
    """All rounds of a case, after one that warms up."""
    case.make(folder)
    times: dict[str, list[float]] = {side.name: [] for side in SIDES}
    dice = random.Random(case.name)
    for turn in range((max(2, rounds // 2) if case.heavy else rounds) + 1):
        order: list[Side] = list(SIDES)
        dice.shuffle(order)
        for side in order:
            seconds = case.play(side, folder, turn)
            if turn or case.heavy:
                times[side.name].append(seconds)
    ours, theirs = (times[side.name] for side in SIDES)
    ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
    return {"goal": case.goal, "seconds": times, "ratios": ratios, "median": statistics.median(ratios)}


def line(name: str, found: dict[str, Any]) -> str:
    """A case as a row of a table."""
    ratios, goal = found["ratios"], found["goal"]
    ours, theirs = (statistics.median(seconds) * 1e3 for seconds in found["seconds"].values())
    holds = "yes" if found["median"] <= goal else "**no**"
    spread = f"{found['median']:.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
    return f"| {name} | {ours:,.1f} | {theirs:,.1f} | {spread} | {goal} | {holds} |"


def main() -> None:
    """Everything that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, files and commits")
    parser.add_argument("--only", action="append", default=[], help="cases whose name has this in it")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, default=OUT)
    chosen = parser.parse_args()
    about: dict[str, Any] = {"cores": os.cpu_count(), "python": platform.python_version(), "quick": chosen.quick, "cases": {}}
    print(f"| | gapless, ms | {SIDES[1].name}, ms | x deltalake's time, median (min to max) | goal | holds |")
    print("|---|---|---|---|---|---|", flush=True)
    for case in cases(quick=chosen.quick):
        if chosen.only and not any(text in case.name for text in chosen.only):
            continue
        folder = Path(tempfile.mkdtemp(prefix="delta-"))
        try:
            about["cases"][case.name] = found = play(case, folder, chosen.rounds)
            print(line(case.name, found), flush=True)
        except Exception as error:
            about["cases"][case.name] = {"error": repr(error)}
            print(f"| {case.name} | failed: {type(error).__name__}: {str(error)[:200]} | | | | **no** |", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        chosen.json.parent.mkdir(parents=True, exist_ok=True)
        chosen.json.write_text(json.dumps(about, indent=1) + "\n")
    held = [name for name, one in about["cases"].items() if "median" in one and one["median"] <= one["goal"]]
    print(f"\n{len(held)} of {len(about['cases'])} goals hold.")


if __name__ == "__main__":
    main()
