"""Deduplicate micro-batches of a stream by the table's log, before they are written. Pure, but for the query that Spark names.

A batch is known by its app, which is the user's `app_id` or else the query's id, and its number. Before an app's first batch of a query
the table takes a trace of it, an operation id too: where the query's checkpoint lies, the query, and the app.
"""

from __future__ import annotations

import json
import logging
import posixpath
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gapless.errors import InvalidOption, LogWarning, StreamRestarted
from gapless.model.operation import AppendReport, SequenceId, operation_key, supersedes
from gapless.model.properties import OnOverlap
from gapless.spark.writing.target import BatchTarget, Delivery
from gapless.tables.shared.landing import AppliedOperation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_LOGGER = logging.getLogger("gapless.spark")

_TRACE = "spark stream "
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(/.*)", re.DOTALL)
_TEMPORARY = re.compile(r"temporary-[0-9a-f-]{36}")
_Trace = tuple[str | None, str, str]
"""The location of a checkpoint, where it is known, the query and the app."""
_S3 = {"s3a": "s3", "s3n": "s3"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """The identity of a streaming query: its app, query id and checkpoint location."""

    query: str | None
    """Spark's id of the query, which it keeps in the checkpoint; None where it cannot be had, and then there is an `app_id`."""
    location: str | None = None
    """Where the checkpoint lies, as `normal_location` has it; None where it is not known, or Spark deletes it with the query."""
    app_id: str | None = None
    """The user's name for it."""
    parts: frozenset[str] = frozenset()
    """Under which names this run of the query has come with the same batch to the table: they are not what it was called before."""

    @property
    def app(self) -> str:
        """What its batches are known by."""
        found = self.app_id or self.query
        assert found is not None
        return found

    @property
    def trace(self) -> SequenceId | None:
        """The operation id that says where the app's batches come from; None where nothing is to be said that a batch does not."""
        if self.query is None or (self.location is None and self.app == self.query):
            return None
        return SequenceId(_TRACE + json.dumps([self.location, self.query, self.app]), 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchDecision:
    """What is to be done about one batch."""

    operation: SequenceId
    """What the batch is called."""
    trace: SequenceId | None = None
    """To be recorded first."""
    known: AppliedOperation | None = None
    """The operation by which the table has the batch; it is passed over then."""
    passed_over: int = 0
    """How many batches are, from this one on, of a query that is new under an `app_id` which is not; 0 once its trace is recorded."""


def decide_batch(applied: Mapping[str, AppliedOperation], stream: Stream, batch: int) -> BatchDecision:
    """What is to be done about batch number `batch`, by what the table has applied.

    Raises StreamRestarted where, without an `app_id`, rows of a query that the table does not know could be in it already, and where the
    query had another `app_id`, whose batches reach as far.
    """
    operation = SequenceId(stream.app, batch)
    trace = stream.trace
    if trace is not None and operation_key(trace) in applied:
        trace = None
    for name in dict.fromkeys((stream.app, stream.query or stream.app)):
        if name != stream.app and name in stream.parts:
            continue
        asked = SequenceId(name, batch)
        known = applied.get(operation_key(asked))
        if known is not None and supersedes(known.operation, asked):
            return BatchDecision(
                operation=operation, trace=trace, known=known, passed_over=_passed_over(applied, known, stream, batch)
            )
    if stream.app_id is not None:
        _check_renamed(applied, stream, batch)
    elif operation_key(operation) not in applied:
        _check_new(applied, stream, batch)
    return BatchDecision(operation=operation, trace=trace)


def normal_location(text: str) -> str | None:
    """A place as Spark or its user writes it, in the one form in which two can be held against each other; absolute if it is local.

    None for a place that Spark makes for one run of a query.

    >>> normal_location("file:///data/checkpoint/"), normal_location("s3a://bucket//a/../b")
    ('/data/checkpoint', 's3://bucket/b')
    """
    match = _URL.fullmatch(text)
    scheme, rest = (match[1].lower(), match[2]) if match else ("file", text)
    path = re.sub("/+", "/", posixpath.normpath(rest))
    if _TEMPORARY.fullmatch(posixpath.basename(path)):
        return None
    return path if scheme == "file" else f"{_S3.get(scheme, scheme)}:/{path}"


def _passed_over(applied: Mapping[str, AppliedOperation], known: AppliedOperation, stream: Stream, batch: int) -> int:
    """How many batches to speak of: none for the query's own, of which Spark sends the last again after a restart."""
    assert isinstance(known.operation, SequenceId)
    highest = known.operation.sequence
    own = known.operation.app == stream.query or any(
        (query, app) == (stream.query, stream.app) for _, query, app in _traces(applied)
    )
    if own or (stream.query is None and batch == highest):
        return 0
    return highest - batch + 1


def _check_new(applied: Mapping[str, AppliedOperation], stream: Stream, batch: int) -> None:
    """Raise StreamRestarted for a query without an `app_id` that the table does not know and that may bring rows it has."""
    # A trace without a batch is that of a query which failed in its first.
    landed = (one for one in _traces(applied) if operation_key(SequenceId(one[2], 0)) in applied)
    met = [one for one in landed if _meets(one, stream) and one[2] not in stream.parts]
    if met:
        # Its own word counts most, then the last.
        own = [one for one in met if one[1] == stream.query]
        raise _restarted(stream, batch, *(own or met)[-1])
    if batch > 0:
        raise StreamRestarted(
            f"batch {batch} is the first that the table sees of query {stream.query}",
            why="The query's batches before it went elsewhere, or into a table that was here before: rows would be missing",
            fix="Start the query with a new checkpoint location, which sends all rows; or pass an app_id of its own to go on from here",
            query=stream.query,
            batch=batch,
            location=stream.location,
        )


def _check_renamed(applied: Mapping[str, AppliedOperation], stream: Stream, batch: int) -> None:
    """Raise StreamRestarted for a batch that the query may have sent already, under another `app_id`."""
    if stream.location is None:
        # It cannot be started again, or what else it is called in this run is not known.
        return
    for _, query, app in _traces(applied):
        known = applied.get(operation_key(SequenceId(app, batch)))
        mine = query == stream.query and app not in stream.parts
        if mine and known is not None and supersedes(known.operation, SequenceId(app, batch)):
            raise StreamRestarted(
                f"query {query} comes as app_id={stream.app_id!r}, and it had app_id={app!r}, of which the table has batch {batch}",
                why="Under a new name rows that the table has would be added a second time",
                fix=f"Pass app_id={app!r} again. If its batches are other rows than those of this query, start the query with a new "
                "checkpoint location and an app_id of its own, which sends all rows",
                query=query,
                batch=batch,
                location=stream.location,
            )


def _restarted(stream: Stream, batch: int, location: str | None, query: str, app: str) -> StreamRestarted:
    same = query == stream.query
    what = f"query {query} wrote to the table under app_id={app!r}, and comes without it" if same else (
        f"query {stream.query} is new to the table, and its checkpoint lies at {location}, where query {query} had its own"
    )  # fmt: skip
    return StreamRestarted(
        what,
        why="Under a new name the batches that the table has would be added a second time",
        fix=f"Pass app_id={app!r} if its batches are the same again: those that the table has are passed over. If all its rows are "
        "new, pass an app_id of its own",
        query=stream.query,
        batch=batch,
        location=stream.location,
    )


def _meets(trace: _Trace, stream: Stream) -> bool:
    location, query, _ = trace
    return query == stream.query or (location is not None and location == stream.location)


def _traces(applied: Mapping[str, AppliedOperation]) -> Iterator[_Trace]:
    """What is recorded of streams, the oldest first."""
    prefix = operation_key(SequenceId(_TRACE, 0))
    for key in sorted((key for key in applied if key.startswith(prefix)), key=lambda key: applied[key].version or 0):
        match _json(key[len(prefix) :]):
            case [str() | None as location, str() as query, str() as app]:
                yield location, query, app


def _json(text: str) -> object:
    """None for a text that is no JSON: an `app_id` may begin as a trace does."""
    try:
        found: object = json.loads(text)
    except ValueError:
        return None
    return found


def check_batch(
    target: BatchTarget, stream: Stream, batch: int, *, on_overlap: OnOverlap | None = None
) -> Delivery | AppendReport:
    """How batch number `batch` is to be committed, or the report of the commit that has it; moves the handle to the newest version.

    A stream that the table does not know leaves its trace in a commit of its own first. Batches that are passed over because another
    query wrote them under the same `app_id` are said in one LogWarning. Raises StreamRestarted, and as `table.append`.
    """
    course = decide_batch(target.applied(), stream, batch)
    if course.trace is not None:
        target.record(course.trace)
    if course.passed_over:
        warnings.warn(_passed_over_text(target.url, stream, batch, course), LogWarning, stacklevel=2)
    if course.known is None:
        return Delivery(on_overlap=on_overlap, operation=course.operation)
    known = course.known
    _LOGGER.info("%s: batch %d is in version %s already and is passed over", target.url, batch, known.version)
    assert isinstance(known.operation, SequenceId)
    return target.known_report(known, SequenceId(known.operation.app, batch))


def _passed_over_text(url: str, stream: Stream, batch: int, course: BatchDecision) -> str:
    last = batch + course.passed_over - 1
    whose = "this query" if stream.query is None else f"query {stream.query}"
    return (
        f"{url} has the batches up to {last} of app_id={stream.app_id!r} already: {course.passed_over:,} "
        f"batch{'es' * (course.passed_over != 1)} of {whose} ({batch} to {last}) are passed over, and their rows not "
        "compared. If they are other rows, start the query with a new checkpoint location and an app_id of its own"
    )


QUERY_ID = "sql.streaming.queryId"
"""The local property in which Spark keeps the id of the query whose batch runs."""
_CAME = "gapless.batch "
"""What the local property is called, with the table behind, in which a run of a query keeps which batch it brought; it goes with the run."""


def stream_of(frame: DataFrame, app_id: str | None, table: str, batch: int) -> Stream:
    """The query that calls `foreachBatch` with this DataFrame, on the thread that it calls, to write a batch to the table at this URL.

    Where its checkpoint lies is known in Spark's own driver, but not in Spark Connect; there the query itself is known where it is the
    only one of its session. Raises InvalidOption where it is not known and there is no `app_id`.
    """
    context = _context(frame)
    query = _only_query(frame.sparkSession) if context is None else context.getLocalProperty(QUERY_ID)
    if query is None and app_id is None:
        raise InvalidOption(
            "the streaming query that this batch comes from is not known",
            why="Spark tells it where it calls foreachBatch, and in Spark Connect only if the session has one query; without it a batch "
            "that comes again would be added again",
            fix='Call it in foreachBatch, or pass app_id="…"',
            option="app_id",
            value=None,
        )
    location = _told(frame, "resolvedCheckpointRoot")
    return Stream(
        query=query,
        location=None if location is None else normal_location(location),
        app_id=app_id,
        parts=_names_of(frame, table, batch),
    )


def output_mode_of(frame: DataFrame) -> str | None:
    """The output mode of the query that calls `foreachBatch` with this DataFrame: "append", "complete" or "update".

    None where Spark does not tell: in Spark Connect, and outside of queries.
    """
    told = _told(frame, "outputMode")
    return None if told is None else told.lower()


def note_name(frame: DataFrame, table: str, stream: Stream, batch: int) -> None:
    """Keep, for the run of the query that calls, that it came with this batch to the table at this URL under the stream's name."""
    context = _context(frame)
    if context is not None and context.getLocalProperty(QUERY_ID) is not None:
        context.setLocalProperty(_CAME + table, json.dumps([batch, sorted(stream.parts | {stream.app})]))


def _names_of(frame: DataFrame, table: str, batch: int) -> frozenset[str]:
    """Under which names this run came with the batch to the table; none in Spark Connect, where a run keeps nothing."""
    context = _context(frame)
    noted = None if context is None else context.getLocalProperty(_CAME + table)
    last, names = (None, ()) if noted is None else json.loads(noted)
    return frozenset(names) if last == batch else frozenset()


def _context(frame: DataFrame) -> Any:
    """Spark's own driver; None in Spark Connect."""
    return getattr(frame.sparkSession, "_sc", None)


def _only_query(session: Any) -> str | None:
    # Ours is active now, so one alone is ours.
    active = session.streams.active
    return str(active[0].id) if len(active) == 1 else None


def _told(frame: DataFrame, what: str) -> str | None:
    """What Spark's driver says of the query that calls; None outside of queries and where this release does not say so in the way of 4.1."""
    session: Any = frame.sparkSession
    context = _context(frame)
    query = None if context is None else context.getLocalProperty(QUERY_ID)
    if query is None:
        return None
    from py4j.protocol import Py4JError

    # ruff: noqa: SLF001  # Spark has no public way from a batch to its query
    java, virtual_machine = session._jsparkSession, session._jvm
    try:
        # A batch has a session of its own, which has no queries; all of them are in what sessions share.
        found = java.sharedState().activeStreamingQueries().get(virtual_machine.java.util.UUID.fromString(query))
        return None if found is None else str(getattr(found, what)())
    except Py4JError:
        return None
