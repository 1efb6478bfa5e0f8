"""Avro's binary encoding and its container files, in which timelines of table version 8 and later say what instants did. Pure."""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gapless.errors import CorruptTable

MAGIC = b"Obj\x01"
_SYNC = 16
Schema = Any
"""As JSON's values."""


class BadAvro(ValueError):
    """Bytes that do not read as the schema says."""


def encode_container(schema: Schema, record: object) -> bytes:
    """A container file, not compressed, that holds one record."""
    body = encode(schema, record)
    header = {"avro.schema": json.dumps(schema, separators=(",", ":")), "avro.codec": "null"}
    told = encode({"type": "map", "values": "bytes"}, {name: text.encode() for name, text in header.items()})
    sync = hashlib.md5(body, usedforsecurity=False).digest()
    return b"".join((MAGIC, told, sync, _long(1), _long(len(body)), body, sync))


def decode_container(data: bytes, path: str) -> list[Any]:
    """The records of a container file. Raises CorruptTable, naming `path`."""
    try:
        return list(_records(data))
    except (ValueError, KeyError, TypeError, IndexError, zlib.error) as error:
        raise CorruptTable(
            f"{path} is no Avro file that can be read",
            why=f"{type(error).__name__}: {error}",
            fix="It was torn or altered: bring it back from a copy of the table",
            path=path,
        ) from error


def _records(data: bytes) -> Iterator[Any]:
    if not data.startswith(MAGIC):
        raise BadAvro("it does not begin as one")
    reader = _Reader(data, len(MAGIC))
    header = reader.read({"type": "map", "values": "bytes"})
    reader.take(_SYNC)
    schema, codec = json.loads(header["avro.schema"]), header.get("avro.codec", b"null")
    if codec not in (b"null", b"deflate"):
        raise BadAvro(f"its codec is {codec.decode()}")
    while reader.at < len(data):
        count, size = reader.long(), reader.long()
        block = reader.take(size)
        reader.take(_SYNC)
        inner = _Reader(block if codec == b"null" else zlib.decompress(block, -15), 0)
        for _ in range(count):
            yield inner.read(schema)


@dataclass(slots=True)
class _Reader:
    data: bytes
    at: int
    named: dict[str, Schema] = field(default_factory=dict)

    def take(self, size: int) -> bytes:
        if size < 0 or self.at + size > len(self.data):
            raise BadAvro("it ends too early")
        found = self.data[self.at : self.at + size]
        self.at += size
        return found

    def long(self) -> int:
        shift = value = 0
        while True:
            (byte,) = self.take(1)
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)

    def read(self, schema: Schema) -> Any:
        if isinstance(schema, list):
            return self.read(schema[self.long()])
        kind = schema if isinstance(schema, str) else schema["type"]
        if isinstance(kind, dict | list):
            return self.read(kind)
        match kind:
            case "null":
                return None
            case "boolean":
                return self.take(1) == b"\x01"
            case "int" | "long":
                return self.long()
            case "float":
                return struct.unpack("<f", self.take(4))[0]
            case "double":
                return struct.unpack("<d", self.take(8))[0]
            case "bytes":
                return self.take(self.long())
            case "string":
                return self.take(self.long()).decode()
            case _:
                return self._read_complex(kind, schema)

    def _read_complex(self, kind: str, schema: Schema) -> Any:
        match kind:
            case "record":
                self._name(schema)
                return {one["name"]: self.read(one["type"]) for one in schema["fields"]}
            case "enum":
                self._name(schema)
                return schema["symbols"][self.long()]
            case "fixed":
                self._name(schema)
                return self.take(schema["size"])
            case "array":
                return [self.read(schema["items"]) for _ in self._items()]
            case "map":
                return {self.read("string"): self.read(schema["values"]) for _ in self._items()}
            case _:
                return self.read(self.named[kind.rpartition(".")[2]])

    def _name(self, schema: Schema) -> None:
        self.named.setdefault(schema["name"].rpartition(".")[2], schema)

    def _items(self) -> Iterator[int]:
        """One for each item of the blocks that follow."""
        while count := self.long():
            if count < 0:
                count = -count
                self.long()  # bytes of the block
            yield from range(count)


def encode(schema: Schema, value: Any, named: dict[str, Schema] | None = None) -> bytes:
    """A value as the schema says; a field that a record lacks has its default. Of a union it is the first branch that fits."""
    known = {} if named is None else named
    if isinstance(schema, list):
        branch = next(at for at, one in enumerate(schema) if (value is None) == (one == "null"))
        return _long(branch) + encode(schema[branch], value, known)
    kind = schema if isinstance(schema, str) else schema["type"]
    if isinstance(kind, dict | list):
        return encode(kind, value, known)
    match kind:
        case "null":
            return b""
        case "boolean":
            return b"\x01" if value else b"\x00"
        case "int" | "long":
            return _long(value)
        case "float":
            return struct.pack("<f", value)
        case "double":
            return struct.pack("<d", value)
        case "bytes":
            return _long(len(value)) + bytes(value)
        case "string":
            data: bytes = value.encode()
            return _long(len(data)) + data
        case _:
            return _encode_complex(kind, schema, value, known)


def _encode_complex(kind: str, schema: Schema, value: Any, known: dict[str, Schema]) -> bytes:
    match kind:
        case "record":
            known[schema["name"]] = schema
            return b"".join(encode(one["type"], value.get(one["name"], one.get("default")), known) for one in schema["fields"])
        case "enum":
            return _long(schema["symbols"].index(value))
        case "array":
            items: Sequence[Any] = value
            return _block(items, b"".join(encode(schema["items"], one, known) for one in items))
        case "map":
            pairs: Mapping[str, Any] = value
            told = (encode("string", name, known) + encode(schema["values"], one, known) for name, one in pairs.items())
            return _block(pairs, b"".join(told))
        case _:
            found: Schema = known[kind.rpartition(".")[2]]
            return encode(found, value, known)


def _block(items: Sequence[Any] | Mapping[str, Any], body: bytes) -> bytes:
    return _long(len(items)) + body + _long(0) if items else _long(0)


def _long(value: int) -> bytes:
    """Zigzag, seven bits a byte, the lowest first."""
    rest, found = (value << 1) ^ (value >> 63), bytearray()
    while rest > 0x7F:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    found.append(rest)
    return bytes(found)
