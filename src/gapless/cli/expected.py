"""The file of expected identities."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from gapless.cli.options import parse_entity_value
from gapless.errors import GaplessError, InvalidOption, InvalidPath
from gapless.model.index import Identity
from gapless.table.table import TimeSeriesTable


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
