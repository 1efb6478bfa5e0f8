"""Two handles on one table, and stores that lose answers: the interleaving is the input."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import AccessDenied, StoreUnavailable
from gapless.files.write import staged_write
from gapless.store.open import open_store
from gapless.tables.timeseries.write import group, stage
from support.faulty_store import is_commit, nothing, objects, once, open_faulty, unavailable

T0 = datetime(2024, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("sym", pa.string()), ("x", pa.float64())])
_counter = itertools.count()


@pytest.fixture
def place() -> str:
    """A table with a schema and hour 0 of A covered, at version 2."""
    place = f"memory://races-{next(_counter)}"
    gl.create(place, index="ts", entity=["sym"], bucket="1h").append(hours(0))
    return place


def hours(*which: float, sym: str = "A", x: float = 0.0) -> pa.Table:
    times = [T0 + timedelta(hours=h) for h in which]
    return pa.table({"ts": times, "sym": [sym] * len(times), "x": [x] * len(times)}, schema=SCHEMA)


def told(table: gl.TimeSeriesTable) -> list[tuple[str, int, float]]:
    return sorted((row["sym"], (row["ts"] - T0) // timedelta(hours=1), row["x"]) for row in table.scan().to_arrow().to_pylist())


def check_whole(place: str) -> None:
    """Every file that the log names is there, and no other."""
    table = gl.open(place)
    named = {segment.path for segment in table.segments()} | {getattr(s.coverage, "path", None) for s in table.segments()}
    stored = {path for path in objects(place) if not path.startswith("_timeseries_log/")}
    assert stored == named - {None}
    assert table.scan().count() == sum(segment.rows for segment in table.segments())


def commits(place: str) -> list[str]:
    return [path for path in objects(place) if is_commit(path)]


def beside(place: str, data: pa.Table, **options: Any) -> Callable[[], object]:
    """Another handle commits."""
    return lambda: gl.open(place).append(data, **options)


def test_log_01_a_lost_answer_is_one_commit(place: str) -> None:
    table, store = open_faulty(place)
    store.after_put = once(lambda: unavailable("the commit"), is_commit)
    report = table.append(hours(*range(1, 11)))
    assert (report.version, report.rows) == (3, 10)
    assert len(commits(place)) == 3
    assert gl.open(place).scan().count() == 11
    check_whole(place)


def test_log_01_a_lost_request_is_sent_again(place: str) -> None:
    table, store = open_faulty(place)
    store.before_put = once(lambda: unavailable("the commit"), is_commit)
    assert table.append(hours(1)).version == 3
    check_whole(place)


def test_log_02_an_unknown_outcome_deletes_nothing(place: str) -> None:
    table, store = open_faulty(place)

    def lose(path: str) -> None:
        if is_commit(path):
            store.before_get = unavailable
            unavailable(path)

    store.after_put = lose
    with pytest.raises(gl.CommitOutcomeUnknown) as unknown:
        table.append(hours(1))
    assert not store.deleted
    assert unknown.value.version == 3
    healed = gl.open(place)
    assert healed.version == 3
    assert healed.history()[-1].commit_id == unknown.value.commit_id
    assert healed.scan().count() == 2
    check_whole(place)


def test_log_02_no_answer_until_the_deadline_keeps_the_files(place: str) -> None:
    table, store = open_faulty(place, deadline_s=5)
    store.before_put = lambda path: unavailable(path) if is_commit(path) else None
    with pytest.raises(gl.CommitOutcomeUnknown):
        table.append(hours(1))
    assert not store.deleted
    assert len(commits(place)) == 2
    store.before_put = lambda _path: None
    assert table.append(hours(1)).version == 3, "it had not landed, so sending it again is right"


def test_log_02_a_denied_retry_says_nothing_of_the_first_try(place: str) -> None:
    """The first put lost its answer, the second is refused by the disk: the first may have landed, so its files stay."""
    table, store = open_faulty(place, deadline_s=5)
    tries = itertools.count()

    def deny(path: str) -> None:
        if is_commit(path):
            if next(tries):
                raise gl.errors.AccessDenied("no", path=path)
            unavailable(path)

    store.before_put = deny
    with pytest.raises(gl.CommitOutcomeUnknown):
        table.append(hours(1))
    assert not store.deleted


def test_log_03_a_taken_version_is_never_written_over(place: str) -> None:
    table, store = open_faulty(place)
    store.before_put = once(beside(place, hours(5, x=5)), is_commit)
    report = table.append(hours(1, x=1))
    assert report.version == 4
    assert [entry.rows for entry in gl.open(place).history()] == [0, 1, 1, 1]
    assert told(gl.open(place)) == [("A", 0, 0.0), ("A", 1, 1.0), ("A", 5, 5.0)]
    assert json.loads(open_store(place).get(commits(place)[2]))["version"] == 3
    check_whole(place)


def test_log_06_disjoint_appends_both_succeed_fifty_times(place: str) -> None:
    """Each round one handle is overtaken at its commit; it keeps its segments and lands behind."""
    mine, store = open_faulty(place)
    for turn in range(50):
        before = len(store.puts)
        store.before_put = once(beside(place, hours(1 + turn, sym="B")), is_commit)
        report = mine.append(hours(1 + turn))
        assert report.version == 4 + 2 * turn
        assert sum(path.startswith("data/") for path in store.puts[before:]) == 1, "its Parquet is written once"
    ids = [entry.commit_id for entry in gl.open(place).history()]
    assert len(set(ids)) == len(ids) == 102
    assert gl.open(place).scan().count() == 101
    check_whole(place)


def test_an_overlapping_append_that_comes_first_refuses_ours(place: str) -> None:
    table, store = open_faulty(place)
    store.before_put = once(beside(place, hours(3, 4, sym="B")), is_commit)
    with pytest.raises(gl.CoverageOverlap) as refusal:
        table.append(pa.concat_tables([hours(1), hours(4, 5, sym="B")]))
    assert (refusal.value.identity, refusal.value.version, refusal.value.buckets) == (("B",), 3, 1)
    assert table.version == 3, "the handle knows what beat it"
    assert len(commits(place)) == 3
    check_whole(place)


@pytest.mark.parametrize("sidecars", [True, False])
def test_skip_that_loses_a_race_filters_again(place: str, monkeypatch: pytest.MonkeyPatch, sidecars: bool) -> None:
    if sidecars:
        monkeypatch.setattr(staged_write, "INLINE_COVERAGE_BYTES", 0)
    table, store = open_faulty(place)
    store.before_put = once(beside(place, hours(2, 3, x=9)), is_commit)
    report = table.append(pa.concat_tables([hours(0, 1, 2, x=1), hours(2, sym="B", x=1)]), on_overlap="skip")
    assert (report.version, report.rows, report.buckets, report.skipped_rows, report.skipped_buckets) == (4, 2, 2, 2, 2)
    assert told(gl.open(place)) == [("A", 0, 0.0), ("A", 1, 1.0), ("A", 2, 9.0), ("A", 3, 9.0), ("B", 2, 1.0)]
    check_whole(place)


def test_skip_that_loses_everything_writes_nothing(place: str) -> None:
    table, store = open_faulty(place)
    store.before_put = once(beside(place, hours(1, 2)), is_commit)
    report = table.append(hours(1, 2), on_overlap="skip")
    assert (report.rows, report.segments, report.skipped_rows, report.version) == (0, 0, 2, 3)
    assert len(commits(place)) == 3
    check_whole(place)


def test_skip_that_loses_again_and_again(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every try is overtaken by one more bucket, in runs of a few rows."""
    monkeypatch.setattr(stage, "RUN_BYTES", 100)
    monkeypatch.setattr(group, "SMALL_ROWS", 0)
    table, store = open_faulty(place)
    rivals = iter(range(1, 5))

    def overtake(path: str) -> None:
        if is_commit(path) and (hour := next(rivals, None)) is not None:
            gl.open(place).append(hours(hour, x=9))

    store.before_put = overtake
    report = table.append(hours(*range(1, 11), x=1), on_overlap="skip")
    assert (report.rows, report.buckets, report.skipped_rows, report.skipped_buckets) == (6, 6, 4, 4)
    assert told(gl.open(place)) == [
        ("A", 0, 0.0),
        *(("A", h, 9.0) for h in range(1, 5)),
        *(("A", h, 1.0) for h in range(5, 11)),
    ]
    check_whole(place)


