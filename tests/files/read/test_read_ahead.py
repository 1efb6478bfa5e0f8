"""Requests that are on their way together: in order, few rounds, bounded; and footers that are read once."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import gapless as gl
from gapless.errors import CorruptTable, ObjectNotFound
from gapless.files.pages import footer
from gapless.model.protocols import Capabilities, Store
from gapless.runtime.concurrency import Call, in_order, one_ahead
from gapless.runtime.environment import Environment
from gapless.store.open import open_store
from gapless.tables.timeseries.lifecycle import open_table
from gapless.testing.store.stores import OuterStore

SEGMENTS, WAIT_S = 24, 0.02


class FarStore(OuterStore):
    """A store whose reads take a while, and which says so; it keeps when each began and ended."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.asked: list[tuple[float, float, str, int]] = []

    @property
    def capabilities(self) -> Capabilities:
        return replace(self.inner.capabilities, concurrent=True)

    def local_path(self, path: str) -> None:
        """None: nothing here is near."""

    def get(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        began = time.perf_counter()
        time.sleep(WAIT_S)
        data = self.inner.get(path, start, length)
        self.asked.append((began, time.perf_counter(), path, len(data)))
        return data

    @property
    def rounds(self) -> int:
        """How many requests at most followed each other, none beginning before another's end."""
        count, free = 0, 0.0
        for began, ended, *_ in sorted(self.asked, key=lambda one: one[1]):
            if began >= free:
                count, free = count + 1, ended
        return count


@pytest.fixture
def far(tmp_path_factory: pytest.TempPathFactory) -> tuple[gl.TimeSeriesTable, FarStore]:
    """A table of a segment a day, opened through a far store that has forgotten the opening."""
    place = str(tmp_path_factory.mktemp("far") / "t")
    table = gl.create(place, index="i", index_type="int64", entity=["k"], bucket=1_000)
    for day in range(SEGMENTS):
        rows = np.arange(2_000)
        table.append({"i": day * 10_000 + rows // 2, "k": np.array(["a", "b"])[rows % 2], "n": rows, "x": rows * 0.5})
    store = FarStore(open_store(place))
    opened = gl.TimeSeriesTable(Environment(store=store), place, open_table(Environment(store=store), place))
    store.asked.clear()
    return opened, store


def test_a_scan_over_many_segments_takes_few_rounds_and_reads_each_footer_once(
    far: tuple[gl.TimeSeriesTable, FarStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(footer, "_KEPT", footer._Kept(1 << 20))
    table, store = far
    rows = table.scan(entity={"k": "b"}, columns=["i", "x"]).to_arrow()
    assert rows.num_rows == SEGMENTS * 1_000
    assert rows.column("i").to_pylist() == [day * 10_000 + n for day in range(SEGMENTS) for n in range(1_000)]
    assert len(store.asked) == 2 * SEGMENTS, "a footer and one range of each segment"
    assert store.rounds <= 8, "and not 48"
    store.asked.clear()
    assert table.scan(entity={"k": "b"}, columns=["i", "x"]).to_arrow().equals(rows)
    assert len(store.asked) == SEGMENTS, "footers are known"


def test_the_ranges_of_columns_that_lie_apart_are_asked_for_together(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    place = str(tmp_path_factory.mktemp("apart") / "t")
    dice = np.random.default_rng(1)
    wide = {f"x{n}": dice.random(100_000) for n in range(8)}
    gl.create(place, index="i", index_type="int64", bucket=1_000).append({"i": np.arange(100_000), **wide})
    store = FarStore(open_store(place))
    table = gl.TimeSeriesTable(Environment(store=store), place, open_table(Environment(store=store), place))
    store.asked.clear()
    rows = table.scan(columns=["x0", "x7"]).to_arrow()
    assert rows.column("x7").to_pylist() == wide["x7"].tolist()
    assert store.rounds <= 2
    assert len(store.asked) == 3
    assert sum(size for *_, size in store.asked) < 2.5 * 8 * 100_000


def test_a_segment_that_is_gone_is_told_of_as_missing(far: tuple[gl.TimeSeriesTable, FarStore]) -> None:
    table, store = far
    expected = table.scan().to_arrow().num_rows
    assert expected == SEGMENTS * 2_000
    store.inner.delete(table.segments()[3].path)
    with pytest.raises(CorruptTable, match="is missing") as caught:
        table.scan().to_arrow()
    assert isinstance(caught.value.__cause__, ObjectNotFound)


def test_a_scan_that_is_left_early_leaves_no_thread_at_work(far: tuple[gl.TimeSeriesTable, FarStore]) -> None:
    table, store = far
    batches = table.scan().to_batches()
    assert next(batches).num_rows
    del batches
    deadline = time.monotonic() + 20
    while any(thread.name.startswith("gapless-ahead") for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert len(store.asked) <= 2 * SEGMENTS


def test_answers_come_in_order_and_no_more_run_than_there_is_room_for() -> None:
    running, most, held, most_held = 0, 0, 0, 0
    lock = threading.Lock()

    def act(number: int) -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.002 * (number % 3))
        with lock:
            running -= 1
        return number

    def calls() -> Iterator[Call[int]]:
        nonlocal held, most_held
        for number in range(40):
            held += 10
            yield Call(partial(act, number), 10)

    for number in in_order(calls(), width=5, limit=30):
        most_held = max(most_held, held - 10 * number)
    assert most <= 3
    # One more is drawn to see whether there is room for it.
    assert most_held <= 40
    assert list(in_order(calls(), width=5, limit=1)) == list(range(40)), "one always may run"
    assert list(in_order(calls(), width=1)) == list(range(40))


def test_what_a_call_raises_comes_in_its_place() -> None:
    def fail() -> int:
        raise ValueError("third")

    answers = in_order([Call(lambda: 1), Call(lambda: 2), Call(fail), Call(lambda: 4)], width=4)
    assert [next(answers), next(answers)] == [1, 2]
    with pytest.raises(ValueError, match="third"):
        next(answers)


def test_one_item_is_made_while_another_is_worked_on() -> None:
    made = [threading.Event() for _ in range(5)]

    def items() -> Generator[int]:
        for number, event in enumerate(made):
            event.set()
            yield number

    for number in one_ahead(items()):
        assert all(event.wait(20) for event in made[: number + 2]), "the next is made, though no one asked for it"
        assert not any(event.is_set() for event in made[number + 2 :]), "and no more"


def test_one_ahead_ends_where_its_items_do_or_its_reader() -> None:
    closed = []

    def items(error: Exception | None = None) -> Generator[int]:
        try:
            yield from (0, 1, 2)
            if error is not None:
                raise error
        finally:
            closed.append(threading.current_thread().name)

    assert list(one_ahead(items())) == [0, 1, 2]
    failing = one_ahead(items(ValueError("fourth")))
    assert [next(failing) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="fourth"):
        next(failing)
    left = one_ahead(items())
    assert next(left) == 0
    left.close()
    assert len(closed) == 3
    assert not any(thread.name.startswith("gapless-ahead") for thread in threading.enumerate())


def test_kept_footers_are_bounded(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    table = gl.create(tmp_path_factory.mktemp("kept") / "t", index="i", index_type="int64", bucket=1)
    for number in range(6):
        table.append({"i": [number]})
    kept = footer._Kept(1)
    monkeypatch.setattr(footer, "_KEPT", kept)
    assert table.scan().to_arrow().column("i").to_pylist() == list(range(6))
    assert len(kept._footers) == 0, "none is as small as a byte"
    size = int(str(table.segments()[0].footer_checksum).split(":")[1])
    kept = footer._Kept(3 * size)
    monkeypatch.setattr(footer, "_KEPT", kept)
    for _ in range(2):
        assert table.scan().to_arrow().num_rows == 6
    assert 1 <= len(kept._footers) <= 4
    assert kept._size == sum(one.metadata.serialized_size for one in kept._footers.values())
