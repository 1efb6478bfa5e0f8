"""A segment: one immutable Parquet data file, as the log describes it; an index of many by covered buckets; checksums of objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt
import xxhash

from gapless.errors import CorruptTable
from gapless.model.index import EntityType, Identity, IndexType
from gapless.model.stats import ColumnStats

_NO_PARTS = frozenset({"", ".", ".."})


def relative_path(path: str) -> str:
    """Give back a path that the log names; raises CorruptTable where it could lie outside the table root or be no object."""
    if not _NO_PARTS.isdisjoint(path.split("/")) or "\0" in path:
        raise CorruptTable(
            f"the log names a path {path!r}",
            why="What a table holds lies under its root, by a relative path without empty, '.' or '..' parts",
            fix="Do not read this table before you know who wrote that entry",
            path=path,
        )
    return path


@dataclass(frozen=True, slots=True)
class InlineCoverage:
    """Coverage small enough to lie in the commit itself: an encoded sidecar."""

    data: bytes


@dataclass(frozen=True, slots=True)
class SidecarCoverage:
    """Coverage in an object of its own."""

    path: str
    """Relative to the table root, `/`-separated."""
    checksum: str | None = None
    index_checksum: str | None = None
    """That of the index object, from which the coverage of one identity can be read alone; None where there is none."""

    def __post_init__(self) -> None:
        relative_path(self.path)

    @property
    def index_path(self) -> str:
        """Where its index lies, if it has one: beside it."""
        return f"{self.path.removesuffix('.roar')}.idx"

    @property
    def paths(self) -> tuple[str, ...]:
        """All its objects, relative to the table root."""
        return (self.path,) if self.index_checksum is None else (self.path, self.index_path)


CoverageRef = InlineCoverage | SidecarCoverage


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Smallest and largest index value, both inclusive: ns for a timestamp, else the integer."""

    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One immutable Parquet file of a table, or the bytes of one in a commit."""

    path: str
    """Relative to the table root, `/`-separated."""
    rows: int
    size: int | None
    """Bytes; None where another writer left it out."""
    bounds: Bounds
    index_type: IndexType = "timestamp"
    """What `bounds` count in."""
    identity: Identity | None = None
    """The one identity whose rows it holds, `()` where the table has no entity columns; None where it holds several."""
    identity_types: tuple[EntityType, ...] = ()
    """The types of `identity`'s values, in order; empty where that is None."""
    coverage: CoverageRef | None
    stats: Mapping[str, ColumnStats] = field(default_factory=dict)
    checksum: str | None = None
    """`algorithm:hex` over the whole file."""
    footer_checksum: str | None = None
    """`algorithm:length:hex` over the file's last `length` bytes, the Parquet footer."""
    sorted_by: tuple[str, ...] = ()
    clustered_by: tuple[str, ...] = ()
    """Stored names of the columns along whose z-order the rows lie instead."""
    data_change: bool = True
    """False where the rows were only laid out anew."""
    data: bytes | None = field(default=None, repr=False)
    """The bytes of the file, where they lie in the commit itself: nothing is stored under `path` then, which is only its name."""

    def __post_init__(self) -> None:
        relative_path(self.path)

    @property
    def files(self) -> tuple[str, ...]:
        """All objects that hold it and its coverage, relative to the table root; none where all of it lies in the log."""
        sidecars = self.coverage.paths if isinstance(self.coverage, SidecarCoverage) else ()
        return sidecars if self.data is not None else (self.path, *sidecars)

    @property
    def inlined_bytes(self) -> int:
        """The size of `data`; 0 where it lies in a file."""
        return 0 if self.data is None else len(self.data)


def overlapping(segments: Iterable[Segment], start: int, end: int, identities: frozenset[Identity]) -> list[Segment]:
    """The segments that may cover a bucket of `[start, end)` for one of the identities."""
    return [
        s
        for s in segments
        if s.bounds.first < end and s.bounds.last >= start and (s.identity is None or s.identity in identities)
    ]


_DROPPED_BITS = 6
_LEAST, _MOST = -(2**63), 2**63 - 1
_SEVERAL = 0
"""The code of segments that hold several identities."""

May = Callable[["int | None", "int | None", "Identity | None"], bool]
"""Whether a segment may be wanted that has no index value before the first and none after the second of these (both inclusive, None:
not known), and rows of that identity alone (None: of any)."""


class SegmentColumns:
    """The bounds and identities of segments as arrays: a value, which says by place which segments may be meant."""

    __slots__ = ("_codes", "_columns")

    def __init__(self, columns: npt.NDArray[np.int64], codes: dict[Identity, int]) -> None:
        """`columns` are first and last index value, coarsely, and code of each segment; `codes` those of the identities, from 1."""
        self._columns, self._codes = columns, codes

    @classmethod
    def of(cls, segments: Iterable[Segment]) -> SegmentColumns:
        """Those of segments, in order."""
        codes: dict[Identity, int] = {}
        return cls(_columns(tuple(segments), codes), codes)

    def extended(self, more: tuple[Segment, ...]) -> SegmentColumns:
        """Those of these segments and then `more`; looks at those only."""
        codes = dict(self._codes)
        return SegmentColumns(np.concatenate([self._columns, _columns(more, codes)], axis=1), codes)

    def near(self, start: int, end: int, identities: frozenset[Identity]) -> list[int]:
        """The places of those that `gapless.model.segment.overlapping` may give, and of few others: bounds are coarse here."""
        first, last, code = self._columns
        near = (first <= coarse(end - 1)) & (last >= coarse(start))
        if self._codes:
            near &= self._wanted(identities)[code]
        found: list[int] = np.flatnonzero(near).tolist()
        return found

    def candidates(self, may: May) -> list[int]:
        """The places of those that may be wanted, and of few others."""
        first, last, code = self._columns
        if not len(first):
            return []
        low, high = fine(int(first.min()))[0], fine(int(last.max()))[1]
        wanted = np.zeros(len(self._codes) + 1, dtype=bool)
        identities: dict[int, Identity] = {code: identity for identity, code in self._codes.items()}
        for number in range(len(wanted)):
            wanted[number] = may(low, high, identities.get(number))
        places: list[int] = np.flatnonzero(wanted[code]).tolist()
        return [at for at in places if may(fine(int(first[at]))[0], fine(int(last[at]))[1], identities.get(int(code[at])))]

    def _wanted(self, identities: frozenset[Identity]) -> npt.NDArray[np.bool_]:
        """By code, whether it is that of one of the identities, or of several."""
        wanted = np.zeros(len(self._codes) + 1, dtype=bool)
        wanted[_SEVERAL] = True
        small, large = sorted((identities, self._codes.keys()), key=len)
        wanted[[self._codes[identity] for identity in small if identity in large]] = True
        return wanted


