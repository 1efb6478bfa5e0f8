"""May a change of columns follow a commit that came first? Pure."""

from __future__ import annotations

from gapless.dialects.timeseries.actions import Commit
from gapless.dialects.timeseries.clashes import change_of, rules
from gapless.dialects.timeseries.conflict import SCHEMA
from gapless.log.requests import Talk
from gapless.log.verdict import Clash, Stands


def judge_alter(mine: Commit, _version: int, theirs: Commit) -> Talk[Stands[Commit] | Clash]:
    """See `gapless.log.commit.Judge`: rows may come first, in any columns; after other metadata ours is decided again."""
    yield from ()
    asked = {rule.condition for rule in rules("schema", change_of(theirs), "reject")}
    return Clash(SCHEMA) if "other metadata" in asked and theirs.meta is not None else Stands(mine)
