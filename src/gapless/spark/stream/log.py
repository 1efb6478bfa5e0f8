"""How Spark's options say that a stream follows a table, and which columns it gives: whether the table still has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from gapless.errors import NotSupported, SchemaMismatch
from gapless.formats.timeseries.actions import TableMeta
from gapless.formats.timeseries.stream_plan import OnChange
from gapless.predicate.range import check_columns
from gapless.spark.reading.arrow_columns import shown_schema
from gapless.spark.reading.frame import view_of
from gapless.spark.setup.executors import job_context
from gapless.spark.setup.options import SourceOptions
from gapless.tables.shared.changes import feed_schema
from gapless.tables.shared.versions import parse_instant_value
from gapless.tables.timeseries.read.history import diff_schemas
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


def columns_of(options: SourceOptions) -> pa.Schema:
    """The declared columns of a stream that begins now; raises as opening the table, and as `stream_columns`."""
    meta = job_context(view_of(options.path, None, None)).snapshot.state.meta
    return stream_columns(meta, options.columns, feed=options.change_feed)


def stream_columns(meta: TableMeta, columns: Sequence[str] | None, *, feed: bool) -> pa.Schema:
    """The declared columns of a stream: those asked for, all where None, and with `feed` those of a change feed behind.

    Raises NotSupported while the table has no columns, UnknownColumn, InvalidOption.
    """
    if meta.schema is None:
        raise NotSupported(
            "a table without columns cannot be streamed",
            why="Spark fixes the columns of a stream before it starts, and this table takes them from its first rows",
            fix="Append rows first, or make the table with schema=",
            feature="streams of tables without columns",
        )
    if feed:
        return feed_schema(meta.schema or pa.schema([]), columns)
    names = tuple(meta.schema.names if columns is None else columns)
    check_columns(names, meta.schema)
    return pa.schema([meta.schema.field(name) for name in names])


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningColumns:
    """The columns that a stream was started with."""

    meta: TableMeta
    """What the table was then."""
    columns: tuple[str, ...] | None
    """Those that were asked for; None for all."""
    feed: bool

    @property
    def declared(self) -> pa.Schema:
        """In the table's types."""
        return stream_columns(self.meta, self.columns, feed=self.feed)

    @property
    def shown(self) -> pa.Schema:
        """In Spark's types; raises UnsupportedType."""
        return shown_schema(self.declared)

    def read_as(self, meta: TableMeta) -> pa.Schema:
        """The declared columns in the types of `meta`, under which rows are read; raises SchemaMismatch where Spark was told others."""
        declared = stream_columns(meta, self.columns, feed=self.feed)
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

    def check(self, now: TableMeta) -> None:
        """Raise SchemaMismatch where the table's columns are others now, told apart by their identities as well as by their names."""
        changes = diff_schemas(self.meta, now).texts(self.columns)
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
