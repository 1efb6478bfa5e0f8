"""A segment: one immutable Parquet file, as the log describes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

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


def meeting(segments: Iterable[Segment], start: int, end: int, identities: frozenset[Identity]) -> list[Segment]:
    """The segments that may cover a bucket of `[start, end)` for one of the identities."""
    return [
        s
        for s in segments
        if s.bounds.first < end and s.bounds.last >= start and (s.identity is None or s.identity in identities)
    ]
