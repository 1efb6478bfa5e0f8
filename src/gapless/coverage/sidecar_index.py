"""The index of a large sidecar: what it takes to read the coverage of one identity alone, and to know that it is whole.

It is the sidecar with another start, and with the XXH3-64 of each bitmap in the bitmap's place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import xxhash
from pyroaring import BitMap64

from gapless.coverage.codec import MAGIC, U64, Cursor, identity_bytes, unreadable
from gapless.coverage.treemap import Damage, decode_treemap
from gapless.model.index import EntityType, Identity

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
