"""Encode and decode per-file statistics as JSON (PROTOCOL.md, "Per-file Statistics")."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from gapless.formats.delta.properties import Settings
from gapless.formats.delta.schema.arrow_types import decimal_size
from gapless.formats.delta.schema.changes import TYPE_CHANGES
from gapless.formats.delta.schema.types import DeltaType, PrimitiveType, StructType, kept_of_last_schemas
from gapless.formats.delta.stats_bounds import TEXT_LENGTH, json_text, read_bound, write_bound
from gapless.model.stats import ColumnStats

ColumnPath = tuple[str, ...]
"""Names from the top-level column down through structs."""


NAN_COUNT = "nanCount"
"""Our key beside `nullCount`, of which the protocol knows nothing: without it a float column may hold NaN, which is above every number."""
HIDDEN = '"gapless.m'
"""How a text begins its keys of ours that hide bounds from others."""
_HIDDEN = {"minValues": "gapless.minValues", "maxValues": "gapless.maxValues"}
"""What bounds are called that others are not to see."""
FLOATS = (PrimitiveType("float"), PrimitiveType("double"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A column that statistics are taken of: no struct, but maybe in one."""

    path: ColumnPath
    """Logical names."""
    physical: ColumnPath
    """Physical names."""
    type: DeltaType
    """Only primitive types but binary, variant and void have bounds; the others have null counts alone."""
    was_float: bool = False
    """Whether the table was written to when a `double` column still was a `float`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStats:
    """What the log says of a file's rows, deleted ones included."""

    rows: int | None = None
    """Of the data file, whatever its deletion vector takes away; None where not known."""
    tight: bool = True
    """False where rows were deleted since: bounds still hold, null counts are kept only where they are certain (0 or all rows)."""
    columns: Mapping[ColumnPath, ColumnStats] = field(default_factory=dict)
    """By logical path, columns nested in structs too; what is not known is left out."""


@kept_of_last_schemas
def leaves(schema: StructType) -> tuple[Leaf, ...]:
    """The columns of a schema that statistics can be of, in order: primitive ones, lists and maps, nested in structs too."""
    return tuple(_leaves(schema, (), ()))


def indexed_leaves(schema: StructType, settings: Settings) -> tuple[Leaf, ...]:
    """The columns whose statistics a writer takes, as the table's properties say; `schema` without the partition columns."""
    known = leaves(schema)
    if settings.stats_columns is not None:
        wanted = settings.stats_columns
        return tuple(leaf for leaf in known if any(leaf.path[: len(path)] == path for path in wanted))
    return known if settings.indexed_columns < 0 else known[: settings.indexed_columns]


def parse_stats(text: str | None, schema: StructType, *, deleted: bool = False) -> FileStats:
    """The statistics of a text; what is missing, damaged or odd in it is "not known" and never an error.

    `deleted` says that the file has a deletion vector. For many files of one schema, `StatsReader` is faster.
    """
    return StatsReader(schema).parse(text, deleted=deleted)


def rows_of(text: str | None) -> int | None:
    """The rows of a data file, deleted ones included, by the text of its statistics; None where it does not say."""
    return StatsReader(StructType(fields=())).parse(text).rows


class StatsReader:
    """Reads the statistics of files of one schema; columns are decoded when they are asked for."""

    def __init__(self, schema: StructType) -> None:
        """For a table's columns by their logical names."""
        self._leaves = {leaf.path: leaf for leaf in leaves(schema)}
        exact = any(decimal_size(leaf.type) for leaf in self._leaves.values())
        self._decoder = json.JSONDecoder(parse_float=Decimal) if exact else json.JSONDecoder()

    def parse(self, text: str | None, *, deleted: bool = False) -> FileStats:
        """The statistics of a text; `deleted` says that the file has a deletion vector, which makes null counts uncertain."""
        try:
            raw = self._decoder.decode(shown(text)) if text else None
        except (ValueError, ArithmeticError, RecursionError):
            raw = None
        if not isinstance(raw, dict):
            return FileStats()
        rows, tight = _count(raw.get("numRecords")), raw.get("tightBounds") is not False and not deleted
        return FileStats(rows=rows, tight=tight, columns=_Columns(raw, self._leaves, rows, tight))


