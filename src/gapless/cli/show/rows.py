"""Rows of a scan or a query as a printed table, JSON, CSV or Parquet; progress bars; Ctrl-C while DuckDB works."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import IO, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from gapless.cli.show.console import Plain, cell_text, encode_json, print_line, print_table, stderr_console
from gapless.cli.show.values import plain_values
from gapless.errors import InvalidOption, InvalidPath, nearest
from gapless.tables.shared.findings import count
from gapless.tables.shared.scan import Rows

PRINTED_ROWS = 40
"""Rows in a printed table, where no --limit says otherwise."""
SPOOL_BYTES = 16 << 20
"""A JSON document is held until it is whole: up to here in memory, then in a temporary file."""
Batches = Iterator[pa.RecordBatch]


def first_rows(batches: Batches, limit: int) -> Batches:
    """The first `limit` rows; stops reading once they are there."""
    left = limit
    while left > 0 and (batch := next(batches, None)) is not None:
        yield batch.slice(0, left)
        left -= batch.num_rows


def print_rows(rows: Rows, limit: int) -> None:
    """Print up to `limit` rows as a table, and what was left out."""
    table = pa.Table.from_batches(list(first_rows(rows.to_batches(), limit + 1)), schema=rows.schema)
    print_table(table.column_names, list(_plain_rows(table.slice(0, limit))))
    shown = count(min(table.num_rows, limit), "row")
    more = " shown; there are more: --limit N, --csv, --json and --output FILE give them." if table.num_rows > limit else ""
    print_line((shown + more, "dim"))


def row_documents(table: pa.Table) -> list[dict[str, Plain]]:
    """The rows as JSON documents. Raises InvalidOption where two columns have one name."""
    _check_names(table.schema)
    return [dict(zip(table.column_names, row, strict=True)) for row in _plain_rows(table)]


def write_json_array(batches: Batches, schema: pa.Schema, sink: IO[bytes]) -> None:
    """One JSON array of one object a row, a line each. Raises InvalidOption where two columns have one name."""
    _check_names(schema)
    names, lead = schema.names, b"["
    for batch in batches:
        for row in _plain_rows(batch):
            sink.write(lead + encode_json(dict(zip(names, row, strict=True))))
            lead = b",\n"
    sink.write(b"[]\n" if lead == b"[" else b"]\n")


def write_json_lines(batches: Batches, schema: pa.Schema, sink: IO[bytes]) -> None:
    """One JSON object a line. Raises InvalidOption where two columns have one name."""
    _check_names(schema)
    for batch in batches:
        for row in _plain_rows(batch):
            sink.write(encode_json(dict(zip(schema.names, row, strict=True))) + b"\n")


def write_csv(batches: Batches, schema: pa.Schema, sink: IO[bytes]) -> None:
    """CSV with a header, UTF-8, line feeds; null is an empty field and the empty text is `""`, as `gl.Csv()` reads them."""
    sink.write(_csv_line(schema.names))
    for batch in batches:
        for row in _plain_rows(batch):
            sink.write(_csv_line(row))


def write_parquet(batches: Batches, schema: pa.Schema, sink: IO[bytes]) -> None:
    """A Parquet file (zstd), one row group a batch."""
    with pq.ParquetWriter(sink, schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)


_WRITERS: dict[str, Callable[[Batches, pa.Schema, IO[bytes]], None]] = {
    ".parquet": write_parquet, ".csv": write_csv, ".json": write_json_array, ".jsonl": write_json_lines,
}  # fmt: skip


def writer_for(file: str) -> Callable[[Batches, pa.Schema, IO[bytes]], None]:
    """What writes the format that the name of a file says; raises InvalidOption."""
    suffix = Path(file).suffix.lower()
    if suffix not in _WRITERS:
        what = f"--output {file!r} does not say its format"
        raise InvalidOption(
            what, why=f"Its name would end in {', '.join(_WRITERS)}", fix=nearest(suffix, _WRITERS), option="output", value=file
        )
    return _WRITERS[suffix]


def save_rows(batches: Batches, schema: pa.Schema, file: str) -> None:
    """Write rows into a file, whole or not at all, in the format that its name says; raises InvalidOption, InvalidPath."""
    path, written = Path(file).expanduser(), 0

    def done(number: int, _total: int | None) -> None:
        nonlocal written
        written = number
        show(number, None)

    with row_progress(f"writing {path.name}") as show, _replacing(path) as sink:
        writer_for(file)(counted(batches, done), schema, sink)
    print_line(f"{file}: {count(written, 'row')}")


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file beside `path` that takes its place once it is whole; an error leaves what was there. Raises InvalidPath."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        sink = beside.open("wb")
    except OSError as error:
        raise InvalidPath(
            f"--output {str(path)!r} cannot be written",
            why=error.strerror or str(error),
            fix="Check the directory",
            path=str(path),
        ) from error
    try:
        with sink:
            yield sink
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def _plain_rows(table: pa.Table | pa.RecordBatch) -> Iterator[tuple[Plain, ...]]:
    batches = table.to_batches() if isinstance(table, pa.Table) else [table]
    for batch in batches:
        yield from zip(*(plain_values(column) for column in batch.columns), strict=True)


def _csv_line(cells: tuple[Plain, ...] | list[str]) -> bytes:
    return (",".join(map(_csv_cell, cells)) + "\n").encode("utf-8", "backslashreplace")


def _csv_cell(value: Plain) -> str:
    text = cell_text(value)
    quoted = value == "" or any(c in text for c in ',"\r\n') or text != text.strip()
    return '"' + text.replace('"', '""') + '"' if quoted else text


def _check_names(schema: pa.Schema) -> None:
    twice = sorted(name for name, count in Counter(schema.names).items() if count > 1)
    if twice:
        raise InvalidOption(
            f"two columns are named {twice[0]!r}",
            why="A JSON object has each name once",
            fix="Rename one in the query: … AS other",
            option="json",
            value=twice[0],
        )


RowsDone = Callable[[int, int | None], None]
"""Told how many rows are done, and of how many where that is known."""


@contextmanager
def row_progress(doing: str, noun: str = "rows") -> Iterator[RowsDone]:
    """Show a progress bar on stderr, where that is a terminal, while the block runs; `doing` is what is done, such as "reading 3 files".

    What it yields counts `noun`, rows where not given.
    """
    with text_progress(doing) as tell:
        yield lambda done, total: tell(f"{done:,} {noun}" + (f" of {total:,}" if total else ""), done, total)


@contextmanager
def text_progress(doing: str) -> Iterator[Callable[[str, int, int | None], None]]:
    """Show a progress bar on stderr, where that is a terminal, while the block runs; `doing` is what is done.

    What it yields is told a text to stand beside the bar, how much is done, and of how much if that is known.
    """
    console = stderr_console()
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[text]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(doing, total=None, text="")
        yield lambda text, done, total: bar.update(task, completed=done, total=total, text=text)


def counted(batches: Iterator[pa.RecordBatch], done: RowsDone) -> Iterator[pa.RecordBatch]:
    """The same batches, told to `done` as they pass."""
    rows = 0
    for batch in batches:
        yield batch
        rows += batch.num_rows
        done(rows, None)


T = TypeVar("T")


def in_thread(call: Callable[[], T]) -> T:
    """The result of a call that another thread makes, or its error.

    Ctrl-C ends the wait, and the process takes the thread along: DuckDB does not hear it while it fills an Arrow stream.
    """
    outcome: Future[T] = Future()

    def work() -> None:
        try:
            outcome.set_result(call())
        except BaseException as error:  # noqa: BLE001  # it is raised again where the result is asked for
            outcome.set_exception(error)

    Thread(target=work, daemon=True).start()
    return outcome.result()


def interruptible(rows: Rows) -> Rows:
    """The same rows; each batch is read in a thread."""

    def read() -> Iterator[pa.RecordBatch]:
        batches = rows.read()
        while (batch := in_thread(lambda: next(batches, None))) is not None:
            yield batch

    return Rows(rows.schema, read)
