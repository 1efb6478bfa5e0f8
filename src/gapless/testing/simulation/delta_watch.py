"""A store that watches a Delta table: no file may be deleted that a version within the retention needs.

Deletion vectors are read from their bytes, with none of the code under test.

A second, small reader of a simulated Delta table's log: JSON, Parquet and bitmaps, and none of the code under test.
"""

from __future__ import annotations

import base64
import builtins
import io
import json
import re
import struct
import uuid
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq
import pyroaring

from gapless.model.protocols import Store
from gapless.testing.simulation.delta_draw import LOG_RETENTION_S, RETENTION_S
from gapless.testing.simulation.tasks import COLUMNS, Row
from gapless.testing.simulation.watch import Ledger, Logged, Watched

_MAGIC = 1681511377
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_TO_B85 = str.maketrans(_Z85, _B85)


def file_of(vector: dict[str, Any] | None) -> str | None:
    """The store path of the file that holds a vector; None for one that has none."""
    if vector is None or vector["storageType"] != "u":
        return None
    text = vector["pathOrInlineDv"]
    name = uuid.UUID(bytes=base64.b85decode(text[-20:].translate(_TO_B85)))
    folder = f"{text[:-20]}/" if text[:-20] else ""
    return f"{folder}deletion_vector_{name}.bin"


def positions(vector: dict[str, Any], data: bytes | None) -> frozenset[int]:
    """The positions of deleted rows; `data` is its file. Raises ValueError for damage."""
    if vector["storageType"] == "i":
        bitmap = base64.b85decode(vector["pathOrInlineDv"].translate(_TO_B85))[: vector["sizeInBytes"]]
    else:
        start = vector.get("offset", 1)
        assert data is not None
        (size,) = struct.unpack_from(">i", data, start)
        bitmap = data[start + 4 : start + 4 + size]
        (checksum,) = struct.unpack_from(">I", data, start + 4 + size)
        if size != vector["sizeInBytes"] or zlib.crc32(bitmap) != checksum:
            raise ValueError(f"the vector {vector} says another size or checksum than its file")
    if struct.unpack_from("<i", bitmap)[0] != _MAGIC:
        raise ValueError(f"the vector {vector} has another magic number")
    found = frozenset(pyroaring.BitMap64.deserialize(bitmap[4:]))
    if len(found) != vector["cardinality"]:
        raise ValueError(f"the vector {vector} holds {len(found)} positions")
    return found


LOG = "_delta_log"
_COMMIT = re.compile(rf"{LOG}/(\d{{20}})\.json")
_CHECKPOINT = re.compile(rf"{LOG}/(\d{{20}})\.checkpoint(?:\.(\d{{10}})\.(\d{{10}}))?(\.[0-9a-f-]{{36}})?\.(parquet|json)")
_SLACK_S = 2 * 3_600
"""How much sooner a file may go: clocks are wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LandedDelta:
    """A commit as it landed, and the table from then on."""

    actions: list[dict[str, Any]]
    landed_ns: int
    live: dict[tuple[str, str], dict[str, Any]]
    """The `add` of every live file, by its path and its vector."""
    columns: tuple[str, ...]
    lost: set[int] = field(compare=False)
    """Versions that cannot be read any more: the watch's own, which grows."""
    earliest: int = 0

    def keeps(self, version: int) -> bool:
        """Whether a version can still be read."""
        return version not in self.lost

    @property
    def info(self) -> dict[str, Any]:
        """`commitInfo`."""
        return next((action["commitInfo"] for action in self.actions if "commitInfo" in action), {})

    def named(self, name: str) -> Iterator[dict[str, Any]]:
        """Its actions of a kind."""
        return (action[name] for action in self.actions if name in action)

    @property
    def files(self) -> frozenset[str]:
        """The store paths that reading its version needs."""
        return frozenset(path for add in self.live.values() for path in files_of(add))


def files_of(add: dict[str, Any]) -> builtins.list[str]:
    """The store paths that an `add` names."""
    vector = file_of(add.get("deletionVector"))
    return [unquote(add["path"]), *(() if vector is None else (vector,))]


def key_of(action: dict[str, Any]) -> tuple[str, str]:
    """What names a logical file."""
    vector = action.get("deletionVector")
    return action["path"], "" if vector is None else json.dumps(vector, sort_keys=True)


