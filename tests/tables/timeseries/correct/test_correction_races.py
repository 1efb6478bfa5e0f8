"""Corrections whose commit comes second: what came first is what they are made to, and nothing is lost or brought back."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import CommitConflict, CommitOutcomeUnknown, DuplicateKey, SchemaMismatch
from support.faulty_store import FaultyStore, is_commit, objects, once, open_faulty, unavailable

T0 = datetime(2024, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("sym", pa.string()), ("x", pa.float64())])
_counter = itertools.count()
Act = Callable[[gl.TimeSeriesTable], Any]


def hours(*which: float, sym: str = "A", x: float = 0.0) -> pa.Table:
    times = [T0 + timedelta(hours=h) for h in which]
    return pa.table({"ts": times, "sym": [sym] * len(times), "x": [x] * len(times)}, schema=SCHEMA)


def at(hour: float) -> datetime:
    return T0 + timedelta(hours=hour)


@pytest.fixture
def place() -> str:
    """Hours 1 to 3 of A in one segment and hour 9 in another, at version 3."""
    place = f"memory://correction-races-{next(_counter)}"
    table = gl.create(place, index="ts", entity=["sym"], bucket="1h", schema=SCHEMA)
    table.append(hours(1, 2, 3))
    table.append(hours(9))
    return place


def told(place: str) -> list[tuple[float, float]]:
    rows = gl.open(place).scan(order="index").to_arrow().to_pylist()
    return [((row["ts"] - T0) / timedelta(hours=1), row["x"]) for row in rows]


def check_whole(place: str) -> None:
    """Files of lost attempts are gone, and the table is sound."""
    table = gl.open(place)
    named = {path for entry in table.verify(deep=True).findings for path in [entry.path]}
    assert not named, table.verify(deep=True).findings
    rows = table.scan().to_arrow().to_pylist()
    buckets = {row["ts"].replace(minute=0, second=0, microsecond=0) for row in rows}
    assert {bucket.start for bucket in table.coverage().buckets()} == buckets


def tolerant(act: Act) -> Act:
    """The act, for which a refusal is an answer too."""

    def run(table: gl.TimeSeriesTable) -> None:
        with contextlib.suppress(gl.CoverageOverlap):
            act(table)

    return run


def second(place: str, act: Act, first: Act) -> tuple[Any, FaultyStore]:
    """`act`, just before whose commit another handle does `first`."""
    table, store = open_faulty(place)
    store.before_put = once(lambda: first(gl.open(place)), is_commit)
    return act(table), store


UPSERT_2: Act = lambda t: t.upsert(hours(2, x=5.0))  # noqa: E731
RACES: list[tuple[Act, Act, list[tuple[float, float]]]] = [
    # Into a bucket that nobody covered when the upsert was decided: both rows lie in one segment in the end.
    (lambda t: t.upsert(hours(5, x=5.0)), lambda t: t.append(hours(5.5)), [(1, 0), (2, 0), (3, 0), (5, 5), (5.5, 0), (9, 0)]),
    (lambda t: t.upsert(hours(5, x=5.0)), lambda t: t.append(hours(5)), [(1, 0), (2, 0), (3, 0), (5, 5), (9, 0)]),
    (UPSERT_2, lambda t: t.upsert(hours(2, 3, x=4.0)), [(1, 0), (2, 5), (3, 4), (9, 0)]),
    (UPSERT_2, lambda t: t.delete("true"), [(2, 5)]),
    (UPSERT_2, lambda t: t.delete(start=at(2), end=at(3)), [(1, 0), (2, 5), (3, 0), (9, 0)]),
    (UPSERT_2, lambda t: t.append(hours(20)), [(1, 0), (2, 5), (3, 0), (9, 0), (20, 0)]),
    (lambda t: t.delete("x = 0 AND sym = 'A'", end=at(9)), lambda t: t.add_column("y", pa.int64(), default=7), [(9, 0)]),
    (UPSERT_2, lambda t: t.set_properties({"codec": "snappy"}), [(1, 0), (2, 5), (3, 0), (9, 0)]),
    # By another key, which rows that came first have too.
    (lambda t: t.upsert(hours(7, x=0.0), key="x"), lambda t: t.append(hours(30)), [(7, 0)]),
    (lambda t: t.delete("x = 0"), lambda t: t.append(hours(30)), []),
    (lambda t: t.delete("x = 0"), lambda t: t.append(hours(30, x=1.0)), [(30, 1)]),
    (lambda t: t.delete("x = 0"), lambda t: t.upsert(hours(9, x=1.0)), [(9, 1)]),
    (lambda t: t.delete(start=at(2)), lambda t: t.append(hours(0.5, 30)), [(0.5, 0), (1, 0)]),
    (lambda t: t.drop_before(at(9)), lambda t: t.append(hours(4, 10)), [(9, 0), (10, 0)]),
    (lambda t: t.replace((at(2), at(6)), hours(2, x=5.0)), lambda t: t.append(hours(4, 7)), [(1, 0), (2, 5), (7, 0), (9, 0)]),
    (
        lambda t: t.replace((at(4), at(6)), hours(4.5, x=5.0)),
        lambda t: t.append(hours(6)),
        [(1, 0), (2, 0), (3, 0), (4.5, 5), (6, 0), (9, 0)],
    ),
    (
        lambda t: t.append(hours(3, 5, x=5.0), on_overlap="replace"),
        lambda t: t.append(hours(5, 5.5, 6)),
        [(1, 0), (2, 0), (3, 5), (5, 5), (6, 0), (9, 0)],
    ),
    (lambda t: t.append(hours(3, x=5.0), on_overlap="replace"), UPSERT_2, [(1, 0), (2, 5), (3, 5), (9, 0)]),
    # Beside rows that ours only carries over: it stands, and the log says that both lie there.
    (UPSERT_2, lambda t: t.append(hours(3.5), on_overlap="allow"), [(1, 0), (2, 5), (3, 0), (3.5, 0), (9, 0)]),
    (lambda t: t.delete(end=at(2)), lambda t: t.append(hours(3.5), on_overlap="allow"), [(2, 0), (3, 0), (3.5, 0), (9, 0)]),
    (UPSERT_2, lambda t: t.compact(), [(1, 0), (2, 5), (3, 0), (9, 0)]),
    (lambda t: t.delete("x = 0 AND ts < TIMESTAMPTZ '2024-01-01T02:00Z'"), lambda t: t.compact(), [(2, 0), (3, 0), (9, 0)]),
]


@pytest.mark.parametrize("number", range(len(RACES)))
def test_what_came_first_is_what_a_correction_is_made_to(place: str, number: int) -> None:
    act, first, rows = RACES[number]
    _, store = second(place, act, first)
    assert told(place) == rows
    assert gl.open(place).version == 5
    check_whole(place)
    live = {segment.path for segment in gl.open(place).segments()}
    assert live.isdisjoint(store.deleted)


@pytest.mark.parametrize("number", range(len(RACES)))
def test_in_the_other_order_the_last_word_is_the_others(place: str, number: int) -> None:
    """The same pair with the roles exchanged ends as if done one after the other."""
    first, act = map(tolerant, RACES[number][:2])
    second(place, act, first)
    raced = told(place)
    other = f"{place}-serial"
    table = gl.create(other, index="ts", entity=["sym"], bucket="1h", schema=SCHEMA)
    table.append(hours(1, 2, 3))
    table.append(hours(9))
    first(gl.open(other))
    act(gl.open(other))
    assert raced == told(other)
    check_whole(place)


def test_maint_09_rows_that_were_updated_or_deleted_do_not_come_back(place: str) -> None:
    """A rewrite planned at one version meets an upsert of a row that it carries over, and an append."""

    def first(table: gl.TimeSeriesTable) -> None:
        table.upsert(hours(2, x=7.0))
        table.append(hours(4))

    second(place, lambda t: t.upsert(hours(1, x=1.0)), first)
    assert told(place) == [(1, 1), (2, 7), (3, 0), (4, 0), (9, 0)]
    second(place, lambda t: t.upsert(hours(1, x=2.0)), lambda t: t.delete("x = 7"))
    assert told(place) == [(1, 2), (3, 0), (4, 0), (9, 0)]
    check_whole(place)


def test_what_lies_elsewhere_is_stepped_over_without_writing_again(place: str) -> None:
    for act in (UPSERT_2, lambda t: t.delete(start=at(1), end=at(2)), lambda t: t.replace((at(3), at(4)), hours(3, x=1.0))):
        _, store = second(place, act, lambda t: t.append(hours(len(t.history()) + 100)))
        assert len([path for path in store.puts if path.startswith("data/")]) == 1
        assert not store.deleted


def test_an_operation_that_another_handle_did_first_is_reported(place: str) -> None:
    report, store = second(
        place,
        lambda t: t.upsert(hours(2, x=5.0), operation_id="job"),
        lambda t: t.upsert(hours(2, x=6.0), operation_id="job"),
    )
    assert (report.already_applied, report.version, report.updated_rows) == (True, 4, 1)
    assert told(place)[1] == (2, 6)
    assert [path for path in store.puts if path.startswith("data/")] == store.deleted
    check_whole(place)


def test_an_upsert_of_rows_without_a_column_that_came_first_is_refused(place: str) -> None:
    with pytest.raises(SchemaMismatch, match="lacks the column 'y'"):
        second(place, UPSERT_2, lambda t: t.add_column("y", pa.int64(), default=7))
    assert told(place) == [(1, 0), (2, 0), (3, 0), (9, 0)]
    check_whole(place)


def test_a_correction_gives_up_at_its_deadline(place: str) -> None:
    table, store = open_faulty(place, deadline_s=5)
    clock = table._env.clock

    def first(path: str) -> None:
        if is_commit(path):
            clock.sleep(2)
            gl.open(place).upsert(hours(2, x=clock.monotonic()))

    store.before_put = first
    with pytest.raises(CommitConflict):
        table.upsert(hours(2, x=5.0))
    store.before_put = lambda _path: None
    assert 5.0 not in [x for _, x in told(place)]
    check_whole(place)


def test_an_unknown_outcome_keeps_every_file(place: str) -> None:
    table, store = open_faulty(place, deadline_s=5)

    def lose(path: str) -> None:
        if is_commit(path):
            store.before_get = unavailable
            unavailable(path)

    store.after_put = lose
    with pytest.raises(CommitOutcomeUnknown):
        table.upsert(hours(2, x=5.0))
    assert not store.deleted
    assert told(place) == [(1, 0), (2, 5), (3, 0), (9, 0)]


def test_a_failed_correction_leaves_no_file(place: str) -> None:
    table, store = open_faulty(place)
    there = objects(place)
    store.before_put = lambda path: unavailable(path) if path.startswith("data/") else None
    with pytest.raises(gl.StoreError):
        table.upsert(hours(2, x=5.0))
    assert objects(place) == there


# -- unique tables -----------------------------------------------------------------------------------------------------


@pytest.fixture
def unique() -> str:
    place = f"memory://correction-races-{next(_counter)}"
    properties = {"unique": True, "on_overlap": "allow"}
    gl.create(place, index="ts", entity=["sym"], bucket="1h", schema=SCHEMA, properties=properties).append(hours(1))
    return place


def test_two_appends_of_one_key_cannot_both_land(unique: str) -> None:
    with pytest.raises(DuplicateKey):
        second(unique, lambda t: t.append(hours(2, 2.5)), lambda t: t.append(hours(2.5)))
    assert told(unique) == [(1, 0), (2.5, 0)]
    check_whole(unique)


def test_two_appends_into_one_bucket_with_other_keys_both_land(unique: str) -> None:
    report, _ = second(unique, lambda t: t.append(hours(2, 2.5)), lambda t: t.append(hours(2.2)))
    assert report.rows == 2
    assert told(unique) == [(1, 0), (2, 0), (2.2, 0), (2.5, 0)]
    check_whole(unique)


def test_a_key_that_a_newer_version_no_longer_has_is_free(unique: str) -> None:
    behind = gl.open(unique)
    gl.open(unique).delete("true")
    assert behind.append(hours(1, x=5.0)).rows == 1
    assert told(unique) == [(1, 5)]
    check_whole(unique)


def test_a_key_that_was_only_moved_to_another_segment_is_not(unique: str) -> None:
    gl.open(unique).append(hours(1.5))
    behind = gl.open(unique)
    gl.open(unique).compact()
    with pytest.raises(DuplicateKey):
        behind.append(hours(1))
    assert told(unique) == [(1, 0), (1.5, 0)]
    check_whole(unique)


def test_an_append_under_way_when_the_table_becomes_unique(place: str) -> None:
    twice = pa.concat_tables([hours(5), hours(5)])
    with pytest.raises(DuplicateKey):
        second(place, lambda t: t.append(twice), lambda t: t.set_properties({"unique": True}))
    second(place, lambda t: t.append(hours(5)), lambda t: t.set_properties({"checkpoint_interval": 7}))
    assert told(place) == [(1, 0), (2, 0), (3, 0), (5, 0), (9, 0)]


def test_a_table_does_not_become_unique_over_rows_that_came_first(place: str) -> None:
    twice = pa.concat_tables([hours(5), hours(5)])
    with pytest.raises(DuplicateKey):
        second(place, lambda t: t.set_properties({"unique": True}), lambda t: t.append(twice))
    assert not gl.open(place).properties.unique
    second(place, lambda t: t.set_properties({"codec": "snappy"}), lambda t: t.set_properties({"checkpoint_interval": 7}))
    assert gl.open(place).properties.changed() == {"codec": "snappy", "checkpoint_interval": 7}


def test_threads_that_correct_one_segment_lose_nothing(tmp_path: Any) -> None:
    """Each thread upserts its own keys and deletes some of them again, through its own handle; all meet in one segment."""
    table = gl.create(tmp_path / "t", index="ts", entity=["sym"], bucket="1h", schema=SCHEMA, properties={"unique": True})
    table.append(pa.concat_tables([hours(*range(6), sym=f"S{number}") for number in range(4)]))
    errors: list[BaseException] = []

    def work(number: int) -> None:
        mine = gl.open(tmp_path / "t")
        try:
            for hour in range(6):
                mine.upsert(hours(hour, hour + 0.5, sym=f"S{number}", x=float(number)))
                if hour % 2:
                    mine.delete(start=at(hour), end=at(hour + 0.5), entity={"sym": f"S{number}"})
        except BaseException as error:  # noqa: BLE001 - told below
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    rows = gl.open(tmp_path / "t").scan().to_arrow().to_pylist()
    found = sorted((row["sym"], (row["ts"] - T0) / timedelta(hours=1), row["x"]) for row in rows)
    assert found == sorted(
        (f"S{number}", hour, float(number))
        for number in range(4)
        for hour in [*(h for h in range(6) if not h % 2), *(h + 0.5 for h in range(6))]
    )
    assert not gl.open(tmp_path / "t").verify(deep=True).findings
