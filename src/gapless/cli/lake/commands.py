"""`lake`: many tables in one directory, filled by runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from gapless.cli.options import JsonFlag, argument, flag, option, parse_pairs, refuse_given
from gapless.cli.read import Output
from gapless.cli.schedule import serve
from gapless.cli.show.console import Plain, json_text, print_line, print_table, write_json
from gapless.cli.show.failure import failure_of, print_error
from gapless.cli.show.rows import in_thread, interruptible, text_progress
from gapless.draw.label import printable
from gapless.errors import InvalidPath, shorten_text
from gapless.lake.lake import DEFAULT_NODE, Lake
from gapless.lake.opening import init as init_lake
from gapless.lake.opening import open_lake
from gapless.lake.pipelines import PipelinePlan, parse_plan
from gapless.lake.run import RunReport
from gapless.lake.runs.progress import RunProgress
from gapless.model.instant import format_instant
from gapless.tables.shared.findings import count

RUN_FAILED = 1
"""Exit code of `lake schedule --once` where a pipeline failed."""
FOUND_PROBLEMS = 1
"""Exit code of `lake doctor` where a problem is found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeRef:
    """The lake that a command is about."""

    root: Annotated[str, argument("PATH", "The lake: a directory, or a bucket's URL.")]
    node: Annotated[str, option("NAME", f"What this writer is called among several; {DEFAULT_NODE}.")] = DEFAULT_NODE

    def open(self) -> Lake:
        """It; raises as `gl.lake.open`."""
        return open_lake(self.root, node=self.node)


TableName = Annotated[str, argument("TABLE", "The name of a table of the lake.")]


