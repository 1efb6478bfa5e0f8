"""Compaction of whole tables: the same rows in fewer segments, beside other writers and readers."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gapless as gl
from gapless.files.read.scan import read
from gapless.files.sort.run import sort_run
from gapless.files.write.segment_encoder import encode_segment
from gapless.files.write.staged_write import StagedWrite
from gapless.formats.timeseries.actions import Action, AddSegment, Commit, RemoveSegment
from gapless.model.segment import Segment
from gapless.runtime.committer import Proposal
from gapless.store.open import open_store
from gapless.tables.shared import compaction
from gapless.tables.timeseries.care import compact as compact_module
from gapless.tables.timeseries.care.compact_plan import CompactOptions
from support.faulty_store import is_commit, objects, once, open_faulty

T0 = datetime(2024, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("sym", pa.string()), ("x", pa.float64())])
_counter = itertools.count()


@pytest.fixture
def place() -> str:
    return f"memory://compact-{next(_counter)}"


def hours(*which: float, sym: str = "A", x: float | None = 0.0) -> pa.Table:
    times = [T0 + timedelta(hours=h) for h in which]
    return pa.table({"ts": times, "sym": [sym] * len(times), "x": [x] * len(times)}, schema=SCHEMA)


def filled(place: Any, count: int = 6, **options: Any) -> gl.TimeSeriesTable:
    """A table of `count` segments, hour after hour, symbols A and B in turn, `x` the hour."""
    table = gl.create(place, **{"index": "ts", "entity": ["sym"], "bucket": "1h"} | options)
    for hour in range(count):
        table.append(hours(hour, sym="AB"[hour % 2], x=float(hour)))
    return table


def told(table: gl.TableView) -> list[dict[str, Any]]:
    return sorted(table.scan().to_arrow().to_pylist(), key=repr)


def values(table: gl.TableView) -> list[float]:
    return sorted(row["x"] for row in told(table))


def rewritten(place: str, keep: Callable[[float], bool], *, extra: Sequence[float] = ()) -> None:
    """Another handle deletes the rows whose `x` is not kept, segment by segment, and adds some at hours 100 and on."""
    table = gl.open(place)
    state, attempt = table._snapshot.state, StagedWrite.begin(table._env)
    removed: list[Segment] = []
    for segment in state.segments:
        rows = pq.read_table(pa.BufferReader(open_store(place).get(segment.path)))
        left = rows.filter(pa.array([keep(x) for x in rows.column("x").to_pylist()]))
        if left.num_rows < rows.num_rows:
            removed.append(segment)
            if left.num_rows:
                attempt.write(encode_segment(sort_run(left, table.index, table._grid), table.index, "zstd"), state, ("utf8",))
    actions: list[Action] = [*(RemoveSegment(one.path) for one in removed), *map(AddSegment, attempt.segments)]
    entry = Commit(id=table._env.ids.uuid(), operation="delete", actions=tuple(actions))
    table._committer.commit(table._snapshot, Proposal(commit=entry, check_conflict=lambda *_: pytest.fail("nobody is faster")))
    for x in extra:
        gl.open(place).append(hours(100 + x, x=x))


def check_whole(place: str) -> None:
    """The newest version is sound to the last row, and all its files are there."""
    assert not gl.verify(place, deep=True).findings


def test_small_segments_become_one_that_holds_the_same_rows(place: str) -> None:
    table = filled(place)
    before, covered = told(table), table.coverage().buckets()
    report = table.compact()
    assert (report.version, report.bins, report.segments_before, report.segments_after, report.rows) == (8, 1, 6, 1, 6)
    assert report.bytes_before > report.bytes_after > 0
    assert report.given_up == ()
    (segment,) = table.segments()
    assert (segment.sorted_by, segment.data_change, segment.rows) == (("sym", "ts"), False, 6)
    assert told(table) == before
    assert table.coverage().buckets() == covered
    assert [row["x"] for row in gl.open(place).scan().to_arrow().to_pylist()] == [0.0, 2.0, 4.0, 1.0, 3.0, 5.0]
    check_whole(place)


def test_history_names_the_compaction(place: str) -> None:
    table = filled(place)
    table.compact()
    entry = max(table.history(), key=lambda entry: entry.version)
    assert (entry.operation, entry.rows, entry.parameters["bins"]) == ("compact", 6, 1)


def test_maint_12_a_second_run_finds_nothing_to_do(tmp_path: Path) -> None:
    """Files of 0.6 and of 3 times the target are left alone, one-row files are merged, and that is that."""
    table = gl.create(tmp_path / "t", index="i", index_type="int64", bucket=1)
    noise = iter(range(10**9))

    def rows(count: int) -> dict[str, Any]:
        ids = list(itertools.islice(noise, count))
        return {"i": ids, "x": [hash((i, 1)) / 2**61 for i in ids]}

    for _ in range(10):
        table.append(rows(600))
    table.append(rows(3_000))
    target = int(max(s.size or 0 for s in table.segments() if s.rows == 600) / 0.6)
    for _ in range(120):
        table.append(rows(1))
    before = told(table)
    first = table.compact(target_size=target)
    assert first.segments_before == 120, "one-row files only"
    assert first.segments_after < 5
    assert len(table.segments()) == 11 + first.segments_after
    version = table.version
    for _ in range(2):
        again = table.compact(target_size=target)
        assert (again.version, again.bins, again.segments_before) == (version, 0, 0)
    assert table.plan_compaction(target_size=target).bins == ()
    assert told(table) == before


def test_maint_09_deleted_rows_do_not_come_back(place: str) -> None:
    """A delete lands after the compaction read its rows, and before it commits: what was read is thrown away, and done again."""
    filled(place, 4)
    table, store = open_faulty(place)
    store.before_put = once(lambda: rewritten(place, lambda x: x != 2.0, extra=[7.0]), is_commit)
    report = table.compact()
    assert values(gl.open(place)) == [0.0, 1.0, 3.0, 7.0]
    (gave_way,) = report.given_up
    assert gave_way.why == "another change removed 1 of its 4 segments first"
    assert (report.segments_before, report.segments_after) == (3, 1), "the rest of the bin was done again"
    assert len(gl.open(place).segments()) == 2
    check_whole(place)


def test_maint_09_what_was_planned_at_an_old_version_is_not_committed_from_a_new_one(place: str) -> None:
    table = filled(place, 4)
    rewritten(place, lambda x: x != 2.0, extra=[7.0])
    stale = table._snapshot
    compactor = table._compactor(CompactOptions())
    report = compactor.compact(stale)
    assert values(gl.open(place)) == [0.0, 1.0, 3.0, 7.0]
    assert report.segments_before == 3


def test_maint_09_a_later_batch_is_checked_against_the_version_it_commits_upon(place: str) -> None:
    """The first batch steps over a delete that does not touch it; the second, planned before, must not undo that delete."""
    table = filled(place, 16)
    size = max(s.size or 0 for s in table.segments())
    table, store = open_faulty(place)
    store.before_put = once(lambda: rewritten(place, lambda x: x != 14.0), is_commit)
    report = table.compact(target_size=4 * size)
    assert values(gl.open(place)) == [float(hour) for hour in range(16) if hour != 14]
    assert [one.why for one in report.given_up] == ["another change removed 1 of its 4 segments first"]
    check_whole(place)


def test_appends_that_come_first_are_stepped_over(place: str) -> None:
    filled(place)
    table, store = open_faulty(place)
    store.before_put = once(lambda: gl.open(place).append(hours(50, x=50.0)), is_commit)
    report = table.compact()
    assert (report.version, report.given_up) == (9, ())
    assert values(table) == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 50.0]
    assert len(table.segments()) == 2, "what was appended meanwhile waits for the next run"
    assert values(gl.open(place)) == values(table)


def test_an_append_steps_over_a_compaction(place: str) -> None:
    filled(place)
    table, store = open_faulty(place)
    store.before_put = once(lambda: gl.open(place).compact(), is_commit)
    assert table.append(hours(60, x=60.0)).version == 9
    assert values(table) == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 60.0]


def test_two_compactions_make_one(place: str) -> None:
    filled(place)
    table, store = open_faulty(place)
    store.before_put = once(lambda: gl.open(place).compact(), is_commit)
    report = table.compact()
    assert (report.bins, report.version) == (0, 8)
    assert [one.why for one in report.given_up] == ["another change removed 6 of its 6 segments first"]
    assert len(table.segments()) == 1
    assert sum(path.startswith("data/") for path in objects(place)) == 6 + 1, "the loser's file is gone"
    check_whole(place)


def test_a_compaction_that_always_comes_second_gives_up_and_says_so(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even a rewrite in each of its bins makes it run for ever."""
    monkeypatch.setattr(compaction, "MAX_CONFLICTS", 2)
    filled(place, 8)
    table, store = open_faulty(place)
    dropped = iter(range(8))

    def rival(path: str) -> None:
        if is_commit(path) and table_is_compacting:
            x = float(next(dropped))
            act, store.before_put = store.before_put, lambda _path: None
            rewritten(place, lambda value: value != x)
            store.before_put = act

    table_is_compacting = True
    store.before_put = rival
    report = table.compact()
    assert report.bins == 0
    assert any("other commits kept coming first" in one.why for one in report.given_up)
    assert values(gl.open(place)) == [2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    check_whole(place)


def test_bins_that_were_not_overtaken_are_committed_without_being_written_again(place: str) -> None:
    filled(place, 8)
    table, store = open_faulty(place)
    store.before_put = once(lambda: rewritten(place, lambda x: x != 1.0), is_commit)
    seen: list[str] = []
    before = store.before_put

    def count(path: str) -> None:
        seen.extend([path] if path.startswith("data/") else [])
        before(path)

    store.before_put = count
    report = table.compact(window="4h")
    assert (report.bins, report.segments_before, report.segments_after) == (2, 7, 2)
    assert [one.why for one in report.given_up] == ["another change removed 1 of its 4 segments first"]
    assert len(seen) == 3, "two bins, and what is left of the one that was overtaken"
    bins = [
        entry.parameters["bins"]
        for entry in sorted(table.history(), key=lambda entry: entry.version)
        if entry.operation == "compact"
    ]
    assert bins == [1, 1]
    assert values(gl.open(place)) == [0.0, *(float(x) for x in range(2, 8))]
    check_whole(place)


def test_a_reader_goes_on_with_the_version_it_began(tmp_path: Path) -> None:
    table = filled(tmp_path / "t", 8)
    reader = gl.open(tmp_path / "t")
    batches = reader.scan(order="index").to_batches()
    first = next(iter(batches))
    table.compact()
    rest = [x for batch in batches for x in batch.column("x").to_pylist()]
    assert first.column("x").to_pylist() + rest == [float(h) for h in range(8)]
    assert values(reader) == [float(h) for h in range(8)], "its files stay until vacuum"
    assert len(reader.segments()) == 8


def test_equal_keys_keep_the_order_of_arrival(place: str) -> None:
    table = gl.create(place, index="ts", entity=["sym"], bucket="1h", properties={"on_overlap": "allow"})
    for x in (3.0, 1.0, 2.0):
        table.append(hours(0, 1, x=x))
    table.append(hours(-1, 0, x=9.0))
    table.compact()
    assert table.scan().to_arrow().column("x").to_pylist() == [9.0, 3.0, 1.0, 2.0, 9.0, 3.0, 1.0, 2.0]


def test_no_segment_crosses_an_edge_of_a_window(place: str) -> None:
    table = gl.create(place, index="ts", entity=["sym"], bucket="1h", timezone="America/New_York")
    for hour in range(0, 96, 2):
        table.append(hours(hour, hour + 1, x=float(hour)))
    before = told(table)
    report = table.compact(window="1d")
    assert report.segments_before > report.segments_after
    table.compact(window="1d")
    for segment in table.segments():
        # New York is five hours behind UTC in winter.
        days = {(end // 3_600_000_000_000 - 5) // 24 for end in (segment.bounds.first, segment.bounds.last)}
        assert len(days) == 1 or segment.rows == 2, "what lay across an edge stays whole"
    assert told(table) == before
    assert any(why == "across a window's edge" for why in table.plan_compaction(window="1d").left.values())
    check_whole(place)


@pytest.mark.parametrize("codec", ["snappy", "none", "gzip", "lz4", "zstd"])
def test_another_codec_rewrites_what_has_another_one_once(tmp_path: Path, codec: str) -> None:
    table = filled(tmp_path / "t")
    before = told(table)
    table.compact(codec=codec)
    version = table.version
    assert table.compact(codec=codec).version == version
    (segment,) = table.segments()
    found = pq.ParquetFile(tmp_path / "t" / segment.path).metadata.row_group(0).column(0).compression
    assert found == {"none": "UNCOMPRESSED"}.get(codec, codec.upper())
    assert told(table) == before


def test_rows_that_lie_along_a_z_order_still_come_in_index_order(place: str) -> None:
    table = filled(place, 12)
    before = table.scan().to_arrow()
    report = table.compact(cluster_by=["x", "sym"])
    assert (report.segments_before, report.segments_after) == (12, 1)
    (segment,) = table.segments()
    assert (segment.sorted_by, segment.clustered_by) == ((), ("x", "sym"))
    assert gl.open(place).segments() == table.segments(), "the log says it too"
    assert (
        table.scan()
        .to_arrow()
        .select(["sym", "ts"])
        .sort_by([("sym", "ascending"), ("ts", "ascending")])
        .equals(table.scan().to_arrow().select(["sym", "ts"]))
    )
    assert table.scan().to_arrow().sort_by("x").equals(before.sort_by("x"))
    assert table.compact(cluster_by=["x", "sym"]).bins == 0
    table.append(hours(50, x=50.0))
    table.append(hours(51, x=51.0))
    table.compact()
    assert sorted(s.clustered_by for s in table.segments()) == [(), ("x", "sym")], "what is clustered stays so"
    table.compact(resort=True)
    assert [s.clustered_by for s in table.segments()] == [()]
    check_whole(place)


def test_large_segments_that_overlap_are_sorted_apart_on_request(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than fits in memory goes window by window, and scans need no sort afterwards."""
    table = gl.create(place, index="ts", entity=["sym"], bucket="1h", properties={"on_overlap": "allow"})
    for part in range(3):
        table.append(pa.concat_tables([hours(*range(part, 2_000), sym=sym, x=float(part)) for sym in "AB"]))
    before = told(table)
    compactor = table._compactor(CompactOptions(resort=True, target_size=1_000, sort_bytes=150_000))
    report = compactor.compact(table._snapshot)
    assert report.segments_after > 3
    ends = sorted((s.bounds.first, s.bounds.last) for s in table.segments())
    assert all(one[1] < other[0] for one, other in itertools.pairwise(ends))
    assert told(table) == before
    assert compactor.compact(table._snapshot).bins == 0
    check_whole(place)


def test_maint_16_text_is_read_and_written_in_bounded_pieces(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cheap variant: with a limit of 1 MB no run goes over it by more than a piece, whatever the segments hold."""
    sizes: list[int] = []

    def spy(table: pa.Table, *rest: Any) -> Any:
        sizes.append(table.nbytes)
        return sort_run(table, *rest)

    table = gl.create(place, index="i", index_type="int64", bucket=1)
    for part in range(3):
        table.append({"i": list(range(part * 40, part * 40 + 40)), "s": [f"{part}" * 50_000] * 40})
    before = told_sizes(table)
    monkeypatch.setattr("gapless.files.sort.run.sort_run", spy)
    compactor = table._compactor(CompactOptions(sort_bytes=1 << 20))
    report = compactor.compact(table._snapshot)
    assert report.segments_after == 1, "without entity columns rows stream through"
    assert len(sizes) == 6, "two pieces of a megabyte each from three segments"
    assert max(sizes) <= 1 << 20
    assert told_sizes(table) == before


def told_sizes(table: gl.TimeSeriesTable) -> list[tuple[int, int, str]]:
    return [(row["i"], len(row["s"]), row["s"][0]) for batch in table.scan().to_batches() for row in batch.to_pylist()]


def test_maint_16_what_would_make_no_fewer_segments_is_let_be(place: str) -> None:
    """Texts that pack well look small until they are read."""
    table = gl.create(place, index="ts", entity=["sym"], bucket="1h")
    for k in range(3):
        data = pa.concat_tables([hours(k, sym=sym) for sym in "AB"])
        table.append(data.append_column("text", pa.array([str(k) * 100_000] * 2)))
    compactor = table._compactor(CompactOptions(sort_bytes=150_000))
    version, files = table.version, objects(place)
    report = compactor.compact(table._snapshot)
    assert (report.version, report.bins) == (version, 0)
    assert [one.why for one in report.given_up] == ["3 segments would make 3: their rows take more memory than was guessed"]
    assert objects(place) == files


def test_type_06_lists_of_other_child_names_are_merged(tmp_path: Path) -> None:
    """The file of another writer calls the item of its lists `element`, two levels deep."""
    inner = pa.struct([("a", pa.list_(pa.field("item", pa.int64())))])
    table = gl.create(
        tmp_path / "t",
        index="i",
        index_type="int64",
        bucket=1,
        schema=pa.schema([("i", pa.int64()), ("l", pa.list_(pa.field("item", inner)))]),
    )
    table.append({"i": [1], "l": [[{"a": [1, 2]}]]})
    other = pa.struct([("a", pa.list_(pa.field("element", pa.int64())))])
    table.append(pa.table({"i": [2], "l": pa.array([[{"a": [3]}, {"a": None}]], pa.list_(pa.field("element", other)))}))
    before = told(table)
    assert table.compact().segments_after == 1
    assert told(table) == before


def test_a_damaged_segment_is_given_up_and_named_and_the_others_go_on(place: str) -> None:
    table = filled(place, 12)
    size = max(s.size or 0 for s in table.segments())
    victim = table.segments()[0]
    store = open_store(place)
    data = bytearray(store.get(victim.path))
    data[20] ^= 4
    store.put(victim.path, bytes(data), mode="overwrite")
    report = table.compact(target_size=4 * size)
    (given_up,) = report.given_up
    assert given_up.paths == (victim.path,)
    assert "does not have the bytes it was written with" in given_up.why, "although Parquet itself would not notice"
    assert victim in table.segments()
    assert report.segments_before == 11, "the others go on without it"


def test_a_segment_that_holds_other_rows_than_the_log_says_is_not_rewritten(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = filled(place, 3)
    victim = table.segments()[1]

    def lossy(store: Any, plan: Any) -> Any:
        return iter(()) if plan.groups[0].segments == (victim,) else read(store, plan)

    monkeypatch.setattr(compact_module, "read", lossy)
    report = table.compact()
    monkeypatch.undo()
    (given_up,) = report.given_up
    assert (given_up.paths, given_up.why) == ((victim.path,), f"segment {victim.path} gave 0 rows, and the log says 1")
    assert victim in table.segments()
    assert (report.segments_before, report.segments_after) == (2, 1), "the others go on without it"
    assert values(gl.open(place)) == [0.0, 1.0, 2.0]


def test_what_was_written_is_removed_when_the_store_fails(place: str) -> None:
    filled(place)
    table, store = open_faulty(place)
    files = objects(place)

    def full(path: str) -> None:
        if path.startswith("data/"):
            raise gl.errors.StorageFull(f"no space for {path}", path=path)

    store.after_put = full
    with pytest.raises(gl.errors.StorageFull):
        table.compact()
    assert objects(place) == files


def test_a_table_without_rows_or_schema_is_left(place: str) -> None:
    table = gl.create(place, index="ts", bucket="1h")
    assert table.compact().bins == 0
    assert table.plan_compaction().explain() == "0 bins: 0 segments of 0"


def test_planning_changes_nothing(place: str) -> None:
    table = filled(place)
    files = objects(place)
    plan = table.plan_compaction()
    assert re.search(r"1 bin: 6 segments of 6\n  1\. 6 segments, 6 rows, .* \(6 small\)", plan.explain())
    assert objects(place) == files


def test_duckdb_reads_the_same_rows_from_the_files_before_and_after(tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="ts", entity=["sym"], bucket="1h", properties={"on_overlap": "allow"})
    for hour in range(20):
        table.append(hours(hour % 7, hour, sym="ABC"[hour % 3], x=None if hour % 4 else float(hour)))

    def rows() -> list[tuple[Any, ...]]:
        files = [str(tmp_path / "t" / segment.path) for segment in table.segments()]
        found = duckdb.sql(f"SELECT sym, ts, x FROM read_parquet({files!r}) ORDER BY ALL")
        assert found is not None
        return found.fetchall()

    before = rows()
    size = max(s.size or 0 for s in table.segments())
    table.compact(target_size=5 * size)
    assert len(table.segments()) < 5
    assert rows() == before
    table.compact(cluster_by="x")
    assert rows() == before


def test_maint_13_segments_from_before_a_column_are_merged_by_the_schema_of_now(place: str) -> None:
    """Twenty one-row appends, a column that comes at ten, and only the newest version kept."""
    table = filled(place, 10)
    table.add_column("note", pa.string())
    table.add_column("rank", pa.int64(), default=7)
    for hour in range(10, 20):
        data = hours(hour, x=float(hour))
        table.append(data.append_column("note", pa.array([f"n{hour}"])).append_column("rank", pa.array([hour])))
    table.expire(keep_versions=1)
    before = told(table)
    assert table.compact().segments_after == 1
    assert told(table) == before == told(gl.open(place))
    by_x = {row["x"]: (row["note"], row["rank"]) for row in told(table)}
    assert (by_x[3.0], by_x[13.0]) == ((None, 7), ("n13", 13))
    check_whole(place)


def test_a_column_that_was_dropped_does_not_come_back_with_its_old_values(place: str) -> None:
    """The compaction read the old column; while it did, that one went and another of its name came."""
    filled(place, 4)
    table, store = open_faulty(place)

    def evolve() -> None:
        other = gl.open(place)
        other.drop_column("x")
        other.add_column("x", pa.float64())
        other.append(hours(50, x=50.0))

    store.before_put = once(evolve, is_commit)
    report = table.compact()
    assert (report.segments_before, report.given_up) == (4, ())
    assert sorted(row["x"] or 0.0 for row in told(gl.open(place))) == [0.0, 0.0, 0.0, 0.0, 50.0]
    table.compact()
    assert sorted(row["x"] or 0.0 for row in told(table)) == [0.0, 0.0, 0.0, 0.0, 50.0]
    check_whole(place)


def test_a_renamed_column_keeps_its_values_and_its_z_order(place: str) -> None:
    table = filled(place, 6)
    table.compact(cluster_by="x")
    table.rename_column("x", "price")
    assert table.compact(cluster_by="price").bins == 0, "it is the same column"
    table.append(hours(50, x=50.0).rename_columns(["ts", "sym", "price"]))
    table.compact(cluster_by="price")
    assert [segment.rows for segment in table.segments()] == [7]
    assert sorted(row["price"] for row in told(table)) == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 50.0]
    table.drop_column("price")
    table.append(hours(60).select(["ts", "sym"]))
    table.compact()
    assert [segment.clustered_by for segment in table.segments()] == [()], "what it lay along is gone"
    check_whole(place)


def correct(place: str) -> None:
    """Another handle deletes the row of hour 2, gives the one of hour 1 a new value, and appends hour 9."""
    other = gl.open(place)
    other.delete(where="x = 2")
    other.upsert(hours(1, sym="B", x=10.0))
    other.append(hours(9, x=9.0))


def test_maint_09_a_compaction_gives_way_to_corrections(place: str) -> None:
    filled(place, 4)
    table, store = open_faulty(place)
    store.before_put = once(lambda: correct(place), is_commit)
    report = table.compact()
    assert all(one.overtaken for one in report.given_up)
    assert len(report.given_up) == 1
    assert values(gl.open(place)) == values(table) == [0.0, 3.0, 9.0, 10.0]
    check_whole(place)


def test_corrections_give_way_to_a_compaction(place: str) -> None:
    """A correction whose segments were merged while it was under way is decided again, over the merged ones."""
    filled(place, 4)
    table, store = open_faulty(place)
    store.before_put = once(lambda: gl.open(place).compact(), is_commit)
    table.delete(where="x = 2")
    assert values(gl.open(place)) == [0.0, 1.0, 3.0]
    store.before_put = once(lambda: gl.open(place).compact(cluster_by="x"), is_commit)
    table.upsert(hours(1, sym="B", x=10.0))
    assert values(gl.open(place)) == values(table) == [0.0, 3.0, 10.0]
    check_whole(place)


def test_change_readers_see_nothing_of_a_compaction(place: str) -> None:
    table = filled(place, 4)
    table.compact()
    assert table.changes(table.version, table.version).to_arrow().num_rows == 0
    restored = table.restore(5)
    assert values(gl.open(place)) == [0.0, 1.0, 2.0, 3.0]
    assert len(gl.open(place).segments()) == 4, f"the files of version 5 are live again: {restored}"
    assert gl.open(place).compact().segments_after == 1


def test_cov_14_times_before_1970_are_compacted(place: str) -> None:
    table = gl.create(place, index="ts", entity=["sym"], bucket="1h")
    before_1970 = datetime(1969, 12, 31, 12, 59, 59, tzinfo=UTC)
    for hour in (3, 0, -40, 20):
        table.append(pa.table({"ts": [before_1970 + timedelta(hours=hour)], "sym": ["A"], "x": [float(hour)]}, schema=SCHEMA))
    covered = table.coverage().buckets()
    assert table.compact(window="1mo").segments_before == 3, "hour 20 lies in 1970"
    assert table.scan().to_arrow().column("x").to_pylist() == [-40.0, 0.0, 3.0, 20.0]
    assert table.compact().segments_after == 1
    assert table.scan().to_arrow().column("x").to_pylist() == [-40.0, 0.0, 3.0, 20.0]
    assert gl.open(place).coverage().buckets() == covered
    check_whole(place)
