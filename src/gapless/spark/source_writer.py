"""Batch writes of `format("gapless")`: executors write segments, the driver makes one commit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from gapless.spark.codes import coded
from gapless.spark.encode import Encoding, Outcome
from gapless.spark.handed import handed_schema
from gapless.spark.missing import open_or_create
from gapless.spark.options import SourceOptions, check_overwrite
from gapless.spark.staging import Delivery, append_outcomes, begin, overwrite_outcomes, recognised
from gapless.table.table import TimeSeriesTable


@dataclass(frozen=True, slots=True)
class Written(WriterCommitMessage):
    """What became of one partition; None where the whole write was known before."""

    outcome: Outcome | None


class Writer(DataSourceArrowWriter):
    """One write: made on the driver, pickled to executors for `write`, and back on the driver for `commit`."""

    def __init__(self, path: str, delivery: Delivery, encoding: Encoding | None, *, overwrite: bool) -> None:
        self.path, self.delivery, self.encoding, self.overwrite = path, delivery, encoding, overwrite

    @coded()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Store the rows of a partition. Nothing is read where the operation was applied before."""
        return Written(None if self.encoding is None else self.encoding.outcome(iterator))

    @coded()
    def commit(self, messages: Iterable[Any]) -> None:
        """Commit what the successful attempts of all partitions wrote; raises as `append_outcomes` and `overwrite_outcomes`."""
        if self.encoding is None:
            return
        outcomes = [message.outcome for message in messages]
        finish = overwrite_outcomes if self.overwrite else append_outcomes
        finish(TimeSeriesTable.open(self.path), self.delivery, self.encoding, outcomes)

    def abort(self, messages: Iterable[Any]) -> None:
        """Leave what was written to vacuum: another attempt may still be writing, and only vacuum knows when none is."""


def begin_write(options: SourceOptions, schema: StructType, *, overwrite: bool) -> Writer:
    """Open the table, or make it where options say how, and ask whether it has this operation already.

    Raises InvalidOption for an overlap policy beside `overwrite`, and as `open_or_create`; SchemaMismatch, UnsupportedType, NotSupported
    for a table in memory.
    """
    if overwrite:
        check_overwrite(options)
    given = handed_schema(schema)
    handle = open_or_create(options.path, options.new_table, given)
    delivery = Delivery(on_overlap=options.on_overlap, operation=options.operation)
    known = recognised(handle, delivery)
    encoding = begin(handle, given) if known is None else None
    return Writer(handle.url, delivery, encoding, overwrite=overwrite)
