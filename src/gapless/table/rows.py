"""Rows that are not read yet: what `scan` and `sql` give back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gapless.scan.columns import check_columns

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl


@dataclass(frozen=True, slots=True)
class Rows:
    """A lazy result over one pinned version of the table; each call reads anew.

    Anything that takes an Arrow stream takes it as it is: `polars.from_arrow(rows)`, `pyarrow.table(rows)`.
    """

    schema: pa.Schema
    """Column names and types of the rows."""
    read: Callable[[], Iterator[pa.RecordBatch]]
    """Starts a read."""

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows as `pyarrow.RecordBatch`es, in bounded memory: for a scan about one row group (64 MiB of Arrow data) and, where
        segments overlap, one sort of about 128 MiB.
        """
        return (batch for batch in self.read() if batch.num_rows)

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows as a `pyarrow.RecordBatchReader`."""
        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches())

    def to_arrow(self, *, dictionary: Sequence[str] = ()) -> pa.Table:
        """All rows as a `pyarrow.Table`; the columns named in `dictionary` come dictionary-encoded. Raises UnknownColumn."""
        table = pa.Table.from_batches(list(self.to_batches()), schema=self.schema)
        check_columns(dictionary, self.schema)
        for name in dictionary:
            table = table.set_column(table.schema.get_field_index(name), name, table.column(name).dictionary_encode())
        return table

    def to_pandas(self) -> pd.DataFrame:
        """All rows as a pandas DataFrame with a RangeIndex; needs pandas."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """All rows as a Polars DataFrame; needs polars."""
        import polars as pl

        frame = pl.from_arrow(self.to_arrow())
        assert isinstance(frame, pl.DataFrame)
        return frame

    def to_duckdb(self) -> duckdb.DuckDBPyRelation:
        """All rows as a DuckDB relation in a connection of its own."""
        import duckdb

        return duckdb.connect().from_arrow(self.to_arrow())

    def count(self) -> int:
        """How many rows there are; reads them."""
        return sum(batch.num_rows for batch in self.to_batches())

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        """The Arrow PyCapsule stream of the rows."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        """The columns; nothing is read."""
        columns = ", ".join(f"{field.name}: {field.type}" for field in self.schema)
        return f"Rows({columns})"
