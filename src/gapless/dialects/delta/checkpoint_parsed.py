"""Statistics and partition values of files as typed columns of a checkpoint (`stats_parsed`, `partitionValues_parsed`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from gapless.dialects.delta.actions import AddFile, Metadata
from gapless.dialects.delta.arrow_types import arrow_type
from gapless.dialects.delta.iso_time import parse_days, parse_instant
from gapless.dialects.delta.partition_values import decode_values
from gapless.dialects.delta.schema import DeltaType, PrimitiveType, StructType

_BOUNDS = ("minValues", "maxValues")
_UNBOUNDED = ("boolean", "binary", "variant", "void")
"""Types without bounds in statistics."""


def parsed_stats(files: Sequence[AddFile], metadata: Metadata) -> pa.Array:
    """`stats_parsed`: null where a file has no statistics, or damaged ones."""
    columns = StructType(fields=tuple(field for field in metadata.schema if field.name not in metadata.partition_by))
    bounds, nulls = _struct(columns, _bound_type), _struct(columns, lambda _: pa.int64())
    type_ = pa.struct(
        [
            ("numRecords", pa.int64()),
            *((name, kind) for name, kind in (("minValues", bounds), ("maxValues", bounds), ("nullCount", nulls)) if kind),
            ("tightBounds", pa.bool_()),
        ]
    )
    bodies = [_body(file.stats, columns) for file in files]
    try:
        return pa.array(bodies, type_)
    except (pa.ArrowException, OverflowError):
        return pa.concat_arrays([pa.array([], type_), *(_alone(body, type_) for body in bodies)])


def _alone(body: dict[str, Any] | None, type_: pa.DataType) -> pa.Array:
    """One file's statistics; null where a value is none of its column's type."""
    try:
        return pa.array([body], type_)
    except (pa.ArrowException, OverflowError):
        return pa.nulls(1, type_)


def parsed_values(files: Sequence[AddFile], metadata: Metadata) -> pa.Array:
    """`partitionValues_parsed`. Raises CorruptTable for a text that is no value of its column's type."""
    columns = {}
    for name in metadata.partition_by:
        field = metadata.schema.field(name)
        assert field is not None
        assert isinstance(field.type, PrimitiveType)
        texts = [file.partition_values.get(field.physical_name) for file in files]
        columns[field.physical_name] = decode_values(texts, field.type)
    return pa.StructArray.from_arrays(list(columns.values()), list(columns))


def _bound_type(type_: PrimitiveType) -> pa.DataType | None:
    return None if type_.name in _UNBOUNDED else arrow_type(type_)


def _struct(schema: StructType, leaf: Callable[[PrimitiveType], pa.DataType | None]) -> pa.DataType | None:
    """A struct of what there is for each column, nested ones by struct, by physical names; None where there is nothing."""
    fields = []
    for field in schema:
        kind = None
        if isinstance(field.type, StructType):
            kind = _struct(field.type, leaf)
        elif isinstance(field.type, PrimitiveType) and field.type.name not in ("variant", "void"):
            kind = leaf(field.type)
        if kind is not None:
            fields.append((field.physical_name, kind))
    return pa.struct(fields) if fields else None


def _body(text: str | None, schema: StructType) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        body: dict[str, Any] = json.loads(text, parse_float=Decimal)
        return body | {name: _values(body[name], schema) for name in _BOUNDS if name in body}
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None


def _values(body: Mapping[str, Any], schema: StructType) -> dict[str, Any]:
    return {name: value for field in schema if (value := _value(body.get(name := field.physical_name), field.type)) is not None}


def _value(said: Any, type_: DeltaType) -> Any:
    if said is None:
        return None
    if isinstance(type_, StructType):
        return _values(said, type_)
    if not isinstance(type_, PrimitiveType):
        return None
    match type_.name:
        case "date":
            return parse_days(said)
        case "timestamp" | "timestamp_ntz":
            return parse_instant(said)[0]
        case "float" | "double":
            return float(said)
        case name if name.startswith("decimal"):
            return Decimal(said)
    return said
