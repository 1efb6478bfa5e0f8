"""What deltalake (delta-rs) does with a table, from release 0.25 on."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.compute as pc

CDF = {"_change_type", "_commit_version", "_commit_timestamp"}


def version() -> str:
    """Its release."""
    return str(deltalake.__version__)


def _open(path: str, at: int | None = None, storage: dict[str, str] | None = None) -> Any:
    return deltalake.DeltaTable(path, version=at, storage_options=storage)


def read(path: str, at: int | None = None, where: str | None = None, storage: dict[str, str] | None = None) -> pa.Table:
    """All rows, by its own query engine, which knows deletion vectors."""
    table = _open(path, at, storage)
    condition = "" if where is None else f" where {where}"
    found: Any = deltalake.QueryBuilder().register("t", table).execute(f"select * from t{condition}")
    if hasattr(found, "read_all"):
        return pa.table(found.read_all())
    batches = found.fetchall()
    return pa.Table.from_batches(batches) if batches else table.to_pyarrow_table().slice(0, 0)


_COMPARISONS: dict[str, Callable[[pc.Expression, Any], pc.Expression]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "is null": lambda field, _: field.is_null(),
    "is not null": lambda field, _: field.is_valid(),
}


def dataset(path: str, column: str, comparison: str, value: Any = None) -> pa.Table:
    """The rows of a condition, by Arrow's datasets, which take the log's statistics for guarantees."""
    return _open(path).to_pyarrow_dataset().to_table(filter=_COMPARISONS[comparison](pc.field(column), value))


def newest(path: str) -> int:
    """The version."""
    return int(_open(path).version())


def files(path: str) -> list[str]:
    """The live files."""
    table = _open(path)
    return sorted(table.file_uris())


def create(path: str, rows: pa.Table, partition_by: list[str], configuration: dict[str, str]) -> None:
    """A table with its first rows."""
    deltalake.write_deltalake(path, rows, partition_by=partition_by or None, configuration=configuration, mode="error")


def append(path: str, rows: pa.Table, storage: dict[str, str] | None = None) -> None:
    """Rows more."""
    deltalake.write_deltalake(path, rows, mode="append", storage_options=storage)


def overwrite(path: str, rows: pa.Table, where: str | None = None) -> None:
    """Other rows, all or those of a predicate."""
    deltalake.write_deltalake(path, rows, mode="overwrite", predicate=where)


def delete(path: str, where: str | None) -> dict[str, Any]:
    """Rows fewer."""
    return dict(_open(path).delete(where))


def update(path: str, values: dict[str, str], where: str | None) -> dict[str, Any]:
    """Rows otherwise; the values are SQL."""
    return dict(_open(path).update(updates=values, predicate=where))


def merge(path: str, rows: pa.Table, on: str) -> dict[str, Any]:
    """Rows updated where a row of the source matches, and inserted where none is matched."""
    merger = _open(path).merge(rows, predicate=on, source_alias="s", target_alias="t")
    return dict(merger.when_matched_update_all().when_not_matched_insert_all().execute())


def optimize(path: str) -> dict[str, Any]:
    """Fewer files."""
    return dict(_open(path).optimize.compact())


def zorder(path: str, columns: list[str]) -> dict[str, Any]:
    """Files in another order."""
    return dict(_open(path).optimize.z_order(columns))


def checkpoint(path: str) -> None:
    """A checkpoint of the newest version."""
    _open(path).create_checkpoint()


def clean_log(path: str) -> None:
    """Log entries that expired go."""
    _open(path).cleanup_metadata()


def vacuum(path: str, hours: int) -> list[str]:
    """Files that no version of the last hours needs go."""
    return list(_open(path).vacuum(retention_hours=hours, dry_run=False, enforce_retention_duration=False))


def restore(path: str, at: int) -> None:
    """As it was."""
    _open(path).restore(at)


def history(path: str) -> list[str]:
    """The operations, newest first."""
    return [str(entry.get("operation")) for entry in _open(path).history()]


def changes(path: str, start: int) -> pa.Table:
    """The change feed."""
    found = _open(path).load_cdf(starting_version=start)
    return pa.table(found.read_all())


def add_columns(path: str, rows: pa.Table) -> None:
    """Rows more, and their columns."""
    deltalake.write_deltalake(path, rows, mode="append", schema_mode="merge")


def pid() -> int:
    """The process."""
    return os.getpid()
