"""Which columns a table may have that is published as Iceberg. Pure."""

from __future__ import annotations

import pyarrow as pa

from gapless.errors import InvalidChange, UnsupportedType
from gapless.formats.iceberg.partitions import check_partitions
from gapless.formats.iceberg.schema import FieldIds, JsonObject, check_promotions, iceberg_schema, refuse_promotion
from gapless.formats.iceberg.types import primitive_type, takes
from gapless.model.column_ids import find_field
from gapless.model.types import bare_type, children, is_any_list
from gapless.publish.source import SourceColumns
from gapless.publish.stored_types import StoredColumns


def published_columns(columns: SourceColumns, known: FieldIds) -> tuple[list[JsonObject], FieldIds]:
    """The fields as the metadata spells them, and the ids of all that there ever were, `known` and new ones.

    Raises UnsupportedType for a column that readers of Iceberg cannot have, SchemaMismatch for names that they cannot tell apart, or for ids
    in files that other columns have.
    """
    assert columns.schema is not None
    fields, ids = iceberg_schema(columns.schema, columns.ids, known.with_given(columns.field_ids))
    check_partitions(columns.partition_by, fields)
    return fields, ids


def check_columns(columns: SourceColumns, before: SourceColumns | None) -> None:
    """Raise UnsupportedType or SchemaMismatch for columns that readers of Iceberg cannot have, or take for those of `before`; InvalidChange
    for other partition columns, and for ids that files would have from now on.
    """
    if columns.schema is None:
        return
    _check_ids(columns)
    old, known = ([], FieldIds()) if before is None or before.schema is None else published_columns(before, FieldIds())
    if before is not None and before.schema is not None:
        _check_same_layout(columns, before)
    now, _ = published_columns(columns, known)
    check_promotions(now, old)


def check_stored(columns: SourceColumns, stored: StoredColumns) -> None:
    """Raise UnsupportedType for a column whose files hold a type that readers of Iceberg do not take for that of now, or under another id."""
    for path, types in stored.older.items():
        declared = primitive_type(find_field(columns.schema, path).type, ".".join(path))
        for held in types:
            if not takes(held, declared):
                raise refuse_promotion(".".join(path), str(held), declared)
    if stored.other_ids:
        raise UnsupportedType(
            f"{len(stored.other_ids)} files cannot be published as Iceberg: their columns carry field ids that are not the table's",
            why=f"Readers of Iceberg go by the ids in files, and would take other columns out of {stored.other_ids[0]}",
            fix="Write their rows anew: set the property with rewrite=True (gapless publish --rewrite)",
            column="",
            type="field ids",
        )


def _check_ids(columns: SourceColumns) -> None:
    """Raise UnsupportedType where files carry ids of columns and none for what is in lists and maps."""
    for field in columns.schema if columns.field_ids and columns.schema is not None else ():
        if (path := _list_or_map(field.name, field.type)) is not None:
            raise UnsupportedType(
                f"column {path!r} cannot be published as Iceberg: the table has column mapping",
                why="Files of such tables carry field ids, and none for the values of lists and maps: readers of Iceberg find none of them",
                fix="Leave the column out, or make a table without column mapping",
                column=path,
                type=str(field.type),
            )


def _check_same_layout(columns: SourceColumns, before: SourceColumns) -> None:
    stored = [before.ids.stored_name(name) for name in before.partition_by]
    if [columns.ids.stored_name(name) for name in columns.partition_by] != stored:
        raise InvalidChange(
            f"the table cannot be partitioned by {list(columns.partition_by)!r} while it is published as Iceberg",
            why=f"What is described already is partitioned by {list(before.partition_by)!r}",
            fix="Take 'iceberg' out of the property 'publish' first, and set it again afterwards",
            column=",".join(columns.partition_by),
        )
    if columns.field_ids and not before.field_ids:
        raise InvalidChange(
            "the table cannot get column mapping while it is published as Iceberg",
            why="Its columns are described under ids of their own, and new files would carry others",
            fix="Take 'iceberg' out of the property 'publish' first, and set it again afterwards",
            column="",
        )


def _list_or_map(path: str, type_: pa.DataType) -> str | None:
    """The first list or map in a type, by its path."""
    if is_any_list(type_) or pa.types.is_map(bare_type(type_)):
        return path
    found = (_list_or_map(f"{path}.{child.name}", child.type) for child in children(bare_type(type_)))
    return next((one for one in found if one is not None), None)
