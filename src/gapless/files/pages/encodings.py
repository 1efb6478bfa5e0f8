"""Choose the Parquet encoding of each column, by a sample of its values and the profile of the table's codec.

Whether floats of which many, and not all, are distinct are shorter with a dictionary is an estimate, since making one takes long.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gapless.files.sort.order import DictionaryEncoded, Ordered, Positions, is_fixed, raw_values
from gapless.model.properties import Codec
from gapless.model.stats import arrow_of, numbers_of

Floats = npt.NDArray[np.floating[Any]]

_GAIN = 0.9
"""A dictionary is made where it takes less than this share of the bytes."""

_PACKED = 0.6
"""What compression leaves of a dictionary of floats, about."""


def dictionary_bytes(distinct: int, sampled: int, group_rows: int, width: int) -> float:
    """Bytes a value with a dictionary, in a row group of so many rows of values of `width` bytes, after `distinct` of `sampled` values.

    Every value is taken to be as frequent as the others.
    """
    values = _values(distinct, sampled)
    here = values * -math.expm1(-group_rows / values)
    return math.ceil(math.log2(max(2.0, here))) / 8 + _PACKED * width * here / group_rows


def plain_bytes(values: Floats, compression: str) -> float:
    """Bytes a value where such floats, which lie next to each other, are compressed as they are; 0 where there are none."""
    if compression == "none" or not len(values):
        return float(values.itemsize if len(values) else 0)
    return len(pa.compress(values.tobytes(), codec=compression, asbytes=True)) / len(values)


def is_shorter(with_dictionary: float, plain: float) -> bool:
    """Whether a dictionary is worth its making."""
    return with_dictionary < _GAIN * plain


def may_be_shorter(distinct: int, count: int, width: int) -> bool:
    """Whether so many values, of `width` bytes in a file, may take fewer with a dictionary than without one, both compressed: not where the places
    in it, which hardly compress, take more bits than all values that occur again. True where there are none.
    """
    return not count or count * math.log2(max(2, distinct)) < 8 * width * (count - distinct)


def _values(distinct: int, sampled: int) -> float:
    """How many values there are in all, if each of `sampled` ones is any of them and `distinct` were found."""
    low, high = float(max(1, distinct)), 1e12
    for _ in range(60):
        middle = math.sqrt(low * high)
        if middle * -math.expm1(-sampled / middle) < distinct:
            low = middle
        else:
            high = middle
    return low


@dataclass(frozen=True, slots=True, kw_only=True)
class CodecProfile:
    """How the columns of a segment are written."""

    compression: str
    """Parquet compression, as pyarrow names it."""
    level: int | None = None
    """Its level; None for its own default."""
    repeating: float = 0.95
    """A column gets a dictionary where at most this share of sampled values is distinct."""
    uncompressed_numbers: bool = False
    """Whether numbers go without compression: writing more bytes takes less time than compressing them."""
    min_bytes: int = 0
    """Columns of a row group that take fewer bytes are not compressed."""
    min_rows_per_value: int = 16
    """Whole numbers of a range in which there are at least so many rows for each get a dictionary of them all: it takes no looking for."""
    by_trial: bool = False
    """Whether a column's encoding is found by encoding some of its rows in each, in place of a rule."""


_BLOCK = 2_048
"""What compression saves of fewer bytes is less than a block of a disk, and to begin with it takes longer than to write them."""

CODEC_PROFILES: Mapping[Codec, CodecProfile] = MappingProxyType(
    {
        "fastest": CodecProfile(
            compression="lz4", repeating=0.25, uncompressed_numbers=True, min_rows_per_value=4, min_bytes=_BLOCK
        ),
        "balanced": CodecProfile(compression="zstd", level=1, min_bytes=_BLOCK),
        "smallest": CodecProfile(compression="zstd", level=5, by_trial=True),
        "zstd": CodecProfile(compression="zstd", level=1),
        "snappy": CodecProfile(compression="snappy"),
        "lz4": CodecProfile(compression="lz4"),
        "gzip": CodecProfile(compression="gzip"),
        "none": CodecProfile(compression="none"),
    }
)


_SAMPLE_ROWS = 8_192
_FEW_ROWS = 1_024
"""A sample that is enough to see that a few values make up a column."""

_MANY_ROWS = 131_072
"""So many rows are worth differences of an index even where speed is all."""

_DENSE = 4
"""Whole numbers lie dense where their range is less than so many times as wide as they are many."""

_SURELY = 0.5
"""Floats of which no larger share is distinct get a dictionary without a second look."""

_GROUP_ROWS = 262_144
"""Rows that a dictionary serves, at most."""

MOST_PLACES = 1 << 16
"""Values of a dictionary, at most, that we make ourselves: places in it have 16 bits."""

