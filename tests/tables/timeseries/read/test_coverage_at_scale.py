"""One identity's gaps in a table of many, read without the others.

What is fabricated: the files hold the first and the last minute of each identity, and the coverage that is stored for them says what
whole years of rows would have made (bitmaps built directly). All else is real: appends, sidecars, indexes, log entries, opening.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from pyroaring import BitMap64

import gapless as gl
from gapless.coverage.bitmap import SIGN, CoverageMap, bitmap_of
from gapless.files.write.segment_encoder import encode_segment
from gapless.model.index import Identity
from gapless.tables.timeseries.write import stage
from support.counting_store import open_counting

MINUTE_US = 60_000_000
FIRST = 28_401_120  # 2024-01-01T00:00Z in minutes
PATTERNS = 16


@dataclass(frozen=True)
class Size:
    """How large a table is made."""

    identities: int
    buckets: int
    segments: int

    def minutes(self, number: int) -> npt.NDArray[np.int64]:
        """Which minutes identity `number` holds: the first and the last, and of the rest nine in ten of its pattern, less one of its own."""
        held = pattern(number % PATTERNS, self.buckets).copy()
        held[self.own_hole(number)] = False
        return np.flatnonzero(held)

    def own_hole(self, number: int) -> int:
        """A minute that this identity lacks, whatever its pattern."""
        return 1 + number % (self.buckets - 2)

    def bitmaps(self, numbers: range) -> CoverageMap:
        """The coverage of these identities."""
        patterns = [
            bitmap_of(np.flatnonzero(pattern(n, self.buckets)).astype(np.uint64) + np.uint64(SIGN + FIRST))
            for n in range(PATTERNS)
        ]
        found: dict[Identity, BitMap64] = {}
        for number in numbers:
            bitmap = patterns[number % PATTERNS].copy()
            bitmap.discard(SIGN + FIRST + self.own_hole(number))
            found[name_of(number),] = bitmap
        return CoverageMap(found)

    def gaps(self, number: int) -> list[tuple[int, int]]:
        """By the minutes alone: the gaps, as minutes since 1970, half-open."""
        held = self.minutes(number) + FIRST
        before = np.flatnonzero(np.diff(held) > 1)
        return [(int(held[at]) + 1, int(held[at + 1])) for at in before]


@cache
def pattern(number: int, buckets: int) -> npt.NDArray[np.bool_]:
    """Nine in ten of so many minutes, the first and the last among them."""
    held = np.random.default_rng(number).random(buckets) < 0.9
    held[[0, -1]] = True
    return held


def name_of(number: int) -> str:
    return f"SYM{number:05}"


def ends(size: Size, numbers: range) -> pa.Table:
    """The rows that are really written: two for each identity."""
    minutes = np.tile([FIRST, FIRST + size.buckets - 1], len(numbers))
    names = np.repeat([name_of(number) for number in numbers], 2)
    return pa.table({"ts": pa.array(minutes * MINUTE_US, pa.timestamp("us", "UTC")), "symbol": names})


def build(place: Path, size: Size, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of `size`; holds the coverage of one segment at a time."""
    gl.create(place, index="ts", entity=["symbol"], bucket="1m")
    honest: Callable[..., Any] = encode_segment
    each = size.identities // size.segments
    for first in range(0, size.identities, each):
        numbers = range(first, first + each)
        covered = size.bitmaps(numbers)
        with monkeypatch.context() as patch:
            patch.setattr(stage, "encode_segment", lambda *args, covered=covered: replace(honest(*args), coverage=covered))
            gl.open(place).append(ends(size, numbers))


def check(place: Path, size: Size) -> dict[str, float]:
    """Open, ask for one identity's gaps, and append to it; how long it took and how many bytes were read."""
    began = time.perf_counter()
    table, store = open_counting(str(place))
    opened = time.perf_counter()
    log_bytes = sum(store.bytes_read.values())
    store.forget()
    asked = size.identities * 2 // 3
    coverage = table.coverage(entity={"symbol": name_of(asked)})
    answered = time.perf_counter()
    gaps = coverage.gaps()
    listed = time.perf_counter()
    assert [(gap.start.timestamp() // 60, gap.end.timestamp() // 60) for gap in gaps] == size.gaps(asked)
    part_bytes, index_bytes = store.under("_coverage", ".roar"), store.under("_coverage", ".idx")
    assert store.under("data") == 0
    (start, end), other = size.gaps(asked)[0], size.minutes(asked)[3]
    refused = pa.table(
        {"ts": pa.array([int(other + FIRST) * MINUTE_US], pa.timestamp("us", "UTC")), "symbol": [name_of(asked)]}
    )
    with pytest.raises(gl.CoverageOverlap):
        table.append(refused)
    fill = [at * MINUTE_US for at in range(start, end)]
    taken = {"ts": pa.array(fill, pa.timestamp("us", "UTC")), "symbol": [name_of(asked)] * len(fill)}
    assert table.append(taken).buckets == end - start
    assert len(table.coverage(entity={"symbol": name_of(asked)}).gaps()) == len(gaps) - 1
    assert store.under("_coverage", ".roar") == part_bytes
    names_began = time.perf_counter()
    assert len(table.identities()) == size.identities
    assert store.under("_coverage", ".roar") == part_bytes
    return {
        "open s": opened - began,
        "one identity's coverage s": answered - opened,
        "its gaps s": listed - answered,
        "gaps": len(gaps),
        "identities() s": time.perf_counter() - names_began,
        "log bytes": log_bytes,
        "index bytes": index_bytes,
        "sidecar bytes read": part_bytes,
        "sidecar bytes": sum(file.stat().st_size for file in place.glob("_coverage/segments/*.roar")),
    }


def show(size: Size, figures: dict[str, float]) -> None:
    shown = ", ".join(
        f"{name} {value:,.3f}" if name.endswith(" s") else f"{name} {value:,.0f}" for name, value in figures.items()
    )
    print(f"\n{size.identities:,} identities x {size.buckets:,} minutes in {size.segments} segments: {shown}")


def test_one_of_400_identities(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = Size(identities=400, buckets=60_000, segments=4)
    build(tmp_path / "t", size, monkeypatch)
    figures = check(tmp_path / "t", size)
    show(size, figures)
    each = figures["sidecar bytes"] / size.identities
    assert figures["sidecar bytes read"] < 2 * each
    assert figures["index bytes"] < size.identities * 50


@pytest.mark.soak
def test_one_of_10_000_identities_with_a_year_of_minutes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = Size(identities=10_000, buckets=525_600, segments=8)
    build(tmp_path / "t", size, monkeypatch)
    figures = check(tmp_path / "t", size)
    show(size, figures)
    assert figures["sidecar bytes"] > 600_000_000
    assert figures["sidecar bytes read"] < 200_000
    assert figures["index bytes"] < 500_000
