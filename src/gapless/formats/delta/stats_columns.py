"""Parse the statistics of many files at once to Arrow arrays: the vectorised form of `stats_codec`. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import pairwise
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gapless.formats.delta.schema.arrow_types import arrow_type
from gapless.formats.delta.schema.types import DeltaType, PrimitiveType, StructType
from gapless.formats.delta.stats_bounds import TEXT_LENGTH
from gapless.formats.delta.stats_codec import HIDDEN, NAN_COUNT, ColumnPath, Leaf, leaves, shown
from gapless.model.stats import ManyStats

_TEXTS = ("date", "timestamp", "timestamp_ntz")
"""Types whose bounds are texts to be read."""
_AS_THEY_ARE = ("string", "long", "integer", "short", "byte", "double")
_CUT_US = 999
"""Other writers cut times to whole milliseconds, mostly towards 1970."""
_PIECE_BYTES = 1 << 21
"""Of so many bytes statistics are Python values at a time."""
_ODD = "\ufffd"
"""Stands where a text was cut within a character."""
_UNREAD = (pa.ArrowException, msgspec.MsgspecError, ArithmeticError, ValueError, RecursionError)
"""What is raised where a text is damaged or odd, or says a number that its type does not hold: of another column, maybe."""
Columns = Mapping[ColumnPath, pa.Array]
"""By the path to it in the JSON what each text says; null where it says nothing."""


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
    if not len(texts):
        return []
    try:
        rows = _read(texts, [])[("numRecords",)]
    except _UNREAD:
        return None
    counts: list[int | None] = pc.if_else(pc.less(rows, 0), None, rows).to_pylist()
    return counts


def _is_read(leaf: Leaf) -> bool:
    return not leaf.was_float and isinstance(leaf.type, PrimitiveType) and leaf.type.name in (*_TEXTS, *_AS_THEY_ARE)


def _read_leaves(texts: pa.Array, found: Sequence[Leaf]) -> dict[ColumnPath, ManyStats | None]:
    if not found or not len(texts):
        return {}
    try:
        columns = _read(texts, found)
        return {leaf.path: _bounds(columns, leaf) for leaf in found}
    except _UNREAD:
        pass
    if len(found) == 1:
        return {found[0].path: None}
    return {path: stats for leaf in found for path, stats in _read_leaves(texts, [leaf]).items()}


def _read(texts: pa.Array, found: Sequence[Leaf]) -> Columns:
    """What some texts, of which there is one at least, say of some columns, a value a text."""
    columns: dict[ColumnPath, tuple[Any, pa.DataType]] = {("numRecords",): (int | None, pa.int64())}
    for leaf in found:
        bound, count = _held(leaf), (int | None, pa.int64())
        kinds = {"minValues": bound, "maxValues": bound, "nullCount": count}
        kinds |= {NAN_COUNT: count} if pa.types.is_floating(bound[1]) else {}
        columns |= {(kind, *leaf.physical): held for kind, held in kinds.items()}
    struct, places = _struct({path: told for path, (told, _) in columns.items()})
    decode = msgspec.json.Decoder(struct).decode
    pieces = [
        _parse(piece, decode, places, {path: type_ for path, (_, type_) in columns.items()})
        for piece in _pieces(_objects(texts))
    ]
    return {path: pa.concat_arrays([piece[path] for piece in pieces]) for path in columns}


def _held(leaf: Leaf) -> tuple[Any, pa.DataType]:
    """What a bound of a column is in JSON, and as what it is kept."""
    if _is_text(leaf):
        return str | None, pa.string()
    type_ = arrow_type(leaf.type)
    if pa.types.is_floating(type_):
        return float | str | None, type_  # the name of a number that JSON has none for
    return str | None if pa.types.is_string(type_) else int | None, type_


def _struct(told: Mapping[ColumnPath, Any]) -> tuple[type[msgspec.Struct], dict[ColumnPath, str]]:
    """A class with values of these types at these paths, None where there is none; and the attributes that lead to each."""
    below: dict[str, dict[ColumnPath, Any]] = {}
    for (name, *rest), type_ in told.items():
        below.setdefault(name, {})[tuple(rest)] = type_
    names = {f"_{number}": name for number, name in enumerate(below)}
    fields: list[tuple[str, Any, Any]] = []
    places: dict[ColumnPath, str] = {}
    for at, (name, inner) in zip(names, below.items(), strict=True):
        if () in inner:
            fields.append((at, inner[()], None))
            places[(name,)] = at
        else:
            struct, deeper = _struct(inner)
            fields.append((at, struct | None, struct()))
            places |= {(name, *path): f"{at}.{place}" for path, place in deeper.items()}
    return msgspec.defstruct("Stats", fields, rename=names, frozen=True, gc=False), places


def _objects(texts: pa.Array) -> pa.Array:
    """The texts, one that says nothing in the place of each that is no object."""
    if pc.any(pc.match_substring(texts, HIDDEN)).as_py():
        texts = pa.array([None if text is None else shown(text) for text in texts.to_pylist()], pa.large_string())
    objects = pc.fill_null(pc.starts_with(texts, "{"), False)
    return texts if pc.all(objects).as_py() else pc.if_else(objects, texts, pa.scalar("{}", pa.large_string()))


def _pieces(texts: pa.Array) -> Iterator[pa.Array]:
    """Texts that follow each other, cut into pieces of about the same size, each of one text at least."""
    offsets = np.frombuffer(texts.buffers()[1], np.int64, len(texts) + 1, 8 * texts.offset)
    count = (offsets[-1] - offsets[0]) // _PIECE_BYTES + 1
    cuts = np.searchsorted(offsets, np.linspace(offsets[0], offsets[-1], count, endpoint=False)).tolist()
    for start, end in pairwise(dict.fromkeys([*cuts, len(texts)])):
        yield texts.slice(start, end - start)


def _parse(
    texts: pa.Array,
    decode: Callable[[memoryview], Any],
    places: Mapping[ColumnPath, str],
    types: Mapping[ColumnPath, pa.DataType],
) -> Columns:
    """Raises one of `_UNREAD`."""
    _, where, data = texts.buffers()
    bytes_ = memoryview(data)
    offsets = np.frombuffer(where, np.int64, len(texts) + 1, 8 * texts.offset).tolist()
    bodies = [decode(bytes_[start:end]) for start, end in pairwise(offsets)]
    return {path: _column(bodies, place, types[path]) for path, place in places.items()}


def _column(bodies: Sequence[Any], place: str, type_: pa.DataType) -> pa.Array:
    try:
        values = list(map(attrgetter(place), bodies))
    except AttributeError:  # there is a null on the way
        steps = place.split(".")
        values = [reduce(lambda one, name: getattr(one, name, None), steps, body) for body in bodies]
    if pa.types.is_floating(type_) and str in set(map(type, values)):
        values = [None if isinstance(value, str) else value for value in values]
    return pa.array(values, type_)


def _is_text(leaf: Leaf) -> bool:
    return isinstance(leaf.type, PrimitiveType) and leaf.type.name in _TEXTS


def _bounds(columns: Columns, leaf: Leaf) -> ManyStats:
    low, high, nulls = (columns[(kind, *leaf.physical)] for kind in ("minValues", "maxValues", "nullCount"))
    nans = columns.get((NAN_COUNT, *leaf.physical), pa.nulls(len(nulls), pa.int64()))
    if leaf.type == PrimitiveType("string"):
        low, high = _whole_text(low, cut=False), _whole_text(high, cut=True)
    elif leaf.type == PrimitiveType("date"):
        low, high = low.cast(pa.date32()), high.cast(pa.date32())
    elif _is_text(leaf):
        low, high = _instants(low, leaf.type, -_CUT_US), _instants(high, leaf.type, _CUT_US)
    return ManyStats(low=low, high=high, nulls=nulls, nans=nans, rows=columns[("numRecords",)])


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
