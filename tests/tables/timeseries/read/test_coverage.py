"""Coverage of a table; the arithmetic has its own tests."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import gapless as gl
from gapless.errors import InvalidOption, InvalidTime, UnknownColumn
from gapless.files.write import staged_write
from support.faulty_store import PatientClock, open_faulty

T0 = datetime(2024, 1, 1, tzinfo=UTC)
_counter = itertools.count()


def hour(number: float) -> datetime:
    return T0 + timedelta(hours=number)


def filled(**options: Any) -> gl.TimeSeriesTable:
    """A has hours 0, 1 and 4; B hours 2 and 3, in several appends."""
    table = gl.create(f"memory://coverage-{next(_counter)}", index="ts", entity=["k"], bucket="1h", **options)
    for at, k in ((0, "A"), (3, "B"), (1, "A"), (2, "B"), (4, "A")):
        table.append({"ts": [hour(at), hour(at + 0.5)], "k": [k, k]})
    return table


def gaps(coverage: gl.Coverage[Any]) -> list[tuple[object, datetime, datetime, int]]:
    return [(gap.identity[0], gap.start, gap.end, gap.buckets) for gap in coverage.gaps()]


@pytest.mark.parametrize("inline", [0, 1 << 20])
def test_each_identity_is_expected_from_its_first_to_its_last_bucket(monkeypatch: pytest.MonkeyPatch, inline: int) -> None:
    monkeypatch.setattr(staged_write, "INLINE_COVERAGE_BYTES", inline)
    for table in (filled(), gl.open(filled().url)):
        assert gaps(table.coverage()) == [("A", hour(2), hour(4), 2)]
        assert table.coverage().ratio == 5 / 7
        assert table.coverage().union().gaps() == []
        assert table.identities() == [("A",), ("B",)]


def test_cov_05_the_end_is_exclusive() -> None:
    table = gl.create(f"memory://coverage-{next(_counter)}", index="ts", bucket="1h")
    table.append({"ts": [hour(10), hour(11)]})
    assert table.coverage(hour(10), hour(12)).gaps() == []
    (gap,) = table.coverage(hour(10), hour(12) + timedelta(microseconds=1)).gaps()
    assert (gap.start, gap.end) == (hour(12), hour(13))
    empty = table.coverage(hour(12), hour(12))
    assert (empty.gaps(), empty.ratio) == ([], 1.0)


def test_identities_that_never_arrived_are_one_gap() -> None:
    table = filled()
    expected = table.coverage(hour(0), hour(5), identities=["A", ("C",), {"k": "D"}])
    assert gaps(expected) == [("A", hour(2), hour(4), 2), ("C", hour(0), hour(5), 5), ("D", hour(0), hour(5), 5)]
    assert gaps(table.coverage(entity={"k": ["B"]})) == []
    for wrong in ([1], [("A", "B")], [{"x": 1}], [None]):
        with pytest.raises(InvalidOption):
            table.coverage(identities=wrong)
    with pytest.raises(UnknownColumn):
        table.coverage(entity={"ts": 1})


def test_now_is_the_end_of_the_last_bucket_that_has_ended() -> None:
    table, _ = open_faulty(filled().url)
    clock = table._env.clock
    assert isinstance(clock, PatientClock)
    clock.now_s = hour(7.5).timestamp()
    assert gaps(table.coverage(end="now")) == [
        ("A", hour(2), hour(4), 2),
        ("A", hour(5), hour(7), 2),
        ("B", hour(4), hour(7), 3),
    ]
    integers = gl.create(f"memory://coverage-{next(_counter)}", index="i", index_type="int64", bucket=1)
    with pytest.raises(InvalidOption):
        integers.coverage(end="now")


def test_a_range_may_be_open_at_either_end() -> None:
    table = filled()
    assert gaps(table.coverage(hour(-1))) == [
        ("A", hour(-1), hour(0), 1),
        ("A", hour(2), hour(4), 2),
        ("B", hour(-1), hour(2), 3),
    ]
    assert gaps(table.coverage(end=hour(5))) == [("A", hour(2), hour(4), 2), ("B", hour(4), hour(5), 1)]
    with pytest.raises(InvalidTime):
        table.coverage(datetime(2024, 1, 1))


def test_cov_04_local_months_have_neither_gaps_nor_doubles() -> None:
    table = gl.create(f"memory://coverage-{next(_counter)}", index="ts", bucket="1mo", timezone="Europe/Berlin")
    table.append({"ts": [datetime(2023, month, 1) for month in range(1, 13)]})
    coverage = table.coverage("2023-01-01", "2024-01-01")
    assert (coverage.gaps(), coverage.expected, coverage.covered) == ([], 12, 12)
    starts = [bucket.start.astimezone(UTC) for bucket in coverage.buckets()]
    assert [start.hour for start in starts] == [23, 23, 23, 22, 22, 22, 22, 22, 22, 22, 23, 23]
    assert starts == sorted(starts)


def test_an_answer_stays_at_its_version() -> None:
    table = filled()
    before = table.coverage()
    table.append({"ts": [hour(2)], "k": ["A"]})
    assert gaps(before) == [("A", hour(2), hour(4), 2)]
    assert gaps(table.coverage()) == [("A", hour(3), hour(4), 1)]
