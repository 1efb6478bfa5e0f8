"""`delta delete`, `delta update`, `delta merge` and `delta dedup`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import pyarrow as pa
import typer

from gapless.cli.delta_write import read_files
from gapless.cli.options import (
    FormatName,
    InputFiles,
    JsonFlag,
    OperationText,
    StorageOptions,
    TablePath,
    open_delta,
    option,
    parse_mapping,
    refuse_given,
)
from gapless.cli.show.console import say, write_json
from gapless.cli.show.rows import row_progress
from gapless.cli.write import parse_operation
from gapless.tables import delta
from gapless.tables.shared.findings import count

Condition = Annotated[str | None, option("SQL", "Which rows; `true` is every row. Those for which it is null stay.", "--where")]


def delete(
    path: TablePath,
    where: Condition = None,
    operation_id: OperationText = None,
    storage_option: StorageOptions = None,
    json: JsonFlag = False,
) -> None:
    """Delete rows, as one commit. Files that hold none of them stay as they are.

    Example: gapless delta delete trips --where 'fare < 0'
    """
    _tell(open_delta(path, storage_option).delete(where, operation_id=parse_operation(operation_id)), json=json)


def update(
    path: TablePath,
    values: Annotated[
        list[str], option("COLUMN=SQL", "A column and its new value, such as 'fare=fare * 1.1'; may be repeated.", "--set")
    ],
    where: Condition = None,
    operation_id: OperationText = None,
    storage_option: StorageOptions = None,
    json: JsonFlag = False,
) -> None:
    """Give columns of some rows other values, as one commit.

    Example: gapless delta update trips --set "payment='card'" --where "payment = 'crd'"
    """
    table = open_delta(path, storage_option)
    report = table.update(parse_mapping("set", values), where=where, operation_id=parse_operation(operation_id))
    _tell(report, json=json)


def merge(
    path: TablePath,
    files: InputFiles,
    on: Annotated[str, option("SQL", "When a row `t` of the table and a row `s` of the files match, as 't.id = s.id'.")],
    update: Annotated[bool, typer.Option("--update", help="Matched rows take all values of the files.")] = False,
    values: Annotated[
        list[str] | None, option("COLUMN=SQL", "Matched rows take this value, such as 'n=t.n + s.n'; may be repeated.", "--set")
    ] = None,
    delete: Annotated[bool, typer.Option("--delete", help="Matched rows go.")] = False,
    where: Annotated[str | None, option("SQL", "Only where this holds is a matched row updated or deleted.")] = None,
    insert: Annotated[bool, typer.Option("--insert", help="Rows of the files that match none are added.")] = False,
    delete_missing: Annotated[
        bool, typer.Option("--delete-missing", help="Rows of the table that no row of the files matches go.")
    ] = False,
    add_columns: Annotated[bool, typer.Option("--add-columns", help="Add the columns that only the files have.")] = False,
    format_: FormatName = None,
    operation_id: OperationText = None,
    storage_option: StorageOptions = None,
    json: JsonFlag = False,
) -> None:
    """Bring the rows of files into the table by a condition, as one commit: update, delete, insert.

    Without --update, --set, --delete, --insert and --delete-missing it is --update --insert.

    Example: gapless delta merge trips corrected.csv --on 't.id = s.id'
    """
    if not (update or values or delete or insert or delete_missing):
        update = insert = True
    matched = _Matched(update=update, values=values, delete=delete, where=where)
    table = open_delta(path, storage_option)
    with row_progress(f"merging {files[0]}") as done:
        parts = read_files(table, files, format_, done)
        source = pa.concat_tables([pa.Table.from_batches(list(p), p.schema) for p in parts], promote_options="default")
        merging = matched.of(table.merge(source, on=on, schema_mode="merge" if add_columns else "strict"))
        if insert:
            merging = merging.when_not_matched_insert_all()
        if delete_missing:
            merging = merging.when_not_matched_by_source_delete()
        report = merging.execute(operation_id=parse_operation(operation_id))
    _tell(report, json=json)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Matched:
    """What is to become of matched rows."""

    update: bool
    values: Sequence[str] | None
    delete: bool
    where: str | None

    def __post_init__(self) -> None:
        if self.delete:
            given = {"update": self.update, "set": self.values}
            refuse_given(given, "Matched rows either go or take other values", "Drop one of them")
        elif self.update:
            refuse_given({"set": self.values}, "--update takes all values of the files", "Drop one of them")
        elif not self.values:
            refuse_given({"where": self.where}, "It is about matched rows, and nothing is to become of them")

    def of(self, merging: delta.Merge) -> delta.Merge:
        """The merge with the clause that says so."""
        if self.delete:
            return merging.when_matched_delete(where=self.where)
        if self.update:
            return merging.when_matched_update_all(where=self.where)
        if self.values:
            return merging.when_matched_update(parse_mapping("set", self.values), where=self.where)
        return merging


def dedup(
    path: TablePath,
    key: Annotated[
        list[str] | None, option("COLUMN", "A column of the key; may be repeated. All columns where not given.")
    ] = None,
    keep: Annotated[str, option("WHICH", "The row of a key that stays: first (the default) or last.")] = "first",
    storage_option: StorageOptions = None,
    json: JsonFlag = False,
) -> None:
    """Leave one row of each key, as one commit.

    Example: gapless delta dedup trips --key id
    """
    report = open_delta(path, storage_option).dedup(key, keep=keep)  # type: ignore[arg-type]  # checked there, with a message of its own
    _tell(report, json=json)


def _tell(report: Any, *, json: bool) -> None:
    if json:
        write_json(asdict(report))
    else:
        say(change_text(asdict(report)))


def change_text(report: Mapping[str, Any]) -> str:
    """One line for people.

    >>> change_text({"version": 7, "rows": 3, "updated_rows": 2, "removed_rows": 2, "removed_segments": 1, "segments": 1})
    'Version 7: 3 rows written, 2 of the table replaced or deleted; 1 file gave way to 1.'
    """
    if report.get("already_applied"):
        return f"This operation was applied before, by version {report['version']}; nothing was changed now."
    if not report["segments"] and not report["removed_segments"] and not report["removed_rows"]:
        return f"Nothing to change, still version {report['version']}."
    return (
        f"Version {report['version']}: {count(report['rows'], 'row')} written, {report['removed_rows']:,} of the table replaced or"
        f" deleted; {count(report['removed_segments'], 'file')} gave way to {report['segments']:,}."
    )
