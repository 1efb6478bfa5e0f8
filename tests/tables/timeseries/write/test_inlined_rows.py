"""Appends that lie in their commit: one put, the same rows, and files again once they are compacted."""

from __future__ import annotations

import base64
import io
import itertools
import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gapless as gl
from gapless.errors import CorruptTable, DuplicateKey, InvalidOption
from gapless.files.pages.footer import checksum
from gapless.formats.timeseries.checkpoint import checkpoint as packing
from gapless.formats.timeseries.codec import metadata
from gapless.formats.timeseries.format import TIME_SERIES
from gapless.store.open import open_store
from gapless.tables.timeseries.verify.verify import verify_table
from gapless.tables.timeseries.write import stage
from support.clocked_table import Clocked
from support.faulty_store import is_commit, objects, once, open_faulty
from tables.timeseries.test_types import CASES, declared, exact

_counter = itertools.count()
INLINE = 1 << 16


@pytest.fixture
def place() -> str:
    return f"memory://inlined-{next(_counter)}"


def make(place: str | Path, **properties: Any) -> gl.TimeSeriesTable:
    properties = {"inline_bytes": INLINE, **properties}
    return gl.create(place, index="i", index_type="int64", bucket=10, entity="s", properties=properties)


def rows(*numbers: int, s: str = "a", x: float | None = None) -> dict[str, Any]:
    return {"i": list(numbers), "s": [s] * len(numbers), "x": [float(n) if x is None else x for n in numbers]}


def numbers(table: Any) -> list[int]:
    return sorted(row["i"] for row in table.scan().to_arrow().to_pylist())


def inlined(table: Any) -> list[bool]:
    return [segment.data is not None for segment in table.segments()]


def body_of(place: str, version: int) -> dict[str, Any]:
    commit: dict[str, Any] = json.loads(open_store(place).get(f"_timeseries_log/{version:010d}.json"))
    return commit


def adds_of(place: str, version: int) -> list[dict[str, Any]]:
    return [action["AddSegment"] for action in body_of(place, version)["actions"] if "AddSegment" in action]


# -- what an append writes ---------------------------------------------------------------------------------------------


def test_a_tiny_append_is_one_put(place: str) -> None:
    """One put, and the hint."""
    make(place).append(rows(0))
    table, store = open_faulty(place)
    store.puts.clear()
    report = table.append(rows(10, 11, 20))
    assert store.puts == ["_timeseries_log/0000000003.json", "_timeseries_log/CURRENT"]
    assert (report.rows, report.segments, report.buckets) == (3, 1, 2)
    assert not [path for path in objects(place) if not path.startswith("_timeseries_log/")]
    assert numbers(table) == numbers(gl.open(place)) == [0, 10, 11, 20]


def test_it_is_off_unless_it_is_asked_for(place: str) -> None:
    table = make(place, inline_bytes=0)
    table.append(rows(0))
    assert inlined(table) == [False]
    assert "gapless_inline" not in body_of(place, 1)["actions"][0]["UpdateTableMeta"]["required_reader_features"]


def test_what_lies_in_the_commit_is_the_parquet_file(place: str) -> None:
    """Read with pyarrow, which knows nothing of the rest."""
    table = make(place)
    table.append(rows(3, 1, 2))
    (add,) = adds_of(place, 2)
    data = base64.b64decode(add["data"], validate=True)
    assert pq.read_table(io.BytesIO(data)).to_pydict() == rows(1, 2, 3)
    assert (len(data), checksum(data)) == (add["file_size"], add["checksum"])
    assert add["path"].startswith("data/")
    assert "coverage" in add


def test_its_size_counts_together_with_its_coverage(place: str) -> None:
    table = make(place)
    table.append(rows(0))
    (add,) = adds_of(place, 2)
    size = add["file_size"] + len(base64.b64decode(add["coverage"]))
    for limit, expected in ((size, True), (size - 1, False)):
        table.set_properties({"inline_bytes": limit})
        table.append(rows(10 + 10 * limit))
        assert inlined(table)[-1] is expected


