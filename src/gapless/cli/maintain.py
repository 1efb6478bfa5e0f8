"""`compact`, `vacuum` and `expire`; `delta zorder` and `delta checkpoint`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Annotated, Any, ClassVar

import typer

from gapless.cli.options import DeltaTableRef, JsonFlag, OptionGroup, TableRef, UpgradeFlag, file_noun, flag, option
from gapless.cli.show.console import print_line, print_table, write_json
from gapless.cli.show.published import tell_unpublished
from gapless.draw.label import printable
from gapless.model.time.duration import parse_duration
from gapless.tables.delta.care.compact_plan import DeltaCompactionPlan
from gapless.tables.shared.compaction import CompactionReport
from gapless.tables.shared.compaction_plan import mebibytes
from gapless.tables.shared.findings import count
from gapless.tables.shared.handle import Kind
from gapless.tables.shared.vacuum import Reason, VacuumReport
from gapless.tables.timeseries.care.compact_plan import CompactionPlan
from gapless.tables.timeseries.care.expire import ExpireReport
from gapless.tables.timeseries.table import TimeSeriesTable

# -- compaction ----------------------------------------------------------------------------------------------------------

GAVE_UP = 1
"""Exit code where segments could not be compacted, and no other change is why."""
_TARGET_MIB = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesCompaction(OptionGroup):
    """How segments of a time-series table are laid out."""

    kind: ClassVar[Kind] = "timeseries"
    why: ClassVar[str] = "This is a Delta table"
    fix: ClassVar[str] = "See `gapless delta compact --help` and `gapless delta zorder --help`"
    window: Annotated[str | None, option("STRETCH", "No segment crosses an edge of these, such as 1d or 1mo.")] = None
    codec: Annotated[str | None, option("NAME", "Also write segments again that have another codec.")] = None
    cluster_by: Annotated[
        list[str] | None, option("COLUMN", "Rows lie along the z-order of these columns; may be repeated.")
    ] = None
    resort: Annotated[bool, flag("--resort", "Also write large segments again that scans must sort.")] = False


DryRun = Annotated[bool, flag("--dry-run", "Say which files would go together and why, and change nothing.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFilter(OptionGroup):
    """Which files of a Delta table are compacted."""

    kind: ClassVar[Kind] = "delta"
    why: ClassVar[str] = "This is a time-series table, which is compacted whole"
    where: Annotated[str | None, option("SQL", "Only files that may hold a row for which this is true.")] = None


TargetMib = Annotated[
    int | None, option("N", "MiB of Parquet that a file shall have; delta.targetFileSize, else 128.", least=1)
]


def compact(
    table: TableRef,
    series: SeriesCompaction,
    files: FileFilter,
    target_mib: Annotated[
        int | None,
        option(
            "N", "MiB of Parquet that a segment shall have; 128, or what a Delta table's delta.targetFileSize says.", least=1
        ),
    ] = None,
    dry_run: DryRun = False,
    upgrade: UpgradeFlag = False,
    json: JsonFlag = False,
) -> None:
    """Compact small segments into larger ones, sorted; the rows stay the same.

    Those of a Delta table are its files, whose rows keep their order (OPTIMIZE). It may run beside appends and readers. The exit code is
    1 where damaged segments had to be left as they are.

    Example: gapless compact prices --window 1mo --dry-run
    """
    opened = table.open(series, files, upgrade=upgrade)
    if not isinstance(opened, TimeSeriesTable):
        target_size = _bytes(target_mib)
        if dry_run:
            _print_plan(opened.plan_compaction(target_size=target_size, where=files.where), json=json)
        else:
            _end_compaction(opened.compact(target_size=target_size, where=files.where), file_noun(opened), json=json)
        return
    options: dict[str, Any] = asdict(series) | {"target_size": _bytes(target_mib or _TARGET_MIB)}
    options["cluster_by"] = series.cluster_by or ()
    if dry_run:
        _print_plan(opened.plan_compaction(**options), json=json)
    else:
        _end_compaction(opened.compact(**options), file_noun(opened), json=json)


def delta_compact(
    table: DeltaTableRef, files: FileFilter, target_mib: TargetMib = None, dry_run: DryRun = False, json: JsonFlag = False
) -> None:
    """Compact small files into larger ones (OPTIMIZE).

    The rows stay the same. It may run beside appends, row changes and readers; `gapless vacuum` deletes the files that were replaced.

    Example: gapless delta compact trips --where "day >= '2026-01-01'"
    """
    compact(table, SeriesCompaction(), files, target_mib, dry_run=dry_run, json=json)


def zorder(
    table: DeltaTableRef,
    files: FileFilter,
    column: Annotated[list[str], option("COLUMN", "A column to order by, one to four of them; may be repeated.")],
    curve: Annotated[str, option("NAME", "z (the default), or hilbert: slower to make, better to filter by.")] = "z",
    target_mib: TargetMib = None,
    json: JsonFlag = False,
) -> None:
    """Cluster rows by several columns (OPTIMIZE … ZORDER BY).

    A filter on any of the columns then opens few files.

    Example: gapless delta zorder trips --column pickup --column dropoff
    """
    opened = table.open_delta()
    report = opened.zorder(column, curve=curve, target_size=_bytes(target_mib), where=files.where)
    _end_compaction(report, file_noun(opened), json=json)


def _bytes(mib: int | None) -> int | None:
    return None if mib is None else mib << 20


def _end_compaction(report: CompactionReport, noun: str, *, json: bool) -> None:
    """Print what a compaction did, and end with exit code 1 where damaged segments had to be left as they are."""
    if json:
        write_json(asdict(report))
    else:
        for one in report.given_up:
            print_line(("Left ", "bold"), printable(f"{count(len(one.paths), noun)}: {one.why}"))
        print_line(compaction_text(report, noun))
        tell_unpublished(report.published)
    if not all(one.overtaken for one in report.given_up):
        raise typer.Exit(GAVE_UP)


def compaction_text(report: CompactionReport, noun: str) -> str:
    """What a compaction did."""
    if not report.bins:
        return f"Nothing to compact; the table stays at version {report.version}."
    became = f"{count(report.segments_before, noun)} of {mebibytes(report.bytes_before)} became {report.segments_after:,}"
    return f"Version {report.version}: {became} of {mebibytes(report.bytes_after)}, {count(report.rows, 'row')}."


def _print_plan(plan: CompactionPlan | DeltaCompactionPlan, *, json: bool) -> None:
    if not json:
        print_line("\n".join(map(printable, plan.explain().splitlines())))
        return
    bins = [
        {"segments": sorted(one.paths), "rows": one.rows, "bytes": one.size, "causes": dict(one.causes)} for one in plan.bins
    ]
    write_json({"bins": bins, "left": dict(plan.left)})


# -- vacuum, expiry and log checkpoints ------------------------------------------------------------------------------------

_MEANINGS: Mapping[Reason, str] = {
    "live": "the newest version has it",
    "retained": "an older version has it; `gapless expire` lets go of those",
    "tagged": "a tag keeps a version that has it",
    "recent": "not needed, but for less than --older-than",
    "in-flight": "a writer at work may be about to commit it",
    "prepared": "a prepared commit keeps it until it is finalized or aborted",
    "published": "what is published in another format still has it; `gapless publish` brings that up to date",
    "unknown": "no name of ours, or beyond a symbolic link: never touched",
    "expired": "only expired versions had it",
    "orphan": "an interrupted write left it",
}
_MEANINGS_IN_DELTA: Mapping[Reason, str] = {
    **_MEANINGS,
    "retained": "a version that is kept has it",
    "recent": "not needed, but for less than the retention",
    "expired": "only older versions than those that are kept had it",
}


def parse_age_text(option_name: str, text: str | None) -> timedelta | None:
    """An age such as `7d`, `12h` or `0`; None for None. Raises InvalidOption."""
    return None if text is None else parse_duration(text, f"--{option_name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumAction:
    """What a vacuum does, and what it lists."""

    apply: Annotated[bool, flag("--apply", "Delete them; without this nothing is changed.")] = False
    files: Annotated[bool, flag("--files", "List every file with its reason, those that stay too.")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortRetention(OptionGroup):
    """Whether less than a Delta table's own retention is allowed."""

    kind: ClassVar[Kind] = "delta"
    why: ClassVar[str] = "A time-series table has no retention of its own; its versions are kept until they expire"
    fix: ClassVar[str] = "Leave it out; `gapless expire` lets go of versions"
    allow_short: Annotated[
        bool, flag("--allow-short", "Allow less than the table's retention: readers and writers at work may fail.")
    ] = False


