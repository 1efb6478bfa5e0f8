"""The columns that change feeds of every kind of table have in common."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from gapless.errors import InvalidOption
from gapless.files.compare.row_diff import CHANGE_TYPE
from gapless.model.instant import NS_PER
from gapless.predicate.range import check_columns

COMMIT_VERSION = "_commit_version"
COMMIT_TIMESTAMP = "_commit_timestamp"

TYPE_FIELD = pa.field(CHANGE_TYPE, pa.string(), nullable=False)


COMMIT_FIELDS = (
    pa.field(COMMIT_VERSION, pa.int64(), nullable=False),
    pa.field(COMMIT_TIMESTAMP, pa.timestamp("us", "UTC"), nullable=False),
)


def shown_schema(schema: pa.Schema, columns: Sequence[str] | None, ours: tuple[pa.Field, ...]) -> pa.Schema:
    """The columns of a table that are asked for, all where None, and ours behind them. Raises UnknownColumn, InvalidOption."""
    names = list(schema.names) if columns is None else list(columns)
    check_columns(names, schema)
    taken = {field.name for field in ours} & set(names)
    if taken or len(set(names)) < len(names) or isinstance(columns, str):
        raise InvalidOption(
            f"columns={columns!r} cannot be shown beside {', '.join(field.name for field in ours)}",
            why=f"The table has a column {min(taken)!r} of its own" if taken else "It is no list of different names",
            fix="Name each column once, in a list, and leave out those with these names",
            option="columns",
            value=columns,
        )
    return pa.schema([*(schema.field(name) for name in names), *ours], metadata=schema.metadata)


def stamped(rows: pa.Table, version: int, time_ns: int, shown: pa.Schema) -> pa.Table:
    """Rows with their kind of change behind, as the feed shows them: with the version that changed them, and its commit time."""
    stamp = version, time_ns // NS_PER["us"]
    stamps = [pa.repeat(pa.scalar(value, field.type), rows.num_rows) for value, field in zip(stamp, COMMIT_FIELDS, strict=True)]
    # By place: the table may have a column that is called as ours.
    asked = [rows.column(rows.column_names.index(name)) for name in shown.names[: -1 - len(stamps)]]
    return pa.Table.from_arrays([*asked, rows.column(rows.num_columns - 1), *stamps], schema=shown)
