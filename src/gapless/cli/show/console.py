"""Consoles of the command line, lines, tables and JSON on them: what was asked for on stdout, everything else on stderr.

Colour, NO_COLOR and the width of the terminal are rich's business. Into a pipe or a file there is no colour and nothing is wrapped.

Values that strict JSON can print_line, and their texts.

Progress of long work, on stderr, where that is a terminal.

Ctrl-C for work that does not hear it: DuckDB does not while it fills an Arrow stream.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gapless.draw.label import printable

Plain = Any
"""None, bool, int, float (finite), str, or a list or dict of these."""


def json_text(value: Plain) -> str:
    """Strict JSON of a value, in one line."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def cell_text(value: Plain) -> str:
    """A value as one text, for CSV and printed tables; null is the empty text.

    >>> cell_text([1, None])
    '[1, null]'
    """
    if value is None:
        return ""
    return value if isinstance(value, str) else json_text(value)


def encode_json(value: Plain) -> bytes:
    """A JSON document as UTF-8; what is no Unicode (a file name's stray byte) becomes an escape that reads back."""
    return json_text(value).encode("utf-8", "backslashreplace")


PIPE_WIDTH = 100_000
"""Columns of a console that is no terminal: as good as endless."""
LONGEST_CELL = 40
"""Characters of a cell on a terminal; longer ones end in an ellipsis."""


class PipeConsole(Console):
    """A console that lets a closed pipe reach `main`, which knows how to end."""

    def on_broken_pipe(self) -> None:
        """Raise the error that is being handled."""
        raise  # noqa: PLE0704  # rich calls this while it handles BrokenPipeError


def stdout_console() -> Console:
    """The console of stdout."""
    return _console(stderr=False)


def stderr_console() -> Console:
    """The console of stderr."""
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    console = PipeConsole(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    return console


def print_line(*parts: str | tuple[str, str]) -> None:
    """Print a line to stdout: texts, or (text, style)."""
    stdout_console().print(Text.assemble(*parts))


def write_json(value: Plain) -> None:
    """Print one JSON document and a line end to stdout, in UTF-8."""
    sys.stdout.buffer.write(encode_json(value) + b"\n")


def print_facts(facts: Sequence[tuple[str, str]]) -> None:
    """Print names and values, one pair a line."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts:
        table.add_row(Text(name), Text(printable(value)))
    _print_trimmed(table)


def print_table(names: Sequence[str], rows: Sequence[Sequence[Plain]]) -> None:
    """Print rows under their names, numbers to the right; columns that a terminal has no room for are named below."""
    console = stdout_console()
    cells = [[_cell(value) for value in row] for row in rows]
    shown = _fitting(names, cells, console.width)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for at, name in enumerate(names[:shown]):
        right = all(isinstance(row[at], int | float | None) for row in rows)
        table.add_column(Text(printable(name)), justify="right" if right else "left", no_wrap=True, overflow="ellipsis")
    for row in cells:
        table.add_row(*(_limited(cell, console) for cell in row[:shown]))
    if names:
        _print_trimmed(table)
    if hidden := names[shown:]:
        print_line((f"No room here for {len(hidden)} more: {', '.join(map(printable, hidden))}", "dim"))


def _print_trimmed(table: Table) -> None:
    """Print a table, without the blanks at the ends of lines where it goes into a pipe."""
    console = stdout_console()
    if console.is_terminal:
        console.print(table)
        return
    with console.capture() as capture:
        console.print(table)
    console.file.write("".join(f"{line.rstrip()}\n" for line in capture.get().splitlines()))


def _cell(value: Plain) -> Text:
    return Text("null", style="dim") if value is None else Text(printable(cell_text(value)))


def _limited(cell: Text, console: Console) -> Text:
    if console.is_terminal:
        cell.truncate(LONGEST_CELL, overflow="ellipsis")
    return cell


def _fitting(names: Sequence[str], cells: Sequence[Sequence[Text]], width: int) -> int:
    """How many columns from the left fit side by side, two blanks between them; at least one."""
    used = 0
    for at, name in enumerate(names):
        longest = max((row[at].cell_len for row in cells), default=0)
        used += max(min(longest, LONGEST_CELL), cell_len(name)) + (3 if at else 0)
        if used > width:
            return max(1, at)
    return len(names)
