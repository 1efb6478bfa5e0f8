"""What the simulator found, each told again as a story of one test."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import count

import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import StorageFull
from gapless.tables.timeseries.write.group import SMALL_ROWS
from gapless.testing.simulation.process import append_at_once
from support.faulty_store import is_commit, once, open_faulty

_NAMES = (f"memory://simulated-finding-{number}" for number in count())


@pytest.fixture
def location() -> str:
    place = next(_NAMES)
    table = gl.create(place, index="t", index_type="int64", bucket=10, entity="who")
    table.append(row(900))
    return place


def row(at: int) -> dict[str, list[object]]:
    return {"t": [at], "who": ["a"]}


def full(path: str) -> None:
    raise StorageFull(f"no space for {path}", path=path)


def test_an_operation_behind_the_commit_that_clashed_is_recognised(location: str) -> None:
    """A twin lands the same operation behind a commit whose buckets make ours filter its rows again."""
    table, store = open_faulty(location)

    def others() -> None:
        rival = gl.open(location)
        rival.append(row(5))
        rival.append(row(25), operation_id="job")

    store.before_put = once(others, is_commit)
    report = table.append({"t": [5, 25], "who": ["a", "a"]}, on_overlap="skip", operation_id="job")
    assert (report.already_applied, report.version) == (True, 4)
    assert gl.open(location).version == 4


def test_an_append_is_not_refused_for_its_own_rows_that_a_twin_landed_meanwhile(location: str) -> None:
    """Its version covers the bucket by rows that are gone from the newest one, which covers it by the operation's own."""
    table, rows = gl.open(location), SMALL_ROWS + 1
    table.append(row(5))
    batch = pa.record_batch({"t": [5] * rows, "who": ["a"] * rows})

    def others() -> Iterator[pa.RecordBatch]:
        yield batch
        rival = gl.open(location)
        rival.delete(start=0, end=10)
        rival.append(batch, operation_id="job")

    report = table.append(pa.RecordBatchReader.from_batches(batch.schema, others()), operation_id="job")
    assert (report.already_applied, report.version, report.rows) == (True, 5, rows)
    assert gl.open(location).count() == rows + 1


def test_a_member_is_not_refused_for_the_rows_of_a_member_that_did_not_land(location: str) -> None:
    table, store = open_faulty(location)
    fails = once(lambda: full("the shared commit"), is_commit)
    store.before_put = fails
    calls = [partial(table.append, row(at)) for at in (5, 15, 5)]
    first, second, third = append_at_once(table, calls)
    assert isinstance(first, StorageFull)
    assert isinstance(second, StorageFull)
    assert isinstance(third, gl.AppendReport)
    assert third.rows == 1
    assert sorted(gl.open(location).scan().to_arrow().column("t").to_pylist()) == [5, 900]


def test_an_error_of_one_shared_commit_does_not_reach_members_that_landed_before(location: str) -> None:
    table, store = open_faulty(location)
    puts = count()
    store.before_put = lambda path: full(path) if is_commit(path) and next(puts) == 1 else None
    calls = [partial(table.append, row(at), on_overlap=policy) for at, policy in ((5, "reject"), (15, "reject"), (25, "skip"), (35, "skip"))]  # type: ignore[arg-type]  # mypy widens the texts  # fmt: skip
    results = append_at_once(table, calls)
    assert [type(result).__name__ for result in results] == ["AppendReport", "AppendReport", "StorageFull", "StorageFull"]
    assert sorted(gl.open(location).scan().to_arrow().column("t").to_pylist()) == [5, 15, 900]


def test_an_append_that_was_applied_already_takes_no_part_in_a_shared_turn(location: str) -> None:
    table = gl.open(location)
    table.append(row(5), operation_id="job")
    calls = [partial(table.append, row(5), operation_id="job"), partial(table.append, row(15))]
    known, fresh = append_at_once(table, calls)
    assert (known.already_applied, known.version) == (True, 3)  # type: ignore[union-attr]
    assert (fresh.already_applied, fresh.version) == (False, 4)  # type: ignore[union-attr]
    (alone,) = append_at_once(table, calls[:1])
    assert alone.already_applied  # type: ignore[union-attr]
