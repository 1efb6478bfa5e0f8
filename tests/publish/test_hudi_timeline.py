"""A Hudi timeline that does not grow with the table: what is older than any attempt at work goes, and readers see the same as of every instant."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gapless.formats.timeseries.actions import is_copy
from gapless.publish.hudi.strays import LOOK_EVERY
from gapless.publish.hudi.trimming import Files, unneeded_beginning
from gapless.testing.store.stores import DictStore, Killed
from support.clocked_table import HOUR_NS, NOON_NS, SetClock, rows_at
from support.dying_store import DyingStore, Life
from support.hudi_published import PUBLISHED, adopted, again, check, rows_of, shown, table_in
from support.hudi_reader import files_seen, versions_told

DAY_NS = 24 * HOUR_NS
FIRST = "19700101000000000.replacecommit"


Told = dict[str, Counter[str]]
"""The rows of a table as of each instant."""


def later(store: object, hours: int) -> Any:
    return again(store, SetClock(NOON_NS + hours * HOUR_NS))


def appended(store: DictStore, hours: int = LOOK_EVERY, first: int = 0) -> Told:
    """An append each hour, from one to another; as a rule to one at which all files are looked at."""
    clock, told = SetClock(), {}
    table = table_in(store, clock) if first == 0 else again(store, clock)
    for hour in range(first, hours):
        clock.ns = NOON_NS + hour * HOUR_NS
        table.append(rows_at(hour))
        if hour % 8 == 0:
            told[str(table.publications()[0].published_version)] = rows_of(table)
    return told


def test_the_timeline_of_a_table_that_only_grows_has_a_day_and_its_older_instants_can_be_read_as_of() -> None:
    store = DictStore()
    told = appended(store)
    kept = versions_told(store)
    assert 24 <= len(kept) <= 28
    assert FIRST not in kept
    assert {at: shown(store, at) for at in told} == told
    check(store)
    assert later(store, 200).verify().ok


@pytest.mark.parametrize("after", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_killed_while_it_takes_instants_away_readers_see_the_same(after: bool) -> None:
    whole = DictStore()
    told = appended(whole, LOOK_EVERY - 2)
    for dies_at in (1, 9, 10, 11, 60, 61, 200, 400):
        store, killed = DictStore(), False
        for info in whole.list():
            store.put(info.path, whole.get(info.path))
        try:
            later(DyingStore(store, Life(dies_at, after)), LOOK_EVERY).append(rows_at(LOOK_EVERY))
        except Killed:
            killed = True
        assert {at: shown(store, at) for at in told} == told
        assert killed or dies_at > 100
        check(store)


def test_what_was_hidden_and_is_there_keeps_the_instant_that_hid_it() -> None:
    store = DictStore()
    table_in(store)
    later(store, 0).append(rows_at(0, 3))
    hidden_at = later(store, 1)
    hidden_at.delete("v = 1")
    at, told = str(hidden_at.publications()[0].published_version), appended(store, LOOK_EVERY + 2, first=4)
    kept = versions_told(store)
    assert FIRST not in kept  # it hid nothing
    assert min(kept).startswith(at)
    assert {at: shown(store, at) for at in told} == told
    mine = later(store, 400)
    for value in range(3):
        mine.upsert(rows_at(500).set_column(1, "v", pa.array([float(value)])))
        mine.expire(keep_versions=1)
        mine.vacuum(timedelta(0), dry_run=False)
    assert len(versions_told(store)) < 6
    check(store)


def test_what_an_attempt_left_keeps_the_instants_before_it_until_it_is_gone() -> None:
    store = DictStore()
    appended(store, 3)
    left = "data/00000000-0000-4000-8000-00000000000a-0_0-0-0_20260109140500000.parquet"
    store.put(left, b"PAR1")
    appended(store, first=3)
    assert left not in (files_seen(store) or ())
    assert len(versions_told(store)) > 100
    store.delete(left)
    mine = later(store, 200)
    for value in range(3):  # what a vacuum deletes is seen to be gone by the next
        mine.upsert(rows_at(200).set_column(1, "v", pa.array([float(value)])))
        mine.expire(keep_versions=1)
        mine.vacuum(timedelta(0), dry_run=False)
    assert len(versions_told(store)) < 6
    check(store)


def test_an_attempt_of_before_the_timeline_is_published_as_a_copy(tmp_path: Path) -> None:
    store = DictStore()
    appended(store)
    before = min(versions_told(store))
    mine = adopted(store, tmp_path, 1_000, SetClock(NOON_NS + HOUR_NS // 2))  # began before that, and lands now
    assert mine.segments()[-1].path[-25:-8] < before
    mine.publish()
    check(store)
    assert [is_copy(name) for name in files_seen(store) or ()].count(True) == 1


def test_a_copy_of_a_publisher_that_was_killed_does_not_stay() -> None:
    store = DictStore()
    appended(store, 2)
    left = "data/00000000-0000-4000-8000-00000000000a-0_1-0-0_20260109133000003.parquet"
    store.put(left, b"PAR1")
    appended(store, first=2)
    assert left not in [info.path for info in store.list("data")]
    check(store)


def test_a_table_that_is_old_begins_with_one_instant_and_those_of_its_last_day() -> None:
    store = DictStore()
    clock = SetClock()
    mine = table_in(store, clock, publish=[])
    for hour in range(100):
        clock.ns = NOON_NS + hour * HOUR_NS
        mine.append(rows_at(hour))
    mine.delete("v = 3 or v = 97")
    left = "data/00000000-0000-4000-8000-00000000000a-0_0-0-0_20260109140500000.parquet"
    store.put(left, b"PAR1")
    mine.set_properties(PUBLISHED)
    told = versions_told(store)
    assert 22 <= len(told) <= 26
    assert shown(store) == rows_of(mine)
    check(store)
    later(store, 101).append(rows_at(200))
    check(store)


def test_the_last_instant_and_the_newest_version_stay() -> None:
    names = [f"x{n}_0-0-0_2026010500000000{n}.parquet" for n in range(5)]
    instants = [f"2026010500000000{n}" for n in range(5)]
    files = Files.of(names)
    assert unneeded_beginning(instants, files, "9" * 17, lambda *_: False) == instants[:-1]
    assert unneeded_beginning(instants, files, instants[2], lambda *_: False) == instants[:2]
    assert unneeded_beginning(instants, files, "9" * 17, lambda at, _: at == instants[1]) == instants[:1]
    assert unneeded_beginning(["0", *instants[2:]], files, "9" * 17, lambda *_: False) == []
