"""The manifests of a published table: which names which file is remembered, so that a commit reads and writes those that it changes, not all."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, cast

from pyiceberg.avro.codecs import AvroCompressionCodec
from pyiceberg.avro.file import AvroOutputFile
from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
    read_manifest_list,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadataV2
from pyiceberg.typedef import Record

from gapless.errors import CorruptTable, ObjectNotFound
from gapless.formats.iceberg.commits import Tally
from gapless.formats.iceberg.file_partitions import UNPARTITIONED
from gapless.formats.iceberg.metrics import Metrics
from gapless.formats.iceberg.snapshots import MANIFEST_ENTRIES, merged
from gapless.publish.iceberg.file_index import FILE_INDEX, Digests, FileIndex, digests, origin_of, read_index
from gapless.publish.iceberg.io import StoreIO

_BLOCK = 250
_LARGE = MANIFEST_ENTRIES // 2
"""Files of a manifest that the index lists, and no other is merged with."""
_CODEC: AvroCompressionCodec = "deflate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The manifests of a new snapshot."""

    manifest_list: str
    added: Tally
    removed: Tally
    file_index: str | None
    """The name of a new index of files, if one was written."""


def data_file(
    location: str, rows: int, size: int, metrics: Metrics, spec_id: int = UNPARTITIONED, partition: Sequence[Any] = ()
) -> DataFile:
    """A Parquet file that lies in a partition of a spec."""
    told = {
        "record_count": rows,
        "column_sizes": None,
        "value_counts": dict(metrics.value_counts),
        "null_value_counts": dict(metrics.null_counts),
        "nan_value_counts": dict(metrics.nan_counts),
        "lower_bounds": dict(metrics.lower_bounds),
        "upper_bounds": dict(metrics.upper_bounds),
        "split_offsets": None,
    }
    return described_file(location, size, spec_id, partition, told)


def described_file(location: str, size: int, spec_id: int, partition: Sequence[Any], told: Mapping[str, Any]) -> DataFile:
    """A Parquet file that lies in a partition of a spec; `told` are its counts and bounds, by their names in manifests."""
    made = DataFile.from_args(
        _table_format_version=2,
        content=DataFileContent.DATA,
        file_path=location,
        file_format=FileFormat.PARQUET,
        partition=Record(*partition),
        file_size_in_bytes=size,
        key_metadata=None,
        equality_ids=None,
        sort_order_id=None,
        **told,
    )
    made.spec_id = spec_id
    return made


class Manifests:
    """What is known of manifests of one table, each of which never changes."""

    def __init__(self, io: StoreIO) -> None:
        """Read and written by `io`."""
        self._io = io
        self._files: dict[str, frozenset[str]] = {}
        """The live files of a manifest, by their locations."""
        self._held: dict[str, list[ManifestEntry]] = {}
        """Entries that were read and will be asked for again."""
        self._index: tuple[str | None, FileIndex] = (None, FileIndex())

    def of(self, metadata: TableMetadataV2) -> list[ManifestFile]:
        """The manifests of the current snapshot that name live files. Raises CorruptTable, StoreError."""
        current = metadata.current_snapshot()
        return [] if current is None else [one for one in manifests_of(self._io, current.manifest_list) if _live(one)]

    def entries(self, manifest: ManifestFile) -> list[ManifestEntry]:
        """Its live files. Raises CorruptTable, StoreError."""
        if (held := self._held.pop(manifest.manifest_path, None)) is not None:
            return held
        with _readable(manifest.manifest_path):
            found = manifest.fetch_manifest_entry(self._io, discard_deleted=True)
        self._files[manifest.manifest_path] = frozenset(one.data_file.file_path for one in found)
        return found

    def live(self, metadata: TableMetadataV2) -> Iterator[DataFile]:
        """All files of the current snapshot."""
        for manifest in self.of(metadata):
            for entry in self.entries(manifest):
                yield entry.data_file

    def index(self, metadata: TableMetadataV2) -> FileIndex:
        """The index of files that the metadata name. Raises StoreError."""
        name = metadata.properties.get(FILE_INDEX)
        if name is not None and self._index[0] != name:
            self._index = (name, read_index(self._io, f"{metadata.location.rstrip('/')}/metadata/{name}"))
        return FileIndex() if name is None else self._index[1]

    def holders(self, metadata: TableMetadataV2, wanted: frozenset[str]) -> dict[int, frozenset[str]]:
        """Which of the wanted files each manifest has, by its place in `of`. Raises CorruptTable, StoreError.

        Looked for where they are known to be, then where the index leads, then in what it does not list, newest first.
        """
        manifests = self.of(metadata)
        left, found = set(wanted), dict[int, frozenset[str]]()
        for place in self._in_turn(manifests, metadata, wanted):
            if not left:
                break
            path = manifests[place].manifest_path
            entries = self.entries(manifests[place]) if path not in self._files else None
            here = left & self._files[path]
            if here and entries is not None:
                self._held[path] = entries
            if here:
                found[place] = frozenset(here)
                left -= here
        return found

    def _in_turn(self, manifests: Sequence[ManifestFile], metadata: TableMetadataV2, wanted: frozenset[str]) -> Iterator[int]:
        unknown = []
        for place, one in enumerate(manifests):
            if one.manifest_path in self._files:
                yield place
            else:
                unknown.append(place)
        unknown.sort(key=lambda at: -(manifests[at].sequence_number or 0))
        index, looked_for = self.index(metadata), digests(wanted)
        told = {place: index.may_hold(manifests[place].manifest_path, looked_for) for place in unknown}
        for answer in (True, None, False):  # it is a hint, and may be another's
            yield from (place for place in unknown if told[place] is answer)

    def files(self, manifest: ManifestFile) -> frozenset[str]:
        """The locations of its live files. Raises CorruptTable, StoreError."""
        if manifest.manifest_path not in self._files:
            self.entries(manifest)
        return self._files[manifest.manifest_path]

    def keep(self, manifests: Iterable[ManifestFile]) -> None:
        """Forget all others."""
        self._held.clear()
        paths = {one.manifest_path for one in manifests}
        self._files = {path: files for path, files in self._files.items() if path in paths}

    def knows(self, path: str, files: frozenset[str]) -> None:
        """A manifest was written with these live files."""
        self._files[path] = files


