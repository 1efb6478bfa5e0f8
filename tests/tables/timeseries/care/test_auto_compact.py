"""Compaction after appends, as a property: within its budget, and never at the cost of an append."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import pytest

import gapless as gl
from gapless.errors import InvalidOption, LogWarning, StorageFull
from gapless.formats.timeseries.actions import TableState
from gapless.log.format import Snapshot
from gapless.model.properties import Properties
from gapless.store.open import open_store
from gapless.tables.shared.compaction import CompactionReport
from gapless.tables.timeseries.care.compact import Compactor
from gapless.tables.timeseries.care.maintenance import AutoCompaction
from support.faulty_store import objects, open_faulty

_counter = itertools.count()


@pytest.fixture
def place() -> str:
    return f"memory://auto-{next(_counter)}"


def make(place: str, **properties: Any) -> gl.TimeSeriesTable:
    return gl.create(place, index="i", index_type="int64", bucket=1, properties=properties)


def rows(*numbers: int) -> dict[str, Any]:
    return {"i": list(numbers), "x": [float(n) for n in numbers]}


def numbers(table: gl.TimeSeriesTable) -> list[int]:
    return [row["i"] for row in table.scan(order="index").to_arrow().to_pylist()]


def test_it_is_off_unless_it_is_asked_for(place: str) -> None:
    table = make(place)
    for number in range(60):
        table.append(rows(number))
    assert len(table.segments()) == 60


def test_small_segments_are_merged_once_more_than_so_many_have_gathered(place: str) -> None:
    table = make(place, auto_compact_segments=10)
    most = 0
    for number in range(60):
        report = table.append(rows(number))
        assert report.rows == 1
        most = max(most, len(table.segments()))
    assert 10 < most <= 10 + 5 + 1
    assert len(table.segments()) <= 16
    assert numbers(table) == numbers(gl.open(place)) == list(range(60))
    operations = [entry.operation for entry in table.history()]
    assert 60 / 10 - 2 <= operations.count("compact") <= 60 / 5
    assert not table.verify(deep=True).findings


def test_a_compaction_reads_no_more_than_the_budget(place: str) -> None:
    size = 800
    table = make(place, auto_compact_segments=4, auto_compact_bytes=6 * size)
    for number in range(40):
        table.append(rows(number))
        (entry,) = [entry for entry in table.history() if entry.version == table.version]
        if entry.operation == "compact":
            before, after = gl.open(place).at(version=table.version - 1), table
            gone = {s.path: s for s in before.segments()}.keys() - {s.path for s in after.segments()}
            assert sum(s.size or 0 for s in before.segments() if s.path in gone) <= 6 * size
    assert len(table.segments()) < 40
    assert numbers(table) == list(range(40))


def test_a_failure_is_a_warning_and_the_append_stands(place: str) -> None:
    make(place, auto_compact_segments=2, auto_compact_bytes=10**6)
    table, store = open_faulty(place)
    for number in range(2):
        table.append(rows(number))
    written: list[str] = []

    def full(path: str) -> None:
        if path.startswith("data/"):
            written.append(path)
            if len(written) > 1:
                raise StorageFull(f"no space for {path}", path=path)

    store.before_put = full
    with pytest.warns(LogWarning, match="the append stands: no space for"):
        report = table.append(rows(2))
    assert report.rows == 1
    assert numbers(gl.open(place)) == [0, 1, 2]
    assert sum(path.startswith("data/") for path in objects(place)) == 3


def test_a_damaged_segment_is_named_in_a_warning(place: str) -> None:
    table = make(place, auto_compact_segments=2)
    for number in range(2):
        table.append(rows(number))
    victim = table.segments()[0].path
    store = open_store(place)
    data = bytearray(store.get(victim))
    data[20] ^= 4
    store.put(victim, bytes(data), mode="overwrite")
    with pytest.warns(LogWarning, match=victim):
        table.append(rows(2))
    assert gl.open(place).version == table.version


def test_appends_of_many_threads_lose_nothing(tmp_path: Any) -> None:
    place = str(tmp_path / "t")
    make(place, auto_compact_segments=4)
    tables = [gl.open(place) for _ in range(3)]

    def work(table: gl.TimeSeriesTable, first: int) -> None:
        for number in range(first, first + 12):
            table.append(rows(number))

    threads = [threading.Thread(target=work, args=(table, 100 * k)) for k, table in enumerate(tables)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = gl.open(place)
    assert numbers(found) == [100 * k + n for k in range(3) for n in range(12)]
    assert len(found.segments()) < 36
    assert not found.verify(deep=True).findings


def test_threads_of_one_handle_do_not_compact_the_same_segments_at_once(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(place, auto_compact_segments=2)
    at_once: list[str] = []
    plain = Compactor.compact

    def compact(self: Compactor, snapshot: Snapshot[TableState]) -> CompactionReport:
        at_once.append("in")
        if at_once.count("in") == at_once.count("out") + 1:
            other = threading.Thread(target=table.append, args=(rows(1000 + len(at_once)),))
            other.start()
            other.join()  # moves on by a version, so that it is due as well
        report = plain(self, snapshot)
        at_once.append("out")
        return report

    monkeypatch.setattr(Compactor, "compact", compact)
    for number in range(8):
        table.append(rows(number))
    assert at_once
    assert at_once == ["in", "out"] * (len(at_once) // 2)
    assert not table.verify(deep=True).findings


@pytest.mark.parametrize("given", [{"auto_compact_segments": -1}, {"auto_compact_segments": True}, {"auto_compact_bytes": 0}])
def test_numbers_that_mean_nothing_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption):
        Properties.parse(given)


def test_versions_that_are_passed_over_are_not_missed() -> None:
    auto = AutoCompaction.of(Properties(auto_compact_segments=10))
    assert auto is not None
    assert [now for now in range(1, 30) if auto.is_due(now - 1, now)] == [5, 10, 15, 20, 25]
    assert auto.is_due(3, 27)
    assert AutoCompaction.of(Properties()) is None
