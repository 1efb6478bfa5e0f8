"""Where the files of a Delta table lie, which may be outside its root; data files opened to be read, deletion vectors read and written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gapless.errors import CorruptTable, InvalidPath, UnsupportedTable
from gapless.files.pages.footer import LOST, Footer, missing
from gapless.files.read.row_filter import EVERYTHING
from gapless.files.read.row_group_batches import RowGroupBatch
from gapless.formats.delta.actions import AddFile, DeletionVector
from gapless.formats.delta.deletion_vector import (
    INLINE_BYTES,
    Positions,
    check_format,
    decode_entry,
    encode_bitmap,
    encode_file,
    inline_positions,
    inline_vector,
    vector_path,
)
from gapless.formats.delta.file_path import RelativePath, locate
from gapless.model.column_ids import ColumnIds
from gapless.model.protocols import Store
from gapless.model.segment import StoredFile
from gapless.predicate.predicate import Predicate
from gapless.store.object_store import ObjectStore
from gapless.store.open import open_store

_FILE = "file://"


@dataclass(frozen=True, slots=True)
class ResolvedPath:
    """A store, and a path in it."""

    store: Store
    path: str


@dataclass(frozen=True, slots=True)
class PathResolver:
    """Resolves the paths of a table's log: to its own store, or to another that the log names."""

    home: Store
    """The store whose root is the table's."""
    _known: dict[str, Store] = field(default_factory=dict, repr=False, compare=False)

    def of(self, path: str) -> ResolvedPath:
        """Where a path as the log has it lies.

        Another bucket is reached with the options of the table's own. Raises CorruptTable for what is no path, UnsupportedTable for a kind
        of store that is not known here.
        """
        found = locate(path)
        if isinstance(found, RelativePath):
            return ResolvedPath(self.home, found.path)
        home = self.home.url
        root, below = _split(f"{_origin(home)}{found.url}" if found.url.startswith("/") else found.url)
        if root + below == f"{home}/{(root + below)[len(home) + 1 :]}":
            return ResolvedPath(self.home, (root + below)[len(home) + 1 :])
        return ResolvedPath(self._store(root, path), below)

    def _store(self, root: str, path: str) -> Store:
        if root not in self._known:
            options = self.home.options if isinstance(self.home, ObjectStore) and "://" in root else None
            try:
                self._known[root] = open_store(root.rstrip("/") or "/", options)
            except InvalidPath as error:
                raise UnsupportedTable(
                    f"the log names a file {path}, which lies where this release cannot read",
                    why=error.why,
                    fix="Copy the table to a disk or a bucket, with paths relative to its root",
                    needs=root,
                ) from error
        return self._known[root]


def _origin(home: str) -> str:
    """What a path that begins with a slash is meant to follow: the file system or the bucket that a table lies in.

    >>> _origin("/data/t"), _origin("s3://bucket/a/t")
    ('file://', 's3://bucket')
    """
    scheme, separator, rest = home.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}" if separator else _FILE


def _split(url: str) -> tuple[str, str]:
    """What is opened of a URL, up to a slash, and what lies below that.

    >>> _split("file:///data/x.parquet"), _split("s3://bucket/a/x.parquet")
    (('/', 'data/x.parquet'), ('s3://bucket/', 'a/x.parquet'))
    """
    if url.startswith(_FILE):
        return "/", url[len(_FILE) :].lstrip("/")
    scheme, _, rest = url.partition("://")
    container, _, below = rest.partition("/")
    return f"{scheme}://{container}/", below


def read_vector(places: PathResolver, vector: DeletionVector) -> Positions:
    """The positions of the rows that a vector deletes, ascending. Raises CorruptTable where its file is missing or damaged, StoreError."""
    if vector.storage == "i":
        return inline_positions(vector)
    path = vector_path(vector)
    place = places.of(path)
    start = vector.offset or 0
    try:
        check_format(place.store.get(place.path, 0, 1), path)
        entry = place.store.get(place.path, start, vector.size + 8)
    except LOST as error:
        raise CorruptTable(
            f"deletion vector file {path} is missing",
            why="It says which rows of a data file are deleted, and nothing is stored there",
            fix="Bring the file back from a backup, or open an older version without it",
            path=path,
        ) from error
    return decode_entry(entry, vector, path)


