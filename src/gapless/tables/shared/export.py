"""Export of tables of every kind: a plain copy of one version, without its history, in a format that others read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, TypedDict, Unpack, cast

from gapless.tables.shared.handle import Location

ExportFormat = Literal["parquet", "delta", "iceberg", "hudi", "timeseries"]


class ExportOptions(TypedDict, total=False):
    """What `export` may say beside place and format."""

    storage_options: Mapping[str, str] | None
    index: str | None
    bucket: str | int | None
    entity: Sequence[str] | str
    index_type: str
    timezone: str | None
    partition_by: Sequence[str] | str | None
    properties: Mapping[str, Any] | None


EXPORT_DEFAULTS: ExportOptions = {
    "storage_options": None,
    "index": None,
    "bucket": None,
    "entity": (),
    "index_type": "timestamp",
    "timezone": None,
    "partition_by": None,
    "properties": None,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportReport:
    """What an export wrote."""

    target: str
    """Where the copy lies."""
    format: ExportFormat
    version: int
    """The version of the table that was copied."""
    rows: int
    files: int
    """Data files."""
    not_kept: tuple[str, ...]
    """What the table has and the copy does not, a sentence each."""


class Exporting:
    """`export`."""

    def export(
        self,
        target: Location,
        format: ExportFormat = "parquet",  # noqa: A002  # what users call it
        **options: Unpack[ExportOptions],
    ) -> ExportReport:
        """Write the rows of the version that this handle sees as a plain copy, which others read without gapless.

        Args:
            target: Where: a path or a URL, at which nothing lies yet.
            format: "parquet" (a directory of files, with `_SUCCESS` once it is whole), "delta", "iceberg", "hudi" (the table is the
                folder `data`) or "timeseries".
            storage_options: Options of the target's object store, in obstore's names.
            index: Of a time-series table that is made of a Delta table; this, `bucket`, `entity`, `index_type` and `timezone` are as in `gl.create`. A
                time-series table keeps its own.
            partition_by: Columns by whose values the files of a Delta table are kept apart; those of the table, where it is a Delta table.
            properties: Of the new table, as in `gl.create` or `gl.delta.create`.

        Rows are read and written as a stream, in bounded memory. They come in one commit: where the process dies, a table at the target is empty, and a
        directory has no `_SUCCESS`; delete what is there, and export again.

        Raises TableExists where something lies at the target, UnsupportedType for a column that the format has no type for, InvalidOption,
        NotSupported for another format, and as reading the table does; StoreError.
        """
        return _export()(self, target, format, options)


def _export() -> Callable[..., ExportReport]:
    """What writes all formats. It knows every kind of table, and so lies above them: it is looked up when it is called."""
    return cast("Callable[..., ExportReport]", import_module("gapless.tables.transfer.export").export_table)
