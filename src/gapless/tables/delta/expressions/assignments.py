"""Assignments of UPDATE and MERGE: new values of columns, as SQL or as values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.errors import InvalidOption
from gapless.model.by_value import Floats, convert_by_value, why_never
from gapless.model.convert import Misfit
from gapless.model.fit import refuse_misfit
from gapless.predicate.range import find_column
from gapless.tables.delta.expressions.evaluate import assigned_values, evaluate
from gapless.tables.delta.expressions.sql import parse_expression
from gapless.tables.shared.sql import quoted


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One column's new value, or that of a field nested in a struct column."""

    path: tuple[str, ...]
    type: pa.DataType
    value: str | pa.Scalar
    """SQL, or a value of the type."""

    @property
    def name(self) -> str:
        """Its path as SQL writes it; no two are written alike."""
        return ".".join(map(_quoted, self.path))


@dataclass(frozen=True, slots=True, kw_only=True)
class InferredColumns:
    """Columns of the rows that SQL sees whose types nobody declared: those of a merge's source that was given as plain values."""

    floats: Mapping[str, Floats]
    """By name, how their floats are taken."""
    rows: npt.NDArray[np.int64]
    """The number of each row in the input, for messages."""

    def as_type(self, name: str, column: pa.ChunkedArray, one: Assignment) -> pa.ChunkedArray | None:
        """A column as values of the type that is assigned; None where its type was declared, or can't ever fit. Raises InvalidValue."""
        if name not in self.floats or why_never(column.type, one.type) is not None:
            return None
        whole = column.combine_chunks()
        try:
            return pa.chunked_array([convert_by_value(whole, one.type, self.floats[name])], one.type)
        except Misfit as misfit:
            first = 0 if misfit.row is None else int(self.rows[misfit.row]) - misfit.row
            raise refuse_misfit(misfit, whole, pa.field(one.name, one.type), first) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignments:
    """New values for columns of a table."""

    schema: pa.Schema
    """The table's."""
    each: tuple[Assignment, ...]

    @classmethod
    def parse(
        cls,
        values: Mapping[str, object],
        schema: pa.Schema,
        *,
        sql: Callable[[str], str] = lambda text: text,
        target: str = "",
    ) -> Assignments:
        """Read new values by column name or dotted path, in any case; each text goes through `sql` first.

        A name may begin with the alias `target`. Raises InvalidOption, UnknownColumn, InvalidValue, SchemaMismatch, and what `sql` raises.
        """
        if not isinstance(values, Mapping):
            raise InvalidOption(
                f"values={values!r} is no mapping of columns", fix='Pass {"v": "v + 1"}', option="values", value=values
            )
        if not values:
            raise InvalidOption("no column is given a new value", fix='Pass {"v": "v + 1"}', option="values", value={})
        each = tuple(_parse(name, value, schema, sql, target) for name, value in values.items())
        paths = sorted((one.path for one in each), key=len)
        for at, path in enumerate(paths):
            clash = next((other for other in paths[:at] if other == path[: len(other)]), None)
            if clash is not None:
                raise InvalidOption(
                    f"{'.'.join(path)!r} is given two values",
                    why=f"{'.'.join(clash)!r} is given one, too",
                    fix="Give each column one value",
                    option="values",
                    value=".".join(path),
                )
        return cls(schema=schema, each=each)

    @property
    def columns(self) -> frozenset[str]:
        """The names of the columns that they change."""
        return frozenset(one.path[0] for one in self.each)

    def apply(self, rows: pa.Table, seen: pa.Table, inferred: InferredColumns | None = None) -> pa.Table:
        """Rows of the table with the new values, which SQL computes from the rows of `seen`. Raises what `evaluate` raises.

        Where the SQL is the name of one of the `inferred` columns, each of its values is taken that the type holds.
        """
        texts = {one.name: one for one in self.each if isinstance(one.value, str)}
        plain = {name: column for name, one in texts.items() if (column := _plain_column(one, seen, inferred)) is not None}
        computed = {name: str(one.value) for name, one in texts.items() if name not in plain}
        types = pa.schema([pa.field(name, texts[name].type) for name in computed])
        found = evaluate(seen, computed, types) if computed else None
        for one in self.each:
            name = one.name
            column = plain[name] if name in plain else _column(found, name) if name in computed else _repeated(one, rows)
            rows = _set(rows, one.path, column)
        return rows


