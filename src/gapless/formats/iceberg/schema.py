"""Columns as Iceberg's schemas have them, with field ids, and the name mapping that finds them in files without ids. Pure (the table spec).

A field's id is given to its stored name, once and for ever: whatever a column is called by now, and whichever schema a snapshot has, the
mapping leads to the values that files hold under the stored name, and a name that was dropped and given again leads to none of the old ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from gapless.errors import SchemaMismatch, UnsupportedType
from gapless.formats.iceberg.types import PrimitiveType, may_promote, primitive_type
from gapless.model.column_ids import ColumnIds, ColumnPath, steps
from gapless.model.types import FIELD_ID, bare_type, children, is_any_list

JsonObject = dict[str, Any]
_FAR = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldIds:
    """The ids of all fields that a table's schemas ever had."""

    by_path: Mapping[ColumnPath, int] = field(default_factory=dict)
    """By stored names; "element" for the values of a list, "key" and "value" of a map."""
    last: int = 0
    """The highest id that was given."""

    def name_mapping(self) -> str:
        """The table property `schema.name-mapping.default`."""
        return json.dumps(list(_mapped(self.by_path)), ensure_ascii=False, separators=(",", ":"))

    def misled(self, name_mapping: str) -> list[ColumnPath]:
        """The fields, by stored names, that a mapping does not lead to, or that it leads another field to; all for what is no mapping."""
        by_id = {number: path for path, number in self.by_path.items()}
        found: dict[ColumnPath, set[int]] = {}
        try:
            for number, name in _names_by_id(json.loads(name_mapping)):
                if number in by_id:
                    found.setdefault((*by_id[number][:-1], name), set()).add(number)
        except (ValueError, LookupError, TypeError, AttributeError):
            found = {}
        return [path for path, number in self.by_path.items() if found.get(path) != {number}]

    def with_file(self, schema: pa.Schema) -> FieldIds:
        """The same with ids for all that a file holds, under the names that it has there: readers want to find each of its columns."""
        given = dict(self.by_path)
        fresh = iter(range(self.last + 1, 2**31))
        if any(one.metadata and FIELD_ID in one.metadata for one in schema):
            return self  # readers go by those
        for path in _stored_paths(schema, ()):
            _id_of(path, given, fresh)
        return FieldIds(by_path=given, last=max([self.last, *given.values()]))

    def with_given(self, given: Mapping[ColumnPath, int]) -> FieldIds:
        """The same with ids that files carry, by stored path; raises SchemaMismatch where other fields have one of them, or these another."""
        if not given:
            return self
        owners = {number: path for path, number in self.by_path.items()}
        for path, number in given.items():
            if self.by_path.get(path, number) != number or owners.get(number, path) != path:
                name = ".".join(path)
                raise SchemaMismatch(
                    f"files know {name!r} by the field id {number}, under which Iceberg's metadata has another column",
                    why="The table was described before its files carried ids",
                    fix="Set the property 'publish' without 'iceberg', and then with it: the description begins anew",
                    differences=(name,),
                )
        # What files hold besides, without an id, comes far behind those that the table will give yet.
        return FieldIds(by_path={**self.by_path, **given}, last=max([self.last, _FAR, *given.values()]))

    def contradicts(self, given: Mapping[ColumnPath, int]) -> bool:
        """Whether `with_given` raises."""
        owners = {number: path for path, number in self.by_path.items()}
        return any(
            self.by_path.get(path, number) != number or owners.get(number, path) != path for path, number in given.items()
        )

    def dropped(self, fields: Iterable[JsonObject]) -> list[ColumnPath]:
        """The fields, by stored names, that a schema does not have."""
        now = set(_ids(fields))
        return [path for path, number in self.by_path.items() if number not in now]

    @classmethod
    def parse(cls, name_mapping: str, last: int) -> FieldIds:
        """The ids that a name mapping tells, of a table whose highest is `last`. Raises ValueError for what is no mapping."""
        found: dict[ColumnPath, int] = {}
        try:
            _collect(json.loads(name_mapping), (), found)
        except (LookupError, TypeError, AttributeError) as error:
            raise ValueError(f"no name mapping: {name_mapping[:80]!r}") from error
        return cls(by_path=found, last=max([last, *found.values()]))


def iceberg_schema(schema: pa.Schema, ids: ColumnIds, known: FieldIds) -> tuple[list[JsonObject], FieldIds]:
    """The fields of declared columns as the metadata spells them, all of which may be null, and the ids with those of new fields.

    Raises UnsupportedType for a column that readers of Iceberg cannot have, SchemaMismatch for names that they cannot tell apart.
    """
    _check_names(schema)
    given = dict(known.by_path)
    fresh = iter(range(known.last + 1, 2**31))
    fields = [_field(one, (one.name,), ids, given, fresh) for one in schema]
    return fields, FieldIds(by_path=given, last=max([known.last, *given.values()]))


def stored_columns(fields: Iterable[JsonObject], ids: FieldIds) -> dict[str, tuple[int, PrimitiveType]]:
    """Id and type of each column without children, by its stored name."""
    types = {one["id"]: one["type"] for one in fields}
    by_id = ((path[0], number) for path, number in ids.by_path.items() if len(path) == 1)
    return {name: (number, types[number]) for name, number in by_id if isinstance(types.get(number), str)}


def check_promotions(now: Iterable[JsonObject], before: Iterable[JsonObject]) -> None:
    """Raise UnsupportedType where a field of a type cannot follow the field of its id, whose values files hold."""
    old = {number: type_ for number, type_, _ in _leaves(before, "")}
    for number, type_, path in _leaves(now, ""):
        if number in old and not may_promote(old[number], type_):
            raise refuse_promotion(path, old[number], type_)


