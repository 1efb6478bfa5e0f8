"""Which streaming query a batch comes from, as Spark's driver knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gapless.errors import InvalidOption
from gapless.spark.stream_ids import Stream, normal_location

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

QUERY_ID = "sql.streaming.queryId"
"""The local property in which Spark keeps the id of the query whose batch runs."""


def stream_of(frame: DataFrame, app_id: str | None) -> Stream:
    """The query that calls `foreachBatch` with this DataFrame, on the thread that it calls.

    Where its checkpoint lies is known in Spark's own driver, but not in Spark Connect; there the query itself is known where it is the
    only one of its session. Raises InvalidOption where it is not known and there is no `app_id`.
    """
    session: Any = frame.sparkSession
    context = getattr(session, "_sc", None)
    query = _only_query(session) if context is None else context.getLocalProperty(QUERY_ID)
    if query is None and app_id is None:
        raise InvalidOption(
            "the streaming query that this batch comes from is not known",
            why="Spark tells it where it calls foreachBatch, and in Spark Connect only if the session has one query; without it a batch "
            "that comes again would be added again",
            fix='Call it in foreachBatch, or pass app_id="…"',
            option="app_id",
            value=None,
        )
    location = None if context is None or query is None else _checkpoint_root(session, query)
    return Stream(query=query, location=None if location is None else normal_location(location), app_id=app_id)


def _only_query(session: Any) -> str | None:
    # Ours is active now, so one alone is ours.
    active = session.streams.active
    return str(active[0].id) if len(active) == 1 else None


def _checkpoint_root(session: Any, query: str) -> str | None:
    """Where Spark keeps the query's checkpoint; None where this release of Spark does not say so in the way of 4.1."""
    from py4j.protocol import Py4JError

    # ruff: noqa: SLF001  # Spark has no public way from a batch to its query
    java, virtual_machine = session._jsparkSession, session._jvm
    try:
        # A batch has a session of its own, which has no queries; all of them are in what sessions share.
        found = java.sharedState().activeStreamingQueries().get(virtual_machine.java.util.UUID.fromString(query))
        return None if found is None else str(found.resolvedCheckpointRoot())
    except Py4JError:
        return None
