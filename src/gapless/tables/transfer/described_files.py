"""Write a stream of rows as Parquet files that are described as an Iceberg or Hudi table of their own."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Literal

import pyarrow as pa

from gapless.files.ingest.batches import Batches
from gapless.formats.timeseries.actions import segment_path, shared_instant
from gapless.model.publishing import PublishedFormat, PublishSettings
from gapless.model.types import with_children
from gapless.publish.publishers import check_publishable, publisher_of
from gapless.publish.source import OneVersion, SourceChange, SourceColumns, SourceFile
from gapless.runtime.environment import Environment
from gapless.tables.transfer.parquet_files import write_files


@dataclass(frozen=True, slots=True)
class WrittenTable(OneVersion):
    """Files as the source of a description; see `gapless.publish.source.Source`. There is one version of them."""

    columns: SourceColumns
    files: tuple[SourceFile, ...]
    time_ns: int

    version = 1
    earliest = 1
    settings = PublishSettings()
    kept: Collection[int] = ()

    def whole(self) -> SourceChange:
        """All of it."""
        return SourceChange(version=1, time_ns=self.time_ns, operation="export", columns=self.columns, added=self.files)

    def changes_after(self, published: int, format_: PublishedFormat) -> None:  # noqa: ARG002 - as the protocol has it
        """None: it has no commits."""
        return


def write_described(env: Environment, part: Batches, format_: Literal["iceberg", "hudi"]) -> tuple[int, int]:
    """Store the rows as an Iceberg table, or as a Hudi table in the folder `data`; gives how many rows and files.

    The description comes last, so that readers find all rows or no table. Raises UnsupportedType for a column that the format, or one of its
    readers, does not have; NotSupported without the library that it needs; StoreError.
    """
    schema = pa.schema([_in_us(one) for one in part.schema])
    now_ns = env.clock.now_ns()
    columns = SourceColumns(schema=schema, created_ns=now_ns)
    check_publishable((format_,), columns)
    publisher = publisher_of(format_, env, PublishSettings(formats=(format_,)))
    instant = shared_instant(now_ns)
    # Readers of Hudi tell files apart by their names, each by an id of its own.
    files = write_files(env.store, _cast(part, schema), lambda number: segment_path(env.ids.uuid(), number, instant))
    described = tuple(SourceFile(path=one.path, rows=one.rows, size=one.size, stats=one.stats) for one in files)
    source = WrittenTable(columns, described, now_ns)
    if format_ == "iceberg":
        import_module("gapless.publish.iceberg.publication").describe_own(env, source)
    else:
        publisher.publish(source)
    return sum(one.rows for one in files), len(files)


def _cast(part: Batches, schema: pa.Schema) -> Batches:
    if schema.equals(part.schema):
        return part

    def read() -> Iterator[pa.RecordBatch]:
        for batch in part:
            yield from pa.Table.from_batches([batch]).cast(schema).to_batches()

    return Batches(source=part.source, schema=schema, read=read)


def _in_us(field: pa.Field) -> pa.Field:
    """A column with its times in microseconds, nested ones too: readers of Iceberg take milliseconds for such."""
    return field.with_type(_us(field.type))


def _us(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(type_) and type_.unit in ("s", "ms"):
        return pa.timestamp("us", type_.tz)
    return with_children(type_, _in_us)