def vacuum(
    table: TableRef,
    action: VacuumAction,
    retention: ShortRetention,
    older_than: Annotated[
        str | None,
        option(
            "AGE",
            "How long ago a file must have been removed from the table, or written in vain; 7d where not given, and of a Delta table its delta.deletedFileRetentionDuration.",
        ),
    ] = None,
    upgrade: UpgradeFlag = False,
    json: JsonFlag = False,
) -> None:
    """Delete files that no retained version references; without --apply only list them.

    Of a time-series table all versions are kept until `gapless expire` lets go of them, and what an interrupted write left stays for a
    day at least. Of a Delta table those of the retention are kept.

    Example: gapless vacuum prices --older-than 7d --apply
    """
    age = parse_age_text("older-than", older_than)
    opened = table.open(retention, upgrade=upgrade)
    if isinstance(opened, TimeSeriesTable):
        report = opened.vacuum(timedelta(days=7) if age is None else age, dry_run=not action.apply)
        meanings = _MEANINGS
    else:
        report = opened.vacuum(age, dry_run=not action.apply, enforce_retention=not retention.allow_short)
        meanings = _MEANINGS_IN_DELTA
    if json:
        write_json(_vacuum_document(report))
        return
    if shown := report.entries if action.files else report.deleted:
        names = ("path", "bytes", "reason", "version", "tag")
        print_table(names, [[one.path, one.size, one.reason, one.version or "", one.tag or ""] for one in shown])
    for reason, meaning in meanings.items():
        if number := report.files.get(reason, 0):
            print_line((f"{reason} ", "bold"), f"{count(number, 'file')}: {meaning}")
    print_line(vacuum_text(report))
    tell_unpublished(report.published)


