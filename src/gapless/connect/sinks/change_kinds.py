"""How rows say what happened to them: the spellings of change feeds, Debezium, Flink and DMS. Pure."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gapless.errors import InvalidValue, NullKey, nearest, shorten
from gapless.files.compare.row_diff import CHANGE_TYPE, DELETE, INSERT, POSTIMAGE, PREIMAGE
from gapless.model.convert import convert

Kinds = npt.NDArray[np.int8]
PUT: Final = 0
"""The row is there from now on, in the place of those with its key."""
REMOVED: Final = 1
"""The row that had these values is gone."""
REPLACED: Final = 2
"""The row had these values before an update, which gives those after it too."""

KINDS = {
    INSERT: PUT,
    PREIMAGE: REPLACED,
    POSTIMAGE: PUT,
    DELETE: REMOVED,
    "update": PUT,
    "upsert": PUT,
    "c": PUT,
    "r": PUT,
    "u": PUT,
    "d": REMOVED,
    "+I": PUT,
    "-U": REPLACED,
    "+U": PUT,
    "-D": REMOVED,
    "I": PUT,
    "U": PUT,
    "D": REMOVED,
}
"""What each spelling means: change data feeds; plain words; Debezium's `op`; Flink's row kinds; the `Op` of DMS."""
DEFAULT_COLUMN = CHANGE_TYPE
_SPELLINGS = tuple(KINDS)
_MEANINGS = np.array([*KINDS.values(), -1], dtype=np.int8)


def kinds_of(rows: pa.Table, column: str, key: tuple[str, ...], order_by: tuple[str, ...] = ()) -> Kinds:
    """What happened to each row. One without a kind and without values but its key and `order_by` is a tombstone: its key's row is gone.

    Raises InvalidValue, which names row and value, for a spelling that is not known; NullKey for a tombstone without a key.
    """
    told = pa.chunked_array([convert(chunk, pa.string()) for chunk in rows.column(column).chunks], pa.string())
    places = pc.fill_null(pc.index_in(told, value_set=pa.array(_SPELLINGS)), len(KINDS))
    kinds: Kinds = _MEANINGS[places.to_numpy(zero_copy_only=False)]
    unknown = kinds < 0
    if not unknown.any():
        return kinds
    others = [one for name, one in zip(rows.column_names, rows.columns, strict=True) if name not in {column, *key, *order_by}]
    silent = unknown & ~_is_known(told)
    for other in others:
        silent &= ~_is_known(other)
    if (unknown & ~silent).any():
        raise _refuse_kind(rows, column, int(np.argmax(unknown & ~silent)))
    keyless = silent & ~np.logical_or.reduce([_is_known(rows.column(name)) for name in key]) if key else silent
    if keyless.any():
        row = int(np.argmax(keyless))
        raise NullKey(
            f"row {row} says neither what changed nor of which key: all its values are null",
            why="A row without a kind of change says that the row of its key is gone",
            fix="Give it its key, or leave such rows out before they are written",
            column=", ".join(key),
            row=row,
        )
    kinds[silent] = REMOVED
    return kinds


def _is_known(column: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    known: npt.NDArray[np.bool_] = column.is_valid().to_numpy(zero_copy_only=False)
    return known


def _refuse_kind(rows: pa.Table, column: str, row: int) -> InvalidValue:
    value = rows.column(column)[row].as_py()
    known = f"There are: {', '.join(KINDS)}"
    return InvalidValue(
        f"row {row} has {column}={shorten(value)}, which is no kind of change that is known",
        why="It says what became of the row; only a tombstone, in which all is null but the key, has none",
        fix=f"{nearest(value, KINDS)} {known}" if isinstance(value, str) and "?" in nearest(value, KINDS) else known,
        column=column,
        row=row,
        value=value,
    )
