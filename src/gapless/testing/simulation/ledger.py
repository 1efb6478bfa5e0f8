"""A second, small reader of a simulated table's log: JSON and Parquet, and none of the code under test."""

from __future__ import annotations

import base64
import io
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow.parquet as pq

from gapless.testing.simulation.intents import COLUMNS, Bucket, Row, buckets_of
from gapless.testing.simulation.watch import Landed, WatchedStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """One commit, with the rows it added and the table as it was just before."""

    version: int
    id: str
    time: datetime
    operation: str
    added: tuple[Row, ...]
    """The rows of its new segments."""
    operations: tuple[Any, ...]
    """The bodies of its `SetTransaction`s."""
    before: tuple[Row, ...]
    """All rows of the table before it, in order."""
    rows: tuple[Row, ...]
    """All rows of the table after it, in order."""
    doubled: frozenset[Bucket]
    """The buckets that more than one live segment covers."""
    unseen: tuple[Row, ...] = ()
    """Rows that came before it and that it need not have seen: of appends after the version on which it was decided, where the isolation
    of the table lets it step over those.
    """
    landed: Any
    """What the watch says of it: a `watched.Kept`."""

    @property
    def fresh(self) -> tuple[Row, ...]:
        """The rows that the table did not have before it."""
        known = set(self.before)
        return tuple(row for row in self.rows if row not in known)


@dataclass(slots=True)
class Ledger:
    """The whole log, and what is wrong with it."""

    commits: dict[int, Logged] = field(default_factory=dict)
    gone: frozenset[str] = frozenset()
    """What was deleted from the store, by path."""
    faults: list[str] = field(default_factory=list)
    first: int = 1
    """The number of a table's first version."""
    counts: tuple[str, ...] = ("rows", "buckets", "skipped_rows", "skipped_buckets")
    """What the report of an append must count right."""
    remembers: bool = True
    """Whether a log checkpoint keeps the version and the counts of an operation; else it keeps only that it was applied."""
    expires: bool = True
    """Whether versions expire by a commit, after which none may be read; else they go with their files."""

    @property
    def newest(self) -> int:
        """The last version; 0 for an empty log."""
        return max(self.commits, default=0)

    def rows_at(self, version: int) -> tuple[Row, ...]:
        """The rows of a version; none where there is no such version."""
        commit = self.commits.get(version)
        return () if commit is None else commit.rows

    def known_at(self, ns: int) -> int:
        """The newest version at a simulated time; 0 before the first."""
        return max((v for v, commit in self.commits.items() if commit.landed.landed_ns <= ns), default=0)

    def known_during(self, start_ns: int, end_ns: int) -> range:
        """The versions of which each was the newest at some time from `start_ns` to `end_ns`."""
        return range(self.known_at(start_ns), self.known_at(end_ns) + 1)


def read_ledger(store: WatchedStore) -> Ledger:
    """Read every commit that landed and every segment it names, also those that were deleted since."""
    gone = frozenset(store.graveyard)
    ledger, segments = Ledger(gone=gone, faults=list(store.faults)), _Segments(store)
    before: tuple[Row, ...] = ()
    for version, landed in store.commits.items():
        commit = _read_commit(landed, before, segments)
        if ledger.commits and commit.time <= ledger.commits[ledger.newest].time:
            ledger.faults.append(f"the time of version {version} does not rise")
        ledger.commits[version] = commit
        before = commit.rows
    ledger.faults += segments.faults
    return ledger


class _Segments:
    """The rows of segments, each read once."""

    def __init__(self, store: WatchedStore) -> None:
        self.faults: list[str] = []
        self._store = store
        self._rows: dict[str, tuple[Row, ...]] = {}

    def added(self, body: dict[str, Any]) -> tuple[Row, ...]:
        path = body["path"]
        if path not in self._rows:
            self._rows[path] = self._read(body)
        return self._rows[path]

    def live(self, path: str) -> tuple[Row, ...]:
        return self._rows[path]

    def _read(self, body: dict[str, Any]) -> tuple[Row, ...]:
        path, row_count = body["path"], body["row_count"]
        data = base64.b64decode(body["data"]) if "data" in body else self._store.recall(path)
        if data is None:
            self.faults.append(f"the segment {path} is in the log and never was in the store")
            return ()
        table = pq.ParquetFile(io.BytesIO(data)).read(columns=list(COLUMNS), use_threads=False)
        rows = tuple(zip(*(table.column(name).to_pylist() for name in COLUMNS), strict=True))
        if len(rows) != row_count:
            self.faults.append(f"{path} has {len(rows)} rows, and the log says {row_count}")
        return rows


def _read_commit(landed: Landed, before: tuple[Row, ...], segments: _Segments) -> Logged:
    body = landed.body
    adds = [action["AddSegment"] for action in body["actions"] if "AddSegment" in action]
    added = [row for add in adds for row in segments.added(add)]
    changed = bool(adds) or any("RemoveSegment" in action for action in body["actions"])
    live = [segments.live(path) for path in landed.live]
    return Logged(
        version=body["version"],
        id=body["commit_id"],
        time=datetime.fromisoformat(body["timestamp"]),
        operation=body["operation"],
        added=tuple(sorted(added)),
        operations=tuple(action["SetTransaction"] for action in body["actions"] if "SetTransaction" in action),
        before=before,
        rows=tuple(sorted(row for rows in live for row in rows)) if changed else before,
        doubled=_doubled(live) if changed else frozenset(),
        landed=landed,
    )


def _doubled(live: list[tuple[Row, ...]]) -> frozenset[Bucket]:
    counts = Counter(bucket for rows in live for bucket in buckets_of(rows))
    return frozenset(bucket for bucket, count in counts.items() if count > 1)
