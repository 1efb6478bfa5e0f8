"""What the contest asks of an engine. `bench/peers/<name>.py` has one `Contender` each, as its `CONTENDER`."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa


class Contender:
    """One engine that holds one table at a time, at `place`.

    What `day`, `by_hour` and `gaps` give back is whatever the engine's own client gives: Arrow, pandas, or a list of rows; `as_arrow` says
    how to compare it and is not timed.
    """

    durability: ClassVar[str] = ""
    """What outlives a power cut once an append has returned, by default."""
    cannot: ClassVar[Mapping[str, str]] = {}
    """Cases that the engine takes no part in, and why."""
    only: ClassVar[frozenset[str]] = frozenset()
    """The cases for which a variant of another contender is there; all where empty."""
    place: Path

    def version(self) -> str:
        """Of the package."""
        raise NotImplementedError

    def stage(self, rows: pa.Table) -> Any:
        """Rows in the form that the engine takes; not timed."""
        return rows

    def create(self, place: Path) -> None:
        """Make an empty table at a place that is free, and open it."""
        raise NotImplementedError

    def open(self, place: Path) -> None:
        """Open the table at a place anew: nothing that an older handle remembered helps."""
        raise NotImplementedError

    def append(self, rows: Any) -> None:
        """Append staged rows; they are committed when it returns."""
        raise NotImplementedError

    def day(self, symbol: str, start_us: int, end_us: int) -> Any:
        """All columns of a symbol's rows in `[start, end)`."""
        raise NotImplementedError

    def by_hour(self) -> Any:
        """`symbol, hour, rows, high` (largest), `close` (mean), `volume` (sum), by symbol and hour."""
        raise NotImplementedError

    def gaps(self) -> Any:
        """`symbol, start, end` of every maximal run of minutes without a row, between a symbol's first and last."""
        raise NotImplementedError

    def update(self, row: pa.Table) -> None:
        """Put one row in the place of the one with its symbol and time."""
        raise NotImplementedError

    def synthesize(self, place: Path, count: int) -> None:
        """Make the metadata of a table of `contest.synthetic.pieces(count)`."""
        raise NotImplementedError

    def prune(self, symbol: str, start_us: int, end_us: int) -> list[str]:
        """Paths of the segments of such a table that may hold a symbol's `[start, end)`."""
        raise NotImplementedError

    def totals(self) -> tuple[int, int]:
        """Rows, and the sum of their volumes, from the data."""
        raise NotImplementedError

    def as_arrow(self, found: Any) -> pa.Table:
        """An answer as Arrow."""
        return found if isinstance(found, pa.Table) else pa.table(found)

    def size(self) -> int:
        """Bytes of the table on disk."""
        return sum(file.stat().st_size for file in self.place.rglob("*") if file.is_file())

    def remove(self, place: Path) -> None:
        """Take away whatever is at a place."""
        shutil.rmtree(place, ignore_errors=True)

    def close(self) -> None:
        """Let go of the table."""

    def servers(self) -> list[int]:
        """Processes that work for it beside the worker and its children."""
        return []
