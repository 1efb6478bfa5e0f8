"""Parts of log checkpoints: shortcuts that are read when they are needed, never trusted over the log, and cleaned up behind."""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta

import pyarrow.parquet as pq
import pytest

from gapless.errors import AccessDenied, CommitOutcomeUnknown, CorruptTable, LogWarning, StoreError
from gapless.formats.timeseries.actions import AddSegment, LiveSegment
from gapless.formats.timeseries.checkpoint import checkpoint as packing
from gapless.formats.timeseries.checkpoint.part import PartRef, encode_part
from gapless.formats.timeseries.format import TIME_SERIES
from gapless.formats.timeseries.replay import LiveSegments
from gapless.tables.shared.vacuum import VacuumReport
from gapless.tables.timeseries.table import TimeSeriesTable
from gapless.tables.timeseries.verify.repair import repair_table
from gapless.tables.timeseries.verify.verify import verify_table
from gapless.testing.simulation.simulation import small_parts
from support.clocked_table import Clocked, rows_at
from support.faulty_store import FaultyStore

PART = 4


@pytest.fixture(autouse=True)
def _small() -> Iterator[None]:
    with small_parts(PART):
        yield


@pytest.fixture
def world() -> Clocked:
    """Versions 1 to 25, one segment each from 2 on; checkpoints at 5, 10, 15, 20 and 25."""
    world = Clocked(checkpoint_interval=5)
    world.append(*range(24))
    return world


