"""Ctrl-C for work that does not hear it: DuckDB does not while it fills an Arrow stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

import pyarrow as pa

from gapless.table.rows import Rows

T = TypeVar("T")


def in_thread(call: Callable[[], T]) -> T:
    """The result of a call that another thread makes, or its error; Ctrl-C ends the wait, and the process takes the thread along."""
    outcome: Future[T] = Future()

    def work() -> None:
        try:
            outcome.set_result(call())
        except BaseException as error:  # noqa: BLE001  # it is raised again where the result is asked for
            outcome.set_exception(error)

    Thread(target=work, daemon=True).start()
    return outcome.result()


def interruptible(rows: Rows) -> Rows:
    """The same rows; each batch is read in a thread."""

    def read() -> Iterator[pa.RecordBatch]:
        batches = rows.read()
        while (batch := in_thread(lambda: next(batches, None))) is not None:
            yield batch

    return Rows(rows.schema, read)
