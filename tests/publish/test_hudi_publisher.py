"""Publishing as Hudi: a reader that lists sees each version whole or not at all, whatever dies or comes twice; what Hudi cannot say is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import ForeignCommit, InvalidChange, NotSupported, StoreUnavailable, TableExists, UnsupportedType
from gapless.formats.timeseries.actions import is_copy, segment_path
from gapless.publish.hudi.publisher import HudiPublisher
from gapless.tables.timeseries.table import TimeSeriesTable
from gapless.testing.store.stores import DictStore, Killed
from support.clocked_table import NOON_NS, SetClock, rows_at
from support.dying_store import DyingStore, Life
from support.faulty_store import FaultyStore, once, unavailable
from support.hudi_published import PUBLISHED, QuickClock, StoppedClock, adopted, again, check, rows_of, shown, table_in
from support.hudi_reader import files_seen, versions_told
from support.published_sources import KINDS, SERIES, SourceKind


def life(table: Any, kind: SourceKind = SERIES) -> None:
    kind.life(table)
    table.restore(3)
    table.append(rows_at(30, 2))


def test_each_version_is_an_instant_and_can_be_read_as_of_it(tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1h", properties=PUBLISHED)
    assert table.append(rows_at(0, 5)).published == {"hudi": "published"}
    told = []
    for change in (
        lambda: table.append(rows_at(10, 5)),
        lambda: table.upsert(rows_at(2, 5).set_column(1, "v", pa.array([9.0] * 5))),
        lambda: table.delete("v = 9 or v = 12"),
        table.compact,
        lambda: table.restore(3),
        lambda: table.drop_before("2026-01-01T02:00Z"),
        lambda: table.tag("one"),
        lambda: table.append(rows_at(50)),
    ):
        change()
        (publication,) = table.publications()
        assert (publication.version, publication.behind) == (table.version, 0)
        told.append((str(publication.published_version), rows_of(table)))
    store = table._env.store
    assert [(at, shown(store, at)) for at, _ in told] == told
    assert [at for at, _ in told] == sorted({at for at, _ in told})


def test_an_attempt_that_begins_after_a_commit_without_files_is_published_after_it() -> None:
    store = DictStore()
    table_in(store)
    told = []
    for hour in range(40):
        clock = QuickClock(NOON_NS + hour * 100_000_000 + hour * 300_000)
        mine = again(store, clock)
        mine.append(rows_at(2 * hour))
        told.append((str(mine.publications()[0].published_version), rows_of(mine)))
        clock.ns += 5_000_000
        mine.tag("now", move=True)
        told.append((str(mine.publications()[0].published_version), rows_of(mine)))
        mine.append(rows_at(2 * hour + 1))
        told.append((str(mine.publications()[0].published_version), rows_of(mine)))
    assert [at for at, _ in told] == sorted({at for at, _ in told})
    assert [(at, shown(store, at)) for at, _ in told] == told


def test_segments_are_published_as_they_lie_and_only_restored_ones_are_copied() -> None:
    store = DictStore()
    table = table_in(store)
    table.append(rows_at(0, 5))
    table.upsert(rows_at(2, 5).set_column(1, "v", pa.array([9.0] * 5)))
    assert files_seen(store) == sorted(segment.path for segment in table.segments())
    table.restore(2)
    seen = files_seen(store)
    assert seen is not None
    assert [is_copy(name) for name in seen] == [True]
    check(store)
    table.vacuum(timedelta(0), dry_run=False)  # does not know what lies there, and leaves it
    assert files_seen(store) == seen
    table.upsert(rows_at(2).set_column(1, "v", pa.array([9.0])))
    table.expire(keep_versions=1)
    table.append(rows_at(40))
    assert not [info.path for info in store.list("data") if is_copy(info.path)]
    check(store)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("after", [False, True])
def test_killed_at_any_call_readers_see_a_whole_version_and_the_next_publication_goes_on(after: bool, kind: SourceKind) -> None:
    whole = DictStore()
    told = table_in(whole, kind=kind)
    life(told, kind)
    versions = [rows_of(told.at(version=version)) for version in range(2, told.version + 1)]
    for dies_at in range(1, 120):
        store, killed = DictStore(), False
        try:
            life(table_in(DyingStore(store, Life(dies_at, after)), kind=kind), kind)
        except Killed:
            killed = True
        assert shown(store, kind=kind) in [None, Counter(), rows_of(told.at(version=1)), *versions]
        if any(info.path.endswith(".json") for info in store.list(kind.log)):
            if again(store, kind=kind).schema is None:
                again(store).append(rows_at(0))
            check(store, kind)
        if not killed:
            assert dies_at > 30
            return
    raise AssertionError("it never lived long enough")


def test_killed_while_it_begins_with_many_segments_the_next_one_ends_it() -> None:
    for dies_at in range(1, 30):
        store = DictStore()
        table = table_in(store, publish=[])
        for hour in range(4):
            table.append(rows_at(hour))
        table.delete("v = 2")
        table.set_properties({**PUBLISHED, "publish_on_commit": False})
        killed = False
        try:
            again(DyingStore(store, Life(dies_at))).publish()
        except Killed:
            killed = True
            assert shown(store) is None
            again(store).append(rows_at(20))  # the next one begins at a later version
        check(store)
        if not killed:
            assert dies_at > 5
            return
    raise AssertionError("it never lived long enough")


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_lost_reply_publishes_once(kind: SourceKind) -> None:
    store = DictStore()
    first = table_in(store, kind=kind).append(rows_at(0, 5)).version
    for lost in range(1, 4):
        faulty = FaultyStore(store)
        faulty.after_put = once(partial(unavailable, "no answer"), lambda path: path.startswith(f"{kind.hudi}/.hoodie/"))
        clock = SetClock(NOON_NS + lost * 10**9)
        assert again(faulty, clock, kind).append(rows_at(10 * lost)).published == {"hudi": "published"}
        assert max(versions_told(store, kind.hudi).values()) == first + lost
    check(store, kind)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_publishers_that_race_publish_each_version_once(kind: SourceKind) -> None:
    store = DictStore()
    table = table_in(store, kind=kind, publish_on_commit=False)
    for hour in range(10):
        table.append(rows_at(hour))
        table.delete(f"v = {hour}")
        if kind is SERIES:
            table.tag(f"at {hour}")
    table.restore(5)
    threads = [Thread(target=again(store, kind=kind).publish) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    table.append(rows_at(40))
    check(store, kind)


@pytest.mark.parametrize("claimed", [True, False])
def test_commits_of_one_millisecond_are_published_apart(tmp_path: Path, *, claimed: bool) -> None:
    store = DictStore()
    table = table_in(store, StoppedClock(), publish_on_commit=False)
    shows = []
    for hour in range(4):
        if claimed:
            table.append(rows_at(hour))
        else:
            adopted(store, tmp_path, hour, StoppedClock())
            table.refresh()
        again(store, StoppedClock()).publish()
        shows.append(shown(store))
        assert shows[-1] == rows_of(table)
    assert [is_copy(name) for name in files_seen(store) or ()].count(True) == (0 if claimed else 3)
    table.upsert(rows_at(1))
    table.append(rows_at(20))
    check(store)


def test_commits_of_one_millisecond_that_are_published_late_do_not_show_early(tmp_path: Path) -> None:
    store = DictStore()
    table = table_in(store, StoppedClock(), publish_on_commit=False)
    for hour in range(2):
        adopted(store, tmp_path, hour, StoppedClock())
    snapshot = again(store).at(version=2)._snapshot
    HudiPublisher(table._env).publish(table._source(snapshot))
    assert shown(store) == rows_of(again(store).at(version=2))
    check(store)


def stray(store: DictStore, like: str, name: str = "00000000-0000-4000-8000-00000000000a") -> str:
    """What a failed attempt leaves: a file with the instant of another's; its path."""
    path = segment_path(name, 7, like[-25:-8])
    store.put(path, store.get(like))
    return path


