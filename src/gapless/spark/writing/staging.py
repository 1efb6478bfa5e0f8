"""The driver's half of a parallel write: what executors need before it, and one commit of what they stored.

A stream that must record more than its operation id (the location of its checkpoint) does so in a commit of its own, before its first
batch: `handle.append([], operation_id=(name, 0))`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import pyarrow as pa

from gapless.errors import InvalidOption
from gapless.files.write.staged_write import StagedWrite
from gapless.formats.timeseries.actions import kind_of_change
from gapless.formats.timeseries.codec.metadata import with_features
from gapless.model.operation import AppendReport, ChangeReport, JobId, OperationId, SequenceId
from gapless.model.properties import OnOverlap
from gapless.model.schema import entity_types
from gapless.runtime.committer import calling_on_error
from gapless.runtime.metrics import DUPLICATES
from gapless.spark.reading.arrow_columns import arriving_schema
from gapless.spark.setup.delta_tables import refusing_delta_tables
from gapless.spark.setup.executors import job_context
from gapless.spark.writing.encode import Encoding, Outcome
from gapless.tables.shared.handle import Location
from gapless.tables.shared.landing import ChangeOutcome, skip_applied
from gapless.tables.timeseries.context import SeriesContext
from gapless.tables.timeseries.table import TimeSeriesTable
from gapless.tables.timeseries.write.append import Overwriter, holds_segments
from gapless.tables.timeseries.write.staged_append import StagedAppend, discard_uncommitted, schema_with


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One intended write, as the log must know it."""

    on_overlap: OnOverlap | None = None
    """The table's policy where None."""
    operation: OperationId | None = None


def open_to_write(table: object) -> TimeSeriesTable:
    """The table itself, or the one at a path or URL; raises InvalidOption for a view, NotSupported for a Delta table, and as `gl.open`."""
    with refusing_delta_tables(table, to_write=True):
        if isinstance(table, str | os.PathLike):
            location: Location = table
            return TimeSeriesTable.open(location)
    if not isinstance(table, TimeSeriesTable):
        raise InvalidOption(
            f"{table!r} cannot be written to",
            why="A view shows one version, and rows are added to the newest",
            fix="Pass a table, as from gl.open(path), or its path",
            option="table",
            value=table,
        )
    return table


def find_applied_write(
    handle: TimeSeriesTable, delivery: Delivery, change: Literal["append", "overwrite"] = "append"
) -> AppendReport | None:
    """The first report of an operation that the newest version has applied already; moves the handle to that version.

    Raises OperationReused where it was another change than this one, UpgradeNeeded, UnsupportedTable, NotSupported for a table in memory,
    StoreError.
    """
    context = job_context(handle, to_write=True)
    known = skip_applied(context.committer, context.refresh(), delivery.operation, kind_of_change(change))
    return None if known is None else known.append_report


def begin(handle: TimeSeriesTable, given: pa.Schema) -> Encoding:
    """What executors need to write rows of these columns, in types as Spark has them, into the version that the handle sees.

    It is of now: its instant names the files of one write. Raises SchemaMismatch, UnsupportedType, NotSupported, StoreError.
    """
    context = job_context(handle, to_write=True)
    meta = context.snapshot.state.meta
    arriving = arriving_schema(given, meta.schema)
    schema = schema_with(arriving, context, context.snapshot.state, "the DataFrame")
    instant = StagedWrite.begin(context.env).instant
    return Encoding(store=context.env.store, meta=with_features(replace(meta, schema=schema)), given=arriving, instant=instant)


def append_outcomes(
    handle: TimeSeriesTable, delivery: Delivery, encoding: Encoding, outcomes: Iterable[Outcome]
) -> AppendReport:
    """Commit what executors wrote as one append to the newest version, or nothing.

    Where rows must be looked at one by one ("skip" and "replace" on covered buckets, unique keys, a lost race, columns that changed since)
    the driver reads the staged segments back and appends their rows. Raises as `table.append`, and what executors refused; no staged
    file is left then, but where the outcome is unknown.
    """
    context = job_context(handle, to_write=True)
    staged = _staged(context, encoding, outcomes)
    return staged.append(
        context,
        delivery.on_overlap,
        delivery.operation,
        lambda rows: handle.append(rows, on_overlap=delivery.on_overlap, operation_id=_public(delivery.operation)),
        partial(discard_uncommitted, context, staged.attempt),
    )


def overwrite_outcomes(
    handle: TimeSeriesTable, delivery: Delivery, encoding: Encoding, outcomes: Iterable[Outcome]
) -> ChangeReport:
    """Commit what executors wrote in the place of all rows that the table has at that moment; the overlap policy does not matter.

    The driver reads the rows back, and holds them in memory, in a `unique` table and where columns changed since. Raises as
    `table.replace`, and what executors refused; no staged file is left then, but where the outcome is unknown.
    """
    context = job_context(handle, to_write=True)
    snapshot = context.refresh()
    staged = _staged(context, encoding, outcomes)
    attempt = staged.attempt
    with calling_on_error(partial(discard_uncommitted, context, attempt)):
        known = ChangeOutcome.before(snapshot, delivery.operation, kind_of_change("overwrite"))
        if known is not None and holds_segments(attempt.segments, snapshot.state):
            context.committer.count(DUPLICATES, 1, kind_of_change("overwrite"))
            return known.change_report
        direct = staged.fits(context, snapshot.state) and not snapshot.state.meta.properties.unique
    if not direct:
        try:
            return handle.replace((None, None), staged.rows(context, snapshot), operation_id=_public(delivery.operation))
        finally:
            discard_uncommitted(context, attempt)
    overwriter = Overwriter(context=context, operation=delivery.operation)
    prepared = overwriter.prepare(snapshot, staged.schema, attempt)
    return replace(prepared, discard=partial(discard_uncommitted, context, attempt)).land(context.committer).change_report


def _staged(context: SeriesContext, encoding: Encoding, outcomes: Iterable[Outcome]) -> StagedAppend:
    return StagedAppend(attempt=gather(context, encoding, outcomes), meta=encoding.meta, given=encoding.given)


def gather(context: SeriesContext, encoding: Encoding, outcomes: Iterable[Outcome]) -> StagedWrite:
    """What executors wrote as one attempt; raises what one of them refused, with nothing left behind."""
    assert encoding.meta.schema is not None
    types = entity_types(encoding.meta.schema, encoding.meta.index)
    attempt, refusals = StagedWrite(context.env, encoding.instant), []
    for outcome in outcomes:
        outcome.add_to(attempt, types)
        refusals += [] if outcome.refusal is None else [outcome.refusal]
    if refusals:
        attempt.discard()
        raise refusals[0]
    return attempt


def _public(operation: OperationId | None) -> tuple[str, int] | str | None:
    """An operation id as users write it."""
    match operation:
        case SequenceId(app=app, sequence=sequence):
            return app, sequence
        case JobId(id=name):
            return name
    return None
