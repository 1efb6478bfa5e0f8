"""Batch reads of `format("gapless")`: planned on the driver, read by Python workers.

Batch writes of `format("gapless")`: executors write segments, the driver makes one commit.

`format("gapless")`: the Python data source; only Spark and `pyspark_gapless` load this.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceReader, InputPartition, WriterCommitMessage
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from gapless.errors import InvalidOption, SchemaMismatch
from gapless.files.read.scan import ReadPlan, read
from gapless.formats.timeseries.actions import TableState
from gapless.model.protocols import Store
from gapless.model.segment import Segment
from gapless.predicate.plan import ReadGroup
from gapless.predicate.range import identity_value
from gapless.spark.reading.arrow_columns import shown_batches, shown_schema
from gapless.spark.reading.columns import ddl, spark_type
from gapless.spark.reading.frame import view_of
from gapless.spark.setup.executors import coded, job_context, packs_of
from gapless.spark.setup.options import SourceOptions, check_overwrite, parse_options
from gapless.spark.stream.log import columns_of
from gapless.spark.stream.sink import StreamWriter, handed_schema
from gapless.spark.stream.source import StreamReader
from gapless.spark.writing.append import open_or_create
from gapless.spark.writing.encode import Encoding, Outcome
from gapless.spark.writing.staging import Delivery, append_outcomes, begin, find_applied_write, overwrite_outcomes
from gapless.tables.timeseries.read.scan import ScanRequest
from gapless.tables.timeseries.table import TimeSeriesTable


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """What a read asks for, of one version."""

    store: Store
    version: int
    plan: ReadPlan | None
    """None while the table has no columns."""

    @classmethod
    def of(cls, options: SourceOptions) -> ReadRequest:
        """Open the table and plan the read; raises as `gl.open`, `table.at` and `table.scan` do, and NotSupported for a table in memory."""
        known = job_context(view_of(options.path, options.version, options.timestamp))
        state = known.snapshot.state
        if options.columns == ():
            raise InvalidOption(
                "columns='' names no column",
                why="Spark reads no rows without columns from a source in Python",
                fix="Name one, or leave the option out",
                option="columns",
                value="",
            )
        request = ScanRequest(
            start=options.start,
            end=options.end,
            where=None,
            entity=_entity(options.entity, state),
            columns=options.columns,
            order=None,
        )
        return cls(store=known.env.store, version=known.snapshot.version, plan=request.plan(state))

    @property
    def shown(self) -> pa.Schema:
        """The columns as Spark has them; raises UnsupportedType."""
        return shown_schema(pa.schema([]) if self.plan is None else self.plan.result_schema)


class Reader(DataSourceReader):
    """Reads the rows of one version. Has no `pushFilters`: what it pushed would stay for later scans of the same DataFrame."""

    def __init__(self, wanted: ReadRequest) -> None:
        plan, self.store, self.shown = wanted.plan, wanted.store, wanted.shown
        self.segments = () if plan is None else tuple(segment for group in plan.groups for segment in group.segments)
        self.plan = None if plan is None else plan.over(())

    def __getstate__(self) -> dict[str, object]:
        # Tasks get theirs with their partition. Gone and not empty, lest a copy that is asked for partitions find none.
        return {name: value for name, value in self.__dict__.items() if name != "segments"}

    def partitions(self) -> Sequence[InputPartition]:
        """The segments that may hold wanted rows, several in each partition."""
        return [InputPartition(pack) for pack in packs_of(self.segments, os.cpu_count() or 1)]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """The wanted rows of a partition's segments, a row group in memory at a time; None is what Spark makes of no partitions."""
        if self.plan is None or partition is None:
            return
        segments: tuple[Segment, ...] = partition.value
        plan = self.plan.over(tuple(ReadGroup(segments=(one,), sort=False) for one in segments))
        with coded():
            yield from shown_batches(read(self.store, plan), self.shown)


def reader_for(options: SourceOptions, schema: StructType) -> Reader:
    """A reader that gives the columns of `schema`, which is the table's, part of it, or what the user said to expect.

    Raises SchemaMismatch where a column has another type or `columns` says others, UnknownColumn, and as `Wanted.of` does.
    """
    names = tuple(schema.fieldNames())
    if options.columns not in (None, names):
        raise _mismatch(f"columns={','.join(options.columns or ())!r}", f"the schema has {', '.join(names)}")
    wanted = ReadRequest.of(replace(options, columns=names) if names else options)
    found = from_arrow_schema(wanted.shown, prefer_timestamp_ntz=True)
    for given, ours in zip(schema, found, strict=True):
        types = given.dataType.simpleString(), ours.dataType.simpleString()
        if types[0] != types[1]:
            raise _mismatch(f"{given.name}: {types[1]} in version {wanted.version} of the table", f"{types[0]} in the schema")
    return Reader(wanted)


def _entity(given: Mapping[str, object], state: TableState) -> Mapping[str, object]:
    """An entity filter whose texts became what the columns hold; raises InvalidOption."""
    schema, entity = state.meta.schema, state.meta.index.entity
    if schema is None:
        return given
    return {
        name: [
            identity_value(name, schema.field(name).type, one) if isinstance(one, str) else one
            for one in (values if isinstance(values, list) else [values])
        ]
        if name in entity
        else values
        for name, values in given.items()
    }


def _mismatch(ours: str, theirs: str) -> SchemaMismatch:
    return SchemaMismatch(
        "the schema that Spark was told does not fit the table",
        why=f"{ours}, {theirs}",
        fix="Leave .schema(…) out, or make the table of the catalog anew",
        differences=(f"{ours}, {theirs}",),
    )


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
    known = find_applied_write(handle, delivery, "overwrite" if overwrite else "append")
    encoding = begin(handle, given) if known is None else None
    return Writer(handle.url, delivery, encoding, overwrite=overwrite)


class GaplessSource(DataSource):
    """A table at a path; the options are those of `gapless.spark.setup.options`."""

    version: int | None = None
    """The version whose schema was told: this object then travels to where the read is planned."""

    @classmethod
    def name(cls) -> str:
        """The short name of the format."""
        return "gapless"

    @coded()
    def schema(self) -> StructType | str:
        """The columns of the version that is read, as DDL; a DataFrame keeps that version."""
        options = parse_options(self.options, "read", "stream read")
        if options.change_feed:
            return _told(columns_of(options))
        wanted = ReadRequest.of(options)
        self.version = wanted.version
        if wanted.plan is None:
            return StructType([])
        return _told(wanted.plan.result_schema)

    @coded()
    def reader(self, schema: StructType) -> Reader:
        """A batch read of the columns of `schema`."""
        options = parse_options(self.options, "read")
        if self.version is not None:
            options = replace(options, version=self.version, timestamp=None)
        return reader_for(options, schema)

    @coded()
    def writer(self, schema: StructType, overwrite: bool) -> Writer:  # noqa: FBT001  # as Spark calls it
        """A batch write of rows of these columns: all that the table has gives way to them, or they are appended."""
        return begin_write(parse_options(self.options, "write"), schema, overwrite=overwrite)

    @coded()
    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802  # as Spark calls it
        """A stream of what versions bring."""
        return StreamReader(parse_options(self.options, "stream read"), schema)

    @coded()
    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: FBT001, N802  # as Spark calls it
        """A sink that commits each batch once."""
        return StreamWriter(parse_options(self.options, "stream write"), schema, overwrite)


def _told(columns: pa.Schema) -> str:
    return ddl((field.name, spark_type(field.type, field.name)) for field in columns)
