"""A backfill by Spark's tasks asks for and keeps what `table.fill` does, whatever becomes of the tasks and of what they fetch."""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import uuid4

import duckdb
import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import DuplicateKey, FillStopped, InvalidOption, InvalidValue, NotSupported, SchemaMismatch
from gapless.spark.correct.backfill import backfill

# pyspark leaves sockets of collected answers, and of threads that asked for them, to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*unclosed.*:ResourceWarning", "ignore:.*socket:pytest.PytestUnraisableExceptionWarning"
)

T0 = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.string()), ("v", pa.float64())])
Rows = dict[str, list[Any]]
Fetch = Callable[[tuple[Any, ...], datetime, datetime], Any]


@pytest.fixture(scope="module", autouse=True)
def _shipped(spark: Any) -> None:
    """Workers cannot import this module: what it defines goes to them by value."""
    import_module("pyspark.cloudpickle").register_pickle_by_value(sys.modules[__name__])


def hour(number: float) -> datetime:
    return T0 + timedelta(hours=number)


def number_of(ts: datetime) -> int:
    return int((ts - T0) / timedelta(hours=1))


def holed(path: Path, **options: Any) -> gl.TimeSeriesTable:
    """A has hours 0, 3 and 8; B hours 0, 1 and 4: gaps of 2, 4 and 2."""
    table = gl.create(path, index="ts", entity=["k"], bucket="1h", **options)
    table.append({"ts": [hour(at) for at in (0, 3, 8, 0, 1, 4)], "k": [*"AAABBB"], "v": [0.0] * 6})
    return table


def all_hours(identity: tuple[Any, ...], start: datetime, end: datetime) -> Rows:
    """Every hour that is asked for, each with its number."""
    numbers = range(number_of(start), number_of(end))
    return {"ts": [hour(at) for at in numbers], "k": [identity[0]] * len(numbers), "v": [float(at) for at in numbers]}


class Logged:
    """A fetch that leaves a file for each call in a folder, since it is called in other processes."""

    def __init__(self, folder: Path, fetch: Fetch = all_hours) -> None:
        self.folder, self.fetch = folder, fetch
        folder.mkdir()

    def __call__(self, identity: tuple[Any, ...], start: datetime, end: datetime) -> Any:
        name = f"{identity[0]} {number_of(start)} {number_of(end)}"
        (self.folder / f"{uuid4()}").write_text(f"{name} {os.getpid()}", encoding="utf-8")
        return self.fetch(identity, start, end)

    @property
    def calls(self) -> Counter[str]:
        return Counter(path.read_text(encoding="utf-8").rpartition(" ")[0] for path in self.folder.iterdir())

    @property
    def processes(self) -> set[int]:
        return {int(path.read_text(encoding="utf-8").rpartition(" ")[2]) for path in self.folder.iterdir()}


def rows_of(table: gl.TimeSeriesTable) -> list[tuple[Any, ...]]:
    """The rows, by another reader."""
    files = [str(Path(table.url) / segment.path) for segment in table.segments()]
    return duckdb.execute("select k, epoch(ts) // 3600, v from read_parquet($1) order by all", [files]).fetchall()


def files_of(table: gl.TimeSeriesTable) -> set[str]:
    return {path.name for path in (Path(table.url) / "data").glob("*.parquet")}


def no_append(*_: Any, **__: Any) -> None:
    raise AssertionError("rows passed through the driver")


