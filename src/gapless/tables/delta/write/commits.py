"""Log entries of changes of ours; append-only tables (`delta.appendOnly`); checks of text arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gapless.errors import InvalidOption, NotSupported
from gapless.formats.delta.actions import Action, Commit, Json, TableState
from gapless.formats.delta.operation_ids import kind_of_change, txn_of
from gapless.formats.delta.properties import Settings
from gapless.formats.delta.row_tracking import PRESERVED, MaterializedColumns, track_rows
from gapless.log.format import Snapshot
from gapless.model.operation import OperationId, Tally
from gapless.runtime.committer import ENGINE
from gapless.runtime.environment import Environment
from gapless.tables.delta.published import check_commit


def new_commit(
    env: Environment,
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

    Files get the row ids that the table asks for. An operation id is said with a `txn` beside the actions, so that every reader of the log knows of it.
    """
    check_commit(env, snapshot.state, operation, actions)
    applied = () if operation_id is None else (txn_of(operation_id, kind_of_change(operation, parameters or {})),)
    state = snapshot.state
    settings, version = Settings.of(state.configuration), snapshot.version + 1
    return Commit(
        id=env.ids.uuid(),
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
        tags={PRESERVED: "true"} if MaterializedColumns.of(state) is not None else {},
        actions=(*track_rows(actions, state, version), *applied),
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


def check_may_remove(state: TableState, operation: str) -> None:
    """Raise NotSupported where the table's property `delta.appendOnly` forbids to take rows away; `operation` is Delta's name for it."""
    if not Settings.of(state.configuration).append_only:
        return
    raise NotSupported(
        f"the table is append-only, and {operation} would take rows away",
        why="Its property delta.appendOnly is true; nothing was changed",
        fix='Set the property to "false" first, if that is meant: table.alter.set_properties({"delta.appendOnly": "false"})',
        feature="delta.appendOnly",
    )


def check_text(option: str, value: object, *, optional: bool = False) -> None:
    """Raise InvalidOption for an argument that is no str; with `optional` it may be None."""
    if not (isinstance(value, str) or (optional and value is None)):
        fix = "Pass a str, or None" if optional else "Pass a str"
        raise InvalidOption(f"{option}={value!r} is no text", fix=fix, option=option, value=value)
