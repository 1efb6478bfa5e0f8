"""Sources out of Hudi tables: instants as versions, what each changed, and what can be told no longer."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gapless.connect import Cursor, sink, source
from gapless.errors import InvalidOption, NotSupported, TableNotFound, VersionNotFound
from gapless.formats.hudi.properties import decode_properties, encode_properties
from gapless.tables.hudi.table import HudiTable
from support.hudi_tables import hudi_commit, hudi_table

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])


def sent(place: Path, number: int, rows: dict[int, int], mode: str = "upsert") -> int:
    """The instant that has these rows, each an id with its value."""
    options: dict[str, Any] = {"key": "id"} if mode in ("upsert", "delete") else {}
    options |= {} if mode == "delete" else {"create": {}}
    into = sink(f"hudi:{place}", pipeline="p", name=mode, mode=mode, **options)
    into.initialize(SCHEMA)
    into.write(pa.table({"id": list(rows), "v": list(rows.values())}, schema=SCHEMA))
    return into.finalize(into.prepare(number)).version


def polled(place: Path, cursor: Cursor | None = None, **options: Any) -> list[tuple[Any, ...]]:
    reader = source(f"hudi:{place}", **options)
    reader.start(cursor)
    found: list[tuple[Any, ...]] = []
    while batches := reader.poll(2):
        found += [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
    return found


@pytest.fixture
def instants(tmp_path: Path) -> list[int]:
    place = tmp_path / "t"
    return [
        sent(place, 1, {1: 10, 2: 20, 3: 30}),
        sent(place, 2, {2: 21, 4: 40}),
        sent(place, 1, {1: 0}, "delete"),
        sent(place, 1, {9: 90}, "overwrite"),
    ]


def test_a_version_is_an_instant_and_can_be_read_as_of_it(instants: list[int], tmp_path: Path) -> None:
    place = tmp_path / "t"
    assert sorted(polled(place, mode="batch")) == [(9, 90)]
    assert sorted(polled(place, mode="snapshot", version=instants[1])) == [(1, 10), (2, 21), (3, 30), (4, 40)]
    at = datetime.strptime(str(instants[0])[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC) + timedelta(
        milliseconds=int(str(instants[0])[14:])
    )
    assert sorted(polled(place, mode="snapshot", time=at)) == [(1, 10), (2, 20), (3, 30)]
    with pytest.raises(VersionNotFound, match="no completed instant"):
        polled(place, mode="snapshot", version=instants[1] + 1)


def test_each_change_is_told(instants: list[int], tmp_path: Path) -> None:
    found = polled(tmp_path / "t", mode="incremental", start="earliest", on_change="tell")
    assert sorted(found[:3]) == [(1, 10, "insert"), (2, 20, "insert"), (3, 30, "insert")]
    assert found[3:4] == [(2, 20, "update_preimage")]
    assert sorted(found[4:6]) == [(2, 21, "update_postimage"), (4, 40, "insert")]
    assert found[6:7] == [(1, 10, "delete")]
    assert sorted(found[7:10]) == [(2, 21, "delete"), (3, 30, "delete"), (4, 40, "delete")]
    assert found[10:] == [(9, 90, "insert")]
    later = polled(tmp_path / "t", mode="incremental", since=instants[2], on_change="tell")
    assert later == found[7:]


def test_changes_are_an_error_or_passed_over(instants: list[int], tmp_path: Path) -> None:
    place = tmp_path / "t"
    with pytest.raises(InvalidOption, match=f"version {instants[1]} changed rows"):
        polled(place, mode="incremental", start="earliest")
    assert sorted(polled(place, mode="incremental", start="earliest", on_change="skip")) == [(1, 10), (2, 20), (3, 30)]


def test_it_goes_on_at_its_cursor(tmp_path: Path) -> None:
    place = tmp_path / "t"
    sent(place, 1, {1: 10, 2: 20, 3: 30}, "append")
    reader = source(f"hudi:{place}")
    reader.start()
    assert reader.poll(2).rows == 2
    cursor = Cursor.from_json(reader.cursor.to_json())
    version = sent(place, 2, {4: 40}, "append")
    again = source(f"hudi:{place}")
    again.start(cursor)
    assert again.poll(1).rows == 1
    assert again.poll(2)[0].to_pylist() == [{"id": 4, "v": 40}]
    assert not again.poll(2)
    assert again.cursor.table_version == version + 1
    # What was read is gone: rolled back, or of another table.
    state = {**again.cursor.state, "instant": version - 1}
    with pytest.raises(VersionNotFound, match="which was read, is not there"):
        source(f"hudi:{place}").start(Cursor(source="table", state=state))


def test_what_was_cleaned_can_be_told_no_longer(instants: list[int], tmp_path: Path) -> None:
    place = tmp_path / "t"
    HudiTable.open(str(place)).clean(1)
    asked: list[dict[str, Any]] = [{"mode": "snapshot", "version": instants[0]}, {"mode": "incremental", "start": instants[1]}]
    for options in asked:
        with pytest.raises(VersionNotFound, match="can be told no longer"):
            polled(place, on_change="tell", **options)
    assert polled(place, mode="incremental", start="earliest", on_change="tell") == []
    reader = source(f"hudi:{place}", start=instants[3], on_change="tell", on_missing_versions="earliest")
    reader.start()
    with pytest.warns(match="can be told no longer"):
        assert not reader.poll()
    assert sorted(polled(place)) == [(9, 90)]


def test_it_waits_before_an_instant_that_is_not_completed(tmp_path: Path) -> None:
    place = tmp_path / "t"
    first = sent(place, 1, {1: 10}, "append")
    reader = source(f"hudi:{place}")
    reader.start()
    assert reader.poll().rows == 1
    pending = place / f".hoodie/timeline/{first + 1}.commit.requested"
    pending.touch()
    (place / ".hoodie/.heartbeat").mkdir()
    (place / f".hoodie/.heartbeat/{first + 1}").touch()
    sent(place, 2, {2: 20}, "append")
    assert not reader.poll()
    pending.unlink()
    assert reader.poll()[0].to_pylist() == [{"id": 2, "v": 20}]


def test_a_table_of_version_6_is_read(tmp_path: Path) -> None:
    root = hudi_table(tmp_path / "t", meta=True)
    start = datetime(2026, 1, 5, tzinfo=UTC)
    day = pa.table({"ts": pa.array([start], pa.timestamp("us", "UTC")), "site": ["a"], "price": [1.0]})
    hudi_commit(root, 0, 5, day, meta=True)
    hudi_commit(root, 1, 6, day, meta=True)
    assert len(polled(root, mode="batch")) == 2
    assert len(polled(root, mode="incremental", start=20260106000000000)) == 1
    with pytest.raises(NotSupported, match="table version 6"):
        source(f"hudi:{root}", on_change="tell")


def test_what_cannot_be_read_is_refused_by_name(instants: list[int], tmp_path: Path) -> None:
    with pytest.raises(TableNotFound):
        source(f"hudi:{tmp_path}/nowhere")
    with pytest.raises(InvalidOption, match="on_change"):
        source(f"hudi:{tmp_path}/t", onchange="tell")
    path = tmp_path / "t/.hoodie/hoodie.properties"
    known = decode_properties(path.read_bytes())
    asked: list[tuple[str, str, dict[str, Any]]] = [
        ("hoodie.table.version", "5", {}),
        ("hoodie.populate.meta.fields", "false", {}),
        ("hoodie.datasource.write.drop.partition.columns", "true", {}),
        ("hoodie.table.type", "MERGE_ON_READ", {"on_change": "tell"}),
    ]
    for name, value, options in asked:
        path.write_bytes(encode_properties({**known, name: value}))
        with pytest.raises(NotSupported):
            source(f"hudi:{tmp_path}/t", **options)


def test_a_table_in_memory_is_refused_by_name() -> None:
    with pytest.raises(NotSupported, match="memory of this process"):
        source("hudi:memory://nowhere").schema  # noqa: B018 - it is opened then
