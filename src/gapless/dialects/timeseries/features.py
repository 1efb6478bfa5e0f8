"""Which features a table's content asks of those who read and write it."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from gapless.dialects.timeseries.actions import WRITER_FEATURE, TableMeta
from gapless.dialects.timeseries.identity_codec import COLUMNS_FEATURE
from gapless.dialects.timeseries.meta_codec import INLINE_FEATURE, bucket_features
from gapless.dialects.timeseries.schema_codec import (
    METADATA_FEATURE,
    TYPES_FEATURE,
    decode_schema,
    encode_schema,
    grown_schema,
    schema_features,
)
from gapless.model.schema import entity_types
from gapless.model.types import has_metadata


def claim(meta: TableMeta) -> TableMeta:
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
