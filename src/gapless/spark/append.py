"""DataFrames into tables: written by executors, committed once by the driver."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pyarrow as pa

from gapless.model.operation import parse_operation_id
from gapless.model.properties import OnOverlap, parse_on_overlap
from gapless.model.report import AppendReport, ChangeReport
from gapless.spark.encode import RESULT, Encoding, Outcome
from gapless.spark.spread import spread_rows
from gapless.spark.staging import Delivery, append_outcomes, begin, open_to_write, overwrite_outcomes, recognised
from gapless.table.lifecycle import Location
from gapless.table.table import TimeSeriesTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def write(
    frame: DataFrame,
    table: TimeSeriesTable | Location,
    *,
    on_overlap: OnOverlap | None = None,
    operation_id: tuple[str, int] | str | None = None,
    spread: bool = False,
) -> AppendReport:
    """Append a DataFrame's rows as one commit, all or none: executors write the segments, in parallel.

    Args:
        frame: The rows; columns are matched by name. What `read` shows of a table can be written to it again.
        table: A table, or the path or URL of one; executors write there themselves.
        on_overlap: As in `table.append`. Where rows meet covered buckets under "skip" or "replace", and in a `unique` table, the
            driver reads what the executors wrote and decides about each row, as `table.append` does; "replace" holds them in memory.
        operation_id: As in `table.append`: sent again, nothing is computed and the first report comes back.
        spread: Send rows to tasks by bucket and identity first, so that each file covers a short stretch of time however the rows lie;
            Spark samples them for it, which computes the DataFrame twice. Without it each partition becomes files as it is.

    Tasks that are tried again, or twice at once, leave each row once: only what the successful ones wrote is in the commit. A failed
    write leaves files that `table.vacuum` takes away. Rows in an error count within the partition it names.

    Raises as `table.append`; NotSupported for a table in memory, InvalidOption for a view; errors of Spark itself are not touched.
    """
    delivery = Delivery(
        on_overlap=None if on_overlap is None else parse_on_overlap(on_overlap),
        operation=None if operation_id is None else parse_operation_id(operation_id),
    )
    handle = open_to_write(table)
    if (report := recognised(handle, delivery)) is not None:
        return report
    return append_frame(frame, handle, delivery, spread=spread)


def overwrite(
    frame: DataFrame,
    table: TimeSeriesTable | Location,
    *,
    operation_id: tuple[str, int] | str | None = None,
    spread: bool = False,
) -> ChangeReport:
    """Put a DataFrame's rows in the place of all rows of a table, in one commit: readers see the old rows or the new ones.

    The arguments are those of `write`. What others commit meanwhile gives way too; earlier versions stay to be read. In a `unique` table
    the driver holds the rows in memory and looks at their keys. The report counts `rows` and `removed_rows`.
    Raises as `write`; there is no overlap.
    """
    delivery = Delivery(operation=None if operation_id is None else parse_operation_id(operation_id))
    handle = open_to_write(table)
    if (report := recognised(handle, delivery)) is not None:
        return ChangeReport.of(report, report.version, already_applied=True)
    return overwrite_frame(frame, handle, delivery, spread=spread)


def append_frame(frame: DataFrame, handle: TimeSeriesTable, delivery: Delivery, *, spread: bool) -> AppendReport:
    """Append the rows of a write that is not known yet; see `write`."""
    encoding = begin(handle, arrow_schema(frame))
    return append_outcomes(handle, delivery, encoding, written(frame, encoding, spread=spread))


def overwrite_frame(frame: DataFrame, handle: TimeSeriesTable, delivery: Delivery, *, spread: bool) -> ChangeReport:
    """Overwrite by the rows of a write that is not known yet; see `overwrite`."""
    encoding = begin(handle, arrow_schema(frame))
    return overwrite_outcomes(handle, delivery, encoding, written(frame, encoding, spread=spread))


def arrow_schema(frame: DataFrame) -> pa.Schema:
    """The columns of a DataFrame as Spark hands its rows over; asks Spark, and computes no row."""
    return frame.limit(0).toArrow().schema


def written(frame: DataFrame, encoding: Encoding, *, spread: bool) -> list[Outcome]:
    """Have executors write a DataFrame's rows; what became of each partition."""
    rows = spread_rows(frame, encoding.meta.index) if spread else frame
    answers = rows.mapInArrow(encoding.rows, RESULT).collect()
    return [pickle.loads(answer.outcome) for answer in answers]  # noqa: S301  # our own executors made them
