"""Changing rows that are there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from gapless.model.operation import parse_operation_id
from gapless.model.report import AppendReport, ChangeReport
from gapless.parquet.batches import Batches
from gapless.table.asked import Asked, asked_upsert, parse_span
from gapless.table.correction import OnDuplicate, ReplaceCovered
from gapless.table.handle import Handle
from gapless.table.inputs import as_batches
from gapless.table.rewrite import Correction, Rewriter
from gapless.table.values import parse_index_value

OperationArgument = tuple[str, int] | str | None


class Corrections(Handle):
    """Upsert, delete, replace: each is one commit to the newest version, made anew where another's came first into what it decided about.

    Only segments that can hold a touched row are opened, and only those that do are written anew; the others stay byte for byte. Input is
    held in memory, the table never is: at most about a row group of it at a time, and the encoded bytes of one segment before and after.
    """

    def upsert(
        self,
        data: object,
        *,
        key: str | Sequence[str] | None = None,
        on_duplicate: OnDuplicate = "error",
        operation_id: OperationArgument = None,
    ) -> ChangeReport:
        """Put rows in the place of all rows that have their key; rows with a new key are added.

        Args:
            data: What `append` takes, with all of the table's columns: a row takes the place of whole rows.
            key: The columns that tell rows apart; without it the entity columns and the index. Any columns of plain types: null equals
                null, NaN equals NaN, and -0.0 equals 0.0. With another key a row may move to another time or identity.
            on_duplicate: What to do where several rows of `data` have one key: "error" refuses them, "last" takes the one that arrives last.
            operation_id: As in `append`.

        Several rows of the table with one key all give way to the one row. The report counts `rows` = `inserted_rows` + `updated_rows`.
        Raises DuplicateKey, SchemaMismatch, NullKey and the other DataErrors, UnknownColumn, InvalidOption, CommitConflict,
        CommitOutcomeUnknown, UpgradeNeeded, CorruptTable, StoreError.
        """
        parts = _held(data)
        upsert = asked_upsert(key, on_duplicate, [part.schema.names for part in parts])
        return self._correct(upsert, parts, operation_id)

    def delete(
        self,
        where: str | pc.Expression | None = None,
        *,
        start: object = None,
        end: object = None,
        entity: Mapping[str, object] | None = None,
        operation_id: OperationArgument = None,
    ) -> ChangeReport:
        """Delete the rows that `scan` with these arguments gives: those for which the condition is true. One that is null keeps its row.

        Segments of which every row certainly goes are removed without being read. With no condition at all it is refused: `where="true"`
        says all rows. The report counts `removed_rows`. Raises InvalidOption, InvalidFilter, InvalidTime, UnknownColumn, CommitConflict,
        CommitOutcomeUnknown, UpgradeNeeded, CorruptTable, StoreError.
        """
        asked = Asked(start=start, end=end, where=where, entity=entity)
        return self._correct(asked.delete(self.index, self.schema), (), operation_id)

    def replace(
        self,
        span: tuple[object, object],
        data: object,
        *,
        entity: Mapping[str, object] | None = None,
        operation_id: OperationArgument = None,
    ) -> ChangeReport:
        """Put rows in the place of all rows of a range of the index, in one commit: readers see the old rows or the new ones.

        Args:
            span: (start, end): the first index value and the one just past the range, as in `scan`; None is an open end.
            data: What `append` takes, in any order; rows outside the range, or of other entities, are refused. No rows delete the range.
            entity: Values of entity columns, as in `scan`: rows of others stay.
            operation_id: As in `append`.

        The report counts `rows` and `removed_rows`. Raises InvalidValue for a row outside, and what `upsert` and `delete` raise.
        """
        start, end = parse_span(span)
        asked = Asked(start=start, end=end, entity=entity)
        return self._correct(asked.replace(self.index, self.schema), _held(data), operation_id)

    def drop_before(self, time: object, *, operation_id: OperationArgument = None) -> ChangeReport:
        """Delete all rows whose index value lies before `time` (an index value, as in `scan`): retention.

        Segments that end before it fall away by metadata alone; one that reaches across is written anew. Raises as `delete`.
        """
        parse_index_value(time, self.index, self.schema, name="time")
        return self._correct(Asked(end=time).delete(self.index, self.schema, "drop_before"), (), operation_id)

    def _replace_covered(self, parts: Sequence[Batches], operation_id: object, *, by_table: bool) -> AppendReport:
        """`append(on_overlap="replace")`, or an append where that is the table's policy."""
        replacement = ReplaceCovered(by_table=(lambda: self.version) if by_table else None)
        report = self._correct(replacement, tuple(map(_read_once, parts)), operation_id)
        return AppendReport.of(report, report.version, already_applied=report.already_applied)

    def _correct(self, correction: Correction, parts: tuple[Batches, ...], operation_id: object) -> ChangeReport:
        operation = None if operation_id is None else parse_operation_id(operation_id)
        committer = self._committer
        newest = committer.refresh(self._snapshot)
        self._check_writable()
        rewriter = Rewriter(committer=committer, cache=self._cache, grid=self._grid, operation=operation)
        done = rewriter.apply(newest, correction, parts)
        return ChangeReport.of(done.tally, done.version, already_applied=done.already)


def _held(data: object) -> tuple[Batches, ...]:
    """An object's rows, or those of several open files, held in memory once they are read; parts without columns left out."""
    parts: Sequence[object] = data if isinstance(data, list | tuple) and any(isinstance(p, Batches) for p in data) else (data,)
    batches = (part if isinstance(part, Batches) else as_batches(part) for part in parts)
    return tuple(_read_once(part) for part in batches if part.schema.names)


def _read_once(part: Batches) -> Batches:
    """The same rows, which are read when first asked for and then kept."""
    held: list[pa.RecordBatch] | None = None

    def read() -> Iterator[pa.RecordBatch]:
        nonlocal held
        if held is None:
            held = list(part)
        return iter(held)

    return replace(part, read=read)
