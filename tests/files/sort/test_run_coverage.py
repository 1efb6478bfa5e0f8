"""Coverage that is found by stretches is the one that each row tells by itself."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless.coverage.bitmap import SIGN, CoverageMap, bias, stored_ids
from gapless.coverage.bucket import Grid, grid_of
from gapless.coverage.codec import encode
from gapless.files.sort import run
from gapless.files.sort.run import coverage_of
from gapless.model.index import IntWidth, parse_bucket

NAMES = [("a",), ("b",), ("",)]
LOW, HIGH, TOP = -(2**63), 2**63 - 1, 2**64 - 1
runs = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.integers(-40, 40) | st.sampled_from([LOW, LOW + 5, HIGH - 60, HIGH]),
        st.integers(1, 60),
        st.integers(1, 3),
    ),
    max_size=6,
)
"""Rows in stretches: of which identity, from which value on, how many, how far apart."""


def oracle(rows: list[tuple[int, int]], grid: Grid, *, signed: bool) -> dict[Any, set[int]]:
    found: dict[Any, set[int]] = {}
    for code, value in rows:
        found.setdefault(NAMES[code], set()).add(grid.id_of(value) + bias(signed=signed))
    return found


@pytest.fixture(params=["few rows", "small blocks", "one block"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """So few rows as a test has, taken as few and as many; blocks of them so small that some are of stretches and some are not."""
    if request.param != "few rows":
        monkeypatch.setattr(run, "FEW_ROWS", 0)
        monkeypatch.setattr(run, "_LONG", 4)
        monkeypatch.setattr("gapless.runtime.concurrency.WORTH_THREADS_BYTES", 0)
    if request.param == "small blocks":
        monkeypatch.setattr(run, "_BLOCK_ROWS", 16)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("width", [1, 2, 7])
@settings(max_examples=80, deadline=None)
@given(stretches=runs)
def test_coverage_is_what_each_row_tells(signed: bool, width: int, stretches: list[tuple[int, int, int, int]]) -> None:
    shift = 0 if signed else 2**63
    highest = HIGH + shift
    rows = sorted(
        (code, value)
        for code, start, count, step in stretches
        for value in range(start + shift, start + shift + count * step, step)
        if value <= highest
    )
    grid = grid_of(IntWidth(width), signed=signed)
    values = np.array([value for _, value in rows], np.int64 if signed else np.uint64)
    codes = np.array([code for code, _ in rows], np.uint8)
    made = coverage_of(NAMES, codes, values, grid.ids)
    assert {identity: set(bitmap) for identity, bitmap in made.items()} == oracle(rows, grid, signed=signed)
    alone = CoverageMap.from_runs(NAMES, codes, stored_ids(grid.ids(values)))
    assert encode(made, ("utf8",)) == encode(alone, ("utf8",)), "however it was made"


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("bucket", ["1h", "1mo", "1d", "1w"])
@pytest.mark.parametrize("zone", [None, "Europe/Rome"])
def test_buckets_of_every_kind(bucket: str, zone: str | None) -> None:
    if zone and bucket == "1h":
        zone = None
    grid = grid_of(parse_bucket(bucket, "timestamp", zone), signed=True)
    dice = np.random.default_rng(5)
    hours = [np.arange(-300, 2_000), np.cumsum(dice.integers(0, 90, 300)) - 5_000, np.repeat(np.arange(5), 40)]
    rows = [(code, int(hour) * 3_600_000_000_000) for code, some in enumerate(hours) for hour in some]
    values = np.array([value for _, value in rows])
    made = coverage_of(NAMES, np.array([code for code, _ in rows], np.uint8), values, grid.ids)
    assert {identity: set(bitmap) for identity, bitmap in made.items()} == oracle(rows, grid, signed=True)


def test_a_block_in_which_nothing_begins_adds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_BLOCK_ROWS", 4)
    made = coverage_of([("a",)], np.zeros(11, np.uint8), np.array([7] * 9 + [8, 30]), grid_of(IntWidth(1)).ids)
    assert set(made[("a",)]) == {SIGN + 7, SIGN + 8, SIGN + 30}
    assert coverage_of([], np.zeros(0, np.uint8), np.zeros(0, np.int64), grid_of(IntWidth(1)).ids) == CoverageMap()


def test_an_error_of_a_bucket_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_BLOCK_ROWS", 2)
    monkeypatch.setattr("gapless.runtime.concurrency.WORTH_THREADS_BYTES", 0)

    def refuse(values: Any) -> Any:
        if 5 in values:
            raise ZeroDivisionError
        return values

    with pytest.raises(ZeroDivisionError):
        coverage_of([("a",)], np.zeros(8, np.uint8), np.arange(8), refuse)


@given(
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=4),
    st.lists(
        st.tuples(
            st.integers(0, 3),
            st.integers(0, 50) | st.integers(TOP - 50, TOP) | st.integers(2**16 - 9, 2**16 + 9),
            st.integers(0, 30) | st.just(70_000),
        ),
        max_size=12,
    ),
)
def test_stretches_in_any_order_are_the_sets_they_hold(names: list[Any], stretches: list[tuple[int, int, int]]) -> None:
    pairs = [(code % len(names), first, min(TOP, first + more)) for code, first, more in stretches]
    codes = np.array([code for code, _, _ in pairs], np.int16)
    firsts, lasts = (np.array([pair[at] for pair in pairs], np.uint64) for at in (1, 2))
    model: dict[Any, set[int]] = {}
    for code, first, last in pairs:
        model.setdefault(names[code], set()).update(range(first, last + 1))
    made = CoverageMap.from_stretches(names, codes, firsts, lasts)
    assert {identity: set(bitmap) for identity, bitmap in made.items()} == model


def test_the_real_blocks_of_rows_agree_with_their_rows() -> None:
    """Regular series with outages beside an irregular one, over several blocks of the size that they have."""
    dice = np.random.default_rng(3)
    series = [np.flatnonzero(dice.random(90_000) > 0.0005), np.cumsum(dice.integers(0, 4, 40_000)), np.arange(70_000) // 7]
    codes = np.repeat(np.arange(3), [len(one) for one in series]).astype(np.uint8)
    made = coverage_of(NAMES, codes, np.concatenate(series), grid_of(IntWidth(1)).ids)
    for name, one in zip(NAMES, series, strict=True):
        assert np.array_equal(
            np.frombuffer(made[name].to_array(), np.uint64), np.unique(one).astype(np.uint64) + np.uint64(SIGN)
        )
    kinds = {len(one.lasts) > 0 for one in _blocks(codes, np.concatenate(series))}
    assert kinds == {True, False}, "both ways were taken"


def _blocks(codes: Any, ids: Any) -> list[Any]:
    edges = [*range(0, len(codes), run._BLOCK_ROWS), len(codes)]
    return [run._found(codes[a:b], ids[a:b], whole=True) for a, b in pairwise(edges)]
