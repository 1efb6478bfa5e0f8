"""`coverage` and `gaps`.

The file of expected identities.
"""

from __future__ import annotations

import csv
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

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
    parse_entity_value,
)
from gapless.cli.show.console import print_facts, print_table, say, stdout_console, write_json
from gapless.cli.show.coverage import Answer, coverage_document, gaps_document, gaps_verdict, identity_totals, nothing_expected
from gapless.cli.show.failure import report
from gapless.draw.figure import save_figure
from gapless.draw.terminal import draw_terminal
from gapless.errors import GaplessError, InvalidOption, InvalidPath, InvalidTime
from gapless.model.index import Identity
from gapless.tables.timeseries.table import TimeSeriesTable


def read_expected(table: TimeSeriesTable, path: str | None) -> list[Identity] | None:
    """The identities that `--expect FILE` names; None where no file was given.

    The file is CSV in UTF-8, its first line the names of all entity columns, in any order. For one entity column the header may be
    left out: one value a line. Blank lines mean nothing. Raises InvalidPath, or InvalidOption naming the line.
    """
    if path is None:
        return None
    if not table.entity:
        raise _refuse(
            path, "the table has no entity columns", "It holds one series, which is always expected", "Leave --expect out"
        )
    lines = list(_lines(path))
    if not lines:
        raise _refuse(path, "it names no identity", "Expecting nothing would never find a gap", "Write one identity a line")
    header = lines[0][1]
    if set(header) == set(table.entity) and len(header) == len(table.entity):
        order = [header.index(name) for name in table.entity]
        found = [_identity(table, path, number, cells, order) for number, cells in lines[1:]]
        return found or _nothing_below(path)
    if len(table.entity) == 1:
        return [_identity(table, path, number, cells, [0]) for number, cells in lines]
    raise _refuse(
        path,
        f"line {lines[0][0]} is {','.join(header)!r}",
        "With several entity columns the first line names them",
        f"Begin the file with the line {','.join(table.entity)}",
    )


def _lines(path: str) -> Iterator[tuple[int, list[str]]]:
    """The lines that are not blank, numbered from 1, as cells."""
    try:
        with Path(path).expanduser().open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            for cells in reader:
                if any(cell.strip() for cell in cells):
                    yield reader.line_num, cells
    except OSError as error:
        raise InvalidPath(
            f"--expect {path!r} cannot be read", why=error.strerror or str(error), fix="Check the path", path=path
        ) from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise _refuse(path, "it is no CSV in UTF-8", str(error), "Write it as plain CSV") from error


def _identity(table: TimeSeriesTable, path: str, number: int, cells: list[str], order: list[int]) -> Identity:
    if len(cells) != len(order):
        raise _refuse(
            path,
            f"line {number} has {len(cells)} values, not {len(order)}",
            f"An identity here is {', '.join(table.entity)}",
            'Write one value for each entity column; a value with a comma stands in quotes: "a,b"',
        )
    try:
        return tuple(parse_entity_value(table, name, cells[at]) for name, at in zip(table.entity, order, strict=True))
    except GaplessError as error:
        raise _refuse(path, f"line {number}: {error.what}", error.why, error.fix) from error


def _nothing_below(path: str) -> list[Identity]:
    raise _refuse(
        path, "there is nothing below its header", "Expecting nothing would never find a gap", "Write one identity a line"
    )


def _refuse(path: str, what: str, why: str, fix: str) -> InvalidOption:
    return InvalidOption(f"--expect {path}: {what}", why=why, fix=fix, option="expect", value=path)


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
