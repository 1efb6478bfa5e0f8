"""Write a stream of rows as plain Parquet files, with a mark once all are there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from gapless.errors import UnsupportedType
from gapless.files.ingest.batches import Batches
from gapless.files.pages.column_stats import GrowingStats, column_stats
from gapless.files.pages.encodings import CODEC_PROFILES
from gapless.files.sort.order import Ordered
from gapless.files.write.file_writer import FileWriter, even_groups, fills_group
from gapless.model.protocols import Store
from gapless.model.stats import ColumnStats
from gapless.runtime.committer import nothing

FILE_BYTES = 128 << 20
"""About how large a file becomes."""
SUCCESS = "_SUCCESS"
"""The empty object that is written last, as Hadoop and Spark do."""


class TakesFiles(Protocol):
    """What files are put into: a store, or what stores them under names of its own."""

    def put(self, path: str, data: bytes) -> None:
        """Store a file whole. Raises StoreError."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """A file that was stored."""

    path: str
    rows: int
    size: int
    """Bytes."""
    stats: Mapping[str, ColumnStats]


def part_path(number: int) -> str:
    """What the files of a plain directory are called."""
    return f"part-{number:05}.parquet"


def write_directory(store: Store, part: Batches) -> tuple[int, int]:
    """Store the rows as `part-00000.parquet` and so on, at least one file, and then `_SUCCESS`; gives how many rows and files.

    As `write_files` for the rest.
    """
    files = write_files(store, part, part_path)
    store.put(SUCCESS, b"")
    return sum(one.rows for one in files), len(files)


def write_files(store: TakesFiles, part: Batches, path: Callable[[int], str]) -> list[WrittenFile]:
    """Store the rows in files that are called as `path` says, at least one.

    A file is held in memory until it is whole, with one row group of rows beside it. Raises UnsupportedType for a column that Parquet cannot hold,
    StoreError.
    """
    schema = pa.schema([one.remove_metadata() for one in part.schema])
    files = _Files(store=store, schema=schema, path=path)
    held, size = list[pa.RecordBatch](), 0
    for batch in part:
        held.append(pa.RecordBatch.from_arrays(batch.columns, schema=schema))
        size += batch.nbytes
        if fills_group(sum(one.num_rows for one in held), size):
            files.add(pa.Table.from_batches(held, schema))
            held, size = [], 0
    if held or not files.begun:
        files.add(pa.Table.from_batches(held, schema))
    files.close()
    return files.written


@dataclass(slots=True)
class _Files:
    """Files that are written one after the other."""

    store: TakesFiles
    schema: pa.Schema
    path: Callable[[int], str]
    written: list[WrittenFile] = field(default_factory=list)
    _writer: FileWriter | None = None
    _rows: int = 0
    _stats: dict[str, GrowingStats] = field(default_factory=dict)

    @property
    def begun(self) -> bool:
        """Whether there is a file."""
        return bool(self.written) or self._writer is not None

    def add(self, rows: pa.Table) -> None:
        """Add a row group to the open file, or to a new one."""
        if self._writer is None:
            self._writer = FileWriter(self.schema, CODEC_PROFILES["balanced"], lambda _: {})
            self._rows, self._stats = 0, {}
        self._rows += rows.num_rows
        for name, stats in column_stats(rows, skip="").items():
            self._stats.setdefault(name, GrowingStats()).add(stats, rows.num_rows)
        with _typed():
            self._writer.write(
                Ordered(rows), even_groups(rows) if rows.num_rows else 1, rows.nbytes, ascending=None, meanwhile=nothing
            )
        if self._writer.size >= FILE_BYTES:
            self.close()

    def close(self) -> None:
        """Store the open file, if there is one."""
        if self._writer is not None:
            data = b"".join(self._writer.close().pieces)
            path, stats = self.path(len(self.written)), {name: one.stats for name, one in self._stats.items()}
            self.store.put(path, data)
            self.written.append(WrittenFile(path=path, rows=self._rows, size=len(data), stats=stats))
            self._writer = None


@contextmanager
def _typed() -> Iterator[None]:
    """Raise UnsupportedType for what Arrow does not write into Parquet."""
    try:
        yield
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        raise UnsupportedType(
            "a column of the table cannot be in a Parquet file",
            why=" ".join(str(error).split())[:300],
            fix="Export as timeseries, or append a scan without the column elsewhere",
            column="",
            type="",
        ) from error
