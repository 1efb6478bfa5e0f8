"""Which vacuums are at work, as far as the log tells, and what they may delete."""

from __future__ import annotations

import pytest

from gapless.formats.delta.actions import AddFile, Commit, RemoveFile
from gapless.tables.delta.care.restore import endangered

HOUR_NS = 3_600 * 10**9
NOW_NS = 100_000 * HOUR_NS
OURS = "gapless/1.2.3"
Entry = tuple[int, Commit, int]


def start(version: int, hours_ago: float, retention_hours: int) -> Entry:
    parameters = {"specifiedRetentionMillis": retention_hours * 3_600_000}
    return (
        version,
        Commit(id="", operation="VACUUM START", actions=(), parameters=parameters),
        NOW_NS - int(hours_ago * HOUR_NS),
    )


def end(version: int, of: int | None, engine: str = OURS) -> Entry:
    return version, Commit(id="", operation="VACUUM END", actions=(), read_version=of, engine=engine), NOW_NS


def dangers(*entries: Entry, removed_hours_ago: float = 48) -> bool:
    deleted_ms = (NOW_NS - int(removed_hours_ago * HOUR_NS)) // 10**6
    gone = RemoveFile(path="x.parquet", deleted_ms=deleted_ms)
    add = AddFile(path="x.parquet", size=1, modified_ms=0)
    return endangered([add], {add.key: gone}, entries, NOW_NS) is not None


def test_a_vacuum_that_began_dooms_what_it_deletes_until_its_end_or_for_a_day() -> None:
    assert dangers(start(5, 1, 24))
    assert not dangers(start(5, 1, 24), removed_hours_ago=20)
    assert not dangers(start(5, 1, 24), end(6, 5))
    assert not dangers(start(5, 25, 20))


@pytest.mark.parametrize(("of", "doomed"), [(5, False), (6, True), (4, True), (None, True)])
def test_our_end_is_that_of_the_start_that_it_was_made_for(of: int | None, doomed: bool) -> None:
    """Of the week's, version 6, the day's takes more; an end of one that began before the file went says nothing of either."""
    assert dangers(start(5, 1, 24), start(6, 1, 168), end(7, of)) is doomed


@pytest.mark.parametrize(("status", "doomed"), [("FAILED", True), ("COMPLETED", False)])
def test_a_vacuum_that_failed_may_still_delete(status: str, doomed: bool) -> None:
    """The answer to a deletion was lost, and it takes effect later: seed 901486952323000178 of Delta tables."""
    commit = Commit(id="", operation="VACUUM END", actions=(), parameters={"status": status}, read_version=5, engine=OURS)
    assert dangers(start(5, 1, 24), (6, commit, NOW_NS)) is doomed


def test_anothers_end_leaves_the_one_that_deletes_most() -> None:
    for two in ((start(5, 1, 24), start(6, 1, 168)), (start(5, 1, 168), start(6, 1, 24))):
        assert dangers(*two, end(7, 6, "Apache-Spark/4.1.0 Delta-Lake/4.4.0"))
        assert not dangers(*two, end(7, 6, "Apache-Spark/4.1.0 Delta-Lake/4.4.0"), end(8, 7, ""))
    assert not dangers(start(5, 1, 24), end(6, 5, ""))
