"""`delete`, `upsert`, `replace` and `drop-before`; `delta update`, `delta merge` and `delta dedup`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated

import pyarrow as pa

from gapless.cli.options import (
    AnyTable,
    DeltaTableRef,
    IndexRange,
    InputFiles,
    JsonFlag,
    OperationText,
    TableRef,
    UpgradeFlag,
    argument,
    file_noun,
    flag,
    option,
    parse_entity,
    parse_mapping,
    parse_operation,
    refuse_given,
)
from gapless.cli.show.console import print_line, write_json
from gapless.cli.show.rows import row_progress
from gapless.cli.write import NewColumns
from gapless.errors import InvalidOption
from gapless.model.operation import ChangeReport
from gapless.tables import delta
from gapless.tables.shared.findings import count
from gapless.tables.timeseries.table import TimeSeriesTable

Condition = Annotated[str | None, option("SQL", "Which rows; `true` is every row. Those for which it is null stay.")]


def delete(
    table: TableRef,
    part: IndexRange,
    where: Condition = None,
    operation_id: OperationText = None,
    upgrade: UpgradeFlag = False,
    json: JsonFlag = False,
) -> None:
    """Delete the rows that `scan` with the same options shows, as one commit.

    Example: gapless delete prices --entity symbol=NVDA --where 'close < 0'
    """
    opened, operation = table.open(part, upgrade=upgrade), parse_operation(operation_id)
    if isinstance(opened, TimeSeriesTable):
        entity = parse_entity(opened, part.entity)
        report = opened.delete(where, start=part.start, end=part.end, entity=entity, operation_id=operation)
    else:
        report = opened.delete(where, operation_id=operation)
    _print_changed(opened, report, json=json)


def delta_delete(
    table: DeltaTableRef, where: Condition = None, operation_id: OperationText = None, json: JsonFlag = False
) -> None:
    """Delete rows, as one commit. Files that hold none of them stay as they are.

    Example: gapless delta delete trips --where 'fare < 0'
    """
    delete(table, IndexRange(), where, operation_id, json=json)


def upsert(
    table: TableRef,
    rows: InputFiles,
    key: Annotated[
        list[str] | None,
        option("COLUMN", "A column of the key; may be repeated. The entity columns and the index where not given."),
    ] = None,
    on_duplicate: Annotated[
        str, option("RULE", "Where rows of the files share a key: error refuses them, last takes the one that comes last.")
    ] = "error",
    operation_id: OperationText = None,
    upgrade: UpgradeFlag = False,
    json: JsonFlag = False,
) -> None:
    """Upsert rows by their key: replace those that are there and add the others, as one commit.

    Example: gapless upsert prices corrected.csv
    """
    opened = table.open_series(upgrade=upgrade)
    with row_progress(f"upserting {rows.label}") as done:
        report = opened.upsert(
            rows.read(opened, done),
            key=key or None,
            on_duplicate=on_duplicate,  # type: ignore[arg-type]  # checked there, with a message of its own
            operation_id=parse_operation(operation_id),
        )
    _print_changed(opened, report, json=json)


def replace(
    table: TableRef,
    rows: InputFiles,
    part: IndexRange,
    operation_id: OperationText = None,
    upgrade: UpgradeFlag = False,
    json: JsonFlag = False,
) -> None:
    """Replace all rows of a range by the rows of files, as one commit; rows outside it are refused.

    Example: gapless replace prices day.parquet --start 2026-01-05T00:00Z --end 2026-01-06T00:00Z
    """
    if part.start is None and part.end is None and not part.entity:
        raise InvalidOption(
            "replace without a range would replace every row",
            why="That is more often forgotten than meant",
            fix="Say --start, --end or --entity; in Python table.replace((None, None), rows) replaces all rows",
            option="start",
            value=None,
        )
    opened = table.open_series(upgrade=upgrade)
    with row_progress(f"replacing by {rows.label}") as done:
        report = opened.replace(
            (part.start, part.end),
            rows.read(opened, done),
            entity=parse_entity(opened, part.entity),
            operation_id=parse_operation(operation_id),
        )
    _print_changed(opened, report, json=json)


def drop_before(
    table: TableRef,
    time: Annotated[str, argument("TIME", "The first index value that stays, such as 2013-01-31T06:00Z.")],
    operation_id: OperationText = None,
    upgrade: UpgradeFlag = False,
    json: JsonFlag = False,
) -> None:
    """Delete all rows before a time; segments that end before it are removed without being read.

    Their files stay for older versions until `gapless expire` and `gapless vacuum` delete them.

    Example: gapless drop-before prices 2024-01-01T00:00Z
    """
    opened = table.open_series(upgrade=upgrade)
    _print_changed(opened, opened.drop_before(time, operation_id=parse_operation(operation_id)), json=json)


def update(
    table: DeltaTableRef,
    values: Annotated[
        list[str], option("COLUMN=SQL", "A column and its new value, such as 'fare=fare * 1.1'; may be repeated.", "--set")
    ],
    where: Condition = None,
    operation_id: OperationText = None,
    json: JsonFlag = False,
) -> None:
    """Update columns of the rows that a condition names, as one commit.

    Example: gapless delta update trips --set "payment='card'" --where "payment = 'crd'"
    """
    opened = table.open_delta()
    report = opened.update(parse_mapping("set", values), where=where, operation_id=parse_operation(operation_id))
    _print_changed(opened, report, json=json)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeClauses:
    """What a merge does with rows that match and with rows that do not; to update and insert where nothing is said."""

    update: Annotated[bool, flag("--update", "Matched rows take all values of the files.")] = False
    values: Annotated[
        list[str] | None,
        option("COLUMN=SQL", "Matched rows take this value, such as 'n=t.n + s.n'; may be repeated.", "--set"),
    ] = None
    delete: Annotated[bool, flag("--delete", "Matched rows go.")] = False
    where: Annotated[str | None, option("SQL", "Only where this holds is a matched row updated or deleted.")] = None
    insert: Annotated[bool, flag("--insert", "Rows of the files that match none are added.")] = False
    delete_missing: Annotated[bool, flag("--delete-missing", "Rows of the table that no row of the files matches go.")] = False

    def __post_init__(self) -> None:
        if self.delete:
            given = {"update": self.update, "set": self.values}
            refuse_given(given, "Matched rows either go or take other values", "Drop one of them")
        elif self.update:
            refuse_given({"set": self.values}, "--update takes all values of the files", "Drop one of them")
        elif not self.values and not self._is_upsert:
            refuse_given({"where": self.where}, "It is about matched rows, and nothing is to become of them")

    @property
    def _is_upsert(self) -> bool:
        """Whether nothing is said."""
        return not (self.update or self.values or self.delete or self.insert or self.delete_missing)

    def add_to(self, merge: delta.Merge) -> delta.Merge:
        """The merge with these clauses."""
        if self.delete:
            merge = merge.when_matched_delete(where=self.where)
        elif self.update or self._is_upsert:
            merge = merge.when_matched_update_all(where=self.where)
        elif self.values:
            merge = merge.when_matched_update(parse_mapping("set", self.values), where=self.where)
        if self.insert or self._is_upsert:
            merge = merge.when_not_matched_insert_all()
        return merge.when_not_matched_by_source_delete() if self.delete_missing else merge


def merge(
    table: DeltaTableRef,
    rows: InputFiles,
    clauses: MergeClauses,
    columns: NewColumns,
    on: Annotated[str, option("SQL", "When a row `t` of the table and a row `s` of the files match, as 't.id = s.id'.")],
    operation_id: OperationText = None,
    json: JsonFlag = False,
) -> None:
    """Merge the rows of files into the table by a condition, as one commit: update, delete, insert (MERGE INTO).

    Without --update, --set, --delete, --insert and --delete-missing it is --update --insert.

    Example: gapless delta merge trips corrected.csv --on 't.id = s.id'
    """
    opened = table.open_delta()
    with row_progress(f"merging {rows.label}") as done:
        parts = rows.read(opened, done)
        source = pa.concat_tables([pa.Table.from_batches(list(p), p.schema) for p in parts], promote_options="default")
        merging = clauses.add_to(opened.merge(source, on=on, schema_mode=columns.schema_mode))
        report = merging.execute(operation_id=parse_operation(operation_id))
    _print_changed(opened, report, json=json)


def dedup(
    table: DeltaTableRef,
    key: Annotated[
        list[str] | None, option("COLUMN", "A column of the key; may be repeated. All columns where not given.")
    ] = None,
    order_by: Annotated[
        list[str] | None, option("COLUMN", "A column that says which row is later; may be repeated: then the first decides.")
    ] = None,
    keep: Annotated[
        str | None,
        option(
            "WHICH",
            "The row of a key that stays: first (the default) or last; with --order-by latest (the default) or earliest.",
        ),
    ] = None,
    operation_id: OperationText = None,
    json: JsonFlag = False,
) -> None:
    """Delete duplicate rows, as one commit: of each key one row stays.

    Example: gapless delta dedup trips --key id --order-by changed_at
    """
    opened = table.open_delta()
    operation = parse_operation(operation_id)
    report = opened.dedup(key, order_by=order_by, keep=keep, operation_id=operation)  # type: ignore[arg-type]  # checked there
    _print_changed(opened, report, json=json)


def _print_changed(table: AnyTable, report: ChangeReport, *, json: bool) -> None:
    if not json:
        print_line(change_text(report, file_noun(table)))
    else:
        upserts = {"inserted_rows": report.inserted_rows} if isinstance(table, TimeSeriesTable) else {}
        write_json(asdict(report) | upserts)


def change_text(report: ChangeReport, noun: str) -> str:
    """What a change of rows did, in a line; `noun` is what a data file is called.

    >>> change_text(ChangeReport(version=7, rows=3, updated_rows=2, removed_rows=2, removed_segments=1, segments=1), "segment")
    'Version 7: 3 rows written, 2 rows of the table replaced or deleted; 1 segment gave way to 1.'
    """
    if report.already_applied:
        return f"This operation was applied before, by version {report.version}; nothing was changed now."
    if not report.segments and not report.removed_segments and not report.removed_rows:
        return f"Nothing to change, still version {report.version}."
    removed = f"{count(report.removed_rows, 'row')} of the table replaced or deleted"
    return (
        f"Version {report.version}: {count(report.rows, 'row')} written, {removed}; "
        f"{count(report.removed_segments, noun)} gave way to {report.segments:,}."
    )
