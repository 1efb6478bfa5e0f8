"""The columns of checkpoints of ours (PROTOCOL.md, "Checkpoint Schema"): file actions, `stats_parsed` and `partitionValues_parsed` as Arrow."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from gapless.formats.delta.action_codec import encode_vector
from gapless.formats.delta.actions import AddFile, DeletionVector, Metadata, RemoveFile
from gapless.formats.delta.iso_time import parse_days, parse_instant
from gapless.formats.delta.partitions import decode_values
from gapless.formats.delta.properties import Settings
from gapless.formats.delta.schema.arrow_types import arrow_type
from gapless.formats.delta.schema.types import DeltaType, PrimitiveType, StructType

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


def _value(value: Any, type_: DeltaType) -> Any:
    if value is None:
        return None
    if isinstance(type_, StructType):
        return _values(value, type_)
    if not isinstance(type_, PrimitiveType):
        return None
    match type_.name:
        case "date":
            return parse_days(value)
        case "timestamp" | "timestamp_ntz":
            return parse_instant(value)[0]
        case "float" | "double":
            return float(value)
        case name if name.startswith("decimal"):
            return Decimal(value)
    return value


TEXTS = pa.map_(pa.string(), pa.string())
VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
_FORMAT = pa.struct([("provider", pa.string()), ("options", TEXTS)])

SMALL: dict[str, pa.StructType] = {
    "protocol": pa.struct(
        [
            ("minReaderVersion", pa.int32()),
            ("minWriterVersion", pa.int32()),
            ("readerFeatures", pa.list_(pa.field("element", pa.string()))),
            ("writerFeatures", pa.list_(pa.field("element", pa.string()))),
        ]
    ),
    "metaData": pa.struct(
        [
            ("id", pa.string()),
            ("name", pa.string()),
            ("description", pa.string()),
            ("format", _FORMAT),
            ("schemaString", pa.string()),
            ("partitionColumns", pa.list_(pa.field("element", pa.string()))),
            ("createdTime", pa.int64()),
            ("configuration", TEXTS),
        ]
    ),
    "txn": pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())]),
    "domainMetadata": pa.struct([("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())]),
}
"""Actions of which there are few, by name."""
V2: dict[str, pa.StructType] = {
    "checkpointMetadata": pa.struct([("version", pa.int64()), ("tags", TEXTS)]),
    "sidecar": pa.struct(
        [("path", pa.string()), ("sizeInBytes", pa.int64()), ("modificationTime", pa.int64()), ("tags", TEXTS)]
    ),
}
"""Those that V2 checkpoints have besides."""


def pairs(body: object) -> object:
    """A JSON body with its maps as the pairs that Arrow takes."""
    if isinstance(body, dict):
        return {
            name: _pairs_of(value) if name in ("configuration", "options", "tags") else pairs(value)
            for name, value in body.items()
        }
    return body


def _pairs_of(value: object) -> object:
    return list(value.items()) if isinstance(value, dict) else value


Files = Sequence[AddFile] | Sequence[RemoveFile]


def add_column(files: Sequence[AddFile], metadata: Metadata) -> pa.StructArray:
    """`add`: statistics as text, as columns or both, as the table's properties ask."""
    settings = Settings.of(metadata.configuration)
    columns = _places(files) | {
        "size": pa.array([file.size for file in files], pa.int64()),
        "modificationTime": pa.array([file.modified_ms for file in files], pa.int64()),
        "dataChange": pa.repeat(pa.scalar(False), len(files)),
        "tags": _texts([file.tags for file in files]),
        "clusteringProvider": pa.array([file.clustering_provider for file in files], pa.string()),
    }
    if settings.stats_as_json:
        columns["stats"] = pa.array([file.stats for file in files], pa.string())
    if settings.stats_as_struct:
        columns["stats_parsed"] = parsed_stats(files, metadata)
        if metadata.partition_by:
            columns["partitionValues_parsed"] = parsed_values(files, metadata)
    return pa.StructArray.from_arrays(list(columns.values()), list(columns))


def remove_column(files: Sequence[RemoveFile]) -> pa.StructArray:
    """`remove`."""
    full = [file.partition_values is not None and file.size is not None for file in files]
    columns = _places(files) | {
        "deletionTimestamp": pa.array([file.deleted_ms for file in files], pa.int64()),
        "dataChange": pa.repeat(pa.scalar(False), len(files)),
        "extendedFileMetadata": pa.array(full, pa.bool_()),
        "size": pa.array([file.size for file in files], pa.int64()),
    }
    return pa.StructArray.from_arrays(list(columns.values()), list(columns))


def _places(files: Files) -> dict[str, pa.Array]:
    """What both have."""
    return {
        "path": pa.array([file.path for file in files], pa.string()),
        "partitionValues": _texts([file.partition_values for file in files]),
        "deletionVector": pa.array([_vector(file.deletion_vector) for file in files], VECTOR),
        "baseRowId": pa.array([file.base_row_id for file in files], pa.int64()),
        "defaultRowCommitVersion": pa.array([file.default_row_commit_version for file in files], pa.int64()),
    }


def _texts(maps: Sequence[Mapping[str, str | None] | None]) -> pa.Array:
    return pa.array([None if one is None else list(one.items()) for one in maps], TEXTS)


def _vector(vector: DeletionVector | None) -> dict[str, object] | None:
    return None if vector is None else encode_vector(vector)
