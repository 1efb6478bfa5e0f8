"""A store that does what a test wants around its requests, and a table over it: races and faults without threads or waiting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gapless import TimeSeriesTable
from gapless.errors import StoreUnavailable
from gapless.model.protocols import ObjectInfo, PutMode, Store
from gapless.runtime.environment import Environment
from gapless.store.open import open_store
from gapless.tables.timeseries.lifecycle import open_table
from gapless.testing.store.stores import OuterStore

Act = Callable[[str], None]
"""Given the path of a request; what it raises is the request's error."""


def nothing(_path: str) -> None:
    """The act that does nothing."""


class FaultyStore(OuterStore):
    """A Store in front of another: `before_put` and `after_put` run around each put, `before_get` before each read or head."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.before_put: Act = nothing
        self.after_put: Act = nothing
        self.before_get: Act = nothing
        self.before_delete: Act = nothing
        self.puts: list[str] = []
        self.deleted: list[str] = []

    def get(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        self.before_get(path)
        return self.inner.get(path, start, length)

    def put(self, path: str, data: bytes | memoryview, *, mode: PutMode = "create", durable: bool = True) -> None:
        self.puts.append(path)
        self.before_put(path)
        self.inner.put(path, data, mode=mode, durable=durable)
        self.after_put(path)

    def head(self, path: str) -> ObjectInfo:
        self.before_get(path)
        return self.inner.head(path)

    def delete(self, path: str) -> None:
        self.before_delete(path)
        self.deleted.append(path)
        self.inner.delete(path)

    def local_path(self, path: str) -> None:
        """None, so that every read comes by here."""


@dataclass
class PatientClock:
    """A clock that moves only while someone sleeps."""

    now_s: float = 1_700_000_000.0
    slept: list[float] = field(default_factory=list)

    def now_ns(self) -> int:
        return int(self.now_s * 1e9)

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds


@dataclass
class CountingIds:
    """Ids that repeat from run to run, and the longest backoff always."""

    prefix: str = "0"
    count: int = 0

    def uuid(self) -> str:
        self.count += 1
        return f"{self.prefix:0>8}-0000-4000-8000-{self.count:012d}"

    def jitter(self) -> float:
        return 0.999


def open_faulty(location: str, *, deadline_s: float = 60.0) -> tuple[TimeSeriesTable, FaultyStore]:
    """A handle on the table there, and the store it goes through; waiting takes no time."""
    store = FaultyStore(open_store(location))
    env = Environment(store=store, clock=PatientClock(), deadline_s=deadline_s)
    return TimeSeriesTable(env, location, open_table(env, location)), store


def objects(location: str) -> list[str]:
    """All that is stored there, in order, but for the hint."""
    return [info.path for info in open_store(location).list() if not info.path.endswith("/CURRENT")]


def once(act: Callable[[], object], when: Callable[[str], bool] = lambda _path: True) -> Act:
    """An act that happens at the first path that fits, and never again."""
    left = [act]

    def run(path: str) -> None:
        if left and when(path):
            left.pop()()

    return run


def is_commit(path: str) -> bool:
    """Whether a path is a commit file's."""
    return path.startswith("_timeseries_log/") and path.endswith(".json")


def unavailable(path: str) -> None:
    """No answer comes."""
    raise StoreUnavailable(f"no answer for {path}", path=path)
