"""Spark Connect in a run of a pipeline: what its server must have, and the session that each query has there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from gapless.errors import NotSupported
from gapless.pipelines.run.plan import SinkPlan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RETRIES = 8
"""Two minutes; Spark's own policy waits for ten, though a server that was started anew knows nothing of the session."""
_NO_GAPLESS = "No module named 'gapless'"


def is_connected(spark: SparkSession) -> bool:
    """Whether a session is one of Spark Connect, whose server calls what writes batches in Python processes of its own."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def check_server(spark: SparkSession, plans: Iterable[SinkPlan], state: str) -> None:
    """Raise NotSupported where the server of a session cannot fill these sinks: `state` is a file or folder at the URL of the run's state."""
    from pyspark.errors import PySparkException

    for plan in plans:
        if plan.sink.type == "console" and plan.kind != "once":
            raise NotSupported(
                f"the sink {plan.sink.name!r} cannot show its rows through Spark Connect",
                why="Its batches are written by the server, which has another terminal",
                fix="Ask for rows with SUBSCRIBE, or run it with --master local[*]",
                feature="spark-connect",
            )
    try:
        spark.read.format("binaryFile").load(state).select("path").collect()
    except PySparkException as error:
        raise NotSupported(
            f"the server of Spark Connect cannot read {state}",
            why="It keeps the checkpoints of the pipeline there, and tables are written at the places that the file names: both must be"
            f" the same ones for it and for this process. It says: {str(error).partition(chr(10))[0]}",
            fix='Run it on a machine that has the folder, or say checkpoints = "s3://…" in gapless.toml, or a folder that both have',
            feature="spark-connect",
        ) from error


@contextmanager
def query_session(spark: SparkSession) -> Iterator[SparkSession]:
    """The session for one streaming query: in Spark Connect a clone of its own, in which batches define views, else `spark` itself, of which
    Spark makes one.
    """
    if not is_connected(spark):
        yield spark
        return
    from pyspark.errors.exceptions.connect import SparkConnectGrpcException
    from pyspark.sql.connect.client.retries import DefaultPolicy

    server: Any = spark
    session: Any = server.cloneSession()
    session.client.set_retry_policies([DefaultPolicy(max_retries=_RETRIES)])
    try:
        yield session
    except SparkConnectGrpcException:
        # The server answers no more: what Python asks of it as it ends would wait again.
        server.client.set_retry_policies([])
        raise
    finally:
        # A clone has no `stop` in 4.1; the server ends the query with the session. Once, as the server may be what is gone.
        session.client.set_retry_policies([])
        with suppress(Exception):
            session.client.release_session()
        session.client.close()


@contextmanager
def told_of_server(spark: SparkSession) -> Iterator[None]:
    """Raise NotSupported for what Spark says in a block where the server of Spark Connect has no gapless."""
    try:
        yield
    except Exception as error:
        if not is_connected(spark) or _NO_GAPLESS not in str(error):
            raise
        raise NotSupported(
            "the server of Spark Connect has no gapless",
            why="It calls what writes the batches in Python processes of its own",
            fix="pip install 'gapless[spark]' 'pyspark[connect]' into the server's Python, or start it with gapless on PYTHONPATH",
            feature="spark-connect",
        ) from error
