"""Encode and decode coverage sidecars, byte for byte as protocol 7 of the time-series log writes them, and the index of a large one.

Little-endian: `u64 n`, then n times a `u32` of high bits and a 32-bit Roaring bitmap in the portable format. Canonical: no
empty part, every container in its smallest form. Without entity columns: one 64-bit Roaring "treemap". With: `TSTECOV2`,
identities in canonical order, a treemap each. Equal coverage has equal bytes. The index of a sidecar has the same layout with
another start, and with the XXH3-64 of each bitmap in the bitmap's place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from struct import Struct
from typing import Any, Final

import xxhash
from pyroaring import BitMap64

from gapless.coverage.bitmap import CoverageMap, array_of, range_bitmap
from gapless.errors import CorruptTable
from gapless.model.index import EntityType, Identity, IdentityValue

_U16, _2U16, _3U32, _U64 = Struct("<H"), Struct("<HH"), Struct("<III"), Struct("<Q")
_CONTAINER: Final = 2**16
_ARRAY_MAX: Final = 4096
_BITSET_BYTES: Final = 8192
_RUN_COOKIE: Final = 12_347
_OFFSETS_FROM: Final = 4


class Damage(Exception):
    """Bytes that are no coverage; the text says what is wrong."""


def encode_treemap(bitmap: BitMap64) -> bytes:
    """The canonical bytes of a bitmap: equal sets have equal bytes, whatever was done to make them."""
    bitmap.run_optimize()  # changes how it is held, not what it holds
    data = bitmap.serialize()
    if not bitmap.get_statistics()["n_run_containers"]:
        return data
    # Where runs take as many bytes as an array, the library keeps a container as it was, so that its history would show.
    # Built anew from its members (and not by `bitmap_of`, which makes runs), it is an array, as 0.9.0 has it.
    tied = [range_bitmap(at, at + _CONTAINER) for at, last, runs in _run_containers(data) if last == 2 * runs]
    if not tied:
        return data
    mask = BitMap64.union(*tied)
    return ((bitmap - mask) | BitMap64(array_of(bitmap & mask).tolist())).serialize()


def decode_treemap(data: bytes) -> BitMap64:
    """Read a bitmap, canonical or not run-optimised; raises Damage unless the bytes are one and nothing else."""
    if len(data) < _U64.size:
        raise Damage(f"a bitmap of {len(data)} bytes is cut off")
    try:
        bitmap = BitMap64.deserialize(data)
    except ValueError as error:
        raise Damage(str(error)) from error
    # The decoder ignores trailing bytes and container offsets; what it took must be all there is.
    if bitmap.serialize() != data:
        raise Damage("a bitmap holds bytes that mean nothing")
    return bitmap


def _run_containers(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Of each container that is held as runs: its first possible id, its members less one, its runs."""
    at = _U64.size
    for _ in range(_U64.unpack_from(data)[0]):
        high, cookie, count = _3U32.unpack_from(data, at)
        heads, flags = at + 12, b""
        if cookie & 0xFFFF == _RUN_COOKIE:
            count = (cookie >> 16) + 1
            heads = at + 8 + (count + 7) // 8
            flags = data[at + 8 : heads]
        at = heads + (4 if flags and count < _OFFSETS_FROM else 8) * count
        for place in range(count):
            key, last = _2U16.unpack_from(data, heads + 4 * place)
            if flags and flags[place // 8] >> place % 8 & 1:
                (runs,) = _U16.unpack_from(data, at)
                at += 2 + 4 * runs
                yield high << 32 | key << 16, last, runs
            else:
                at += 2 * (last + 1) if last < _ARRAY_MAX else _BITSET_BYTES


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
        fix="Run `gapless repair`, which makes it again from the rows",
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


INDEXED_BYTES: Final = 256 << 10
"""Sidecars below this size have no index: one read of all is as fast as two reads of a part."""
_INDEX_SHARE: Final = 4
"""Nor has one whose index would be more than a quarter of it."""
_MAGIC: Final = b"GLCOVIX1"
_BRIDGED_BYTES: Final = 64 << 10
"""Parts closer than this are read together: those bytes cost less than one more request."""
_READ_BYTES: Final = 8 << 20
"""The most that one read brings, unless a single part is larger."""


@dataclass(frozen=True, slots=True)
class Part:
    """Where one identity's bitmap lies in a sidecar: bytes `[start, end)`."""

    start: int
    end: int
    digest: int
    """XXH3-64 of these bytes."""


@dataclass(frozen=True, slots=True)
class Read:
    """One ranged read of bytes `[start, end)`, and the parts that lie there."""

    start: int
    end: int
    parts: tuple[tuple[Identity, Part], ...]


def index_sidecar(sidecar: bytes, entity_types: Sequence[EntityType]) -> bytes | None:
    """The index of an encoded sidecar; None where reading all of it is as good. Raises CorruptTable where what it reads is no sidecar."""
    if not entity_types or len(sidecar) < INDEXED_BYTES or _is_surely_large(sidecar, entity_types):
        return None
    cursor = Cursor(sidecar)
    pieces, kept = [_MAGIC], len(MAGIC)
    try:
        for _, length in cursor.entries(MAGIC, entity_types):
            pieces += [sidecar[kept : cursor.at], U64.pack(xxhash.xxh3_64_intdigest(cursor.take(length)))]
            kept = cursor.at
    except (Damage, UnicodeDecodeError) as error:
        raise unreadable("", len(sidecar), error) from error
    index = b"".join(pieces)
    return index if len(index) * _INDEX_SHARE <= len(sidecar) else None


def _is_surely_large(sidecar: bytes, entity_types: Sequence[EntityType]) -> bool:
    """Whether the index would be too large by the number of identities alone, as it is where each has few buckets."""
    count = int.from_bytes(sidecar[len(MAGIC) : len(MAGIC) + 4], "big")
    # After each identity there are the length of its bitmap and a digest.
    least = count * (identity_bytes(entity_types) + 2 * U64.size)
    return sidecar.startswith(MAGIC) and least <= len(sidecar) < least * _INDEX_SHARE


def decode_index(data: bytes, entity_types: Sequence[EntityType], *, path: str = "") -> dict[Identity, Part]:
    """The parts of a sidecar, in its order; raises CorruptTable with `path` where the bytes are no index."""
    cursor, parts, passed = Cursor(data), dict[Identity, Part](), 0
    try:
        for identity, length in cursor.entries(_MAGIC, entity_types):
            # Up to here both have the same bytes, but for the bitmaps.
            start = cursor.at + passed
            parts[identity] = Part(start, start + length, cursor.number(U64))
            passed += length - U64.size
    except (Damage, UnicodeDecodeError) as error:
        raise unreadable(path, len(data), error) from error
    return parts


def plan_reads(parts: Mapping[Identity, Part], wanted: Iterable[Identity]) -> list[Read]:
    """The reads that bring the parts of these identities, which must all be there: ascending, of a few MiB where parts allow it."""
    reads: list[Read] = []
    held: list[tuple[Identity, Part]] = []
    for identity, part in sorted(((i, parts[i]) for i in wanted), key=lambda pair: pair[1].start):
        if held and (part.start > held[-1][1].end + _BRIDGED_BYTES or part.end - held[0][1].start > _READ_BYTES):
            reads.append(_read(held))
            held = []
        held.append((identity, part))
    return [*reads, _read(held)] if held else reads


def _read(parts: list[tuple[Identity, Part]]) -> Read:
    return Read(parts[0][1].start, parts[-1][1].end, tuple(parts))


def decode_read(data: bytes, read: Read, *, path: str = "") -> dict[Identity, BitMap64]:
    """The bitmaps in the bytes of a read; raises CorruptTable with `path` where they are not what was written."""
    found = {}
    for identity, part in read.parts:
        piece = data[part.start - read.start : part.end - read.start]
        try:
            found[identity] = _bitmap(piece, part)
        except Damage as error:
            raise unreadable(path, len(data), error) from error
    return found


def _bitmap(data: bytes, part: Part) -> BitMap64:
    if xxhash.xxh3_64_intdigest(data) != part.digest:
        raise Damage(f"bytes {part.start} to {part.end} do not have the checksum that its index names")
    return decode_treemap(data)
