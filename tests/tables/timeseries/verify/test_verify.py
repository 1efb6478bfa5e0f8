"""Each kind of damage is found, is told from every other, and is not found where it is not."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import gapless as gl
from gapless.coverage.bitmap import CoverageMap, range_bitmap
from gapless.coverage.codec import encode
from gapless.errors import CorruptTable, TableNotFound
from gapless.model.protocols import ObjectInfo
from gapless.tables.shared.findings import Finding
from gapless.tables.timeseries.verify.verify import verify_table
from support.faulty_store import FaultyStore

MakePlace = Callable[..., Any]


def only(place: Any, *, deep: bool = False) -> Finding:
    (finding,) = gl.verify(place.url, deep=deep).problems
    return finding


def test_a_sound_table_has_no_findings(place: Any) -> None:
    report = gl.open(place.url).verify(deep=True)
    assert report.findings == ()
    assert report.ok
    assert (report.version, report.commits, report.segments, report.unchecked) == (6, 6, 5, 0)
    assert report.bytes_read == sum(place.segment(version)["file_size"] for version in range(2, 7))
    report.require_ok()


def test_verify_writes_nothing(place: Any) -> None:
    before = place.everything()
    gl.verify(place.url, deep=True)
    gl.repair(place.url, accept_loss=True)
    assert place.everything() == before


def test_where_no_table_is_none_is_verified(place: Any) -> None:
    with pytest.raises(TableNotFound):
        gl.verify("memory://nothing-there")
    with pytest.raises(TableNotFound):
        gl.repair("memory://nothing-there", apply=True, accept_loss=True)


def test_log_10_a_missing_commit_is_named(place: Any) -> None:
    place.store.delete(place.path_of(3))
    place.store.delete(place.path_of(4))
    finding = only(place)
    assert (finding.code, finding.path, finding.mend) == ("commit-missing", place.path_of(3), "accept-loss")
    assert "versions 3 to 4 are lost" in finding.what


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b'{"version":3}', b"\xff\xfe"])
def test_a_commit_that_is_torn_or_none_is_damaged(place: Any, content: bytes) -> None:
    place.write(place.path_of(3), content)
    finding = only(place)
    assert (finding.code, finding.path, finding.mend) == ("commit-damaged", place.path_of(3), "accept-loss")


def test_a_flipped_bit_in_a_commit_is_found_wherever_it_is(place: Any) -> None:
    whole = place.store.get(place.path_of(3))
    for at in range(0, len(whole), 7):
        place.flip(place.path_of(3), at)
        try:
            found = place.codes()
        finally:
            place.write(place.path_of(3), whole)
        assert found == ["commit-damaged"], (at, whole[at : at + 1])


def test_current_that_leads_means_lost_commits(place: Any) -> None:
    place.write("_timeseries_log/CURRENT", b"9\n")
    finding = only(place)
    assert (finding.code, finding.path, finding.mend) == ("hint-ahead", place.path_of(7), "accept-loss")
    assert "versions 7 to 9" in finding.what


@pytest.mark.parametrize("content", [b"", b"six\n", b"6 6\n", b"-6\n", b"9" * 5000, b"\x00"])
def test_current_that_is_no_number_is_a_problem(place: Any, content: bytes) -> None:
    place.write("_timeseries_log/CURRENT", content)
    finding = only(place)
    assert (finding.code, finding.mend) == ("hint-unreadable", "repair")


@pytest.mark.parametrize(("content", "code"), [(b"4\n", "hint-behind"), (None, "hint-missing")])
def test_current_that_lags_is_a_note(place: Any, content: bytes | None, code: str) -> None:
    place.store.delete("_timeseries_log/CURRENT")
    if content is not None:
        place.write("_timeseries_log/CURRENT", content)
    report = gl.verify(place.url)
    assert report.ok
    assert [(note.code, note.mend) for note in report.notes] == [(code, "repair")]


def test_a_commit_that_adds_what_is_live_contradicts(place: Any) -> None:
    twice = place.segment(2)
    place.edit(4, lambda envelope: envelope["actions"].append({"AddSegment": twice}))
    finding = only(place)
    assert (finding.code, finding.path, finding.mend) == ("commit-contradicts", place.path_of(4), "no")


def test_a_commit_for_a_newer_release_is_not_called_damaged(place: Any) -> None:
    def ask_more(envelope: dict[str, Any]) -> None:
        envelope["actions"][0]["UpdateTableMeta"]["required_reader_features"] = ["gapless_magic"]

    place.edit(2, ask_more)
    finding = gl.verify(place.url).problems[0]
    assert (finding.code, finding.mend) == ("commit-unsupported", "no")
    assert "gapless_magic" in finding.what


def test_commit_times_that_run_backward_are_found(place: Any) -> None:
    place.edit(4, lambda envelope: envelope.update(timestamp="2001-01-01T00:00:00Z"))
    assert place.codes() == ["commit-time"]


def test_the_schema_lost_with_its_commit_is_found(place: Any) -> None:
    place.edit(2, lambda envelope: envelope["actions"].pop(0))
    assert place.codes() == ["schema-lost"]


def test_a_missing_segment_is_found(place: Any) -> None:
    path = place.segment(3)["path"]
    place.store.delete(path)
    finding = only(place)
    assert (finding.code, finding.path, finding.mend) == ("segment-missing", path, "no")


def test_every_byte_of_a_segment_is_checked(place: Any) -> None:
    path = place.segment(3)["path"]
    whole = place.store.get(path)
    for at in (0, 4, len(whole) // 2, len(whole) - 9, len(whole) - 1):
        place.flip(path, at)
        assert [(finding.code, finding.path) for finding in gl.verify(place.url).problems] == [("segment-altered", path)]
        place.write(path, whole)


@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: data + b"x", lambda _data: b""])
def test_a_segment_of_another_size_is_found(place: Any, change: Callable[[bytes], bytes]) -> None:
    path = place.segment(3)["path"]
    place.write(path, change(place.store.get(path)))
    assert only(place).code == "segment-altered"


def test_two_segments_that_changed_places_are_found(place: Any) -> None:
    one, other = place.segment(3)["path"], place.segment(4)["path"]
    first, second = place.store.get(one), place.store.get(other)
    place.write(one, second)
    place.write(other, first)
    assert place.codes() == ["segment-altered", "segment-altered"]


def test_a_segment_without_a_checksum_must_be_a_parquet_file_of_so_many_rows(place: Any) -> None:
    place.edit_segment(3, checksum=None, footer_checksum=None)
    assert (place.codes(), gl.verify(place.url).unchecked) == ([], 1)
    place.edit_segment(3, row_count=5)
    assert place.codes() == ["rows-differ"]
    place.edit_segment(3, row_count=4)
    path = place.segment(3)["path"]
    place.write(path, b"x" * len(place.store.get(path)))
    assert place.codes() == ["segment-unreadable"]


def test_deep_reads_the_pages_of_a_segment_without_a_checksum(place: Any) -> None:
    place.edit_segment(3, checksum=None, footer_checksum=None)
    place.flip(place.segment(3)["path"], 60)
    assert place.codes() == []
    assert place.codes(deep=True) == ["segment-unreadable"]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"row_count": 5}, "rows-differ"),
        ({"index_max": {"type": "timestamp", "value": "2026-01-06T02:00:00Z"}}, "bounds-differ"),
        ({"index_min": {"type": "timestamp", "value": "2026-01-06T00:00:01Z"}}, "bounds-differ"),
        ({"stats": {"v": {"min": 24.0, "max": 26.0, "nulls": 0}}}, "stats-differ"),
        ({"stats": {"v": {"min": 24.5, "max": 27.0, "nulls": 0}}}, "stats-differ"),
        ({"stats": {"v": {"min": 24.0, "max": 27.0, "nulls": 1}}}, "stats-differ"),
        ({"stats": {"v": {"min": "a", "max": "b"}}}, "stats-differ"),
        ({"entity_layout": {"Single": [{"type": "utf8", "value": "B"}]}}, "identity-differs"),
        ({"coverage": "VFNURUNPVjIAAAAA", "coverage_path": None}, "coverage-differs"),
    ],
)
def test_deep_holds_the_rows_against_what_the_log_says(place: Any, changes: dict[str, object], code: str) -> None:
    place.edit_segment(3, **changes)
    assert place.codes() == []
    finding = only(place, deep=True)
    assert (finding.code, finding.mend) == (code, "no")


def test_wider_bounds_and_statistics_are_no_damage(place: Any) -> None:
    wide = {"index_max": {"type": "timestamp", "value": "2026-01-07T02:00:00Z"}, "stats": {"v": {"min": -1.0, "max": 99.0}}}
    place.edit_segment(3, **wide)
    assert place.codes(deep=True) == []


def test_rows_out_of_the_order_that_the_log_promises_are_found(make_place: MakePlace) -> None:
    place = make_place(inline=True)
    place.edit_segment(3, sorted_by=["symbol", "ts"])
    assert place.codes(deep=True) == []
    table = gl.open(place.url)
    rows = table.scan().to_arrow().slice(0, 2).take([1, 0]).set_column(1, "symbol", [["C", "C"]])
    table.append(rows)
    path = place.segment(7)["path"]
    sink = io.BytesIO()
    pq.write_table(pq.read_table(io.BytesIO(place.store.get(path))).take([1, 0]), sink, write_page_checksum=True)
    place.write(path, sink.getvalue())
    place.edit_segment(7, checksum=None, footer_checksum=None, file_size=None)
    assert place.codes(deep=True) == ["order-differs"]


def test_a_missing_sidecar_is_found(place: Any) -> None:
    path = place.segment(3)["coverage_path"]
    place.store.delete(path)
    finding = only(place)
    assert (finding.code, finding.path, finding.mend) == ("coverage-missing", path, "repair")


def test_an_altered_sidecar_is_found(place: Any) -> None:
    path = place.segment(3)["coverage_path"]
    place.flip(path, -1)
    finding = only(place)
    assert (finding.code, finding.path, finding.mend) == ("coverage-altered", path, "repair")


def test_a_sidecar_that_no_checksum_guards_must_decode(place: Any) -> None:
    place.edit_segment(3, coverage_checksum=None)
    assert place.codes() == []
    place.write(place.segment(3)["coverage_path"], b"TSTE")
    assert only(place).code == "coverage-unreadable"


def test_the_sidecar_of_a_lost_segment_cannot_be_made_again(place: Any) -> None:
    body = place.segment(3)
    place.store.delete(body["path"])
    place.store.delete(body["coverage_path"])
    problems = gl.verify(place.url).problems
    assert [(finding.code, finding.mend) for finding in problems] == [("segment-missing", "no"), ("coverage-missing", "no")]


def test_coverage_in_the_commit_that_cannot_be_read_is_found(make_place: MakePlace) -> None:
    place = make_place(inline=True)
    place.edit_segment(3, coverage="AAAA")
    finding = only(place)
    assert (finding.code, finding.path, finding.mend) == ("coverage-unreadable", place.segment(3)["path"], "no")
    place.edit_segment(3, coverage=None)
    assert only(place).code == "coverage-missing"


def test_an_overlap_that_the_policy_forbids_names_both_versions(place: Any) -> None:
    gl.open(place.url).append(gl.open(place.url).scan(end="2026-01-05T02:00Z").to_arrow(), on_overlap="allow")
    assert place.codes() == []  # the append said that it may
    place.edit(7, lambda envelope: envelope.update(parameters={"on_overlap": "reject"}))
    finding = only(place)
    assert (finding.code, finding.path) == ("overlap", place.segment(7)["path"])
    assert finding.what == (
        "version 7 covers 2 buckets that earlier versions cover, and its policy forbids that:"
        " the first from 2026-01-05T00:00:00Z of symbol='A', which version 2 covers"
    )
    place.edit(7, lambda envelope: envelope.update(parameters={}))
    assert place.codes() == ["overlap"]  # without a policy of its own the table's holds


def test_what_a_restore_brings_back_may_overlap_as_it_did_before(place: Any) -> None:
    table = gl.open(place.url)
    rows = table.scan(end="2026-01-05T02:00Z").to_arrow()
    table.append(rows, on_overlap="allow")
    both = table.version
    table.delete("true")
    table.restore(version=both)
    assert place.codes() == []
    table.restore(version=both - 1)
    table.append(rows, on_overlap="allow")
    over = table.version
    table.delete("true")
    table.restore(version=over)
    place.edit(over, lambda envelope: envelope.update(parameters={"on_overlap": "reject"}))
    assert only(place).what.startswith(f"version {over} covers 2 buckets that earlier versions cover")


def test_segments_of_one_version_may_share_a_bucket(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gapless.tables.timeseries.write.stage.RUN_BYTES", 1)
    table = gl.open(place.url)
    moments = [f"2026-02-01T00:{minute:02d}:00Z" for minute in range(3)]
    batches = gl.open(place.url).scan().to_arrow().slice(0, 3)
    times = pc.assume_timezone(pc.strptime(pa.array(moments), format="%Y-%m-%dT%H:%M:%SZ", unit="s"), "UTC")
    moved = batches.set_column(0, "ts", times)
    assert table.append(pa.RecordBatchReader.from_batches(moved.schema, moved.to_batches(max_chunksize=1))).segments > 1
    assert place.codes(deep=True) == []


def test_what_no_version_names_is_a_note(place: Any) -> None:
    place.write("data/left.parquet", b"x")
    place.write("_coverage/segments/left.roar", b"x")
    place.write("_coverage/table/1-tblcov-x.roar", b"timeseries-table-format's own")
    place.write("data/.hoodie/hoodie.properties", b"a publication's own")
    report = gl.verify(place.url)
    assert report.ok
    assert {note.path for note in report.notes} == {"data/left.parquet", "_coverage/segments/left.roar"}
    assert {note.code for note in report.notes} == {"orphan"}


def test_checkpoints_are_held_against_the_commits(make_place: MakePlace) -> None:
    place = make_place(checkpoint_interval=2)
    assert len(place.names("_timeseries_log/0000000004.checkpoint")) == 1
    assert place.codes(deep=True) == []
    four, six = (f"_timeseries_log/{version:010d}.checkpoint.parquet" for version in (4, 6))
    whole = place.store.get(four)
    place.flip(four, 60)
    assert (only(place).code, only(place).path, only(place).mend) == ("checkpoint-damaged", four, "repair")
    place.write(four, whole)
    place.store.delete(six)
    assert only(place).code == "checkpoint-hint"
    place.write("_timeseries_log/_last_checkpoint", b"[")
    assert only(place).code == "checkpoint-hint"


def test_a_checkpoint_that_says_something_else_than_the_commits_is_found(make_place: MakePlace) -> None:
    place, other = make_place(checkpoint_interval=3), make_place(checkpoint_interval=3)
    path = "_timeseries_log/0000000006.checkpoint.parquet"
    place.write(path, other.store.get(path))
    finding, hint = gl.verify(place.url).problems
    assert (finding.code, finding.path, finding.mend) == ("checkpoint-differs", path, "repair")
    assert hint.code == "checkpoint-hint"  # it names this one


def test_what_a_checkpoint_still_tells_is_not_lost(make_place: MakePlace) -> None:
    place = make_place(checkpoint_interval=3)
    place.store.delete(place.path_of(2))
    report = gl.verify(place.url)
    (finding,) = report.problems
    assert finding.code == "commit-missing"
    assert "a later log checkpoint still tells what it did" in finding.what
    assert report.segments == 5


def test_require_ok_raises_for_the_first_problem(place: Any) -> None:
    place.store.delete(place.segment(3)["path"])
    with pytest.raises(CorruptTable, match="is missing") as caught:
        gl.verify(place.url).require_ok()
    assert caught.value.path == place.segment(3)["path"]


def test_progress_counts_segments(place: Any) -> None:
    seen: list[tuple[int, int]] = []
    gl.verify(place.url, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(done, 5) for done in range(6)]


def test_a_table_without_rows_is_sound() -> None:
    table = gl.create("memory://verify-empty", index="n", index_type="int64", bucket=10)
    assert table.verify(deep=True).findings == ()


def test_coverage_of_other_rows_without_a_checksum_can_be_mended(place: Any) -> None:
    place.edit_segment(3, coverage_checksum=None)
    wrong = encode(CoverageMap({("A",): range_bitmap(2**63, 2**63 + 9)}), ("utf8",))
    place.write(place.segment(3)["coverage_path"], wrong)
    assert place.codes() == []
    finding = only(place, deep=True)
    assert (finding.code, finding.mend) == ("coverage-differs", "repair")


def test_a_commit_that_a_listing_passed_over_is_not_called_lost(place: Any) -> None:
    class Hasty(FaultyStore):
        def list(self, prefix: str = "", after: str = "") -> Iterator[ObjectInfo]:
            return (info for info in self.inner.list(prefix, after) if info.path != place.path_of(4))

    assert verify_table(Hasty(place.store)).findings == ()
