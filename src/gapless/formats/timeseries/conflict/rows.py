"""Conflict detection for appends, upserts, deletes and replacements: by coverage. Pure, but for the sidecars it requests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from gapless.coverage.bitmap import CoverageMap, overlap
from gapless.coverage.bucket import Grid
from gapless.coverage.expected import covered_range
from gapless.formats.timeseries.actions import Action, Commit, TableMeta, UpdateTableMeta
from gapless.formats.timeseries.codec.metadata import with_features
from gapless.formats.timeseries.common_schema import common_schema
from gapless.formats.timeseries.conflict.rules import change_of, rules
from gapless.formats.timeseries.segment_coverage import read_coverage
from gapless.log.effects import Conversation, Get, GetUrl, perform
from gapless.log.format import Compatible, Conflicting
from gapless.model.column_ids import PLAIN, ColumnIds
from gapless.model.index import EntityType
from gapless.model.operation import OperationId
from gapless.model.properties import OnOverlap, Properties
from gapless.model.schema import stored_schema
from gapless.model.segment import Segment, SidecarCoverage, overlapping

OVERLAP = "overlap"
OPERATION = "operation"
SCHEMA = "schema"
PROPERTIES = "properties"
SEGMENTS = "segments"


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendChecker:
    """What an append needs to hold for its segments to stand."""

    on_overlap: OnOverlap
    coverage: CoverageMap
    """What the append covers."""
    schema: pa.Schema | None
    """The declared schema that its segments were written for; None where it wrote none for a table without one."""
    ids: ColumnIds = PLAIN
    """The identities of the columns that they were written for."""
    empty: frozenset[str] = frozenset()
    """The stored names of the columns in which they hold nothing but nulls, or nothing but the default."""
    entity_types: tuple[EntityType, ...]
    grid: Grid
    operations: tuple[OperationId, ...] = ()
    """What it is called, if it is called anything; a group commit has several."""
    unique: bool = False
    """Whether it checked that its keys are new, as far as the table's rows go that it knew."""
    by_table: bool = False
    """Whether `on_overlap` is what the table said, and not what the caller did."""

    def check_conflict(self, mine: Commit, _version: int, theirs: Commit) -> Conversation[Compatible[Commit] | Conflicting]:
        """Apply the rules of an append; see `gapless.log.format.ConflictChecker`."""
        policy = "skip" if self.unique and self.on_overlap == "allow" else self.on_overlap
        asked = {rule.condition for rule in rules("append", change_of(theirs), policy)}
        if "same operation" in asked and any(map(theirs.applies, self.operations)):
            return Conflicting(OPERATION)
        if theirs.meta is not None and self._is_other_than(theirs.meta.properties):
            return Conflicting(
                PROPERTIES, f"on_overlap={theirs.meta.properties.on_overlap!r}, unique={theirs.meta.properties.unique}"
            )
        if "published" in asked and theirs.meta is not None and self._is_not_published_so(mine, theirs.meta):
            return Conflicting(PROPERTIES, f"publish={list(theirs.meta.properties.publish)}")
        if "other types" in asked and theirs.meta is not None:
            rebased = self._rebase_meta(mine, theirs.meta)
            if isinstance(rebased, Conflicting):
                return rebased
            mine = rebased
        if "same buckets" in asked:
            for segment in overlapping_coverage(theirs.added, self.coverage, self.grid):
                found = overlap(self.coverage, (yield from coverage_of(segment, self.entity_types)), signed=self.grid.signed)
                if found is not None:
                    return Conflicting(OVERLAP, found)
        return Compatible(mine)

    def _is_other_than(self, theirs: Properties) -> bool:
        """Whether the table asks for what was not heeded."""
        return (theirs.unique and not self.unique) or (self.by_table and theirs.on_overlap != self.on_overlap)

    def _is_not_published_so(self, mine: Commit, theirs: TableMeta) -> bool:
        """Whether ours was made for a table that is not published as it is now, or in other columns: what it adds then was not looked at."""
        if not theirs.properties.publish:
            return False
        as_before = mine.meta is None or mine.meta.properties.publish == theirs.properties.publish
        return not as_before or any(segment.data is not None for segment in mine.added) or self._has_older_types(theirs)

    def _has_older_types(self, theirs: TableMeta) -> bool:
        if self.schema is None or theirs.schema is None:
            return False
        now = stored_schema(theirs.schema, theirs.ids)
        return any(
            field.name in now.names and now.field(field.name).type != field.type
            for field in stored_schema(self.schema, self.ids)
        )

    def _rebase_meta(self, mine: Commit, theirs: TableMeta) -> Commit | Conflicting:
        """Ours on top of their metadata: without an update of ours where theirs says all, else with ours added to it."""
        schema = common_schema(theirs, self.schema, self.ids, self.empty) if self.schema else theirs.schema
        if isinstance(schema, str):
            return Conflicting(SCHEMA, schema)
        actions: tuple[Action, ...] = tuple(action for action in mine.actions if not isinstance(action, UpdateTableMeta))
        if schema != theirs.schema or not theirs.is_ours:
            actions = (UpdateTableMeta(with_features(replace(theirs, schema=schema))), *actions)
        return replace(mine, actions=actions)


