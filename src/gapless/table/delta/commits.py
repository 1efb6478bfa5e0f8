"""Log entries of changes of ours, with what every one of them says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gapless.dialects.delta.actions import Action, Commit, Json, TableState
from gapless.dialects.delta.operations import txn_of
from gapless.dialects.delta.properties import Settings
from gapless.log.dialect import Snapshot
from gapless.model.instant import NS_PER
from gapless.model.operation import OperationId
from gapless.model.report import Tally
from gapless.runtime.committer import ENGINE
from gapless.runtime.driver import Rim


def new_commit(
    rim: Rim,
    snapshot: Snapshot[TableState],
    operation: str,
    actions: Sequence[Action],
    *,
    parameters: Mapping[str, Json] | None = None,
    tally: Tally | None = None,
    operation_id: OperationId | None = None,
    blind_append: bool = False,
) -> Commit:
    """The entry of a change that was decided on a version; `operation` is Delta's name for it, `tally` what it counted.

    An operation id is said with a `txn` beside the actions, so that every reader of the log knows of it.
    """
    applied = () if operation_id is None else (txn_of(operation_id, rim.clock.now_ns() // NS_PER["ms"]),)
    settings = Settings.of(snapshot.state.configuration)
    return Commit(
        id=rim.ids.uuid(),
        operation=operation,
        parameters=parameters or {},
        metrics={} if tally is None else metrics_of(tally),
        blind_append=blind_append,
        isolation=settings.isolation,
        engine=ENGINE,
        read_version=snapshot.version,
        in_commit_time=settings.in_commit_timestamps,
        operation_id=operation_id,
        tally=tally,
        actions=(*actions, *applied),
    )


def metrics_of(tally: Tally) -> dict[str, int]:
    """Delta's `operationMetrics` for what a change counted."""
    counts = {
        "numFiles": tally.segments,
        "numOutputRows": tally.rows,
        "numRemovedFiles": tally.removed_segments,
        "numDeletedRows": tally.removed_rows - tally.updated_rows,
        "numUpdatedRows": tally.updated_rows,
    }
    return {name: count for name, count in counts.items() if count}
