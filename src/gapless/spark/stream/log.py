"""How Spark's options say that a stream follows a table, and which columns it gives: whether the table still has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from gapless.connect.sources.table.source_table import SourceColumns
from gapless.errors import NotSupported, SchemaMismatch
from gapless.formats.delta.actions import Metadata
from gapless.formats.delta.schema.arrow_types import to_arrow
from gapless.formats.timeseries.actions import TableMeta
from gapless.log.stream_plan import OnChange
from gapless.predicate.range import check_columns
from gapless.spark.reading.arrow_columns import shown_schema
from gapless.spark.reading.delta_scan import refuse_variants
from gapless.spark.setup.job_context import delta_job_context, job_context
from gapless.spark.setup.options import SourceOptions
from gapless.spark.setup.tables import view_of
from gapless.tables.delta.read.view import DeltaView
from gapless.tables.shared.changes import feed_schema
from gapless.tables.shared.versions import parse_instant_value
from gapless.tables.timeseries.read.stream_log import StreamOptions, StreamStart


def stream_options(options: SourceOptions) -> StreamOptions:
    """How a stream with these options follows a table."""
    on_change: OnChange = "tell" if options.change_feed else options.on_data_change
    return StreamOptions(on_change=on_change, pass_missing=options.on_missing_versions == "earliest")


def stream_start(options: SourceOptions) -> StreamStart:
    """Where a stream with these options begins; raises InvalidTime."""
    time = options.starting_timestamp
    return StreamStart(
        version=options.starting_version,
        time_ns=None if time is None else parse_instant_value(time, name="startingTimestamp"),
    )


def series_columns(meta: TableMeta) -> SourceColumns:
    """The columns of a time-series table; raises NotSupported while it has none."""
    schema = meta.schema
    if schema is None:
        raise _no_columns()
    return SourceColumns(schema=schema, stored=tuple(meta.ids.stored_name(one.name) for one in schema), meta=meta)


def delta_columns(metadata: Metadata) -> SourceColumns:
    """The columns of a Delta table; raises NotSupported while it has none."""
    schema = to_arrow(metadata.schema)
    if not schema.names:
        raise _no_columns()
    return SourceColumns(schema=schema, stored=tuple(one.physical_name for one in metadata.schema.fields), meta=metadata)


def columns_of(options: SourceOptions) -> pa.Schema:
    """The declared columns of a stream that begins now; raises as opening the table, and as `stream_columns`."""
    view = view_of(options.path, None, None, options.storage)
    if isinstance(view, DeltaView):
        columns = delta_columns(delta_job_context(view).snapshot.state.metadata)
    else:
        columns = series_columns(job_context(view).snapshot.state.meta)
    return stream_columns(columns, options.columns, feed=options.change_feed)


def stream_columns(table: SourceColumns, columns: Sequence[str] | None, *, feed: bool) -> pa.Schema:
    """The declared columns of a stream: those asked for, all where None, and with `feed` those of a change feed behind.

    Raises UnknownColumn, InvalidOption, and UnsupportedType for a variant.
    """
    schema = table.schema
    names = tuple(schema.names if columns is None else columns)
    check_columns(names, schema)
    refuse_variants(schema, names)
    return feed_schema(schema, columns) if feed else pa.schema([schema.field(name) for name in names])


def _no_columns() -> NotSupported:
    return NotSupported(
        "a table without columns cannot be streamed",
        why="Spark fixes the columns of a stream before it starts, and this table takes them from its first rows",
        fix="Append rows first, or make the table with schema=",
        feature="streams of tables without columns",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningColumns:
    """The columns that a stream was started with."""

    table: SourceColumns
    """What the table had then."""
    columns: tuple[str, ...] | None
    """Those that were asked for; None for all."""
    feed: bool

    @property
    def declared(self) -> pa.Schema:
        """In the table's types."""
        return stream_columns(self.table, self.columns, feed=self.feed)

    @property
    def shown(self) -> pa.Schema:
        """In Spark's types; raises UnsupportedType."""
        return shown_schema(self.declared)

    def read_as(self, now: SourceColumns) -> pa.Schema:
        """The declared columns in other types, under which rows are read; raises SchemaMismatch where Spark was told others."""
        declared = stream_columns(now, self.columns, feed=self.feed)
        wide = [
            f"{a.name!r} was {b.type} and is {a.type}" for a, b in zip(self.declared, declared, strict=True) if a.type != b.type
        ]
        if shown_schema(declared) == self.shown:
            return declared
        raise SchemaMismatch(
            f"the batch has rows from before a restore took columns back to narrower types: {'; '.join(wide)}",
            why="Spark was told the types of now, which do not hold all values of those rows",
            fix="Widen the column again and make the DataFrame anew, or start a stream after the restore, with startingVersion and a"
            " checkpoint location of its own",
            differences=tuple(wide),
        )

    def check(self, now: SourceColumns) -> None:
        """Raise SchemaMismatch where the table's columns are others now, told apart by their identities as well as by their names."""
        changes = self.table.to(now).texts(self.columns)
        if changes:
            raise columns_changed(changes)


def columns_changed(changes: Sequence[str]) -> SchemaMismatch:
    """The error that stops a stream whose columns are the table's no longer."""
    return SchemaMismatch(
        f"the columns of the table changed under the stream: {'; '.join(changes)}",
        why="Spark fixes the columns of a stream when its DataFrame is made; no row of the batch was given",
        fix="Make the DataFrame anew, with load(), and start the query with the same checkpoint: it goes on where it was, and shows"
        " older and newer rows under the columns of now",
        differences=tuple(changes),
    )
