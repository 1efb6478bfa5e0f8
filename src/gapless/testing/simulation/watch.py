"""A store that watches a time-series table: no file may be deleted that a version needs which can still be read.

What is deleted stays readable for the auditor.

A second, small reader of a simulated table's log: JSON and Parquet, and none of the code under test.
"""

from __future__ import annotations

import base64
import builtins
import io
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

import pyarrow.parquet as pq

from gapless.errors import ObjectNotFound
from gapless.model.protocols import PutMode, Store
from gapless.testing.simulation.tasks import COLUMNS, Bucket, Row, buckets_of
from gapless.testing.store.stores import OuterStore


class Kept(Protocol):
    """A commit as it landed, and what the table kept from then on."""

    @property
    def landed_ns(self) -> int:
        """When, in simulated time."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The table's columns from then on."""

    @property
    def earliest(self) -> int:
        """The first version from which on all are kept."""

    def keeps(self, version: int) -> bool:
        """Whether a version can still be read."""


class Watched(OuterStore):
    """A Store before another. Follows the log as it grows, with no code under test; `faults` says what must not have happened."""

    log = ""
    """The folder of the log."""

    def __init__(self, inner: Store, now_ns: Callable[[], int]) -> None:
        """Watch `inner`, which must be empty; `now_ns` dates what lands."""
        super().__init__(inner)
        self.commits: dict[int, Any] = {}
        """A `Kept` a version."""
        self.faults: list[str] = []
        self.graveyard: dict[str, bytes] = {}
        """What was deleted, by path."""
        self.now_ns = now_ns

    @property
    def newest(self) -> int:
        """The newest version; 0 before the first."""
        return max(self.commits, default=0)

    def recall(self, path: str) -> bytes | None:
        """What lies under a path, or lay there before it was deleted; None where nothing ever did."""
        found = self.find(path)
        return self.graveyard.get(path) if found is None else found

    def find(self, path: str) -> bytes | None:
        """What lies under a path; None where nothing does."""
        try:
            return self.inner.get(path)
        except ObjectNotFound:
            return None

    # -- the Store -----------------------------------------------------------------------------------------------------

    def put(self, path: str, data: bytes | memoryview, *, mode: PutMode = "create", durable: bool = True) -> None:
        """See `Store.put`."""
        super().put(path, data, mode=mode, durable=durable)
        if path.startswith(self.log) and path.endswith(".json"):
            self.on_put(path, bytes(data))

    def delete(self, path: str) -> None:
        """See `Store.delete`."""
        data = self.find(path)
        super().delete(path)
        if data is not None:
            self.graveyard[path] = data
            self.on_delete(path)

    # -- the watch -----------------------------------------------------------------------------------------------------

    def on_put(self, path: str, data: bytes) -> None:
        """Fold a JSON file of the log that just landed."""
        raise NotImplementedError

    def on_delete(self, path: str) -> None:
        """Say what a deletion takes from the versions that are kept."""
        raise NotImplementedError


LOG = "_timeseries_log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Landed:
    """A commit as it landed, and what the table kept from then on."""

    body: dict[str, Any]
    landed_ns: int
    live: dict[str, tuple[str, ...]]
    """Paths of the live segments, each with its sidecars."""
    columns: tuple[str, ...]
    """The table's columns; none before the first append to a table that was made without."""
    tags: dict[str, int]
    earliest: int
    """Versions below it are expired, but for those in `tags`."""

    def keeps(self, version: int) -> bool:
        """Whether a version can still be read."""
        return version >= self.earliest or version in self.tags.values()


class WatchedStore(Watched):
    """A time-series table's store under watch."""

    log = LOG

    def on_put(self, path: str, data: bytes) -> None:
        """Fold a commit that just landed."""
        body = json.loads(data)
        version = self.newest + 1
        if (path, body["version"], body["base_version"]) != (f"{LOG}/{version:010d}.json", version, version - 1):
            if path in self.graveyard:
                return  # a late put on a number that log cleanup freed: no reader takes it for a commit, nor may its writer
            self.faults.append(f"the log has a gap or a wrong number at version {version}: {path} says {body['version']}")
            return
        before = self.commits.get(version - 1)
        live, tags, earliest = ({}, {}, 1) if before is None else (dict(before.live), dict(before.tags), before.earliest)
        for action in body["actions"]:
            earliest = self._take(action, live, tags, earliest)
        columns = _columns_of(body) if before is None else _columns_of(body, before.columns)
        landed = Landed(body=body, landed_ns=self.now_ns(), live=live, columns=columns, tags=tags, earliest=earliest)
        self.commits[version] = landed
        self._check_forgotten(landed)

    def _take(self, action: dict[str, Any], live: dict[str, tuple[str, ...]], tags: dict[str, int], earliest: int) -> int:
        """Fold one action; gives the earliest version that is kept."""
        ((name, said),) = action.items()
        if name == "AddSegment":
            live[said["path"]] = files = _files_of(said)
            lacking = [path for path in files if self.find(path) is None]
            self.faults += (f"version {self.newest + 1} adds {path}, which is not there" for path in lacking)
        elif name == "RemoveSegment":
            live.pop(said["path"], None)
        elif name == "SetTag" and said["version"] is None:
            tags.pop(said["name"], None)
        elif name == "SetTag":
            tags[said["name"]] = said["version"]
        elif name == "ExpireVersions":
            return max(earliest, int(said["before"]))
        return earliest

    def _check_forgotten(self, landed: Landed) -> None:
        """No version that is kept may need what a vacuum forgets."""
        for action in landed.body["actions"]:
            for path in action.get("ForgetSegments", {}).get("paths", ()):
                if users := [v for v in self._kept(landed) if path in self.commits[v].live]:
                    self.faults.append(f"version {landed.body['version']} forgets {path}, which {users} need")

    def _kept(self, landed: Landed) -> builtins.list[int]:
        return [version for version in self.commits if landed.keeps(version)]

    def on_delete(self, path: str) -> None:
        """Say what a deletion takes from the versions that are kept."""
        if not self.commits:
            return
        kept = self._kept(self.commits[self.newest])
        if not path.startswith(LOG):
            if users := [v for v in kept if any(path in files for files in self.commits[v].live.values())]:
                self.faults.append(f"{path} was deleted, which versions {users} need")
            return
        names = {info.path for info in self.inner.list(LOG)}
        if lost := [version for version in kept if not _is_reachable(version, names)]:
            self.faults.append(f"{path} was deleted, without which versions {lost} cannot be replayed")


def _columns_of(body: dict[str, Any], before: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The table's columns after a commit."""
    metas = [action["UpdateTableMeta"] for action in body["actions"] if "UpdateTableMeta" in action]
    if not metas:
        return before
    schema = metas[-1].get("logical_schema") or {"columns": []}
    return tuple(column["name"] for column in schema["columns"])


def _files_of(segment: dict[str, Any]) -> tuple[str, ...]:
    """The objects that an `AddSegment` names."""
    sidecar = segment.get("coverage_path")
    index = (
        () if sidecar is None or segment.get("coverage_index_checksum") is None else (f"{sidecar.removesuffix('.roar')}.idx",)
    )
    stored = () if "data" in segment else (segment["path"],)
    return (*stored, *(() if sidecar is None else (sidecar,)), *index)


def _is_reachable(version: int, names: set[str]) -> bool:
    """Whether a checkpoint or the first commit leads to a version, by names alone."""
    for base in range(version, -1, -1):
        if base == 0 or f"{LOG}/{base:010d}.checkpoint.parquet" in names:
            return True
        if f"{LOG}/{base:010d}.json" not in names:
            return False
    return False


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
