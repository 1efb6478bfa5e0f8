"""What vacuum and expiry may follow, and what may follow them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from gapless.dialects.timeseries.actions import Action, Commit, ForgetSegments, Removed, SetTag, UpdateTableMeta
from gapless.log.requests import Talk
from gapless.log.verdict import Clash, Judge, Stands

FORGOTTEN = "vacuum had given up files that this change names"


def forgets(theirs: Commit, mine: Commit) -> bool:
    """Whether a commit of vacuum names segments that ours makes live: their files are gone, or about to go."""
    gone = {path for action in theirs.actions if isinstance(action, ForgetSegments) for path in action.paths}
    return bool(gone) and any(segment.path in gone for segment in mine.added)


def guarded(judge: Judge[Commit]) -> Judge[Commit]:
    """The same judge, which besides lets nothing stand whose segments a vacuum that came first was to delete."""

    def judge_first(mine: Commit, version: int, theirs: Commit) -> Talk[Stands[Commit] | Clash]:
        if forgets(theirs, mine):
            return Clash(FORGOTTEN)
        return (yield from judge(mine, version, theirs))

    return judge_first


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumTerms:
    """What a vacuum needs to hold for what it deletes to be deleted."""

    paths: frozenset[str]
    """The segments it gives up."""
    removed: Mapping[str, Removed]
    """Those of them that were part of the table once, by path."""

    def judge(self, mine: Commit, _version: int, theirs: Commit) -> Talk[Stands[Commit] | Clash]:
        """Clashes where the other commit makes one of the segments live, or tags a version that has one."""
        yield from ()
        if any(segment.path in self.paths for segment in theirs.added):
            return Clash("it made segments live that were to be deleted")
        tagged = [action.version for action in theirs.actions if isinstance(action, SetTag) and action.version is not None]
        if any(gone.added <= version < gone.removed for version in tagged for gone in self.removed.values()):
            return Clash("it tagged a version that needs segments which were to be deleted")
        return Stands(mine)


def judge_expiry(mine: Commit, _version: int, theirs: Commit) -> Talk[Stands[Commit] | Clash]:
    """Expiry follows everything; metadata that came first stay, with the features that ours adds."""
    yield from ()
    ours, newer = mine.meta, theirs.meta
    if ours is None or newer is None:
        return Stands(mine)
    merged = replace(
        newer,
        reader_features=newer.reader_features | ours.reader_features,
        writer_features=newer.writer_features | ours.writer_features,
    )
    others: tuple[Action, ...] = tuple(action for action in mine.actions if not isinstance(action, UpdateTableMeta))
    return Stands(replace(mine, actions=(UpdateTableMeta(merged), *others)))
