"""Iceberg and Hudi tables under the kills of Spark's pipelines: read by others than us, swept by what their formats have for it."""

from __future__ import annotations

from abc import abstractmethod
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from gapless.runtime.environment import Environment
from gapless.tables.hudi.commit import under_lock
from gapless.tables.hudi.table import HudiTable
from gapless.tables.iceberg.options import parse_iceberg_options
from gapless.tables.iceberg.sweep import remove_orphans
from gapless.tables.iceberg.table import create_iceberg_table, open_iceberg_table
from gapless.tables.shared.prepared import forget_abandoned
from spark.kinds import TableKind, files_below
from support import hudi_targets, iceberg_tables

SITES = pa.schema([("ts", pa.timestamp("us", "UTC")), ("site", pa.string()), ("v", pa.int64())])


class SinkTableKind(TableKind):
    """A kind of table that batches alone are written into."""

    first = 0
    folder: str
    """What is there of each table."""

    def lies_at(self, place: Path | str) -> bool:
        """See `TableKind.lies_at`."""
        return Path(place, self.folder).exists()

    def create(self, place: Path | str) -> Any:
        """Not asked for."""
        raise NotImplementedError

    def append(self, place: Path | str, rows: Any) -> None:
        """Not asked for."""
        raise NotImplementedError

    def stored(self, place: Path | str) -> set[str]:
        """See `TableKind.stored`."""
        return {path for path in self.objects(place) if path.endswith(".parquet")}

    def kept(self, place: Path | str) -> set[str]:
        """See `TableKind.kept`: what any version names."""
        return self.named(place)

    def vacuum(self, env: Environment, place: str) -> set[str]:
        """See `TableKind.vacuum`; the environment's clock is that of the sweep."""
        before = self.objects(place)
        self.sweep(place, env.clock.now_ns())
        return before - self.objects(place)

    @abstractmethod
    def named(self, place: Path | str) -> set[str]:
        """The files that a version names which is kept."""

    @abstractmethod
    def sweep(self, place: str, now_ns: int) -> None:
        """Have the format take what nothing names."""


class Iceberg(SinkTableKind):
    """Iceberg tables in a directory."""

    name, folder = "iceberg", "metadata"

    def create_sites(self, place: Path | str) -> Any:
        """See `TableKind.create_sites`."""
        return create_iceberg_table(parse_iceberg_options(str(place), {}, None), SITES, {"partition_by": ["day(ts)"]})

    def open(self, place: Path | str) -> Any:
        """See `TableKind.open`, through pyiceberg."""
        return iceberg_tables.Handle(str(place), None)

    def is_whole(self, table: Any) -> bool:
        """See `TableKind.is_whole`."""
        return bool(table.verify(deep=True).ok)

    def all_rows(self, place: Path | str) -> list[dict[str, Any]]:
        """See `TableKind.all_rows`."""
        return iceberg_tables.copied_rows(Path(place))

    def live(self, table: Any) -> set[str]:
        """See `TableKind.live`."""
        return iceberg_tables.copied_files(Path(table.place))

    def named(self, place: Path | str) -> set[str]:
        """See `SinkTableKind.named`: batches only add files."""
        return iceberg_tables.copied_files(Path(place))

    def objects(self, place: Path | str) -> set[str]:
        """See `TableKind.objects`."""
        return files_below(place, "data", "_prepared")

    def sweep(self, place: str, now_ns: int) -> None:
        """See `SinkTableKind.sweep`."""
        remove_orphans(open_iceberg_table(parse_iceberg_options(place, {}, None)), timedelta(0), dry_run=False)


class Hudi(SinkTableKind):
    """Copy-on-write Hudi tables."""

    name, folder = "hudi", ".hoodie"

    def create_sites(self, place: Path | str) -> Any:
        """See `TableKind.create_sites`."""
        return HudiTable.create(str(place), SITES, {"partition_by": "site"})

    def open(self, place: Path | str) -> Any:
        """See `TableKind.open`."""
        return hudi_targets.HudiTarget(str(place), None)

    def is_whole(self, table: Any) -> bool:
        """See `TableKind.is_whole`."""
        return bool(table.verify(deep=True).ok)

    def all_rows(self, place: Path | str) -> list[dict[str, Any]]:
        """See `TableKind.all_rows`, through hudi-rs."""
        return hudi_targets.rows(Path(place))

    def live(self, table: Any) -> set[str]:
        """See `TableKind.live`, through hudi-rs."""
        return {path for path in hudi_targets.files(Path(table.place)) if path.endswith(".parquet")}

    def named(self, place: Path | str) -> set[str]:
        """See `SinkTableKind.named`: small files are written anew, and older ones stay to be read as of then."""
        table = HudiTable.open(str(place))
        return {one.path for instant in table.state.commits for one in table.timeline.commit(instant).files}

    def objects(self, place: Path | str) -> set[str]:
        """See `TableKind.objects`: data files, and rows that are staged."""
        found = files_below(place, ".")
        return {path for path in found if path.endswith(".parquet") and not path.startswith(".hoodie/timeline/")}

    def sweep(self, place: str, now_ns: int) -> None:
        """See `SinkTableKind.sweep`: the next commit takes data files, whoever opens the table next the rows."""
        table = HudiTable.open(place)
        under_lock(table.timeline, lambda _lock, _state: None)
        forget_abandoned(table.own_env.store, now_ns, lambda one: table.state.marks.recognise(one) is not None)


SINK_KINDS = {one.name: one for one in (Iceberg(), Hudi())}