def test_skip_whose_second_try_fails_leaves_nothing(place: str) -> None:
    table, store = open_faulty(place)

    def fail_next_put() -> None:
        gl.open(place).append(hours(1))
        store.before_put = unavailable

    store.before_put = once(fail_next_put, is_commit)
    with pytest.raises(StoreUnavailable):
        table.append(hours(1, 2), on_overlap="skip")
    check_whole(place)


def test_allow_follows_whatever_came_first(place: str) -> None:
    table, store = open_faulty(place)
    store.before_put = once(beside(place, hours(1, x=2)), is_commit)
    assert table.append(hours(1, x=1), on_overlap="allow").version == 4
    assert told(table) == [("A", 0, 0.0), ("A", 1, 1.0), ("A", 1, 2.0)]
    check_whole(place)


def test_racing_first_appends_of_one_schema_both_succeed() -> None:
    place = f"memory://races-{next(_counter)}"
    gl.create(place, index="ts", entity=["sym"], bucket="1h")
    table, store = open_faulty(place)
    store.before_put = once(beside(place, hours(0)), is_commit)
    assert table.append(hours(1)).version == 3
    assert told(gl.open(place)) == [("A", 0, 0.0), ("A", 1, 0.0)]
    assert table.schema == gl.open(place).schema
    check_whole(place)


