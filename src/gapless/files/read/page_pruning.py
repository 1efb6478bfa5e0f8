"""Page pruning: candidate row ranges of a sorted row group by its key columns, so that only their pages of other columns are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.errors import CorruptTable
from gapless.files.pages.footer import Footer, damaged
from gapless.files.pages.page_map import PageMap, map_pages
from gapless.files.pages.page_slice import ColumnPages, RowRanges, Span, can_slice, merged, slice_file
from gapless.files.pages.page_values import Runs, coded_runs, number_values
from gapless.files.read.source import encoded_columns, parse_source
from gapless.model.segment import DataFile
from gapless.model.stats import arrow_of
from gapless.predicate.expression import evaluate_predicate
from gapless.predicate.predicate import Predicate

FEW_ROWS = 16_384
"""So many rows are read without a further look for those that are near: pages have about as many."""

MOST_ROWS = 2 / 3
"""Where more than this share of a row group is near, it is read whole, columns side by side, and filtered then."""

T = TypeVar("T")

Positions = npt.NDArray[np.int64]
Keep = Callable[[pa.Table], Positions]
"""The rows of a table of one column that a filter may keep, ascending."""


@dataclass(frozen=True, slots=True)
class ColumnProjection:
    """The columns that are read, by their stored names."""

    names: Sequence[str]
    dictionaries: Sequence[str] = ()
    """Those that come dictionary-encoded where that costs nothing."""

    def schema(self, schema: pa.Schema) -> pa.Schema:
        """These columns of a file's schema."""
        return pa.schema([schema.field(name) for name in self.names])


