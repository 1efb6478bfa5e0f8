"""Sources out of Iceberg tables: along ancestry whatever the snapshots' ids, with deletes by policy, at places of any kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestWriterV2,
)
from pyiceberg.table import Transaction
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _FastAppendFiles
from pyiceberg.typedef import Record
from pyiceberg.types import LongType

import gapless as gl
from gapless.connect import Cursor, Source
from gapless.errors import InvalidOption, LogWarning, NotSupported, SchemaMismatch, UnsupportedTable, VersionNotFound
from support import iceberg_tables
from support.iceberg_tables import Handle
from support.pipelines import rows


@pytest.fixture
def place(tmp_path: Path) -> str:
    iceberg_tables.make(str(tmp_path / "t"), None)
    return str(tmp_path / "t")


@pytest.fixture
def table(place: str) -> Handle:
    return Handle(place, None)


def source(place: str, cursor: Cursor | None = None, **options: Any) -> Source:
    made = gl.connect.source(f"iceberg:{place}", **options)
    made.start(None if cursor is None else Cursor.from_json(cursor.to_json()))
    return made


def values(polled: Any) -> list[int]:
    return [value for batch in polled for value in batch.column("v").to_pylist()]


def told(polled: Any) -> list[tuple[str, int]]:
    return [(row["_change_type"], row["v"]) for batch in polled for row in batch.to_pylist()]


@pytest.fixture(params=["random", "descending"])
def ids(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the ids of a stranger's snapshots are like."""
    if request.param == "descending":
        left: Iterator[int] = iter(range(1 << 40, 0, -1))
        monkeypatch.setattr("pyiceberg.table.metadata._generate_snapshot_id", lambda: next(left))


@pytest.mark.usefixtures("ids")
def test_commits_come_in_the_order_of_ancestry(place: str, table: Handle) -> None:
    for first in range(0, 50, 2):
        table.append(rows(first, 2))
    reader = source(place, start="earliest")
    found: list[int] = []
    while polled := reader.poll(3):
        assert polled.rows <= 3
        found += values(polled)
        reader = source(place, reader.cursor)  # in another process
    assert found == list(range(50))
    table.append(rows(50, 1))
    assert values(reader.poll()) == [50]
    assert reader.cursor.table_version == 27
    assert reader.cursor.state["snapshot_id"] == table.table.current_snapshot().snapshot_id  # type: ignore[union-attr]


def test_places_of_every_kind(place: str, table: Handle) -> None:
    for first in (0, 10, 20):
        table.append(rows(first, 2))
    snapshots = table.table.snapshots()
    with table.table.manage_snapshots() as manage:
        manage.create_tag(snapshots[0].snapshot_id, "first")
        manage.create_branch(snapshots[1].snapshot_id, "audit")
    times = [datetime.fromtimestamp(one.timestamp_ms / 1000, UTC) for one in snapshots]
    tick = timedelta(milliseconds=1)
    cases: list[tuple[Mapping[str, Any], list[int]]] = [
        ({"mode": "batch"}, [0, 1, 10, 11, 20, 21]),
        ({"mode": "snapshot", "version": 2}, [0, 1, 10, 11]),
        ({"snapshot_id": snapshots[0].snapshot_id}, [0, 1]),
        ({"mode": "snapshot", "time": times[1]}, [0, 1, 10, 11]),
        ({"mode": "batch", "ref": "first"}, [0, 1]),
        ({"mode": "batch", "ref": "audit"}, [0, 1, 10, 11]),
        ({"mode": "incremental", "ref": "audit", "start": 2}, [10, 11]),
        ({"mode": "incremental", "start": "earliest", "until": 2}, [0, 1, 10, 11]),
        ({"mode": "incremental", "since": 1}, [10, 11, 20, 21]),
        ({"mode": "incremental", "start": times[2]}, [20, 21]),
        ({"mode": "incremental", "start": "earliest", "until": times[1]}, [0, 1, 10, 11]),
        ({"mode": "incremental", "since": times[2]}, []),
        ({"mode": "incremental", "start": times[0] - tick}, [0, 1, 10, 11, 20, 21]),
        ({"start": "latest"}, []),
    ]
    for options, wanted in cases:
        assert values(source(place, **options).poll()) == wanted, options
    for options, error in (
        ({"ref": "frist"}, InvalidOption),
        ({"ref": 3}, InvalidOption),
        ({"snapshot_id": 7}, VersionNotFound),
        ({"snapshot_id": "7"}, InvalidOption),
        ({"snapshot_id": snapshots[0].snapshot_id, "version": 1}, InvalidOption),
        ({"snapshot_id": snapshots[0].snapshot_id, "mode": "continuous"}, InvalidOption),
        ({"mode": "snapshot", "version": 9}, VersionNotFound),
        ({"start": 9}, VersionNotFound),
        ({"brunch": "x"}, InvalidOption),
    ):
        with pytest.raises(error):
            source(place, **options)


