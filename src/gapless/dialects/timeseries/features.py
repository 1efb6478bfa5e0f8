"""Which features a table's content asks of those who read and write it."""

from __future__ import annotations

from dataclasses import replace

from gapless.dialects.timeseries.actions import WRITER_FEATURE, TableMeta
from gapless.dialects.timeseries.meta_codec import bucket_features
from gapless.dialects.timeseries.schema_codec import TYPES_FEATURE, encode_schema, schema_features
from gapless.model.schema import entity_types


def claim(meta: TableMeta) -> TableMeta:
    """Metadata with the features that its content and a gapless writer need; features are never taken away."""
    readers = meta.reader_features | bucket_features(meta.index.bucket)
    if meta.schema is not None:
        readers |= schema_features(meta.schema, meta.logical)
        # Protocol 7 has no identities of booleans (of dates neither, as it has none).
        readers |= {TYPES_FEATURE} if "bool" in entity_types(meta.schema, meta.index) else set()
        meta = replace(meta, logical=encode_schema(meta.schema, meta.logical))
    return replace(meta, reader_features=readers, writer_features=meta.writer_features | {WRITER_FEATURE})
