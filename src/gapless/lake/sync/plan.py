"""Which manifests of a table go from one side to the other, and what keeps them from it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from gapless.errors import CorruptTable
from gapless.lake.layout.manifest import RunFile
from gapless.lake.layout.snapshots import Snapshot, live_rows
from gapless.lake.sync.side import Contents

ConflictKind = Literal["config", "schema", "log", "bytes", "snapshots"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """One thing in which two copies of a lake differ so that neither is the other's past."""

    kind: ConflictKind
    table: str | None
    """None where it is about `lake.toml`."""
    what: str
    """For people, with what to do."""
    difference: str = ""
    """Of `lake.toml`: the lines that differ, from the other side's to ours."""


class Refused(Exception):
    """A table cannot be brought together."""

    def __init__(self, conflict: Conflict) -> None:
        """`conflict` says why."""
        super().__init__(conflict.what)
        self.conflict = conflict


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePlan:
    """What is copied of a table: files, then manifests of runs, then of snapshots."""

    files: tuple[tuple[str, RunFile], ...]
    """Paths below the lake's root."""
    manifests: tuple[str, ...]
    """Paths, in the order in which they are put."""
    new: Contents
    """The manifests and snapshots that are copied."""


def plan_table(table: str, source: Contents, target: Contents, snapshot: str | None = None) -> TablePlan:
    """What `target` lacks of the rows of `source`; all its rows, or those of one `snapshot` alone. Raises Refused, CorruptTable, InvalidOption."""
    _check_same(table, source, target)
    theirs = live_rows(tuple(source.manifests.values()), source.snapshots, snapshot)
    newest = max(target.snapshots, default="")
    chain = theirs.snapshots if theirs.snapshots and (snapshot or theirs.snapshots[-1].name > newest) else ()
    snapshots = [one for one in chain if one.name not in target.snapshots]
    covered: set[tuple[str, str]] = set()
    if snapshot is None:
        after = live_rows((), {**target.snapshots, **{one.name: one for one in snapshots}})
        covered = {(run.run, run.node) for one in after.snapshots for run in one.runs}
    manifests = [
        path
        for path, one in sorted(source.manifests.items(), key=lambda item: (item[1].run, item[1].node))
        if snapshot is None and path not in target.manifests and (one.run, one.node) not in covered
    ]
    if snapshot is None:
        _check_nothing_lost(table, source, target, covered)
    new = Contents(
        manifests={path: source.manifests[path] for path in manifests},
        snapshots={one.name: one for one in snapshots},
        data={path: source.data[path] for path in (*manifests, *(one.path for one in snapshots))},
    )
    return TablePlan(files=tuple(_files(new, snapshots)), manifests=(*manifests, *(one.path for one in snapshots)), new=new)


def _files(new: Contents, snapshots: list[Snapshot]) -> Iterator[tuple[str, RunFile]]:
    for one in new.manifests.values():
        yield from ((f"{one.folder}/{file.path}", file) for file in (*one.files, *one.quarantined))
    for snapshot in snapshots:
        yield from ((f"{snapshot.folder}/{file.path}", file) for file in snapshot.files)
        for run in snapshot.runs:
            yield from ((f"{run.folder}/{file.path}", file) for file in run.quarantined)


def _check_same(table: str, source: Contents, target: Contents) -> None:
    for path, data in source.data.items():
        if target.data.get(path, data) != data:
            raise Refused(different_bytes(table, path))


def different_bytes(table: str, path: str) -> Conflict:
    """The conflict of two objects of one name."""
    return Conflict(
        kind="bytes",
        table=table,
        what=f"{path} has other bytes on the other side. Two nodes have one name, or one of the files is damaged: gapless lake doctor --deep says "
        "which; remove that one, and give each node its own --node",
    )


def _check_nothing_lost(table: str, source: Contents, target: Contents, covered: set[tuple[str, str]]) -> None:
    """Of a run whose files are gone on both sides, the newest snapshot needs to have the rows."""
    known, there = set[tuple[str, str]](), set[tuple[str, str]](covered)
    for side in (source, target):
        known |= {(run.run, run.node) for one in side.snapshots.values() for run in one.runs}
        there |= {(one.run, one.node) for one in side.manifests.values()}
    if lost := sorted(known - there):
        raise Refused(
            Conflict(
                kind="snapshots",
                table=table,
                what=f"{len(lost)} runs of {table}, of which the first is {lost[0][0]}, are only in a snapshot that the newest one of both sides does "
                "not follow. Their rows stay on the side that has them: copy them into a table of another name, and push before expiry",
            )
        )


def newest_chain(contents: Contents) -> tuple[Snapshot, ...]:
    """The snapshots that are read for a table's newest rows. Raises CorruptTable."""
    return live_rows((), contents.snapshots).snapshots


def check_complete(table: str, contents: Contents, named: frozenset[str]) -> None:
    """Raise CorruptTable where a head names manifests that are not there and no snapshot has: a copy that was broken off."""
    covered = {run.path for one in newest_chain(contents) for run in one.runs}
    names = {one.path for one in contents.snapshots.values()}
    gone = sorted(path for path in named - contents.manifests.keys() - covered - names if "/runs/" in path)
    if gone:
        raise CorruptTable(
            f"{gone[0]} of {table} is not there, though the head of the copy names it",
            why="The copy was broken off, or somebody removed the run",
            fix="Copy it again to the end, or push anew",
            path=gone[0],
        )
