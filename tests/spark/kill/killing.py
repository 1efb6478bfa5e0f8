"""Kill -9 of a pipeline's processes, which share a session, from without or at an exact place within one of them."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
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
    kind: str = "timeseries"
    """Of the table that is committed to."""


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
    plan, driver = Kill(**json.loads(os.environ[PLAN])), int(os.environ[DRIVER])
    if plan.kind in ("iceberg", "hudi") and os.getpid() != driver:
        return  # they are committed to in the driver alone
    {"iceberg": _arm_iceberg, "hudi": _arm_hudi}.get(plan.kind, _arm_log)(plan, driver)


def _arm_log(plan: Kill, driver: int) -> None:
    from gapless.runtime.committer import Committer

    real = Committer.commit
    here = "foreachBatch" if os.getpid() == driver else "format"

    def commit(self: Any, snapshot: Any, proposal: Any) -> Any:
        told = proposal.commit
        # A commit of a Delta table has one at most.
        named = [told.operation_id] if hasattr(told, "operation_id") else [applied.operation for applied in told.operations]
        meant = here == plan.sink
        return _struck(
            plan, driver, named if meant else (), lambda: real(self, snapshot, proposal), lambda found: hasattr(found, "state")
        )

    Committer.commit = commit  # type: ignore[method-assign]


def _arm_iceberg(plan: Kill, driver: int) -> None:
    from gapless.formats.iceberg.operations import APP, CHECKPOINT
    from gapless.model.operation import SequenceId
    from gapless.tables.iceberg.place import DirectoryPlace

    real = DirectoryPlace.commit

    def commit(self: Any, loaded: Any, change: Any, time_ms: int) -> Any:
        said = change.updates[0].snapshot.summary.additional_properties
        named = [SequenceId(said[APP], int(said[CHECKPOINT]))]
        return _struck(plan, driver, named, lambda: real(self, loaded, change, time_ms), lambda found: found == "landed")

    DirectoryPlace.commit = commit  # type: ignore[method-assign]


def _arm_hudi(plan: Kill, driver: int) -> None:
    from gapless.tables.hudi import commit

    module: Any = commit

    made, claimed = module._Attempt.made, module.claimed
    named: list[Any] = []

    def attempt(self: Any, *arguments: Any) -> Any:
        named[:] = [self.operation]
        return _struck(
            replace(plan, place="after the commit"),
            driver,
            _if(plan, "after the commit", named),
            lambda: made(self, *arguments),
        )

    def claim(*arguments: Any) -> Any:
        return _struck(
            replace(plan, place="before the commit"), driver, _if(plan, "before the commit", named), lambda: claimed(*arguments)
        )

    module._Attempt.made = attempt
    module.claimed = claim


def _if(plan: Kill, place: str, named: list[Any]) -> list[Any]:
    return named if plan.place == place else []


def _struck(
    plan: Kill,
    driver: int,
    named: Iterable[Any],
    commit: Callable[[], Any],
    landed: Callable[[Any], bool] = lambda _: True,
) -> Any:
    """What a commit gives that records these operations, before or after which processes are killed if it is of a batch that is meant."""
    batches = list(_batches(named))
    meant = any(batch >= plan.batch for batch in batches)
    if meant and plan.place == "before the commit":
        _strike(plan, driver, batches)
    outcome = commit()
    if meant and plan.place == "after the commit" and landed(outcome):
        _strike(plan, driver, batches)
    return outcome


def _batches(named: Iterable[Any]) -> Iterator[int]:
    """The numbers of batches that a commit records; not what it says of the query itself."""
    from gapless.model.operation import SequenceId

    for operation in named:
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
