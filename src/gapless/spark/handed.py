"""What Spark hands to a data source, in Arrow: alike in all releases of pyspark that we take. Only Spark loads this."""

from __future__ import annotations

import inspect

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType


def handed_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema of the batches in which rows of these columns come; instants are in UTC."""
    # Since 4.3 it asks for the zone that earlier releases take.
    asks = "timezone" in inspect.signature(to_arrow_schema).parameters
    return to_arrow_schema(schema, timezone="UTC") if asks else to_arrow_schema(schema)
