"""CSV files: read as text, typed by all their values (or by the table's schema), delivered as record batches.

A column without a known type costs a first pass over the file. Either pass holds one block of 1 MiB, or of one row where that is longer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from gapless.errors import DataError, UnreadableInput
from gapless.files.ingest.batches import Batches, rows_without_columns
from gapless.files.ingest.cells.instants import (
    Reading,
    holds_times,
    needs_survey,
    plan_reading,
    read_cells,
    refuse_times,
    survey_times,
)
from gapless.files.ingest.cells.texts import Candidates, Cells, survey, without
from gapless.files.ingest.column_survey import survey_columns
from gapless.files.ingest.csv_rows import TextColumns, header_names, marks_of, row_blocks
from gapless.files.ingest.input_file import InputFile, reading
from gapless.model.index import IndexSpec
from gapless.model.input_formats import Csv


@dataclass(frozen=True, slots=True, kw_only=True)
class TextBlock:
    """Some rows of a file as texts."""

    columns: Sequence[pa.Array]
    """Those that have names, in order."""
    row: int
    """Number of the first row in the file, from 0."""
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvFile:
    """A CSV file whose columns are known."""

    file: InputFile
    options: Csv
    fields: Sequence[str]
    """What its lines hold, by the header or by `columns`; a blank name where it has none."""

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.file.name

    @property
    def names(self) -> list[str]:
        """Names of its columns; one without a name is none, and holds nothing."""
        return [name for name in self.fields if name.strip()]

    def blocks(self) -> Iterator[TextBlock]:
        """Its rows, block by block. Raises UnreadableInput, also where a column without a name holds something."""
        read = TextColumns(name=self.name, count=len(self.fields), nulls=self.options.nulls)
        kept = [at for at, name in enumerate(self.fields) if name.strip()]
        row, header = 0, self.options.header
        with reading(self.name):
            for block in row_blocks(self.file, self.options):
                rows = block.split_header()[1] if header else block
                header = header and not rows and not block.text.row_starts().size
                columns = read.read(rows) if rows is not None else []
                if not columns or not len(columns[0]):
                    continue
                self._check_unnamed(columns, row)
                yield TextBlock(columns=[columns[at] for at in kept], row=row, rows=len(columns[0]))
                row += len(columns[0])

    def has_rows(self) -> bool:
        """Whether it has any; reads its first block. Raises as `blocks`."""
        return next(self.blocks(), None) is not None

    def _check_unnamed(self, columns: Sequence[pa.Array], row: int) -> None:
        for at, name in enumerate(self.fields):
            if name.strip():
                continue
            filled = pc.fill_null(pc.greater(pc.utf8_length(pc.utf8_trim_whitespace(columns[at])), 0), fill_value=False)
            found = pc.index(filled, pa.scalar(True)).as_py()
            if found >= 0:
                value = columns[at][found].as_py()
                raise UnreadableInput(
                    f"column {at + 1} of {len(self.fields)} in {self.name} has no name, and holds {value[:60]!r} in row {row + found} (from 0)",
                    why="A column without a name is left out only where it is empty in every row",
                    fix="Name it in the header, or name all columns: Csv(columns=[…])",
                    source=self.name,
                )


def open_fields(file: InputFile, options: Csv, index: IndexSpec | None) -> CsvFile:
    """A file with the names of its columns: none where it is empty.

    Raises UnreadableInput where a name stands twice, or the delimiter is not the right one.
    """
    if options.columns is not None:
        fields = list(options.columns)
    else:
        with reading(file.name):
            first = next((head for block in row_blocks(file, options) if (head := block.split_header()[0])), None)
        fields = [] if first is None else header_names(first, file.name, marks_of(options))
    opened = CsvFile(file=file, options=options, fields=fields)
    seen: set[str] = set()
    twice = sorted({name for name in opened.names if name in seen or seen.add(name)})  # type: ignore[func-returns-value]
    if twice:
        raise UnreadableInput(
            f"{file.name} has several columns named {', '.join(map(repr, twice))}",
            why="A table's columns have different names",
            fix="Rename them in the header, or pass Csv(columns=[…])",
            source=file.name,
        )
    if fields:
        _check_delimiter(file.name, options, index, opened.names)
    return opened


def _check_delimiter(source: str, options: Csv, index: IndexSpec | None, names: list[str]) -> None:
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
        f"{source}, split at {options.delimiter!r}, has no column {index.column!r}",
        why=f"Its header reads {line[:200]!r}",
        fix=fix,
        source=source,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvSurvey:
    """A file that was looked through for the types of its columns."""

    file: CsvFile
    found: Mapping[str, Candidates]
    """Types that fit the columns whose type is not known yet."""


def survey_csv(file: InputFile, options: Csv, index: IndexSpec | None, schema: pa.Schema | None) -> CsvSurvey:
    """Read a file once to see which types fit its columns; only those whose type is not known yet.

    `schema` is the table's, where it has one. Raises UnreadableInput, or InvalidValue for an index that holds no times.
    """
    opened = open_fields(file, options, index)
    types, nulls, point = known_types(schema), tuple(options.nulls), options.decimal_point
    wanted = {
        name: at for at, name in enumerate(opened.names) if needs_survey(name, index, types.get(name), options.declared(name))
    }
    found: dict[str, Candidates] = dict.fromkeys(wanted)
    times = [name for name in wanted if holds_times(name, index, types.get(name), options.declared(name))]
    others = [name for name in wanted if name not in set(times)]
    for block in opened.blocks() if wanted else ():
        for name in times:
            texts, before = without(block.columns[wanted[name]], nulls), found[name]
            is_index = index is not None and name == index.column
            narrow = survey if is_index and options.timestamp_format is not None else survey_times
            found[name] = narrow(texts, before, point)
            if is_index and found[name] == () and options.timestamp_format is None:
                raise refuse_times(Cells(texts=texts, column=name, source=opened.name, row=block.row), before)
        columns = [block.columns[wanted[name]] for name in others]
        found.update(zip(others, survey_columns(columns, [found[name] for name in others], nulls, point), strict=True))
    return CsvSurvey(file=opened, found=found)


def known_type(schema: pa.Schema | None, name: str) -> pa.DataType | None:
    """A column's type in the table's schema, or None where it has none."""
    at = -1 if schema is None else schema.get_field_index(name)
    return None if schema is None or at < 0 else schema.field(at).type


def known_types(schema: pa.Schema | None) -> dict[str, pa.DataType]:
    """The types of a table's columns, by name."""
    return {} if schema is None else dict(zip(schema.names, schema.types, strict=True))


