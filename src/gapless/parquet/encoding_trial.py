"""The smallest encoding of each column, found by encoding some of its rows in each."""

from __future__ import annotations

from functools import partial

import pyarrow as pa

from gapless.parquet.aims import Aim
from gapless.parquet.arrow_chunks import encoded_size
from gapless.parquet.dictionary_gain import may_be_shorter
from gapless.parquet.encodings import DELTA, DICTIONARY, PLAIN, Choice, Encodings, is_whole, of_simple_rows, together, values_of
from gapless.parquet.ordered import Ordered
from gapless.parquet.placing import is_fixed
from gapless.parquet.threads import side_by_side
from gapless.parquet.writer_options import WriterOptions

_TRIAL_ROWS = 131_072
"""Rows next to each other: what a dictionary saves grows with them, and so does the time it takes to find out."""

_FILE_WIDTH = 4
"""Bytes that files hold a whole number in, at least, however few it has in memory."""


def try_encodings(all_rows: Ordered, aim: Aim) -> Encodings:
    """The encodings that make rows from the middle smallest; without a trial for few or nested rows."""
    if (simple := of_simple_rows(all_rows)) is not None:
        return simple
    start = max(0, all_rows.count - _TRIAL_ROWS) // 2
    rows = all_rows.columns(all_rows.schema.names, start, min(all_rows.count, start + _TRIAL_ROWS))
    acts = [partial(_smallest, rows.select([name]), aim) for name in rows.column_names]
    return together(dict(zip(rows.column_names, side_by_side(acts, rows.nbytes), strict=True)))


def _smallest(rows: pa.Table, aim: Aim) -> Choice:
    """How the one column of these rows takes the fewest bytes; the first of those that take as few."""
    candidates = _candidates(rows.schema.field(0).type)
    if found := _hardly_repeating(rows.column(0)):
        candidates = candidates[1:]
    if len(candidates) == 1:
        return Choice(candidates[0], found)
    sizes = {kind: _size(rows, kind, aim) for kind in candidates}
    best, *others = sorted(sizes, key=sizes.__getitem__)
    beside = "".join(f", {sizes[kind]:,} as {kind}" for kind in others)
    return Choice(best, f"{sizes[best]:,} bytes for {rows.num_rows:,} rows{beside}{found and '; '}{found}")


def _hardly_repeating(column: pa.ChunkedArray) -> str:
    """Why numbers get no dictionary, whatever compression makes of it; empty where they may get one."""
    if not is_fixed(column.type):
        return ""
    known = values_of(column)
    if may_be_shorter(known.distinct, known.count, max(_FILE_WIDTH, column.type.bit_width // 8)):
        return ""
    return f"{known.distinct:,} of {known.count:,} values are distinct"


def _size(rows: pa.Table, kind: str, aim: Aim) -> int:
    chosen = together({rows.column_names[0]: Choice(kind, "")})
    return encoded_size(rows, WriterOptions(compression=aim.compression, compression_level=aim.level, encodings=chosen))


def _candidates(kind: pa.DataType) -> tuple[str, ...]:
    """Encodings for values of a type which all readers that we promise know."""
    if is_whole(kind):
        return DICTIONARY, DELTA, PLAIN
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return DICTIONARY, "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY", PLAIN
    return DICTIONARY, PLAIN
