"""A version of a table as a Spark DataFrame: pruned here, scanned by Spark's own Parquet reader; Delta tables in `delta_frame`.

Segments that lie in commits, for Spark: the driver has their bytes already, and hands it the rows.

Which columns the files of a scan hold, so that those that are alike can be read together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TYPE_CHECKING, TypedDict, Unpack

import pyarrow as pa
import pyarrow.compute as pc

from gapless.errors import UnsupportedType
from gapless.files.read.scan import ReadPlan
from gapless.files.read.scan import read as read_rows
from gapless.files.read.source import open_segment
from gapless.formats.timeseries.codec.schema import COLUMNS_FEATURE
from gapless.model.column_ids import PLAIN, ColumnIds
from gapless.model.properties import with_defaults
from gapless.model.protocols import Store
from gapless.model.schema import stored_schema
from gapless.model.segment import Segment
from gapless.predicate.plan import ReadGroup
from gapless.predicate.predicate import Constant
from gapless.spark.reading.arrow_columns import shown_batches, shown_schema
from gapless.spark.reading.columns import ddl, file_type, quoted, spark_columns, spark_type
from gapless.spark.reading.conditions import spark_condition
from gapless.spark.reading.delta_frame import read_delta
from gapless.spark.reading.parquet import check_names, scan_files
from gapless.spark.setup.job_context import job_context
from gapless.spark.setup.tables import View, refuse_given, view_of
from gapless.tables.delta.read.view import DeltaView
from gapless.tables.shared.handle import Location
from gapless.tables.timeseries.read.scan import ScanRequest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def inlined_rows(
    spark: SparkSession, store: Store, plan: ReadPlan, segments: Sequence[Segment], wanted: pa.Schema
) -> DataFrame:
    """The rows of segments whose bytes lie in the log that the plan may want, in the declared columns `wanted`, as Spark shows them.

    Raises UnsupportedType, InvalidValue for a value that Spark's type does not hold, CorruptTable.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    groups = tuple(ReadGroup(segments=(one,), sort=False) for one in segments)
    given, shown = replace(plan.over(groups), columns=tuple(wanted.names)), shown_schema(wanted)
    batches = list(shown_batches(read_rows(store, given), shown))
    if not wanted.names:
        # Without columns Spark would not count them.
        return spark.range(sum(batch.num_rows for batch in batches)).select()
    rows = pa.Table.from_batches(batches, shown)
    return spark.createDataFrame(rows, schema=from_arrow_schema(shown, prefer_timestamp_ntz=True))


_WORKERS = 16
"""Footers that are read at once: what is waited for is the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Segments whose files hold the wanted columns alike."""

    schema: pa.Schema
    """The wanted columns that the files hold, by stored names, in the types that the files have."""
    segments: tuple[Segment, ...]


def layouts_of(
    store: Store, segments: Sequence[Segment], wanted: pa.Schema, ids: ColumnIds, *, evolved: bool
) -> tuple[Layout, ...]:
    """The segments by what their files hold of the declared columns `wanted`; the order of segments stays within a layout.

    Footers are read, several at once, where the log does not say it: in tables whose columns changed (`evolved`), and of segments of
    another writer. Raises UnsupportedType (times stored as INT96), CorruptTable, StoreError.
    """
    plain = stored_schema(wanted, ids)
    unknown = [one for one in segments if evolved or one.footer_checksum is None]
    names = [ids.stored_name(field.name) for field in wanted]
    with ThreadPoolExecutor(_WORKERS) as pool:
        read = dict(zip((one.path for one in unknown), pool.map(partial(_file_schema, store, names), unknown), strict=True))
    grouped: dict[pa.Schema, list[Segment]] = defaultdict(list)
    for one in segments:
        grouped[read.get(one.path, plain)].append(one)
    return tuple(Layout(schema=schema, segments=tuple(held)) for schema, held in grouped.items())


def _file_schema(store: Store, names: Iterable[str], segment: Segment) -> pa.Schema:
    """The columns of a file that have one of the names, in its types; without metadata and nullability."""
    with open_segment(store, segment) as file:
        schema, physical = file.schema_arrow, file.metadata.schema
        # As Spark reads INT96, a time without a zone depends on the session's.
        old = {one.path.partition(".")[0] for one in map(physical.column, range(len(physical))) if one.physical_type == "INT96"}
    for name in names:
        if name in old:
            raise UnsupportedType(
                f"column {name!r} of segment {segment.path} is stored as INT96",
                why="What Spark makes of such times depends on its time zone",
                fix="Compact the table, which writes them as timestamps, or read it with table.scan()",
                column=name,
                type="INT96",
            )
    known = frozenset(schema.names)
    return pa.schema([schema.field(name).with_nullable(True).remove_metadata() for name in names if name in known])


