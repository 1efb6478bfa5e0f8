"""Which features a table's content asks of those who read and write it."""

from __future__ import annotations

from dataclasses import replace

from gapless.dialects.timeseries.actions import WRITER_FEATURE, TableMeta
from gapless.dialects.timeseries.meta_codec import bucket_features
from gapless.dialects.timeseries.schema_codec import schema_features


def claim(meta: TableMeta) -> TableMeta:
    """Metadata with the features that its content and a gapless writer need; features are never taken away."""
    features = frozenset() if meta.schema is None else schema_features(meta.schema)
    both = features & {"schema_metadata"}
    readers = meta.reader_features | features | bucket_features(meta.index.bucket)
    return replace(meta, reader_features=readers, writer_features=meta.writer_features | both | {WRITER_FEATURE})
