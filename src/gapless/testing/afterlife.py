"""Once a simulated history is over: the table serves, and every version that is kept reads as it was."""

from __future__ import annotations

import traceback
from collections.abc import Iterator

from gapless.errors import CorruptTable, VersionNotFound
from gapless.runtime.driver import Rim
from gapless.testing.audit_log import Ledger
from gapless.testing.clock import SimClock, SimIds, seeded
from gapless.testing.history import History
from gapless.testing.kind import Kind, Table
from gapless.testing.timeline import Timeline
from gapless.testing.watched import Watched


def check_afterlife(kind: Kind, store: Watched, timeline: Timeline, history: History, ledger: Ledger) -> list[str]:
    """What is wrong with the table as it opens, without help, once nothing is under way any more, beside the log of the history."""
    rim = Rim(store=store, clock=SimClock(timeline), ids=SimIds(seeded(0)), deadline_s=1.0)
    try:
        table = kind.open(rim)
        return [
            *_check_end(kind, table, history),
            *_check_versions(kind, table, ledger),
            *kind.after(table, ledger),
            *_check_write(kind, table),
        ]
    except Exception:  # noqa: BLE001 - whatever it is, it is a fault
        return [f"once all was over: {traceback.format_exc()}"]


def _check_end(kind: Kind, table: Table, history: History) -> Iterator[str]:
    newest = max((sent.version for sent in history.sent if sent.version is not None), default=kind.first)
    if table.version < newest:
        yield f"the end opens at version {table.version}, though {newest} was acknowledged"


def _check_versions(kind: Kind, table: Table, ledger: Ledger) -> Iterator[str]:
    """Every version that is kept reads as the log tells it; of the others none does where versions expire.

    Else one may read again: of two that clean a log, one may store a log checkpoint of a version whose commits the other has removed.
    """
    landed = ledger.commits[ledger.newest].landed
    for version, commit in ledger.commits.items():
        try:
            rows, _ = kind.look(table.at(version=version))()
        except (VersionNotFound, CorruptTable) as error:
            if landed.keeps(version):
                yield f"once all was over, version {version} is refused: {error}"
        else:
            if ledger.expires and not landed.keeps(version):
                yield f"once all was over, version {version} is read, though it expired"
            elif rows != commit.rows:
                yield f"once all was over, version {version} reads {rows}, which are {commit.rows}"


def _check_write(kind: Kind, table: Table) -> Iterator[str]:
    """It takes a write."""
    version = table.version
    report = kind.stray(table)
    if report.version != version + 1:
        yield f"a write after the end landed as {report.version}, not as {version + 1}"
