"""`fill`: ask a command for every gap."""

from __future__ import annotations

from typing import Annotated

import typer

from gapless.cli.answers import Shown
from gapless.cli.command import GapCommand
from gapless.cli.console import print_table, say, write_json
from gapless.cli.cover import FOUND_GAPS
from gapless.cli.expected import read_expected
from gapless.cli.options import (
    CalendarText,
    EntityFilter,
    ExpectFile,
    JsonFlag,
    Start,
    StorageOptions,
    TablePath,
    Until,
    UpgradeFlag,
    open_table,
    option,
    parse_entity,
)
from gapless.cli.progress import row_progress
from gapless.cli.texts import Plain
from gapless.table.fill import FillReport


def fill(
    path: TablePath,
    command: Annotated[
        str,
        option(
            "COMMAND", "Run for each gap: {start}, {end} and {COLUMN} of each entity column stand for its values; no shell."
        ),
    ],
    start: Start = None,
    until: Until = None,
    entity: EntityFilter = None,
    expect: ExpectFile = None,
    calendar: CalendarText = None,
    format_: Annotated[
        str, option("NAME", "What the command writes to stdout: csv (the default), jsonl or parquet.", "--format")
    ] = "csv",
    max_buckets: Annotated[int | None, option("N", "Ask for longer gaps in parts of so many buckets.", least=1)] = None,
    workers: Annotated[int, option("N", "How many commands may run at once.", least=1)] = 1,
    go_on: Annotated[bool, typer.Option("--keep-going", help="Go on with the next gap where the command fails.")] = False,
    fail_if_any: Annotated[
        bool, typer.Option("--fail-if-any", help="Exit with 3 where something is still missing, for a cron job.")
    ] = False,
    upgrade: UpgradeFlag = False,
    storage_option: StorageOptions = None,
    json: JsonFlag = False,
) -> None:
    """Ask a command for each gap, and append what it writes to stdout.

    Times are given as `gapless gaps` prints them; the end is just past the gap. Entity columns may be left out of the answer, and an
    empty one means that nothing is there. What came stays, so that calling again asks for exactly what is still missing.

    Example: gapless fill prices --until now --command 'fetch-bars {symbol} --from {start} --to {end}'
    """
    table = open_table(path, storage_option, upgrade=upgrade)
    shown = Shown(table=table)
    with row_progress(f"filling {table.name}", noun="gaps") as done:
        report = table.fill(
            GapCommand.parse(command, format_, shown),
            start,
            until,
            entity=parse_entity(table, entity),
            identities=read_expected(table, expect),
            calendar=calendar,
            max_buckets=max_buckets,
            max_workers=workers,
            progress=done,
            on_error="continue" if go_on else "raise",
        )
    if json:
        write_json(fill_document(shown, report))
    else:
        if report.failed:
            rows = [[*shown.gap_row(failed.gap), failed.reason] for failed in report.failed]
            print_table((*table.entity, "start", "end", "buckets", "failed"), rows)
        say(fill_verdict(report))
    if report.failed:
        raise typer.Exit(1)
    if fail_if_any and report.missing:
        raise typer.Exit(FOUND_GAPS)


def fill_document(shown: Shown, report: FillReport) -> dict[str, Plain]:
    """What `fill --json` prints."""
    return {
        "version": report.version,
        "asked": report.asked,
        "rows": report.rows,
        "skipped_rows": report.skipped_rows,
        "filled_buckets": report.filled_buckets,
        "missing_buckets": report.missing_buckets,
        "missing": [shown.stretch(gap) for gap in report.missing],
        "empty": [shown.stretch(gap) for gap in report.empty],
        "failed": [{**(shown.stretch(one.gap) or {}), "reason": one.reason} for one in report.failed],
    }


def fill_verdict(report: FillReport) -> str:
    """What a fill did, in a few sentences."""
    if not report.asked:
        return "Nothing is missing, so nothing was asked for."
    asked = f"Asked for {_count(report.asked, 'gap')}: {_count(report.rows, 'row')} came and filled {_count(report.filled_buckets, 'bucket')}."
    empty = f" Nothing came for {_count(len(report.empty), 'gap')}." if report.empty else ""
    failed = f" {_count(len(report.failed), 'gap')} failed." if report.failed else ""
    skipped = f" Left out: {_count(report.skipped_rows, 'row')} of covered buckets." if report.skipped_rows else ""
    still = f"Still missing: {_count(report.missing_buckets, 'bucket')} in {_count(len(report.missing), 'gap')}."
    return f"{asked}{skipped}{empty}{failed} {still if report.missing else 'Nothing is missing any more.'}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"
