"""Schema evolution on write (`schema_mode="merge"`): what the columns become so that an input fits. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal

import pyarrow as pa

from gapless.errors import InvalidChange, SchemaMismatch, one_of
from gapless.files.ingest.batches import Batches, unified_schema
from gapless.files.ingest.table_types import unfit_columns, with_table_types
from gapless.formats.delta.actions import Action, Metadata, Protocol, TableState
from gapless.formats.delta.features import needed_features, raised
from gapless.formats.delta.properties import Settings
from gapless.formats.delta.schema.arrow_types import VOID, arrow_type, from_arrow, from_arrow_field, to_arrow
from gapless.formats.delta.schema.column_mapping import assign, check_names
from gapless.formats.delta.schema.column_mapping import widen as widened
from gapless.formats.delta.schema.types import ArrayType, DeltaType, MapType, PrimitiveType, StructField, StructType
from gapless.model.types import is_any_list
from gapless.predicate.range import NameIndex
from gapless.tables.delta.alter.plan import uses_of
from gapless.tables.delta.expressions.evaluate import why_unfit

SchemaMode = Literal["strict", "merge", "overwrite"]
MAX_ID = "delta.columnMapping.maxColumnId"
_WIDER = tuple(PrimitiveType(name) for name in ("short", "integer", "long", "double"))
Path = tuple[str, ...]


def parse_schema_mode(mode: object, known: tuple[SchemaMode, ...]) -> SchemaMode:
    """Check what a call said; raises InvalidOption."""
    return one_of("schema_mode", mode, known)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvolvedVersion:
    """A version of a table, with the columns that rows are written for."""

    state: TableState
    actions: tuple[Action, ...] = ()
    """What the commit says of the change; nothing where there is none."""
    before: tuple[Protocol, Metadata] | None = None
    """What was changed, where there is a change: of versions that have these, it is the same one."""

    def fits(self, state: TableState) -> bool:
        """Whether rows that were written for it are what would be written for another version, and a commit says the same of the columns."""
        mine = (self.state.protocol, self.state.metadata) if not self.actions else self.before
        return mine == (state.protocol, state.metadata)


def evolve_schema(state: TableState, parts: Iterable[Batches], mode: SchemaMode, new_name: Callable[[], str]) -> EvolvedVersion:
    """The version that takes these inputs.

    A table without columns takes those of its first input, and a column without a type (void) that of the first that has one, in any mode.
    "merge" also adds columns and fields that the inputs have and the table lacks, nullable, last, and, where the table's property
    `delta.enableTypeWidening` is true, widens types that are too narrow, unless SQL of the table speaks of the column. "overwrite" takes the inputs' columns in place of the table's.
    `new_name` gives physical names of new columns where the table maps them. Raises UnsupportedType, SchemaMismatch.
    """
    schema = state.metadata.schema
    parts = tuple(parts)
    if mode == "overwrite" or not schema.fields:
        schema = _adopted(state, parts)
    else:
        widening = mode == "merge" and Settings.of(state.configuration).type_widening
        for part in parts:
            schema = _merged_fields(schema, list(part.schema), adds=mode == "merge")
            schema = _widened(schema, _needed_types(part, to_arrow(schema)), state.metadata) if widening else schema
    if schema == state.metadata.schema:
        return EvolvedVersion(state=state)
    return _restated(state, schema, new_name)


def _needed_types(part: Batches, table: pa.Schema) -> pa.Schema:
    """An input's types, where columns of inferred types have the table's if that holds all their values."""
    unfit = unfit_columns(part, table)
    fitting = {name: floats for name, floats in part.inferred.items() if name not in unfit}
    return with_table_types(replace(part, inferred=fitting), table).schema


def _adopted(state: TableState, parts: tuple[Batches, ...]) -> StructType:
    if not parts:
        return state.metadata.schema
    found = from_arrow(unified_schema(parts))
    lacking = [name for name in state.metadata.partition_by if name not in found.names]
    if lacking:
        raise SchemaMismatch(
            f"the input lacks the partition column {lacking[0]!r}",
            why="A table's partition columns stay what they are",
            fix="Add the column, or make another table",
            differences=tuple(f"{name}: missing" for name in lacking),
        )
    return found


def _restated(state: TableState, schema: StructType, new_name: Callable[[], str]) -> EvolvedVersion:
    """The version with another schema, its columns named for files, and the features that they need."""
    before = state.metadata
    settings = Settings.of(before.configuration)
    check_names(schema, mapped=settings.column_mapping != "none", feed=settings.change_data_feed)
    schema, highest = assign(schema, settings.column_mapping, settings.max_column_id, new_name)
    ids = {} if settings.column_mapping == "none" else {MAX_ID: str(highest)}
    metadata: Metadata = replace(before, schema=schema, configuration={**before.configuration, **ids})
    protocol = raised(state.protocol, *needed_features(schema, metadata.configuration))
    actions: tuple[Action, ...] = (metadata,) if protocol == state.protocol else (protocol, metadata)
    evolved = replace(state, metadata=metadata, protocol=protocol)
    return EvolvedVersion(state=evolved, actions=actions, before=(state.protocol, before))


def _widened(schema: StructType, given: pa.Schema, metadata: Metadata) -> StructType:
    """The schema with those types widened that are too narrow, but of columns that SQL of the table speaks of."""
    for path, wider in _too_narrow(schema, list(given), ()):
        if any(uses_of(metadata, path)):
            continue  # the input is then told that it does not fit
        try:
            schema = widened(schema, path, wider)
        except InvalidChange:
            continue
    return schema


def _merged_fields(schema: StructType, given: list[pa.Field], *, adds: bool) -> StructType:
    fields = {field.name: field for field in schema.fields}
    names = NameIndex(fields)
    for one in given:
        match names.matching(one.name):
            case [known]:
                fields[known] = replace(fields[known], type=_merged_type(fields[known].type, one, adds=adds))
            case [] if adds:
                fields[one.name] = from_arrow_field(one.with_nullable(True))
                names.add(one.name)
    return StructType(fields=tuple(fields.values()))


def _merged_type(type_: DeltaType, given: pa.Field, *, adds: bool) -> DeltaType:
    match type_:
        case PrimitiveType() if type_ == VOID:
            return from_arrow_field(given).type
        case StructType() if pa.types.is_struct(given.type):
            return _merged_fields(type_, list(given.type), adds=adds)
        case ArrayType() if is_any_list(given.type):
            return replace(type_, element=_merged_type(type_.element, given.type.value_field, adds=adds))
        case MapType() if pa.types.is_map(given.type):
            return replace(type_, value=_merged_type(type_.value, given.type.item_field, adds=adds))
    return type_


def _too_narrow(schema: StructType, given: list[pa.Field], above: Path) -> Iterable[tuple[Path, PrimitiveType]]:
    """Paths of columns and fields of structs that do not hold an input's type, each with the narrowest type that holds both."""
    fields: dict[str, StructField] = {field.name: field for field in schema.fields}
    names = NameIndex(fields)
    for one in given:
        match names.matching(one.name):
            case [known]:
                yield from _narrow_at(fields[known].type, one, (*above, known))


def _narrow_at(type_: DeltaType, given: pa.Field, path: Path) -> Iterable[tuple[Path, PrimitiveType]]:
    if isinstance(type_, StructType) and pa.types.is_struct(given.type):
        yield from _too_narrow(type_, list(given.type), path)
    elif isinstance(type_, PrimitiveType) and why_unfit(given.type, arrow_type(type_)) is not None:
        own = from_arrow_field(given).type
        candidates = [own, *_WIDER] if isinstance(own, PrimitiveType) else []
        for wider in candidates:
            holds_both = not (why_unfit(given.type, arrow_type(wider)) or why_unfit(arrow_type(type_), arrow_type(wider)))
            if holds_both:
                yield path, wider
                return
