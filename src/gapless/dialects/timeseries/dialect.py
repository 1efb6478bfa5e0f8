"""The time-series dialect: names, codec and replay of `_timeseries_log/` (docs/spec/timeseries.md)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gapless.dialects.timeseries import checkpoint_codec, codec
from gapless.dialects.timeseries.actions import Commit, TableState
from gapless.dialects.timeseries.draft import Draft
from gapless.errors import CorruptTable
from gapless.log.dialect import Snapshot

LOG_FOLDER = "_timeseries_log"
_CHECKPOINT = re.compile(rf"{LOG_FOLDER}/(\d{{10}})\.checkpoint\.parquet")
_COMMIT = re.compile(rf"{LOG_FOLDER}/(\d{{10}})\.json")


class TimeSeries:
    """See `gapless.log.dialect.Dialect`, which this implements."""

    folder = LOG_FOLDER
    hint = f"{LOG_FOLDER}/CURRENT"
    last_checkpoint = f"{LOG_FOLDER}/_last_checkpoint"

    def path_of(self, version: int) -> str:
        """`_timeseries_log/0000000001.json` for version 1."""
        return f"{LOG_FOLDER}/{version:010d}.json"

    def version_of(self, path: str) -> int | None:
        """The version a commit's path names; None for any other object of the log folder."""
        match = _COMMIT.fullmatch(path)
        return int(match[1]) if match else None

    def encode(self, entry: Commit, version: int, time_ns: int) -> bytes:
        """One commit as compact JSON."""
        return codec.encode_commit(entry, version, time_ns)

    def decode(self, data: bytes, version: int) -> tuple[Commit, int]:
        """One commit and its time; raises CorruptTable or UnsupportedTable."""
        return codec.decode_commit(data, version, self.path_of(version))

    def checkpoint_path(self, version: int) -> str:
        """`_timeseries_log/0000000100.checkpoint.parquet` for version 100."""
        return f"{LOG_FOLDER}/{version:010d}.checkpoint.parquet"

    def checkpoint_of(self, path: str) -> int | None:
        """The version a checkpoint's path names; None for any other object of the log folder."""
        match = _CHECKPOINT.fullmatch(path)
        return int(match[1]) if match else None

    def encode_checkpoint(self, snapshot: Snapshot[TableState]) -> bytes:
        """One snapshot as Parquet."""
        return checkpoint_codec.encode_checkpoint(snapshot)

    def decode_checkpoint(self, data: bytes, version: int) -> Snapshot[TableState]:
        """The snapshot in a checkpoint; raises CorruptTable or UnsupportedTable."""
        return checkpoint_codec.decode_checkpoint(data, version, self.checkpoint_path(version))

    def id_of(self, entry: Commit) -> str:
        """The commit id; empty for other writers' commits."""
        return entry.id

    def replay(self, state: TableState | None, entries: Iterable[tuple[int, Commit, int]]) -> TableState:
        """Fold commits into the table's state; raises CorruptTable where an entry contradicts what came before."""
        draft = Draft.of(state)
        for version, entry, time_ns in entries:
            for action in entry.actions:
                try:
                    draft.apply(action, version, time_ns)
                except ValueError as contradiction:
                    raise self._contradiction(version, str(contradiction)) from contradiction
        if draft.meta is None:
            raise self._contradiction(1, "does not say what the table is: no UpdateTableMeta")
        return draft.state(draft.meta)

    def _contradiction(self, version: int, what: str) -> CorruptTable:
        path = self.path_of(version)
        return CorruptTable(
            f"commit {version} {what}",
            why="No writer that keeps to the format makes such a commit",
            fix="Bring the log back from a backup, or open a version before it",
            path=path,
        )


TIME_SERIES = TimeSeries()
