"""What of a Delta table survives its publication in another format, each tried on a table of its own; see `published_features`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa

import gapless as gl
from gapless.formats.delta.publishing import FORMATS
from gapless.model.publishing import PublishedFormat
from gapless.tables.delta.table import DeltaTable
from gapless.testing.published_features import Feature, features_tables, published_whole

_WIDENING, _MAPPING = {"delta.enableTypeWidening": True}, {"delta.columnMapping.mode": "name"}
_VECTORS = {"delta.enableDeletionVectors": True}


def rows(first: int = 0, count: int = 4, **columns: pa.Array) -> pa.Table:
    """Numbered rows of two sites."""
    return pa.table(
        {"id": pa.array(range(first, first + count)), "site": pa.array(["ab"[n % 2] for n in range(count)]), **columns}
    )


_INT, _SMALL = pa.array([1, 2, None, 4], pa.int32()), pa.array([1, None, 3, 4], pa.int16())


def _feature(
    name: str, group: str, first: pa.Table, change: Callable[[DeltaTable], object] | None = None, **named: object
) -> Feature:
    return Feature(name, group, first, change, named)


def _vacuumed(table: DeltaTable) -> None:
    table.overwrite(rows(9))
    table.vacuum(timedelta(0), dry_run=False, enforce_retention=False)


def _widened(type_: pa.DataType) -> Callable[[DeltaTable], None]:
    def change(table: DeltaTable) -> None:
        table.alter.widen("v", type_)
        table.append(rows(10, v=pa.array([1, 2, 3, 4], type_)))

    return change


def _partitioned(name: str, values: pa.Array) -> Feature:
    return _feature(f"`{name}`", "Partition columns", rows(count=len(values), p=values), None, partition_by="p")


_ROWS, _COLUMNS, _OTHER = "Rows of Delta tables that change", "Columns of Delta tables that change", "Of Delta tables also"
FEATURES = (
    _feature("Append", _ROWS, rows(), lambda table: table.append(rows(4))),
    _feature("Overwrite", _ROWS, rows(), lambda table: table.overwrite(rows(4))),
    _feature("Delete", _ROWS, rows(), lambda table: table.delete("id = 2")),
    _feature("Update", _ROWS, rows(), lambda table: table.update({"site": "'z'"}, where="id = 2")),
    _feature(
        "Merge",
        _ROWS,
        rows(),
        lambda table: table.merge(rows(2), "t.id = s.id").when_matched_update_all().when_not_matched_insert_all().execute(),
    ),
    _feature("Compact", _ROWS, rows(), lambda table: (table.append(rows(4)), table.compact())),
    _feature("Z-order", _ROWS, rows(), lambda table: table.zorder("id")),
    _feature("Restore", _ROWS, rows(), lambda table: (table.delete("id = 2"), table.restore(table.version - 1))),
    _feature("Vacuum", _ROWS, rows(), _vacuumed),
    _feature("Add a column", _COLUMNS, rows(), lambda table: table.alter.add_column("v", pa.string())),
    _feature("Rename a column", _COLUMNS, rows(v=_INT), lambda table: table.alter.rename_column("v", "w"), properties=_MAPPING),
    _feature("Drop a column", _COLUMNS, rows(v=_INT), lambda table: table.alter.drop_column("v"), properties=_MAPPING),
    _feature("Widen `int16` to `int32`", _COLUMNS, rows(v=_SMALL), _widened(pa.int32()), properties=_WIDENING),
    _feature("Widen `int32` to `int64`", _COLUMNS, rows(v=_INT), _widened(pa.int64()), properties=_WIDENING),
    _feature("Widen `int32` to `float64`", _COLUMNS, rows(v=_INT), _widened(pa.float64()), properties=_WIDENING),
    _feature("Column mapping from the start", _OTHER, rows(), properties=_MAPPING),
    _feature(
        "Column mapping and lists", _OTHER, rows(v=pa.array([[1], [], None, [2]], pa.list_(pa.int32()))), properties=_MAPPING
    ),
    _feature("Column mapping later", _OTHER, rows(), lambda table: table.alter.set_properties(_MAPPING)),
    _feature("Deletion vectors", _OTHER, rows(), lambda table: table.alter.set_properties(_VECTORS)),
    _feature(
        "Change data feed",
        _OTHER,
        rows(),
        lambda table: table.delete("id = 2"),
        properties={"delta.enableChangeDataFeed": True},
    ),
    _partitioned("bool", pa.array([True, None])),
    _partitioned("int32", pa.array([-(2**31), None], pa.int32())),
    _partitioned("int64", pa.array([2**63 - 1, None], pa.int64())),
    _partitioned("float64", pa.array([0.5, None])),
    _partitioned("decimal128(5, 2)", pa.array([Decimal("-1.50"), None], pa.decimal128(5, 2))),
    _partitioned("string", pa.array(["ü/=", None])),
    _partitioned("binary", pa.array([b"x", None])),
    _partitioned("date32", pa.array([date(1969, 12, 31), None])),
    _partitioned("timestamp(us, UTC)", pa.array([-1, None], pa.timestamp("us", "UTC"))),
    _partitioned("timestamp(us)", pa.array([-1, None], pa.timestamp("us"))),
)


def survives(feature: Feature, format_: PublishedFormat, place: Path) -> DeltaTable | gl.GaplessError:
    """The table that has the feature and is published whole; the error that refused it where it cannot be."""

    def make() -> DeltaTable:
        named = dict(feature.named)
        properties = {"publish": [format_], **dict(named.pop("properties", {}))}  # type: ignore[call-overload]
        table: DeltaTable = gl.delta.create(place, feature.first.schema, properties=properties, **named)  # type: ignore[arg-type]
        table.append(feature.first)
        return table

    return published_whole(feature, format_, make)


def delta_features_page(place: Path) -> list[str]:
    """The parts of docs/reference/publishing.md on Delta tables; `place` is an empty folder, where each feature is tried."""
    tables = list(features_tables(FEATURES, FORMATS, survives, place))
    return [one.replace("## Why, and", "### Why, and") for one in tables]
