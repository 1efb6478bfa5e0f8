"""`verify` and `repair`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from gapless.cli.options import JsonFlag, StorageOptions, TablePath, parse_mapping
from gapless.cli.show.console import say, write_json
from gapless.cli.show.rows import row_progress
from gapless.draw.label import printable
from gapless.tables.shared.findings import Finding, RepairReport, VerifyReport, count
from gapless.tables.verify import repair as repair_table
from gapless.tables.verify import verify as verify_table

FOUND_PROBLEMS = 1
"""Exit code of `verify` and `repair` where a problem is found, or left."""

_MENDS = {
    "repair": "`gapless repair` mends it",
    "accept-loss": "`gapless repair --accept-loss` gives it up, so that the table opens again",
    "no": "repair cannot mend it: bring the file back from a backup",
}

DeepFlag = Annotated[
    bool, typer.Option("--deep", help="Read every row too, and compare counts, bounds, statistics and coverage.")
]


def verify(path: TablePath, deep: DeepFlag = False, storage_option: StorageOptions = None, json: JsonFlag = False) -> None:
    """Look for damage: in the log, in every segment's bytes, in the coverage.

    Writes nothing. The exit code is 1 where there is a problem; notes are no problems.

    Example: gapless verify prices --deep
    """
    options = parse_mapping("storage-option", storage_option) or None
    with row_progress(f"verifying {path}", "segments") as done:
        report = verify_table(path, deep=deep, storage_options=options, progress=done)
    if json:
        write_json(_verify_document(report))
    else:
        _say_findings(report.findings)
        say(verdict(report))
    if not report.ok:
        raise typer.Exit(FOUND_PROBLEMS)


def repair(
    path: TablePath,
    apply: Annotated[bool, typer.Option("--apply", help="Do it; without this nothing is changed.")] = False,
    accept_loss: Annotated[
        bool,
        typer.Option(
            "--accept-loss",
            help="Give lost or unreadable commits up: another takes their number, and what they did stays lost.",
        ),
    ] = False,
    deep: DeepFlag = False,
    storage_option: StorageOptions = None,
    json: JsonFlag = False,
) -> None:
    """Mend what can be mended: hints, log checkpoints, coverage; lost commits.

    Without --apply it only says what it would do. The exit code is 1 where a problem is left, or where there is something to do.

    Example: gapless repair prices --apply
    """
    options = parse_mapping("storage-option", storage_option) or None
    report = repair_table(path, apply=apply, accept_loss=accept_loss, deep=deep, storage_options=options)
    if json:
        write_json({"table": report.url, "ok": report.ok, "applied": report.applied, **_repair_lists(report)})
    else:
        for step in report.steps:
            say(("Done " if report.applied else "Would do ", "bold green"), printable(f"{step.path}: {step.what}"))
        _say_findings(report.left)
        say(_repair_verdict(report))
    if not report.ok:
        raise typer.Exit(FOUND_PROBLEMS)


def verdict(report: VerifyReport) -> str:
    """One line for people."""
    looked = f"Version {report.version}: {count(report.commits, 'commit')} and {count(report.segments, 'segment')} looked at"
    read = f", {report.bytes_read:,} bytes against their checksums"
    rows = ", every row read" if report.deep else ""
    bare = f", {count(report.unchecked, 'segment')} without a checksum" if report.unchecked else ""
    notes = f", {count(len(report.notes), 'note')}" if report.notes else ""
    return f"{looked}{read}{rows}{bare}. {count(len(report.problems), 'problem') if report.problems else 'No problem'}{notes}."


def _repair_verdict(report: RepairReport) -> str:
    if report.ok:
        return f"{count(len(report.steps), 'step')} done; no problem is left." if report.steps else "Nothing to mend."
    left = f"{count(len(report.left), 'problem')} left" if report.left else "no problem left"
    if report.applied:
        return f"{count(len(report.steps), 'step')} done; {left}."
    todo = "Nothing that could be done" if not report.steps else f"{count(len(report.steps), 'step')} to do with --apply"
    return f"{todo}; {left} after that. Nothing was changed."


def _say_findings(findings: Sequence[Finding]) -> None:
    for finding in findings:
        mends = f" ({_mend_text(finding)})" if finding.severity == "problem" else ""
        head = ("Problem ", "bold red") if finding.severity == "problem" else ("Note ", "bold")
        say(head, (f"[{finding.code}] ", "red" if finding.severity == "problem" else "dim"), printable(finding.what + mends))


def _mend_text(finding: Finding) -> str:
    return "a release that knows it is needed" if finding.code == "commit-unsupported" else _MENDS[finding.mend]


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
