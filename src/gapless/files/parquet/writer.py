"""A Parquet file that is written as its rows come, and told of row group by row group."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from gapless.errors import InvalidOption, InvalidValue, SchemaMismatch, one_of
from gapless.files.pages.encodings import CODEC_PROFILES
from gapless.files.parquet.zone import Zone, zone_of
from gapless.files.sort.order import Ordered
from gapless.files.write.file_writer import MAX_ROW_GROUP_ROWS, ROW_GROUP_BYTES, FileWriter
from gapless.model.convert import Misfit, convert
from gapless.model.fit import refuse_misfit
from gapless.model.properties import CODECS
from gapless.model.protocols import DeferredObject, streams_writes
from gapless.store.open import open_file_store


class Writer:
    """Writes rows to one Parquet file as they come, and keeps what is known of each row group.

    The file is there once it is closed, whole, in place of one that was there before; where the block raises, nothing is. Holds the rows of
    one row group, on a disk not the file.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        schema: pa.Schema,
        *,
        codec: str = "zstd",
        row_group_rows: int = MAX_ROW_GROUP_ROWS,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        """Begin a file.

        Args:
            path: Where it will be, a path or URL; the folder is made.
            schema: The columns.
            codec: As the property of a table: "zstd", "snappy", "fastest" and so on.
            row_group_rows: Rows of a row group at most; one ends earlier at about 64 MiB of Arrow memory.
            storage_options: As a table's.

        Raises InvalidOption, InvalidPath, StoreError.
        """
        if isinstance(row_group_rows, bool) or not row_group_rows >= 1:
            raise InvalidOption(
                f"row_group_rows={row_group_rows!r} is no number of rows",
                fix="Pass 1 or more",
                option="row_group_rows",
                value=row_group_rows,
            )
        self._schema, self._group_rows = schema, row_group_rows
        self._store, self._name = open_file_store(path, storage_options)
        profile = CODEC_PROFILES[one_of("codec", codec, CODECS)]
        self._begun: DeferredObject | None = None
        if streams_writes(self._store):
            self._begun = self._store.begin_deferred(self._name)
        onto = None if self._begun is None else self._begun.write
        self._file = FileWriter(schema, profile, lambda _encodings: {}, onto)
        self._held: list[pa.Table] = []
        self._held_rows = self._rows = 0
        self._zones: list[Zone] = []
        self._open = True

    @property
    def zones(self) -> tuple[Zone, ...]:
        """What is known of each row group that is written; of all, once the file is closed."""
        return tuple(self._zones)

    def write(self, rows: Any) -> None:
        """Add rows: an Arrow table, batch or reader, or what gives an Arrow stream, such as a Polars frame.

        Columns are found by their names, and converted without loss. Raises SchemaMismatch, InvalidValue, StoreError; InvalidOption where the
        file is closed, or for rows of another kind.
        """
        if not self._open:
            raise InvalidOption("the file is closed", fix="Write before close()", option="rows", value=None)
        for batch in _batches(rows):
            self._hold(_fitted(pa.Table.from_batches([batch]), self._schema, self._rows))
            self._rows += batch.num_rows

    def close(self) -> None:
        """Finish the file; a second call does nothing. Raises StoreError."""
        if not self._open:
            return
        self._open = False
        try:
            self._flush()
            if not self._zones:
                self._put(self._schema.empty_table())
            file = self._file.close()
            if self._begun is not None:
                self._begun.finish()
            else:
                self._store.put(self._name, b"".join(file.pieces), mode="overwrite")
        except BaseException:
            self._discard()
            raise
        if streams_writes(self._store):
            self._store.settle([self._name])

    def __enter__(self) -> Self:
        """The writer."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close it, or leave nothing where the block raised."""
        if kind is None:
            self.close()
        elif self._open:
            self._open = False
            self._discard()

    def _discard(self) -> None:
        if self._begun is not None:
            self._begun.discard()

    def _hold(self, rows: pa.Table) -> None:
        """Keep rows until they fill a row group, cut where one is full."""
        while rows.num_rows:
            part = rows.slice(0, self._group_rows - self._held_rows)
            rows = rows.slice(part.num_rows)
            self._held.append(part)
            self._held_rows += part.num_rows
            if self._held_rows >= self._group_rows or sum(one.nbytes for one in self._held) >= ROW_GROUP_BYTES:
                self._flush()

    def _flush(self) -> None:
        if self._held_rows:
            group = pa.concat_tables(self._held).combine_chunks()
            self._held, self._held_rows = [], 0
            self._put(group)
            self._zones.append(zone_of(group))

    def _put(self, group: pa.Table) -> None:
        self._file.write(Ordered(group), max(1, group.num_rows), int(group.nbytes), ascending=None, meanwhile=lambda: None)


def _batches(rows: Any) -> Iterator[pa.RecordBatch]:
    if isinstance(rows, pa.RecordBatch):
        yield rows
    elif hasattr(rows, "__arrow_c_stream__"):
        yield from pa.RecordBatchReader.from_stream(rows)
    else:
        raise InvalidOption(
            f"a {type(rows).__name__} gives no Arrow stream",
            why="Rows come as Arrow data",
            fix="Pass a pyarrow table, batch or reader, or a frame; pa.Table.from_pylist makes one of dicts",
            option="rows",
            value=None,
        )


def _fitted(rows: pa.Table, schema: pa.Schema, first_row: int) -> pa.Table:
    """The same rows under the columns of a file, where they lose nothing by it."""
    names = rows.column_names
    differences = [f"{name}: missing" for name in schema.names if name not in names]
    differences += [f"{name}: not a column of the file" for name in names if name not in schema.names]
    differences += [f"{name}: there twice" for name in schema.names if names.count(name) > 1]
    if differences:
        raise SchemaMismatch(
            f"the rows do not fit the file: {'; '.join(differences)}",
            why="Columns are found by their names",
            fix="Rename them, leave them out, or add them to the schema",
            differences=tuple(differences),
        )
    columns = []
    for field in schema:
        array = rows.column(field.name).combine_chunks()
        if isinstance(array, pa.ChunkedArray):
            array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
        try:
            found = convert(array, field.type)
        except Misfit as misfit:
            raise refuse_misfit(misfit, array, field, first_row) from misfit
        if not field.nullable and found.null_count:
            row = first_row + found.is_null().to_pylist().index(True)
            raise InvalidValue(
                f"column {field.name!r} is null in row {row}",
                why="The schema says that it never is",
                fix="Fill the value in, or declare the column nullable",
                column=field.name,
                row=row,
                value=None,
            )
        columns.append(found)
    return pa.Table.from_arrays(columns, schema=schema)
