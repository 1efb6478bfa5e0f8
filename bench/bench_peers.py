"""gapless beside every peer that installs here, in one run, interleaved; all figures are ratios to a floor measured in the same round.

Writes are rates against `pyarrow.parquet.write_table` (zstd level 1, one thread, no sync), small appends and writers against the same with
two synced files an append; reads are times against `pyarrow.dataset` over what that wrote. Each contender does each case in a process of its
own, with what it does by default; a first round warms up. A ratio is to the floor's turn in the same round. `cpu x` is processor time
against the floor's, `memory` what the process (and its servers) rose by. Every answer is compared.

    python bench/bench_peers.py [--quick] [--only NAME] [--without NAME] [--rows 2000000] [--publish]

Peers live in build/bench/venv (requirements/bench.txt). All figures go to build/bench/peers.json, a plot to build/bench/peers.png.
`--only` takes a case (`bulk`, `day` …) or a contender, several times; a case's floor runs always.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from contest.case import Case, cases
from contest.environment import BUILD, prepare
from contest.opening import play_opening
from contest.page import publish
from contest.plot import draw
from contest.registry import CONTENDERS
from contest.report import block, figures, roll
from contest.rounds import Entry, Played, play
from contest.server import postgres
from contest.workload import SHAPES, make, save
from contest.writers import play_writers

OUT = BUILD / "peers.json"


class Run:
    """One run: where its tables lie, who takes part, what was found so far."""

    def __init__(self, folder: Path, names: Sequence[str], rows: int, *, quick: bool) -> None:
        """Make the workload."""
        self.folder, self.names = folder, names
        self.about: dict[str, Any] = {
            "rows": rows,
            "quick": quick,
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "cases": {},
        }
        self.hellos: dict[str, Mapping[str, Any]] = {}
        self._left: set[str] = set()
        for shape in SHAPES:
            save(make(shape, rows), folder / "workload")

    def do(self, case: Case, every: Sequence[Case]) -> None:
        """Run a case, and before it the one that leaves the tables that it asks; print it and keep it."""
        if case.needs and self._table(case.needs, case.shape) not in self._left:
            needed = next(each for each in every if (each.act, each.shape) == (case.needs, case.shape))
            self._play(replace(needed, repeats=0))
        played = self._play(case)
        self.about["cases"][case.name] = found = figures(case, played)
        print(block(found), flush=True)
        self.keep()

    def keep(self) -> None:
        """Write what was found so far."""
        self.about["contenders"] = {name: dict(hello) for name, hello in self.hellos.items()}
        OUT.write_text(json.dumps(self.about, indent=1) + "\n")

    def _play(self, case: Case) -> Played:
        way = {"writers": play_writers, "open": play_opening}.get(case.act, play)
        names = [name for name in CONTENDERS if name in self.names or name == case.floor]
        played: dict[str, Entry] = way(case, names, self.folder)
        self._left.add(self._table(case.act, case.shape))
        self.hellos |= {name: entry.hello for name, entry in played.items() if entry.hello and name not in self.hellos}
        return played

    @staticmethod
    def _table(act: str, shape: str) -> str:
        return f"{act}_{shape}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, help="default: 2,000,000, or 200,000 with --quick")
    parser.add_argument("--quick", action="store_true", help="fewer rows and rounds: shows no more than that all of it runs")
    parser.add_argument(
        "--publish", action="store_true", help="put the figures that are there into docs/performance.md, and run nothing"
    )
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="a case or a contender")
    parser.add_argument("--without", action="append", default=[], metavar="NAME", help="a case or a contender")
    given = parser.parse_args()
    if given.publish:
        publish(json.loads(OUT.read_text()))
        return
    rows = given.rows or (200_000 if given.quick else 2_000_000)
    every = cases(rows, quick=given.quick)
    chosen = _chosen({case.name: case for case in every}, given.only, given.without)
    contenders = _chosen(dict.fromkeys(CONTENDERS), given.only, given.without)
    _refuse_unknown(parser, {case.name for case in every} | set(CONTENDERS), [*given.only, *given.without])
    prepare()
    # So that the server ends with the run.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    began = time.perf_counter()
    with (
        tempfile.TemporaryDirectory(prefix="peers", ignore_cleanup_errors=True) as place,
        postgres(Path(place) / "postgres", BUILD / "postgres.log") as said,
    ):
        if said:
            print(f"postgres is left out: {said}")
            contenders.pop("postgres", None)
        run = Run(Path(place), list(contenders), rows, quick=given.quick)
        print(f"{rows:,} rows; {', '.join(run.names)}", flush=True)
        for case in chosen.values():
            run.do(case, every)
    print(roll(run.hellos))
    run.about["minutes"] = (time.perf_counter() - began) / 60
    run.keep()
    draw(run.about, BUILD / "peers.png")
    print(f"\n{run.about['minutes']:.1f} minutes; all of it is in {OUT}, the plot beside it")


def _chosen(known: Mapping[str, Any], only: Sequence[str], without: Sequence[str]) -> dict[str, Any]:
    """Those of `known` that were asked for; all, where none of them was."""
    wanted = [name for name in known if name in only] or list(known)
    return {name: known[name] for name in wanted if name not in without}


def _refuse_unknown(parser: argparse.ArgumentParser, known: set[str], named: Sequence[str]) -> None:
    for name in named:
        if name not in known:
            parser.error(f"{name!r} is neither a case nor a contender; there are {', '.join(sorted(known))}")


if __name__ == "__main__":
    main()
