"""Open the source of an import: the format that is named, or that of what lies there."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from gapless.errors import InvalidOption, InvalidPath, NotSupported, one_of
from gapless.model.protocols import Store
from gapless.tables.shared.handle import kind_of_any, open_environment, place_for_library
from gapless.tables.transfer.sources.delta import open_delta
from gapless.tables.transfer.sources.foreign import ForeignTable, SourceFormat
from gapless.tables.transfer.sources.hudi import open_hudi
from gapless.tables.transfer.sources.iceberg import Catalog, is_iceberg_table, open_iceberg
from gapless.tables.transfer.sources.parquet import open_directory

FORMATS: tuple[SourceFormat, ...] = get_args(SourceFormat)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRequest:
    """A source as a caller named it."""

    source: Any
    """A path, a URL, or an open table of its own library."""
    format: str | None = None
    version: int | str | None = None
    """The newest, where it is None."""
    exclude: Collection[str] | None = None
    """Columns to leave out."""
    storage_options: Mapping[str, str] | None = None
    catalog: Catalog | None = None
    """Where an Iceberg table is looked up."""

    def open(self) -> ForeignTable:
        """The source; raises InvalidPath, InvalidOption, NotSupported, UnknownColumn, and what reading its metadata raises."""
        match self._format():
            case "delta":
                return open_delta(self.source, self.version, self.exclude, self.storage_options)
            case "iceberg":
                return open_iceberg(self.source, self.catalog, self.version, self.exclude, self.storage_options)
            case "parquet":
                return open_directory(self._folder(), self.exclude)
            case "hudi":
                return open_hudi(self._place(), self.version, self.exclude, self.storage_options)

    def _format(self) -> SourceFormat:
        named = None if self.format is None else one_of("format", self.format, FORMATS)
        if self.catalog is not None and named not in (None, "iceberg"):
            raise InvalidOption(
                f"catalog= means nothing for a source of format {named}",
                why="Only tables of Iceberg are looked up in a catalog",
                fix="Leave it out",
                option="catalog",
                value=self.catalog,
            )
        if named in (None, "iceberg") and (self.catalog is not None or is_iceberg_table(self.source)):
            return "iceberg"
        if not isinstance(self.source, str | os.PathLike):
            raise InvalidPath(
                f"{self.source!r} names no table",
                why=f"It is of type {type(self.source).__name__}",
                fix="Pass a path or a URL",
                path=str(self.source),
            )
        if named is not None or str(self.source).endswith(".metadata.json"):
            return named or "iceberg"
        return self._found(open_environment(self.source, self.storage_options).store)

    def _found(self, store: Store) -> SourceFormat:
        kind = kind_of_any(store)
        if kind == "timeseries":
            raise InvalidPath(
                f"{self.source} is a time-series table already",
                why="It has a log of its own, and needs no import",
                fix="Open it with gl.open(path); a copy is made with table.export(target, format='timeseries')",
                path=str(self.source),
            )
        return kind or "parquet"

    def _place(self) -> str:
        return place_for_library(open_environment(self.source, self.storage_options).store, self.source)

    def _folder(self) -> Path:
        store = open_environment(self.source, self.storage_options).store
        local = store.local_path("x")
        if local is None:
            raise NotSupported(
                f"Parquet files in {store.url} are not imported",
                why="Files are taken as they lie on a disk of this machine",
                fix="Copy them to a disk, or append them as a pyarrow dataset",
                feature="import of Parquet files from a bucket",
            )
        folder = Path(local).parent
        if folder.is_dir():
            return folder
        raise InvalidPath(
            f"{self.source} is no directory",
            why="A source is a table or a directory of Parquet files",
            fix="Check the path; a single file is appended with table.append_file(path, adopt='copy')",
            path=str(self.source),
        )
