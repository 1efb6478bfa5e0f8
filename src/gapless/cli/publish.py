"""`publish`: a table in other formats."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from gapless.cli.options import AnyTable, JsonFlag, TableRef, UpgradeFlag, flag, option, refuse_given
from gapless.cli.schedule import serve
from gapless.cli.show.console import print_line, write_json
from gapless.draw.label import printable
from gapless.publish.publishers import Publication
from gapless.runtime.schedule import Schedule
from gapless.runtime.scheduler import Scheduler
from gapless.tables.shared.findings import count
from gapless.tables.timeseries.table import TimeSeriesTable


def publish(
    table: TableRef,
    format: Annotated[  # noqa: A002  # what users call it
        list[str] | None,
        option(
            "FORMAT",
            "First set what the table is published as: delta (of a time-series table), iceberg or hudi; may be repeated.",
        ),
    ] = None,
    follow: Annotated[bool, flag("--follow", "Go on until Ctrl-C.")] = False,
    every: Annotated[str, option("TIME", "With --follow: how often to look for commits.")] = "10s",
    rewrite: Annotated[
        bool,
        flag("--rewrite", "With --format: write files again that cannot be published as they are, and inline no more rows."),
    ] = False,
    mend: Annotated[bool, flag("--mend", "Undo what another writer did to the description.")] = False,
    upgrade: UpgradeFlag = False,
    json: JsonFlag = False,
) -> None:
    """Publish a table: describe the same files to readers of another format, without a copy.

    Who commits to such a table publishes too, unless its property publish_on_commit is false; then this does.

    Example: gapless publish prices --format delta
    """
    opened = table.open(upgrade=upgrade)
    if rewrite and not format:
        refuse_given({"rewrite": rewrite}, "What is published already needs no rewriting", "Name a format with --format")
    if format:
        _set_formats(opened, format, rewrite=rewrite)
    publications = opened.publish(mend=mend)
    if follow:
        refuse_given({"json": json}, "With --follow it has no end, and so no report", "Leave one of them out")
        _tell(publications)
        jobs = Scheduler()
        jobs.add("publish", Schedule.parse(every, "every"), lambda: _follow(opened))
        serve(jobs)
        return
    if json:
        write_json({"table": opened.url, "version": opened.version, "published": [asdict(one) for one in publications]})
        return
    _tell(publications)


def _set_formats(table: AnyTable, formats: list[str], *, rewrite: bool) -> None:
    if isinstance(table, TimeSeriesTable):
        table.set_properties({"publish": formats, **({"inline_bytes": 0} if rewrite else {})}, rewrite=rewrite)
    else:
        table.alter.set_properties(
            {"publish": formats, **({"delta.enableDeletionVectors": False} if rewrite else {})}, rewrite=rewrite
        )


def _follow(table: AnyTable) -> None:
    if any(one.behind for one in table.publications()):
        _tell(table.publish())


def _tell(publications: list[Publication]) -> None:
    for one in publications:
        behind = f", {count(one.behind, 'version')} behind" if one.behind else ""
        shown = f"version {one.version} is version {one.published_version} there" if one.version else "nothing is published yet"
        print_line(printable(f"{one.format}: {shown}{behind}.{f' {one.why}' if one.why else ''}"))
