"""`verify` and `repair`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from gapless.cli.options import JsonFlag, TableRef, flag
from gapless.cli.show.console import print_line, write_json
from gapless.cli.show.rows import row_progress
from gapless.draw.label import printable
from gapless.tables.shared.findings import Finding, RepairReport, VerifyReport, count
from gapless.tables.verify import repair as repair_table
from gapless.tables.verify import verify as verify_table

FOUND_PROBLEMS = 1
"""Exit code of `verify` and `repair` where a problem is found, or left."""

_FIXES = {
    "repair": "`gapless repair` mends it",
    "accept-loss": "`gapless repair --accept-loss` gives it up, so that the table opens again",
    "no": "repair cannot mend it: bring the file back from a backup",
}

DeepFlag = Annotated[bool, flag("--deep", "Read every row too, and compare counts, bounds, statistics and coverage.")]


def verify(table: TableRef, deep: DeepFlag = False, json: JsonFlag = False) -> None:
    """Check a table for damage: the log, every file's bytes, the coverage.

    Writes nothing. The exit code is 1 where there is a problem; notes are no problems.

    Example: gapless verify prices --deep
    """
    with row_progress(f"verifying {table.path}", "segments") as done:
        report = verify_table(table.path, deep=deep, storage_options=table.storage, progress=done)
    if json:
        write_json(_verify_document(report))
    else:
        _print_findings(report.findings)
        print_line(_verify_text(report))
    if not report.ok:
        raise typer.Exit(FOUND_PROBLEMS)


def repair(
    table: TableRef,
    apply: Annotated[bool, flag("--apply", "Do it; without this nothing is changed.")] = False,
    accept_loss: Annotated[
        bool,
        flag("--accept-loss", "Give lost or unreadable commits up: another takes their number, and what they did stays lost."),
    ] = False,
    deep: DeepFlag = False,
    json: JsonFlag = False,
) -> None:
    """Repair what can be repaired: hints, log checkpoints, coverage; lost commits.

    Without --apply it only says what it would do. The exit code is 1 where a problem is left, or where there is something to do.

    Example: gapless repair prices --apply
    """
    report = repair_table(table.path, apply=apply, accept_loss=accept_loss, deep=deep, storage_options=table.storage)
    if json:
        write_json({"table": report.url, "ok": report.ok, "applied": report.applied, **_repair_lists(report)})
    else:
        for step in report.steps:
            print_line(("Done " if report.applied else "Would do ", "bold green"), printable(f"{step.path}: {step.what}"))
        _print_findings(report.left)
        print_line(_repair_text(report))
    if not report.ok:
        raise typer.Exit(FOUND_PROBLEMS)


def _verify_text(report: VerifyReport) -> str:
    """One line for people."""
    looked = f"Version {report.version}: {count(report.commits, 'commit')} and {count(report.segments, 'segment')} looked at"
    read = f", {report.bytes_read:,} bytes against their checksums"
    rows = ", every row read" if report.deep else ""
    bare = f", {count(report.unchecked, 'segment')} without a checksum" if report.unchecked else ""
    notes = f", {count(len(report.notes), 'note')}" if report.notes else ""
    return f"{looked}{read}{rows}{bare}. {count(len(report.problems), 'problem') if report.problems else 'No problem'}{notes}."


def _repair_text(report: RepairReport) -> str:
    if report.ok:
        return f"{count(len(report.steps), 'step')} done; no problem is left." if report.steps else "Nothing to mend."
    left = f"{count(len(report.left), 'problem')} left" if report.left else "no problem left"
    if report.applied:
        return f"{count(len(report.steps), 'step')} done; {left}."
    todo = "Nothing that could be done" if not report.steps else f"{count(len(report.steps), 'step')} to do with --apply"
    return f"{todo}; {left} after that. Nothing was changed."


def _print_findings(findings: Sequence[Finding]) -> None:
    for finding in findings:
        mends = f" ({_fix_text(finding)})" if finding.severity == "problem" else ""
        head = ("Problem ", "bold red") if finding.severity == "problem" else ("Note ", "bold")
        print_line(
            head, (f"[{finding.code}] ", "red" if finding.severity == "problem" else "dim"), printable(finding.what + mends)
        )


def _fix_text(finding: Finding) -> str:
    return "a release that knows it is needed" if finding.code == "commit-unsupported" else _FIXES[finding.mend]


def _verify_document(report: VerifyReport) -> dict[str, object]:
    return {
        "table": report.url,
        "ok": report.ok,
        "version": report.version,
        "deep": report.deep,
        "commits": report.commits,
        "segments": report.segments,
        "bytes_read": report.bytes_read,
        "unchecked": report.unchecked,
        "problems": [asdict(finding) for finding in report.problems],
        "notes": [asdict(finding) for finding in report.notes],
    }


def _repair_lists(report: RepairReport) -> dict[str, object]:
    return {"steps": [asdict(step) for step in report.steps], "left": [asdict(finding) for finding in report.left]}
