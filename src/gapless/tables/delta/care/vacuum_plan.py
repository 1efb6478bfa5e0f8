"""Plan the VACUUM of a Delta table: which files go, and why each of the others stays. Pure.

What the log does not name goes only where its name and folder are such as Delta's writers give; a path of the log may be a URL.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote

from gapless.formats.delta.actions import AddFile, Commit, DeletionVector, RemoveFile, TableState
from gapless.formats.delta.deletion_vector import vector_path
from gapless.formats.delta.file_path import RelativePath, locate
from gapless.model.instant import NS_PER
from gapless.model.protocols import ObjectInfo
from gapless.store.location import is_own_unfinished
from gapless.tables.shared.prepared import PREPARED_FOLDER
from gapless.tables.shared.vacuum import FileStatus, Limits, Reason, VacuumEntry, plan_entries

CHANGES_FOLDER = "_change_data"
_UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_DATA = re.compile(rf"(?:part|cdc)-\d+-{_UUID}.*\.parquet", re.ASCII | re.DOTALL)
_VECTOR = re.compile(rf"deletion_vector_{_UUID}\.bin", re.ASCII)
_DIGEST = re.compile("[0-9a-f]{32}", re.ASCII)
_LOGS = ("_delta_log", "_timeseries_log", ".hoodie")
_ICEBERG = re.compile(r"(.*/)?metadata/[^/]*\.metadata\.json", re.DOTALL)
_SCHEMES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfs": "az", "abfss": "az"}
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/]*)(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class FileOutsideTable:
    """A file that the log names by a path which does not begin as the table's root does."""

    name: str
    """The last part of its path."""


def place_of(path: str, root: str) -> str | FileOutsideTable:
    """Where the file of a log's path lies, relative to the table's root, whose URL is `root`; raises CorruptTable, UnsupportedTable.

    >>> place_of("s3a://b//t/day=%C3%BC/x.parquet", "s3://b/t")
    'day=ü/x.parquet'
    """
    found = locate(path)
    if isinstance(found, RelativePath):
        return posixpath.normpath(found.path)
    bucket, below = _normal(found.url)
    root_bucket, root_path = _normal(root)
    inside = bucket in ("", root_bucket) and below.startswith(f"{root_path.rstrip('/')}/")
    return below[len(root_path.rstrip("/")) + 1 :] if inside else FileOutsideTable(posixpath.basename(below))


def _normal(url: str) -> tuple[str, str]:
    """A URL's bucket, with its scheme, and its path: one text for spellings that mean the same."""
    match = _URL.fullmatch(url)
    if match is None or match[1].lower() == "file":
        return "", posixpath.normpath("/" + (url if match is None else match[3]).lstrip("/"))
    scheme = match[1].lower()
    return f"{_SCHEMES.get(scheme, scheme)}://{match[2]}", posixpath.normpath("/" + match[3].lstrip("/"))


def is_written_here(path: str, partitions: Collection[str]) -> bool:
    """Whether a path (relative to the root) is such as writers give to data files, change files and deletion vectors of a table with these
    partition columns.
    """
    *folders, name = path.removeprefix(f"{CHANGES_FOLDER}/").split("/")
    if _VECTOR.fullmatch(name) is not None:
        return len(folders) <= 1 and not any(folder.startswith((".", "_")) for folder in folders)
    return _DATA.fullmatch(name) is not None and all(_is_partition(folder, partitions) for folder in folders)


def _is_partition(folder: str, partitions: Collection[str]) -> bool:
    name, equals, _ = folder.partition("=")
    return bool(equals and unquote(name) in partitions) or bool(partitions and _DIGEST.fullmatch(folder))


def nested_tables(paths: Collection[str]) -> frozenset[str]:
    """The folders below the root in which another table lies, as far as objects with these paths show it."""
    found = set()
    for path in paths:
        parts = path.split("/")
        found |= {"/".join(parts[:at]) for at, part in enumerate(parts[:-1]) if at and part in _LOGS}
        if match := _ICEBERG.fullmatch(path):
            found |= {match[1].rstrip("/")} if match[1] else set()
    return frozenset(found)


Entries = Sequence[tuple[int, Commit, int]]
"""Commits as (version, commit, commit time in ns), oldest first."""

_LASTING: dict[Reason, int] = {"live": 3, "retained": 2, "published": 1, "expired": 0}
"""Where a file is named several times, the highest holds."""


