"""Versions of a table: `at`, `changes`, `restore` and `tag`."""

from __future__ import annotations

from dataclasses import asdict, astuple, dataclass
from typing import Annotated

from gapless.cli.options import (
    DeltaTableRef,
    ExcludedNames,
    JsonFlag,
    TableRef,
    UpgradeFlag,
    argument,
    file_noun,
    flag,
    option,
    parse_columns,
    refuse_given,
)
from gapless.cli.read import Output, ReadOptions
from gapless.cli.show.console import print_line, print_table, write_json
from gapless.cli.show.published import tell_unpublished
from gapless.draw.label import printable
from gapless.errors import InvalidOption, TableNotFound
from gapless.tables import delta
from gapless.tables.shared.findings import count
from gapless.tables.shared.restore import RestoreReport
from gapless.tables.timeseries.read.view import TableView
from gapless.tables.timeseries.table import TimeSeriesTable

FirstVersion = Annotated[int, argument("FROM", "First version whose changes are told.")]
LastVersion = Annotated[int | None, argument("TO", "Last version, inclusive; the newest without it.")]
FeedColumns = Annotated[str | None, option("A,B", "Columns to show, in this order, before those of the feed.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberOrTime:
    """A version by its number, or by a time when it was the newest."""

    version: Annotated[int | None, option("N", "The version of that number.")] = None
    time: Annotated[
        str | None, option("TIME", "The version that was the newest then, such as 2026-01-05T09:30Z; by commit times.")
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionChoice(NumberOrTime):
    """A version by its number, a time when it was the newest, or, in a time-series table, a tag."""

    tag: Annotated[str | None, option("NAME", "The version of that name; see `gapless tag`.")] = None

    def open(self, table: TableRef) -> TableView | delta.DeltaView:
        """The table at that version, even where a later commit is damaged."""
        try:
            return TableView.open_at(table.path, self.version, time=self.time, tag=self.tag, storage_options=table.storage)
        except TableNotFound:
            if not table.is_delta():
                raise
        self.refuse_tag()
        return delta.open_at(table.path, self.version, time=self.time, storage_options=table.storage)

    def refuse_tag(self) -> None:
        """Raise InvalidOption where a tag was given; the table is a Delta table."""
        refuse_given({"tag": self.tag}, "Delta tables have no tags", "Say --version or --time")


def at(
    table: TableRef,
    choice: VersionChoice,
    rows: ReadOptions,
    output: Output,
    sql: Annotated[str | None, option("QUERY", "Answer this SQL; the table is `this`.")] = None,
) -> None:
    """Read a table of either kind as it was at a version, a time or a tag; rows as `scan` gives them, or an answer as `sql` does.

    A version is read even where a later commit is damaged. Delta tables have no tags.

    Example: gapless at prices --time 2026-01-05T09:30Z --where "close > 100"
    """
    view = choice.open(table)
    if sql is None:
        output.emit(rows.scan(view))
        return
    if any(given is not None for given in astuple(rows)):
        what = "--sql goes with none of --start, --end, --where, --entity, --columns, --exclude and --order"
        raise InvalidOption(what, fix="Say it all in the query", option="sql", value=sql)
    output.answer(view, sql)


def changes(
    table: TableRef,
    first: FirstVersion,
    output: Output,
    last: LastVersion = None,
    columns: FeedColumns = None,
    exclude: ExcludedNames = None,
) -> None:
    """Read the change data feed: inserts, deletes, and updates with the rows before and after.

    A Delta table has it for the versions that had delta.enableChangeDataFeed.

    Example: gapless changes prices 7 9
    """
    opened = table.open()
    chosen, left_out = parse_columns(opened, columns), parse_columns(opened, exclude)
    output.emit(opened.changes(first, last, columns=chosen, exclude=left_out))


def delta_changes(
    table: DeltaTableRef,
    first: FirstVersion,
    output: Output,
    last: LastVersion = None,
    columns: FeedColumns = None,
    exclude: ExcludedNames = None,
) -> None:
    """Read the change data feed: what commits did to the rows.

    Of versions that had delta.enableChangeDataFeed.

    Example: gapless delta changes trips 7 9
    """
    changes(table, first, output, last, columns, exclude)


def restore(table: TableRef, choice: VersionChoice, upgrade: UpgradeFlag = False, json: JsonFlag = False) -> None:
    """Restore rows, columns and properties of an earlier version, as a new commit; no version is lost.

    Example: gapless restore prices --version 41
    """
    opened = table.open(upgrade=upgrade)
    before = opened.version
    if isinstance(opened, TimeSeriesTable):
        report = opened.restore(choice.version, time=choice.time, tag=choice.tag)
    else:
        choice.refuse_tag()
        report = opened.restore(choice.version, time=choice.time)
    if json:
        write_json(asdict(report))
    else:
        print_line(_restore_text(report, file_noun(opened), changed=report.version != before))
        tell_unpublished(report.published)


def delta_restore(table: DeltaTableRef, choice: NumberOrTime, json: JsonFlag = False) -> None:
    """Restore rows, columns and properties of an earlier version, as a new commit.

    No version is lost. What the table needs of its readers and writers never becomes less.

    Example: gapless delta restore trips --version 41
    """
    restore(table, VersionChoice(version=choice.version, time=choice.time), json=json)


def _restore_text(report: RestoreReport, noun: str, *, changed: bool) -> str:
    if not changed:
        return f"The table is as version {report.restored} was: still version {report.version}."
    came = f"{count(report.added_rows, 'row')} in {count(report.added_segments, noun)} came back"
    went = f"{count(report.removed_rows, 'row')} in {count(report.removed_segments, noun)} went"
    return f"Version {report.version} is as version {report.restored} was: {came}, {went}."


def tag(
    table: TableRef,
    name: Annotated[str | None, argument("NAME", "The name; without one, all are listed.")] = None,
    version: Annotated[int | None, option("N", "The version to name; the newest without it.")] = None,
    move: Annotated[bool, flag("--move", "Take the name from the version that has it.")] = False,
    delete: Annotated[bool, flag("--delete", "Take the name away, so that its version may expire.")] = False,
    upgrade: UpgradeFlag = False,
    json: JsonFlag = False,
) -> None:
    """Tag a version, which `expire` and `vacuum` then keep; list the tags, or delete one.

    Example: gapless tag prices before-backfill --version 41
    """
    opened = table.open_series(upgrade=upgrade)
    if name is None:
        _list_tags(opened, asked=version is not None or move or delete, json=json)
        return
    if delete and (move or version is not None):
        raise InvalidOption("--delete goes with neither --version nor --move", fix="Drop it", option="delete", value=name)
    named = opened.untag(name) if delete else opened.tag(name, version, move=move)
    if json:
        write_json({"tag": name, "version": named, "deleted": delete})
    elif delete:
        print_line(printable(f"{name} named version {named}, and names none now."))
    else:
        print_line(printable(f"{name} names version {named}."))


def _list_tags(table: TimeSeriesTable, *, asked: bool, json: bool) -> None:
    if asked:
        raise InvalidOption("--version, --move and --delete need a name", fix="Name the tag", option="name", value=None)
    if json:
        write_json(table.tags)
    elif table.tags:
        print_table(("tag", "version"), [[name, version] for name, version in table.tags.items()])
    else:
        print_line("The table has no tags.")
