"""The commits of a time-series table as its users see them, and the diff of two versions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from functools import partial

import pyarrow as pa

from gapless.formats.timeseries.actions import AddSegment, Commit, Removed, RemoveSegment, TableMeta, TableState
from gapless.formats.timeseries.common_schema import reading_meta
from gapless.log.format import Snapshot
from gapless.model.properties import Properties
from gapless.model.protocols import Store
from gapless.model.segment import Segment
from gapless.tables.shared.changes import duration_of
from gapless.tables.shared.scan import Rows
from gapless.tables.shared.schema_diff import SchemaDiff, diff_columns
from gapless.tables.timeseries.read.changes import Change, diff_rows_of


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One commit, as `history` shows it."""

    version: int
    time: datetime
    """Commit time from the log, UTC; never runs backward."""
    operation: str
    engine: str
    parameters: Mapping[str, object]
    rows: int
    """Rows of the segments it added."""
    segments: int
    """Segments it added."""
    bytes: int | None
    """Bytes of the segments it added; None where another writer left a size out."""
    removed_rows: int | None
    """Rows of the segments it took away; None where vacuum has forgotten one and the commit that added it was not read."""
    removed_segments: int
    """Segments it took away."""
    removed_bytes: int | None
    """Bytes of the segments it took away; None as for `removed_rows` and `bytes`."""
    duration: timedelta | None
    """From the call to the commit; None where the writer did not say."""
    tags: tuple[str, ...]
    """The names that the newest version known to the table gives this one."""
    commit_id: str


def history_entries(entries: Iterable[tuple[int, Commit, datetime]], state: TableState) -> list[HistoryEntry]:
    """The entries of commits (version, commit, commit time), oldest first. `state` is that of the last of them, or of a later
    version; it knows the tags, and segments that were removed.
    """
    known: dict[str, Segment | Removed] = dict(state.removed)
    return [_entry(version, commit, time, state, known) for version, commit, time in entries]


def _entry(
    version: int, commit: Commit, time: datetime, state: TableState, known: dict[str, Segment | Removed]
) -> HistoryEntry:
    removed: list[Segment | Removed | None] = []
    for action in commit.actions:
        if isinstance(action, AddSegment):
            known[action.segment.path] = action.segment
        elif isinstance(action, RemoveSegment):
            removed.append(known.get(action.path))
    return HistoryEntry(
        version=version,
        time=time,
        operation=commit.operation,
        engine=commit.engine,
        parameters=commit.parameters,
        rows=sum(segment.rows for segment in commit.added),
        segments=len(commit.added),
        bytes=_total([segment.size for segment in commit.added]),
        removed_rows=_total([None if gone is None else gone.rows for gone in removed]),
        removed_segments=len(removed),
        removed_bytes=_total([None if gone is None else gone.size for gone in removed]),
        duration=duration_of(commit.duration_ms),
        tags=tuple(sorted(name for name, tagged in state.tags.items() if tagged == version)),
        commit_id=commit.id,
    )


def _total(numbers: Sequence[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None


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
        reader=partial(_rows_that_differ, store, new, (older, newer)),
    )


def _rows_that_differ(store: Store, state: TableState, metas: tuple[TableMeta, TableMeta], change: Change) -> Rows:
    return diff_rows_of(store, replace(state, meta=reading_meta(metas)), change)


def diff_schemas(before: TableMeta, after: TableMeta) -> SchemaDiff:
    """How the columns of two versions differ."""
    return diff_columns(_columns(before), _columns(after))


def _columns(meta: TableMeta) -> dict[str, pa.Field]:
    """Declared columns by their stored names, in order."""
    return {meta.ids.stored_name(field.name): field for field in meta.schema or ()}


def _diff_properties(before: Properties, after: Properties) -> dict[str, tuple[object, object]]:
    pairs = ((field.name, getattr(before, field.name), getattr(after, field.name)) for field in fields(Properties))
    return {name: (old, new) for name, old, new in pairs if old != new}
