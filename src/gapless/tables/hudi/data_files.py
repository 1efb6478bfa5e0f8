"""Base files of a Hudi table, written and read: rows with the columns that Hudi keeps beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gapless.errors import CorruptTable, ObjectNotFound
from gapless.formats.hudi.arrow_schema import META_COLUMNS
from gapless.formats.hudi.names import PARTITION_FILE, file_name
from gapless.formats.hudi.row_keys import partition_paths, record_keys
from gapless.formats.hudi.slices import BaseFile
from gapless.formats.hudi.table_commits import WrittenFile, in_partition
from gapless.formats.hudi.table_config import HudiTableConfig
from gapless.model.convert import Misfit, convert
from gapless.runtime.environment import Environment
from gapless.tables.hudi.lock import HeldLock

_TIME, _NUMBER, _KEY, _PARTITION, _FILE = META_COLUMNS
_META = pa.schema([(name, pa.string()) for name in META_COLUMNS])
_MEASURED_ROWS = 20_000
"""So many rows are encoded to tell how large a file of more would be."""
TARGET_BYTES = 128 << 20
"""About how large data files become on disk."""
SMALL_SHARE = 0.8
"""Files below this share of it are grown by rows that come, as Hudi grows those below 100 of 120 MiB."""


@dataclass(slots=True, kw_only=True)
class FileWriter:
    """Writes the base files of one instant."""

    env: Environment
    config: HudiTableConfig
    schema: pa.Schema
    """The columns of the table, without Hudi's own."""
    instant: str
    target_bytes: int = TARGET_BYTES
    lock: HeldLock | None = None
    """Renewed as files are written."""
    written: list[str] = field(default_factory=list)
    """The paths of what was put, or may have been."""
    _known: set[str] = field(default_factory=set)

    def new_rows(self, rows: pa.Table) -> pa.Table:
        """Rows that come into the table now, with Hudi's columns; each file numbers them anew. Raises InvalidValue."""
        count = rows.num_rows
        numbers = pa.nulls(count, pa.string())
        keys = record_keys(rows, self.config, numbers)
        meta = [pa.repeat(pa.scalar(self.instant), count), numbers, keys, partition_paths(rows, self.config), numbers]
        return pa.table([*meta, *rows.columns], names=[*META_COLUMNS, *rows.column_names])

    def write(self, partition: str, rows: pa.Table, *, inserted: int = 0, updated: int = 0, deleted: int = 0) -> WrittenFile:
        """Rows with Hudi's columns as the first file of a new group. Raises StoreError, and LockLost (of `lock`)."""
        file_id = f"{self.env.ids.uuid()}-0"
        return self._put(partition, file_id, "", rows, (inserted, updated, deleted))

    def rewrite(
        self, before: BaseFile, rows: pa.Table, *, inserted: int = 0, updated: int = 0, deleted: int = 0
    ) -> WrittenFile:
        """The next file of a group, in the place of `before`. Raises StoreError, and LockLost (of `lock`)."""
        return self._put(before.partition, before.file_id, before.name, rows, (inserted, updated, deleted))

    def pieces(self, rows: pa.Table) -> list[pa.Table]:
        """Rows cut so that each piece makes a file of about the size that is wanted."""
        step = max(1, int(self.target_bytes / self.row_bytes(rows)))
        return [rows.slice(start, step) for start in range(0, rows.num_rows, step)]

    def row_bytes(self, rows: pa.Table) -> float:
        """About how many bytes of a file a row takes."""
        some = rows.slice(0, _MEASURED_ROWS)
        if rows.nbytes < self.target_bytes // 16:
            return float(max(1.0, rows.nbytes / max(1, rows.num_rows)))
        return float(max(1.0, len(_encoded(some, "0", "0")) / some.num_rows))

    def _put(self, partition: str, file_id: str, before: str, rows: pa.Table, counts: tuple[int, int, int]) -> WrittenFile:
        number = len(self.written)
        name = file_name(file_id, f"{number}-0-0", self.instant)
        data = _encoded(_numbered(rows, self.instant, number, name, self.config), *_ends(rows))
        if self.lock is not None:
            self.lock.renew()
        if partition not in self._known:
            self._mark_partition(partition)
        path = in_partition(partition, name)
        self.written.append(path)
        self.env.store.put(path, data, mode="overwrite")
        inserted, updated, deleted = counts
        return WrittenFile(
            partition=partition,
            file_id=file_id,
            name=name,
            rows=rows.num_rows,
            size=len(data),
            before=before,
            inserted=inserted,
            updated=updated,
            deleted=deleted,
        )

    def _mark_partition(self, partition: str) -> None:
        """Put what tells Hudi that a folder is a partition, unless it is there."""
        path = in_partition(partition, PARTITION_FILE)
        depth = len(self.config.partition_by)
        try:
            self.env.store.head(path)
        except ObjectNotFound:
            data = f"#partition metadata\ncommitTime={self.instant}\npartitionDepth={depth}\n".encode()
            self.env.store.put(path, data, mode="overwrite")
        self._known.add(partition)


