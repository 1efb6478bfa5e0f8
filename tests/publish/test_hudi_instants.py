"""Instants that attempts claim: a version whose files nobody else can share an instant with is published without a look at all files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from threading import Thread

import pytest

from gapless.errors import StoreUnavailable
from gapless.files.write.instants import claim_instant
from gapless.formats.timeseries.actions import claim_path, claimed_instants, is_publishers, is_shared
from gapless.model.protocols import ObjectInfo
from gapless.publish.hudi.strays import LATE_NS, LOOK_EVERY
from gapless.runtime.environment import Environment
from gapless.tables.timeseries.table import TimeSeriesTable
from gapless.testing.store.stores import DictStore, OuterStore
from support.clocked_table import HOUR_NS, NOON_NS, SetClock, rows_at
from support.faulty_store import FaultyStore, once, unavailable
from support.hudi_published import StoppedClock, adopted, again, check, rows_of, shown, table_in


class ListedStore(OuterStore):
    """Counts the listings of the files of a table."""

    looks = 0

    def list(self, prefix: str = "", after: str = "") -> Iterator[ObjectInfo]:
        self.looks += prefix == "data"
        return self.inner.list(prefix, after)

    def local_path(self, path: str) -> None:
        """None, so that every listing comes by here."""


def instants_of(table: TimeSeriesTable) -> list[str]:
    return [segment.path[-25:-8] for segment in table.segments()]


def test_attempts_of_one_millisecond_have_instants_of_their_own() -> None:
    store = DictStore()
    table_in(store)
    threads = [Thread(target=lambda hour=hour: again(store, StoppedClock()).append(rows_at(hour))) for hour in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    found = instants_of(again(store))
    assert sorted(found) == sorted(set(found))
    assert not any(map(is_shared, found))
    check(store)


def test_a_claim_is_never_shared_and_one_whose_reply_was_lost_is_not_taken() -> None:
    store = FaultyStore(DictStore())
    env = Environment(store=store, clock=StoppedClock())
    first, second, third, *_ = islice(claimed_instants(NOON_NS), 3)
    store.put(claim_path(first), b"")
    assert claim_instant(env) == second
    store.after_put = once(partial(unavailable, "no answer"), lambda _: True)
    with pytest.raises(StoreUnavailable):
        claim_instant(env)
    assert claim_instant(env) > third
    for ns in range(NOON_NS, NOON_NS + 12_000_000, 500_000):
        assert not any(is_shared(one) or is_publishers(one) for one in islice(claimed_instants(ns), 5))


def test_a_store_that_has_every_claim_is_told_of() -> None:
    store = DictStore()
    for instant in islice(claimed_instants(NOON_NS), 1_000):
        store.put(claim_path(instant), b"")
    with pytest.raises(StoreUnavailable, match="no instant is free"):
        claim_instant(Environment(store=store, clock=StoppedClock()))


def test_only_what_others_may_have_files_of_is_published_after_a_look_at_all_files(tmp_path: Path) -> None:
    inner = DictStore()
    store = ListedStore(inner)
    table_in(inner).append(rows_at(0))
    mine = again(store, SetClock(NOON_NS + HOUR_NS))
    acts: tuple[Callable[[], object], ...] = (
        lambda: mine.append(rows_at(1)),
        lambda: mine.upsert(rows_at(1)),
        lambda: mine.delete("v = 1"),
        lambda: mine.tag("one"),
        lambda: mine.restore(2),
    )
    for act in acts:
        act()
        assert store.looks == 0
    adopted(store, tmp_path, 20, SetClock(NOON_NS + 2 * HOUR_NS))
    assert store.looks == 1
    for hours in (2, 3, 4, 5):  # files of that one may come late
        again(store, SetClock(NOON_NS + hours * HOUR_NS + 10**9)).append(rows_at(20 + hours))
    assert store.looks == 1 + LATE_NS // HOUR_NS
    check(inner)


def test_a_claim_that_is_gone_means_a_look() -> None:
    inner = DictStore()
    table = table_in(inner, publish_on_commit=False)
    table.append(rows_at(0))
    table.publish()
    table.append(rows_at(1))
    inner.delete(claim_path(instants_of(table)[1]))
    store = ListedStore(inner)
    again(store).publish()
    assert store.looks == 1
    check(inner)


def test_now_and_then_all_files_are_looked_at() -> None:
    inner = DictStore()
    table = table_in(inner)
    table.append(rows_at(0))
    late = table.segments()[0].path.replace("-0_0-0-0_", "-0_0-0-9_")[:5] + "0" + table.segments()[0].path[6:]
    inner.put(
        late, inner.get(table.segments()[0].path)
    )  # as a writer of an earlier release, or another program, could leave it
    assert shown(inner) != rows_of(table)
    store = ListedStore(inner)
    mine = again(store, SetClock(NOON_NS + 10**9))
    while mine.version < LOOK_EVERY - 1:
        mine.append(rows_at(mine.version))
    assert store.looks == 0
    mine.append(rows_at(mine.version))
    assert store.looks == 1
    assert shown(inner) == rows_of(mine)
    check(inner)


def test_claims_are_no_finding_and_go_with_a_vacuum() -> None:
    store = DictStore()
    table = table_in(store)
    for hour in range(3):
        table.append(rows_at(hour))
    claims = [info.path for info in store.list("_staged")]
    assert claims == [claim_path(instant) for instant in sorted(instants_of(table))]
    assert not table.verify().findings
    table.vacuum(timedelta(0), dry_run=False)
    assert not list(store.list("_staged"))
    table.append(rows_at(9))
    check(store)
