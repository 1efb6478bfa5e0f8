"""The rows of a sorted row group that a filter may keep, found by its keys, so that no pages of other columns are read than theirs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.errors import CorruptTable
from gapless.model.data_file import DataFile
from gapless.parquet.footer import Footer, damaged
from gapless.parquet.page_map import PageMap, map_pages
from gapless.parquet.page_slice import ColumnPages, can_slice, slice_file
from gapless.parquet.page_values import coded_runs, plain_values
from gapless.parquet.source import encoded_columns, parse_source
from gapless.scan.expression import to_expression
from gapless.scan.predicate import Predicate

FEW_ROWS = 16_384
"""So many rows are read without a further look for those that are near: pages have about as many."""

MOST_ROWS = 0.5
"""Where more than this share of a row group is near, it is read whole, columns side by side, and filtered then."""

T = TypeVar("T")

Positions = npt.NDArray[np.int64]
Keep = Callable[[pa.Table], Positions]
"""The rows of a table of one column that a filter may keep, ascending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
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
        """The pages of a column that hold the rows `[first, end)`; None where they cannot be read apart."""
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
        """The number of a column and its pages, remembered; None where they cannot be read apart."""
        known, key = self.footer.pages, (self.segment.path, self.number, name)
        if key in known:
            return known.get(key)  # another thread may forget it just now
        metadata, schema = self.footer.metadata, self.footer.metadata.schema
        leaf = next((leaf for leaf in range(len(schema)) if schema.column(leaf).path == name), -1)
        sliced = leaf >= 0 and can_slice(metadata, self.footer.schema, self.number, leaf)
        found = map_pages(file, metadata.row_group(self.number).column(leaf), self.rows) if sliced else None
        known[key] = told = None if found is None else (leaf, found)
        return told


def kept_positions(predicate: Predicate, values: pa.Table) -> Positions:
    """The rows of a table of one column that a predicate on it alone keeps."""
    from pyarrow import acero

    given = acero.Declaration("table_source", acero.TableSourceNodeOptions(values))
    project = acero.ProjectNodeOptions([to_expression(predicate, values.schema)], [""])
    told = acero.Declaration("project", project, [given])
    kept = told.to_table(use_threads=False).column(0)
    return np.flatnonzero(kept.fill_null(False).to_numpy())


def read_near(file: pa.NativeFile, group: RowGroup, names: Sequence[str], stages: Sequence[Stage]) -> pa.Table | None:
    """Those rows of a row group that the stages keep, and maybe rows between them, in the columns `names`, which have stored names.

    None where the row group is to be read whole: nearly all of its rows are near, or pages cannot be read apart. Raises CorruptTable.
    """
    near = near_rows(file, group, stages)
    if near is None or near[1] - near[0] > MOST_ROWS * group.rows:
        return None
    if near[0] < near[1]:
        return read_between(file, group, names, near)
    return pa.schema([group.footer.schema.field(name) for name in names]).empty_table()


def near_rows(file: pa.NativeFile, group: RowGroup, stages: Sequence[Stage]) -> tuple[int, int] | None:
    """The rows `[first, end)` of a row group among which are all that the stages keep; none where both are the same.

    None where pages cannot be read apart. Raises CorruptTable.
    """
    near = 0, group.rows
    for stage in stages:
        if near[1] - near[0] <= FEW_ROWS:
            break
        narrowed = _near(file, group, stage, near)
        if narrowed is None:
            return None
        near = narrowed
    return near


def _near(file: pa.NativeFile, group: RowGroup, stage: Stage, near: tuple[int, int]) -> tuple[int, int] | None:
    """Those of the rows `[first, end)` that one stage keeps, and rows between them; None where that cannot be told."""
    column = group.column(file, stage.name, near)
    if column is None:
        return None
    runs = _taken(group, partial(coded_runs, file, column, group.footer.schema.field(stage.name).type))
    if runs is not None:
        wanted = np.zeros(len(runs.values), dtype=np.bool_)
        wanted[stage.keep(pa.table([runs.values], [stage.name]))] = True
        return runs.spans(wanted, *near)
    found = _parsed(file, group, [column], near, encoded_columns(group.footer.metadata, [stage.name], [group.number]))
    kept = _kept(found, stage.keep)
    if kept is None:
        return None
    return (near[0] + int(kept[0]), near[0] + int(kept[-1]) + 1) if len(kept) else (near[0], near[0])


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


def read_between(file: pa.NativeFile, group: RowGroup, names: Sequence[str], near: tuple[int, int]) -> pa.Table | None:
    """Rows `[first, end)`, of which there is one at least, in some columns, out of the pages that hold them; None where pages cannot be read
    apart. Raises CorruptTable.
    """
    left: dict[tuple[int, int], list[ColumnPages]] = {}
    columns: dict[str, pa.Array | pa.ChunkedArray] = {}
    for name in names:
        column = group.column(file, name, near)
        if column is None:
            return None
        taken = _taken(group, partial(_values, file, column, group.footer.schema.field(name).type, near))
        if taken is None:
            left.setdefault(column.rows, []).append(column)
        else:
            columns[name] = taken
    for together in left.values():
        rows = _parsed(file, group, together, near)
        columns |= dict(zip(rows.column_names, rows.columns, strict=True))
    return pa.table([columns[name] for name in names], list(names))


def _values(file: pa.NativeFile, column: ColumnPages, kind: pa.DataType, near: tuple[int, int]) -> pa.Array | None:
    """Rows `[first, end)` of a column, where its pages can be taken as they lie."""
    numbers = plain_values(file, column, kind, *near)
    runs = coded_runs(file, column, kind) if numbers is None else None
    return numbers if runs is None else runs.of(*near)


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