def test_what_failed_attempts_left_is_never_shown(tmp_path: Path) -> None:
    store = DictStore()
    table = table_in(store, publish_on_commit=False)
    table.append(rows_at(0))
    stray(store, table.segments()[0].path)
    table.publish()  # begins
    assert shown(store) == rows_of(table)
    mine = adopted(store, tmp_path, 1, SetClock(NOON_NS + 10**9)).segments()[1].path
    table.refresh()
    stray(store, mine, "00000000-0000-4000-8000-00000000000b")
    table.publish()
    assert shown(store) == rows_of(table)
    late = stray(store, mine, "00000000-0000-4000-8000-00000000000c")
    table.append(rows_at(2))
    assert any(
        late.removeprefix("data/") in told
        for told in HudiPublisher(table._env).differences(again(store)._source(again(store).at(version=3)._snapshot))
    )
    check(store)
    store.delete(late)
    table.append(rows_at(3))
    check(store)


def meanwhile(store: DictStore, act: Callable[[], object]) -> FaultyStore:
    """The store for an attempt that has staged its files when something else is done, just before its commit."""
    faulty = FaultyStore(store)
    faulty.before_put = once(act, lambda path: path.startswith("_timeseries_log/0"))
    return faulty


def test_what_was_hidden_and_is_committed_after_all_is_published_under_a_copy() -> None:
    store = DictStore()
    table = table_in(store, publish_on_commit=False)
    table.append(rows_at(0))
    again(meanwhile(store, again(store).publish), SetClock(NOON_NS + 10**9)).append(rows_at(1))
    assert shown(store) == rows_of(table)
    check(store)
    assert [is_copy(name) for name in files_seen(store) or ()].count(True) == 1


