"""Which columns a table may have that is published as Hudi. Pure."""

from __future__ import annotations

import pyarrow as pa

from gapless.errors import InvalidChange, UnsupportedType
from gapless.formats.hudi.schema import problems, stored_problem, widening_problem
from gapless.model.column_ids import find_field
from gapless.publish.source import SourceColumns
from gapless.publish.stored_types import StoredColumns


def check_columns(columns: SourceColumns, before: SourceColumns | None) -> None:
    """Raise UnsupportedType for columns that a Hudi table cannot have or that some of its readers read wrongly, or that cannot follow those of
    `before`; InvalidChange for those that files hold under another name.
    """
    schema = columns.schema or pa.schema([])
    for name in columns.partition_by:
        raise UnsupportedType(
            f"the table cannot be published as Hudi: it is partitioned by {name!r}",
            why="Files do not hold the column, and hudi-rs looks for it there",
            fix="Make a table without partitions, or publish it as Iceberg",
            column=name,
            type="partition column",
        )
    for path, what, fix in problems(schema):
        raise UnsupportedType(
            f"column {path!r} cannot be published as Hudi: {what}",
            why="Every reader of what is published must see what the table holds",
            fix=f"{fix}, or take 'hudi' out of the property 'publish' first",
            column=path,
            type=path,
        )
    for renamed, stored in columns.ids.stored.items():
        raise InvalidChange(
            f"column {'.'.join(renamed)!r} cannot be published as Hudi: files hold it as {stored!r}",
            why="It was renamed, or has the name of a column that was dropped, and readers of Hudi find columns by the names in files",
            fix="Leave the name as it is, or take 'hudi' out of the property 'publish' first; a table that was renamed before needs new files",
            column=".".join(renamed),
        )
    known = {} if before is None or before.schema is None else {field.name: field.type for field in before.schema}
    for field in schema:
        if field.name in known and (why := widening_problem(known[field.name], field.type)):
            raise UnsupportedType(
                f"column {field.name!r} cannot become {field.type} where it is published as Hudi",
                why=why,
                fix="Leave the type as it is, or take 'hudi' out of the property 'publish' first",
                column=field.name,
                type=str(field.type),
            )


def check_stored(columns: SourceColumns, stored: StoredColumns) -> None:
    """Raise UnsupportedType for a column whose files hold a type that readers of Hudi do not take for that of now."""
    for path, held in stored.older.items():
        now = find_field(columns.schema or pa.schema([]), path).type
        for type_, files in held.items():
            if why := stored_problem(type_, now, nested=len(path) > 1):
                raise UnsupportedType(
                    f"column {'.'.join(path)!r} of type {now} cannot be published as Hudi: {why}",
                    why=f"{len(files)} live files were written before it was widened, or elsewhere, such as {files[0]}",
                    fix="Write their rows anew first: compact(resort=True), or an upsert of them",
                    column=".".join(path),
                    type=str(now),
                )
