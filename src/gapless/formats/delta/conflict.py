"""Conflict detection for Delta commits: may a change follow a commit that came first? docs/semantics/delta-clashes.md is printed from the rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Literal, get_args

from gapless.formats.delta.actions import AddFile, Commit, DomainMetadata, Metadata, TableState
from gapless.formats.delta.file_path import canonical
from gapless.formats.delta.operation_ids import operation_of
from gapless.formats.delta.properties import Settings
from gapless.formats.delta.publishing import PUBLISH
from gapless.formats.delta.row_tracking import DOMAIN as ROW_TRACKING
from gapless.formats.delta.row_tracking import is_tracked, rebase_rows
from gapless.formats.delta.schema.types import StructType
from gapless.log.effects import Conversation
from gapless.log.format import Compatible, Conflicting
from gapless.model.instant import NS_PER
from gapless.model.operation import operation_key
from gapless.model.protocols import WRITER_HORIZON_NS

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
    """What keeps one commit from following another: after a conflict ours is decided again, on the newest version."""

    condition: Condition
    reason: str


ALWAYS = (
    Rule("any commit", "ours holds for the very next version only"),
    Rule("same application", "it applied a transaction of the same application: ours may be applied already, and is looked up"),
    Rule("protocol", "it changed the protocol: ours is checked and written for the new one"),
    Rule("other table", "it changed columns, constraints or properties that ours was written for"),
    Rule("same domain", "both set the metadata of one domain, other than that of row ids"),
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
    checkpoints and log cleanup make no commit, so they conflict with nothing.
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
    """The whole table as (ours, theirs, isolation level, what conflicts), for the documentation."""
    rows: list[tuple[str, str, str, str]] = []
    for mine in CHANGES:
        for theirs in CHANGES:
            by_level = {level: rules(mine, theirs, level) for level in ISOLATIONS}
            alike = len(set(by_level.values())) == 1
            for level in ISOLATIONS[:1] if alike else ISOLATIONS:
                conditions = "; ".join(f"**{rule.condition}** ({rule.reason})" for rule in by_level[level])
                rows.append((mine, theirs, "any" if alike else level, conditions or "nothing more"))
    return rows


def _never(_file: AddFile) -> bool:
    return False


def _always(_file: AddFile) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """What of the table a change decided by."""

    reaches: Callable[[AddFile], bool] = _never
    """Whether a file, had it been there, would have been read: what a plan says by partition values and statistics."""
    paths: AbstractSet[str] | None = frozenset()
    """The paths of the live files that were read, as `file_path.canonical` spells them; None for all."""


NOTHING = Reads()
"""What a blind append reads, and a compaction, which only asks that the files it lays out anew are there still."""
EVERYTHING = Reads(reaches=_always, paths=None)
"""The whole table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPredicate:
    """What a change needs to hold for it to stand after commits that came first; see `rules`.

    Pass `.check_conflict` to a proposal of the committer. After a conflict the committer refreshes, and the change is decided again.
    """

    state: TableState
    """The version that the change was decided on."""
    reads: Reads = NOTHING
    exact: bool = False
    """Whether it holds for the very next version only, as one does that says its own version."""

    def check_conflict(self, mine: Commit, version: int, theirs: Commit) -> Conversation[Compatible[Commit] | Conflicting]:
        """See `gapless.log.format.ConflictChecker`: ours as it is, or the conflict, whose reason is that of a rule."""
        isolation = Settings.of(self.state.configuration).isolation
        asked = (*ALWAYS, *rules(own_change(mine), change_of(theirs), isolation))
        for rule in asked:
            detail = next(self._found(rule.condition, mine, theirs), None)
            if detail is not None:
                return Conflicting(rule.condition, detail)
        return Compatible(rebase_rows(mine, theirs, self.state, version + 1))
        yield  # a conversation that asks nothing

    def _found(self, condition: Condition, mine: Commit, theirs: Commit) -> Iterator[str]:
        """What of theirs meets the condition, as a text for the error."""
        match condition:
            case "any commit":
                yield from ["it"] if self.exact else []
            case "same application":
                yield from sorted(_applications(mine) & _applications(theirs))
            case "protocol":
                yield from (
                    [] if theirs.protocol is None else [f"reader {theirs.protocol.reader}, writer {theirs.protocol.writer}"]
                )
            case "other table":
                yield from [] if theirs.metadata is None else self._unfit(mine, theirs.metadata)
            case "same domain":
                # Row ids are given anew above those of a commit that came first.
                given_anew = {ROW_TRACKING} if is_tracked(self.state) else set()
                yield from sorted((_domains(mine) & _domains(theirs)) - given_anew)
            case "same files":
                gone = {canonical(file.path) for file in mine.removed}
                yield from (file.path for file in theirs.removed if canonical(file.path) in gone)
            case "read files":
                read = self.reads.paths
                removed = (file.path for file in theirs.removed if file.data_change)
                yield from (path for path in removed if read is None or canonical(path) in read)
            case "read rows":
                yield from (file.path for file in theirs.added if file.data_change and self.reads.reaches(file))

    def _unfit(self, mine: Commit, theirs: Metadata) -> Iterator[str]:
        """Why files that were written for the table as it was do not fit it as it is now."""
        before = self.state.metadata
        if mine.metadata is not None:
            yield "both change the table"
        if theirs.id != before.id or theirs.partition_by != before.partition_by:
            yield "another table or other partition columns"
        if not _keeps(before.schema, theirs.schema, grown=change_of(mine) == "append"):
            yield "other columns"
        changed = {name for name, _ in before.configuration.items() ^ theirs.configuration.items()}
        yield from sorted(name for name in changed if _matters(name))


