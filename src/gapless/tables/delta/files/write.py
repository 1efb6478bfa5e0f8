"""Write rows as data files or change files of a Delta table, split by partition."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gapless.files.pages.encodings import Encodings
from gapless.files.write.file_writer import ROW_GROUP_BYTES
from gapless.files.write.staged_files import StagedFiles
from gapless.formats.delta.actions import AddFile, CdcFile, TableState
from gapless.formats.delta.file_path import log_path
from gapless.formats.delta.partitions import encode_value, folder_of
from gapless.formats.delta.properties import Settings
from gapless.formats.delta.schema.types import StructField, StructType
from gapless.formats.delta.stats_codec import ColumnPath
from gapless.model.instant import NS_PER
from gapless.runtime.concurrency import Call, in_order
from gapless.runtime.environment import Environment
from gapless.store.open import probe_put_if_absent
from gapless.tables.delta.files.data_file import DataFile, EncodedFile, StoredColumns, codec_profile

Codes = npt.NDArray[np.integer[Any]]
_FEW = 1 << 16


def split(batch: pa.RecordBatch, columns: Sequence[str]) -> Iterator[tuple[tuple[pa.Scalar, ...], pa.RecordBatch]]:
    """The rows of each partition, with its values, in their order; whole batches are not copied.

    >>> batch = pa.record_batch({"p": ["a", "b", "a"], "x": [1, 2, 3]})
    >>> [(key[0].as_py(), rows["x"].to_pylist()) for key, rows in split(batch, ["p"])]
    [('a', [1, 3]), ('b', [2])]
    """
    if not batch.num_rows:
        return
    if not columns:
        yield (), batch
        return
    codes = _codes([batch.column(name) for name in columns], batch.num_rows)
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.concatenate([[0], np.flatnonzero(np.diff(ordered)) + 1])
    rows = batch if len(starts) == 1 else batch.take(pa.array(order))
    for start, end in zip(starts, [*starts[1:], batch.num_rows], strict=True):
        piece = rows.slice(start, end - start)
        yield tuple(piece.column(name)[0] for name in columns), piece


def _codes(columns: Sequence[pa.Array], rows: int) -> Codes:
    """For each row, a number that is that of all rows with the same values."""
    codes, size = np.zeros(rows, np.int64), 1
    for column in columns:
        encoded: Any = pc.dictionary_encode(column, null_encoding="encode")
        count = len(encoded.dictionary)
        codes = codes * count + encoded.indices.to_numpy(zero_copy_only=False)
        size *= count
        if size > _FEW:
            # Narrowed again, so that the numbers cannot grow out of 64 bits.
            known, codes = np.unique(codes, return_inverse=True)
            size = len(known)
    # Numbers of 16 bits are sorted many times as fast.
    return codes.astype(np.uint16) if size <= _FEW else codes


@dataclass(slots=True)
class StagedWrite(StagedFiles):
    """Files staged for one commit: data, change data, deletion vectors. `put` stores one, `discard` removes all."""

    instant_ms: int
    """When it began, in milliseconds since 1970 UTC: its files' modification time, as the log says it."""

    @classmethod
    def begin(cls, env: Environment, *, committed_here: bool = True) -> StagedWrite:
        """An attempt with nothing in it, begun now; pass its `ahead` and `discard` to its `Proposal`.

        The first one in a process tries the store; raises StoreError where that lets two creates of one object win.
        """
        probe_put_if_absent(env.store)
        return cls(env, env.clock.now_ns() // NS_PER["ms"], committed_here=committed_here)


TARGET_BYTES = 128 << 20
"""About how large a data file becomes where the table does not say it."""
HELD_BYTES = 256 << 20
"""What files in the making may hold in memory together; the largest are closed then."""
_WORTH_A_GROUP = 16
"""A share of that: with so many rows a file has a row group made of them before any is closed,"""
_LEAST_GROUP_BYTES = 1 << 20
"""if they take so much of Arrow's memory."""
CHANGES_FOLDER = "_change_data"
CLUSTERING = "delta.clustering"
"""The domain that says by which columns a table is clustered."""

Texts = tuple[str | None, ...]
"""Partition values as the log has them, in the order of the partition columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The schema, partitioning, properties and size of a version's files."""

    schema: StructType
    """The table's, logical names."""
    partition_by: tuple[str, ...]
    settings: Settings
    target_bytes: int
    """About how large a data file becomes."""
    clustered: tuple[ColumnPath, ...] = ()
    """Physical paths of the columns that the table is clustered by."""
    hidden: tuple[StructField, ...] = ()
    """Columns of data files that are none of the table's, without statistics: who its rows are."""

    @classmethod
    def of(cls, state: TableState, *, target_bytes: int | None = None, hidden: tuple[StructField, ...] = ()) -> Target:
        """That of a table at a version; files of the size of its `delta.targetFileSize`, or of `target_bytes`."""
        settings = Settings.of(state.configuration)
        return cls(
            schema=state.metadata.schema,
            partition_by=state.metadata.partition_by,
            settings=settings,
            target_bytes=target_bytes or settings.target_file_size or TARGET_BYTES,
            clustered=_clustered(state),
            hidden=hidden,
        )

    def columns(self, *, changes: bool = False) -> StoredColumns:
        """What its data files, or files of change rows, hold."""
        columns = StoredColumns.of(self.schema, self.partition_by, self.settings, clustered=self.clustered, changes=changes)
        return columns if changes else columns.with_hidden(self.hidden)

    @property
    def physical_partition_by(self) -> tuple[str, ...]:
        """What the log calls the partition columns."""
        names = {one.name: one.physical_name for one in self.schema.fields}
        return tuple(names[name] for name in self.partition_by)


def _clustered(state: TableState) -> tuple[ColumnPath, ...]:
    """What the domain of the clustering feature says; nothing where it says nothing that makes sense."""
    domain = state.domains.get(CLUSTERING)
    try:
        columns = json.loads(domain.configuration)["clusteringColumns"] if domain is not None else []
        return tuple(tuple(map(str, path)) for path in columns)
    except (ValueError, TypeError, KeyError):
        return ()


def write_rows(
    attempt: StagedWrite, target: Target, batches: Iterable[pa.RecordBatch], *, data_change: bool = True
) -> list[AddFile]:
    """Store rows as data files; each has rows of one partition, in the order in which they came.

    `batches` have all columns of the table, partition columns too, by their logical names, in the types of
    `arrow_types.to_arrow(target.schema)` and in any order; what must be checked was (`checks.checked`). No rows make no file. Holds about
    256 MiB of rows at most, however many partitions there are. Raises StoreError, InvalidValue (a partition value no log can hold).
    """
    writer = DataFiles.begin(attempt, target)
    writer.write(batches)
    writer.close()
    return writer.added(data_change=data_change)


def write_changes(attempt: StagedWrite, target: Target, batches: Iterable[pa.RecordBatch]) -> list[CdcFile]:
    """Store rows of the change feed under `_change_data/`: the table's columns and `_change_type` (string: "insert", "delete",
    "update_preimage" or "update_postimage"). The rest is as in `write_rows`.
    """
    columns = target.columns(changes=True)
    writer = DataFiles(attempt=attempt, target=target, columns=columns, prefix="cdc", folder=CHANGES_FOLDER)
    writer.write(batches)
    writer.close()
    return [CdcFile(path=one.path, partition_values=one.values, size=one.size) for one in writer.stored]


@dataclass(frozen=True, slots=True)
class _Stored:
    """A file that was stored."""

    path: str
    """As the log has it."""
    values: Mapping[str, str | None]
    size: int
    stats: str


@dataclass(slots=True, kw_only=True)
class DataFiles:
    """Files in the making, one for each partition that rows have come of: each is stored once it is large enough, or room is needed."""

    attempt: StagedWrite
    target: Target
    columns: StoredColumns
    prefix: str
    folder: str = ""
    open: dict[Texts, DataFile] = field(default_factory=dict)
    stored: list[_Stored] = field(default_factory=list)
    encodings: Encodings | None = None
    """What the first file of many rows was found to deserve."""
    held_bytes: int = 0
    pinned_bytes: int = 0
    """Of the batches that rows of open files may be slices of, which so stay in memory whole."""
    most_held_bytes: int = field(default_factory=lambda: HELD_BYTES)

    @classmethod
    def begin(cls, attempt: StagedWrite, target: Target, most_held_bytes: int | None = None) -> DataFiles:
        """Data files of a table, which may hold so much in memory together, or `HELD_BYTES`."""
        most = most_held_bytes or HELD_BYTES
        return cls(attempt=attempt, target=target, columns=target.columns(), prefix="part", most_held_bytes=most)

    def copy(self) -> DataFiles:
        """Others with the same rows so far, which go on by themselves."""
        return replace(self, open={texts: file.copy() for texts, file in self.open.items()}, stored=[*self.stored])

    def write(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Add rows, as `write_rows` takes them. Raises as that."""
        for batch in batches:
            for values, rows in split(batch, self.target.partition_by):
                texts = (encode_value(value, column=name) for name, value in zip(self.target.partition_by, values, strict=True))
                self._add(tuple(texts), pa.Table.from_batches([rows]))
            if self.held_bytes > self.most_held_bytes:
                self._make_room()
            elif self.target.partition_by and self.pinned_bytes > self.most_held_bytes:
                self._let_go()

    def close(self) -> None:
        """Finish and store all files. Raises StoreError."""
        self._close(list(self.open))

    def added(self, *, data_change: bool = True) -> list[AddFile]:
        """The files that are stored, as the log adds them."""
        return [
            AddFile(
                path=one.path,
                partition_values=one.values,
                size=one.size,
                modified_ms=self.attempt.instant_ms,
                data_change=data_change,
                stats=one.stats,
            )
            for one in self.stored
        ]

    def _add(self, texts: Texts, rows: pa.Table) -> None:
        group_bytes = min(ROW_GROUP_BYTES, self.target.target_bytes)
        size = int(rows.nbytes)
        self.pinned_bytes += size
        parts = max(1, size // group_bytes)
        step = -(-rows.num_rows // parts)
        for start in range(0, rows.num_rows, step):
            self._add_part(texts, rows.slice(start, step), group_bytes)

    def _add_part(self, texts: Texts, rows: pa.Table, group_bytes: int) -> None:
        file = self.open.get(texts)
        if file is None:
            file = self.open[texts] = DataFile(self.columns, group_bytes)
        before = file.memory_bytes
        file.add(rows)
        self.held_bytes += file.memory_bytes - before
        if file.size >= self.target.target_bytes:
            self._close([texts])

    def _make_room(self) -> None:
        """Encode what waits, where it is much, and close the largest files until half of what may be held is free."""
        for file in self.open.values():
            file.encode_waiting(max(_LEAST_GROUP_BYTES, self.most_held_bytes // _WORTH_A_GROUP))
        left = self.held_bytes = sum(file.memory_bytes for file in self.open.values())
        closed: list[Texts] = []
        for texts in sorted(self.open, key=lambda texts: -self.open[texts].memory_bytes):
            if left <= self.most_held_bytes // 2:
                break
            left -= self.open[texts].memory_bytes
            closed.append(texts)
        self._close(closed)
        self._let_go()

    def _let_go(self) -> None:
        """Let rows that wait hold nothing but themselves: of a batch with many rows of one partition a single one of another may be left."""
        for file in self.open.values():
            file.own_memory()
        self.pinned_bytes = 0

    def _close(self, partitions: list[Texts]) -> None:
        """Finish the files of some partitions, side by side, and store them in this order."""
        files = [self.open.pop(texts) for texts in partitions]
        self.held_bytes -= sum(file.memory_bytes for file in files)
        texts = iter(partitions)
        # The first tells how to encode the others.
        for some in (files[:1], files[1:]):
            width = pa.cpu_count() if len(some) > 1 else 1
            for encoded in in_order((Call(partial(file.finish, self.encodings)) for file in some), width=width):
                self._store(next(texts), encoded)
            self.encodings = self.encodings or next((file.encodings for file in some if file.encodings), None)

    def _store(self, texts: Texts, encoded: EncodedFile) -> None:
        names = self.target.physical_partition_by
        parts = (self.folder, folder_of(list(zip(names, texts, strict=True))), self._file_name())
        path = "/".join(part for part in parts if part)
        self.attempt.put(path, *encoded.pieces)
        self.stored.append(_Stored(log_path(path), dict(zip(names, texts, strict=True)), encoded.size, encoded.stats))

    @property
    def _suffix(self) -> str:
        compression = codec_profile(self.target.settings.codec).compression
        return ".parquet" if compression == "none" else f".{compression}.parquet"

    def _file_name(self) -> str:
        return f"{self.prefix}-{len(self.attempt.written):05}-{self.attempt.env.ids.uuid()}{self._suffix}"
