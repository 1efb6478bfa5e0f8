"""gapless, with a table's defaults."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from contest.contender import Contender
from contest.questions import BY_HOUR, TOTALS, instant
from contest.synthetic import batched, commit, pieces
from contest.workload import small

import gapless as gl
from gapless.model.segment import Segment
from gapless.tables.timeseries.read.scan import ScanRequest

_CHECKPOINT = 100
"""The version that writes the first log checkpoint."""


class Gapless(Contender):
    durability = "segment, commit and their folders are synced"
    properties: ClassVar[dict[str, Any]] = {}

    def version(self) -> str:
        return gl.__version__

    def create(self, place: Path) -> None:
        self.place = place
        self.table = gl.create(
            place, index="ts", entity=["symbol"], bucket="1m", properties=self.properties | self._overlap(place)
        )

    def open(self, place: Path) -> None:
        self.place, self.table = place, gl.open(place)

    def append(self, rows: pa.Table) -> None:
        self.table.append(rows)

    def day(self, symbol: str, start_us: int, end_us: int) -> pa.Table:
        return self.table.scan(instant(start_us), instant(end_us), entity={"symbol": symbol}).to_arrow()

    def by_hour(self) -> pa.Table:
        return self.table.sql(BY_HOUR.format(table="this")).to_arrow()

    def gaps(self) -> list[gl.Gap[Any]]:
        return self.table.coverage().gaps()

    def update(self, row: pa.Table) -> None:
        self.table.upsert(row)

    def totals(self) -> tuple[int, int]:
        row = self.table.sql(TOTALS.format(table="this")).to_arrow().to_pylist()[0]
        return row["rows"], int(row["volume"])

    def synthesize(self, place: Path, count: int) -> None:
        """Commits 3 to 99 by hand, and the 100th by an append, which writes the log checkpoint."""
        self.create(place)
        self.append(small("first", 0, 1))
        log = place / "_timeseries_log"
        for version, chunk in enumerate(batched(pieces(count), -(-count // 97)), 3):
            (log / f"{version:010d}.json").write_bytes(commit(version, chunk))
        last = gl.open(place)
        while last.version < _CHECKPOINT:
            last.append(small("first", last.version, 1))

    def prune(self, symbol: str, start_us: int, end_us: int) -> list[str]:
        return [segment.path for segment in planned(self.table, symbol, instant(start_us), instant(end_us))]

    def as_arrow(self, found: Any) -> pa.Table:
        if isinstance(found, pa.Table):
            return found
        return pa.table(
            {
                "symbol": [gap.identity[0] for gap in found],
                "start": pa.array([gap.start for gap in found], pa.timestamp("us", "UTC")),
                "end": pa.array([gap.end for gap in found], pa.timestamp("us", "UTC")),
            }
        )

    @staticmethod
    def _overlap(place: Path) -> dict[str, Any]:
        """Ticks that arrive in parts end in the middle of a minute, so a table of them takes a bucket twice."""
        return {"on_overlap": "allow"} if "ticks" in place.name else {}


def planned(table: gl.TimeSeriesTable, symbol: str, start: datetime, end: datetime) -> Iterator[Segment]:
    """The segments that a scan would open."""
    asked = ScanRequest(start=start, end=end, where=None, entity={"symbol": symbol}, columns=None, order=None)
    plan = asked.plan(table._snapshot.state)  # noqa: SLF001  # what is planned is shown nowhere else
    return (segment for group in (plan.groups if plan else ()) for segment in group.segments)


CONTENDER = Gapless
