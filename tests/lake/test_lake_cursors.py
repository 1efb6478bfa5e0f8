"""Cursors: monotonic ones across zones and nulls, leases of the others."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gapless as gl
from gapless.errors import AmbiguousTime, InvalidOption, InvalidTime, InvalidValue, LeaseRefused, NullKey, UnknownColumn
from gapless.lake import Monotonic, Page
from gapless.lake.cursors import is_behind
from gapless.lake.lake import Lake
from gapless.lake.opening import open_lake
from gapless.runtime.environment import Environment, SystemClock
from gapless.store.local.store import LocalStore
from support.lake_catalogs import catalog_of, wipe_catalog

ZONES = ("Pacific/Auckland", "America/Los_Angeles")


class ByUtcDay:
    """A source that is asked by UTC day, and gives local times without an offset."""

    def __init__(self, zone: str, moments: list[datetime]) -> None:
        self.zone, self.moments = zone, moments

    def __call__(self, since: str | None) -> list[dict[str, object]]:
        first = datetime.fromisoformat(since) if since else datetime.min.replace(tzinfo=UTC)
        found = [one for one in self.moments if one > first]
        return [
            {"id": one.timestamp(), "at": one.astimezone(ZoneInfo(self.zone)).replace(tzinfo=None).isoformat()} for one in found
        ]


@pytest.mark.parametrize("zone", ZONES)
def test_run_06_a_cursor_in_local_time_skips_no_row_on_either_side_of_utc(lake: Lake, zone: str) -> None:
    table = lake.create_table("t")
    late = datetime(2024, 1, 1, 23, 30, tzinfo=ZoneInfo(zone)).astimezone(UTC)
    moments = [late + timedelta(hours=hours) for hours in range(-30, 1)]
    source = ByUtcDay(zone, moments)
    lake.run("t", source, cursor=Monotonic(column="at", timezone=zone))
    assert table.cursor() == late.strftime("%Y-%m-%dT%H:%M:%SZ")
    source.moments = [*moments, *(late + timedelta(hours=hours) for hours in range(1, 30))]
    lake.run("t", source, cursor=Monotonic(column="at", timezone=zone))
    found = sorted(lake.query("SELECT id FROM t").to_arrow().column("id").to_pylist())
    assert found == [one.timestamp() for one in source.moments]


def test_run_06_times_without_a_zone_are_refused(lake: Lake) -> None:
    table = lake.create_table("t")
    for value in ("2024-01-01T23:30", datetime(2024, 1, 1, 23, 30)):
        with pytest.raises(InvalidTime, match="zone"):
            lake.run("t", [{"at": value}], cursor=Monotonic(column="at"))
    assert table.manifests() == ()
    lake.run("t", [{"at": "2024-01-01T23:30+13:00"}, {"at": "2024-01-01T11:00Z"}], cursor=Monotonic(column="at"))
    assert table.cursor() == "2024-01-01T11:00:00Z"


def test_run_06_rows_without_a_value_go_by_the_policy(lake: Lake) -> None:
    table = lake.create_table("t")
    rows = [{"id": 1, "n": 5}, {"id": 2, "n": None}]
    with pytest.raises(NullKey, match="row 1"):
        lake.run("t", rows, cursor=Monotonic(column="n"))
    lake.run("t", rows, cursor=Monotonic(column="n", nulls="include"))
    assert (table.cursor(), table.count()) == (5, 2)
    with pytest.raises(UnknownColumn):
        lake.run("t", [{"id": 3}], cursor=Monotonic(column="n"))


@pytest.mark.usefixtures("backend")
def test_run_06_an_empty_run_keeps_the_cursor(lake: Lake) -> None:
    table = lake.create_table("t")
    lake.run("t", [], cursor=Monotonic(column="n"))
    assert table.cursor() is None
    lake.run("t", [{"n": 7}], cursor=Monotonic(column="n"))
    lake.run("t", [], cursor=Monotonic(column="n"))
    lake.run("t", pa.table({"n": pa.array([None], pa.int64())}), cursor=Monotonic(column="n", nulls="include"))
    lake.run("t", [{"n": 3}], cursor=Monotonic(column="n"))
    assert table.cursor() == 7


def test_a_time_that_comes_twice_is_no_cursor(lake: Lake) -> None:
    lake.create_table("t")
    for value in ("2024-04-07T02:30", datetime(2024, 4, 7, 2, 30)):
        with pytest.raises(AmbiguousTime):
            lake.run("t", [{"at": value}], cursor=Monotonic(column="at", timezone="Pacific/Auckland"))


def test_other_values_of_cursors(lake: Lake) -> None:
    cases: list[tuple[list[object], str]] = [
        ([datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, 0, 0, 0, 5, tzinfo=UTC)], "2024-01-01T00:00:00.000005Z"),
        ([datetime(2024, 1, 1).date()], "2024-01-01"),
        (["b", "a"], "b"),
    ]
    for number, (values, after) in enumerate(cases):
        table = lake.create_table(f"t{number}")
        lake.run(f"t{number}", [{"x": value} for value in values], cursor=Monotonic(column="x"))
        assert table.cursor() == after
    with pytest.raises(InvalidOption, match="no cursor is made of"):
        lake.run("t0", [{"x": 1.5}], cursor=Monotonic(column="x"), pipeline="other")
    with pytest.raises(InvalidTime, match="among times"):
        lake.run("t2", [{"x": "2024-01-01T00:00Z"}, {"x": "soon"}], cursor=Monotonic(column="x"), pipeline="other")
    with pytest.raises(InvalidValue, match="further"):
        lake.run("t2", [{"x": 4}], cursor=Monotonic(column="x"))
    with pytest.raises(InvalidOption, match="timezone"):
        Monotonic(column="x", timezone="Mars/Olympus")


@given(st.datetimes(), st.datetimes())
def test_texts_of_times_order_as_the_times(one: datetime, other: datetime) -> None:
    assert is_behind(one.isoformat() + "Z", other.isoformat() + "Z") == (one < other)


@pytest.mark.usefixtures("backend")
def test_cursors_of_one_table_are_by_pipeline_and_kind(lake: Lake) -> None:
    table = lake.create_table("t")
    lake.run("t", [{"n": 1}], cursor=Monotonic(column="n"), pipeline="a")
    lake.run("t", lambda _: iter([Page([{"n": 2}], "tok")]), cursor="opaque", pipeline="b")
    assert (table.cursor("a"), table.cursor("b"), table.cursor()) == (1, "tok", None)
    with pytest.raises(InvalidOption, match="is opaque"):
        lake.run("t", [{"n": 1}], cursor=Monotonic(column="n"), pipeline="b")


class Clock(SystemClock):
    """Time that a test moves."""

    def __init__(self) -> None:
        self.now = 1_800_000_000_000_000_000

    def now_ns(self) -> int:
        return self.now

    def monotonic(self) -> float:
        return self.now / 1e9


@pytest.fixture
def clock() -> Clock:
    return Clock()


def at(tmp_path: Path, clock: Clock, node: str) -> Lake:
    root = tmp_path / "lake"
    return Lake(Environment(store=LocalStore(str(root)), clock=clock), catalog_of(root), node)


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("kind", ["opaque", "snapshot"])
def test_an_opaque_cursor_is_one_runs_alone(lake: Lake, tmp_path: Path, clock: Clock, kind: str) -> None:
    lake.create_table("t")
    one, two = at(tmp_path, clock, "one"), at(tmp_path, clock, "two")

    def meanwhile(_: Any) -> Iterator[Page]:
        with pytest.raises(LeaseRefused, match="one:"):
            two.run("t", lambda _: iter([Page([{"n": 2}], 2)]), cursor=kind)
        yield Page([{"n": 1}], 1)

    one.run("t", meanwhile, cursor=kind)
    assert two.run("t", lambda token: iter([Page([{"n": token + 1}], token + 1)]), cursor=kind).cursor == 2
    assert [one.cursor.fence for one in lake.table("t").manifests() if one.cursor] == [1, 2]


@pytest.mark.usefixtures("backend")
def test_who_slept_past_its_lease_is_refused_at_the_commit(lake: Lake, tmp_path: Path, clock: Clock) -> None:
    lake.create_table("t")
    one, two = at(tmp_path, clock, "one"), at(tmp_path, clock, "two")

    def slow(token: Any, others: bool) -> Iterator[Page]:
        yield Page([{"n": 1}], 1)
        clock.now += 61 * 10**9
        if others:
            two.run("t", lambda _: iter([Page([{"n": 1}], 1)]), cursor="opaque")

    for others in (False, True):
        with pytest.raises(LeaseRefused, match="lost"):
            one.run("t", lambda token, others=others: slow(token, others), cursor="opaque")
        assert lake.table("t").count() == int(others) if lake.table("t").schema.names else not others


@pytest.mark.usefixtures("backend")
def test_a_lease_is_renewed_between_pages(lake: Lake, tmp_path: Path, clock: Clock) -> None:
    lake.create_table("t")

    def slow(_: Any) -> Iterator[Page]:
        for number in range(5):
            clock.now += 40 * 10**9
            yield Page([{"n": number}], number)

    assert at(tmp_path, clock, "one").run("t", slow, cursor="opaque").rows == 5


@pytest.mark.usefixtures("backend")
def test_a_lease_is_gone_with_the_catalog(lake: Lake, tmp_path: Path, clock: Clock) -> None:
    """Its number goes on behind those of the manifests."""
    lake.create_table("t")
    one = at(tmp_path, clock, "one")
    one.run("t", lambda _: iter([Page([{"n": 1}], 1)]), cursor="opaque")

    def removed(_: Any) -> Iterator[Page]:
        yield Page([{"n": 2}], 2)
        wipe_catalog(tmp_path / "lake")

    with pytest.raises(LeaseRefused, match="lost"):
        one.run("t", removed, cursor="opaque")
    open_lake(tmp_path / "lake").run("t", lambda _: iter([Page([{"n": 3}], 3)]), cursor="opaque")
    assert sorted(found.cursor.fence for found in lake.table("t").manifests() if found.cursor) == [1, 2]


def test_what_comes_later_is_newer_though_a_clock_went_back(lake: Lake, tmp_path: Path, clock: Clock) -> None:
    table = lake.create_table("t", key=["id"])
    for number in range(6):
        at(tmp_path, clock, "one").run("t", [{"id": 1, "v": number}])
        clock.now -= 10**9 * (number % 2)
        assert table.to_arrow().to_pylist() == [{"id": 1, "v": number}]


@pytest.mark.usefixtures("backend")
def test_monotonic_runs_go_side_by_side(lake: Lake, tmp_path: Path) -> None:
    table = lake.create_table("t")
    other = open_lake(tmp_path / "lake", node="two")

    def meanwhile(_: Any) -> list[dict[str, int]]:
        other.run("t", [{"n": 9}], cursor=Monotonic(column="n"))
        return [{"n": 5}]

    lake.run("t", meanwhile, cursor=Monotonic(column="n"))
    assert (table.cursor(), table.count()) == (9, 2)


def test_a_source_of_connect_goes_on_where_it_was(lake: Lake, tmp_path: Path) -> None:
    table = lake.create_table("t")
    (tmp_path / "in").mkdir()
    for number in range(3):
        (tmp_path / "in" / f"{number}.csv").write_text(f"id,v\n{number},a\n")
        with gl.connect.source(f"files:{tmp_path}/in/*.csv") as source:
            assert lake.run("t", source).rows == 1
    with gl.connect.source(f"files:{tmp_path}/in/*.csv") as source:
        assert lake.run("t", source).rows == 0
        with pytest.raises(InvalidOption, match="its own"):
            lake.run("t", source, cursor=Monotonic(column="id"))
    assert table.count() == 3
    assert table.lineage()[0]["source"].startswith("files:")
