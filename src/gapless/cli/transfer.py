"""`import` and `export`: whole tables from and to elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer

from gapless.cli.options import JsonFlag, TableRef, argument, flag, option, parse_mapping
from gapless.cli.show.console import print_line, print_table, write_json
from gapless.cli.show.rows import row_progress
from gapless.cli.write import IndexOptions, PropertyTexts, parse_properties
from gapless.draw.label import printable
from gapless.errors import one_of
from gapless.tables.shared.findings import count
from gapless.tables.transfer.export import FORMATS as EXPORT_FORMATS
from gapless.tables.transfer.import_table import import_table
from gapless.tables.transfer.report import OUTCOMES, ImportReport

WAYS = ("copy", "link", "rewrite")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportPlaces:
    """What is imported, and where the new table lies."""

    source: Annotated[
        str, argument("SOURCE", "A Delta, Iceberg or Hudi table, or a directory of Parquet files: a path or a URL.")
    ]
    target: Annotated[str, argument("TARGET", "Where the time-series table is made: a local path, or s3://, gs://, az://.")]
    storage_option: Annotated[
        list[str] | None, option("NAME=VALUE", "Option of the target's bucket, in obstore's names; may be repeated.")
    ] = None
    source_storage_option: Annotated[
        list[str] | None, option("NAME=VALUE", "Option of the source's bucket; may be repeated.")
    ] = None

    @property
    def options(self) -> dict[str, Any]:
        """The options of both buckets, as `gl.import_table` takes them. Raises InvalidOption."""
        return {
            "storage_options": parse_mapping("storage-option", self.storage_option) or None,
            "source_storage_options": parse_mapping("source-storage-option", self.source_storage_option) or None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedRows:
    """Which rows are imported, and how their files are taken."""

    format: Annotated[
        str | None, option("NAME", "delta, iceberg, hudi or parquet; what lies there decides where not given.")
    ] = None
    catalog: Annotated[
        str | None, option("NAME", "The Iceberg catalog of SOURCE, which is namespace.table then, as pyiceberg is configured.")
    ] = None
    source_version: Annotated[
        str | None, option("N", "The version, snapshot id or instant of the source; the newest where not given.")
    ] = None
    exclude: Annotated[list[str] | None, option("COLUMN", "A column to leave out; may be repeated.")] = None
    adopt: Annotated[
        str,
        option(
            "WAY", "How files are taken that fit: copy (where not given), link (a second name on one disk), or rewrite all."
        ),
    ] = "copy"

    @property
    def options(self) -> dict[str, Any]:
        """As `gl.import_table` takes them. Raises InvalidOption."""
        one_of("adopt", self.adopt, WAYS)
        return asdict(self) | {"adopt": None if self.adopt == "rewrite" else self.adopt}


def import_(
    places: ImportPlaces,
    index: IndexOptions,
    rows: ImportedRows,
    properties: PropertyTexts = None,
    dry_run: Annotated[bool, flag("--dry-run", "Only list what becomes of each file; nothing is written.")] = False,
    json: JsonFlag = False,
) -> None:
    """Import a table of another format: its files are taken as they are where they fit, and the source stays as it is.

    A command that was killed is given again, and goes on. Where a file can be neither taken nor rewritten, nothing is imported (exit code 1).

    Example: gapless import trips-delta trips --index pickup --bucket 1h --dry-run
    """
    options: dict[str, Any] = asdict(index) | {"entity": index.entity or ()} | places.options | rows.options
    with row_progress(f"importing {places.source}") as done:
        report = import_table(
            places.source,
            places.target,
            dry_run=dry_run,
            properties=parse_properties(properties),
            progress=done,
            **options,
        )
    if json:
        write_json(asdict(report))
    else:
        _print(report)
    if report.count("refused"):
        raise typer.Exit(1)


def _print(report: ImportReport) -> None:
    if report.dry_run:
        print_table(["file", "outcome", "rows", "why"], [[one.name, one.outcome, one.rows, one.reason] for one in report.files])
    print_line(printable(import_text(report)))
    _print_not_kept(report.not_kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedCopy:
    """What is exported, and as what."""

    target: Annotated[str, argument("TARGET", "Where the copy is made: a path or a URL at which nothing lies.")]
    format: Annotated[str, option("NAME", "parquet (where not given), delta, iceberg, hudi or timeseries.")] = "parquet"
    version: Annotated[int | None, option("N", "The version to copy; the newest where not given.")] = None
    target_storage_option: Annotated[
        list[str] | None, option("NAME=VALUE", "Option of the target's bucket, in obstore's names; may be repeated.")
    ] = None
    index: Annotated[str | None, option("COLUMN", "timeseries, of a Delta table: the column that orders rows.")] = None
    bucket: Annotated[str | None, option("LENGTH", "timeseries, of a Delta table: what coverage counts in.")] = None
    entity: Annotated[list[str] | None, option("COLUMN", "timeseries: a column that tells series apart; may be repeated.")] = (
        None
    )
    index_type: Annotated[str | None, option("TYPE", "timeseries: timestamp (where not given), int64 or uint64.")] = None
    partition_by: Annotated[
        list[str] | None, option("COLUMN", "delta: a column by whose values files lie apart; may be repeated.")
    ] = None

    @property
    def options(self) -> dict[str, Any]:
        """As `table.export` takes them. Raises InvalidOption."""
        given = {name: getattr(self, name) for name in ("index", "bucket", "entity", "index_type", "partition_by")}
        storage = parse_mapping("target-storage-option", self.target_storage_option) or None
        return {"storage_options": storage} | {name: value for name, value in given.items() if value}


def export(table: TableRef, copy: ExportedCopy, json: JsonFlag = False) -> None:
    """Export a version of a table of either kind as a plain copy, which others read without gapless.

    Example: gapless export prices prices-2026 --format delta
    """
    opened = table.open()
    view = opened if copy.version is None else opened.at(copy.version)
    report = view.export(copy.target, one_of("format", copy.format, EXPORT_FORMATS), **copy.options)
    if json:
        write_json(asdict(report))
        return
    print_line(
        printable(
            f"{report.target} has version {report.version} as {report.format}: "
            f"{count(report.rows, 'row')} in {count(report.files, 'file')}."
        )
    )
    _print_not_kept(report.not_kept)


def _print_not_kept(lines: Sequence[str]) -> None:
    for line in lines:
        print_line(printable(f"Not kept: {line}"))


def import_text(report: ImportReport) -> str:
    """What an import did, or would do, in a line or two."""
    counted = _counts(report)
    if report.already_applied:
        return f"All of version {report.source_version} of {report.source} is in {report.target} already: {counted}."
    if report.dry_run:
        return f"Nothing was written. Of {report.source}: {counted}."
    return f"{report.target} is at version {report.version}, with {report.format} version {report.source_version}: {counted}."


def _counts(report: ImportReport) -> str:
    parts: Sequence[str] = [
        f"{count(report.count(outcome), 'file')} {outcome}"
        + ("" if (rows := report.rows(outcome)) is None else f" ({count(rows, 'row')})")
        for outcome in OUTCOMES
        if report.count(outcome)
    ]
    return ", ".join(parts) or "no files"
