"""What Spark hands to a data source, in Arrow: alike in all releases of pyspark that we take. Only Spark loads this."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType


def handed_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema of the batches in which rows of these columns come; instants are in UTC."""
    # Since 4.3 it asks for the zone that earlier releases take.
    convert: Callable[..., pa.Schema] = to_arrow_schema
    return convert(schema, timezone="UTC") if "timezone" in inspect.signature(convert).parameters else convert(schema)
