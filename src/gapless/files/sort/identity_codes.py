"""Dictionary-encode the entity columns of rows: one integer code for each identity, in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gapless.model.index import Identity
from gapless.model.stats import arrow_of, numbers_of
from gapless.runtime.concurrency import WORTH_THREADS_BYTES, side_by_side

Positions = npt.NDArray[np.integer[Any]]

_BLOCK_ROWS = 1 << 15
"""What there is to say of so many texts stays in a processor's cache."""

_RARELY = 64
"""Rows a change from which on texts are compared byte by byte with those before."""


def first_rows(values: pa.Array) -> Positions:
    """The rows, ascending, that do not have the value of the row before, of values without nulls; the first of them is 0 if there is one."""
    found = _first_texts(values) if pa.types.is_string(values.type) and len(values) else None
    if found is None:
        ends = numbers_of(pc.run_end_encode(values).run_ends)
        found = np.concatenate([np.zeros(min(1, len(ends)), ends.dtype), ends[:-1]])
    return found


def _first_texts(texts: pa.Array) -> Positions | None:
    """The same of texts; None where they change so often that to look at one after the other is faster."""
    _, where, data = texts.buffers()
    offsets = np.frombuffer(where, np.int32, len(texts) + 1, 4 * texts.offset)
    text = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)
    found: list[Positions] = [np.zeros(1, dtype=np.int64)]
    for start in range(0, len(texts) - 1, _BLOCK_ROWS):
        # A block begins with the last row of the one before.
        changes = _changes(offsets[start : start + _BLOCK_ROWS + 2], text)
        if changes is None:
            return None
        found.append(changes + start)
    return np.concatenate(found)


