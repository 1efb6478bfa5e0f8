"""Cases of the field about commits of a batch, with executors played in this process: no Spark runs."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gapless as gl
from gapless.errors import StoreError
from gapless.model.operation import SequenceId
from gapless.runtime.committer import Committer
from gapless.spark.writing.encode import Encoding, Outcome
from gapless.spark.writing.staging import Delivery, append_outcomes, begin, find_applied_write
from gapless.tables.timeseries.table import TimeSeriesTable

GIVEN = pa.schema([("n", pa.int64()), ("v", pa.int64())])


@pytest.fixture(autouse=True)
def _pyspark(require: Callable[[object, str], None]) -> None:
    require(find_spec("pyspark"), "pyspark is not installed: pip install 'gapless[spark]'")


@pytest.fixture
def place(tmp_path: Path) -> str:
    gl.create(tmp_path / "t", index="n", index_type="int64", bucket=10)
    return str(tmp_path / "t")


def wrote(encoding: Encoding, *rows: int) -> Outcome:
    """What one executor answers that writes these rows."""
    there: Encoding = pickle.loads(pickle.dumps(encoding))
    batch = pa.record_batch([pa.array(rows, pa.int64()), pa.array([10 * row for row in rows], pa.int64())], schema=GIVEN)
    outcome: Outcome = pickle.loads(pickle.dumps(there.outcome([batch])))
    return outcome


def batch(app: str, number: int) -> Delivery:
    return Delivery(on_overlap="allow", operation=SequenceId(app, number))


def rows_of(place: str) -> list[int]:
    return sorted(row["n"] for row in gl.open(place).scan().to_arrow().to_pylist()) if gl.open(place).schema is not None else []


def files_of(place: str) -> list[Path]:
    return sorted(Path(place, "data").glob("*.parquet"))


def in_flight(monkeypatch: pytest.MonkeyPatch, lands: Callable[[], object]) -> None:
    """Have something land right before the next commit is tried."""
    real, left = Committer.commit, [lands]

    def commit(*arguments: object) -> object:
        if left:
            left.pop()()
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Committer, "commit", commit)


def test_eo_03_a_commit_is_known_to_another_run_with_other_parallelism(place: str) -> None:
    first = gl.open(place)
    encoding = begin(first, GIVEN)
    append_outcomes(first, batch("app", 0), encoding, [wrote(encoding, 1, 2), wrote(encoding, 3, 4)])
    later = gl.open(place)
    assert find_applied_write(later, batch("app", 0)) is not None
    # A run that did not ask first is told at its commit.
    encoding = begin(later, GIVEN)
    again = append_outcomes(later, batch("app", 0), encoding, [wrote(encoding, row) for row in (1, 2, 3, 4)])
    assert (again.already_applied, again.rows, rows_of(place)) == (True, 4, [1, 2, 3, 4])
    assert len(files_of(place)) == len(gl.open(place).segments()), "what was written for nothing is gone"


def test_eo_04_a_request_in_flight_lands_between_check_and_commit(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first run's commit is on its way while it dies; the second looks, finds nothing, and commits."""
    dying, recovering = gl.open(place), gl.open(place)
    encoding = begin(dying, GIVEN)
    held = [wrote(encoding, 1, 2)]
    assert find_applied_write(recovering, batch("app", 0)) is None
    in_flight(monkeypatch, lambda: append_outcomes(dying, batch("app", 0), encoding, held))
    mine = begin(recovering, GIVEN)
    report = append_outcomes(recovering, batch("app", 0), mine, [wrote(mine, 1, 2)])
    assert (report.already_applied, report.version) == (True, 2)
    assert rows_of(place) == [1, 2]
    assert gl.open(place).verify(deep=True).ok
    assert len(files_of(place)) == 1


def test_eo_04_a_later_batch_of_the_same_run_is_added(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What lands in between is an earlier batch of the same app: this one is still to be added."""
    handle, other = gl.open(place), gl.open(place)
    encoding = begin(other, GIVEN)
    in_flight(monkeypatch, lambda: append_outcomes(other, batch("app", 0), encoding, [wrote(encoding, 1)]))
    mine = begin(handle, GIVEN)
    report = append_outcomes(handle, batch("app", 1), mine, [wrote(mine, 2)])
    assert (report.already_applied, rows_of(place)) == (False, [1, 2])


def test_eo_05_two_queries_deliver_their_batch_of_the_same_number(place: str) -> None:
    table = gl.open(place)
    first = begin(table, GIVEN)
    append_outcomes(table, batch("one", 7), first, [wrote(first, 1)])
    # It dies here; the recovery brings both, and the second is not taken for the first.
    for app, row, known in (("one", 1, True), ("two", 2, False), ("two", 2, True)):
        handle = gl.open(place)
        encoding = begin(handle, GIVEN)
        report = append_outcomes(handle, batch(app, 7), encoding, [wrote(encoding, row)])
        assert (app, report.already_applied) == (app, known)
    assert rows_of(place) == [1, 2]


@pytest.mark.parametrize("path", ["the writers", "the committer"])
def test_eo_06_four_writers_are_one_commit_whichever_recovers(place: str, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    parts = [range(start, start + 5) for start in (0, 5, 10, 15)]
    table = gl.open(place)
    encoding = begin(table, GIVEN)
    outcomes = [wrote(encoding, *part) for part in (parts if path == "the committer" else parts[:2])]

    def dies(*_: object) -> object:
        raise StoreError("the driver dies")

    with monkeypatch.context() as patched:
        patched.setattr(Committer, "commit", dies)
        if path == "the committer":
            with pytest.raises(StoreError, match="dies"):
                append_outcomes(table, batch("app", 0), encoding, outcomes)
    assert rows_of(place) == [], "half a batch is never seen"
    for known in (False, True):
        handle = gl.open(place)
        again = begin(handle, GIVEN)
        report = append_outcomes(handle, batch("app", 0), again, [wrote(again, *part) for part in parts])
        assert (report.already_applied, report.rows, report.version) == (known, 20, 2)
    assert rows_of(place) == list(range(20))


def test_ss_08_files_that_no_commit_names_are_seen_by_no_reader(place: str) -> None:
    table: TimeSeriesTable = gl.open(place)
    encoding = begin(table, GIVEN)
    append_outcomes(table, batch("app", 0), encoding, [wrote(encoding, 1, 2)])
    wrote(begin(table, GIVEN), 3, 4)
    assert sum(pq.ParquetFile(path).metadata.num_rows for path in files_of(place)) == 4, "a reader of the folder sees them"
    assert rows_of(place) == [1, 2]
    assert gl.open(place).sql("SELECT count(*) AS n FROM t").to_arrow().to_pylist() == [{"n": 2}]
    assert [note.code for note in table.verify(deep=True).notes] == ["orphan"]
