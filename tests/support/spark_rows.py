"""Rows that Spark and we compute over, and what is told of the values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

ROWS = pa.table({
    "v": pa.array([13, -7, None], pa.int64()),
    "f": pa.array([1.7, -2.5, None], pa.float64()),
    "d": pa.array([Decimal("1.15"), Decimal("-2.25"), None], pa.decimal128(10, 2)),
    "s": pa.array(["2024-05-01", " Ab%_", None]),
    "ts": pa.array([datetime(2024, 5, 1, 10, 20, 30, 123456, UTC), datetime(1999, 12, 31, 23, 59, 59, 0, UTC), None], pa.timestamp("us", "UTC")),
    "day": pa.array([date(2024, 5, 1), date(1999, 12, 31), None]),
    "flag": pa.array([True, False, None]),
    "st": pa.array([{"x": 1, "y": "a"}, {"x": None, "y": ""}, None]),
    "l": pa.array([[1, 2], [], None], pa.list_(pa.int64())),
    "m": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int64())),
    "g": pa.array([1.5, -0.5, None], pa.float32()),
    "i": pa.array([5, -5, None], pa.int32()),
})  # fmt: skip
ANSWERS: Mapping[str, tuple[str, list[Any]]] = json.loads(
    Path(__file__).with_name("spark_answers.json").read_text(encoding="utf-8")
)
"""What Spark 4.1 answers, in UTC: its type and, for each of the rows, the value as `told` tells it. By expression."""
_TYPES = {
    "bigint": pa.int64(), "int": pa.int32(), "smallint": pa.int16(), "double": pa.float64(), "float": pa.float32(), "string": pa.string(),
    "boolean": pa.bool_(), "date": pa.date32(), "timestamp": pa.timestamp("us", "UTC"), "binary": pa.binary(),
}  # fmt: skip


def arrow_type(name: str) -> pa.DataType:
    """The Arrow type of one of Spark's, by its name there."""
    kind, _, inner = name.rstrip(">)").partition("(" if name.startswith("decimal") else "<")
    match kind:
        case "decimal":
            return pa.decimal128(*map(int, inner.split(",")))
        case "array":
            return pa.list_(arrow_type(inner))
        case "map":
            return pa.map_(*(arrow_type(one) for one in inner.split(",")))
        case "struct":
            return pa.struct([(one.partition(":")[0], arrow_type(one.partition(":")[2])) for one in inner.split(",")])
    return _TYPES[name]


def told(value: Any) -> Any:
    """A value as JSON has it, told from others of its type; times as their wall clock in UTC says them."""
    match value:
        case datetime():
            return value.replace(tzinfo=None).isoformat()
        case date():
            return value.isoformat()
        case Decimal():
            return f"D{value}"
        case bytes() | bytearray():
            return f"X{bytes(value).hex()}"
        case float():
            return repr(value)
        case dict():
            return {name: told(one) for name, one in value.items()}
        case list() if value and isinstance(value[0], tuple):
            return {name: told(one) for name, one in value}
        case list():
            return [told(one) for one in value]
    return value