_TOLD = 100
"""Columns of which a file says why: what it says is read with every footer."""

DICTIONARY, PLAIN, DELTA = "RLE_DICTIONARY", "PLAIN", "DELTA_BINARY_PACKED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Encodings:
    """How the columns of one file are encoded."""

    dictionary: bool | list[str]
    """The columns that get a dictionary; True for all."""
    others: Mapping[str, str]
    """By column without one, its encoding; those that are not named here are plain."""
    uncompressed: frozenset[str] = frozenset()
    """The columns that are not compressed."""
    why: Mapping[str, str] = field(default_factory=dict)
    """By column, or `*` for all, its encoding and the reason."""

    def of(self, name: str) -> str:
        """How a column is encoded."""
        return self.of_each([name])[name]

    def of_each(self, names: Iterable[str]) -> dict[str, str]:
        """How each of these columns is encoded."""
        if isinstance(self.dictionary, bool):
            return {name: DICTIONARY if self.dictionary else self.others.get(name, PLAIN) for name in names}
        dictionary = frozenset(self.dictionary)
        return {name: DICTIONARY if name in dictionary else self.others.get(name, PLAIN) for name in names}

    @property
    def told(self) -> str:
        """The reasons as JSON, of the first hundred columns."""
        return _as_json(tuple(self.why.items())[:_TOLD])


