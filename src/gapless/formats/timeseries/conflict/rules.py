"""Conflict matrix: which operations may follow which; docs/semantics/clashes.md is printed from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from gapless.formats.timeseries.actions import AddSegment, Commit, RemoveSegment, UpdateTableMeta
from gapless.model.properties import OVERLAP_POLICIES, OnOverlap

Change = Literal["append", "rewrite", "compact", "schema", "properties"]
"""What a commit does: add rows; upsert, replace or delete them; lay them out anew; change columns; change properties."""
CHANGES: tuple[Change, ...] = get_args(Change)

Condition = Literal[
    "same operation", "same buckets", "other types", "other metadata", "same segments", "unchecked rows", "published", "always"
]
Answer = Literal["stands", "rebases", "conflicts"]


@dataclass(frozen=True, slots=True)
class Rule:
    """What holds where two changes meet in `condition`."""

    condition: Condition
    answer: Answer
    reason: str


_SAME_OPERATION = Rule("same operation", "conflicts", "the operation was applied already: its first report is given back")
_OTHER_TYPES = Rule(
    "other types",
    "conflicts",
    "columns were written that the schema which came first dropped, or with types that it cannot read",
)
_MERGED_SCHEMA = Rule("always", "rebases", "the newer metadata are kept, with what ours adds")
_PUBLISHED = Rule(
    "published",
    "rebases",
    "the table is published now, in a format or in types that ours was not made for, or ours lies in its commit: it is written again",
)
_SAME_SEGMENTS = Rule("same segments", "conflicts", "it removed a segment that ours read and would remove")
_REMOVED = Rule("same segments", "rebases", "it removed a segment that ours read and would remove: ours is decided again")
_UNSEEN_ROWS = Rule("same buckets", "rebases", "it wrote rows that ours has not seen where ours decided: ours is decided again")
_NEWER_META = Rule("always", "rebases", "ours is decided again, for the newer metadata")
_OTHER_META = Rule("other metadata", "rebases", "ours is decided again, for the newer metadata")
_UNCHECKED_ROWS = Rule(
    "unchecked rows", "rebases", "it brought rows to a table that ours makes unique: their keys are checked too"
)

_OVERLAPS: dict[OnOverlap, tuple[Rule, ...]] = {
    "reject": (Rule("same buckets", "conflicts", "the table covers buckets of ours now"),),
    "skip": (
        Rule("same buckets", "rebases", "rows in buckets that are covered now are left out, and the segment is written again"),
    ),
    "replace": (_REMOVED, Rule("same buckets", "rebases", "rows that came first into buckets of ours are replaced too")),
    "allow": (),
}


def rules(mine: Change, theirs: Change, on_overlap: OnOverlap) -> tuple[Rule, ...]:
    """What to ask before `mine` may follow `theirs`, in order; where no condition holds, it stands.

    Log checkpoints, vacuum and expiry make no commit that changes rows, so they conflict with nothing.
    """
    match mine, theirs:
        case "append", ("append" | "rewrite"):
            return (_SAME_OPERATION, _OTHER_TYPES, *_OVERLAPS[on_overlap])
        case "append", ("schema" | "properties"):
            return (_SAME_OPERATION, _PUBLISHED, _OTHER_TYPES, _MERGED_SCHEMA)
        case "append", "compact":
            return (_REMOVED,) if on_overlap == "replace" else ()
        case "rewrite", ("append" | "rewrite"):
            return (_SAME_OPERATION, _REMOVED, _UNSEEN_ROWS)
        case "rewrite", "compact":
            return (_REMOVED,)
        case "compact", "compact":
            return (_SAME_SEGMENTS,)
        case "rewrite", ("schema" | "properties"):
            return (_SAME_OPERATION, _NEWER_META)
        case "compact", "rewrite":
            return (_SAME_SEGMENTS,)
        case "schema", _:
            return (_OTHER_META,)
        case "properties", _:
            return (_SAME_OPERATION, _OTHER_META, _UNCHECKED_ROWS)
    return ()


def change_of(commit: Commit) -> Change:
    """What kind of change a commit is, from its actions: other writers' names for their operations are not ours."""
    kinds = {type(action) for action in commit.actions}
    if AddSegment in kinds and not any(segment.data_change for segment in commit.added):
        return "compact"
    if RemoveSegment in kinds:
        return "rewrite"
    if AddSegment in kinds or UpdateTableMeta not in kinds:
        return "append"
    meta = commit.meta
    return "properties" if meta is not None and meta.schema is None else "schema"


def describe() -> list[tuple[str, str, str, str]]:
    """The whole table as (ours, theirs, overlap policy, what holds), for the documentation."""
    rows: list[tuple[str, str, str, str]] = []
    for mine in CHANGES:
        for theirs in CHANGES:
            by_policy = ("append", "rewrite", "compact")
            policies = OVERLAP_POLICIES if mine == "append" and theirs in by_policy else OVERLAP_POLICIES[:1]
            for policy in policies:
                answers = [f"{rule.condition}: **{rule.answer}** ({rule.reason})" for rule in rules(mine, theirs, policy)]
                shown = policy if len(policies) > 1 else "any"
                rows.append((mine, theirs, shown, "; ".join([*answers, "else **stands**"])))
    return rows
