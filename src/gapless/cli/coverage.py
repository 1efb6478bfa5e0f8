"""`coverage` and `gaps`, and the options that say what is looked at."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypedDict

import typer

from gapless.cli.options import EntityFilter, JsonFlag, Start, TableRef, flag, option, parse_entity, parse_entity_value
from gapless.cli.show.console import print_facts, print_line, print_table, stdout_console, write_json
from gapless.cli.show.coverage import TableCoverage, coverage_document, gaps_document, gaps_text, identity_totals
from gapless.cli.show.failure import print_error
from gapless.draw.figure import save_figure
from gapless.draw.terminal import draw_terminal
from gapless.errors import GaplessError, InvalidOption, InvalidPath, InvalidTime
from gapless.model.index import Identity, IdentityValue
from gapless.tables.timeseries.table import TimeSeriesTable

FOUND_GAPS = 3
"""Exit code of `gaps --fail-if-any` and `fill --fail-if-any`."""
_PIPE_COLUMNS = 80
_MAP_LINES = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedCoverage:
    """Which buckets are expected: a range, some identities, a calendar."""

    start: Start = None
    end: Annotated[
        str | None, option("TIME", "Index value just past the range; `now` shows a dead feed.", "--until", "--end")
    ] = None
    entity: EntityFilter = None
    expect: Annotated[
        str | None,
        option("FILE", "The expected identities: a CSV file headed by the entity columns, or one value a line."),
    ] = None
    calendar: Annotated[
        str | None,
        option(
            "HOURS",
            "When rows are expected: 'mon-fri 09:30-16:00 America/New_York except 2026-12-25', or an exchange such as XNYS.",
        ),
    ] = None

    def arguments(self, table: TimeSeriesTable) -> ExpectedArguments:
        """The same as `table.coverage` and `table.fill` take it; raises InvalidOption, InvalidPath and UnknownColumn."""
        identities = read_expected(table, self.expect)
        return {
            "start": self.start,
            "end": self.end,
            "entity": parse_entity(table, self.entity),
            "identities": identities,
            "calendar": self.calendar,
        }

    def coverage_of(self, table: TableRef) -> TableCoverage:
        """The coverage of a time-series table, by these options."""
        opened = table.open_series()
        return TableCoverage(table=opened, coverage=opened.coverage(**self.arguments(opened)))


class ExpectedArguments(TypedDict):
    """Keywords of `table.coverage` and `table.fill`."""

    start: str | None
    end: str | None
    entity: dict[str, list[IdentityValue]]
    identities: list[Identity] | None
    calendar: str | None


def coverage(
    table: TableRef,
    expected: ExpectedCoverage,
    plot: Annotated[str | None, option("FILE", "Draw the heat map into a .png, .svg or .html file too.")] = None,
    json: JsonFlag = False,
) -> None:
    """Draw what the table covers, as a heat map.

    Without --start and --until each identity is looked at from its first to its last covered bucket. With --calendar only buckets
    that a session reaches into are looked at.

    Example: gapless coverage prices --until now --plot coverage.png
    """
    found = expected.coverage_of(table)
    title = f"{found.table.name}: coverage" + (f" ({expected.calendar})" if expected.calendar else "")
    if plot is not None:
        save_figure(found.coverage, plot, title)
    if json:
        write_json(coverage_document(found))
        return
    if not found.coverage.expected:
        print_line(gaps_text(found, 1))
    else:
        console = stdout_console()
        width = console.width if console.is_terminal else shutil.get_terminal_size((_PIPE_COLUMNS, 24)).columns
        console.print(draw_terminal(found.coverage, max(20, width), _MAP_LINES, title))
        print_facts(found.facts())
    if plot is not None:
        print_line(f"The heat map is in {plot}")


def gaps(
    table: TableRef,
    expected: ExpectedCoverage,
    fail_if_any: Annotated[bool, flag("--fail-if-any", "Exit with 3 where something is missing, for a cron job.")] = False,
    min_buckets: Annotated[int, option("N", "Only gaps of at least so many buckets.", least=1)] = 1,
    json: JsonFlag = False,
) -> None:
    """List the gaps: the stretches of time that are missing.

    With --calendar only buckets that a session reaches into are expected: the night after Friday's close is no gap.
    With --fail-if-any the exit code is 3 where there is a gap, where an expected identity never arrived, or where no row is there.

    Example: gapless gaps prices --until now --expect symbols.txt --fail-if-any
    """
    try:
        found = expected.coverage_of(table)
    except InvalidTime as error:
        # Without a value it is the open end of a range of which no row has arrived: no wrong call, but a dead feed.
        if error.value is not None or not fail_if_any:
            raise
        print_error(error)
        raise typer.Exit(FOUND_GAPS) from error
    listed = found.gaps(min_buckets)
    if json:
        write_json(gaps_document(found, min_buckets))
    else:
        if listed:
            print_table((*found.table.entity, "start", "end", "buckets"), [found.gap_row(gap) for gap in listed])
        totals = identity_totals(found)
        if listed and len(totals) > 1:
            print_line()
            print_table((*found.table.entity, "missing", "gaps", "longest"), totals)
        print_line(gaps_text(found, min_buckets))
    if fail_if_any and (listed or found.never_arrived or not found.coverage.identities):
        raise typer.Exit(FOUND_GAPS)


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
        if not lines[1:]:
            raise _refuse(
                path,
                "there is nothing below its header",
                "Expecting nothing would never find a gap",
                "Write one identity a line",
            )
        return [_identity(table, path, number, cells, order) for number, cells in lines[1:]]
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


def _refuse(path: str, what: str, why: str, fix: str) -> InvalidOption:
    return InvalidOption(f"--expect {path}: {what}", why=why, fix=fix, option="expect", value=path)
