"""Arrow schemas of Hudi tables, from their Avro schemas. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from gapless.errors import CorruptTable, UnsupportedTable

META_COLUMNS = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)
"""What Hudi keeps beside each row: when it was written, where, and by which key it is found."""
_PLAIN: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "enum": pa.string(),
    "bytes": pa.binary(),
    "null": pa.null(),
}
_LOGICAL: dict[str, pa.DataType] = {
    "date": pa.date32(),
    "timestamp-millis": pa.timestamp("ms", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "time-micros": pa.time64("us"),
    "time-millis": pa.time32("ms"),
}


def arrow_schema(text: str, where: str) -> pa.Schema:
    """The columns of a table by its Avro record, as JSON, without Hudi's own. Columns that may be null are nullable.

    Raises UnsupportedTable for a type that has no counterpart, CorruptTable for what is no schema; `where` says where it was found.
    """
    try:
        record = json.loads(text)
        named: dict[str, Any] = {}
        fields = [_field(one, named) for one in record["fields"] if one["name"] not in (*META_COLUMNS, "_hoodie_operation")]
    except _NoCounterpart as error:
        raise UnsupportedTable(
            f"the Hudi table has a column of the Avro type {error}",
            why="This release reads and writes none of it",
            fix="Write such a table by Hudi itself",
            needs=f"the Avro type {error}",
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptTable(
            f"{where} holds no schema that can be read",
            why=f"{type(error).__name__}: {error}",
            fix="Bring it back from a copy of the table",
            path=where,
        ) from error
    return pa.schema(fields)


class _NoCounterpart(Exception):
    """An Avro type that Arrow, or this release, does not have."""


def _field(told: dict[str, Any], named: dict[str, Any]) -> pa.Field:
    kind, nullable = _without_null(told["type"])
    return pa.field(told["name"], _type(kind, named), nullable=nullable)


def _without_null(kind: Any) -> tuple[Any, bool]:
    if not isinstance(kind, list):
        return kind, kind == "null"
    others = [one for one in kind if one != "null"]
    if len(others) > 1:
        raise _NoCounterpart(json.dumps(kind))
    return (others or ["null"])[0], "null" in kind


def _type(kind: Any, named: dict[str, Any]) -> pa.DataType:
    if isinstance(kind, str):
        if kind in _PLAIN:
            return _PLAIN[kind]
        return _type(named[kind.rpartition(".")[2]], named)
    inner = kind["type"]
    if isinstance(inner, dict | list):
        return _type(inner, named)
    if "name" in kind:
        named[kind["name"]] = kind
    logical = kind.get("logicalType")
    if logical == "decimal":
        return pa.decimal128(kind["precision"], kind.get("scale", 0))
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    if logical is not None and logical != "uuid":
        raise _NoCounterpart(logical)
    return _complex(inner, kind, named)


def _complex(inner: str, kind: dict[str, Any], named: dict[str, Any]) -> pa.DataType:
    if inner == "record":
        return pa.struct(_fields(kind["fields"], named))
    if inner == "array":
        item, nullable = _without_null(kind["items"])
        return pa.list_(pa.field("element", _type(item, named), nullable=nullable))
    if inner == "map":
        value, nullable = _without_null(kind["values"])
        return pa.map_(pa.string(), pa.field("value", _type(value, named), nullable=nullable))
    if inner == "fixed":
        return pa.binary()
    if inner in _PLAIN:
        return _PLAIN[inner]
    raise _NoCounterpart(inner)


def _fields(told: Iterable[dict[str, Any]], named: dict[str, Any]) -> list[pa.Field]:
    return [_field(one, named) for one in told]