def open_csv(looked: CsvSurvey, index: IndexSpec | None, schema: pa.Schema | None, found: Mapping[str, Candidates]) -> Batches:
    """A CSV file as batches, its columns typed by `found` (of `survey_csv`, merged over all files of the append).

    Where the table has no columns yet, a file without rows has none either: nothing says their types. Raises InvalidOption here, and
    UnreadableInput or InvalidValue (its row counted from 0 within the file) while the batches are read.
    """
    opened = looked.file
    if schema is None and not opened.has_rows():
        return Batches(
            source=opened.name, schema=pa.schema([]), read=lambda: iter(()), rows_hint=0, bytes_hint=opened.file.size
        )
    options, source, types = opened.options, opened.name, known_types(schema)
    plan = [plan_reading(name, options, index, types.get(name), found.get(name, ()), source) for name in opened.names]
    typed = pa.schema([(name, one.type) for name, one in zip(opened.names, plan, strict=True)])

    def read() -> Iterator[pa.RecordBatch]:
        for block in opened.blocks():
            if not opened.names:
                yield from rows_without_columns(block.rows)
                continue
            yield pa.RecordBatch.from_arrays(_read_columns(block, opened, plan), schema=typed)

    return Batches(source=source, schema=typed, read=read, bytes_hint=opened.file.size)


FEW_ROWS = 256
"""Blocks of at most as many rows are wide: what a call into Arrow costs beside its work is spent once for columns that are read alike."""


def _read_columns(block: TextBlock, opened: CsvFile, plan: Sequence[Reading]) -> list[pa.Array]:
    """The columns of a block in their types. Raises InvalidValue."""
    alike: dict[Reading, list[int]] = {}
    for at, reading_ in enumerate(plan):
        alike.setdefault(reading_, []).append(at)
    columns = list(block.columns)
    for reading_, places in alike.items():
        if pa.types.is_string(reading_.type):
            continue
        if len(places) > 1 and block.rows <= FEW_ROWS:
            try:
                _read_together(columns, places, reading_, block, opened)
                continue
            except DataError:
                pass  # raised again below, by the column's name and row
        for at in places:
            columns[at] = read_cells(_cells(block.columns[at], opened, at, block.row), reading_, opened.options.decimal_point)
    return columns


def _read_together(columns: list[pa.Array], places: list[int], plan: Reading, block: TextBlock, opened: CsvFile) -> None:
    texts = pa.concat_arrays([block.columns[at] for at in places])
    values = read_cells(_cells(texts, opened, places[0], 0), plan, opened.options.decimal_point)
    for number, at in enumerate(places):
        columns[at] = values.slice(number * block.rows, block.rows)


def _cells(texts: pa.Array, opened: CsvFile, at: int, row: int) -> Cells:
    return Cells(texts=without(texts, tuple(opened.options.nulls)), column=opened.names[at], source=opened.name, row=row)