@dataclass(slots=True)
class _Named:
    """What becomes of the files that the log names, by path relative to the root."""

    root: str
    statuses: dict[str, FileStatus] = field(default_factory=dict)
    elsewhere: set[str] = field(default_factory=set)
    """Names of needed files that lie elsewhere, or seem to."""

    def note(self, path: str, status: FileStatus, *, encoded: bool = True) -> None:
        """Take in a path as the log has it."""
        place = place_of(path, self.root) if encoded else path
        if isinstance(place, FileOutsideTable):
            if status.reason != "expired":
                self.elsewhere.add(place.name)
            return
        known = self.statuses.get(place)
        if known is None or _LASTING[status.reason] > _LASTING[known.reason]:
            self.statuses[place] = status

    def note_file(self, file: AddFile | RemoveFile, status: FileStatus) -> None:
        """Take in a data file with its deletion vector."""
        self.note(file.path, status)
        if (vector := file.deletion_vector) is not None and vector.storage != "i":
            self.note(vector_path(vector), status, encoded=vector.storage == "p")


def plan_vacuum(
    state: TableState,
    entries: Entries,
    stored: Collection[ObjectInfo],
    limits: Limits,
    *,
    root: str,
    linked: frozenset[str] = frozenset(),
    prepared: frozenset[str] = frozenset(),
    described: int | None = None,
) -> tuple[VacuumEntry, ...]:
    """Say of each stored object outside the log what becomes of it, by the newest state and the commits that the log still has.

    Every object was listed before these were read: one that was committed in between is then named by them. What the log does not name goes
    only where its name is one that Delta's writers give, in a folder where they put it. `root` is the table's URL, `linked` are folders that
    symbolic links lead to, in which nothing may go, `prepared` the paths that prepared commits keep, `described` the earliest version that another
    format describes still.
    """
    named = _named(state, entries, limits, root, described)
    partitions = _partition_names(state)
    protected = linked | nested_tables([info.path for info in stored])

    def status_of(info: ObjectInfo) -> FileStatus:
        if (known := named.statuses.get(info.path)) is not None:
            return known
        return FileStatus("prepared") if info.path in prepared else _status_of_unnamed(info, named, partitions, limits)

    return plan_entries(stored, status_of, protected)


def _named(state: TableState, entries: Entries, limits: Limits, root: str, described: int | None) -> _Named:
    named = _Named(root)
    # Of what was removed before the log's first commit it is not known when.
    first = entries[0][0] if entries else 0
    for version, commit, time_ns in entries:
        for gone in commit.removed:
            named.note_file(gone, _held(_status_of_removed(gone, limits, version, time_ns), version, described))
        for change in commit.change_files:
            # 0: neither this commit nor one before it says when.
            kept = time_ns == 0 or limits.now_ns - time_ns < limits.older_than_ns
            named.note(change.path, FileStatus("retained", version) if kept else FileStatus("expired"))
    for gone in state.removed.values():
        named.note_file(gone, _held(_status_of_removed(gone, limits, None, 0), first, described))
    for live in state.files.values():
        named.note_file(live, FileStatus("live"))
    return named


def _held(status: FileStatus, removed: int, described: int | None) -> FileStatus:
    """The status of a file that a version removed, where an earlier one is described in another format."""
    held = status.reason == "expired" and described is not None and removed > described
    return FileStatus("published", described) if held else status


def _status_of_removed(gone: RemoveFile, limits: Limits, version: int | None, time_ns: int) -> FileStatus:
    # A writer may say when its change began, which can be long before its commit.
    removed_ns = max(time_ns, (gone.deleted_ms or 0) * NS_PER["ms"])
    if limits.now_ns - removed_ns < limits.older_than_ns:
        return FileStatus("retained", None if version is None else version - 1)
    return FileStatus("expired")


def _status_of_unnamed(info: ObjectInfo, named: _Named, partitions: Collection[str], limits: Limits) -> FileStatus:
    """What becomes of a file that the log does not name."""
    if info.path.rpartition("/")[2] in named.elsewhere:
        # The log may call the table's place by another name than we do.
        return FileStatus("live")
    ours = is_own_unfinished(info.path) or info.path.startswith(f"{PREPARED_FOLDER}/")
    if ours or is_written_here(info.path, partitions):
        return FileStatus(limits.reason_of_unnamed(info.modified_ns))
    return FileStatus("unknown")


def _partition_names(state: TableState) -> frozenset[str]:
    fields = (state.metadata.schema.field(name) for name in state.metadata.partition_by)
    return frozenset(name for one in fields if one is not None for name in (one.name, one.physical_name))


def paths_needed(commit: Commit, root: str) -> Iterator[str]:
    """The paths below the root of files that a commit makes live, of their deletion vectors, and of its change files."""
    for change in commit.change_files:
        if not isinstance(place := place_of(change.path, root), FileOutsideTable):
            yield place
    for file in commit.added:
        if not isinstance(place := place_of(file.path, root), FileOutsideTable):
            yield place
        if file.deletion_vector is not None:
            yield from _vector_place(file.deletion_vector, root)


def _vector_place(vector: DeletionVector, root: str) -> Iterator[str]:
    if vector.storage == "u":
        yield vector_path(vector)
    elif vector.storage == "p" and not isinstance(place := place_of(vector_path(vector), root), FileOutsideTable):
        yield place
