"""Filling gaps: what is asked for, what is kept, what is refused."""

from __future__ import annotations

import itertools
import pickle
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gapless as gl
from gapless.errors import FillStopped, InvalidOption, InvalidTime, InvalidValue, SchemaMismatch, StorageFull, UnreadableInput
from support.faulty_store import open_faulty

T0 = datetime(2024, 1, 1, tzinfo=UTC)
_counter = itertools.count()


def hour(number: float) -> datetime:
    return T0 + timedelta(hours=number)


def hours(start: datetime, end: datetime) -> list[datetime]:
    return [start + timedelta(hours=at) for at in range(int((end - start) / timedelta(hours=1)))]


def holed(**options: Any) -> gl.TimeSeriesTable:
    """A has hours 0, 3 and 8; B hours 0, 1 and 4: gaps of 2, 4 and 2."""
    table = gl.create(f"memory://fill-{next(_counter)}", index="ts", entity=["k"], bucket="1h", **options)
    table.append({"ts": [hour(at) for at in (0, 3, 8, 0, 1, 4)], "k": [*"AAABBB"], "v": [0.0] * 6})
    return table


class Source:
    """A fetch that has every hour, writes down what it is asked for, and fails when it is told to."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.asked: list[tuple[Any, datetime, datetime]] = []
        self.fails_at = fails_at

    def __call__(self, identity: tuple[Any, ...], start: datetime, end: datetime) -> dict[str, Any]:
        self.asked.append((identity, start, end))
        if self.fails_at == len(self.asked):
            raise ConnectionError("the line is down")
        found = hours(start, end)
        return {"ts": found, "k": [identity[0]] * len(found), "v": [1.0] * len(found)}

    @property
    def short(self) -> list[tuple[str, int, int]]:
        return [(i[0], int((s - T0) / timedelta(hours=1)), int((e - T0) / timedelta(hours=1))) for i, s, e in self.asked]


def rows(table: gl.TimeSeriesTable) -> Counter[tuple[str, datetime]]:
    found = table.scan().to_arrow()
    return Counter(zip(found["k"].to_pylist(), found["ts"].to_pylist(), strict=True))


def test_it_asks_for_every_gap_and_for_nothing_else() -> None:
    table, source, told = holed(), Source(), list[tuple[int, int]]()
    report = table.fill(source, progress=lambda done, of: told.append((done, of)))
    assert source.short == [("A", 1, 3), ("A", 4, 8), ("B", 2, 4)]
    assert (report.asked, report.rows, report.filled_buckets, report.missing, report.version) == (3, 8, 8, (), table.version)
    assert told == [(1, 3), (2, 3), (3, 3)]
    assert rows(table) == Counter([("A", hour(at)) for at in range(9)] + [("B", hour(at)) for at in range(5)])
    again = table.fill(source)
    assert (again.asked, len(source.asked), again.version) == (0, 3, table.version)


def test_what_came_before_an_error_is_kept_and_nothing_is_asked_twice() -> None:
    table, source = holed(), Source(fails_at=2)
    with pytest.raises(
        FillStopped, match=r"2024-01-01T04:00:00Z, 2024-01-01T08:00:00Z\) of k='A': ConnectionError: the line"
    ) as caught:
        table.fill(source)
    stopped = caught.value
    assert isinstance(stopped.__cause__, ConnectionError)
    assert (stopped.identity, stopped.start, stopped.end) == (("A",), hour(4), hour(8))
    report = stopped.report
    assert isinstance(report, gl.FillReport)
    assert (report.asked, report.rows, report.filled_buckets, report.missing_buckets) == (2, 2, 2, 6)
    assert [(gap.identity, gap.start, gap.buckets) for gap in report.missing] == [(("A",), hour(4), 4), (("B",), hour(2), 2)]
    assert [one.reason for one in report.failed] == ["ConnectionError: the line is down"]
    assert pickle.loads(pickle.dumps(stopped)).report == report
    assert rows(table)[("A", hour(1))] == 1
    source.fails_at = None
    done = gl.open(table.url).fill(source)
    assert source.short == [("A", 1, 3), ("A", 4, 8), ("A", 4, 8), ("B", 2, 4)]
    assert (done.asked, done.missing) == (2, ())
    assert table.refresh().coverage().gaps() == []


@pytest.mark.parametrize("nothing", [None, [], {}, {"ts": [], "k": [], "v": []}, pa.table({"other": pa.array([], pa.int8())})])
def test_nothing_there_is_reported_and_asked_again(nothing: object) -> None:
    table = holed()
    before = table.version
    report = table.fill(lambda *_: nothing)
    assert (report.asked, len(report.empty), report.rows, report.missing_buckets) == (3, 3, 0, 8)
    assert report.empty == report.missing
    assert table.version == before, "an empty answer is no commit"
    assert table.fill(Source()).asked == 3


def test_what_came_half_is_asked_for_again() -> None:
    table = holed()
    half = table.fill(lambda identity, start, _end: {"ts": [start], "k": [identity[0]], "v": [1.0]})
    assert [(gap.start, gap.buckets) for gap in half.missing] == [(hour(2), 1), (hour(5), 3), (hour(3), 1)]
    source = Source()
    table.fill(source)
    assert source.short == [("A", 2, 3), ("A", 5, 8), ("B", 3, 4)]
    assert max(rows(table).values()) == 1


def test_entity_columns_may_be_left_out() -> None:
    table = holed()
    table.fill(lambda _identity, start, end: {"ts": hours(start, end), "v": [2.0] * len(hours(start, end))})
    assert table.coverage().gaps() == []
    fresh = gl.create(f"memory://fill-{next(_counter)}", index="ts", entity=["k", "n"], bucket="1h")
    fresh.fill(lambda _i, start, end: {"ts": hours(start, end)}, hour(0), hour(3), identities=[("A", 7)])
    assert fresh.identities() == [("A", 7)]
    assert fresh.schema is not None
    assert [(field.name, field.type) for field in fresh.schema] == [
        ("ts", pa.timestamp("us", "UTC")),
        ("k", pa.string()),
        ("n", pa.int64()),
    ]


@pytest.mark.parametrize(
    ("answer", "said", "column", "row"),
    [
        ({"ts": [hour(1), hour(3)], "k": ["A", "A"]}, "1 row of other gaps: row 1 has ts 2024-01-01T03:00:00Z", "ts", 1),
        ({"ts": [hour(0.99), hour(1)], "k": ["A", "A"]}, "row 0 has ts 2024-01-01T00:59:24Z", "ts", 0),
        ({"ts": [hour(1), hour(2), hour(2)], "k": ["A", "B", "B"]}, "2 rows of other gaps: row 1 has k B", "k", 1),
    ],
)
def test_rows_of_other_gaps_are_refused(answer: dict[str, Any], said: str, column: str, row: int) -> None:
    table = holed()
    before = rows(table)
    with pytest.raises(FillStopped) as caught:
        table.fill(lambda *_: answer, max_workers=1)
    cause = caught.value.__cause__
    assert isinstance(cause, InvalidValue)
    assert said in str(cause)
    assert "[2024-01-01T01:00:00Z, 2024-01-01T03:00:00Z) of k='A'" in str(cause)
    assert (cause.column, cause.row) == (column, row)
    assert rows(table.refresh()) == before


def test_a_row_counts_from_the_start_of_the_whole_answer() -> None:
    table = holed()
    batches = [
        pa.record_batch({"ts": [hour(1), hour(1)], "k": ["A", "A"]}),
        pa.record_batch({"ts": [hour(2), hour(9)], "k": ["A", "A"]}),
    ]
    with pytest.raises(FillStopped, match="row 3 has ts 2024-01-01T09:00:00Z"):
        table.fill(lambda *_: pa.RecordBatchReader.from_batches(batches[0].schema, batches))


def test_answers_that_are_no_rows_of_the_table() -> None:
    table = holed()
    for answer, kind in ((7, UnreadableInput), ({"v": [1.0]}, SchemaMismatch), ({"ts": ["x"], "v": [1.0]}, SchemaMismatch)):
        with pytest.raises(FillStopped) as caught:
            table.fill(lambda *_, answer=answer: answer)
        assert isinstance(caught.value.__cause__, kind)


def test_long_gaps_come_in_parts() -> None:
    table, source = holed(), Source()
    report = table.fill(source, max_buckets=3)
    assert source.short == [("A", 1, 3), ("A", 4, 7), ("A", 7, 8), ("B", 2, 4)]
    assert (report.asked, report.missing) == (4, ())
    for wrong in ({"max_buckets": 0}, {"max_workers": 0}, {"max_workers": "4"}, {"on_error": "ignore"}):
        with pytest.raises(InvalidOption) as caught:
            holed().fill(source, **wrong)
        assert caught.value.option == next(iter(wrong))
    with pytest.raises(InvalidOption):
        holed().fill("fetch")  # type: ignore[arg-type]  # what users will try


def test_going_on_lists_what_failed() -> None:
    table, source = holed(), Source(fails_at=1)
    report = table.fill(source, on_error="continue")
    assert [(one.gap.identity, one.gap.start, one.reason) for one in report.failed] == [
        (("A",), hour(1), "ConnectionError: the line is down")
    ]
    assert (report.asked, report.filled_buckets, report.missing_buckets) == (3, 6, 2)
    wrong = holed().fill(lambda *_: {"ts": [hour(99)]}, on_error="continue")
    assert len(wrong.failed) == 3


def test_a_table_that_cannot_be_written_stops_it_all_the_same() -> None:
    table, store = open_faulty(holed().url)
    source = Source()

    def full(path: str) -> None:
        if path.startswith("data/"):
            raise StorageFull("no space is left", path=path)

    store.before_put = full
    with pytest.raises(FillStopped) as caught:
        table.fill(source, on_error="continue")
    assert isinstance(caught.value.__cause__, StorageFull)
    assert len(source.asked) == 1


def test_an_answer_that_breaks_off_while_it_is_read() -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"ts": [hour(1)], "k": ["A"]})
        raise ConnectionError("cut off")

    table = holed()
    before = rows(table)
    with pytest.raises(FillStopped, match="ConnectionError: cut off"):
        table.fill(lambda *_: broken())
    assert rows(table.refresh()) == before
    assert len(table.fill(lambda *_: broken(), on_error="continue").failed) == 3


def test_ctrl_c_leaves_what_came() -> None:
    table, asked = holed(), itertools.count()

    def fetch(identity: tuple[Any, ...], start: datetime, end: datetime) -> dict[str, Any]:
        if next(asked) == 1:
            raise KeyboardInterrupt
        return {"ts": hours(start, end), "k": [identity[0]] * len(hours(start, end))}

    for workers in (1, 3):
        with pytest.raises(KeyboardInterrupt):
            table.fill(fetch, max_workers=workers, max_buckets=1)
        asked = itertools.count()
    assert table.verify().ok
    assert max(rows(table.refresh()).values()) == 1
    table.fill(Source())
    assert table.coverage().gaps() == []


def test_workers_fetch_at_once_and_no_more_than_asked() -> None:
    table = gl.create(f"memory://fill-{next(_counter)}", index="ts", bucket="1h")
    together, lock, running, most = threading.Barrier(3, timeout=30), threading.Lock(), 0, 0

    def fetch(_identity: tuple[Any, ...], start: datetime, end: datetime) -> dict[str, Any]:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        together.wait()  # goes on only once three are here
        with lock:
            running -= 1
        return {"ts": hours(start, end)}

    report = table.fill(fetch, hour(0), hour(12), max_buckets=1, max_workers=3)
    assert (most, report.asked, report.rows, report.missing) == (3, 12, 12, ())
    assert table.scan().to_arrow()["ts"].to_pylist() == [hour(at) for at in range(12)]


def test_answers_that_were_on_their_way_when_one_failed_are_kept() -> None:
    table = gl.create(f"memory://fill-{next(_counter)}", index="ts", bucket="1h")
    failed, asked = threading.Event(), list[datetime]()

    def fetch(_identity: tuple[Any, ...], start: datetime, end: datetime) -> dict[str, Any]:
        asked.append(start)
        if start == hour(0):
            failed.set()
            raise ConnectionError("down")
        assert failed.wait(30)
        return {"ts": hours(start, end)}

    with pytest.raises(FillStopped) as caught:
        table.fill(fetch, hour(0), hour(50), max_buckets=1, max_workers=4)
    report = caught.value.report
    assert isinstance(report, gl.FillReport)
    assert sorted(table.scan().to_arrow()["ts"].to_pylist()) == sorted(set(asked) - {hour(0)})
    assert report.rows == len(asked) - 1
    assert len(asked) <= 8


def test_another_writer_may_be_faster() -> None:
    table = holed()
    other = gl.open(table.url)

    def fetch(identity: tuple[Any, ...], start: datetime, end: datetime) -> dict[str, Any]:
        answer = {"ts": hours(start, end), "k": [identity[0]] * len(hours(start, end))}
        other.append(answer)
        return answer

    report = table.fill(fetch)
    assert (report.rows, report.skipped_rows, report.missing) == (0, 8, ())
    assert max(rows(table.refresh()).values()) == 1


def test_a_calendar_says_what_to_ask_for() -> None:
    table = gl.create(f"memory://fill-{next(_counter)}", index="ts", bucket="1h")
    asked = []

    def fetch(_identity: tuple[Any, ...], start: datetime, end: datetime) -> dict[str, Any]:
        asked.append((start, end))
        return {"ts": hours(start, end)}  # nights too: they are within what was asked for

    report = table.fill(fetch, hour(0), hour(24 * 7), calendar="mon-fri 09:00-17:00", max_buckets=8)
    assert asked == [(hour(24 * day + 9), hour(24 * day + 17)) for day in range(5)]
    assert (report.rows, report.missing) == (40, ())
    whole = gl.create(f"memory://fill-{next(_counter)}", index="ts", bucket="1h")
    assert whole.fill(fetch, hour(0), hour(24 * 7), calendar="mon-fri 09:00-17:00").filled_buckets == 40
    assert (asked[-1], whole.coverage().covered) == ((hour(9), hour(24 * 4 + 17)), 104)


def test_other_kinds_of_index() -> None:
    integers = gl.create(f"memory://fill-{next(_counter)}", index="i", bucket=10, index_type="uint64")
    integers.append({"i": pa.array([5, 45], pa.uint64())})
    report = integers.fill(lambda _i, start, end: {"i": pa.array(range(start, end, 10), pa.uint64())})
    assert (report.filled_buckets, integers.coverage().gaps()) == (3, [])
    nanos = gl.create(
        f"memory://fill-{next(_counter)}", index="ts", bucket="100ns", schema=pa.schema([("ts", pa.timestamp("ns"))])
    )
    asked = []
    nanos.fill(lambda _i, start, end: asked.append((start, end)), np.datetime64(100, "ns"), np.datetime64(300, "ns"))
    assert asked == [(np.datetime64(100, "ns"), np.datetime64(300, "ns"))]
    local = gl.create(f"memory://fill-{next(_counter)}", index="ts", bucket="1d", timezone="Europe/Berlin")
    naive = [datetime(2026, 3, 28), datetime(2026, 3, 29), datetime(2026, 3, 30)]
    report = local.fill(lambda *_: {"ts": naive}, "2026-03-28", "2026-03-31")
    assert (report.asked, report.filled_buckets, report.missing) == (1, 3, ())
    with pytest.raises(FillStopped, match="row 1 has ts 2026-04-01"):
        local.fill(lambda *_: {"ts": [datetime(2026, 3, 31), datetime(2026, 4, 2)]}, "2026-03-31", "2026-04-01")
    with pytest.raises(InvalidTime):
        gl.create(f"memory://fill-{next(_counter)}", index="ts", bucket="1h").fill(Source(), hour(0))


@settings(max_examples=15)
@given(
    st.sets(st.integers(0, 15), min_size=1),
    st.lists(st.sampled_from(["all", "half", "none", "error"]), max_size=8),
    st.sampled_from([None, 1, 4]),
    st.sampled_from([1, 2]),
)
def test_a_source_that_fails_often_is_asked_until_all_is_there(
    present: set[int], moods: list[str], size: int | None, workers: int
) -> None:
    table = gl.create(f"memory://fill-{next(_counter)}", index="i", bucket=1, index_type="int64")
    table.append({"i": sorted(present)})
    given, left, lock = set(present), list(moods), threading.Lock()

    def fetch(_identity: tuple[Any, ...], start: int, end: int) -> dict[str, Any] | None:
        with lock:
            asked = set(range(start, end))
            assert not asked & given, "asked for what has come"
            mood = left.pop() if left else "all"
            if mood == "error":
                raise ConnectionError
            found = sorted(asked)[: {"all": None, "half": len(asked) // 2, "none": 0}[mood]]
            given.update(found)
            return {"i": found} if found else None

    for _ in range(10):
        report = _report_of(table, fetch, max_buckets=size, max_workers=workers)
        assert {at for gap in report.missing for at in range(gap.start, gap.end)} == set(range(16)) - given
        if not report.missing:
            break
    assert table.scan().to_arrow()["i"].to_pylist() == list(range(16))


def _report_of(table: gl.TimeSeriesTable, fetch: Any, **options: Any) -> gl.FillReport:
    try:
        return table.fill(fetch, 0, 16, **options)
    except FillStopped as stopped:
        report = stopped.report
    assert isinstance(report, gl.FillReport)
    return report
