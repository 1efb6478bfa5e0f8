"""`vacuum` and `expire`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta
from typing import Annotated

import typer

from gapless.cli.options import JsonFlag, StorageOptions, TablePath, UpgradeFlag, open_any, open_table, option
from gapless.cli.show.console import print_table, say, write_json
from gapless.draw.label import printable
from gapless.errors import InvalidOption
from gapless.tables.shared.findings import count
from gapless.tables.shared.vacuum import Reason, VacuumReport
from gapless.tables.timeseries.table import TimeSeriesTable

_MEANS: Mapping[Reason, str] = {
    "live": "the newest version has it",
    "retained": "an older version has it; `gapless expire` lets go of those",
    "tagged": "a tag keeps a version that has it",
    "recent": "not needed, but for less than --older-than",
    "in-flight": "a writer at work may be about to commit it",
    "unknown": "no name of ours, or beyond a symbolic link: never touched",
    "expired": "only expired versions had it",
    "orphan": "an interrupted write left it",
}
_MEANS_OF_DELTA: Mapping[Reason, str] = {
    **_MEANS,
    "retained": "a version that is kept has it",
    "recent": "not needed, but for less than the retention",
    "expired": "only older versions than those that are kept had it",
}
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_LONGEST_S = 10_000_000 * _SECONDS["d"]


def parse_age_text(option_name: str, text: str) -> timedelta:
    """An age such as `7d`, `12h` or `0`, of less than 10,000,000 days; raises InvalidOption."""
    match = re.fullmatch(r"\s*(\d{1,9})\s*([smhdw]?)\s*", text)
    seconds = 0 if match is None else int(match[1]) * _SECONDS[match[2] or "s"]
    if match is None or (not match[2] and seconds) or seconds >= _LONGEST_S:
        raise InvalidOption(
            f"--{option_name} {text!r} is no age",
            why="It is a whole number and a unit: s, m, h, d or w",
            fix=f"Write it as --{option_name} 7d",
            option=option_name,
            value=text,
        )
    return timedelta(seconds=seconds)


def vacuum(
    path: TablePath,
    older_than: Annotated[
        str | None,
        option(
            "AGE",
            "How long ago a file must have been removed from the table, or written in vain; 7d where not given, and of a Delta table its delta.deletedFileRetentionDuration.",
        ),
    ] = None,
    apply: Annotated[bool, typer.Option("--apply", help="Delete them; without this nothing is changed.")] = False,
    files: Annotated[bool, typer.Option("--files", help="List every file with its reason, those that stay too.")] = False,
    upgrade: UpgradeFlag = False,
    storage_option: StorageOptions = None,
    json: JsonFlag = False,
) -> None:
    """Delete files that no version needs which is kept; without --apply only say which those are.

    Of a time-series table all versions are kept until `gapless expire` lets go of them, and what an interrupted write left stays for a
    day at least. Of a Delta table those of the retention are kept; see `gapless delta vacuum`.

    Example: gapless vacuum prices --older-than 7d --apply
    """
    age = None if older_than is None else parse_age_text("older-than", older_than)
    table = open_any(path, storage_option, upgrade=upgrade)
    if isinstance(table, TimeSeriesTable):
        report = table.vacuum(timedelta(days=7) if age is None else age, dry_run=not apply)
    else:
        report = table.vacuum(age, dry_run=not apply)
    tell_vacuumed(report, files=files, json=json, delta=not isinstance(table, TimeSeriesTable))


def tell_vacuumed(report: VacuumReport, *, files: bool, json: bool, delta: bool = False) -> None:
    """Print what a vacuum did or would do; `files` lists those that stay too."""
    if json:
        write_json(_vacuum_document(report))
        return
    shown = report.entries if files else report.deleted
    if shown:
        names = ("path", "bytes", "reason", "version", "tag")
        print_table(names, [[one.path, one.size, one.reason, one.version or "", one.tag or ""] for one in shown])
    for reason, means in (_MEANS_OF_DELTA if delta else _MEANS).items():
        if number := report.files.get(reason, 0):
            say((f"{reason} ", "bold"), f"{count(number, 'file')}: {means}")
    say(_vacuum_verdict(report))


def _vacuum_verdict(report: VacuumReport) -> str:
    if not report.deleted:
        return "Nothing to delete."
    what = f"{count(len(report.deleted), 'file')} of {report.freed_bytes:,} bytes"
    return f"{what} would be deleted with --apply. Nothing was changed." if report.dry_run else f"{what} deleted."


def _vacuum_document(report: VacuumReport) -> dict[str, object]:
    return {
        "table": report.url,
        "version": report.version,
        "dry_run": report.dry_run,
        "deleted": len(report.deleted),
        "freed_bytes": report.freed_bytes,
        "files": [{**asdict(entry), "goes": entry.goes} for entry in report.entries],
    }


def expire(
    path: TablePath,
    keep_versions: Annotated[int | None, option("N", "How many of the newest versions stay.", least=1)] = None,
    older_than: Annotated[
        str | None, option("AGE", "Let go of versions that ceased to be the newest longer ago than this, such as 30d.")
    ] = None,
    clean_log: Annotated[
        bool,
        typer.Option(
            "--clean-log",
            help="Also remove their commits, a day old or older; timeseries-table-format can then read the table no more.",
        ),
    ] = False,
    upgrade: UpgradeFlag = False,
    storage_option: StorageOptions = None,
    json: JsonFlag = False,
) -> None:
    """Let go of old versions: they can be read no longer, and `gapless vacuum` frees what only they had.

    With both rules a version stays that either keeps. The newest version stays, and those that a tag names.

    Example: gapless expire prices --older-than 30d
    """
    age = None if older_than is None else parse_age_text("older-than", older_than)
    table = open_table(path, storage_option, upgrade=upgrade)
    report = table.expire(keep_versions=keep_versions, older_than=age, clean_log=clean_log)
    if json:
        write_json({"table": report.url, **{k: v for k, v in asdict(report).items() if k != "url"}})
        return
    kept = f" Kept by tags: {', '.join(report.tags)}." if report.tags else ""
    gone = f"{count(report.expired, 'version')} expired; the earliest that is kept is {report.earliest}."
    say(printable((gone if report.expired else "No version to let go of.") + kept))
    if clean_log:
        say(f"{count(len(report.removed), 'file')} of the log removed." if report.removed else "Nothing of the log to remove.")
