"""A store that counts what is read, and a table over it."""

from __future__ import annotations

from collections import Counter

from gapless import TimeSeriesTable
from gapless.runtime.environment import Environment
from gapless.store.open import open_store
from gapless.tables.timeseries.lifecycle import open_table
from support.faulty_store import FaultyStore


class CountingStore(FaultyStore):
    """Counts the bytes of each object that were read, and the reads."""

    def __init__(self, location: str) -> None:
        super().__init__(open_store(location))
        self.bytes_read: Counter[str] = Counter()
        self.reads: Counter[str] = Counter()

    def get(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        data = super().get(path, start, length)
        self.bytes_read[path] += len(data)
        self.reads[path] += 1
        return data

    def under(self, folder: str, suffix: str = "") -> int:
        """Bytes read of the objects in a folder whose names end so."""
        return sum(n for path, n in self.bytes_read.items() if path.startswith(f"{folder}/") and path.endswith(suffix))

    def forget(self) -> None:
        """Count from zero again."""
        self.bytes_read.clear()
        self.reads.clear()


def open_counting(location: str) -> tuple[TimeSeriesTable, CountingStore]:
    """A handle on the table there, and the store it goes through."""
    store = CountingStore(location)
    env = Environment(store=store)
    return TimeSeriesTable(env, location, open_table(env, location)), store
