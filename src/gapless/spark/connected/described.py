"""Which source is read, and how: a value that travels to Spark's processes, and the DataFrame of it."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gapless.connect.location import without_secrets
from gapless.connect.sources.fitted_rows import fitted
from gapless.connect.sources.open import source
from gapless.connect.sources.protocol import Polled, Source
from gapless.files.ingest.batches import Batches
from gapless.spark.reading.arrow_columns import shown_batches, shown_schema
from gapless.spark.reading.columns import ddl, spark_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMAT = "gapless_connect"
OPTION = "secret"
"""The one option of that format. Spark masks the values of options that are called so, in its plans and logs."""
MAX_ROWS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedSource:
    """A source of `gapless.connect` that is not open."""

    url: str = field(repr=False)
    """As in `gl.connect.source`."""
    options: Mapping[str, Any] = field(repr=False)
    """Its other arguments."""
    schema: pa.Schema
    """The columns that rows are given in: those that a row lacks are null."""
    kept: str | None = None
    """Of a stream: where rows of its planned batches are kept, a folder or URL."""
    max_rows: int = MAX_ROWS
    """Of a stream: the most rows in one batch, which the driver holds in memory."""

    def __str__(self) -> str:
        """The source, without secrets."""
        return without_secrets(self.url)

    @property
    def shown(self) -> pa.Schema:
        """The columns as Spark has them. Raises UnsupportedType."""
        return shown_schema(self.schema)

    def open(self) -> Source:
        """Raises as `gl.connect.source`."""
        return source(self.url, **self.options)

    def rows_of(self, polled: Polled, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
        """What a poll gave, whose rows have these columns, as Spark takes it. Raises SchemaMismatch where the columns are not those that
        were told when the DataFrame was made, InvalidValue.
        """
        given = Batches(source=str(self), schema=columns, read=lambda: iter(polled.batches))
        return shown_batches(fitted(given, self.schema), self.shown)


def connected_frame(spark: SparkSession, described: DescribedSource, *, streaming: bool) -> DataFrame:
    """The rows of a source, a stream of them or those that are there when it is run. Raises UnsupportedType."""
    from gapless.spark.connected.source import ConnectSource

    spark.dataSource.register(ConnectSource)
    reader: Any = spark.readStream if streaming else spark.read
    columns = ddl((one.name, spark_type(one.type, one.name)) for one in described.schema)
    frame: DataFrame = reader.format(FORMAT).schema(columns).option(OPTION, _packed(described)).load()
    return frame


def _packed(described: DescribedSource) -> str:
    return base64.b64encode(pickle.dumps(described)).decode("ascii")


def unpacked(text: str) -> DescribedSource:
    """What `connected_frame` gave to Spark."""
    found: DescribedSource = pickle.loads(base64.b64decode(text))  # noqa: S301  # our own driver made it
    return found