class ReadOptions(TypedDict, total=False):
    """Options of `read`."""

    version: int | None
    time: object
    start: object
    end: object
    entity: Mapping[str, object] | None
    where: str | pc.Expression | None
    columns: Sequence[str] | None


READ_DEFAULTS: ReadOptions = {
    "version": None, "time": None, "start": None, "end": None, "entity": None, "where": None, "columns": None,
}  # fmt: skip


def read(spark: SparkSession, table: View | Location, **options: Unpack[ReadOptions]) -> DataFrame:
    """The rows of one version as a DataFrame, not read yet, in no order.

    Args:
        spark: The session; see `gapless.spark.session`.
        table: A time-series table or a Delta table, a view of one, or its path or URL, which is opened at its newest version.
        version: Its number, where not the one that `table` sees.
        time: The version that was the newest then, as in `table.at`.
        start: Smallest index value, inclusive; this, `end` (just past) and `entity` mean what they do in `table.scan` of a time-series table.
        end: Index value just past the range.
        entity: Values of entity columns, `{"symbol": ["NVDA", "AMD"]}`.
        where: Of a Delta table only rows for which this is true, as in its `scan`: files are left out by partition values and statistics.
        columns: Columns to give back, in this order; all where not given.

    Files that cannot hold a wanted row are left out here; the others Spark reads with its own Parquet reader, and rows are exact. Of a
    Delta table executors read with our own reader what Spark's alone would not answer: files with deletion vectors, those of which `where`
    keeps some rows by floats, nested fields, functions or LIKE, and those whose columns are told by field ids. What is committed later does not change the DataFrame; it can be read until a vacuum takes its files. Unsigned integers come as the
    next wider signed type (uint64 as `decimal(20,0)`), times with a zone as `timestamp`, those without as `timestamp_ntz`.

    Raises UnsupportedType for a column that Spark cannot hold exactly (ns, float16, a variant, …: leave it out with `columns`),
    InvalidOption where names differ by case alone and for an argument of the other kind of table, NotSupported for a table in memory, and
    as `table.at` and `table.scan` do.
    """
    chosen = with_defaults("read", options, READ_DEFAULTS)
    view = view_of(table, chosen["version"], chosen["time"])
    start, end, entity, columns = chosen["start"], chosen["end"], chosen["entity"], chosen["columns"]
    if isinstance(view, DeltaView):
        refuse_given({"start": start, "end": end, "entity": entity}, "a Delta table", "Pass where=, and columns=")
        return read_delta(spark, view, where=chosen["where"], columns=columns)
    refuse_given(
        {"where": chosen["where"]}, "a time-series table", "Pass start, end and entity, and say .where(…) of the DataFrame"
    )
    known = job_context(view)
    store, state = known.env.store, known.snapshot.state
    request = ScanRequest(start=start, end=end, where=None, entity=entity or {}, columns=columns, order=None)
    plan = request.plan(state)
    if plan is None:
        return spark.range(0).select()
    wanted = plan.fetched(sort=False)
    segments = [segment for group in plan.groups for segment in group.segments]
    evolved = COLUMNS_FEATURE in state.meta.reader_features
    inlined = [segment for segment in segments if segment.data is not None]
    stored = [segment for segment in segments if segment.data is None]
    layouts = layouts_of(store, stored, wanted, plan.ids, evolved=evolved)
    check_names(spark, [wanted, *(layout.schema for layout in layouts)])
    frames = [_declared(_scan(spark, store, layout), layout.schema, wanted, plan.ids) for layout in layouts]
    frames += [inlined_rows(spark, store, plan, inlined, wanted)] if inlined else []
    rows = reduce(_union, frames) if frames else _declared(spark.range(0), pa.schema([]), wanted, PLAIN)
    kept = rows
    if plan.predicate != Constant(value=True):
        condition = spark_condition(plan.predicate, plan.schema)
        assert condition is not None, "ranges of the index and values of entities are said"
        kept = rows.where(condition)
    return kept if plan.columns == tuple(wanted.names) else kept.select([quoted(name) for name in plan.columns])


def _declared(frame: DataFrame, held: pa.Schema, wanted: pa.Schema, ids: ColumnIds) -> DataFrame:
    """The columns `wanted` as they are declared, out of the `held` ones of files."""
    as_they_are = [(field.name, file_type(field.type, field.name)) for field in held]
    if not ids and held and as_they_are == [(field.name, spark_type(field.type, field.name)) for field in wanted]:
        # Each column named costs calls into Java.
        return frame
    return frame.select(spark_columns(held, wanted, ids))


def _union(one: DataFrame, other: DataFrame) -> DataFrame:
    return one.unionAll(other)


def _scan(spark: SparkSession, store: Store, layout: Layout) -> DataFrame:
    """The columns of the layout, as the files have them."""
    columns = ddl((field.name, file_type(field.type, field.name)) for field in layout.schema)
    return scan_files(spark, columns, [(store, one.path) for one in layout.segments])
