"""Both kinds of table, for tests of what Spark does alike with them: n is what rows are told apart by, v belongs to it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.runtime.environment import Environment
from gapless.tables.delta.lifecycle import open_table as open_delta_table
from gapless.tables.shared.handle import LOG_FOLDERS
from gapless.tables.timeseries.lifecycle import open_table

COLUMNS = pa.schema([("n", pa.int64()), ("v", pa.int64())])


class TableKind(ABC):
    """How one kind of table is made, opened and looked at."""

    name: str
    first: int
    """The version of a new table."""

    @abstractmethod
    def create(self, place: Path | str) -> Any:
        """A table with the columns n and v."""

    @abstractmethod
    def open(self, place: Path | str) -> Any:
        """The table at a place."""

    @abstractmethod
    def live(self, table: Any) -> set[str]:
        """The live files, relative to the root."""

    @abstractmethod
    def stored(self, place: Path | str) -> set[str]:
        """The data files that lie there, live or not."""

    @abstractmethod
    def create_sites(self, place: Path | str) -> Any:
        """A table with the columns ts, site and v."""

    @abstractmethod
    def append(self, place: Path | str, rows: Any) -> None:
        """Add rows, whatever there is."""

    @abstractmethod
    def kept(self, place: Path | str) -> set[str]:
        """What vacuum must leave: the live files, with what they need."""

    @abstractmethod
    def objects(self, place: Path | str) -> set[str]:
        """What lies there beside the log."""

    @abstractmethod
    def vacuum(self, env: Environment, place: str) -> set[str]:
        """The paths that a vacuum deletes which keeps nothing of older versions."""

    def lies_at(self, place: Path | str) -> bool:
        """Whether a table lies there."""
        return Path(place, LOG_FOLDERS[self.name]).exists()  # type: ignore[index]  # those of a log of ours

    def is_whole(self, table: Any) -> bool:
        """Whether all that its newest version names is there."""
        return bool(table.verify(deep=True).ok)

    def all_rows(self, place: Path | str) -> list[dict[str, Any]]:
        """What a reader sees."""
        table = self.open(place)
        found: list[dict[str, Any]] = [] if table.schema is None else table.scan().to_arrow().to_pylist()
        return found

    def rows(self, place: Path | str) -> list[int]:
        """The values of n that a reader sees."""
        return sorted(row["n"] for row in self.all_rows(place))


class Series(TableKind):
    """Time-series tables."""

    name, first = "timeseries", 1

    def create(self, place: Path | str) -> Any:
        """See `TableKind.create`."""
        return gl.create(place, index="n", index_type="int64", bucket=1)

    def open(self, place: Path | str) -> Any:
        """See `TableKind.open`."""
        return gl.open(place)

    def live(self, table: Any) -> set[str]:
        """See `TableKind.live`."""
        return {segment.path for segment in table.segments()}

    def stored(self, place: Path | str) -> set[str]:
        """See `TableKind.stored`."""
        return {f"data/{path.name}" for path in Path(place, "data").glob("*.parquet")}

    def create_sites(self, place: Path | str) -> Any:
        """See `TableKind.create_sites`."""
        return gl.create(place, index="ts", entity=["site"], bucket="1h")

    def append(self, place: Path | str, rows: Any) -> None:
        """See `TableKind.append`."""
        gl.open(place).append(rows, on_overlap="allow")

    def kept(self, place: Path | str) -> set[str]:
        """See `TableKind.kept`: coverage too."""
        table = gl.open(place)
        paths = ((one.path, getattr(one.coverage, "path", None)) for one in table.segments())
        return {path for some in paths for path in some if path is not None}

    def objects(self, place: Path | str) -> set[str]:
        """See `TableKind.objects`."""
        return files_below(place, "data", "_coverage")

    def vacuum(self, env: Environment, place: str) -> set[str]:
        """See `TableKind.vacuum`."""
        table = gl.TimeSeriesTable(env, place, open_table(env, place))
        return {entry.path for entry in table.vacuum(timedelta(0), dry_run=False).deleted}


class Delta(TableKind):
    """Delta tables."""

    name, first = "delta", 0

    def create(self, place: Path | str) -> Any:
        """See `TableKind.create`."""
        return gl.delta.create(place, COLUMNS)

    def open(self, place: Path | str) -> Any:
        """See `TableKind.open`."""
        return gl.delta.open(place)

    def live(self, table: Any) -> set[str]:
        """See `TableKind.live`."""
        return {file.path for file in table.files()}

    def stored(self, place: Path | str) -> set[str]:
        """See `TableKind.stored`."""
        return {path.name for path in Path(place).glob("*.parquet")}

    def create_sites(self, place: Path | str) -> Any:
        """See `TableKind.create_sites`."""
        schema = pa.schema([("ts", pa.timestamp("us", "UTC")), ("site", pa.string()), ("v", pa.int64())])
        return gl.delta.create(place, schema, partition_by="site")

    def append(self, place: Path | str, rows: Any) -> None:
        """See `TableKind.append`."""
        gl.delta.open(place).append(rows)

    def kept(self, place: Path | str) -> set[str]:
        """See `TableKind.kept`."""
        return self.live(gl.delta.open(place))

    def objects(self, place: Path | str) -> set[str]:
        """See `TableKind.objects`."""
        return {path for path in files_below(place, ".") if not path.startswith("_delta_log/")}

    def vacuum(self, env: Environment, place: str) -> set[str]:
        """See `TableKind.vacuum`."""
        table = gl.delta.DeltaTable(env, place, open_delta_table(env, place))
        return {entry.path for entry in table.vacuum(timedelta(0), dry_run=False, enforce_retention=False).deleted}


def files_below(place: Path | str, *folders: str) -> set[str]:
    """The files below some folders of a place, relative to it."""
    return {
        path.relative_to(place).as_posix() for folder in folders for path in Path(place, folder).rglob("*") if path.is_file()
    }


def live_files(table: Any) -> set[str]:
    """The live files of a table of either kind, relative to its root."""
    kind = Series() if isinstance(table, gl.TimeSeriesTable) else Delta()
    return kind.live(table.refresh())


KINDS: dict[str, TableKind] = {one.name: one for one in (Series(), Delta())}
BOTH_KINDS = [pytest.param(Series(), id="timeseries"), pytest.param(Delta(), id="delta")]
