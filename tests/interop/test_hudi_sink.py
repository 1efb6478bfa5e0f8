"""A Hudi table that sinks and Hudi on Spark write in turn: after each turn Hudi and hudi-rs have its rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gapless.connect import CommitInfo, sink, source
from gapless.errors import NotSupported
from interop.delta.engines import HUDI, HUDI_SPARK, Ask, EngineError, counted

START = datetime(2026, 1, 5, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("region", pa.string()),
        ("v", pa.float64()),
        ("ts", pa.timestamp("us", "UTC")),
        ("tags", pa.list_(pa.string())),
        ("deal", pa.struct([("lots", pa.int64()), ("by", pa.string())])),
        ("price", pa.decimal128(38, 18)),
        ("day", pa.date32()),
    ]
)
PARTITIONED = {"hoodie.datasource.write.partitionpath.field": "region"}
KEPT_SHORT = {"hoodie.keep.min.commits": "3", "hoodie.keep.max.commits": "4", "hoodie.clean.commits.retained": "2"}


def rows(ids: Iterable[int], value: float = 0) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                "id": n,
                "region": "eu north" if n % 2 else "us",
                "v": value + n,
                "ts": START + timedelta(hours=n, microseconds=7),
                "tags": [f"é{n}", "x"],
                "deal": {"lots": n, "by": f"b{n}"},
                "price": Decimal(n) / 4,
                "day": (START + timedelta(days=n)).date(),
            }
            for n in ids
        ],
        SCHEMA,
    )


class Turns:
    """One table, and what it must hold."""

    def __init__(self, place: Path, engine: Ask) -> None:
        self.place, self.engine = place, engine
        self.held: dict[int, dict[str, Any]] = {}
        self.numbers = iter(range(1000))

    def ours(self, mode: str, given: pa.Table, **options: Any) -> CommitInfo:
        create = None if mode == "delete" else {"partition_by": "region", "table_name": "gapless"}
        with sink(f"hudi:{self.place}", pipeline="p", name=mode, mode=mode, create=create, **options) as into:
            into.initialize(given.schema)
            into.write(given)
            return into.finalize(into.prepare(next(self.numbers)))

    def theirs(self, operation: str, given: pa.Table, more: Mapping[str, str] = PARTITIONED) -> None:
        self.engine(HUDI_SPARK).do(
            "write", rows=given, path=str(self.place), operation=operation, key="id", **PARTITIONED, **more
        )

    def put(self, given: pa.Table) -> None:
        self.held.update({row["id"]: row for row in given.to_pylist()})

    def look(self, *, at: str | None = None, held: Mapping[int, dict[str, Any]] | None = None) -> None:
        wanted = counted((self.held if held is None else held).values(), SCHEMA.names)
        for name in (HUDI, HUDI_SPARK):
            assert counted(self.engine(name).read(self.place, at=at), SCHEMA.names) == wanted, name


def test_hudi_and_sinks_write_one_table_in_turn(engine: Ask, tmp_path: Path) -> None:
    turns = Turns(tmp_path / "t", engine)
    first = turns.ours("upsert", rows(range(6)), key="id")
    turns.put(rows(range(6)))
    turns.look()
    before = dict(turns.held)
    second = turns.ours("upsert", rows(range(4, 8), 100), key="id")
    turns.put(rows(range(4, 8), 100))
    turns.look()
    turns.look(at=str(first.version), held=before)
    # Hudi goes by when a commit was completed: the first one was before the second was asked for.
    told = engine(HUDI_SPARK).do("changed", path=str(turns.place), since=str(second.version))
    assert sorted(told["id"].to_pylist()) in ([4, 5, 6, 7], list(range(8)))

    turns.theirs("upsert", rows(range(7, 10), 200), {})
    turns.put(rows(range(7, 10), 200))
    turns.look()
    turns.ours("delete", rows([0, 9]).select(["id"]))
    turns.held.pop(0), turns.held.pop(9)
    turns.look()
    turns.theirs("delete", rows([1, 2]), {})
    turns.held.pop(1), turns.held.pop(2)
    turns.look()
    turns.ours("append", rows([20, 21]))
    turns.put(rows([20, 21]))
    turns.look()
    turns.theirs("upsert", rows([20, 22], 300), {})
    turns.put(rows([20, 22], 300))
    turns.look()
    turns.ours("overwrite", rows([21, 31]), partition_overwrite="dynamic")
    turns.held = {n: row for n, row in turns.held.items() if row["region"] == "us"}
    turns.put(rows([21, 31]))
    turns.look()
    turns.theirs("insert_overwrite", rows([31, 33], 7), {})
    turns.held = {n: row for n, row in turns.held.items() if row["region"] == "us"}
    turns.put(rows([31, 33], 7))
    turns.look()
    turns.ours("overwrite", rows([40, 41]))
    turns.held.clear()
    turns.put(rows([40, 41]))
    turns.look()


def test_marks_and_rows_outlive_hudis_archive_and_hudi_ours(engine: Ask, tmp_path: Path) -> None:
    turns = Turns(tmp_path / "t", engine)
    info = turns.ours("upsert", rows(range(4)), key="id")
    turns.put(rows(range(4)))
    for number in range(6):
        turns.theirs("upsert", rows([number], 10), KEPT_SHORT)
        turns.put(rows([number], 10))
    names = [path.name for path in (turns.place / ".hoodie/timeline").iterdir()]
    assert not any(name.startswith(str(info.version)) for name in names)
    assert sink(f"hudi:{turns.place}", pipeline="p", name="upsert", mode="upsert").last_committed() == 0
    turns.look()
    for number in range(35):
        turns.ours("upsert", rows([number], 20), key="id")
        turns.put(rows([number], 20))
    turns.look()
    turns.theirs("upsert", rows([3, 50], 30), KEPT_SHORT)
    turns.put(rows([3, 50], 30))
    turns.look()


def test_hudi_waits_for_our_lock(engine: Ask, tmp_path: Path) -> None:
    turns = Turns(tmp_path / "t", engine)
    turns.ours("upsert", rows(range(4)), key="id")
    (turns.place / ".hoodie/lock").write_text("gapless:another machine:1:x")
    locking = {
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.clean.failed.writes.policy": "LAZY",
        "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
        "hoodie.write.lock.num_retries": "2",
        "hoodie.write.lock.wait_time_ms_between_retry": "100",
        "hoodie.write.lock.client.num_retries": "1",
        "hoodie.write.lock.client.wait_time_ms_between_retry": "100",
    }
    with pytest.raises(EngineError, match=r"(?i)lock"):
        turns.theirs("upsert", rows([9]), locking)
    turns.put(rows(range(4)))
    turns.ours("upsert", rows([5]), key="id")  # whose lock it is no more
    turns.put(rows([5]))
    turns.look()
    assert not (turns.place / ".hoodie/lock").exists()
    turns.theirs("upsert", rows([10]), locking)
    turns.put(rows([10]))
    turns.look()


def test_a_source_reads_what_hudi_writes_of_either_type(engine: Ask, tmp_path: Path) -> None:
    for kind in ("COPY_ON_WRITE", "MERGE_ON_READ"):
        turns = Turns(tmp_path / kind, engine)
        more = {"hoodie.datasource.write.table.type": kind}
        turns.theirs("upsert", rows(range(6)), more)
        reader = source(f"hudi:{turns.place}", on_change="skip")
        reader.start()
        first = [row for batch in reader.poll() for row in batch.to_pylist()]
        turns.put(rows(range(6)))
        assert counted(first, SCHEMA.names) == counted(turns.held.values(), SCHEMA.names)
        turns.theirs("upsert", rows([5, 6], 10), more)
        turns.put(rows([5, 6], 10))
        whole = source(f"hudi:{turns.place}", mode="batch")
        whole.start()
        found = [row for batch in whole.poll() for row in batch.to_pylist()]
        assert counted(found, SCHEMA.names) == counted(turns.held.values(), SCHEMA.names), kind
        assert not reader.poll()  # which changed rows
        turns.theirs("insert", rows([30, 31], 10), more)
        added = [row["id"] for batch in reader.poll() for row in batch.to_pylist()]
        assert sorted(added) == [30, 31], kind
    with pytest.raises(NotSupported, match="MERGE_ON_READ"):
        turns.ours("upsert", rows([1]), key="id")