@lru_cache(maxsize=256)
def _as_json(items: tuple[tuple[str, str], ...]) -> str:
    return json.dumps(dict(items), ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Choice:
    """How one column is encoded."""

    encoding: str
    why: str
    uncompressed: bool = False


def for_all(why: str) -> Encodings:
    """A dictionary for each column, for this reason."""
    return Encodings(dictionary=True, others={}, why={"*": f"{DICTIONARY}: {why}"})


def together(choices: Mapping[str, Choice]) -> Encodings:
    """The choices for all columns of a table as one value."""
    return Encodings(
        dictionary=[name for name, one in choices.items() if one.encoding == DICTIONARY],
        others={name: one.encoding for name, one in choices.items() if one.encoding not in (DICTIONARY, PLAIN)},
        uncompressed=frozenset(name for name, one in choices.items() if one.uncompressed),
        why={name: f"{one.encoding}: {one.why}" for name, one in choices.items()},
    )


def of_simple_rows(rows: Ordered) -> Encodings | None:
    """What few and nested rows get, whatever they hold; None for others."""
    nested, few = _simple(rows.schema.serialize().to_pybytes())
    return nested or (few if rows.count < _SAMPLE_ROWS else None)


@lru_cache(maxsize=64)
def _simple(serialized: bytes) -> tuple[Encodings | None, Encodings]:
    """What rows of a schema get, however many, if that does not depend on what they hold; and what few get."""
    schema = pa.ipc.read_schema(pa.py_buffer(serialized))
    nested = for_all("a column is nested") if any(pa.types.is_nested(one.type) for one in schema) else None
    texts = [one.name for one in schema if not pa.types.is_primitive(one.type)]
    why = {"*": f"{PLAIN}: fewer than {_SAMPLE_ROWS:,} rows; a dictionary where values are no numbers"}
    return nested, Encodings(dictionary=texts, others={}, why=why)


def choose_encodings(rows: Ordered, ascending: str | None, profile: CodecProfile) -> Encodings:
    """The encodings for rows like these; `ascending` names the column of whole numbers that mostly rises by small steps, if one does.

    A dictionary where values repeat, so that it is worth its making: the writer would find out too, row group by row group, after it made
    most of one. Differences for whole numbers that rise, lie dense or do not repeat, unless they are of so small a range that they can be
    counted. A dictionary for all of a nested table, plain numbers for a small one.
    BYTE_STREAM_SPLIT is not chosen, well as it does for floats: Spark 4.1 cannot read it.
    """
    return of_simple_rows(rows) or together(dict(_choices(rows, ascending, profile)))


def _choices(rows: Ordered, ascending: str | None, profile: CodecProfile) -> Iterator[tuple[str, Choice]]:
    count = _FEW_ROWS if profile.uncompressed_numbers else _SAMPLE_ROWS
    positions = np.arange(count) * (rows.count - 1) // (count - 1)
    for one in rows.schema:
        if is_whole(one.type) and one.name == ascending:
            # Where rows are few, so are those of one identity, and differences of their instants take longer than the bytes that they save.
            plain = profile.uncompressed_numbers and rows.count < _MANY_ROWS
            yield one.name, Choice(PLAIN if plain else DELTA, "rows are in its order", profile.uncompressed_numbers)
        else:
            known = rows.spelled.get(one.name)
            sampled = _of_column(rows.source.column(one.name), positions) if known is None else _of_places(known, positions)
            yield one.name, _choice(sampled, rows.count, partial(_together, rows, one.name), profile)


def _of_column(column: pa.ChunkedArray, positions: Positions) -> Values:
    if is_fixed(column.type) and column.num_chunks == 1 and not column.null_count:
        return _of_bits(column.type, raw_values(column.chunk(0))[positions])
    return values_of(column.take(arrow_of(positions)))


def values_of(column: pa.ChunkedArray) -> Values:
    """What there is to say of the values of a column, to choose an encoding."""
    kind, values = column.type, column.drop_null() if column.null_count else column
    if not is_fixed(kind):
        return Values(kind, len(values), len(pc.unique(values)))
    return _of_bits(kind, np.concatenate([_NONE[kind.bit_width], *map(raw_values, values.chunks)]))


def _of_bits(kind: pa.DataType, bits: Positions) -> Values:
    # So are numbers told apart in a dictionary, and to sort them takes a fifth of the time of a hash table.
    if not len(bits):
        return Values(kind, 0, 0)
    bits = np.sort(bits if pa.types.is_unsigned_integer(kind) else bits.view(f"i{bits.itemsize}"))
    return Values(kind, len(bits), _distinct(bits), int(bits[-1]) - int(bits[0]))


_NONE = {width: np.zeros(0, dtype=f"u{width // 8}") for width in (8, 16, 32, 64)}
"""No values of so many bits."""


def _distinct(values: Positions) -> int:
    """How many different ones there are of values that are sorted, of which there is one at least."""
    return 1 + int(np.count_nonzero(values[1:] != values[:-1]))


def _of_places(known: DictionaryEncoded, positions: Positions) -> Values:
    kind, places = known.values.type, np.sort(known.places[positions])
    spread = _of_column(pa.chunked_array([known.values]), places[[0, -1]]).spread if is_whole(kind) else 0
    return Values(kind, len(places), _distinct(places), spread)


@dataclass(frozen=True, slots=True)
class Values:
    """Some values of a column, without nulls, by what matters to encode them."""

    kind: pa.DataType
    count: int
    """How many, with those that are equal."""
    distinct: int
    """How many different ones."""
    spread: int = 0
    """How far the smallest and the largest are apart, of whole numbers and times."""

    @property
    def found(self) -> str:
        """What there is to say of them."""
        return f"{self.distinct:,} of {self.count:,} sampled values are distinct"

    def has_at_most(self, share: float) -> bool:
        """Whether no more than this share of them is distinct."""
        return self.distinct <= share * self.count


def _choice(sampled: Values, rows: int, together: Callable[[], Floats], profile: CodecProfile) -> Choice:
    """How a column of so many rows with such values is encoded; `together` gives some that lie next to each other."""
    kind, found, repeats = sampled.kind, sampled.found, sampled.has_at_most(profile.repeating)
    if is_whole(kind) and (not repeats or _is_dense(sampled)):
        if (spread := sampled.spread) < min(MOST_PLACES, min(rows, _GROUP_ROWS) // profile.min_rows_per_value):
            return Choice(DICTIONARY, f"{found}, of a range of {spread + 1:,}", profile.uncompressed_numbers)
        return Choice(DELTA, found + (", and lie dense" if repeats else ""), profile.uncompressed_numbers)
    if not repeats:
        return Choice(PLAIN, found, profile.uncompressed_numbers and pa.types.is_primitive(kind))
    if kind not in (pa.float64(), pa.float32()) or sampled.has_at_most(_SURELY):
        return Choice(DICTIONARY, found)
    # Values that repeat rarely make a large dictionary, which takes three times as long to make, and compression may find as much.
    width = kind.bit_width // 8
    short = dictionary_bytes(sampled.distinct, sampled.count, min(rows, _GROUP_ROWS), width)
    plain = plain_bytes(together(), profile.compression)
    best = DICTIONARY if is_shorter(short, plain) else PLAIN
    return Choice(best, f"{found}; with a dictionary they take about {short:.1f} bytes each, without one {plain:.1f}")


def _together(rows: Ordered, name: str) -> Floats:
    """Values from the middle of a column, next to each other, without nulls."""
    start = (rows.count - _SAMPLE_ROWS) // 2
    return numbers_of(rows.column(name, start, start + _SAMPLE_ROWS).drop_null().combine_chunks())


def is_whole(kind: pa.DataType) -> bool:
    """Whether files hold the values as 32 or 64 bit integers."""
    return pa.types.is_integer(kind) or (pa.types.is_temporal(kind) and not pa.types.is_interval(kind))


def _is_dense(sampled: Values) -> bool:
    """Whether there are many different values, and so near each other that differences take no more bits than numbers of a dictionary."""
    return not sampled.has_at_most(1 / 4) and sampled.spread < _DENSE * sampled.distinct