@pytest.fixture
def quiet() -> Iterator[None]:
    """Only warnings that are not ours are errors here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LogWarning)
        yield


def checkpoint(version: int) -> str:
    return f"_timeseries_log/{version:010d}.checkpoint.parquet"


def rows_of(world: Clocked, version: int) -> list[tuple[str, dict[str, object]]]:
    """(action, body) of a checkpoint, read by pyarrow alone."""
    table = pq.read_table(io.BytesIO(world.store.get(checkpoint(version))))
    return list(zip(table.column("action").to_pylist(), map(json.loads, table.column("body").to_pylist()), strict=True))


def named(world: Clocked, version: int) -> list[str]:
    return [str(body["path"]) for action, body in rows_of(world, version) if action == "part"]


def replayed(world: Clocked) -> LiveSegments:
    """The live segments by the commits alone."""
    live: dict[str, LiveSegment] = {}
    for version in range(1, world.open().version + 1):
        commit, _ = TIME_SERIES.decode(world.store.get(TIME_SERIES.path_of(version)), version)
        for path in commit.removed:
            live.pop(path, None)
        live |= {a.segment.path: LiveSegment(a.segment, version) for a in commit.actions if isinstance(a, AddSegment)}
    return LiveSegments.of(live)


def test_a_checkpoint_names_parts_that_never_change(world: Clocked) -> None:
    parts = {path: world.store.get(path) for path in world.names("_log_parts")}
    assert named(world, 25) == sorted(parts)
    assert [len(named(world, version)) for version in (5, 10, 15, 20, 25)] == [1, 2, 3, 4, 6]
    held = [pq.read_table(io.BytesIO(data)).column("path").to_pylist() for _, data in sorted(parts.items())]
    assert [len(paths) for paths in held] == [PART] * 6
    world.append(*range(30, 40))
    assert {path: world.store.get(path) for path in parts} == parts
    loose = [body["path"] for action, body in rows_of(world, 35) if action == "segment"]
    assert len(loose) < PART
    assert list(world.state.live) == list(replayed(world))


def test_opening_and_appending_read_no_part_that_they_do_not_need(world: Clocked) -> None:
    read: list[str] = []
    store = FaultyStore(world.store)
    store.before_get = read.append
    table = world.open(store)
    assert len(table._snapshot.state.live) == 24
    assert not [path for path in read if path.startswith("_log_parts")]
    table.append(rows_at(1_400))
    assert not [path for path in read if path.startswith("_log_parts")]
    assert table.scan(start="2026-01-01T05:00:00Z", end="2026-01-01T06:00:00Z").to_arrow().column("v").to_pylist() == [5.0]
    assert [path for path in read if path.startswith("_log_parts")] == [named(world, 25)[1]]


def test_a_handle_rests_on_the_parts_of_the_checkpoint_it_wrote(world: Clocked) -> None:
    assert TIME_SERIES.parts_version(world.table._snapshot) == 25
    assert len(world.table._snapshot.state.live) == 24
    assert world.table._snapshot == world.open()._snapshot


def test_handles_that_take_turns_share_their_parts(world: Clocked) -> None:
    """Each writes every second checkpoint, and none puts into a part what the other's parts hold."""
    one, other = world.open(), world.open()
    for hour in range(40, 80):
        table = (one, other)[(hour // 5) % 2]
        table.refresh()
        table.append(rows_at(hour))
    newest = world.open()._snapshot
    held = [path for name in world.names("_log_parts") for path in _paths(world, name)]
    assert len(held) == len(set(held))
    assert len(newest.state.live) == 64
    assert set(named(world, 65)) == world.names("_log_parts")


def _paths(world: Clocked, part: str) -> list[str]:
    found: list[str] = pq.read_table(io.BytesIO(world.store.get(part))).column("path").to_pylist()
    return found


def test_a_part_of_which_most_is_gone_is_given_up(world: Clocked) -> None:
    live = list(world.state.live)
    world.remove(*live[:9], live[13])
    world.append(*range(30, 40))
    state = world.state
    assert list(state.live) == list(replayed(world))
    counts = [body["segments"] for action, body in rows_of(world, 35) if action == "part"]
    assert len(counts) < 7
    first = next(body for action, body in rows_of(world, 35) if action == "part")
    assert first["versions"][0] > 5  # type: ignore[index]


def test_a_missing_part_is_replaced_by_the_commits_with_a_warning(world: Clocked) -> None:
    world.remove(*list(world.state.live)[4:6])
    world.store.delete(named(world, 25)[1])
    with pytest.warns(LogWarning, match=r"the part _log_parts/0000000010-.* is missing"):
        assert list(world.state.live.items()) == list(replayed(world).items())
    with pytest.warns(LogWarning):
        assert world.hours() == [float(hour) for hour in range(24) if hour not in (4, 5)]


@pytest.mark.usefixtures("quiet")
def test_a_flipped_bit_in_a_part_is_found_or_harmless(world: Clocked) -> None:
    part = named(world, 25)[2]
    whole, live = world.store.get(part), dict(world.state.live)
    for at in range(0, len(whole), 61):
        world.store.put(part, whole[:at] + bytes([whole[at] ^ (1 << at % 8)]) + whole[at + 1 :], mode="overwrite")
        assert dict(world.state.live) == live


@pytest.mark.usefixtures("quiet")
def test_a_writer_that_had_to_do_without_a_part_writes_another(world: Clocked) -> None:
    lost = named(world, 25)[1]
    world.store.delete(lost)
    table = world.open()
    assert len(table.segments()) == 24
    for hour in range(40, 45):
        table.append(rows_at(hour))
    assert lost not in named(world, 30)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(world.state.live.items()) == list(replayed(world).items())


def test_without_part_commits_and_other_checkpoints_the_part_is_named(world: Clocked) -> None:
    for version in range(1, 26):
        world.store.delete(TIME_SERIES.path_of(version))
        if version < 25 and version % 5 == 0:
            world.store.delete(checkpoint(version))
    lost = named(world, 25)[0]
    world.store.delete(lost)
    table = world.open()
    with pytest.raises(CorruptTable, match=lost):
        table.segments()
    assert table.scan(start="2026-01-01T20:00:00Z").to_arrow().num_rows == 4


def test_a_commit_that_landed_is_not_refused_because_a_part_cannot_be_read(world: Clocked) -> None:
    """Seed 900387 of the simulation: another's commit, which came first, removed a segment of a part that was not read yet."""
    store = FaultyStore(world.store)

    def deny(path: str) -> None:
        if path.startswith("_log_parts"):
            raise AccessDenied("denied", path=path)

    store.before_get = deny
    table = world.open(store)
    world.remove(next(iter(world.state.live)))
    with pytest.raises(CommitOutcomeUnknown, match=r"landed as version 27, but .* could not be read"):
        table.append(rows_at(100))
    assert world.hours() == [*map(float, range(1, 24)), 100.0]


# -- cleaning up -------------------------------------------------------------------------------------------------------


def test_cleaning_takes_the_parts_that_only_old_checkpoints_name(world: Clocked) -> None:
    world.tag("then", 12)
    live = list(world.state.live)
    world.remove(*live[:12])
    world.append(*range(30, 43))
    kept_by_tag = set(named(world, 10))
    world.wait(days=2)
    report = world.table.expire(keep_versions=3, clean_log=True)
    gone = {path for path in report.removed if path.startswith("_log_parts")}
    stored = [v for path in world.names("_timeseries_log") if (v := TIME_SERIES.checkpoint_of(path)) is not None]
    assert world.names("_log_parts") == {path for version in stored for path in named(world, version)}
    assert gone
    assert gone.isdisjoint(kept_by_tag)
    assert sorted(world.table.at(tag="then").scan().to_arrow().column("v").to_pylist()) == [float(hour) for hour in range(11)]
    assert world.hours() == [float(hour) for hour in [*range(12, 24), *range(30, 43)]]


def test_a_checkpoint_whose_part_is_damaged_is_written_anew_before_the_log_is_cleaned(world: Clocked) -> None:
    world.append(*range(24, 29))
    world.wait(days=2)
    for part in named(world, 30):
        world.store.put(part, b"damaged", mode="overwrite")
    with pytest.warns(LogWarning):
        world.open().expire(keep_versions=1, clean_log=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert world.hours() == [float(hour) for hour in range(29)]


def test_a_handle_lives_on_when_its_parts_were_cleaned_away(world: Clocked) -> None:
    """It rests on a small part, which went with the log checkpoints that named it: another took in what it held."""
    live = list(world.state.live)
    world.remove(*live[:3])
    world.append(*range(30, 34))
    old = world.open()
    world.remove(*live[4:7])
    world.append(*range(34, 44))
    old.refresh()
    small = named(world, 30)[0]
    world.wait(days=2)
    world.table.expire(keep_versions=1, clean_log=True)
    assert small in named_by(old)
    assert small not in world.names("_log_parts")
    with pytest.warns(LogWarning, match=f"{small} of a log checkpoint is missing"):
        assert world.hours(old) == world.hours()
    old.append(rows_at(0))
    assert world.hours() == sorted([0.0, *world.hours(world.table)])


def named_by(table: TimeSeriesTable) -> list[str]:
    return [part.path for part in TIME_SERIES.parts_of(table._snapshot)]


def killed_between(world: Clocked) -> tuple[str, TimeSeriesTable]:
    """The part of a writer that died before it stored the checkpoint of version 30, and another handle."""
    store = FaultyStore(world.store)

    def die(path: str) -> None:
        if path == checkpoint(30):
            raise StoreError("the process dies", path=path)

    store.before_put = die
    dying = world.open(store)
    before = world.names("_log_parts")
    for hour in range(24, 28):
        dying.append(rows_at(hour))
    with pytest.warns(LogWarning, match="was not written"):
        dying.append(rows_at(28))
    (orphan,) = world.names("_log_parts") - before
    return orphan, world.open()


def test_a_killed_writer_leaves_an_orphan_that_vacuum_takes_after_the_horizon(world: Clocked) -> None:
    orphan, table = killed_between(world)
    used = world.names("_log_parts") - {orphan}
    assert reason(table.vacuum(older_than=_days(0), dry_run=False), orphan) == "in-flight"
    world.wait(days=2)
    dry = table.vacuum(older_than=_days(1))
    assert (reason(dry, orphan), {reason(dry, path) for path in used}) == ("orphan", {"live"})
    assert not world.names() >= {checkpoint(30)}
    assert reason(table.vacuum(older_than=_days(1), dry_run=False), orphan) == "orphan"
    assert orphan not in world.names("_log_parts")
    assert used < world.names("_log_parts")
    assert list(world.state.live.items()) == list(replayed(world).items())


def test_a_writer_that_wakes_up_after_the_vacuum_stores_no_checkpoint_without_its_part(world: Clocked) -> None:
    """It hung for days between a part and the checkpoint that names it."""
    store = FaultyStore(world.store)

    def hang(path: str) -> None:
        if path == checkpoint(30):
            store.before_put = lambda _path: None
            world.wait(days=3)
            world.open().vacuum(older_than=_days(1), dry_run=False)

    store.before_put = hang
    table = world.open(store)
    for hour in range(24, 31):
        table.append(rows_at(hour))
    for path in named(world, 30):
        assert world.store.get(path)
    assert set(named_by(table)) <= world.names("_log_parts")
    assert world.hours(table) == world.hours() == [float(hour) for hour in range(31)]


def test_two_writers_of_one_checkpoint_race_harmlessly(world: Clocked) -> None:
    """As when a vacuum wrote it meanwhile: the later one's parts go again."""
    store = FaultyStore(world.store)

    def overtake(path: str) -> None:
        if path == checkpoint(30):
            store.before_put = lambda _path: None
            other = world.open()
            packed = TIME_SERIES.pack(other._snapshot, "00", other._env.drive)
            for part, data in packed.parts:
                world.store.put(part, data)
            world.store.put(path, TIME_SERIES.encode_checkpoint(packed.snapshot))

    store.before_put = overtake
    table = world.open(store)
    for hour in range(24, 29):
        table.append(rows_at(hour))
    assert world.names("_log_parts") == set(named(world, 30))
    assert list(world.state.live.items()) == list(replayed(world).items())


def _days(count: int) -> timedelta:
    return timedelta(days=count)


def reason(report: VacuumReport, path: str) -> str:
    (found,) = (entry.reason for entry in report.entries if entry.path == path)
    return found


# -- verify and repair -------------------------------------------------------------------------------------------------


def test_verify_names_a_lost_part_and_repair_writes_it_anew(world: Clocked) -> None:
    assert verify_table(world.store).findings == ()
    lost = named(world, 25)[1]
    before = world.store.get(lost)
    for damage in (None, b"damaged"):
        world.store.delete(lost)
        if damage is not None:
            world.store.put(lost, damage)
        problems = verify_table(world.store).problems
        assert {one.code for one in problems} <= {"checkpoint-damaged", "checkpoint-hint"}
        assert any(lost in one.what for one in problems)
        report = repair_table(world.env(), apply=True)
        assert ("write-part", lost) in [(step.act, step.path) for step in report.steps]
        assert not [step for step in report.steps if step.act == "remove-checkpoint"]
        assert world.store.get(lost) == before
        assert verify_table(world.store).problems == ()


@pytest.mark.parametrize("wrong", ["order", "inlined_bytes"])
def test_verify_holds_the_order_and_the_inlined_bytes_of_a_checkpoint_against_the_commits(world: Clocked, wrong: str) -> None:
    snapshot = TIME_SERIES.decode_checkpoint(world.store.get(checkpoint(25)), 25, world.env().drive)
    state = snapshot.state
    turned = LiveSegments.of(dict(reversed(list(state.live.items()))))
    state = replace(state, live=turned) if wrong == "order" else replace(state, inlined_bytes=7)
    data = TIME_SERIES.encode_checkpoint(replace(snapshot, state=state))
    world.store.put(checkpoint(25), data, mode="overwrite")
    assert [one.code for one in verify_table(world.store).problems if one.path == checkpoint(25)] == ["checkpoint-differs"]


def test_a_part_that_cannot_be_made_again_takes_its_checkpoints_along(world: Clocked) -> None:
    """Its bytes would be others: only the commits are left to say what it held."""
    lost = named(world, 25)[4]
    world.store.delete(lost)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gapless.formats.timeseries.checkpoint.part_reading.encode_part", _other)
        report = repair_table(world.env(), apply=True)
    assert [step.path for step in report.steps if step.act == "remove-checkpoint"] == [checkpoint(25)]
    assert report.left == ()
    assert list(world.state.live.items()) == list(replayed(world).items())


def _other(path: str, live: Sequence[LiveSegment], written: int) -> tuple[PartRef, bytes]:
    return encode_part(path, live[:-1], written)


@pytest.mark.usefixtures("quiet")
def test_repair_keeps_the_only_checkpoint_of_a_cleaned_log(world: Clocked) -> None:
    world.wait(days=2)
    world.table.expire(keep_versions=1, clean_log=True)
    (lost, *_) = named(world, 25)
    world.store.delete(lost)
    report = repair_table(world.env(), apply=True)
    assert not [step for step in report.steps if step.act == "remove-checkpoint"]
    assert report.left
    assert world.open().scan(start="2026-01-01T20:00:00Z").to_arrow().num_rows == 4


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("appends", [0, 1, 3, 4])
def test_each_part_of_a_cleaned_log_may_be_lost(world: Clocked, appends: int) -> None:
    """The two log checkpoints at its beginning name no part together, and each tells what the other's held."""
    world.append(*range(24, 24 + appends))
    world.wait(days=2)
    before = list(world.state.live.items())
    world.table.expire(keep_versions=1, clean_log=True)
    commits = [version for name in world.names("_timeseries_log") if (version := TIME_SERIES.version_of(name))]
    floor = min(commits)
    assert floor > 20
    assert set(named(world, floor)).isdisjoint(named(world, floor - 1))
    for lost in world.names("_log_parts"):
        data = world.store.get(lost)
        world.store.delete(lost)
        assert list(world.state.live.items()) == before
        world.store.put(lost, data)


def test_a_large_plain_checkpoint_opens_and_becomes_parts(world: Clocked, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the release before wrote it: all segments in the checkpoint itself, and no parts."""
    monkeypatch.setattr(packing, "PART_SEGMENTS", 1_000)
    old = Clocked(checkpoint_interval=5)
    old.append(*range(24))
    assert not old.names("_log_parts")
    assert pq.read_metadata(io.BytesIO(old.store.get(checkpoint(25)))).metadata[b"gapless.checkpoint"] == b"1"
    monkeypatch.setattr(packing, "PART_SEGMENTS", PART)
    old.table = old.open()
    old.append(*range(24, 29))
    assert len(named(old, 30)) == 7
    assert pq.read_metadata(io.BytesIO(old.store.get(checkpoint(30)))).metadata[b"gapless.checkpoint"] == b"2"
    assert old.hours() == [float(hour) for hour in range(29)]
    assert list(old.state.live.items()) == list(replayed(old).items())
