"""Coverage sidecars as bytes, exactly as protocol 7 of the time-series log writes them.

Without entity columns: one 64-bit Roaring "treemap". With: `TSTECOV2`, identities in canonical order, a treemap each.
Equal coverage has equal bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import date
from struct import Struct
from typing import Any, Final

from gapless.coverage.bitmap import CoverageMap
from gapless.coverage.treemap import Damage, decode_treemap, encode_treemap
from gapless.errors import CorruptTable
from gapless.model.index import EntityType, Identity, IdentityValue

MAGIC: Final = b"TSTECOV2"
U64: Final = Struct(">Q")
_TEXT = Struct(">BQ")
_U32, _I32, _I64 = Struct(">I"), Struct(">i"), Struct(">q")
_EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()

_UTF8_TAG: Final = 1
_TAGS: Final[dict[EntityType, tuple[int, Struct]]] = {
    "int8": (2, _I32), "int16": (2, _I32), "int32": (2, _I32), "uint8": (2, _I32), "uint16": (2, _I32),
    "date": (2, _I32), "bool": (2, _I32), "int64": (3, _I64), "uint32": (3, _I64), "uint64": (4, U64),
}  # fmt: skip
_BOUNDS: Final[dict[EntityType, tuple[int, int]]] = {
    "int8": (-(2**7), 2**7), "int16": (-(2**15), 2**15), "uint8": (0, 2**8), "uint16": (0, 2**16), "uint32": (0, 2**32),
    "bool": (0, 2), "date": (date.min.toordinal() - _EPOCH_ORDINAL, date.max.toordinal() - _EPOCH_ORDINAL + 1),
}  # fmt: skip
_FROM_NUMBER: Final[dict[EntityType, Callable[[int], IdentityValue]]] = {
    "bool": bool,
    "date": lambda days: date.fromordinal(days + _EPOCH_ORDINAL),
}


def encode(coverage: CoverageMap, entity_types: Sequence[EntityType]) -> bytes:
    """A sidecar's bytes; `entity_types` are those of the entity columns, in order. Equal coverage has equal bytes."""
    if not entity_types:
        return encode_treemap(coverage[()]) if coverage else bytes(8)
    parts = [MAGIC, _U32.pack(len(coverage))]
    count, writers = _U32.pack(len(entity_types)), [_writer(entity_type) for entity_type in entity_types]
    for identity, bitmap in coverage.items():
        nested = encode_treemap(bitmap)
        parts += [count, *[write(value) for write, value in zip(writers, identity, strict=True)], U64.pack(len(nested)), nested]
    return b"".join(parts)


def _writer(entity_type: EntityType) -> Callable[[Any], bytes]:
    """What makes bytes of a value of such a column."""
    if entity_type == "utf8":
        return _text_bytes
    tag, packing = _TAGS[entity_type]
    head = bytes([tag])
    if entity_type == "date":
        return lambda value: head + packing.pack(value.toordinal() - _EPOCH_ORDINAL)
    return lambda value: head + packing.pack(value)


def _text_bytes(text: str) -> bytes:
    data = text.encode()
    return _TEXT.pack(_UTF8_TAG, len(data)) + data


def identity_bytes(entity_types: Sequence[EntityType]) -> int:
    """The fewest bytes that an identity takes."""
    return _U32.size + sum(_TEXT.size if one == "utf8" else 1 + _TAGS[one][1].size for one in entity_types)


def decode(data: bytes | memoryview, entity_types: Sequence[EntityType], *, path: str = "") -> CoverageMap:
    """Read a sidecar back, with identities in Python values of their types.

    Damage that shows raises CorruptTable with `path`; a flipped bit may also decode to another set, so keep a checksum.
    """
    try:
        if not entity_types:
            return CoverageMap({(): decode_treemap(bytes(data))})
        cursor = Cursor(bytes(data))
        return CoverageMap({i: decode_treemap(cursor.take(length)) for i, length in cursor.entries(MAGIC, entity_types)})
    except (Damage, UnicodeDecodeError) as error:
        raise unreadable(path, len(data), error) from error


def unreadable(path: str, size: int, error: Exception) -> CorruptTable:
    """The error for coverage whose `size` bytes are damaged, as `error` says."""
    return CorruptTable(
        f"coverage {path!r} cannot be read",
        why=f"Its {size} bytes are damaged or of another table: {error}",
        fix="Restore the object from a copy",
        path=path,
    )


class Cursor:
    """A place in the bytes; every read checks what remains, and raises Damage (or UnicodeDecodeError) where they are wrong."""

    def __init__(self, data: bytes) -> None:
        """Stand at their start."""
        self.data, self.at = data, 0

    def entries(self, magic: bytes, entity_types: Sequence[EntityType]) -> Iterator[tuple[Identity, int]]:
        """Each identity and the length of its bitmap; whoever iterates takes what stands for the bitmap before going on."""
        if self.take(len(magic)) != magic:
            raise Damage(f"it does not start with {magic!r}")
        found: set[Identity] = set()
        for _ in range(self.number(_U32)):  # a wrong count ends at the first read past the end
            identity = self._identity(entity_types)
            if identity in found:
                raise Damage(f"identity {identity!r} occurs twice")
            found.add(identity)
            yield identity, self.number(U64)
        if self.at != len(self.data):
            raise Damage(f"{len(self.data) - self.at} bytes follow its end")

    def number(self, packing: Struct) -> int:
        """The next number."""
        value: Any = packing.unpack(self.take(packing.size))[0]
        return int(value)

    def take(self, length: int) -> bytes:
        """The next bytes."""
        if length > len(self.data) - self.at:
            raise Damage(f"it ends {length - (len(self.data) - self.at)} bytes too early")
        self.at += length
        return self.data[self.at - length : self.at]

    def _identity(self, entity_types: Sequence[EntityType]) -> Identity:
        count = self.number(_U32)
        if count != len(entity_types):
            raise Damage(f"an identity has {count} values for {len(entity_types)} entity columns")
        return tuple([self._value(entity_type) for entity_type in entity_types])

    def _value(self, entity_type: EntityType) -> IdentityValue:
        tag = self.take(1)[0]
        wanted, packing = (_UTF8_TAG, U64) if entity_type == "utf8" else _TAGS[entity_type]
        if tag != wanted:
            raise Damage(f"a value of tag {tag} stands where {entity_type} has tag {wanted}")
        number = self.number(packing)
        if entity_type == "utf8":
            return self.take(number).decode()
        low, high = _BOUNDS.get(entity_type, (number, number + 1))
        if not low <= number < high:
            raise Damage(f"{number} is no {entity_type}")
        return _FROM_NUMBER.get(entity_type, int)(number)
