"""Objects out of JSON that came otherwise than in a file, such as a page of a service, as a record batch."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from math import isinf
from typing import Self

import pyarrow as pa

from gapless.errors import UnreadableInput, shorten
from gapless.files.ingest.batches import Batches, rows_without_columns
from gapless.files.ingest.cells.instants import holds_times, plan_reading, read_cells, survey_times
from gapless.files.ingest.cells.texts import survey
from gapless.files.ingest.csv_file import known_type
from gapless.files.ingest.json_file import is_read_as_text, json_cells, unique_names
from gapless.files.ingest.plain_values import plain_array, telling_types
from gapless.files.ingest.rows import columns_of
from gapless.model.by_value import Floats
from gapless.model.input_formats import Json


class _Written(float):
    """A number with its text, which a decimal column takes digit by digit."""

    text: str

    def __new__(cls, text: str) -> Self:
        made = super().__new__(cls, text)
        if isinf(made):
            raise ValueError(f"no double holds the number {shorten(text)}")
        made.text = text
        return made

    def __str__(self) -> str:
        return self.text


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON")


def load_json(text: str | bytes, source: str) -> object:
    """A JSON text as Python values, whose numbers lose no digit. Raises UnreadableInput."""
    try:
        return json.loads(text, object_pairs_hook=unique_names, parse_float=_Written, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as damage:
        raise UnreadableInput(
            f"{source} is no JSON",
            why=f"{type(damage).__name__}: {damage}"[:500],
            fix="Mend it where it is made",
            source=source,
        ) from damage


def json_records(records: Sequence[object], source: str, schema: pa.Schema | None) -> Batches:
    """Objects of `load_json` as rows. `schema` says which columns are times, decimals and maps, as it does of files of JSON lines.

    Raises UnreadableInput for what is no object, InvalidValue.
    """
    columns, told = columns_of(records, source, 0), telling_types(schema)
    arrays: dict[str, pa.Array] = {}
    inferred: dict[str, Floats] = {}
    for name, values in columns.items():
        if not is_read_as_text(name, None, schema):
            arrays[name] = plain_array(values, name, (source, 0), told)
            inferred[name] = "nearest"
            continue
        cells, known = json_cells(values, name, source, 0), known_type(schema, name)
        narrow = survey_times if holds_times(name, None, known, None) else survey
        arrays[name] = read_cells(cells, plan_reading(name, Json(), None, known, narrow(cells.texts, None), source))
    rows = len(records)

    def read() -> Iterator[pa.RecordBatch]:
        if not arrays:
            return rows_without_columns(rows)
        return iter([pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))])

    typed = pa.schema([(name, array.type) for name, array in arrays.items()])
    return Batches(source=source, schema=typed, read=read, rows_hint=rows, inferred=inferred)