def _keeps(before: StructType, after: StructType, *, grown: bool) -> bool:
    """Whether a schema says the same of what was written; one that has `grown` by columns which may be null does, too."""
    if before.fields == after.fields:
        return True
    known = {field.name: field for field in after.fields}
    if not grown or any(known.get(field.name) != field for field in before.fields):
        return False
    old = set(before.names)
    return all(field.nullable and not _is_filled(field.metadata) for field in after.fields if field.name not in old)


def _is_filled(metadata: Mapping[str, object]) -> bool:
    """Whether the writer of a row that lacks the column must put something there."""
    return any(name in metadata for name in ("CURRENT_DEFAULT", "delta.generationExpression", "delta.invariants"))


_HARMLESS = frozenset(
    {
        "delta.checkpointInterval",
        "delta.checkpointPolicy",
        "delta.logRetentionDuration",
        "delta.deletedFileRetentionDuration",
        "delta.setTransactionRetentionDuration",
        "delta.enableExpiredLogCleanup",
        "delta.targetFileSize",
        "delta.columnMapping.maxColumnId",
        "delta.dataSkippingNumIndexedCols",
        "delta.dataSkippingStatsColumns",
    }
)
"""Properties that say nothing of what a commit must hold."""


def _matters(name: str) -> bool:
    return name == PUBLISH or (name.startswith("delta.") and name not in _HARMLESS)


ABORT = "ABORT"
"""The operation of a commit that gives a prepared commit up, whose document its parameter `prepared` names."""
RESTORE = "RESTORE"
"""The operation of a commit that makes files of an earlier version live again."""
VACUUM_START, VACUUM_END = "VACUUM START", "VACUUM END"
"""Operations of the commits before and after a vacuum deletes files, of every writer of Delta that logs them."""
OURS = "gapless/"
"""What `engineInfo` of our commits begins with."""
_RETENTIONS = ("specifiedRetentionMillis", "defaultRetentionMillis")
"""What the first of these says is how long ago something must have been removed, or written in vain, for a vacuum to delete it."""


def vacuum_cutoff_ns(commit: Commit, time_ns: int) -> int | None:
    """The time before which a vacuum that begins with a commit, of this time, deletes: what was removed, and what was written and never
    committed. Nanoseconds since 1970 UTC; None for any other commit.
    """
    if commit.operation != VACUUM_START:
        return None
    said = next((commit.parameters[name] for name in _RETENTIONS if commit.parameters.get(name) is not None), 0)
    try:
        return time_ns - int(said) * NS_PER["ms"]
    except (TypeError, ValueError):
        return time_ns


def orphan_cutoff_ns(commit: Commit, time_ns: int) -> int | None:
    """The same for what was never committed, of which ours leaves all that is younger than the writer horizon."""
    cutoff_ns = vacuum_cutoff_ns(commit, time_ns)
    if cutoff_ns is not None and commit.engine.startswith(OURS):
        return min(cutoff_ns, time_ns - WRITER_HORIZON_NS)
    return cutoff_ns


def _applications(commit: Commit) -> set[str]:
    return {operation_key(operation_of(txn)) for txn in commit.txns}


def _domains(commit: Commit) -> set[str]:
    return {action.domain for action in commit.actions if isinstance(action, DomainMetadata)}