class SegmentIndex:
    """Segments with their columns: a value, which answers as `overlapping` does on the segments themselves."""

    __slots__ = ("_columns", "segments")

    segments: tuple[Segment, ...]
    """What it was made of, in order."""

    def __init__(self, segments: Iterable[Segment] = ()) -> None:
        """Index segments."""
        self.segments = tuple(segments)
        self._columns = SegmentColumns.of(self.segments)

    def extended(self, more: Iterable[Segment]) -> SegmentIndex:
        """One of these segments and then `more`; looks at those only."""
        added, made = tuple(more), SegmentIndex()
        made.segments = self.segments + added
        made._columns = self._columns.extended(added)
        return made

    def overlapping(self, start: int, end: int, identities: frozenset[Identity]) -> list[Segment]:
        """See `gapless.model.segment.overlapping`."""
        if not self.segments:
            return []
        # Coarse bounds let some through that do not meet.
        return overlapping((self.segments[at] for at in self._columns.near(start, end, identities)), start, end, identities)


def stored_columns(
    first: npt.NDArray[np.int64],
    last: npt.NDArray[np.int64],
    place: npt.NDArray[np.int64],
    known: Mapping[int, Identity | None],
) -> SegmentColumns:
    """Columns from coarse bounds and the number of each segment's identity, of which `known` says what it is; None is several."""
    codes: dict[Identity, int] = {}
    of_place = np.zeros(max(known, default=0) + 1, dtype=np.int64)
    for number, identity in known.items():
        of_place[number] = _code_of(identity, codes)
    return SegmentColumns(np.stack([first, last, of_place[place]]), codes)


def coarse(value: int) -> int:
    """An index value in 64 bits, in steps of 64: so do uint64 and the years 1 to 9999 in nanoseconds fit. Order stays."""
    return max(_LEAST, min(value >> _DROPPED_BITS, _MOST))


def fine(value: int) -> tuple[int | None, int | None]:
    """The smallest and the largest index value that look like this coarsely; None where there is none."""
    low = None if value == _LEAST else value << _DROPPED_BITS
    return low, None if value == _MOST else ((value + 1) << _DROPPED_BITS) - 1


def _columns(segments: tuple[Segment, ...], codes: dict[Identity, int]) -> npt.NDArray[np.int64]:
    """First and last index value, coarsely, and code of each segment; `codes` takes in identities that are new."""
    columns = np.empty((3, len(segments)), dtype=np.int64)
    columns[0] = [coarse(s.bounds.first) for s in segments]
    columns[1] = [coarse(s.bounds.last) for s in segments]
    columns[2] = [_code_of(s.identity, codes) for s in segments]
    return columns


def _code_of(identity: Identity | None, codes: dict[Identity, int]) -> int:
    return _SEVERAL if identity is None else codes.setdefault(identity, len(codes) + 1)


class DataFile(Protocol):
    """What reading a file needs to know of it: a segment has it, and a stored file."""

    @property
    def path(self) -> str:
        """Where it lies in its store."""
        ...

    @property
    def size(self) -> int | None:
        """Bytes; None where the log does not say."""
        ...

    @property
    def data(self) -> bytes | None:
        """The bytes of the file, where they are at hand: in the log itself, or fetched."""
        ...

    @property
    def footer_checksum(self) -> str | None:
        """`algorithm:length:hex` over the file's last `length` bytes; None where the log has none."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file of which no more is known than where it lies and how large it is; or that was fetched as a whole."""

    path: str
    size: int | None = None
    data: bytes | None = field(default=None, repr=False)
    footer_checksum: None = None


ALGORITHM = "xxh3-128"


def checksum(data: bytes | memoryview) -> str:
    """The checksum of an object's bytes."""
    return f"{ALGORITHM}:{xxhash.xxh3_128_hexdigest(data)}"


def check(data: bytes, expected: str | None, path: str) -> None:
    """Raise CorruptTable where bytes do not have the checksum; one of an unknown algorithm, or none, proves nothing."""
    algorithm, _, rest = (expected or "").partition(":")
    digest = rest.rpartition(":")[2]
    if algorithm == ALGORITHM and xxhash.xxh3_128_hexdigest(data) != digest:
        raise CorruptTable(
            f"{path} does not have the bytes it was written with",
            why=f"Its checksum is not {digest}",
            fix="Bring the file back from a backup; `gapless verify` and `gapless repair` say what else can be done",
            path=path,
        )
