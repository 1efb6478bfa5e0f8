"""What tells columns apart beside their names, as further keys of the objects in `logical_schema`.

`gapless_stored` is a field's stored name where that is not its name, `gapless_former` its earlier names, `gapless_default` what
rows without it have, and `gapless_retired`, of a struct and of the whole, the stored names that no new field of it may take.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from gapless.dialects.timeseries.bound_codec import decode_bound, encode_bound
from gapless.model.column_ids import ColumnIds, ColumnPath, find_field
from gapless.model.stats import Bound, arrow_scalar
from gapless.model.types import children

COLUMNS_FEATURE = "gapless_columns"
"""Reader feature of a table whose columns have changed in a way that protocol 7 cannot say."""


def encode_identity(ids: ColumnIds, path: ColumnPath) -> dict[str, object]:
    """The keys of the field at a path; of the whole schema for `()`."""
    found: dict[str, object] = {}
    if path in ids.stored:
        found["gapless_stored"] = ids.stored[path]
    if ids.former.get(path):
        found["gapless_former"] = list(ids.former[path])
    if path in ids.defaults:
        found["gapless_default"] = encode_bound(ids.defaults[path])
    if ids.retired.get(path):
        found["gapless_retired"] = sorted(ids.retired[path])
    return found


def decode_identities(obj: Mapping[str, Any], schema: pa.Schema) -> ColumnIds:
    """The identities that a `logical_schema` says; `schema` is what it says of types.

    Raises ValueError, LookupError, TypeError, UnknownColumn or an error of Arrow where they are no identities of such columns.
    """
    bodies = dict(_fields(obj))
    ids = ColumnIds(
        stored={path: _name(body["gapless_stored"]) for path, body in bodies.items() if "gapless_stored" in body},
        former={path: tuple(map(_name, body["gapless_former"])) for path, body in bodies.items() if "gapless_former" in body},
        defaults={
            path: _default(body["gapless_default"], find_field(schema, path))
            for path, body in bodies.items()
            if "gapless_default" in body
        },
        retired={
            path: frozenset(map(_name, body["gapless_retired"])) for path, body in bodies.items() if "gapless_retired" in body
        },
    )
    _check_distinct(pa.struct(list(ids.physical_schema(schema))))
    return ids


def _fields(obj: Mapping[str, Any]) -> Iterator[tuple[ColumnPath, Mapping[str, Any]]]:
    yield (), obj
    for column in [*obj["columns"], *obj.get("pending", ())]:
        yield from _nested(column, (str(column["name"]),))


def _nested(body: Mapping[str, Any], path: ColumnPath) -> Iterator[tuple[ColumnPath, Mapping[str, Any]]]:
    yield path, body
    match body.get("data_type"):
        case {"Struct": {"fields": fields}}:
            for child in fields:
                yield from _nested(child, (*path, str(child["name"])))
        case {"List": {"elements": element}}:
            yield from _nested(element, (*path, "element"))
        case {"Map": {"key": key, "value": value}}:
            yield from _nested(key, (*path, "key"))
            yield from _nested(value, (*path, "value"))


def _name(text: object) -> str:
    if not isinstance(text, str) or not text:
        raise TypeError(f"{text!r} is no name")
    return text


def _default(raw: object, column: pa.Field) -> Bound:
    bound = decode_bound(raw)
    if bound is None:
        raise ValueError(f"{raw!r} is no default")
    arrow_scalar(bound, column.type)
    return bound


def _check_distinct(type_: pa.DataType) -> None:
    names = [child.name for child in children(type_)]
    if pa.types.is_struct(type_) and len(set(names)) < len(names):
        raise ValueError(f"two fields have one stored name: {names}")
    for child in children(type_):
        _check_distinct(child.type)
