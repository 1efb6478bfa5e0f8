"""Delta tables as they were: by version and by commit time."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless.errors import InvalidOption, InvalidTime, VersionNotFound
from gapless.formats.delta.format import DELTA
from gapless.model.instant import NS_PER
from gapless.tables.delta.lifecycle import open_table
from gapless.tables.delta.read.versions import VERSIONS, find_version
from gapless.tables.delta.table import DeltaTable
from gapless.testing.store.stores import DictStore
from support.clocked_delta import SCHEMA, ClockedDelta, at, numbered
from support.clocked_table import NOON_NS

MS = timedelta(milliseconds=1)


def times_of(table: DeltaTable) -> list[datetime]:
    return [entry.time for entry in table.history()]


def restamped(source: ClockedDelta, times_ms: Sequence[int | None], *, key: str = "timestamp") -> DeltaTable:
    """The same log, in which each commit says another time, or none."""
    store = DictStore()
    for path, (data, _) in source.store.objects.items():
        version = DELTA.version_of(path)
        store.put(path, data if version is None else _stamped(data, times_ms[version], key))
    env = source.env(store)
    return DeltaTable(env, "memory://t", open_table(env, "t"))


def _stamped(data: bytes, time_ms: int | None, key: str) -> bytes:
    lines = [json.loads(line) for line in data.splitlines()]
    for line in lines:
        if "commitInfo" in line:
            del line["commitInfo"]["timestamp"]
            line["commitInfo"] |= {} if time_ms is None else {key: time_ms}
    return "\n".join(map(json.dumps, lines)).encode()


def test_time_01_delta_a_copy_with_other_file_times_travels_to_the_same_versions(tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path / "t", SCHEMA)
    for one in range(4):
        table.append(numbered(one))
    times = times_of(table)
    shutil.copytree(tmp_path / "t", tmp_path / "now")
    shutil.copytree(tmp_path / "t", tmp_path / "reversed")
    for version in range(5):
        os.utime(tmp_path / "reversed" / DELTA.path_of(version), (2e9 - version, 2e9 - version))
    for copy in ("t", "now", "reversed"):
        found = DeltaTable.open(tmp_path / copy)
        assert [found.at(time=time).version for time in times] == [0, 1, 2, 3, 4], copy
        assert found.at(time=times[2] + (times[3] - times[2]) / 2).version == 2
        assert found.at(time=times[4] + timedelta(days=365)).version == 4, "after the last commit"
        with pytest.raises(InvalidTime, match=r"before the table's first commit\. Version 0 was committed at"):
            found.at(time=times[0] - MS)


def test_time_03_delta_commits_of_a_frozen_clock_have_their_own_times() -> None:
    table = ClockedDelta()
    table.clock.now_ns = lambda: NOON_NS  # type: ignore[method-assign]
    table.append(*range(10))
    times = times_of(table.open())
    assert times == [times[0] + version * MS for version in range(11)]
    assert [table.open().at(time=time).version for time in times] == list(range(11))
    assert len({entry.commit_id for entry in table.open().history()}) == 11


def test_time_05_delta_a_version_that_the_log_was_cleaned_of_names_the_earliest_that_remains() -> None:
    table = ClockedDelta({"delta.checkpointInterval": "10"})
    table.append(*range(19))
    times = times_of(table.open())
    table.store.delete(DELTA.path_of(0))
    newest = table.open()
    with pytest.raises(VersionNotFound, match=r"version 5 can be read no longer.*version 10 is the earliest"):
        newest.at(5)
    assert (newest.at(10).count(), newest.at(15).count()) == (10, 15)
    with pytest.raises(VersionNotFound, match="cleaned of versions before 10"):
        newest.at(time=times[9])
    assert newest.at(time=times[10]).version == 10
    assert newest.at(time=times[13]).version == 13


def test_versions_are_whole_numbers_from_zero_to_the_newest() -> None:
    table = ClockedDelta()
    table.append(1, 2)
    for wrong in (-1, 3):
        with pytest.raises(VersionNotFound, match=rf"version {wrong} does not exist. The table has versions 0 to 2"):
            table.table.at(wrong)
    for odd in (True, 1.0, "1"):
        with pytest.raises(InvalidOption, match="whole numbers from 0"):
            table.table.at(odd)  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="by nothing"):
        table.table.at()
    with pytest.raises(InvalidOption, match="version and time"):
        table.table.at(1, time=datetime(2026, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize("naive", [datetime(2026, 1, 9, 12), "2026-01-09T12:00:00", "2026-01-09"])
def test_a_time_without_a_zone_is_refused(naive: object) -> None:
    with pytest.raises(InvalidTime, match="no time zone"):
        ClockedDelta().table.at(time=naive)


def test_an_old_view_knows_of_newer_versions() -> None:
    table = ClockedDelta()
    table.append(1, 2)
    assert table.open().at(0).at(2).count() == 2


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.integers(1_000, 1_010), st.none()), min_size=6, max_size=6), st.integers(998, 1_012))
def test_times_that_run_backward_or_are_missing_are_shown_as_the_latest_before(said: list[int | None], asked: int) -> None:
    """The plain rule: a version's time is the latest that it or one before it says; one that begins with none is as old as can be."""
    shown = [max([one for one in said[: version + 1] if one is not None], default=0) for version in range(6)]
    expected = max((version for version in range(6) if shown[version] <= asked), default=None)
    table = restamped(_FIVE, said)
    asked_at = at(asked * NS_PER["ms"])
    if expected is None:
        with pytest.raises(InvalidTime, match="before the table's first commit"):
            table.at(time=asked_at)
    else:
        assert table.at(time=asked_at).version == expected
    assert times_of(table) == [at(one * NS_PER["ms"]) for one in shown]
    first = min((version for version in range(6) if shown[version] >= asked), default=6)
    assert VERSIONS.since(table._env, table._snapshot, asked * NS_PER["ms"]) == first


