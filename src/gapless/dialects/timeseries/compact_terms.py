"""May a compaction follow a commit that came first? Pure."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from gapless.dialects.timeseries.actions import Commit
from gapless.dialects.timeseries.clashes import change_of, rules
from gapless.dialects.timeseries.conflict import SEGMENTS
from gapless.log.requests import Talk
from gapless.log.verdict import Clash, Stands

METADATA = "metadata"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactTerms:
    """What a compaction needs to hold: that the segments which it laid out anew are live until it is committed."""

    removed: AbstractSet[str]
    """Their paths; all of them live in the version that the compaction is first tried after."""

    def judge(self, mine: Commit, _version: int, theirs: Commit) -> Talk[Stands[Commit] | Clash]:
        """Ask what `clashes.rules` says a compaction must ask; see `gapless.log.commit.Judge`. A clash names the paths that are gone."""
        asked = {rule.condition for rule in rules("compact", change_of(theirs), "allow")}
        gone = set(theirs.removed) & self.removed
        if "same segments" in asked and gone:
            return Clash(SEGMENTS, ", ".join(sorted(gone)))
        if theirs.meta is not None and mine.meta is not None:
            # Ours claims the table as it was; theirs, which came first, is the newer word on it.
            return Clash(METADATA)
        return Stands(mine)
        yield  # a conversation that asks nothing
