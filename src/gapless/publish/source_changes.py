"""What the commits of a time-series table did, as publishers of every format need it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gapless.errors import NotSupported, VersionNotFound
from gapless.formats.timeseries.actions import TableMeta, TableState
from gapless.formats.timeseries.conflict.rules import change_of
from gapless.formats.timeseries.format import TIME_SERIES
from gapless.log.format import Snapshot
from gapless.log.snapshot import load
from gapless.log.versions import read_range
from gapless.model.segment import Segment
from gapless.runtime.environment import Environment


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceChange:
    """What a commit did to the files and columns of a table."""

    version: int
    time_ns: int
    """Its commit time, nanoseconds since 1970 UTC."""
    operation: str
    """What the log calls it."""
    parameters: Mapping[str, object]
    meta: TableMeta
    """The table's from this version on."""
    added: tuple[Segment, ...] = ()
    removed: tuple[str, ...] = ()
    """Paths."""
    changes_rows: bool = True
    """False where rows were only laid out anew."""


def changes_after(env: Environment, newest: Snapshot[TableState], published: int) -> list[SourceChange] | None:
    """The commits after version `published` up to `newest`, oldest first; None where the log was cleaned of one of them.

    Raises CorruptTable, StoreError.
    """
    if published >= newest.version:
        return []
    try:
        commits = env.drive(read_range(TIME_SERIES, published + 1, newest.version + 1))
        meta = newest.state.meta
        if any(entry.meta is not None for _, entry, _ in commits):
            before = env.drive(load(TIME_SERIES, published))
            meta = meta if before is None else before.state.meta
    except VersionNotFound:
        return None
    changes = []
    for version, entry, time_ns in commits:
        meta = entry.meta or meta
        changes.append(
            SourceChange(
                version=version,
                time_ns=time_ns,
                operation=entry.operation,
                parameters=entry.parameters,
                meta=meta,
                added=entry.added,
                removed=entry.removed,
                changes_rows=change_of(entry) != "compact",
            )
        )
    return changes


def check_files(segments: Iterable[Segment]) -> None:
    """Raise NotSupported where rows of a table that is to be published lie in no file."""
    inlined = sum(segment.data is not None for segment in segments)
    if inlined:
        raise NotSupported(
            f"{inlined} appends lie in the log, not in files, and cannot be published",
            why="Readers of other formats read files alone",
            fix="Call compact() first, which writes them into files",
            feature="publishing of inlined rows",
        )


def whole_table(snapshot: Snapshot[TableState]) -> SourceChange:
    """All that a version has, as one change: what a description begins with, or goes on with past versions whose commits are cleaned away."""
    state = snapshot.state
    return SourceChange(
        version=snapshot.version,
        time_ns=snapshot.time_ns,
        operation="publish",
        parameters={},
        meta=state.meta,
        added=state.segments,
    )
