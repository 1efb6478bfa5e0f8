"""Keys that several rows have where only one may."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from gapless.errors import DuplicateKey
from gapless.model.segment import Segment
from gapless.parquet.keys import KeySet
from gapless.parquet.run import Run, index_values
from gapless.scan.key_bounds import key_bounds
from gapless.table.before import Before, Filter
from gapless.table.cut import Cut

_SHOWN = 5


def check_distinct(run: Run, before: Before) -> None:
    """Raise DuplicateKey where two of the rows have one identity and index value."""
    values = index_values(run.table.column(before.index.column))
    again = (run.codes[1:] == run.codes[:-1]) & (values[1:] == values[:-1])
    if again.any():
        places = np.flatnonzero(again)
        raise refuse_duplicates(
            run.table.take(pa.array(places)),
            before.keys,
            "more than once in the input",
            "The table is unique: no two rows may have one identity and index value",
        )


def check_absent(run: Run, before: Before, segments: Sequence[Segment], cut: Cut | None = None) -> None:
    """Raise DuplicateKey where a row of the segments, less those that `cut` takes, has identity and index value of one of the run.

    `segments` are those that may cover a bucket of the run. Reads their key columns only.
    """
    if not run.table.num_rows:
        return
    keys = KeySet.of(run.table, before.keys)
    for segment in segments:
        if before.coverage(segment).is_disjoint(run.coverage):
            continue
        for rows in _rows_near(before, segment, run.table, cut):
            found = keys.match(rows)
            if (found >= 0).any():
                raise refuse_duplicates(
                    rows.filter(pa.array(found >= 0)),
                    before.keys,
                    f"in the table already, in segment {segment.path}",
                    "The table is unique: no two rows may have one identity and index value",
                )


def _rows_near(before: Before, segment: Segment, rows: pa.Table, cut: Cut | None) -> Iterator[pa.Table]:
    others = () if cut is None else cut.seen.columns
    wanted = Filter(columns=tuple(dict.fromkeys((*before.keys, *others))), predicate=key_bounds(rows, before.keys))
    for found in before.rows(segment, wanted):
        yield found if cut is None else cut.split(found).kept


def refuse_duplicates(rows: pa.Table, columns: tuple[str, ...], what: str, why: str) -> DuplicateKey:
    """The error for keys that come too often; `rows` has one row for each of them."""
    shown = rows.select(columns).slice(0, _SHOWN)
    keys = tuple(zip(*(_shown(shown.column(name)) for name in columns), strict=True))
    texts = ["(" + ", ".join(f"{n}={v}" for n, v in zip(columns, key, strict=True)) + ")" for key in keys]
    more = f" and {rows.num_rows - _SHOWN:,} more" if rows.num_rows > _SHOWN else ""
    return DuplicateKey(
        f"{rows.num_rows:,} key{'s' * (rows.num_rows > 1)} found {what}: {', '.join(texts)}{more}",
        why=why,
        fix='Leave one row of each key; upsert(…, on_duplicate="last") keeps the last that arrives',
        columns=columns,
        keys=keys,
    )


def _shown(column: pa.ChunkedArray) -> list[object]:
    """Values for people: Python's own, or Arrow's count where Python has none."""
    try:
        return column.to_pylist()  # type: ignore[no-any-return]  # pyarrow has no types
    except (ValueError, OverflowError):
        return [str(value) for value in column]
