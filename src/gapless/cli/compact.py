"""`compact`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from gapless.cli.options import JsonFlag, StorageOptions, TablePath, UpgradeFlag, open_any, option, refuse_given
from gapless.cli.show.console import say, write_json
from gapless.draw.label import printable
from gapless.tables.shared.compaction import CompactionReport
from gapless.tables.shared.findings import count
from gapless.tables.timeseries.care.compact_plan import CompactionPlan, mebibytes
from gapless.tables.timeseries.table import TimeSeriesTable

GAVE_UP = 1
"""Exit code where segments could not be laid out anew, and no other change is why."""
_TARGET_MIB = 128


def compact(
    path: TablePath,
    target_mib: Annotated[
        int | None,
        option(
            "N", "MiB of Parquet that a segment shall have; 128, or what a Delta table's delta.targetFileSize says.", least=1
        ),
    ] = None,
    window: Annotated[str | None, option("STRETCH", "No segment crosses an edge of these, such as 1d or 1mo.")] = None,
    codec: Annotated[str | None, option("NAME", "Also write segments again that have another codec.")] = None,
    cluster_by: Annotated[
        list[str] | None, option("COLUMN", "Rows lie along the z-order of these columns; may be repeated.", "--cluster-by")
    ] = None,
    resort: Annotated[bool, typer.Option("--resort", help="Also write large segments again that scans must sort.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say which segments would go together and why.")] = False,
    upgrade: UpgradeFlag = False,
    storage_option: StorageOptions = None,
    json: JsonFlag = False,
) -> None:
    """Write small segments together as larger ones, sorted; the rows stay the same.

    Those of a Delta table are its files, whose rows keep their order. It may run beside appends and readers. The exit code is 1 where damaged segments had to be left as they are.

    Example: gapless compact prices --window 1mo --dry-run
    """
    table = open_any(path, storage_option, upgrade=upgrade)
    if not isinstance(table, TimeSeriesTable):
        given = {"window": window, "codec": codec, "cluster-by": cluster_by, "resort": resort, "dry-run": dry_run}
        refuse_given(given, "This is a Delta table", "See `gapless delta compact --help` and `gapless delta zorder --help`")
        finish(table.compact(target_size=None if target_mib is None else target_mib << 20), json=json, noun="file")
        return
    target, columns = (target_mib or _TARGET_MIB) << 20, cluster_by or ()
    if dry_run:
        plan = table.plan_compaction(target_size=target, window=window, codec=codec, cluster_by=columns, resort=resort)
        _say_plan(plan, json=json)
        return
    finish(table.compact(target_size=target, window=window, codec=codec, cluster_by=columns, resort=resort), json=json)


def finish(report: CompactionReport, *, json: bool, noun: str = "segment") -> None:
    """Print what a compaction did, and end with exit code 1 where damaged segments had to be left as they are."""
    if json:
        write_json(asdict(report))
    else:
        for one in report.given_up:
            say(("Left ", "bold"), printable(f"{count(len(one.paths), noun)}: {one.why}"))
        say(verdict(report, noun))
    if not all(one.overtaken for one in report.given_up):
        raise typer.Exit(GAVE_UP)


def _say_plan(plan: CompactionPlan, *, json: bool) -> None:
    if not json:
        say(printable_lines(plan.explain()))
        return
    bins = [
        {"segments": sorted(one.paths), "rows": one.rows, "bytes": one.size, "causes": dict(one.causes)} for one in plan.bins
    ]
    write_json({"bins": bins, "left": dict(plan.left)})


def verdict(report: CompactionReport, noun: str = "segment") -> str:
    """One line for people."""
    if not report.bins:
        return f"Nothing to compact; the table stays at version {report.version}."
    became = f"{count(report.segments_before, noun)} of {mebibytes(report.bytes_before)} became {report.segments_after:,}"
    return f"Version {report.version}: {became} of {mebibytes(report.bytes_after)}, {count(report.rows, 'row')}."


def printable_lines(text: str) -> str:
    """Lines of text, each without what a terminal would obey."""
    return "\n".join(map(printable, text.splitlines()))
