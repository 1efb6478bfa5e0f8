"""Which manifests of a table go from one side to the other, and what keeps them from it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from gapless.errors import CorruptTable, InvalidOption, nearest
from gapless.lake.layout.manifest import RunFile
from gapless.lake.layout.partitions import is_within
from gapless.lake.layout.settings import TableSettings
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
    chain: tuple[Snapshot, ...] = ()
    """The snapshots that are read then, where partitions of them are wanted, or were."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a copy is to have of a table."""

    snapshot: str | None = None
    """Only this one; None for the newest."""
    partitions: tuple[str, ...] | None = None
    """Only these of it, without the runs behind it; None for all."""
    here: tuple[str, ...] | None = None
    """Those that the copy has of its snapshots by now; None where it has them whole."""

    @property
    def runs(self) -> bool:
        """Whether runs come along that are in no snapshot."""
        return self.snapshot is None and self.partitions is None


EVERYTHING = Wanted()


def plan_table(table: str, source: Contents, target: Contents, wanted: Wanted = EVERYTHING) -> TablePlan:
    """What `target` lacks of the rows of `source`. Raises Refused, CorruptTable, InvalidOption."""
    _check_same(table, source, target)
    theirs = live_rows(tuple(source.manifests.values()), source.snapshots, wanted.snapshot)
    newest = max(target.snapshots, default="")
    comes = theirs.snapshots and (wanted.snapshot or wanted.here is not None or theirs.snapshots[-1].name > newest)
    chain = theirs.snapshots if comes else ()
    snapshots = [one for one in chain if one.name not in target.snapshots]
    covered: set[tuple[str, str]] = set()
    if wanted.runs:
        after = live_rows((), {**target.snapshots, **{one.name: one for one in snapshots}})
        covered = {(run.run, run.node) for one in after.snapshots for run in one.runs}
    manifests = [
        path
        for path, one in sorted(source.manifests.items(), key=lambda item: (item[1].run, item[1].node))
        if wanted.runs and path not in target.manifests and (one.run, one.node) not in covered
    ]
    if wanted.runs:
        _check_nothing_lost(table, source, target, covered)
    new = Contents(
        manifests={path: source.manifests[path] for path in manifests},
        snapshots={one.name: one for one in snapshots},
        data={path: source.data[path] for path in (*manifests, *(one.path for one in snapshots))},
    )
    return TablePlan(
        files=tuple(_files(new, chain, target, wanted)),
        manifests=(*manifests, *(one.path for one in snapshots)),
        new=new,
        chain=() if wanted.partitions is None and wanted.here is None else tuple(chain),
    )


def _files(new: Contents, chain: Sequence[Snapshot], target: Contents, wanted: Wanted) -> Iterator[tuple[str, RunFile]]:
    for one in new.manifests.values():
        yield from ((f"{one.folder}/{file.path}", file) for file in (*one.files, *one.quarantined))
    for snapshot in chain:
        here = wanted.here if snapshot.name in target.snapshots else ()
        if here is None:
            continue
        for file in snapshot.files:
            if (wanted.partitions is None or is_within(file.path, wanted.partitions)) and not is_within(file.path, here):
                yield f"{snapshot.folder}/{file.path}", file
        for run in snapshot.runs if wanted.partitions is None else ():
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


def check_partitions(settings: TableSettings, contents: Contents, wanted: Wanted) -> None:
    """Raise InvalidOption where a table has no such partitions, and Refused where they would not tell the rows that are in them."""
    name, partitions = settings.name, wanted.partitions
    if partitions is None:
        return
    chain = live_rows((), contents.snapshots, wanted.snapshot).snapshots
    if settings.kind != "runs" or not settings.partition_by or not chain:
        raise InvalidOption(
            f"{name!r} has no partitions",
            why="They are those of snapshots, of tables with partition_by="
            + (", and it has no snapshot yet" if not chain else ""),
            fix="Pull the whole table" + (", or compact it first: lake.table(…).compact()" if settings.partition_by else ""),
            option="tables",
            value=name,
        )
    folders = {file.path.rpartition("/")[0] for one in chain for file in one.files}
    for one in partitions:
        if not is_within(one, wanted.here or ()) and not any(is_within(folder, [one]) for folder in folders):
            raise InvalidOption(
                f"the newest snapshot of {name!r} has no partition {one!r}",
                fix=nearest(one, folders),
                option="tables",
                value=one,
            )
    if len(chain) > 1 and settings.key and not {part.column for part in settings.partition_by} <= set(settings.key):
        raise Refused(
            Conflict(
                kind="snapshots",
                table=name,
                what=f"the newest snapshot of {name} adds rows to another, and a newer row of a key may be in a partition that is not wanted. Make a "
                f"complete one where runs are written: gapless lake compact {name}",
            )
        )


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
