"""Going back to an earlier version, and names that keep versions."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import CorruptTable, InvalidOption, VersionNotFound
from gapless.formats.timeseries.actions import Action, Commit, ExpireVersions, ForgetSegments
from gapless.formats.timeseries.format import TIME_SERIES
from gapless.log.effects import Conversation
from gapless.log.format import Compatible
from gapless.runtime.committer import Committer, Proposal
from support.faulty_store import is_commit, once, open_faulty
from support.hourly import START, hours

_counter = itertools.count()


@pytest.fixture
def table() -> gl.TimeSeriesTable:
    """2: hours 0 and 1 of A; 3: hour 0 of B; 4: hour 1 of A is 5.0; 5: hour 0 of B is gone."""
    table = gl.create(f"memory://restore-{next(_counter)}", index="ts", entity="sym", bucket="1h")
    table.append(hours(0, 1))
    table.append(hours(0, sym="B"))
    table.upsert(hours(1, x=5.0))
    table.delete(entity={"sym": "B"})
    assert table.version == 5
    return table


def rows(table: gl.TableView) -> list[dict[str, Any]]:
    return sorted(table.scan().to_arrow().to_pylist(), key=lambda row: (row["sym"], row["ts"]))


def same(mine: gl.TableView, other: gl.TableView) -> bool:
    """Whether two versions hold the same, and their coverage is right."""
    schemas = mine.schema == other.schema and (mine.schema is None or mine.schema.equals(other.schema, check_metadata=True))
    alike = rows(mine) == rows(other) and mine.properties == other.properties and mine.index == other.index
    coverages = [(one.coverage().covered, one.coverage().gaps()) for one in (mine, other)] if mine.segments() else [0, 0]
    return schemas and alike and coverages[0] == coverages[1] and mine.identities() == other.identities()


def commit_beside(place: str, *actions: Action) -> None:
    """Another process commits these actions, which nothing clashes with."""

    def check_conflict(mine: Commit, _version: int, _theirs: Commit) -> Conversation[Compatible[Commit]]:
        yield from ()
        return Compatible(mine)

    other = gl.open(place)
    commit = Commit(id=f"beside-{next(_counter)}", operation="other", actions=actions)
    Committer(table_format=TIME_SERIES, env=other._env, moved=lambda _: None).land(
        other._snapshot, lambda _: Proposal(commit=commit, check_conflict=check_conflict)
    )


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_a_restored_version_is_as_it_was_and_no_version_is_lost(table: gl.TimeSeriesTable, version: int) -> None:
    report = table.restore(version)
    assert (report.version, report.restored) == (6, version)
    assert table.version == 6
    assert same(table, table.at(version))
    assert table.verify(deep=True).ok
    assert same(gl.open(table.url), table.at(version))
    table.restore(5)
    assert same(table, table.at(5))


def test_log_17_going_back_takes_a_new_number(table: gl.TimeSeriesTable) -> None:
    table.restore(2)
    table.append(hours(9))
    assert [entry.version for entry in gl.open(table.url).history()] == list(range(1, 8))
    assert table.at(5).scan().count() == 2


def test_the_report_counts_what_came_and_went(table: gl.TimeSeriesTable) -> None:
    assert table.restore(3) == gl.RestoreReport(
        version=6, restored=3, added_segments=2, removed_segments=1, added_rows=3, removed_rows=2
    )
    entry = table.history()[-1]
    assert (entry.operation, entry.parameters) == ("restore", {"version": 3})
    assert (entry.rows, entry.removed_rows, entry.segments, entry.removed_segments) == (3, 2, 2, 1)


def test_a_version_is_restored_by_time_and_by_tag(table: gl.TimeSeriesTable) -> None:
    table.tag("good", 3)
    assert table.restore(tag="good").restored == 3
    assert table.restore(time=table.history()[1].time).restored == 2


def test_restoring_what_the_table_is_makes_no_commit(table: gl.TimeSeriesTable) -> None:
    assert table.restore(5) == gl.RestoreReport(version=5, restored=5)
    assert len(table.history()) == 5


def test_restored_rows_can_be_appended_to_and_corrected(table: gl.TimeSeriesTable) -> None:
    table.restore(3)
    with pytest.raises(gl.CoverageOverlap):
        table.append(hours(0, sym="B"))
    table.append(hours(2))
    table.upsert(hours(0, x=9.0))
    assert Counter(row["x"] for row in rows(table)) == {9.0: 1, 0.0: 3}
    assert table.verify(deep=True).ok


def test_columns_and_properties_come_back(table: gl.TimeSeriesTable) -> None:
    table.rename_column("x", "value")
    table.add_column("note", pa.string(), default="-")
    table.drop_column("value")
    table.restore(4)
    assert same(table, table.at(4))
    table.restore(8)
    assert same(table, table.at(8))
    table.restore(4)
    table.append(hours(7, x=7.0))
    assert [row["x"] for row in rows(table)] == [0.0, 5.0, 7.0, 0.0]


def test_a_column_that_came_after_the_version_gives_its_stored_name_to_no_other(table: gl.TimeSeriesTable) -> None:
    """Else what versions in between held under that name would come back as values of another column."""
    table.add_column("note", pa.string())
    table.append(pa.table({"ts": [START + timedelta(hours=8)], "sym": ["A"], "x": [1.0], "note": ["theirs"]}))
    first = table.version
    table.restore(5)
    table.add_column("note", pa.string())
    assert table.changes(first, first).to_arrow()["note"].to_pylist() == ["theirs"]
    assert table.changes(first).to_arrow()["note"].to_pylist() == [None, None]
    table.restore(first)
    assert [row["note"] for row in rows(table)] == [None, None, "theirs"]


def test_nested_fields_that_came_after_the_version_give_their_stored_names_to_no_other() -> None:
    table = gl.create(f"memory://restore-{next(_counter)}", index="ts", bucket="1h")
    table.append(pa.table({"ts": [START], "s": [{"a": 1}]}))
    table.add_column("s.b", pa.int64())
    table.append(pa.table({"ts": [START + timedelta(hours=1)], "s": [{"a": 2, "b": 2}]}))
    table.restore(2)
    table.add_column("s.b", pa.int64())
    assert table.changes(4, table.version).to_arrow()["s"].to_pylist() == [{"a": 2, "b": None}, {"a": 2, "b": None}]


def test_an_empty_table_comes_back_without_columns(table: gl.TimeSeriesTable) -> None:
    table.restore(1)
    assert (table.schema, table.segments()) == (None, ())
    table.append(pa.table({"ts": [START], "sym": ["A"], "y": ["other"]}))
    assert table.scan().to_arrow()["y"].to_pylist() == ["other"]


def test_duckdb_reads_the_restored_files(tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="ts", entity="sym", bucket="1h")
    table.append(hours(0, 1))
    table.upsert(hours(1, x=5.0))
    table.restore(2)
    files = [str(tmp_path / "t" / segment.path) for segment in table.segments()]
    assert duckdb.connect().execute("select x from read_parquet(?)", [files]).fetchall() == [(0.0,), (0.0,)]


def test_a_missing_file_is_seen_before_the_commit(tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="ts", entity="sym", bucket="1h")
    table.append(hours(0, 1))
    lost = table.segments()[0].path
    table.upsert(hours(1, x=5.0))
    (tmp_path / "t" / lost).unlink()
    with pytest.raises(CorruptTable, match="nothing was changed"):
        table.restore(2)
    assert gl.open(tmp_path / "t").version == 3


@pytest.mark.parametrize("version", [0, 6])
def test_what_is_no_version_is_not_restored(table: gl.TimeSeriesTable, version: int) -> None:
    with pytest.raises(VersionNotFound, match="The table has versions 1 to 5"):
        table.restore(version)


# -- races ---------------------------------------------------------------------------------------------------------------


def racing(place: str, beside: Callable[[], object]) -> gl.TimeSeriesTable:
    """A handle right before whose next commit something else happens."""
    table, store = open_faulty(place)
    store.before_put = once(beside, is_commit)
    return table


def test_an_append_that_came_first_is_undone_too(table: gl.TimeSeriesTable) -> None:
    handle = racing(table.url, lambda: gl.open(table.url).append(hours(9)))
    report = handle.restore(3)
    assert (report.version, report.removed_segments) == (7, 2)
    assert same(handle, handle.at(3))


def test_a_compaction_that_came_first_is_undone_too(table: gl.TimeSeriesTable) -> None:
    table.append(hours(8))
    handle = racing(table.url, lambda: gl.open(table.url).compact())
    handle.restore(3)
    assert same(handle, handle.at(3))
    assert handle.verify(deep=True).ok


def test_columns_that_came_first_are_undone_too(table: gl.TimeSeriesTable) -> None:
    handle = racing(table.url, lambda: gl.open(table.url).add_column("note", pa.string()))
    handle.restore(3)
    assert same(handle, handle.at(3))


def test_a_tag_that_came_first_does_not_matter(table: gl.TimeSeriesTable) -> None:
    handle = racing(table.url, lambda: gl.open(table.url).tag("a"))
    assert handle.restore(3).version == 7
    assert handle.tags == {"a": 5}


def test_an_append_that_lost_to_a_restore_is_judged_by_what_it_brought_back(table: gl.TimeSeriesTable) -> None:
    handle = racing(table.url, lambda: gl.open(table.url).restore(3))
    with pytest.raises(gl.CoverageOverlap):
        handle.append(hours(0, sym="B"))
    other = racing(table.url, lambda: gl.open(table.url).restore(2))
    assert other.append(hours(5)).version == 8
    assert Counter(row["x"] for row in rows(other)) == {0.0: 3}


def test_expiry_that_came_first_refuses_the_restore(table: gl.TimeSeriesTable) -> None:
    handle = racing(table.url, lambda: commit_beside(table.url, ExpireVersions(5)))
    with pytest.raises(VersionNotFound, match="version 3 can be read no longer"):
        handle.restore(3)
    assert gl.open(table.url).version == 6


def test_vacuum_that_came_first_refuses_the_restore(table: gl.TimeSeriesTable) -> None:
    """Expiry and vacuum, both while the restore was under way: nothing of what goes may be brought back."""
    gone = tuple(segment.path for segment in table.at(3).segments())
    handle = racing(table.url, lambda: commit_beside(table.url, ExpireVersions(5), ForgetSegments(gone)))
    with pytest.raises(VersionNotFound, match="version 3 can be read no longer"):
        handle.restore(3)
    assert gl.open(table.url).version == 6


def test_a_tagged_version_is_restored_though_it_expired(table: gl.TimeSeriesTable) -> None:
    table.tag("kept", 3)
    commit_beside(table.url, ExpireVersions(5))
    assert table.restore(tag="kept").restored == 3
    with pytest.raises(VersionNotFound, match=r"'kept' \(3\)"):
        table.restore(2)


# -- tags ----------------------------------------------------------------------------------------------------------------


def test_a_tag_names_the_version_of_the_handle_or_another(table: gl.TimeSeriesTable) -> None:
    assert (table.tag("now"), table.tag("then", 2)) == (5, 2)
    assert table.tags == gl.open(table.url).tags == {"now": 5, "then": 2}
    assert [entry.operation for entry in table.history()[-2:]] == ["tag", "tag"]
    assert table.history()[-1].parameters == {"name": "then", "version": 2}
    assert {entry.version: entry.tags for entry in table.history() if entry.tags} == {2: ("then",), 5: ("now",)}


def test_tags_outlive_log_checkpoints(tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="ts", entity="sym", bucket="1h", properties={"checkpoint_interval": 3})
    table.append(hours(0))
    table.tag("a", 1)
    for version in (1, 2, 3):
        (tmp_path / "t" / "_timeseries_log" / f"{version:010d}.json").unlink()
    assert gl.open(tmp_path / "t").tags == {"a": 1}


def test_a_tag_is_not_moved_by_accident(table: gl.TimeSeriesTable) -> None:
    table.tag("a", 2)
    assert table.tag("a", 2) == 2
    assert table.version == 6
    with pytest.raises(InvalidOption, match="names version 2"):
        table.tag("a", 3)
    table.tag("a", 3, move=True)
    assert table.tags == {"a": 3}


def test_a_tag_goes_away(table: gl.TimeSeriesTable) -> None:
    table.tag("a", 2)
    assert table.untag("a") == 2
    assert (table.tags, table.history()[-1].operation) == ({}, "untag")
    with pytest.raises(InvalidOption, match="there is no tag 'a'"):
        table.untag("a")


@pytest.mark.parametrize("name", ["", "  ", "a\0b", "two\nlines", 3, None])
def test_a_name_is_printable_text(table: gl.TimeSeriesTable, name: Any) -> None:
    with pytest.raises(InvalidOption, match="is no name for a version"):
        table.tag(name)


@pytest.mark.parametrize("name", ["v1", "vor dem Umbau", "日本", "a/b", "2026-01-05"])
def test_any_printable_name_will_do(table: gl.TimeSeriesTable, name: str) -> None:
    table.tag(name, 3)
    assert gl.open_at(table.url, tag=name).version == 3


def test_a_version_that_is_not_there_is_not_named(table: gl.TimeSeriesTable) -> None:
    with pytest.raises(VersionNotFound, match="versions 1 to 5"):
        table.tag("a", 6)
    commit_beside(table.url, ExpireVersions(3))
    with pytest.raises(VersionNotFound, match="begins with version 3"):
        table.tag("a", 2)


def test_of_two_that_set_one_tag_the_second_is_told(table: gl.TimeSeriesTable) -> None:
    handle = racing(table.url, lambda: gl.open(table.url).tag("a", 2))
    with pytest.raises(InvalidOption, match="names version 2"):
        handle.tag("a", 3)


def test_a_tag_that_lost_to_expiry_is_refused(table: gl.TimeSeriesTable) -> None:
    handle = racing(table.url, lambda: commit_beside(table.url, ExpireVersions(4)))
    with pytest.raises(VersionNotFound):
        handle.tag("a", 2)
    assert gl.open(table.url).tags == {}


def test_a_tag_stands_beside_appends(table: gl.TimeSeriesTable) -> None:
    handle = racing(table.url, lambda: gl.open(table.url).append(hours(9)))
    handle.tag("a", 2)
    assert (handle.version, handle.tags) == (7, {"a": 2})
