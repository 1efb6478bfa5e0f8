"""Delta Lake as a `TableFormat`: names, codec and replay of `_delta_log` (PROTOCOL.md)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from gapless.errors import CorruptTable
from gapless.formats.delta import commit_codec
from gapless.formats.delta.actions import Commit, TableState
from gapless.formats.delta.checkpoint import names as checkpoint_names
from gapless.formats.delta.checkpoint import writing
from gapless.formats.delta.checkpoint.reading import read_checkpoint
from gapless.formats.delta.conflict import RESTORE, orphan_cutoff_ns
from gapless.formats.delta.deletion_vector import vector_path
from gapless.formats.delta.file_path import RelativePath, canonical, locate
from gapless.formats.delta.operation_ids import kind_of_change
from gapless.formats.delta.properties import Settings
from gapless.formats.delta.replay import Draft, LiveFiles
from gapless.log.effects import Drive
from gapless.log.format import Packed, PartName, Snapshot, StoredCheckpoint, WrittenFile
from gapless.model.instant import NS_PER
from gapless.model.protocols import WRITER_HORIZON_NS, is_old


class Delta:
    """See `gapless.log.format.TableFormat`, which this implements."""

    kind = "delta"
    first = 0
    open_at = "gl.delta.open_at"
    tick_ns = NS_PER["ms"]
    folder = checkpoint_names.LOG_FOLDER
    hint = None
    foreign_checkpoints = True
    last_checkpoint = f"{folder}/_last_checkpoint"
    parts_folder = checkpoint_names.SIDECARS_FOLDER

    def path_of(self, version: int) -> str:
        """`_delta_log/00000000000000000000.json` for version 0."""
        return checkpoint_names.commit_path(version)

    def version_of(self, path: str) -> int | None:
        """The version a commit's path names; None for any other object of the log folder."""
        return checkpoint_names.version_of(path)

    def encode(self, entry: Commit, version: int, time_ns: int) -> bytes:
        """One commit, one action a line."""
        return commit_codec.encode_commit(entry, version, time_ns)

    def decode(self, data: bytes, version: int) -> tuple[Commit, int]:
        """One commit and its time, 0 where it says none; raises CorruptTable or UnsupportedTable."""
        return commit_codec.decode_commit(data, self.path_of(version))

    def time_of(self, data: bytes, version: int) -> int:
        """A commit's time, 0 where it says none; its actions are not looked at where they need not be. Raises as `decode`."""
        return commit_codec.commit_time(data, self.path_of(version))

    def has_commit_time(self, data: bytes, time_ns: int) -> bool:
        """Whether a commit begins with this time, as ours and Spark's do."""
        return commit_codec.has_commit_time(data, time_ns)

    def checkpoint_path(self, version: int) -> str:
        """`_delta_log/00000000000000000100.checkpoint.parquet` for version 100: the one name that every reader knows, for V2 too."""
        return checkpoint_names.checkpoint_path(version)

    def checkpoint_of(self, path: str) -> int | None:
        """The version a checkpoint's path names, of any kind; None for any other object of the log folder."""
        return checkpoint_names.checkpoint_of(path)

    def checkpoints_in(self, names: Iterable[str]) -> list[StoredCheckpoint]:
        """Classic ones, those of all their pieces, and those named by a UUID."""
        return checkpoint_names.checkpoints_in(names)

    def auxiliary_of(self, path: str) -> int | None:
        """The version of a version checksum or a log compaction file."""
        return checkpoint_names.auxiliary_of(path)

    def checksum_path(self, path: str) -> str:
        """The checksum that Hadoop lays beside each file on a disk, and holds against it."""
        return checkpoint_names.checksum_path(path)

    def encode_pointer(self, snapshot: Snapshot[TableState], size: int) -> bytes:
        """`_last_checkpoint`."""
        return writing.encode_pointer(snapshot, size)

    def decode_pointer(self, data: bytes) -> StoredCheckpoint | None:
        """The checkpoint that `_last_checkpoint` names, of any kind."""
        return checkpoint_names.decode_pointer(data)

    def encode_checkpoint(self, snapshot: Snapshot[TableState]) -> bytes:
        """One snapshot as Parquet; file actions that are in sidecars are only named."""
        return writing.encode_checkpoint(snapshot)

    def assemble(self, pieces: Sequence[bytes], stored: StoredCheckpoint, drive: Drive) -> Snapshot[TableState]:
        """The snapshot in a checkpoint of any kind; sidecars are read at once, so that a damaged one is passed over whole."""
        return read_checkpoint(pieces, stored, drive)

    def needs_parts(self, snapshot: Snapshot[TableState]) -> bool:
        """Whether file actions go into sidecars: so the table's policy says, and there are many."""
        return writing.needs_sidecars(snapshot.state)

    def pack(
        self, snapshot: Snapshot[TableState], token: str, drive: Drive, lost: frozenset[str] = frozenset()
    ) -> Packed[TableState]:
        """The snapshot with new sidecars, or with none."""
        del drive, lost
        return writing.pack(snapshot, token)

    def share_parts(self, snapshot: Snapshot[TableState], packed: Snapshot[TableState]) -> None:
        """Nothing rests on sidecars once they were read."""

    def parts_version(self, snapshot: Snapshot[TableState]) -> int:
        """Its own version, since each checkpoint has sidecars of its own."""
        return snapshot.version

    def parts_of(self, snapshot: Snapshot[TableState]) -> tuple[PartName, ...]:
        """The sidecars that hold its files, in order."""
        files = snapshot.state.files
        return tuple(one.part for one in files.sidecars) if isinstance(files, LiveFiles) else ()

    def part_of(self, path: str) -> int | None:
        """The version in a sidecar's path, as our names and Spark's have it."""
        return checkpoint_names.sidecar_of(path)

    def operation_of(self, entry: Commit) -> str:
        """The kind of change of rows, or what Delta calls it, in lower case."""
        return kind_of_change(entry.operation, entry.parameters) or entry.operation.lower()

    def id_of(self, entry: Commit) -> str:
        """`commitInfo.txnId`; empty for writers that give none."""
        return entry.id

    def with_duration(self, entry: Commit, duration_ms: int) -> Commit:
        """The entry with how long its change took."""
        return replace(entry, duration_ms=duration_ms)

    def written_files(self, entry: Commit, state: TableState, begun_ns: int) -> Iterator[WrittenFile]:
        """The files below the table root that it makes live: data files with when they were written, deletion vectors and change files.

        Data files that are live stay: where it removes one too, that only gets another deletion vector. What a restore brings back is
        retained.
        """
        retained = entry.operation == RESTORE
        before = {canonical(gone.path): gone.deletion_vector for gone in entry.removed}
        for file in entry.added:
            key, modified_ns = canonical(file.path), file.modified_ms * NS_PER["ms"]
            # Only what is old may have been live before; to ask for it reads the keys of all live files.
            if is_old(begun_ns, modified_ns) and file.key in state.files:
                continue
            if key not in before and isinstance(place := locate(file.path), RelativePath):
                yield WrittenFile(place.path, modified_ns, retained=retained, size=file.size)
            vector = file.deletion_vector
            if vector is not None and vector.storage != "i" and vector != before.get(key):
                yield from _below_root(vector_path(vector), begun_ns, retained=retained, encoded=vector.storage == "p")
        for change in entry.change_files:
            yield from _below_root(change.path, begun_ns, size=change.size)

    def vacuumed(self, theirs: Commit, time_ns: int, files: Iterable[WrittenFile]) -> str | None:
        """By when they were written: a vacuum of any writer names no file, and says before which time it deletes."""
        cutoff_ns = orphan_cutoff_ns(theirs, time_ns)
        if cutoff_ns is None:
            return None
        # As far as two clocks may differ.
        doubtful_ns = cutoff_ns + WRITER_HORIZON_NS // 2
        lost = (
            file.path for file in files if not file.retained and file.instant_ns is not None and file.instant_ns < doubtful_ns
        )
        return next(lost, None)

    def interval(self, state: TableState) -> int:
        """The table's `delta.checkpointInterval`."""
        return Settings.of(state.configuration).checkpoint_interval

    def replay(self, state: TableState | None, entries: Iterable[tuple[int, Commit, int]]) -> TableState:
        """Fold commits into the table's state; raises CorruptTable where they do not say what the table is."""
        draft = Draft.of(state)
        for version, entry, time_ns in entries:
            draft.apply(entry, version, time_ns)
        try:
            return draft.state()
        except ValueError as missing:
            path = self.path_of(self.first)
            raise CorruptTable(
                f"the log does not say what the table is: {missing}",
                why="The first commit of a table must say it, and neither it nor a later one does",
                fix="Bring the log back from a backup",
                path=path,
            ) from missing


def _below_root(
    path: str, instant_ns: int, *, retained: bool = False, encoded: bool = True, size: int | None = None
) -> Iterator[WrittenFile]:
    """A file that the log names by this path, or the store does; none where it lies elsewhere."""
    place = locate(path) if encoded else RelativePath(path)
    if isinstance(place, RelativePath):
        yield WrittenFile(place.path, instant_ns, retained=retained, size=size)


DELTA = Delta()
