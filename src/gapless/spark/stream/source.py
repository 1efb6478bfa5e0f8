"""`readStream.format("gapless")`: what versions bring, batch by batch; only Spark loads this.

Spark asks a process of its own, which lives as long as the query, where the stream begins (`initialOffset`), how far it reaches now
(`latestOffset`) and what lies between two offsets (`partitions`); other processes read the partitions. That process is told where a
query that goes on stands: by an empty batch in 4.1, in each question since 4.2.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from gapless.errors import LogWarning
from gapless.log.stream_plan import Budget, Cursor
from gapless.spark.setup.coded import coded
from gapless.spark.setup.options import SourceOptions
from gapless.spark.setup.tables import view_of
from gapless.spark.stream.delta_stream import DeltaStream, DeltaStreamPart
from gapless.spark.stream.log import RunningColumns, columns_changed
from gapless.spark.stream.offset import Offset
from gapless.spark.stream.series_stream import SeriesStream, StreamPart
from gapless.tables.delta.read.view import DeltaView

# ruff: noqa: N802  # methods as Spark calls them

_LIMITS = "pyspark.sql.streaming.datasource"
"""Where pyspark has its read limits, since 4.2."""


class FollowedTable(Protocol):
    """A table of one kind, as a stream follows it."""

    @property
    def running(self) -> RunningColumns:
        """The columns that the stream was started with."""
        ...

    @property
    def newest(self) -> int:
        """The newest version that is known."""
        ...

    def refresh(self) -> None:
        """Look at the newest version. Raises SchemaMismatch where the columns changed, VersionNotFound where another table lies there now."""
        ...

    def first(self, options: SourceOptions) -> Offset:
        """Where a stream begins: with all rows of the newest version where no option says it. Raises VersionNotFound, InvalidTime."""
        ...

    def check_made(self, offset: Offset) -> None:
        """Raise VersionNotFound where an offset is of another table than the one that lies here, or is past all versions of it."""
        ...

    def latest(self, start: Cursor, budget: Budget, until: int | None) -> Cursor:
        """The end of a batch that begins at `start`: as far as the budget and the versions to `until` (inclusive; all) reach.

        Raises InvalidOption at a change of rows that the stream does not take, VersionNotFound where versions can be told no longer,
        CorruptTable, StoreError.
        """
        ...

    def parts(self, start: Cursor, end: Cursor, cores: int) -> list[InputPartition]:
        """What lies in a batch `[start, end)`; raises as `latest`."""
        ...


class StreamReader(DataSourceStreamReader):
    """Follows a table. Made anew in each process that needs it, so making one reads nothing."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        """`schema` has the columns that Spark was told when the DataFrame was made."""
        self._options, self._schema = options, schema
        self._table: FollowedTable | None = None
        self._begin: Offset | None = None
        self._position: Offset | None = None
        self._until: int | None = None
        self._warned = False

    @coded()
    def initialOffset(self) -> dict[str, Any]:
        """Where a query without a checkpoint begins; raises as `first_cursor`, and as opening the table."""
        return self._first().to_json()

    @coded()
    def latestOffset(self, start: Mapping[str, Any] | None = None, limit: object = None) -> dict[str, Any]:
        """Where the next batch ends, which begins at `start`; at the end of the last one that was planned where Spark does not say it.

        Keeps to the limits of the options, unless Spark asks for all (`limit`). Raises SchemaMismatch where the columns changed,
        and as `StreamLog.latest`; the stream then stays where it is.
        """
        table = self._newest()
        position = (self._position or self._first()) if start is None else Offset.from_json(start)
        table.check_made(position)
        unlimited = type(limit).__name__ == "ReadAllAvailable"
        end = position.at(table.latest(position.cursor, Budget() if unlimited else self._budget, self._until))
        if start is None and end.cursor.version <= table.newest:
            self._warn_of_one_batch()
        return end.to_json()

    @coded()
    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[InputPartition]:
        """What lies between two offsets; nothing where they are the same. Raises as `latestOffset`."""
        first, last = Offset.from_json(start), Offset.from_json(end)
        self._advance(last)
        if first == last:
            return []
        table = self._opened()
        table.check_made(last)
        return table.parts(first.start_of(last), last.cursor, os.cpu_count() or 1)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition; raises as its `batches`."""
        assert isinstance(partition, StreamPart | DeltaStreamPart)
        with coded():
            yield from partition.batches()

    @coded()
    def commit(self, end: Mapping[str, Any]) -> None:
        """A batch is done: the next begins at its end, or at that of a later one which is planned already."""
        self._advance(Offset.from_json(end))

    # -- since pyspark 4.2 ---------------------------------------------------------------------------------------------

    def getDefaultReadLimit(self) -> Any:
        """The limit that Spark then passes to `latestOffset`; how much it is, the options say."""
        limits, budget = importlib.import_module(_LIMITS), self._budget
        if budget.files is not None:
            return limits.ReadMaxFiles(budget.files)
        return limits.ReadAllAvailable() if budget.size is None else limits.ReadMaxBytes(budget.size)

    @coded()
    def prepareForTriggerAvailableNow(self) -> None:
        """From now on no version is given that is newer than the newest one of this moment."""
        self._until = self._newest().newest

    # ------------------------------------------------------------------------------------------------------------------

    @property
    def _budget(self) -> Budget:
        return Budget(files=self._options.max_files_per_trigger, size=self._options.max_bytes_per_trigger)

    def _advance(self, end: Offset) -> None:
        """The next batch begins at `end`, unless one that ends later is planned already: earlier ones may be read again."""
        if self._position is None or self._position.cursor.order < end.cursor.order:
            self._position = end

    def _first(self) -> Offset:
        if self._begin is None:
            self._begin = self._opened().first(self._options)
        return self._begin

    def _newest(self) -> FollowedTable:
        """The table at its newest version, whose columns are still those of the stream."""
        table = self._opened()
        table.refresh()
        return table

    def _opened(self) -> FollowedTable:
        if self._table is None:
            view = view_of(self._options.path, None, None, self._options.storage)
            options = self._options
            table = DeltaStream.of(view, options) if isinstance(view, DeltaView) else SeriesStream.of(view, options)
            _check_schema(self._schema, table.running)
            self._table = table
        return self._table

    def _warn_of_one_batch(self) -> None:
        if not self._warned:
            self._warned = True
            what = "this pyspark does not tell sources how a query is triggered: with maxFilesPerTrigger or maxBytesPerTrigger, one that"
            rest = (
                "runs with availableNow or once ends after one batch, and the next run goes on there; from 4.2 on it takes all"
            )
            warnings.warn(f"{what} {rest}", LogWarning, stacklevel=2)


def _check_schema(told: StructType, running: RunningColumns) -> None:
    """Raise SchemaMismatch where the table's columns are not those that Spark was told."""
    found = from_arrow_schema(running.shown, prefer_timestamp_ntz=True)
    theirs, ours = ([f"{one.name} {one.dataType.simpleString()}" for one in schema] for schema in (told, found))
    if theirs != ours:
        raise columns_changed([f"Spark was told ({', '.join(theirs)}), and the table has ({', '.join(ours)})"])


with contextlib.suppress(ImportError):
    importlib.import_module(_LIMITS).SupportsTriggerAvailableNow.register(StreamReader)