def test_an_attempt_that_began_earlier_may_land_later() -> None:
    store = DictStore()
    table = table_in(store)
    table.append(rows_at(0))
    later = again(store, SetClock(NOON_NS + 2 * 10**9))
    report = again(meanwhile(store, lambda: later.append(rows_at(2))), SetClock(NOON_NS + 10**9)).append(rows_at(1))
    assert (report.version, report.published) == (4, {"hudi": "published"})
    assert again(store).publications()[0].behind == 0
    assert not any(is_copy(name) for name in files_seen(store) or ())
    check(store)


def test_a_timeline_is_no_longer_than_the_files_that_are_there() -> None:
    store = DictStore()
    table = table_in(store)
    for hour in range(12):
        table.append(rows_at(hour))
        table.tag("at", move=True)
    table.untag("at")
    table.compact()
    before = rows_of(table)
    for _ in range(3):  # what a vacuum deletes is seen to be gone by the one after the next change
        table.upsert(rows_at(0).set_column(1, "v", pa.array([float(table.version)])))
        table.expire(keep_versions=2)
        table.vacuum(timedelta(0), dry_run=False)
        check(store)
    told = versions_told(store)
    assert len(told) < 16
    assert "19700101000000000.replacecommit" in told
    assert rows_of(table).total() == before.total()
    assert len([info for info in store.list("data/.hoodie") if info.path.endswith(".clean")]) == 1
    for instant, version in told.items():  # as of what is kept
        if version >= table.at(version=table.version)._snapshot.state.earliest:
            assert shown(store, instant[:17]) == rows_of(table.at(version=version))


def test_a_copy_that_a_tagged_version_has_stays_until_the_tag_goes() -> None:
    store = DictStore()
    table = table_in(store)
    table.append(rows_at(0, 3))
    table.delete("v = 1")
    table.restore(2)
    restored, before = table.publications()[0].published_version, rows_of(table)
    table.tag("restored")
    table.delete("v = 2")
    for _ in range(2):
        table.expire(keep_versions=1)
        table.vacuum(timedelta(0), dry_run=False)
        table.append(rows_at(table.version + 10))
        assert shown(store, str(restored)) == before == rows_of(table.at(tag="restored"))
        check(store)
    table.untag("restored")
    table.append(rows_at(50))
    assert not [info.path for info in store.list("data") if is_copy(info.path)]


def test_what_is_described_still_does_not_expire() -> None:
    store = DictStore()
    table = table_in(store, publish_on_commit=False)
    table.append(rows_at(0, 3))
    table.publish()
    described, before = table.version, rows_of(table)
    table.upsert(rows_at(0, 3).set_column(1, "v", pa.array([9.0, 9.0, 9.0])))
    table.append(rows_at(5))
    report = table.expire(keep_versions=1)
    assert (report.waits_for, report.earliest) == (("hudi",), described)
    table.vacuum(timedelta(0), dry_run=False)
    assert shown(store) == before
    table.publish()
    assert table.expire(keep_versions=1).waits_for == ()


def test_versions_that_the_log_was_cleaned_of_begin_the_description_anew() -> None:
    store = DictStore()
    clock = SetClock()
    table = table_in(store, clock, publish_on_commit=False)
    table.append(rows_at(0))
    table.publish()
    for hour in range(1, 30):
        table.append(rows_at(hour))
    table.delete("v < 5")
    clock.ns += 30 * 86_400 * 10**9
    table.append(rows_at(90))
    report = table.expire(keep_versions=2, clean_log=True)
    assert (report.waits_for, report.earliest > 20) == ((), True)  # its publisher has stood still for a month
    check(store)
    table.append(rows_at(91))
    check(store)


def foreign(store: DictStore, name: str, data: bytes = b"{}") -> None:
    store.put(f"data/.hoodie/{name}", data, mode="overwrite")


