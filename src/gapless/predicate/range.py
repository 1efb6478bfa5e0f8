"""Predicates for index ranges, entity filters and sets of keys, and the lookup of column names as SQL writes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gapless.errors import InvalidFilter, InvalidOption, UnknownColumn, nearest
from gapless.model.index import IdentityValue, IndexSpec
from gapless.model.instant import NS_PER_DAY, ns_from_date
from gapless.model.stats import stats_value
from gapless.predicate import predicate as p
from gapless.predicate.coerce import column_type, kind_of
from gapless.predicate.predicate import And, Column, Comparison, Constant, In, Kind, Predicate, Value


def index_column(index: IndexSpec) -> Column:
    """The index column as an operand."""
    return Column(path=(index.column,))


def index_range(index: IndexSpec, schema: pa.Schema, start: int | None, end: int | None) -> Predicate:
    """`start <= index < end`, each end in ns or the index's integers; an open end is no bound."""
    kind: Kind = "number"
    if index.type == "timestamp":
        kind = "timestamp" if schema.field(index.column).type.tz is None else "timestamptz"
    terms: list[Predicate] = []
    if start is not None:
        terms.append(Comparison(op=">=", left=index_column(index), right=Value(kind=kind, value=start)))
    if end is not None:
        terms.append(Comparison(op="<", left=index_column(index), right=Value(kind=kind, value=end)))
    return conjunction(terms)


def entity_filter(index: IndexSpec, schema: pa.Schema, entity: Mapping[str, object]) -> Predicate:
    """`column IN (values)` for each entity column named; a value alone is a list of one.

    Raises UnknownColumn for a column that is no entity column, InvalidOption for a value of another type.
    """
    wanted = check_entity_values(index, schema, entity).items()
    return conjunction([In(operand=Column(path=(name,)), values=tuple(map(_literal, values))) for name, values in wanted])


def check_entity_values(
    index: IndexSpec, schema: pa.Schema | None, entity: Mapping[str, object]
) -> dict[str, list[IdentityValue]]:
    """An entity filter's values by column, checked; raises as `entity_filter` does."""
    checked: dict[str, list[IdentityValue]] = {}
    for name, given in entity.items():
        if name not in index.entity:
            raise UnknownColumn(
                f"entity={{{name!r}: …}} names no entity column",
                why="Entity filters take the table's entity columns; use where= for any other",
                fix=nearest(name, index.entity),
                column=name, columns=index.entity,
            )  # fmt: skip
        values = given if isinstance(given, Sequence | set | frozenset) and not isinstance(given, str) else [given]
        kind = None if schema is None else schema.field(name).type
        checked[name] = [check_identity_value(name, kind, value) for value in values]
    return checked


def check_identity_value(name: str, kind: pa.DataType | None, value: object) -> IdentityValue:
    """An entity value as its column's type holds it (any value of an entity type where that is not known yet).

    Raises InvalidOption for one of another type.
    """
    if kind is None:
        kind = pa.scalar(value).type
    fits: bool = (
        isinstance(value, str)
        if pa.types.is_string(kind)
        else isinstance(value, bool)
        if pa.types.is_boolean(kind)
        else type(value) is date
        if pa.types.is_date(kind)
        else hasattr(value, "__index__") and not isinstance(value, bool)
    )
    if not fits:
        raise InvalidOption(
            f"{value!r} is no value of entity column {name!r}",
            why=f"The column holds {kind}",
            fix=f"Pass a {kind}",
            option=name, value=value,
        )  # fmt: skip
    return int(value) if pa.types.is_integer(kind) else value  # type: ignore[call-overload,return-value]  # checked just above


def identity_value(name: str, kind: pa.DataType, text: str) -> IdentityValue:
    """A text as the entity column `name` of type `kind` has it; raises InvalidOption."""
    try:
        if pa.types.is_integer(kind):
            return int(text)
        if pa.types.is_date(kind):
            return date.fromisoformat(text)
        return {"true": True, "false": False}[text.lower()] if pa.types.is_boolean(kind) else text
    except (ValueError, KeyError) as error:
        raise InvalidOption(
            f"{text!r} is no value of the entity column {name!r}",
            why=f"The column holds {kind}",
            fix=_example(kind),
            option=name,
            value=text,
        ) from error


def conjunction(terms: Sequence[Predicate]) -> Predicate:
    """All terms; true where there are none."""
    terms = [term for term in terms if term != Constant(value=True)]
    if not terms:
        return Constant(value=True)
    return terms[0] if len(terms) == 1 else And(terms=tuple(terms))


def _example(kind: pa.DataType) -> str:
    shown = "2013-01-31" if pa.types.is_date(kind) else "true or false" if pa.types.is_boolean(kind) else "a whole number"
    return f"Write {shown}"


