"""CSV files: read as text, typed by all their values (or by the table's schema), delivered as record batches.

A column without a known type costs a first pass over the file. Either pass reads blocks of 1 MiB; Arrow reads up to 32 of them
ahead, so that about 150 MB are used however long the file is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
from pyarrow import csv

from gapless.errors import UnreadableInput
from gapless.files.ingest.batches import Batches
from gapless.files.ingest.instants import (
    Reading,
    holds_times,
    needs_survey,
    plan_reading,
    read_cells,
    refuse_times,
    survey_times,
)
from gapless.files.ingest.texts import BLOCK_BYTES, Candidates, Cells, TextFile, reading, survey, without
from gapless.model.index import IndexSpec
from gapless.model.input_formats import Csv


def _open(source: TextFile, options: Csv, names: list[str]) -> csv.CSVStreamingReader:
    """A reader of string columns; `names` are those it has already been found to have."""
    read = csv.ReadOptions(
        use_threads=False,  # else errors do not name their row
        block_size=BLOCK_BYTES,
        encoding=options.encoding,
        skip_rows=options.skip_rows,
        column_names=options.columns,
        skip_rows_after_names=1 if options.columns is not None and options.header else 0,
    )
    split = csv.ParseOptions(
        delimiter=options.delimiter, quote_char=options.quote or False, newlines_in_values=options.quote is not None
    )
    convert = csv.ConvertOptions(
        column_types={name: pa.string() for name in names},
        null_values=list(options.nulls),
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    return csv.open_csv(source, read_options=read, parse_options=split, convert_options=convert)


def column_names(path: Path, options: Csv, index: IndexSpec | None) -> list[str]:
    """Names of a file's columns; raises UnreadableInput where one stands twice, or the delimiter is not the right one."""
    with reading(path):
        source = TextFile(path)
        try:
            names: list[str] = _open(source, options, []).schema.names
        finally:
            source.close()
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UnreadableInput(
            f"{path} has several columns named {', '.join(map(repr, twice))}",
            why="A table's columns have different names",
            fix="Rename them in the header, or pass Csv(columns=[…])",
            source=str(path),
        )
    _check_delimiter(path, options, index, names)
    return names


def _check_delimiter(path: Path, options: Csv, index: IndexSpec | None, names: list[str]) -> None:
    if index is None or index.column in names:
        return
    line = options.delimiter.join(names)
    right = next((mark for mark in ",;\t|" if index.column in (part.strip(" \"'") for part in line.split(mark))), None)
    if right is not None and right != options.delimiter:
        fix = f"Pass Csv(delimiter={right!r})"
    elif len(names) == 1:
        fix = "Pass Csv(delimiter=…), or Csv(skip_rows=…) where lines stand before the header"
    else:
        return
    raise UnreadableInput(
        f"{path}, split at {options.delimiter!r}, has no column {index.column!r}",
        why=f"Its header reads {line[:200]!r}",
        fix=fix,
        source=str(path),
    )


def _blocks(path: Path, options: Csv, names: list[str]) -> Iterator[pa.RecordBatch]:
    """The file as string columns, block by block."""
    with reading(path):
        source = TextFile(path)
        try:
            last = None
            for block in _open(source, options, names):
                if block.num_rows:
                    last = block.column(block.num_columns - 1)[block.num_rows - 1].as_py()
                    yield block
            _check_closed(path, options, source.last, last)
        finally:
            source.close()


def _check_closed(path: Path, options: Csv, tail: bytes, last: str | None) -> None:
    """Refuse a quote that is never closed: Arrow would give the rest of the file as one text."""
    if options.quote is None or last is None or not set("\r\n") & set(last):
        return
    if not tail.decode(options.encoding, errors="ignore").rstrip().endswith(options.quote):
        raise UnreadableInput(
            f"{path} ends within a quoted text that begins {last[:60]!r}",
            why=f"A {options.quote} was opened and never closed, so the lines after it are no rows",
            fix="Mend the file, or pass Csv(quote=None) if that character means nothing",
            source=str(path),
        )


def survey_csv(path: Path, options: Csv, index: IndexSpec | None, schema: pa.Schema | None) -> dict[str, Candidates]:
    """Read a file once to see which types fit its columns; only those whose type is not known yet.

    `schema` is the table's, where it has one. Raises UnreadableInput, or InvalidValue for an index that holds no times.
    """
    names = column_names(path, options, index)
    wanted = [name for name in names if needs_survey(name, index, known_type(schema, name), options.declared(name))]
    found: dict[str, Candidates] = dict.fromkeys(wanted)
    times = {name for name in wanted if holds_times(name, index, known_type(schema, name), options.declared(name))}
    if index is not None and options.timestamp_format is not None:
        times.discard(index.column)
    if not wanted:
        return found
    row = 0
    for block in _blocks(path, options, names):
        for name in wanted:
            texts = without(block.column(name), tuple(options.nulls))
            narrow = survey_times if name in times else survey
            before, found[name] = found[name], narrow(texts, found[name], options.decimal_point)
            if index is not None and name == index.column and found[name] == () and options.timestamp_format is None:
                raise refuse_times(Cells(texts=texts, column=name, source=str(path), row=row), before)
        row += block.num_rows
    return found


def known_type(schema: pa.Schema | None, name: str) -> pa.DataType | None:
    """A column's type in the table's schema, or None where it has none."""
    at = -1 if schema is None else schema.get_field_index(name)
    return None if schema is None or at < 0 else schema.field(at).type


def open_csv(
    path: Path, options: Csv, index: IndexSpec | None, schema: pa.Schema | None, found: Mapping[str, Candidates]
) -> Batches:
    """A CSV file as batches, its columns typed by `found` (of `survey_csv`, merged over all files of the append).

    Raises UnreadableInput or InvalidOption here, and UnreadableInput or InvalidValue (its row counted from 0 within the
    file) while the batches are read.
    """
    names = column_names(path, options, index)
    plan = {
        name: plan_reading(name, options, index, known_type(schema, name), found.get(name, ()), str(path)) for name in names
    }
    typed = pa.schema([(name, one.type) for name, one in plan.items()])

    def read() -> Iterator[pa.RecordBatch]:
        row = 0
        for block in _blocks(path, options, names):
            yield pa.record_batch([_column(block, name, plan[name], options, str(path), row) for name in names], schema=typed)
            row += block.num_rows

    return Batches(source=str(path), schema=typed, read=read, bytes_hint=path.stat().st_size)


def _column(block: pa.RecordBatch, name: str, plan: Reading, options: Csv, source: str, row: int) -> pa.Array:
    texts = block.column(name)
    if pa.types.is_string(plan.type):
        return texts
    cells = Cells(texts=without(texts, tuple(options.nulls)), column=name, source=source, row=row)
    return read_cells(cells, plan, options.decimal_point)
