"""What the commits of a Delta log make of a table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.errors import CorruptTable
from gapless.formats.delta.actions import Action, AddFile, Commit, DomainMetadata, Metadata, Protocol, RemoveFile, Txn, file_key
from gapless.formats.delta.commit_codec import ENABLEMENT_VERSION, opened
from gapless.formats.delta.format import DELTA
from gapless.formats.delta.operation_ids import txn_of
from gapless.formats.delta.replay import LazyFiles, LiveFiles
from gapless.model.layered_dict import MAX_CHANGES
from gapless.model.operation import JobId, SequenceId, Tally
from support.delta_log import MS, PROTOCOL, SCHEMA, add, remove, told

FIRST = (PROTOCOL, Metadata(id="t", schema=SCHEMA))


def commit(*actions: Action, **info: Any) -> Commit:
    return Commit(id="c", operation="TEST", actions=actions, **info)


def replayed(*commits: tuple[Action, ...]) -> dict[str, Any]:
    entries = [(version, commit(*actions), version * MS) for version, actions in enumerate((FIRST, *commits))]
    return told(DELTA.replay(None, entries))


paths = st.sampled_from(("a", "b", "c%20c", "day=1/d"))
dvs = st.none() | st.integers(0, 1)
files = st.builds(add, paths, dvs, stats=st.none() | st.just("{}")) | st.builds(remove, paths, dvs, at_ms=st.integers(1, 9))
apps = st.builds(
    Txn, app_id=st.sampled_from(("x", "y", "gapless.job:j")), version=st.integers(0, 5), updated_ms=st.integers(1, 9)
)
domains = st.builds(DomainMetadata, domain=st.sampled_from("de"), configuration=st.just("1"), removed=st.booleans())
actions = st.lists(files | apps | domains, max_size=4).map(tuple)


@given(st.lists(actions, max_size=8), st.data())
def test_the_newest_word_on_each_thing_holds_however_the_log_is_read(
    commits: list[tuple[Action, ...]], data: st.DataObject
) -> None:
    live: dict[str, AddFile] = {}
    gone: dict[str, RemoveFile] = {}
    said: dict[str, Txn] = {}
    known: dict[str, DomainMetadata] = {}
    for action in (action for one in commits for action in one):
        if isinstance(action, AddFile | RemoveFile):
            live.pop(action.key, None)
            gone.pop(action.key, None)
            if isinstance(action, AddFile):
                live[action.key] = action
            else:
                gone[action.key] = action
        elif isinstance(action, Txn):
            said[action.app_id] = action
        elif isinstance(action, DomainMetadata):
            known.pop(action.domain, None)
            known |= {} if action.removed else {action.domain: action}
    entries = [(version, commit(*one), version * MS) for version, one in enumerate((FIRST, *commits))]
    cut = data.draw(st.integers(1, len(entries)))
    half = DELTA.replay(None, entries[:cut])
    before = told(half)
    state = DELTA.replay(half, entries[cut:])
    assert told(half) == before, "a snapshot that others hold has changed"
    assert dict(state.files) == live
    assert dict(state.removed) == gone
    applied = {f"{one.operation!r} {one.updated_ms}" for one in state.applied.values()}
    # What is ours says a time that no retention reaches.
    mine = f"{JobId('j')!r} {txn_of(JobId('j'), '').updated_ms}"
    jobs = {mine for txn in said.values() if txn.app_id.startswith("gapless.job:")}
    apps = {f"{SequenceId(txn.app_id, txn.version)!r} {txn.updated_ms}" for txn in said.values() if ":" not in txn.app_id}
    assert applied == jobs | apps
    assert dict(state.domains) == known


def test_a_file_and_the_same_with_a_deletion_vector_are_two_logical_files() -> None:
    state = replayed((add("a"),), (remove("a"), add("a", 1)), (remove("a", 1), add("a", 2)))
    assert list(state["files"]) == [file_key("a", add("a", 2).deletion_vector)]
    assert len(state["removed"]) == 2


@pytest.mark.parametrize(
    ("added", "removed"),
    [
        ("/some/absolute/path", "file:///some/absolute/path"),
        ("file:/some/path", "/some/path"),
        ("day=%C3%A9/p%20q", "day=é/p%20q"),
    ],
)
def test_a_path_is_the_same_however_another_writer_spells_it(added: str, removed: str) -> None:
    state = replayed((add(added),), (remove(removed),))
    assert state["files"] == {}


def test_the_newest_protocol_and_metadata_hold() -> None:
    newer = Metadata(id="t", schema=SCHEMA, configuration={"delta.appendOnly": "true"})
    state = replayed((Protocol(reader=2, writer=5),), (newer,))
    assert (state["protocol"], state["metadata"]) == (Protocol(reader=2, writer=5), newer)


def test_a_commit_that_switches_on_commit_times_is_known_by_its_number_without_reading_it_back() -> None:
    state = DELTA.replay(None, [(0, commit(*FIRST), MS), (1, commit(opened(FIRST[1])), 2 * MS)])
    assert state.configuration[ENABLEMENT_VERSION] == "1"


def test_an_operation_is_known_with_its_version_and_tally() -> None:
    tally = Tally(rows=3)
    ours = commit(
        Txn(app_id="gapless.job:fill", version=1), Txn(app_id="s", version=4), operation_id=JobId("fill"), tally=tally
    )
    state = DELTA.replay(None, [(0, commit(*FIRST), MS), (1, ours, 2 * MS)])
    fill, stream = state.recognise(JobId("fill")), state.recognise(SequenceId("s", 3))
    assert fill is not None
    assert (fill.version, fill.tally) == (1, tally)
    assert stream is not None
    assert (stream.operation, stream.version, stream.tally) == (SequenceId("s", 4), 1, None)
    assert state.recognise(SequenceId("s", 5)) is None


@pytest.mark.parametrize(("actions", "missing"), [((PROTOCOL,), "metaData"), ((FIRST[1],), "protocol")])
def test_a_log_that_does_not_say_what_the_table_is_is_refused(actions: tuple[Action, ...], missing: str) -> None:
    with pytest.raises(CorruptTable, match=f"there is no {missing}"):
        DELTA.replay(None, [(0, commit(*actions), MS)])


class Counted:
    """Makes values from a lazy, and counts them."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self, start: int, end: int) -> list[AddFile]:
        self.made += end - start
        return [add(str(at)) for at in range(start, end)]


