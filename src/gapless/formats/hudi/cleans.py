"""Cleans of a Hudi timeline: Avro files that say as of which instants files are missing, so that Hudi refuses to read as of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator

_TEXT = {"type": "string", "avro.java.string": "String"}
_TEXTS = {"type": "array", "items": _TEXT}


def _map(values: object) -> dict[str, object]:
    return {"type": "map", "values": values, "avro.java.string": "String"}


_OF_PARTITION = {
    "type": "record",
    "name": "HoodieCleanPartitionMetadata",
    "fields": [
        {"name": "partitionPath", "type": _TEXT},
        {"name": "policy", "type": _TEXT},
        {"name": "deletePathPatterns", "type": _TEXTS},
        {"name": "successDeleteFiles", "type": _TEXTS},
        {"name": "failedDeleteFiles", "type": _TEXTS},
        {"name": "isPartitionDeleted", "type": ["null", "boolean"], "default": None},
    ],
}
_SCHEMA = {
    "type": "record",
    "name": "HoodieCleanMetadata",
    "namespace": "org.apache.hudi.avro.model",
    "fields": [
        {"name": "startCleanTime", "type": _TEXT},
        {"name": "timeTakenInMillis", "type": "long"},
        {"name": "totalFilesDeleted", "type": "int"},
        {"name": "earliestCommitToRetain", "type": _TEXT},
        {"name": "lastCompletedCommitTimestamp", "type": _TEXT, "default": ""},
        {"name": "partitionMetadata", "type": _map(_OF_PARTITION)},
        {"name": "version", "type": ["int", "null"], "default": 1},
        {"name": "bootstrapPartitionMetadata", "type": ["null", _map("HoodieCleanPartitionMetadata")], "default": None},
        {"name": "extraMetadata", "type": ["null", _map(_TEXT)], "default": None},
    ],
}
_VERSION = 2
"""Of the record: what Hudi 1.2 writes into tables of version 6."""


def clean_name(instant: str) -> str:
    """The file of a clean in the timeline."""
    return f"{instant}.clean"


def is_clean(name: str) -> bool:
    """Whether a file of the timeline is a clean."""
    digits, _, rest = name.partition(".")
    return rest == "clean" and len(digits) == 17 and digits.isdigit()


def encode_clean(instant: str, earliest: str) -> bytes:
    """The file of a clean at an instant: as of instants before `earliest` files may be missing."""
    record = b"".join(
        (
            _text(instant),
            _long(0),  # no time
            _long(0),  # nor files: who deletes them does it elsewhere
            _text(earliest),
            _text(earliest),
            _long(0),  # no partition
            _long(0) + _long(_VERSION),
            _long(0),  # null
            _long(0),
        )
    )
    header = {"avro.schema": json.dumps(_SCHEMA, separators=(",", ":")), "avro.codec": "null"}
    told = _long(len(header)) + b"".join(_text(key) + _text(value) for key, value in header.items()) + _long(0)
    sync = hashlib.md5(record, usedforsecurity=False).digest()
    return b"Obj\x01" + told + sync + _long(1) + _long(len(record)) + record + sync


def _text(value: str) -> bytes:
    data = value.encode()
    return _long(len(data)) + data


def _long(value: int) -> bytes:
    """Zigzag, seven bits a byte, the lowest first."""
    return bytes(_sevens((value << 1) ^ (value >> 63)))


def _sevens(rest: int) -> Iterator[int]:
    while rest > 0x7F:
        yield rest & 0x7F | 0x80
        rest >>= 7
    yield rest