def _quoted(step: str) -> str:
    return step if not {'"', "."} & set(step) else quoted(step)


def _parse(name: object, value: object, schema: pa.Schema, sql: Callable[[str], str], target: str) -> Assignment:
    if not isinstance(name, str) or not name:
        raise InvalidOption(f"{name!r} names no column", fix='Pass {"v": "v + 1"}', option="values", value=name)
    parts = _parts(name, schema, target)
    path = find_column(parts, schema, name, "values").path
    kind = _type_at(path, schema)
    return Assignment(path=path, type=kind, value=sql(value) if isinstance(value, str) else _scalar(value, kind, name))


def _parts(name: str, schema: pa.Schema, target: str) -> Sequence[str]:
    """A column's name, else a dotted path."""
    if any(name.lower() == known.lower() for known in schema.names):
        return (name,)
    parts = name.split(".")
    return parts[1:] if target and len(parts) > 1 and parts[0].lower() == target.lower() else parts


def _type_at(path: tuple[str, ...], schema: pa.Schema) -> pa.DataType:
    kind = schema.field(path[0]).type
    for step in path[1:]:
        kind = kind.field(step).type
    return kind


def _scalar(value: object, kind: pa.DataType, name: str) -> pa.Scalar:
    field = pa.field(name, kind)
    try:
        given = _array(value, kind)
    except (ValueError, TypeError, pa.ArrowNotImplementedError, OverflowError) as error:
        raise InvalidOption(
            f"{name!r} cannot be given {value!r}",
            why=str(error),
            fix="Pass a plain value, or SQL as a text",
            option="values",
            value=value,
        ) from error
    plain = not isinstance(value, pa.Scalar) and why_never(given.type, kind) is None
    try:
        return (convert_by_value(given, kind) if plain else assigned_values(given, kind, naive_is_utc=False))[0]
    except Misfit as misfit:
        raise refuse_misfit(misfit, given, field, 0) from None


def _array(value: object, kind: pa.DataType) -> pa.Array:
    """A value in the type that it says of itself, but a map, which looks like another thing."""
    if isinstance(value, pa.Scalar):
        return pa.array([value.as_py()], value.type)
    if pa.types.is_map(kind) and value is not None:
        return pa.array([list(value.items()) if isinstance(value, Mapping) else value], kind)
    return pa.array([value])


def _plain_column(one: Assignment, seen: pa.Table, inferred: InferredColumns | None) -> pa.ChunkedArray | None:
    """The column that the SQL names and nothing else, where it has the type that is wanted, or none that was declared."""
    known = parse_expression(str(one.value), seen.schema, "duckdb")
    if len(known.columns) != 1 or known.sql != f"(c{known.columns[0]})":
        return None
    field, column = seen.schema.field(known.columns[0]), seen.column(known.columns[0])
    if field.type == one.type:
        return column
    return None if inferred is None else inferred.as_type(field.name, column, one)


def _column(found: pa.Table | None, name: str) -> pa.ChunkedArray:
    assert found is not None
    return found.column(name)


def _repeated(one: Assignment, rows: pa.Table) -> pa.ChunkedArray:
    assert isinstance(one.value, pa.Scalar)
    # Arrow repeats no list zero times.
    return pa.chunked_array([pa.repeat(one.value, rows.num_rows)] if rows.num_rows else [], one.type)


def _set(rows: pa.Table, path: tuple[str, ...], column: pa.ChunkedArray) -> pa.Table:
    at = rows.schema.get_field_index(path[0])
    if len(path) > 1:
        whole = rows.column(at).combine_chunks()
        column = pa.chunked_array([_set_field(whole, path[1:], column.combine_chunks())], rows.schema.field(at).type)
    return rows.set_column(at, rows.schema.field(at), column)


def _set_field(struct: pa.StructArray, path: tuple[str, ...], column: pa.Array) -> pa.StructArray:
    """The structs with one field set; one that was null becomes one whose other fields are."""
    fields, children = list(struct.type), struct.flatten()
    at = struct.type.get_field_index(path[0])
    children[at] = column if len(path) == 1 else _set_field(children[at], path[1:], column)
    return pa.StructArray.from_arrays(children, fields=fields)