@dataclass(frozen=True, slots=True)
class CachedColumns:
    """What was read of a column already."""

    values: Runs | pa.ChunkedArray
    rows: Span

    def holds(self, rows: Span) -> bool:
        """Whether these rows are among them."""
        return self.rows[0] <= rows[0] and rows[1] <= self.rows[1]

    def of(self, rows: Span, *, encoded: bool = False) -> pa.Array | pa.ChunkedArray:
        """The values of some of them; of texts in runs dictionary-encoded if asked so."""
        if isinstance(self.values, Runs):
            return self.values.of(*rows, encoded=encoded)
        return self.values.slice(rows[0] - self.rows[0], rows[1] - rows[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFilter:
    """One key column, by which the rows that are near are told from others."""

    name: str
    """Its stored name."""
    keep: Keep


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGroup:
    """One row group of an open file."""

    segment: DataFile
    footer: Footer
    number: int

    @property
    def rows(self) -> int:
        """How many it has."""
        return self.footer.groups.rows[self.number]

    def column(self, file: pa.NativeFile, name: str, near: tuple[int, int]) -> ColumnPages | None:
        """The pages of a column that hold the rows `[first, end)`; None where they cannot be read apart. Raises CorruptTable."""
        if (found := self._pages(file, name)) is None:
            return None
        metadata, (leaf, known) = self.footer.metadata, found
        return ColumnPages(
            chunk=metadata.row_group(self.number).column(leaf),
            map=known,
            pages=known.around(*near),
            optional=metadata.schema.column(leaf).max_definition_level > 0,
        )

    def _pages(self, file: pa.NativeFile, name: str) -> tuple[int, PageMap] | None:
        """The number of a column and its pages, remembered; None where they cannot be read apart. Raises CorruptTable."""
        known, key = self.footer.pages, (self.segment.path, self.number, name)
        if key in known:
            return known.get(key)  # another thread may forget it just now
        metadata, schema = self.footer.metadata, self.footer.metadata.schema
        leaf = next((leaf for leaf in range(len(schema)) if schema.column(leaf).path == name), -1)
        sliced = leaf >= 0 and can_slice(metadata, self.footer.schema, self.number, leaf)
        chunks = metadata.row_group(self.number)
        found = _taken(self, partial(map_pages, file, chunks.column(leaf), self.rows)) if sliced else None
        known[key] = told = None if found is None else (leaf, found)
        return told


def kept_positions(predicate: Predicate, values: pa.Table) -> Positions:
    """The rows of a table of one column that a predicate on it alone keeps."""
    told = evaluate_predicate(predicate, values)
    if isinstance(told, pa.Scalar):
        return np.arange(values.num_rows if told.as_py() else 0)
    return np.flatnonzero(told.fill_null(False).to_numpy())


@dataclass(frozen=True, slots=True)
class MatchingRows:
    """Rows of a row group that stages keep, and maybe others."""

    rows: pa.Table
    exact: bool
    """Whether there are no others."""


def read_candidates(
    file: pa.NativeFile, group: RowGroup, wanted: ColumnProjection, stages: Sequence[KeyFilter], seen: dict[str, CachedColumns]
) -> MatchingRows | None:
    """Those rows of a row group that the stages keep, and maybe rows between them.

    None where the row group is to be read whole: nearly all of its rows are near, or pages cannot be read apart. What the stages read is put
    into `seen`, by column. Raises CorruptTable.
    """
    near = candidate_ranges(file, group, stages, seen)
    if near is None or near.rows > MOST_ROWS * group.rows:
        return None
    if not near.spans:
        return MatchingRows(wanted.schema(group.footer.schema).empty_table(), exact=True)
    tables = [read_between(file, group, wanted, span, seen) for span in near.spans]
    return None if any(table is None for table in tables) else MatchingRows(_owned(pa.concat_tables(tables)), near.exact)


def _owned(rows: pa.Table) -> pa.Table:
    """The same rows, copied where they would hold much memory that others lie in: pages, and columns that stages read."""
    if rows.get_total_buffer_size() <= 2 * rows.nbytes:
        return rows
    return rows.take(arrow_of(np.arange(rows.num_rows)))


def candidate_rows(file: pa.NativeFile, group: RowGroup, stages: Sequence[KeyFilter]) -> Span | None:
    """The rows `[first, end)` of a row group among which are all that the stages keep; none where both are the same.

    None where pages cannot be read apart. Raises CorruptTable.
    """
    near = candidate_ranges(file, group, stages, {})
    return None if near is None else near.hull


def candidate_ranges(
    file: pa.NativeFile, group: RowGroup, stages: Sequence[KeyFilter], seen: dict[str, CachedColumns]
) -> RowRanges | None:
    """As `near_rows`, in stretches with pages between them."""
    near = RowRanges(((0, group.rows),), exact=True)
    for stage in stages:
        first, end = near.hull
        if end - first <= FEW_ROWS:
            return replace(near, exact=first == end)
        found = _near(file, group, stage, near.hull, seen)
        if found is None:
            return None
        near = near.both(found)
    return near


def _near(
    file: pa.NativeFile, group: RowGroup, stage: KeyFilter, near: Span, seen: dict[str, CachedColumns]
) -> RowRanges | None:
    """The stretches of the rows `near` that one stage keeps; None where that cannot be told."""
    column = group.column(file, stage.name, near)
    if column is None:
        return None
    kind = group.footer.schema.field(stage.name).type
    runs = _taken(group, partial(coded_runs, file, column, kind))
    if runs is not None:
        seen[stage.name] = CachedColumns(runs, near)
        wanted = np.zeros(len(runs.values), dtype=np.bool_)
        wanted[stage.keep(pa.table([runs.values], [stage.name]))] = True
        return runs.spans(wanted, *near)
    numbers = _taken(group, partial(number_values, file, column, kind, *near))
    if numbers is None:
        found = _parsed(file, group, [column], near, encoded_columns(group.footer.metadata, [stage.name], [group.number]))
    else:
        found = pa.table([numbers], [stage.name])
    kept = _kept(found, stage.keep)
    if found.column(0).type == kind:
        seen[stage.name] = CachedColumns(found.column(0), near)
    return None if kept is None else merged(near[0] + kept, near[0] + kept + 1)


def _kept(rows: pa.Table, keep: Keep) -> Positions | None:
    """The positions that a stage keeps; of a dictionary's values each is asked about once. None where nulls are among them."""
    column = rows.column(0)
    if not pa.types.is_dictionary(column.type):
        return keep(rows)
    masks = [np.zeros(0, dtype=np.bool_)]
    for chunk in column.chunks:
        if chunk.null_count:
            return None
        wanted = np.zeros(len(chunk.dictionary), dtype=np.bool_)
        wanted[keep(pa.table([chunk.dictionary], rows.column_names))] = True
        masks.append(wanted[chunk.indices.to_numpy(zero_copy_only=False)])
    return np.flatnonzero(np.concatenate(masks))


def read_between(
    file: pa.NativeFile,
    group: RowGroup,
    wanted: ColumnProjection,
    near: Span,
    seen: Mapping[str, CachedColumns] = MappingProxyType({}),
) -> pa.Table | None:
    """The rows `near`, out of the pages that hold them; None where pages cannot be read apart. Columns in `seen` are not read again.

    Raises CorruptTable.
    """
    left: dict[tuple[int, int], list[ColumnPages]] = {}
    columns: dict[str, pa.Array | pa.ChunkedArray] = {}
    for name in wanted.names:
        encoded = name in wanted.dictionaries
        if name in seen and seen[name].holds(near):
            columns[name] = seen[name].of(near, encoded=encoded)
            continue
        column = group.column(file, name, near)
        if column is None:
            return None
        taken = _taken(group, partial(_values, file, column, group.footer.schema.field(name).type, near, encoded=encoded))
        if taken is None:
            left.setdefault(column.rows, []).append(column)
        else:
            columns[name] = taken
    for together in left.values():
        names = {column.chunk.path_in_schema for column in together}
        rows = _parsed(file, group, together, near, [name for name in wanted.dictionaries if name in names])
        columns |= dict(zip(rows.column_names, rows.columns, strict=True))
    return pa.table([columns[name] for name in wanted.names], list(wanted.names))


def _values(file: pa.NativeFile, column: ColumnPages, kind: pa.DataType, near: Span, *, encoded: bool) -> pa.Array | None:
    """The rows `near` of a column, where its pages can be taken as they lie; of texts dictionary-encoded if asked so."""
    numbers = number_values(file, column, kind, *near)
    runs = coded_runs(file, column, kind) if numbers is None else None
    return numbers if runs is None else runs.of(*near, encoded=encoded)


def _taken(group: RowGroup, take: Callable[[], T]) -> T:
    """What was taken out of pages. Raises CorruptTable."""
    try:
        return take()
    except (pa.ArrowException, OSError) as error:
        raise _damaged(group, error) from error


def _parsed(
    file: pa.NativeFile,
    group: RowGroup,
    columns: Sequence[ColumnPages],
    near: tuple[int, int],
    dictionaries: Sequence[str] = (),
) -> pa.Table:
    """Rows `[first, end)` of columns whose pages hold the same rows, as Arrow reads them."""
    chosen = pa.schema([group.footer.schema.field(column.chunk.path_in_schema) for column in columns])
    data, (first, end) = slice_file(file, chosen, columns), columns[0].rows
    with parse_source(pa.BufferReader(data), group.segment, None, dictionaries) as source:
        rows = _taken(group, partial(source.read, use_threads=False))
    if rows.num_rows != end - first:
        raise _damaged(group, ValueError(f"pages of row group {group.number} give {rows.num_rows} rows and not {end - first}"))
    return rows.slice(near[0] - first, near[1] - near[0])


def _damaged(group: RowGroup, error: Exception) -> CorruptTable:
    """The error for pages that are not what they were; where they lie is forgotten: it was read of the file as it is, and that may be mended."""
    group.footer.pages.clear()
    return damaged(group.segment, error)
