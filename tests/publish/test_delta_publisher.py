"""Publishing as Delta: each version once whatever dies or comes twice; what is described stays; what Delta cannot say is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from threading import Thread

import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import (
    ForeignCommit,
    InvalidChange,
    InvalidOption,
    NotSupported,
    StoreUnavailable,
    TableExists,
    UnsupportedType,
)
from gapless.formats.delta.format import DELTA
from gapless.publish.delta.publisher import DeltaPublisher
from gapless.publish.sources.timeseries import TimeSeriesSource
from gapless.runtime.environment import Environment
from gapless.tables.timeseries.lifecycle import create_table, open_table, parse_index
from gapless.tables.timeseries.table import TimeSeriesTable
from gapless.testing.store.stores import DictStore, Killed
from support.clocked_table import NOON_NS, SetClock, rows_at
from support.dying_store import DyingStore, Life
from support.faulty_store import FaultyStore, once, unavailable

PUBLISHED = {"publish": ["delta"]}


def table_in(store: object, **properties: object) -> TimeSeriesTable:
    env = Environment(store=store, clock=SetClock())  # type: ignore[arg-type]
    created = create_table(env, "t", parse_index("ts", "timestamp", "1h", (), None), None, {**PUBLISHED, **properties})
    return TimeSeriesTable(env, "memory://t", created)


def again(store: object) -> TimeSeriesTable:
    env = Environment(store=store, clock=SetClock(NOON_NS * 2))  # type: ignore[arg-type]
    return TimeSeriesTable(env, "memory://t", open_table(env, "t"))


def versions_in(store: DictStore) -> list[int]:
    """The versions that the commits of the Delta log publish, in order."""
    names = sorted(info.path for info in store.list("_delta_log") if info.path.endswith(".json"))
    return [json.loads(store.get(name).partition(b"\n")[0])["commitInfo"]["gapless.version"] for name in names]


def check(store: DictStore) -> None:
    """The description is that of the newest version, and has published each version at most once."""
    table = again(store)
    (publication,) = table.publish()
    assert (publication.version, publication.behind) == (table.version, 0)
    told = versions_in(store)
    assert told == sorted(set(told))
    files = DeltaPublisher(table._env)
    assert files.differences(table._source(table._snapshot)) == []


def life(table: TimeSeriesTable) -> None:
    table.append(rows_at(0, 5))
    table.append(rows_at(10, 5))
    table.upsert(rows_at(2, 5))
    table.compact()
    table.add_column("note", "string")
    table.delete("v = 3")


def test_each_commit_is_published_under_its_version_with_its_time(tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1h", properties=PUBLISHED)
    report = table.append(rows_at(0, 5))
    assert report.published == {"delta": "published"}
    assert table.upsert(rows_at(4, 5)).published == {"delta": "published"}
    delta = gl.delta.open(tmp_path / "t")
    assert [entry.operation for entry in delta.history()] == ["PUBLISH", "MERGE"]
    ours, theirs = table.history(), delta.history()
    assert [abs(a.time - b.time) < timedelta(milliseconds=3) for a, b in zip(ours[1:], theirs, strict=True)] == [True, True]
    for mine, published in ((2, 0), (3, 1)):
        rows = gl.delta.open(tmp_path / "t").at(version=published).scan().to_arrow().sort_by("ts")
        assert rows.to_pylist() == table.at(version=mine).scan().to_arrow().to_pylist()


def test_what_was_laid_out_anew_is_no_change() -> None:
    store = DictStore()
    life(table_in(store))
    for version in range(len(versions_in(store))):
        entry, _ = DELTA.decode(store.get(DELTA.path_of(version)), version)
        assert entry.changes_rows == (entry.operation not in ("OPTIMIZE", "ALTER"))


@pytest.mark.parametrize("after", [False, True])
def test_killed_at_any_call_and_published_again_each_version_is_there_once(after: bool) -> None:
    for dies_at in range(1, 60):
        store, killed = DictStore(), False
        try:
            life(table_in(DyingStore(store, Life(dies_at, after))))
        except Killed:
            killed = True
        if any(info.path.startswith("_timeseries_log/") for info in store.list("_timeseries_log")):
            if again(store).schema is None:
                again(store).append(rows_at(0))
            check(store)
        if not killed:
            assert dies_at > 20
            return
    raise AssertionError("it never lived long enough")


def test_a_lost_reply_publishes_once() -> None:
    store = DictStore()
    table = table_in(store)
    table.append(rows_at(0, 5))
    for lost in range(1, 4):
        faulty = FaultyStore(store)
        faulty.after_put = once(partial(unavailable, "no answer"), lambda path: path.startswith("_delta_log/"))
        assert again(faulty).append(rows_at(10 * lost)).published == {"delta": "published"}
        assert versions_in(store) == list(range(2, 3 + lost))
    check(store)


def test_publishers_that_race_publish_each_version_once() -> None:
    store = DictStore()
    table = table_in(store, publish_on_commit=False)
    for hour in range(20):
        assert table.append(rows_at(hour)).published == {"delta": "left to `gapless publish`"}
    threads = [Thread(target=again(store).publish) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    table.append(rows_at(40))
    table.append(rows_at(41))
    check(store)


def test_a_store_that_fails_fails_no_append_and_the_next_catches_up(monkeypatch: pytest.MonkeyPatch) -> None:
    store = DictStore()
    table = table_in(store)
    table.append(rows_at(0))
    with monkeypatch.context() as patched:
        patched.setattr(DeltaPublisher, "publish", _unavailable)
        report = table.append(rows_at(1))
    assert report.published == {"delta": "StoreUnavailable: the bucket is away"}
    assert (table.publications()[0].behind, table.publications()[0].why) == (1, "StoreUnavailable: the bucket is away")
    assert table.append(rows_at(2)).published == {"delta": "published"}
    assert versions_in(store) == [2, 3, 4]


def _unavailable(*_: object, **__: object) -> int:
    raise StoreUnavailable("the bucket is away")


def test_versions_that_the_log_was_cleaned_of_come_as_one() -> None:
    store = DictStore()
    table = table_in(store, publish_on_commit=False)
    table.append(rows_at(0))
    table.publish()
    for hour in range(1, 30):
        table.append(rows_at(hour))
    table.delete("v < 5")
    clock = table._env.clock
    assert isinstance(clock, SetClock)
    clock.ns += 30 * 86_400 * 10**9
    table.append(rows_at(90))
    report = table.expire(keep_versions=2, clean_log=True)
    assert (report.waits_for, report.earliest > 20) == ((), True)  # its publisher has stood still for a month
    check(store)
    assert len(versions_in(store)) < 4


def test_what_is_described_still_does_not_expire() -> None:
    store = DictStore()
    table = table_in(store, publish_on_commit=False)
    table.append(rows_at(0, 3))
    table.publish()
    described = table.version
    table.upsert(rows_at(0, 3).set_column(1, "v", pa.array([9.0, 9.0, 9.0])))
    table.append(rows_at(5))
    report = table.expire(keep_versions=1)
    assert (report.waits_for, report.earliest) == (("delta",), described)
    table.vacuum(timedelta(0), dry_run=False)
    files = DeltaPublisher(table._env)
    assert files.published() == (described, 0)
    assert all(store.head(path) for path in files._known.state.files)  # type: ignore[union-attr]
    table.publish()
    assert table.expire(keep_versions=1).waits_for == ()


def foreign_commit(store: DictStore) -> None:
    """What another writer does that heeds no features: take a file away."""
    version = len(versions_in(store))
    path = next(iter(DeltaPublisher(Environment(store=store))._newest().state.files))  # type: ignore[union-attr]
    lines: list[dict[str, object]] = [
        {"commitInfo": {"timestamp": NOON_NS // 10**6, "inCommitTimestamp": NOON_NS // 10**6, "operation": "DELETE"}},
        {"remove": {"path": path, "deletionTimestamp": 1, "dataChange": True}},
    ]
    store.put(DELTA.path_of(version), "".join(json.dumps(line) + "\n" for line in lines).encode())


def test_another_writers_commit_is_found_told_and_mended() -> None:
    store = DictStore()
    table = table_in(store)
    table.append(rows_at(0, 3))
    table.append(rows_at(5, 3))
    foreign_commit(store)
    assert "ForeignCommit" in table.append(rows_at(10)).published["delta"]
    with pytest.raises(ForeignCommit, match="version 2 of the Delta table") as error:
        table.publish()
    assert (error.value.format, error.value.published_version) == ("delta", 2)
    (finding,) = table.verify().problems
    assert (finding.code, finding.mend) == ("publication-foreign", "repair")
    assert table.expire(keep_versions=1).waits_for == ("delta",)
    (publication,) = table.publish(mend=True)
    assert publication.behind == 0
    assert table.verify().ok
    assert DeltaPublisher(table._env).differences(table._source(table.refresh()._snapshot)) == []
    assert table.append(rows_at(20)).published == {"delta": "published"}


def test_a_writer_that_comes_between_is_not_overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look at the description and a commit that says all files."""
    store = DictStore()
    table = table_in(store, publish_on_commit=False)
    table.append(rows_at(0, 3))
    table.publish()
    table.append(rows_at(5))

    def cleaned(*_: object) -> None:
        monkeypatch.undo()
        foreign_commit(store)

    monkeypatch.setattr(TimeSeriesSource, "changes_after", cleaned)
    with pytest.raises(ForeignCommit, match="version 1 of the Delta table"):
        table.publish()
    assert table.publish(mend=True)[0].behind == 0


