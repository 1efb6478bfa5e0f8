"""Which streaming query a batch comes from, as Spark's driver knows it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from gapless.errors import InvalidOption
from gapless.spark.stream_ids import Stream, normal_location

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
