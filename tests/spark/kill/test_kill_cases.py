"""Cases of the field about commits of a batch, with executors played in this process: no Spark runs."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gapless.errors import StoreError
from gapless.model.operation import SequenceId
from gapless.runtime.committer import Committer
from gapless.spark.writing.partition import PartitionEncoder, PartitionOutcome
from gapless.spark.writing.staging import append_outcomes, begin, find_applied_write
from gapless.spark.writing.target import Delivery
from spark.kinds import BOTH_KINDS, TableKind

GIVEN = pa.schema([("n", pa.int64()), ("v", pa.int64())])


@pytest.fixture(autouse=True)
def _pyspark(require: Callable[[object, str], None]) -> None:
    require(find_spec("pyspark"), "pyspark is not installed: pip install 'gapless[spark]'")


@pytest.fixture(params=BOTH_KINDS)
def kind(request: pytest.FixtureRequest) -> TableKind:
    found: TableKind = request.param
    return found


@pytest.fixture
def place(kind: TableKind, tmp_path: Path) -> str:
    kind.create(tmp_path / "t")
    return str(tmp_path / "t")


def wrote(encoding: PartitionEncoder, *rows: int) -> PartitionOutcome:
    """What one executor answers that writes these rows."""
    there: PartitionEncoder = pickle.loads(pickle.dumps(encoding))
    batch = pa.record_batch([pa.array(rows, pa.int64()), pa.array([10 * row for row in rows], pa.int64())], schema=GIVEN)
    outcome: PartitionOutcome = pickle.loads(pickle.dumps(there.outcome([batch])))
    return outcome


def batch(app: str, number: int) -> Delivery:
    return Delivery(on_overlap="allow", operation=SequenceId(app, number))


def in_flight(monkeypatch: pytest.MonkeyPatch, lands: Callable[[], object]) -> None:
    """Have something land right before the next commit is tried."""
    real, left = Committer.commit, [lands]

    def commit(*arguments: object) -> object:
        if left:
            left.pop()()
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Committer, "commit", commit)


def test_eo_03_a_commit_is_known_to_another_run_with_other_parallelism(kind: TableKind, place: str) -> None:
    first = kind.open(place)
    encoding = begin(first, GIVEN)
    append_outcomes(first, batch("app", 0), encoding, [wrote(encoding, 1, 2), wrote(encoding, 3, 4)])
    later = kind.open(place)
    assert find_applied_write(later, batch("app", 0)) is not None
    # A run that did not ask first is told at its commit.
    encoding = begin(later, GIVEN)
    again = append_outcomes(later, batch("app", 0), encoding, [wrote(encoding, row) for row in (1, 2, 3, 4)])
    assert (again.already_applied, again.rows, kind.rows(place)) == (True, 4, [1, 2, 3, 4])
    assert len(kind.stored(place)) == len(kind.live(kind.open(place))), "what was written for nothing is gone"


def test_eo_04_a_request_in_flight_lands_between_check_and_commit(
    kind: TableKind, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first run's commit is on its way while it dies; the second looks, finds nothing, and commits."""
    dying, recovering = kind.open(place), kind.open(place)
    encoding = begin(dying, GIVEN)
    held = [wrote(encoding, 1, 2)]
    assert find_applied_write(recovering, batch("app", 0)) is None
    in_flight(monkeypatch, lambda: append_outcomes(dying, batch("app", 0), encoding, held))
    mine = begin(recovering, GIVEN)
    report = append_outcomes(recovering, batch("app", 0), mine, [wrote(mine, 1, 2)])
    assert (report.already_applied, report.version) == (True, kind.first + 1)
    assert kind.rows(place) == [1, 2]
    assert kind.open(place).verify(deep=True).ok
    assert len(kind.stored(place)) == 1


def test_eo_04_a_later_batch_of_the_same_run_is_added(kind: TableKind, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What lands in between is an earlier batch of the same app: this one is still to be added."""
    handle, other = kind.open(place), kind.open(place)
    encoding = begin(other, GIVEN)
    in_flight(monkeypatch, lambda: append_outcomes(other, batch("app", 0), encoding, [wrote(encoding, 1)]))
    mine = begin(handle, GIVEN)
    report = append_outcomes(handle, batch("app", 1), mine, [wrote(mine, 2)])
    assert (report.already_applied, kind.rows(place)) == (False, [1, 2])


def test_eo_05_two_queries_deliver_their_batch_of_the_same_number(kind: TableKind, place: str) -> None:
    table = kind.open(place)
    first = begin(table, GIVEN)
    append_outcomes(table, batch("one", 7), first, [wrote(first, 1)])
    # It dies here; the recovery brings both, and the second is not taken for the first.
    for app, row, known in (("one", 1, True), ("two", 2, False), ("two", 2, True)):
        handle = kind.open(place)
        encoding = begin(handle, GIVEN)
        report = append_outcomes(handle, batch(app, 7), encoding, [wrote(encoding, row)])
        assert (app, report.already_applied) == (app, known)
    assert kind.rows(place) == [1, 2]


@pytest.mark.parametrize("path", ["the writers", "the committer"])
def test_eo_06_four_writers_are_one_commit_whichever_recovers(
    kind: TableKind, place: str, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    parts = [range(start, start + 5) for start in (0, 5, 10, 15)]
    table = kind.open(place)
    encoding = begin(table, GIVEN)
    outcomes = [wrote(encoding, *part) for part in (parts if path == "the committer" else parts[:2])]

    def dies(*_: object) -> object:
        raise StoreError("the driver dies")

    with monkeypatch.context() as patched:
        patched.setattr(Committer, "commit", dies)
        if path == "the committer":
            with pytest.raises(StoreError, match="dies"):
                append_outcomes(table, batch("app", 0), encoding, outcomes)
    assert kind.rows(place) == [], "half a batch is never seen"
    for known in (False, True):
        handle = kind.open(place)
        again = begin(handle, GIVEN)
        report = append_outcomes(handle, batch("app", 0), again, [wrote(again, *part) for part in parts])
        assert (report.already_applied, report.rows, report.version) == (known, 20, kind.first + 1)
    assert kind.rows(place) == list(range(20))


def test_ss_08_files_that_no_commit_names_are_seen_by_no_reader(kind: TableKind, place: str) -> None:
    table = kind.open(place)
    encoding = begin(table, GIVEN)
    append_outcomes(table, batch("app", 0), encoding, [wrote(encoding, 1, 2)])
    wrote(begin(table, GIVEN), 3, 4)
    assert sum(pq.ParquetFile(Path(place, path)).metadata.num_rows for path in kind.stored(place)) == 4, (
        "a reader of the folder sees them"
    )
    assert kind.rows(place) == [1, 2]
    assert kind.open(place).sql("SELECT count(*) AS n FROM t").to_arrow().to_pylist() == [{"n": 2}]
    assert table.verify(deep=True).ok
    assert len(kind.stored(place) - kind.live(kind.open(place))) == 1, "an orphan, for vacuum to take"
