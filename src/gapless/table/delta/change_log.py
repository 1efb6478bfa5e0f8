"""Rows of the change feed on their way into files, a bounded number at a time."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from gapless.dialects.delta.actions import CdcFile
from gapless.parquet.delta.attempt import Attempt
from gapless.parquet.delta.write import Target, write_changes
from gapless.parquet.row_diff import CHANGE_TYPE, DELETE, INSERT, POSTIMAGE, PREIMAGE
from gapless.table.delta.row_edit import Edit

_HELD_BYTES = 64 << 20


@dataclass(slots=True, kw_only=True)
class ChangeLog:
    """What a change took away and brought, as the feed tells it."""

    attempt: Attempt
    target: Target
    _held: list[pa.Table] = field(default_factory=list)
    _bytes: int = 0
    _files: list[CdcFile] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was told yet."""
        return not (self._held or self._files)

    def add(self, rows: pa.Table, change: str) -> None:
        """Tell of rows, all of the table's columns, that all changed in one way."""
        if not rows.num_rows:
            return
        told = rows.append_column(CHANGE_TYPE, pa.repeat(pa.scalar(change, pa.string()), rows.num_rows))
        self._held.append(told)
        self._bytes += told.nbytes
        if self._bytes >= _HELD_BYTES:
            self._flush()

    def add_edit(self, rows: pa.Table, edit: Edit) -> None:
        """Tell what became of some rows."""
        self.add(rows.filter(pa.array(edit.gone)), DELETE)
        self.add(rows.filter(pa.array(edit.changed)), PREIMAGE)
        self.add(edit.after, POSTIMAGE)

    def add_inserts(self, rows: pa.Table) -> None:
        """Tell of rows that are new."""
        self.add(rows, INSERT)

    def add_deletes(self, rows: pa.Table) -> None:
        """Tell of rows that are gone."""
        self.add(rows, DELETE)

    def finish(self) -> list[CdcFile]:
        """Its files, all stored."""
        self._flush()
        return self._files

    def _flush(self) -> None:
        batches = (batch for table in self._held for batch in table.to_batches())
        if self._held:
            self._files += write_changes(self.attempt, self.target, batches)
        self._held, self._bytes = [], 0
