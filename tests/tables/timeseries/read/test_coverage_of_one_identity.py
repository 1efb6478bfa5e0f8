"""The coverage of some identities, read without that of the others."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import gapless as gl
from gapless.coverage import codec
from gapless.errors import CorruptTable, CoverageOverlap, LogWarning
from gapless.model.segment import SidecarCoverage
from gapless.store.open import open_store
from support.counting_store import open_counting

ttf = pytest.importorskip("timeseries_table_format", reason="needs a newer pyarrow than our oldest")

_counter = itertools.count()
NAMES = [f"e{number:02}" for number in range(40)]
MINUTE_US = 60_000_000


@pytest.fixture(autouse=True)
def _small_ones_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "INDEXED_BYTES", 4_097)
    monkeypatch.setattr(codec, "_BRIDGED_BYTES", 0)


def rows(start: int, names: list[str]) -> pa.Table:
    """A thousand minutes of each name from minute `start` on; a third of them missing, by the name's number."""
    pairs = [(n, start + at) for n in names for at in range(1_000) if (at + int(n[1:])) % 3]
    minutes = np.array([at for _, at in pairs]) * MINUTE_US
    return pa.table({"ts": pa.array(minutes, pa.timestamp("us", "UTC")), "k": [name for name, _ in pairs]})


def missing_minutes(name: str) -> list[int]:
    """By the rows alone: what is missing between the first and the last minute of two thousand."""
    held = [at for at in range(2_000) if (at % 1_000 + int(name[1:])) % 3]
    return sorted(set(range(held[0], held[-1])) - set(held))


def filled(place: str | Path) -> str:
    """Two segments of 40 identities each, with an index beside each sidecar."""
    table = gl.create(place, index="ts", entity=["k"], bucket="1m")
    table.append(rows(0, NAMES))
    table.append(rows(1_000, NAMES))
    for segment in table.segments():
        assert isinstance(segment.coverage, SidecarCoverage)
        assert segment.coverage.index_checksum is not None
    return table.url


@pytest.fixture
def place() -> str:
    return filled(f"memory://one-identity-{next(_counter)}")


def stored(place: str, suffix: str) -> list[str]:
    return [info.path for info in open_store(place).list("_coverage") if info.path.endswith(suffix)]


