"""Joining the rows of a merge's source to the table's in DuckDB, a number of files at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.errors import GaplessError, InvalidQuery
from gapless.files.read.row_filter import EVERYTHING
from gapless.formats.delta.actions import AddFile
from gapless.formats.delta.deletion_vector import Positions
from gapless.predicate import predicate as p
from gapless.predicate.predicate import Predicate
from gapless.predicate.range import conjunction, key_bounds
from gapless.tables.delta.expressions.evaluate import true_rows
from gapless.tables.delta.expressions.sql import parse_expression
from gapless.tables.delta.files.open_file import POSITION, Projection
from gapless.tables.delta.merge.plan import KeyPair, Names, key_pairs, target_terms
from gapless.tables.delta.write.rewrite import BaseVersion
from gapless.tables.delta.write.row_edit import known_rows
from gapless.tables.shared.duckdb_session import FEW_ROWS, duck_session
from gapless.tables.shared.scan import Condition, parse_condition

Numbers = npt.NDArray[np.int64]
FILE = "file"
"""The column with the number of a row's file, from 0."""
CHUNK_BYTES = 64 << 20
"""Arrow memory of the rows that are matched at a time."""


def numbered_rows(
    before: BaseVersion, files: Sequence[AddFile], columns: Sequence[int], predicate: Predicate = EVERYTHING
) -> Iterator[pa.Table]:
    """The files' rows that a predicate keeps, about `CHUNK_BYTES` at a time, with `FILE`, `POSITION` and these columns by index, the one
    at 3 called c3. Raises CorruptTable, StoreError.
    """
    schema = before.schema
    wanted = Projection(columns=tuple(schema.names[at] for at in columns), predicate=predicate, position=True)
    fields = [pa.field(f"c{at}", schema.field(at).type) for at in columns]
    shape = pa.schema([pa.field(FILE, pa.int32()), *fields, pa.field(POSITION, pa.int64())])
    held: list[pa.RecordBatch] = []
    size = 0
    for number, file in enumerate(files):
        for batch in before.reader.batches(file, wanted):
            told = pa.repeat(pa.scalar(number, pa.int32()), batch.num_rows)
            held.append(pa.RecordBatch.from_arrays([told, *batch.columns], schema=shape))
            size += held[-1].nbytes
            if size >= CHUNK_BYTES:
                yield pa.Table.from_batches(held, shape)
                held, size = [], 0
    yield pa.Table.from_batches(held, shape)


def by_file(found: pa.Table, files: int) -> list[tuple[Numbers, ...]]:
    """The columns of an answer, which are a file's number and positions in it first, as sorted arrays for each file."""
    columns: list[npt.NDArray[Any]] = [column.to_numpy() for column in found.columns]
    order = np.lexsort(tuple(reversed(columns)))
    number, *others = (column[order] for column in columns)
    ends = np.searchsorted(number, np.arange(files + 1))
    return [tuple(column[begin:end] for column in others) for begin, end in pairwise(ends)]


_ROW = "row"


@dataclass(frozen=True, slots=True)
class Pairs:
    """Rows of one file with the source's rows that belong to them, by position."""

    positions: Positions
    """Ascending; a position comes as often as rows belong to it."""
    rows: npt.NDArray[np.int64]
    """The source's rows, from 0."""


def source_bounds_condition(on: str, names: Names, source: pa.Table) -> Condition:
    """What is true of every row of the target that a row of `source` may belong to; maybe of others too."""
    terms: list[p.Predicate] = []
    for pair in key_pairs(on, names):
        keys = source.column(pair.source)
        if _compares_alike(keys.type, names.target.field(pair.target).type):
            # SQL's equality matches no null.
            terms.append(key_bounds(pa.table({pair.target: keys.drop_null()}), (pair.target,)))
    for text in target_terms(on, names):
        try:
            terms.append(parse_condition(text, names.target).predicate)
        except GaplessError:
            # SQL that only DuckDB understands; the join asks it.
            continue
    predicate = conjunction(terms)
    named = p.columns_of(predicate)
    return Condition(
        schema=names.target, predicate=predicate, columns=tuple(name for name in names.target.names if name in named)
    )


def match_rows(
    before: BaseVersion, files: Sequence[AddFile], on: str, names: Names, source: pa.Table, near: Condition
) -> list[Pairs]:
    """For each file the rows that belong together. `near` is `reach`'s. Raises InvalidQuery, UnknownColumn, CorruptTable, StoreError."""
    import duckdb

    flat = names.flat(on)
    true_rows(names.schema().empty_table(), flat)  # which a number is refused by, that a join would take
    understood = parse_expression(flat, names.schema(), "duckdb")
    width = len(names.target)
    read = [at for at in understood.columns if at < width]
    sql = f"SELECT t.{FILE}, t.{POSITION}, s.{_ROW} FROM t JOIN s ON {understood.sql}"  # noqa: S608  # columns c0, c1, …
    found: list[pa.Table] = []
    with duck_session(source.num_rows + sum(known_rows(file) or FEW_ROWS for file in files)) as engine:
        for rows in numbered_rows(before, files, read, near.predicate):
            try:
                if not found:
                    engine.register("given", _numbered(source, [at for at in understood.columns if at >= width], width))
                    engine.execute("CREATE TEMP TABLE s AS SELECT * FROM given")
                engine.register("t", rows)
                found.append(engine.sql(sql).to_arrow_table())
            except duckdb.Error as error:
                why = str(error).partition("\n")[0]
                raise InvalidQuery(f"on={on!r} cannot be answered", why=why, fix="Mend the condition", sql=on) from error
    return [Pairs(*columns) for columns in by_file(pa.concat_tables(found), len(files))]


def _compares_alike(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether equal values of both are equal as filters compare them, which round nothing."""
    both = (source, target)
    return source == target or any(all(map(test, both)) for test in (pa.types.is_integer, _is_text))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _numbered(source: pa.Table, columns: Sequence[int], width: int) -> pa.Table:
    held = source.select([at - width for at in columns]).rename_columns([f"c{at}" for at in columns])
    return held.append_column(_ROW, pa.array(np.arange(source.num_rows)))


def keys_of(pairs: Sequence[KeyPair], source: pa.Table, rows: Sequence[int]) -> tuple[tuple[object, ...], ...]:
    """The keys of some of the source's rows, for messages."""
    return tuple(tuple(source.column(pair.source)[row].as_py() for pair in pairs) for row in rows)
