"""May an append follow a commit that came first? Pure, but for the sidecars it asks to read."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from gapless.coverage.bitmap import CoverageMap
from gapless.coverage.bucket import Grid
from gapless.coverage.codec import decode
from gapless.coverage.overlap import Overlap, overlap
from gapless.dialects.timeseries.actions import Commit, TableMeta, UpdateTableMeta
from gapless.log.commit import Clash, Stands
from gapless.log.requests import Get, Talk, ask
from gapless.model.index import EntityType, Identity
from gapless.model.properties import OnOverlap
from gapless.model.schema import stored_schema
from gapless.model.segment import InlineCoverage, Segment, SidecarCoverage

OVERLAP = "overlap"
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
    schema: pa.Schema
    """The declared schema that its segments were written for."""
    entity_types: tuple[EntityType, ...]
    grid: Grid

    def judge(self, mine: Commit, _version: int, theirs: Commit) -> Talk[Stands[Commit] | Clash]:
        """See `gapless.log.commit.Judge`."""
        if theirs.meta is not None:
            rebased = self._rebase_meta(mine, theirs.meta)
            if isinstance(rebased, Clash):
                return rebased
            mine = rebased
        if self.on_overlap != "allow":
            for segment in self._meeting(theirs):
                found = overlap(self.coverage, (yield from self._coverage_of(segment)), signed=self.grid.signed)
                if found is not None:
                    return Clash(OVERLAP, found)
        return Stands(mine)

    def _rebase_meta(self, mine: Commit, theirs: TableMeta) -> Commit | Clash:
        """Ours without its metadata, which theirs replaced, where our segments fit theirs."""
        if theirs.schema is None:
            return mine
        if (reason := _misfit(self.schema, theirs.schema)) is not None:
            return Clash(SCHEMA, reason)
        kept = tuple(action for action in mine.actions if not isinstance(action, UpdateTableMeta))
        return replace(mine, actions=kept)

    def _meeting(self, theirs: Commit) -> list[Segment]:
        """Their segments that may cover a bucket of ours."""
        start, end = (self.grid.start(self.grid.id_of(self.first)), self.grid.end(self.grid.id_of(self.last)))
        mine: frozenset[Identity] = frozenset(self.coverage.identities())
        return [
            s
            for s in theirs.added
            if s.bounds.first < end and s.bounds.last >= start and (s.identity is None or s.identity in mine)
        ]

    def _coverage_of(self, segment: Segment) -> Talk[CoverageMap]:
        match segment.coverage:
            case InlineCoverage(data):
                return decode(data, self.entity_types, path=segment.path)
            case SidecarCoverage(path):
                sidecar = yield from ask(Get(path))
                return decode(sidecar or b"", self.entity_types, path=path)
        return CoverageMap()


def _misfit(written: pa.Schema, now: pa.Schema) -> str | None:
    """Why segments written for one schema cannot be read as another; None where they can.

    What was written as exactly the same types reads back exactly; a wider type could still refuse one of our values.
    """
    ours, theirs = stored_schema(written), stored_schema(now)
    for field in ours:
        at = theirs.get_field_index(field.name)
        if at < 0:
            return f"column {field.name!r} is not in the schema that came first"
        if theirs.field(at).type != field.type:
            return f"column {field.name!r} is {field.type} here and {theirs.field(at).type} in the schema that came first"
    missing = next((f.name for f in theirs if not f.nullable and ours.get_field_index(f.name) < 0), None)
    return None if missing is None else f"column {missing!r} must not be null in the schema that came first"


def overlap_of(clash: Clash) -> Overlap | None:
    """The overlap a clash is about, if that is what it is about."""
    return clash.detail if isinstance(clash.detail, Overlap) else None
