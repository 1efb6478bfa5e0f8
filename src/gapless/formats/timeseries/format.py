"""The time-series table format as a `TableFormat`: names, codec and replay of `_timeseries_log/` (docs/spec/timeseries.md)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from gapless.errors import CorruptTable
from gapless.formats.timeseries.actions import Commit, ForgetSegments, TableState, kind_of_change, parse_own_name
from gapless.formats.timeseries.checkpoint import checkpoint
from gapless.formats.timeseries.checkpoint.part_reading import read_parts
from gapless.formats.timeseries.checkpoint.segments import CheckpointSegments, ReadParts
from gapless.formats.timeseries.codec import commit
from gapless.formats.timeseries.replay import Draft, LiveSegments
from gapless.log.effects import Drive
from gapless.log.format import Packed, PartName, Snapshot, StoredCheckpoint, WrittenFile
from gapless.model.instant import NS_PER

LOG_FOLDER = "_timeseries_log"
_CHECKPOINT = re.compile(rf"{LOG_FOLDER}/(\d{{10}})\.checkpoint\.parquet")
_PART = re.compile(rf"{checkpoint.PARTS_FOLDER}/(\d{{10}})-[0-9a-f-]+\.parquet")
_COMMIT = re.compile(rf"{LOG_FOLDER}/(\d{{10}})\.json")


class TimeSeries:
    """See `gapless.log.format.TableFormat`, which this implements."""

    kind = "timeseries"
    first = 1
    open_at = "gl.open_at"
    tick_ns = NS_PER["us"]
    folder = LOG_FOLDER
    hint = f"{LOG_FOLDER}/CURRENT"
    foreign_checkpoints = False
    last_checkpoint = f"{LOG_FOLDER}/_last_checkpoint"
    parts_folder = checkpoint.PARTS_FOLDER

    def path_of(self, version: int) -> str:
        """`_timeseries_log/0000000001.json` for version 1."""
        return f"{LOG_FOLDER}/{version:010d}.json"

    def version_of(self, path: str) -> int | None:
        """The version a commit's path names; None for any other object of the log folder."""
        match = _COMMIT.fullmatch(path)
        return int(match[1]) if match else None

    def encode(self, entry: Commit, version: int, time_ns: int) -> bytes:
        """One commit as compact JSON."""
        return commit.encode_commit(entry, version, time_ns)

    def decode(self, data: bytes, version: int) -> tuple[Commit, int]:
        """One commit and its time; raises CorruptTable or UnsupportedTable."""
        return commit.decode_commit(data, version, self.path_of(version))

    def time_of(self, data: bytes, version: int) -> int:
        """A commit's time; raises as `decode`."""
        return self.decode(data, version)[1]

    def has_commit_time(self, data: bytes, time_ns: int) -> bool:
        """Whether this commit time stands where our commits have theirs."""
        return commit.has_commit_time(data, time_ns)

    def checkpoint_path(self, version: int) -> str:
        """`_timeseries_log/0000000100.checkpoint.parquet` for version 100."""
        return f"{LOG_FOLDER}/{version:010d}.checkpoint.parquet"

    def checkpoint_of(self, path: str) -> int | None:
        """The version a checkpoint's path names; None for any other object of the log folder."""
        match = _CHECKPOINT.fullmatch(path)
        return int(match[1]) if match else None

    def checkpoints_in(self, names: Iterable[str]) -> list[StoredCheckpoint]:
        """One object is one checkpoint."""
        found = {version: name for name in names if (version := self.checkpoint_of(name)) is not None}
        return [StoredCheckpoint(version, (name,)) for version, name in sorted(found.items())]

    def auxiliary_of(self, path: str) -> None:
        """Cleaning takes nothing else."""

    def checksum_path(self, path: str) -> None:
        """None: logs of time-series tables have no Hadoop checksum files."""

    def encode_pointer(self, snapshot: Snapshot[TableState], size: int) -> bytes:
        """The version."""
        del size
        return json.dumps({"version": snapshot.version}).encode()

    def decode_pointer(self, data: bytes) -> StoredCheckpoint | None:
        """The checkpoint of the version that it says."""
        try:
            version = json.loads(data)["version"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return None
        return StoredCheckpoint(version, (self.checkpoint_path(version),)) if isinstance(version, int) and version > 0 else None

    def assemble(self, pieces: Sequence[bytes], stored: StoredCheckpoint, drive: Drive) -> Snapshot[TableState]:
        """See `decode_checkpoint`."""
        return self.decode_checkpoint(pieces[0], stored.version, drive)

    def encode_checkpoint(self, snapshot: Snapshot[TableState]) -> bytes:
        """One snapshot as Parquet; what is in parts is only named."""
        return checkpoint.encode_checkpoint(snapshot, checkpoint.checkpoint_segments(snapshot.state))

    def decode_checkpoint(self, data: bytes, version: int, drive: Drive | None = None) -> Snapshot[TableState]:
        """The snapshot in a checkpoint, whose parts `drive` reads once they are needed; raises CorruptTable or UnsupportedTable."""
        return checkpoint.decode_checkpoint(data, version, self.checkpoint_path(version), self._reader(drive))

    def needs_parts(self, snapshot: Snapshot[TableState]) -> bool:
        """Whether so many segments came or went that parts are due."""
        return checkpoint.needs_new_parts(snapshot.state)

    def pack(
        self, snapshot: Snapshot[TableState], token: str, drive: Drive, lost: frozenset[str] = frozenset()
    ) -> Packed[TableState]:
        """See `gapless.formats.timeseries.checkpoint.checkpoint`."""
        return checkpoint.pack(snapshot, token, self._reader(drive), lost)

    def share_parts(self, snapshot: Snapshot[TableState], packed: Snapshot[TableState]) -> None:
        """Let the live segments take their content from the same parts."""
        if isinstance(snapshot.state.live, LiveSegments):
            snapshot.state.live.share_parts(checkpoint.checkpoint_segments(packed.state))

    def parts_version(self, snapshot: Snapshot[TableState]) -> int:
        """The version of the log checkpoint whose parts these are; 0 for none."""
        segments = self._base(snapshot)
        return segments.version if segments is not None and segments.index.parts else 0

    def parts_of(self, snapshot: Snapshot[TableState]) -> tuple[PartName, ...]:
        """The parts that hold its live segments, in order."""
        segments = self._base(snapshot)
        return () if segments is None else tuple(part.ref.name for part in segments.index.parts)

    def part_of(self, path: str) -> int | None:
        """The version in a part's path: `_log_parts/0000000100-….parquet`."""
        match = _PART.fullmatch(path)
        return int(match[1]) if match else None

    def _base(self, snapshot: Snapshot[TableState]) -> CheckpointSegments | None:
        live = snapshot.state.live
        return live.base if isinstance(live, LiveSegments) else None

    def _reader(self, drive: Drive | None) -> ReadParts:
        return partial(read_parts, self, drive)

    def operation_of(self, entry: Commit) -> str:
        """The kind of change."""
        return kind_of_change(entry.operation)

    def id_of(self, entry: Commit) -> str:
        """The commit id; empty for other writers' commits."""
        return entry.id

    def with_duration(self, entry: Commit, duration_ms: int) -> Commit:
        """The entry with how long its change took."""
        return replace(entry, duration_ms=duration_ms)

    def written_files(self, entry: Commit, state: TableState, begun_ns: int) -> Iterator[WrittenFile]:
        """The objects of the segments that it makes live; of those with names of ours, with when their attempt began."""
        del begun_ns
        for segment in entry.added:
            name = parse_own_name(segment.path)
            instant_ns, retained = None if name is None else name.instant_ns, segment.path in state.removed
            if segment.data is not None:
                yield WrittenFile(segment.path, instant_ns, retained=retained, stored=False)
            for path in segment.files:
                size = segment.size if path == segment.path else None
                yield WrittenFile(path, instant_ns, retained=retained, size=size)

    def vacuumed(self, theirs: Commit, time_ns: int, files: Iterable[WrittenFile]) -> str | None:
        """By the paths that vacuum names in its commit."""
        del time_ns
        gone = {path for action in theirs.actions if isinstance(action, ForgetSegments) for path in action.paths}
        return next((file.path for file in files if file.path in gone), None) if gone else None

    def interval(self, state: TableState) -> int:
        """The table's `checkpoint_interval`."""
        return state.meta.properties.checkpoint_interval

    def replay(self, state: TableState | None, entries: Iterable[tuple[int, Commit, int]]) -> TableState:
        """Fold commits into the table's state; raises CorruptTable where an entry contradicts what came before."""
        draft = Draft.of(state)
        for version, entry, time_ns in entries:
            for action in entry.actions:
                try:
                    draft.apply(action, version, time_ns, kind_of_change(entry.operation))
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