def overlapping_coverage(segments: Iterable[Segment], coverage: CoverageMap, grid: Grid) -> list[Segment]:
    """The segments that may cover a bucket of `coverage`; of live ones `segments_covering` tells without a look at each."""
    return overlapping(segments, *covered_range(coverage, grid), frozenset(coverage.identities())) if coverage else []


def coverage_of(segment: Segment, types: tuple[EntityType, ...]) -> Conversation[CoverageMap]:
    """Ask for what a segment covers; raises CorruptTable where that is missing or damaged."""
    sidecar = segment.coverage
    stored = (yield from perform(Get(sidecar.path))) if isinstance(sidecar, SidecarCoverage) else None
    return read_coverage(segment, stored, types, (yield from perform(GetUrl())))


KEEPS_OVERLAPS = "keeps_overlaps"
"""The parameter of a rewrite that says whether segments which it wrote cover buckets that others cover too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteChecker:
    """What a rewrite needs to hold: that it has seen every row it decided about."""

    near: Callable[[Sequence[Segment]], Sequence[Segment]]
    """Of some segments, those that may hold a row it would have taken away, by what the log says of them."""
    reaches: Callable[[Segment, CoverageMap], bool]
    """Whether one of these with this coverage may."""
    coverage: CoverageMap
    """What its new rows cover."""
    entity_types: tuple[EntityType, ...]
    grid: Grid
    operation: OperationId | None = None
    written: CoverageMap = field(default_factory=CoverageMap)
    """What all segments cover that it writes: its new rows, and those which it keeps of the segments that give way."""

    def check_conflict(self, mine: Commit, _version: int, theirs: Commit) -> Conversation[Compatible[Commit] | Conflicting]:
        """Apply the rules of a rewrite; see `gapless.log.format.ConflictChecker`. After a conflict it is decided anew."""
        asked = {rule.condition for rule in rules("rewrite", change_of(theirs), "reject")}
        if self.operation is not None and theirs.applies(self.operation):
            return Conflicting(OPERATION)
        if theirs.meta is not None:
            return Conflicting(SCHEMA)
        gone = set(theirs.removed) & set(mine.removed)
        if "same segments" in asked and gone:
            return Conflicting(SEGMENTS, ", ".join(sorted(gone)))
        if "same buckets" in asked:
            for segment in self._unseen([s for s in theirs.added if s.data_change]):
                coverage = yield from coverage_of(segment, self.entity_types)
                if self.reaches(segment, coverage) or not coverage.is_disjoint(self.coverage):
                    return Conflicting(OVERLAP)
            for segment in overlapping_coverage(theirs.added, self.written, self.grid):
                coverage = yield from coverage_of(segment, self.entity_types)
                if not coverage.is_disjoint(self.written):
                    # Rows that it only keeps share a bucket with theirs, which the log must say of it.
                    return Compatible(replace(mine, parameters={**mine.parameters, KEEPS_OVERLAPS: True}))
        return Compatible(mine)

    def _unseen(self, added: Sequence[Segment]) -> list[Segment]:
        """Their segments that may hold a row of ours to decide about, or cover a bucket of ours."""
        paths = {segment.path for segment in (*self.near(added), *overlapping_coverage(added, self.coverage, self.grid))}
        return [segment for segment in added if segment.path in paths]
