"""Work for executors that is no DataFrame's: values out, answers back.

How much work a session's executors take at once.

Errors of ours on their way through Spark, which keeps nothing of them but their text.

Data files put together into the partitions of a read: pure.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import pyarrow as pa

from gapless.errors import GaplessError, NotSupported, StoreError
from gapless.model.segment import Segment
from gapless.tables.delta.handle import DeltaContext, DeltaHandle
from gapless.tables.delta.handle import context_of as delta_context_of
from gapless.tables.timeseries.context import SeriesContext
from gapless.tables.timeseries.handle import Handle, context_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


T = TypeVar("T")
R = TypeVar("R")


def job_context(handle: Handle, *, to_write: bool = False) -> SeriesContext:
    """What a Spark job on a table works with; raises NotSupported for a table in memory, which no other process sees.

    With `to_write` raises UpgradeNeeded or UnsupportedTable where the handle may not write.
    """
    context = context_of(handle, to_write=to_write)
    check_reachable(handle.url)
    return context


def delta_job_context(handle: DeltaHandle, *, to_write: bool = False) -> DeltaContext:
    """`job_context` of a Delta table."""
    context = delta_context_of(handle, to_write=to_write)
    check_reachable(handle.url)
    return context


def check_reachable(url: str) -> None:
    """Raise NotSupported for the URL of a table in memory."""
    if url.startswith("memory:"):
        raise NotSupported(
            f"Spark cannot reach {url}",
            why="The table lies in the memory of this process, and Spark has others",
            fix="Make the table on disk or in a bucket; or read it with table.scan()",
            feature="spark",
        )


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


@contextmanager
def coded() -> Iterator[None]:
    """Whatever of ours is raised inside, or in a function that this decorates, says its code in a line `[code]` below its message.

    Spark shows the traceback of its Python workers: class, message and this line come to the user in the text of Spark's exception.
    """
    try:
        yield
    except GaplessError as error:
        line = f"[{error.code}]"
        if line not in getattr(error, "__notes__", ()):
            error.add_note(line)
        raise


_MOST_BYTES = 128 << 20
_OPEN_BYTES = 1 << 20
"""What opening a file costs, as bytes that could be read meanwhile."""
_ROW_BYTES = 32
"""A guess, where another writer left the size out."""


class SizedFile(Protocol):
    """A data file of a read."""

    @property
    def size(self) -> int | None:
        """Bytes, where they are known."""
        ...


File = TypeVar("File", bound=SizedFile)


def packs_of(files: Iterable[File], cores: int) -> list[tuple[File, ...]]:
    """The files, in their order, in packs of about one size: about as many as cores, more where they would be above 128 MiB.

    No packs without files. A file is never divided, and small ones lie together however many they are.
    """
    files = tuple(files)
    total = sum(map(_weight, files))
    most = min(_MOST_BYTES, -(-total // max(1, cores)))
    packs: list[list[File]] = []
    room = 0
    for file in files:
        if not packs or _weight(file) > room:
            packs.append([])
            room = most
        packs[-1].append(file)
        room -= _weight(file)
    return [tuple(pack) for pack in packs]


def _weight(file: SizedFile) -> int:
    # Another writer may have left the size out of a segment.
    size = file.rows * _ROW_BYTES if isinstance(file, Segment) and file.size is None else file.size or 0
    return size + _OPEN_BYTES
