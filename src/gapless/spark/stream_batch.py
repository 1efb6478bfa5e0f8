"""A batch of a stream, held against the table's log before it is committed."""

from __future__ import annotations

import warnings

from gapless.errors import LogWarning
from gapless.model.operation import SequenceId
from gapless.model.properties import OnOverlap
from gapless.model.report import AppendReport
from gapless.spark.inside import inside_to_write
from gapless.spark.staging import Delivery
from gapless.spark.stream_ids import Course, Stream, course_of
from gapless.table.table import TimeSeriesTable


def admit(
    handle: TimeSeriesTable, stream: Stream, batch: int, *, on_overlap: OnOverlap | None = None
) -> Delivery | AppendReport:
    """How batch number `batch` is to be committed, or the report of the commit that has it; moves the handle to the newest version.

    A stream that the table does not know leaves its trace in a commit of its own first. Batches that are passed over because another
    query wrote them under the same `app_id` are said in one LogWarning. Raises StreamRestarted, and as `table.append`.
    """
    course = course_of(inside_to_write(handle.refresh()).snapshot.state.applied, stream, batch)
    if course.trace is not None:
        handle.append([], on_overlap="allow", operation_id=(course.trace.app, course.trace.sequence))
    if course.passed_over:
        warnings.warn(_passed_over(handle, stream, batch, course), LogWarning, stacklevel=2)
    if course.known is None:
        return Delivery(on_overlap=on_overlap, operation=course.operation)
    known = course.known
    assert isinstance(known.operation, SequenceId)
    return AppendReport.of(known.tally_of(SequenceId(known.operation.app, batch)), known.version, already_applied=True)


def _passed_over(handle: TimeSeriesTable, stream: Stream, batch: int, course: Course) -> str:
    last = batch + course.passed_over - 1
    whose = "this query" if stream.query is None else f"query {stream.query}"
    return (
        f"{handle.url} has the batches up to {last} of app_id={stream.app_id!r} already: {course.passed_over:,} "
        f"batch{'es' * (course.passed_over != 1)} of {whose} ({batch} to {last}) are passed over, and their rows not "
        "compared. If they are other rows, start the query with a new checkpoint location and an app_id of its own"
    )
