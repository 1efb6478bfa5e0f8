"""Descriptions that are damaged, lost, changed by others or looked at beside a busy writer; what keeps the versions that they describe."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from gapless.errors import CorruptTable, NotSupported, UnsupportedType
from gapless.formats.delta.format import DELTA
from gapless.publish.delta.publisher import DeltaPublisher
from gapless.publish.source import Source
from gapless.runtime.environment import Environment
from gapless.tables.timeseries.lifecycle import create_table, open_table, parse_index
from gapless.tables.timeseries.table import TimeSeriesTable
from gapless.testing.store.stores import DictStore
from support.clocked_table import NOON_NS, SetClock, rows_at

PUBLISHED = {"publish": ["delta"]}


def table_in(store: DictStore, **properties: object) -> TimeSeriesTable:
    env = Environment(store=store, clock=SetClock())
    made = create_table(env, "t", parse_index("ts", "timestamp", "1h", (), None), None, {**PUBLISHED, **properties})
    return TimeSeriesTable(env, "memory://t", made)


def again(store: DictStore) -> TimeSeriesTable:
    env = Environment(store=store, clock=SetClock(NOON_NS * 2))
    return TimeSeriesTable(env, "memory://t", open_table(env, "t"))


def differences(table: TimeSeriesTable) -> list[str]:
    publisher = DeltaPublisher(table._env)
    assert publisher.published() is not None
    return publisher.differences(table._source(table.refresh()._snapshot))


def lines_of(store: DictStore, version: int) -> list[dict[str, Any]]:
    return [json.loads(line) for line in store.get(DELTA.path_of(version)).splitlines()]


def rewrite(store: DictStore, version: int, change: Callable[[dict[str, Any]], None]) -> None:
    """Another tool changes what a commit of the description says."""
    lines = lines_of(store, version)
    for line in lines:
        change(line)
    store.put(DELTA.path_of(version), "".join(json.dumps(line) + "\n" for line in lines).encode(), mode="overwrite")


# -- what differs ---------------------------------------------------------------------------------------------------------


def in_(kind: str, act: Callable[[dict[str, Any]], object]) -> Callable[[dict[str, Any]], None]:
    def change(line: dict[str, Any]) -> None:
        if kind in line:
            act(line[kind])

    return change


def in_stats(act: Callable[[dict[str, Any]], object]) -> Callable[[dict[str, Any]], None]:
    def change(add: dict[str, Any]) -> None:
        stats = json.loads(add["stats"])
        act(stats)
        add["stats"] = json.dumps(stats)

    return in_("add", change)


WRONG: list[tuple[Callable[[dict[str, Any]], None], str]] = [
    (in_("metaData", lambda it: it.update(partitionColumns=["v"])), "it is partitioned by v"),
    (in_("metaData", lambda it: it["configuration"].update({"delta.appendOnly": "true"})), "property delta.appendOnly is 'true'"),
    (in_("metaData", lambda it: it["configuration"].clear()), "property delta.enableInCommitTimestamps is None"),
    (in_("protocol", lambda it: it["writerFeatures"].remove("gapless")), "it does not ask for the feature gapless"),
    (in_("protocol", lambda it: it["writerFeatures"].append("changeDataFeed")), "it asks for the feature changeDataFeed"),
    (in_("add", lambda it: it.update(size=7)), "that it has 7 bytes, not"),
    (in_("add", lambda it: it.update(partitionValues={"v": "1"})), "that it lies in the partition"),
    (in_stats(lambda it: it.update(numRecords=9)), "that it has 9 rows, not 3"),
    (in_stats(lambda it: it["nullCount"].update(v=2)), "of column 'v' 2 nulls, not 0"),
    (in_stats(lambda it: it["minValues"].update(v=1.5)), "of column 'v' a smallest value that rows go beyond"),
    (in_stats(lambda it: it["maxValues"].update(ts=it["minValues"]["ts"])), "of column 'ts' a largest value"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(WRONG)), ids=[said for _, said in WRONG])
def test_whatever_differs_is_told_and_mended(number: int) -> None:
    change, said = WRONG[number]
    store = DictStore()
    table = table_in(store)
    table.append(rows_at(0, 3))
    assert differences(table) == []
    rewrite(store, 0, change)
    found = again(store).verify().problems
    assert [one.code for one in found] == ["publication-differs"] * len(found)
    assert said in " ".join(one.what for one in found)
    assert {one.mend for one in found} == {"repair"}
    (publication,) = again(store).publish(mend=True)
    assert (publication.published_version, publication.behind) == (1, 0)
    assert again(store).verify().ok
    assert again(store).publish(mend=True)[0].published_version == 1
    assert again(store).append(rows_at(9)).published == {"delta": "published"}


def test_a_whole_life_differs_in_nothing() -> None:
    store = DictStore()
    table = table_in(store, checkpoint_interval=3)
    wide = rows_at(0, 5).append_column("i", pa.array([1, 2, None, 4, 5], pa.int16()))
    steps: list[Callable[[], object]] = [
        lambda: table.append(wide),
        lambda: table.append(wide.set_column(1, "v", pa.array([float("nan")] * 5)), on_overlap="allow"),
        lambda: table.widen_column("i", "int64"),
        lambda: table.rename_column("v", "w"),
        lambda: table.add_column("late", pa.struct([("a", pa.decimal128(9, 2))])),
        lambda: table.delete("i = 1"),
        table.compact,
        lambda: table.drop_column("i"),
        lambda: table.restore(4),
        lambda: table.expire(keep_versions=2),
    ]
    for step in steps:
        step()
        assert differences(table) == []


def test_a_writer_at_work_is_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes between the looks at the table, at how far the description is, and at the description."""
    store = DictStore()
    table = table_in(store)
    table.append(rows_at(0, 3))
    published = DeltaPublisher.published

    def busy(self: DeltaPublisher) -> tuple[int, int] | None:
        monkeypatch.undo()
        again(store).append(rows_at(10))
        found = published(self)
        again(store).append(rows_at(20))
        return found

    monkeypatch.setattr(DeltaPublisher, "published", busy)
    assert table.verify().ok
    assert table.refresh().version == 4


