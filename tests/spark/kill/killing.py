"""Kill -9 of a pipeline's processes, which share a session, from without or at an exact place within one of them."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

PLAN, DRIVER = "KILL_PLAN", "KILL_DRIVER"
"""Environment variables: a `Kill` as JSON, and the driver's process id."""

Whom = Literal["all", "jvm", "driver"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """Who dies where."""

    place: Literal["before the commit", "after the commit", "at random"]
    """Between data files and the table's commit; between that and Spark's commit marker; or whenever the harness says."""
    whom: Whom = "all"
    sink: Literal["foreachBatch", "format"] | None = None
    """In whose commit: that of foreachBatch runs in the driver, the other's in a process that the JVM starts."""
    batch: int = 0
    """The first batch in whose commit it may be."""
    note: str = ""
    """A file that is written right before."""


def processes(session: int) -> dict[int, str]:
    """The living processes of a session, by id, with the names of their programs."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = path.read_text(encoding="utf-8", errors="replace").partition("(")[2].rpartition(")")
        except OSError:  # it ended meanwhile
            continue
        state, _, _, its_session = rest.split()[:4]
        if int(its_session) == session and state != "Z":
            found[int(path.parent.name)] = name
    return found


def kill(session: int, whom: Whom, driver: int) -> None:
    """Kill; whoever calls it from within the session dies last."""
    running = processes(session)
    doomed = {driver} if whom == "driver" else {pid for pid, name in running.items() if whom == "all" or name == "java"}
    for pid in sorted(doomed, key=lambda pid: pid == os.getpid()):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def arm() -> None:
    """Have this process kill, as the environment says, at a commit to a table."""
    from gapless.runtime.committer import Committer

    plan, driver = Kill(**json.loads(os.environ[PLAN])), int(os.environ[DRIVER])
    real = Committer.commit
    here = "foreachBatch" if os.getpid() == driver else "format"

    def commit(self: Any, snapshot: Any, proposal: Any) -> Any:
        batches = list(_batches(proposal.commit))
        meant = here == plan.sink and any(batch >= plan.batch for batch in batches)
        if meant and plan.place == "before the commit":
            _strike(plan, driver, batches)
        outcome = real(self, snapshot, proposal)
        if meant and plan.place == "after the commit" and hasattr(outcome, "state"):
            _strike(plan, driver, batches)
        return outcome

    Committer.commit = commit  # type: ignore[method-assign]


def _batches(commit: Any) -> Iterator[int]:
    """The numbers of batches that a commit records; not what it says of the query itself."""
    from gapless.model.operation import SequenceId

    for applied in commit.operations:
        operation = applied.operation
        if isinstance(operation, SequenceId) and not operation.app.startswith("spark stream "):
            yield operation.sequence


def _strike(plan: Kill, driver: int, batches: list[int]) -> None:
    note = Path(plan.note)
    if note.exists():
        return
    with note.open("w", encoding="utf-8") as file:
        json.dump({**asdict(plan), "batch": batches[0], "pid": os.getpid()}, file)
        file.flush()
        os.fsync(file.fileno())
    kill(os.getsid(0), plan.whom, driver)