class _Columns(Mapping[ColumnPath, ColumnStats]):
    __slots__ = ("_known", "_leaves", "_raw", "_rows", "_tight")

    def __init__(self, raw: dict[str, Any], known: Mapping[ColumnPath, Leaf], rows: int | None, tight: bool) -> None:  # noqa: FBT001
        self._raw, self._leaves, self._rows, self._tight = raw, known, rows, tight
        self._known: dict[ColumnPath, ColumnStats | None] = {}

    def __getitem__(self, path: ColumnPath) -> ColumnStats:
        if path not in self._known:
            self._known[path] = self._read(self._leaves[path])
        found = self._known[path]
        if found is None:
            raise KeyError(path)
        return found

    def __iter__(self) -> Iterator[ColumnPath]:
        return (path for path in self._leaves if path in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _read(self, leaf: Leaf) -> ColumnStats | None:
        nulls = _count(_at(self._raw.get("nullCount"), leaf.physical))
        every = nulls is not None and nulls == self._rows
        if nulls is not None and self._rows is not None and nulls > self._rows:
            nulls = None
        if not self._tight and nulls != 0 and not every:
            nulls = None
        if every:
            return ColumnStats(nulls=nulls)
        nans = _count(_at(self._raw.get(NAN_COUNT), leaf.physical))
        if nans and not self._tight:
            nans = None
        low = read_bound(_at(self._raw.get("minValues"), leaf.physical), leaf.type, top=False, was_float=leaf.was_float)
        high = read_bound(_at(self._raw.get("maxValues"), leaf.physical), leaf.type, top=True, was_float=leaf.was_float)
        if low is not None and high is not None and low > high:  # type: ignore[operator]
            low = high = None
        found = ColumnStats(min=low, max=high, nulls=nulls, nans=nans)
        return None if found == ColumnStats() else found


def encode_stats(
    rows: int,
    columns: Mapping[ColumnPath, ColumnStats],
    schema: StructType,
    *,
    tight: bool = True,
    text_length: int = TEXT_LENGTH,
) -> str:
    """The text, strict JSON, of a file's rows and its columns by logical path; texts are cut to `text_length` characters.

    Bounds are written exactly (timestamps in microseconds) or looser. deltalake's datasets take a bound that is missing beside others for
    null, and lose the file's rows: where one column outside of structs has none, or may hold NaN, which is in no bounds, all are said under
    keys of ours, which others pass over, as they do that of how many NaN there are.
    """
    known = [(leaf, stats) for leaf in leaves(schema) if (stats := columns.get(leaf.path)) is not None]
    found: dict[str, Any] = {"minValues": _structs(schema), "maxValues": _structs(schema), "nullCount": {}}
    nans: dict[str, Any] = {}
    whole = True
    for leaf, stats in known:
        low, high = _bounds(stats, leaf.type, text_length)
        whole &= len(leaf.path) > 1 or not has_bounds(leaf.type) or stats.nulls == rows or None not in (low, high)
        _put(found["minValues"], leaf.physical, low)
        _put(found["maxValues"], leaf.physical, high)
        _put(found["nullCount"], leaf.physical, None if stats.nulls is None else str(stats.nulls))
        if leaf.type in FLOATS:
            _put(nans, leaf.physical, None if stats.nans is None else str(stats.nans))
    head = {"numRecords": str(rows)} | ({} if tight else {"tightBounds": "false"})
    kept = found if whole else {_HIDDEN.get(key, key): told for key, told in found.items()}
    return _joined(head | kept | ({NAN_COUNT: nans} if nans else {}))


def shown(text: str) -> str:
    """Statistics with the bounds that others are not to see under the names of bounds."""
    for name, hidden in _HIDDEN.items() if HIDDEN in text else ():
        text = text.replace(f'"{hidden}":', f'"{name}":')
    return text


def has_bounds(type_: DeltaType) -> bool:
    """Whether the log can tell the least and the largest value of columns of a type."""
    return isinstance(type_, PrimitiveType) and type_.name not in ("binary", "variant", "void")


def is_whole(stats: ColumnStats, type_: DeltaType, rows: int) -> bool:
    """Whether a column that can have bounds has both, of texts of the default length, or needs none since it is null in all `rows`."""
    if stats.nulls == rows:
        return True
    if None in (stats.min, stats.max):
        return False
    if type_ in FLOATS:
        return stats.nans == 0  # infinities can be told
    return None not in _bounds(stats, type_, TEXT_LENGTH)


def _bounds(stats: ColumnStats, type_: DeltaType, text_length: int) -> tuple[str | None, str | None]:
    """As JSON; the largest is none where NaN may be larger."""
    top = None if isinstance(stats.max, float) and stats.nans != 0 else stats.max
    low = write_bound(stats.min, type_, top=False, text_length=text_length)
    return low, write_bound(top, type_, top=True, text_length=text_length)


def _structs(schema: StructType) -> dict[str, Any]:
    """An empty object for each struct: where it is missing, deltalake's datasets lose the rows in which the struct is null."""
    return {field.physical_name: {} for field in schema if isinstance(field.type, StructType)}


def _leaves(schema: StructType, path: ColumnPath, physical: ColumnPath) -> Iterator[Leaf]:
    for one in schema:
        below, stored = (*path, one.name), (*physical, one.physical_name)
        if isinstance(one.type, StructType):
            yield from _leaves(one.type, below, stored)
        elif one.type != PrimitiveType("void"):
            changes = one.metadata.get(TYPE_CHANGES) or ()
            was_float = any(isinstance(change, dict) and change.get("fromType") == "float" for change in changes)
            yield Leaf(path=below, physical=stored, type=one.type, was_float=was_float)


def _count(raw: Any) -> int | None:
    return raw if isinstance(raw, int) and not isinstance(raw, bool) and raw >= 0 else None


def _at(raw: Any, path: ColumnPath) -> Any:
    for name in path:
        raw = raw.get(name) if isinstance(raw, dict) else None
    return raw


def _put(tree: dict[str, Any], path: ColumnPath, text: str | None) -> None:
    if text is None:
        return
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = text


def _joined(tree: dict[str, Any]) -> str:
    """An object whose values are JSON texts, or objects of such."""
    shown = (f"{json_text(name)}:{_joined(value) if isinstance(value, dict) else value}" for name, value in tree.items())
    return "{" + ",".join(shown) + "}"
