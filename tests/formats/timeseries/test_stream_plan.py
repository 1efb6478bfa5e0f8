"""What a stream emits: every item once, whatever the batches, and the same again when a batch is planned again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.errors import InvalidOption
from gapless.formats.timeseries.actions import (
    Action,
    AddSegment,
    Commit,
    LiveSegment,
    RemoveSegment,
    SetTag,
    TableMeta,
    TableState,
    UpdateTableMeta,
)
from gapless.formats.timeseries.stream_plan import Item, commit_items, row_items
from gapless.log.format import Snapshot
from gapless.log.stream_plan import Budget, Cursor, OnChange, between, take
from gapless.model.index import IndexSpec, parse_bucket
from gapless.model.segment import Bounds, Segment

META = TableMeta(index=IndexSpec(column="n", type="int64", bucket=parse_bucket(1, "int64", None)), schema=None, created_ns=0)


def segment(name: str, *, size: int | None = 10, first: int = 0, data_change: bool = True) -> Segment:
    bounds = Bounds(first=first, last=first)
    return Segment(path=f"data/{name}", rows=1, size=size, bounds=bounds, coverage=None, data_change=data_change)


def commit(*actions: Action, operation: str = "append") -> Commit:
    return Commit(id="", operation=operation, actions=actions)


def paths(items: tuple[Item, ...]) -> list[list[str]]:
    return [[one.path.removeprefix("data/") for one in item.added] for item in items]


# -- one commit --------------------------------------------------------------------------------------------------------

APPEND = commit(AddSegment(segment("a")), AddSegment(segment("b")))
UPSERT = commit(RemoveSegment("data/a"), AddSegment(segment("c")), AddSegment(segment("d")), operation="upsert")
DELETE = commit(RemoveSegment("data/a"), operation="delete")
RESTORE = commit(AddSegment(segment("a")), operation="restore")
COMPACT = commit(RemoveSegment("data/a"), AddSegment(segment("e", data_change=False)), operation="compact")
SETTINGS = commit(UpdateTableMeta(META), SetTag("t", 1), operation="set_properties")


@pytest.mark.parametrize("on_change", ["error", "skip", "tell"])
@pytest.mark.parametrize(("one", "emitted"), [(APPEND, [["a"], ["b"]]), (COMPACT, []), (SETTINGS, []), (commit(), [])])
def test_appends_are_emitted_segment_by_segment_and_compactions_not(
    on_change: OnChange, one: Commit, emitted: list[list[str]]
) -> None:
    assert paths(commit_items(3, one, 7, on_change)) == emitted


def test_rows_that_an_append_only_laid_out_anew_are_not_emitted() -> None:
    mixed = commit(AddSegment(segment("a")), AddSegment(segment("b", data_change=False)))
    assert paths(commit_items(3, mixed, 7, "error")) == [["a"]]


@pytest.mark.parametrize("change", [UPSERT, DELETE, RESTORE, replace(UPSERT, operation="")])
def test_a_change_of_rows_stops_a_stream_of_appends_or_is_passed_over_whole(change: Commit) -> None:
    assert commit_items(3, change, 7, "skip") == ()
    with pytest.raises(InvalidOption, match=re.escape(f"version 3 ({change.operation or 'of another writer'})")) as stop:
        commit_items(3, change, 7, "error")
    assert stop.value.option == "onDataChange"


def test_a_feed_tells_a_change_in_one_piece_and_restored_segments_one_by_one() -> None:
    assert commit_items(3, UPSERT, 7, "tell") == (
        Item(version=3, time_ns=7, added=(segment("c"), segment("d")), removed=("data/a",)),
    )
    assert commit_items(3, DELETE, 7, "tell") == (Item(version=3, time_ns=7, added=(), removed=("data/a",)),)
    assert paths(commit_items(3, RESTORE, 7, "tell")) == [["a"]]


def test_all_rows_of_a_version_come_in_order_of_time_however_they_were_added() -> None:
    live = [segment("late", first=9), segment("b", first=1), segment("a", first=1)]
    state = TableState(meta=META, live={one.path: LiveSegment(one, 2) for one in live})
    assert paths(row_items(Snapshot(4, 7, state))) == [["a"], ["b"], ["late"]]


# -- how much of it ----------------------------------------------------------------------------------------------------


def items(*sizes: int | None, version: int = 3) -> tuple[Item, ...]:
    return tuple(Item(version=version, time_ns=0, added=(segment(f"{version}-{n}", size=s),)) for n, s in enumerate(sizes))


@pytest.mark.parametrize(
    ("budget", "index"),
    [
        (Budget(files=1), 1),
        (Budget(files=2), 2),
        (Budget(size=10), 1),
        (Budget(size=29), 1),
        (Budget(size=30), 2),
        (Budget(size=1), 1),  # the first, or the stream would not move on
        (Budget(files=2, size=10), 1),
        (Budget(files=1, size=99), 1),
    ],
)
def test_a_batch_takes_as_much_as_the_limits_admit(budget: Budget, index: int) -> None:
    cursor, _ = take(Cursor(version=3), items(10, 20, 30), budget)
    assert cursor == Cursor(version=3, index=index)


def test_a_version_that_is_taken_whole_leads_to_the_next_and_its_cost_counts_on() -> None:
    cursor, left = take(Cursor(version=3), items(10, 20), Budget(files=3, size=100))
    assert (cursor, left) == (Cursor(version=4), Budget(files=1, size=70, fresh=False))
    assert take(cursor, (), left) == (Cursor(version=5), left)
    assert take(Cursor(version=5), items(71, version=5), left)[0] == Cursor(version=5)


def test_a_change_costs_what_it_took_away_too() -> None:
    change = Item(version=3, time_ns=0, added=(segment("c"),), removed=("data/a", "data/b"))
    assert (change.files, change.size) == (3, 20)
    assert take(Cursor(version=3, index=0), (*items(1), change), Budget(files=3))[0].index == 1


# -- batches -----------------------------------------------------------------------------------------------------------

TABLES = st.tuples(st.booleans(), st.lists(st.lists(st.integers(0, 30), max_size=4), max_size=6))
BUDGETS = st.builds(Budget, files=st.none() | st.integers(1, 5), size=st.none() | st.integers(1, 60))


def versions_of(whole: bool, sizes: list[list[int]]) -> list[tuple[Cursor, tuple[Item, ...]]]:
    places = [Cursor(version=n + 2 - (whole and n == 0), whole=whole and n == 0) for n in range(len(sizes))]
    return [(place, items(*each, version=100 + n)) for n, (place, each) in enumerate(zip(places, sizes, strict=True))]


def batches(versions: list[tuple[Cursor, tuple[Item, ...]]], budget: Budget) -> Iterator[tuple[Cursor, Cursor]]:
    """As a reader goes on: where each batch starts and ends."""
    cursor = versions[0][0] if versions else Cursor(version=1)
    while True:
        start, left = cursor, budget
        for place, each in versions:
            if place.order >= start.place.order:
                cursor, left = take(cursor if place == start.place else place, each, left)
                if cursor.place == place:
                    break
        if cursor == start:
            return
        yield start, cursor


@given(TABLES, BUDGETS)
def test_every_item_is_emitted_once_and_in_order_whatever_the_limits(
    table: tuple[bool, list[list[int]]], budget: Budget
) -> None:
    versions = versions_of(*table)
    found: list[Item] = []
    for start, end in batches(versions, budget):
        batch = between(versions, start, end)
        assert batch == between(versions, start, end)
        assert start.order < end.order
        within = sum(one.files for one in batch) <= (budget.files or 99) and sum(one.size for one in batch) <= (
            budget.size or 999
        )
        assert within or len(batch) == 1
        found += batch
    assert found == [one for _, each in versions for one in each]