class DeltaWatch(Watched):
    """A Delta table's store under watch."""

    log = LOG

    def __init__(self, inner: Store, now_ns: Callable[[], int]) -> None:
        """Watch `inner`, which must be empty."""
        super().__init__(inner, now_ns)
        self.lost: set[int] = set()

    def on_put(self, path: str, data: bytes) -> None:
        """Fold a commit that just landed."""
        if (match := _COMMIT.fullmatch(path)) is None:
            return
        version = self.newest + 1 if self.commits else 0
        if int(match[1]) != version:
            if path not in self.graveyard:
                self.faults.append(f"the log has a gap at version {version}: {path} came")
            return
        actions = [json.loads(line) for line in data.splitlines()]
        live = dict(self.commits[version - 1].live) if version else {}
        for action in sorted(actions, key=lambda action: "add" in action):
            self._take(version, action, live)
        self.commits[version] = LandedDelta(
            actions=actions, landed_ns=self.now_ns(), live=live, columns=COLUMNS, lost=self.lost
        )

    def _take(self, version: int, action: dict[str, Any], live: dict[tuple[str, str], dict[str, Any]]) -> None:
        if (gone := action.get("remove")) is not None and live.pop(key_of(gone), None) is None:
            self.faults.append(f"version {version} removes {key_of(gone)}, which is not live")
        if (add := action.get("add")) is None:
            return
        if any(path == add["path"] for path, _ in live):
            self.faults.append(f"version {version} adds {add['path']}, which is live")
        live[key_of(add)] = add
        self.faults += (
            f"version {version} adds {path}, which is not there" for path in files_of(add) if self.find(path) is None
        )

    def on_delete(self, path: str) -> None:
        """Say what a deletion takes from the versions that are kept."""
        if not self.commits:
            return
        if path.startswith(LOG):
            self._on_log_delete(path)
            return
        users = [version for version, landed in self.commits.items() if path in landed.files]
        self.lost.update(users)
        if users and self._was_newest_since(users[-1], RETENTION_S):
            self.faults.append(f"{path} was deleted, which version {users[-1]} needs")

    def _on_log_delete(self, path: str) -> None:
        names = {info.path for info in self.inner.list(LOG)}
        ways = {version for version in self.commits if self._is_reachable(version, names)}
        gone = self.commits.keys() - ways - self.lost
        self.lost.update(gone)
        if kept := [version for version in sorted(gone) if self._was_newest_since(version, LOG_RETENTION_S)]:
            self.faults.append(f"{path} was deleted, without which versions {kept} cannot be replayed")

    def _was_newest_since(self, version: int, retention_s: float) -> bool:
        """Whether it is the newest version, or was within the retention by what the log says.

        That can be sooner than the truth by as long as a writer hung after it had looked at its clock and before its commit was there: then
        no one knows better.
        """
        if version == self.newest:
            return True
        following = self.commits[version + 1]
        until_ns = min(following.landed_ns, following.info["timestamp"] * 10**6)
        return bool(until_ns > self.now_ns() - (retention_s - _SLACK_S) * 1e9)

    def _is_reachable(self, version: int, names: set[str]) -> bool:
        """Whether a checkpoint or the first commit leads to a version."""
        bases = self._checkpoints(names)
        for base in range(version, -2, -1):
            if base == -1 or base in bases:
                return True
            if f"{LOG}/{base:020d}.json" not in names:
                return False
        return False

    def _checkpoints(self, names: set[str]) -> set[int]:
        """The versions of checkpoints that are whole."""
        parts: dict[tuple[int, int], int] = {}
        whole = set()
        for name in names:
            if (match := _CHECKPOINT.fullmatch(name)) is None:
                continue
            version = int(match[1])
            if match[2] is not None:
                count = int(match[3])
                parts[version, count] = parts.get((version, count), 0) + 1
                if parts[version, count] == count:
                    whole.add(version)
            elif all(f"{LOG}/_sidecars/{one}" in names for one in self._sidecars(name)):
                whole.add(version)
        return whole

    def _sidecars(self, name: str) -> builtins.list[str]:
        data = self.inner.get(name)
        if name.endswith(".json"):
            return [action["sidecar"]["path"] for line in data.splitlines() if "sidecar" in (action := json.loads(line))]
        file = pq.ParquetFile(io.BytesIO(data))
        if "sidecar" not in file.schema_arrow.names:
            return []
        found = file.read(columns=["sidecar"], use_threads=False).column("sidecar").to_pylist()
        return [one["path"] for one in found if one is not None and one["path"] is not None]


