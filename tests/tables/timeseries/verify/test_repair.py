"""`repair` mends what it says it mends, keeps what it replaces, and changes nothing without being told to."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import gapless as gl
from gapless.errors import CorruptTable
from gapless.tables.shared.findings import RepairReport

MakePlace = Callable[..., Any]
CURRENT, POINTER = "_timeseries_log/CURRENT", "_timeseries_log/_last_checkpoint"


def checkpoint(version: int) -> str:
    return f"_timeseries_log/{version:010d}.checkpoint.parquet"


def mend(place: Any, *, accept_loss: bool = False, deep: bool = False) -> RepairReport:
    """Look first, which changes nothing; then do what was said."""
    before = place.everything()
    planned = gl.repair(place.url, accept_loss=accept_loss, deep=deep)
    assert place.everything() == before
    assert not planned.applied
    done = gl.repair(place.url, apply=True, accept_loss=accept_loss, deep=deep)
    assert done.applied
    assert [(step.act, step.path) for step in done.steps] == [(step.act, step.path) for step in planned.steps]
    assert {(f.code, f.path) for f in done.left} == {(f.code, f.path) for f in planned.left}
    assert done.left == gl.verify(place.url, deep=deep).problems
    again = gl.repair(place.url, apply=True, accept_loss=accept_loss, deep=deep)
    assert again.steps == ()
    return done


def rows_of(place: Any) -> int:
    return int(gl.open(place.url).scan().to_arrow().num_rows)


def test_a_sound_table_needs_nothing(place: Any) -> None:
    report = mend(place, accept_loss=True, deep=True)
    assert (report.steps, report.left, report.ok) == ((), (), True)


@pytest.mark.parametrize("content", [None, b"", b"x", b"2\n", b"9" * 5000])
def test_current_is_written_anew(place: Any, content: bytes | None) -> None:
    place.store.delete(CURRENT)
    if content is not None:
        place.write(CURRENT, content)
    report = mend(place)
    assert [step.act for step in report.steps] == ["write-hint"]
    assert place.store.get(CURRENT) == b"6\n"
    assert report.ok


def test_a_damaged_checkpoint_goes_and_is_kept(make_place: MakePlace) -> None:
    place = make_place(checkpoint_interval=2)
    place.flip(checkpoint(6), 60)
    damaged = place.store.get(checkpoint(6))
    report = mend(place)
    assert [step.act for step in report.steps] == ["remove-checkpoint", "write-checkpoint-hint"]
    assert place.names(checkpoint(6)) == []
    (kept,) = place.names("_timeseries_log/_damaged/")
    assert place.store.get(kept) == damaged
    assert place.store.get(POINTER) == b'{"version": 4}'
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert rows_of(place) == 20


def test_a_checkpoint_hint_without_checkpoints_goes(place: Any) -> None:
    place.write(POINTER, b'{"version": 4}')
    assert [step.act for step in mend(place).steps] == ["write-checkpoint-hint"]
    assert place.names(POINTER) == []


def test_a_missing_sidecar_is_made_from_the_rows_byte_for_byte(place: Any) -> None:
    path = place.segment(3)["coverage_path"]
    whole = place.store.get(path)
    place.store.delete(path)
    with pytest.raises(CorruptTable):
        gl.open(place.url).coverage()
    report = mend(place)
    assert [(step.act, step.path) for step in report.steps] == [("write-coverage", path)]
    assert place.store.get(path) == whole
    assert report.ok


def test_an_altered_sidecar_is_made_anew(place: Any) -> None:
    path = place.segment(3)["coverage_path"]
    whole = place.store.get(path)
    place.flip(path, -1)
    assert mend(place).ok
    assert place.store.get(path) == whole
    assert place.names("_timeseries_log/_damaged/") == []  # its bytes are proven to be wrong


def test_a_sidecar_whose_rows_give_another_is_left_alone(place: Any) -> None:
    path = place.segment(3)["coverage_path"]
    place.edit_segment(3, coverage_checksum="xxh3-128:" + "0" * 32)
    before = place.store.get(path)
    report = mend(place)
    assert report.steps == ()
    assert [(finding.code, finding.mend) for finding in report.left] == [("coverage-altered", "repair")]
    assert place.store.get(path) == before
    assert [finding.mend for finding in gl.repair(place.url).left] == ["no"]


def test_a_sidecar_without_a_checksum_is_kept_before_it_is_replaced(place: Any) -> None:
    path = place.segment(3)["coverage_path"]
    whole = place.store.get(path)
    place.edit_segment(3, coverage_checksum=None)
    place.write(path, b"TSTE")
    assert mend(place).ok
    assert place.store.get(path) == whole
    (kept,) = place.names("_timeseries_log/_damaged/")
    assert place.store.get(kept) == b"TSTE"


def test_segments_are_not_mended_and_it_says_so(place: Any) -> None:
    place.store.delete(place.segment(3)["path"])
    place.flip(place.segment(4)["path"])
    report = mend(place, accept_loss=True)
    assert report.steps == ()
    assert [(finding.code, finding.mend) for finding in report.left] == [("segment-missing", "no"), ("segment-altered", "no")]


def test_log_10_a_lost_commit_is_only_given_up_if_that_is_accepted(place: Any) -> None:
    place.store.delete(place.path_of(4))
    report = mend(place)
    assert report.steps == ()
    assert [(finding.code, finding.mend) for finding in report.left] == [("commit-missing", "accept-loss")]
    with pytest.raises(CorruptTable, match="version 4 is lost"):
        gl.open(place.url)


def test_log_17_a_lost_commit_is_given_up_under_its_number(place: Any) -> None:
    place.store.delete(place.path_of(4))
    report = mend(place, accept_loss=True)
    assert [(step.act, step.path) for step in report.steps] == [("fill-version", place.path_of(4))]
    assert report.ok
    table = gl.open(place.url)
    assert (table.version, rows_of(place)) == (6, 16)
    entry = table.history()[3]
    assert (entry.version, entry.operation, entry.segments, entry.parameters) == (4, "repair", 0, {"accept_loss": True})
    times = [one.time for one in table.history()]
    assert times == sorted(times)
    assert table.append(table.scan().to_arrow().slice(0, 1), on_overlap="allow").version == 7
    # What was lost is an orphan now, and can be appended again.
    assert [note.code for note in gl.verify(place.url).notes] == ["orphan", "orphan"]


@pytest.mark.parametrize("content", [b"", b'{"version":4,"act', b"\x00" * 500])
def test_a_torn_commit_is_kept_and_replaced(place: Any, content: bytes) -> None:
    place.write(place.path_of(4), content)
    report = mend(place, accept_loss=True)
    assert [step.act for step in report.steps] == ["set-aside"]
    (kept,) = place.names("_timeseries_log/_damaged/")
    assert kept.startswith("_timeseries_log/_damaged/0000000004.json.")
    assert place.store.get(kept) == content
    assert kept in report.steps[0].what or "keep the damaged file" in report.steps[0].what
    assert (gl.open(place.url).version, rows_of(place)) == (6, 16)


def test_lost_commits_at_the_end_are_filled_up_to_where_current_points(place: Any) -> None:
    place.store.delete(place.path_of(5))
    place.store.delete(place.path_of(6))
    place.write(CURRENT, b"7\n")
    report = mend(place, accept_loss=True)
    assert [step.path for step in report.steps] == [place.path_of(version) for version in (5, 6, 7)]
    table = gl.open(place.url)
    assert (table.version, rows_of(place)) == (7, 12)
    assert table.append(table.scan().to_arrow().slice(0, 1), on_overlap="allow").version == 8


def test_current_far_ahead_is_not_believed(place: Any) -> None:
    place.write(CURRENT, b"9999999999\n")
    report = mend(place, accept_loss=True)
    assert report.steps == ()
    (left,) = gl.repair(place.url, accept_loss=True).left
    assert left.mend == "no"
    assert "a damaged CURRENT is likelier" in left.what


def test_a_table_without_its_first_commit_cannot_be_mended(place: Any) -> None:
    place.store.delete(place.path_of(1))
    place.edit(2, lambda envelope: envelope["actions"].pop(0))
    assert mend(place, accept_loss=True).steps == ()
    (left,) = gl.repair(place.url, accept_loss=True).left
    assert (left.code, left.mend) == ("commit-missing", "no")
    assert "cannot stand without it" in left.what


def test_the_first_commit_may_go_where_a_later_one_says_what_the_table_is(place: Any) -> None:
    place.store.delete(place.path_of(1))
    assert mend(place, accept_loss=True).ok
    assert rows_of(place) == 20


def test_a_schema_that_is_lost_with_its_commit_is_taken_from_the_segments(place: Any) -> None:
    expected = gl.open(place.url).scan(start="2026-01-06T00:00Z").to_arrow()
    place.store.delete(place.path_of(2))
    report = mend(place, accept_loss=True)
    assert report.ok
    table = gl.open(place.url)
    assert table.schema is not None
    assert table.schema.names == ["ts", "symbol", "v"]
    assert table.scan().to_arrow().cast(expected.schema).equals(expected)  # times were declared in seconds, stored in µs
    assert gl.verify(place.url, deep=True).ok


def test_a_commit_that_a_checkpoint_still_tells_is_rebuilt(make_place: MakePlace) -> None:
    place = make_place(checkpoint_interval=3)
    whole = gl.open(place.url).scan().to_arrow()
    place.store.delete(place.path_of(2))
    place.write(place.path_of(3), b"")
    report = mend(place, accept_loss=True)
    assert report.ok
    place.store.delete(checkpoint(3))
    place.store.delete(checkpoint(6))
    place.store.delete(POINTER)
    table = gl.open(place.url)
    assert table.scan().to_arrow().equals(whole)
    again = table.append(whole.slice(0, 4), operation_id="job-0")
    assert (again.already_applied, again.rows, again.version) == (True, 4, 2)
    again = table.append(whole.slice(4, 4), operation_id=("feed", 1))
    assert (again.already_applied, again.version) == (True, 5)


def test_a_commit_for_a_newer_release_is_never_replaced(place: Any) -> None:
    def ask_more(envelope: dict[str, Any]) -> None:
        envelope["actions"][0]["UpdateTableMeta"]["required_reader_features"] = ["gapless_magic"]

    place.edit(2, ask_more)
    place.store.delete(place.path_of(4))
    assert mend(place, accept_loss=True).steps == ()


def test_everything_at_once(make_place: MakePlace) -> None:
    place = make_place(checkpoint_interval=3)
    place.write(CURRENT, b"x")
    place.flip(checkpoint(6), 60)
    place.store.delete(place.segment(3)["coverage_path"])
    place.flip(place.segment(5)["path"])
    place.write(place.path_of(6), b"{")
    report = mend(place, accept_loss=True)
    acts = ["set-aside", "remove-checkpoint", "write-checkpoint-hint", "write-hint", "write-coverage"]
    assert [step.act for step in report.steps] == acts
    assert [finding.code for finding in report.left] == ["segment-altered"]
    assert not report.ok
