"""May an upsert, a delete or a replacement follow a commit that came first? Pure, but for the sidecars it asks to read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from gapless.coverage.bitmap import CoverageMap
from gapless.coverage.bucket import Grid
from gapless.dialects.timeseries.actions import Commit
from gapless.dialects.timeseries.clashes import change_of, rules
from gapless.dialects.timeseries.conflict import OPERATION, OVERLAP, SCHEMA, SEGMENTS, coverage_of, meeting_coverage
from gapless.log.requests import Talk
from gapless.log.verdict import Clash, Stands
from gapless.model.index import EntityType
from gapless.model.operation import OperationId
from gapless.model.segment import Segment

KEEPS_OVERLAPS = "keeps_overlaps"
"""The parameter of a rewrite that says whether segments which it wrote cover buckets that others cover too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteTerms:
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

    def judge(self, mine: Commit, _version: int, theirs: Commit) -> Talk[Stands[Commit] | Clash]:
        """Ask what `clashes.rules` says a rewrite must ask; see `gapless.log.commit.Judge`. After a clash it is decided anew."""
        asked = {rule.condition for rule in rules("rewrite", change_of(theirs), "reject")}
        if self.operation is not None and theirs.applies(self.operation):
            return Clash(OPERATION)
        if theirs.meta is not None:
            return Clash(SCHEMA)
        gone = set(theirs.removed) & set(mine.removed)
        if "same segments" in asked and gone:
            return Clash(SEGMENTS, ", ".join(sorted(gone)))
        if "same buckets" in asked:
            for segment in self._unseen([s for s in theirs.added if s.data_change]):
                coverage = yield from coverage_of(segment, self.entity_types)
                if self.reaches(segment, coverage) or not coverage.is_disjoint(self.coverage):
                    return Clash(OVERLAP)
            for segment in meeting_coverage(theirs.added, self.written, self.grid):
                coverage = yield from coverage_of(segment, self.entity_types)
                if not coverage.is_disjoint(self.written):
                    # Rows that it only keeps share a bucket with theirs, which the log must say of it.
                    return Stands(replace(mine, parameters={**mine.parameters, KEEPS_OVERLAPS: True}))
        return Stands(mine)

    def _unseen(self, added: Sequence[Segment]) -> list[Segment]:
        """Their segments that may hold a row of ours to decide about, or cover a bucket of ours."""
        paths = {segment.path for segment in (*self.near(added), *meeting_coverage(added, self.coverage, self.grid))}
        return [segment for segment in added if segment.path in paths]
