"""How a sink makes its table and lays out its files: partitions and properties, sizes on disk, staging by size and age."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gapless as gl
from gapless.connect import sink
from gapless.errors import InvalidOption, StorageFull
from gapless.runtime.environment import Environment
from gapless.store.local.store import LocalStore
from gapless.store.local.temp_files import BegunFile
from support.pipelines import KINDS, SCHEMA, made, opened, rows

MIB = 1 << 20


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def many(count: int, first: int = 0) -> pa.Table:
    """Rows a second apart, of which no value tells another: about as large on disk as in memory, but for their times."""
    draw = np.random.default_rng(first)
    stamps = pa.array(np.arange(first, first + count) * 1_000_000).cast(pa.timestamp("us")).cast(SCHEMA.field("ts").type)
    columns = [stamps, *(pa.array(draw.integers(0, 2**62, count)) for _ in range(2))]
    return pa.table(columns, schema=SCHEMA)


def sizes(kind: str, place: Path) -> list[int]:
    """Bytes of the table's data files on disk, in the order of their names."""
    table = opened(kind, place)
    found = sorted(Path(place).rglob("*.parquet"))
    files = [path.stat().st_size for path in found if not {"_delta_log", "_timeseries_log", "_log_parts"} & set(path.parts)]
    assert table.verify().ok
    return files


def test_files_have_the_size_on_disk_that_was_asked_for(kind: str, tmp_path: Path) -> None:
    place = tmp_path / "t"
    made(kind, place)
    mine = sink(f"{kind}:{place}", pipeline="p", name="n", target_bytes=MIB)
    mine.initialize(SCHEMA)
    count = 400_000
    for first in range(0, count, 50_000):
        mine.write(many(50_000, first))
    mine.finalize(mine.prepare(1))
    found = sorted(sizes(kind, place))
    assert opened(kind, place).scan().count() == count
    assert len(found) >= 4
    # All but the last, which holds what is left; a file of a Delta table ends with the row group that reaches the size.
    assert all(0.6 * MIB <= size <= (1.6 if kind == "timeseries" else 2) * MIB for size in found[1:]), found


