"""What differs between two versions of a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace

import pyarrow as pa

from gapless.dialects.timeseries.actions import TableMeta, TableState
from gapless.dialects.timeseries.reading_meta import reading_meta
from gapless.log.dialect import Snapshot
from gapless.model.properties import Properties
from gapless.model.protocols import Store
from gapless.model.segment import Segment
from gapless.table.changes import Change, diff_rows_of
from gapless.table.rows import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaDiff:
    """How columns differ, told apart by their identities and not by their names; nested fields count as part of their column."""

    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    renamed: Mapping[str, str]
    """New names by the old ones."""
    retyped: Mapping[str, tuple[pa.DataType, pa.DataType]]
    """Type before and after, by the name after."""
    reordered: bool = False
    """Whether the columns that both have come in another order."""

    def __bool__(self) -> bool:
        """Whether anything differs."""
        return bool(self.added or self.dropped or self.renamed or self.retyped or self.reordered)


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionDiff:
    """What differs between two versions of a table, by the log; `rows` reads the rows that differ."""

    from_version: int
    to_version: int
    schema: SchemaDiff
    properties: Mapping[str, tuple[object, object]]
    """Value before and after, by the name of each property that differs."""
    added: tuple[Segment, ...]
    """Segments that only `to_version` has."""
    removed: tuple[Segment, ...]
    """Segments that only `from_version` has."""
    rows_before: int
    """Rows of `from_version`."""
    rows_after: int
    """Rows of `to_version`."""
    reader: Callable[[Change], Rows]
    """Reads the rows of a change; for `rows`."""

    @property
    def added_rows(self) -> int:
        """Rows of the segments that only `to_version` has, some of which `from_version` may have in others."""
        return sum(segment.rows for segment in self.added)

    @property
    def removed_rows(self) -> int:
        """Rows of the segments that only `from_version` has, some of which `to_version` may have in others."""
        return sum(segment.rows for segment in self.removed)

    def rows(self) -> Rows:
        """The rows that differ, not read yet, with a column `_change_type` behind: what must be deleted from `from_version`, updated in
        it and inserted into it to have `to_version`, as in `TableView.changes`, but net. Columns are those of the newer version, in
        wider types where it was restored to narrower ones. Raises InvalidOption where no type holds a column of both.
        """
        return self.reader(Change(removed=self.removed, added=self.added))

    def __repr__(self) -> str:
        """The counts."""
        segments = f"+{len(self.added)} -{len(self.removed)} segments"
        rows = f"{self.rows_before} -> {self.rows_after} rows"
        return f"VersionDiff({self.from_version} -> {self.to_version}, {segments}, {rows}, {self.schema})"


def diff_versions(store: Store, before: Snapshot[TableState], after: Snapshot[TableState]) -> VersionDiff:
    """What differs between two snapshots of one table, either of which may be the older."""
    old, new = before.state, after.state
    older, newer = (old.meta, new.meta) if before.version <= after.version else (new.meta, old.meta)
    return VersionDiff(
        from_version=before.version,
        to_version=after.version,
        schema=diff_schemas(old.meta, new.meta),
        properties=_diff_properties(old.meta.properties, new.meta.properties),
        added=tuple(segment for segment in new.segments if segment.path not in old.live),
        removed=tuple(segment for segment in old.segments if segment.path not in new.live),
        rows_before=sum(segment.rows for segment in old.segments),
        rows_after=sum(segment.rows for segment in new.segments),
        reader=lambda change: diff_rows_of(store, replace(new, meta=reading_meta((older, newer))), change),
    )


def diff_schemas(before: TableMeta, after: TableMeta) -> SchemaDiff:
    """How the columns of two versions differ."""
    old, new = _columns(before), _columns(after)
    common = [stored for stored in new if stored in old]
    return SchemaDiff(
        added=tuple(field.name for stored, field in new.items() if stored not in old),
        dropped=tuple(field.name for stored, field in old.items() if stored not in new),
        renamed={old[stored].name: new[stored].name for stored in common if old[stored].name != new[stored].name},
        retyped={
            new[stored].name: (old[stored].type, new[stored].type) for stored in common if old[stored].type != new[stored].type
        },
        reordered=common != [stored for stored in old if stored in new],
    )


def _columns(meta: TableMeta) -> dict[str, pa.Field]:
    """Declared columns by their stored names, in order."""
    return {meta.ids.stored_name(field.name): field for field in meta.schema or ()}


def _diff_properties(before: Properties, after: Properties) -> dict[str, tuple[object, object]]:
    pairs = ((field.name, getattr(before, field.name), getattr(after, field.name)) for field in fields(Properties))
    return {name: (old, new) for name, old, new in pairs if old != new}
