"""A table's schema: adopted from the first input, stored, and held against every later input.

A schema is a plain `pa.Schema` of declared types, which are those that come back to the reader.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from gapless.errors import NullKey, SchemaMismatch, UnsupportedType, nearest
from gapless.model.column_ids import PLAIN, ColumnIds
from gapless.model.index import EntityType, FixedWidth, IndexSpec, format_bucket
from gapless.model.instant import NS_PER
from gapless.model.time.timestamp_advice import how_to_timestamp
from gapless.model.types import annotated_field, bare_type, declared_field, normal_zone, stored_field, stored_type
from gapless.model.widening import why_not

Known = TypeVar("Known")

_DROPPED_METADATA = frozenset({b"pandas", b"ARROW:schema"})
_INDEX_INPUTS = {
    "int64": (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32()),
    "uint64": (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
}
_ENTITY_NAMES: dict[pa.DataType, EntityType] = {
    pa.string(): "utf8", pa.date32(): "date", pa.bool_(): "bool",
    **{pa.type_for_alias(name): name
       for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")},
}  # fmt: skip


def adopt_schema(given: pa.Schema, index: IndexSpec) -> pa.Schema:
    """The schema of a new table, from its first input or from `create(schema=)`; column order as given.

    Dictionaries, views, large texts and run-end encoding become their plain types; everything else that Parquet can hold
    stays exact. The index and entity columns become non-null; a naive timestamp index takes the table's zone, if it has one.
    Field ids and pandas' metadata are dropped, other metadata stays.

    Raises SchemaMismatch (names, index), UnsupportedType (a type no table can hold, or no entity column can), NullKey (an
    index or entity column of type null).
    """
    differences = [*_name_problems(given), *(f"{name}: missing" for name in _keys(index) if name not in given.names)]
    if differences:
        raise _mismatch("the input cannot make a table", differences, "Rename or add these columns")
    fields = [_key_field(field, index) if field.name in _keys(index) else declared_field(field) for field in given]
    metadata = {key: value for key, value in (given.metadata or {}).items() if key not in _DROPPED_METADATA}
    return pa.schema(fields, metadata=metadata or None)


def _keys(index: IndexSpec) -> tuple[str, ...]:
    return (index.column, *index.entity)


def _name_problems(given: pa.Schema) -> list[str]:
    counts = Counter(given.names)
    problems = [f"{name}: comes {count} times" for name, count in counts.items() if count > 1]
    if "" in counts:
        problems.append("'': a column needs a name")
    return problems + [f"{name!r}: a name cannot contain a NUL character" for name in counts if "\0" in name]


def _key_field(field: pa.Field, index: IndexSpec) -> pa.Field:
    if pa.types.is_null(bare_type(field.type)):
        raise NullKey(
            f"column {field.name!r} holds only nulls",
            why="Every row needs its index value and its identity",
            fix="Fill the column, or drop these rows",
            column=field.name, row=0,
        )  # fmt: skip
    declared = declared_field(field)
    type_ = _index_type(declared, index, field.type) if field.name == index.column else _entity_type(declared)
    return declared.with_type(type_).with_nullable(False)


def _index_type(field: pa.Field, index: IndexSpec, given: pa.DataType) -> pa.DataType:
    if index.type == "timestamp" and pa.types.is_timestamp(field.type):
        _check_bucket(field, index)
        return pa.timestamp(field.type.unit, field.type.tz or normal_zone(index.timezone))
    if index.type != "timestamp" and field.type in _INDEX_INPUTS[index.type]:
        return pa.type_for_alias(index.type)
    raise _mismatch(
        f"the index column {field.name!r} does not fit a table whose index_type is {index.type!r}",
        [f"{field.name}: {given}, expected {_expected(index)}"],
        _index_advice(given, index),
    )


def _expected(index: IndexSpec) -> str:
    if index.type == "timestamp":
        return "timestamp of any unit"
    return "one of " + ", ".join(str(type_) for type_ in _INDEX_INPUTS[index.type])


def _index_advice(given: pa.DataType, index: IndexSpec) -> str:
    """What to do about an index column of the input's type `given`."""
    bare = bare_type(given)
    if index.type != "timestamp":
        if pa.types.is_timestamp(bare):
            return "Create the table with index_type='timestamp'"
        other = next((one for one, types in _INDEX_INPUTS.items() if bare in types and one != index.type), None)
        whole = f"Cast the column, as in column.cast(pa.{index.type}())"
        return (
            f"{whole}, or create the table with index_type={other!r}"
            if other
            else f"{whole}, where every value is a whole number"
        )
    counts = pa.types.is_integer(bare) or pa.types.is_floating(bare) or pa.types.is_decimal(bare)
    # What counts from 1970 counts from an instant.
    how = how_to_timestamp(given, normal_zone(index.timezone) or ("UTC" if counts else None))
    if how is None:
        return "Choose an index column that holds times, or whole numbers with index_type='int64'"
    number = "; or create with index_type='int64'" if pa.types.is_integer(bare) and bare == given else ""
    files = " (gl.Csv(timestamp_unit=…) in files)" if pa.types.is_integer(bare) and bare == given else ""
    return f"{how[0].upper()}{how[1:]}{files}{number}"