@pytest.mark.parametrize("column", [pa.array([1], pa.int64()), pa.array(["1"])])
def test_racing_first_appends_of_different_schemas_are_a_clear_conflict(column: pa.Array) -> None:
    place = f"memory://races-{next(_counter)}"
    gl.create(place, index="ts", entity=["sym"], bucket="1h")
    table, store = open_faulty(place)
    store.before_put = once(beside(place, hours(0)), is_commit)
    with pytest.raises(gl.CommitConflict) as conflict:
        table.append(hours(1).set_column(2, "x", column))
    assert conflict.value.version == 2
    assert "x" in str(conflict.value)
    check_whole(place)
    table.append(hours(1))


def test_racing_settlements_of_a_null_column() -> None:
    place = f"memory://races-{next(_counter)}"
    gl.create(place, index="ts", entity=["sym"], bucket="1h").append(hours(0).set_column(2, "x", pa.nulls(1)))
    table, store = open_faulty(place)
    store.before_put = once(beside(place, hours(1, x=1.5)), is_commit)
    table.append(hours(2, x=2.5))
    assert told(gl.open(place))[1:] == [("A", 1, 1.5), ("A", 2, 2.5)]
    other, store = open_faulty(place)
    assert other.schema is not None
    assert other.schema.field("x").type == pa.float64()


def test_a_stale_handle_appends_and_refreshes_by_itself(place: str) -> None:
    stale = gl.open(place)
    for hour in (1, 2, 3):
        gl.open(place).append(hours(hour))
    assert stale.version == 2
    assert stale.scan().count() == 1, "a handle stays where it is until it is moved on"
    assert stale.append(hours(4)).version == 6
    assert (stale.version, stale.scan().count()) == (6, 5)
    behind = gl.open(place)
    gl.open(place).append(hours(9))
    with pytest.raises(gl.CoverageOverlap) as refusal:
        behind.append(hours(9))
    assert refusal.value.version == 7
    assert behind.refresh() is behind
    assert behind.version == 7


def test_a_scan_is_of_the_version_it_was_made_at(place: str) -> None:
    table = gl.open(place)
    rows, query = table.scan(), table.sql("SELECT count(*) AS n FROM this")
    table.append(hours(1))
    gl.open(place).append(hours(2))
    assert rows.count() == 1
    assert query.to_arrow().to_pylist() == query.to_arrow().to_pylist() == [{"n": 1}]
    assert table.scan().count() == 2


def test_one_handle_in_eight_threads(place: str) -> None:
    table = gl.open(place)
    reports: list[gl.AppendReport] = []
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(5):
                report = table.append(hours(turn, sym=f"S{number}", x=number))
                reports.append(report)
                assert table.version >= report.version
                assert table.scan(entity={"sym": f"S{number}"}).count() == turn + 1
                assert table.coverage(entity={"sym": f"S{number}"}).covered == turn + 1
        except BaseException as error:  # noqa: BLE001  # shown by the test's own thread
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert sum(report.rows for report in reports) == 40
    assert gl.open(place).scan().count() == table.scan().count() == 41
    assert table.version == max(report.version for report in reports) == gl.open(place).version
    check_whole(place)


def test_many_handles_at_once_on_the_same_bucket(place: str) -> None:
    """Exactly one of eight wins; every other is told who did."""
    handles = [gl.open(place) for _ in range(8)]
    start = threading.Barrier(8)
    won: list[int] = []
    lost: list[int | None] = []

    def work(number: int) -> None:
        start.wait()
        try:
            won.append(handles[number].append(hours(7, x=number)).version)
        except gl.CoverageOverlap as overlap:
            lost.append(overlap.version)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert won == [3]
    assert lost == [3] * 7
    check_whole(place)


def test_creating_at_once_makes_one_table() -> None:
    place = f"memory://races-{next(_counter)}"
    start = threading.Barrier(6)
    made: list[int] = []
    refused: list[str] = []

    def work() -> None:
        start.wait()
        try:
            made.append(gl.create(place, index="ts", bucket="1h").version)
        except gl.errors.TableExists as error:
            refused.append(error.path)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [1]
    assert refused == [place] * 5
    assert objects(place) == ["_timeseries_log/0000000001.json"]