def test_a_branch_is_followed_and_others_commits_are_none_of_it(place: str, table: Handle) -> None:
    table.append(rows(0, 2))
    with table.table.manage_snapshots() as manage:
        manage.create_branch(table.table.current_snapshot().snapshot_id, "audit")  # type: ignore[union-attr]
    main, audit = source(place), source(place, ref="audit")
    assert values(main.poll()) == values(audit.poll()) == [0, 1]
    for first, branch in ((10, "audit"), (20, "main"), (30, "audit"), (40, "main")):
        table.table.append(rows(first, 1), branch=branch)
    assert values(main.poll()) == [20, 40]
    assert values(audit.poll()) == [10, 30]


def test_deletes_by_policy_and_rows_that_are_laid_out_anew(place: str, table: Handle) -> None:
    table.append(rows(0, 6))
    readers = {policy: source(place, on_change=policy) for policy in ("error", "skip", "tell")}
    for reader in readers.values():
        assert len(values(reader.poll())) == 6
    table.delete("v in (1, 4)")
    table.append(rows(10, 1))
    with pytest.raises(InvalidOption, match="version 2 changed rows"):
        readers["error"].poll()
    assert values(readers["skip"].poll()) == [10]
    assert told(readers["tell"].poll()) == [("delete", 1), ("delete", 4), ("insert", 10)]
    upsert = gl.connect.sink(f"iceberg:{place}", pipeline="orders", mode="upsert", key="v")
    upsert.initialize(rows(0, 0).schema)
    upsert.write(rows(2, 1).set_column(1, "id", pa.array([77], pa.int64())))
    upsert.write(rows(20, 1))
    upsert.finalize(upsert.prepare(1))
    assert [row["id"] for batch in readers["tell"].poll() for row in batch.to_pylist()] == [2, 77, 0]
    assert values(readers["skip"].poll()) == []


def test_a_replace_snapshot_gives_nothing(place: str, table: Handle) -> None:
    """The sink's abort makes one; a compaction of Spark is one, too (tests/interop)."""
    table.append(rows(0, 2))
    reader = source(place, on_change="error", start="earliest")
    sink = gl.connect.sink(f"iceberg:{place}", pipeline="orders")
    sink.initialize(rows(0, 0).schema)
    sink.write(rows(5, 1))
    assert sink.abort(sink.prepare(1))
    table.append(rows(2, 1))
    assert [one.summary.operation for one in table.table.snapshots()][1] == Operation.REPLACE  # type: ignore[union-attr]
    assert values(reader.poll()) == [0, 1, 2]


def test_a_table_that_was_rolled_back(place: str, table: Handle) -> None:
    for first in (0, 10):
        table.append(rows(first, 2))
    reader = source(place, start="earliest")
    assert values(reader.poll()) == [0, 1, 10, 11]
    begun = source(place, start="earliest")
    begun.poll(1)
    cursor = begun.cursor
    with table.table.manage_snapshots() as manage:
        manage.rollback_to_snapshot(table.table.snapshots()[0].snapshot_id)
    with pytest.raises(VersionNotFound):
        source(place, reader.cursor)
    table.append(rows(20, 1))
    with pytest.raises(VersionNotFound, match="was rolled back"):
        source(place, reader.cursor)
    with pytest.raises(VersionNotFound, match="was rolled back"):
        reader.poll()
    assert values(source(place, cursor).poll()) == [1, 20]


def test_versions_that_were_expired(place: str, table: Handle) -> None:
    for first in (0, 10, 20, 30):
        table.append(rows(first, 1))
    reader = source(place, start="earliest")
    assert values(reader.poll(1)) == [0]
    cursor = reader.cursor
    table.table.maintenance.expire_snapshots().by_ids([one.snapshot_id for one in table.table.snapshots()[:3]]).commit()
    with pytest.raises(VersionNotFound, match="can be told no longer"):
        source(place, cursor).poll()
    with pytest.warns(LogWarning, match="versions 2 to 3 are expired"):
        assert values(source(place, cursor, on_missing_versions="earliest").poll()) == [30]
    assert values(source(place).poll()) == [0, 10, 20, 30]
    assert values(source(place, start="earliest").poll()) == [30]
    up_to_date = source(place, start="latest")
    table.append(rows(40, 1))
    assert values(up_to_date.poll()) == [40]
    table.table.maintenance.expire_snapshots().by_ids([table.table.snapshots()[0].snapshot_id]).commit()
    assert values(source(place, up_to_date.cursor).poll()) == []


def test_another_table_in_its_place(place: str, table: Handle) -> None:
    table.append(rows(0, 1))
    reader = source(place)
    reader.poll()
    for path in Path(place).glob("metadata/*"):
        path.unlink()
    iceberg_tables.make(place, None)
    with pytest.raises(VersionNotFound):
        source(place, reader.cursor)
    with pytest.raises(VersionNotFound, match="made anew"):
        reader.poll()