CHANGES: list[tuple[str, Callable[[TimeSeriesTable], object], type[gl.GaplessError], str]] = [
    ("a type", lambda t: t.add_column("z", pa.timestamp("ns")), UnsupportedType, "'z' of type timestamp"),
    ("a type that few read", lambda t: t.add_column("z", pa.struct([("h", pa.float16())])), UnsupportedType, "'z.h' of type halffloat"),
    ("a default", lambda t: t.add_column("z", "int32", default=1), InvalidChange, "'z' has a default"),
    ("rows in the log", lambda t: t.set_properties({"inline_bytes": 1000}), InvalidOption, "exclude each other"),
    ("a format", lambda t: t.set_properties({"publish": ["hudy"]}), InvalidOption, "hudy"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(CHANGES)), ids=[what for what, *_ in CHANGES])
def test_what_delta_cannot_say_is_refused_and_changes_nothing(number: int) -> None:
    _, change, error, said = CHANGES[number]
    table = table_in(DictStore())
    table.append(rows_at(0, 3).append_column("n", pa.array([1, 2, 3], pa.int32())))
    with pytest.raises(error, match=said):
        change(table)
    assert table.refresh().version == 2
    assert table.publications()[0].behind == 0


def test_a_table_is_published_only_if_all_of_it_can_be() -> None:
    store = DictStore()
    env = Environment(store=store, clock=SetClock())
    made = create_table(env, "t", parse_index("ts", "timestamp", "1h", (), None), None, {"inline_bytes": 100_000})
    table = TimeSeriesTable(env, "memory://t", made)
    table.append(rows_at(0, 3))
    with pytest.raises(NotSupported, match="1 appends lie in the log"):
        table.set_properties({"inline_bytes": 0, "publish": ["delta"]})
    table.compact()
    table.set_properties({"inline_bytes": 0, "publish": ["delta"]})
    check(store)
    fresh = table_in(DictStore())
    with pytest.raises(UnsupportedType, match="'ts' of type timestamp"):
        fresh.append({"ts": pa.array([1], pa.timestamp("ns"))})
    assert fresh.refresh().version == 1
    with pytest.raises(InvalidOption, match="published in no format"):
        table_in(DictStore(), publish=[]).publish()


