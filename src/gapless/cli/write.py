"""`create` and `append`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from typing import Annotated

import typer

from gapless.cli.console import print_facts, say, write_json
from gapless.cli.options import JsonFlag, StorageOptions, TablePath, open_table, parse_mapping
from gapless.cli.progress import row_progress
from gapless.errors import InvalidOption
from gapless.model.formats import Format, parse_format
from gapless.model.index import format_bucket
from gapless.model.properties import parse_on_overlap
from gapless.model.report import AppendReport
from gapless.parquet.files import expand_paths, format_of
from gapless.table.table import TimeSeriesTable

_FORMAT_OPTIONS = {"nulls": "--null", "delimiter": "--delimiter", "timestamp_format": "--timestamp-format", "timestamp_unit": "--timestamp-unit"}


def create(  # noqa: PLR0913  # one parameter an option
    path: TablePath,
    index: Annotated[str, typer.Option(metavar="COLUMN", help="The column that orders rows.", show_default=False)],
    bucket: Annotated[
        str, typer.Option(metavar="LENGTH", help="What coverage counts in, the unit that arrives whole: 15m, 1h, 1d, 1mo; a number for an integer index.", show_default=False)
    ],
    entity: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="A column that tells series apart, such as symbol; may be repeated.", show_default=False)
    ] = None,
    index_type: Annotated[str, typer.Option(metavar="TYPE", help="timestamp, int64 or uint64.")] = "timestamp",
    timezone: Annotated[
        str | None, typer.Option(metavar="ZONE", help="IANA zone of local days and months, and of times without a zone.", show_default=False)
    ] = None,
    properties: Annotated[
        list[str] | None, typer.Option("--property", metavar="NAME=VALUE", help="on_overlap=reject|skip|allow, codec=zstd|snappy|lz4|gzip|none.", show_default=False)
    ] = None,
    storage_option: StorageOptions = None,
    json: JsonFlag = False,  # noqa: FBT002  # typer gives it by name
) -> None:
    """Make an empty table; its columns come with the first append.

    Example: gapless create prices --index ts --bucket 1m --entity symbol
    """
    table = TimeSeriesTable.create(
        path,
        index=index,
        bucket=bucket,
        entity=entity or (),
        index_type=index_type,
        timezone=timezone,
        properties={name: {"true": True, "false": False}.get(value, value) for name, value in parse_mapping("property", properties).items()},
        storage_options=parse_mapping("storage-option", storage_option) or None,
    )
    facts = {"table": table.url, "version": table.version, "index": index, "bucket": format_bucket(table.index.bucket), "entity": list(table.entity)}
    if json:
        write_json(facts)
        return
    say(f"Created {table.url}")
    print_facts([(name, ", ".join(value) if isinstance(value, list) else str(value)) for name, value in facts.items() if name != "table" and value != []])


def append(  # noqa: PLR0913  # one parameter an option
    path: TablePath,
    files: Annotated[list[str], typer.Argument(metavar="FILES", help="Files, directories or globs: together one commit, all or nothing.", show_default=False)],
    format_: Annotated[
        str | None, typer.Option("--format", metavar="NAME", help="parquet, csv, tsv or jsonl; the file's suffix decides where not given.", show_default=False)
    ] = None,
    nulls: Annotated[list[str] | None, typer.Option("--null", metavar="TEXT", help="CSV: a text that means null; may be repeated.", show_default=False)] = None,
    delimiter: Annotated[str | None, typer.Option(metavar="CHAR", help="CSV: what stands between fields.", show_default=False)] = None,
    timestamp_format: Annotated[
        str | None, typer.Option(metavar="STRPTIME", help="CSV, JSON: format of times, such as %d/%m/%Y %H:%M.", show_default=False)
    ] = None,
    timestamp_unit: Annotated[
        str | None, typer.Option(metavar="UNIT", help="CSV, JSON: what times that are numbers count since 1970: s, ms, us, ns.", show_default=False)
    ] = None,
    on_overlap: Annotated[
        str | None, typer.Option(metavar="POLICY", help="What to do with buckets the table covers: reject (the append), skip (those rows) or allow.", show_default=False)
    ] = None,
    upgrade: Annotated[bool, typer.Option("--upgrade", help="Allow the first write to a table of timeseries-table-format.")] = False,  # noqa: FBT002  # typer
    storage_option: StorageOptions = None,
    json: JsonFlag = False,  # noqa: FBT002  # typer gives it by name
) -> None:
    """Append files as one commit: all of their rows, or none.

    Sending the same file again is refused (exit code 4), or harmless with --on-overlap skip.

    Example: gapless append prices day1.parquet day2.parquet
    """
    policy = None if on_overlap is None else parse_on_overlap(on_overlap)
    given = {"nulls": nulls, "delimiter": delimiter, "timestamp_format": timestamp_format, "timestamp_unit": timestamp_unit}
    table = open_table(path, storage_option, upgrade=upgrade)
    file_format = choose_format(format_, {name: value for name, value in given.items() if value is not None}, files)
    with row_progress(f"appending {files[0]}" + (f" and {len(files) - 1} more" if files[1:] else "")) as done:
        report = table.append_file(files, format=file_format, on_overlap=policy, progress=done)
    if json:
        write_json(asdict(report))
    else:
        say(report_text(report))


def choose_format(name: str | None, given: dict[str, object], files: Sequence[str]) -> Format | None:
    """The format with the options given; None where the suffix of each file decides, with none.

    Options without a --format need files of one kind. Raises InvalidOption.
    """
    chosen = parse_format(name)
    if not given:
        return chosen
    if chosen is None:
        kinds = {type(one): one for file in files for one in (format_of(path, None) for path in expand_paths(file))}
        if len(kinds) != 1:
            raise InvalidOption(
                f"{_FORMAT_OPTIONS[next(iter(given))]} is given, and the files are of several formats",
                why=f"They are {', '.join(sorted(kind.__name__ for kind in kinds))}",
                fix="Append each kind by itself, or say --format",
                option="format", value=None,
            )  # fmt: skip
        (chosen,) = kinds.values()
    for option in given:
        if option not in {field.name for field in fields(chosen)}:
            kind = type(chosen).__name__
            raise InvalidOption(
                f"{_FORMAT_OPTIONS[option]} means nothing for {kind} files", fix="Leave it out, or say --format csv", option=option, value=given[option]
            )
    if given.get("delimiter") == "\\t":
        given = {**given, "delimiter": "\t"}
    return replace(chosen, **given)  # type: ignore[arg-type]  # each value is checked as the format is born


def report_text(report: AppendReport) -> str:
    """One line for people.

    >>> report_text(AppendReport(version=2, rows=0, segments=0, buckets=0, skipped_rows=24, skipped_buckets=1))
    'Nothing to write, still version 2. Left out: 24 rows in 1 bucket that the table covers already.'
    """
    left_out = f" Left out: {_count(report.skipped_rows, 'row')} in {_count(report.skipped_buckets, 'bucket')} that the table covers already."
    written = f"Version {report.version}: {_count(report.rows, 'row')} in {_count(report.segments, 'segment')}, covering {_count(report.buckets, 'bucket')}."
    return (written if report.segments else f"Nothing to write, still version {report.version}.") + (left_out if report.skipped_rows else "")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"
