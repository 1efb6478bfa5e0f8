"""Tables that say of themselves that rows only come."""

from __future__ import annotations

from gapless.dialects.delta.actions import TableState
from gapless.dialects.delta.properties import Settings
from gapless.errors import NotSupported


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