# -- lost and damaged descriptions ----------------------------------------------------------------------------------------


def test_a_description_that_went_is_begun_anew() -> None:
    store = DictStore()
    table = table_in(store)
    table.append(rows_at(0, 3))
    table.append(rows_at(5, 3))
    for info in list(store.list("_delta_log")):
        store.delete(info.path)
    assert table.append(rows_at(10)).published == {"delta": "published"}
    (publication,) = table.publications()
    assert (publication.published_version, publication.behind) == (0, 0)
    assert differences(table) == []


@pytest.mark.parametrize("damaged", [0, 1, 2])
def test_a_damaged_commit_is_mended_by_beginning_anew(damaged: int) -> None:
    store = DictStore()
    table = table_in(store)
    for hour in range(3):
        table.append(rows_at(hour))
    store.put(DELTA.path_of(damaged), b'{"add": ', mode="overwrite")
    fresh = again(store)
    with pytest.raises(CorruptTable):
        fresh.publish()
    (finding,) = fresh.verify().problems
    assert (finding.code, finding.mend) == ("publication-differs", "repair")
    (publication,) = fresh.publish(mend=True)
    assert (publication.published_version, publication.behind) == (0, 0)
    assert fresh.verify().ok
    assert differences(fresh) == []
    kept = [info.path for info in store.list("_timeseries_log/_damaged")]
    assert sum("_delta_log/" in path for path in kept) == 3
    assert table.append(rows_at(9)).published == {"delta": "published"}, "a handle that knew the description of before"
    assert again(store).verify().ok
    assert differences(table) == []


# -- handles that do not know yet -----------------------------------------------------------------------------------------


