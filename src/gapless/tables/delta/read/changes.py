"""The change data feed of a Delta table: the rows that each commit added, removed and updated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from gapless.errors import SchemaMismatch, VersionNotFound
from gapless.formats.delta.actions import AddFile, Commit, Metadata, RemoveFile, TableState
from gapless.formats.delta.features import check_readable
from gapless.formats.delta.format import DELTA
from gapless.formats.delta.properties import Settings
from gapless.formats.delta.schema.arrow_types import to_arrow
from gapless.log.format import Snapshot
from gapless.log.versions import read_range
from gapless.runtime.environment import Environment
from gapless.tables.delta.files.open_file import PathResolver
from gapless.tables.delta.read.change_rows import (
    ChangedRows,
    CommitRows,
    FileChange,
    Live,
    changed_files,
    files_of,
    unreadable_as,
)
from gapless.tables.delta.read.versions import first_missing, open_version
from gapless.tables.shared.changes import COMMIT_FIELDS, change_feed, check_range, collect_changes, feed_schema
from gapless.tables.shared.scan import Rows


def change_rows(
    env: Environment, newest: Snapshot[TableState], first: int, last: int, columns: object, exclude: object = None
) -> Rows:
    """The changes of versions `[first, last]`, as `DeltaView.changes` gives them."""
    check_range(first, last, earliest=DELTA.first, newest=newest.version)
    metadata = open_version(env, newest, max(DELTA.first, min(last, newest.version))).state.metadata
    commits = _changes_between(env, newest, first, last, metadata) if first <= last else []
    schema = feed_schema(to_arrow(metadata.schema), columns, exclude)
    reader = ChangedRows(places=PathResolver(env.store), metadata=metadata)

    def read() -> Iterator[tuple[CommitRows, pa.Table]]:
        _require_stored(env, newest, commits)
        yield from reader.rows(commits, tuple(schema.names[: -1 - len(COMMIT_FIELDS)]))

    return change_feed(schema, read)


@dataclass(slots=True, kw_only=True)
class _ChangeCursor:
    """The table between two commits of the range."""

    url: str
    target: Metadata
    """The columns of the feed."""
    files: Mapping[str, AddFile]
    """Live before the range, by key; empty where that is not known any more."""
    enabled: bool
    """Whether the change feed is on."""
    since: dict[str, AddFile | None] = field(default_factory=dict)
    """What the range changed of that."""

    def live(self, file: AddFile | RemoveFile) -> AddFile | None:
        """The file as it is live, with the same deletion vector."""
        key = file.key
        return self.since[key] if key in self.since else self.files.get(key)

    def change(self, version: int, commit: Commit) -> tuple[FileChange, ...]:
        """What the next commit changed; raises VersionNotFound, SchemaMismatch, UnsupportedTable where that cannot be read."""
        if commit.protocol is not None:
            check_readable(commit.protocol, self.url)
        if commit.metadata is not None:
            self.enabled = is_fed(commit.metadata)
            check_columns(commit.metadata, self.target, version)
        if not self.enabled:
            raise _not_recorded(version)
        check_partitions(version, commit, self.target, self.live)
        change = tuple(changed_files(commit, self.live))
        self.since |= dict.fromkeys((file.key for file in commit.removed), None)
        self.since |= {file.key: file for file in commit.added}
        return change


def _changes_between(
    env: Environment, newest: Snapshot[TableState], first: int, last: int, target: Metadata
) -> list[CommitRows]:
    """What the commits of versions `[first, last]` changed, for a feed in the columns of `target`."""
    entries = env.drive(read_range(DELTA, first, last + 1))
    before = _before(env, newest, first)
    known = open_version(env, newest, first) if before is None and first > DELTA.first else before
    cursor = _ChangeCursor(
        url=env.store.url,
        target=target,
        files={} if before is None else before.state.files,
        enabled=known is not None and is_fed(known.state.metadata),
    )
    check_columns(None if known is None else known.state.metadata, target, first)
    return collect_changes(entries, cursor.change, since_ns=0 if before is None else before.time_ns)


def _before(env: Environment, newest: Snapshot[TableState], first: int) -> Snapshot[TableState] | None:
    """The version before the range; None where there is none, or the log can tell it no longer."""
    try:
        return open_version(env, newest, first - 1) if first > DELTA.first else None
    except VersionNotFound:
        return None


def is_fed(metadata: Metadata) -> bool:
    """Whether the change data feed is on."""
    return Settings.of(metadata.configuration).change_data_feed


def _not_recorded(version: int) -> VersionNotFound:
    return VersionNotFound(
        f"what version {version} changed was not recorded",
        why="The table's property delta.enableChangeDataFeed was not true then, so that rows which only moved cannot be told from others",
        fix="Ask for a later range; table.alter.set_properties({'delta.enableChangeDataFeed': 'true'}) records from then on",
        version=version,
    )


def check_partitions(version: int, commit: Commit, target: Metadata, live: Live) -> None:
    """Raise VersionNotFound where a removal does not say of which partition its rows were, and the log tells it no longer."""
    removed = () if commit.change_files or not target.partition_by else commit.removed
    for file in removed:
        if file.data_change and file.partition_values is None and live(file) is None:
            raise VersionNotFound(
                f"what version {version} changed can be told no longer: it removed {file.path}, of a partition that is not known",
                why="The log was cleaned of the commit that added the file, and the removal does not repeat its partition values",
                fix="Ask for a later range",
                version=version,
            )


def check_columns(metadata: Metadata | None, target: Metadata, version: int) -> None:
    """Raise SchemaMismatch where rows of a version with these columns do not fit those of `target`."""
    why = None if metadata is None else unreadable_as(metadata, target)
    if why is not None:
        raise SchemaMismatch(
            f"the changes cannot be shown in one set of columns: {why}",
            why=f"The columns were changed after version {version}, and old rows do not fit them",
            fix="Ask for the ranges before and after the change, each with its to_version",
            differences=(why,),
        )


def _require_stored(env: Environment, newest: Snapshot[TableState], commits: Sequence[CommitRows]) -> None:
    """Raise VersionNotFound where a file is gone that the changes are read from."""
    live = newest.state.files
    for one in reversed(commits):
        files = (file for part in one.change for file in files_of(part) if file.key not in live)
        gone = first_missing(env, (file.path for file in files))
        if gone is not None:
            raise VersionNotFound(
                f"what version {one.version} changed can be told no longer: its file {gone} is gone",
                why="A vacuum deleted it, since nothing younger needs it",
                fix=f"Read version {one.version} whole if it is still there, and ask for changes from version {one.version + 1} on",
                version=one.version,
            )