def test_a_restore_is_followed_however_far_back_it_goes() -> None:
    store = DictStore()
    table = table_in(store, publish=[])
    table.append(rows_at(0, 3))
    before = table.version
    table.set_properties({"publish": ["delta"]})
    table.append(rows_at(5, 3))
    table.restore(before)
    assert table.properties.publish == ("delta",)
    check(store)
    table.restore(1)
    assert DeltaPublisher(table._env).differences(table._source(table._snapshot)) == []
    table.expire(keep_versions=1)
    table.vacuum(timedelta(0), dry_run=False)
    assert not DeltaPublisher(table._env)._newest().state.files  # type: ignore[union-attr]
    table.append(rows_at(9))
    check(store)


def test_versions_of_while_it_was_not_published_come_as_one() -> None:
    store = DictStore()
    table = table_in(store)
    table.append(rows_at(0, 3))
    table.set_properties({"publish": None, "inline_bytes": 100_000})
    table.append(rows_at(5))
    table.add_column("t", pa.time64("us"))
    table.drop_column("t")
    table.compact()
    late = again(store)
    table.set_properties({"publish": ["delta"], "inline_bytes": None})
    check(store)
    late.append(rows_at(7))  # a handle that does not know yet that it is published
    table.refresh().compact()
    check(store)


def test_a_stored_name_is_given_once_whatever_its_case() -> None:
    store = DictStore()
    table = table_in(store)
    table.append(rows_at(0, 2).append_column("a", pa.array([1, 2])))
    table.drop_column("a")
    table.add_column("A", "int64")
    check(store)
    assert table.scan().to_arrow()["A"].to_pylist() == [None, None]
    schema = DeltaPublisher(table._env)._newest().state.metadata.schema  # type: ignore[union-attr]
    assert [field.physical_name for field in schema] == ["ts", "v", "A~2"]


def test_a_table_of_another_writer_is_not_taken_over(tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1h")
    table.append(rows_at(0, 2))
    other = gl.delta.create(tmp_path / "other", pa.schema([("x", pa.int64())]))
    (tmp_path / "other" / "_delta_log").rename(tmp_path / "t" / "_delta_log")
    with pytest.raises(TableExists, match=r"a delta table .* already"):
        table.set_properties({"publish": ["delta"]})
    assert (table.refresh().version, other.version) == (2, 0)


def test_a_step_that_type_widening_lacks_is_refused(tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1h", properties=PUBLISHED)
    table.append(rows_at(0, 2).append_column("n", pa.array([1, 2], pa.int16())))
    with pytest.raises(UnsupportedType, match="'n' cannot become float"):
        table.widen_column("n", "float32")
    table.widen_column("n", "int64")
    assert table.publications()[0].behind == 0
