"""The two that are measured: each does a case in its own best words, on a table in a folder of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import deltalake
import pyarrow as pa

import gapless as gl


class Side(Protocol):
    """Who takes part."""

    name: str

    def create(self, place: Path, schema: pa.Schema) -> None: ...
    def open(self, place: Path) -> Any: ...
    def append(self, table: Any, rows: pa.Table) -> None: ...
    def plan(self, table: Any, low: int, high: int) -> list[str]: ...
    def read(self, table: Any, low: int, high: int) -> pa.Table: ...
    def merge(self, table: Any, rows: pa.Table) -> None: ...
    def delete(self, table: Any, where: str) -> None: ...
    def optimize(self, table: Any) -> None: ...
    def checkpoint(self, table: Any) -> None: ...
    def count(self, table: Any) -> int: ...


class Ours:
    """gapless: every file and commit is synced before it counts."""

    name = "gapless"

    def create(self, place: Path, schema: pa.Schema) -> None:
        gl.delta.create(str(place), schema)

    def open(self, place: Path) -> Any:
        return gl.delta.open(str(place))

    def append(self, table: Any, rows: pa.Table) -> None:
        table.append(rows)

    def plan(self, table: Any, low: int, high: int) -> list[str]:
        return [file.path for file in table.scan(where=f"id >= {low} and id < {high}").files()]

    def read(self, table: Any, low: int, high: int) -> pa.Table:
        return table.scan(where=f"id >= {low} and id < {high}").to_arrow()

    def merge(self, table: Any, rows: pa.Table) -> None:
        table.merge(rows, on="t.id = s.id").when_matched_update_all().when_not_matched_insert_all().execute()

    def delete(self, table: Any, where: str) -> None:
        table.delete(where)

    def optimize(self, table: Any) -> None:
        table.compact()

    def checkpoint(self, table: Any) -> None:
        table.checkpoint()

    def count(self, table: Any) -> int:
        return int(table.count())


class Theirs:
    """deltalake: files and commits are left to the page cache."""

    name = f"deltalake {deltalake.__version__}"

    def create(self, place: Path, schema: pa.Schema) -> None:
        deltalake.DeltaTable.create(str(place), schema)

    def open(self, place: Path) -> Any:
        return deltalake.DeltaTable(str(place))

    def append(self, table: Any, rows: pa.Table) -> None:
        deltalake.write_deltalake(table, rows, mode="append")

    def plan(self, table: Any, low: int, high: int) -> list[str]:
        # What its documentation offers: the statistics as a table, filtered by the caller.
        import pyarrow.compute as pc

        adds = pa.table(table.get_add_actions(flatten=True))
        return list(adds.filter((pc.field("max.id") >= low) & (pc.field("min.id") < high))["path"].to_pylist())

    def read(self, table: Any, low: int, high: int) -> pa.Table:
        found = deltalake.QueryBuilder().register("t", table).execute(f"select * from t where id >= {low} and id < {high}")
        return pa.table(found.read_all())

    def merge(self, table: Any, rows: pa.Table) -> None:
        merger = table.merge(rows, predicate="t.id = s.id", source_alias="s", target_alias="t")
        merger.when_matched_update_all().when_not_matched_insert_all().execute()

    def delete(self, table: Any, where: str) -> None:
        table.delete(where)

    def optimize(self, table: Any) -> None:
        table.optimize.compact()

    def checkpoint(self, table: Any) -> None:
        table.create_checkpoint()

    def count(self, table: Any) -> int:
        return int(
            pa.table(deltalake.QueryBuilder().register("t", table).execute("select count(*) from t").read_all())[0][0].as_py()
        )


SIDES: tuple[Side, ...] = (Ours(), Theirs())
