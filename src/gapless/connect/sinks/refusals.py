"""What sinks refuse by the columns that come, before the first row."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pyarrow as pa

from gapless.errors import CommitConflict, InvalidOption, RetractingInput, UnsupportedType
from gapless.files.compare.row_diff import CHANGE_TYPE
from gapless.model.types import children


def check_retracting(rows: pa.Schema, change: Mapping[str, Any], table: Collection[str]) -> None:
    """Raise RetractingInput where rows say that others were changed or removed, and all would be written; a table with a column of that
    name keeps such rows as they are.
    """
    if change["mode"] != "cdc" and CHANGE_TYPE in rows.names and CHANGE_TYPE not in table:
        raise RetractingInput(
            f"the rows say in {CHANGE_TYPE} what happened to each, and the sink's mode is {change['mode']!r}",
            why="All of them would be written, those that were removed too",
            fix='Make the sink with mode="cdc", or leave out such rows and the column',
            feature=f"changes into a sink that makes {change['mode']}s",
            column=CHANGE_TYPE,
        )


def check_types(rows: pa.Schema) -> None:
    """Raise UnsupportedType for values that a MERGE cannot take."""
    for field in rows:
        if _has_half_floats(field.type):
            raise UnsupportedType(
                f"column {field.name!r} is of {field.type}, which a change by key cannot take into a Delta table",
                why="Rows are matched in DuckDB, which has no half floats",
                fix="Cast it to float32, which holds each value exactly",
                column=field.name,
                type=str(field.type),
            )


def _has_half_floats(kind: pa.DataType) -> bool:
    return bool(pa.types.is_float16(kind)) or any(_has_half_floats(child.type) for child in children(kind))


def refuse_unnamed_key(keys: tuple[str, ...]) -> InvalidOption:
    """The error for changes without a key into a series of these key columns, which may hold several rows of one."""
    return InvalidOption(
        "changes into a series that may hold several rows of one identity and time need key=",
        why="Where several rows have one key, only the last would stay",
        fix=f'Pass key={list(keys)!r} where these tell rows apart, or key="*" to tell them apart by all their values',
        option="key",
        value=None,
    )


def refuse_old(whose: str, version: int) -> CommitConflict:
    """The error for rows of a checkpoint, or whatever `whose` says, that were staged so long ago that a vacuum may have taken them."""
    return CommitConflict(
        f"the rows of {whose} were staged half a day ago or longer",
        why="A vacuum may have taken their files for ones that an interrupted write left; nothing was committed",
        fix="Prepare a checkpoint more often than every half day, and send these rows again from the source",
        version=version,
        reason="staged too long ago",
    )


def refuse_columns_between(rows: int) -> InvalidOption:
    """The error for other columns than those of so many rows that wait to be prepared."""
    return InvalidOption(
        f"the columns change while {rows} rows wait to be prepared",
        why="Rows of one checkpoint have one set of columns",
        fix="Call prepare first, and initialize with the new columns then; or give these rows up with abort(None)",
        option="schema",
        value=None,
    )
