"""Python values whose meaning the table's type says: a mapping is a map there and not a struct, an integer of any size a decimal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import accumulate, chain

import pyarrow as pa

from gapless.errors import InvalidValue, UnreadableInput, shorten
from gapless.files.ingest.rows import to_array
from gapless.model.types import children, is_any_list


def telling_types(table: pa.Schema | None) -> Mapping[str, pa.DataType]:
    """Those types of a table's columns, by name, that say what plain values mean: with maps or decimals, at any depth."""
    telling = [] if table is None else [field for field in table if _tells(field.type)]
    # As a Delta table finds columns: by the exact name, else without regard to case.
    return {field.name.lower(): field.type for field in telling} | {field.name: field.type for field in telling}


def _tells(type_: pa.DataType) -> bool:
    return bool(pa.types.is_map(type_) or pa.types.is_decimal(type_)) or any(_tells(child.type) for child in children(type_))


def plain_array(values: Sequence[object], column: str, place: tuple[str, int], types: Mapping[str, pa.DataType]) -> pa.Array:
    """Some Python values of a column as Arrow, by a type that holds them; maps as such where `types` (`telling_types`) says so.

    `place` is their source and the number of the first one's row. Raises InvalidValue, UnreadableInput.
    """
    source, row = place
    if (type_ := types.get(column, types.get(column.lower()))) is not None:
        return _Column(name=column, source=source, row=row).array(values, type_)
    return to_array(values, column, source, row)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    name: str
    source: str
    row: int

    def array(self, values: Sequence[object], type_: pa.DataType) -> pa.Array:
        """The values in the shape that the table's type has: each map given as a mapping or as pairs."""
        known = [value for value in values if value is not None]
        if pa.types.is_map(type_) and all(isinstance(value, Mapping | list | tuple) for value in known):
            return self._map(values, type_)
        if is_any_list(type_) and _tells(type_) and all(isinstance(value, list | tuple) for value in known):
            items = self.array(list(chain.from_iterable(known)), type_.value_type)  # type: ignore[arg-type]  # looked at above
            return pa.ListArray.from_arrays(_offsets(map(_length, values)), items, mask=_nulls(values))
        if pa.types.is_struct(type_) and _tells(type_) and all(isinstance(value, Mapping) for value in known):
            return self._struct(values, type_)
        try:
            return self._inferred(values)
        except InvalidValue:
            if not pa.types.is_decimal(type_):
                raise
            # An integer past 64 bits, or one that is no double beside doubles, of which each has a shortest text.
            return self._inferred([_decimal(value) for value in values])

    def _inferred(self, values: Sequence[object]) -> pa.Array:
        return to_array(values, self.name, self.source, self.row)

    def _map(self, values: Sequence[object], type_: pa.DataType) -> pa.Array:
        pairs = [None if value is None else self._pairs(value) for value in values]
        flat = [pair for one in pairs if one is not None for pair in one]
        keys, items = (
            self.array([key for key, _ in flat], type_.key_type),
            self.array([item for _, item in flat], type_.item_type),
        )
        if not len(keys):
            keys = pa.nulls(0, type_.key_type)
        if keys.null_count:
            at = next(at for at, one in enumerate(pairs) if one is not None and any(key is None for key, _ in one))
            raise InvalidValue(
                f"column {self.name!r} holds {shorten(str(values[at]))} in row {self.row + at} (from 0) of {self.source}",
                why="A key of a map is never null",
                fix="Leave that entry out, or give it a key",
                column=self.name, row=self.row + at, value=values[at], source=self.source,
            )  # fmt: skip
        found = pa.map_(keys.type, items.type)
        return pa.MapArray.from_arrays(_offsets(map(_length, pairs)), keys, items, type=found, mask=_nulls(values))

    def _pairs(self, value: object) -> Sequence[tuple[object, object]]:
        given = value.items() if isinstance(value, Mapping) else value
        pairs = (
            [tuple(pair) if isinstance(pair, tuple | list) else () for pair in given] if isinstance(given, Iterable) else [()]
        )
        if all(len(pair) == 2 for pair in pairs):
            return [(pair[0], pair[1]) for pair in pairs]
        raise UnreadableInput(
            f"column {self.name!r} of {self.source} holds {str(value)[:100]!r} in its rows from {self.row} (from 0) on",
            why="The table's column holds maps, and a map is a mapping or a list of pairs",
            fix="Give a dict for every map",
            source=self.source,
        )

    def _struct(self, values: Sequence[object], type_: pa.DataType) -> pa.Array:
        rows = [value if isinstance(value, Mapping) else {} for value in values]
        declared = {child.name: child.type for child in type_}
        names = dict.fromkeys([*declared, *chain.from_iterable(rows)])
        arrays = []
        for name in names:
            column = [row.get(name) for row in rows]
            known = declared.get(str(name))
            arrays.append(self._inferred(column) if known is None else self.array(column, known))
        return pa.StructArray.from_arrays(arrays, names=list(map(str, names)), mask=_nulls(values))


def _decimal(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return Decimal(value) if isinstance(value, int) else Decimal(repr(float(value)))


def _length(value: object) -> int:
    return len(value) if isinstance(value, Mapping | list | tuple) else 0


def _offsets(lengths: Iterable[int]) -> pa.Array:
    return pa.array([0, *accumulate(lengths)], pa.int32())


def _nulls(values: Sequence[object]) -> pa.Array:
    return pa.array([value is None for value in values], pa.bool_())
