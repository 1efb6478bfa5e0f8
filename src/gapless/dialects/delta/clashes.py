"""Which changes of a Delta table may follow which: the one table that decides, and that docs/semantics/delta-clashes.md is printed from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from gapless.dialects.delta.actions import Commit

Change = Literal["append", "rewrite", "compact", "table"]
"""What a commit does: add rows without a look at others; decide by rows or take some away (delete, update, merge, overwrite, restore,
an append that read); lay rows out anew; change what the table is (columns, properties, protocol).
"""
CHANGES: tuple[Change, ...] = get_args(Change)

ISOLATIONS = ("WriteSerializable", "Serializable", "SnapshotIsolation")
"""What `delta.isolationLevel` may say."""

Condition = Literal[
    "any commit", "same application", "protocol", "other table", "same domain", "same files", "read files", "read rows"
]


@dataclass(frozen=True, slots=True)
class Rule:
    """What keeps one commit from following another: after a clash ours is decided again, on the newest version."""

    condition: Condition
    reason: str


ALWAYS = (
    Rule("any commit", "ours holds for the very next version only"),
    Rule("same application", "it applied a transaction of the same application: ours may be applied already, and is looked up"),
    Rule("protocol", "it changed the protocol: ours is checked and written for the new one"),
    Rule("other table", "it changed columns, constraints or properties that ours was written for"),
    Rule("same domain", "both set the metadata of one domain"),
)
"""What every change asks of every other."""

_SAME_FILES = Rule("same files", "it removed a file, or gave it a deletion vector, that ours removes or gives one")
_READ_FILES = Rule("read files", "it took rows away from files that ours read")
_READ_ROWS = Rule("read rows", "it wrote rows that ours would have read")

_HEEDED: dict[Change, tuple[str, ...]] = {"append": ("Serializable",), "rewrite": ("Serializable", "WriteSerializable")}
"""Under which isolation levels a rewrite heeds rows that came first, by what brought them."""


def rules(mine: Change, theirs: Change, isolation: str) -> tuple[Rule, ...]:
    """What to ask besides `ALWAYS` before `mine` may follow `theirs`, in order; where no condition holds, it stands.

    How much of the table's rows a change asks for depends on what it says it read: a new constraint reads all, a new column none. Log
    checkpoints and log cleanup make no commit, so they clash with nothing.
    """
    seen = (_READ_ROWS,) if mine == "table" or isolation in _HEEDED.get(theirs, ()) else ()
    match mine, theirs:
        case ("append", _) | (_, "table") | ("compact", "append"):
            return ()
        case _, "append":
            return seen
        case ("compact", _) | (_, "compact"):
            return (_SAME_FILES,)
    return (_SAME_FILES, _READ_FILES, *seen)


def change_of(commit: Commit) -> Change:
    """What kind of change a commit made to the rows, from its actions: that an append read nothing only its writer can say."""
    if not (commit.added or commit.removed):
        return "table"
    if not commit.changes_rows:
        return "compact"
    return "append" if commit.blind_append and not commit.removed else "rewrite"


def own_change(commit: Commit) -> Change:
    """The same of a change that wants to follow: one that changes what the table is heeds even appends that read nothing."""
    return "table" if commit.metadata is not None or commit.protocol is not None else change_of(commit)


def describe() -> list[tuple[str, str, str, str]]:
    """The whole table as (ours, theirs, isolation level, what clashes), for the documentation."""
    rows: list[tuple[str, str, str, str]] = []
    for mine in CHANGES:
        for theirs in CHANGES:
            told = {level: rules(mine, theirs, level) for level in ISOLATIONS}
            alike = len(set(told.values())) == 1
            for level in ISOLATIONS[:1] if alike else ISOLATIONS:
                said = "; ".join(f"**{rule.condition}** ({rule.reason})" for rule in told[level])
                rows.append((mine, theirs, "any" if alike else level, said or "nothing more"))
    return rows
