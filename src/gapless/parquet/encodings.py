"""Which Parquet encoding each column of a table deserves, by a sample of its values, and why."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gapless.parquet.aims import Aim
from gapless.parquet.dictionary_gain import Floats, dictionary_bytes, is_shorter, plain_bytes
from gapless.parquet.ordered import Ordered, Positions, Spelled

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
    bare: frozenset[str] = frozenset()
    """The columns that are not compressed."""
    why: Mapping[str, str] = field(default_factory=dict)
    """By column, or `*` for all, its encoding and the reason."""

    def of(self, name: str) -> str:
        """How a column is encoded."""
        if self.dictionary is True or (isinstance(self.dictionary, list) and name in self.dictionary):
            return DICTIONARY
        return self.others.get(name, PLAIN)

    @property
    def told(self) -> str:
        """The reasons as JSON, of the first hundred columns."""
        return json.dumps(dict(list(self.why.items())[:_TOLD]), ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Choice:
    """How one column is encoded."""

    encoding: str
    why: str
    bare: bool = False


def for_all(why: str) -> Encodings:
    """A dictionary for each column, for this reason."""
    return Encodings(dictionary=True, others={}, why={"*": f"{DICTIONARY}: {why}"})


def together(choices: Mapping[str, Choice]) -> Encodings:
    """The choices for all columns of a table as one value."""
    return Encodings(
        dictionary=[name for name, one in choices.items() if one.encoding == DICTIONARY],
        others={name: one.encoding for name, one in choices.items() if one.encoding not in (DICTIONARY, PLAIN)},
        bare=frozenset(name for name, one in choices.items() if one.bare),
        why={name: f"{one.encoding}: {one.why}" for name, one in choices.items()},
    )


def of_simple_rows(rows: Ordered) -> Encodings | None:
    """What few and nested rows get, whatever they hold; None for others."""
    if any(pa.types.is_nested(one.type) for one in rows.schema):
        return for_all("a column is nested")
    if rows.count >= _SAMPLE_ROWS:
        return None
    texts = [one.name for one in rows.schema if not pa.types.is_primitive(one.type)]
    return Encodings(
        dictionary=texts,
        others={},
        why={"*": f"{PLAIN}: fewer than {_SAMPLE_ROWS:,} rows; a dictionary where values are no numbers"},
    )


def choose_encodings(rows: Ordered, ascending: str | None, aim: Aim) -> Encodings:
    """The encodings for rows like these; `ascending` names the column of whole numbers that mostly rises by small steps, if one does.

    A dictionary where values repeat, so that it is worth its making: the writer would find out too, row group by row group, after it made
    most of one. Differences for whole numbers that rise, lie dense or do not repeat, unless they are of so small a range that they can be
    counted. A dictionary for all of a nested table, plain numbers for a small one.
    BYTE_STREAM_SPLIT is not chosen, well as it does for floats: Spark 4.1 cannot read it.
    """
    return of_simple_rows(rows) or together(dict(_choices(rows, ascending, aim)))


def _choices(rows: Ordered, ascending: str | None, aim: Aim) -> Iterator[tuple[str, Choice]]:
    count = _FEW_ROWS if aim.bare else _SAMPLE_ROWS
    positions = np.linspace(0, rows.count - 1, count).astype(np.int64)
    taken = pa.array(positions)
    for one in rows.schema:
        if is_whole(one.type) and one.name == ascending:
            # Where rows are few, so are those of one identity, and differences of their instants take longer than the bytes that they save.
            plain = aim.bare and rows.count < _MANY_ROWS
            yield one.name, Choice(PLAIN if plain else DELTA, "rows are in its order", aim.bare)
        else:
            known = rows.spelled.get(one.name)
            sampled = _of_column(rows.source.column(one.name).take(taken)) if known is None else _of_places(known, positions)
            yield one.name, _choice(sampled, rows.count, partial(_together, rows, one.name), aim)


def _of_column(taken: pa.ChunkedArray) -> _Sampled:
    values = taken.drop_null() if taken.null_count else taken
    return _Sampled(values.type, len(values), pc.unique(values))


def _of_places(known: Spelled, positions: Positions) -> _Sampled:
    places = known.places[positions]
    return _Sampled(known.values.type, len(places), known.values.take(pa.array(np.unique(places))))


@dataclass(frozen=True, slots=True)
class _Sampled:
    """Some values of a column, without nulls."""

    kind: pa.DataType
    count: int
    """How many, with those that are equal."""
    distinct: pa.Array

    @property
    def found(self) -> str:
        """What there is to say of them."""
        return f"{len(self.distinct):,} of {self.count:,} sampled values are distinct"

    def has_at_most(self, share: float) -> bool:
        """Whether no more than this share of them is distinct."""
        return len(self.distinct) <= share * self.count


def _choice(sampled: _Sampled, rows: int, together: Callable[[], Floats], aim: Aim) -> Choice:
    """How a column of so many rows with such values is encoded; `together` gives some that lie next to each other."""
    kind, found, repeats = sampled.kind, sampled.found, sampled.has_at_most(aim.repeating)
    if is_whole(kind) and (not repeats or _is_dense(sampled)):
        if (spread := _spread(sampled.distinct)) < min(MOST_PLACES, min(rows, _GROUP_ROWS) // aim.rows_a_number):
            return Choice(DICTIONARY, f"{found}, of a range of {spread + 1:,}", aim.bare)
        return Choice(DELTA, found + (", and lie dense" if repeats else ""), aim.bare)
    if not repeats:
        return Choice(PLAIN, found, aim.bare and pa.types.is_primitive(kind))
    if kind not in (pa.float64(), pa.float32()) or sampled.has_at_most(_SURELY):
        return Choice(DICTIONARY, found)
    # Values that repeat rarely make a large dictionary, which takes three times as long to make, and compression may find as much.
    width = kind.bit_width // 8
    short = dictionary_bytes(len(sampled.distinct), sampled.count, min(rows, _GROUP_ROWS), width)
    plain = plain_bytes(together(), aim.compression)
    best = DICTIONARY if is_shorter(short, plain) else PLAIN
    return Choice(best, f"{found}; with a dictionary they take about {short:.1f} bytes each, without one {plain:.1f}")


def _together(rows: Ordered, name: str) -> Floats:
    """Values from the middle of a column, next to each other, without nulls."""
    start = (rows.count - _SAMPLE_ROWS) // 2
    values: Floats = rows.column(name, start, start + _SAMPLE_ROWS).drop_null().to_numpy()
    return values


def is_whole(kind: pa.DataType) -> bool:
    """Whether files hold the values as 32 or 64 bit integers."""
    return pa.types.is_integer(kind) or (pa.types.is_temporal(kind) and not pa.types.is_interval(kind))


def _is_dense(sampled: _Sampled) -> bool:
    """Whether there are many different values, and so near each other that differences take no more bits than numbers of a dictionary."""
    return not sampled.has_at_most(1 / 4) and _spread(sampled.distinct) < _DENSE * len(sampled.distinct)


def _spread(values: pa.Array) -> int:
    """How far the smallest and the largest of whole numbers or times are apart; 0 where there are none."""
    # Arrow does not order every type of time.
    width = values.type.bit_width
    ends = pc.min_max(values.view(pa.int64() if width == 64 else pa.int32()) if width >= 32 else values)
    return 0 if ends["min"].as_py() is None else ends["max"].as_py() - ends["min"].as_py()
