"""Work for executors that is no DataFrame's: values out, answers back."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from gapless.errors import GaplessError, StoreError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")


def spread_work(spark: SparkSession, work: Callable[[T], R], tasks: Sequence[T]) -> list[R | GaplessError]:
    """What `work` makes of each task, in their order, each a Spark task of its own; all of it travels pickled.

    What gapless raises is an answer, as it would be when tried again; Spark tries a task again for StoreError and all other errors.
    """
    if not tasks:
        return []
    rows = pa.table({"number": pa.array(range(len(tasks)), pa.int32()), "task": [pickle.dumps(task) for task in tasks]})
    frame = spark.createDataFrame(rows)
    if len(tasks) > 1:
        frame = frame.repartitionById(len(tasks), "number")
    answers = frame.mapInArrow(partial(_answers, work), "number int, answer binary").collect()
    # Our own executors made them.
    return [pickle.loads(row.answer) for row in sorted(answers, key=lambda row: row.number)]  # noqa: S301


def required(answers: Iterable[R | GaplessError]) -> list[R]:
    """The answers, where all tasks have one; raises the first error that is among them."""
    found: list[R] = []
    for answer in answers:
        if isinstance(answer, GaplessError):
            raise answer
        found.append(answer)
    return found


def _answers(work: Callable[[T], R], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number, task in zip(batch.column("number"), batch.column("task"), strict=True):
            answer = _answer(work, pickle.loads(task.as_py()))  # noqa: S301  # our own driver made it
            yield pa.record_batch({"number": pa.array([number.as_py()], pa.int32()), "answer": [pickle.dumps(answer)]})


def _answer(work: Callable[[T], R], task: T) -> R | GaplessError:
    try:
        return work(task)
    except StoreError:
        raise
    except GaplessError as error:
        return error
