"""`scan` and `sql`."""

from __future__ import annotations

from typing import Annotated

import typer

from gapless.cli.interrupt import in_thread, interruptible
from gapless.cli.options import End, EntityFilter, JsonFlag, Start, StorageOptions, TablePath, open_table, option, parse_entity
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
    where: Annotated[
        str | None,
        option("SQL", "A condition, such as \"temp < 0 and origin = 'JFK'\"."),
    ] = None,
    entity: EntityFilter = None,
    columns: Annotated[str | None, option("A,B", "Columns to show, in this order.")] = None,
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
    names = None if columns is None else split_names(columns, table.schema.names if table.schema is not None else ())
    rows = table.scan(start, end, where=where, entity=parse_entity(table, entity), columns=names, order=order)
    shape.emit(rows)


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


def split_names(text: str, known: list[str] | tuple[str, ...]) -> list[str]:
    """Column names between commas; a name that itself holds a comma is taken whole where it is the only one.

    >>> split_names("a,b", ["a", "b"])
    ['a', 'b']
    """
    return [text] if text in known else text.split(",")
