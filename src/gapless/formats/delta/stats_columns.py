"""Parse the statistics of many files at once to Arrow arrays: the vectorised form of `stats_codec`. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from gapless.formats.delta.schema.arrow_types import arrow_type
from gapless.formats.delta.schema.types import DeltaType, PrimitiveType, StructType
from gapless.formats.delta.stats_bounds import TEXT_LENGTH
from gapless.formats.delta.stats_codec import NAN_COUNT, ColumnPath, Leaf, leaves
from gapless.model.stats import ManyStats

_TEXTS = ("date", "timestamp", "timestamp_ntz")
"""Types whose bounds are texts to be read."""
_AS_THEY_ARE = ("string", "long", "integer", "short", "byte", "double")
_CUT_US = 999
"""Other writers cut times to whole milliseconds, mostly towards 1970."""
_NO_NUMBERS = (b'"Infinity"', b'"-Infinity"', b'"NaN"')
"""Bounds for which JSON has no number: as if they were not known."""
_PIECE_BYTES = 1 << 21
"""The most that is read at a time: to begin takes Arrow as long as some 100 KiB do."""
_NEWLINE = re.compile(b"\n")
Each = Callable[[Sequence[Callable[[], pa.Table]]], Sequence[pa.Table]]
"""Calls acts of which none heeds another, one after the other or side by side; gives what they give, in their order."""
_ODD = "\ufffd"
"""Stands where a text was cut within a character."""


def one_by_one(acts: Sequence[Callable[[], pa.Table]]) -> Sequence[pa.Table]:
    """What the acts give, in their order."""
    return [act() for act in acts]


def read_bounds(texts: Sequence[str | None], path: Sequence[str], schema: StructType) -> ManyStats | None:
    """The bounds of the column at a logical path in the files with these statistics, never narrower than `stats_codec` has them.

    None where they cannot be read so, which tells nothing.
    """
    try:
        return read_many(pa.array(texts, pa.large_string()), [tuple(path)], schema)[tuple(path)]
    except UnicodeError:
        return None


def read_many(
    texts: pa.Array, paths: Sequence[ColumnPath], schema: StructType, each: Each = one_by_one
) -> dict[ColumnPath, ManyStats | None]:
    """`read_bounds` of several columns at once; `texts` are large_string, and `each` calls what reads some of them."""
    known = {leaf.path: leaf for leaf in leaves(schema)}
    found = [leaf for path in paths if (leaf := known.get(path)) is not None and _is_read(leaf)]
    return dict.fromkeys(paths) | _read_leaves(texts, found, each)


def read_rows(texts: pa.Array) -> list[int | None] | None:
    """`numRecords` of the files with these statistics, large_string; None where they cannot be read so, which tells nothing."""
    if not len(texts):
        return []
    try:
        rows = _read(texts, [], one_by_one).column("numRecords")
    except (pa.ArrowException, UnicodeError):
        return None
    counts: list[int | None] = pc.if_else(pc.less(rows, 0), None, rows).to_pylist()
    return counts


def _is_read(leaf: Leaf) -> bool:
    return not leaf.was_float and isinstance(leaf.type, PrimitiveType) and leaf.type.name in (*_TEXTS, *_AS_THEY_ARE)


def _read_leaves(texts: pa.Array, found: Sequence[Leaf], each: Each) -> dict[ColumnPath, ManyStats | None]:
    if not found or not len(texts):
        return {}
    try:
        table = _read(texts, found, each)
        return {leaf.path: _bounds(table, leaf) for leaf in found}
    except (pa.ArrowException, UnicodeError):
        pass  # one is damaged, or says a number that its type does not hold: of another column, maybe
    if len(found) == 1:
        return {found[0].path: None}
    return {path: stats for leaf in found for path, stats in _read_leaves(texts, [leaf], each).items()}


def _read(texts: pa.Array, found: Sequence[Leaf], each: Each) -> pa.Table:
    """What some texts, of which there is one at least, say of some columns, a row a text."""
    held = {leaf.physical: pa.string() if _is_text(leaf) else arrow_type(leaf.type) for leaf in found}
    bounds, counts = _nested(held), _nested(dict.fromkeys(held, pa.int64()))
    schema = pa.schema(
        {"numRecords": pa.int64(), "minValues": bounds, "maxValues": bounds, "nullCount": counts, NAN_COUNT: counts}
    )
    floats = any(pa.types.is_floating(type_) for type_ in held.values())
    return pa.concat_tables(each([partial(_parse, piece, schema, floats=floats) for piece in _pieces(_objects(texts))]))


def _objects(texts: pa.Array) -> pa.Array:
    """The texts, one that says nothing in the place of each that is no object: Arrow crashes on a JSON null that comes first."""
    objects = pc.fill_null(pc.starts_with(texts, "{"), False)
    return texts if pc.all(objects).as_py() else pc.if_else(objects, texts, pa.scalar("{}", pa.large_string()))


def _pieces(texts: pa.Array) -> Iterator[pa.Array]:
    """Texts that follow each other, cut into pieces of about the same size, each of one text at least."""
    offsets = np.frombuffer(texts.buffers()[1], np.int64, len(texts) + 1, 8 * texts.offset)
    count = (offsets[-1] - offsets[0]) // _PIECE_BYTES + 1
    cuts = np.searchsorted(offsets, np.linspace(offsets[0], offsets[-1], count, endpoint=False)).tolist()
    for start, end in pairwise(dict.fromkeys([*cuts, len(texts)])):
        yield texts.slice(start, end - start)


def _parse(texts: pa.Array, schema: pa.Schema, *, floats: bool) -> pa.Table:
    """The JSON of some texts as it lies in memory: Arrow reads values one after the other, whatever is between them.

    Raises pyarrow's ArrowInvalid where that is not one a text.
    """
    _, where, data = texts.buffers()
    start, end = np.frombuffer(where, np.int64)[[texts.offset, texts.offset + len(texts)]].tolist()
    text: pa.Buffer | bytes = data.slice(start, end - start)
    if floats:
        text = bytes(text)
        for word in _NO_NUMBERS:
            text = text.replace(word, b"null")
    found = pj.read_json(
        pa.BufferReader(text),
        read_options=pj.ReadOptions(block_size=len(text) + 1, use_threads=False),
        parse_options=pj.ParseOptions(
            explicit_schema=schema,
            unexpected_field_behavior="ignore",
            # Else Arrow takes the last for the end of a value, without which it need not look for one.
            newlines_in_values=_NEWLINE.search(text) is not None,
        ),
    )
    if found.num_rows != len(texts):
        raise pa.ArrowInvalid(f"{len(texts)} texts are {found.num_rows} JSON values")
    return found


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
        _values(table, kind, leaf.physical) for kind in ("minValues", "maxValues", "nullCount", NAN_COUNT)
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


def _values(table: pa.Table, kind: str, names: tuple[str, ...]) -> pa.Array:
    return _flat(pc.struct_field(table.column(kind), list(names)))


def _flat(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    return found.chunk(0) if isinstance(found, pa.ChunkedArray) and found.num_chunks else found