def _check_bucket(field: pa.Field, index: IndexSpec) -> None:
    unit = field.type.unit
    if isinstance(index.bucket, FixedWidth) and index.bucket.ns % NS_PER[unit]:
        text = format_bucket(index.bucket)
        raise _mismatch(
            f"a bucket of {text} is no whole number of {unit}, the unit of the index column {field.name!r}",
            [f"{field.name}: {field.type}, but the bucket is {text}"],
            f"Cast the column to a finer unit, as in column.cast(pa.timestamp('us')), or take a bucket that is a multiple of 1{unit}",
        )


def _entity_type(field: pa.Field) -> pa.DataType:
    type_ = pa.date32() if pa.types.is_date64(field.type) else field.type
    if type_ in _ENTITY_NAMES:
        return type_
    raise UnsupportedType(
        f"entity column {field.name!r} has type {field.type}",
        why="An entity column holds strings, integers, dates or booleans",
        fix="Cast it to one of these",
        column=field.name, type=str(field.type),
    )  # fmt: skip


def entity_types(schema: pa.Schema, index: IndexSpec) -> tuple[EntityType, ...]:
    """The types of the entity columns of an adopted schema, in the index's order."""
    return tuple(_ENTITY_NAMES[schema.field(name).type] for name in index.entity)


def stored_schema(table_schema: pa.Schema, ids: ColumnIds = PLAIN) -> pa.Schema:
    """What the Parquet files of a table hold: stored names and types, no metadata, columns of unknown type (null) left out."""
    known = _stored.get(id(table_schema))
    if ids or known is None or known[0] is not table_schema:
        known = table_schema, _stored_schema(table_schema, ids)
        if not ids:
            _remember(_stored, table_schema, known)
    return known[1]


def _stored_schema(table_schema: pa.Schema, ids: ColumnIds) -> pa.Schema:
    return pa.schema([stored_field(ids.physical(field)) for field in table_schema if not pa.types.is_null(field.type)])


_MOST_KNOWN = 64
_stored: dict[int, tuple[pa.Schema, pa.Schema]] = {}
"""By identity of a table's schema: that schema, and what files hold whose columns have their declared names."""
_known: dict[int, tuple[pa.Schema, pa.Schema, pa.Schema | None]] = {}
"""By identity of a table's schema: that schema, the input's that was last held against it, and what `stored_as_given` said."""


def stored_as_given(table: pa.Schema, given: pa.Schema, ids: ColumnIds = PLAIN) -> pa.Schema | None:
    """The stored schema, where files hold every value of such an input as it comes: the same columns in the same order, of plain types that
    are the table's own and are stored as they are. None where something may have to change, or be refused. Nulls are not looked at.
    """
    if ids:
        return None
    known = _known.get(id(table))
    if known is None or known[0] is not table or not known[1].equals(given, check_metadata=True):
        same = table.names == given.names and all(map(_is_stored_as_given, table, given))
        known = table, given, stored_schema(table) if same else None
        _remember(_known, table, known)
    return known[2]


