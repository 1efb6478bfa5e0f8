"""Conflict detection for maintenance commits: compaction, schema and property changes, vacuum, expiry, restore, tags. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

import pyarrow as pa

from gapless.formats.timeseries.actions import (
    Action,
    AddSegment,
    Commit,
    ExpireVersions,
    Removed,
    RemoveSegment,
    SetTag,
    TableMeta,
    TableState,
    UpdateTableMeta,
)
from gapless.formats.timeseries.codec.metadata import with_features
from gapless.formats.timeseries.codec.schema import COLUMNS_FEATURE
from gapless.formats.timeseries.conflict.rows import OPERATION, PROPERTIES, SCHEMA, SEGMENTS
from gapless.formats.timeseries.conflict.rules import change_of, rules
from gapless.log.effects import Conversation
from gapless.log.format import Compatible, Conflicting
from gapless.model.column_ids import ColumnIds, ColumnPath, steps
from gapless.model.operation import OperationId
from gapless.model.properties import Properties
from gapless.model.types import children


def check_alter(mine: Commit, _version: int, theirs: Commit) -> Conversation[Compatible[Commit] | Conflicting]:
    """See `gapless.log.format.ConflictChecker`: rows may come first, in any columns; after other metadata ours is decided again."""
    yield from ()
    asked = {rule.condition for rule in rules("schema", change_of(theirs), "reject")}
    return Conflicting(SCHEMA) if "other metadata" in asked and theirs.meta is not None else Compatible(mine)


METADATA = "metadata"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactChecker:
    """What a compaction needs to hold: that the segments which it laid out anew are live until it is committed."""

    removed: AbstractSet[str]
    """Their paths; all of them live in the version that the compaction is first tried after."""

    def check_conflict(self, mine: Commit, _version: int, theirs: Commit) -> Conversation[Compatible[Commit] | Conflicting]:
        """Apply the rules of a compaction; see `gapless.log.format.ConflictChecker`. A conflict names the paths that are gone."""
        asked = {rule.condition for rule in rules("compact", change_of(theirs), "allow")}
        gone = set(theirs.removed) & self.removed
        if "same segments" in asked and gone:
            return Conflicting(SEGMENTS, ", ".join(sorted(gone)))
        if theirs.meta is not None and mine.meta is not None:
            # Ours claims the table as it was; theirs, which came first, is the newer word on it.
            return Conflicting(METADATA)
        return Compatible(mine)
        yield  # a conversation that asks nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyChecker:
    """What a change of properties needs to hold."""

    checked_rows: bool
    """Whether it holds only for the rows that were there: a table that becomes unique."""
    in_files: bool = False
    """Whether it needs all rows to lie in files: a table that becomes published."""
    operation: OperationId | None = None

    def check_conflict(self, mine: Commit, _version: int, theirs: Commit) -> Conversation[Compatible[Commit] | Conflicting]:
        """Apply the rules of a change of properties. After a conflict it is made to the newest version."""
        yield from ()
        asked = {rule.condition for rule in rules("properties", change_of(theirs), "reject")}
        if "same operation" in asked and self.operation is not None and theirs.applies(self.operation):
            return Conflicting(OPERATION)
        if "other metadata" in asked and theirs.meta is not None:
            return Conflicting(SCHEMA)
        if "unchecked rows" in asked and self.checked_rows and any(segment.data_change for segment in theirs.added):
            return Conflicting(PROPERTIES)
        if self.in_files and any(segment.data is not None for segment in theirs.added):
            return Conflicting(PROPERTIES)
        return Compatible(mine)


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumChecker:
    """What a vacuum needs to hold for what it deletes to be deleted."""

    paths: frozenset[str]
    """The segments it gives up."""
    removed: Mapping[str, Removed]
    """Those of them that were part of the table once, by path."""

    def check_conflict(self, mine: Commit, _version: int, theirs: Commit) -> Conversation[Compatible[Commit] | Conflicting]:
        """Clashes where the other commit makes one of the segments live, or tags a version that has one."""
        yield from ()
        if any(segment.path in self.paths for segment in theirs.added):
            return Conflicting("it made segments live that were to be deleted")
        tagged = [action.version for action in theirs.actions if isinstance(action, SetTag) and action.version is not None]
        if any(gone.added <= version < gone.removed for version in tagged for gone in self.removed.values()):
            return Conflicting("it tagged a version that needs segments which were to be deleted")
        return Compatible(mine)


def check_expiry(mine: Commit, _version: int, theirs: Commit) -> Conversation[Compatible[Commit] | Conflicting]:
    """Expiry follows everything; metadata that came first stay, with the features that ours adds. In a table that may be published now in
    another format than before it is decided again: what that describes is kept.
    """
    yield from ()
    ours, newer = mine.meta, theirs.meta
    if newer is not None and newer.properties.publish and change_of(theirs) in ("schema", "properties"):
        return Conflicting(PROPERTIES)
    if ours is None or newer is None:
        return Compatible(mine)
    merged = replace(
        newer,
        reader_features=newer.reader_features | ours.reader_features,
        writer_features=newer.writer_features | ours.writer_features,
    )
    others: tuple[Action, ...] = tuple(action for action in mine.actions if not isinstance(action, UpdateTableMeta))
    return Compatible(replace(mine, actions=(UpdateTableMeta(merged), *others)))


EXPIRED = "expired"
CHANGED = "changed"
TAGGED = "tagged"


def plan_restore(now: TableState, then: TableState) -> tuple[Action, ...]:
    """What turns `now` into a table with the rows, the columns and the properties of `then`, an earlier state of it; nothing where
    it is that already.
    """
    meta = restored_meta(now.meta, then.meta)
    return (
        *(() if _says_same(meta, now.meta) else (UpdateTableMeta(meta),)),
        *(RemoveSegment(path) for path in now.live if path not in then.live),
        *(AddSegment(replace(one.segment, data_change=True)) for path, one in then.live.items() if path not in now.live),
    )


def restored_meta(now: TableMeta, then: TableMeta) -> TableMeta:
    """Earlier metadata as a commit after `now` may say them: features stay, and no column that came since gives its stored name away."""
    meta = replace(
        then,
        ids=_keep_retired(now, then),
        properties=_keep_published(now.properties, then.properties),
        logical=now.logical,
        reader_features=now.reader_features | then.reader_features,
        writer_features=now.writer_features | then.writer_features,
    )
    if then.schema is None and now.schema is not None:
        # Protocol 7 knows no way back to a table without columns.
        meta = replace(meta, logical=None, reader_features=meta.reader_features | {COLUMNS_FEATURE})
    return with_features(meta)


def _keep_published(now: Properties, then: Properties) -> Properties:
    """Earlier properties, but for how the table is published: readers elsewhere follow what the restore brings, too."""
    kept = replace(
        then,
        publish=now.publish,
        publish_on_commit=now.publish_on_commit,
        iceberg_catalog=now.iceberg_catalog,
        iceberg_table=now.iceberg_table,
        iceberg_partition=now.iceberg_partition,
    )
    return replace(kept, inline_bytes=0) if now.publish else kept


def _says_same(mine: TableMeta, other: TableMeta) -> bool:
    """Whether metadata say the same, metadata of columns among it, which schemas do not compare by themselves."""
    return mine == other and (mine.schema is None or bool(mine.schema.equals(other.schema, check_metadata=True)))


def _keep_retired(now: TableMeta, then: TableMeta) -> ColumnIds:
    """The identities of `then`, with every stored name retired that was given since."""
    if then.schema is None or now.schema is None:
        return then.ids
    given = {stored: names for stored, _, names in _structs(now)}
    retired: dict[ColumnPath, frozenset[str]] = {}
    for stored, path, names in _structs(then):
        held = names - then.ids.retired.get(path, frozenset())
        if gone := (names | given.get(stored, frozenset())) - held:
            retired[path] = gone
    return replace(then.ids, retired=retired)


def _structs(meta: TableMeta) -> Iterator[tuple[ColumnPath, ColumnPath, frozenset[str]]]:
    """Of the table and of each struct in it: its path by stored names, its path by declared ones, and all stored names it ever gave."""
    assert meta.schema is not None
    open_paths: list[tuple[ColumnPath, pa.DataType]] = [((), pa.struct(list(meta.schema)))]
    while open_paths:
        path, kind = open_paths.pop()
        below = [((*path, step), child.type) for step, child in zip(steps(kind), children(kind), strict=True)]
        open_paths += below
        if pa.types.is_struct(kind):
            held = frozenset(meta.ids.stored_name(*child) for child, _ in below)
            yield meta.ids.stored_path(path), path, held | meta.ids.retired.get(path, frozenset())


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreChecker:
    """What a restore needs to hold: that the table is still what it turns back, and the version still there."""

    version: int
    """The version that is brought back."""

    def check_conflict(self, mine: Commit, _version: int, theirs: Commit) -> Conversation[Compatible[Commit] | Conflicting]:
        """See `gapless.log.format.ConflictChecker`. After a conflict it is planned anew."""
        yield from ()
        if expires(theirs, self.version):
            return Conflicting(EXPIRED)
        if any(isinstance(action, AddSegment | RemoveSegment | UpdateTableMeta) for action in theirs.actions):
            return Conflicting(CHANGED)
        return Compatible(mine)


@dataclass(frozen=True, slots=True, kw_only=True)
class TagChecker:
    """What a tag needs to hold: that no one else set it, and that its version is still there."""

    name: str
    version: int | None
    """The version it names; None where the tag is taken away."""

    def check_conflict(self, mine: Commit, _version: int, theirs: Commit) -> Conversation[Compatible[Commit] | Conflicting]:
        """See `gapless.log.format.ConflictChecker`. After a conflict it is looked at anew."""
        yield from ()
        if self.version is not None and expires(theirs, self.version):
            return Conflicting(EXPIRED)
        if any(isinstance(action, SetTag) and action.name == self.name for action in theirs.actions):
            return Conflicting(TAGGED)
        return Compatible(mine)


def expires(commit: Commit, version: int) -> bool:
    """Whether a commit may let go of a version: it expires it, or takes a tag from it or moves one."""
    return any(
        (isinstance(action, ExpireVersions) and action.before > version) or isinstance(action, SetTag)
        for action in commit.actions
    )
