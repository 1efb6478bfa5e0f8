"""May a change of properties follow a commit that came first? Pure."""

from __future__ import annotations

from dataclasses import dataclass

from gapless.dialects.timeseries.actions import Commit
from gapless.dialects.timeseries.clashes import change_of, rules
from gapless.dialects.timeseries.conflict import OPERATION, PROPERTIES, SCHEMA
from gapless.log.requests import Talk
from gapless.log.verdict import Clash, Stands
from gapless.model.operation import OperationId


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyTerms:
    """What a change of properties needs to hold."""

    checked_rows: bool
    """Whether it holds only for the rows that were there: a table that becomes unique."""
    operation: OperationId | None = None

    def judge(self, mine: Commit, _version: int, theirs: Commit) -> Talk[Stands[Commit] | Clash]:
        """Ask what `clashes.rules` says a change of properties must ask. After a clash it is made to the newest version."""
        yield from ()
        asked = {rule.condition for rule in rules("properties", change_of(theirs), "reject")}
        if "same operation" in asked and self.operation is not None and theirs.applies(self.operation):
            return Clash(OPERATION)
        if "other metadata" in asked and theirs.meta is not None:
            return Clash(SCHEMA)
        if "unchecked rows" in asked and self.checked_rows and any(segment.data_change for segment in theirs.added):
            return Clash(PROPERTIES)
        return Stands(mine)
