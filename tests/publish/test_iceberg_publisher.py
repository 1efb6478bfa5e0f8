"""Publishing as Iceberg: each version once whatever dies or comes twice; what is described stays; what Iceberg cannot say is refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

import gapless as gl
from gapless.errors import ForeignCommit, InvalidOption, NotSupported, SchemaMismatch, TableExists, UnsupportedType
from gapless.formats.iceberg.snapshots import MOST_SNAPSHOTS
from gapless.formats.iceberg.types import takes
from gapless.publish.iceberg.directory import Directory
from gapless.publish.iceberg.manifests import Manifests, manifests_of
from gapless.publish.iceberg.publication import IcebergPublisher
from gapless.runtime.environment import Environment
from gapless.tables.timeseries.lifecycle import create_table, parse_index
from gapless.tables.timeseries.table import TimeSeriesTable
from gapless.testing.store.stores import DictStore, Killed
from support.clocked_table import SetClock, rows_at
from support.dying_store import DyingStore, Life
from support.faulty_store import FaultyStore, once, unavailable
from support.published_sources import KINDS, SERIES, SourceKind

PUBLISHED = {"publish": ["iceberg"]}


def table_in(store: object, kind: SourceKind = SERIES, **properties: object) -> Any:
    return kind.table_in(store, None, **{**PUBLISHED, **properties})


def again(store: object, kind: SourceKind = SERIES) -> Any:
    return kind.again(store)


def metadata_in(store: DictStore) -> object:
    found = Directory(Environment(store=store)).load()
    assert found is not None
    return found.metadata


def versions_in(store: DictStore) -> list[int]:
    """The versions that the snapshots describe, in order."""
    told = [one.summary["gapless.version"] for one in metadata_in(store).snapshots]  # type: ignore[attr-defined]
    return [int(version) for version in told]


def publisher_of(table: Any) -> IcebergPublisher:
    return IcebergPublisher(table._env, table._source(table._snapshot).settings)


def check(store: DictStore, kind: SourceKind = SERIES) -> None:
    """The description is that of the newest version, and has published each version at most once."""
    table = again(store, kind)
    (publication,) = table.publish()
    assert (publication.version, publication.behind) == (table.version, 0)
    told = versions_in(store)
    assert told == sorted(set(told))
    assert publisher_of(table).differences(table._source(table._snapshot)) == []


def test_each_commit_is_published_under_its_version_with_its_time(tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1h", properties=PUBLISHED)
    assert table.append(rows_at(0, 5)).published == {"iceberg": "published"}
    changed = rows_at(4, 2).set_column(1, "v", pa.array([9.5, 9.5]))
    assert table.upsert(changed).published == {"iceberg": "published"}
    table.append(rows_at(20))
    table.compact()
    published = StaticTable.from_metadata(str(tmp_path / "t" / "_iceberg"))
    snapshots = published.snapshots()
    assert [one.summary.operation.value for one in snapshots if one.summary] == ["append", "overwrite", "append", "replace"]
    times = [int(entry.time.timestamp() * 1000) for entry in table.history()[1:]]
    assert [one.timestamp_ms for one in snapshots] == times
    for version, snapshot in zip((2, 3, 4, 5), snapshots, strict=True):
        rows = published.scan(snapshot_id=snapshot.snapshot_id).to_arrow().sort_by("ts")
        assert rows.to_pylist() == table.at(version=version).scan().to_arrow().to_pylist()
        assert snapshot.summary is not None
        assert snapshot.summary["total-records"] == str(rows.num_rows)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("after", [False, True])
def test_killed_at_any_call_and_published_again_each_version_is_there_once(after: bool, kind: SourceKind) -> None:
    for dies_at in range(1, 120):
        store, killed = DictStore(), False
        try:
            kind.life(table_in(DyingStore(store, Life(dies_at, after)), kind))
        except Killed:
            killed = True
        if any(info.path.endswith(".json") for info in store.list(kind.log)):
            if again(store, kind).schema is None:
                again(store, kind).append(rows_at(0))
            check(store, kind)
        if not killed:
            assert dies_at > 40
            return
    raise AssertionError("it never lived long enough")


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_lost_reply_publishes_once(kind: SourceKind) -> None:
    store = DictStore()
    table = table_in(store, kind)
    table.append(rows_at(0, 5))
    first = versions_in(store)[0]
    for lost in range(1, 4):
        faulty = FaultyStore(store)
        faulty.after_put = once(partial(unavailable, "no answer"), lambda path: path.endswith(".metadata.json"))
        assert again(faulty, kind).append(rows_at(10 * lost)).published == {"iceberg": "published"}
        assert versions_in(store) == list(range(first, table.version + 1 + lost))
    check(store, kind)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_publishers_that_race_publish_each_version_once(kind: SourceKind) -> None:
    store = DictStore()
    table = table_in(store, kind, publish_on_commit=False)
    for hour in range(12):
        table.append(rows_at(hour))
    threads = [Thread(target=again(store, kind).publish) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    table.append(rows_at(40))
    check(store, kind)
    named = {one.manifest_list for one in metadata_in(store).snapshots}  # type: ignore[attr-defined]
    lists = {f"sim://table/{info.path}" for info in store.list("_iceberg/metadata") if "/snap-" in info.path}
    assert lists == named  # who lost a race removed what it had written


def test_metadata_stays_small(tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1h", properties=PUBLISHED)
    for hour in range(MOST_SNAPSHOTS + 40):
        table.append(rows_at(hour))
    folder = tmp_path / "t" / "_iceberg" / "metadata"
    published = StaticTable.from_metadata(str(tmp_path / "t" / "_iceberg"))
    assert len(published.snapshots()) == MOST_SNAPSHOTS
    current = published.current_snapshot()
    assert current is not None
    manifests = current.manifests(published.io)
    assert len(manifests) <= 64
    assert max((one.existing_files_count or 0) for one in manifests) >= 32  # small ones became one
    assert len(list(folder.iterdir())) < 4 * MOST_SNAPSHOTS
    oldest = published.snapshots()[0]
    assert oldest.summary is not None
    assert str(published.scan(snapshot_id=oldest.snapshot_id).to_arrow().num_rows) == oldest.summary["total-records"]
    assert published.scan().to_arrow().num_rows == MOST_SNAPSHOTS + 40


def test_what_a_publisher_that_died_left_behind_goes_after_a_day() -> None:
    clock = SetClock()
    store = DictStore(clock.now_ns)
    env = Environment(store=store, clock=clock)
    made = create_table(env, "t", parse_index("ts", "timestamp", "1h", (), None), None, PUBLISHED)
    table = TimeSeriesTable(env, "memory://t", made)
    table.append(rows_at(0))
    orphans = [f"_iceberg/metadata/{kind}-00000000-0000-4000-8000-{n:012d}.avro" for kind in ("m", "snap") for n in range(2)]
    for path in orphans[::2]:
        store.put(path, b"left behind")
    clock.ns += 2 * 86_400 * 10**9
    for path in [*orphans[1::2], "_iceberg/metadata/another.avro"]:
        store.put(path, b"under way, or another writer's")
    for hour in range(1, 52):
        table.append(rows_at(hour))
    there = {info.path for info in store.list("_iceberg/metadata")}
    assert not there & set(orphans[::2])
    assert there >= {*orphans[1::2], "_iceberg/metadata/another.avro"}
    check(store)


def test_snapshots_of_tagged_versions_stay_whole_when_others_expire() -> None:
    store = DictStore()
    table = table_in(store)
    for hour in range(12):
        table.append(rows_at(hour))
        if hour in (1, 4):
            table.tag(f"at-{hour}")
        if hour == 6:
            table.compact()
    table.expire(keep_versions=1)
    table.append(rows_at(90))
    metadata = metadata_in(store)
    io = Directory(Environment(store=store)).io
    live = Manifests(io)
    for snapshot in metadata.snapshots:  # type: ignore[attr-defined]
        for manifest in manifests_of(io, snapshot.manifest_list):
            assert live.entries(manifest)
    kept = [table.at(version=version).version for version in versions_in(store)]
    assert len(kept) >= 4
    check(store)


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


def test_what_is_described_still_does_not_expire_and_what_expired_is_described_no_more() -> None:
    store = DictStore()
    table = table_in(store, publish_on_commit=False)
    table.append(rows_at(0, 3))
    table.publish()
    described = table.version
    table.upsert(rows_at(0, 3).set_column(1, "v", pa.array([9.0, 9.0, 9.0])))
    table.append(rows_at(5))
    report = table.expire(keep_versions=1)
    assert (report.waits_for, report.earliest) == (("iceberg",), described)
    table.vacuum(timedelta(0), dry_run=False)
    table.publish()
    assert table.expire(keep_versions=1).waits_for == ()
    table.publish()
    assert versions_in(store) == [table.version]
    check(store)


def foreign_commit(store: DictStore) -> None:
    """What another writer does: the table as it was before."""
    place = Directory(Environment(store=store))
    found = place.load()
    assert found is not None
    from gapless.publish.iceberg.changes import TableChange

    before = found.metadata.snapshots[-2].snapshot_id
    update = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": before}
    place.commit(found, TableChange.parse([], [update], before), found.metadata.last_updated_ms)


def test_another_writers_commit_is_found_told_and_mended() -> None:
    store = DictStore()
    table = table_in(store)
    table.append(rows_at(0, 3))
    table.append(rows_at(5, 3))
    foreign_commit(store)
    assert "ForeignCommit" in table.append(rows_at(10)).published["iceberg"]
    with pytest.raises(ForeignCommit, match="set back to snapshot"):
        table.publish()
    (finding,) = table.verify().problems
    assert (finding.code, finding.mend) == ("publication-foreign", "repair")
    assert table.expire(keep_versions=1).waits_for == ("iceberg",)
    (publication,) = table.publish(mend=True)
    assert publication.behind == 0
    assert table.verify().ok
    assert publisher_of(table).differences(table._source(table.refresh()._snapshot)) == []
    assert table.append(rows_at(20)).published == {"iceberg": "published"}
    check(store)


def test_a_table_that_was_copied_elsewhere_does_not_go_on_with_the_description_of_the_other(tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1h", properties=PUBLISHED)
    table.append(rows_at(0, 3))
    (tmp_path / "t").rename(tmp_path / "moved")
    moved = gl.open(tmp_path / "moved")
    with pytest.raises(ForeignCommit, match=r"describes the table at .*, and this one lies at"):
        moved.publish()
    assert moved.publish(mend=True)[0].behind == 0
    assert StaticTable.from_metadata(str(tmp_path / "moved" / "_iceberg")).scan().to_arrow().num_rows == 3
    assert gl.verify(tmp_path / "moved").ok


CHANGES: list[tuple[str, Callable[[TimeSeriesTable], object], type[gl.GaplessError], str]] = [
    ("nanoseconds", lambda t: t.add_column("z", pa.timestamp("ns")), UnsupportedType, "'z' of type timestamp"),
    ("unsigned", lambda t: t.add_column("z", pa.struct([("h", pa.uint64())])), UnsupportedType, "'z.h' of type uint64"),
    ("a time of day", lambda t: t.add_column("z", pa.list_(pa.time64("us"))), UnsupportedType, "'z.element' of type time64"),
    ("a name but for case", lambda t: t.add_column("V", "int32"), SchemaMismatch, "'V' and 'v'"),
    ("a step that there is not", lambda t: t.widen_column("n", "float64"), UnsupportedType, "'n' cannot be double"),
    ("a catalog alone", lambda t: t.set_properties({"iceberg_catalog": "x"}), InvalidOption, "do not go together"),
    ("no namespace", lambda t: t.set_properties({"iceberg_catalog": "x", "iceberg_table": "t"}), InvalidOption, "no table of a catalog"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(CHANGES)), ids=[what for what, *_ in CHANGES])
def test_what_iceberg_cannot_say_is_refused_and_changes_nothing(number: int) -> None:
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
        table.set_properties({"inline_bytes": 0, "publish": ["iceberg"]})
    table.compact()
    table.set_properties({"inline_bytes": 0, "publish": ["iceberg"]})
    check(store)


def test_types_that_files_of_before_hold_are_looked_at(tmp_path: Path) -> None:
    """Also those of other writers: milliseconds behind a column of microseconds would be read as 1970."""
    table = gl.create(tmp_path / "t", index="ts", bucket="1h")
    table.append(
        rows_at(0, 2).append_column("n", pa.array([1, 2], pa.int16())).append_column("m", pa.array([1, 2], pa.int32()))
    )
    table.widen_column("m", "int64")
    table.set_properties({"publish": ["iceberg"]})
    table.set_properties({"publish": []})
    table.widen_column("n", "float32")
    with pytest.raises(UnsupportedType, match="'n' cannot be float"):
        table.set_properties({"publish": ["iceberg"]})
    assert takes(pa.int32(), "long")
    assert not takes(pa.timestamp("ms", "UTC"), "timestamptz")
    assert not takes(pa.uint8(), "int")


def test_columns_that_were_dropped_before_are_in_no_readers_way(tmp_path: Path) -> None:
    """pyiceberg wants a name for every column of a file."""
    table = gl.create(tmp_path / "t", index="ts", bucket="1h")
    there = pa.array([{"a": 1, "b": [{"c": 2}]}] * 2)
    table.append(rows_at(0, 2).append_column("s", there).append_column("x", pa.array([1, 2])))
    table.drop_column("s")
    table.drop_column("x")
    table.add_column("x", "string")
    table.set_properties({"publish": ["iceberg"]})
    table.append(rows_at(5, 1).append_column("x", pa.array(["new"])))
    table.drop_column("x")
    found = StaticTable.from_metadata(str(tmp_path / "t" / "_iceberg")).scan().to_arrow()
    assert sorted(found.to_pylist(), key=str) == sorted(table.scan().to_arrow().to_pylist(), key=str)
    assert gl.verify(tmp_path / "t").ok
    table.restore(7)
    found = StaticTable.from_metadata(str(tmp_path / "t" / "_iceberg")).scan().to_arrow()
    assert found.sort_by("ts")["x"].to_pylist() == [None, None, "new"]


def test_a_restore_is_followed_however_far_back_it_goes() -> None:
    store = DictStore()
    table = table_in(store, publish=[])
    table.append(rows_at(0, 3))
    before = table.version
    table.set_properties({"publish": ["iceberg"]})
    table.append(rows_at(5, 3))
    table.restore(before)
    check(store)
    table.restore(1)
    assert publisher_of(table).differences(table._source(table._snapshot)) == []
    table.append(rows_at(9))
    check(store)


def test_versions_of_while_it_was_not_published_come_as_one() -> None:
    store = DictStore()
    table = table_in(store)
    table.append(rows_at(0, 3))
    table.set_properties({"publish": None, "inline_bytes": 100_000})
    table.append(rows_at(5))
    table.compact()
    late = again(store)
    table.set_properties({"publish": ["iceberg"], "inline_bytes": None})
    check(store)
    late.append(rows_at(7))  # a handle that does not know yet that it is published
    table.refresh().compact()
    check(store)


def test_a_table_of_another_writer_is_not_taken_over(tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1h")
    table.append(rows_at(0, 2))
    other = gl.create(tmp_path / "other", index="ts", bucket="1h", properties=PUBLISHED)
    other.append(rows_at(0, 2))
    (tmp_path / "other" / "_iceberg").rename(tmp_path / "t" / "_iceberg")
    with pytest.raises(TableExists, match=r"an? iceberg table .* already"):
        table.set_properties({"publish": ["iceberg"]})
    assert table.refresh().version == 2


def test_a_filter_reads_fewer_files_and_loses_no_rows(tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1h", properties=PUBLISHED)
    numbers = [[1.0, 2.0], [float("nan"), 3.0], [None, None], [5.0, -0.0], [float("nan"), float("nan")], [float("inf"), 1.0]]
    for number, values in enumerate(numbers):
        texts = pa.array(["b" * 40, None] if number % 2 else ["a", "z\U0010ffff" * 20])
        rows = rows_at(10 * number, 2).set_column(1, "v", pa.array(values, pa.float64()))
        table.append(rows.append_column("t", texts))
    published = StaticTable.from_metadata(str(tmp_path / "t" / "_iceberg"))
    at_hour = f"ts = '{table.scan().to_arrow()['ts'][4].as_py().isoformat()}'"
    assert len(list(published.scan(at_hour).plan_files())) == 1
    assert published.scan(at_hour).to_arrow().num_rows == 1
    assert len(list(published.scan("v > 4").plan_files())) == 4  # two that may hold NaN, one with 5.0, one with infinity
    for condition, least in (("v > 4", 2), ("v = 0", 1), ("t = 'a'", 3), ("t > 'zz'", 3), (f"t = '{'b' * 40}'", 3)):
        assert published.scan(condition).to_arrow().num_rows == least


def test_a_hint_that_a_dead_writer_left_behind_is_brought_up_by_the_next_publication(tmp_path: Path) -> None:
    """It is written after the metadata, and a reader of a directory follows it."""
    table = gl.create(tmp_path / "t", index="ts", bucket="1h", properties={"publish": ["iceberg"]})
    table.append(rows_at(0, 2))
    hint = tmp_path / "t" / "_iceberg" / "metadata" / "version-hint.text"
    newest = hint.read_text()
    hint.write_text(str(int(newest) - 1))
    assert gl.open(tmp_path / "t").publish()[0].behind == 0
    assert hint.read_text() == newest
