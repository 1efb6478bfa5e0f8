"""Row groups that are read together, and the byte ranges that they need."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from gapless.files.pages.footer import LOST, Footer, missing
from gapless.files.read.page_pruning import CachedColumns, ColumnProjection, KeyFilter, RowGroup, read_candidates
from gapless.files.read.source import ObjectFile, open_source, parse_source, read_groups
from gapless.model.protocols import Store
from gapless.model.segment import DataFile
from gapless.predicate.plan import row_bytes
from gapless.runtime.concurrency import Call, in_order

GAP_BYTES = 256 << 10
"""Fewer bytes that nobody wants are fetched together with those around them."""
NEAR_BYTES = 16 << 20
"""What pieces of a near store that are read ahead may take in Arrow's memory, by a guess."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGroupBatch:
    """Row groups of one segment that are read together."""

    segment: DataFile
    footer: Footer
    numbers: tuple[int, ...]
    """The row groups, ascending."""
    names: tuple[str, ...]
    """Stored names of the columns that are read; there may be none."""
    dictionaries: tuple[str, ...] = ()
    """Those of them that come dictionary-encoded."""
    certain: bool = False
    """Whether it is known beforehand that the filters keep every row."""
    file: pq.ParquetFile | None = None
    """The segment, where it is open already."""
    stages: tuple[KeyFilter, ...] = ()
    """How rows that the filters may keep are found in it; it then is one row group, sorted by these columns."""
    complete: bool = False
    """Whether the filters keep all rows that the stages do."""

    @property
    def rows(self) -> int:
        """How many rows its row groups have, by the footer."""
        return sum(self.footer.groups.rows[number] for number in self.numbers)


P = TypeVar("P", bound=RowGroupBatch)


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Bytes `[start, end)` of a file."""

    start: int
    end: int


def read_row_group_batches(store: Store, pieces: Iterable[P], *, near_width: int = 1) -> Iterator[tuple[P, pa.Table]]:
    """Each piece with its rows, in order; of one it may be certain then that the filters keep them all. Raises CorruptTable, StoreError.

    Where a request takes long, the bytes of pieces that follow are fetched meanwhile, several ranges at a time. Of a near store up to
    `near_width` small pieces are read side by side.
    """
    if not store.capabilities.concurrent:
        if near_width == 1:
            yield from (_near(store, piece) for piece in pieces)
            return
        whole = (Call(partial(_near, store, piece), piece.rows * row_bytes(piece.footer.schema)) for piece in pieces)
        with closing(in_order(whole, width=near_width, limit=NEAR_BYTES)) as read:
            yield from read
        return
    asked: deque[tuple[P, list[ByteRange]]] = deque()

    def calls() -> Iterator[Call[bytes]]:
        for piece in pieces:
            ranges = byte_ranges(piece)
            asked.append((piece, ranges))
            yield from (Call(partial(_fetch, store, piece.segment, one), one.end - one.start) for one in ranges)

    got: list[bytes] = []
    with closing(in_order(calls())) as answers:
        for data in answers:
            got.append(data)
            piece, ranges = asked[0]
            if len(got) == len(ranges):
                asked.popleft()
                fetched = {one.start: data for one, data in zip(ranges, got, strict=True)}
                got = []
                yield _rows(piece, partial(_over, store, piece.segment, fetched))


def _near(store: Store, piece: P) -> tuple[P, pa.Table]:
    return _rows(piece, partial(open_source, store, piece.segment), piece.stages)


def byte_ranges(piece: RowGroupBatch) -> list[ByteRange]:
    """The ranges that hold the columns of a piece, in order, with gaps of more than `GAP_BYTES` between them; one that is empty for none."""
    chunks = sorted(_chunks(piece), key=lambda found: found.start)
    merged = chunks[:1] or [ByteRange(0, 0)]
    for chunk in chunks[1:]:
        if chunk.start - merged[-1].end <= GAP_BYTES:
            merged[-1] = ByteRange(merged[-1].start, max(merged[-1].end, chunk.end))
        else:
            merged.append(chunk)
    return merged


def _chunks(piece: RowGroupBatch) -> Iterator[ByteRange]:
    if piece.segment.data is not None:
        return
    metadata = piece.footer.metadata
    paths = [metadata.schema.column(leaf).path for leaf in range(metadata.num_columns)]
    names = frozenset(piece.names)
    # A dot may belong to a name; a leaf too many does no harm.
    leaves = [
        leaf for leaf, path in enumerate(paths) if any(above in names for above in accumulate(path.split("."), "{}.{}".format))
    ]
    for number in piece.numbers:
        group = metadata.row_group(number)
        for leaf in leaves:
            chunk = group.column(leaf)
            start = chunk.data_page_offset
            if chunk.dictionary_page_offset:
                start = min(start, chunk.dictionary_page_offset)
            yield ByteRange(start, start + chunk.total_compressed_size)


def _fetch(store: Store, segment: DataFile, one: ByteRange) -> bytes:
    try:
        return store.get(segment.path, one.start, one.end - one.start) if one.end > one.start else b""
    except LOST as error:
        raise missing(segment) from error


class _FetchedFile(ObjectFile):
    """An object of which some ranges are here already."""

    def __init__(self, store: Store, path: str, size: int, fetched: dict[int, bytes]) -> None:
        super().__init__(store, path, size)
        self._fetched = fetched

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes; all that is left for a negative size."""
        for start, data in self._fetched.items():
            if size >= 0 and start <= self._at and self._at + size <= start + len(data):
                at, self._at = self._at - start, self._at + size
                return data[at : at + size]
        return super().read(size)


def _over(store: Store, segment: DataFile, fetched: dict[int, bytes]) -> pa.NativeFile:
    if segment.data is not None or segment.size is None:
        return open_source(store, segment)
    return pa.PythonFile(_FetchedFile(store, segment.path, segment.size, fetched), mode="r")


def _rows(piece: P, source: Callable[[], pa.NativeFile], stages: Sequence[KeyFilter] = ()) -> tuple[P, pa.Table]:
    """The piece, and its rows in its columns, in no columns where it names none; without some that no stage keeps."""
    if not piece.names:
        return piece, pa.table({"": pa.nulls(piece.rows)}).select([])
    if piece.file is not None and not stages:
        return piece, read_groups(piece.file, piece.segment, piece.numbers, piece.names)
    try:
        opened = source()
    except LOST as error:
        raise missing(piece.segment) from error
    seen: dict[str, CachedColumns] = {}
    with opened:
        if stages:
            group = RowGroup(segment=piece.segment, footer=piece.footer, number=piece.numbers[0])
            found = read_candidates(opened, group, ColumnProjection(piece.names, piece.dictionaries), stages, seen)
            if found is not None:
                return replace(piece, certain=found.exact and piece.complete), found.rows
        return piece, _whole(piece, opened, {name: one for name, one in seen.items() if one.holds((0, piece.rows))})


def _whole(piece: RowGroupBatch, source: pa.NativeFile, seen: Mapping[str, CachedColumns]) -> pa.Table:
    """All rows of the piece, in its columns; those in `seen` are not read again."""
    with parse_source(source, piece.segment, piece.footer.metadata, piece.dictionaries) as file:
        rows = read_groups(file, piece.segment, piece.numbers, [name for name in piece.names if name not in seen])
    if not seen:
        return rows
    known = {name: one.of((0, piece.rows), encoded=name in piece.dictionaries) for name, one in seen.items()}
    return pa.table([known[name] if name in known else rows.column(name) for name in piece.names], list(piece.names))
