"""Older versions from a log in every state it may be in, and how little of it is read for them."""

from __future__ import annotations

import datetime as dt
import shutil
import warnings
from pathlib import Path

import pytest

import gapless as gl
from gapless.errors import CorruptTable, LogWarning, VersionNotFound
from gapless.formats.timeseries.format import TIME_SERIES
from gapless.log import snapshot as snapshot_module
from gapless.log.snapshot import load, refresh
from gapless.log.versions import TooEarly, read_back, read_range, version_at
from gapless.runtime.environment import Environment
from gapless.store.open import open_store
from support.faulty_store import FaultyStore

START = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)


def grow(place: str, versions: int, interval: int = 10) -> gl.TimeSeriesTable:
    """A table with one row a version from 2 on, and a log checkpoint every so many."""
    table = gl.create(place, index="ts", bucket="1h", properties={"checkpoint_interval": interval})
    for hour in range(versions - 1):
        table.append([{"ts": START + dt.timedelta(hours=hour)}])
    return table


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Versions 1 to 25 with log checkpoints at 10 and 20; never changed."""
    place = tmp_path_factory.mktemp("travel") / "t"
    grow(str(place), 25)
    return place


@pytest.fixture
def place(grown: Path, tmp_path: Path) -> Path:
    return shutil.copytree(grown, tmp_path / "t")


class Reads:
    """A environment that notes which objects are read, and how often the log is listed."""

    def __init__(self, place: Path | str) -> None:
        self.store = FaultyStore(open_store(str(place), None))
        self.paths: list[str] = []
        self.store.before_get = self.paths.append
        self.env = Environment(store=self.store)

    @property
    def names(self) -> list[str]:
        return [path.removeprefix("_timeseries_log/") for path in self.paths]


def log(place: Path) -> Path:
    return place / "_timeseries_log"


def commit(version: int) -> str:
    return f"{version:010d}.json"


def checkpoint(version: int) -> str:
    return f"{version:010d}.checkpoint.parquet"


def clean(place: Path, *versions: int) -> None:
    for version in versions:
        (log(place) / commit(version)).unlink()


@pytest.mark.parametrize("version", [1, 9, 10, 11, 19, 20, 21, 25])
def test_every_version_is_read_as_it_was(place: Path, version: int) -> None:
    snapshot = Environment(store=open_store(str(place), None)).drive(load(TIME_SERIES, version))
    assert snapshot is not None
    assert (snapshot.version, len(snapshot.state.live)) == (version, version - 1)


def test_an_older_version_is_read_from_the_log_checkpoint_below_it(place: Path) -> None:
    """Though the hint names a later one."""
    seen = Reads(place)
    seen.env.drive(load(TIME_SERIES, 13))
    assert seen.names == ["CURRENT", "_last_checkpoint", checkpoint(10), *map(commit, (11, 12, 13))]


def test_a_version_with_a_log_checkpoint_needs_no_commit(place: Path) -> None:
    clean(place, *range(1, 21))
    for version in (10, 20):
        snapshot = Environment(store=open_store(str(place), None)).drive(load(TIME_SERIES, version))
        assert snapshot is not None
        assert len(snapshot.state.live) == version - 1


def test_time_05_a_version_whose_log_was_cleaned_names_the_earliest_that_is_left(place: Path) -> None:
    clean(place, 1)
    with pytest.raises(VersionNotFound, match=r"version 5 can be read no longer.*version 10 is the earliest"):
        gl.open_at(place, 5)
    assert [gl.open_at(place, version).scan().count() for version in (10, 15)] == [9, 14]


def test_between_a_tagged_version_and_the_rest_nothing_is_left(place: Path) -> None:
    """As cleaning leaves it: log checkpoint 10 stands alone, commits begin behind log checkpoint 20."""
    clean(place, *range(1, 21))
    with pytest.raises(VersionNotFound, match="version 20 is the earliest"):
        gl.open_at(place, 15)
    assert gl.open_at(place, 10).scan().count() == 9
    assert gl.open(place).version == 25


def test_a_commit_that_is_missing_among_others_is_lost_and_not_cleaned(place: Path) -> None:
    clean(place, 15)
    with pytest.raises(CorruptTable, match="version 15 is lost"):
        gl.open_at(place, 16)
    assert gl.open_at(place, 14).scan().count() == 13


def test_a_hint_that_lags_behind_a_cleaned_log_does_no_harm(place: Path) -> None:
    (log(place) / "_last_checkpoint").write_text('{"version": 10}')
    clean(place, *range(1, 21))
    assert gl.open(place).version == 25


def test_refresh_reads_the_new_commits_and_no_more(place: Path) -> None:
    seen = Reads(place)
    snapshot = seen.env.drive(load(TIME_SERIES, 22))
    assert snapshot is not None
    seen.paths.clear()
    assert seen.env.drive(refresh(TIME_SERIES, snapshot)).version == 25
    assert seen.names == [*map(commit, range(22, 27))]


def test_refresh_of_a_handle_that_lags_far_takes_the_log_checkpoint(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_module, "FAR", 5)
    seen = Reads(place)
    first = seen.env.drive(load(TIME_SERIES, 1))
    assert first is not None
    seen.paths.clear()
    newest = seen.env.drive(refresh(TIME_SERIES, first))
    assert newest == gl.open(place)._snapshot
    assert seen.names[:6] == [*map(commit, range(1, 7))]
    assert checkpoint(20) in seen.names
    assert commit(7) not in seen.names


def test_refresh_notices_that_the_log_was_cleaned_past_the_handle(place: Path) -> None:
    """The next commit is missing, and that says nothing: the handle must not take itself for the newest, and write there."""
    table = gl.open(place)
    old = table.at(5)
    clean(place, *range(1, 21))
    env = Environment(store=open_store(str(place), None))
    assert env.drive(refresh(TIME_SERIES, old._snapshot)).version == 25


def test_refresh_of_a_table_that_is_gone_is_an_error(place: Path) -> None:
    table = gl.open(place)
    shutil.rmtree(place)
    with pytest.raises(CorruptTable, match="version 25 is lost"):
        table.refresh()


def test_a_time_is_found_with_few_reads(place: Path) -> None:
    seen = Reads(place)
    newest = seen.env.drive(load(TIME_SERIES))
    assert newest is not None
    times = [time_ns for _, _, time_ns in seen.env.drive(read_range(TIME_SERIES, 1, 26))]
    for version, time_ns in enumerate(times, 1):
        seen.paths.clear()
        for asked, found in ((time_ns, version), (time_ns + 1, version)):
            assert seen.env.drive(version_at(TIME_SERIES, newest, asked)) == found
        assert len(seen.paths) <= 2 * 6
    assert seen.env.drive(version_at(TIME_SERIES, newest, times[0] - 1)) == TooEarly(1, times[0])


def test_a_time_is_found_where_only_a_log_checkpoint_is_left(place: Path) -> None:
    env = Environment(store=open_store(str(place), None))
    newest = env.drive(load(TIME_SERIES))
    assert newest is not None
    times = {version: time_ns for version, _, time_ns in env.drive(read_range(TIME_SERIES, 20, 22))}
    clean(place, *range(1, 21))
    assert env.drive(version_at(TIME_SERIES, newest, times[20], first=20)) == 20
    assert env.drive(version_at(TIME_SERIES, newest, times[21] - 1, first=20)) == 20
    assert env.drive(version_at(TIME_SERIES, newest, times[20] - 1, first=20)) == TooEarly(20, times[20])


def test_history_of_a_cleaned_log_begins_at_the_earliest_commit_left(place: Path) -> None:
    clean(place, *range(1, 21))
    table = gl.open(place)
    assert [entry.version for entry in table.history()] == [21, 22, 23, 24, 25]
    assert [entry.version for entry in table.at(10).history()] == []


def test_history_with_a_lost_commit_is_an_error(place: Path) -> None:
    clean(place, 15)
    table = gl.open(place)
    assert [entry.version for entry in table.history(limit=10)] == list(range(16, 26))
    with pytest.raises(CorruptTable, match="version 15 is lost"):
        table.history(limit=11)


def test_history_reads_no_more_than_was_asked_for(place: Path) -> None:
    seen = Reads(place)
    entries = seen.env.drive(read_back(TIME_SERIES, 25, 3))
    assert [version for version, _, _ in entries] == [23, 24, 25]
    assert seen.names == [commit(25), commit(24), commit(23)]


def test_a_version_before_a_damaged_commit_opens_with_a_warning(place: Path) -> None:
    (log(place) / commit(25)).write_bytes(b"{}")
    with pytest.raises(CorruptTable):
        gl.open(place)
    with pytest.warns(LogWarning, match=r"commit _timeseries_log/0000000025\.json cannot be read"):
        view = gl.open_at(place, version=24)
    assert view.scan().count() == 23
    with pytest.raises(CorruptTable):
        gl.open_at(place, time=START + dt.timedelta(days=10_000))


def test_a_lost_newest_commit_says_how_to_read_the_version_before_it(place: Path) -> None:
    clean(place, 25)
    with pytest.raises(CorruptTable, match=r"gl\.open_at\(path, version=24\)"):
        gl.open(place)
    with pytest.raises(CorruptTable, match="version 25 is lost"):
        gl.open_at(place, 25)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LogWarning)
        assert gl.open_at(place, version=24).scan().count() == 23


def test_an_open_handle_looks_back_though_a_later_commit_is_damaged(place: Path) -> None:
    table = gl.open_at(place, 20)
    (log(place) / commit(23)).write_bytes(b"")
    with pytest.warns(LogWarning, match="whether a later commit expired"):
        assert table.at(11).scan().count() == 10
