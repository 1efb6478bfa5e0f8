"""Appends of several threads through one handle share commits, and each caller gets its own report or its own error."""

from __future__ import annotations

import datetime as dt
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

import gapless as gl
from gapless.errors import CommitConflict, CommitOutcomeUnknown, NullKey
from gapless.tables.timeseries.write.group import Member, append_group
from support.group_members import member

START = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)


def row(hour: int, symbol: str = "A") -> dict[str, object]:
    return {"ts": START + dt.timedelta(hours=hour), "symbol": symbol, "price": float(hour)}


@pytest.fixture
def table(tmp_path: Path) -> gl.TimeSeriesTable:
    table = gl.create(tmp_path / "t", index="ts", entity="symbol", bucket="1h")
    table.append([row(0, "Z")])
    return table


def group(table: gl.TimeSeriesTable, *members: Member) -> list[gl.AppendReport | BaseException]:
    return append_group(lambda: table._snapshot, members)


def test_members_share_one_commit_and_one_segment(table: gl.TimeSeriesTable) -> None:
    results = group(table, member(table, [row(1), row(2)]), member(table, [row(1, "B")]), member(table, [row(5)]))
    assert results == [
        gl.AppendReport(version=3, rows=2, segments=1, buckets=2),
        gl.AppendReport(version=3, rows=1, segments=1, buckets=1),
        gl.AppendReport(version=3, rows=1, segments=1, buckets=1),
    ]
    assert len(table.segments()) == 2
    assert table.scan().count() == 5


def test_an_overlap_fails_only_its_own_caller(table: gl.TimeSeriesTable) -> None:
    fine, again, old, null, last = group(
        table,
        member(table, [row(1)]),
        member(table, [row(1)]),
        member(table, [row(0, "Z")]),
        member(table, [{"ts": None, "symbol": "Q", "price": 1.0}]),
        member(table, [row(2)]),
    )
    assert isinstance(fine, gl.AppendReport)
    assert isinstance(last, gl.AppendReport)
    assert isinstance(again, gl.CoverageOverlap)
    assert isinstance(old, gl.CoverageOverlap)
    assert old.version == 2
    assert isinstance(null, NullKey)
    assert fine.version == last.version == 3
    assert table.scan().count() == 3


def test_skip_counts_what_the_same_group_brought(table: gl.TimeSeriesTable) -> None:
    first, second = group(table, member(table, [row(1)], "skip"), member(table, [row(1), row(2), row(0, "Z")], "skip"))
    assert first == gl.AppendReport(version=3, rows=1, segments=1, buckets=1)
    assert second == gl.AppendReport(version=3, rows=1, segments=1, buckets=1, skipped_rows=2, skipped_buckets=2)


def test_each_policy_keeps_its_own_rules(table: gl.TimeSeriesTable) -> None:
    results = group(table, member(table, [row(1)], "reject"), member(table, [row(1)], "allow"), member(table, [row(1)], "skip"))
    assert [type(result).__name__ for result in results] == ["AppendReport"] * 3
    assert table.scan().count() == 3


def test_a_group_is_judged_by_the_policy_of_the_version_it_follows(table: gl.TimeSeriesTable) -> None:
    early = [
        replace(m, appender=replace(m.appender, by_table=True))
        for m in (member(table, [row(0, "Z")], p) for p in ("allow",) * 2)
    ]
    table.set_properties({"on_overlap": "skip"})
    results = group(table, *early)
    assert [result.skipped_rows for result in results if isinstance(result, gl.AppendReport)] == [1, 1]
    table.set_properties({"on_overlap": "replace"})
    assert {type(result) for result in group(table, *early)} == {CommitConflict}
    assert table.refresh().scan().count() == 1


def test_operation_ids_within_and_across_groups(table: gl.TimeSeriesTable) -> None:
    table.append([row(9)], operation_id="old")
    results = group(
        table,
        member(table, [row(1)], operation=("app", 1)),
        member(table, [row(2)], operation=("app", 1)),
        member(table, [row(3)], operation=("app", 2)),
        member(table, [row(4)], operation="old"),
        member(table, [row(5)], operation="new"),
        member(table, [row(6)]),
    )
    reports = [result for result in results if isinstance(result, gl.AppendReport)]
    assert [report.already_applied for report in reports] == [False, True, False, True, False, False]
    hours = {moment.hour for moment in table.scan(entity={"symbol": "A"}).to_arrow()["ts"].to_pylist()}
    assert hours == {9, 1, 3, 5, 6}
    again = gl.open(table.url)
    assert all(again.append([], operation_id=name).already_applied for name in (("app", 2), "new", "old"))


def test_a_group_that_loses_to_another_writer_is_done_one_by_one(table: gl.TimeSeriesTable) -> None:
    members = [member(table, [row(1)]), member(table, [row(2)])]
    gl.open(table.url).append([row(2)])
    won, lost = group(table, *members)
    assert isinstance(won, gl.AppendReport)
    assert isinstance(lost, gl.CoverageOverlap)
    data = Path(table.url) / "data"
    assert {path.name for path in data.iterdir()} == {Path(s.path).name for s in gl.open(table.url).segments()}


def test_a_group_stands_beside_another_writers_disjoint_commit(table: gl.TimeSeriesTable) -> None:
    gl.open(table.url).append([row(7)])
    results = group(table, member(table, [row(1)]), member(table, [row(2)]))
    assert [result.version for result in results if isinstance(result, gl.AppendReport)] == [4, 4]


def test_an_interrupt_reaches_the_leader_and_tells_the_others(table: gl.TimeSeriesTable) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    members = [member(table, [row(1)]), member(table, [row(2)])]
    object.__setattr__(members[0].appender.context.committer, "moved", interrupted)
    leader, other = group(table, *members)
    assert isinstance(leader, KeyboardInterrupt)
    assert isinstance(other, CommitOutcomeUnknown)


def test_threads_share_commits_and_lose_nothing(table: gl.TimeSeriesTable) -> None:
    def work(number: int) -> list[gl.AppendReport]:
        return [table.append([row(hour, f"S{number}")], operation_id=(f"app-{number}", hour)) for hour in range(20)]

    with ThreadPoolExecutor(8) as threads:
        reports = [report for done in threads.map(work, range(8)) for report in done]
    assert all(report.rows == 1 and not report.already_applied for report in reports)
    versions = {report.version for report in reports}
    assert len(versions) < len(reports), "eight threads that append at once share commits"
    fresh = gl.open(table.url)
    assert fresh.scan().count() == 161
    assert fresh.coverage().ratio == 1.0
    assert max(versions) == fresh.version
