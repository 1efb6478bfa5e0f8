"""Changes of Delta tables by executors are those of one machine: rows, reports, the change feed, operations; one commit."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import DuplicateKey, InvalidOption, InvalidValue, NotSupported, UnknownColumn
from gapless.spark.correct import delta_changes
from gapless.spark.setup.executors import spread_work
from spark.kinds import Delta

# pyspark leaves sockets of collected answers to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*unclosed.*:ResourceWarning", "ignore:.*socket:pytest.PytestUnraisableExceptionWarning"
)

FEATURES: dict[str, dict[str, Any]] = {
    "plain": {},
    "vectors and feed": {"delta.enableDeletionVectors": True, "delta.enableChangeDataFeed": True},
    "feed by name": {"delta.enableChangeDataFeed": True, "delta.columnMapping.mode": "name"},
}


@pytest.fixture(scope="module", autouse=True)
def _shipped(spark: Any) -> None:
    """Workers cannot import this module: what it defines goes to them by value."""
    import_module("pyspark.cloudpickle").register_pickle_by_value(sys.modules[__name__])


def made(place: Path, **properties: Any) -> Any:
    """Six files in two partitions."""
    schema = pa.schema([("p", pa.string()), ("n", pa.int64()), ("v", pa.float64())])
    table = gl.delta.create(place, schema, partition_by="p", properties=properties)
    for start in (0, 100, 200):
        numbers = list(range(start, start + 100))
        table.append({"p": ["ab"[n % 2] for n in numbers], "n": numbers, "v": [n / 2 for n in numbers]})
    return table


def rows_of(table: Any) -> list[dict[str, Any]]:
    return sorted(table.refresh().scan().to_arrow().to_pylist(), key=repr)


def told(table: Any, first: int) -> list[Any]:
    rows = table.refresh().changes(first).to_arrow().to_pylist()
    return sorted(((row["_change_type"], row["p"], row["n"], row["v"]) for row in rows), key=repr)


def stored(table: Any) -> set[str]:
    return {path for path in Delta().objects(table.url) if path.endswith(".parquet")}


def counted(report: Any) -> tuple[int, ...]:
    return report.rows, report.removed_rows, report.updated_rows


def source(spark: Any) -> Any:
    """Rows of which some are there, with other values, and some are new."""
    return spark.sql("select 'ab' as ignored, id from range(0, 1, 1, 1)").selectExpr(
        "explode(array_union(sequence(90L, 110L), sequence(1000L, 1020L))) as n"
    ).selectExpr("if(n % 2 = 0, 'a', 'b') as p", "n", "-1.0D as v")  # fmt: skip


@pytest.mark.parametrize("features", FEATURES)
def test_each_change_is_that_of_the_table_itself(spark: Any, tmp_path: Path, features: str) -> None:
    one, other = (made(tmp_path / name, **FEATURES[features]) for name in ("one", "other"))
    frame = source(spark)
    changes: tuple[tuple[Callable[[], Any], Callable[[], Any]], ...] = (
        (lambda: gl.spark.delete(spark, one, "n % 10 = 3 OR p = 'b' AND n < 100"), lambda: other.delete("n % 10 = 3 OR p = 'b' AND n < 100")),
        (
            lambda: gl.spark.upsert(frame, one, key="n"),
            lambda: other.merge(frame.toArrow(), "t.n = s.n").when_matched_update_all().when_not_matched_insert_all().execute(),
        ),
        (
            lambda: gl.spark.merge(frame, one, "t.n = s.n AND t.p = s.p")
            .when_matched_delete(where="t.n > 1010")
            .when_matched_update({"v": "t.v - s.n"}, where="t.n > 1000")
            .when_not_matched_by_source_update({"v": 0}, where="t.n < 5")
            .when_not_matched_insert_all()
            .execute(),
            lambda: other.merge(frame.toArrow(), "t.n = s.n AND t.p = s.p")
            .when_matched_delete(where="t.n > 1010")
            .when_matched_update({"v": "t.v - s.n"}, where="t.n > 1000")
            .when_not_matched_by_source_update({"v": 0}, where="t.n < 5")
            .when_not_matched_insert_all()
            .execute(),
        ),
        (lambda: gl.spark.delete(spark, one, "p = 'a'"), lambda: other.delete("p = 'a'")),
    )  # fmt: skip
    for ours, theirs in changes:
        before = one.refresh().version
        mine, expected = ours(), theirs()
        assert counted(mine) == counted(expected)
        assert rows_of(one) == rows_of(other)
        assert one.version == before + 1, "one commit"
        if "delta.enableChangeDataFeed" in FEATURES[features]:
            assert told(one, one.version) == told(other, other.version)
    compacted = gl.spark.compact(spark, one)
    assert (compacted.given_up, compacted.bins, compacted.segments_after) == ((), 1, 1)
    assert rows_of(one) == rows_of(other)
    assert gl.spark.compact(spark, one).bins == 0
    assert one.verify(deep=True).ok


def test_sent_again_nothing_is_computed_and_what_is_refused_leaves_nothing(spark: Any, tmp_path: Path) -> None:
    table = made(tmp_path / "t", **{"delta.constraints.small": "v < 1000"})
    frame = source(spark)
    first = gl.spark.upsert(frame, table, key=["p", "n"], operation_id="job")

    def fail(_: Any) -> Any:
        raise AssertionError("computed again")

    again = gl.spark.upsert(frame.mapInArrow(fail, frame.schema), table, key=["p", "n"], operation_id="job")
    assert (again.already_applied, again.updated_rows, first.updated_rows) == (True, 21, 21)
    assert gl.spark.delete(spark, table, "n = 5", operation_id=("app", 3)).removed_rows == 1
    assert gl.spark.delete(spark, table, "n = 6", operation_id=("app", 3)).already_applied
    version, before = table.refresh().version, stored(table)
    for error, call in (
        (DuplicateKey, lambda: gl.spark.upsert(frame.union(frame), table, key="n")),
        (InvalidOption, lambda: gl.spark.upsert(frame, table)),
        (UnknownColumn, lambda: gl.spark.upsert(frame, table, key="m")),
        (InvalidValue, lambda: gl.spark.upsert(frame.selectExpr("p", "n", "5000D as v"), table, key="n")),
        (InvalidOption, lambda: gl.spark.delete(spark, table)),
        (
            NotSupported,
            lambda: gl.spark.merge(frame, gl.create(tmp_path / "s", index="n", index_type="int64", bucket=1), "true"),
        ),
    ):
        with pytest.raises(error):
            call()
    assert (table.refresh().version, stored(table)) == (version, before)


def test_a_change_that_lost_to_another_is_made_again(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path / "t")
    real, left = spread_work, [lambda: gl.delta.open(table.url).update({"v": -5}, where="n = 50")]

    def overtaken(*arguments: Any) -> Any:
        found = real(*arguments)
        if left:
            left.pop()()
        return found

    monkeypatch.setattr("gapless.spark.correct.delta_changes.spread_work", overtaken)
    assert gl.spark.delete(spark, table, "n < 50 OR v = -5").removed_rows == 51
    assert min(row["n"] for row in rows_of(table)) == 51
    assert table.verify(deep=True).ok
    assert len(stored(table)) >= len(Delta().live(table))


class KilledOnce(delta_changes.FileChanger):
    """Its process is killed once it has written, the first time."""

    def changed(self, files: Any) -> Any:
        """See `FileChanger.changed`."""
        found = delta_changes.FileChanger.changed(self, files)
        mark = Path(self.store.url, "killed")
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return found


def test_a_task_that_is_killed_leaves_each_row_once(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, twin = made(tmp_path / "t"), made(tmp_path / "twin")
    monkeypatch.setattr(delta_changes, "FileChanger", KilledOnce)
    report = gl.spark.delete(spark, table, "n % 3 = 0")
    assert (tmp_path / "t" / "killed").exists()
    assert counted(report) == counted(twin.delete("n % 3 = 0"))
    assert rows_of(table) == rows_of(twin)
    assert stored(table) > Delta().live(table), "the killed task left files, which no reader sees"
