"""Progress of long work, on stderr, where that is a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from gapless.cli.console import stderr_console

RowsDone = Callable[[int, int | None], None]
"""Told how many rows are done, and of how many where that is known."""


@contextmanager
def row_progress(doing: str, noun: str = "rows") -> Iterator[RowsDone]:
    """Show a bar while the block runs, gone when it ends; `doing` is what is done, such as "reading 3 files".

    What it yields counts `noun`, rows where not given.
    """
    console = stderr_console()
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[rows]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(doing, total=None, rows="")
        yield lambda done, total: bar.update(
            task, completed=done, total=total, rows=f"{done:,} {noun}" + (f" of {total:,}" if total else "")
        )


def counted(batches: Iterator[pa.RecordBatch], done: RowsDone) -> Iterator[pa.RecordBatch]:
    """The same batches, told to `done` as they pass."""
    rows = 0
    for batch in batches:
        yield batch
        rows += batch.num_rows
        done(rows, None)
