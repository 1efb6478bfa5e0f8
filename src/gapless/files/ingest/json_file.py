"""JSON lines: one object a line, typed by all lines; two passes, each holding 10,000 lines.

Read by Python's parser: integers stay exact, and an error names its line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from math import isinf

import pyarrow as pa

from gapless.errors import InvalidValue, UnreadableInput, shorten
from gapless.files.ingest.batches import Batches, rows_without_columns
from gapless.files.ingest.cells.instants import holds_times, plan_reading, read_cells, refuse_times, survey_times
from gapless.files.ingest.cells.texts import Candidates, Cells, survey, without
from gapless.files.ingest.csv_file import known_type
from gapless.files.ingest.input_file import InputFile, reading
from gapless.files.ingest.plain_values import plain_array, telling_types
from gapless.files.ingest.rows import CHUNK_ROWS, columns_of, fit_column, merge_schema
from gapless.files.ingest.text_file import TextFile
from gapless.model.by_value import Floats
from gapless.model.index import IndexSpec
from gapless.model.input_formats import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonSurvey:
    """What one or several files hold."""

    types: Mapping[str, pa.DataType]
    """Types of the columns that JSON itself types."""
    texts: Mapping[str, Candidates]
    """Types that fit the columns whose values are read as texts (timestamps, dates, decimals)."""


def unique_names(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object of JSON; raises ValueError where a name stands in it twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"a name stands twice in one object: {', '.join(name for name, _ in pairs)[:200]}")
    return found


def is_read_as_text(name: str, index: IndexSpec | None, schema: pa.Schema | None) -> bool:
    """Whether a column's values are read as texts: those of times and decimals are, of which JSON has no numbers."""
    known = known_type(schema, name)
    if index is not None and name == index.column and index.type == "timestamp":
        return True
    return known is not None and (pa.types.is_temporal(known) or pa.types.is_decimal(known)) and not pa.types.is_duration(known)


def json_cells(values: list[object], column: str, source: str, row: int) -> Cells:
    """JSON scalars as the texts they were written as; `row` is the number of the first. Raises InvalidValue."""
    texts: list[str | None] = []
    for at, value in enumerate(values):
        if isinstance(value, bool | list | dict):
            raise InvalidValue(
                f"column {column!r} holds {value!r} in row {row + at} (from 0) of {source}",
                why="A time, date or decimal is a text or a number in JSON",
                fix="Mend the value",
                column=column, row=row + at, value=value, source=source,
            )  # fmt: skip
        texts.append(value if value is None or isinstance(value, str) else str(value))
    return Cells(texts=without(pa.array(texts, pa.string()), ()), column=column, source=source, row=row)


_LARGE_EXPONENT = re.compile(r"[eE]\+?[0-9]{3}")
_MANY_DIGITS = re.compile(r"[0-9]{309}")


class _TooLarge(Exception):
    """A number that no double holds."""


def _finite(text: str) -> float:
    found = float(text)
    if isinf(found):
        raise _TooLarge(text)
    return found


def _parse(line: str, exact: frozenset[str]) -> dict[str, object]:
    """An object; of the columns `exact` a number with a fraction as Decimal, every digit of it, where a double would drop some."""
    doubtful = _LARGE_EXPONENT.search(line) or (len(line) > 309 and _MANY_DIGITS.search(line))
    found = json.loads(line, object_pairs_hook=unique_names, parse_float=_finite if doubtful else None)
    if isinstance(found, dict):
        inexact = [name for name in exact if type(found.get(name)) is float]
        if inexact:
            digits = json.loads(line, parse_float=Decimal)
            found.update({name: digits[name] for name in inexact})
        return found
    raise ValueError(f"it holds {line[:60]!r}, which is no object")


def _chunks(path: InputFile, options: Json, exact: frozenset[str]) -> Iterator[tuple[int, int, dict[str, list[object]]]]:
    """Columns of at most CHUNK_ROWS rows, with the number of their first row, and how many rows they are: objects may have no field.

    `exact` is as for `_parse`.
    """
    rows: list[object] = []
    first = 0
    for number, line in _lines(path, options.max_line_size):
        try:
            rows.append(_parse(line, exact))
        except _TooLarge as large:
            raise InvalidValue(
                f"line {number} of {path} holds the number {shorten(str(large))}",
                why="It is too large for a double, and infinity would be another value",
                fix="Write it as a text, or correct it",
                row=first + len(rows), value=str(large), source=str(path),
            ) from large  # fmt: skip
        except (ValueError, RecursionError) as damage:
            raise UnreadableInput(
                f"line {number} of {path} is not a JSON object",
                why=str(damage),
                fix=_fix(number, line),
                source=str(path),
            ) from damage
        if len(rows) == CHUNK_ROWS:
            yield first, len(rows), columns_of(rows, str(path), first)
            first, rows = first + len(rows), []
    if rows:
        yield first, len(rows), columns_of(rows, str(path), first)


