"""Which versions a source reads, by its mode and where it begins and ends: batch, snapshot, incremental, continuous; by version and by time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import gapless as gl
from gapless.connect import CheckpointStore, Cursor, Runner, sink, source
from gapless.connect.sources.table.delta_table import DeltaSourceTable
from gapless.connect.sources.table.options import TableSourceOptions
from gapless.connect.sources.table.series_table import SeriesSourceTable
from gapless.connect.sources.table.source import TableSource
from gapless.errors import InvalidOption, InvalidTime, VersionNotFound
from gapless.runtime.environment import Environment
from gapless.store.open import open_store
from gapless.tables.delta.lifecycle import open_table as open_delta
from gapless.tables.timeseries.lifecycle import open_table as open_series
from support.clocked_table import SetClock
from support.pipelines import KINDS, made, opened, rows


@dataclass
class Scene:
    """A table over a clock that the test sets: its first version, and one a minute with one row each, whose value is the version."""

    kind: str
    place: Path
    clock: SetClock
    times: dict[int, datetime]

    def table(self) -> Any:
        """A handle over the scene's clock."""
        env = Environment(store=open_store(str(self.place), None), clock=self.clock)
        if self.kind == "delta":
            return gl.delta.DeltaTable(env, "t", open_delta(env, "t"))
        return gl.TimeSeriesTable(env, str(self.place), open_series(env, "t"))

    def append(self, value: int | None = None) -> int:
        """One row in a commit of its own, a minute after the one before; the version, which is the row's value where none is given."""
        self.clock.sleep(60)
        table = self.table()
        version = int(table.append(rows(table.version + 1 if value is None else value, 1)).version)
        self.times[version] = table.history()[-1].time
        return version

    def source(self, **options: Any) -> TableSource:
        asked, table = TableSourceOptions.parse(options), self.table()
        return TableSource(DeltaSourceTable(table) if self.kind == "delta" else SeriesSourceTable(table), asked)


@pytest.fixture(params=KINDS)
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Scene:
    """With four versions that have a row."""
    kind = str(request.param)
    made(kind, tmp_path / "t")
    # The tables' own first commits are of the real clock.
    clock = SetClock(int(datetime.now(UTC).timestamp() * 1e9) + 3600 * 10**9)
    scene = Scene(kind=kind, place=tmp_path / "t", clock=clock, times={})
    for _ in range(4):
        scene.append()
    return scene


def drained(reader: TableSource, limit: int | None = 1) -> list[int]:
    found: list[int] = []
    while got := [value for batch in reader.poll(limit) for value in batch.column("v").to_pylist()]:
        found += got
    return found


def test_a_batch_is_all_rows_of_the_newest_version_and_ends(scene: Scene) -> None:
    *_, newest = versions = sorted(scene.times)
    reader = scene.source(mode="batch")
    assert reader.capabilities.bounded
    reader.start()
    assert not reader.ended
    scene.append()
    assert drained(reader) == versions
    assert reader.ended
    assert reader.cursor.table_version == newest + 1
    again = scene.source(mode="batch")
    again.start(reader.cursor)
    assert (drained(again), again.ended) == ([], True), "what was read is not read again"
    # What a batch gave, a source that follows goes on from.
    follows = scene.source()
    follows.start(Cursor.from_json(reader.cursor.to_json()))
    assert (drained(follows), follows.ended) == ([newest + 1], False)


def test_a_batch_that_was_broken_off_goes_on_in_the_version_that_it_began(scene: Scene) -> None:
    versions, reader = sorted(scene.times), scene.source(mode="batch")
    assert reader.poll(2).rows == 2
    scene.append()
    other = scene.source(mode="batch")
    other.start(reader.cursor)
    assert drained(other) == versions[2:]
    assert other.ended


def test_a_snapshot_is_all_rows_of_a_version_by_its_number_or_a_time(scene: Scene) -> None:
    first, second, third, _ = sorted(scene.times)
    assert drained(scene.source(mode="snapshot", version=second)) == [first, second]
    reader = scene.source(mode="snapshot", time=scene.times[third] - timedelta(seconds=1))
    assert drained(reader) == [first, second]
    assert reader.ended
    with pytest.raises(VersionNotFound):
        scene.source(mode="snapshot", version=99).poll()
    with pytest.raises(InvalidOption, match="snapshot of no version"):
        scene.source(mode="snapshot")
    with pytest.raises(InvalidOption, match=r"version and time"):
        scene.source(mode="snapshot", version=second, time=scene.times[third]).poll()


def test_an_incremental_source_gives_what_was_committed_up_to_its_start_and_ends(scene: Scene) -> None:
    first, second, third, fourth = sorted(scene.times)
    reader = scene.source(mode="incremental", start=second)
    reader.start()
    scene.append()
    assert drained(reader) == [second, third, fourth]
    assert reader.ended
    reader.start(reader.cursor)
    assert (drained(reader), reader.ended) == ([fourth + 1], True), "from its cursor, what came since"
    assert drained(scene.source(mode="incremental")) == [first, second, third, fourth, fourth + 1]
    assert drained(scene.source(mode="incremental", since=second, until=third)) == [third]
    assert drained(scene.source(mode="incremental", since=scene.times[second], until=third)) == [third]


