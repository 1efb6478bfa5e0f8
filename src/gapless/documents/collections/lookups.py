"""Where in a file values of an indexed path lie, remembered in memory, so that a `find` by equality reads the rows that it wants."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from gapless.documents.collections.storage import ID_COLUMN
from gapless.documents.filters.prune import ID_PATH, bound
from gapless.documents.filters.tree import All, At, Condition, Each, Equals, IsIn, Path, Test
from gapless.documents.values.identity import key_text
from gapless.documents.values.order import Key, TypeOrder
from gapless.formats.delta.actions import AddFile
from gapless.formats.delta.deletion_vector import Positions
from gapless.tables.delta.files.open_file import POSITION, Projection
from gapless.tables.delta.files.reading import FileReader
from gapless.tables.delta.read.scan import Planner

Hashes = npt.NDArray[np.uint64]
ROW_BYTES = 16
"""What a row takes: a hash and a place."""
_FEW_VALUES = 100
"""More values than these are looked for by reading columns."""
_FEW_FILES = 64
_FEW_ROWS = 4_096
"""So many rows are read as quickly as they are looked up."""
_DATES = 0x9E3779B97F4A7C15
"""What sets the hashes of dates apart from those of numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Equalities:
    """That one of some values lies at a path."""

    column: str
    hashes: Hashes
    """Of these values, as far as the column has them by themselves."""


def equalities(condition: Condition, columns: Mapping[Path, str]) -> Equalities | None:
    """What every document has to have at one path of those that are indexed; None where a filter says no such thing."""
    for one in condition.conditions if isinstance(condition, All) else (condition,):
        if not isinstance(one, At):
            continue
        keys = next(_keys(one.test), None)
        if keys is None or len(keys) > _FEW_VALUES:
            continue
        if one.path == ID_PATH:
            return Equalities(column=ID_COLUMN, hashes=np.array([_of_text(key_text(key)) for key in keys], np.uint64))
        if one.path in columns and all(key[0] is not TypeOrder.NULL for key in keys):
            hashes = (_of_key(key) for key in keys)
            return Equalities(column=columns[one.path], hashes=np.array([one for one in hashes if one is not None], np.uint64))
    return None


def _keys(test: Test) -> Iterator[Sequence[Key]]:
    match test:
        case Equals(key):
            yield (key,)
        case IsIn(keys, ()):
            yield tuple(keys)
        case Each(tests):
            for one in tests:
                yield from _keys(one)


def _of_key(key: Key) -> int | None:
    """The hash of a value as `_hashes` has it; None for one that lies elsewhere."""
    found = bound(key)
    if found is None:
        return None
    if found.kind == "text":
        return _of_text(key[1])
    if found.kind == "number":
        return int(np.float64(float(key[2]) or 0.0).view(np.uint64))
    return int(np.int64(key[1] * 1_000).view(np.uint64)) ^ _DATES


def _of_text(text: str) -> int:
    return xxhash.xxh3_64_intdigest(text.encode())


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLookup:
    """The rows of a file by the hashes of what lies at a path."""

    hashes: Hashes
    """Ascending."""
    rows: Positions
    """Where each lies."""
    elsewhere: Positions
    """The rows of which the column does not say what lies there, ascending."""

    def places(self, wanted: Equalities) -> Positions:
        """The rows that may have one of some values, ascending."""
        starts = np.searchsorted(self.hashes, wanted.hashes, side="left")
        ends = np.searchsorted(self.hashes, wanted.hashes, side="right")
        found = [self.rows[start:end] for start, end in zip(starts, ends, strict=True) if start < end]
        return np.unique(np.concatenate([self.elsewhere, *found])) if found else self.elsewhere


class Lookups:
    """Those of the files that were asked last, in so many bytes of memory. A file never changes, so that none is ever wrong."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: OrderedDict[tuple[str, str], FileLookup] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def takes(self, wanted: Equalities, files: Sequence[AddFile], planner: Planner) -> bool:
        """Whether files are looked up: there are many rows, and memory holds their lookups all at once."""
        if wanted.column == ID_COLUMN and len(files) < 2:
            # Statistics of row groups tell as much, where ids come in their order.
            return False
        rows = sum(math.inf if (found := planner.stats(file).rows) is None else found for file in files)
        return _FEW_ROWS < rows <= self._limit // ROW_BYTES

    def has(self, files: Sequence[AddFile], column: str) -> bool:
        """Whether all of these files, a few, are known: to ask their statistics takes longer than to look them up."""
        return len(files) <= _FEW_FILES and all((file.key, column) in self._known for file in files)

    def of(self, reader: FileReader, file: AddFile, column: str) -> FileLookup:
        """That of a file, made where it is not known. Raises CorruptTable, StoreError."""
        key = (file.key, column)
        with self._lock:
            if (found := self._known.get(key)) is not None:
                self._known.move_to_end(key)
                return found
        found = _read(reader, file, column)
        with self._lock:
            if key not in self._known:
                self._known[key] = found
                self._bytes += _size(found)
                while self._bytes > self._limit and len(self._known) > 1:
                    self._bytes -= _size(self._known.popitem(last=False)[1])
        return found


def _size(found: FileLookup) -> int:
    return found.hashes.nbytes + found.rows.nbytes + found.elsewhere.nbytes


def _read(reader: FileReader, file: AddFile, column: str) -> FileLookup:
    hashes: list[Hashes] = [np.empty(0, np.uint64)]
    rows: list[Positions] = [np.empty(0, np.int64)]
    elsewhere: list[Positions] = [np.empty(0, np.int64)]
    for batch in reader.batches(file, Projection(columns=(column,), position=True)):
        places = batch.column(POSITION).to_numpy()
        values = batch.column(column)
        if column == ID_COLUMN:
            fields = [_texts(values)]
        else:
            elsewhere.append(places[pc.struct_field(values, "other").is_valid().to_numpy(zero_copy_only=False)])
            fields = [
                _numbers(pc.struct_field(values, "number")),
                _texts(pc.struct_field(values, "text")),
                _dates(pc.struct_field(values, "date")),
            ]
        for found, there in fields:
            hashes.append(found)
            rows.append(places[there])
    all_hashes, all_rows = np.concatenate(hashes), np.concatenate(rows)
    order = np.argsort(all_hashes, kind="stable")
    return FileLookup(hashes=all_hashes[order], rows=all_rows[order], elsewhere=np.concatenate(elsewhere))


Found = tuple[Hashes, npt.NDArray[np.bool_]]
"""The hashes of the values that there are, and of each row whether it has one."""


def _valid(values: pa.Array) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = values.is_valid().to_numpy(zero_copy_only=False)
    return found


def _numbers(values: pa.Array) -> Found:
    # 0.0 for -0.0, which it equals.
    return (values.drop_null().to_numpy(zero_copy_only=False) + 0.0).view(np.uint64), _valid(values)


def _dates(values: pa.Array) -> Found:
    numbers = values.cast(pa.int64())
    return numbers.drop_null().to_numpy(zero_copy_only=False).view(np.uint64) ^ np.uint64(_DATES), _valid(values)


def _texts(values: pa.Array) -> Found:
    there = values.drop_null()
    return np.fromiter(map(_of_text, there.to_pylist()), np.uint64, count=len(there)), _valid(values)
