"""`df.writeStream.format("gapless")`: executors write segments, the driver commits once a batch. Loaded by Spark alone."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from gapless.errors import InvalidOption
from gapless.model.operation import AppendReport, parse_operation_id
from gapless.spark.setup.coded import coded
from gapless.spark.setup.options import SourceOptions, check_overwrite
from gapless.spark.stream.batch_dedup import QUERY_ID, Stream, check_batch, normal_location
from gapless.spark.writing.append import check_delivery, open_or_create
from gapless.spark.writing.column_types import check_column_types
from gapless.spark.writing.partition import PartitionEncoder, PartitionOutcome
from gapless.spark.writing.staging import target_of
from gapless.spark.writing.target import Delivery


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamMessage(WriterCommitMessage):
    """What a task of a batch answers."""

    query: str | None
    """Spark's id of the query."""
    encoding: PartitionEncoder
    """What the task wrote by; the same in all tasks of a batch."""
    outcome: PartitionOutcome


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes one batch. Spark makes one for each batch where it plans it, from where it goes to executors, and one more to commit.

    So the instant in the names of a batch's files is that of the batch, however long its query has run. Where the checkpoint lies is known
    here only from the option `checkpointLocation`, and not where the session sets it for all queries.
    """

    @coded()
    def __init__(self, options: SourceOptions, schema: StructType, overwrite: bool) -> None:  # noqa: FBT001  # as Spark passes it
        """On the driver: `schema` is that of the batches, `overwrite` says that each takes the place of all rows (complete mode).

        Makes a missing table where the options say how. Raises InvalidOption, TableNotFound, SchemaMismatch, and as `gl.open`.
        """
        if overwrite:
            check_overwrite(options)
        if options.app_id is not None:
            parse_operation_id((options.app_id, 0))
        self._options, self._overwrite = options, overwrite
        given = handed_schema(schema)
        handle = open_or_create(options.path, options.new_table, given, options.storage)
        delivery = Delivery(on_overlap=options.on_overlap, schema_mode="merge" if options.merge_schema else "strict")
        check_delivery(handle, delivery)
        self._target = target_of(handle)
        self._encoding: PartitionEncoder = self._target.begin(given, delivery)

    def __getstate__(self) -> PartitionEncoder:
        """What goes to executors."""
        return self._encoding

    def __setstate__(self, state: PartitionEncoder) -> None:
        self._encoding = state

    @coded()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> StreamMessage:
        """On executors: store the rows of one task. Raises StoreError; rows that cannot be kept are an answer, for `commit` to raise."""
        context: Any = TaskContext.get()
        query = None if context is None else context.getLocalProperty(QUERY_ID)
        return StreamMessage(query=query, encoding=self._encoding, outcome=self._encoding.outcome(iterator))

    @coded()
    def commit(self, messages: Sequence[Any], batchId: int) -> None:  # noqa: N803  # Spark's name
        """On the driver: commit what all tasks wrote, once, however often Spark asks for it.

        Raises StreamRestarted, what executors refused, and as `table.append`; the files of the batch are gone then, but where the outcome
        is unknown.
        """
        told: list[StreamMessage] = [message for message in messages if message is not None]
        outcomes = [message.outcome for message in told]
        encoding = told[0].encoding if told else self._encoding
        admitted: object = None
        try:
            stream = self._stream(told[0].query if told else None)
            admitted = check_batch(self._target, stream, batchId, on_overlap=self._options.on_overlap or "allow")
            if isinstance(admitted, Delivery) and self._options.merge_schema:
                admitted = replace(admitted, schema_mode="merge")
        finally:
            if admitted is None or isinstance(admitted, AppendReport):
                # But for those that were committed: Spark may ask again for what it has.
                self._target.discard(encoding, outcomes)
        if isinstance(admitted, AppendReport):
            return
        take = self._target.overwrite if self._overwrite else self._target.append
        take(admitted, encoding, outcomes)

    def abort(self, messages: Sequence[Any], batchId: int) -> None:  # noqa: N803  # Spark's name
        """Nothing: another task of the batch may still be writing, so what was written is left for vacuum."""

    def _stream(self, query: str | None) -> Stream:
        location = self._options.checkpoint_location
        if location is not None and ":" not in location:
            location = os.path.abspath(location)  # noqa: PTH100  # a text
        if query is None and self._options.app_id is None:
            raise InvalidOption(
                "the id of the streaming query is not known",
                why="No task of the batch told it, and without it a batch that Spark sends again would be added again",
                fix='Say .option("appId", "…")',
                option="appId",
                value=None,
            )
        return Stream(
            query=query,
            location=None if location is None else normal_location(location),
            app_id=self._options.app_id,
        )


def handed_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema of the batches in which rows of these columns come; instants are in UTC. Raises UnsupportedType."""
    check_column_types(schema)
    # Since 4.3 it asks for the zone that earlier releases take.
    convert: Callable[..., pa.Schema] = to_arrow_schema
    return convert(schema, timezone="UTC") if "timezone" in inspect.signature(convert).parameters else convert(schema)
