"""`delta compact`, `zorder`, `vacuum`, `restore`, `checkpoint` and `changes`."""

from __future__ import annotations

from typing import Annotated

import typer

from gapless.cli.compact import finish
from gapless.cli.options import (
    FeedColumns,
    FirstVersion,
    JsonFlag,
    LastVersion,
    StorageOptions,
    TablePath,
    open_delta,
    option,
    parse_columns,
)
from gapless.cli.read import CsvFlag, Limit, OutputFile
from gapless.cli.show.console import say, write_json
from gapless.cli.show.rows import Output
from gapless.cli.travel import Time, Version, tell_restored
from gapless.cli.upkeep import parse_age_text, tell_vacuumed
from gapless.tables.shared.findings import count

TargetMib = Annotated[
    int | None, option("N", "MiB of Parquet that a file shall have; delta.targetFileSize, else 128.", least=1)
]
FilesWhere = Annotated[str | None, option("SQL", "Only files that may hold a row for which this is true.", "--where")]


def compact(
    path: TablePath,
    target_mib: TargetMib = None,
    where: FilesWhere = None,
    storage_option: StorageOptions = None,
    json: JsonFlag = False,
) -> None:
    """Write small files together as larger ones (what Spark calls OPTIMIZE).

    The rows stay the same. It may run beside appends, row changes and readers; `gapless vacuum` frees the files that gave way.

    Example: gapless delta compact trips --where "day >= '2026-01-01'"
    """
    table = open_delta(path, storage_option)
    finish(table.compact(target_size=_bytes(target_mib), where=where), json=json, noun="file")


def zorder(
    path: TablePath,
    column: Annotated[list[str], option("COLUMN", "A column to order by, one to four of them; may be repeated.", "--column")],
    curve: Annotated[str, option("NAME", "z (the default), or hilbert: slower to make, better to filter by.")] = "z",
    target_mib: TargetMib = None,
    where: FilesWhere = None,
    storage_option: StorageOptions = None,
    json: JsonFlag = False,
) -> None:
    """Lay rows that are alike in several columns together (OPTIMIZE … ZORDER BY).

    A filter on any of the columns then opens few files.

    Example: gapless delta zorder trips --column pickup --column dropoff
    """
    table = open_delta(path, storage_option)
    finish(table.zorder(column, curve=curve, target_size=_bytes(target_mib), where=where), json=json, noun="file")


def vacuum(
    path: TablePath,
    older_than: Annotated[
        str | None,
        option("AGE", "How long ago a file must have been removed (RETAIN), such as 7d; delta.deletedFileRetentionDuration."),
    ] = None,
    apply: Annotated[bool, typer.Option("--apply", help="Delete them; without this nothing is changed.")] = False,
    allow_short: Annotated[
        bool,
        typer.Option("--allow-short", help="Allow less than the table's retention: readers and writers at work may fail."),
    ] = False,
    files: Annotated[bool, typer.Option("--files", help="List every file with its reason, those that stay too.")] = False,
    storage_option: StorageOptions = None,
    json: JsonFlag = False,
) -> None:
    """Delete files that no version needs which is kept; without --apply only say which those are.

    Versions before the retention can then be read no more.

    Example: gapless delta vacuum trips --older-than 30d --apply
    """
    age = None if older_than is None else parse_age_text("older-than", older_than)
    report = open_delta(path, storage_option).vacuum(age, dry_run=not apply, enforce_retention=not allow_short)
    tell_vacuumed(report, files=files, json=json, delta=True)


def restore(
    path: TablePath,
    version: Version = None,
    time: Time = None,
    storage_option: StorageOptions = None,
    json: JsonFlag = False,
) -> None:
    """Make rows, columns and properties those of an earlier version again, as a new commit.

    No version is lost. What the table needs of its readers and writers never becomes less.

    Example: gapless delta restore trips --version 41
    """
    table = open_delta(path, storage_option)
    before = table.version
    tell_restored(table.restore(version, time=time), before, json=json, noun="file")


def checkpoint(
    path: TablePath,
    clean_log: Annotated[
        bool, typer.Option("--clean-log", help="Also remove commits older than delta.logRetentionDuration.")
    ] = False,
    storage_option: StorageOptions = None,
    json: JsonFlag = False,
) -> None:
    """Write a log checkpoint, and with --clean-log let go of the log before it.

    Opening the table then reads the checkpoint and no commit. Writers do this by themselves every delta.checkpointInterval commits.

    Example: gapless delta checkpoint trips
    """
    table = open_delta(path, storage_option)
    table.checkpoint()
    removed = table.cleanup_log() if clean_log else ()
    if json:
        write_json({"table": table.url, "version": table.version, "removed": list(removed)})
        return
    cleaned = f" {count(len(removed), 'file')} of the log removed." if clean_log else ""
    say(f"A log checkpoint of version {table.version} is stored.{cleaned}")


def changes(
    path: TablePath,
    first: FirstVersion,
    last: LastVersion = None,
    columns: FeedColumns = None,
    limit: Limit = None,
    json: JsonFlag = False,
    csv: CsvFlag = False,
    output: OutputFile = None,
    storage_option: StorageOptions = None,
) -> None:
    """Tell what commits did to the rows: the change data feed.

    Of versions that had delta.enableChangeDataFeed.

    Example: gapless delta changes trips 7 9
    """
    shape = Output(json=json, csv=csv, file=output, limit=limit)
    table = open_delta(path, storage_option)
    shape.emit(table.changes(first, last, columns=parse_columns(table, columns)))


def _bytes(mib: int | None) -> int | None:
    return None if mib is None else mib << 20
