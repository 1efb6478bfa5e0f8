"""What the log says of a data file's columns, taken from its rows in memory, table by table."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from gapless.dialects.delta.properties import Settings
from gapless.dialects.delta.schema import StructType
from gapless.dialects.delta.stats_codec import ColumnPath, Leaf, encode_stats, indexed_leaves, leaves
from gapless.parquet.column_stats import GrowingStats, stats_of


def indexed_columns(stored: StructType, settings: Settings, clustered: tuple[ColumnPath, ...] = ()) -> tuple[Leaf, ...]:
    """The columns that get statistics: those that the table's properties say, and those it is clustered by.

    `stored` is the schema without partition columns; `clustered` are physical paths. Fields of structs count by themselves.
    """
    chosen = indexed_leaves(stored, settings)
    return (*chosen, *(leaf for leaf in leaves(stored) if leaf.physical in clustered and leaf not in chosen))


class FileStatsBuilder:
    """Takes in the rows of one file, and says in the end what the log shall say of them."""

    def __init__(self, schema: StructType, indexed: tuple[Leaf, ...], text_length: int) -> None:
        """Texts in what it says are cut to `text_length` characters."""
        self._schema, self._indexed, self._text_length = schema, indexed, text_length
        self._rows = 0
        self._columns: dict[ColumnPath, GrowingStats] = {}

    def add(self, table: pa.Table) -> None:
        """Take in rows as the file has them, under physical names."""
        self._rows += table.num_rows
        for leaf in self._indexed:
            # A text's bound is cut when the log is written, and may be of any length until then.
            found = stats_of(column_at(table, leaf.physical), longest=None)
            self._columns.setdefault(leaf.path, GrowingStats()).add(found, table.num_rows)

    @property
    def rows(self) -> int:
        """Rows taken in so far."""
        return self._rows

    def text(self) -> str:
        """The statistics as the log has them."""
        columns = {path: growing.stats for path, growing in self._columns.items()}
        return encode_stats(self._rows, columns, self._schema, text_length=self._text_length)


def column_at(table: pa.Table, path: ColumnPath) -> pa.ChunkedArray:
    """A column, or the field of one at a path through structs: null where any of them is."""
    column = table.column(path[0])
    return pc.struct_field(column, list(path[1:])) if len(path) > 1 else column
