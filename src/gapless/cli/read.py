"""`scan` and `sql`."""

from __future__ import annotations

import shutil
import sys
import tempfile
from dataclasses import dataclass
from typing import Annotated

from gapless.cli.options import (
    ColumnNames,
    End,
    EntityFilter,
    ExcludedNames,
    JsonFlag,
    Start,
    TableRef,
    Where,
    argument,
    flag,
    option,
    parse_columns,
    parse_entity,
    refuse_given,
)
from gapless.cli.show.rows import (
    PRINTED_ROWS,
    SPOOL_BYTES,
    Batches,
    first_rows,
    in_thread,
    interruptible,
    print_rows,
    save_rows,
    write_csv,
    write_json_array,
    writer_for,
)
from gapless.errors import InvalidOption
from gapless.tables import delta
from gapless.tables.shared.scan import Rows
from gapless.tables.timeseries.read.view import TableView


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What a command does with the rows that it reads: a printed table, JSON, CSV or a file."""

    limit: Annotated[int | None, option("N", "At most so many rows; a printed table has 40.", least=0)] = None
    json: JsonFlag = False
    csv: Annotated[bool, flag("--csv", "Print CSV.")] = False
    file: Annotated[str | None, option("FILE", "Write a .parquet, .csv, .json or .jsonl file.", "--output", "-o")] = None

    def __post_init__(self) -> None:
        if self.json + self.csv + (self.file is not None) > 1:
            fix = "Give one of them; --output takes a .json or .csv file too"
            raise InvalidOption("--json, --csv and --output exclude each other", fix=fix, option="output", value=self.file)
        if self.file is not None:
            writer_for(self.file)

    def emit(self, rows: Rows) -> None:
        """Read the rows and write them."""
        if self.file is not None:
            save_rows(self._batches(rows), rows.schema, self.file)
        elif self.json:
            with tempfile.SpooledTemporaryFile(SPOOL_BYTES) as whole:
                write_json_array(self._batches(rows), rows.schema, whole)
                whole.seek(0)
                shutil.copyfileobj(whole, sys.stdout.buffer)
        elif self.csv:
            write_csv(self._batches(rows), rows.schema, sys.stdout.buffer)
        else:
            print_rows(rows, PRINTED_ROWS if self.limit is None else self.limit)

    def answer(self, table: TableView | delta.DeltaView, query: str) -> None:
        """Run a SQL query over a table and write its rows; Ctrl-C ends it."""
        self.emit(interruptible(in_thread(lambda: table.sql(query))))

    def _batches(self, rows: Rows) -> Batches:
        return rows.to_batches() if self.limit is None else first_rows(rows.to_batches(), self.limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Which rows and columns are read. A Delta table knows only `where`, `columns` and `exclude`."""

    start: Start = None
    end: End = None
    where: Where = None
    entity: EntityFilter = None
    columns: ColumnNames = None
    exclude: ExcludedNames = None
    order: Annotated[
        str | None, option("index", "`index`: in index order over all identities; else each identity's rows are.")
    ] = None

    def scan(self, table: TableView | delta.DeltaView) -> Rows:
        """The rows of a table of either kind, not read yet. Raises InvalidOption for an option that its kind does not have."""
        names, left_out = parse_columns(table, self.columns), parse_columns(table, self.exclude)
        if isinstance(table, TableView):
            entity = parse_entity(table, self.entity)
            return table.scan(
                self.start, self.end, where=self.where, entity=entity, columns=names, exclude=left_out, order=self.order
            )
        given = {"start": self.start, "end": self.end, "entity": self.entity, "order": self.order}
        refuse_given(given, "A Delta table has no index and no entity columns", "Say it with --where")
        return table.scan(where=self.where, columns=names, exclude=left_out)


def scan(table: TableRef, rows: ReadOptions, output: Output) -> None:
    """Read rows: a range of the index, a condition, some columns. Of a Delta table: by --where, --columns and --exclude.

    Example: gapless scan prices --start 2026-01-05 --end 2026-01-06 --entity symbol=NVDA
    """
    output.emit(rows.scan(table.open()))


def sql(
    table: TableRef,
    query: Annotated[str, argument("QUERY", "SQL, as DuckDB speaks it; the table is `this`, or goes by its name.")],
    output: Output,
) -> None:
    """Run a SQL query over a table of either kind.

    Example: gapless sql prices "select symbol, avg(close) from this group by symbol"
    """
    output.answer(table.open(), query)
