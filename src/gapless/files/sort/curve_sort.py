"""Rows along a space-filling curve (z-order, Hilbert) through some of their columns, in bounded memory.

After John Skilling, "Programming the Hilbert curve" (2004), for all rows at once.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gapless.model.stats import supports_bounds

MAX_COLUMNS = 4
RANK_BITS = 64 // MAX_COLUMNS
"""Bits of a rank."""
_SPREAD = ((24, 0x000000FF000000FF), (12, 0x000F000F000F000F), (6, 0x0303030303030303), (3, 0x1111111111111111))


def has_rank(type_: pa.DataType) -> bool:
    """Whether rows can be ranked by values of this type."""
    return supports_bounds(type_)


def z_order(table: pa.Table, columns: tuple[str, ...]) -> npt.NDArray[Any]:
    """The positions of the table's rows along the z-order of one to `MAX_COLUMNS` columns, equal ones in the order they have.

    A value counts by its rank among the column's distinct values, so that skew does not matter; nulls and NaN come last.
    """
    return np.argsort(interleave([_ranks(table.column(name)) for name in columns]), kind="stable")


def interleave(ranks: Sequence[npt.NDArray[np.uint64]]) -> npt.NDArray[np.uint64]:
    """The place along the z-order of each row, from its ranks in one to `MAX_COLUMNS` columns, numbers of `RANK_BITS` bits."""
    keys = np.zeros(len(ranks[0]), dtype=np.uint64)
    for place, numbers in enumerate(ranks):
        keys |= _spread(numbers) << np.uint64(MAX_COLUMNS - 1 - place)
    return keys


def _ranks(column: pa.ChunkedArray) -> npt.NDArray[np.uint64]:
    """Each row's rank among the distinct values, as a number of `RANK_BITS` bits over the whole of its range."""
    if pa.types.is_float16(column.type):
        column = column.cast(pa.float32())
    ranks = pc.rank(column, sort_keys="ascending", tiebreaker="dense").to_numpy(zero_copy_only=False).astype(np.uint64)
    top = max(1, int(ranks.max(initial=1)))
    scaled: npt.NDArray[np.uint64] = (ranks - np.uint64(1)) * np.uint64(1 << RANK_BITS) // np.uint64(top)
    return scaled


