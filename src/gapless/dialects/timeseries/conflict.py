"""May an append follow a commit that came first? Pure, but for the sidecars it asks to read."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from gapless.coverage.bitmap import CoverageMap
from gapless.coverage.bucket import Grid
from gapless.coverage.codec import decode
from gapless.coverage.overlap import Overlap, overlap
from gapless.dialects.timeseries.actions import Action, Commit, TableMeta, UpdateTableMeta
from gapless.dialects.timeseries.clashes import change_of, rules
from gapless.dialects.timeseries.features import claim
from gapless.errors import SchemaMismatch, UnsupportedType
from gapless.log.commit import Clash, Stands
from gapless.log.requests import Get, Talk, ask
from gapless.model.checksum import check
from gapless.model.index import EntityType
from gapless.model.operation import OperationId, settles
from gapless.model.properties import OnOverlap
from gapless.model.schema import reconcile
from gapless.model.segment import InlineCoverage, Segment, SidecarCoverage, meeting

OVERLAP = "overlap"
OPERATION = "operation"
SCHEMA = "schema"


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendTerms:
    """What an append needs to hold for its segments to stand."""

    on_overlap: OnOverlap
    coverage: CoverageMap
    """What the append covers."""
    first: int
    """Its smallest index value."""
    last: int
    """Its largest."""
    schema: pa.Schema | None
    """The declared schema that its segments were written for; None where it wrote none for a table without one."""
    entity_types: tuple[EntityType, ...]
    grid: Grid
    operations: tuple[OperationId, ...] = ()
    """What it is called, if it is called anything; a group commit has several."""

    def judge(self, mine: Commit, _version: int, theirs: Commit) -> Talk[Stands[Commit] | Clash]:
        """Ask what `clashes.rules` says an append must ask; see `gapless.log.commit.Judge`."""
        asked = {rule.condition for rule in rules("append", change_of(theirs), self.on_overlap)}
        if "same operation" in asked and self._is_applied_by(theirs):
            return Clash(OPERATION)
        if "other types" in asked and theirs.meta is not None:
            rebased = self._rebase_meta(mine, theirs.meta)
            if isinstance(rebased, Clash):
                return rebased
            mine = rebased
        if "same buckets" in asked:
            for segment in self._meeting(theirs):
                found = overlap(self.coverage, (yield from self._coverage_of(segment)), signed=self.grid.signed)
                if found is not None:
                    return Clash(OVERLAP, found)
        return Stands(mine)

    def _is_applied_by(self, theirs: Commit) -> bool:
        return any(settles(other.operation, asked) for other in theirs.operations for asked in self.operations)

    def _rebase_meta(self, mine: Commit, theirs: TableMeta) -> Commit | Clash:
        """Ours on top of their metadata: without an update of ours where theirs says all, else with ours added to it."""
        either = theirs.schema or self.schema
        schema = _common_schema(theirs, self.schema) if theirs.schema and self.schema else either
        if isinstance(schema, Clash):
            return schema
        actions: tuple[Action, ...] = tuple(action for action in mine.actions if not isinstance(action, UpdateTableMeta))
        if schema != theirs.schema or not theirs.is_ours:
            actions = (UpdateTableMeta(claim(replace(theirs, schema=schema))), *actions)
        return replace(mine, actions=actions)

    def _meeting(self, theirs: Commit) -> list[Segment]:
        """Their segments that may cover a bucket of ours."""
        if not self.coverage:
            return []
        start, end = (self.grid.start(self.grid.id_of(self.first)), self.grid.end(self.grid.id_of(self.last)))
        return meeting(theirs.added, start, end, frozenset(self.coverage.identities()))

    def _coverage_of(self, segment: Segment) -> Talk[CoverageMap]:
        match segment.coverage:
            case InlineCoverage(data):
                return decode(data, self.entity_types, path=segment.path)
            case SidecarCoverage(path, expected):
                sidecar = (yield from ask(Get(path))) or b""
                check(sidecar, expected, path)
                return decode(sidecar, self.entity_types, path=path)
        # No coverage is not an empty one: nothing would then be an overlap.
        return decode(b"", self.entity_types, path=segment.path)


def _common_schema(theirs: TableMeta, written: pa.Schema) -> pa.Schema | Clash:
    """The schema that holds both their rows and those written for `written`.

    Segments read back exactly only as the types they were written as: a wider or coarser one could still refuse a value.
    """
    assert theirs.schema is not None
    try:
        common = reconcile(theirs.schema, written, theirs.index).schema
    except SchemaMismatch as mismatch:
        return Clash(SCHEMA, "; ".join(mismatch.differences))
    except UnsupportedType as unsupported:
        return Clash(SCHEMA, unsupported.what)
    for field in written:
        now = common.field(field.name).type
        if now != field.type and not pa.types.is_null(field.type):
            return Clash(SCHEMA, f"column {field.name!r} is {field.type} here and {now} in the schema that came first")
    return common


def overlap_of(clash: Clash) -> Overlap | None:
    """The overlap a clash is about, if that is what it is about."""
    return clash.detail if isinstance(clash.detail, Overlap) else None
