"""Upsert, update, delete and replace: the methods of a table, and the arguments they take."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from gapless.errors import InvalidOption, one_of
from gapless.files.ingest.batches import Batches
from gapless.model.index import IndexSpec
from gapless.model.operation import AppendReport, ChangeReport, OperationArgument, parse_operation
from gapless.predicate.range import check_entity_values
from gapless.tables.shared.inputs.rows import ReadParts, parts_of
from gapless.tables.shared.landing import ChangeOutcome, skip_applied
from gapless.tables.timeseries.correct.operations import ON_DUPLICATE, Delete, OnDuplicate, Replace, ReplaceCovered, Upsert
from gapless.tables.timeseries.correct.rewrite import Correction, Rewriter
from gapless.tables.timeseries.handle import Handle
from gapless.tables.timeseries.read.scan import ScanRequest
from gapless.tables.timeseries.read.values import format_index_value, parse_index_value


def parse_upsert(key: object, on_duplicate: object, given: Sequence[Iterable[str]]) -> Upsert:
    """The upsert by these arguments of `upsert`, of input whose parts have the columns `given`; raises InvalidOption."""
    columns = _parse_key(key)
    return Upsert(
        key=columns,
        on_duplicate=_parse_on_duplicate(on_duplicate),
        given=tuple(map(frozenset, given)),
        parameters=_said(key=None if columns is None else list(columns), on_duplicate=on_duplicate),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectionArguments:
    """Which rows of a table a caller means, as `scan` takes it; end and start are no columns' names but ends of the index."""

    start: object = None
    end: object = None
    where: str | pc.Expression | None = None
    entity: Mapping[str, object] | None = None

    def delete(self, index: IndexSpec, schema: pa.Schema | None, operation: str = "delete") -> Delete:
        """The deletion of these rows; raises InvalidOption where nothing bounds them, InvalidTime, UnknownColumn."""
        if self.where is None and self.start is None and self.end is None and not self.entity:
            raise InvalidOption(
                "delete without a condition would delete every row",
                why="That is more often forgotten than meant",
                fix='Pass where=, start=, end= or entity=; delete(where="true") deletes all rows',
                option="where",
                value=None,
            )
        said = self._span(index, schema) | _said(where=None if self.where is None else str(self.where))
        return Delete(request=self._request(), operation=operation, parameters=said)

    def replace(self, index: IndexSpec, schema: pa.Schema | None) -> Replace:
        """The replacement of these rows; raises InvalidTime, UnknownColumn, InvalidOption."""
        return Replace(request=self._request(), parameters=self._span(index, schema))

    def _request(self) -> ScanRequest:
        return ScanRequest(start=self.start, end=self.end, where=self.where, entity=self.entity or {}, columns=None, order=None)

    def _span(self, index: IndexSpec, schema: pa.Schema | None) -> dict[str, object]:
        """Range and entities as the log says them; raises what wrong ones deserve."""
        ends = {
            name: None if value is None else parse_index_value(value, index, schema, name=name)
            for name, value in (("start", self.start), ("end", self.end))
        }
        said = {name: None if value is None else format_index_value(value, index, schema) for name, value in ends.items()}
        wanted = check_entity_values(index, schema, self.entity or {})
        entity = {name: [v.isoformat() if isinstance(v, date) else v for v in values] for name, values in wanted.items()}
        return _said(**said, entity=entity or None)


def parse_span(span: object) -> tuple[object, object]:
    """The ends of a range that is given as (start, end); raises InvalidOption."""
    if isinstance(span, tuple | list) and len(span) == 2:
        return span[0], span[1]
    raise InvalidOption(
        f"{span!r} is no range",
        why="A range is (start, end), half-open",
        fix="Pass two index values",
        option="span",
        value=span,
    )


def _said(**given: object) -> dict[str, object]:
    return {name: value for name, value in given.items() if value is not None}


def _parse_key(key: object) -> tuple[str, ...] | None:
    if key is None:
        return None
    columns = (key,) if isinstance(key, str) else tuple(key) if isinstance(key, Iterable) else ()
    if columns and all(isinstance(name, str) for name in columns) and len(set(columns)) == len(columns):
        return columns
    raise InvalidOption(
        f"key={key!r} names no columns",
        why="A key is one column or several different ones",
        fix='Pass key="id" or key=["site", "id"], or leave it out for the entity columns and the index',
        option="key",
        value=key,
    )


def _parse_on_duplicate(value: object) -> OnDuplicate:
    return one_of("on_duplicate", value, ON_DUPLICATE)


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
        A segment whose rows would be what they are is not written anew, and where the table has every row already, nothing counts and
        nothing is committed but the operation id. Raises DuplicateKey, SchemaMismatch, NullKey and the other DataErrors, UnknownColumn, InvalidOption, CommitConflict,
        CommitOutcomeUnknown, UpgradeNeeded, CorruptTable, StoreError.
        """
        upsert = parse_upsert(key, on_duplicate, ())
        return self._with_publications(
            self._correct("upsert", upsert.of_input, partial(_held, data, self.schema), operation_id).change_report
        )

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
        asked = CorrectionArguments(start=start, end=end, where=where, entity=entity)
        return self._delete(asked.delete(self.index, self.schema), operation_id)

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
        asked = CorrectionArguments(start=start, end=end, entity=entity)
        replacement = asked.replace(self.index, self.schema)
        return self._with_publications(
            self._correct("replace", lambda _: replacement, partial(_held, data, self.schema), operation_id).change_report
        )

    def drop_before(self, time: object, *, operation_id: OperationArgument = None) -> ChangeReport:
        """Delete all rows whose index value lies before `time` (an index value, as in `scan`): retention.

        Segments that end before it fall away by metadata alone; one that reaches across is written anew. Raises as `delete`.
        """
        parse_index_value(time, self.index, self.schema, name="time")
        deletion = CorrectionArguments(end=time).delete(self.index, self.schema, "drop_before")
        return self._delete(deletion, operation_id)

    def _delete(self, deletion: Delete, operation_id: object) -> ChangeReport:
        return self._with_publications(self._correct(deletion.operation, lambda _: deletion, tuple, operation_id).change_report)

    def _replace_covered(self, parts: Sequence[Batches], operation_id: object, *, by_table: bool) -> AppendReport:
        """`append(on_overlap="replace")`, or an append where that is the table's policy."""
        replacement = ReplaceCovered(by_table=(lambda: self.version) if by_table else None)
        return self._correct("append", lambda _: replacement, lambda: [*map(_read_once, parts)], operation_id).append_report

    def _correct(
        self, kind: str, correction: Callable[[Sequence[Batches]], Correction], read: ReadParts, operation_id: object
    ) -> ChangeOutcome:
        """Make the correction of this kind that is meant by an input of these parts, unless its operation was applied already: then none is read."""
        operation = parse_operation(operation_id)
        context = self._context
        newest = context.refresh()
        self._check_writable()
        if (known := skip_applied(context.committer, newest, operation, kind)) is not None:
            return known
        parts = read()
        return Rewriter(context=context, operation=operation).apply(newest, correction(parts), parts)


def _held(data: object, table: pa.Schema | None) -> list[Batches]:
    """The parts of an input, held in memory once they are read."""
    return [*map(_read_once, parts_of(data, table))]


def _read_once(part: Batches) -> Batches:
    """The same rows, which are read when first asked for and then kept."""
    held: list[pa.RecordBatch] | None = None

    def read() -> Iterator[pa.RecordBatch]:
        nonlocal held
        if held is None:
            held = list(part)
        return iter(held)

    return replace(part, read=read)