def test_a_coverage_of_many_series_lies_there_too(place: str) -> None:
    """Beside a file it would lie in an object of its own."""
    make(place, inline_bytes=1 << 20)
    table, store = open_faulty(place)
    store.puts.clear()
    names = [f"series-{number}" for number in range(500)]
    table.append({"i": range(500), "s": names, "x": [0.5] * 500})
    assert store.puts == ["_timeseries_log/0000000002.json", "_timeseries_log/CURRENT"]
    assert len(base64.b64decode(adds_of(place, 2)[0]["coverage"])) > 4_096
    assert len(gl.open(place).identities()) == 500
    assert not table.verify(deep=True).findings


def test_only_the_first_segment_of_an_append_lies_in_its_commit(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "RUN_BYTES", 1_000)
    table = make(place)
    table.append(rows(*range(300)))
    assert inlined(table)[0]
    assert not any(inlined(table)[1:])
    assert len(inlined(table)) > 2
    assert numbers(gl.open(place)) == list(range(300))


def test_corrections_write_files(place: str) -> None:
    table = make(place)
    table.append(rows(0, 10, 20))
    table.append(rows(0, x=7.0), on_overlap="replace")
    assert inlined(table) == [False]


def test_appends_of_several_threads_share_one_that_lies_in_the_commit(place: str) -> None:
    make(place)
    table, store = open_faulty(place)
    table.append(rows(0))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: table.append(rows(10 * number)), range(1, 40)))
    assert all(inlined(table))
    assert all(path.startswith("_timeseries_log/") for path in store.puts)
    assert numbers(gl.open(place)) == list(range(0, 400, 10))


def test_writers_with_handles_of_their_own(tmp_path: Path) -> None:
    make(tmp_path / "t").append(rows(0))

    def write(lane: int) -> None:
        table = gl.open(tmp_path / "t")
        for number in range(10):
            table.append(rows(1_000 * lane + 10 * number))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(1, 5)))
    table = gl.open(tmp_path / "t")
    assert numbers(table) == [0, *(1_000 * lane + 10 * n for lane in range(1, 5) for n in range(10))]
    assert all(inlined(table))
    assert table.version == 42
    assert not table.verify(deep=True).findings


def test_rows_of_a_lost_attempt_are_read_back_without_a_file(place: str) -> None:
    make(place, on_overlap="skip").append(rows(0))
    table, store = open_faulty(place)
    store.puts.clear()
    store.before_put = once(lambda: gl.open(place).append(rows(10, x=1.0)), is_commit)
    report = table.append(rows(10, 20, x=2.0))
    assert (report.rows, report.skipped_rows) == (1, 1)
    assert not [path for path in store.puts if path.startswith("data/")]
    found = {row["i"]: row["x"] for row in gl.open(place).scan().to_arrow().to_pylist()}
    assert found == {0: 0.0, 10: 1.0, 20: 2.0}


@pytest.mark.parametrize("name", CASES)
def test_every_type_comes_back_as_declared(place: str, name: str) -> None:
    array = CASES[name]
    table = gl.create(place, index="i", index_type="int64", bucket=1, properties={"inline_bytes": INLINE})
    table.append(pa.table({"i": range(len(array)), "v": array}))
    assert inlined(table) == [True]
    for handle in (table, gl.open(place)):
        found = handle.scan().to_arrow()
        assert found.schema.field("v").type == declared(array)
        assert exact(found.column("v")) == exact(array)
    table.compact()
    assert exact(table.scan().to_arrow().column("v")) == exact(array)


# -- the property ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [(1 << 20) + 1, -1, 1.5, "much", True])
def test_a_size_that_makes_no_sense_is_refused(place: str, value: object) -> None:
    with pytest.raises(InvalidOption, match="inline_bytes"):
        make(place, inline_bytes=value)


