"""A Delta table as the source of its publications."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from gapless.errors import VersionNotFound
from gapless.files.read.source import segment_footer
from gapless.formats.delta.actions import AddFile, Commit, Metadata, RemoveFile, TableState
from gapless.formats.delta.conflict import OURS, RESTORE, vacuum_cutoff_ns
from gapless.formats.delta.file_path import AbsolutePath, canonical, locate
from gapless.formats.delta.format import DELTA
from gapless.formats.delta.operation_ids import kind_of_change
from gapless.formats.delta.partitions import Partitions
from gapless.formats.delta.properties import Settings
from gapless.formats.delta.publishing import publish_settings
from gapless.formats.delta.schema.arrow_types import to_arrow
from gapless.formats.delta.schema.column_mapping import ids_by_name, stored_field_ids
from gapless.formats.delta.stats_codec import StatsReader
from gapless.log.format import Snapshot
from gapless.log.snapshot import load
from gapless.log.versions import read_back, read_range
from gapless.model.operation import SequenceId, operation_key
from gapless.model.protocols import Store
from gapless.model.publishing import PublishedFormat, PublishSettings
from gapless.model.segment import StoredFile
from gapless.model.stats import ColumnStats
from gapless.publish.source import Obstacle, SourceChange, SourceColumns, SourceFile, published_mark
from gapless.runtime.environment import Environment

_OPERATIONS = {
    "append": "append",
    "overwrite": "overwrite",
    "delete": "delete",
    "update": "upsert",
    "merge": "upsert",
    "dedup": "upsert",
}
_OTHERS = {"OPTIMIZE": "compact", RESTORE: "restore", "VACUUM START": "vacuum"}
"""What Delta calls changes, by what time-series tables call them; all others change columns or properties."""


@dataclass(frozen=True)
class DeltaSource:
    """See `gapless.publish.source.Source`, which this implements."""

    env: Environment
    snapshot: Snapshot[TableState]

    @property
    def version(self) -> int:
        """Its number."""
        return self.snapshot.version

    @property
    def settings(self) -> PublishSettings:
        """How it is to be published."""
        return publish_settings(self.snapshot.state.configuration)

    @cached_property
    def columns(self) -> SourceColumns:
        """Its columns."""
        return columns_of(self.snapshot.state.metadata)

    @property
    def kept(self) -> Collection[int]:
        """None: Delta has no tags."""
        return ()

    def whole(self) -> SourceChange:
        """All that it has, as one change."""
        state = self.snapshot.state
        return SourceChange(
            version=self.version,
            time_ns=self.snapshot.time_ns,
            operation="publish",
            columns=self.columns,
            added=tuple(files_of(self.env.store, state.metadata, state.files.values())),
            earliest=self._vacuumed(),
            looked_at=False,
        )

    def changes_after(self, published: int, format_: PublishedFormat) -> list[SourceChange] | None:
        """See `gapless.publish.source.Source`."""
        if published >= self.version:
            return []
        try:
            commits = self.env.drive(read_range(DELTA, published + 1, self.version + 1))
            before = self._before(published, commits)
        except VersionNotFound:
            return None
        metadata = self.snapshot.state.metadata if before is None else before.metadata
        # Which files are live, as far as it must be known: a writer may name one again that is.
        live = set() if before is None else {canonical(file.path) for file in before.files.values()}
        changes = []
        for version, entry, time_ns in commits:
            metadata = entry.metadata or metadata
            if format_ not in publish_settings(metadata.configuration).formats:
                return None
            changes.append(self._change(version, entry, time_ns, metadata, live))
        return changes

    def at(self, version: int | None) -> DeltaSource | None:
        """Another version of it."""
        found = self.env.drive(load(DELTA) if version is None else load(DELTA, version))
        return None if found is None else DeltaSource(self.env, found)

    def remembered(self, format_: str) -> int:
        """What its vacuum said last."""
        known = self.snapshot.state.applied.get(operation_key(published_mark(format_, 0)))
        return known.operation.sequence if known and isinstance(known.operation, SequenceId) else 0

    def is_live(self, path: str) -> bool:
        """Whether it has a file."""
        return path in self._live

    def was_removed(self, path: str) -> bool:
        """Whether an earlier version had it, as far as its tombstones go."""
        return path in self._removed

    @cached_property
    def _live(self) -> frozenset[str]:
        return frozenset(_path(self.env.store, one.path)[0] for one in self.snapshot.state.files.values())

    @cached_property
    def _removed(self) -> frozenset[str]:
        return frozenset(_path(self.env.store, one.path)[0] for one in self.snapshot.state.removed.values())

    def _before(self, published: int, commits: Iterable[tuple[int, Commit, int]]) -> TableState | None:
        """The version before these commits, where what they say is not enough."""
        if all(entry.metadata is None and _names_new_files(entry) for _, entry, _ in commits):
            return None
        found = self.env.drive(load(DELTA, published))
        return None if found is None else found.state

    def _change(self, version: int, entry: Commit, time_ns: int, metadata: Metadata, live: set[str]) -> SourceChange:
        store = self.env.store
        removed = {canonical(one.path): one for one in entry.removed}
        added = {canonical(one.path): one for one in entry.added}
        # Named again, with other statistics or tags: the same rows, which are published already.
        same = {
            key
            for key, one in added.items()
            if one.deletion_vector is None and (key in live if key not in removed else removed[key].deletion_vector is None)
        }
        live.difference_update(removed)
        live.update(added)
        return SourceChange(
            version=version,
            time_ns=time_ns,
            operation=_operation_of(entry),
            columns=columns_of(metadata),
            added=tuple(files_of(store, metadata, (one for key, one in added.items() if key not in same))),
            removed=tuple(_path(store, one.path)[0] for key, one in removed.items() if key not in same),
            changes_rows=entry.changes_rows,
            earliest=0 if vacuum_cutoff_ns(entry, time_ns) is None else self._vacuumed(version),
            looked_at=is_ours(entry) and entry.operation != RESTORE,
        )

    def _vacuumed(self, version: int | None = None) -> int:
        """The first version whose files no vacuum up to a version, the newest if none is said, deletes or has deleted, by what the log says."""
        entries = self.env.drive(read_back(DELTA, self.version if version is None else version))
        cutoffs = (cutoff for _, entry, time_ns in entries if (cutoff := vacuum_cutoff_ns(entry, time_ns)) is not None)
        cutoff = max(cutoffs, default=0)
        return max((at for at, entry, time_ns in entries if entry.removed and time_ns <= cutoff), default=0)


def is_ours(entry: Commit) -> bool:
    """Whether gapless made a commit."""
    return entry.engine.startswith(OURS)


def columns_of(metadata: Metadata) -> SourceColumns:
    """The columns that metadata declare."""
    mapped = Settings.of(metadata.configuration).column_mapping != "none"
    return SourceColumns(
        schema=to_arrow(metadata.schema) if metadata.schema.fields else None,
        ids=ids_by_name(metadata.schema),
        partition_by=metadata.partition_by,
        field_ids=stored_field_ids(metadata.schema) if mapped else {},
        holds_more=True,
    )


def files_of(store: Store, metadata: Metadata, files: Iterable[AddFile]) -> Iterator[SourceFile]:
    """Data files as publishers need them. Where the log does not say how many rows one has, its footer is read; raises CorruptTable."""
    reader, partitions = StatsReader(metadata.schema), Partitions.of(metadata)
    physical = {field.name: field.physical_name for field in metadata.schema}
    for file in files:
        path, obstacle = _path(store, file.path)
        if file.deletion_vector is not None:
            obstacle = "deleted rows"
        said = reader.parse(file.stats, deleted=file.deletion_vector is not None)
        rows = said.rows
        if rows is None and not obstacle:
            rows = int(segment_footer(store, StoredFile(path=path, size=file.size)).metadata.num_rows)
        stats: Mapping[str, ColumnStats] = {physical[at[0]]: told for at, told in said.columns.items() if len(at) == 1}
        values: dict[str, pa.Scalar] = {name: partitions.value(file, name) for name in partitions.columns}
        yield SourceFile(path=path, rows=rows or 0, size=file.size, stats=stats, partition=values, obstacle=obstacle)


def _path(store: Store, path: str) -> tuple[str, Obstacle]:
    """Where the file of a log's path lies, relative to the table's root; and whether it does not lie there."""
    found = locate(path)
    if not isinstance(found, AbsolutePath):
        return found.path, ""
    root = f"{store.url.rstrip('/')}/"
    return (found.url[len(root) :], "") if found.url.startswith(root) else (found.url, "elsewhere")


def _names_new_files(entry: Commit) -> bool:
    """Whether the files that a commit adds are certainly none that were live: ours have names of their own."""
    return not entry.added or (is_ours(entry) and entry.operation != RESTORE)


def _operation_of(entry: Commit) -> str:
    if entry.operation in _OTHERS:
        return _OTHERS[entry.operation]
    kind = kind_of_change(entry.operation, entry.parameters)
    if not (entry.added or entry.removed):
        return "alter"
    return _OPERATIONS.get(kind, "upsert" if isinstance(next(iter(entry.removed), None), RemoveFile) else "append")
