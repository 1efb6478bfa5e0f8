"""The change feed of time-series tables: the rows that each commit added and removed, by the log and the segments it names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from gapless.errors import VersionNotFound
from gapless.files.compare.row_diff import DELETE, INSERT, all_rows, diff_ordered
from gapless.formats.timeseries.actions import AddSegment, Commit, LiveSegment, RemoveSegment, TableMeta, TableState
from gapless.formats.timeseries.common_schema import reading_meta
from gapless.formats.timeseries.conflict.rules import change_of
from gapless.formats.timeseries.format import TIME_SERIES
from gapless.log.format import Snapshot
from gapless.log.versions import read_range
from gapless.model.protocols import Store
from gapless.model.segment import Segment
from gapless.runtime.environment import Environment
from gapless.tables.shared.changes import TYPE_FIELD, CommitChange, change_feed, check_range, collect_changes, feed_schema
from gapless.tables.shared.scan import Rows
from gapless.tables.timeseries.read.scan import ScanRequest
from gapless.tables.timeseries.read.versions import open_version, remains


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The segments that a commit removed and added; some rows may be in both."""

    removed: tuple[Segment, ...]
    added: tuple[Segment, ...]

    def rows(self, store: Store, state: TableState) -> Iterator[pa.Table]:
        """The rows that changed, under the columns of `state`, with a column `_change_type` behind; see `diff_rows`."""
        if self.removed and self.added:
            before, after = (_rows_of(store, state, some, "index") for some in (self.removed, self.added))
            yield from diff_ordered(before.to_batches(), after.to_batches(), before.schema, state.meta.index)
            return
        for batch in _rows_of(store, state, self.removed or self.added, None).to_batches():
            yield all_rows(batch, DELETE if self.removed else INSERT)


CommitRows = CommitChange[Change]
"""The segments that one commit changed."""


def change_rows(
    env: Environment, newest: Snapshot[TableState], first: int, last: int, columns: object, exclude: object = None
) -> Rows:
    """The changes of versions `[first, last]`, which the newest version must keep, as `TableView.changes` gives them."""
    check_range(first, last, earliest=TIME_SERIES.first, newest=newest.version)
    state, commits = newest.state, list[CommitRows]()
    if first <= last:
        if first < state.earliest:
            raise _cannot_tell(state, first, f"Versions before {state.earliest} are expired", state.earliest + 1)
        commits, metas = changes_between(env, newest, first, last + 1)
        state = replace(state, meta=reading_meta(metas))
    return rows_of_changes(env.store, state, commits, feed_schema(state.meta.schema or pa.schema([]), columns, exclude))


def rows_of_changes(store: Store, state: TableState, commits: Sequence[CommitRows], schema: pa.Schema) -> Rows:
    """The rows that commits changed, under the columns of `state`, as a feed of this schema."""
    return change_feed(schema, lambda: ((one, rows) for one in commits for rows in one.change.rows(store, state)))


def changes_between(
    env: Environment, newest: Snapshot[TableState], start: int, end: int
) -> tuple[list[CommitRows], list[TableMeta]]:
    """The changes of versions `[start, end)`, at least one, without commits that changed no row; and the table's metadata before them and
    after each that changed it.

    Raises VersionNotFound where that can be told no longer, CorruptTable, StoreError.
    """
    entries = env.drive(read_range(TIME_SERIES, start, end))
    live, metas = _before(env, newest, start, entries[0][1])
    return collect_changes(entries, lambda _, commit: _apply(live, commit), since_ns=None), metas + [
        commit.meta for _, commit, _ in entries if commit.meta is not None
    ]


def diff_rows_of(store: Store, state: TableState, change: Change) -> Rows:
    """The rows of one change under the columns of `state`, with `_change_type`."""
    schema = feed_schema(state.meta.schema or pa.schema([]), None, ours=(TYPE_FIELD,))

    def read() -> Iterator[pa.RecordBatch]:
        if change.removed or change.added:
            for rows in change.rows(store, state):
                yield from pa.Table.from_arrays(rows.columns, schema=schema).to_batches()

    return Rows(schema, read)


def _before(
    env: Environment, newest: Snapshot[TableState], first: int, commit: Commit
) -> tuple[dict[str, Segment], list[TableMeta]]:
    """The segments that were live before the first version of a range, as far as commits of the range may remove them, and what
    the table was.
    """
    if first == 1:
        return {}, []
    if newest.state.keeps(first - 1):
        state = open_version(env, newest, first - 1).state
        return _segments(state.live), [state.meta]
    if change_of(commit) == "rewrite":
        raise _cannot_tell(newest.state, first, f"The rows of version {first - 1} are needed too, and it is expired", first + 1)
    state, added = open_version(env, newest, first).state, {segment.path for segment in commit.added}
    return {path: segment for path, segment in _segments(state.live).items() if path not in added}, [state.meta]


def _apply(live: dict[str, Segment], commit: Commit) -> Change | None:
    """A commit's change, applied to the segments that were live before it; None where no row changed."""
    removed: dict[str, Segment] = {}
    for action in commit.actions:
        if isinstance(action, RemoveSegment) and (gone := live.pop(action.path, None)) is not None:
            removed[action.path] = gone
        elif isinstance(action, AddSegment):
            live[action.segment.path] = action.segment
    added = {segment.path: segment for segment in commit.added if segment.path in live}
    change = Change(
        removed=tuple(segment for path, segment in removed.items() if path not in added),
        added=tuple(segment for path, segment in added.items() if path not in removed),
    )
    return None if change_of(commit) == "compact" or not (change.removed or change.added) else change


def _segments(live: Mapping[str, LiveSegment]) -> dict[str, Segment]:
    return {path: one.segment for path, one in live.items()}


def _cannot_tell(state: TableState, first: int, why: str, begin: int) -> VersionNotFound:
    return VersionNotFound(
        f"what version {first} changed can be told no longer",
        why=f"{why}; {remains(state)}",
        fix=f"Read version {begin - 1} whole, and ask for changes from version {begin} on",
        version=first,
    )


def _rows_of(store: Store, state: TableState, segments: Iterable[Segment], order: str | None) -> Rows:
    """All rows of some segments, live or not, under the columns of `state`."""
    alone = replace(state, live={one.path: LiveSegment(one, 0) for one in segments})
    return ScanRequest(start=None, end=None, where=None, entity={}, columns=None, order=order).rows(store, alone)
