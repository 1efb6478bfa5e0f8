"""Going back to an earlier version, as a commit, and what it and a tag may follow. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from gapless.dialects.timeseries.actions import (
    Action,
    AddSegment,
    Commit,
    ExpireVersions,
    RemoveSegment,
    SetTag,
    TableMeta,
    TableState,
    UpdateTableMeta,
)
from gapless.dialects.timeseries.features import claim
from gapless.dialects.timeseries.identity_codec import COLUMNS_FEATURE
from gapless.log.requests import Talk
from gapless.log.verdict import Clash, Stands
from gapless.model.column_ids import ColumnIds, ColumnPath, steps
from gapless.model.types import children

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
        logical=now.logical,
        reader_features=now.reader_features | then.reader_features,
        writer_features=now.writer_features | then.writer_features,
    )
    if then.schema is None and now.schema is not None:
        # Protocol 7 knows no way back to a table without columns.
        meta = replace(meta, logical=None, reader_features=meta.reader_features | {COLUMNS_FEATURE})
    return claim(meta)


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
class RestoreTerms:
    """What a restore needs to hold: that the table is still what it turns back, and the version still there."""

    version: int
    """The version that is brought back."""

    def judge(self, mine: Commit, _version: int, theirs: Commit) -> Talk[Stands[Commit] | Clash]:
        """See `gapless.log.commit.Judge`. After a clash it is planned anew."""
        yield from ()
        if expires(theirs, self.version):
            return Clash(EXPIRED)
        if any(isinstance(action, AddSegment | RemoveSegment | UpdateTableMeta) for action in theirs.actions):
            return Clash(CHANGED)
        return Stands(mine)


@dataclass(frozen=True, slots=True, kw_only=True)
class TagTerms:
    """What a tag needs to hold: that no one else set it, and that its version is still there."""

    name: str
    version: int | None
    """The version it names; None where the tag is taken away."""

    def judge(self, mine: Commit, _version: int, theirs: Commit) -> Talk[Stands[Commit] | Clash]:
        """See `gapless.log.commit.Judge`. After a clash it is looked at anew."""
        yield from ()
        if self.version is not None and expires(theirs, self.version):
            return Clash(EXPIRED)
        if any(isinstance(action, SetTag) and action.name == self.name for action in theirs.actions):
            return Clash(TAGGED)
        return Stands(mine)


def expires(commit: Commit, version: int) -> bool:
    """Whether a commit may let go of a version: it expires it, or takes a tag from it or moves one."""
    return any(
        (isinstance(action, ExpireVersions) and action.before > version) or isinstance(action, SetTag)
        for action in commit.actions
    )
