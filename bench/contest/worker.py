"""A process that has one contender do one case: a task as JSON on the command line, then a line of JSON in, a line out.

Run as `python -m contest.worker TASK` with bench/ on the path. Its first line says who is there. `{"round": n}` does a round. What the
engine prints goes to the log.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from contest.act import Act, Task
from contest.appending import Append, Audit, Stream, Write
from contest.asking import ByHour, Day, DayOfMany, Gaps, Open, Synthesize, Update
from contest.contender import Contender
from contest.usage import family, forget_peaks, processor_seconds, resident

ACTS: dict[str, type[Act]] = {
    "bulk": Append,
    "forty": Append,
    "tiny": Stream,
    "day": Day,
    "day_forty": DayOfMany,
    "by_hour": ByHour,
    "gaps": Gaps,
    "update": Update,
    "writers": Write,
    "audit": Audit,
    "synthesize": Synthesize,
    "open": Open,
}
Say = Callable[[dict[str, Any]], None]


def main() -> None:
    say = _own_output()
    given = json.loads(sys.argv[1])
    task = Task(**given | {"folder": Path(given["folder"])})
    act = _guarded(say, lambda: _prepared(task))
    if act is None:
        return
    contender = act.contender
    about = {"version": contender.version(), "durability": contender.durability}
    say(about | {"cannot": dict(contender.cannot), "only": sorted(contender.only)})
    for line in sys.stdin:
        order = json.loads(line)
        found = _guarded(say, lambda order=order: measured(act, order["round"]))  # type: ignore[misc]
        if found is not None:
            say(found)
    contender.close()


def _prepared(task: Task) -> Act:
    contender: Contender = importlib.import_module(f"peers.{task.module}").CONTENDER()
    act = ACTS[task.case](contender, task)
    if task.case not in contender.cannot and (not contender.only or task.case in contender.only):
        act.prepare()
    return act


def measured(act: Act, number: int) -> dict[str, Any]:
    """One round: its seconds, its processor time, and how far memory rose above where it stood."""
    act.number = number
    act.before()
    gc.collect()
    pids = family([os.getpid(), *act.contender.servers()])
    forget_peaks(pids)
    held, used, own = resident(pids, peak=False), processor_seconds(pids), time.process_time()
    start = time.perf_counter()
    act.found = act.act()
    seconds = time.perf_counter() - start
    own = time.process_time() - own
    grown = family([os.getpid(), *act.contender.servers()])
    used = processor_seconds(set(grown) | set(pids)) - used
    # Ticks of 10 ms are all there is of other processes; where there are none, the exact count.
    usage = {
        "seconds": seconds,
        "cpu": own if len(grown) == 1 else max(own, used),
        "held": held,
        "peak": resident(grown, peak=True),
    }
    return usage | act.after()


def _guarded(say: Say, work: Callable[[], Any]) -> Any:
    try:
        return work()
    except Exception as error:
        traceback.print_exc()
        say({"error": f"{type(error).__name__}: {str(error).strip()[:300]}"})
        return None


def _own_output() -> Say:
    """A way to say things on what was standard output; whoever prints there from now on prints to the log."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(what: dict[str, Any]) -> None:
        out.write(json.dumps(what) + "\n")
        out.flush()

    return say


if __name__ == "__main__":
    main()
