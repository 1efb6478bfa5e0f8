"""Change records applied to a Delta table, so that its change feed tells each of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from gapless.cdc.keyed_records import EachOnce, check_key, rounds, rows_of_records
from gapless.cdc.record import Record
from gapless.errors import InvalidOption
from gapless.files.compare.keys import KeySet
from gapless.files.compare.row_diff import CHANGE_TYPE, DELETE
from gapless.formats.delta.deletion_vector import Positions
from gapless.formats.delta.operation_ids import kind_of_change
from gapless.model.operation import OperationArgument, OperationId, SequenceId, parse_operation
from gapless.tables.delta.expressions.checks import GENERATED
from gapless.tables.delta.handle import context_of
from gapless.tables.delta.merge.row_changes import apply_keyed_changes
from gapless.tables.delta.table import DeltaTable
from gapless.tables.delta.write.inputs import IDENTITY
from gapless.tables.shared.landing import ChangeOutcome
from gapless.tables.shared.row_changes import KeyedChanges

_KIND = kind_of_change("MERGE", {})
_PART = "/part"
_PART_BITS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyReport:
    """What records did to a table; of commits that were made before, what is known of them."""

    version: int
    """The table's version after them."""
    commits: int
    """How many commits they were made in."""
    already_applied: bool
    """Whether all of them had been made before."""
    inserted_rows: int
    updated_rows: int
    deleted_rows: int
    repeated: int
    """How many records came again, with the source and place of another."""
    late: int
    """How many were left out, since one of their source and row with a higher place came before them."""


def apply(
    table: DeltaTable, records: Iterable[Record], *, key: str | Sequence[str], operation_id: OperationArgument = None
) -> ApplyReport:
    """Apply records to a Delta table in their order: "c" and "r" insert, "u" updates, "d" deletes the row with the record's `_id`.

    Args:
        table: Where its `delta.enableChangeDataFeed` is true, `gl.cdc.changes` gives equal records back: "r" as "c", and none for updates that change nothing.
        records: Images have the table's columns; those that one lacks become null.
        key: The columns that `_id` is: one, or those in it by name.
        operation_id: As of other changes; records that are sent again under it do nothing, however far they came. Pairs alone: ("orders", 7).

    A commit has one change of each row, with its data and its change file: where a row comes again, the next commit begins. Within a commit the
    change file has them in the records' order (by partition in a table that has some). A "c" of a row that is there updates it, a "u" of one
    that is not inserts it, and a "d" does nothing then.

    Raises InvalidOption, UnknownColumn, UnsupportedType, InvalidValue, InvalidRecord, NotSupported (an append-only table), CommitConflict,
    CommitOutcomeUnknown, UnsupportedTable, CorruptTable, StoreError.
    """
    operation = _operation(operation_id)
    names = check_key(key, table.refresh().schema)
    given = EachOnce.of(records)
    stored = _stored(table, given.records)
    rows = rows_of_records(given.records, stored, names)
    parts = rounds(rows, names)
    if len(parts) >= 1 << _PART_BITS:
        raise InvalidOption(
            f"{len(given.records):,} records need {len(parts):,} commits",
            why="Each change of a row is in a commit of its own",
            fix='Pass fewer at once; a sink of mode="cdc" makes one commit of them, with the last state of each row',
            option="records",
            value=len(given.records),
        )
    outcomes, known = list[ChangeOutcome](), ChangeOutcome.before(context_of(table).snapshot, operation, _KIND)
    if known is not None:
        outcomes, parts = [known], []
    for number, (begin, end) in enumerate(parts):
        named = _named(operation, number, last=number == len(parts) - 1)
        outcomes.append(_apply_once(table, rows.slice(begin, end - begin), names, named))
    tallies = [one.tally for one in outcomes]
    return ApplyReport(
        version=outcomes[-1].version if outcomes else table.version,
        commits=len(outcomes),
        already_applied=bool(outcomes) and all(one.already for one in outcomes),
        inserted_rows=sum(one.rows - one.updated_rows for one in tallies),
        updated_rows=sum(one.updated_rows for one in tallies),
        deleted_rows=sum(one.removed_rows - one.updated_rows for one in tallies),
        repeated=given.repeated,
        late=given.late,
    )


def _operation(given: OperationArgument) -> SequenceId | None:
    operation = parse_operation(given)
    if operation is None or (isinstance(operation, SequenceId) and operation.sequence < 1 << (63 - _PART_BITS)):
        return operation
    raise InvalidOption(
        f"operation_id={given!r} cannot name records that are applied",
        why="They may take several commits, which are told apart by a number; it grows up to 2^43",
        fix='Pass such as ("orders", 7)',
        option="operation_id",
        value=given,
    )


def _named(operation: SequenceId | None, number: int, *, last: bool) -> OperationId | None:
    """The id of one of the commits: the last has the operation's own, so that it is known only once all are made."""
    if operation is None or last:
        return operation
    return SequenceId(operation.app + _PART, operation.sequence << _PART_BITS | number)


def _stored(table: DeltaTable, records: Sequence[Record]) -> pa.Schema:
    """The columns that the records fill: without those that the table fills itself, and no image has."""
    made = {
        field.name
        for field in context_of(table).snapshot.state.metadata.schema.fields
        if GENERATED in field.metadata or IDENTITY in field.metadata
    }
    made -= {name for one in records for image in (one._before, one._after) for name in image or ()}
    return pa.schema([field for field in table.schema if field.name not in made])


def _apply_once(table: DeltaTable, rows: pa.Table, key: tuple[str, ...], operation: OperationId | None) -> ChangeOutcome:
    """One commit of rows that have different keys."""
    gone = np.array([one == DELETE for one in rows.column(CHANGE_TYPE).to_pylist()], dtype=bool)
    stored = rows.drop_columns([CHANGE_TYPE])
    changes = KeyedChanges(
        puts=stored.filter(pa.array(~gone)),
        deletes=stored.select(list(key)).filter(pa.array(gone)),
        key=key,
        arrived=np.ones(rows.num_rows, dtype=np.int64),
    )
    return apply_keyed_changes(table, changes, operation, order=partial(_order, KeySet.of(stored, key), key))


def _order(known: KeySet, key: tuple[str, ...], told: pa.Table) -> Positions:
    """As the records came: the number of a row's key here is that of its record."""
    first = np.full(known.count + 1, len(known.ids), dtype=np.int64)
    first[known.ids] = np.arange(len(known.ids))
    return np.argsort(first[known.match(told.select(list(key)))], kind="stable")
