"""`create` and `append`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import Annotated

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
    UpgradeFlag,
    open_table,
    option,
    parse_mapping,
)
from gapless.cli.show.console import print_facts, say, write_json
from gapless.cli.show.rows import row_progress
from gapless.errors import InvalidOption
from gapless.files.adopt.place import parse_adopt
from gapless.files.ingest.files import expand_paths, format_of
from gapless.model.index import format_bucket
from gapless.model.input_formats import Format, parse_format
from gapless.model.operation import AppendReport
from gapless.model.properties import parse_on_overlap
from gapless.tables.timeseries.table import TimeSeriesTable

_FORMAT_OPTIONS = {
    "nulls": "--null",
    "delimiter": "--delimiter",
    "timestamp_format": "--timestamp-format",
    "timestamp_unit": "--timestamp-unit",
}


def create(
    path: TablePath,
    index: Annotated[str, option("COLUMN", "The column that orders rows.")],
    bucket: Annotated[
        str,
        option(
            "LENGTH", "What coverage counts in, the unit that arrives whole: 15m, 1h, 1d, 1mo; a number for an integer index."
        ),
    ],
    entity: Annotated[
        list[str] | None,
        option("COLUMN", "A column that tells series apart, such as symbol; may be repeated."),
    ] = None,
    index_type: Annotated[str, option("TYPE", "timestamp (the default), int64 or uint64.")] = "timestamp",
    timezone: Annotated[
        str | None,
        option("ZONE", "IANA zone of local days and months, and of times without a zone."),
    ] = None,
    properties: Annotated[
        list[str] | None,
        option(
            "NAME=VALUE", "on_overlap=reject|skip|replace|allow, unique=true, codec=fastest|balanced|smallest.", "--property"
        ),
    ] = None,
    storage_option: StorageOptions = None,
    json: JsonFlag = False,
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
        properties={
            name: {"true": True, "false": False}.get(value, value)
            for name, value in parse_mapping("property", properties).items()
        },
        storage_options=parse_mapping("storage-option", storage_option) or None,
    )
    facts = {
        "table": table.url,
        "version": table.version,
        "index": index,
        "bucket": format_bucket(table.index.bucket),
        "entity": list(table.entity),
    }
    if json:
        write_json(facts)
        return
    say(f"Created {table.url}")
    print_facts(
        [
            (name, ", ".join(value) if isinstance(value, list) else str(value))
            for name, value in facts.items()
            if name != "table" and value != []
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
    on_overlap: Annotated[
        str | None,
        option(
            "POLICY",
            "What to do with buckets the table covers: reject (the append), skip (those rows), replace (the table's rows) or allow.",
        ),
    ] = None,
    operation_id: OperationText = None,
    adopt: Annotated[
        str | None,
        option("WAY", "Take Parquet files as segments as they are: copy, link or move them; only their keys are read."),
    ] = None,
    upgrade: UpgradeFlag = False,
    storage_option: StorageOptions = None,
    json: JsonFlag = False,
) -> None:
    """Append files as one commit: all of their rows, or none.

    Sending the same file again is refused (exit code 4), or harmless with --on-overlap skip.

    Example: gapless append prices day1.parquet day2.parquet
    """
    policy = None if on_overlap is None else parse_on_overlap(on_overlap)
    given = {"nulls": nulls, "delimiter": delimiter, "timestamp_format": timestamp_format, "timestamp_unit": timestamp_unit}
    table = open_table(path, storage_option, upgrade=upgrade)
    file_format = choose_format(format_, given, files)
    with row_progress(f"appending {files[0]}" + (f" and {len(files) - 1} more" if files[1:] else "")) as done:
        report = table.append_file(
            files,
            format=file_format,
            on_overlap=policy,
            operation_id=parse_operation(operation_id),
            progress=done,
            adopt=None if adopt is None else parse_adopt(adopt),
        )
    if json:
        write_json(asdict(report))
    else:
        say(report_text(report))


def parse_operation(text: str | None) -> tuple[str, int] | str | None:
    """An operation id as typed: `job-7:42` is sequence 42 of the stream job-7, any other text a job.

    >>> parse_operation("job-7:42"), parse_operation("backfill-2026-01-05")
    (('job-7', 42), 'backfill-2026-01-05')
    """
    app, colon, sequence = (text or "").rpartition(":")
    return (app, int(sequence)) if colon and sequence.isascii() and sequence.isdigit() else text


def choose_format(name: str | None, options: Mapping[str, object], files: Sequence[str]) -> Format | None:
    """The format with those of the options that are not None; None where the suffix of each file decides, with none.

    Options without a --format need files of one kind. Raises InvalidOption.
    """
    chosen = parse_format(name)
    given = {option: value for option, value in options.items() if value is not None}
    if not given:
        return chosen
    if chosen is None:
        chosen = _common_format(files, _FORMAT_OPTIONS[next(iter(given))])
    known = {field.name for field in fields(chosen)}
    for name_given, value in given.items():
        if name_given not in known:
            what = f"{_FORMAT_OPTIONS[name_given]} means nothing for {type(chosen).__name__} files"
            raise InvalidOption(what, fix="Leave it out, or say --format csv", option=name_given, value=value)
    if given.get("delimiter") == "\\t":
        given = {**given, "delimiter": "\t"}
    return replace(chosen, **given)  # type: ignore[arg-type]  # each value is checked as the format is born


def _common_format(files: Sequence[str], because: str) -> Format:
    """The one format that the suffixes of all files say; raises InvalidOption where they differ."""
    suffixes: dict[str, Format] = {}
    for path in expand_paths(files):
        suffixes.setdefault(path.suffix, format_of(path, None))
    first, *others = suffixes.values()
    if any(other != first for other in others):
        raise InvalidOption(
            f"{because} is given, and the files are of several formats",
            why=f"Their names end in {', '.join(suffixes)}",
            fix="Append each kind by itself, or say --format",
            option="format", value=None,
        )  # fmt: skip
    return first


def report_text(report: AppendReport) -> str:
    """One line for people.

    >>> report_text(AppendReport(version=2, rows=0, segments=0, buckets=0, skipped_rows=24, skipped_buckets=1))
    'Nothing to write, still version 2. Left out: 24 rows in 1 bucket that the table covers already.'
    """
    if report.already_applied:
        return f"This operation was applied before, by version {report.version}; nothing was written now."
    left_out = f" Left out: {_count(report.skipped_rows, 'row')} in {_count(report.skipped_buckets, 'bucket')} that the table covers already."
    written = f"Version {report.version}: {_count(report.rows, 'row')} in {_count(report.segments, 'segment')}, covering {_count(report.buckets, 'bucket')}{_replaced(report)}."
    return (written if report.segments else f"Nothing to write, still version {report.version}.") + (
        left_out if report.skipped_rows else ""
    )


def _replaced(report: AppendReport) -> str:
    return f", in place of {_count(report.removed_rows, 'row')}" if report.removed_rows else ""


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"
