"""A second, small reader of a simulated table's log: JSON and Parquet, and none of the code under test."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow.parquet as pq

from gapless.model.protocols import Store
from gapless.testing.history import Bucket, Row, buckets_of

_FOLDER = "_timeseries_log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """One commit, with the rows it added and the table as it was just before."""

    version: int
    id: str
    time: datetime
    operation: str
    policy: str
    """Its `on_overlap`."""
    added: tuple[Row, ...]
    segments: int
    operations: tuple[Any, ...]
    """The bodies of its `SetTransaction`s."""
    before: frozenset[Bucket]
    """What was covered before it."""
    rows: tuple[Row, ...]
    """All rows of the table after it, in order."""


@dataclass(slots=True)
class Ledger:
    """The whole log, and what is wrong with it."""

    commits: dict[int, Logged] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    @property
    def newest(self) -> int:
        """The last version; 0 for an empty log."""
        return max(self.commits, default=0)


def read_ledger(store: Store) -> Ledger:
    """Read the log and every segment it names."""
    ledger = Ledger()
    paths = [info.path for info in store.list(_FOLDER) if info.path.endswith(".json")]
    live: dict[str, tuple[Row, ...]] = {}
    before: frozenset[Bucket] = frozenset()
    for version, path in enumerate(paths, start=1):
        body = json.loads(store.get(path))
        if (path, body["version"], body["base_version"]) != (f"{_FOLDER}/{version:010d}.json", version, version - 1):
            ledger.faults.append(f"the log has a gap or a wrong number at version {version}: {path} says {body['version']}")
        commit = _read_commit(store, body, live, before, ledger)
        if ledger.commits and commit.time <= ledger.commits[ledger.newest].time:
            ledger.faults.append(f"the time of version {version} does not rise")
        ledger.commits[version] = commit
        before = buckets_of(commit.rows)
    return ledger


def _read_commit(
    store: Store, body: dict[str, Any], live: dict[str, tuple[Row, ...]], before: frozenset[Bucket], ledger: Ledger
) -> Logged:
    """One commit; folds its segments into `live`."""
    added: list[Row] = []
    adds = [action["AddSegment"] for action in body["actions"] if "AddSegment" in action]
    for segment in adds:
        live[segment["path"]] = rows = _read_segment(store, segment, ledger)
        added += rows
    for action in body["actions"]:
        live.pop(action.get("RemoveSegment", {}).get("path"), None)
    return Logged(
        version=body["version"],
        id=body["commit_id"],
        time=datetime.fromisoformat(body["timestamp"]),
        operation=body["operation"],
        policy=body["parameters"].get("on_overlap", "allow"),
        added=tuple(sorted(added)),
        segments=len(adds),
        operations=tuple(action["SetTransaction"] for action in body["actions"] if "SetTransaction" in action),
        before=before,
        rows=tuple(sorted(row for rows in live.values() for row in rows)),
    )


def _read_segment(store: Store, segment: dict[str, Any], ledger: Ledger) -> tuple[Row, ...]:
    paths = {info.path for info in store.list(segment["path"].rpartition("/")[0])}
    if segment["path"] not in paths:
        ledger.faults.append(f"the segment {segment['path']} is in the log and not in the store")
        return ()
    table = pq.ParquetFile(io.BytesIO(store.get(segment["path"]))).read(use_threads=False)
    rows = tuple(zip(*(table.column(name).to_pylist() for name in ("ts", "entity", "number")), strict=True))
    if len(rows) != segment["row_count"]:
        ledger.faults.append(f"{segment['path']} has {len(rows)} rows, and the log says {segment['row_count']}")
    return rows
