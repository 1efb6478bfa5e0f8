"""A DataFrame into a table: written by executors, committed once by the driver."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa

from gapless.coverage.bitmap import CoverageMap
from gapless.coverage.codec import decode
from gapless.coverage.overlap import overlap
from gapless.dialects.timeseries.actions import SetTransaction, TableState
from gapless.dialects.timeseries.features import claim
from gapless.dialects.timeseries.live import live_meeting
from gapless.errors import InvalidOption
from gapless.model.index import EntityType
from gapless.model.operation import parse_operation_id
from gapless.model.properties import OnOverlap, parse_on_overlap
from gapless.model.report import AppendReport
from gapless.model.schema import entity_types
from gapless.parquet.attempt import Attempt
from gapless.parquet.batches import Batches
from gapless.runtime.driver import Rim
from gapless.spark.arrival import arriving_schema
from gapless.spark.encode import RESULT, Encoding, Outcome
from gapless.spark.inside import inside_to_write
from gapless.spark.spread import spread_rows
from gapless.table.append import Appender, read_staged
from gapless.table.lifecycle import Location
from gapless.table.stage import Stager
from gapless.table.table import TimeSeriesTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def write(
    frame: DataFrame,
    table: TimeSeriesTable | Location,
    *,
    on_overlap: OnOverlap | None = None,
    operation_id: tuple[str, int] | str | None = None,
    spread: bool = True,
) -> AppendReport:
    """Append a DataFrame's rows as one commit, all or none: executors write the segments, in parallel.

    Args:
        frame: The rows; columns are matched by name. What `read` shows of a table can be written to it again.
        table: A table, or the path or URL of one; executors write there themselves.
        on_overlap: As in `table.append`. Where rows meet covered buckets under "skip" or "replace", and in a `unique` table, the
            driver reads what the executors wrote and decides about each row, as `table.append` does; "replace" holds them in memory.
        operation_id: As in `table.append`: sent again, nothing is computed and the first report comes back.
        spread: Rows go to tasks by bucket and identity, so that files cover short stretches of time; Spark samples them for it, which
            computes the DataFrame twice. False writes its partitions as they are, and refuses those that share buckets, but under "allow".

    Tasks that are tried again, or twice at once, leave each row once: only what the successful ones wrote is in the commit. A failed
    write leaves files that `table.vacuum` takes away. Rows in an error count within the partition it names.

    Raises as `table.append`; NotSupported for a table in memory, InvalidOption for a view; errors of Spark itself are not touched.
    """
    handle = _writable(table)
    known = inside_to_write(handle)
    named = None if on_overlap is None else parse_on_overlap(on_overlap)
    operation = None if operation_id is None else parse_operation_id(operation_id)
    snapshot = known.committer.refresh(known.snapshot)
    appender = Appender(
        committer=known.committer,
        cache=known.cache,
        grid=known.grid,
        on_overlap=named or snapshot.state.meta.properties.on_overlap,
        by_table=named is None,
        operation=operation,
    )
    if (report := appender.known(snapshot)) is not None:
        return report
    stager = appender.stager(snapshot)
    attempt, schema = _written(frame, known.rim, stager, spread=spread)
    applied = () if operation is None else (SetTransaction(operation, attempt.tally),)
    if _stands(appender, snapshot.state, attempt):
        outcome = appender.commit(snapshot, stager.staged(attempt, schema, applied))
        if isinstance(outcome, AppendReport):
            return outcome
    try:
        # Whatever stands in the way, an append of the same rows knows what to do about it.
        ids, version = snapshot.state.meta.ids, snapshot.version
        staged = (read_staged(known.rim, segment, schema, ids, version) for segment in attempt.segments)
        rows = pa.RecordBatchReader.from_batches(schema, chain.from_iterable(staged))
        return handle.append(rows, on_overlap=named, operation_id=operation_id)
    finally:
        attempt.discard()


def _writable(table: object) -> TimeSeriesTable:
    if isinstance(table, str | os.PathLike):
        return TimeSeriesTable.open(table)
    if not isinstance(table, TimeSeriesTable):
        raise InvalidOption(
            f"{table!r} cannot be written to",
            why="A view shows one version, and rows are added to the newest",
            fix="Pass a table, as from gl.open(path), or its path",
            option="table",
            value=table,
        )
    return table


def _written(frame: DataFrame, rim: Rim, stager: Stager, *, spread: bool) -> tuple[Attempt, pa.Schema]:
    """The rows as segments that executors wrote, and the table's schema once it has taken them.

    Raises what wrong rows deserve, with nothing left behind.
    """
    meta = stager.state.meta
    given = arriving_schema(frame.limit(0).toArrow().schema, meta.schema)
    schema = stager.schema_for((Batches(source="the DataFrame", schema=given, read=lambda: iter(())),))
    assert schema is not None
    attempt = Attempt.begin(rim)
    encoding = Encoding(store=rim.store, meta=claim(replace(meta, schema=schema)), given=given, instant=attempt.instant)
    rows = spread_rows(frame, meta.index) if spread else frame
    answers = rows.mapInArrow(encoding.rows, RESULT).collect()
    outcomes: list[Outcome] = [pickle.loads(answer.outcome) for answer in answers]  # noqa: S301  # our own executors made them
    attempt.written += [path for outcome in outcomes for path in outcome.written]
    try:
        _take(attempt, outcomes, entity_types(schema, meta.index), apart=not spread and stager.on_overlap != "allow")
    except BaseException:
        attempt.discard()
        raise
    return attempt, schema


def _take(attempt: Attempt, outcomes: Iterable[Outcome], types: tuple[EntityType, ...], *, apart: bool) -> None:
    """Put what the executors wrote into one attempt; raises what they refused, and InvalidOption where they are not `apart` but should be."""
    covered = CoverageMap()
    for outcome in outcomes:
        if outcome.refusal is not None:
            raise outcome.refusal
        coverage = [decode(data, types) for data in outcome.coverage]
        attempt.segments += outcome.segments
        attempt.coverage += coverage
        if apart:
            own = CoverageMap.union_of(coverage)
            _check_apart(own, covered)
            covered = covered.union(own)


def _check_apart(own: CoverageMap, covered: CoverageMap) -> None:
    shared = own.intersection(covered).cardinality()
    if shared:
        raise InvalidOption(
            f"spread=False, and partitions of the DataFrame share {shared:,} bucket{'s' * (shared != 1)}",
            why="Each partition becomes files of its own, which would cover the same buckets",
            fix='Leave spread out, partition the rows by entity and bucket before, or pass on_overlap="allow"',
            option="spread",
            value=False,
        )


def _stands(appender: Appender, state: TableState, attempt: Attempt) -> bool:
    """Whether the rows may be committed as they were written, as far as this version goes."""
    if appender.on_overlap == "replace" or state.meta.properties.unique:
        return False
    if appender.on_overlap == "allow" or not attempt.segments or state.meta.schema is None:
        return True
    covered, types = attempt.covered, entity_types(state.meta.schema, state.meta.index)
    near = live_meeting(state, covered, appender.grid)
    present = appender.cache.union(near, types, frozenset(covered.identities()))
    return overlap(covered, present, signed=appender.grid.signed) is None
