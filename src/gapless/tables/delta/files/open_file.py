"""Read requests for the data files of a Delta table, and files opened for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gapless.files.pages.footer import LOST, Footer, missing
from gapless.files.read.row_filter import EVERYTHING
from gapless.files.read.row_group_batches import RowGroupBatch
from gapless.formats.delta.actions import AddFile
from gapless.formats.delta.deletion_vector import Positions
from gapless.model.column_ids import ColumnIds
from gapless.model.segment import StoredFile
from gapless.predicate.predicate import Predicate
from gapless.tables.delta.files.paths import ResolvedPath

POSITION = "__gapless_position"
"""The name of the column that counts a file's rows from 0: int64, never null, last."""
SMALL_BYTES = 256 << 10
"""Files of so many bytes are fetched as a whole: that is one request, and one file that is opened."""


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
