"""The rows of one checkpoint in the making: held in memory as the table stores them, then staged in its files."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from gapless.errors import SchemaMismatch
from gapless.files.write.staged_files import StagedFiles
from gapless.model.convert import Misfit, convert
from gapless.model.fit import refuse_misfit
from gapless.model.operation import SequenceId
from gapless.model.widening import why_not
from gapless.runtime.committer import calling_on_error
from gapless.tables.shared.prepared import PreparedCommit

SPILL_BYTES = 256 << 20
"""Arrow memory of rows that are held before they are staged, and memory that files in the making hold."""


class Epoch(Protocol):
    """The rows of one checkpoint in the making."""

    def fit(self, rows: pa.Table) -> list[pa.RecordBatch]:
        """Rows as they are stored. Raises DataError where one does not fit."""
        ...

    def add(self, rows: Sequence[pa.RecordBatch], *, close: bool) -> Callable[[], None]:
        """Take fitted rows: all of them, or none. With `close` all files in the making are finished and written, and it may have no rows.

        Gives what undoes it, and removes files that were written by it; not to be called once more was added. Raises StoreError.
        """
        ...

    @property
    def attempt(self) -> StagedFiles:
        """The files that are written, and those of them that may not be durable yet."""
        ...

    def prepared(self, operation: SequenceId, change: Mapping[str, Any], attempt: str) -> PreparedCommit:
        """The document that says all, of rows that lie in finished files; not stored yet. Raises what the change certainly deserves."""
        ...


@dataclass(slots=True, kw_only=True)
class RunningEpoch:
    """The checkpoint in the making."""

    epoch: Epoch
    attempt: str
    begun_ns: int
    """Since 1970 UTC, by the writer's clock."""
    rows: int = 0
    """How many it has taken, those that are stored too."""
    held: list[pa.RecordBatch] = field(default_factory=list)
    """Fitted rows that are not stored yet."""
    held_bytes: int = 0
    """Of the rows alone: to stage slices of a large batch sooner, in many small files, would not free that."""
    tried: list[PreparedCommit] = field(default_factory=list)
    """Documents of it that may be stored, though no answer came."""
    since_s: float | None = None
    """When the first row came that may lie in no finished file yet, by the monotonic clock."""

    def waited(self, now_s: float) -> float:
        """For how many seconds rows may wait for their file to be finished."""
        return 0.0 if self.since_s is None else now_s - self.since_s

    def hold(self, rows: list[pa.RecordBatch], now_s: float) -> None:
        """Keep fitted rows in memory, from now on."""
        if self.since_s is None:
            self.since_s = now_s
        self.held += rows
        self.rows += sum(batch.num_rows for batch in rows)
        self.held_bytes += sum(batch.nbytes for batch in rows)

    def release(self, rows: list[pa.RecordBatch]) -> None:
        """Hold these no longer, which came last and are not stored."""
        if self.held:
            del self.held[len(self.held) - len(rows) :]
            self.rows -= sum(batch.num_rows for batch in rows)
            self.held_bytes -= sum(batch.nbytes for batch in rows)

    def store(self, *, close: bool = False) -> None:
        """Stage what is held, and make files that are finished by it durable: with `close` all of them. After an error it is held still.

        Raises StoreError.
        """
        with calling_on_error(self.epoch.add(self.held, close=close)):
            self.epoch.attempt.settle()
        self._let_go(closed=close)

    @contextlib.contextmanager
    def closed(self) -> Iterator[None]:
        """Within it the epoch has all rows, in finished files, which may not be durable. Where it fails, rows are held as before."""
        with calling_on_error(self.epoch.add(self.held, close=True)):
            yield
        self._let_go(closed=True)

    def _let_go(self, *, closed: bool) -> None:
        self.held, self.held_bytes = [], 0
        if closed:
            self.since_s = None


def conformed(rows: pa.Table, schema: pa.Schema, undeclared: Collection[str]) -> pa.Table:
    """Rows with the columns and types that were told, in that order; `undeclared` are columns of which nobody declared the type, which are
    of another one where it holds them. Raises SchemaMismatch.
    """
    told, came = set(schema.names), rows.column_names
    differences = [f"{name}: was not told" for name in came if name not in told]
    differences += [f"{name}: is missing" for name in schema.names if came.count(name) != 1]
    if not differences:
        for field in schema:
            column = rows.column(field.name)
            fits = field.name in undeclared and why_not(column.type, field.type) is None
            if column.type != field.type and not pa.types.is_null(column.type) and not fits:
                differences.append(f"{field.name}: {field.type} was told, {column.type} came")
    if differences:
        raise SchemaMismatch(
            f"the rows have other columns than the sink was told: {'; '.join(differences)}",
            why="initialize(schema) said which columns and types come",
            fix="Send these columns in these types, or prepare what there is and call initialize with the new schema",
            differences=tuple(differences),
        )
    return pa.table([_as_told(rows.column(field.name), field) for field in schema], schema=schema)


def _as_told(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    """Values of a type that fits, as the type that was told. Raises InvalidValue for one that it does not hold."""
    row, chunks = 0, []
    for chunk in column.chunks:
        try:
            chunks.append(convert(chunk, field.type))
        except Misfit as misfit:
            raise refuse_misfit(misfit, chunk, field, row) from None
        row += len(chunk)
    return pa.chunked_array(chunks, field.type)