_JOB = "gapless.job:"


def read_ledger(store: DeltaWatch) -> Ledger:
    """Read every commit that landed and every file it names, also those that were deleted since."""
    ledger = Ledger(
        gone=frozenset(store.graveyard), faults=list(store.faults), first=0, counts=("rows",), expires=False, remembers=False
    )
    files = _Files(store)
    before: tuple[Row, ...] = ()
    for version, landed in store.commits.items():
        commit = _read_commit(version, landed, before, files)
        commit = replace(commit, unseen=_unseen(commit, ledger))
        if ledger.commits and commit.time <= ledger.commits[ledger.newest].time:
            ledger.faults.append(f"the time of version {version} does not rise")
        ledger.commits[version] = commit
        before = commit.rows
    ledger.faults += files.faults
    return ledger


class _Files:
    """The rows of data files, each read once."""

    def __init__(self, store: DeltaWatch) -> None:
        self.faults: list[str] = []
        self._store = store
        self._rows: dict[str, tuple[Row, ...]] = {}

    def live(self, add: dict[str, Any]) -> tuple[Row, ...]:
        """The rows of a file less those that its vector deletes."""
        path = unquote(add["path"])
        if path not in self._rows:
            self._rows[path] = self._read(path, add)
        rows = self._rows[path]
        if (vector := add.get("deletionVector")) is None:
            return rows
        where = file_of(vector)
        gone = positions(vector, None if where is None else self._store.recall(where))
        if gone and max(gone) >= len(rows):
            self.faults.append(f"a vector of {path} deletes row {max(gone)} of {len(rows)}")
        return tuple(row for number, row in enumerate(rows) if number not in gone)

    def _read(self, path: str, add: dict[str, Any]) -> tuple[Row, ...]:
        data = self._store.recall(path)
        if data is None:
            self.faults.append(f"the file {path} is in the log and never was in the store")
            return ()
        if len(data) != add["size"]:
            self.faults.append(f"{path} has {len(data)} bytes, and the log says {add['size']}")
        table = pq.ParquetFile(io.BytesIO(data)).read(use_threads=False)
        constants = add["partitionValues"]
        lists = [
            [constants[name]] * table.num_rows if name in constants else table.column(name).to_pylist() for name in COLUMNS
        ]
        return tuple(zip(*lists, strict=True))


def _read_commit(version: int, landed: LandedDelta, before: tuple[Row, ...], files: _Files) -> Logged:
    info = landed.info
    return Logged(
        version=version,
        id=info["txnId"],
        time=datetime.fromtimestamp(info["timestamp"] / 1000, UTC),
        operation=info["operation"],
        added=tuple(sorted(row for add in landed.named("add") for row in files.live(add))),
        operations=tuple(_operation(txn, info) for txn in landed.named("txn")),
        before=before,
        rows=tuple(sorted(row for add in landed.live.values() for row in files.live(add))),
        doubled=frozenset(),
        landed=landed,
    )


def _unseen(commit: Logged, ledger: Ledger) -> tuple[Row, ...]:
    """What blind appends brought after the version that it was decided on: under WriteSerializable it stands after them."""
    info = commit.landed.info
    if info.get("isolationLevel") != "WriteSerializable":
        return ()
    others = (ledger.commits[version] for version in range(info.get("readVersion", -1) + 1, commit.version))
    return tuple(row for other in others if other.landed.info["isBlindAppend"] for row in other.added)


def _operation(txn: dict[str, Any], info: dict[str, Any]) -> dict[str, Any]:
    """A `txn` in the words of the auditor, with the counts of the first time."""
    report = dict(info.get("gapless", {}).get("tally", {}))
    app = txn["appId"]
    if app.startswith(_JOB):
        return {"id": app.removeprefix(_JOB), "report": report}
    return {"app_id": app, "sequence": txn["version"], "report": report}
