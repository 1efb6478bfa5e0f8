"""The statistics of many files read at once, as Arrow arrays: what `stats_codec` reads one by one. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from gapless.dialects.delta.arrow_types import arrow_type
from gapless.dialects.delta.schema import DeltaType, PrimitiveType, StructType
from gapless.dialects.delta.stats_bounds import TEXT_LENGTH
from gapless.dialects.delta.stats_codec import NAN_COUNT, ColumnPath, Leaf, leaves
from gapless.model.many_stats import ManyStats

_TEXTS = ("date", "timestamp", "timestamp_ntz")
"""Types whose bounds are texts to be read."""
_AS_THEY_ARE = ("string", "long", "integer", "short", "byte", "double")
_CUT_US = 999
"""Other writers cut times to whole milliseconds, mostly towards 1970."""
_NO_NUMBERS = (b'"Infinity"', b'"-Infinity"', b'"NaN"')
"""Bounds for which JSON has no number: as if they were not known."""
_BLOCK = 1 << 18
"""Bytes of texts that one thread reads at a time."""
_NEWLINE = 10
_ODD = "\ufffd"
"""Stands where a text was cut within a character."""


def read_bounds(texts: Sequence[str | None], path: Sequence[str], schema: StructType) -> ManyStats | None:
    """The bounds of the column at a logical path in the files with these statistics, never narrower than `stats_codec` has them.

    None where they cannot be read so, which tells nothing.
    """
    try:
        return read_many(pa.array(texts, pa.large_string()), [tuple(path)], schema)[tuple(path)]
    except UnicodeError:
        return None


def read_many(texts: pa.Array, paths: Sequence[ColumnPath], schema: StructType) -> dict[ColumnPath, ManyStats | None]:
    """`read_bounds` of several columns at once; `texts` are large_string."""
    known = {leaf.path: leaf for leaf in leaves(schema)}
    found = [leaf for path in paths if (leaf := known.get(path)) is not None and _is_read(leaf)]
    return dict.fromkeys(paths) | _read_leaves(texts, found)


def read_rows(texts: pa.Array) -> list[int | None] | None:
    """`numRecords` of the files with these statistics, large_string; None where they cannot be read so, which tells nothing."""
    try:
        told = _read(texts, [])
    except (pa.ArrowException, UnicodeError):
        return None
    rows = told.column("numRecords")
    return pc.if_else(pc.less(rows, 0), None, rows).to_pylist() if len(rows) == len(texts) else None


def _is_read(leaf: Leaf) -> bool:
    return not leaf.was_float and isinstance(leaf.type, PrimitiveType) and leaf.type.name in (*_TEXTS, *_AS_THEY_ARE)


def _read_leaves(texts: pa.Array, found: Sequence[Leaf]) -> dict[ColumnPath, ManyStats | None]:
    if not found or not len(texts):
        return {}
    try:
        table = _read(texts, found)
        if table.num_rows == len(texts):
            return {leaf.path: _bounds(table, leaf) for leaf in found}
    except (pa.ArrowException, UnicodeError):
        pass  # one is damaged, or says a number that its type does not hold: of another column, maybe
    if len(found) == 1:
        return {found[0].path: None}
    return {path: stats for leaf in found for path, stats in _read_leaves(texts, [leaf]).items()}


def _read(texts: pa.Array, found: Sequence[Leaf]) -> pa.Table:
    held = {leaf.physical: pa.string() if _is_text(leaf) else arrow_type(leaf.type) for leaf in found}
    data = _joined(texts)
    if any(pa.types.is_floating(type_) for type_ in held.values()):
        told = data.to_pybytes()
        for word in _NO_NUMBERS:
            told = told.replace(word, b"null")
        data = pa.py_buffer(told)
    bounds, counts = _nested(held), _nested(dict.fromkeys(held, pa.int64()))
    schema = pa.schema(
        {"numRecords": pa.int64(), "minValues": bounds, "maxValues": bounds, "nullCount": counts, NAN_COUNT: counts}
    )
    plain = np.count_nonzero(np.frombuffer(data, np.uint8) == _NEWLINE) == len(texts)
    return pj.read_json(
        pa.BufferReader(data),
        read_options=pj.ReadOptions(block_size=_block(texts) if plain else data.size + 1, use_threads=plain),
        parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    )


def _joined(texts: pa.Array) -> pa.Buffer:
    """One after the other, each with a newline after it. A text may have more lines: Arrow reads JSON values, whatever is between them."""
    nothing, none, newline = (pa.scalar(text, pa.large_string()) for text in ("{}", "", "\n"))
    # Arrow crashes on a JSON null that comes first.
    objects = pc.fill_null(pc.starts_with(texts, "{"), False)
    if not pc.all(objects).as_py():
        texts = pc.if_else(objects, texts, nothing)
    ended = pc.binary_join_element_wise(texts, none, newline)
    return ended.buffers()[2].slice(0, pc.sum(pc.binary_length(ended)).as_py())


def _block(texts: pa.Array) -> int:
    """Bytes that are read at once: each holds a whole text at least."""
    return max(_BLOCK, 2 * (pc.max(pc.binary_length(texts)).as_py() or 0) + 4)


def _is_text(leaf: Leaf) -> bool:
    return isinstance(leaf.type, PrimitiveType) and leaf.type.name in _TEXTS


def _nested(held: Mapping[ColumnPath, pa.DataType]) -> pa.DataType:
    """A struct with leaves of these types at these paths."""
    below: dict[str, dict[ColumnPath, pa.DataType]] = {}
    for (name, *rest), type_ in held.items():
        below.setdefault(name, {})[tuple(rest)] = type_
    return pa.struct([(name, found[()] if () in found else _nested(found)) for name, found in below.items()])


def _bounds(table: pa.Table, leaf: Leaf) -> ManyStats:
    low, high, nulls, nans = (
        _values(table, said, leaf.physical) for said in ("minValues", "maxValues", "nullCount", NAN_COUNT)
    )
    if leaf.type == PrimitiveType("string"):
        low, high = _whole_text(low, cut=False), _whole_text(high, cut=True)
    elif leaf.type == PrimitiveType("date"):
        low, high = low.cast(pa.date32()), high.cast(pa.date32())
    elif _is_text(leaf):
        low, high = _instants(low, leaf.type, -_CUT_US), _instants(high, leaf.type, _CUT_US)
    return ManyStats(low=low, high=high, nulls=nulls, nans=nans, rows=_flat(table.column("numRecords")))


def _whole_text(bound: pa.Array, *, cut: bool) -> pa.Array:
    """Texts, null where they may be cut so that they are no bound."""
    unsure = pc.match_substring(bound, _ODD)
    if cut:
        unsure = pc.or_(unsure, pc.greater_equal(pc.utf8_length(bound), TEXT_LENGTH))
    return pc.if_else(unsure, None, bound)


def _instants(bound: pa.Array, type_: DeltaType, moved_us: int) -> pa.Array:
    """Times, moved outwards; null where a text with a zone does not say UTC."""
    target = arrow_type(type_)
    if type_ == PrimitiveType("timestamp"):
        bound = pc.if_else(pc.ends_with(bound, "Z"), bound, None)
    return pc.add_checked(bound.cast(target).cast(pa.int64()), moved_us).cast(target)


def _values(table: pa.Table, said: str, names: tuple[str, ...]) -> pa.Array:
    return _flat(pc.struct_field(table.column(said), list(names)))


def _flat(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    return found.chunk(0) if isinstance(found, pa.ChunkedArray) and found.num_chunks else found