def test_a_small_change_of_a_large_table_makes_no_value_of_its_other_files() -> None:
    make = Counted()
    files = LiveFiles.on(LazyFiles([str(at) for at in range(10_000)], make))
    state = replace(DELTA.replay(None, [(0, commit(*FIRST), MS)]), files=files)
    after = DELTA.replay(state, [(1, commit(add("new"), remove("7")), 2 * MS)])
    assert len(after.files) == 10_000
    assert make.made == 0, "not even what goes is looked at"
    assert "new" in after.files
    assert "7" not in after.files
    assert after.files["8"] == add("8")
    assert make.made == 1
    assert list(after.files) == [*(str(at) for at in range(10_000) if at != 7), "new"]
    assert make.made == 10_001, "one after the other, or all at once"


def test_a_shelf_of_which_every_value_was_made_by_itself_keeps_its_order() -> None:
    lazy = LazyFiles(["0", "1", "2"], Counted())
    assert [lazy[key] for key in ("2", "0", "1")] == [add("2"), add("0"), add("1")]
    assert list(lazy.all()) == ["0", "1", "2"]


def test_a_shelf_makes_each_value_once_and_many_changes_become_part_of_what_copies_share() -> None:
    make = Counted()
    lazy = LazyFiles([str(at) for at in range(300)], make)
    assert lazy["5"] is lazy["5"]
    assert lazy.all()["5"] is lazy["5"]
    with pytest.raises(KeyError):
        lazy["300"]
    files = LiveFiles.on(lazy)
    for at in range(MAX_CHANGES + 1):
        del files[str(at)]
    copy = LiveFiles.of(files)
    copy["x"] = add("x")
    assert list(files) == [str(at) for at in range(MAX_CHANGES + 1, 300)]
    assert list(copy) == [*files, "x"]