def test_the_refusal_of_a_size_above_the_cap_says_why(place: str) -> None:
    with pytest.raises(InvalidOption, match="is more than 1,048,576") as caught:
        make(place, inline_bytes=1 << 21)
    assert "reads all that lies in its log" in str(caught.value)


def test_switching_it_on_tells_other_readers_and_switching_it_off_keeps_the_rows(place: str) -> None:
    table = make(place, inline_bytes=0)
    table.append(rows(0))
    table.set_properties({"inline_bytes": "65536"})
    meta = body_of(place, table.version)["actions"][0]["UpdateTableMeta"]
    assert "gapless_inline" in meta["required_reader_features"]
    table.append(rows(10))
    table.set_properties({"inline_bytes": None})
    meta = body_of(place, table.version)["actions"][0]["UpdateTableMeta"]
    assert "gapless_inline" in meta["required_reader_features"]
    table.append(rows(20))
    assert inlined(table) == [False, True, False]
    assert numbers(gl.open(place)) == [0, 10, 20]
    table.restore(1)
    assert "gapless_inline" in body_of(place, table.version)["actions"][0]["UpdateTableMeta"]["required_reader_features"]


def test_enough_in_the_log_and_appends_write_files_until_it_is_compacted(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "MAX_INLINED_BYTES", INLINE + 5_000)
    table = make(place, checkpoint_interval=3)
    for number in range(12):
        table.append(rows(10 * number))
    kinds = inlined(table)
    assert kinds == sorted(kinds, reverse=True)
    assert 2 < sum(kinds) < 10
    for handle in (table, gl.open(place)):  # by commits, and by a log checkpoint
        lying = sum(segment.size or 0 for segment in handle.segments() if segment.data is not None)
        assert handle._snapshot.state.inlined_bytes == lying
        assert 5_000 < lying < 5_000 + 2_000
    again = gl.open(place)
    again.append(rows(500))
    assert not inlined(again)[-1]
    again.compact()
    again.append(rows(510))
    assert inlined(again) == [False, True]
    assert numbers(again) == [*range(0, 120, 10), 500, 510]


# -- the life of such a table ------------------------------------------------------------------------------------------


def test_log_checkpoints_hold_the_rows(place: str) -> None:
    table = make(place, checkpoint_interval=2)
    for number in range(5):
        table.append(rows(10 * number))
    store = open_store(place)
    for version in range(1, 6):
        store.delete(f"_timeseries_log/{version:010d}.json")
    assert inlined(gl.open(place)) == [True] * 5
    assert numbers(gl.open(place)) == [0, 10, 20, 30, 40]


def test_compaction_leaves_none(place: str) -> None:
    table = make(place)
    for number in range(20):
        table.append(rows(10 * number, s="ab"[number % 2]))
    before = table.scan(order="index").to_arrow()
    assert "(20 inlined)" in table.plan_compaction().explain()
    report = table.compact()
    assert (report.segments_before, report.segments_after, report.given_up) == (20, 1, ())
    assert inlined(table) == [False]
    assert table.scan(order="index").to_arrow() == before
    assert table.compact().bins == 0
    assert not table.verify(deep=True).findings
    assert table.changes(22).to_arrow().num_rows == 0


def test_a_single_one_is_laid_out_in_a_file_too(place: str) -> None:
    table = make(place)
    table.append(rows(0))
    assert table.compact().segments_after == 1
    assert inlined(table) == [False]
    assert table.compact().bins == 0


def test_compaction_after_appends_takes_them_up(place: str) -> None:
    table = make(place, auto_compact_segments=6)
    most = 0
    for number in range(40):
        table.append(rows(10 * number))
        most = max(most, sum(inlined(table)))
    assert most <= 6 + 3 + 1
    assert numbers(gl.open(place)) == list(range(0, 400, 10))