def _literal(checked: IdentityValue) -> Value:
    if isinstance(checked, bool):
        return Value(kind="bool", value=checked)
    if isinstance(checked, date):
        return Value(kind="date", value=ns_from_date(checked) // NS_PER_DAY)
    return Value(kind="text" if isinstance(checked, str) else "number", value=checked)


def check_columns(names: Sequence[str], schema: pa.Schema) -> None:
    """Raise UnknownColumn for the first name that is no top-level column of `schema`."""
    known = tuple(schema.names)
    have = frozenset(known)
    for name in names:
        if name not in have:
            raise UnknownColumn(f"there is no column {name!r}", fix=nearest(name, known), column=name, columns=known)


def find_column(parts: Sequence[str], schema: pa.Schema, where: str, argument: str = "where") -> Column:
    """The column of `schema` that `parts` name: a top-level column, then fields of structs.

    A name matches exactly, else without regard to case where that is unique. Raises UnknownColumn, and InvalidFilter
    where several columns match; both show the text `where`, and which `argument` it is of.
    """
    path: list[str] = []
    names = tuple(schema.names)
    for part in parts:
        path.append(_match(part, names, where, argument))
        found = column_type(Column(path=tuple(path)), schema)
        names = tuple(field.name for field in found) if pa.types.is_struct(found) else ()
    return Column(path=tuple(path))


def matching(name: str, names: Iterable[str]) -> list[str]:
    """The names that one can mean: itself, else those that differ from it in case alone.

    >>> matching("Id", ["id", "x"])
    ['id']
    """
    known = list(names)
    return [name] if name in known else [one for one in known if one.lower() == name.lower()]


class NameIndex:
    """Names, of which many are looked up: `matching` in a time that does not grow with how many there are."""

    def __init__(self, names: Iterable[str]) -> None:
        """Of names, each there once."""
        self._names: set[str] = set()
        self._lower: dict[str, list[str]] = {}
        for name in names:
            self.add(name)

    def add(self, name: str) -> None:
        """One name more."""
        self._names.add(name)
        self._lower.setdefault(name.lower(), []).append(name)

    def matching(self, name: str) -> list[str]:
        """As the function of this name."""
        return [name] if name in self._names else list(self._lower.get(name.lower(), ()))


def _match(name: str, names: tuple[str, ...], where: str, argument: str) -> str:
    close = matching(name, names)
    if len(close) > 1:
        raise InvalidFilter(
            f"{argument}={where!r} cannot be answered",
            why=f"{name!r} could be {' or '.join(map(repr, close))}",
            fix="Write the name exactly as the column's",
            where=where,
        )
    if not close:
        raise UnknownColumn(
            f"{argument}={where!r} names a column {name!r} that the table does not have",
            fix=f"{nearest(name, names)}. Single quotes make a text, double quotes a column".replace("?.", "?"),
            column=name, columns=names,
        )  # fmt: skip
    return close[0]


_MOST_VALUES = 8
"""Up to so many distinct values of a column are named one by one; more become a range."""
_ORDERED_AS = {pa.float16().id: pa.float32(), pa.duration("ns").id: pa.int64()}


def key_bounds(rows: pa.Table, columns: tuple[str, ...]) -> p.Predicate:
    """True of every row that has in `columns` the values of one of `rows` (null-safe, NaN equal to NaN); maybe of others too."""
    return conjunction([_bounds(rows.column(name), p.Column(path=(name,))) for name in columns])


def _bounds(column: pa.ChunkedArray, operand: p.Column) -> p.Predicate:
    terms: list[p.Predicate] = [p.IsNull(operand=operand)] if column.null_count else []
    values = column.drop_null()
    if pa.types.is_floating(column.type):
        nan = pc.is_nan(values)
        terms += [p.IsNan(operand=operand)] if pc.any(nan).as_py() else []
        values = values.filter(pc.invert(nan))
    if len(values):
        terms.append(_values(values, operand))
    return terms[0] if len(terms) == 1 else p.Or(terms=tuple(terms)) if terms else p.Constant(value=False)


def _values(values: pa.ChunkedArray, operand: p.Column) -> p.Predicate:
    # Arrow orders and counts neither half floats nor durations; what it casts them to holds each value exactly.
    type_ = values.type
    ordered = values.cast(_ORDERED_AS.get(type_.id, type_))
    distinct = pc.unique(ordered)
    if len(distinct) <= _MOST_VALUES:
        return p.In(operand=operand, values=tuple(_value(one, type_) for one in distinct))
    ends = pc.min_max(ordered)
    low, high = _value(ends["min"], type_), _value(ends["max"], type_)
    return p.And(
        terms=(p.Comparison(op=">=", left=operand, right=low), p.Comparison(op="<=", left=operand, right=high)),
    )


def _value(scalar: Any, type_: pa.DataType) -> p.Value:
    kind = kind_of(type_)
    assert kind is not None
    return p.Value(kind=kind, value=stats_value(scalar.cast(type_), type_))
