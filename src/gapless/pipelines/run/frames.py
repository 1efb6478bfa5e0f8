"""DataFrames of what a pipeline defines."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import gapless.spark
from gapless.errors import InvalidPipeline
from gapless.pipelines.definitions import Defined, Pipeline
from gapless.pipelines.language.statements import CreateLookupTable, CreateSource, CreateView, Query
from gapless.pipelines.language.text import Span
from gapless.pipelines.options.storage import storage_options
from gapless.pipelines.run.connected import CONNECTED, described
from gapless.pipelines.run.declared import columns_ddl, declared_columns, not_null
from gapless.pipelines.run.kafka import kafka_frame
from gapless.spark.connected.described import connected_frame
from gapless.spark.reading.columns import quoted
from gapless.spark.setup.options import STORAGE_PREFIX

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TABLES = ("timeseries", "delta")
_FILES = ("parquet", "json", "csv")


def is_held(defined: Defined) -> bool:
    """Whether a DataFrame of a source may read what was there when it was made, and nothing that came later."""
    return defined.type in (*_TABLES, *_FILES, "kafka", "iceberg", "hudi")


def is_continuous(defined: Defined) -> bool:
    """Whether it is a source that gives what is new, batch by batch."""
    return isinstance(defined.statement, CreateSource) and defined.options.get("mode", "continuous") == "continuous"


def define_views(
    spark: SparkSession,
    pipeline: Pipeline,
    *,
    streaming: bool,
    given: Mapping[str, DataFrame] | None = None,
    kept: str | None = None,
    held: bool = False,
) -> None:
    """Make what a pipeline defines, but for its sinks, known to `spark.sql` as temporary views.

    Continuous sources become streams with `streaming`, else what is there now; `given` has those, by name in lower case, whose rows are known,
    such as a batch; `kept` is the folder for rows of planned batches, which streams that are run need. With `held` what comes after this call
    is not read, where `is_held` says that it can be so. Raises InvalidPipeline for a query that Spark refuses, and what reading the sources
    raises.
    """
    for name, defined in pipeline.defined.items():
        statement = defined.statement
        if given is not None and name in given:
            frame = given[name]
        elif isinstance(statement, CreateView):
            frame = frame_of_query(spark, pipeline, statement.query)
        elif isinstance(statement, CreateSource):
            stream = streaming and is_continuous(defined)
            frame = source_frame(spark, pipeline, defined, streaming=stream, kept=kept, held=held)
        elif isinstance(statement, CreateLookupTable):
            frame = lookup_frame(spark, pipeline, defined)
        else:
            continue
        frame.createOrReplaceTempView(quoted(defined.name))


def frame_of_query(spark: SparkSession, pipeline: Pipeline, query: Query) -> DataFrame:
    """The DataFrame of a query over the views. Raises InvalidPipeline where Spark refuses it, with the place where it does."""
    frame: DataFrame = refused_at(pipeline, query, lambda: spark.sql(query.sql))
    return frame


def refused_at(pipeline: Pipeline, query: Query, act: Callable[[], Any]) -> Any:
    """What an act gives that Spark may refuse because of a query; raises InvalidPipeline then."""
    from pyspark.errors import AnalysisException, ParseException

    try:
        return act()
    except (AnalysisException, ParseException) as error:
        raise _refusal(pipeline, query, error) from error


def source_frame(
    spark: SparkSession,
    pipeline: Pipeline,
    defined: Defined,
    *,
    streaming: bool,
    kept: str | None = None,
    held: bool = False,
) -> DataFrame:
    """The rows of a source: a stream, or what is there now; in its declared columns, with its watermark. `kept`, `held` as in `define_views`."""
    statement, options = defined.statement, defined.options
    assert isinstance(statement, CreateSource)
    if defined.type in _TABLES:
        frame = _table_stream(spark, options) if streaming else _table_rows(spark, options)
        frame = declared_columns(pipeline, frame, statement.columns, defined.name)
    elif defined.type in _FILES:
        frame = _files(spark, pipeline, defined, streaming=streaming)
    elif defined.type == "kafka":
        frame = kafka_frame(spark, pipeline, defined, streaming=streaming, held=held)
    elif defined.type in CONNECTED:
        columns = columns_ddl(statement.columns)
        read = described(spark, defined, columns, streaming=streaming, kept=None if kept is None else f"{kept}/{defined.name}")
        frame = declared_columns(pipeline, connected_frame(spark, read, streaming=streaming), statement.columns, defined.name)
    else:
        frame = _rate(spark, options, streaming=streaming)
        frame = declared_columns(pipeline, frame, statement.columns, defined.name)
    frame = not_null(frame, statement.columns, defined.name)
    if statement.watermark is not None and streaming:
        frame = frame.withWatermark(statement.watermark.column, statement.watermark.delay)
    return frame


def lookup_frame(spark: SparkSession, pipeline: Pipeline, defined: Defined) -> DataFrame:
    """The rows of a lookup table, as they are now. Raises InvalidPipeline for columns that it does not have so."""
    statement = defined.statement
    assert isinstance(statement, CreateLookupTable)
    if defined.type in _TABLES:
        frame = _table_rows(spark, defined.options)
    else:
        frame = _files(spark, pipeline, defined, streaming=False)
    frame = declared_columns(pipeline, frame, statement.columns, defined.name)
    _check_key(pipeline, frame, statement)
    return frame


def _check_key(pipeline: Pipeline, frame: DataFrame, statement: CreateLookupTable) -> None:
    """Raise InvalidPipeline where two rows of a lookup table have one key."""
    from pyspark.sql import functions

    names = [functions.col(quoted(one)) for one in statement.primary_key]
    for row in frame.groupBy(*names).count().where("count > 1").limit(1).collect():
        values = ", ".join(f"{name}={value!r}" for name, value in zip(statement.primary_key, row, strict=False))
        raise pipeline.sql.error(
            statement.name_span,
            f"{row[-1]} rows of {statement.name!r} have the key {values}",
            why="A row that is looked up by its PRIMARY KEY is one",
            fix="Name all columns of the key, or make a table of one row each",
        )


def _table_stream(spark: SparkSession, options: Mapping[str, Any]) -> DataFrame:
    given = {"onDataChange": options["on_data_change"], "onMissingVersions": options["on_missing_versions"]}
    if options["change_data_feed"]:
        given = {"onMissingVersions": options["on_missing_versions"], "changeFeed": "true"}
    if options["start"] != "all":
        given["startingVersion"] = options["start"]
    if options["max_files"] is not None:
        given["maxFilesPerTrigger"] = str(options["max_files"])
    return spark.readStream.format("gapless").options(**given, **_storage(options)).load(options["location"])


def _table_rows(spark: SparkSession, options: Mapping[str, Any]) -> DataFrame:
    # Spark's own reader of Parquet, the faster one, knows nothing of these options.
    if storage := _storage(options):
        return spark.read.format("gapless").options(**storage).load(options["location"])
    return gapless.spark.read(spark, options["location"])


def _storage(options: Mapping[str, Any]) -> dict[str, str]:
    return {f"{STORAGE_PREFIX}{name}": value for name, value in storage_options(options).items()}


def _files(spark: SparkSession, pipeline: Pipeline, defined: Defined, *, streaming: bool) -> DataFrame:
    options, statement = defined.options, defined.statement
    columns = statement.columns if isinstance(statement, CreateSource | CreateLookupTable) else ()
    settings = {"mode": "FAILFAST"} if defined.type != "parquet" else {}
    for ours, theirs in (("header", "header"), ("delimiter", "sep"), ("timestamp_format", "timestampFormat")):
        if options.get(ours) is not None:
            settings[theirs] = str(options[ours]).lower() if isinstance(options[ours], bool) else options[ours]
    location = options["location"]
    if columns:
        schema: Any = columns_ddl(columns)
    elif defined.type == "parquet":
        # What lies there now says the columns; a stream wants to know them before.
        schema = refused(pipeline, statement.name_span, lambda: spark.read.parquet(location).schema, "Declare its columns")
    else:
        raise pipeline.sql.error(
            statement.name_span,
            f"the columns of {defined.name!r} are not declared",
            why=f"{defined.type.upper()} does not say the types of its values",
            fix="Write them behind the name: (id BIGINT, name STRING)",
        )
    if streaming:
        if options["max_files"] is not None:
            settings["maxFilesPerTrigger"] = str(options["max_files"])
        return spark.readStream.format(defined.type).schema(schema).options(**settings).load(location)
    return spark.read.format(defined.type).schema(schema).options(**settings).load(location)


def _rate(spark: SparkSession, options: Mapping[str, Any], *, streaming: bool) -> DataFrame:
    if streaming:
        return spark.readStream.format("rate").option("rowsPerSecond", options["rows_per_second"]).load()
    return spark.range(options["rows_per_second"]).selectExpr("current_timestamp() AS timestamp", "id AS value")


def refused(pipeline: Pipeline, span: Span, act: Callable[[], Any], fix: str) -> Any:
    """What an act gives that Spark may refuse; raises InvalidPipeline at a span then."""
    from pyspark.errors import AnalysisException

    try:
        return act()
    except AnalysisException as error:
        raise pipeline.sql.error(span, f"Spark cannot read it: {_said(error)}", fix=fix) from error


def _refusal(pipeline: Pipeline, query: Query, error: Any) -> InvalidPipeline:
    """The error for a query, at the place that Spark names, where it does."""
    span = query.span
    for context in error.getQueryContext() or ():
        fragment = str(getattr(context, "fragment", str)())
        start = query.span.start + int(getattr(context, "startIndex", int)())
        if fragment and pipeline.sql.text[start : start + len(fragment)] == fragment:
            span = Span(start, start + len(fragment))
    if span == query.span and (place := re.search(r"\(line (\d+), pos (\d+)\)", str(error))):
        lines = query.sql.split("\n")
        start = query.span.start + sum(len(one) + 1 for one in lines[: int(place[1]) - 1]) + int(place[2])
        near = re.match(r"\w+|\S|$", pipeline.sql.text[start:])
        span = Span(start, start + max(1, len(near[0]) if near else 1))
    return pipeline.sql.error(span, f"Spark refuses this query: {_said(error)}")


def _said(error: Any) -> str:
    """What Spark says, without its plan and its own excerpt of the query."""
    text = re.split(r"\s*(?:SQLSTATE|;\n|;line|\n|== SQL)", str(error.getMessage() or error).strip())[0]
    return re.sub(r"^\[[A-Z_.]+\]\s*", "", text).rstrip(" .;")
