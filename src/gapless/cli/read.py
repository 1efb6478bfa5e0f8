"""`scan` and `sql`."""

from __future__ import annotations

from typing import Annotated

import typer

from gapless.cli.options import End, EntityFilter, JsonFlag, Start, StorageOptions, TablePath, open_table, parse_entity
from gapless.cli.rows import Output

CsvFlag = Annotated[bool, typer.Option("--csv", help="Print CSV.")]
OutputFile = Annotated[
    str | None, typer.Option("--output", "-o", metavar="FILE", help="Write a .parquet, .csv, .json or .jsonl file.", show_default=False)
]
Limit = Annotated[int | None, typer.Option(metavar="N", min=0, help="At most so many rows; a printed table has 40.", show_default=False)]


def scan(  # noqa: PLR0913  # one parameter an option
    path: TablePath,
    start: Start = None,
    end: End = None,
    where: Annotated[str | None, typer.Option(metavar="SQL", help="A condition, such as \"temp < 0 and origin = 'JFK'\".", show_default=False)] = None,
    entity: EntityFilter = None,
    columns: Annotated[str | None, typer.Option(metavar="A,B", help="Columns to show, in this order.", show_default=False)] = None,
    order: Annotated[
        str | None, typer.Option(metavar="index", help="`index`: in index order over all identities; else each identity's rows are.", show_default=False)
    ] = None,
    limit: Limit = None,
    json: JsonFlag = False,  # noqa: FBT002  # typer gives it by name
    csv: CsvFlag = False,  # noqa: FBT002  # typer gives it by name
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
    query: Annotated[str, typer.Argument(metavar="QUERY", help="SQL, as DuckDB speaks it; the table is `this`, or goes by its name.", show_default=False)],
    limit: Limit = None,
    json: JsonFlag = False,  # noqa: FBT002  # typer gives it by name
    csv: CsvFlag = False,  # noqa: FBT002  # typer gives it by name
    output: OutputFile = None,
    storage_option: StorageOptions = None,
) -> None:
    """Answer a SQL query over the table.

    Example: gapless sql prices "select symbol, avg(close) from this group by symbol"
    """
    shape = Output(json=json, csv=csv, file=output, limit=limit)
    shape.emit(open_table(path, storage_option).sql(query))


def split_names(text: str, known: list[str] | tuple[str, ...]) -> list[str]:
    """Column names between commas; a name that itself holds a comma is taken whole where it is the only one.

    >>> split_names("a,b", ["a", "b"])
    ['a', 'b']
    """
    return [text] if text in known else text.split(",")
