"""`upsert`, `delete`, `replace` and `drop-before`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from gapless.cli.options import (
    End,
    EntityFilter,
    FormatName,
    InputFiles,
    JsonFlag,
    OperationText,
    Start,
    StorageOptions,
    TablePath,
    UpgradeFlag,
    open_table,
    option,
    parse_entity,
)
from gapless.cli.show.console import say, write_json
from gapless.cli.show.rows import row_progress
from gapless.cli.write import choose_format, parse_operation
from gapless.errors import InvalidOption
from gapless.files.ingest.batches import Batches, Progress, watched
from gapless.files.ingest.files import expand_paths, open_files
from gapless.model.operation import ChangeReport
from gapless.tables.shared.findings import count
from gapless.tables.timeseries.table import TimeSeriesTable


def upsert(
    path: TablePath,
    files: InputFiles,
    key: Annotated[
        list[str] | None,
        option("COLUMN", "A column of the key; may be repeated. The entity columns and the index where not given."),
    ] = None,
    on_duplicate: Annotated[
        str, option("RULE", "Where rows of the files share a key: error refuses them, last takes the one that comes last.")
    ] = "error",
    format_: FormatName = None,
    operation_id: OperationText = None,
    upgrade: UpgradeFlag = False,
    storage_option: StorageOptions = None,
    json: JsonFlag = False,
) -> None:
    """Put rows in the place of those with their key, or add them, as one commit.

    Example: gapless upsert prices corrected.csv
    """
    table = open_table(path, storage_option, upgrade=upgrade)
    with row_progress(f"upserting {files[0]}") as done:
        report = table.upsert(
            _parts(table, files, format_, done),
            key=key or None,
            on_duplicate=on_duplicate,  # type: ignore[arg-type]  # checked there, with a message of its own
            operation_id=parse_operation(operation_id),
        )
    _tell(report, json=json)


def delete(
    path: TablePath,
    where: Annotated[
        str | None, option("SQL", "Condition in SQL; a row for which it is null stays. `true` is every row.")
    ] = None,
    start: Start = None,
    end: End = None,
    entity: EntityFilter = None,
    operation_id: OperationText = None,
    upgrade: UpgradeFlag = False,
    storage_option: StorageOptions = None,
    json: JsonFlag = False,
) -> None:
    """Delete the rows that `scan` with the same options shows, as one commit.

    Example: gapless delete prices --entity symbol=NVDA --where 'close < 0'
    """
    table = open_table(path, storage_option, upgrade=upgrade)
    report = table.delete(
        where, start=start, end=end, entity=parse_entity(table, entity), operation_id=parse_operation(operation_id)
    )
    _tell(report, json=json)


def replace(
    path: TablePath,
    files: InputFiles,
    start: Start = None,
    end: End = None,
    entity: EntityFilter = None,
    format_: FormatName = None,
    operation_id: OperationText = None,
    upgrade: UpgradeFlag = False,
    storage_option: StorageOptions = None,
    json: JsonFlag = False,
) -> None:
    """Put the rows of files in the place of all rows of a range, as one commit; rows outside it are refused.

    Example: gapless replace prices day.parquet --start 2026-01-05T00:00Z --end 2026-01-06T00:00Z
    """
    _check_bounded(start, end, entity)
    table = open_table(path, storage_option, upgrade=upgrade)
    with row_progress(f"replacing by {files[0]}") as done:
        report = table.replace(
            (start, end),
            _parts(table, files, format_, done),
            entity=parse_entity(table, entity),
            operation_id=parse_operation(operation_id),
        )
    _tell(report, json=json)


def drop_before(
    path: TablePath,
    time: Annotated[
        str,
        typer.Argument(metavar="TIME", help="The first index value that stays, such as 2013-01-31T06:00Z.", show_default=False),
    ],
    operation_id: OperationText = None,
    upgrade: UpgradeFlag = False,
    storage_option: StorageOptions = None,
    json: JsonFlag = False,
) -> None:
    """Delete all rows before a time; segments that end before it fall away without being read.

    Their files stay for older versions until `gapless expire` and `gapless vacuum` let go of them.

    Example: gapless drop-before prices 2024-01-01T00:00Z
    """
    table = open_table(path, storage_option, upgrade=upgrade)
    _tell(table.drop_before(time, operation_id=parse_operation(operation_id)), json=json)


def _check_bounded(start: str | None, end: str | None, entity: Sequence[str] | None) -> None:
    """Raise InvalidOption where nothing says what is to be replaced."""
    if start is None and end is None and not entity:
        raise InvalidOption(
            "replace without a range would replace every row",
            why="That is more often forgotten than meant",
            fix="Say --start, --end or --entity; in Python table.replace((None, None), rows) replaces all rows",
            option="start",
            value=None,
        )


def _parts(table: TimeSeriesTable, files: Sequence[str], format_: str | None, done: Progress) -> list[Batches]:
    opened = open_files(expand_paths(files), choose_format(format_, {}, files), index=table.index, schema=table.schema)
    return watched(opened, done)


def _tell(report: ChangeReport, *, json: bool) -> None:
    if json:
        write_json(asdict(report) | {"inserted_rows": report.inserted_rows})
    else:
        say(change_text(report))


def change_text(report: ChangeReport) -> str:
    """One line for people.

    >>> change_text(ChangeReport(version=7, rows=3, updated_rows=2, removed_rows=2, removed_segments=1, segments=1))
    'Version 7: 3 rows written, 2 rows of the table replaced or deleted; 1 segment gave way to 1.'
    """
    if report.already_applied:
        return f"This operation was applied before, by version {report.version}; nothing was changed now."
    if not report.segments and not report.removed_segments:
        return f"Nothing to change, still version {report.version}."
    gone = f"{count(report.removed_rows, 'row')} of the table replaced or deleted"
    return (
        f"Version {report.version}: {count(report.rows, 'row')} written, {gone}; "
        f"{count(report.removed_segments, 'segment')} gave way to {report.segments:,}."
    )
