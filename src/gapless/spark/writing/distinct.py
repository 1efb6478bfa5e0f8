"""Rows of a DataFrame that share a key are refused: none of them comes before another."""

from __future__ import annotations

import pyarrow as pa

from gapless.errors import DuplicateKey
from gapless.files.compare.keys import KeySet


def check_distinct(rows: pa.Table, key: tuple[str, ...]) -> None:
    """Raise DuplicateKey where rows have the same values in the columns of the key."""
    keys = KeySet.of(rows, key)
    if keys.count == rows.num_rows:
        return
    twice = rows.select(list(key)).take(pa.array(keys.repeated()))
    shown = tuple(tuple(row.values()) for row in twice.slice(0, 3).to_pylist())
    raise DuplicateKey(
        f"rows of the DataFrame share a key ({', '.join(key)}): {', '.join(map(str, shown))}",
        why="Which of the rows should stay is not said; nothing was written",
        fix="Leave one row of each key in the DataFrame: the one that should stay",
        columns=key,
        keys=shown,
    )
