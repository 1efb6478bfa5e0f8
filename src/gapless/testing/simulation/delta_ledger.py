"""A second, small reader of a simulated Delta table's log: JSON, Parquet and bitmaps, and none of the code under test."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq

from gapless.testing.simulation.delta_watch import DeltaWatch, LandedDelta, file_of, positions
from gapless.testing.simulation.intents import COLUMNS, Row
from gapless.testing.simulation.ledger import Ledger, Logged

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
