"""Coverage as compressed bitmaps, one an identity: union, difference, and the overlap of new data with what is covered.

A *stored id* is a bucket id in the order-preserving form of the log, an unsigned 64-bit number: signed ids with the top bit
flipped, ids of a uint64 index as they are. Bitmaps hold stored ids; half-open stored ranges may end at 2**64.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, Sequence, ValuesView
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

from gapless.model.index import Identity, IdentityValue
from gapless.model.stats import distinct

StoredIds = npt.NDArray[np.uint64]

SIGN = 1 << 63
STORED_END = 1 << 64
_TOP = STORED_END - 1


def stored_ids(ids: npt.NDArray[Any]) -> StoredIds:
    """Stored form of bucket ids: int64 gets its top bit flipped, uint64 stays."""
    return ids if ids.dtype == np.uint64 else ids.astype(np.int64, copy=False).view(np.uint64) ^ np.uint64(SIGN)


def bias(*, signed: bool) -> int:
    """What is added to a bucket id to make its stored form."""
    return SIGN if signed else 0


def range_bitmap(start: int, end: int) -> BitMap64:
    """All stored ids of `[start, end)`; takes memory with the length of the range."""
    bitmap = BitMap64()
    add_range(bitmap, start, end)
    return bitmap


def add_range(bitmap: BitMap64, start: int, end: int) -> None:
    """Add all stored ids of `[start, end)`, as `range_bitmap` has them."""
    if start < end:
        bitmap.add_range(start, min(end, _TOP))
        if end == STORED_END:  # the library's own ranges cannot reach the last id
            bitmap.add(_TOP)


def clip(bitmap: BitMap64, start: int, end: int) -> BitMap64:
    """The part of a bitmap in the stored range `[start, end)`; may be the bitmap itself."""
    if not bitmap or (bitmap.min() >= start and bitmap.max() < end):
        return bitmap
    if start >= end:
        return BitMap64()
    clipped = bitmap.copy()
    clipped.remove_range(0, start)
    if end < STORED_END:
        clipped.remove_range(end, _TOP)
        clipped.discard(_TOP)
    return clipped


def count_in(bitmap: BitMap64, start: int, end: int) -> int:
    """How many members lie in the stored range `[start, end)`."""
    if start >= end:
        return 0
    return bitmap.range_cardinality(start, min(end, _TOP)) + (end == STORED_END and _TOP in bitmap)


def array_of(bitmap: BitMap64) -> StoredIds:
    """The members, ascending."""
    return np.frombuffer(bitmap.to_array(), dtype=np.uint64)


def bitmap_of(ids: StoredIds) -> BitMap64:
    """The set of these stored ids, in any order, with or without repeats."""
    return _grouped([()], np.zeros(len(ids), dtype=np.uint8), ids)[()] if len(ids) else BitMap64()


def canonical_key(identity: Identity) -> tuple[tuple[int, IdentityValue], ...]:
    """Sort key of the canonical order: component by component, strings by code point (which is bytewise in UTF-8)."""
    return tuple((_rank(value), value) for value in identity)


def _rank(value: IdentityValue) -> int:
    return 0 if isinstance(value, str) else 2 if isinstance(value, date) else 1


class CoverageMap(Mapping[Identity, BitMap64]):
    """Which buckets hold rows, by identity: a value. Its bitmaps of stored ids are never empty and must not be changed.

    Iterates in canonical order of identities. A table without entity columns has the one identity `()`.
    """

    __slots__ = ("_bitmaps",)

    def __init__(self, bitmaps: Mapping[Identity, BitMap64] | None = None) -> None:
        """Take bitmaps over; the caller must not change them afterwards. Empty ones are left out."""
        found = {identity: bitmap for identity, bitmap in (bitmaps or {}).items() if bitmap}
        self._bitmaps = {identity: found[identity] for identity in _in_order(found)} if len(found) > 1 else found

    @classmethod
    def from_runs(cls, identities: Sequence[Identity], codes: npt.NDArray[Any], ids: StoredIds) -> CoverageMap:
        """Build from rows: `codes[i]` is the place in `identities` of row i, `ids[i]` its stored id (uint64).

        The arrays have one length, any order, and may repeat. Identities may repeat, or occur in no row.
        """
        if codes.shape != ids.shape or codes.ndim != 1:
            raise ValueError(f"codes {codes.shape} and ids {ids.shape} must be of one length")
        if len(ids) == 0:
            return cls()
        if codes.min() < 0 or codes.max() >= len(identities):
            raise ValueError(f"codes from {codes.min()} to {codes.max()} do not all name one of {len(identities)} identities")
        return cls(_grouped(identities, codes, ids))

    @classmethod
    def from_stretches(
        cls, identities: Sequence[Identity], codes: npt.NDArray[Any], firsts: StoredIds, lasts: StoredIds
    ) -> CoverageMap:
        """Build from stretches of buckets, in any order: stretch i holds all stored ids from `firsts[i]` to `lasts[i]`, and is of the identity at
        the place `codes[i]`. Faster than `from_runs` where stretches are long, slower where they are short.
        """
        found: defaultdict[Identity, BitMap64] = defaultdict(BitMap64)
        for code, first, last in zip(codes.tolist(), firsts.tolist(), lasts.tolist(), strict=True):
            add_range(found[identities[code]], first, last + 1)
        return cls(found)

    @classmethod
    def union_of(cls, maps: Iterable[CoverageMap]) -> CoverageMap:
        """All that any of the maps covers."""
        given = [one for one in maps if one]
        if len(given) == 1:
            return given[0]
        found: dict[Identity, list[BitMap64]] = {}
        for one in given:
            for identity, bitmap in one.items():
                found.setdefault(identity, []).append(bitmap)
        return cls({i: many[0] if len(many) == 1 else BitMap64.union(*many) for i, many in found.items()})

    def __getitem__(self, identity: Identity) -> BitMap64:
        """The stored ids that this identity covers; KeyError where it covers none."""
        return self._bitmaps[identity]

    def __iter__(self) -> Iterator[Identity]:
        """Identities in canonical order."""
        return iter(self._bitmaps)

    def items(self) -> ItemsView[Identity, BitMap64]:
        """Identities with what they cover, in canonical order."""
        return self._bitmaps.items()

    def values(self) -> ValuesView[BitMap64]:
        """What they cover, in canonical order of identities."""
        return self._bitmaps.values()

    def __len__(self) -> int:
        """How many identities cover anything."""
        return len(self._bitmaps)

    def __eq__(self, other: object) -> bool:
        """Whether both cover the same."""
        return self._bitmaps == other._bitmaps if isinstance(other, CoverageMap) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # a bitmap has no hash

    def __repr__(self) -> str:
        """How much it holds."""
        return f"CoverageMap(identities={len(self)}, buckets={self.cardinality()})"

    def identities(self) -> tuple[Identity, ...]:
        """Those that cover anything, in canonical order."""
        return tuple(self._bitmaps)

    def cardinality(self) -> int:
        """Covered buckets, summed over the identities."""
        return sum(len(bitmap) for bitmap in self._bitmaps.values())

    def union(self, *others: CoverageMap) -> CoverageMap:
        """All that this map or any other covers."""
        return CoverageMap.union_of((self, *others))

    def intersection(self, other: CoverageMap) -> CoverageMap:
        """What both cover."""
        small, large = sorted((self, other), key=len)
        return CoverageMap({i: bitmap & large[i] for i, bitmap in small.items() if i in large})

    def difference(self, other: CoverageMap) -> CoverageMap:
        """What this map covers and the other does not."""
        return CoverageMap({i: bitmap - other[i] if i in other else bitmap for i, bitmap in self._bitmaps.items()})

    def is_disjoint(self, other: CoverageMap) -> bool:
        """Whether no bucket of one identity is in both."""
        small, large = sorted((self, other), key=len)
        return all(i not in large or bitmap.isdisjoint(large[i]) for i, bitmap in small.items())

    def holds_any(self, identities: AbstractSet[Identity]) -> bool:
        """Whether any of the identities covers anything."""
        return not self._bitmaps.keys().isdisjoint(identities)

    def restrict(self, wanted: Iterable[Identity] | Callable[[Identity], bool]) -> CoverageMap:
        """Only these identities, or those that a predicate accepts."""
        if callable(wanted):
            return CoverageMap({i: bitmap for i, bitmap in self._bitmaps.items() if wanted(i)})
        small, large = sorted((frozenset(wanted), self._bitmaps.keys()), key=len)
        return CoverageMap({i: self._bitmaps[i] for i in small if i in large})


def _in_order(identities: Iterable[Identity]) -> list[Identity]:
    """Identities in canonical order."""
    try:
        # Where all values of a component are of one kind, as in a column, their own order is the canonical one.
        return sorted(identities)
    except TypeError:
        return sorted(identities, key=canonical_key)


def _grouped(identities: Sequence[Identity], codes: npt.NDArray[Any], ids: StoredIds) -> dict[Identity, BitMap64]:
    """The bitmap of each identity."""
    same = codes[1:] == codes[:-1]
    if ((codes[1:] < codes[:-1]) | (same & (ids[1:] <= ids[:-1]))).any():
        codes, ids = _distinct(codes, ids)
        same = codes[1:] == codes[:-1]
    edges = [0, *((~same).nonzero()[0] + 1).tolist(), len(ids)]
    firsts, lasts = ids[edges[:-1]].tolist(), ids[[end - 1 for end in edges[1:]]].tolist()
    members = array("Q")
    found: dict[Identity, BitMap64] = {}
    for code, (start, end), first, last in zip(codes[edges[:-1]].tolist(), pairwise(edges), firsts, lasts, strict=True):
        if last - first == end - start - 1:
            bitmap = range_bitmap(first, last + 1)  # a hundred times as fast, and most series have no holes
        else:
            members = members or array("Q", ids.tobytes())
            bitmap = BitMap64(members[start:end])
        identity = identities[code]
        found[identity] = found[identity] | bitmap if identity in found else bitmap
    return found


def _distinct(codes: npt.NDArray[Any], ids: StoredIds) -> tuple[npt.NDArray[Any], StoredIds]:
    """The distinct pairs, ascending."""
    low = ids.min()
    bits = int(ids.max() - low).bit_length()
    if bits < 64 and bits + int(codes.max()).bit_length() <= 64:
        # One number a pair is sorted many times as fast as pairs are.
        pairs = distinct(codes.astype(np.uint64) << np.uint64(bits) | (ids - low))
        return (pairs >> np.uint64(bits)).astype(codes.dtype), (pairs & np.uint64((1 << bits) - 1)) + low
    order = np.lexsort((ids, codes))
    codes, ids = codes[order], ids[order]
    fresh = np.ones(len(ids), dtype=bool)
    fresh[1:] = (codes[1:] != codes[:-1]) | (ids[1:] != ids[:-1])
    return codes[fresh], ids[fresh]


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """Buckets that both new and present data cover."""

    identity: Identity
    """The first identity, in canonical order, that overlaps."""
    first: int
    """Its first overlapping bucket id."""
    last: int
    """Its last overlapping bucket id (inclusive)."""
    buckets: int
    """Overlapping buckets, summed over all identities."""
    identities: int
    """How many identities overlap."""


def overlap(new: CoverageMap, present: CoverageMap, *, signed: bool = True) -> Overlap | None:
    """What of `new` is already in `present`, in bucket ids (`signed=False` for a uint64 index); None where they are disjoint."""
    common = new.intersection(present)
    for identity, bitmap in common.items():
        shift = bias(signed=signed)
        return Overlap(
            identity=identity,
            first=bitmap.min() - shift,
            last=bitmap.max() - shift,
            buckets=common.cardinality(),
            identities=len(common),
        )
    return None