def test_log_10_a_missing_version_is_named(place: str) -> None:
    table = gl.open(place)
    for hour in (1, 2, 3):
        table.append(hours(hour))
    open_store(place).delete(commits(place)[2])
    with pytest.raises(gl.errors.CorruptTable, match="version 3 is lost"):
        gl.open(place)


# -- the table's word, which another changed -----------------------------------------------------------------------------


def with_policy(policy: str) -> Callable[[str], object]:
    return lambda place: gl.open(place).set_properties({"on_overlap": policy})


@pytest.mark.parametrize("raced", [False, True], ids=["stale handle", "race"])
def test_the_tables_overlap_policy_is_that_of_the_version_before_the_append(place: str, raced: bool) -> None:
    with_policy("allow")(place)
    table, store = open_faulty(place)
    if raced:
        store.before_put = once(lambda: with_policy("reject")(place), is_commit)
    else:
        with_policy("reject")(place)
    with pytest.raises(gl.CoverageOverlap):
        table.append(hours(0, x=7))
    assert told(table.refresh()) == [("A", 0, 0.0)]
    check_whole(place)


def test_the_callers_overlap_policy_stands_whatever_the_table_says(place: str) -> None:
    table, store = open_faulty(place)
    store.before_put = once(lambda: with_policy("skip")(place), is_commit)
    assert table.append(hours(0, x=7), on_overlap="allow").version == 4
    assert told(table) == [("A", 0, 0.0), ("A", 0, 7.0)]


def test_an_append_cannot_turn_into_a_replacement_on_its_way(place: str) -> None:
    table, store = open_faulty(place)
    store.before_put = once(lambda: with_policy("replace")(place), is_commit)
    with pytest.raises(gl.CommitConflict, match="on_overlap='replace'"):
        table.append(hours(1))
    check_whole(place)
    assert table.append(hours(0, x=7)).removed_rows == 1


def test_no_row_is_taken_away_for_a_policy_that_the_table_had(place: str) -> None:
    with_policy("replace")(place)
    table, store = open_faulty(place)
    with_policy("skip")(place)
    assert table.append(hours(0, x=7)).skipped_rows == 1
    with_policy("replace")(place)
    table.refresh()
    store.before_put = once(lambda: with_policy("reject")(place), is_commit)
    with pytest.raises(gl.CommitConflict, match="on_overlap='reject'"):
        table.append(hours(0, x=7))
    assert told(table.refresh()) == [("A", 0, 0.0)]
    check_whole(place)


def test_an_append_follows_a_new_policy_under_which_it_stands(place: str) -> None:
    table, store = open_faulty(place)
    store.before_put = once(lambda: with_policy("skip")(place), is_commit)
    report = table.append(hours(1, x=7))
    assert (report.version, report.rows) == (4, 1)
    assert told(table) == [("A", 0, 0.0), ("A", 1, 7.0)]
    check_whole(place)


def test_an_append_that_lost_and_cannot_look_at_the_newest_version_leaves_nothing(place: str) -> None:
    table, store = open_faulty(place)

    def denied(path: str) -> None:
        if path.endswith("0000000004.json"):
            raise AccessDenied("no", path=path)

    def lose() -> None:
        gl.open(place).append(hours(1))
        store.before_get = denied

    store.before_put = once(lose, is_commit)
    with pytest.raises(AccessDenied):
        table.append(hours(1, 2))
    store.before_get = nothing
    check_whole(place)


def test_columns_renamed_and_taken_back_whole_are_a_conflict_and_not_nulls(place: str) -> None:
    gl.open(place).rename_column("x", "y")
    table, store = open_faulty(place)
    store.before_put = once(lambda: gl.open(place).restore(1), is_commit)
    with pytest.raises(gl.CommitConflict, match="identities"):
        table.append(hours(1, x=7).rename_columns(["ts", "sym", "y"]))
    assert gl.open(place).schema is None
    assert not gl.open(place).verify(deep=True).findings


def test_rows_that_are_read_back_for_a_table_without_columns_keep_their_values(place: str) -> None:
    gl.open(place).rename_column("x", "y")
    table, store = open_faulty(place)

    def first() -> None:
        other = gl.open(place)
        other.append(hours(1).rename_columns(["ts", "sym", "y"]))
        other.restore(1)

    store.before_put = once(first, is_commit)
    with pytest.raises(gl.CommitConflict, match="identities"):
        table.append(hours(1, 2, x=7).rename_columns(["ts", "sym", "y"]), on_overlap="skip")
    assert not gl.open(place).verify(deep=True).findings
