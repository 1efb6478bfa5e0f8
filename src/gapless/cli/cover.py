"""`coverage` and `gaps`."""

from __future__ import annotations

import shutil
from typing import Annotated, Any

import typer

from gapless.cli.answers import Answer, coverage_document, gaps_document, gaps_verdict, identity_totals, nothing_expected
from gapless.cli.console import print_facts, print_table, say, stdout_console, write_json
from gapless.cli.expected import read_expected
from gapless.cli.failure import report
from gapless.cli.options import (
    CalendarText,
    EntityFilter,
    ExpectFile,
    JsonFlag,
    Start,
    StorageOptions,
    TablePath,
    Until,
    open_table,
    option,
    parse_entity,
)
from gapless.draw.figure import save_figure
from gapless.draw.terminal import draw_terminal
from gapless.errors import InvalidTime

FOUND_GAPS = 3
"""Exit code of `gaps --fail-if-any`."""
_PIPE_COLUMNS = 80
_MAP_LINES = 40


def coverage(
    path: TablePath,
    start: Start = None,
    end: Until = None,
    entity: EntityFilter = None,
    expect: ExpectFile = None,
    calendar: CalendarText = None,
    plot: Annotated[
        str | None,
        option("FILE", "Draw the heat map into a .png, .svg or .html file too."),
    ] = None,
    storage_option: StorageOptions = None,
    json: JsonFlag = False,
) -> None:
    """Draw what the table covers, as a heat map.

    Without --start and --until each identity is looked at from its first to its last covered bucket. With --calendar only buckets
    that a session reaches into are looked at.

    Example: gapless coverage prices --until now --plot coverage.png
    """
    answer = _ask(path, storage_option, (start, end), entity, expect, calendar)
    title = f"{answer.table.name}: coverage" + (f" ({calendar})" if calendar else "")
    if plot is not None:
        save_figure(answer.coverage, plot, title)
    if json:
        write_json(coverage_document(answer))
        return
    if nothing_expected(answer):
        say(gaps_verdict(answer, 1))
    else:
        console = stdout_console()
        width = console.width if console.is_terminal else shutil.get_terminal_size((_PIPE_COLUMNS, 24)).columns
        console.print(draw_terminal(answer.coverage, max(20, width), _MAP_LINES, title))
        print_facts(answer.facts())
    if plot is not None:
        say(f"The heat map is in {plot}")


def gaps(
    path: TablePath,
    start: Start = None,
    until: Until = None,
    entity: EntityFilter = None,
    expect: ExpectFile = None,
    calendar: CalendarText = None,
    fail_if_any: Annotated[
        bool, typer.Option("--fail-if-any", help="Exit with 3 where something is missing, for a cron job.")
    ] = False,
    min_buckets: Annotated[int, option("N", "Only gaps of at least so many buckets.", least=1)] = 1,
    storage_option: StorageOptions = None,
    json: JsonFlag = False,
) -> None:
    """List the stretches of time that are missing.

    With --calendar only buckets that a session reaches into are expected: the night after Friday's close is no gap.
    With --fail-if-any the exit code is 3 where there is a gap, where an expected identity never arrived, or where no row is there.

    Example: gapless gaps prices --until now --expect symbols.txt --fail-if-any
    """
    try:
        answer = _ask(path, storage_option, (start, until), entity, expect, calendar)
    except InvalidTime as error:
        # Without a value it is the open end of a range of which no row has arrived: no wrong call, but a dead feed.
        if error.value is not None or not fail_if_any:
            raise
        report(error)
        raise typer.Exit(FOUND_GAPS) from error
    listed = answer.gaps(min_buckets)
    if json:
        write_json(gaps_document(answer, min_buckets))
    else:
        if listed:
            print_table((*answer.table.entity, "start", "end", "buckets"), [answer.gap_row(gap) for gap in listed])
        totals = identity_totals(answer)
        if listed and len(totals) > 1:
            say()
            print_table((*answer.table.entity, "missing", "gaps", "longest"), totals)
        say(gaps_verdict(answer, min_buckets))
    if fail_if_any and (listed or answer.never_arrived or not answer.coverage.identities):
        raise typer.Exit(FOUND_GAPS)


def _ask(
    path: str,
    storage: list[str] | None,
    bounds: tuple[Any, Any],
    entity: list[str] | None,
    expect: str | None,
    calendar: str | None,
) -> Answer:
    table = open_table(path, storage)
    identities = read_expected(table, expect)
    covered = table.coverage(*bounds, entity=parse_entity(table, entity), identities=identities, calendar=calendar)
    return Answer(table=table, coverage=covered)
