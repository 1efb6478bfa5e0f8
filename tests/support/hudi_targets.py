"""Copy-on-write Hudi tables that sinks write, as tests need them: filled, changed and swept by sinks, read by a stranger."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hudi
import pyarrow as pa
import pyarrow.parquet as pq

from gapless.connect import sink
from gapless.tables.hudi.table import HudiTable
from support.copies import copied

_NUMBERS = itertools.count()
PARTITION_FILE = ".hoodie_partition_metadata"


@dataclass(frozen=True, slots=True)
class Verified:
    """As `table.verify` answers."""

    ok: bool


@dataclass(frozen=True, slots=True)
class Scanned:
    """As `table.scan` answers."""

    rows: pa.Table

    def to_arrow(self) -> pa.Table:
        return self.rows


@dataclass(frozen=True, slots=True)
class HudiTarget:
    """A table with the calls that tests make of tables of every kind."""

    place: str
    storage: Mapping[str, str] | None

    @property
    def version(self) -> int:
        """The instant of its newest commit, as a number; 0 before the first."""
        return HudiTable.open(self.place, self.storage).state.version

    def scan(self) -> Scanned:
        """Its rows, by a stranger who reads a copy."""
        with tempfile.TemporaryDirectory() as folder:
            found = rows(copied(self.place, self.storage, Path(folder) / "copy"))
        return Scanned(pa.Table.from_pylist(found, HudiTable.open(self.place, self.storage).state.schema))

    def append(self, rows: pa.Table) -> None:
        self._commit(rows, "append")

    def delete(self, where: str) -> None:
        """The row with `v = <number>`."""
        self._commit(pa.table({"v": pa.array([int(where.removeprefix("v = "))], pa.int64())}), "delete", key="v")

    def _commit(self, rows: pa.Table, mode: str, **options: Any) -> None:
        name = f"made-{next(_NUMBERS)}"
        with sink(f"hudi:{self.place}", pipeline="made", name=name, mode=mode, storage_options=self.storage, **options) as into:
            into.initialize(rows.schema)
            into.write(rows)
            into.finalize(into.prepare(0))

    def verify(self, *, deep: bool) -> Verified:
        """Whether each live file is there and holds as many rows as its commit says."""
        table = HudiTable.open(self.place, self.storage)
        assert deep
        said = {one.path: one.rows for instant in table.state.commits for one in table.timeline.commit(instant).files}
        live = table.state.live(table.timeline.files())
        store = table.env.store
        found = {one.path: pq.read_metadata(pa.BufferReader(store.get(one.path))).num_rows for one in live}
        return Verified(all(said.get(path, rows) == rows for path, rows in found.items()))


def make(place: str, storage: Mapping[str, str] | None, schema: pa.Schema) -> HudiTarget:
    """An empty table, whose rows Hudi numbers."""
    HudiTable.create(place, schema, {}, storage)
    return HudiTarget(place, storage)


def _opened(root: Path) -> Any:
    return hudi.HudiTableBuilder.from_base_uri(str(root)).build()


def files(root: Path) -> set[str]:
    """Those of the newest version of a copy on disk, by hudi-rs, and what tells Hudi that their folders are partitions."""
    slices = _opened(root).get_file_slices(hudi.HudiReadOptions())
    marks = {str(path.relative_to(root)) for path in root.rglob(PARTITION_FILE) if ".hoodie" not in path.parts}
    return marks | {one.base_file_relative_path() for one in slices}


def rows(root: Path) -> list[dict[str, Any]]:
    """The rows of a copy on disk, without Hudi's columns, by hudi-rs."""
    batches = _opened(root).read(hudi.HudiReadOptions())
    if not batches:
        return []
    table = pa.Table.from_batches(batches)
    found: list[dict[str, Any]] = table.select(
        [name for name in table.column_names if not name.startswith("_hoodie_")]
    ).to_pylist()
    return found


def added_by_commit(place: str) -> list[list[int]]:
    """`v` of the rows that stand, by the commit that added them, in its order."""
    with tempfile.TemporaryDirectory() as folder:
        batches = _opened(copied(place, None, Path(folder) / "copy")).read(hudi.HudiReadOptions())
        found = pa.Table.from_batches(batches).select(["_hoodie_commit_time", "v"]).to_pylist() if batches else []
    by_commit: dict[str, list[int]] = {}
    for row in sorted(found, key=lambda row: (row["_hoodie_commit_time"], row["v"])):
        by_commit.setdefault(row["_hoodie_commit_time"], []).append(row["v"])
    return list(by_commit.values())


def sweep(target: HudiTarget) -> None:
    """Remove all files that the newest commit does not need."""
    HudiTable.open(target.place, target.storage).clean(1)