def test_a_time_is_the_first_commit_then_or_later(scene: Scene) -> None:
    versions = first, second, third, fourth = sorted(scene.times)
    minute = timedelta(minutes=1)
    cases: list[tuple[object, list[int]]] = [
        (scene.times[second], [second, third, fourth]),
        (scene.times[second].isoformat(), [second, third, fourth]),
        (scene.times[second] - timedelta(seconds=30), [second, third, fourth]),
        (scene.times[first] - timedelta(seconds=1), [*versions]),
        (scene.times[fourth] + timedelta(seconds=1), []),
    ]
    scene.clock.sleep(120)
    for start, expected in cases:
        assert drained(scene.source(start=start)) == expected
    late = scene.source(start=scene.times[fourth] + minute)
    assert drained(late) == []
    assert drained(late) == []
    scene.append()
    assert drained(late) == [fourth + 1], "what comes next is at that time or later"
    with pytest.raises(InvalidTime, match="lies in the future"):
        scene.source(start=scene.times[fourth] + timedelta(days=9)).poll()
    with pytest.raises(InvalidTime, match="no time zone"):
        scene.source(start=datetime(2026, 1, 5))  # what is refused


def test_until_is_a_version_or_a_time_inclusive(scene: Scene) -> None:
    first, second, third, fourth = sorted(scene.times)
    assert drained(scene.source(start="earliest", until=third)) == [first, second, third]
    assert drained(scene.source(start="earliest", until=scene.times[third])) == [first, second, third]
    assert drained(scene.source(start="earliest", until=scene.times[third] - timedelta(seconds=1))) == [first, second]
    # One that lies ahead: what is committed by then is read, and then it has ended.
    reader = scene.source(start=fourth, until=scene.times[fourth] + timedelta(seconds=90))
    assert drained(reader) == [fourth]
    assert not reader.ended
    fifth = scene.append()
    assert drained(reader) == [fifth]
    assert not reader.ended
    sixth = scene.append()
    assert (drained(reader), reader.ended) == ([], True)
    ahead = scene.source(start=fourth, until=sixth + 1)
    assert (drained(ahead), ahead.ended) == ([fourth, fifth, sixth], False)
    scene.append()
    assert (drained(ahead), ahead.ended) == ([sixth + 1], True)


def test_the_log_is_asked_no_more_often_than_poll_interval_says(scene: Scene) -> None:
    reader = scene.source(start="latest", poll_interval="5 minutes")
    assert drained(reader) == []
    newest = scene.append()
    assert drained(reader) == [], "not asked again yet"
    scene.clock.sleep(300)
    assert drained(reader) == [newest]


def test_what_a_cursor_says_of_versions_files_and_times_is_true(scene: Scene) -> None:
    first, second, third, _ = sorted(scene.times)
    reader = scene.source(start="earliest")
    assert reader.poll(2).rows == 2
    cursor = Cursor.from_json(reader.cursor.to_json())
    assert (cursor.table_version, cursor.files_processed, cursor.timestamp) == (third, 2, scene.times[second])
    reader.start(cursor)
    assert reader.cursor.timestamp == scene.times[second]
    reader.poll(1)
    assert (reader.cursor.files_processed, reader.cursor.timestamp) == (3, scene.times[third])
    whole = scene.source(mode="batch")
    whole.poll(1)
    assert (whole.cursor.table_version, whole.cursor.files_processed) == (max(scene.times), 0)
    drained(whole)
    assert whole.cursor.files_processed == len(scene.times)
    assert first < second


def test_options_are_refused_where_they_say_nothing(scene: Scene) -> None:
    url = f"{scene.kind}:{scene.place}"
    cases: list[dict[str, Any]] = [
        {"mode": "stream"},
        {"mode": "batch", "start": 2},
        {"mode": "batch", "poll_interval": 2},
        {"mode": "incremental", "version": 2},
        {"start": 2, "since": 1},
        {"starting_version": 2},
        {"poll_interval": -1},
        {"poll_interval": float("nan")},
        {"poll_interval": "10 parsecs"},
        {"on_change": "ignore"},
        {"on_missing_versions": "latest"},
        {"on_schema_change": "merge"},
        {"since": "earliest"},
    ]
    for options in cases:
        with pytest.raises(InvalidOption) as refused:
            source(url, **options)
        assert refused.value.option in options or options == {"since": "earliest"}


@pytest.mark.parametrize("mode", ["batch", "incremental"])
def test_a_runner_takes_bounded_sources_exactly_once(kind_and_copy: Callable[[str], list[int]], mode: str) -> None:
    assert kind_and_copy(mode) == [*range(6)]


def test_a_run_that_follows_ends_with_a_source_that_has_ended(scene: Scene, tmp_path: Path) -> None:
    made(scene.kind, tmp_path / "out")
    newest, clock = max(scene.times), scene.clock
    until = scene.times[newest] + timedelta(seconds=30)
    sinks = {"out": sink(f"{scene.kind}:{tmp_path / 'out'}", pipeline="orders", name="out")}
    reader = scene.source(start="earliest", until=until)
    report = Runner(reader, None, sinks, CheckpointStore(tmp_path / "c"), clock=clock).run(follow=True, poll_interval=20)
    assert report.rows == len(scene.times)
    assert reader.ended
    assert clock.ns > until.timestamp() * 1e9


@pytest.fixture(params=KINDS)
def kind_and_copy(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], list[int]]:
    kind = str(request.param)

    def copy(mode: str) -> list[int]:
        table, target = made(kind, tmp_path / "t"), made(kind, tmp_path / "out")
        table.append(rows(0, 4))
        table.append(rows(4, 2))
        for _ in range(2):
            sinks = {"out": sink(f"{kind}:{tmp_path / 'out'}", pipeline="orders", name="out")}
            Runner(
                source(f"{kind}:{tmp_path / 't'}", mode=mode), None, sinks, CheckpointStore(tmp_path / "c"), checkpoint_rows=3
            ).run()
        assert opened(kind, tmp_path / "t").version == table.version
        return sorted(target.refresh().scan().to_arrow().column("v").to_pylist())

    return copy
