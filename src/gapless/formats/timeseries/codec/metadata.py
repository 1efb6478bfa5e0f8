"""Encode and decode `UpdateTableMeta`, and the table features that its content needs of readers and writers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from gapless.errors import CallError, UnsupportedTable
from gapless.formats.timeseries.actions import WRITER_FEATURE, TableMeta, TableState
from gapless.formats.timeseries.codec.schema import (
    COLUMNS_FEATURE,
    METADATA_FEATURE,
    TYPES_FEATURE,
    decode_columns,
    decode_schema,
    encode_schema,
    grown_schema,
    schema_features,
)
from gapless.model.column_ids import PLAIN
from gapless.model.index import Bucket, FixedWidth, IndexSpec, IntWidth, LocalDays, Months, format_bucket, parse_bucket
from gapless.model.instant import NS_PER, format_instant, parse_instant
from gapless.model.properties import Properties
from gapless.model.schema import entity_types
from gapless.model.types import has_metadata

PROTOCOL_VERSION = 7
BUCKETS_FEATURE = "gapless_buckets"
CLEANUP_FEATURE = "gapless_log_cleanup"
"""The log may start at a log checkpoint; protocol 7's readers replay it from commit 1."""
INLINE_FEATURE = "gapless_inline"
"""Segments may lie in commits; protocol 7's readers would look for their files."""
READER_FEATURES = frozenset(
    {"schema_add_columns", "schema_metadata", TYPES_FEATURE, BUCKETS_FEATURE, COLUMNS_FEATURE, CLEANUP_FEATURE, INLINE_FEATURE}
)
WRITER_FEATURES = frozenset({"schema_metadata", "gapless"})

_GRANULARITY_NS = {
    "Days": 86_400 * NS_PER["s"],
    "Hours": 3600 * NS_PER["s"],
    "Minutes": 60 * NS_PER["s"],
    "Seconds": NS_PER["s"],
}
_MAX_COUNT = 2**32
_OLD_RELEASES = {1: "0.1 or 0.2", 2: "0.3", 3: "0.4", 4: "0.4", 5: "0.4", 6: "0.4"}


def bucket_features(bucket: Bucket) -> frozenset[str]:
    """The reader features a bucket needs: protocol 7 counts in whole seconds, up to 2**32 of a unit, and in no calendar."""
    exact = isinstance(bucket, IntWidth) or _granularity(bucket) is not None
    return frozenset() if exact else frozenset({BUCKETS_FEATURE})


def encode_meta(meta: TableMeta) -> dict[str, object]:
    """The action's body; raises UnsupportedType where the schema cannot be said."""
    body: dict[str, object] = {
        "kind": {"TimeSeries": _encode_index(meta.index)},
        "logical_schema": None if meta.schema is None else encode_schema(meta.schema, meta.logical, meta.ids),
        "created_at": format_instant(meta.created_ns),
        "protocol_version": PROTOCOL_VERSION,
        "required_reader_features": sorted(meta.reader_features),
        "required_writer_features": sorted(meta.writer_features),
        "properties": meta.properties.changed(),
    }
    if isinstance(meta.index.bucket, LocalDays | Months) or bucket_features(meta.index.bucket):
        local = isinstance(meta.index.bucket, LocalDays) or (
            isinstance(meta.index.bucket, Months) and meta.index.bucket.timezone is not None
        )
        body["bucket"] = {"width": format_bucket(meta.index.bucket), "local": local}
    return body


def decode_meta(body: Mapping[str, Any], path: str = "") -> TableMeta:
    """Metadata from the action's body; `path` is the commit's, for messages.

    Raises UnsupportedTable for an older or newer protocol or an unknown reader feature, CorruptTable for a malformed schema.
    """
    _check_protocol(body)
    readers = frozenset(map(str, body.get("required_reader_features", ())))
    if unknown := sorted(readers - READER_FEATURES):
        raise UnsupportedTable(
            f"the table needs the reader feature {unknown[0]!r}",
            why=f"This release knows {', '.join(sorted(READER_FEATURES))}; without the feature it would read wrong rows",
            fix="Open it with the release that wrote it, or a newer gapless",
            needs=unknown[0],
        )
    schema = body.get("logical_schema")
    try:
        properties = Properties.parse(body.get("properties", {}))
    except CallError as error:
        raise UnsupportedTable(
            f"the table's properties are not understood: {error.what}",
            why="A newer release may have set them",
            fix="Open it with the release that wrote it",
            needs=str(error.facts.get("option", "properties")),
        ) from error
    index = _decode_index(body["kind"]["TimeSeries"], body.get("bucket"))
    declared, ids = (None, PLAIN) if schema is None else decode_columns(schema, path)
    return TableMeta(
        index=index,
        schema=None if declared is None else _with_keys(declared, index),
        ids=ids,
        logical=None if COLUMNS_FEATURE in readers else schema,
        created_ns=parse_instant(body["created_at"])[0],
        properties=properties,
        reader_features=readers,
        writer_features=frozenset(map(str, body.get("required_writer_features", ()))),
    )


def _with_keys(schema: pa.Schema, index: IndexSpec) -> pa.Schema:
    """Give back a schema that has the index and entity columns, of types that they can have; raises KeyError or ValueError."""
    kind = schema.field(index.column).type
    if not (pa.types.is_timestamp(kind) if index.type == "timestamp" else kind == pa.type_for_alias(index.type)):
        raise ValueError(f"the index {index.column!r} is a column of {kind} in a table whose index is {index.type}")
    entity_types(schema, index)
    return schema


