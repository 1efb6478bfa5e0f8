"""DataFrames of a topic of Kafka: the columns of the values, and where each record stands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gapless.pipelines.definitions import Defined, Pipeline
from gapless.pipelines.language.statements import CreateSource
from gapless.pipelines.options.spec import behind
from gapless.pipelines.run.declared import columns_ddl, declared_columns
from gapless.pipelines.run.protobuf import Messages
from gapless.spark.reading.columns import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame, SparkSession

_VALUES = "_values"
_AVRO_SAYS = re.compile(r"org\.apache\.avro\.\w+: (?:[\w.]+: )?(.+)")


def kafka_frame(spark: SparkSession, pipeline: Pipeline, defined: Defined, *, streaming: bool, held: bool = False) -> DataFrame:
    """The records of a topic: a stream, or those that are there now; as columns of their values, and _key, _topic, _partition, _offset,
    _timestamp and _headers. With `held` records that come after this call are not read; the topic is read once to know where it ends.

    Raises InvalidPipeline for columns or a schema that are missing, or that Spark refuses.
    """
    options = defined.options
    given = {
        "kafka.bootstrap.servers": options["bootstrap_servers"],
        "subscribe": options["topic"],
        "startingOffsets": "earliest" if options["start"] == "all" or not streaming else "latest",
        "includeHeaders": "true",
        **{f"kafka.{name}": value for name, value in behind("kafka.", options).items()},
    }
    if streaming and options["max_records"] is not None:
        given["maxOffsetsPerTrigger"] = str(options["max_records"])
    reader: Any = spark.readStream if streaming else spark.read
    records = reader.format("kafka").options(**given).load()
    if held:
        records = records.where(_up_to_now(records))
    told: list[SparkColumn]
    match options["format"]:
        case "json":
            records, told = _json(pipeline, defined, records)
        case "avro":
            records, told = _avro(pipeline, defined, records)
        case "protobuf":
            records, told = _protobuf(pipeline, defined, records)
        case "text":
            told = [records["value"].cast("string").alias("value")]
        case _:
            told = [records["value"]]
    about = [records[name].alias(f"_{name}") for name in ("key", "topic", "partition", "offset", "timestamp", "headers")]
    frame: DataFrame = records.select(*told, *about)
    return frame


def _up_to_now(records: DataFrame) -> SparkColumn:
    """Whether a record is among those that its partition has by now: Spark asks for the end of a topic whenever it reads it."""
    from pyspark.sql import functions

    among = functions.lit(False)
    for row in records.groupBy("partition").agg(functions.max("offset").alias("last")).collect():
        among |= (records["partition"] == row["partition"]) & (records["offset"] <= row["last"])
    return among


def _json(pipeline: Pipeline, defined: Defined, records: DataFrame) -> tuple[DataFrame, list[SparkColumn]]:
    from pyspark.sql import functions

    statement = defined.statement
    assert isinstance(statement, CreateSource)
    if not statement.columns:
        raise pipeline.sql.error(
            statement.name_span,
            f"the columns of {defined.name!r} are not declared",
            why="JSON does not say the types of its values",
            fix="Write them behind the name, or say format='text'",
        )
    parsed = functions.from_json(records["value"].cast("string"), columns_ddl(statement.columns), {"mode": _mode(defined)})
    records = records.withColumn(_VALUES, parsed)
    return records, [records[f"{_VALUES}.{quoted(one.name)}"].alias(one.name) for one in statement.columns]


def _avro(pipeline: Pipeline, defined: Defined, records: DataFrame) -> tuple[DataFrame, list[SparkColumn]]:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException
    from pyspark.sql import functions
    from pyspark.sql.types import StructType

    statement = defined.statement
    assert isinstance(statement, CreateSource)
    schema = defined.options["avro_schema"]
    if not schema:
        raise pipeline.sql.error(
            statement.name_span,
            f"the Avro source {defined.name!r} has no schema",
            why="A record of Avro does not say its fields",
            fix="Add avro_schema='${file:orders.avsc}', or say format='bytes'",
        )
    option = next(one for one in statement.options if one.name == "avro_schema")
    try:
        mode = functions.create_map(functions.lit("mode"), functions.lit(_mode(defined)))
        read = functions.call_function("from_avro", records["value"], functions.lit(schema), mode)
        records = records.withColumn(_VALUES, read)
        found = records.schema[_VALUES].dataType
    except (PySparkException, Py4JJavaError) as error:
        said = _AVRO_SAYS.search(str(error))
        raise pipeline.sql.error(
            option.value_span,
            "Spark cannot read Avro by this schema",
            why=(said[1] if said else str(error).splitlines()[0]).rstrip("."),
            fix="Give the JSON of a schema of Avro; a session of your own needs pipeline.config, which brings spark-avro",
        ) from error
    if not isinstance(found, StructType):
        raise pipeline.sql.error(
            option.value_span,
            f"this schema of Avro is no record: values are {found.simpleString()}",
            why="Its fields are the columns",
            fix="Say format='bytes', and call from_avro in a view",
        )
    return records, _fields(pipeline, defined, records)


def _protobuf(pipeline: Pipeline, defined: Defined, records: DataFrame) -> tuple[DataFrame, list[SparkColumn]]:
    from pyspark.sql.pandas.functions import arrow_udf
    from pyspark.sql.pandas.types import from_arrow_type

    statement, options = defined.statement, defined.options
    assert isinstance(statement, CreateSource)
    for name in ("descriptor_file", "message"):
        if not options[name]:
            raise pipeline.sql.error(
                statement.name_span,
                f"the Protobuf source {defined.name!r} has no {name}",
                why="A message of Protobuf does not say its fields",
                fix="Add descriptor_file='orders.desc' and message='shop.Order', or say format='bytes'",
            )
    try:
        descriptors = Path(options["descriptor_file"]).read_bytes()
    except OSError as error:
        span = next(one.value_span for one in statement.options if one.name == "descriptor_file")
        raise pipeline.sql.error(
            span, "the descriptor file cannot be read", why=str(error), fix="Name a file of this machine"
        ) from error
    messages = Messages(
        descriptors=descriptors,
        message=options["message"],
        defaults=options["emit_defaults"],
        bad=options["on_bad_record"],
    )

    def read(values: pa.Array) -> pa.Array:
        return messages.read(values)

    udf: Any = arrow_udf
    records = records.withColumn(_VALUES, udf(read, from_arrow_type(messages.type()))(records["value"]))
    return records, _fields(pipeline, defined, records)


def _fields(pipeline: Pipeline, defined: Defined, records: DataFrame) -> list[SparkColumn]:
    """The declared fields of the values, all where none is. Raises InvalidPipeline for one that they lack or have in another type."""
    assert isinstance(defined.statement, CreateSource)
    declared = declared_columns(pipeline, records.select(f"{_VALUES}.*"), defined.statement.columns, defined.name)
    return [records[f"{_VALUES}.{quoted(one)}"].alias(one) for one in declared.columns]


def _mode(defined: Defined) -> str:
    return "FAILFAST" if defined.options["on_bad_record"] == "error" else "PERMISSIVE"
