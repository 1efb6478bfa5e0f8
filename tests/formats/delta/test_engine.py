"""Delta's log on the engine: commits from version 0 on, reading, cleaning, travel."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable as DeltaLakeTable

from gapless.errors import CorruptTable, LogWarning, StoreUnavailable, VersionNotFound
from gapless.formats.delta.actions import Commit, Metadata, TableState, Txn
from gapless.formats.delta.checkpoint import writing
from gapless.formats.delta.format import DELTA
from gapless.log.cleanup import clean, find_floor
from gapless.log.commit import CLEANED, CommitOptions, Committed, Conflict, Outcome, Unknown, commit
from gapless.log.effects import Conversation, Get
from gapless.log.format import Compatible, Conflicting, Snapshot
from gapless.log.snapshot import advance, load, refresh, write_checkpoint
from gapless.log.versions import TooEarly, read_back, read_range, version_at
from gapless.model.instant import NS_PER_DAY
from gapless.model.protocols import Capabilities
from gapless.runtime.environment import Environment
from gapless.store.open import open_store
from gapless.testing.store.stores import OuterStore
from support.clocked_delta import ClockedDelta
from support.clocked_table import HOUR_NS, SetClock
from support.delta_log import MS, PROTOCOL, SCHEMA, START_MS, V2, Log, add, remove, told

CREATE = (PROTOCOL, Metadata(id="t", schema=SCHEMA))


def stands(mine: Commit, _version: int, _theirs: Commit) -> Conversation[Compatible[Commit]]:
    yield from ()
    return Compatible(mine)


def refuses(_mine: Commit, version: int, theirs: Commit) -> Conversation[Conflicting]:
    yield from ()
    return Conflicting(f"{theirs.operation} at {version}")


def entry(name: str, *actions: Any, **info: Any) -> Commit:
    return Commit(id=name, operation="TEST", actions=actions, **info)


def clocked(log: Log, ns: int = START_MS * MS + HOUR_NS, store: Any = None) -> Environment:
    clock = SetClock()
    clock.ns = ns
    return Environment(store=store or log.store, clock=clock, deadline_s=0.2)


def land(env: Environment, snapshot: Snapshot[TableState], name: str, *actions: Any) -> Outcome[Commit]:
    return env.drive(commit(DELTA, snapshot.version, snapshot.time_ns, entry(name, *actions), stands))


# -- commits -----------------------------------------------------------------------------------------------------------


def test_the_first_commit_is_version_0_and_no_hint_is_written() -> None:
    log = Log()
    log.store.objects.clear()
    env = clocked(log)
    assert env.drive(load(DELTA)) is None
    outcome = env.drive(commit(DELTA, -1, 0, entry("a", *CREATE), refuses))
    assert isinstance(outcome, Committed)
    time_ns = outcome.entries[0][2]
    assert (outcome.version, time_ns % MS) == (0, 0)
    assert 0 <= time_ns - START_MS * MS - HOUR_NS < 10 * MS
    assert log.names() == ["00000000000000000000.json"]
    again = env.drive(commit(DELTA, -1, 0, entry("b", *CREATE), refuses))
    assert isinstance(again, Conflict)
    assert (again.version, again.cause.reason) == (0, "TEST at 0")


def test_times_rise_by_a_millisecond_where_the_clock_stands_still_or_runs_back() -> None:
    log = Log()
    env = clocked(log, ns=START_MS * MS)
    snapshot = log.load()
    for name in "abc":
        outcome = land(env, snapshot, name, add(name))
        assert isinstance(outcome, Committed)
        snapshot = advance(DELTA, snapshot, outcome.entries)
    assert [time_ns // MS - START_MS for _, _, time_ns in log.env.drive(read_back(DELTA, 3))] == [1_000, 1_001, 1_002, 1_003]
    assert told(snapshot.state) == told(log.load().state)


class LosesAnswers(OuterStore):
    """Every create is done, and answered by silence."""

    def put(self, path: str, data: bytes | memoryview, **options: Any) -> None:
        self.inner.put(path, data, **options)
        raise StoreUnavailable("no answer", path=path)


def test_a_lost_answer_is_resolved_by_the_transaction_id() -> None:
    log = Log()
    snapshot = log.load()
    outcome = land(clocked(log, store=LosesAnswers(log.store)), snapshot, "mine", add("a"))
    assert isinstance(outcome, Committed)
    assert (outcome.version, outcome.entries[0][1].id, log.load().version) == (1, "mine", 1)


class LosesRequests(OuterStore):
    """No create is done, and none is answered."""

    def put(self, path: str, data: bytes | memoryview, **options: Any) -> None:
        raise StoreUnavailable("no answer", path=path)


def test_an_answer_that_never_comes_is_the_third_outcome() -> None:
    log = Log()
    snapshot = log.load()
    assert land(clocked(log, store=LosesRequests(log.store)), snapshot, "mine", add("a")) == Unknown(1)
    assert log.load().version == 0


def test_a_lost_race_steps_over_commits_of_others_with_or_without_ids_and_times() -> None:
    log = Log()
    snapshot = log.load()
    log.land(add("theirs"))
    log.write(f"{2:020}.json", [{"add": {"path": "bare", "size": 1}}])
    log.version = 2
    outcome = land(clocked(log, ns=START_MS * MS), snapshot, "mine", add("a"))
    assert isinstance(outcome, Committed)
    assert [(version, time_ns // MS - START_MS) for version, _, time_ns in outcome.entries] == [
        (1, 2_000),
        (2, 2_000),
        (3, 2_001),
    ]
    newest = advance(DELTA, snapshot, outcome.entries)
    assert list(newest.state.files) == ["theirs", "bare", "a"]
    assert told(newest.state) == told(log.load().state)


def test_a_table_that_was_made_anew_under_a_writer_is_not_written_to(tmp_path: Path) -> None:
    env = Environment(store=open_store(str(tmp_path)))
    made = env.drive(commit(DELTA, -1, 0, entry("a", *CREATE), stands))
    assert isinstance(made, Committed)
    snapshot = Snapshot(0, made.entries[0][2], DELTA.replay(None, made.entries))
    (tmp_path / DELTA.path_of(0)).unlink()
    later = clocked(Log(), ns=made.entries[0][2] + HOUR_NS, store=env.store)
    assert isinstance(later.drive(commit(DELTA, -1, 0, entry("b", *CREATE), stands)), Committed)
    outcome = later.drive(
        commit(DELTA, 0, snapshot.time_ns, entry("c", add("x")), stands, options=CommitOptions(verify_base=True))
    )
    assert isinstance(outcome, Conflict)
    assert outcome.cause.reason == CLEANED


# -- reading -----------------------------------------------------------------------------------------------------------


def test_a_commit_without_a_time_has_that_of_the_commit_before_it() -> None:
    log = Log()
    log.write(f"{1:020}.json", [{"add": {"path": "a", "size": 1}}])
    log.write(f"{2:020}.json", [{"commitInfo": {"timestamp": START_MS + 9_000}}, {"add": {"path": "b", "size": 1}}])
    log.write(f"{3:020}.json", [{"add": {"path": "c", "size": 1}}])
    times = [1_000, 1_000, 9_000, 9_000]
    assert [log.load(version).time_ns // MS - START_MS for version in range(4)] == times
    read = [log.env.drive(read_back(DELTA, 3)), log.env.drive(read_range(DELTA, 0, 4))]
    assert [[time_ns // MS - START_MS for _, _, time_ns in entries] for entries in read] == [times, times]
    opened = log.load(1)
    assert log.env.drive(refresh(DELTA, opened)).time_ns // MS - START_MS == 9_000


def test_refresh_reads_only_what_is_new_and_notices_that_the_log_is_gone() -> None:
    log = Log()
    snapshot = log.load()
    assert log.env.drive(refresh(DELTA, snapshot)) is snapshot
    log.land(add("a"))
    assert list(log.env.drive(refresh(DELTA, snapshot)).state.files) == ["a"]
    log.drop(0, 1)
    with pytest.raises(CorruptTable, match="version 0 is lost"):
        log.env.drive(refresh(DELTA, snapshot))


@pytest.mark.parametrize("gap", [0, 2, 3])
def test_a_log_with_a_gap_is_refused(gap: int) -> None:
    log = Log()
    for name in "abcd":
        log.land(add(name))
    log.drop(gap)
    with pytest.raises(CorruptTable, match=f"version {gap} is lost") as caught:
        log.load()
    assert ("gl.delta.open_at" in str(caught.value)) is (gap > 0)


def test_time_05_delta_a_version_that_the_log_was_cleaned_of_names_the_earliest() -> None:
    log = Log()
    for number in range(1, 20):
        log.land(add(f"f{number}"))
    log.checkpoint(10)
    log.drop(0)
    with pytest.raises(VersionNotFound, match="version 10 is the earliest"):
        log.load(5)
    assert len(log.load(10).state.files) == 10
    assert len(log.load(15).state.files) == 15
    with pytest.raises(VersionNotFound, match="versions 0 to 19"):
        log.load(20)
    with pytest.raises(VersionNotFound, match="versions 0 to 19"):
        log.load(-1)


def test_a_log_of_which_only_a_checkpoint_is_left_is_read_refreshed_and_written_to() -> None:
    log = Log()
    for name in "abc":
        log.land(add(name))
    log.checkpoint()
    log.drop(*range(4))
    snapshot = log.load()
    assert (snapshot.version, list(snapshot.state.files)) == (3, ["a", "b", "c"])
    assert log.env.drive(refresh(DELTA, snapshot)) is snapshot
    for verify_base in (False, True):
        conversation = commit(
            DELTA,
            snapshot.version,
            snapshot.time_ns,
            entry("x", add("d")),
            stands,
            options=CommitOptions(verify_base=verify_base),
        )
        outcome = clocked(log, ns=START_MS * MS + 9 * NS_PER_DAY).drive(conversation)
        assert isinstance(outcome, Committed)
        assert outcome.version == 4
        assert log.env.drive(refresh(DELTA, snapshot)).version == 4
        assert list(log.load().state.files) == ["a", "b", "c", "d"]
        log.drop(4)


def test_a_place_below_the_newest_commit_of_a_cleaned_log_is_not_written_to() -> None:
    log = Log()
    for name in "abcde":
        log.land(add(name))
    old = log.load(2)
    log.checkpoint(4)
    log.drop(0, 1, 2, 3)
    outcome = land(clocked(log, ns=START_MS * MS + 9 * NS_PER_DAY), old, "x", add("z"))
    assert isinstance(outcome, Conflict)
    assert outcome.cause.reason == CLEANED
    assert 3 not in {DELTA.version_of(f"_delta_log/{name}") for name in log.names()}


def test_a_place_before_a_gap_is_not_written_to_though_an_old_handle_made_a_checkpoint_there() -> None:
    log = Log()
    for name in "abcde":
        log.land(add(name))
    old = log.load(2)
    log.checkpoint(4)
    log.drop(0, 1, 2, 3)
    log.env.drive(write_checkpoint(DELTA, old))
    outcome = land(clocked(log, ns=START_MS * MS + 9 * NS_PER_DAY), old, "x", add("z"))
    assert isinstance(outcome, Conflict)
    assert outcome.cause.reason == CLEANED
    assert 3 not in {DELTA.version_of(f"_delta_log/{name}") for name in log.names()}


def test_damage_of_all_that_tells_of_a_cleaned_log_is_an_error_and_no_search_without_end() -> None:
    log = Log()
    for name in "abc":
        log.land(add(name))
    log.checkpoint(2)
    log.drop(0, 1)
    log.write(f"{2:020}.checkpoint.parquet", b"torn")
    with pytest.warns(LogWarning, match="cannot be read"), pytest.raises(CorruptTable, match="version 0 is lost"):
        log.load()


def test_versions_by_time_count_from_0() -> None:
    log = Log()
    for name in "abc":
        log.land(add(name))
    newest = log.load()
    found = [log.env.drive(version_at(DELTA, newest, (START_MS + ms) * MS)) for ms in (1_000, 1_999, 2_000, 3_500, 9_000)]
    assert found == [0, 0, 1, 2, 3]
    assert log.env.drive(version_at(DELTA, newest, START_MS * MS)) == TooEarly(0, (START_MS + 1_000) * MS)


class Far(OuterStore):
    """A store where several requests at a time take no longer than one; counts rounds."""

    capabilities = Capabilities(put_if_absent=True, durable=True, survives_fork=True, concurrent=True)


def rounds(log: Log, conversation: Conversation[Any]) -> tuple[Any, int]:
    """What a conversation returns, and the requests, or sets of such, that it waits for."""
    waited, env = 0, Environment(store=Far(log.store))

    def counted() -> Conversation[Any]:
        nonlocal waited
        answer = None
        while True:
            try:
                request = conversation.send(answer)
            except StopIteration as end:
                return end.value
            waited += (
                isinstance(request, Get) or type(request).__name__ == "ListNames" or bool(getattr(request, "requests", ()))
            )
            answer = yield request

    return env.drive(counted()), waited


def test_opening_waits_for_the_hint_then_the_checkpoint_with_its_time_and_a_listing_then_what_is_new() -> None:
    log = Log()
    for number in range(30):
        log.land(add(f"f{number}"))
    log.checkpoint()
    snapshot, waited = rounds(log, load(DELTA))
    assert (snapshot.version, snapshot.time_ns, waited) == (30, log.time_ms * MS, 2)
    log.land(add("new"))
    snapshot, waited = rounds(log, load(DELTA))
    assert (snapshot.version, waited) == (31, 3)


# -- checkpoints by the committer, and cleaning ------------------------------------------------------------------------


def test_checkpoints_are_written_each_so_many_commits_and_serve() -> None:
    world = ClockedDelta(properties={"delta.checkpointInterval": "5"})
    world.append(*range(1, 13))
    found = sorted(version for name in world.names("_delta_log") if (version := DELTA.checkpoint_of(name)) is not None)
    assert found == [5, 10]
    assert json.loads(world.store.get(DELTA.last_checkpoint))["version"] == 10
    for version in range(10):
        world.store.delete(DELTA.path_of(version))
    assert world.ids() == list(range(1, 13))
    assert world.ids(version=11) == list(range(1, 12))


def test_a_table_whose_checkpoint_cannot_be_written_is_committed_to_all_the_same() -> None:
    world = ClockedDelta(properties={"delta.checkpointInterval": "2"})
    inner = world.store

    class Full(OuterStore):
        def put(self, path: str, data: bytes | memoryview, **options: Any) -> None:
            if DELTA.checkpoint_of(path) is not None:
                raise StoreUnavailable("no answer", path=path)
            self.inner.put(path, data, **options)

    world.store = Full(inner)  # type: ignore[assignment]
    world.table = world.open()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LogWarning)
        world.append(1, 2, 3)
    assert world.ids() == [1, 2, 3]
    assert DELTA.last_checkpoint not in world.names()


def long_log(monkeypatch: pytest.MonkeyPatch, *, v2: bool) -> Log:
    monkeypatch.setattr(writing, "FILES_FROM", 1)
    log = Log(configuration={"delta.checkpointPolicy": "v2"}, protocol=V2) if v2 else Log()
    for number in range(1, 31):
        log.land(add(f"f{number}"), *([remove(f"f{number - 1}", at_ms=log.time_ms)] if number > 1 else []))
        log.write(f"{number:020}.crc", b"{}")
        if number % 10 == 5:
            log.checkpoint()
    log.write(f"{3:020}.{9:020}.compacted.json", b"{}")
    log.write(f"{19:020}.{24:020}.compacted.json", b"{}")
    log.write(f"{20:020}.{24:020}.compacted.json", b"{}")
    log.write(f"_staged_commits/{4:020}.x.json", b"{}")
    log.write(f".{4:020}.json.crc", b"Hadoop's")
    log.write(f".{22:020}.json.crc", b"Hadoop's")
    log.write("neighbour.txt", b"?")
    return log


@pytest.mark.parametrize("v2", [False, True])
def test_a_cleaned_log_begins_with_two_checkpoints_and_a_commit(monkeypatch: pytest.MonkeyPatch, *, v2: bool) -> None:
    log = long_log(monkeypatch, v2=v2)
    before = {version: told(log.load(version).state) for version in range(19, 31)}
    removed = log.env.drive(clean(DELTA, 20, ()))
    names = log.names()
    commits = [version for name in names if (version := DELTA.version_of(f"_delta_log/{name}")) is not None]
    whole = [name for name in names if DELTA.checkpoint_of(f"_delta_log/{name}") is not None]
    assert commits == list(range(19, 31))
    assert [int(name[:20]) for name in whole] == [19, 20, 25]
    assert [name for name in names if name.endswith(".crc")] == [
        f".{22:020}.json.crc",
        *(f"{version:020}.crc" for version in range(19, 31)),
    ]
    assert [name for name in names if "compacted" in name] == [f"{20:020}.{24:020}.compacted.json"]
    assert {"neighbour.txt", f"_staged_commits/{4:020}.x.json"} <= set(names)
    assert {int(name.partition("/")[2][:20]) for name in names if name.startswith("_sidecars/")} == (
        {19, 20, 25} if v2 else set()
    )
    assert not set(removed) & {f"_delta_log/{name}" for name in names}
    assert {version: told(log.load(version).state) for version in range(19, 31)} == before
    with pytest.raises(VersionNotFound, match="version 19 is the earliest"):
        log.load(18)
    assert log.env.drive(clean(DELTA, 20, ())) == ()


@pytest.mark.parametrize("v2", [False, True])
@pytest.mark.parametrize("damaged", [19, 20])
def test_either_checkpoint_of_a_cleaned_log_serves_where_the_other_is_damaged(
    monkeypatch: pytest.MonkeyPatch, damaged: int, *, v2: bool
) -> None:
    log = long_log(monkeypatch, v2=v2)
    log.env.drive(clean(DELTA, 20, ()))
    log.write(f"{damaged:020}.checkpoint.parquet", b"torn")
    log.store.delete(DELTA.checkpoint_path(25))
    log.store.delete(DELTA.last_checkpoint)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LogWarning)
        assert list(log.load(22).state.files) == ["f22"]


def test_the_floor_of_a_cleaning_is_the_oldest_commit_that_is_young_enough() -> None:
    log = Log()
    for number in range(1, 9):
        log.land(add(f"f{number}"))
    newest = log.load()
    assert log.env.drive(find_floor(DELTA, newest.version, (START_MS + 4_500) * MS)) == 4
    assert log.env.drive(find_floor(DELTA, newest.version, (START_MS + 99_000) * MS)) == 8


def test_a_commit_that_says_no_time_is_not_cleaned_away_as_an_old_one() -> None:
    log = Log()
    for number in range(1, 9):
        log.land(add(f"f{number}"))

    def untime(*versions: int) -> None:
        for name in (f"{version:020}.json" for version in versions):
            log.write(name, b"\n".join(line for line in log.read(name).splitlines() if b"commitInfo" not in line))

    untime(0, 1, 4, 5)
    floors = {after: log.env.drive(find_floor(DELTA, 8, (START_MS + after) * MS)) for after in (0, 4_500, 6_500, 7_500)}
    assert floors == {0: 0, 4_500: 4, 6_500: 4, 7_500: 7}
    untime(*range(9))
    assert log.env.drive(find_floor(DELTA, 8, (START_MS + 99_000) * MS)) == 0


def test_a_hint_that_names_a_checkpoint_which_goes_is_set_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    log = long_log(monkeypatch, v2=False)
    log.write("_last_checkpoint", b'{"version":5,"size":1}')
    log.env.drive(clean(DELTA, 20, ()))
    hint = json.loads(log.read("_last_checkpoint"))
    assert (hint["version"], hint["numOfAddFiles"]) == (20, 1)
    assert hint["sizeInBytes"] == len(log.read(f"{20:020}.checkpoint.parquet"))


@pytest.mark.parametrize("v2", [False, True])
def test_deltalake_opens_and_travels_in_a_log_that_we_cleaned(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, v2: bool
) -> None:
    log = long_log(monkeypatch, v2=v2)
    log.env.drive(clean(DELTA, 20, ()))
    for path, (data, _) in log.store.objects.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(data if not path.endswith(".crc") else b"")
    for file in tmp_path.rglob("*.crc"):
        file.unlink()
    for file in tmp_path.rglob("*.compacted.json"):
        file.unlink()
    for version in (19, 20, 24, 30):
        theirs = DeltaLakeTable(str(tmp_path), version=version)
        assert [uri.rpartition("/")[2] for uri in theirs.file_uris()] == [f"f{version}"]
    assert DeltaLakeTable(str(tmp_path)).version() == 30


def test_operations_are_known_after_a_checkpoint_and_a_cleaning(monkeypatch: pytest.MonkeyPatch) -> None:
    log = long_log(monkeypatch, v2=False)
    log.land(Txn(app_id="gapless.job:fill", version=1), Txn(app_id="s", version=4))
    log.land()
    log.env.drive(clean(DELTA, 32, ()))
    applied = log.load().state.applied
    assert {key: (known.version, known.tally) for key, known in applied.items()} == {
        "job:fill": (None, None),
        "app:s": (None, None),
    }


def test_a_checkpoint_is_not_written_over_anothers() -> None:
    log = Log()
    log.land(add("a"))
    log.write(f"{1:020}.checkpoint.parquet", b"theirs")
    log.env.drive(write_checkpoint(DELTA, log.load(0)))
    snapshot = advance(DELTA, log.load(0), log.env.drive(read_range(DELTA, 1, 2)))
    log.env.drive(write_checkpoint(DELTA, snapshot))
    assert log.read(f"{1:020}.checkpoint.parquet") == b"theirs"


def test_checksums_of_hadoop_go_where_we_replace_the_file_that_they_are_of(monkeypatch: pytest.MonkeyPatch) -> None:
    log = long_log(monkeypatch, v2=False)
    log.write("._last_checkpoint.crc", b"stale")
    log.checkpoint(25)
    assert "._last_checkpoint.crc" not in log.names()
    log.write(f"{20:020}.checkpoint.parquet", b"torn")
    log.write(f".{20:020}.checkpoint.parquet.crc", b"of the torn one")
    with pytest.warns(LogWarning, match="cannot be read"):
        log.env.drive(clean(DELTA, 20, ()))
    assert f".{20:020}.checkpoint.parquet.crc" not in log.names()
    assert list(log.load(20).state.files) == ["f20"]
