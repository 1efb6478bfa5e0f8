"""The parts of a scan that are not `where` text, as predicates: an index range, an entity filter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date

import pyarrow as pa

from gapless.errors import InvalidOption, UnknownColumn, nearest
from gapless.model.index import IdentityValue, IndexSpec
from gapless.model.instant import NS_PER_DAY, ns_from_date
from gapless.scan.predicate import And, Column, Comparison, Constant, In, Kind, Predicate, Value


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
