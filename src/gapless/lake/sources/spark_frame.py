"""A DataFrame of Spark as the source of a run: executors fit and store its rows, and the driver puts the manifest last."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from gapless.connect.location import without_secrets
from gapless.errors import GaplessError, InvalidOption, NotSupported, ObjectNotFound, StoreError, UnreadableInput
from gapless.files.ingest.batches import Batches
from gapless.lake.cursors import Monotonic
from gapless.lake.drift import Drift
from gapless.lake.fitting import fit_rows
from gapless.lake.layout.manifest import RunFile
from gapless.lake.staging import StagedRun
from gapless.runtime.environment import Environment
from gapless.spark.reading.arrow_columns import arriving_schema
from gapless.spark.setup.start import session
from gapless.spark.writing.append import arrow_schema, written
from gapless.spark.writing.partition import PartitionEncoder, PartitionOutcome, placed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ORDERED = frozenset({"ByteType", "ShortType", "IntegerType", "LongType", "DateType", "TimestampType", "TimestampNTZType"})
"""Columns whose cursor, as a manifest has it, Spark compares as the column's own values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSource:
    """What is computed by Spark. Made by `spark_source`, and by a pipeline with `engine = "spark"`."""

    frame: Callable[[Any], DataFrame] = field(repr=False)
    """Called with the saved cursor, in the thread of the run."""
    told: str
    """What manifests say of it."""

    def __enter__(self) -> Self:
        """It, as sources of `gapless.connect` do."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """The session goes on: others may have it, too."""


def spark_source(rows: DataFrame | Callable[[Any], DataFrame]) -> SparkSource:
    """A DataFrame of Spark as a source of `lake.run`, or a function that is called with the saved cursor and gives one.

    Its partitions become files, which executors write at the lake's own place: they must reach that directory. Cursors are None or
    `gl.lake.Monotonic`; whoever has one leaves out the rows before it. Into tables of kind "runs". Raises InvalidOption for what is neither.
    """
    if hasattr(rows, "mapInArrow"):
        frame: Any = rows
        return SparkSource(frame=lambda _saved: frame, told="spark:DataFrame")
    if not callable(rows):
        raise InvalidOption(
            f"a {type(rows).__name__} is no DataFrame of Spark",
            fix="Pass one, or a function that gives one",
            option="source",
            value=None,
        )
    return SparkSource(frame=rows, told=f"spark:{getattr(rows, '__qualname__', type(rows).__name__)}")


def read_by_spark(read: Mapping[str, str], options: Mapping[str, Any], cursor: Monotonic | None) -> SparkSource:
    """What Spark reads of a `format` and a `path` with `options`, as `sql` over `{source}` makes it, behind the cursor; in this process's session,
    which is started where there is none.
    """

    def frame(saved: Any) -> DataFrame:
        spark = session("gapless lake")
        reader = spark.read.format(read["format"]).options(**{name: _option(value) for name, value in options.items()})
        found: DataFrame = reader.load(read["path"]) if "path" in read else reader.load()
        if "sql" in read:
            found = spark.sql(read["sql"], source=found)
        return found if cursor is None else _behind(found, cursor.column, saved)

    place = without_secrets(read["path"]) if "path" in read else ""
    return SparkSource(frame=frame, told=f"spark:{read['format']}:{place}".rstrip(":"))


def _option(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _behind(frame: DataFrame, column: str, saved: Any) -> DataFrame:
    """The rows whose value is larger than a saved one. Raises InvalidOption."""
    from pyspark.sql import functions

    types = {one.name: one.dataType for one in frame.schema.fields}
    if column not in types or type(types[column]).__name__ not in _ORDERED:
        raise InvalidOption(
            f"cursor={column!r} is {types[column].simpleString() if column in types else 'no column of the rows'}",
            why=f"On Spark a cursor is a column of whole numbers, dates or timestamps; there are {', '.join(types)}",
            fix="Name one, or make one by sql",
            option="cursor",
            value=column,
        )
    if saved is None:
        return frame
    name = f"`{column.replace('`', '``')}`"
    found: DataFrame = frame.where(functions.col(name) > functions.lit(saved).cast(types[column]))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedPart(PartitionOutcome):
    """What an executor stored of one partition."""

    files: tuple[RunFile, ...] = ()
    quarantined: tuple[RunFile, ...] = ()
    position: Any = None
    """Its monotonic cursor."""
    refused: GaplessError | None = None
    """Why its rows cannot be kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeEncoder(PartitionEncoder):
    """Stores the rows of one partition as files of a run."""

    folder: str
    drift: Drift
    key: tuple[str, ...]
    cursor: Monotonic | None
    saved: Any

    def stored(self, part: Batches) -> StagedPart:
        """See `PartitionEncoder.stored`. What an attempt leaves that failed is named by no manifest."""
        from pyspark import TaskContext

        context: Any = TaskContext.get()
        # Of two partitions with the same rows each has a file of its own.
        staged = StagedRun(Environment(store=self.store), self.folder, label=f"{context.partitionId() if context else 0:05}-")
        position, first = self.saved, 0
        try:
            for batch in part:
                rows = pa.Table.from_batches([batch])
                with placed(part.source, first):
                    if self.cursor is not None:
                        position = self.cursor.after(rows, position)
                    staged.add(fit_rows(rows, self.drift, self.key), self.drift.schema)
                first += rows.num_rows
            staged.flush()
        except StoreError:
            raise
        except GaplessError as error:
            return StagedPart(refused=error)
        return StagedPart(files=tuple(staged.files), quarantined=tuple(staged.quarantined), position=position)


def given_columns(frame: DataFrame) -> pa.Schema:
    """The columns of a DataFrame, as its rows come. Raises UnsupportedType."""
    return arriving_schema(arrow_schema(frame), None)


def staged_by_executors(frame: DataFrame, encoder: LakeEncoder, env: Environment) -> Sequence[StagedPart]:
    """What became of each partition of a DataFrame. Raises what its rows are refused for, and StoreError where files are not here."""
    parts = [one for one in written(frame, encoder) if isinstance(one, StagedPart)]
    for part in parts:
        if part.refused is not None:
            raise part.refused
        for file in (*part.files, *part.quarantined):
            _check_here(env, f"{encoder.folder}/{file.path}", file.size)
    return parts


def _check_here(env: Environment, path: str, size: int) -> None:
    try:
        if env.store.head(path).size == size:
            return
    except ObjectNotFound:
        pass
    raise StoreError(
        f"an executor of Spark stored {path}, and it is not in {env.store.url}",
        why="The executor writes to a disk of its own machine",
        fix="Put the lake where all executors reach it, or run with master local[*]",
        path=path,
    )


@contextmanager
def typed_spark_errors(told: str) -> Iterator[None]:
    """Raise UnreadableInput for what Spark raises within, which stays as its cause: its text may have what only options should."""
    try:
        yield
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("pyspark", "py4j"):
            raise
        condition = error.getCondition() if hasattr(error, "getCondition") else None
        raise UnreadableInput(
            f"Spark cannot compute {told}",
            why=f"It raised {type(error).__name__}" + (f" [{condition}]" if condition else ""),
            fix="Mend path, sql or options; the same read in a session of Spark says more",
            source=told,
        ) from error


def refuse_log(table: str, kind: str) -> NotSupported:
    """The error for a run on Spark into a table with a log of its own."""
    return NotSupported(
        f"{table!r} is a table of kind {kind!r}, which a run on Spark does not write into",
        why="How many rows there are and the cursor behind them must be known before its commit",
        fix="Leave engine out, or write to the table itself with gl.spark.write",
        feature="runs on Spark into a lake table with a log of its own",
    )