class _Blocks:
    """Entries of a manifest in blocks of many: the library makes a block of each, three times as slow to write and to read."""

    def __init__(self, inner: AvroOutputFile[ManifestEntry]) -> None:
        self._inner, self._pending = inner, list[ManifestEntry]()
        self.output_file = inner.output_file

    def __enter__(self) -> Self:
        self._inner.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self._flush()
        self._inner.__exit__(kind, error, trace)

    def write_block(self, objects: list[ManifestEntry]) -> None:
        """Entries that come with those of before."""
        self._pending += objects
        if len(self._pending) >= _BLOCK:
            self._flush()

    def _flush(self) -> None:
        if self._pending:
            self._inner.write_block(self._pending)
            self._pending = []


class _Writer(ManifestWriterV2):
    def new_writer(self) -> AvroOutputFile[ManifestEntry]:
        """What takes the entries."""
        return cast("AvroOutputFile[ManifestEntry]", _Blocks(super().new_writer()))


@dataclass(slots=True, kw_only=True)
class SnapshotWriter:
    """Writes the manifests of one new snapshot."""

    manifests: Manifests
    io: StoreIO
    metadata: TableMetadataV2
    schema: Schema
    snapshot_id: int
    name: Callable[[], str]
    """A unique name."""
    location: str
    """Where the table lies."""
    spec: PartitionSpec | None = None
    """One that the metadata does not have yet."""
    written: list[str] = field(default_factory=list)
    """The locations of what was written."""
    _made_large: bool = False

    def write(self, added: Sequence[DataFile], removed: frozenset[str], *, anew: bool = False) -> Written:
        """Write what the snapshot has: the files of the one before, without those `removed`, and those `added`; those alone if `anew`.

        Raises CorruptTable, StoreError.
        """
        before = [] if anew else self.manifests.of(self.metadata)
        changed = self.manifests.holders(self.metadata, removed) if before and removed else {}
        gone: list[DataFile] = []
        now = list(self._added(added))
        kept = []
        for place, manifest in enumerate(before):
            if place in changed:
                now.append(self._without(manifest, changed[place], gone))
            else:
                kept.append(manifest)
        now += self._merged(kept)
        self.manifests.keep(now)
        index = self._index(now) if self._made_large else None
        return Written(manifest_list=self._list(now), added=_tally(added), removed=_tally(gone), file_index=index)

    def undo(self) -> None:
        """Remove what was written, since no one will name it."""
        for location in self.written:
            with contextlib.suppress(Exception):
                self.io.delete(location)

    def _added(self, files: Sequence[DataFile]) -> Iterator[ManifestFile]:
        for spec_id in sorted({one.spec_id for one in files}):
            # Neighbours in one manifest, so that readers can pass over others.
            these = sorted((one for one in files if one.spec_id == spec_id), key=_partition)
            for start in range(0, len(these), MANIFEST_ENTRIES):
                part = these[start : start + MANIFEST_ENTRIES]
                entries = [_entry(ManifestEntryStatus.ADDED, one, self.snapshot_id, None, None) for one in part]
                yield self._manifest(entries, spec_id)

    def _without(self, manifest: ManifestFile, removed: frozenset[str], gone: list[DataFile]) -> ManifestFile:
        """The manifest anew, in which files are deleted."""
        entries = []
        for one in self.manifests.entries(manifest):
            deleted = one.data_file.file_path in removed
            status = ManifestEntryStatus.DELETED if deleted else ManifestEntryStatus.EXISTING
            by = self.snapshot_id if deleted else one.snapshot_id
            entries.append(_entry(status, one.data_file, by, one.sequence_number, one.file_sequence_number))
            if deleted:
                gone.append(one.data_file)
        return self._manifest(entries, manifest.partition_spec_id, origin_of(manifest.manifest_path))

    def _merged(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        """Small manifests as few larger ones, each of one spec."""
        specs = sorted({one.partition_spec_id for one in manifests})
        return [
            now for spec_id in specs for now in self._merged_of([one for one in manifests if one.partition_spec_id == spec_id])
        ]

    def _merged_of(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        groups = merged([_live(one) for one in manifests])
        taken = {place for group in groups for place in group}
        now = [one for place, one in enumerate(manifests) if place not in taken]
        for group in groups:
            entries = [entry for place in group for entry in self.manifests.entries(manifests[place])]
            same = [
                _entry(
                    ManifestEntryStatus.EXISTING, one.data_file, one.snapshot_id, one.sequence_number, one.file_sequence_number
                )
                for one in entries
            ]
            now.append(self._manifest(same, manifests[group[0]].partition_spec_id))
        return now

    def _manifest(self, entries: Sequence[ManifestEntry], spec_id: int, origin: str | None = None) -> ManifestFile:
        self._made_large = self._made_large or (origin is None and len(entries) >= _LARGE)
        output = self.io.new_output(self._new_location("m", "avro" if origin is None else f"of-{origin}.avro"))
        spec = self.spec if self.spec and self.spec.spec_id == spec_id else self.metadata.specs().get(spec_id)
        spec = spec or PartitionSpec(spec_id=spec_id)
        writer = _Writer(spec, self.schema, output, self.snapshot_id, _CODEC)
        with writer:
            for entry in entries:
                writer.add_entry(entry)
        live = (one.data_file.file_path for one in entries if one.status != ManifestEntryStatus.DELETED)
        self.manifests.knows(output.location, frozenset(live))
        return writer.to_manifest_file()

    def _index(self, manifests: Iterable[ManifestFile]) -> str:
        """Write an index of the large manifests; returns its name."""
        known, told = self.manifests.index(self.metadata), dict[str, Digests]()
        for one in manifests:
            origin = origin_of(one.manifest_path)
            if origin is not None and (origin in known.of or _live(one) >= _LARGE):
                told[origin] = known.of[origin] if origin in known.of else digests(self.manifests.files(one))
        location = self._new_location("files", "json")
        with self.io.new_output(location).create() as stream:
            stream.write(FileIndex(told).encode())
        return location.rpartition("/")[2]

    def _list(self, manifests: list[ManifestFile]) -> str:
        output = self.io.new_output(self._new_location("snap"))
        current = self.metadata.current_snapshot()
        with write_manifest_list(
            format_version=2,
            output_file=output,
            snapshot_id=self.snapshot_id,
            parent_snapshot_id=None if current is None else current.snapshot_id,
            sequence_number=self.metadata.last_sequence_number + 1,
            avro_compression=_CODEC,
        ) as writer:
            writer.add_manifests(manifests)
        return output.location

    def _new_location(self, kind: str, ending: str = "avro") -> str:
        between = "-" if ending.startswith("of-") else "."
        location = f"{self.location}/metadata/{kind}-{self.name()}{between}{ending}"
        self.written.append(location)
        return location


def manifests_of(io: FileIO, manifest_list: str) -> list[ManifestFile]:
    """The manifests that a list names. Raises CorruptTable, StoreError."""
    with _readable(manifest_list):
        return list(read_manifest_list(io.new_input(manifest_list)))


@contextlib.contextmanager
def _readable(location: str) -> Iterator[None]:
    """Where a file of the metadata is missing or damaged, a CorruptTable says so."""
    try:
        yield
    except (ObjectNotFound, ValueError, EOFError, LookupError, TypeError, AssertionError, zlib.error) as error:
        raise CorruptTable(
            f"{location} is missing or cannot be read",
            why=f"{type(error).__name__}: {error}",
            fix="`gapless repair --apply` describes the table anew",
            path=location,
        ) from error


def _tally(files: Sequence[DataFile]) -> Tally:
    return Tally(
        files=len(files), rows=sum(one.record_count for one in files), bytes=sum(one.file_size_in_bytes for one in files)
    )


def _partition(file: DataFile) -> tuple[tuple[bool, Any], ...]:
    """Its partition as values that can be ordered: null comes first."""
    values = (file.partition[at] for at in range(len(file.partition)))
    return tuple((value is not None, value) for value in values)


def _live(manifest: ManifestFile) -> int:
    """How many live files it has."""
    return (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)


def _entry(
    status: ManifestEntryStatus, file: DataFile, snapshot_id: int | None, sequence: int | None, file_sequence: int | None
) -> ManifestEntry:
    return ManifestEntry.from_args(
        status=status, snapshot_id=snapshot_id, sequence_number=sequence, file_sequence_number=file_sequence, data_file=file
    )
