"""Time travel and DESCRIBE HISTORY of Delta tables: versions by number or commit time, and whether a vacuum left their files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from gapless.errors import VersionNotFound
from gapless.formats.delta.actions import AddFile, Commit, Json, RemoveFile, TableState
from gapless.formats.delta.deletion_vector import vector_path
from gapless.formats.delta.features import check_readable
from gapless.formats.delta.format import DELTA
from gapless.formats.delta.properties import Settings
from gapless.log import versions as log_versions
from gapless.log.effects import Conversation, Now, perform
from gapless.log.format import Snapshot
from gapless.log.segment import BATCH, list_log, read_commits
from gapless.log.snapshot import refresh
from gapless.log.versions import TooEarly, read_back, time_of
from gapless.model.operation import OperationId
from gapless.runtime.environment import TOGETHER, Environment
from gapless.tables.delta.files.open_file import PathResolver, ResolvedPath
from gapless.tables.shared.changes import duration_of
from gapless.tables.shared.handle import is_stored
from gapless.tables.shared.versions import Versions, explained


class DeltaVersions(Versions[Commit, TableState]):
    """The versions of a Delta table. Whether the files of one are still there is for `require_stored` to say."""

    table_format = DELTA

    def version_at(self, newest: Snapshot[TableState], time_ns: int) -> Conversation[int | TooEarly]:
        """By in-commit timestamps where there are some, which grow by themselves and are searched by halves; else commits are read from the
        first one on until one is later: a version's time is the latest of the times that it and those before it say.
        """
        if time_ns >= max(newest.time_ns, (yield from perform(Now()))):
            return newest.version
        earliest, end = (yield from earliest_version()), newest.version + 1
        stamped = _stamped_from(newest.state)
        if stamped is not None:
            end = max(stamped, earliest)
            found = yield from log_versions.version_at(DELTA, newest, time_ns, first=end)
            if not isinstance(found, TooEarly):
                return found
        first_ns = yield from time_of(DELTA, earliest)
        if time_ns < first_ns:
            return TooEarly(earliest, first_ns)
        return (yield from _first_later(earliest, end, time_ns)) - 1

    def why_gone(self, newest: TableState, first: int, time: str) -> tuple[str, str]:  # noqa: ARG002  # all versions have one answer
        """The log was cleaned of them."""
        return f"The log was cleaned of versions before {first}, which was committed at {time}", "Pass a later time"

    def check_readable(self, snapshot: Snapshot[TableState], url: str) -> None:
        """Raise UnsupportedTable where the protocol of that version is beyond this release."""
        check_readable(snapshot.state.protocol, url, snapshot.state.metadata)


VERSIONS = DeltaVersions()
find_version, open_version = VERSIONS.find, VERSIONS.open


def earliest_version() -> Conversation[int]:
    """The first version that the log can still tell; later than 0 where it was cleaned."""
    return (yield from list_log(DELTA)).cleaned_until(DELTA.first) or DELTA.first


def _stamped_from(state: TableState) -> int | None:
    """The first version with an in-commit timestamp; None where the table has none."""
    settings = Settings.of(state.configuration)
    return (settings.in_commit_timestamps_since or DELTA.first) if settings.in_commit_timestamps else None


def _first_later(start: int, end: int, time_ns: int) -> Conversation[int]:
    """The first version of `(start, end)` that was committed after a time; `end` where none was."""
    for first in range(start + 1, end, BATCH):
        for version, _, at_ns in (yield from read_commits(DELTA, range(first, min(first + BATCH, end)))):
            if at_ns > time_ns:
                return version
    return end


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionFiles:
    """The files of one version, which a vacuum may have deleted since."""

    env: Environment
    snapshot: Snapshot[TableState]
    newest: Snapshot[TableState] | None = None
    """The newest version, where this one is known to be an older one."""

    @contextmanager
    def reading(self, files: Sequence[AddFile]) -> Iterator[None]:
        """While these files are read: raises VersionNotFound where a vacuum deleted one; of a version that is known to be old before any is
        read, else instead of the CorruptTable that it looks like.
        """
        self._require(self.newest, files)
        with explained(lambda: self._require(self.env.drive(refresh(DELTA, self.snapshot)), files)):
            yield

    def _require(self, newest: Snapshot[TableState] | None, files: Sequence[AddFile]) -> None:
        if newest is not None and newest.version > self.snapshot.version:
            require_stored(self.env, self.snapshot.version, newest, files)


def require_stored(env: Environment, version: int, newest: Snapshot[TableState], files: Iterable[AddFile]) -> None:
    """Raise VersionNotFound where one of these files of an older version is gone, before anything of that version is read.

    Files that the newest version has are not asked for. The message names the earliest version all of whose files are there.
    """
    gone = first_missing(env, (file.path for file in files if file.key not in newest.state.files))
    if gone is not None:
        kept = earliest_stored(env, newest)
        raise VersionNotFound(
            f"version {version} can be read no longer: its file {gone} is gone",
            why=f"A vacuum deleted files that only older versions had; the earliest version that is whole is {kept}",
            fix=f"Read version {kept} or a later one",
            version=version,
        )


def earliest_stored(env: Environment, newest: Snapshot[TableState]) -> int:
    """The earliest version from which on every version has all its data files and deletion vectors stored, by the log that there is."""
    entries = env.drive(read_back(DELTA, newest.version))
    for version, commit, _ in reversed(entries):
        if first_missing(env, paths_of(commit.removed)) is not None:
            return version
    return max(env.drive(earliest_version()), entries[0][0] - 1 if entries else DELTA.first)


def paths_of(files: Iterable[AddFile | RemoveFile]) -> Iterator[str]:
    """The paths of data files and deletion vectors, as the log has them."""
    for file in files:
        yield file.path
        if file.deletion_vector is not None and file.deletion_vector.storage != "i":
            yield vector_path(file.deletion_vector)


def first_missing(env: Environment, paths: Iterable[str]) -> str | None:
    """The first of some files, by their paths in the log, that is not stored. Raises StoreError."""
    places = PathResolver(env.store)
    placed = {path: places.of(path) for path in sorted(set(paths))}
    if not env.store.capabilities.concurrent or len(placed) < 2:
        return next((path for path, place in placed.items() if not _is_stored(place)), None)
    with ThreadPoolExecutor(min(len(placed), TOGETHER)) as pool:
        found = pool.map(_is_stored, placed.values())
        return next((path for path, there in zip(placed, found, strict=True) if not there), None)


def _is_stored(place: ResolvedPath) -> bool:
    return is_stored(place.store, place.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaHistoryEntry:
    """One commit, as `history` shows it."""

    version: int
    time: datetime
    """Commit time from the log, UTC; never runs backward."""
    operation: str
    """Delta's name for it: WRITE, DELETE, MERGE, OPTIMIZE and the like."""
    engine: str
    parameters: Mapping[str, Json]
    metrics: Mapping[str, int]
    """What the writer counted, by Delta's names."""
    files: int
    """Files it made live."""
    bytes: int
    """Bytes of these."""
    removed_files: int
    """Files it took away."""
    read_version: int | None
    """The version it was decided on; None where the writer did not say."""
    isolation: str
    blind_append: bool
    """Whether it read nothing of the table."""
    user: str | None
    """Who committed, as far as the writer said."""
    message: str | None
    """What the writer noted (`userMetadata`)."""
    operation_id: OperationId | None
    duration: timedelta | None
    """From the call to the commit; None where the writer did not say."""
    commit_id: str


def history_entry(version: int, commit: Commit, time: datetime) -> DeltaHistoryEntry:
    """A commit as `history` shows it."""
    added = commit.added
    user = commit.info.get("userName") or commit.info.get("userId")
    message = commit.info.get("userMetadata")
    return DeltaHistoryEntry(
        version=version,
        time=time,
        operation=commit.operation,
        engine=commit.engine,
        parameters=commit.parameters,
        metrics=commit.metrics,
        files=len(added),
        bytes=sum(file.size for file in added),
        removed_files=len(commit.removed),
        read_version=commit.read_version,
        isolation=commit.isolation,
        blind_append=commit.blind_append,
        user=None if user is None else str(user),
        message=None if message is None else str(message),
        operation_id=commit.operation_id,
        duration=duration_of(commit.duration_ms),
        commit_id=commit.id,
    )