DAMAGES: list[tuple[str, str, bytes]] = [
    ("a commit", "20300101000000000.commit", b'{"partitionToWriteStats":{},"extraMetadata":{"schema":"x"}}'),
    ("a pending commit", "20300101000000000.commit.requested", b""),
    ("a compaction", "20300101000000000.deltacommit.inflight", b""),
    ("another version", "hoodie.properties", b"hoodie.table.version=9\n"),
    ("a timeline of another version", "timeline/20300101000000000_20300101000000001.commit", b""),
    ("a metadata table", "hoodie.properties", b"hoodie.table.version=6\nhoodie.table.metadata.partitions=files\n"),
]


@pytest.mark.parametrize("number", range(len(DAMAGES)), ids=[what for what, *_ in DAMAGES])
def test_another_writers_change_is_found_told_and_mended(number: int) -> None:
    _, name, data = DAMAGES[number]
    store = DictStore()
    table = table_in(store)
    table.append(rows_at(0, 3))
    table.append(rows_at(5, 3))
    foreign(store, name, data)
    assert "ForeignCommit" in table.append(rows_at(10)).published["hudi"]
    with pytest.raises(ForeignCommit, match="changed by another writer") as error:
        again(store).publish()
    assert error.value.format == "hudi"
    (finding,) = table.verify().problems
    assert (finding.code, finding.mend) == ("publication-foreign", "repair")
    assert table.expire(keep_versions=1).waits_for == ("hudi",)
    (publication,) = table.publish(mend=True)
    assert publication.behind == 0
    assert table.verify().ok
    check(store)
    assert table.append(rows_at(20)).published == {"hudi": "published"}
    check(store)


def test_a_torn_commit_is_mended() -> None:
    store = DictStore()
    table = table_in(store)
    table.append(rows_at(0, 3))
    table.append(rows_at(5, 3))
    store.put("data/.hoodie/20300101000000003.commit", b'{"part')
    assert "CorruptTable" in table.append(rows_at(10)).published["hudi"]
    table.publish(mend=True)
    check(store)


CHANGES: list[tuple[str, Callable[[TimeSeriesTable], object], type[gl.GaplessError], str]] = [
    ("nanoseconds", lambda t: t.add_column("z", pa.timestamp("ns", "UTC")), UnsupportedType, "'z' .*no nanoseconds"),
    (
        "no zone",
        lambda t: t.add_column("z", pa.struct([("t", pa.timestamp("us"))])),
        UnsupportedType,
        r"'z.t' .*without a zone",
    ),
    ("a time of day", lambda t: t.add_column("z", pa.time64("us")), UnsupportedType, "'z' .*time64"),
    ("keys", lambda t: t.add_column("z", pa.map_(pa.int32(), pa.int32())), UnsupportedType, "'z' .*text keys"),
    ("a name", lambda t: t.add_column("z z", "int32"), UnsupportedType, "'z z' .*letters"),
    ("a meta column", lambda t: t.add_column("_hoodie_file_name", "string"), UnsupportedType, "Hudi's own"),
    ("case", lambda t: t.add_column("V", "int32"), UnsupportedType, "'V' .*case alone"),
    ("a default", lambda t: t.add_column("z", "int32", default=1), InvalidChange, "'z' has a default"),
    ("rename", lambda t: t.rename_column("n", "m"), InvalidChange, "'m' .*files hold it as 'n'"),
    ("widen", lambda t: t.widen_column("n", "int64"), UnsupportedType, "'n' cannot become int64"),
    ("widen within", lambda t: t.widen_column("l.element", "int64"), UnsupportedType, "'l' cannot become"),
]


@pytest.mark.parametrize("number", range(len(CHANGES)), ids=[what for what, *_ in CHANGES])
def test_what_hudi_cannot_say_is_refused_and_changes_nothing(number: int) -> None:
    _, change, error, said = CHANGES[number]
    table = table_in(DictStore())
    rows = (
        rows_at(0, 2)
        .append_column("n", pa.array([1, 2], pa.int16()))
        .append_column("l", pa.array([[1], [2]], pa.list_(pa.int32())))
    )
    table.append(rows)
    with pytest.raises(error, match=said):
        change(table)
    assert table.refresh().version == 2
    assert table.publications()[0].behind == 0


def test_a_column_that_was_widened_is_refused_a_step_that_its_oldest_files_do_not_allow() -> None:
    table = table_in(DictStore())
    table.append(rows_at(0, 2).append_column("n", pa.array([1, 2], pa.int16())))
    table.widen_column("n", "int32")
    with pytest.raises(UnsupportedType, match=r"[Ff]iles hold"):
        table.widen_column("n", "int64")
    assert table.refresh().version == 3
    assert table.publications()[0].behind == 0
    table.compact()
    table.upsert(table.scan().to_arrow().set_column(1, "v", pa.array([7.0, 8.0])))
    table.widen_column("n", "int64")
    assert table.publications()[0].behind == 0


