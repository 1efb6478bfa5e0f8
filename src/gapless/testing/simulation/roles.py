"""How each task of an actor is done with a real table.

A new kind of operation is an intent (`intents`), the call that carries it out in a `Kind`, and its chance in `draw`; the auditor replays it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from gapless.errors import CommitOutcomeUnknown, CorruptTable, StoreUnavailable, VersionNotFound
from gapless.testing.simulation.intents import Appending, Intent, Restoring
from gapless.testing.simulation.process import MAX_SENDS, Kind, Process, Table, append_at_once
from gapless.testing.simulation.tasks import (
    AppendTogether,
    Maintain,
    Open,
    Outcome,
    Pause,
    PauseUntil,
    Read,
    ReadOld,
    Refresh,
    RestoreEarlier,
    Sent,
    Submit,
    Task,
)
from gapless.testing.simulation.timeline import START_NS
from gapless.testing.store.stores import Killed

_NO_ANSWER = (CommitOutcomeUnknown, StoreUnavailable)


# -- changes -----------------------------------------------------------------------------------------------------------


def _send(process: Process, intents: tuple[Intent, ...]) -> list[Outcome]:
    """Send changes (several only where they are appends) at one moment, and note what came of each."""
    table, started_ns, drawn = process.table, process.now_ns, len(process.ids.given)
    calls = [partial(_attempt, process.kind, table, intent) for intent in intents]
    results = append_at_once(table, calls) if len(calls) > 1 else [calls[0]()]
    sent = [
        Sent(
            actor=process.store.name,
            intent=intent,
            outcome=_outcome_of(process.kind, result),
            shared=len(intents) > 1,
            report=None if isinstance(result, BaseException) else result,
            error=result if isinstance(result, Exception) else None,
            ids=frozenset(process.ids.given[drawn:]),
            started_ns=started_ns,
            ended_ns=process.now_ns,
        )
        for intent, result in zip(intents, results, strict=True)
    ]
    process.history.sent += sent
    for result in results:
        if isinstance(result, Killed):
            raise result
    return [one.outcome for one in sent]


def _attempt(kind: Kind, table: Table, intent: Intent) -> Any:
    expected = (Killed, *_NO_ANSWER, *(kind.append_refusals if isinstance(intent, Appending) else kind.refusals))
    try:
        return kind.calls[type(intent)](table, intent)
    except BaseException as error:
        if isinstance(error, expected):
            return error
        raise


def _outcome_of(kind: Kind, result: Any) -> Outcome:
    """What a call came to; raises an error that no fault excuses."""
    match result:
        case Killed():
            return "killed"
        case _ if isinstance(result, _NO_ANSWER):
            return "unknown"
        case _ if isinstance(result, kind.refusals):
            return "refused"
        case BaseException():
            raise result
    return "acknowledged"


def _do(process: Process, task: Submit) -> None:
    for _ in range(MAX_SENDS):
        (outcome,) = _send(process, (task.intent,))
        if outcome != "unknown" or task.intent.operation_id is None:
            return
        process.forget_table()


def _append_together(process: Process, task: AppendTogether) -> None:
    for intent, outcome in zip(task.intents, _send(process, task.intents), strict=True):
        if outcome == "unknown" and intent.operation_id is not None:
            process.forget_table()
            _do(process, Submit(intent))


def _restore_earlier(process: Process, task: RestoreEarlier) -> None:
    _send(process, (Restoring(version=max(process.kind.first, process.table.version - task.versions)),))


def _maintain(process: Process, task: Maintain) -> None:
    _send(process, (process.kind.maintain(process.table, task),))


# -- reads -------------------------------------------------------------------------------------------------------------


def _open(process: Process, _task: Open) -> None:
    process.forget_table()
    assert process.table is not None


def _refresh(process: Process, _task: Refresh) -> None:
    table, started_ns = process.table, process.now_ns
    table.refresh()
    process.note_seen(started_ns, fresh=True)


def _read(process: Process, task: Read) -> None:
    _read_view(process, process.table, process.table.version, task.linger_s)


def _read_old(process: Process, task: ReadOld) -> None:
    version, started_ns = max(process.kind.first, process.table.version - task.versions), process.now_ns
    try:
        view = process.table.at(version=version)
    except VersionNotFound as error:
        process.note_missed(started_ns, version, error)
    else:
        _read_view(process, view, version, task.linger_s, asked_ns=started_ns)


def _read_view(process: Process, table: Table, version: int, linger_s: float, asked_ns: int | None = None) -> None:
    started_ns = process.now_ns if asked_ns is None else asked_ns
    try:
        begun = process.kind.look(table)
        process.env.clock.sleep(linger_s)
        read = begun()
    except (CorruptTable, VersionNotFound) as error:
        # The auditor asks whether it had expired: then its files may be gone.
        process.note_missed(started_ns, version, error)
    else:
        process.note_seen(started_ns, fresh=False, asked=asked_ns is not None, read=read, version=version)


def _pause(process: Process, task: Pause) -> None:
    process.env.clock.sleep(task.seconds)


def _pause_until(process: Process, task: PauseUntil) -> None:
    process.env.clock.sleep(max(0.0, task.until_s - (process.now_ns - START_NS) / 1e9))


_ACTS: dict[type, Callable[[Process, Any], None]] = {
    Submit: _do,
    AppendTogether: _append_together,
    RestoreEarlier: _restore_earlier,
    Maintain: _maintain,
    Open: _open,
    Refresh: _refresh,
    Read: _read,
    ReadOld: _read_old,
    Pause: _pause,
    PauseUntil: _pause_until,
}


def act(process: Process, task: Task) -> None:
    """Do one task; raises Killed, StoreUnavailable, AccessDenied, and what no fault excuses."""
    _ACTS[type(task)](process, task)