def test_old_versions_and_changes(place: str) -> None:
    table = make(place)
    table.append(rows(0))
    table.append(rows(10))
    table.upsert(rows(10, x=5.0))
    table.delete("i = 0")
    table.append(rows(20))
    table.compact()
    assert inlined(table) == [False]
    expected = [[0], [0, 10], [0, 10], [10], [10, 20], [10, 20]]
    assert [numbers(table.at(version=version)) for version in range(2, 8)] == expected
    changes = table.changes(1).to_arrow()
    told = sorted(
        zip(changes["_commit_version"].to_pylist(), changes["_change_type"].to_pylist(), changes["x"].to_pylist(), strict=True)
    )
    assert told == [
        (2, "insert", 0.0), (3, "insert", 10.0), (4, "update_postimage", 5.0), (4, "update_preimage", 10.0), (5, "delete", 0.0),
        (6, "insert", 20.0),
    ]  # fmt: skip


def test_corrections_find_the_rows(place: str) -> None:
    table = make(place)
    for number in range(6):
        table.append(rows(10 * number))
    assert table.upsert(rows(10, 60, x=1.0)).updated_rows == 1
    assert table.delete("i = 20").removed_rows == 1
    table.replace((30, 50), rows(31, x=2.0))
    found = {row["i"]: row["x"] for row in gl.open(place).scan().to_arrow().to_pylist()}
    assert found == {0: 0.0, 10: 1.0, 60: 1.0, 31: 2.0, 50: 50.0}
    assert table.sql("select sum(x) as x from this").to_arrow().to_pylist() == [{"x": 54.0}]
    assert not table.verify(deep=True).findings


def test_keys_of_a_unique_table_are_looked_for_there(place: str) -> None:
    table = make(place, unique=True, on_overlap="allow")
    table.append(rows(0, 1))
    with pytest.raises(DuplicateKey):
        table.append(rows(2, 1))
    table.append(rows(2))
    assert numbers(table) == [0, 1, 2]


def test_restored_from_the_log_alone(place: str) -> None:
    table = make(place)
    table.append(rows(0))
    table.append(rows(10))
    table.delete("i >= 0")
    table.compact()
    assert numbers(table) == []
    report = table.restore(3)
    assert (report.added_segments, report.added_rows) == (2, 2)
    assert inlined(table) == [True, True]
    assert numbers(gl.open(place)) == [0, 10]
    assert table._snapshot.state.inlined_bytes == sum(segment.size or 0 for segment in table.segments())
    assert not table.verify(deep=True).findings


def test_vacuum_and_expiry_find_nothing_amiss(place: str) -> None:
    table = make(place, checkpoint_interval=3)
    for number in range(8):
        table.append(rows(10 * number))
    table.compact()
    table.append(rows(100))
    before = objects(place)
    table.expire(keep_versions=1, clean_log=False)
    report = table.vacuum(timedelta(0), dry_run=False)
    assert report.deleted == ()
    assert set(before) <= set(objects(place))
    assert not table._snapshot.state.removed
    for handle in (table, gl.open(place)):
        assert numbers(handle) == [*range(0, 80, 10), 100]
    assert not table.verify(deep=True).findings
    assert gl.repair(place).steps == ()


def test_a_lost_commit_comes_back_with_its_rows_out_of_a_checkpoint(place: str) -> None:
    table = make(place, checkpoint_interval=4)
    for number in range(4):
        table.append(rows(10 * number))
    store = open_store(place)
    store.delete("_timeseries_log/0000000003.json")
    assert not gl.verify(place).ok
    assert gl.repair(place, apply=True, accept_loss=True).ok
    assert inlined(gl.open(place)) == [True] * 4
    assert numbers(gl.open(place)) == numbers(gl.open(place).at(version=5)) == [0, 10, 20, 30]
    assert not gl.verify(place, deep=True).problems


# -- damage ------------------------------------------------------------------------------------------------------------


