"""The columns of checkpoints of ours (PROTOCOL.md, "Checkpoint Schema")."""

from __future__ import annotations

import pyarrow as pa

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