_FIVE = ClockedDelta()
_FIVE.append(*range(5))


def test_in_commit_timestamps_are_searched_by_halves() -> None:
    table = ClockedDelta({"delta.enableInCommitTimestamps": "true"})
    table.append(*range(60))
    times = times_of(table.open())
    reads: list[str] = []
    newest = table.open()
    get = table.store.get

    def counted(path: str, start: int = 0, length: int | None = None) -> bytes:
        reads.append(path)
        return get(path, start, length)

    env = table.env()
    env.store.get = counted  # type: ignore[method-assign]
    for version, time in enumerate(times):
        reads.clear()
        assert find_version(env, newest._snapshot, VERSIONS.parse(time=time)) == version
        assert sum(path.endswith(".json") for path in reads) <= version + 16, "those that the version needs, and a few"


def test_in_commit_timestamps_count_from_the_version_that_enabled_them() -> None:
    """Before it, file times would count for others; for us it is what the commits say, and no later commit is meant."""
    table = ClockedDelta()
    table.append(1, 2)
    table.table.alter.set_properties({"delta.enableInCommitTimestamps": "true"})
    table.append(3, 4)
    newest = table.open()
    assert newest.properties["delta.inCommitTimestampEnablementVersion"] == "3"
    times = times_of(newest)
    assert [newest.at(time=time).version for time in times] == list(range(6))
    assert [newest.at(time=time - MS / 2).version for time in times[1:]] == list(range(5))


def test_maint_04_delta_a_version_whose_files_are_gone_says_so_before_the_first_row() -> None:
    table = ClockedDelta()
    gone = table.append(1, 2, 3)[1]
    table.table.compact()
    table.store.delete(gone)
    view = table.open().at(2)
    assert len(view.files()) == 2, "by the log alone"
    with pytest.raises(VersionNotFound, match=rf"{gone} is gone.*the earliest version that is whole is 4"):
        next(view.scan().to_batches())
    assert table.ids() == [1, 2, 3]


def test_a_pandas_timestamp_is_a_time() -> None:
    pd = pytest.importorskip("pandas")
    table = ClockedDelta()
    table.append(1)
    assert table.table.at(time=pd.Timestamp(times_of(table.table)[0]).tz_convert("Asia/Tokyo")).version == 0


def test_a_table_cleaned_to_its_checkpoint_alone_is_found_by_time() -> None:
    table = ClockedDelta({"delta.checkpointInterval": "3"})
    table.append(*range(3))
    times = times_of(table.open())
    for version in range(4):
        table.store.delete(DELTA.path_of(version))
    assert table.open().at(time=times[3]).scan().to_arrow().sort_by("id").equals(pa.concat_tables(map(numbered, range(3))))
    with pytest.raises(VersionNotFound, match="cleaned of versions before 3"):
        table.open().at(time=times[2])