def refuse_promotion(path: str, held: PrimitiveType, type_: PrimitiveType) -> UnsupportedType:
    """The error for a column of which files hold values that readers would not take."""
    return UnsupportedType(
        f"column {path!r} cannot be {type_} where it is published as Iceberg",
        why=f"Files of the table hold {held}, and Iceberg promotes only int to long, float to double, and decimals to more digits",
        fix="Leave the type as it is; or take 'iceberg' out of the property 'publish'. Rows that are written anew have the new type",
        column=path,
        type=type_,
    )


def _field(
    declared: pa.Field, path: ColumnPath, ids: ColumnIds, given: dict[ColumnPath, int], fresh: Iterator[int]
) -> JsonObject:
    number = _id_of(ids.stored_path(path), given, fresh)
    type_ = _type(declared.type, path, ids, given, fresh)
    return {"id": number, "name": declared.name, "required": False, "type": type_}


def _type(
    declared: pa.DataType, path: ColumnPath, ids: ColumnIds, given: dict[ColumnPath, int], fresh: Iterator[int]
) -> PrimitiveType | JsonObject:
    bare = bare_type(declared)
    if not bare.num_fields:
        return primitive_type(declared, ".".join(path))
    if pa.types.is_struct(bare):
        return {"type": "struct", "fields": [_field(one, (*path, one.name), ids, given, fresh) for one in bare]}
    told: JsonObject = {"type": "list" if is_any_list(bare) else "map"}
    for step, child in zip(steps(bare), children(bare), strict=True):
        below = (*path, step)
        told[f"{step}-id"] = _id_of(ids.stored_path(below), given, fresh)
        told[step] = _type(child.type, below, ids, given, fresh)
        if step != "key":
            told[f"{step}-required"] = False
    return told


def _id_of(stored: ColumnPath, given: dict[ColumnPath, int], fresh: Iterator[int]) -> int:
    if stored not in given:
        given[stored] = next(fresh)
    return given[stored]


def _leaves(fields: Iterable[JsonObject], where: str) -> Iterator[tuple[int, PrimitiveType, str]]:
    """Id, type and dotted path of each field without children."""
    for one in fields:
        yield from _leaves_of(one["id"], one["type"], where + one["name"])


def _leaves_of(number: int, type_: PrimitiveType | JsonObject, path: str) -> Iterator[tuple[int, PrimitiveType, str]]:
    if isinstance(type_, str):
        yield number, type_, path
    elif type_["type"] == "struct":
        yield from _leaves(type_["fields"], f"{path}.")
    else:
        for step in ("element", "key", "value"):
            if step in type_:
                yield from _leaves_of(type_[f"{step}-id"], type_[step], f"{path}.{step}")


def _stored_paths(fields: Iterable[pa.Field], above: ColumnPath) -> Iterator[ColumnPath]:
    for one in fields:
        path = (*above, one.name)
        yield path
        below = zip(steps(one.type), children(one.type), strict=True)
        yield from _stored_paths((child.with_name(step) for step, child in below), path)


def _ids(fields: Iterable[JsonObject]) -> Iterator[int]:
    """Of all fields, nested ones too."""
    for one in fields:
        yield one["id"]
        yield from _ids_below(one["type"])


def _ids_below(type_: PrimitiveType | JsonObject) -> Iterator[int]:
    if not isinstance(type_, str):
        yield from _ids(type_.get("fields", ()))
        for step in ("element", "key", "value"):
            if step in type_:
                yield type_[f"{step}-id"]
                yield from _ids_below(type_[step])


def _names_by_id(mapped: Iterable[JsonObject]) -> Iterator[tuple[int, str]]:
    for one in mapped:
        yield from ((int(one["field-id"]), name) for name in one["names"])
        yield from _names_by_id(one.get("fields", ()))


def _mapped(by_path: Mapping[ColumnPath, int]) -> Iterator[JsonObject]:
    below: dict[str, dict[ColumnPath, int]] = {}
    for path, number in by_path.items():
        if len(path) > 1:
            below.setdefault(path[0], {})[path[1:]] = number
    for path, number in by_path.items():
        if len(path) == 1:
            nested = list(_mapped(below.get(path[0], {})))
            yield {"field-id": number, "names": [path[0]], **({"fields": nested} if nested else {})}


def _collect(mapped: Iterable[JsonObject], above: ColumnPath, found: dict[ColumnPath, int]) -> None:
    for one in mapped:
        path = (*above, one["names"][0])
        found[path] = int(one["field-id"])
        _collect(one.get("fields", ()), path, found)


def _check_names(schema: pa.Schema) -> None:
    seen: dict[str, str] = {}
    twins = []
    for name in _names(schema, ""):
        other = seen.setdefault(name.lower(), name)
        if other is not name:
            twins.append(f"{name!r} and {other!r}")
    if twins:
        raise SchemaMismatch(
            f"the columns cannot be an Iceberg table's: {'; '.join(twins)} are one name there",
            why="Spark and others do not look at case, and a dot leads to a nested field",
            fix="Rename one of each two",
            differences=tuple(twins),
        )


def _names(fields: Iterable[pa.Field], where: str) -> Iterator[str]:
    for one in fields:
        yield where + one.name
        bare = bare_type(one.type)
        inner = (child.with_name(step) for step, child in zip(steps(bare), children(bare), strict=True))
        yield from _names(inner, f"{where}{one.name}.")