def test_it_fills_as_the_table_itself_does(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = holed(tmp_path / "one"), holed(tmp_path / "other")
    expected = one.fill(all_hours, max_buckets=3)
    fetch, told = Logged(tmp_path / "calls"), list[tuple[int, int]]()
    with monkeypatch.context() as patched:
        patched.setattr(gl.TimeSeriesTable, "append", no_append)
        report = backfill(spark, other, fetch, max_buckets=3, progress=lambda done, of: told.append((done, of)))
    assert report == expected
    assert (report.asked, report.rows, report.missing, report.version) == (4, 8, (), 6)
    assert fetch.calls == Counter(["A 1 3", "A 4 7", "A 7 8", "B 2 4"]), "each part is asked for once"
    assert os.getpid() not in fetch.processes
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert rows_of(other) == rows_of(one)
    assert len(rows_of(other)) == 14
    assert files_of(other) == {segment.path.rpartition("/")[2] for segment in other.segments()}
    assert other.coverage().buckets() == one.coverage().buckets()
    assert other.verify(deep=True).ok
    again = backfill(spark, str(tmp_path / "other"), fetch, max_buckets=3)
    assert (again.asked, again.rows, again.version, sum(fetch.calls.values())) == (0, 0, report.version, 4)


def test_what_came_beside_an_error_is_kept_and_nothing_else_is_asked_again(spark: Any, tmp_path: Path) -> None:
    table = holed(tmp_path / "t")

    def failing(identity: tuple[Any, ...], start: datetime, end: datetime) -> Rows:
        if start == hour(4):
            raise ConnectionError("the line is down")
        return all_hours(identity, start, end)

    with pytest.raises(FillStopped, match=r"T04:00:00Z, 2026-01-01T08:00:00Z\) of k='A': ConnectionError: the line") as caught:
        backfill(spark, table, failing)
    stopped = caught.value
    assert isinstance(stopped.__cause__, ConnectionError)
    assert "in failing" in "".join(stopped.__cause__.__notes__), "it tells where on the executor"
    assert (stopped.identity, stopped.start, stopped.end) == (("A",), hour(4), hour(8))
    report = stopped.report
    assert isinstance(report, gl.FillReport)
    assert [(one.gap.start, one.reason) for one in report.failed] == [(hour(4), "ConnectionError: the line is down")]
    assert report.rows == report.filled_buckets == len(rows_of(table)) - 6 > 0
    assert report.missing_buckets == 8 - report.rows
    fetch = Logged(tmp_path / "calls")
    done = backfill(spark, table, fetch)
    assert (done.rows, done.missing) == (8 - report.rows, ())
    assert fetch.calls == Counter(f"{gap.identity[0]} {number_of(gap.start)} {number_of(gap.end)}" for gap in report.missing)
    assert len(rows_of(table)) == 14


class Picky(Exception):
    """Pickles, and cannot be made again."""

    def __init__(self, code: int, *, reason: str) -> None:
        super().__init__(f"{code} {reason}")


def test_going_on_lists_what_failed_and_what_was_empty(spark: Any, tmp_path: Path) -> None:
    one, other = holed(tmp_path / "one"), holed(tmp_path / "other")

    def mixed(identity: tuple[Any, ...], start: datetime, end: datetime) -> Any:
        match identity[0], number_of(start):
            case "A", 1:
                raise Picky(503, reason="busy")
            case "A", 4:
                return None
            case "A", 5:
                return pa.table({"ts": pa.array([], pa.timestamp("us", "UTC"))})
            case "A", 6:
                return {"ts": [hour(1)], "v": [1.0]}
            case "A", 7:
                return {"ts": [hour(7)], "v": ["text"]}
            case _:
                return all_hours(identity, start, end)

    expected = one.fill(mixed, max_buckets=1, on_error="continue")
    report = backfill(spark, other, mixed, max_buckets=1, on_error="continue")
    reasons = [by_start(report)[hour(at)] for at in (2, 6, 7)]
    assert reasons == [by_start(expected)[hour(at)] for at in (2, 6, 7)]
    assert [reason.partition(":")[0] for reason in reasons] == ["filled", "InvalidValue", "SchemaMismatch"]
    assert by_start(report)[hour(1)] == "RuntimeError: Picky: 503 busy"
    assert {gap.start for gap in report.empty} == {gap.start for gap in expected.empty} == {hour(4), hour(5)}
    counted = ("asked", "rows", "filled_buckets", "missing", "missing_buckets", "version")
    assert [getattr(report, name) for name in counted] == [getattr(expected, name) for name in counted]
    assert rows_of(other) == rows_of(one)
    assert files_of(other) == {segment.path.rpartition("/")[2] for segment in other.segments()}, (
        "what is refused leaves nothing"
    )
    assert backfill(spark, other, all_hours).missing == ()


def by_start(report: gl.FillReport) -> dict[datetime, str]:
    """Why the hours of A from 1 to 8 failed, or that they did not."""
    return {hour(at): "filled" for at in range(1, 8)} | {
        one.gap.start: one.reason for one in report.failed if one.gap.identity == ("A",)
    }


@pytest.mark.parametrize("on_error", ["raise", "continue"])
def test_of_many_gaps_a_task_asks_for_several_and_stops_where_it_must(spark: Any, tmp_path: Path, on_error: str) -> None:
    table = gl.create(tmp_path / "t", index="ts", entity=["k"], bucket="1h", schema=SCHEMA)

    def failing(identity: tuple[Any, ...], start: datetime, end: datetime) -> Rows:
        if number_of(start) in (1, 31):
            raise ConnectionError("down")
        return all_hours(identity, start, end)

    fetch = Logged(tmp_path / "calls", failing)
    options: dict[str, Any] = {"start": hour(0), "end": hour(32), "identities": ["A"], "max_buckets": 1, "on_error": on_error}
    if on_error == "raise":
        with pytest.raises(FillStopped) as caught:
            backfill(spark, table, fetch, **options)
        report = caught.value.report
        # Two workers take four turns each, so that a task asks for four gaps.
        assert len(fetch.calls) % 4 == 2
        assert not {"A 2 3", "A 3 4"} & set(fetch.calls), "it ends at its failure"
    else:
        report = backfill(spark, table, fetch, **options)
        assert sorted(one.gap.start for one in report.failed) == [hour(1), hour(31)]
        assert (report.asked, report.rows) == (32, 30)
    assert isinstance(report, gl.FillReport)
    assert set(fetch.calls.values()) == {1}
    asked = {int(call.split()[1]) for call in fetch.calls}
    assert [row[2] for row in rows_of(table)] == [float(at) for at in sorted(asked - {1, 31})]
    assert report.asked == len(asked)
    assert len([entry for entry in table.history() if entry.operation == "append"]) == report.rows
    fetch.fetch = all_hours
    assert backfill(spark, table, fetch, **options).rows == 32 - report.rows
    twice = {1, 31} & asked
    assert fetch.calls == Counter({f"A {at} {at + 1}": 1 + (at in twice) for at in range(32)})


def test_an_empty_source_is_no_commit(spark: Any, tmp_path: Path) -> None:
    table = holed(tmp_path / "t")
    report = backfill(spark, table, lambda *_: iter(()))
    assert (report.asked, report.missing_buckets, report.version) == (3, 8, 2)
    assert Counter(report.empty) == Counter(report.missing)


def test_a_task_that_is_lost_is_tried_again_and_leaves_each_row_once(spark: Any, tmp_path: Path) -> None:
    table, marks = holed(tmp_path / "t"), tmp_path / "marks"
    marks.mkdir()

    def deadly(identity: tuple[Any, ...], start: datetime, end: datetime) -> Any:
        mark = marks / f"{identity[0]}-{number_of(start)}"
        if start == hour(4) and not mark.exists():
            mark.touch()
            os._exit(1)
        return all_hours(identity, start, end)

    fetch = Logged(tmp_path / "calls", deadly)
    report = backfill(spark, table, fetch)
    assert (report.asked, report.rows, report.missing) == (3, 8, ())
    assert fetch.calls == Counter({"A 1 3": 1, "A 4 8": 2, "B 2 4": 1})
    assert [row[:2] for row in rows_of(table)] == sorted({row[:2] for row in rows_of(table)})


def test_a_table_without_a_schema_gets_that_of_the_first_rows(spark: Any, tmp_path: Path) -> None:
    made = [gl.create(tmp_path / name, index="ts", entity=["k"], bucket="1h") for name in ("one", "other")]

    def unnamed(_identity: tuple[Any, ...], start: datetime, end: datetime) -> Rows:
        numbers = range(number_of(start), number_of(end))
        return {"ts": [hour(at) for at in numbers], "v": [0.5] * len(numbers)}

    expected = made[0].fill(unnamed, hour(0), hour(6), identities=["x", "y"], max_buckets=2)
    report = backfill(spark, made[1], unnamed, start=hour(0), end=hour(6), identities=["x", "y"], max_buckets=2)
    assert report == expected
    assert made[1].schema == made[0].schema
    assert rows_of(made[1]) == rows_of(made[0])
    assert report.rows == 12


def test_another_writer_may_be_faster(spark: Any, tmp_path: Path) -> None:
    table, url = holed(tmp_path / "t"), str(tmp_path / "t")

    def late(identity: tuple[Any, ...], start: datetime, end: datetime) -> Rows:
        answer = all_hours(identity, start, end)
        if identity == ("A",):
            first = {name: values[:1] for name, values in answer.items()}
            gl.open(url).append({**first, "v": [-1.0]})
        return answer

    report = backfill(spark, table, late)
    assert (report.rows, report.skipped_rows, report.filled_buckets, report.missing) == (6, 2, 8, ())
    assert sorted(row[2] for row in rows_of(table)) == [-1.0, -1.0, *[0.0] * 6, 2.0, 2.0, 3.0, 5.0, 6.0, 7.0]


def test_duplicate_keys_in_a_unique_table_are_refused(spark: Any, tmp_path: Path) -> None:
    table = holed(tmp_path / "t", properties={"unique": True})

    def twice(identity: tuple[Any, ...], start: datetime, end: datetime) -> Rows:
        answer = all_hours(identity, start, end)
        return {name: values * (1 + (identity == ("A",))) for name, values in answer.items()}

    with pytest.raises(FillStopped) as caught:
        backfill(spark, table, twice, max_workers=1)
    assert isinstance(caught.value.__cause__, DuplicateKey)
    report = backfill(spark, table, twice, on_error="continue")
    assert (report.asked, report.rows, len(report.failed)) == (3, 2, 2)
    assert len(rows_of(table)) == 8


def test_other_indexes_and_calendars(spark: Any, tmp_path: Path) -> None:
    integers = gl.create(tmp_path / "integers", index="i", bucket=10, index_type="uint64")
    integers.append({"i": pa.array([5, 45], pa.uint64())})
    report = backfill(spark, integers, lambda _i, start, end: {"i": pa.array(range(start, end, 10), pa.uint64())})
    assert (report.filled_buckets, integers.coverage().gaps()) == (3, [])
    local = gl.create(tmp_path / "local", index="ts", bucket="1d", timezone="Europe/Berlin")
    days = ["2026-03-28", "2026-03-31"]

    def naive(*_: Any) -> Rows:
        return {"ts": [datetime(2026, 3, day) for day in (28, 29, 30)]}

    first = backfill(spark, local, naive, start=days[0], end=days[1])
    assert (first.asked, first.filled_buckets, first.missing) == (1, 3, ())
    week = gl.create(tmp_path / "week", index="ts", bucket="1h", schema=pa.schema([("ts", pa.timestamp("us", "UTC"))]))
    mornings = "mon-fri 09:00-11:00"
    asked = backfill(
        spark,
        week,
        lambda _i, start, end: {"ts": [hour(at) for at in range(number_of(start), number_of(end))]},
        start=hour(0),
        end=hour(48),
        calendar=mornings,
        max_buckets=2,
    )
    assert (asked.asked, asked.rows, asked.missing) == (2, 4, ())
    assert [number_of(bucket.start) for bucket in week.coverage().buckets()] == [9, 10, 33, 34]


def test_wrong_calls_are_typed_errors(spark: Any, tmp_path: Path) -> None:
    table, lock = holed(tmp_path / "t"), threading.Lock()

    def locked(*_: Any) -> None:
        lock.acquire()

    with pytest.raises(InvalidOption, match="cannot be sent to executors") as refused:
        backfill(spark, table, locked)
    assert refused.value.option == "fetch"
    wrong: list[tuple[Any, dict[str, Any]]] = [("fetch", {}), (all_hours, {"max_workers": 0}), (all_hours, {"on_error": "no"})]
    for fetch, options in wrong:
        with pytest.raises(InvalidOption):
            backfill(spark, table, fetch, **options)
    with pytest.raises(InvalidOption, match="cannot be written to"):
        backfill(spark, table.at(version=2), all_hours)  # type: ignore[arg-type]
    with pytest.raises(NotSupported, match="memory"):
        backfill(spark, gl.create("memory://spark-backfill", index="ts", bucket="1h"), all_hours)
    for answer, kind in (
        (7, "UnreadableInput"),
        ({"v": [1.0]}, SchemaMismatch.__name__),
        ({"ts": [hour(99)]}, InvalidValue.__name__),
    ):
        report = backfill(spark, table, lambda *_, answer=answer: answer, on_error="continue", entity={"k": "B"})
        assert [one.reason.partition(":")[0] for one in report.failed] == [kind]
    assert (table.refresh().version, len(rows_of(table))) == (2, 6)