def delta_vacuum(
    table: DeltaTableRef,
    action: VacuumAction,
    retention: ShortRetention,
    older_than: Annotated[
        str | None,
        option("AGE", "How long ago a file must have been removed (RETAIN), such as 7d; delta.deletedFileRetentionDuration."),
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Delete files that no retained version references (VACUUM); without --apply only list them.

    Versions before the retention can then be read no more.

    Example: gapless delta vacuum trips --older-than 30d --apply
    """
    vacuum(table, action, retention, older_than, json=json)


def vacuum_text(report: VacuumReport) -> str:
    """What a vacuum did, or would do."""
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
    table: TableRef,
    keep_versions: Annotated[int | None, option("N", "How many of the newest versions stay.", least=1)] = None,
    older_than: Annotated[
        str | None, option("AGE", "Let go of versions that ceased to be the newest longer ago than this, such as 30d.")
    ] = None,
    clean_log: Annotated[
        bool,
        flag(
            "--clean-log",
            "Also remove their commits, a day old or older; timeseries-table-format can then read the table no more.",
        ),
    ] = False,
    upgrade: UpgradeFlag = False,
    json: JsonFlag = False,
) -> None:
    """Expire old versions: they can no longer be read, and `gapless vacuum` deletes the files that only they had.

    With both rules a version stays that either keeps. The newest version stays, and those that a tag names.

    Example: gapless expire prices --older-than 30d
    """
    age = parse_age_text("older-than", older_than)
    report = table.open_series(upgrade=upgrade).expire(keep_versions=keep_versions, older_than=age, clean_log=clean_log)
    if json:
        write_json({"table": report.url, **{k: v for k, v in asdict(report).items() if k != "url"}})
        return
    print_line(printable(expiry_text(report)))
    tell_unpublished(report.published)
    if clean_log:
        removed = f"{count(len(report.removed), 'file')} of the log removed."
        print_line(removed if report.removed else "Nothing of the log to remove.")


def expiry_text(report: ExpireReport) -> str:
    """What an expiry did."""
    kept = f" Kept by tags: {', '.join(report.tags)}." if report.tags else ""
    gone = f"{count(report.expired, 'version')} expired; the earliest that is kept is {report.earliest}."
    waits = f" Waits for what is published as {', '.join(report.waits_for)}." if report.waits_for else ""
    return (gone if report.expired else "No version to let go of.") + kept + waits


def checkpoint(
    table: DeltaTableRef,
    clean_log: Annotated[bool, flag("--clean-log", "Also remove commits older than delta.logRetentionDuration.")] = False,
    json: JsonFlag = False,
) -> None:
    """Write a log checkpoint; with --clean-log also delete the commits before it that have expired.

    Opening the table then reads the checkpoint and no commit. Writers do this by themselves every delta.checkpointInterval commits.

    Example: gapless delta checkpoint trips
    """
    opened = table.open_delta()
    opened.checkpoint()
    removed = opened.cleanup_log() if clean_log else ()
    if json:
        write_json({"table": opened.url, "version": opened.version, "removed": list(removed)})
        return
    cleaned = f" {count(len(removed), 'file')} of the log removed." if clean_log else ""
    print_line(f"A log checkpoint of version {opened.version} is stored.{cleaned}")