def _fix(number: int, line: str) -> str:
    if number == 1 and line.lstrip()[:1] not in ("{", "["):
        return 'Mend that line; where the file is CSV, pass format="csv", or name it .csv'
    return "Mend that line; rewrite a file that is one array, or spreads objects over lines, as one object a line"


def _lines(path: InputFile, longest: int) -> Iterator[tuple[int, str]]:
    with reading(path.name):
        source = TextFile(path, "JSON lines")
        try:
            for number, line in enumerate(source.lines(longest), start=1):
                text = line.decode("utf-8")
                if text.strip():
                    yield number, text
        except UnicodeDecodeError as wrong:
            raise UnreadableInput(
                f"line {number} of {path} is not UTF-8",
                why=f"{wrong.reason} in it",
                fix="Write it anew as UTF-8",
                source=str(path),
            ) from wrong
        finally:
            source.close()


def _text_names(index: IndexSpec | None, schema: pa.Schema | None) -> frozenset[str]:
    """The columns that `is_read_as_text` is true of, known before the file is read."""
    names = {*(() if schema is None else schema.names), *(() if index is None else (index.column,))}
    return frozenset(name for name in names if is_read_as_text(name, index, schema))


def survey_json(path: InputFile, options: Json, index: IndexSpec | None, schema: pa.Schema | None) -> JsonSurvey:
    """Read a file once to see what its columns hold; raises UnreadableInput or InvalidValue."""
    types: dict[str, pa.DataType] = {}
    texts: dict[str, Candidates] = {}
    exact, told = _text_names(index, schema), telling_types(schema)
    for row, _, columns in _chunks(path, options, exact):
        found: dict[str, pa.DataType] = {}
        for name, values in columns.items():
            if not is_read_as_text(name, index, schema):
                found[name] = plain_array(values, name, (str(path), row), told).type
                continue
            cells, before = json_cells(values, name, str(path), row), texts.get(name)
            counts = index is None or name != index.column or options.timestamp_format is None
            narrow = survey_times if counts and holds_times(name, index, known_type(schema, name), None) else survey
            texts[name] = narrow(cells.texts, before)
            if index is not None and name == index.column and texts[name] == () and options.timestamp_format is None:
                raise refuse_times(cells, before)
        types = merge_schema(types, found, str(path))
    return JsonSurvey(types=types, texts=texts)


def open_json(
    path: InputFile, options: Json, index: IndexSpec | None, schema: pa.Schema | None, found: JsonSurvey, own: JsonSurvey
) -> Batches:
    """A file of JSON lines as batches.

    `own` is this file's survey, which names its columns; `found` is merged over all files of the append, and types them.
    Raises InvalidOption here, UnreadableInput or InvalidValue (its row counted from 0 within the file) while reading.
    """
    plan = {
        name: plan_reading(name, options, index, known_type(schema, name), found.texts.get(name), str(path))
        for name in own.texts
    }
    types = {name: plan[name].type if name in plan else found.types[name] for name in (*own.texts, *own.types)}
    typed, told = pa.schema(list(types.items())), telling_types(schema)
    exact = _text_names(index, schema)

    def read() -> Iterator[pa.RecordBatch]:
        for row, rows, columns in _chunks(path, options, exact):
            if not types:
                yield from rows_without_columns(rows)
                continue
            arrays = []
            for name, type_ in types.items():
                if name in plan and name in columns:
                    arrays.append(read_cells(json_cells(columns[name], name, str(path), row), plan[name]))
                    continue
                array = plain_array(columns[name], name, (str(path), row), told) if name in columns else None
                arrays.append(fit_column(array, type_, rows, (name, str(path), row)))
            yield pa.record_batch(arrays, schema=typed)

    inferred: dict[str, Floats] = dict.fromkeys(types.keys() - plan.keys(), "nearest")
    return Batches(source=str(path), schema=typed, read=read, bytes_hint=path.size, inferred=inferred)
