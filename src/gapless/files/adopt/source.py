"""A Parquet file on this machine that is to become a segment: its footer, its key columns, and whether it stays what it was.

What the log may say of a segment's columns that only its footer was asked about.
"""

from __future__ import annotations

import io
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from gapless.errors import UnreadableInput
from gapless.files.adopt.layout import Layout
from gapless.files.ingest.batches import refuse_forbidden
from gapless.files.ingest.input_file import reading
from gapless.files.pages.column_stats import MAX_BOUND_CHARACTERS, MAX_STATS_COLUMNS
from gapless.files.pages.file_assembly import TRAILER
from gapless.files.pages.footer import row_group_stats
from gapless.files.read.source import encoded_columns
from gapless.model.column_ids import PLAIN, ColumnIds
from gapless.model.index import Identity, IndexSpec
from gapless.model.stats import Bound, ColumnStats, stats_value
from gapless.model.types import bare_type
from gapless.model.valid_values import forbidden_values, holds_digits, may_be_forbidden
from gapless.runtime.concurrency import one_ahead

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
                self._refuse_forbidden(batch, self.rows - left)
                left -= batch.num_rows
                yield batch
            self.check_same(self.path.stat())
        if left:
            raise changed(self.path)

    def check_values(self, read: Collection[str] = ()) -> None:
        """Read the columns, but those in `read`, that may hold what their type forbids, such as text that is not UTF-8, and raise InvalidValue.

        Decimals whose footer bounds them are not read. Raises UnreadableInput.
        """
        names = [field.name for field in self.layout.schema if field.name not in read and may_be_forbidden(field.type)]
        names = [name for name in names if not self._is_bounded(name)]
        if not names:
            return
        flat = [name for name in names if bare_type(self.layout.schema.field(name).type) in (pa.string(), pa.binary())]
        row = 0
        with reading(self.path), _parquet(self.path, encoded_columns(self.layout.metadata, flat)) as file:
            for batch in one_ahead(file.iter_batches(batch_size=_BATCH_ROWS, columns=names, use_threads=False)):
                self._refuse_forbidden(batch, row)
                row += batch.num_rows

    def _is_bounded(self, name: str) -> bool:
        """Whether the footer says of all row groups that their decimals have no more digits than the column's type has room for."""
        type_, metadata = self.layout.schema.field(name).type, self.layout.metadata
        if not pa.types.is_decimal(type_):
            return False
        columns = pa.schema([self.layout.schema.field(name)])
        known = [row_group_stats(metadata, number, columns)(name) for number in range(metadata.num_row_groups)]
        return all(one is not None and holds_digits(one.min, type_) and holds_digits(one.max, type_) for one in known)

    def _refuse_forbidden(self, batch: pa.RecordBatch, first_row: int) -> None:
        for column, found in forbidden_values(batch):
            raise refuse_forbidden(column, self.layout.schema.field(column).type, found, first_row, str(self.path))

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


def adopted_stats(
    metadata: pq.FileMetaData,
    names: Sequence[str],
    schema: pa.Schema,
    ids: ColumnIds,
    index: IndexSpec,
    identities: Sequence[Identity],
) -> dict[str, ColumnStats]:
    """Statistics of the first columns of `names` but the index: of entity columns by `identities`, which were read, of others by the footer.

    Bounds of floats are left out: writers differ in what NaN does to them, and the footer does not count it. A bound that a writer cut is
    a bound still. `schema` is the table's, `ids` the identities of its columns.
    """
    first = [name for name in names if name != index.column][:MAX_STATS_COLUMNS]
    found: dict[str, ColumnStats] = {}
    others = footer_stats(metadata, [name for name in first if name not in index.entity], schema, ids)
    for name in first:
        if name in index.entity:
            place = index.entity.index(name)
            found[name] = _of_values((identity[place] for identity in identities), schema.field(name).type)
        elif name in others:
            found[name] = others[name]
    return found


def footer_stats(
    metadata: pq.FileMetaData, names: Sequence[str], schema: pa.Schema, ids: ColumnIds = PLAIN
) -> dict[str, ColumnStats]:
    """What a footer says of columns of a whole file, with bounds as `adopted_stats` tells them; those of which it says nothing are left out."""
    groups = [row_group_stats(metadata, number, schema, ids) for number in range(metadata.num_row_groups)]
    rows = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    found = {
        name: _together([group(name) for group in groups], rows, bounded=not pa.types.is_floating(schema.field(name).type))
        for name in names
    }
    return {name: known for name, known in found.items() if known is not None}


def _of_values(values: Iterable[object], type_: pa.DataType) -> ColumnStats:
    bounds = [stats_value(value, type_) for value in set(values)]
    return _bounded(min(bounds), max(bounds), 0)


def _together(found: Sequence[ColumnStats | None], rows: Sequence[int], *, bounded: bool) -> ColumnStats | None:
    """What holds for all row groups; None where nothing is known."""
    nulls = None if any(one is None or one.nulls is None for one in found) else sum(one.nulls or 0 for one in found if one)
    holding = [one for one, count in zip(found, rows, strict=True) if one is None or one.nulls != count]
    lows = [one.min for one in holding if one is not None and one.min is not None]
    highs = [one.max for one in holding if one is not None and one.max is not None]
    if bounded and holding and len(lows) == len(highs) == len(holding):
        return _bounded(min(lows), max(highs), nulls)
    return None if nulls is None else ColumnStats(nulls=nulls)


def _bounded(low: Bound, high: Bound, nulls: int | None) -> ColumnStats:
    if any(isinstance(bound, str | bytes) and len(bound) > MAX_BOUND_CHARACTERS for bound in (low, high)):
        return ColumnStats(nulls=nulls)
    return ColumnStats(min=low, max=high, nulls=nulls)
