"""`scan` and `sql`."""

from __future__ import annotations

from typing import Annotated

import typer

from gapless.cli.interrupt import in_thread, interruptible
from gapless.cli.options import (
    ColumnNames,
    End,
    EntityFilter,
    JsonFlag,
    Start,
    StorageOptions,
    TablePath,
    Where,
    open_table,
    option,
    parse_columns,
    parse_entity,
)
from gapless.cli.rows import Output

CsvFlag = Annotated[bool, typer.Option("--csv", help="Print CSV.")]
OutputFile = Annotated[
    str | None,
    option("FILE", "Write a .parquet, .csv, .json or .jsonl file.", "--output", "-o"),
]
Limit = Annotated[int | None, option("N", "At most so many rows; a printed table has 40.", least=0)]


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
    """Read rows: a range of the index, a condition, some columns.

    Example: gapless scan prices --start 2026-01-05 --end 2026-01-06 --entity symbol=NVDA
    """
    shape = Output(json=json, csv=csv, file=output, limit=limit)
    table = open_table(path, storage_option)
    names, wanted = parse_columns(table, columns), parse_entity(table, entity)
    shape.emit(table.scan(start, end, where=where, entity=wanted, columns=names, order=order))


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
    """Answer a SQL query over the table.

    Example: gapless sql prices "select symbol, avg(close) from this group by symbol"
    """
    shape = Output(json=json, csv=csv, file=output, limit=limit)
    table = open_table(path, storage_option)
    shape.emit(interruptible(in_thread(lambda: table.sql(query))))