def read_file(env: Environment, file: BaseFile, schema: pa.Schema, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows of a base file in the columns of the table, Hudi's own before them; or in some of these.

    Raises CorruptTable where it is gone, or is not what the table says, StoreError.
    """
    wanted = pa.schema([*_META, *schema])
    names = wanted.names if columns is None else list(columns)
    try:
        source = env.store.local_path(file.path) or pa.BufferReader(env.store.get(file.path))
        with pq.ParquetFile(source) as opened:
            there = opened.schema_arrow.names
            rows = opened.read([name for name in names if name in there])
    except (ObjectNotFound, pa.ArrowException, OSError) as error:
        raise CorruptTable(
            f"{file.path} of the Hudi table at {env.store.url} cannot be read",
            why=f"{type(error).__name__}: {error}",
            fix="Bring it back from a copy of the table",
            path=file.path,
        ) from error
    found = [_column(rows, wanted.field(name), file.path) for name in names]
    return pa.table(found, schema=pa.schema([wanted.field(name) for name in names]))


def _column(rows: pa.Table, field: pa.Field, path: str) -> pa.ChunkedArray:
    at = rows.schema.get_field_index(field.name)
    if at < 0:
        return pa.chunked_array([pa.nulls(rows.num_rows, field.type)])
    column = rows.column(at)
    if column.type == field.type:
        return column
    try:
        return pa.chunked_array([convert(chunk, field.type) for chunk in column.chunks], field.type)
    except Misfit as misfit:
        raise CorruptTable(
            f"{path} holds {field.name!r} as {column.type}, and the table says {field.type}",
            why=misfit.why,
            fix="Read it by Hudi, and write its rows anew there",
            path=path,
        ) from misfit


def _numbered(rows: pa.Table, instant: str, number: int, name: str, config: HudiTableConfig) -> pa.Table:
    """With the numbers of the rows that are new, and the name of the file in all."""
    is_new = pc.is_null(rows.column(_NUMBER))
    texts = pa.array(np.char.add(f"{instant}_{number}_", np.arange(rows.num_rows).astype(str)))
    numbers = pc.if_else(is_new, texts, rows.column(_NUMBER))
    rows = rows.set_column(1, _NUMBER, numbers).set_column(4, _FILE, pa.repeat(pa.scalar(name), rows.num_rows))
    if config.record_key:
        return rows
    return rows.set_column(2, _KEY, pc.coalesce(rows.column(_KEY), numbers))


def _ends(rows: pa.Table) -> tuple[str, str]:
    ends = pc.min_max(rows.column(_KEY)).as_py()
    return ends["min"] or "", ends["max"] or ""


def _encoded(rows: pa.Table, first_key: str, last_key: str) -> bytes:
    rows = rows.replace_schema_metadata({"hoodie_min_record_key": first_key, "hoodie_max_record_key": last_key})
    onto = pa.BufferOutputStream()
    pq.write_table(rows, onto, compression="zstd", store_schema=False)
    data: bytes = onto.getvalue().to_pybytes()
    return data