def test_a_first_append_of_a_handle_that_does_not_know_that_it_is_published_is_checked() -> None:
    store = DictStore()
    table_in(store, publish=[])
    stale = again(store)
    again(store).set_properties(PUBLISHED)
    with pytest.raises(UnsupportedType, match="'z' of type time64"):
        stale.append(rows_at(0, 1).append_column("z", pa.array([1], pa.time64("us"))))
    assert again(store).version == 2
    assert again(store).append(rows_at(0, 2)).published == {"delta": "published"}


def test_a_column_without_a_type_yet_is_checked_too() -> None:
    store = DictStore()
    table_in(store, publish=[]).append(rows_at(0, 1).append_column("z", pa.nulls(1)))
    stale = again(store)
    again(store).set_properties(PUBLISHED)
    with pytest.raises(UnsupportedType, match="'z' of type time64"):
        stale.append(rows_at(5, 1).append_column("z", pa.array([1], pa.time64("us"))))


def test_rows_of_a_handle_that_does_not_know_that_it_is_published_lie_in_files() -> None:
    store = DictStore()
    table_in(store, publish=[], inline_bytes=100_000).append(rows_at(0, 1))
    stale = again(store)
    other = again(store)
    other.compact()
    other.set_properties({**PUBLISHED, "inline_bytes": 0})
    assert stale.append(rows_at(5, 1)).published == {"delta": "published"}
    assert differences(stale) == []


def test_rows_that_come_into_the_log_while_it_becomes_published_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    store = DictStore()
    table = table_in(store, publish=[], inline_bytes=100_000)
    table.append(rows_at(0, 1))
    table.compact()
    late = again(store)
    checked = TimeSeriesTable._proposal

    def meanwhile(self: TimeSeriesTable, *given: Any) -> Any:
        made = checked(self, *given)
        monkeypatch.undo()
        late.append(rows_at(5, 1))
        return made

    monkeypatch.setattr(TimeSeriesTable, "_proposal", meanwhile)
    with pytest.raises(NotSupported, match="1 appends lie in the log"):
        table.set_properties({**PUBLISHED, "inline_bytes": 0})


def test_a_file_of_a_narrower_type_that_comes_late_is_written_anew() -> None:
    store = DictStore()
    table = table_in(store)
    table.append(rows_at(0, 1).append_column("i", pa.array([1], pa.int16())))
    stale = again(store)
    table.widen_column("i", "int64")
    assert stale.append(rows_at(5, 1).append_column("i", pa.array([1], pa.int16()))).published == {"delta": "published"}
    assert differences(stale) == []


# -- what is kept ---------------------------------------------------------------------------------------------------------


def test_a_table_that_becomes_published_while_it_expires_keeps_what_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    store = DictStore()
    table = table_in(store, publish_on_commit=False)
    table.append(rows_at(0, 3))
    table.publish()
    described = table.version
    table.set_properties({"publish": None})
    for hour in range(10, 14):
        table.append(rows_at(hour))
    other = again(store)
    marks = type(table._publications).marks

    def meanwhile(self: Any, newest: Source) -> dict[str, int]:
        found = marks(self, newest)
        monkeypatch.undo()
        other.set_properties(PUBLISHED)
        return found

    monkeypatch.setattr(type(table._publications), "marks", meanwhile)
    report = table.expire(keep_versions=1)
    assert (report.waits_for, report.earliest) == (("delta",), described)


def test_every_report_of_a_change_says_what_became_of_it() -> None:
    store = DictStore()
    table = table_in(store)
    table.append(rows_at(0, 3))
    version = table.version
    table.append(rows_at(5, 3))
    changes: list[Callable[[], Any]] = [
        lambda: table.upsert(rows_at(1, 1)),
        lambda: table.delete("v = 2"),
        table.compact,
        lambda: table.restore(version),
        lambda: table.expire(keep_versions=1),
        lambda: table.vacuum(timedelta(0), dry_run=False),
        lambda: table.fill(lambda *_: rows_at(3, 1)),
        lambda: table.drop_before("1970-01-01T00:00:00Z"),
    ]
    for change in changes:
        assert change().published == {"delta": "published"}
