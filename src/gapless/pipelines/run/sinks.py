"""Where the rows of a batch go."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import gapless.spark
from gapless.errors import InvalidOption
from gapless.pipelines.definitions import Defined
from gapless.pipelines.options.catalogs import catalog_options, iceberg_url
from gapless.pipelines.options.storage import storage_options
from gapless.pipelines.run.delta_place import DeltaPlace
from gapless.pipelines.sinks.kafka import KafkaSink
from gapless.pipelines.sinks.postgres import PostgresSink
from gapless.spark.setup.options import NewTable
from gapless.spark.stream.batch_tables import LoggedTable
from gapless.spark.writing.append import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WriteMode = Literal["append", "upsert", "complete"]
SPARK_MODES: Mapping[WriteMode, str] = {"append": "append", "upsert": "update", "complete": "complete"}
"""What Spark calls the output of a query for each, and `gapless.spark.batch_writer` its batches."""
BatchSink = Callable[["DataFrame", int], object]
"""Takes a batch and its number."""


def batch_sink(defined: Defined, mode: WriteMode, app_id: str) -> BatchSink:
    """What writes the batches of a sink, each once: by `app_id` and its number the table knows what it has.

    Raises as `gapless.spark.batch_writer`, and as `PostgresSink.of` and `check`.
    """
    options = defined.options
    if defined.type == "console":
        return Console(defined.name, options["rows"])
    if defined.type == "kafka":
        return KafkaSink.of(options)
    if defined.type == "jdbc":
        postgres = PostgresSink.of(options, mode, app_id)
        postgres.check()
        return postgres
    given: dict[str, Any] = {"mode": SPARK_MODES[mode], "key": options["key"] if mode == "upsert" else None, "app_id": app_id}
    if storage := storage_options(options):
        given["storage_options"] = storage
    if defined.type == "iceberg":
        return gapless.spark.batch_writer(iceberg_url(options), **given, **catalog_options(options), **of_sink(options)).write
    if defined.type == "hudi":
        return gapless.spark.batch_writer(f"hudi:{options['location']}", **given, **of_sink(options)).write
    if defined.type == "timeseries":
        given["on_overlap"] = options["on_overlap"] if mode == "append" else None
    writer = gapless.spark.batch_writer(options["location"], **given)
    if isinstance(writer.table, LoggedTable) and defined.type == "timeseries":
        writer.table.new = new_table(options)
        return writer.write
    return DeltaSink(DeltaPlace.of(options), writer.write)


def new_table(options: Mapping[str, Any]) -> NewTable | None:
    """How a missing time-series table is made; None where options do not say it. Raises InvalidOption where they say a part alone."""
    if options["index"] is not None and options["bucket"] is not None:
        return NewTable(
            index=options["index"],
            bucket=options["bucket"],
            entity=tuple(options["entity"] or ()),
            timezone=options["timezone"],
            unique=options["unique"],
        )
    given = next((name for name in ("index", "bucket", "entity", "timezone", "unique") if options[name]), None)
    if given is None:
        return None
    raise InvalidOption(
        f"{given}={options[given]!r} does not make a table",
        why="A missing table is made of index and bucket; entity, timezone and unique are beside them",
        fix="Add index and bucket, or leave all of them out",
        option=given,
        value=options[given],
    )


def of_sink(options: Mapping[str, Any]) -> dict[str, Any]:
    """What batches into an Iceberg or Hudi table take of these options beside catalog and store; a missing table is made."""
    names = {"partition_by": "partition_by", "order_by": "order_by", "schema_evolution": "schema_evolution"}
    found = {name: options[option] for option, name in {**names, "target_file_size": "target_bytes"}.items()}
    return {"create": {}, **{name: value for name, value in found.items() if value is not None}}


@dataclass(slots=True)
class DeltaSink:
    """Writes batches into a Delta table, and makes it of the first one's columns where it is missing."""

    place: DeltaPlace
    write: BatchSink
    is_there: bool = False

    def __call__(self, frame: DataFrame, batch: int) -> object:
        """Write a batch; its report. Raises as `DeltaPlace.ready` and the writer."""
        if not self.is_there:
            self.place.ready(lambda: arrow_schema(frame))
            self.is_there = True
        return self.write(frame, batch)


@dataclass(frozen=True, slots=True)
class Console:
    """Shows the rows of batches on the terminal."""

    name: str
    rows: int

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Show a batch."""
        sys.stdout.write(f"-- {self.name}, batch {batch}\n")
        frame.show(self.rows, truncate=False)
