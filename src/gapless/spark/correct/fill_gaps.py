"""Filling the gaps of a time-series table out of a DataFrame: executors keep the rows of missing buckets, the driver commits once."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyroaring import BitMap64

from gapless.coverage.bitmap import CoverageMap, bias, clip
from gapless.coverage.bucket import index_grid
from gapless.coverage.codec import decode, encode
from gapless.coverage.expected import Span
from gapless.coverage.gap import Coverage
from gapless.errors import InvalidTime
from gapless.files.sort.run import Run
from gapless.model.index import EntityType
from gapless.model.operation import parse_operation
from gapless.model.schema import entity_types
from gapless.spark.reading.columns import quoted
from gapless.spark.setup.job_context import job_context
from gapless.spark.writing.append import arrow_schema, written
from gapless.spark.writing.encode import Encoding
from gapless.spark.writing.series_target import SeriesTarget
from gapless.spark.writing.target import Delivery
from gapless.tables.timeseries.read.values import format_index_value, parse_index_value
from gapless.tables.timeseries.table import TimeSeriesTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class GapFill:
    """What filling gaps out of a DataFrame did."""

    version: int | None
    """The version that holds the rows; None where nothing was committed."""
    rows: int
    buckets: int
    """How many buckets, summed over identities, hold rows that held none."""
    gaps: int
    """Gaps that were there before, of the identities that the table knew."""
    left: int
    """Gaps that are there still, of the identities that it knows now: the DataFrame has no rows of them."""


def check_range(table: TimeSeriesTable, start: object, end: object) -> Span:
    """The buckets of an index range, `end` just past it. Raises InvalidTime where a bound is none, or lies inside of a bucket."""
    grid = index_grid(table.index)
    low, high = (
        parse_index_value(value, table.index, table.schema, name=name) for name, value in (("start", start), ("end", end))
    )
    for name, value in (("start", low), ("end", high)):
        at = grid.id_of(value)
        if grid.start(at) != value:
            before, after = (format_index_value(one, table.index, table.schema) for one in (grid.start(at), grid.end(at)))
            raise InvalidTime(
                f"{name} lies inside the bucket from {before} to {after}",
                why="A bucket is filled whole or not at all: half of it would count as covered",
                fix=f"Say {before} or {after}",
                value=value,
            )
    if low > high:
        raise InvalidTime(
            f"start lies behind end: {start!r} and {end!r}",
            why="The range goes from start up to, not including, end",
            fix="Change them round",
            value=start,
        )
    return Span(grid.id_of(low), grid.id_of(high))


def fill_gaps(
    frame: DataFrame, table: TimeSeriesTable, start: object, end: object, *, operation_id: str, before_last: bool = False
) -> GapFill:
    """Append the rows of a DataFrame that lie in gaps of a table, and no others, as one commit.

    Args:
        frame: The rows; columns are matched by name. An identity that the table does not have yet is missing in the whole range.
        table: The table; what it has is looked at in its newest version, and once more as the commit lands.
        start: The first index value, at the beginning of a bucket; with a zone, an offset or a date as in `table.scan`.
        end: Just past the last one.
        operation_id: The start of the name of the commit in the log; the version that the gaps were found in is added.
        before_last: Fill only buckets before the last one that any identity covers in the whole table.

    A table without entity columns that lacks nothing in the range computes nothing. Raises as `check_range` and `gapless.spark.write`.
    """
    handle = table.refresh()
    span = check_range(handle, start, end)
    question = handle.coverage(start, end)
    if before_last:
        span = Span(span.start, max(span.start, min(span.end, _last_covered(handle))))
    gaps = _gaps_in(question, span)
    if not span.count or (not handle.index.entity and not gaps):
        return GapFill(version=None, rows=0, buckets=0, gaps=gaps, left=gaps)
    given = arrow_schema(frame)
    base = SeriesTarget(handle=handle).begin(given, Delivery())
    known = {field.name: getattr(base, field.name) for field in fields(base)}
    assert base.meta.schema is not None
    covered = _covered(handle, span, entity_types(base.meta.schema, base.meta.index))
    encoding = GapEncoding(**known, covered=covered, span=span)
    outcomes: list[Any] = written(_narrowed(frame, handle, question, span), encoding)
    target = SeriesTarget(handle=handle)
    if not any(one.segments or one.refusal for one in outcomes):
        return GapFill(version=None, rows=0, buckets=0, gaps=gaps, left=gaps)
    operation = parse_operation(f"{operation_id}/{handle.version}")
    report = target.append(Delivery(on_overlap="skip", operation=operation), encoding, outcomes)
    after = handle.refresh().coverage(start, end)
    return GapFill(
        version=report.version,
        rows=report.rows,
        buckets=after.covered - question.covered,
        gaps=gaps,
        left=_gaps_in(after, span),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GapEncoding(Encoding):
    """Writes the rows of one partition that lie in gaps."""

    covered: bytes
    """What is covered in the range, encoded."""
    span: Span
    """The buckets of the range."""

    def kept(self, run: Run, types: tuple[EntityType, ...]) -> Run:
        """See `Encoding.kept`."""
        covered, shift = decode(self.covered, types), bias(signed=index_grid(self.meta.index).signed)
        low, high = self.span.start + shift, self.span.end + shift
        none = BitMap64()
        missing = {name: clip(bitmap, low, high) - covered.get(name, none) for name, bitmap in run.coverage.items()}
        return run.take(run.positions(CoverageMap({name: bitmap for name, bitmap in missing.items() if bitmap})))


def _covered(handle: TimeSeriesTable, span: Span, types: tuple[EntityType, ...]) -> bytes:
    """What the table covers in a span of buckets."""
    shift = bias(signed=index_grid(handle.index).signed)
    whole = job_context(handle).cache.union(handle.segments(), types)
    parts = {name: clip(bitmap, span.start + shift, span.end + shift) for name, bitmap in whole.items()}
    return encode(CoverageMap({name: bitmap for name, bitmap in parts.items() if bitmap}), types)


def _last_covered(handle: TimeSeriesTable) -> int:
    """The bucket of the last row of a table; where it has none the first bucket that there can be."""
    segments, grid = handle.segments(), index_grid(handle.index)
    return grid.id_of(max(one.bounds.last for one in segments)) if segments else -bias(signed=grid.signed)


def _gaps_in(question: Coverage[Any], span: Span) -> int:
    return sum(1 for _, found in question.missing() if found.within(span).count)


def _narrowed(frame: DataFrame, handle: TimeSeriesTable, question: Coverage[Any], span: Span) -> DataFrame:
    """The rows that can lie in the range, where Spark compares the column as we do: it leaves out what its sources need not read."""
    from pyspark.sql import functions
    from pyspark.sql.types import IntegralType, TimestampType

    column = handle.index.column
    type_ = next((one.dataType for one in frame.schema.fields if one.name == column), None)
    grid = question.grid
    bounds = question.present(grid.start(span.start)), question.present(grid.end(span.end - 1))
    is_time = isinstance(type_, TimestampType) and all(isinstance(one, datetime) and one.tzinfo is not None for one in bounds)
    if not is_time and not (isinstance(type_, IntegralType) and all(type(one) is int for one in bounds)):
        return frame
    found = functions.col(quoted(column))
    return frame.where((found >= functions.lit(bounds[0])) & (found < functions.lit(bounds[1])))