def test_rows_that_shrink_make_files_of_that_size_too(kind: str, tmp_path: Path) -> None:
    place = tmp_path / "t"
    made(kind, place)
    mine = sink(f"{kind}:{place}", pipeline="p", name="n", target_bytes=MIB // 4)
    mine.initialize(SCHEMA)
    batch = many(400_000)
    narrow = pa.array(np.random.default_rng(1).integers(0, 200, 400_000))
    mine.write(batch.set_column(1, SCHEMA.field(1), narrow).set_column(2, SCHEMA.field(2), narrow))
    mine.finalize(mine.prepare(1))
    found = sorted(sizes(kind, place))
    assert len(found) >= 2
    assert all(0.5 * MIB / 4 <= size <= 2 * MIB / 4 for size in found[1:]), found


def test_few_rows_make_one_file(kind: str, tmp_path: Path) -> None:
    place = tmp_path / "t"
    made(kind, place)
    mine = sink(f"{kind}:{place}", pipeline="p", name="n")
    mine.initialize(SCHEMA)
    for first in range(0, 50_000, 10_000):
        mine.write(many(10_000, first))
    prepared = mine.prepare(1)
    assert len(prepared.data_files) == 1
    mine.finalize(prepared)


def narrow(count: int, first: int = 0) -> pa.Table:
    """Rows that become many times smaller on disk."""
    few = pa.array(np.random.default_rng(first).integers(0, 200, count))
    rows = many(count, first)
    return rows.set_column(1, SCHEMA.field(1), few).set_column(2, SCHEMA.field(2), few)


def in_order(kind: str, place: Path) -> bool:
    """Whether each file of a series is sorted as a whole, as the log says: a reader need not sort it."""
    return kind == "delta" or all(segment.sorted_by == ("ts",) for segment in gl.open(place).segments())


def test_a_file_stays_open_until_it_is_large_enough_however_often_rows_are_staged(kind: str, tmp_path: Path) -> None:
    place, step, target = tmp_path / "t", 50_000, MIB // 2
    made(kind, place)
    spill = narrow(step).nbytes
    mine = sink(f"{kind}:{place}", pipeline="p", name="n", target_bytes=target, spill_bytes=spill)
    mine.initialize(SCHEMA)
    # From the newest rows to the oldest, so that none follows on what came before.
    firsts = range(19 * step, -1, -step)
    for first in firsts:
        mine.write(narrow(step, first))
    prepared = mine.prepare(1)
    mine.finalize(prepared)
    found = sorted(sizes(kind, place))
    one = sum(found) // len(firsts)
    assert one * 4 < target
    assert len(found) <= 1 + sum(found) // (target // 2)
    assert all(0.6 * target <= size <= 1.6 * target for size in found[1:]), found
    table = opened(kind, place)
    assert in_order(kind, place)
    assert table.verify(deep=True).ok
    wanted = pa.concat_tables([narrow(step, first) for first in reversed(firsts)])
    assert table.scan().to_arrow().sort_by("ts").cast(SCHEMA).equals(wanted)


def test_rows_with_one_key_stay_as_they_came_over_all_that_was_staged(tmp_path: Path) -> None:
    place = tmp_path / "t"
    made("timeseries", place)
    few, count, times = rows(0, 4), 20_000, 10
    mine = sink(f"timeseries:{place}", pipeline="p", name="n", spill_bytes=few.nbytes * count // 4)
    mine.initialize(SCHEMA)
    for number in range(times):
        came = few.take(np.arange(count) % 4).set_column(2, SCHEMA.field(2), pa.array(np.full(count, number)))
        mine.write(came)
    prepared = mine.prepare(1)
    (file,) = prepared.data_files
    stored = pq.read_table(place / file)["v"].to_numpy()
    assert np.array_equal(stored, np.tile(np.repeat(np.arange(times), count // 4), 4))
    mine.finalize(prepared)


def test_each_partition_has_one_file_over_all_that_was_staged(tmp_path: Path) -> None:
    place = tmp_path / "t"
    mine = sink(f"delta:{place}", pipeline="p", name="n", create={"partition_by": ["id"]}, spill_bytes=MIB)
    mine.initialize(SCHEMA)
    ids = pa.array(np.arange(50_000) % 4)
    for first in range(0, 500_000, 50_000):
        mine.write(many(50_000, first).set_column(1, SCHEMA.field(1), ids))
    prepared = mine.prepare(1)
    # Without room for all of them, the largest are finished first.
    assert 4 <= len(prepared.data_files) < 4 * 10
    mine.finalize(prepared)
    roomy = sink(f"delta:{place}", pipeline="p", name="roomy", spill_bytes=64 * MIB, spill_seconds=3600)
    roomy.initialize(SCHEMA)
    for first in range(0, 500_000, 50_000):
        roomy.write(many(50_000, first).set_column(1, SCHEMA.field(1), ids))
    assert len(roomy.prepare(1).data_files) == 4


def test_a_few_rows_of_a_partition_do_not_keep_all_others_in_memory(tmp_path: Path) -> None:
    place = tmp_path / "t"
    options: dict[str, Any] = {"spill_bytes": 4 * MIB, "target_bytes": MIB, "create": {"partition_by": ["id"]}}
    mine = sink(f"delta:{place}", pipeline="p", name="n", **options)
    mine.initialize(SCHEMA)
    ids = pa.array(np.arange(50_000) == 0).cast(pa.int64())
    before, most = pa.total_allocated_bytes(), 0
    for first in range(0, 2_000_000, 50_000):
        mine.write(narrow(50_000, first).set_column(1, SCHEMA.field(1), ids))
        most = max(most, pa.total_allocated_bytes() - before)
    assert most < 16 * MIB < 2_000_000 * 24 / 2
    prepared = mine.prepare(1)
    assert sorted(path.partition("/")[0] for path in prepared.data_files)[-2:] == ["id=0", "id=1"]
    mine.finalize(prepared)
    assert opened("delta", place).scan(where="id = 1").count() == 40


def test_what_could_not_be_stored_as_a_file_grew_full_is_taken_once(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, step = tmp_path / "t", 20_000
    made(kind, place)
    mine = sink(f"{kind}:{place}", pipeline="p", name="n", target_bytes=MIB // 2, spill_bytes=2 * MIB)
    mine.initialize(SCHEMA)
    failed, full = 0, [True]
    begin = LocalStore.begin_deferred

    def refused(self: LocalStore, path: str) -> BegunFile:
        if full[0] and path.endswith(".parquet"):
            raise StorageFull("no space")
        return begin(self, path)

    monkeypatch.setattr(LocalStore, "begin_deferred", refused)
    for first in range(0, 20 * step, step):
        while True:
            try:
                mine.write(many(step, first))
                break
            except StorageFull:
                failed, full[0] = failed + 1, False
        full[0] = True
    assert failed >= 3
    full[0] = False
    mine.finalize(mine.prepare(1))
    table = opened(kind, place)
    assert table.verify(deep=True).ok
    assert (
        table.scan()
        .to_arrow()
        .sort_by("ts")["v"]
        .cast(pa.int64())
        .equals(pa.concat_tables([many(step, first) for first in range(0, 20 * step, step)])["v"])
    )
    left = {path.name for path in place.rglob("*.parquet")} - {Path(one.path).name for one in files_of(kind, table)}
    assert not left


def files_of(kind: str, table: Any) -> list[Any]:
    """What the log names."""
    return list(table.files() if kind == "delta" else table.segments())


class HandClock:
    """The machine's clock, but for what it is moved on."""

    def __init__(self) -> None:
        self.inner = Environment(store=None).clock  # type: ignore[arg-type]  # only its clock is wanted
        self.ahead_s = 0.0

    def now_ns(self) -> int:
        return self.inner.now_ns() + int(self.ahead_s * 1e9)

    def monotonic(self) -> float:
        return self.inner.monotonic() + self.ahead_s

    def sleep(self, seconds: float) -> None:
        self.ahead_s += seconds


@pytest.mark.parametrize("wait", [600, "10 minutes"])
def test_rows_that_waited_are_staged_as_the_next_ones_come(
    kind: str, wait: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, clock = tmp_path / "t", HandClock()
    made(kind, place)
    module = f"gapless.tables.{kind}.table"
    opening = __import__(module, fromlist=["open_environment"]).open_environment
    monkeypatch.setattr(f"{module}.open_environment", lambda *at: Environment(store=opening(*at).store, clock=clock))
    mine = sink(f"{kind}:{place}", pipeline="p", name="n", spill_seconds=wait)
    mine.initialize(SCHEMA)

    def staged() -> int:
        return len([path for path in place.rglob("*.parquet") if "_log" not in str(path.relative_to(place))])

    mine.write(rows(0, 1))
    clock.sleep(599)
    mine.write(rows(1, 1))
    assert staged() == 0
    clock.sleep(2)
    mine.write(rows(2, 1))
    assert staged() == 1
    clock.sleep(599)
    mine.write(rows(3, 1))
    assert staged() == 1
    prepared = mine.prepare(1)
    assert (len(prepared.data_files), prepared.records_written) == (2, 4)
    mine.finalize(prepared)


@pytest.mark.parametrize("wait", [0, -1, "0", "10 parsecs", True, float("nan")])
def test_no_time_to_wait_is_refused(wait: object) -> None:
    with pytest.raises(InvalidOption, match="spill_seconds"):
        sink("delta:t", pipeline="p", name="n", spill_seconds=wait)


def test_a_delta_table_is_made_with_partitions_and_properties(tmp_path: Path) -> None:
    place = tmp_path / "t"
    create: dict[str, Any] = {
        "partition_by": ["id"],
        "properties": {"delta.enableChangeDataFeed": True, "owner": "desk 7"},
        "description": "made by a sink",
    }
    mine = sink(f"delta:{place}", pipeline="p", name="n", create=create)
    mine.initialize(SCHEMA)
    mine.write(rows(0, 6, 3))
    prepared = mine.prepare(1)
    assert sorted({path.split("/")[0] for path in prepared.data_files}) == ["id=0", "id=1", "id=2"]
    mine.finalize(prepared)
    table = gl.delta.open(place)
    assert tuple(table.partition_by) == ("id",)
    assert table.properties["owner"] == "desk 7"
    assert table.scan(where="id = 1").to_arrow()["v"].to_pylist() == [1, 4]


def test_a_time_series_table_is_made_with_entities_and_properties(tmp_path: Path) -> None:
    place = tmp_path / "t"
    create = {"index": "ts", "bucket": "1h", "entity": ["id"], "properties": {"unique": True, "codec": "smallest"}}
    mine = sink(f"timeseries:{place}", pipeline="p", name="n", create=create)
    mine.initialize(SCHEMA)
    mine.write(rows(0, 6, 3))
    mine.finalize(mine.prepare(1))
    table = gl.open(place)
    assert (table.entity, table.properties.unique, table.properties.codec) == (("id",), True, "smallest")
    assert table.scan().count() == 6
