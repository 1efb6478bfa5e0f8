"""Batches of Spark into Iceberg and Hudi tables: each once, whatever is sent again, and read back by readers that are not ours."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gapless.errors import DuplicateKey, InvalidOption, SchemaMismatch, TableNotFound
from gapless.spark import batch_writer
from gapless.tables.hudi import lock
from gapless.tables.iceberg.place import DirectoryPlace
from gapless.testing.store.stores import Killed
from support import hudi_targets, iceberg_tables

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*unclosed.*:ResourceWarning", "ignore:.*socket:pytest.PytestUnraisableExceptionWarning"
)
COLUMNS = "n bigint, day date, v double"
START = datetime(2026, 1, 5, tzinfo=UTC)
Row = tuple[int, int, float]


@dataclass(frozen=True)
class SinkKind:
    """One kind of table, and a reader of it that is not ours."""

    name: str
    create: dict[str, Any]
    read: Callable[[Path], list[dict[str, Any]]]

    def url(self, place: Path) -> str:
        return f"{self.name}:{place}"

    def rows(self, place: Path) -> list[Row]:
        return sorted((row["n"], (row["day"] - START.date()).days, row["v"]) for row in self.read(place))


ICEBERG = SinkKind("iceberg", {"partition_by": ["day(day)"]}, iceberg_tables.copied_rows)
HUDI = SinkKind("hudi", {"record_key": "n", "partition_by": "day"}, hudi_targets.rows)
BOTH = pytest.mark.parametrize("kind", [pytest.param(ICEBERG, id="iceberg"), pytest.param(HUDI, id="hudi")])


def frame_of(spark: Any, rows: list[Row]) -> Any:
    given = [(n, (START + timedelta(days=day)).date(), v) for n, day, v in rows]
    return spark.createDataFrame(given, COLUMNS)


def writer_of(kind: SinkKind, place: Path, mode: Any = "append", **options: Any) -> Any:
    asked = {"create": kind.create, **({"key": "n"} if mode == "update" else {}), **options}
    return batch_writer(kind.url(place), mode, app_id="job", **asked)


@BOTH
def test_batches_are_appended_once_and_read_back_by_others(spark: Any, tmp_path: Path, kind: SinkKind) -> None:
    place, first, second = tmp_path / "t", [(1, 0, 0.5), (2, 1, 1.5)], [(3, 0, 2.5)]
    writer = pickle.loads(pickle.dumps(writer_of(kind, place)))
    report = writer.write(frame_of(spark, first), 0)
    assert (report.rows, report.already_applied) == (2, False)
    assert kind.rows(place) == first
    again = writer_of(kind, place).write(frame_of(spark, first), 0)
    assert (again.rows, again.already_applied, again.version) == (2, True, report.version)
    assert writer.write(frame_of(spark, second), 1).rows == 1
    assert writer_of(kind, place).write(frame_of(spark, second), 1).already_applied
    assert kind.rows(place) == sorted(first + second)
    empty = writer.write(frame_of(spark, []), 2)
    assert (empty.rows, empty.already_applied) == (0, False)
    assert writer_of(kind, place).write(frame_of(spark, second), 2).already_applied, "an empty batch is recorded"
    assert kind.rows(place) == sorted(first + second)


@BOTH
def test_complete_batches_take_the_place_of_all_rows_and_updates_that_of_their_keys(
    spark: Any, tmp_path: Path, kind: SinkKind
) -> None:
    place = tmp_path / "t"
    writer_of(kind, place).write(frame_of(spark, [(1, 0, 0.0), (2, 1, 0.0)]), 0)
    updated = writer_of(kind, place, "update").write(frame_of(spark, [(2, 1, 5.0), (3, 2, 6.0)]), 1)
    assert (updated.rows, updated.updated_rows) == (2, 1)
    assert kind.rows(place) == [(1, 0, 0.0), (2, 1, 5.0), (3, 2, 6.0)]
    assert writer_of(kind, place, "update").write(frame_of(spark, [(2, 1, 9.0)]), 1).already_applied
    whole = writer_of(kind, place, "complete")
    assert whole.write(frame_of(spark, [(7, 3, 7.0)]), 2).rows == 1
    assert kind.rows(place) == [(7, 3, 7.0)]
    whole.write(frame_of(spark, []), 3)
    assert kind.rows(place) == []


def before_each_commit(kind: SinkKind, patched: pytest.MonkeyPatch, comes: Callable[[], object]) -> None:
    """The next time a batch is about to be committed, and has found that the table lacks it, something comes first, once."""
    left = [comes]
    home, name = (DirectoryPlace, "commit") if kind is ICEBERG else (lock, "_acquired")
    real = getattr(home, name)

    def commit(*given: Any) -> Any:
        while left:
            left.pop()()
        return real(*given)

    patched.setattr(home, name, commit)


@BOTH
def test_eo_04_and_05_and_06_a_batch_is_one_commit_whoever_else_is_committing(
    spark: Any, tmp_path: Path, kind: SinkKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "t"
    rows = [(number, number % 2, 0.5) for number in range(20)]
    frame, other = frame_of(spark, rows).repartition(4), frame_of(spark, [(90, 0, 9.0)])

    def dies() -> None:
        raise Killed

    with monkeypatch.context() as patched:
        before_each_commit(kind, patched, dies)
        with pytest.raises(Killed):
            writer_of(kind, place).write(frame, 0)
    assert kind.rows(place) == [], "half a batch is never seen"
    with monkeypatch.context() as patched:
        # The request of a run that died lands once the recovering one has looked.
        before_each_commit(kind, patched, lambda: writer_of(kind, place).write(frame, 0))
        late = writer_of(kind, place).write(frame, 0)
    assert (late.already_applied, kind.rows(place)) == (True, rows)
    with monkeypatch.context() as patched:
        # What lands in between is the batch of the same number of another query, which is not taken for this one.
        before_each_commit(kind, patched, lambda: batch_writer(kind.url(place), app_id="other").write(other, 1))
        added = writer_of(kind, place).write(frame_of(spark, [(91, 1, 9.5)]), 1)
    assert (added.already_applied, kind.rows(place)) == (False, [*rows, (90, 0, 9.0), (91, 1, 9.5)])
    assert batch_writer(kind.url(place), app_id="other").write(other, 1).already_applied


@BOTH
def test_rows_that_share_a_key_are_refused_unless_one_is_newer(spark: Any, tmp_path: Path, kind: SinkKind) -> None:
    place = tmp_path / "t"
    same = [(1, 0, 1.0), (1, 0, 2.0)]
    with pytest.raises(DuplicateKey, match="share a key"):
        writer_of(kind, place, "update").write(frame_of(spark, same), 0)
    writer_of(kind, place, "update", order_by="v").write(frame_of(spark, same), 0)
    assert kind.rows(place) == [(1, 0, 2.0)]


@BOTH
def test_what_a_row_lacks_is_said_and_nothing_is_left(spark: Any, tmp_path: Path, kind: SinkKind) -> None:
    place = tmp_path / "t"
    writer_of(kind, place).write(frame_of(spark, [(1, 0, 0.0)]), 0)
    before = set(place.rglob("*.parquet"))
    bad = spark.createDataFrame([("x", START.date(), 1.0)], "n string, day date, v double")
    with pytest.raises(SchemaMismatch):
        writer_of(kind, place).write(bad, 1)
    large = spark.range(1).selectExpr("1L AS n", "date'2026-01-05' AS day", "1.0D AS v", "'more' AS w")
    with pytest.raises(SchemaMismatch, match="w"):
        writer_of(kind, place).write(large, 1)
    writer_of(kind, place, schema_evolution="add").write(large, 1)
    assert kind.rows(place) == [(1, 0, 0.0), (1, 0, 1.0)]
    assert {row.get("w") for row in kind.read(place)} == {None, "more"}
    assert len(set(place.rglob("*.parquet")) - before) <= 2
    assert not list(place.rglob("rows-*.parquet"))


@BOTH
def test_options_are_those_of_a_sink_and_others_are_refused_by_name(tmp_path: Path, kind: SinkKind) -> None:
    url = kind.url(tmp_path / "t")
    for options, name in (
        ({"partition_byy": "day"}, "partition_by"),
        ({"on_empty": "keep"}, "complete mode"),
        ({"spill_seconds": 1}, "committed as soon"),
        ({"spill_bytes": 0}, "counts bytes"),
        ({"index": "n", "bucket": 1}, "index"),
        ({"on_overlap": "skip"}, "on_overlap"),
        ({"create": {"recordkey": "n"}}, "create"),
    ):
        with pytest.raises(InvalidOption, match=name):
            batch_writer(url, **options)
    with pytest.raises(InvalidOption, match="schema_evolution"):
        batch_writer(str(tmp_path / "t"), schema_evolution="add")


@BOTH
def test_a_missing_table_is_made_only_where_it_is_said_how(spark: Any, tmp_path: Path, kind: SinkKind) -> None:
    with pytest.raises(TableNotFound, match="create="):
        batch_writer(kind.url(tmp_path / "none"), app_id="job").write(frame_of(spark, [(1, 0, 0.0)]), 0)
