"""Members of a group commit, as a handle makes them of small appends."""

from __future__ import annotations

import gapless as gl
from gapless.model.operation import parse_operation_id
from gapless.model.properties import OnOverlap
from gapless.tables.shared.inputs.rows import as_batches
from gapless.tables.timeseries.write.append import Appender
from gapless.tables.timeseries.write.group import Member, gather_small


def member(table: gl.TimeSeriesTable, data: object, policy: OnOverlap = "reject", operation: object = None) -> Member:
    """One append of `data` to the table."""
    part, small = gather_small(as_batches(data))
    assert small
    appender = Appender(
        context=table._context,
        on_overlap=policy,
        operation=None if operation is None else parse_operation_id(operation),
    )
    return Member(parts=(part,), appender=appender)
