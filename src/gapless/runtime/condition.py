"""What must hold for a change to be committed, beside what the log says: a document that another process may take back at any time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic

from gapless.log.effects import Conversation
from gapless.log.format import Compatible, ConflictChecker, Conflicting, Entry

GIVEN_UP = "given up"
"""The reason of a conflict with a commit that gives the change up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition(Generic[Entry]):
    """Of a change that someone else may give up: who does so takes back what `check` looks for, then commits an entry that says so, and
    only then deletes what the change needs.

    A committer asks `check` after the version is read for which the change is made, and before its entry is put. So it was asked before the
    change was given up, and then the entry that says so comes after that version, and is met; or afterwards.
    """

    check: Callable[[], None]
    """Raises where the change is given up."""
    is_given_up: Callable[[Entry], bool]
    """Whether an entry says that it is."""

    def checker(self, check_conflict: ConflictChecker[Entry]) -> ConflictChecker[Entry]:
        """The same, but that the change follows no entry which gives it up."""

        def check(mine: Entry, version: int, theirs: Entry) -> Conversation[Compatible[Entry] | Conflicting]:
            if self.is_given_up(theirs):
                return Conflicting(GIVEN_UP)
            return (yield from check_conflict(mine, version, theirs))

        return check
