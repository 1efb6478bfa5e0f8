"""`scan` and `sql`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from gapless.cli.options import (
    ColumnNames,
    End,
    EntityFilter,
    JsonFlag,
    Start,
    StorageOptions,
    TablePath,
    Where,
    open_any,
    option,
    parse_columns,
    parse_entity,
    refuse_given,
)
from gapless.cli.show.rows import Output, in_thread, interruptible
from gapless.tables import delta
from gapless.tables.shared.rows import Rows
from gapless.tables.timeseries.read.view import TableView

CsvFlag = Annotated[bool, typer.Option("--csv", help="Print CSV.")]
OutputFile = Annotated[
    str | None,
    option("FILE", "Write a .parquet, .csv, .json or .jsonl file.", "--output", "-o"),
]
Limit = Annotated[int | None, option("N", "At most so many rows; a printed table has 40.", least=0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanOptions:
    """Which rows a command was asked for, in the words of its options."""

    start: str | None
    end: str | None
    where: str | None
    entity: Sequence[str] | None
    columns: str | None
    order: str | None


def rows_of(table: TableView | delta.DeltaView, asked: ScanOptions) -> Rows:
    """The rows of a table of either kind, not read yet. Raises InvalidOption for an option that its kind does not have."""
    if isinstance(table, TableView):
        return _series_rows(table, asked)
    given = {"start": asked.start, "end": asked.end, "entity": asked.entity, "order": asked.order}
    refuse_given(given, "A Delta table has no index and no entity columns", "Say it with --where")
    return table.scan(where=asked.where, columns=parse_columns(table, asked.columns))


def _series_rows(table: TableView, asked: ScanOptions) -> Rows:
    names, wanted = parse_columns(table, asked.columns), parse_entity(table, asked.entity)
    return table.scan(asked.start, asked.end, where=asked.where, entity=wanted, columns=names, order=asked.order)


def scan(
    path: TablePath,
    start: Start = None,
    end: End = None,
    where: Where = None,
    entity: EntityFilter = None,
    columns: ColumnNames = None,
    order: Annotated[
        str | None,
        option("index", "`index`: in index order over all identities; else each identity's rows are."),
    ] = None,
    limit: Limit = None,
    json: JsonFlag = False,
    csv: CsvFlag = False,
    output: OutputFile = None,
    storage_option: StorageOptions = None,
) -> None:
    """Read rows: a range of the index, a condition, some columns. Of a Delta table: by --where and --columns.

    Example: gapless scan prices --start 2026-01-05 --end 2026-01-06 --entity symbol=NVDA
    """
    shape = Output(json=json, csv=csv, file=output, limit=limit)
    table = open_any(path, storage_option)
    shape.emit(rows_of(table, ScanOptions(start=start, end=end, where=where, entity=entity, columns=columns, order=order)))


def sql(
    path: TablePath,
    query: Annotated[
        str,
        typer.Argument(
            metavar="QUERY", help="SQL, as DuckDB speaks it; the table is `this`, or goes by its name.", show_default=False
        ),
    ],
    limit: Limit = None,
    json: JsonFlag = False,
    csv: CsvFlag = False,
    output: OutputFile = None,
    storage_option: StorageOptions = None,
) -> None:
    """Answer a SQL query over a table of either kind.

    Example: gapless sql prices "select symbol, avg(close) from this group by symbol"
    """
    shape = Output(json=json, csv=csv, file=output, limit=limit)
    table = open_any(path, storage_option)
    shape.emit(interruptible(in_thread(lambda: table.sql(query))))
