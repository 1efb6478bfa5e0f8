"""`delta create`, `delta append` and `delta overwrite`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import pyarrow as pa
import typer

from gapless.cli.options import (
    CsvDelimiter,
    CsvNulls,
    FormatName,
    InputFiles,
    JsonFlag,
    OperationText,
    StorageOptions,
    TablePath,
    TimestampFormat,
    TimestampUnit,
    open_delta,
    option,
    parse_mapping,
    parse_pairs,
    refuse_given,
)
from gapless.cli.show.console import print_facts, say, write_json
from gapless.cli.show.rows import row_progress
from gapless.cli.show.values import parse_type_text
from gapless.cli.write import choose_format, parse_operation
from gapless.errors import InvalidOption
from gapless.files.ingest.batches import Batches, Progress, watched
from gapless.files.ingest.files import expand_paths, open_files
from gapless.model.operation import AppendReport
from gapless.tables import delta
from gapless.tables.shared.findings import count

NewColumns = Annotated[
    bool,
    typer.Option("--add-columns", help="Add the columns that the files have and the table lacks, instead of refusing them."),
]


def create(
    path: TablePath,
    column: Annotated[
        list[str] | None,
        option("NAME=TYPE", "A column, as 'id=int64' or 'id=int64 not null', in order; may be repeated.", "--column"),
    ] = None,
    like: Annotated[str | None, option("FILE", "Take the columns of this Parquet, CSV or JSON lines file instead.")] = None,
    partition_by: Annotated[
        list[str] | None, option("COLUMN", "A column by whose values files lie apart; may be repeated.", "--partition-by")
    ] = None,
    properties: Annotated[
        list[str] | None,
        option("NAME=VALUE", "Such as delta.enableChangeDataFeed=true; may be repeated.", "--property"),
    ] = None,
    name: Annotated[str | None, option("TEXT", "What the table calls itself.")] = None,
    description: Annotated[str | None, option("TEXT", "What it is.")] = None,
    storage_option: StorageOptions = None,
    json: JsonFlag = False,
) -> None:
    """Make an empty Delta table.

    Its columns come with the first append where neither --column nor --like says them.

    Example: gapless delta create trips --column 'id=int64 not null' --column day=date32 --partition-by day
    """
    table = delta.create(
        path,
        parse_schema(column, like),
        partition_by=partition_by or (),
        properties=parse_mapping("property", properties),
        name=name,
        description=description,
        storage_options=parse_mapping("storage-option", storage_option) or None,
    )
    facts = {
        "table": table.url,
        "version": table.version,
        "columns": len(table.schema),
        "partition_by": list(table.partition_by),
        "properties": table.properties,
    }
    if json:
        write_json(facts)
        return
    say(f"Created {table.url}")
    print_facts(
        [
            ("columns", str(len(table.schema) or "those of the first append")),
            ("partitioned by", ", ".join(table.partition_by) or "nothing"),
        ]
    )


def append(
    path: TablePath,
    files: InputFiles,
    format_: FormatName = None,
    nulls: CsvNulls = None,
    delimiter: CsvDelimiter = None,
    timestamp_format: TimestampFormat = None,
    timestamp_unit: TimestampUnit = None,
    add_columns: NewColumns = False,
    operation_id: OperationText = None,
    storage_option: StorageOptions = None,
    json: JsonFlag = False,
) -> None:
    """Append files as one commit: all of their rows, or none. Columns are matched by name.

    Example: gapless delta append trips monday.parquet tuesday.parquet
    """
    given = {"nulls": nulls, "delimiter": delimiter, "timestamp_format": timestamp_format, "timestamp_unit": timestamp_unit}
    table = open_delta(path, storage_option)
    with row_progress(f"appending {files[0]}") as done:
        report = table.append_file(
            files,
            format=choose_format(format_, given, files),
            operation_id=parse_operation(operation_id),
            schema_mode="merge" if add_columns else "strict",
            progress=done,
        )
    tell(report, json=json)


def overwrite(
    path: TablePath,
    files: InputFiles,
    where: Annotated[
        str | None, option("SQL", "Only rows for which this holds give way; every new row must satisfy it.")
    ] = None,
    dynamic: Annotated[
        bool, typer.Option("--dynamic-partitions", help="Only partitions that the files have rows for give way.")
    ] = False,
    new_columns: Annotated[
        bool, typer.Option("--new-columns", help="All rows give way, and the columns too: the files bring theirs.")
    ] = False,
    format_: FormatName = None,
    add_columns: NewColumns = False,
    operation_id: OperationText = None,
    storage_option: StorageOptions = None,
    json: JsonFlag = False,
) -> None:
    """Put the rows of files in the place of the table's, as one commit: of all, of those that --where names, or of whole partitions.

    Example: gapless delta overwrite trips monday.parquet --where "day = '2026-01-05'"
    """
    if dynamic and where is not None:
        raise InvalidOption("--where and --dynamic-partitions exclude each other", fix="Drop one", option="where", value=where)
    table = open_delta(path, storage_option)
    with row_progress(f"overwriting by {files[0]}") as done:
        report = table.overwrite(
            read_files(table, files, format_, done),
            where=where,
            partitions="dynamic" if dynamic else None,
            operation_id=parse_operation(operation_id),
            schema_mode="overwrite" if new_columns else "merge" if add_columns else "strict",
        )
    tell(report, json=json)


def parse_schema(columns: Sequence[str] | None, like: str | None) -> pa.Schema | None:
    """The columns of a new table from `--column` texts or the file of `--like`, None where neither is given; raises InvalidOption."""
    if like is not None:
        refuse_given({"column": columns}, "--like says all columns")
        return open_files(expand_paths(like), index=None)[0].schema
    if not columns:
        return None
    return pa.schema([_field(name, text) for name, text in parse_pairs("column", columns)])


def _field(name: str, text: str) -> pa.Field:
    bare = text.removesuffix(" not null")
    return pa.field(name, parse_type_text(bare), nullable=bare == text)


def read_files(table: delta.DeltaTable, files: Sequence[str], format_: str | None, done: Progress) -> list[Batches]:
    """The rows of input files, read as the table's columns are typed."""
    opened = open_files(expand_paths(files), choose_format(format_, {}, files), index=None, schema=table.schema)
    return watched(opened, done)


def tell(report: AppendReport, *, json: bool) -> None:
    """Print what an append or an overwrite did."""
    if json:
        write_json(asdict(report))
    else:
        say(report_text(report))


def report_text(report: AppendReport) -> str:
    """One line for people.

    >>> report_text(AppendReport(version=2, rows=3, segments=1, removed_rows=2, removed_segments=1))
    'Version 2: 3 rows in 1 file, in place of 2 rows.'
    """
    if report.already_applied:
        return f"This operation was applied before, by version {report.version}; nothing was written now."
    if not report.segments and not report.removed_segments:
        return f"Nothing to write, still version {report.version}."
    gone = f", in place of {count(report.removed_rows, 'row')}" if report.removed_rows else ""
    return f"Version {report.version}: {count(report.rows, 'row')} in {count(report.segments, 'file')}{gone}."
