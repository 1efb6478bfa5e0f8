"""The rows of a sorted row group that a filter may keep, found by its keys, so that no pages of other columns are read than theirs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.model.data_file import DataFile
from gapless.parquet.footer import Footer, damaged
from gapless.parquet.page_map import PageMap, map_pages
from gapless.parquet.page_slice import ColumnPages, can_slice, slice_file
from gapless.parquet.source import encoded_columns, parse_source
from gapless.scan.expression import to_expression
from gapless.scan.predicate import Predicate

FEW_ROWS = 16_384
"""So many rows are read without a further look for those that are near: pages have about as many."""

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

    def pages(self, file: pa.NativeFile, name: str) -> tuple[int, PageMap] | None:
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
    numbered = pa.table([values.column(0), pa.array(np.arange(values.num_rows))], [values.column_names[0], "\0number"])
    kept: Positions = numbered.filter(to_expression(predicate, values.schema)).column(1).to_numpy()
    return kept


def read_near(file: pa.NativeFile, group: RowGroup, names: Sequence[str], stages: Sequence[Stage]) -> pa.Table | None:
    """Those rows of a row group that the stages keep, and maybe rows between them, in the columns `names`, which have stored names.

    None where pages cannot be read apart, and the row group is to be read whole. Raises CorruptTable.
    """
    near = 0, group.rows
    for stage in stages:
        if near[1] - near[0] <= FEW_ROWS:
            break
        found = _read(file, group, [stage.name], near, encoded_columns(group.footer.metadata, [stage.name], [group.number]))
        kept = None if found is None else _kept(found, stage.keep)
        if kept is None:
            return None
        near = (near[0] + int(kept[0]), near[0] + int(kept[-1]) + 1) if len(kept) else (0, 0)
    if near[0] < near[1]:
        return _read(file, group, names, near)
    return pa.schema([group.footer.schema.field(name) for name in names]).empty_table()


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


def _read(
    file: pa.NativeFile, group: RowGroup, names: Sequence[str], near: tuple[int, int], dictionaries: Sequence[str] = ()
) -> pa.Table | None:
    """Rows `[first, end)` of some columns, out of the pages that hold them."""
    parts: dict[tuple[int, int], list[ColumnPages]] = {}
    for name in names:
        if (found := group.pages(file, name)) is None:
            return None
        leaf, known = found
        column = ColumnPages(
            chunk=group.footer.metadata.row_group(group.number).column(leaf), map=known, pages=known.around(*near)
        )
        parts.setdefault(column.rows, []).append(column)
    columns: dict[str, pa.ChunkedArray] = {}
    for (first, end), together in parts.items():
        chosen = pa.schema([group.footer.schema.field(column.chunk.path_in_schema) for column in together])
        rows = _parsed(slice_file(file, chosen, together), group, end - first, dictionaries)
        columns |= dict(zip(rows.column_names, rows.slice(near[0] - first, near[1] - near[0]).columns, strict=True))
    return pa.table([columns[name] for name in names], list(names))


def _parsed(data: pa.Buffer, group: RowGroup, expected: int, dictionaries: Sequence[str]) -> pa.Table:
    with parse_source(pa.BufferReader(data), group.segment, None, dictionaries) as file:
        try:
            rows = file.read(use_threads=False)
        except (pa.ArrowException, OSError) as error:
            group.footer.pages.clear()  # the file may be mended, and where its pages lie was read of it as it is
            raise damaged(group.segment, error) from error
    if rows.num_rows != expected:
        group.footer.pages.clear()
        raise damaged(
            group.segment, ValueError(f"pages of row group {group.number} give {rows.num_rows} rows and not {expected}")
        )
    return rows