def test_columns_that_change(place: str, table: Handle) -> None:
    table.append(rows(0, 1))
    readers = {policy: source(place, on_schema_change=policy) for policy in ("error", "keep", "evolve")}
    for reader in readers.values():
        assert values(reader.poll()) == [0]
    with table.table.update_schema() as update:
        update.add_column("more", LongType())
        update.rename_column("id", "number")
    table.append(rows(1, 1).rename_columns(["ts", "number", "v"]).append_column("more", pa.array([7], pa.int64())))
    with pytest.raises(SchemaMismatch, match="'id' is 'number' now"):
        readers["error"].poll()
    kept = readers["keep"].poll()
    assert [batch.to_pylist()[0].keys() for batch in kept] == [{"ts": 0, "id": 0, "v": 0}.keys()]
    assert readers["evolve"].poll().schema_changed
    (batch,) = readers["evolve"].poll()
    assert [(row["number"], row["more"]) for row in batch.to_pylist()] == [(1, 7)]
    resumed = source(place, readers["keep"].cursor, on_schema_change="keep")
    assert resumed.schema.names == ["ts", "id", "v"]


class _Deletes(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES


def write_deletes(table: Handle, content: DataFileContent, deletes: pa.Table, equality_ids: list[int] | None) -> None:
    """A snapshot with a delete file, as Flink and Spark make them."""
    loaded = table.table
    location = f"{loaded.location()}/data/deletes-{content.name}.parquet"
    path = Path(location.removeprefix("file://"))
    pq.write_table(deletes, path)
    file = DataFile.from_args(
        _table_format_version=2,
        content=content,
        file_path=location,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=deletes.num_rows,
        file_size_in_bytes=path.stat().st_size,
        equality_ids=equality_ids,
    )
    file.spec_id = 0

    class Producer(_FastAppendFiles):
        def _process_manifests(self, manifests: list[Any]) -> list[Any]:
            output = self.new_manifest_output()
            writer = _Deletes(loaded.spec(), loaded.schema(), output, self.snapshot_id, "deflate")
            with writer:
                writer.add_entry(
                    ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=self.snapshot_id, data_file=file)
                )
            return [*manifests, writer.to_manifest_file()]

    transaction = Transaction(loaded)
    producer = Producer(Operation.OVERWRITE, transaction, loaded.io)
    updates, requirements = producer._commit()
    loaded.catalog.commit_table(loaded, requirements, updates)


def position_deletes(table: Handle, *positions: int) -> None:
    (task,) = table.table.scan().plan_files()
    fields = [
        pa.field("file_path", pa.string(), metadata={b"PARQUET:field_id": b"2147483546"}),
        pa.field("pos", pa.int64(), metadata={b"PARQUET:field_id": b"2147483545"}),
    ]
    columns = [[task.file.file_path] * len(positions), list(positions)]
    write_deletes(table, DataFileContent.POSITION_DELETES, pa.table(columns, schema=pa.schema(fields)), None)


def test_position_deletes_are_applied_and_told(place: str, table: Handle) -> None:
    table.append(rows(0, 5))
    reader = source(place, on_change="tell")
    assert len(told(reader.poll())) == 5
    position_deletes(table, 1, 3)
    assert told(reader.poll()) == [("delete", 1), ("delete", 3)]
    assert values(source(place, mode="batch").poll()) == [0, 2, 4]
    upsert = gl.connect.sink(f"iceberg:{place}", pipeline="orders", mode="upsert", key="v")
    upsert.initialize(rows(0, 0).schema)
    upsert.write(rows(2, 2))
    upsert.finalize(upsert.prepare(1))
    assert sorted(values(source(place, mode="batch").poll())) == [0, 2, 3, 4]
    assert sorted(told(reader.poll())) == [("insert", 3)]


def test_equality_deletes_are_refused_by_name(place: str, table: Handle) -> None:
    table.append(rows(0, 5))
    reader = source(place, on_change="tell")
    reader.poll()
    field = pa.field("v", pa.int64(), metadata={b"PARQUET:field_id": b"3"})
    write_deletes(table, DataFileContent.EQUALITY_DELETES, pa.table([[2]], schema=pa.schema([field])), [3])
    for act in (reader.poll, source(place, mode="batch").poll):
        with pytest.raises(NotSupported, match="equality deletes"):
            act()
    upsert = gl.connect.sink(f"iceberg:{place}", pipeline="orders", mode="upsert", key="v")
    upsert.initialize(rows(0, 0).schema)
    upsert.write(rows(2, 2))
    with pytest.raises(NotSupported, match="equality deletes"):
        upsert.finalize(upsert.prepare(1))
    append = gl.connect.sink(f"iceberg:{place}", pipeline="more")
    append.initialize(rows(0, 0).schema)
    append.write(rows(9, 1))
    append.finalize(append.prepare(1))
    assert len(table.table.snapshots()) == 3


def test_version_1_is_refused_by_name(place: str) -> None:
    for path in Path(place).glob("metadata/*"):
        path.unlink()
    iceberg_tables.make(place, None, properties={"format-version": "1"})
    with pytest.raises(UnsupportedTable, match="version 1"):
        source(place)