def minutes_of(coverage: gl.Coverage[Any]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for gap in coverage.gaps():
        start, end = (int(at.timestamp()) // 60 for at in (gap.start, gap.end))
        found.setdefault(str(gap.identity[0]), []).extend(range(start, end))
    return found


ASKS: list[tuple[Callable[[gl.TimeSeriesTable], gl.Coverage[Any]], list[str]]] = [
    (lambda table: table.coverage(entity={"k": "e07"}), ["e07"]),
    (lambda table: table.coverage(entity={"k": ["e39", "e00"]}), ["e00", "e39"]),
    (lambda table: table.coverage(identities=["e11"]), ["e11"]),
    (lambda table: table.coverage(identities=["e11", "e12"], entity={"k": "e12"}), ["e12"]),
]


@pytest.mark.parametrize(("ask", "names"), ASKS)
def test_only_their_parts_are_read(place: str, ask: Callable[[gl.TimeSeriesTable], gl.Coverage[Any]], names: list[str]) -> None:
    table, store = open_counting(place)
    store.forget()
    assert minutes_of(ask(table)) == {name: missing_minutes(name) for name in names}
    whole = sum(info.size for info in open_store(place).list("_coverage") if info.path.endswith(".roar"))
    assert 0 < store.under("_coverage", ".roar") < len(names) * whole / 30
    assert store.under("_coverage", ".idx") == sum(len(open_store(place).get(path)) for path in stored(place, ".idx"))
    store.forget()
    ask(table)
    assert store.bytes_read == {}, "what was read is kept"


def test_all_of_them_is_one_read_of_each_sidecar(place: str) -> None:
    table, store = open_counting(place)
    coverage = table.coverage()
    assert minutes_of(coverage) == {name: missing_minutes(name) for name in NAMES}
    assert [store.reads[path] for path in stored(place, ".roar")] == [1, 1]
    assert store.under("_coverage", ".idx") == 0
    most, other = open_counting(place)
    assert minutes_of(most.coverage(entity={"k": NAMES[5:]})) == {name: missing_minutes(name) for name in NAMES[5:]}
    assert [other.reads[path] for path in stored(place, ".roar")] == [1, 1], "most of it is read as all of it"


def test_identities_are_read_from_the_indexes(place: str) -> None:
    gl.open(place).append(rows(5_000, ["e41"]))
    table, store = open_counting(place)
    assert table.identities() == [(name,) for name in [*NAMES, "e41"]]
    assert store.under("_coverage", ".roar") == 0


def test_an_append_reads_what_its_own_identities_cover(place: str) -> None:
    table, store = open_counting(place)
    store.forget()
    whole = sum(info.size for info in open_store(place).list("_coverage") if info.path.endswith(".roar"))
    with pytest.raises(CoverageOverlap, match="k='e03'"):
        table.append(rows(900, ["e03"]))
    assert 0 < store.under("_coverage", ".roar") < whole / 15
    holes = missing_minutes("e03")
    filling = {"ts": pa.array(np.array(holes) * MINUTE_US, pa.timestamp("us", "UTC")), "k": ["e03"] * len(holes)}
    assert table.append(filling).rows == len(holes)
    assert minutes_of(gl.open(place).coverage(entity={"k": "e03"})) == {}


@pytest.mark.parametrize("change", [None, lambda data: data[:-1], lambda data: data[:20] + b"x" + data[21:], lambda _: b""])
def test_an_index_that_is_lost_or_damaged_costs_time_and_nothing_else(place: str, change: Any) -> None:
    store = open_store(place)
    for path in stored(place, ".idx"):
        if change is None:
            store.delete(path)
        else:
            store.put(path, change(store.get(path)), mode="overwrite")
    with pytest.warns(LogWarning, match=r"the whole of _coverage/segments/.*\.roar is read instead"):
        assert minutes_of(gl.open(place).coverage(entity={"k": "e07"})) == {"e07": missing_minutes("e07")}
    with pytest.warns(LogWarning):
        assert gl.open(place).identities() == [(name,) for name in NAMES]


def test_a_damaged_part_is_named_and_other_parts_are_read(place: str) -> None:
    store = open_store(place)
    for path in stored(place, ".roar"):
        data = bytearray(store.get(path))
        data[-3] ^= 4  # in the bitmap of the last identity
        store.put(path, bytes(data), mode="overwrite")
    table = gl.open(place)
    assert minutes_of(table.coverage(entity={"k": "e07"})) == {"e07": missing_minutes("e07")}
    with pytest.raises(CorruptTable, match="checksum") as damage:
        table.coverage(entity={"k": "e39"})
    assert damage.value.path in stored(place, ".roar")
    with pytest.raises(CorruptTable):
        table.coverage()


def test_a_lost_sidecar_is_named(place: str) -> None:
    lost = stored(place, ".roar")
    for path in lost:
        open_store(place).delete(path)
    with pytest.raises(CorruptTable, match="is lost") as damage:
        gl.open(place).coverage(entity={"k": "e07"})
    assert damage.value.path in lost


def test_indexes_are_named_by_the_log(place: str) -> None:
    report = gl.open(place).verify()
    assert (report.problems, [finding.code for finding in report.findings]) == ((), [])


def test_a_refused_append_leaves_no_index(place: str) -> None:
    before = stored(place, "")
    with pytest.raises(CoverageOverlap):
        gl.open(place).append(rows(900, NAMES))
    assert stored(place, "") == before


def test_0_9_0_reads_a_table_with_indexes(tmp_path: Path) -> None:
    url = filled(tmp_path / "t")
    assert len(stored(url, ".idx")) == 2
    there = ttf.TimeSeriesTable.open(str(tmp_path / "t"))
    assert there.version() == gl.open(tmp_path / "t").version


def test_verify_names_a_wrong_index_and_repair_makes_it_again(place: str) -> None:
    store = open_store(place)
    first, second = stored(place, ".idx")
    sidecar = stored(place, ".roar")[1]
    before = {path: store.get(path) for path in (first, second, sidecar)}
    store.delete(first)
    store.put(second, before[second][:-1] + b"?", mode="overwrite")
    store.delete(sidecar)
    found = [finding for finding in gl.open(place).verify().problems if finding.code == "coverage-index"]
    assert sorted((finding.path, finding.mend) for finding in found) == [(first, "repair"), (second, "repair")]
    assert gl.repair(place, apply=True).ok
    assert {path: store.get(path) for path in before} == before
