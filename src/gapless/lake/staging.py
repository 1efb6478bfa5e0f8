"""Files of a run in the making: rows and quarantined rows, stored under names that their bytes give, before the manifest that names them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from gapless.files.ingest.batches import Batches
from gapless.lake.fitting import FittedRows, as_stored
from gapless.lake.layout.manifest import RunFile
from gapless.lake.layout.schema import LakeSchema
from gapless.lake.objects import PartStore
from gapless.runtime.environment import Environment
from gapless.tables.transfer.parquet_files import write_files

HELD_BYTES = 128 << 20
"""Rows that wait for a file take so much of Arrow's memory at most, or as much as one page."""


@dataclass(slots=True)
class StagedRun:
    """What was written of a run so far."""

    env: Environment
    folder: str
    label: str = ""
    """Stands before the numbers in the names of files: several may stage one run."""
    files: list[RunFile] = field(default_factory=list)
    quarantined: list[RunFile] = field(default_factory=list)
    rows: int = 0
    _held: list[pa.Table] = field(default_factory=list)
    _schema: LakeSchema = field(default_factory=LakeSchema)

    def add(self, fitted: FittedRows, schema: LakeSchema, *, keep: bool = True) -> None:
        """Take the rows of a page; those that are quarantined alone where not `keep`. Raises StoreError."""
        if schema.version != self._schema.version:
            self.flush()
            self._schema = schema
        if fitted.quarantined.num_rows:
            self.quarantined += self._write("quarantine", fitted.quarantined, schema, len(self.quarantined))
        if keep and fitted.rows.num_rows:
            self.add_stored(as_stored(fitted.rows, schema), schema)

    def add_stored(self, rows: pa.Table, schema: LakeSchema) -> None:
        """Take rows as files hold them. Raises StoreError."""
        if schema.version != self._schema.version:
            self.flush()
            self._schema = schema
        self._held.append(rows)
        self.rows += rows.num_rows
        if sum(one.nbytes for one in self._held) >= HELD_BYTES:
            self.flush()

    def flush(self) -> None:
        """Store the rows that wait. Raises StoreError."""
        if self._held:
            rows = pa.concat_tables(self._held)
            self.files += self._write("part", rows, self._schema, len(self.files))
            self._held.clear()

    def _write(self, prefix: str, rows: pa.Table, schema: LakeSchema, first: int) -> list[RunFile]:
        names = list[tuple[str, str]]()

        def named(path: str, data: bytes) -> str:
            digest = hashlib.sha256(data).hexdigest()
            names.append((f"{path}-{digest[:16]}.parquet", digest))
            return names[-1][0]

        def batches() -> Iterator[pa.RecordBatch]:
            yield from rows.combine_chunks().to_batches(max_chunksize=1 << 17)

        store = PartStore(self.env, self.folder, named)
        part = Batches(source=prefix, schema=rows.schema, read=batches, rows_hint=rows.num_rows)
        written = write_files(store, part, lambda number: f"{prefix}-{self.label}{first + number:05}")
        return [
            RunFile(path=name, rows=one.rows, size=one.size, sha256=digest, schema_version=schema.version)
            for one, (name, digest) in zip(written, names, strict=True)
        ]