def _changes(offsets: npt.NDArray[np.int32], text: npt.NDArray[np.uint8]) -> Positions | None:
    """The places, after the first, of texts that differ from the one before; None where they are many."""
    lengths = np.diff(offsets)
    edges = np.flatnonzero(lengths[1:] != lengths[:-1]) + 1
    if len(edges) * _RARELY > len(lengths):
        return None
    found: list[Positions] = [edges]
    for start, end in pairwise([0, *edges.tolist(), len(lengths)]):
        width = int(lengths[start])
        # Texts of one length lie a text apart.
        alike = text[offsets[start] : offsets[end]]
        differs = alike[width:] != alike[: len(alike) - width]
        if (count := np.count_nonzero(differs)) * _RARELY > len(alike):
            return None
        if count:
            found.append(np.flatnonzero(differs) // width + start + 1)
    return np.unique(np.concatenate(found)) if len(found) > 1 else edges


Codes = npt.NDArray[np.integer[Any]]

_FEW_ROWS = 1 << 12
"""Up to so many rows are looked up by the call that begins soonest."""

_TOLD_ROWS = 256
"""Up to so many rows are numbered by Python."""

_FEW_VALUES = 64
"""Up to so many are sorted by Python, which begins sooner than Arrow."""

_SAMPLE = 1_000
"""Rows by which a column is judged to lie in stretches of one value, as sorted rows do."""


@dataclass(frozen=True, slots=True)
class Component:
    """One entity column of some identities."""

    values: pa.Array
    """Its distinct values, ascending."""
    ranks: Codes
    """For each identity, the place of its value in `values`."""


@dataclass(frozen=True, slots=True)
class Identified:
    """Rows by identity."""

    codes: Codes
    """For each row, the place of its identity in `identities`; of no wider type than so many need."""
    identities: Sequence[Identity]
    """The distinct identities, ascending."""
    components: tuple[Component, ...]
    """One for each entity column."""


def identified(table: pa.Table, entity: tuple[str, ...]) -> Identified:
    """The identities of the rows of a table, whose entity columns lack no value."""
    if not entity:
        return Identified(np.zeros(table.num_rows, dtype=np.uint8), [()], ())
    codes, values = _column_codes(table.column(entity[0]))
    found = Identified(codes, [(value,) for value in values.to_pylist()], (Component(values, _range(len(values))),))
    for name in entity[1:]:
        found = _paired(found, *_column_codes(table.column(name)))
    return found


def _paired(found: Identified, ranks: Codes, values: pa.Array) -> Identified:
    """The identities with one more column, of these distinct values, of which each row has the one at its rank."""
    width = max(len(values), 1)
    if width == 1 and len(found.codes):
        (value,) = values.to_pylist()
        identities = [(*identity, value) for identity in found.identities]
        return Identified(
            found.codes, identities, (*found.components, Component(values, np.zeros_like(_range(len(identities)))))
        )
    pairs = found.codes.astype(_narrow(len(found.identities) * width + 1), copy=False) * width + ranks
    present, codes = _dense(pairs, len(found.identities) * width)
    left, right = np.divmod(present, width)
    told = values.to_pylist()
    identities = [(*found.identities[one], told[other]) for one, other in zip(left.tolist(), right.tolist(), strict=True)]
    before = tuple(Component(one.values, one.ranks[left]) for one in found.components)
    return Identified(
        codes.astype(_narrow(len(identities)), copy=False), identities, (*before, Component(values, right.astype(ranks.dtype)))
    )


def _dense(numbers: Codes, end: int) -> tuple[Codes, Codes]:
    """The distinct numbers, ascending, all in `[0, end)`, and the place of each number among them."""
    if end > len(numbers):
        return np.unique(numbers, return_inverse=True)
    seen = np.zeros(end, dtype=bool)
    seen[numbers] = True
    if seen.all():
        return np.arange(end), numbers
    return np.flatnonzero(seen), looked_up((np.cumsum(seen) - 1).astype(_narrow(end)), numbers)


def looked_up(found: Codes, at: Codes | pa.Array) -> Codes:
    """What stands at places of an array, none of which lies outside it."""
    if len(at) <= _FEW_ROWS:
        return found[numbers_of(at) if isinstance(at, pa.Array) else at]
    taken = pc.take(arrow_of(found), at if isinstance(at, pa.Array) else arrow_of(at), boundscheck=False)
    return numbers_of(taken)


def _column_codes(column: pa.ChunkedArray) -> tuple[Codes, pa.Array]:
    """Each row's value as a rank among the column's sorted distinct values, and these."""
    if len(column) <= _TOLD_ROWS:
        return _told(column)
    if len(column) > 10 * _SAMPLE and len(pc.run_end_encode(column.slice(0, _SAMPLE).combine_chunks()).values) <= _SAMPLE // 50:
        return _ranked(column, _stretches)
    return _ranked(column, _encoded)


def _told(column: pa.ChunkedArray) -> tuple[Codes, pa.Array]:
    """The same by Python, whose code is at hand where that of a kernel must be fetched from memory first."""
    told = column.to_pylist()
    distinct = sorted(set(told))
    if len(distinct) == 1:
        return np.zeros(len(told), dtype=np.uint8), next(chunk for chunk in column.chunks if len(chunk)).slice(0, 1)
    ranks = {value: rank for rank, value in enumerate(distinct)}
    rows = {value: row for row, value in enumerate(told)}
    whole = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    values = whole.take(arrow_of(np.array([rows[value] for value in distinct], np.int64)))
    return np.array([ranks[value] for value in told], dtype=_narrow(len(distinct))), values


_Numbered = tuple[pa.Array, pa.Array, Codes | None]
"""Places in some values; these; and for how many rows each place stands, where not for one."""


def _ranked(column: pa.ChunkedArray, number: Callable[[pa.ChunkedArray], _Numbered]) -> tuple[Codes, pa.Array]:
    """The same by a way to number values, taken on all cores."""
    cut = _parts(column)
    parts = [number(column)] if len(cut) == 1 else side_by_side([partial(number, part) for part in cut], column.nbytes)
    if len(parts) == 1:
        ((at, values, lengths),) = parts
        if len(values) == 1:
            return np.zeros(len(column), dtype=np.uint8), values
        ranks, values = _ranks(values)
        return _spread(looked_up(ranks, at), lengths), values
    merged = pa.concat_arrays([values for _, values, _ in parts]).dictionary_encode()
    ranks, values = _ranks(merged.dictionary)
    ends = np.cumsum([len(part[1]) for part in parts])[:-1]
    of_parts = np.split(ranks[numbers_of(merged.indices)], ends)
    codes = [_spread(looked_up(ranks, at), lengths) for ranks, (at, _, lengths) in zip(of_parts, parts, strict=True)]
    return np.concatenate(codes), values


def _spread(codes: Codes, lengths: Codes | None) -> Codes:
    return codes if lengths is None else np.repeat(codes, lengths)


def _parts(column: pa.ChunkedArray) -> list[pa.ChunkedArray]:
    """The column in one part for each core, where it is large."""
    if len(column) <= _FEW_ROWS:
        return [column]
    count = pa.cpu_count() if column.nbytes >= WORTH_THREADS_BYTES else 1
    rows = -(-len(column) // count)
    return [column.slice(start, rows) for start in range(0, len(column), rows)]


def _ranks(values: pa.Array) -> tuple[Codes, pa.Array]:
    """For each of some distinct values its place among them when they are sorted; and these."""
    if len(values) <= _FEW_VALUES:
        told = values.to_pylist()
        order = np.array(sorted(range(len(told)), key=told.__getitem__), np.int64)
    else:
        order = numbers_of(pc.array_sort_indices(values))
    ranks = np.empty(len(values), dtype=_narrow(len(values)))
    ranks[order] = _range(len(values))
    return ranks, values.take(arrow_of(order))


def _encoded(column: pa.ChunkedArray) -> _Numbered:
    """Each row's place among the distinct values."""
    encoded = (column.chunk(0) if column.num_chunks == 1 else column).dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        # Chunks that are encoded together have one dictionary.
        return pa.concat_arrays([chunk.indices for chunk in encoded.chunks]), encoded.chunk(0).dictionary, None
    return encoded.indices, encoded.dictionary, None


def _stretches(column: pa.ChunkedArray) -> _Numbered:
    """The place of each stretch of one value, and how long it is."""
    chunks = [chunk for chunk in column.chunks if len(chunk)]
    firsts = [first_rows(chunk) for chunk in chunks]
    heads = [chunk.take(arrow_of(rows)) for chunk, rows in zip(chunks, firsts, strict=True)]
    indices, values, _ = _encoded(pa.chunked_array(heads))
    lengths = [np.diff(rows, append=len(chunk)) for chunk, rows in zip(chunks, firsts, strict=True)]
    return indices, values, np.concatenate(lengths)


def _range(count: int) -> Codes:
    return np.arange(count, dtype=_narrow(count))


def _narrow(count: int) -> type[np.integer[Any]]:
    """The smallest type of so many codes, as what sorts and looks up is fast for."""
    return np.uint8 if count <= 2**8 else np.uint16 if count <= 2**16 else np.int64
