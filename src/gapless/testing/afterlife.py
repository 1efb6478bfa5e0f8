"""Once a simulated history is over: the table serves, and every version that is kept reads as it was."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterator

from gapless.errors import VersionNotFound
from gapless.runtime.driver import Rim
from gapless.table.lifecycle import open_table
from gapless.table.table import TimeSeriesTable
from gapless.testing.audit_log import Ledger
from gapless.testing.clock import SimClock, SimIds, seeded
from gapless.testing.history import History
from gapless.testing.process import LOCATION
from gapless.testing.roles import rows_of, to_batch
from gapless.testing.timeline import Timeline
from gapless.testing.watch import WatchedStore


def check_afterlife(store: WatchedStore, timeline: Timeline, history: History, ledger: Ledger) -> list[str]:
    """What is wrong with the table as it opens, without help, once nothing is under way any more, beside the log of the history."""
    rim = Rim(store=store, clock=SimClock(timeline), ids=SimIds(seeded(0)), deadline_s=1.0)
    try:
        table = TimeSeriesTable(rim, LOCATION, open_table(rim, LOCATION))
        return [
            *_check_end(table, history),
            *_check_versions(table, ledger),
            *_check_changes(table, ledger),
            *_check_write(table),
        ]
    except Exception:  # noqa: BLE001 - whatever it is, it is a fault
        return [f"once all was over: {traceback.format_exc()}"]


def _check_end(table: TimeSeriesTable, history: History) -> Iterator[str]:
    newest = max((sent.version for sent in history.sent if sent.version is not None), default=1)
    if table.version < newest:
        yield f"the end opens at version {table.version}, though {newest} was acknowledged"


def _check_versions(table: TimeSeriesTable, ledger: Ledger) -> Iterator[str]:
    """Every version that is kept reads as the log tells it, and every other is refused."""
    landed = ledger.commits[ledger.newest].landed
    for version, commit in ledger.commits.items():
        try:
            rows = rows_of(table.at(version=version).scan().to_arrow())
        except VersionNotFound as error:
            if landed.keeps(version):
                yield f"once all was over, version {version} is refused: {error}"
        else:
            if not landed.keeps(version):
                yield f"once all was over, version {version} is read, though it expired"
            elif rows != commit.rows:
                yield f"once all was over, version {version} reads {rows}, which are {commit.rows}"


def _check_changes(table: TimeSeriesTable, ledger: Ledger) -> Iterator[str]:
    """The change feed of all that is kept, replayed over the rows before it, gives the rows of the end."""
    first = ledger.commits[ledger.newest].landed.earliest
    if first >= table.version:
        return
    rows = Counter(ledger.rows_at(first))
    for change in table.changes(first + 1, table.version).to_arrow().to_pylist():
        gone = change["_change_type"] in ("delete", "update_preimage")
        rows[change["ts"], change["entity"], change["number"]] += -1 if gone else 1
    wanted = Counter(ledger.rows_at(table.version))
    if rows != wanted:
        yield f"the changes from version {first + 1} on come to rows that are too many or too few by {dict(rows - wanted | wanted - rows)}"


def _check_write(table: TimeSeriesTable) -> Iterator[str]:
    """It takes a write."""
    version = table.version
    report = table.append(to_batch(((10**6, "x", 10**9),)), on_overlap="allow")
    if report.version != version + 1:
        yield f"a write after the end landed as {report.version}, not as {version + 1}"