def test_a_name_that_was_dropped_is_refused_when_it_comes_again() -> None:
    store = DictStore()
    table = table_in(store)
    table.append(rows_at(0, 2).append_column("a", pa.array([1, 2])))
    table.drop_column("a")
    with pytest.raises(InvalidChange, match=r"'a' .*files hold it as"):
        table.add_column("a", "int64")
    assert table.publications()[0].behind == 0


@pytest.mark.parametrize("nested", [False, True])
def test_a_table_that_was_widened_is_refused_until_its_files_are_written_anew(nested: bool) -> None:
    store = DictStore()
    table = table_in(store, publish=[])
    narrow = pa.array([[1], [2]], pa.list_(pa.int32())) if nested else pa.array([1, 2], pa.int16())
    table.append(rows_at(0, 2).append_column("n", narrow))
    table.widen_column("n.element" if nested else "n", "int64")
    with pytest.raises(UnsupportedType, match=r"[Ff]iles hold") as error:
        table.set_properties(PUBLISHED)
    assert error.value.column == ("n.element" if nested else "n")
    table.upsert(table.scan().to_arrow().set_column(1, "v", pa.array([7.0, 8.0])))
    table.set_properties(PUBLISHED)
    assert again(store).publications()[0].behind == 0


def test_a_table_whose_files_hudi_cannot_find_is_refused() -> None:
    store = DictStore()
    table = table_in(store, publish=[])
    table.append(rows_at(0, 2))
    store.put("data/part-1.parquet", b"PAR1")
    table.set_properties(PUBLISHED)
    with pytest.raises(NotSupported, match=r"data/part-1\.parquet cannot be published"):
        again(store).publish()
    store.delete("data/part-1.parquet")
    check(store)


def test_a_store_that_fails_fails_no_append_and_the_next_catches_up(monkeypatch: pytest.MonkeyPatch) -> None:
    store = DictStore()
    table = table_in(store)
    table.append(rows_at(0))
    with monkeypatch.context() as patched:
        patched.setattr(HudiPublisher, "publish", _unavailable)
        assert table.append(rows_at(1)).published == {"hudi": "StoreUnavailable: the bucket is away"}
    assert table.append(rows_at(2)).published == {"hudi": "published"}
    check(store)


def _unavailable(*_: object, **__: object) -> int:
    raise StoreUnavailable("the bucket is away")


def test_a_table_in_a_bucket_is_published_there(s3_options: tuple[str, dict[str, str]]) -> None:
    url, options = s3_options
    table = gl.create(f"{url}/t", index="ts", bucket="1h", properties=PUBLISHED, storage_options=options)
    life(table)
    assert shown(table._env.store) == rows_of(table)
    assert table.publications()[0].behind == 0
    assert HudiPublisher(table._env).differences(table._source(table._snapshot)) == []


def test_repair_begins_a_changed_description_anew(tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1h", properties=PUBLISHED)
    table.append(rows_at(0, 3))
    (tmp_path / "t" / "data" / ".hoodie" / "20300101000000000.deltacommit.requested").write_bytes(b"")
    assert [one.code for one in gl.verify(tmp_path / "t").problems] == ["publication-foreign"]
    gl.repair(tmp_path / "t", apply=True)
    assert gl.verify(tmp_path / "t").ok
    assert shown(table._env.store) == rows_of(table)


def test_a_table_that_another_writer_made_there_is_not_taken_over(tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1h")
    table.append(rows_at(0, 2))
    place = tmp_path / "t" / "data" / ".hoodie"
    place.mkdir()
    (place / "hoodie.properties").write_text("hoodie.table.name=theirs\nhoodie.table.version=9\n")
    with pytest.raises(TableExists, match=r"a hudi table .* already"):
        table.set_properties(PUBLISHED)
    assert table.refresh().version == 2


def test_all_formats_at_once(tmp_path: Path) -> None:
    pytest.importorskip("pyiceberg")
    table = gl.create(tmp_path / "t", index="ts", bucket="1h", properties={"publish": ["delta", "iceberg", "hudi"]})
    life(table)
    assert table.append(rows_at(60)).published == dict.fromkeys(("delta", "iceberg", "hudi"), "published")
    assert shown(table._env.store) == rows_of(table)
    assert gl.delta.open(tmp_path / "t").scan().count() == table.scan().count()
    assert gl.verify(tmp_path / "t").ok
