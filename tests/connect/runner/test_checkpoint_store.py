"""The checkpoint store decides each number once, survives damage of one copy, and keeps what is not finished."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from gapless.connect import Checkpoint, CheckpointStore, Cursor
from gapless.errors import CommitConflict, CorruptTable, LogWarning


def checkpoint(number: int, row: int = 0, unfinished: tuple[int, ...] = ()) -> Checkpoint:
    return Checkpoint(id=number, cursor=Cursor(source="table", state={"row": row}), prepared={}, unfinished=unfinished)


def decided(store: CheckpointStore, count: int) -> list[Checkpoint]:
    """So many that are decided one after the other and not finished."""
    first, found = store.recover().next_id, list[Checkpoint]()
    for row in range(count):
        one = checkpoint(first + row, row, tuple(before.id for before in found))
        store.record(one)
        store.decide(one)
        found.append(one)
    return found


def test_what_was_decided_is_where_a_pipeline_goes_on(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    begun = store.recover()
    assert (begun.decided, begun.finished, begun.aborted) == (None, True, ())
    one = checkpoint(begun.next_id, 7)
    store.record(one)
    store.decide(one)
    found = CheckpointStore(tmp_path).recover()
    assert (found.decided, found.finished) == (one, False)
    store.finish(one)
    found = CheckpointStore(tmp_path).recover()
    assert (found.decided, found.finished) == (one, True)
    assert found.next_id > one.id


def test_a_coordinator_that_was_given_up_cannot_decide_any_more(tmp_path: Path) -> None:
    slow, quick = CheckpointStore(tmp_path), CheckpointStore(tmp_path)
    number = slow.recover().next_id
    theirs = checkpoint(number)
    slow.record(theirs)
    found = quick.recover()
    assert found.aborted == (theirs,)
    with pytest.raises(CommitConflict, match="another coordinator"):
        slow.decide(theirs)
    assert quick.recover().decided is None
    # Nor one that has not recorded yet.
    mine = checkpoint(found.next_id)
    quick.recover()
    quick.record(mine)
    with pytest.raises(CommitConflict):
        quick.decide(mine)


def test_of_two_that_decide_one_number_one_wins(tmp_path: Path) -> None:
    one, other = CheckpointStore(tmp_path), CheckpointStore(tmp_path)
    number = max(one.recover().next_id, other.recover().next_id)
    one.record(checkpoint(number, 1))
    with pytest.raises(CommitConflict):
        other.record(checkpoint(number, 2))
    one.record(checkpoint(number, 1))  # sent again, it is the same
    one.decide(checkpoint(number, 1))
    one.decide(checkpoint(number, 1))


def test_a_torn_manifest_is_taken_from_its_decision_and_an_undecided_one_is_left_out(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    number = store.recover().next_id
    decided = checkpoint(number, 3)
    store.record(decided)
    store.decide(decided)
    manifest = tmp_path / f"{number:020d}.json"
    whole = manifest.read_bytes()
    manifest.write_bytes(whole[: len(whole) // 2])
    with pytest.warns(LogWarning, match="copy"):
        assert store.recover().decided == decided
    manifest.write_bytes(whole.replace(b'"row": 3', b'"row": 4'))
    with pytest.warns(LogWarning, match="copy"):
        found = store.recover()
    assert found.decided == decided
    later = checkpoint(found.next_id)
    store.record(later)
    (tmp_path / f"{later.id:020d}.json").write_bytes(b"{")
    manifest.write_bytes(whole)
    with pytest.warns(LogWarning, match="not decided"):
        found = store.recover()
    assert (found.decided, found.aborted) == (decided, ())
    (tmp_path / f"{number:020d}.decided").write_bytes(b"")
    with pytest.raises(CorruptTable):
        store.recover()


def test_finished_checkpoints_go_and_what_is_not_finished_stays(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep=2)
    for row in range(6):
        one = checkpoint(store.recover().next_id, row)
        store.record(one)
        store.decide(one)
        store.finish(one)
    assert len(list(tmp_path.glob("*.json"))) == 2
    assert store.recover().decided == one


def test_a_coordinator_whose_number_was_tidied_away_decides_nothing(tmp_path: Path) -> None:
    """Three finished ones later nothing says any more that it was given up."""
    slow, quick = CheckpointStore(tmp_path), CheckpointStore(tmp_path, keep=1)
    theirs = checkpoint(slow.recover().next_id)
    mine = checkpoint(quick.recover().next_id)
    quick.record(mine)
    quick.decide(mine)
    quick.finish(mine)
    assert not (tmp_path / f"{theirs.id:020d}.decided").exists()
    slow.record(theirs)
    with pytest.raises(CommitConflict, match="another coordinator"):
        slow.decide(theirs)
    decided = quick.recover().decided
    assert decided is not None
    assert decided.id > theirs.id


def test_what_was_given_up_is_tidied_away_too(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep=1)
    given_up = checkpoint(store.recover().next_id)
    store.record(given_up)
    for _ in range(3):
        one = checkpoint(store.recover().next_id)
        store.record(one)
        store.decide(one)
        store.finish(one)
    assert not (tmp_path / f"{given_up.id:020d}.json").exists()
    assert not (tmp_path / f"{given_up.id:020d}.decided").exists()


def test_several_that_are_decided_and_not_finished_are_all_found_in_order(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep=1)
    waiting = decided(store, 4)
    found = CheckpointStore(tmp_path).recover()
    assert (list(found.unfinished), found.decided, found.finished) == (waiting, waiting[-1], False)
    for at, one in enumerate(waiting, 1):
        store.finish(one)
        assert list(store.recover().unfinished) == waiting[at:]
    found = store.recover()
    assert (found.decided, found.finished) == (waiting[-1], True)
    # What comes after them in another life names what it found.
    later = checkpoint(found.next_id, unfinished=())
    store.record(later)
    store.decide(later)
    assert store.recover().unfinished == (later,)


def test_what_is_not_finished_is_never_tidied_away(tmp_path: Path) -> None:
    """Not even where a coordinator says of later ones that they are finished."""
    store = CheckpointStore(tmp_path, keep=1)
    waiting = decided(store, 4)
    for one in waiting[1:]:
        store.finish(one)
    assert store.recover().unfinished == (waiting[0],)


def test_each_of_several_is_taken_from_its_decision_where_its_manifest_is_torn_and_is_missed_where_both_are_gone(
    tmp_path: Path,
) -> None:
    store = CheckpointStore(tmp_path)
    waiting = decided(store, 3)
    (tmp_path / f"{waiting[0].id:020d}.json").write_bytes(b"{")
    with pytest.warns(LogWarning, match="copy"):
        assert list(store.recover().unfinished) == waiting
    (tmp_path / f"{waiting[1].id:020d}.decided").unlink()
    with pytest.raises(CorruptTable, match="says that it was decided"):
        store.recover()


def test_a_decision_that_came_too_late_is_void_and_is_tidied_away(tmp_path: Path) -> None:
    """Its coordinator is told so, and dies before it can do anything about it: the rows are in higher ones."""
    slow, quick = CheckpointStore(tmp_path), CheckpointStore(tmp_path, keep=1)
    late = checkpoint(slow.recover().next_id)
    for one in decided(quick, 2):
        quick.finish(one)
    assert not (tmp_path / f"{late.id:020d}.decided").exists()
    slow.record(late)
    with pytest.raises(CommitConflict, match="another coordinator"):
        slow.decide(late)
    assert (tmp_path / f"{late.id:020d}.decided").exists()
    (waiting,) = decided(quick, 1)
    assert quick.recover().unfinished == (waiting,)
    quick.finish(waiting)
    assert not list(tmp_path.glob(f"{late.id:020d}.*"))


def test_a_manifest_of_before_there_was_a_backlog_is_read(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    (one,) = decided(store, 1)
    assert "unfinished" not in (tmp_path / f"{one.id:020d}.json").read_text()
    assert store.recover().unfinished == (one,)


def test_retention_never_passes_what_is_not_finished(tmp_path: Path) -> None:
    """However many later ones are finished: what waits for a sink is there, and found, until it is finished too."""
    store = CheckpointStore(tmp_path, keep=1)
    waiting = checkpoint(store.recover().next_id, 1)
    store.record(waiting)
    store.decide(waiting)
    for number in range(waiting.id + 1, waiting.id + 8):
        later = dataclasses.replace(checkpoint(number, number), unfinished=(waiting.id,))
        store.record(later)
        store.decide(later)
        store.finish(later)
        assert {path.suffix for path in tmp_path.glob(f"{waiting.id:020d}.*")} == {".json", ".decided"}
    found = CheckpointStore(tmp_path).recover()
    assert (found.decided, found.unfinished) == (later, (waiting,))
    store.finish(waiting)
    last = checkpoint(found.next_id)
    store.record(last)
    store.decide(last)
    store.finish(last)
    assert not list(tmp_path.glob(f"{waiting.id:020d}.*"))


@pytest.mark.parametrize(
    ("said", "altered"),
    [(b'"commit": true', b'"commit": false'), (b'"row": 3', b'"row": 4'), (b'"commit": true', b'"commit": "no"'), (b"}", b"")],
)
def test_a_decision_that_is_altered_is_told(said: bytes, altered: bytes, tmp_path: Path) -> None:
    """Whether its rows are committed is said nowhere else, so that nobody goes on as if it were the other way round."""
    store = CheckpointStore(tmp_path)
    one = checkpoint(store.recover().next_id, 3)
    store.record(one)
    store.decide(one)
    path = tmp_path / f"{one.id:020d}.decided"
    path.write_bytes(path.read_bytes().replace(said, altered))
    with pytest.raises(CorruptTable, match=f"{one.id:020d}.decided"):
        store.recover()


def test_a_decision_of_the_first_releases_has_no_checksum(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    one = checkpoint(store.recover().next_id, 3)
    store.record(one)
    body = {"commit": True, "checkpoint": json.loads(one.to_json())}
    (tmp_path / f"{one.id:020d}.decided").write_text(json.dumps(body))
    found = store.recover()
    assert (found.decided, found.unfinished) == (one, (one,))


def test_a_torn_newest_falls_back_to_the_one_before_and_says_so(tmp_path: Path) -> None:
    """Its rows come again from the cursor of the one before: nobody has decided them."""
    store = CheckpointStore(tmp_path)
    before = checkpoint(store.recover().next_id, 3)
    store.record(before)
    store.decide(before)
    store.finish(before)
    newest = checkpoint(before.id + 1, 4)
    store.record(newest)
    path = tmp_path / f"{newest.id:020d}.json"
    whole = path.read_bytes()
    for torn in (whole[:-20], b"", whole.replace(b'"row": 4', b'"row": 5')):
        path.write_bytes(torn)
        with pytest.warns(LogWarning, match=f"{newest.id:020d}.*goes on before it"):
            found = CheckpointStore(tmp_path).recover()
        assert (found.decided, found.aborted) == (before, ())
        with pytest.raises(CommitConflict):
            store.decide(newest)


def test_what_was_decided_counts_whatever_was_recorded(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    decided = checkpoint(store.recover().next_id, 3)
    store.record(decided)
    store.decide(decided)
    (tmp_path / f"{decided.id:020d}.json").write_text(checkpoint(decided.id, 4).to_json())
    assert store.recover().decided == decided
