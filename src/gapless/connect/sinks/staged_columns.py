"""Columns of staged rows by their identity: where values go after columns were renamed, dropped or added again. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from gapless.errors import SchemaMismatch
from gapless.model.column_ids import ColumnIds, ColumnPath, Fields, steps
from gapless.model.convert import convert
from gapless.model.types import bare_type, children, with_children
from gapless.predicate.range import NameIndex


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumns:
    """The columns of one version of a table."""

    schema: pa.Schema
    """By the names that they have in it; without any, where the first rows bring them."""
    ids: ColumnIds
    """What files call them."""
    any_case: bool
    """Whether names of rows match whatever their case."""


Pair = tuple[ColumnPath, ColumnPath]


def told_columns(rows: pa.Schema, table: TableColumns) -> list[dict[str, list[str]]]:
    """All columns of a table and the fields nested in them, for a prepared commit: the path by the names that rows of these columns have,
    the table's for what they lack, and the stored path where that is another one.
    """
    pairs = _pairs(list(table.schema), list(rows), table, ((), ()))
    return [{"name": [*name], **({} if name == stored else {"stored": [*stored]})} for name, stored in pairs]


def _pairs(fields: Sequence[pa.Field], rows: Sequence[pa.Field], table: TableColumns, above: Pair) -> Iterator[Pair]:
    """The path in the rows, and the stored path, of each of these fields; `above` are their parent's path in the table and in the rows."""
    names = NameIndex(field.name for field in fields)
    mine = {
        found[0]: one
        for one in rows
        if len(found := names.matching(one.name)) == 1 and (table.any_case or found[0] == one.name)
    }
    for field in fields:
        row = mine.get(field.name, field)
        path, told = (*above[0], field.name), (*above[1], row.name)
        yield told, table.ids.stored_path(path)
        yield from _below(field.type, bare_type(row.type), table, (path, told))


def _below(type_: pa.DataType, row: pa.DataType, table: TableColumns, above: Pair) -> Iterator[Pair]:
    if pa.types.is_struct(type_):
        yield from _pairs(list(type_), list(row) if pa.types.is_struct(row) else (), table, above)
        return
    beside = [child.type for child in children(row)] if steps(row) == steps(type_) else []
    for number, (step, child) in enumerate(zip(steps(type_), children(type_), strict=True)):
        other = bare_type(beside[number]) if beside else child.type
        yield from _below(child.type, other, table, ((*above[0], step), (*above[1], step)))


@dataclass(frozen=True, slots=True)
class NamesNow:
    """What the columns of staged rows are called in a version of the table."""

    paths: Mapping[ColumnPath, ColumnPath | None]
    """By the path of a column or field as the rows have it, its path in the table; None where it has that no more. Not in it are those that the
    table lacked when the rows were staged.
    """

    @classmethod
    def of(cls, told: Sequence[Mapping[str, Sequence[str]]], table: TableColumns) -> NamesNow:
        """From what `told_columns` said. Nothing is said of rows that were staged by the first releases: their names are taken as they are."""
        there = {stored: name for name, stored in _pairs(list(table.schema), (), table, ((), ()))}
        paths: dict[ColumnPath, ColumnPath | None] = {}
        for one in told:
            name = tuple(one["name"])
            paths[name] = there.get(tuple(one.get("stored", name)))
        return cls(paths)

    @property
    def moved(self) -> bool:
        """Whether any is called otherwise by now, or gone."""
        return any(now is None or now[-1] != name[-1] for name, now in self.paths.items())

    @property
    def moved_columns(self) -> dict[str, str]:
        """The names of top-level columns that are called otherwise, by those they had."""
        return {name[0]: now[0] for name, now in self.paths.items() if len(name) == 1 and now is not None and now != name}

    def column(self, name: str, role: str) -> str:
        """The name by now of a column that a change names as its `role`. Raises SchemaMismatch where it is gone."""
        now = self.paths.get((name,), (name,))
        if now is None:
            raise _mismatch([f"{role} {name!r} is not in the table any more"])
        return now[0]

    def then(self, names: Sequence[str]) -> list[str]:
        """What the columns of these names by now are called in the staged rows."""
        before = {now[0]: name[0] for name, now in self.paths.items() if len(name) == 1 and now is not None}
        return [before.get(name, name) for name in names]

    def check_nested(self, name: str, role: str) -> None:
        """Raise SchemaMismatch where a column that is named as a `role` has fields with other names, or is gone."""
        self.column(name, role)
        for path, now in self.paths.items():
            if len(path) > 1 and path[0] == name and (now is None or now[-1] != path[-1]):
                said = "is gone" if now is None else f"is called {now[-1]!r} now"
                raise _mismatch([f"{role} {name!r} has a field {'.'.join(path[1:])!r}, which {said}"])

    def rows(self, staged: pa.Table) -> pa.Table:
        """Staged rows under the names that their columns have by now, nested fields too.

        Raises SchemaMismatch for a column that the table has no more, and for one that it lacked, whose name another one has now.
        """
        if not self.moved:
            return staged
        differences: list[str] = []
        taken = set(self.paths.values())
        sources: dict[ColumnPath, str] = {}

        def rename(field: pa.Field, path: ColumnPath, above: ColumnPath) -> pa.Field:
            now: ColumnPath | None = (*above, field.name)
            if path in self.paths:
                now = self.paths[path]
            elif now in taken:
                differences.append(f"{'.'.join(path)}: is a column of that name which was called otherwise")
            if now is None:
                differences.append(f"{'.'.join(path)}: not in the table any more")
                return field
            if now[-1] != field.name:
                sources[now] = field.name
            return field.with_name(now[-1]).with_type(below(field.type, path, now))

        def below(type_: pa.DataType, path: ColumnPath, now: ColumnPath) -> pa.DataType:
            plain = bare_type(type_)
            if not pa.types.is_struct(plain):
                known = iter(steps(plain))
                return with_children(plain, lambda child: child.with_type(at_step(child.type, path, now, next(known))))
            return pa.struct([rename(child, (*path, child.name), now) for child in plain])

        def at_step(type_: pa.DataType, path: ColumnPath, now: ColumnPath, step: str) -> pa.DataType:
            return below(type_, (*path, step), (*now, step))

        fields = [rename(field, (field.name,), ()) for field in staged.schema]
        if differences:
            raise _mismatch(differences)
        columns = [
            _renamed(column, field, Fields(names={path[1:]: one for path, one in sources.items() if path[0] == field.name}))
            for column, field in zip(staged.columns, fields, strict=True)
        ]
        return pa.table(columns, names=[field.name for field in fields])

    def change(self, change: Mapping[str, Any]) -> dict[str, Any]:
        """A change's options with the names that columns have by now, but for those in SQL; entity columns keep theirs. Raises SchemaMismatch where one is gone."""
        said = dict(change)
        for option in ("key", "order_by"):
            if option in said:
                names = [said[option]] if isinstance(said[option], str) else said[option]
                said[option] = [self.column(name, option) for name in names]
        return said


def _renamed(column: pa.ChunkedArray, field: pa.Field, sources: Fields) -> pa.ChunkedArray:
    """A column whose nested fields take their values from those of other names, if any is called otherwise."""
    names = Fields(names={path: name for path, name in sources.names.items() if path})
    if not names:
        return column
    return pa.chunked_array([convert(chunk, field.type, names) for chunk in column.chunks], field.type)


def _mismatch(differences: list[str]) -> SchemaMismatch:
    return SchemaMismatch(
        "; ".join(differences),
        why="Its columns were other ones when the rows were prepared; nothing was committed",
        fix="Bring the columns back",
        differences=tuple(differences),
    )
