"""Upsert, delete and replace as Spark jobs do what the table's own do: same rows, coverage, counts and refusals."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import gapless as gl
from gapless.errors import (
    CommitConflict,
    DuplicateKey,
    InvalidOption,
    InvalidValue,
    NotSupported,
    NullKey,
    SchemaMismatch,
    UnknownColumn,
)
from gapless.model.operation import SequenceId
from gapless.spark.correct.corrections import delete, replace, upsert, upsert_frame
from gapless.spark.correct.revise import Revised, Reviser, RevisionTask
from gapless.spark.setup.executors import spread_work
from gapless.spark.writing.encode import Encoding, Outcome
from gapless.spark.writing.target import Delivery

# pyspark leaves sockets of collected answers to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*unclosed.*:ResourceWarning", "ignore:.*socket:pytest.PytestUnraisableExceptionWarning"
)

START = datetime(2026, 1, 1, tzinfo=UTC)
COUNTED = (
    "version", "rows", "updated_rows", "buckets", "removed_rows", "removed_segments", "replaced_buckets", "already_applied",
)  # fmt: skip
Act = Callable[[gl.TimeSeriesTable], Any]


@pytest.fixture(scope="module", autouse=True)
def _shipped(spark: Any) -> None:
    """Workers cannot import this module: what it defines goes to them by value."""
    import_module("pyspark.cloudpickle").register_pickle_by_value(sys.modules[__name__])


def at(hour: float) -> datetime:
    return START + timedelta(hours=hour)


def hours(first: int, count: int, site: str = "a", v: int = 0) -> pa.Table:
    times = pa.array([at(first + h) for h in range(count)], pa.timestamp("us", "UTC"))
    return pa.table({"ts": times, "site": [site] * count, "v": [v + first + h for h in range(count)]})


def air(path: Path, **properties: Any) -> gl.TimeSeriesTable:
    """Three segments of site a, one after the other, and one of site b."""
    table = gl.create(path, index="ts", entity=["site"], bucket="1h", properties=properties)
    for first in (0, 50, 100):
        table.append(hours(first, 50))
    table.append(hours(0, 30, "b"))
    return table


def twins(tmp_path: Path, make: Callable[[Path], gl.TimeSeriesTable] = air) -> tuple[gl.TimeSeriesTable, gl.TimeSeriesTable]:
    return make(tmp_path / "one"), make(tmp_path / "other")


def rows_of(table: gl.TimeSeriesTable) -> list[str]:
    return sorted(map(repr, table.scan().to_arrow().to_pylist()))


def files_of(table: gl.TimeSeriesTable) -> dict[str, bytes]:
    return {f"data/{path.name}": path.read_bytes() for path in (Path(table.url) / "data").iterdir()}


def counts(report: Any) -> dict[str, Any]:
    return {name: getattr(report, name) for name in COUNTED}


def check_alike(one: gl.TimeSeriesTable, other: gl.TimeSeriesTable, expected: Any, report: Any) -> None:
    """`other`, changed by Spark, is what `one` is, and nothing lies about that no version needs."""
    assert counts(report) == counts(expected)
    assert rows_of(other) == rows_of(one)
    assert other.coverage().buckets() == one.coverage().buckets()
    assert other.schema == one.schema
    check_whole(other)


def check_whole(table: gl.TimeSeriesTable) -> None:
    assert table.verify(deep=True).ok
    assert not [entry.path for entry in table.vacuum(dry_run=True).entries if entry.reason == "in-flight"]


# -- upsert ------------------------------------------------------------------------------------------------------------


def test_an_upsert_is_that_of_the_table(spark: Any, tmp_path: Path) -> None:
    one, other = twins(tmp_path)
    before = files_of(other)
    untouched = other.segments()[0].path, other.segments()[3].path
    new = pa.concat_tables([hours(60, 10, v=1000), hours(140, 20, v=1000), hours(5, 2, "c")])
    report = upsert(spark.createDataFrame(new).repartition(3), other)
    check_alike(one, other, one.upsert(new), report)
    assert (report.inserted_rows, report.updated_rows) == (12, 20)
    live = [segment.path for segment in other.segments()]
    assert set(untouched) < set(live)
    assert all(files_of(other)[path] == before[path] for path in untouched)
    files = [str(Path(other.url) / path) for path in live]
    query = "select site, count(*), sum(v) from read_parquet($1) group by site order by site"
    kept = sum(v for v in range(150) if not 60 <= v < 70 and v < 140)
    assert duckdb.execute(query, [files]).fetchall() == [
        ("a", 160, kept + sum(range(1060, 1070)) + sum(range(1140, 1160))),
        ("b", 30, sum(range(30))),
        ("c", 2, 11),
    ]
    assert [entry.parameters for entry in other.history()][-1] == [entry.parameters for entry in one.history()][-1]


def any_table(path: Path, seed: int) -> gl.TimeSeriesTable:
    """A few segments that overlap, of several identities, with keys of every odd kind."""
    draw = random.Random(seed)
    table = gl.create(path, index="ts", entity=["site"], bucket=draw.choice(["1h", "6h", "1d"]))
    for _ in range(draw.randint(1, 5)):
        table.append(any_rows(draw, draw.randint(1, 60)), on_overlap="allow")
    return table


def any_rows(draw: random.Random, count: int, key: str | None = None) -> pa.Table:
    """Rows of which no two have one `key` (else one time and site)."""
    floats = [0.0, -0.0, float("nan"), None, *range(1, 90)]
    texts = [None, "", *(f"t{n}" for n in range(90))]
    draw.shuffle(floats)
    draw.shuffle(texts)
    if key == "f":
        floats.remove(0.0)  # of 0.0 and -0.0 one, since they are equal
    places = draw.sample(range(400), count)
    columns = {
        "ts": pa.array([at(place // 3) for place in places], pa.timestamp("us", "UTC")),
        "site": pa.array([f"s{place % 3}" for place in places]),
        "f": pa.array((floats * 2)[:count], pa.float64()),
        "t": pa.array((texts * 2)[:count], pa.string()),
        "v": pa.array([draw.randrange(2) for _ in range(count)], pa.int64()),
    }
    return pa.table(columns)


@pytest.mark.parametrize("seed", range(4))
def test_upserts_of_any_rows_by_any_key_are_those_of_the_table(spark: Any, tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    key = [None, "f", ("site", "v", "ts"), ("f", "site")][seed]
    one, other = twins(tmp_path, lambda path: any_table(path, seed))
    new = any_rows(draw, draw.randint(1, 80), key="f" if key in ("f", ("f", "site")) else None)
    expected = one.upsert(new, key=key)
    report = upsert(spark.createDataFrame(new).repartition(draw.randint(1, 4)), other, key=key)
    check_alike(one, other, expected, report)
    assert report.updated_rows, "no key was there, so nothing was updated"


def test_null_is_null_nan_is_nan_and_minus_zero_is_zero(spark: Any, tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="n", index_type="int64", bucket=10)
    table.append({"n": range(6), "f": [None, float("nan"), -0.0, 0.0, 1.5, 2.5]})
    new = spark.createDataFrame(pa.table({"n": [10, 11, 12, 13], "f": [None, float("nan"), 0.0, 1.5]}))
    report = upsert(new, table, key="f")
    assert (report.updated_rows, report.removed_rows) == (4, 5)
    assert table.scan(order="index").to_arrow().column("n").to_pylist() == [5, 10, 11, 12, 13]
    both = spark.createDataFrame(pa.table({"n": [20, 21], "f": [0.0, -0.0]}))
    with pytest.raises(DuplicateKey, match="1 key found"):
        upsert(both, table, key="f")


class SmallRuns(Encoding):
    """Segments of a few rows, as huge inputs have many of them."""

    def outcome(self, batches: Iterable[pa.RecordBatch]) -> Outcome:
        from gapless.tables.timeseries.write import stage

        usual, stage.RUN_BYTES = stage.RUN_BYTES, 300
        try:
            return Encoding.outcome(self, (part for batch in batches for part in _rows(batch)))
        finally:
            stage.RUN_BYTES = usual


class FewKeys(Reviser):
    """Holds the keys of few arriving rows in memory at a time."""

    def revise(self, task: RevisionTask) -> Revised:
        from gapless.spark.correct import revise as ground

        usual, ground._KEYS_AT_ONCE = ground._KEYS_AT_ONCE, 30
        try:
            return Reviser.revise(self, task)
        finally:
            ground._KEYS_AT_ONCE = usual


def _rows(batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
    return (batch.slice(start, 4) for start in range(0, batch.num_rows, 4))


@pytest.mark.parametrize("key", [None, "v"])
def test_arriving_rows_in_many_segments(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str | None) -> None:
    monkeypatch.setattr("gapless.spark.writing.series_target.Encoding", SmallRuns)
    monkeypatch.setattr("gapless.spark.correct.corrections.Reviser", FewKeys)
    one, other = twins(tmp_path)
    minutes = pa.array([at(h / 4) for h in range(40, 140)], pa.timestamp("us", "UTC"))
    new = pa.table({"ts": minutes, "site": ["a"] * 100, "v": range(100)})
    report = upsert(spark.createDataFrame(new), other, key=key)
    check_alike(one, other, one.upsert(new, key=key), report)
    twice = pa.concat_tables([hours(0, 30), hours(25, 1)])
    before = files_of(other).keys()
    with pytest.raises(DuplicateKey) as refused:
        upsert(spark.createDataFrame(twice), other, key=key)
    expected = {None: (("site", "ts"), (("a", at(25)),)), "v": (("v",), ((25,),))}[key]
    assert (refused.value.columns, refused.value.keys) == expected
    assert files_of(other).keys() == before


def test_rows_with_one_key_are_refused_by_name(spark: Any, tmp_path: Path) -> None:
    table = air(tmp_path / "t")
    before = files_of(table).keys()
    new = pa.concat_tables([hours(0, 3), hours(1, 1)])
    with pytest.raises(DuplicateKey, match=r"1 key found more than once in the input: \(site=a, ts=.*\).*in the DataFrame"):
        upsert(spark.createDataFrame(new).repartition(4), table)
    # In rows that lie apart, so that different tasks write them.
    far = pa.concat_tables([hours(0, 3, v=7), hours(4000, 3, v=-3993)])
    with pytest.raises(DuplicateKey, match="3 keys found") as refused:
        upsert(spark.createDataFrame(far).repartition(4), table, key="v")
    assert sorted(refused.value.keys) == [(7,), (8,), (9,)]
    assert (table.refresh().version, files_of(table).keys()) == (5, before)


def test_a_unique_table_stays_unique_whatever_the_key(spark: Any, tmp_path: Path) -> None:
    one, other = twins(tmp_path, lambda path: air(path, unique=True))
    before = files_of(other).keys()
    # Hour 3 has v=3 and is taken by another row, but for key v=3 itself.
    with pytest.raises(DuplicateKey, match="in the table already"):
        upsert(spark.createDataFrame(hours(3, 1, v=5000)), other, key="v")
    with pytest.raises(DuplicateKey, match=r"more than once in the input.*unique"):
        upsert(spark.createDataFrame(pa.concat_tables([hours(500, 1), hours(500, 1, v=1)])), other, key="v")
    assert (other.refresh().version, files_of(other).keys()) == (5, before)
    moved = pa.concat_tables([hours(3, 2), hours(300, 1, v=-290)])
    check_alike(one, other, one.upsert(moved, key="v"), upsert(spark.createDataFrame(moved), other, key="v"))


def test_what_an_upsert_cannot_take(spark: Any, tmp_path: Path) -> None:
    table = air(tmp_path / "t")
    before = files_of(table).keys()
    frame = spark.createDataFrame(hours(0, 2))
    with pytest.raises(SchemaMismatch, match="lacks the column 'v'"):
        upsert(frame.drop("v"), table)
    with pytest.raises(UnknownColumn, match="w"):
        upsert(frame, table, key="w")
    with pytest.raises(InvalidOption, match="names no columns"):
        upsert(frame, table, key=[])
    with pytest.raises(InvalidOption, match="cannot be written to"):
        upsert(frame, table.at(version=2))  # type: ignore[arg-type]
    with pytest.raises(NotSupported, match="memory"):
        upsert(frame, air("memory://spark-rewrite"))  # type: ignore[arg-type]
    with pytest.raises(NullKey, match=r"partition \d+ of the DataFrame"):
        upsert(frame.selectExpr("if(v = 1, null, ts) as ts", "site", "v"), table)
    assert (table.refresh().version, files_of(table).keys()) == (5, before)


def test_upserts_into_columns_that_changed_and_types_that_spark_lacks(spark: Any, tmp_path: Path) -> None:
    def make(path: Path) -> gl.TimeSeriesTable:
        table = gl.create(path, index="n", index_type="int64", bucket=10)
        ns = pa.array([1, 2**62, None], pa.timestamp("ns", "UTC"))
        table.append({"n": [0, 1, 50], "x": ["a", "b", None], "s": [{"p": 1, "q": 2}] * 3, "ns": ns})
        table.rename_column("x", "y")
        table.rename_column("s.p", "r")
        table.add_column("z", "int32", default=7)
        table.append({"n": [60], "y": ["c"], "s": [{"r": 5, "q": 6}], "ns": pa.array([5], ns.type), "z": [None]})
        return table

    one, other = twins(tmp_path, make)
    micros = pa.array([9, None, 10**6], pa.timestamp("us", "UTC"))
    new = pa.table({"n": [1, 60, 70], "y": ["B", None, "d"], "s": [None, {"r": 1, "q": None}, None], "ns": micros})
    new = new.append_column("z", pa.array([1, None, 3], pa.int32()))
    check_alike(one, other, one.upsert(new), upsert(spark.createDataFrame(new), other))
    check_alike(one, other, one.upsert(new, key=["z"]), upsert(spark.createDataFrame(new), other, key=["z"]))
    assert len(rows_of(other)) == 5


def test_a_first_upsert_brings_the_columns(spark: Any, tmp_path: Path) -> None:
    one, other = (gl.create(tmp_path / name, index="ts", entity=["site"], bucket="1h") for name in "ab")
    empty = spark.createDataFrame(hours(0, 1)).where("v > 9")
    assert delete(spark, other, "true").version == 1
    report = upsert(spark.createDataFrame(hours(0, 9)), other)
    check_alike(one, other, one.upsert(hours(0, 9)), report)
    check_alike(one, other, one.upsert(hours(0, 0)), upsert(empty, other))
    assert upsert(empty, other, operation_id="none").version == 3


def test_the_driver_reads_no_rows(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("the driver reads rows")

    table = air(tmp_path / "t")
    with monkeypatch.context() as patched:
        patched.setattr("gapless.tables.timeseries.correct.row_selection.read", never)
        with pytest.raises(AssertionError):
            table.delete("v = 1")
        assert upsert(spark.createDataFrame(hours(3, 90, v=5_000)), table).updated_rows == 90
        assert upsert(spark.createDataFrame(hours(4, 90, v=4_999)), table, key="v").updated_rows == 90
        assert delete(spark, table, "v = 1").removed_rows == 2
        assert replace(spark.createDataFrame(hours(3, 3)), table, (at(0), at(10))).removed_rows == 8 + 9


def test_ups_13_rows_that_the_table_has_already_are_no_change(spark: Any, tmp_path: Path) -> None:
    one, other = twins(tmp_path)
    for key, same in ((None, pa.concat_tables([hours(40, 20), hours(3, 2, "b")])), ("v", hours(40, 20))):
        report = upsert(spark.createDataFrame(same).repartition(2), other, key=key)
        check_alike(one, other, one.upsert(same, key=key), report)
        assert (report.rows, report.version) == (0, 5)
    also = hours(10, 5)  # the other site has rows with these keys, which go
    check_alike(one, other, one.upsert(also, key="v"), upsert(spark.createDataFrame(also), other, key="v"))
    half = pa.concat_tables([hours(60, 10), hours(110, 10, v=7)])
    before = {segment.path for segment in other.segments()}
    check_alike(one, other, one.upsert(half), upsert(spark.createDataFrame(half), other))
    assert len(before - {segment.path for segment in other.segments()}) == 1


# -- delete and replace ------------------------------------------------------------------------------------------------


CONDITIONS: list[dict[str, Any]] = [
    {"where": "v BETWEEN 40 AND 60 OR v = 149"},
    {"where": (pc.field("v") > 20) & (pc.field("v") < 25)},
    {"start": at(10), "end": at(60), "entity": {"site": "a"}},
    {"entity": {"site": "b"}},
    {"where": "v = 1000"},
    {"where": "v = 3", "start": at(0)},
]


@pytest.mark.parametrize("number", range(len(CONDITIONS)))
def test_a_deletion_is_that_of_the_table(spark: Any, tmp_path: Path, number: int) -> None:
    one, other = twins(tmp_path)
    before = files_of(other)
    check_alike(one, other, one.delete(**CONDITIONS[number]), delete(spark, other, **CONDITIONS[number]))
    assert len(one.segments()) == len(other.segments())
    kept = {segment.path for segment in other.segments()} & before.keys()
    assert all(files_of(other)[path] == before[path] for path in kept)
    assert [entry.parameters for entry in other.history()][-1] == [entry.parameters for entry in one.history()][-1]


def test_rows_that_certainly_go_are_removed_unread(tmp_path: Path) -> None:
    table = air(tmp_path / "t")
    for segment in table.segments():
        (Path(table.url) / segment.path).write_bytes(b"torn")
    no_session: Any = None
    assert delete(no_session, table, end=at(50), entity={"site": "a"}).removed_rows == 50
    report = delete(no_session, table, "true", operation_id=("job", 1))
    assert (report.removed_rows, report.removed_segments, report.version) == (130, 3, 7)
    assert delete(no_session, str(tmp_path / "t"), "true", operation_id=("job", 1)).already_applied
    with pytest.raises(InvalidOption, match="without a condition"):
        delete(no_session, table)


def test_a_condition_that_is_null_keeps_its_row_and_ns_are_no_matter(spark: Any, tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="n", index_type="int64", bucket=10)
    ns = pa.array([1, None, 3, 2**62 + 1], pa.timestamp("ns"))
    table.append({"n": range(4), "x": [1, None, 3, 4], "ns": ns})
    assert delete(spark, table, "x > 1 AND x < 4").removed_rows == 1
    left = table.scan(order="index").to_arrow()
    assert left.column("n").to_pylist() == [0, 1, 3]
    assert left.column("ns").combine_chunks() == ns.take([0, 1, 3])


def test_a_replacement_is_that_of_the_table(spark: Any, tmp_path: Path) -> None:
    one, other = twins(tmp_path)
    new = hours(20, 60, v=5000)
    span = (at(10), at(80))
    report = replace(spark.createDataFrame(new), other, span, entity={"site": "a"})
    check_alike(one, other, one.replace(span, new, entity={"site": "a"}), report)
    report = replace(spark.createDataFrame(new).where("v < 0"), other, (None, at(5)))
    check_alike(one, other, one.replace((None, at(5)), new.slice(0, 0)), report)
    before = files_of(other).keys()
    for wrong, said in [(hours(8, 5), "T08:00"), (hours(79, 2), "T08:00"), (hours(20, 1, "b"), "b")]:
        with pytest.raises(InvalidValue, match="outside what is to be replaced") as refused:
            replace(spark.createDataFrame(wrong), other, span, entity={"site": "a"})
        assert said in str(refused.value.value)
    assert files_of(other).keys() == before


def test_a_unique_table_takes_no_key_twice_by_replacement(spark: Any, tmp_path: Path) -> None:
    table = air(tmp_path / "t", unique=True)
    with pytest.raises(DuplicateKey, match="unique"):
        replace(spark.createDataFrame(pa.concat_tables([hours(3, 2), hours(4, 1)])), table, (at(0), at(9)))
    assert replace(spark.createDataFrame(hours(3, 2)), table, (at(0), at(9))).removed_rows == 18


# -- exactly once, and beside others -----------------------------------------------------------------------------------


def test_an_operation_that_is_sent_twice_is_done_once(spark: Any, tmp_path: Path) -> None:
    table = air(tmp_path / "t")
    first = upsert(spark.createDataFrame(hours(10, 5, v=9)), str(tmp_path / "t"), operation_id="day 1")

    def fail(_: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        raise AssertionError("computed again")

    frame = spark.createDataFrame(hours(0, 5, v=3))
    never = frame.mapInArrow(fail, frame.schema)
    again = upsert(never, table, operation_id="day 1")
    assert counts(again) == {**counts(first), "already_applied": True}
    stream = Delivery(operation=SequenceId("query", 3))
    assert upsert_frame(frame, table, key=None, delivery=stream).updated_rows == 5
    assert upsert_frame(never, table, key=("v",), delivery=stream).already_applied
    assert replace(never, table, (None, None), operation_id=("query", 2)).already_applied
    assert delete(spark, table, "true", operation_id=("query", 1)).already_applied
    assert table.refresh().version == 7
    assert not frame.is_cached


def after_tasks(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> list[int]:
    """Have `act` happen once, when the executors have written all that takes the place of segments; counts the rounds of tasks."""
    real, rounds = spread_work, [0]

    def overtaken(*given: Any) -> Any:
        answers = real(*given)
        rounds[0] += 1
        if rounds[0] == 1:
            act()
        return answers

    monkeypatch.setattr("gapless.spark.correct.corrections.spread_work", overtaken)
    return rounds


RACES: list[tuple[str, Act, Act, int]] = [
    # (what, by Spark, what comes first, rounds of tasks): another round only where it clashes.
    ("upsert", lambda t: t.upsert(hours(10, 50, v=900)), lambda t: t.append(hours(500, 3)), 1),
    ("upsert", lambda t: t.upsert(hours(10, 50, v=900)), lambda t: t.upsert(hours(55, 9, v=70)), 2),
    ("upsert", lambda t: t.upsert(hours(700, 2, v=900)), lambda t: t.append(hours(701, 3)), 2),
    ("upsert", lambda t: t.upsert(hours(10, 50, v=900)), lambda t: t.compact(), 2),
    ("upsert", lambda t: t.upsert(hours(10, 50, v=1)), lambda t: t.set_properties({"unique": True}), 2),
    ("delete", lambda t: t.delete("v = 12 OR v = 900"), lambda t: t.append(hours(600, 1, v=300)), 2),
    ("delete", lambda t: t.delete("v = 12 OR v = 900"), lambda t: t.add_column("w", "int32", default=1), 2),
    ("replace", lambda t: t.replace((at(10), at(60)), hours(20, 5)), lambda t: t.rename_column("v", "u"), 0),
    ("replace", lambda t: t.replace((at(10), at(60)), hours(20, 5)), lambda t: t.add_column("w", "int32"), 2),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(RACES)))
def test_what_came_first_is_what_a_correction_is_made_to(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    what, act, first, expected_rounds = RACES[number]
    one, other = twins(tmp_path)
    first(one)
    rounds = after_tasks(monkeypatch, lambda: first(gl.open(other.url)))
    if not expected_rounds:
        for table in (one, _BySpark(spark, other)):
            with pytest.raises(SchemaMismatch, match=r"'v'|v: "):
                act(table)  # type: ignore[arg-type]
        check_whole(other.refresh())
        assert rows_of(other) == rows_of(one)
        return
    expected = act(one)
    report = act(_BySpark(spark, other))  # type: ignore[arg-type]
    assert what == expected_operation(other)
    check_alike(one, other, expected, report)
    assert rounds == [expected_rounds]


def expected_operation(table: gl.TimeSeriesTable) -> str:
    return [entry.operation for entry in table.history()][-1]


class _BySpark:
    """A table whose corrections are Spark's."""

    def __init__(self, spark: Any, table: gl.TimeSeriesTable) -> None:
        self.spark, self.table = spark, table

    def upsert(self, data: pa.Table, **given: Any) -> Any:
        return upsert(self.spark.createDataFrame(data), self.table, **given)

    def delete(self, where: str) -> Any:
        return delete(self.spark, self.table, where)

    def replace(self, span: Any, data: pa.Table) -> Any:
        return replace(self.spark.createDataFrame(data), self.table, span)


