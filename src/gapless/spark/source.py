"""Batch reads of `format("gapless")`: planned on the driver, read by Python workers.

Batch writes of `format("gapless")`: executors write segments, the driver makes one commit.

`format("gapless")`: the Python data source; only Spark and `pyspark_gapless` load this.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceReader, InputPartition, WriterCommitMessage
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from gapless.errors import InvalidOption, SchemaMismatch
from gapless.spark.reading.columns import ddl, spark_type
from gapless.spark.reading.delta_scan import DeltaScan
from gapless.spark.reading.series_scan import SeriesScan
from gapless.spark.setup.coded import coded
from gapless.spark.setup.options import SourceOptions, check_append, check_overwrite, parse_options
from gapless.spark.setup.packs import packs_of
from gapless.spark.setup.tables import open_at_newest, refuse_given, view_of
from gapless.spark.stream.log import columns_of
from gapless.spark.stream.sink import StreamWriter, handed_schema
from gapless.spark.stream.source import StreamReader
from gapless.spark.writing.append import check_delivery, open_or_create
from gapless.spark.writing.partition import PartitionEncoder, PartitionOutcome
from gapless.spark.writing.staging import target_of
from gapless.spark.writing.target import Delivery
from gapless.tables.delta.read.view import DeltaView


class PackReader(Protocol):
    """Reads files of a table on an executor; picklable."""

    @property
    def shown(self) -> pa.Schema:
        """The columns as Spark has them."""
        ...

    def read(self, pack: Any) -> Iterator[pa.RecordBatch]:
        """The wanted rows of some files, in these columns."""
        ...


def scan_of(options: SourceOptions) -> SeriesScan | DeltaScan:
    """What a read asks for, by the table's kind. Raises as opening the table, `table.at` and `table.scan` do, InvalidOption for an option of the other kind
    of table, and NotSupported for a table in memory.
    """
    view = view_of(options.path, options.version, options.timestamp, options.storage)
    if options.columns == ():
        raise InvalidOption(
            "columns='' names no column",
            why="Spark reads no rows without columns from a source in Python",
            fix="Name one, or leave the option out",
            option="columns",
            value="",
        )
    if isinstance(view, DeltaView):
        given = {"start": options.start, "end": options.end, "entity": options.entity}
        refuse_given(given, "a Delta table", 'Say .option("where", "…")')
        return DeltaScan.of(view, options.where, options.columns)
    refuse_given({"where": options.where}, "a time-series table", "Say start, end and entity")
    return SeriesScan.of(view, options)


class Reader(DataSourceReader):
    """Reads the rows of one version. Has no `pushFilters`: what it pushed would stay for later scans of the same DataFrame."""

    def __init__(self, wanted: SeriesScan | DeltaScan) -> None:
        self.files: Sequence[Any] = wanted.files()
        self.reader: PackReader = wanted.reader

    def __getstate__(self) -> dict[str, object]:
        # Tasks get theirs with their partition. Gone and not empty, lest a copy that is asked for partitions find none.
        return {name: value for name, value in self.__dict__.items() if name != "files"}

    def partitions(self) -> Sequence[InputPartition]:
        """The files that may hold wanted rows, several in each partition."""
        return [InputPartition(pack) for pack in packs_of(self.files, os.cpu_count() or 1)]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """The wanted rows of a partition's files, a row group in memory at a time; None is what Spark makes of no partitions."""
        if partition is None:
            return
        with coded():
            yield from self.reader.read(partition.value)


def reader_for(options: SourceOptions, schema: StructType) -> Reader:
    """A reader that gives the columns of `schema`, which is the table's, part of it, or what the user said to expect.

    Raises SchemaMismatch where a column has another type or `columns` says others, UnknownColumn, and as `scan_of` does.
    """
    names = tuple(schema.fieldNames())
    if options.columns not in (None, names):
        raise _mismatch(f"columns={','.join(options.columns or ())!r}", f"the schema has {', '.join(names)}")
    wanted = scan_of(replace(options, columns=names) if names else options)
    found = from_arrow_schema(wanted.reader.shown, prefer_timestamp_ntz=True)
    for given, ours in zip(schema, found, strict=True):
        types = given.dataType.simpleString(), ours.dataType.simpleString()
        if types[0] != types[1]:
            raise _mismatch(f"{given.name}: {types[1]} in version {wanted.version} of the table", f"{types[0]} in the schema")
    return Reader(wanted)


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

    outcome: PartitionOutcome | None


class Writer(DataSourceArrowWriter):
    """One write: made on the driver, pickled to executors for `write`, and back on the driver for `commit`."""

    def __init__(
        self, options: SourceOptions, url: str, delivery: Delivery, encoding: PartitionEncoder | None, *, overwrite: bool
    ) -> None:
        self.options, self.url = options, url
        self.delivery, self.encoding, self.overwrite = delivery, encoding, overwrite

    @coded()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Store the rows of a partition. Nothing is read where the operation was applied before."""
        return Written(None if self.encoding is None else self.encoding.outcome(iterator))

    @coded()
    def commit(self, messages: Iterable[Any]) -> None:
        """Commit what the successful attempts of all partitions wrote; raises as `WriteTarget.append` and `overwrite`."""
        if self.encoding is None:
            return
        outcomes = [message.outcome for message in messages]
        target = target_of(open_at_newest(self.url, self.options.storage))
        take = target.overwrite if self.overwrite else target.append
        take(self.delivery, self.encoding, outcomes)

    def abort(self, messages: Iterable[Any]) -> None:
        """Leave what was written to vacuum: another attempt may still be writing, and only vacuum knows when none is."""


def begin_write(options: SourceOptions, schema: StructType, *, overwrite: bool) -> Writer:
    """Open the table, or make it where options say how, and ask whether it has this operation already.

    Raises InvalidOption for an overlap policy beside `overwrite`, and as `open_or_create`; SchemaMismatch, UnsupportedType, NotSupported
    for a table in memory.
    """
    (check_overwrite if overwrite else check_append)(options)
    given = handed_schema(schema)
    handle = open_or_create(options.path, options.new_table, given, options.storage)
    delivery = Delivery(
        on_overlap=options.on_overlap,
        operation=options.operation,
        schema_mode="overwrite" if options.overwrite_schema else "merge" if options.merge_schema else "strict",
        where=options.replace_where,
    )
    check_delivery(handle, delivery)
    target = target_of(handle)
    known = target.find_applied(delivery, "overwrite" if overwrite else "append")
    encoding = target.begin(given, delivery) if known is None else None
    return Writer(options, handle.url, delivery, encoding, overwrite=overwrite)


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
        wanted = scan_of(options)
        self.version = wanted.version
        return _told(wanted.declared) if wanted.declared.names else StructType([])

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
