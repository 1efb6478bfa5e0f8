"""Work for executors that is no DataFrame's: values out, answers back; and how much of it they take at once."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from gapless.errors import GaplessError, StoreError
from gapless.spark.setup.coded import coded

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


T = TypeVar("T")
R = TypeVar("R")


def spread_work(spark: SparkSession, work: Callable[[T], R], tasks: Sequence[T]) -> list[R | GaplessError]:
    """What `work` makes of each task, in their order, each a Spark task of its own; all of it travels pickled.

    What gapless raises is an answer, as it would be when tried again; Spark tries a task again for StoreError and all other errors.
    """
    if not tasks:
        return []
    answers = _one_a_task(spark, tasks).mapInArrow(partial(_answers, work), "number int, answer binary").collect()
    # Our own executors made them.
    return [pickle.loads(row.answer) for row in sorted(answers, key=lambda row: row.number)]  # noqa: S301


def spread_rows(
    spark: SparkSession, read: Callable[[T], Iterable[pa.RecordBatch]], tasks: Sequence[T], columns: str
) -> DataFrame:
    """A DataFrame of the rows that `read` gives of each task, which runs when it is asked; there is at least one task.

    `columns` is its schema as DDL, of which the batches are.
    """
    return _one_a_task(spark, tasks).mapInArrow(partial(_rows, read), columns)


def _one_a_task(spark: SparkSession, tasks: Sequence[object]) -> DataFrame:
    """Pickled values, each in a partition of its own."""
    rows = pa.table({"number": pa.array(range(len(tasks)), pa.int32()), "task": [pickle.dumps(task) for task in tasks]})
    frame = spark.createDataFrame(rows)
    return frame.repartitionById(len(tasks), "number") if len(tasks) > 1 else frame


def _rows(read: Callable[[Any], Iterable[pa.RecordBatch]], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for task in batch.column("task"):
            with coded():
                yield from read(pickle.loads(task.as_py()))  # noqa: S301  # our own driver made it


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


_MOST = 1 << 16


def parallelism(spark: SparkSession) -> int:
    """How many tasks the session's executors run at once, as far as Spark knows; at least 1."""
    from pyspark.sql import functions

    # Spark Connect has no context to ask, but makes as many partitions of a range.
    part = spark.range(_MOST).select(functions.spark_partition_id().alias("part"))
    last: int = part.agg(functions.max("part")).collect()[0][0]
    return last + 1