def write_vectors(
    put: Callable[[str, bytes], None], uuid: Callable[[], str], deleted: Mapping[str, Positions]
) -> dict[str, DeletionVector]:
    """Store one vector for each key (an add's `path`, say) of `deleted`, whose positions ascend; the descriptors by the same keys.

    Small ones lie in the log itself; the others share one file, for which `put(path, data)` is called once (an attempt's `put`, so that a
    change that fails takes the file back) with a path relative to the table root. `uuid` gives a new UUID as text.
    """
    bitmaps = {key: encode_bitmap(positions) for key, positions in deleted.items()}
    large = {key: data for key, data in bitmaps.items() if len(data) > INLINE_BYTES}
    vectors = {key: inline_vector(positions) for key, positions in deleted.items() if key not in large}
    if large:
        data, stored = encode_file(list(large.values()), uuid(), [len(deleted[key]) for key in large])
        put(vector_path(stored[0]), data)
        vectors |= dict(zip(large, stored, strict=True))
    return vectors


POSITION = "__gapless_position"
"""The name of the column that counts a file's rows from 0: int64, never null, last."""
SMALL_BYTES = 256 << 10
"""Files of so many bytes are fetched as a whole: that is one request, and one file that is opened."""


class GroupFilter(Protocol):
    """What leaves out row groups beyond a predicate."""

    def may_match(self, footer: Footer, number: int, stored_name: Callable[[str], str]) -> bool:
        """False only where no row of a row group is wanted; `stored_name` is what the file calls a column."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """The columns that are read of files, and the rows that are kept."""

    columns: tuple[str, ...] | None = None
    """Logical names of the columns to give back, in order; None for all, in the table's order."""
    predicate: Predicate = EVERYTHING
    """Rows for which it is true are kept; over logical columns, partition columns too."""
    expression: pc.Expression | None = None
    """A further filter, in Arrow's own semantics."""
    cast_to: pa.Schema | None = None
    """The types under which `expression` sees the columns and they are given back, where these are not the declared ones."""
    groups: GroupFilter | None = None
    """A further filter of row groups alone: of what it lets through any row may come."""
    position: bool = False
    """Whether `POSITION` comes behind the columns."""
    deleted: bool = False
    """Whether rows come that a deletion vector deletes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """A file that is to be read."""

    file: AddFile
    place: ResolvedPath
    only: Positions | None = None
    """The only rows that are given back, ascending, whatever its deletion vector says; None for all that are live."""
    whole: bool = False
    """Whether it is known beforehand that the filters keep every row."""

    @property
    def is_small(self) -> bool:
        """Whether it is fetched as a whole."""
        return self.file.size <= SMALL_BYTES

    def fetched(self) -> bytes | None:
        """Its bytes, where it is small. Raises CorruptTable where it is missing, StoreError."""
        if not self.is_small:
            return None
        try:
            return self.place.store.get(self.place.path)
        except LOST as error:
            raise missing(StoredFile(path=self.place.path)) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenDataFile:
    """A file whose footer and deletion vector were read."""

    request: ReadRequest
    stored: StoredFile
    footer: Footer
    ids: ColumnIds
    parsed: pq.ParquetFile | None = None
    """The file, where its bytes are at hand."""
    deleted: Positions | None = None
    """Rows that a deletion vector deletes and that are left out; None for none."""

    @property
    def picks(self) -> bool:
        """Whether rows are left out by their positions."""
        return self.deleted is not None or self.request.only is not None

    def may_hold(self) -> list[bool]:
        """For each row group whether it may have rows that are given back, by their positions."""
        rows, only = self.footer.groups.rows, self.request.only
        if only is None:
            return [True] * len(rows)
        ends = np.searchsorted(only, np.cumsum([0, *rows]))
        return list(np.diff(ends) > 0)

    def kept(self, positions: Positions) -> np.ndarray | None:
        """For ascending positions whether each is given back; None where all are."""
        if self.request.only is not None:
            return _among(positions, self.request.only)
        return None if self.deleted is None else ~_among(positions, self.deleted)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePiece(RowGroupBatch):
    """Row groups of a file of the table."""

    opened: OpenDataFile
    columns: pa.Schema
    """The logical columns that are read."""

    @property
    def positions(self) -> Positions:
        """The positions of its rows in the file."""
        rows, ends = self.footer.groups.rows, np.cumsum(self.footer.groups.rows)
        first, last = self.numbers[0], self.numbers[-1]
        if last - first + 1 == len(self.numbers):
            return np.arange(ends[first] - rows[first], ends[last])
        return np.concatenate([np.arange(ends[number] - rows[number], ends[number]) for number in self.numbers])


def _among(positions: Positions, chosen: Positions) -> np.ndarray:
    """For ascending positions whether each is among others, ascending too."""
    if not len(chosen):
        return np.zeros(len(positions), dtype=np.bool_)
    at = np.searchsorted(chosen, positions)
    at[at == len(chosen)] = 0
    among: np.ndarray = chosen[at] == positions
    return among
