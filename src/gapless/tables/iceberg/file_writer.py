"""Rows written as data files of an Iceberg table, those of each partition in files of their own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyiceberg.manifest import DataFile
from pyiceberg.table.metadata import TableMetadata

from gapless.files.write.staged_files import StagedFiles
from gapless.tables.iceberg.data_files import FileFormatOf
from gapless.tables.iceberg.partitions import Partitions
from gapless.tables.iceberg.table import last_sequence
from gapless.tables.shared.prepared import PreparedFile

TARGET_BYTES = 128 << 20
"""About how large a data file becomes where nobody says it."""
HELD_BYTES = 256 << 20
"""What rows that wait for their files may hold in memory together."""
_OURS = re.compile(r"data/(?:[^/]+/)*gapless-(\d+)-\d{5,}-[0-9a-f-]{36}\.parquet", re.ASCII)

Values = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A data file that is stored."""

    file: PreparedFile
    described: DataFile


@dataclass(slots=True, kw_only=True)
class DataFiles:
    """Files in the making, one for each partition that rows have come of."""

    attempt: StagedFiles
    format: FileFormatOf
    partitions: Partitions
    location: Callable[[str], str]
    """What metadata calls an object of the store."""
    base: int
    """The table's last sequence number when these began: no snapshot up to that names them."""
    target_bytes: int = TARGET_BYTES
    held_bytes: int = HELD_BYTES
    open: dict[Values, list[pa.RecordBatch]] = field(default_factory=dict)
    stored: list[WrittenFile] = field(default_factory=list)
    shrink: float = 1.0
    """Bytes on disk for each in memory, as the last file had them."""

    @classmethod
    def of(
        cls,
        attempt: StagedFiles,
        metadata: TableMetadata,
        location: Callable[[str], str],
        target_bytes: int | None = None,
        held_bytes: int | None = None,
    ) -> DataFiles:
        """For the current columns and partitions. Raises UnsupportedTable for partitions that cannot be written."""
        form = FileFormatOf.of(metadata)
        said = metadata.properties.get("write.target-file-size-bytes", "")
        return cls(
            attempt=attempt,
            format=form,
            partitions=Partitions.of(form.spec, form.schema),
            location=location,
            base=last_sequence(metadata),
            target_bytes=target_bytes or (int(said) if said.isdigit() and int(said) else TARGET_BYTES),
            held_bytes=held_bytes or HELD_BYTES,
        )

    def copy(self) -> DataFiles:
        """Others with the same rows so far, which go on by themselves."""
        return replace(self, open={values: [*rows] for values, rows in self.open.items()}, stored=[*self.stored])

    def write(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Add rows in the table's columns and plain types. Raises StoreError."""
        for batch in batches:
            for values, rows in self.partitions.split(batch):
                self.open.setdefault(values, []).append(rows)
                if _held(self.open[values]) * self.shrink >= self.target_bytes:
                    self._close(values)
            self._make_room()

    def close(self) -> None:
        """Store all that waits. Raises StoreError."""
        for values in list(self.open):
            self._close(values)

    @property
    def described(self) -> list[DataFile]:
        """The stored files, as manifests name them."""
        return [one.described for one in self.stored]

    def _make_room(self) -> None:
        held = {values: _held(rows) for values, rows in self.open.items()}
        left = sum(held.values())
        if left <= self.held_bytes:
            return
        for values in sorted(held, key=lambda values: -held[values]):
            self._close(values)
            left -= held[values]
            if left <= self.held_bytes // 2:
                return

    def _close(self, values: Values) -> None:
        rows = pa.Table.from_batches(self.open.pop(values))
        pieces = max(1, min(rows.num_rows, int(rows.nbytes * self.shrink // self.target_bytes)))
        step = -(-rows.num_rows // pieces)
        for start in range(0, rows.num_rows, step):
            self._store(values, rows.slice(start, step))

    def _store(self, values: Values, rows: pa.Table) -> None:
        data = self.format.encode(rows)
        folder = self.partitions.folder(values) if values else ""
        name = f"gapless-{self.base}-{len(self.stored):05}-{self.attempt.env.ids.uuid()}.parquet"
        path = "/".join(part for part in ("data", folder, name) if part)
        self.attempt.put(path, memoryview(data))
        self.shrink = min(1.0, data.size / max(1, rows.nbytes))
        described = self.format.describe(self.location(path), data, values, rows)
        self.stored.append(WrittenFile(PreparedFile(path=path, rows=rows.num_rows, size=data.size), described))


def _held(rows: list[pa.RecordBatch]) -> int:
    return sum(one.nbytes for one in rows)


def base_of(path: str) -> int | None:
    """The sequence number of the table when a data file of ours was begun, by its path below the root; None for another's."""
    match = _OURS.fullmatch(path)
    return None if match is None else int(match[1])