def test_eo_04_an_operation_that_landed_meanwhile_is_not_applied_again(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = air(tmp_path / "t")

    def rival() -> None:
        # Not of the same rows, so that only the id can tell; and then others, which are not judged again.
        gl.open(table.url).upsert(hours(900, 2), operation_id=("query", 8))
        gl.open(table.url).append(hours(910, 2))

    after_tasks(monkeypatch, rival)
    report = upsert(spark.createDataFrame(hours(40, 20, v=900)), table, operation_id=("query", 8))
    assert (report.already_applied, report.version, report.rows) == (True, 6, 2)
    assert len(rows_of(table)) == 184
    check_whole(table)


def test_a_clash_past_the_deadline_is_an_error_and_leaves_nothing(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = air(tmp_path / "t")
    late = gl.open(table.url)
    late._env = import_module("dataclasses").replace(late._env, deadline_s=0.0)
    after_tasks(monkeypatch, lambda: gl.open(table.url).upsert(hours(45, 1, v=7)))
    with pytest.raises(CommitConflict):
        upsert(spark.createDataFrame(hours(40, 20, v=900)), late)
    assert table.refresh().version == 6
    check_whole(table)


def test_what_landed_stays_whatever_comes_after_the_commit(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log checkpoint is written then; rows that met no segment are live as they were staged."""
    table = air(tmp_path / "t")
    table.set_properties({"checkpoint_interval": 1})
    before, arriving = table.scan().to_arrow().to_pylist(), hours(1_000, 20, v=900)

    def fail(*_: Any) -> None:
        raise RuntimeError("after the commit")

    with monkeypatch.context() as patched:
        patched.setattr("gapless.runtime.committer.write_checkpoint", fail)
        with pytest.raises(RuntimeError, match="after the commit"):
            upsert(spark.createDataFrame(arriving), table, operation_id="x")
    assert table.refresh().verify(deep=True).ok
    assert rows_of(table) == sorted(map(repr, [*before, *arriving.to_pylist()]))
    assert upsert(spark.createDataFrame(arriving), table, operation_id="x").already_applied


class LostOnce(Reviser):
    """Writes, and is lost before it can say so: in its first attempt."""

    def revise(self, task: RevisionTask) -> Revised:
        from pyspark import TaskContext

        found = Reviser.revise(self, task)
        context = TaskContext.get()
        if context is not None and context.attemptNumber() == 0:
            raise OSError("lost after it wrote")
        return found


class Lost(Reviser):
    """Never comes to an end."""

    def revise(self, task: RevisionTask) -> Revised:
        raise OSError("lost")


def test_a_task_that_is_tried_again_leaves_each_row_once(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = twins(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr("gapless.spark.correct.corrections.Reviser", Lost)
        with pytest.raises(Exception, match="lost"):
            upsert(spark.createDataFrame(hours(10, 120, v=900)), other, operation_id="x")
    assert other.refresh().version == 5
    check_whole(other)
    before = files_of(other).keys()
    monkeypatch.setattr("gapless.spark.correct.corrections.Reviser", LostOnce)
    report = upsert(spark.createDataFrame(hours(10, 120, v=900)), other, operation_id="x")
    assert counts(report) == counts(one.upsert(hours(10, 120, v=900), operation_id="x"))
    assert rows_of(other) == rows_of(one)
    assert other.verify(deep=True).ok
    live = {segment.path for segment in other.segments()}
    assert live < files_of(other).keys()
    assert len(files_of(other).keys() - before) > len(live - before), "the lost attempts left no orphans, so none was lost"
