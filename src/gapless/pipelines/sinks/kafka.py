"""A topic of Kafka as the sink of a pipeline, by Spark's own writer: each row is a record, at least once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gapless.spark.reading.columns import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True, slots=True)
class KafkaSink:
    """Sends the rows of batches. A batch that comes again is sent again: a topic does not tell which records it has."""

    topic: str
    servers: str
    key: tuple[str, ...]
    """The columns that are the record's key: the text of one, a JSON object of several."""
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Of Kafka's producer, with "kafka." before."""

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> KafkaSink:
        """As options of a sink say."""
        settings = {name: value for name, value in options.items() if name.startswith("kafka.")}
        return cls(options["topic"], options["bootstrap_servers"], options["key"] or (), settings)

    def __call__(self, frame: DataFrame, batch: int) -> None:  # noqa: ARG002 - a topic does not know it
        """Send a batch."""
        records = frame.select(*self._record(frame))
        settings = {"kafka.bootstrap.servers": self.servers, "topic": self.topic, **self.settings}
        records.write.format("kafka").options(**settings).save()

    def _record(self, frame: DataFrame) -> list[Column]:
        from pyspark.sql import functions

        value = _json([frame[quoted(name)] for name in frame.columns]).alias("value")
        if not self.key:
            return [value]
        columns = [functions.col(quoted(name)) for name in self.key]
        if len(columns) > 1:
            key = _json(columns)
        else:
            is_binary = frame.select(columns[0]).schema[0].dataType.simpleString() == "binary"
            key = columns[0] if is_binary else columns[0].cast("string")
        return [key.alias("key"), value]


def _json(columns: list[Column]) -> Column:
    """An object of these columns. Null stands in it: a reader would not know of the column else."""
    from pyspark.sql import functions

    return functions.to_json(functions.struct(*columns), {"ignoreNullFields": "false"})
