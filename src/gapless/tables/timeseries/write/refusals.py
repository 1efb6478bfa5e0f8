"""The errors that a write ends with: overlaps, keys that several rows have, groups that were interrupted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from gapless.coverage.bitmap import Overlap, bias, clip
from gapless.coverage.bucket import Grid
from gapless.errors import CommitOutcomeUnknown, CoverageOverlap, DuplicateKey, shorten, shorten_text
from gapless.files.compare.keys import KeySet
from gapless.files.sort.run import Run, index_values
from gapless.formats.timeseries.actions import TableState
from gapless.formats.timeseries.replay import overlapping_segments
from gapless.model.index import EntityType, Identity, IndexSpec
from gapless.model.segment import Segment
from gapless.predicate.range import key_bounds
from gapless.tables.timeseries.correct.row_selection import BaseVersion, Filter, RowSelector
from gapless.tables.timeseries.read.coverage import CoverageCache
from gapless.tables.timeseries.read.values import format_index_value, presenter


def overlap_error(
    state: TableState, cache: CoverageCache, found: Overlap, types: tuple[EntityType, ...], grid: Grid
) -> CoverageOverlap:
    """The refusal of an append, naming the commit that covers its first overlapping bucket."""
    start, end = grid.start(found.first), grid.end(found.first)
    version = None
    stored = found.first + bias(signed=grid.signed)
    wanted = frozenset({found.identity})
    for segment in overlapping_segments(state, start, end, wanted):
        bitmap = cache.of(segment, types, wanted).get(found.identity)
        if bitmap is not None and clip(bitmap, stored, stored + 1):
            version = state.live[segment.path].version
            break
    return refuse_overlap(state, found, grid, version)


def refuse_overlap(state: TableState, found: Overlap, grid: Grid, version: int | None) -> CoverageOverlap:
    """The refusal of an append whose buckets version `version` covers."""
    index = state.meta.index
    start, end = grid.start(found.first), grid.end(found.last)
    who = f" for {format_identity(index, found.identity)}" if index.entity else ""
    others = found.identities - 1
    more = f" and overlaps {others} more identit{'y' if others == 1 else 'ies'}" if others else ""
    schema = state.meta.schema
    span = f"[{format_index_value(start, index, schema)}, {format_index_value(end, index, schema)})"
    present = presenter(index, schema)
    return CoverageOverlap(
        f"the table already covers {span}{who}{more}: {found.buckets:,} bucket{'s' * (found.buckets != 1)}",
        why=f"{'An earlier commit' if version is None else f'Version {version}'} holds rows there; nothing was written",
        fix='Pass on_overlap="skip" to keep what is there and append the rest, or on_overlap="allow" to hold both',
        identity=found.identity,
        start=present(start),
        end=present(end),
        buckets=found.buckets,
        identities=found.identities,
        version=version,
    )


def group_interrupted() -> CommitOutcomeUnknown:
    """The error for an append whose group's leading thread was interrupted."""
    return CommitOutcomeUnknown(
        "whether the append landed is not known",
        why="It shared a commit with others, and the thread that led them was interrupted",
        fix="Look for its rows, or send it again; with an operation_id that is harmless",
        version=0,
        commit_id="",
    )


def format_identity(index: IndexSpec, identity: Identity) -> str:
    """`symbol='AAPL', venue=7`."""
    return ", ".join(f"{name}={shorten(value)}" for name, value in zip(index.entity, identity, strict=True))


_SHOWN = 5


def check_distinct(run: Run, before: BaseVersion) -> None:
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


def check_absent(run: Run, before: BaseVersion, segments: Sequence[Segment], cut: RowSelector | None = None) -> None:
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


def _rows_near(before: BaseVersion, segment: Segment, rows: pa.Table, cut: RowSelector | None) -> Iterator[pa.Table]:
    others = () if cut is None else cut.seen.columns
    wanted = Filter(columns=tuple(dict.fromkeys((*before.keys, *others))), predicate=key_bounds(rows, before.keys))
    for found in before.rows(segment, wanted):
        yield found if cut is None else cut.split(found).kept


def refuse_duplicates(rows: pa.Table, columns: tuple[str, ...], what: str, why: str) -> DuplicateKey:
    """The error for keys that come too often; `rows` has one row for each of them."""
    shown = rows.select(columns).slice(0, _SHOWN)
    keys = tuple(zip(*(_shown(shown.column(name)) for name in columns), strict=True))
    texts = ["(" + ", ".join(f"{n}={shorten_text(str(v))}" for n, v in zip(columns, key, strict=True)) + ")" for key in keys]
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
