"""Delta tables, which the functions of `gl.spark` do not take: Spark has its own way to them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from gapless.errors import NotSupported, TableNotFound
from gapless.store.open import open_store
from gapless.tables.delta.handle import DeltaHandle
from gapless.tables.shared.handle import kind_of

_WRITING = (
    'Write it with Spark and delta-spark, frame.write.format("delta").mode("append").save("{url}"); or with gapless, '
    'gl.delta.open("{url}").append(frame.toArrow()), where all rows pass through this process'
)
_READING = (
    'Read it with Spark and delta-spark, spark.read.format("delta").load("{url}"); or with gapless, '
    'spark.createDataFrame(gl.delta.open("{url}").scan().to_arrow())'
)


@contextmanager
def refusing_delta_tables(table: object, *, to_write: bool) -> Iterator[None]:
    """Raise NotSupported, which says what to call, where `table` is a Delta table, a view of one, or inside no time-series table was found
    at its path or URL and a Delta table is there.
    """
    advice = _WRITING if to_write else _READING
    if isinstance(table, DeltaHandle):
        raise _refusal(table.url, advice)
    try:
        yield
    except TableNotFound as error:
        if not isinstance(table, str | os.PathLike) or kind_of(store := open_store(table)) != "delta":
            raise
        raise _refusal(store.url, advice) from error


def _refusal(url: str, advice: str) -> NotSupported:
    return NotSupported(
        f"the table at {url} is a Delta table, and the functions of gl.spark are for time-series tables",
        why="Executors write and read segments with coverage, which Delta tables do not have",
        fix=advice.format(url=url),
        feature="spark",
    )