def _remember(known: dict[int, Known], schema: pa.Schema, what: Known) -> None:
    if len(known) >= _MOST_KNOWN:
        known.clear()
    known[id(schema)] = what


def _is_stored_as_given(field: pa.Field, given: pa.Field) -> bool:
    kind = field.type
    plain = not pa.types.is_nested(kind) and not pa.types.is_null(kind)
    return plain and given.type.equals(kind, check_metadata=True) and stored_type(kind).equals(kind, check_metadata=True)


def annotated_schema(stored: pa.Schema, table_schema: pa.Schema) -> pa.Schema:
    """What files hold where they repeat the table's metadata, as `schema_metadata` of timeseries-table-format asks."""
    return pa.schema([annotated_field(f, table_schema.field(f.name)) for f in stored], metadata=table_schema.metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciled:
    """An input's schema that fits a table."""

    schema: pa.Schema
    """The table's schema after the input: as before, but for the types it resolved."""
    resolved: tuple[str, ...]
    """Columns whose type was not known before this input."""


def reconcile(table: pa.Schema, given: pa.Schema, index: IndexSpec, ids: ColumnIds = PLAIN) -> Reconciled:
    """Hold an input's schema against the table's, column by column and by name; raises SchemaMismatch.

    Nullable columns may be missing. A name that a column had before is refused with its name of now, as `ids` know it. The table's types never change; input types that fit without loss are accepted (some
    value by value: see `fit`). A naive index in a table with a time zone is local wall time. `differences` has one line for
    each column that does not fit. UnsupportedType where a column of unknown type comes with one that no table can hold.
    """
    if stored_as_given(table, given, ids) is not None:
        return Reconciled(schema=table, resolved=())
    inputs = {field.name: field for field in given}
    differences = _name_problems(given)
    for field in table:
        line = _compare(field, inputs.get(field.name), index)
        differences += [line] if line else []
    known = set(table.names)
    differences += [_unknown(name, known, ids) for name in inputs if name not in known]
    if differences:
        raise _mismatch("the input does not fit the table's schema", differences, "Cast, rename or leave out what differs")
    resolved = tuple(f.name for f in table if pa.types.is_null(f.type) and f.name in inputs and not _is_null(inputs[f.name]))
    fields = [resolve_null_type(field, inputs[field.name]) if field.name in resolved else field for field in table]
    return Reconciled(schema=pa.schema(fields, metadata=table.metadata) if resolved else table, resolved=resolved)


def _unknown(name: str, known: set[str], ids: ColumnIds) -> str:
    was = ids.was(name)
    return f"{name}: not in the table: {was}" if was else f"{name}: not in the table. {nearest(name, known)}"


def _is_null(field: pa.Field) -> bool:
    return bool(pa.types.is_null(bare_type(field.type)))


def _compare(field: pa.Field, given: pa.Field | None, index: IndexSpec) -> str | None:
    if given is None:
        return None if field.nullable and field.name not in _keys(index) else f"{field.name}: missing, and it may not be null"
    if pa.types.is_null(field.type) or means_local_time(field, given.type, index):
        return None
    reason = why_not(given.type, field.type)
    return f"{field.name}: {field.type} in the table, {given.type} in the input: {reason}" if reason else None


def means_local_time(field: pa.Field, given: pa.DataType, index: IndexSpec) -> bool:
    """Whether an input column is a naive index that a table with a time zone reads as its wall clock."""
    if field.name != index.column or index.timezone is None:
        return False
    bare = bare_type(given)
    return bool(pa.types.is_timestamp(bare) and bare.tz is None and pa.types.is_timestamp(field.type) and field.type.tz)


def resolve_null_type(field: pa.Field, given: pa.Field) -> pa.Field:
    """A column whose type was not known, with that of a `given` one of its name; it may be null. Raises UnsupportedType."""
    # Rows written before have nulls here.
    declared = declared_field(given).with_nullable(True)
    return declared.with_metadata({**(declared.metadata or {}), **(field.metadata or {})} or None)


def _mismatch(what: str, differences: list[str], fix: str) -> SchemaMismatch:
    return SchemaMismatch(what, why="; ".join(differences), fix=fix, differences=tuple(differences))
