"""`log`, `at`, `changes`, `restore` and `tag`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from gapless.cli.about import commit_documents
from gapless.cli.options import (
    ColumnNames,
    End,
    EntityFilter,
    FeedColumns,
    FirstVersion,
    JsonFlag,
    LastVersion,
    Start,
    StorageOptions,
    TablePath,
    UpgradeFlag,
    Where,
    is_delta,
    open_any,
    open_table,
    option,
    parse_columns,
    parse_mapping,
    refuse_given,
)
from gapless.cli.read import CsvFlag, Limit, OutputFile, ScanOptions, rows_of
from gapless.cli.show.console import print_table, say, write_json
from gapless.cli.show.rows import Output, in_thread, interruptible
from gapless.draw.label import printable
from gapless.errors import InvalidOption, TableNotFound
from gapless.tables import delta
from gapless.tables.shared.findings import count
from gapless.tables.shared.restore import RestoreReport
from gapless.tables.timeseries.read.view import TableView
from gapless.tables.timeseries.table import TimeSeriesTable

Version = Annotated[int | None, option("N", "The version of that number.", "--version")]
Time = Annotated[
    str | None, option("TIME", "The version that was the newest then, such as 2026-01-05T09:30Z; by commit times.", "--time")
]
Tag = Annotated[str | None, option("NAME", "The version of that name; see `gapless tag`.", "--tag")]

_SHOWN = ("version", "time", "operation", "rows", "removed_rows", "bytes", "removed_bytes", "duration_s", "tags", "parameters")
_SHOWN_OF_DELTA = ("version", "time", "operation", "files", "removed_files", "bytes", "duration_s", "metrics", "parameters")


def log(
    path: TablePath,
    limit: Annotated[int | None, option("N", "The newest N commits.", least=0)] = None,
    storage_option: StorageOptions = None,
    json: JsonFlag = False,
) -> None:
    """List the commits of a table of either kind, newest first: what each did, with which parameters, and how long it took.

    Example: gapless log prices --limit 20
    """
    table = open_any(path, storage_option)
    entries = commit_documents(table, limit)[::-1]
    if json:
        write_json(entries)
        return
    shown = _SHOWN if isinstance(table, TimeSeriesTable) else _SHOWN_OF_DELTA
    print_table(shown, [[_cell(entry[name]) for name in shown] for entry in entries])


def at(
    path: TablePath,
    version: Version = None,
    time: Time = None,
    tag: Tag = None,
    sql: Annotated[str | None, option("QUERY", "Answer this SQL; the table is `this`.")] = None,
    start: Start = None,
    end: End = None,
    where: Where = None,
    entity: EntityFilter = None,
    columns: ColumnNames = None,
    order: Annotated[str | None, option("index", "`index`: in index order over all identities.")] = None,
    limit: Limit = None,
    json: JsonFlag = False,
    csv: CsvFlag = False,
    output: OutputFile = None,
    storage_option: StorageOptions = None,
) -> None:
    """Read a table of either kind as it was at a version, a time or a tag; rows as `scan` gives them, or an answer as `sql` does.

    A version is read even where a later commit is damaged. Delta tables have no tags.

    Example: gapless at prices --time 2026-01-05T09:30Z --where "close > 100"
    """
    shape = Output(json=json, csv=csv, file=output, limit=limit)
    table = _open_at(path, version, time, tag, storage_option)
    if sql is not None:
        if any(one is not None for one in (start, end, where, entity, columns, order)):
            raise InvalidOption(
                "--sql goes with none of --start, --end, --where, --entity, --columns and --order",
                fix="Say it all in the query",
                option="sql",
                value=sql,
            )
        shape.emit(interruptible(in_thread(lambda: table.sql(sql))))
        return
    shape.emit(rows_of(table, ScanOptions(start=start, end=end, where=where, entity=entity, columns=columns, order=order)))


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
    """Tell what commits did to the rows: inserts, deletes, and updates with the rows before and after.

    A Delta table tells it of the versions that it had delta.enableChangeDataFeed in.

    Example: gapless changes prices 7 9
    """
    shape = Output(json=json, csv=csv, file=output, limit=limit)
    table = open_any(path, storage_option)
    shape.emit(table.changes(first, last, columns=parse_columns(table, columns)))


def restore(
    path: TablePath,
    version: Version = None,
    time: Time = None,
    tag: Tag = None,
    upgrade: UpgradeFlag = False,
    storage_option: StorageOptions = None,
    json: JsonFlag = False,
) -> None:
    """Make rows, columns and properties of a table of either kind those of an earlier version again, as a new commit; no version is lost.

    Example: gapless restore prices --version 41
    """
    table = open_any(path, storage_option, upgrade=upgrade)
    before = table.version
    if isinstance(table, TimeSeriesTable):
        report = table.restore(version, time=time, tag=tag)
    else:
        refuse_given({"tag": tag}, "Delta tables have no tags", "Say --version or --time")
        report = table.restore(version, time=time)
    tell_restored(report, before, json=json, noun="segment" if isinstance(table, TimeSeriesTable) else "file")


def tell_restored(report: RestoreReport, before: int, *, json: bool, noun: str) -> None:
    """Print what a restore did; `before` is the version that was the newest."""
    if json:
        write_json(asdict(report))
    else:
        say(_restored(report, noun, changed=report.version != before))


def tag(
    path: TablePath,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The name; without one, all are listed.", show_default=False)
    ] = None,
    version: Annotated[int | None, option("N", "The version to name; the newest without it.", "--version")] = None,
    move: Annotated[bool, typer.Option("--move", help="Take the name from the version that has it.")] = False,
    delete: Annotated[bool, typer.Option("--delete", help="Take the name away, so that its version may expire.")] = False,
    upgrade: UpgradeFlag = False,
    storage_option: StorageOptions = None,
    json: JsonFlag = False,
) -> None:
    """Name a version, which `expire` and `vacuum` then keep; list the names, or take one away.

    Example: gapless tag prices before-backfill --version 41
    """
    table = open_table(path, storage_option, upgrade=upgrade)
    if name is None:
        _list_tags(table, asked=version is not None or move or delete, json=json)
        return
    if delete and (move or version is not None):
        raise InvalidOption("--delete goes with neither --version nor --move", fix="Drop it", option="delete", value=name)
    named = table.untag(name) if delete else table.tag(name, version, move=move)
    if json:
        write_json({"tag": name, "version": named, "deleted": delete})
    elif delete:
        say(printable(f"{name} named version {named}, and names none now."))
    else:
        say(printable(f"{name} names version {named}."))


def _list_tags(table: TimeSeriesTable, *, asked: bool, json: bool) -> None:
    if asked:
        raise InvalidOption("--version, --move and --delete need a name", fix="Name the tag", option="name", value=None)
    if json:
        write_json(table.tags)
    elif table.tags:
        print_table(("tag", "version"), [[name, version] for name, version in table.tags.items()])
    else:
        say("The table has no tags.")


def _open_at(
    path: str, version: int | None, time: str | None, tag: str | None, storage: list[str] | None
) -> TableView | delta.DeltaView:
    options = parse_mapping("storage-option", storage) or None
    try:
        return TableView.open_at(path, version, time=time, tag=tag, storage_options=options)
    except TableNotFound:
        if not is_delta(path, storage):
            raise
    refuse_given({"tag": tag}, "Delta tables have no tags", "Say --version or --time")
    return delta.open_at(path, version, time=time, storage_options=options)


def _restored(report: RestoreReport, noun: str, *, changed: bool) -> str:
    if not changed:
        return f"The table is as version {report.restored} was: still version {report.version}."
    came = f"{count(report.added_rows, 'row')} in {count(report.added_segments, noun)} came back"
    went = f"{count(report.removed_rows, 'row')} in {count(report.removed_segments, noun)} went"
    return f"Version {report.version} is as version {report.restored} was: {came}, {went}."


def _cell(value: object) -> object:
    """A list as names between commas, and nothing for what is empty."""
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "" if value == {} else value
