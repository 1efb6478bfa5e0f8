"""A Parquet file on this machine that is to become a segment: its footer, its key columns, and whether it stays what it was."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from gapless.errors import UnreadableInput
from gapless.model.index import IndexSpec
from gapless.parquet.adopt_layout import Layout
from gapless.parquet.ahead import one_ahead
from gapless.parquet.file_shell import TRAILER
from gapless.parquet.source import encoded_columns
from gapless.parquet.text_files import reading

_BATCH_ROWS = 1 << 18


@dataclass(frozen=True, slots=True)
class Stamp:
    """What tells that a file is the one it was, with the bytes it had."""

    device: int
    inode: int
    size: int
    """Bytes."""
    modified_ns: int

    @classmethod
    def of(cls, info: os.stat_result) -> Stamp:
        """The stamp of a file that was looked at."""
        return cls(info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A file that is to become a segment."""

    path: Path
    stamp: Stamp
    layout: Layout

    @classmethod
    def open(cls, path: Path) -> Source:
        """Read a file's footer; raises UnreadableInput, also for one that is encrypted."""
        with reading(path):
            stamp = Stamp.of(path.stat())
            with _parquet(path) as file:
                layout = Layout(source=str(path), schema=file.schema_arrow.remove_metadata(), metadata=file.metadata)
                _refuse_encrypted(path, file.metadata)
        return cls(path=path, stamp=stamp, layout=layout)

    @property
    def rows(self) -> int:
        """How many rows it holds, as its footer says."""
        return int(self.layout.metadata.num_rows)

    def keys(self, index: IndexSpec) -> Iterator[pa.RecordBatch]:
        """The entity columns, texts as dictionaries, and the index column; at most a row group of them is held, and decoded ahead.

        Raises UnreadableInput, also where the file was written to since its footer was read, or has other rows than that says.
        """
        texts = [name for name in index.entity if not pa.types.is_primitive(self.layout.schema.field(name).type)]
        left = self.rows
        with reading(self.path), _parquet(self.path, encoded_columns(self.layout.metadata, texts)) as file:
            # Others copy the file and look at what is decoded meanwhile: more threads would only be in their way.
            for batch in one_ahead(file.iter_batches(batch_size=_BATCH_ROWS, columns=list(index.keys), use_threads=False)):
                left -= batch.num_rows
                yield batch
            self.check_same(self.path.stat())
        if left:
            raise changed(self.path)

    def check_same(self, info: os.stat_result) -> None:
        """Raise UnreadableInput where the file, as it was looked at now, is not the one whose footer was read."""
        if Stamp.of(info) != self.stamp:
            raise changed(self.path)


def changed(path: Path) -> UnreadableInput:
    """The error for a file that was written to, or exchanged, while it was read."""
    return UnreadableInput(
        f"{path} changed while it was read",
        why="What was looked at and what would become the segment are not the same bytes; nothing was kept",
        fix="Wait until whoever writes it has finished, then append it again",
        source=str(path),
    )


@contextmanager
def _parquet(path: Path, dictionaries: Sequence[str] = ()) -> Iterator[pq.ParquetFile]:
    # An open file, not its path: pyarrow must see neither a URI in it nor partitions such as Year=2022.
    with pa.OSFile(str(path), "r") as source:
        yield pq.ParquetFile(source, read_dictionary=list(dictionaries) or None, page_checksum_verification=True)


def _refuse_encrypted(path: Path, metadata: pq.FileMetaData) -> None:
    """Raise UnreadableInput where a signature follows the footer: columns may be encrypted then, and Arrow ends the process at a look at them."""
    with path.open("rb") as file:
        file.seek(-TRAILER, io.SEEK_END)
        length = int.from_bytes(file.read(4), "little")
    if length != metadata.serialized_size:
        raise UnreadableInput(
            f"{path} cannot be read",
            why=f"Its footer of {length:,} bytes holds {metadata.serialized_size:,} and a signature: its columns are encrypted",
            fix="Write it anew, decrypted",
            source=str(path),
        )
