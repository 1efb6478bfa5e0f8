"""`verify` for Delta tables: the log's bytes, and every live file held against what the log says of it. It writes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gapless.errors import CorruptTable, GaplessError, InvalidPath, ObjectNotFound, UnsupportedTable
from gapless.files.pages.column_stats import stats_of
from gapless.files.read.source import open_object
from gapless.formats.delta.actions import AddFile, Commit, Metadata, TableState
from gapless.formats.delta.features import check_readable
from gapless.formats.delta.format import DELTA
from gapless.formats.delta.stats_codec import ColumnPath, FileStats, parse_stats
from gapless.log.format import Snapshot, StoredCheckpoint
from gapless.model.stats import ColumnStats
from gapless.publish.sources.delta import DeltaSource
from gapless.runtime.environment import Environment
from gapless.tables.delta.files.open_file import ResolvedPath, read_vector
from gapless.tables.delta.files.reading import FileReader
from gapless.tables.delta.handle import DeltaHandle
from gapless.tables.shared.findings import Finding, LiveFile, Progress, VerifyReport, count, no_progress, numbers_of
from gapless.tables.shared.publication.check import check_publications


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCheck:
    """Looks at the files of one version."""

    metadata: Metadata
    reader: FileReader

    def look(self, file: AddFile, *, deep: bool) -> Iterator[Finding]:
        """What is not as the log says; nothing more is said of a file that is missing. Raises StoreError."""
        stats = parse_stats(file.stats, self.metadata.schema, deleted=file.deletion_vector is not None)
        live = LiveFile("file", file.path)
        try:
            place = self.reader.places.of(file.path)
            found = tuple(self._stored(live, file, place, stats))
            yield from found
            deleted = self._deleted(file)
            if deep and not found:
                yield from self._rows(live, file, stats, deleted)
        except (ObjectNotFound, InvalidPath):
            yield live.missing()
        except (CorruptTable, UnsupportedTable) as error:
            yield live.finding("segment-unreadable", f"cannot be read: {error.what}")

    def _stored(self, live: LiveFile, file: AddFile, place: ResolvedPath, stats: FileStats) -> Iterator[Finding]:
        size = place.store.head(place.path).size
        if size != file.size:
            yield from live.check_size(size, file.size)
            return
        try:
            with pq.ParquetFile(open_object(place.store, place.path, size)) as opened:
                rows = opened.metadata.num_rows
        except (pa.ArrowException, OSError) as error:
            yield live.finding("segment-unreadable", f"is no Parquet file: {error}")
            return
        yield from live.check_rows(rows, stats.rows)

    def _deleted(self, file: AddFile) -> int:
        """How many rows its deletion vector deletes; raises CorruptTable where that is missing or damaged, or deletes another number."""
        vector = file.deletion_vector
        return 0 if vector is None else len(read_vector(self.reader.places, vector))

    def _rows(self, live: LiveFile, file: AddFile, stats: FileStats, deleted: int) -> Iterator[Finding]:
        rows, columns, invalid = 0, dict[ColumnPath, list[ColumnStats]](), set[str]()
        for batch in self.reader.batches(file):
            yield from live.check_values(batch, rows, invalid)
            rows += batch.num_rows
            for path in stats.columns:
                if path[0] in batch.schema.names:
                    columns.setdefault(path, []).append(stats_of(_leaf(pa.Table.from_batches([batch]), path)))
        if stats.rows is not None and rows != stats.rows - deleted:
            what = f"has {count(rows, 'live row')}, and the log says {stats.rows - deleted:,}"
            yield live.finding("rows-differ", what)
        # Statistics count deleted rows, too; of a column of nulls only, that is still known.
        known = {
            path: replace(told, nulls=rows) if deleted and told.nulls is not None and told.nulls == stats.rows else told
            for path, told in stats.columns.items()
        }
        yield from live.check_stats(columns, known)


def _leaf(table: pa.Table, path: ColumnPath) -> pa.ChunkedArray:
    column = table.column(path[0])
    return pc.struct_field(column, list(path[1:])) if path[1:] else column


def verify_delta(env: Environment, *, deep: bool = False, progress: Progress = no_progress) -> VerifyReport:
    """Look at a whole log, and at every live file: its size, its footer's number of rows, its deletion vector; `deep` reads every row.

    Delta's log has no checksums of data files, so `unchecked` counts them all. Raises StoreError.
    """
    view = examine_delta_log(env)
    findings: list[Finding] = list(view.findings)
    files = [] if view.state is None else list(view.state.files.values())
    if view.state is not None and not (unsupported := _unsupported(env, view.state)):
        metadata = view.state.metadata
        check = FileCheck(metadata=metadata, reader=FileReader.of(env.store, metadata))
        for done, file in enumerate(files, 1):
            findings += check.look(file, deep=deep)
            progress(done, len(files))
        findings += check_publications(env, DeltaSource(env, Snapshot(view.newest or 0, 0, view.state)))
    elif view.state is not None:
        findings += unsupported
    return VerifyReport(
        url=env.store.url,
        version=view.newest,
        deep=deep,
        commits=view.commits,
        segments=len(files),
        bytes_read=0,
        unchecked=len(files),
        findings=tuple(findings),
    )


def _unsupported(env: Environment, state: TableState) -> list[Finding]:
    """What is to be said of a table that this release cannot read."""
    try:
        check_readable(state.protocol, env.store.url, state.metadata)
    except UnsupportedTable as error:
        return [Finding(code="commit-unsupported", path=DELTA.folder, what=error.what)]
    return []


class Verifying(DeltaHandle):
    """Verify a Delta table."""

    def verify(self, *, deep: bool = False) -> VerifyReport:
        """Look for damage in the table's log, and in all files that its newest version names, whichever version this handle sees.

        `deep` reads every row too. See `gl.verify`, which also takes a table that does not open. Raises StoreError.
        """
        return verify_delta(self._env, deep=deep)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaLogView:
    """A Delta log, as far as it can be read."""

    newest: int | None
    """The highest version of which there is a commit or a checkpoint; None where there is none."""
    commits: int
    """Commits that can be read."""
    state: TableState | None
    """The newest state, where nothing that it needs is lost."""
    findings: tuple[Finding, ...]


def examine_delta_log(env: Environment) -> DeltaLogView:
    """Read all commits and checkpoints of a log. Raises StoreError."""
    names = [info.path for info in env.store.list(DELTA.folder)]
    versions = sorted(version for name in names if (version := DELTA.version_of(name)) is not None)
    stored = DELTA.checkpoints_in(names)
    found: list[Finding] = []
    entries = dict(_commits(env, versions, found))
    checkpoints = dict(_checkpoints(env, stored, found))
    newest = max([*versions, *checkpoints], default=None)
    if newest is None:
        return DeltaLogView(newest=None, commits=0, state=None, findings=tuple(found))
    base = _base(entries, checkpoints)
    missing = sorted(set(range((-1 if base is None else base.version) + 1, newest + 1)) - set(versions))
    found.extend(_lost(missing))
    found.extend(_pointer(env, {one.version for one in stored}))
    damaged = sorted(set(versions) - set(entries))
    state = _folded(base, entries, checkpoints, newest, found)
    whole = state is not None and not missing and not [one for one in damaged if base is None or one > base.version]
    return DeltaLogView(newest=newest, commits=len(entries), state=state if whole else None, findings=tuple(found))


def _base(entries: dict[int, tuple[Commit, int]], checkpoints: dict[int, Snapshot[TableState]]) -> Snapshot[TableState] | None:
    """The checkpoint at which a cleaned log starts: the oldest; None for a log that starts at version 0."""
    return None if 0 in entries or not checkpoints else checkpoints[min(checkpoints)]


def _commits(env: Environment, versions: Sequence[int], found: list[Finding]) -> Iterator[tuple[int, tuple[Commit, int]]]:
    for version in versions:
        path = DELTA.path_of(version)
        try:
            yield version, DELTA.decode(env.store.get(path), version)
        except ObjectNotFound:  # cleaned meanwhile
            continue
        except CorruptTable as error:
            found.append(Finding(code="commit-damaged", path=path, what=error.what))
        except UnsupportedTable as error:
            found.append(Finding(code="commit-unsupported", path=path, what=error.what))


def _checkpoints(
    env: Environment, stored: Sequence[StoredCheckpoint], found: list[Finding]
) -> Iterator[tuple[int, Snapshot[TableState]]]:
    for one in stored:
        try:
            yield one.version, DELTA.assemble([env.store.get(path) for path in one.paths], one, env.drive)
        except ObjectNotFound:  # cleaned meanwhile
            continue
        except (CorruptTable, UnsupportedTable) as error:
            found.append(Finding(code="checkpoint-damaged", path=one.paths[0], what=error.what))


def _lost(missing: Sequence[int]) -> Iterator[Finding]:
    if missing:
        shown = numbers_of(range(missing[0], missing[-1] + 1)) if len(missing) == missing[-1] - missing[0] + 1 else str(missing)
        yield Finding(code="commit-missing", path=DELTA.path_of(missing[0]), what=f"the commit of {shown} is missing")


def _pointer(env: Environment, versions: set[int]) -> Iterator[Finding]:
    """What is to be said of `_last_checkpoint`, which is only a hint."""
    path = DELTA.last_checkpoint
    try:
        named = DELTA.decode_pointer(env.store.get(path))
    except ObjectNotFound:
        return
    if named is None:
        yield Finding(code="checkpoint-hint", path=path, what=f"{path} cannot be read", severity="note")
    elif named.version not in versions:
        what = f"{path} names a checkpoint of version {named.version}, which is not there"
        yield Finding(code="checkpoint-hint", path=path, what=what, severity="note")


def _folded(
    base: Snapshot[TableState] | None,
    entries: dict[int, tuple[Commit, int]],
    checkpoints: dict[int, Snapshot[TableState]],
    newest: int,
    found: list[Finding],
) -> TableState | None:
    """The state that the commits make, each checkpoint held against it on the way; None where it cannot be told."""
    state = None if base is None else base.state
    run: list[tuple[int, Commit, int]] = []
    for version in range(0 if base is None else base.version + 1, newest + 1):
        if version not in entries:
            return checkpoints[newest].state if newest in checkpoints else None
        run.append((version, *entries[version]))
        if version in checkpoints or version == newest:
            try:
                state, run = DELTA.replay(state, run), []
            except GaplessError as error:
                found.append(Finding(code="commit-contradicts", path=DELTA.path_of(version), what=error.what))
                return None
        if version in checkpoints and state is not None and (differs := _difference(checkpoints[version].state, state)):
            path = DELTA.checkpoint_path(version)
            what = f"the checkpoint of version {version} has other {differs} than the commits up to it"
            found.append(Finding(code="checkpoint-differs", path=path, what=what))
    return state


def _difference(stored: TableState, folded: TableState) -> str:
    """What of two states of one version is not the same, as a word; empty where all is."""
    if set(stored.files) != set(folded.files):
        return "files"
    if stored.protocol != folded.protocol:
        return "protocol"
    return "" if stored.metadata == folded.metadata else "metadata"