def rewrite(place: str, version: int, change: Any) -> None:
    """Another commit in the place of one, with the checksum that it then must have."""
    path = f"_timeseries_log/{version:010d}.json"
    body = body_of(place, version)
    change(next(action["AddSegment"] for action in body["actions"] if "AddSegment" in action))
    del body["checksum"]
    text = json.dumps(body, separators=(",", ":")).encode()[:-1]
    open_store(place).put(path, text + f',"checksum":"{checksum(text)}"}}'.encode(), mode="overwrite")


def flipped(data: str, at: int) -> str:
    held = bytearray(base64.b64decode(data))
    held[at] ^= 1
    return base64.b64encode(held).decode()


@pytest.mark.parametrize("at", [-20, 40])
def test_other_bytes_under_a_commits_own_checksum_are_seen(place: str, at: int) -> None:
    """In the footer by whoever reads, elsewhere at least by verify; compaction does not write them anew."""
    make(place).append(rows(*range(0, 100, 10)))
    rewrite(place, 2, lambda add: add.update(data=flipped(add["data"], at)))
    assert [finding.code for finding in gl.verify(place).problems] == ["segment-altered"]
    table = gl.open(place)
    assert len(table.compact().given_up) == 1
    assert inlined(table) == [True]
    if at == -20:
        with pytest.raises(CorruptTable, match="data/"):
            table.scan().to_arrow()


@pytest.mark.parametrize("change", [{"data": "AAAA"}, {"data": "no base64"}, {"data": 7}, {"file_size": 7}])
def test_malformed_data_is_a_damaged_commit(place: str, change: dict[str, Any]) -> None:
    make(place).append(rows(0))
    rewrite(place, 2, lambda add: add.update(change))
    with pytest.raises(CorruptTable, match="0000000002"):
        gl.open(place)


def test_a_flipped_bit_in_the_commit_is_a_damaged_commit(place: str) -> None:
    make(place).append(rows(0))
    store, path = open_store(place), "_timeseries_log/0000000002.json"
    data = bytearray(store.get(path))
    at = data.index(b'"data":"') + 100
    data[at] = ord("A") if data[at] != ord("A") else ord("B")
    store.put(path, bytes(data), mode="overwrite")
    with pytest.raises(CorruptTable, match="checksum"):
        gl.open(place)
    assert not gl.verify(place).ok


def test_a_log_that_was_cleaned_keeps_them_in_its_checkpoints() -> None:
    world = Clocked(checkpoint_interval=4)
    world.table.set_properties({"inline_bytes": INLINE})
    world.append(*range(10))
    world.wait(days=2)
    everything = world.hours()
    assert world.table.expire(keep_versions=1, clean_log=True).removed
    assert min(version for path in world.names() if (version := TIME_SERIES.version_of(path)) is not None) > 8
    assert inlined(world.open()) == [True] * 10
    assert world.hours() == everything
    world.table.compact()
    assert world.hours() == everything
    assert verify_table(world.store, deep=True).findings == ()


def test_parts_of_log_checkpoints_hold_them_and_how_much_it_is(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "PART_SEGMENTS", 5)
    table = make(place, checkpoint_interval=4)
    for number in range(23):
        table.append(rows(10 * number))
    assert [info.path for info in open_store(place).list(packing.PARTS_FOLDER)]
    again = gl.open(place)
    sizes = sum(segment.size or 0 for segment in table.segments())
    assert again._snapshot.state.inlined_bytes == table._snapshot.state.inlined_bytes == sizes
    assert inlined(again) == [True] * 23
    assert numbers(again) == numbers(table) == list(range(0, 230, 10))
    again.upsert(rows(30, x=1.0))
    again.compact()
    assert inlined(again) == [False]
    for handle in (again, gl.open(place)):
        assert handle._snapshot.state.inlined_bytes == 0
        assert numbers(handle) == list(range(0, 230, 10))
    assert numbers(gl.open(place).at(version=12)) == list(range(0, 110, 10))
    assert not again.verify(deep=True).findings