def _check_protocol(body: Mapping[str, Any]) -> None:
    old = body.get("format_version")
    version = body.get("protocol_version")
    if version == PROTOCOL_VERSION and old is None:
        return
    why = f"This release of gapless reads protocol version {PROTOCOL_VERSION}, which timeseries-table-format 0.5 to 0.9 write"
    if old is None:
        raise UnsupportedTable(
            f"the table has protocol version {version}",
            why=why,
            fix="Open it with the release that wrote it, or a newer gapless",
            needs=f"protocol_version {version}",
        )
    release = _OLD_RELEASES.get(old, "before 0.5")
    raise UnsupportedTable(
        f"the table was written by timeseries-table-format {release} (format_version {old})",
        why=why,
        fix="Read its data/ with any Parquet reader and append that to a new table: gl.create(…), table.append_file(…)",
        needs=f"format_version {old}",
    )


def _encode_index(index: IndexSpec) -> dict[str, object]:
    kind: dict[str, object] = {"type": index.type, "index_granularity": _encode_granularity(index.bucket)}
    if index.timezone is not None:
        kind["timezone"] = index.timezone
    return {"column": index.column, "entity_columns": list(index.entity), "kind": kind}


def _encode_granularity(bucket: Bucket) -> object:
    # What is not exact, nobody believes: the reader feature keeps protocol 7's readers out.
    return bucket.width if isinstance(bucket, IntWidth) else _granularity(bucket) or {"Days": 1}


def _granularity(bucket: Bucket) -> dict[str, int] | None:
    """A bucket of time as protocol 7 counts it; None where it can't. Local days pass for its days, which it never looks into."""
    match bucket:
        case FixedWidth(ns):
            counts = ((unit, ns // scale) for unit, scale in _GRANULARITY_NS.items() if ns % scale == 0)
            return next(({unit: count} for unit, count in counts if count < _MAX_COUNT), None)
        case LocalDays(days) if days < _MAX_COUNT:
            return {"Days": days}
    return None


def _decode_index(body: Mapping[str, Any], ours: Mapping[str, Any] | None) -> IndexSpec:
    kind = body["kind"]
    index_type, timezone = kind["type"], kind.get("timezone")
    if index_type not in ("timestamp", "int64", "uint64"):
        raise UnsupportedTable(
            f"the table's index is of type {index_type!r}",
            why="This release knows timestamp, int64 and uint64",
            needs=index_type,
        )
    if ours is not None:
        bucket = parse_bucket(ours["width"], index_type, timezone if ours["local"] else None)
    elif index_type == "timestamp":
        ((unit, count),) = kind["index_granularity"].items()
        bucket = FixedWidth(_GRANULARITY_NS[unit] * int(count))
    else:
        bucket = IntWidth(int(kind["index_granularity"]))
    return IndexSpec(
        column=body["column"], type=index_type, bucket=bucket, entity=tuple(body.get("entity_columns") or ()), timezone=timezone
    )


def with_features(meta: TableMeta) -> TableMeta:
    """Metadata with the features that its content and a gapless writer need; features are never taken away."""
    readers = meta.reader_features | bucket_features(meta.index.bucket)
    readers |= {INLINE_FEATURE} if meta.properties.inline_bytes else set()
    if meta.schema is not None:
        meta = _told(meta, meta.schema)
        readers |= meta.reader_features | schema_features(meta.schema, meta.logical)
        # Protocol 7 has no identities of booleans (of dates neither, as it has none).
        readers |= {TYPES_FEATURE} if "bool" in entity_types(meta.schema, meta.index) else set()
        meta = replace(meta, logical=None if COLUMNS_FEATURE in readers else encode_schema(meta.schema, meta.logical))
    return replace(meta, reader_features=readers, writer_features=meta.writer_features | {WRITER_FEATURE})


def _told(meta: TableMeta, schema: pa.Schema) -> TableMeta:
    """The metadata with "gapless_columns", and free of what was written, where the columns did more than grow as protocol 7 lets them."""
    plain = not meta.ids and COLUMNS_FEATURE not in meta.reader_features
    if plain and (meta.logical is None or _grew(meta, schema)):
        return meta
    return replace(meta, logical=None, reader_features=meta.reader_features | {COLUMNS_FEATURE})


def _grew(meta: TableMeta, schema: pa.Schema) -> bool:
    assert meta.logical is not None
    if grown_schema(schema, meta.logical) is None:
        return False
    if METADATA_FEATURE not in meta.reader_features:
        return True
    # Every file repeats the metadata there, and protocol 7's readers hold it against what the log says under their own key.
    before = decode_schema(meta.logical)
    known = {field.name: field for field in before if not pa.types.is_null(field.type)}
    return before.metadata == schema.metadata and all(
        field.equals(known[field.name], check_metadata=True) if field.name in known else not has_metadata(field)
        for field in schema
    )


MAX_INLINED_BYTES = 8 << 20
"""Bytes of Parquet of the live segments that lie in commits, about: log checkpoints hold them all, and so does whoever opens the table."""


def inline_limit(state: TableState) -> int:
    """Bytes up to which the next append may lie in its commit: what the table's properties say, or 0 where enough lies there already."""
    limit = state.meta.properties.inline_bytes
    return limit if state.inlined_bytes + limit <= MAX_INLINED_BYTES else 0