def init(
    lake: LakeRef,
    catalog: Annotated[
        str | None,
        option("URL", "A catalog in PostgreSQL, which copies on other machines share; ${NAME} in it is the environment's."),
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Make a lake in a directory.

    Example: gapless lake init warehouse
    """
    made = init_lake(lake.root, node=lake.node, catalog=catalog)
    _say({"lake": made.url}, f"There is a lake at {made.url}. Its pipelines are written into lake.toml.", json=json)


def run(
    lake: LakeRef,
    pipeline: Annotated[list[str] | None, argument("PIPELINE", "Pipelines of lake.toml; all where none is named.")] = None,
    plan: Annotated[
        str | None, option("FILE", "Run the one plan in this JSON file instead: an object of the keys of a [[pipeline]].")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Run pipelines of lake.toml, each once: what their sources have since the last run goes into their tables.

    Example: gapless lake run warehouse orders
    """
    if plan is not None:
        refuse_given({"pipeline": pipeline}, "--plan has the one that is run", "Leave the names out")
    opened = lake.open()
    plans = {one.name: one for one in ([_read_plan(plan)] if plan is not None else opened.pipelines())}
    reports = dict[str, RunReport]()
    for name in pipeline or plans:
        with text_progress(printable(name)) as tell:
            watch = partial(_tell, tell)
            # One that lake.toml has not is refused by its name there.
            reports[name] = (
                opened.run_plan(plans[name], progress=watch) if name in plans else opened.run_pipeline(name, progress=watch)
            )
        if not json:
            print_line(printable(_run_text(name, reports[name])))
    if json:
        write_json({name: asdict(report) for name, report in reports.items()})
    elif not reports:
        print_line("lake.toml has no [[pipeline]].")


def schedule(
    lake: LakeRef,
    once: Annotated[bool, flag("--once", "Run what is due now, one after the other, and end.")] = False,
    json: JsonFlag = False,
) -> None:
    """Run the pipelines of lake.toml that have a schedule, each at its times and under its own lease, until Ctrl-C.

    What is done is said on stderr, errors too, and the next time comes all the same. A pipeline is due by when its last run began, one that
    never ran at once; times that were missed are made up for once. lake.toml is read at the start. With --once the exit code is 1 where
    one failed; it is due again then.

    Example: gapless lake schedule warehouse
    """
    opened, reports = lake.open(), dict[str, RunReport]()

    def run_one(plan: PipelinePlan) -> None:
        reports[plan.name] = opened.run_plan(plan)

    scheduler = opened.scheduler(run_one)
    if not once:
        refuse_given({"json": json}, "Without --once it has no end, and so no report", "Add --once, or leave it out")
        serve(scheduler)
        return
    scheduler.run_due()
    failed = {name: one.last_error for name, one in scheduler.status.items() if one.last_error is not None}
    if json:
        write_json({
            "ran": {name: asdict(report) for name, report in reports.items()},
            "failed": {name: failure_of(error).code for name, error in failed.items()},
            "due": {name: format_instant(one.due_ns) for name, one in scheduler.status.items()},
        })  # fmt: skip
    else:
        for name, report in reports.items():
            print_line(printable(_run_text(name, report)))
        for name, one in scheduler.status.items():
            if name not in failed:
                print_line((printable(f"{name} is due at {format_instant(one.due_ns)}."), "dim"))
    for error in failed.values():
        print_error(error)
    if failed:
        raise typer.Exit(RUN_FAILED)


def _read_plan(file: str) -> PipelinePlan:
    try:
        return parse_plan(Path(file).expanduser().read_bytes(), file)
    except OSError as error:
        raise InvalidPath(
            f"the plan {file!r} cannot be read", why=error.strerror or str(error), fix="Check the path", path=file
        ) from error


def parse_partitions(texts: Sequence[str] | None) -> dict[str, list[str]]:
    """`TABLE=FOLDER` texts by table; raises InvalidOption.

    >>> parse_partitions(["events=ts_day=2026-11-30", "events=ts_day=2026-12-01"])
    {'events': ['ts_day=2026-11-30', 'ts_day=2026-12-01']}
    """
    found = dict[str, list[str]]()
    for name, folder in parse_pairs("partition", texts):
        found.setdefault(name, []).append(folder)
    return found


def query(
    lake: LakeRef,
    sql: Annotated[str, argument("QUERY", "SQL, as DuckDB speaks it.")],
    output: Output,
    partition: Annotated[
        list[str] | None,
        option("TABLE=FOLDER", "Read only this partition of a table's snapshot, such as events=ts_day=2026-11-30; repeatable."),
    ] = None,
) -> None:
    """Run a SQL query over the tables of a lake.

    Example: gapless lake query warehouse "select count(*) from orders"
    """
    opened = lake.open()
    parts = parse_partitions(partition) or None
    output.emit(interruptible(in_thread(lambda: opened.query(sql, partitions=parts))))


def tables(lake: LakeRef, json: JsonFlag = False) -> None:
    """List the tables of a lake.

    Example: gapless lake tables warehouse
    """
    opened = lake.open()
    found = []
    for name in opened.tables():
        table = opened.table(name)
        history = table.history
        found.append(
            {
                "table": name,
                "kind": history.settings.kind,
                "key": list(history.settings.key),
                "columns": len(history.schema.columns),
                "fingerprint": history.schema.fingerprint,
                "runs": len(table.manifests()),
                "snapshots": len(table.snapshots()),
            }
        )
    _list(found, json=json)


def runs(lake: LakeRef, table: TableName, json: JsonFlag = False) -> None:
    """List the runs of a table that are not only in snapshots, oldest first.

    Example: gapless lake runs warehouse orders
    """
    _list(
        [
            {
                "run": one.run,
                "node": one.node,
                "status": one.status,
                "rows": one.rows,
                "files": len(one.files),
                "quarantined": sum(file.rows for file in one.quarantined),
                "cursor": None if one.cursor is None else one.cursor.after,
                "source": one.source,
            }
            for one in lake.open().table(table).manifests()
        ],
        json=json,
    )


def snapshot(lake: LakeRef, table: TableName, json: JsonFlag = False) -> None:
    """List the snapshots of a table, oldest first.

    Example: gapless lake snapshot warehouse orders
    """
    _list(
        [
            {"snapshot": one.name, "complete": one.complete, "runs": len(one.runs), "rows": one.rows, "files": len(one.files)}
            for one in lake.open().table(table).snapshots()
        ],
        json=json,
    )


def compact(
    lake: LakeRef,
    table: TableName,
    incremental: Annotated[bool, flag("--incremental", "Only the rows of runs that no snapshot has.")] = False,
    expire: Annotated[
        bool, flag("--expire", "Then remove runs and snapshots that a snapshot of more than a day ago has.")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Compact the runs of a table into a snapshot.

    Example: gapless lake compact warehouse orders
    """
    opened = lake.open().table(table)
    report = opened.compact(incremental=incremental)
    gone = opened.expire() if expire else None
    text = (
        f"{count(report.runs, 'run')} of {table}, {count(report.rows, 'row')}, in snapshot {report.snapshot}."
        if report.snapshot
        else f"Nothing to compact in {table}."
    )
    if gone is not None:
        text += f" Removed {count(gone.runs, 'run')} and {count(gone.snapshots, 'snapshot')}."
        if gone.kept:
            text += f" Kept {', '.join(gone.kept)}, exported as {' and '.join(gone.waits_for)}."
    _say({**asdict(report), "expired": None if gone is None else asdict(gone)}, text, json=json)


def export(
    lake: LakeRef,
    table: TableName,
    format_: Annotated[str, option("FORMAT", "delta or iceberg.", "--as")],
    snapshot: Annotated[str | None, option("NAME", "The snapshot; the newest where none is named.")] = None,
    mend: Annotated[
        bool, flag("--mend", "Describe it anew where another writer wrote into the log, or it is damaged.")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Describe a snapshot of a table as a Delta or Iceberg table of the same files, in the table's folder.

    Nothing is copied. Each export of another snapshot is another version there. Expiry keeps the snapshot that is exported.

    Example: gapless lake export warehouse orders --as delta
    """
    done = lake.open().table(table).export(format_, snapshot=snapshot, mend=mend)
    text = (
        f"Snapshot {done.snapshot} of {table}, {count(done.rows, 'row')} in {count(done.files, 'file')}, can be read as {done.format.capitalize()} at {done.path}"
        + ("." if done.changed else ", as before.")
    )
    _say(asdict(done), text, json=json)


def lineage(
    lake: LakeRef,
    table: TableName,
    path: Annotated[str | None, argument("FILE", "A file of a run or a snapshot, below the lake; all files of runs.")] = None,
    json: JsonFlag = False,
) -> None:
    """Show where files of a table come from: run, source, range of the cursor.

    Example: gapless lake lineage warehouse orders
    """
    _list(lake.open().table(table).lineage(path), json=json)


def doctor(
    lake: LakeRef,
    deep: Annotated[bool, flag("--deep", "Compare all bytes with their checksums.")] = False,
    apply: Annotated[bool, flag("--apply", "Remove files that no manifest names and that are a day old.")] = False,
    json: JsonFlag = False,
) -> None:
    """Find what is not as the manifests of a lake say. The exit code is 1 where there is a problem.

    Example: gapless lake doctor warehouse --deep
    """
    found = lake.open().doctor(deep=deep, apply=apply)
    if json:
        write_json([asdict(one) for one in found])
    else:
        for one in found:
            head = ("Problem ", "bold red") if one.problem else ("Note ", "bold")
            print_line(head, (f"[{one.code}] ", "dim"), printable(one.what + (" (removed)" if one.mended else "")))
        print_line(f"{count(sum(one.problem for one in found), 'problem')} found.")
    if any(one.problem and not one.mended for one in found):
        raise typer.Exit(FOUND_PROBLEMS)


def _tell(tell: Callable[[str, int, int | None], None], progress: RunProgress) -> None:
    tell(printable(progress_text(progress)), progress.rows, None)


def progress_text(progress: RunProgress) -> str:
    """How far a run has come, in a line.

    >>> told = RunProgress(table="t", pipeline="t", run="", rows=1200, quarantined_rows=0, pages=12, files=1, seconds=3.0, cursor={"page": 13})
    >>> progress_text(told)
    '1,200 rows, 12 pages, 1 file, 400 rows/s, cursor {"page": 13}'
    """
    parts = [count(progress.rows, "row"), count(progress.pages, "page"), count(progress.files, "file")]
    if progress.quarantined_rows:
        parts.append(f"{count(progress.quarantined_rows, 'row')} put aside")
    parts.append(f"{progress.rows_per_second:,.0f} rows/s")
    if (cursor := progress.cursor) is not None:
        parts.append(f"cursor {shorten_text(cursor if isinstance(cursor, str) else json_text(cursor))}")
    return ", ".join(parts)


def _run_text(name: str, report: RunReport) -> str:
    aside = f", {count(report.quarantined_rows, 'row')} put aside" if report.quarantined_rows else ""
    return f"{name}: {count(report.rows, 'row')} into {report.table}{aside} (run {report.run})."


def _say(document: dict[str, Plain], text: str, *, json: bool) -> None:
    if json:
        write_json(document)
    else:
        print_line(printable(text))


def _list(found: Sequence[dict[str, Plain]], *, json: bool) -> None:
    if json:
        write_json(list(found))
    elif found:
        print_table(list(found[0]), [list(one.values()) for one in found])
    else:
        print_line(("Nothing there.", "dim"))