def _spread(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Numbers of `RANK_BITS` bits with each bit moved to every fourth place."""
    spread = numbers
    for shift, mask in _SPREAD:
        spread = (spread | (spread << np.uint64(shift))) & np.uint64(mask)
    return spread


Numbers = npt.NDArray[np.uint64]


def hilbert(ranks: Sequence[Numbers]) -> Numbers:
    """The place along the curve of each row, from its ranks in one to `MAX_COLUMNS` columns, numbers of `RANK_BITS` bits."""
    if len(ranks) == 1:
        return ranks[0]
    axes = list(ranks)
    for bit in range(RANK_BITS - 1, 0, -1):
        _unfold(axes, np.uint64(bit))
    return interleave(_gray(axes))


def _unfold(axes: list[Numbers], bit: np.uint64) -> None:
    """Turn and mirror what lies below one bit of the axes as the curve does there."""
    low = (np.uint64(1) << bit) - np.uint64(1)
    for place, axis in enumerate(axes):
        upper = (axis >> bit) & np.uint64(1) == 1
        swapped = np.where(upper, np.uint64(0), (axes[0] ^ axis) & low)
        axes[0] = axes[0] ^ np.where(upper, low, swapped)
        if place:
            axes[place] = axis ^ swapped


def _gray(axes: list[Numbers]) -> list[Numbers]:
    for place in range(1, len(axes)):
        axes[place] = axes[place] ^ axes[place - 1]
    flips = np.zeros(len(axes[0]), dtype=np.uint64)
    for bit in range(RANK_BITS - 1, 0, -1):
        upper = (axes[-1] >> np.uint64(bit)) & np.uint64(1) == 1
        flips ^= np.where(upper, (np.uint64(1) << np.uint64(bit)) - np.uint64(1), np.uint64(0))
    return [axis ^ flips for axis in axes]


Curve = Literal["z", "hilbert"]
CURVES: tuple[Curve, ...] = get_args(Curve)
_PLACES: Mapping[Curve, Callable[[Sequence[npt.NDArray[np.uint64]]], npt.NDArray[np.uint64]]] = {
    "z": interleave,
    "hilbert": hilbert,
}

SORT_BYTES = 256 << 20
"""Arrow memory of the rows that are sorted at once; about three times as much is held."""
_SAMPLE = 1 << 16
"""At least so many rows, if there are, say how the values of a column are spread."""
_GATHERED = 8
"""What goes to disk together is so many times less than what is sorted at once."""
_MOST_PARTS = 256
"""Files on disk at a time, all open."""
_BATCH_ROWS = 1 << 16

Read = Callable[[tuple[str, ...] | None], Iterator[pa.RecordBatch]]
"""Reads all rows anew, in these columns or in all."""


def curve_sorted(read: Read, columns: tuple[str, ...], curve: Curve, *, memory: int = SORT_BYTES) -> Iterator[pa.RecordBatch]:
    """The rows that `read` gives, along a curve through one to four columns whose values have an order; equal ones by these columns.

    Values count by how many rows have smaller ones, as a sample of them tells; nulls and NaN come last. Rows are read twice: these
    columns, then all. Where they take more than `memory` bytes, they go through a folder of temporary files, which takes as much room as
    they do in Arrow, compressed; rows that share one place of the curve and are more than that are in order only piece by piece.
    """
    sampling = _Sample.of(read(columns), columns)
    if sampling.rows == 0:
        return
    sample = sampling.rows_of_sample()
    order = _Order(columns=columns, curve=curve, cuts=tuple(map(_sorted_values, sample.columns)))
    rows, held, size, count = read(None), list[pa.RecordBatch](), 0, 0
    for batch in rows:
        held.append(batch)
        size, count = size + batch.nbytes, count + batch.num_rows
        if size > memory:
            parts = -(-2 * sampling.rows * size // max(1, count * memory))
            yield from _through_disk(_gathered(held, rows, memory // _GATHERED), order, sample, min(parts, _MOST_PARTS), memory)
            return
    if held:
        yield from order.sorted(pa.Table.from_batches(held)).to_batches(_BATCH_ROWS)


# -- where a row lies --------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Sample:
    """Every so-manieth row."""

    columns: tuple[str, ...]
    rows: int = 0
    """Rows seen."""
    stride: int = 1
    kept: list[pa.Table] = field(default_factory=list)
    count: int = 0

    @classmethod
    def of(cls, batches: Iterable[pa.RecordBatch], columns: tuple[str, ...]) -> _Sample:
        sample = cls(columns)
        for batch in batches:
            sample.add(pa.Table.from_batches([batch]).select(columns))
        return sample

    def add(self, rows: pa.Table) -> None:
        first = -self.rows % self.stride
        self._keep(rows.take(pa.array(np.arange(first, rows.num_rows, self.stride))))
        self.rows += rows.num_rows
        if self.count > 2 * _SAMPLE:
            whole = self.rows_of_sample()
            self.stride, self.kept, self.count = 2 * self.stride, [], 0
            self._keep(whole.take(pa.array(np.arange(0, whole.num_rows, 2))))

    def _keep(self, rows: pa.Table) -> None:
        self.kept.append(rows)
        self.count += rows.num_rows

    def rows_of_sample(self) -> pa.Table:
        """The rows that were kept, each column in one piece."""
        return pa.concat_tables(self.kept).combine_chunks()


def _sorted_values(column: pa.ChunkedArray) -> pa.Array:
    """The values of a sample that have an order, sorted."""
    values = _comparable(column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)).drop_null()
    if pa.types.is_floating(values.type):
        values = values.filter(pc.invert(pc.is_nan(values)))
    return values.take(pc.sort_indices(values))


def _comparable(values: pa.Array) -> pa.Array:
    """The same values in a type that Arrow can sort."""
    if pa.types.is_float16(values.type):
        return values.cast(pa.float32())
    return values.cast(pa.uint8()) if pa.types.is_boolean(values.type) else values


def ranks(values: pa.Array, cuts: pa.Array) -> npt.NDArray[np.uint64]:
    """How many of the sorted `cuts` are at most as large as each value, scaled to `RANK_BITS` bits; nulls and NaN rank last."""
    if not len(cuts):
        return np.full(len(values), 0, dtype=np.uint64)
    values = _comparable(values)
    found = _ranks_of_numbers(values, cuts) if _is_number(cuts.type) else _ranks_of_others(values, cuts)
    # Even a value that is the largest of all ranks before what has no order.
    scaled: npt.NDArray[np.uint64] = found.astype(np.uint64) * np.uint64((1 << RANK_BITS) - 2) // np.uint64(len(cuts))
    last = pc.is_null(values, nan_is_null=True).to_numpy(zero_copy_only=False)
    scaled[last] = (1 << RANK_BITS) - 1
    return scaled


def _is_number(type_: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_temporal(type_))


def _ranks_of_numbers(values: pa.Array, cuts: pa.Array) -> npt.NDArray[Any]:
    return np.searchsorted(_numbers(cuts), _numbers(values), side="right")


def _numbers(values: pa.Array) -> npt.NDArray[Any]:
    if pa.types.is_temporal(values.type):
        values = values.view(pa.int32() if values.type.bit_width == 32 else pa.int64())
    numbers: npt.NDArray[Any] = pc.fill_null(values, 0).to_numpy(zero_copy_only=False)
    return numbers


def _ranks_of_others(values: pa.Array, cuts: pa.Array) -> npt.NDArray[Any]:
    """By sorting both together: the sort is stable, so that a cut comes before the values that equal it."""
    order = pc.sort_indices(pa.concat_arrays([cuts, values.cast(cuts.type)])).to_numpy()
    are_cuts = order < len(cuts)
    found = np.empty(len(values), dtype=np.int64)
    found[order[~are_cuts] - len(cuts)] = np.cumsum(are_cuts)[~are_cuts]
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Order:
    """The order along a curve."""

    columns: tuple[str, ...]
    curve: Curve
    cuts: tuple[pa.Array, ...]

    def places(self, rows: pa.Table) -> npt.NDArray[np.uint64]:
        """Where each row lies on the curve."""
        found = (self._column(rows, name) for name in self.columns)
        return _PLACES[self.curve]([ranks(column, cuts) for column, cuts in zip(found, self.cuts, strict=True)])

    def sorted(self, rows: pa.Table) -> pa.Table:
        """The rows in order."""
        keys = [pa.array(self.places(rows)), *(self._column(rows, name) for name in self.columns)]
        names = [str(number) for number in range(len(keys))]
        return rows.take(pc.sort_indices(pa.table(keys, names), [(name, "ascending") for name in names]))

    def _column(self, rows: pa.Table, name: str) -> pa.Array:
        column = rows.column(name)
        return _comparable(column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks))


# -- more than memory holds --------------------------------------------------------------------------------------------


def _through_disk(
    tables: Iterator[pa.Table], order: _Order, sample: pa.Table, parts: int, memory: int
) -> Iterator[pa.RecordBatch]:
    """Rows in order by way of files that each hold a stretch of the curve, and are sorted one after the other."""
    places = np.sort(order.places(sample))
    edges = places[np.arange(1, parts) * len(places) // parts]
    with tempfile.TemporaryDirectory(prefix="gapless-") as folder:
        with closing(_Parts(Path(folder))) as stored:
            for rows in tables:
                stored.add(rows, np.searchsorted(edges, order.places(rows), side="right"))
        for path in stored.paths():
            for rows in _pieces_of(path, memory):
                yield from order.sorted(rows).to_batches(_BATCH_ROWS)
            path.unlink()


def _gathered(held: list[pa.RecordBatch], rest: Iterator[pa.RecordBatch], size: int) -> Iterator[pa.Table]:
    """The batches as tables of about `size` bytes; those that were held are let go."""
    together: list[pa.RecordBatch] = []
    for batch in chain(_let_go(held), rest):
        together.append(batch)
        if sum(one.nbytes for one in together) >= size:
            yield pa.Table.from_batches(together)
            together = []
    if together:
        yield pa.Table.from_batches(together)


def _let_go(held: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    held.reverse()
    while held:
        yield held.pop()


@dataclass(slots=True)
class _Parts:
    """Rows on disk, by the stretch of the curve that they lie in."""

    folder: Path
    open: dict[int, pa.RecordBatchFileWriter] = field(default_factory=dict)
    files: ExitStack = field(default_factory=ExitStack)

    def add(self, rows: pa.Table, part_of: npt.NDArray[Any]) -> None:
        """Store rows, each in its part."""
        by_part = np.argsort(part_of, kind="stable")
        ordered = rows.take(pa.array(by_part))
        numbers, starts = np.unique(part_of[by_part], return_index=True)
        for number, start, end in zip(numbers.tolist(), starts, [*starts[1:], len(by_part)], strict=True):
            self._writer(number, rows.schema).write_table(ordered.slice(start, end - start).combine_chunks())

    def _writer(self, number: int, schema: pa.Schema) -> pa.RecordBatchFileWriter:
        if number not in self.open:
            options = pa.ipc.IpcWriteOptions(compression="lz4")
            writer = pa.ipc.new_file(str(self._path(number)), schema, options=options)
            self.open[number] = self.files.enter_context(writer)
        return self.open[number]

    def _path(self, number: int) -> Path:
        return self.folder / f"{number}.arrow"

    def close(self) -> None:
        """Finish all files."""
        self.files.close()

    def paths(self) -> list[Path]:
        """The files, along the curve."""
        return [self._path(number) for number in sorted(self.open)]


def _pieces_of(path: Path, memory: int) -> Iterator[pa.Table]:
    """A file's rows, as many together as `memory` holds."""
    together: list[pa.RecordBatch] = []
    size = 0
    with pa.ipc.open_file(str(path)) as file:
        for number in range(file.num_record_batches):
            batch = file.get_batch(number)
            if together and size + batch.nbytes > memory:
                yield pa.Table.from_batches(together)
                together, size = [], 0
            together.append(batch)
            size += batch.nbytes
    if together:
        yield pa.Table.from_batches(together)
