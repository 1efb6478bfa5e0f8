"""Delta's rules of which change may follow which, and the judge that asks them."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from gapless.formats.delta.actions import (
    Action,
    AddFile,
    Commit,
    DeletionVector,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    TableState,
    Txn,
)
from gapless.formats.delta.conflict import (
    CHANGES,
    EVERYTHING,
    ISOLATIONS,
    NOTHING,
    Change,
    CommitPredicate,
    Reads,
    change_of,
    describe,
    own_change,
    rules,
)
from gapless.formats.delta.schema.types import PrimitiveType, StructField, StructType
from gapless.log.format import Compatible, Conflicting

SCHEMA = StructType(fields=(StructField(name="id", type=PrimitiveType("long")),))
META = Metadata(id="table", schema=SCHEMA)
PROTOCOL = Protocol(reader=1, writer=2)
STATE = TableState(protocol=PROTOCOL, metadata=META)
VECTOR = DeletionVector(storage="i", path_or_inline="x", size=1, cardinality=1)


def add(path: str, *, data_change: bool = True, vector: DeletionVector | None = None) -> AddFile:
    return AddFile(path=path, size=1, modified_ms=0, data_change=data_change, deletion_vector=vector)


def gone(path: str, *, data_change: bool = True) -> RemoveFile:
    return RemoveFile(path=path, data_change=data_change)


def commit(*actions: Action, blind: bool = False) -> Commit:
    return Commit(id="x", operation="WRITE", actions=actions, blind_append=blind)


def isolated(level: str) -> TableState:
    return replace(STATE, metadata=replace(META, configuration={"delta.isolationLevel": level}))


def judged(terms: CommitPredicate, mine: Commit, theirs: Commit) -> str | None:
    """The condition that clashes; None where ours stands as it is."""
    conversation = terms.check_conflict(mine, 7, theirs)
    with pytest.raises(StopIteration) as ended:
        next(conversation)
    verdict = ended.value.value
    if isinstance(verdict, Conflicting):
        assert verdict.detail
        return verdict.reason
    assert verdict == Compatible(mine)
    return None


APPEND, READ_APPEND = commit(add("new"), blind=True), commit(add("new"))
DELETE = commit(gone("old"), add("rest"))
COMPACT = commit(gone("old", data_change=False), gone("older", data_change=False), add("large", data_change=False))


@pytest.mark.parametrize(
    ("made", "change"),
    [
        (APPEND, "append"),
        (READ_APPEND, "rewrite"),
        (DELETE, "rewrite"),
        (commit(gone("old"), blind=True), "rewrite"),
        (COMPACT, "compact"),
        (commit(META), "table"),
        (commit(PROTOCOL), "table"),
        (commit(Txn(app_id="a", version=1)), "table"),
        (commit(META, add("new"), blind=True), "append"),
    ],
)
def test_what_a_commit_does_is_read_from_its_actions(made: Commit, change: Change) -> None:
    assert change_of(made) == change


def test_a_change_that_brings_new_columns_is_one_of_the_table_too() -> None:
    assert own_change(commit(META, add("new"), blind=True)) == "table"
    assert own_change(APPEND) == "append"


def test_every_pair_is_described() -> None:
    said = describe()
    assert {row[:2] for row in said} == set(itertools.product(CHANGES, CHANGES))
    assert len({row[:3] for row in said}) == len(said)


@pytest.mark.parametrize(("mine", "theirs", "level"), list(itertools.product(CHANGES, CHANGES, ISOLATIONS)))
def test_no_condition_is_asked_twice(mine: Change, theirs: Change, level: str) -> None:
    asked = [rule.condition for rule in rules(mine, theirs, level)]
    assert len(set(asked)) == len(asked)


def test_a_stricter_level_asks_all_that_a_laxer_one_asks() -> None:
    for mine, theirs in itertools.product(CHANGES, CHANGES):
        lax, default, strict = (
            {rule.condition for rule in rules(mine, theirs, level)}
            for level in ("SnapshotIsolation", "WriteSerializable", "Serializable")
        )
        assert lax <= default <= strict


READS = Reads(reaches=lambda file: file.path == "near", paths=frozenset({"old", "read"}))


@pytest.mark.parametrize(
    ("mine", "theirs", "reads", "expected"),
    [
        # append / append, and append beside everything that changes rows
        (APPEND, APPEND, NOTHING, None),
        (APPEND, DELETE, NOTHING, None),
        (APPEND, COMPACT, NOTHING, None),
        # delete / delete
        (DELETE, commit(gone("old"), add("other")), READS, "same files"),
        (DELETE, commit(gone("old"), add("old", vector=VECTOR)), READS, "same files"),
        (DELETE, commit(gone("elsewhere"), add("far")), READS, None),
        # delete / read
        (DELETE, commit(gone("read"), add("far")), READS, "read files"),
        (DELETE, commit(gone("elsewhere")), EVERYTHING, "read files"),
        (DELETE, commit(gone("read", data_change=False), add("far", data_change=False)), READS, None),
        # rows that came first where ours decided
        (DELETE, READ_APPEND, EVERYTHING, "read rows"),
        (DELETE, commit(add("near")), READS, "read rows"),
        (DELETE, commit(add("far")), READS, None),
        # a blind append may be told of as if it came after
        (DELETE, commit(add("near"), blind=True), READS, None),
        # compaction
        (COMPACT, APPEND, NOTHING, None),
        (COMPACT, DELETE, NOTHING, "same files"),
        (COMPACT, commit(gone("older", data_change=False), add("x", data_change=False)), NOTHING, "same files"),
        (COMPACT, commit(gone("elsewhere"), add("far")), NOTHING, None),
        (DELETE, COMPACT, READS, "same files"),
        (commit(gone("untouched")), COMPACT, EVERYTHING, None),
        # an overwrite removes what it saw
        (commit(gone("old"), gone("older"), add("all")), COMPACT, EVERYTHING, "same files"),
        # spelled otherwise, and the same file
        (commit(gone("a%20b")), commit(gone("a b")), NOTHING, "same files"),
    ],
)
def test_rows_clash_only_where_ours_decided(mine: Commit, theirs: Commit, reads: Reads, expected: str | None) -> None:
    assert judged(CommitPredicate(state=STATE, reads=reads), mine, theirs) == expected


@pytest.mark.parametrize(
    ("level", "expected"),
    [("Serializable", "read rows"), ("WriteSerializable", None), ("SnapshotIsolation", None)],
)
def test_only_serializable_heeds_blind_appends(level: str, expected: str | None) -> None:
    terms = CommitPredicate(state=isolated(level), reads=READS)
    assert judged(terms, DELETE, commit(add("near"), blind=True)) == expected


def test_snapshot_isolation_heeds_no_new_rows_but_lost_files() -> None:
    terms = CommitPredicate(state=isolated("SnapshotIsolation"), reads=READS)
    assert judged(terms, DELETE, commit(add("near"))) is None
    assert judged(terms, DELETE, commit(gone("read"))) == "read files"
    assert judged(terms, DELETE, commit(gone("old"))) == "same files"


@pytest.mark.parametrize("level", ISOLATIONS)
def test_a_change_of_the_table_that_checked_all_rows_heeds_every_row(level: str) -> None:
    """A new constraint holds of the rows that were there; one that was appended meanwhile was not checked."""
    terms = CommitPredicate(state=isolated(level), reads=EVERYTHING)
    assert judged(terms, commit(META), APPEND) == "read rows"
    assert judged(replace(terms, reads=NOTHING), commit(META), APPEND) is None


def test_a_change_of_protocol_clashes_with_everything() -> None:
    for mine in (APPEND, DELETE, COMPACT, commit(META)):
        assert judged(CommitPredicate(state=STATE), mine, commit(Protocol(reader=1, writer=4))) == "protocol"


def field(name: str, **metadata: Any) -> StructField:
    return StructField(name=name, type=PrimitiveType("string"), metadata=metadata)


def renewed(**changes: Any) -> Commit:
    return commit(replace(META, **changes))


GROWN = replace(SCHEMA, fields=(*SCHEMA.fields, field("more")))


@pytest.mark.parametrize(
    ("mine", "theirs", "expected"),
    [
        (APPEND, renewed(schema=GROWN), None),
        (DELETE, renewed(schema=GROWN), "other table"),
        (COMPACT, renewed(schema=GROWN), "other table"),
        (
            APPEND,
            renewed(schema=replace(GROWN, fields=(*SCHEMA.fields, replace(field("more"), nullable=False)))),
            "other table",
        ),
        (APPEND, renewed(schema=StructType(fields=(*SCHEMA.fields, field("more", CURRENT_DEFAULT="1")))), "other table"),
        (APPEND, renewed(schema=StructType(fields=())), "other table"),
        (APPEND, renewed(schema=StructType(fields=(field("id"),))), "other table"),
        (APPEND, renewed(configuration={"delta.constraints.positive": "id > 0"}), "other table"),
        (APPEND, renewed(configuration={"delta.enableInCommitTimestamps": "true"}), "other table"),
        (APPEND, renewed(configuration={"delta.logRetentionDuration": "interval 9 days", "owner": "me"}), None),
        (DELETE, renewed(configuration={"delta.checkpointInterval": "5", "owner": "me"}), None),
        (DELETE, renewed(configuration={"delta.appendOnly": "true"}), "other table"),
        (APPEND, renewed(partition_by=("id",)), "other table"),
        (APPEND, renewed(id="another"), "other table"),
        (commit(META), renewed(configuration={"owner": "me"}), "other table"),
        (commit(META, add("new"), blind=True), renewed(schema=GROWN), "other table"),
        (APPEND, renewed(description="the same table, told of anew"), None),
    ],
)
def test_metadata_clash_where_what_was_written_does_not_fit_them(mine: Commit, theirs: Commit, expected: str | None) -> None:
    assert judged(CommitPredicate(state=STATE), mine, theirs) == expected


def test_two_transactions_of_one_application_clash_whatever_they_do() -> None:
    mine = replace(APPEND, actions=(*APPEND.actions, Txn(app_id="stream", version=5)))
    for version in (4, 5, 6):
        theirs = commit(add("x"), Txn(app_id="stream", version=version), blind=True)
        assert judged(CommitPredicate(state=STATE), mine, theirs) == "same application"
    assert judged(CommitPredicate(state=STATE), mine, commit(Txn(app_id="another", version=5))) is None


def test_jobs_clash_with_themselves_alone() -> None:
    mine = replace(APPEND, actions=(*APPEND.actions, Txn(app_id="gapless.job:load", version=1)))
    assert judged(CommitPredicate(state=STATE), mine, commit(Txn(app_id="gapless.job:load", version=1))) == "same application"
    assert judged(CommitPredicate(state=STATE), mine, commit(Txn(app_id="gapless.job:other", version=1))) is None


def test_metadata_of_one_domain_clash() -> None:
    def told(domain: str) -> Commit:
        return replace(APPEND, actions=(*APPEND.actions, DomainMetadata(domain=domain, configuration="{}")))

    assert judged(CommitPredicate(state=STATE), told("delta.rowTracking"), told("delta.rowTracking")) == "same domain"
    assert judged(CommitPredicate(state=STATE), told("delta.rowTracking"), told("mine")) is None


def test_what_holds_for_one_version_only_follows_nothing() -> None:
    assert judged(CommitPredicate(state=STATE, exact=True), APPEND, commit(Txn(app_id="a", version=1))) == "any commit"
