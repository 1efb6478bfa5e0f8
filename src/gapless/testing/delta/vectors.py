"""Deletion vectors, read from their bytes with none of the code under test."""

from __future__ import annotations

import base64
import struct
import uuid
import zlib
from typing import Any

import pyroaring

_MAGIC = 1681511377
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_TO_B85 = str.maketrans(_Z85, _B85)


def file_of(vector: dict[str, Any] | None) -> str | None:
    """The store path of the file that holds a vector; None for one that has none."""
    if vector is None or vector["storageType"] != "u":
        return None
    text = vector["pathOrInlineDv"]
    name = uuid.UUID(bytes=base64.b85decode(text[-20:].translate(_TO_B85)))
    folder = f"{text[:-20]}/" if text[:-20] else ""
    return f"{folder}deletion_vector_{name}.bin"


def positions(vector: dict[str, Any], data: bytes | None) -> frozenset[int]:
    """The positions of deleted rows; `data` is its file. Raises ValueError for damage."""
    if vector["storageType"] == "i":
        bitmap = base64.b85decode(vector["pathOrInlineDv"].translate(_TO_B85))[: vector["sizeInBytes"]]
    else:
        start = vector.get("offset", 1)
        assert data is not None
        (size,) = struct.unpack_from(">i", data, start)
        bitmap = data[start + 4 : start + 4 + size]
        (checksum,) = struct.unpack_from(">I", data, start + 4 + size)
        if size != vector["sizeInBytes"] or zlib.crc32(bitmap) != checksum:
            raise ValueError(f"the vector {vector} says another size or checksum than its file")
    if struct.unpack_from("<i", bitmap)[0] != _MAGIC:
        raise ValueError(f"the vector {vector} has another magic number")
    found = frozenset(pyroaring.BitMap64.deserialize(bitmap[4:]))
    if len(found) != vector["cardinality"]:
        raise ValueError(f"the vector {vector} holds {len(found)} positions")
    return found
