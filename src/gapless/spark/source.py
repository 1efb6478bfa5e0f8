"""`format("gapless")`: the Python data source; only Spark and `pyspark_gapless` load this."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from gapless.spark.codes import coded
from gapless.spark.options import parse_options
from gapless.spark.source_reader import Reader, Wanted, reader_for
from gapless.spark.source_writer import Writer, begin_write
from gapless.spark.stream_columns import columns_of
from gapless.spark.stream_sink import StreamWriter
from gapless.spark.stream_source import StreamReader
from gapless.spark.types import ddl, spark_type


class GaplessSource(DataSource):
    """A table at a path; the options are those of `gapless.spark.options`."""

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
        wanted = Wanted.of(options)
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
