"""Check that a Parquet file of another writer has a time-series table's columns as its segments hold them. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from gapless.files.adopt.layout import Layout, column_differences, refuse_layout
from gapless.formats.timeseries.actions import TableMeta
from gapless.formats.timeseries.codec.schema import METADATA_FEATURE


def check_layout(file: Layout, schema: pa.Schema, meta: TableMeta) -> None:
    """Raise SchemaMismatch, with a line for each column, where a reader of the table would not find the file's columns as they are.

    `schema` is the table's once it has taken the file's columns, which `reconcile` accepted by name; `meta` the table's metadata
    before. Compared are types, units and zones, the physical types behind them, stored names, and nulls in columns that have none.
    """
    differences = [*_of_table(meta), *column_differences(file, schema, meta.ids, checked=meta.index.keys)]
    if differences:
        raise refuse_layout(file, differences)


def _of_table(meta: TableMeta) -> Iterator[str]:
    if METADATA_FEATURE in meta.reader_features:
        yield "the table repeats metadata of its columns in every file, and this one lacks them"
