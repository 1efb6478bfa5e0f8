"""The manifest of a snapshot, into which runs were compacted; and which files of a table are read. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from gapless.errors import CorruptTable, InvalidOption
from gapless.lake.layout.manifest import FORMAT, MANIFEST, Manifest, RunFile, check_format, damaged, load_sealed, manifest_of
from gapless.model.instant import NS_PER
from gapless.tables.shared.prepared import sealed


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Rows of several runs in files of their own, which never change."""

    table: str
    name: str
    """When it was begun, as in `20261130T190000.000000Z`: names sort by time."""
    base: str | None = None
    """The snapshot that it adds rows to, which is read with it; None where it is complete."""
    runs: tuple[Manifest, ...]
    """What was committed of the runs whose rows it has, without their files; of a complete one those of all snapshots before, too."""
    schema_version: int
    files: tuple[RunFile, ...]
    rows: int
    written_by: str

    @property
    def complete(self) -> bool:
        """Whether it has all rows up to it, by itself."""
        return self.base is None

    @property
    def folder(self) -> str:
        """Where it lies."""
        return snapshot_folder(self.table, self.name)

    @property
    def path(self) -> str:
        """That of its manifest."""
        return f"{self.folder}/{MANIFEST}"

    def encode(self) -> bytes:
        """The document, with its checksum."""
        return sealed({
            "format": FORMAT,
            "table": self.table,
            "snapshot": self.name,
            "base": self.base,
            "complete": self.complete,
            "runs": [one.body for one in self.runs],
            "schema_version": self.schema_version,
            "files": [one.body for one in self.files],
            "rows": self.rows,
            "written_by": self.written_by,
        }).encode()  # fmt: skip


def snapshot_folder(table: str, name: str) -> str:
    """The folder of a snapshot, below the lake's root."""
    return f"tables/{table}/data/snapshot={name}"


def snapshot_name(now_ns: int, newest: str | None) -> str:
    """The name of a snapshot that is begun now, behind the newest there is.

    >>> snapshot_name(0, None)
    '19700101T000000.000000Z'
    """
    moment = datetime.fromtimestamp(now_ns // NS_PER["s"], UTC).replace(microsecond=now_ns % NS_PER["s"] // NS_PER["us"])
    name = moment.strftime("%Y%m%dT%H%M%S.%fZ")
    if newest is None or name > newest:
        return name
    after = datetime.strptime(newest, "%Y%m%dT%H%M%S.%fZ").replace(tzinfo=UTC)
    return snapshot_name(int(after.timestamp()) * NS_PER["s"] + (after.microsecond + 1) * NS_PER["us"], None)


def snapshot_time_ns(name: str) -> int:
    """When a snapshot was begun."""
    moment = datetime.strptime(name, "%Y%m%dT%H%M%S.%fZ").replace(tzinfo=UTC)
    return int(moment.replace(microsecond=0).timestamp()) * NS_PER["s"] + moment.microsecond * NS_PER["us"]


_NAME = re.compile(r"\d{8}T\d{6}\.\d{6}Z")


def decode_snapshot(data: bytes, path: str) -> Snapshot:
    """Read a snapshot's manifest. Raises CorruptTable, UnsupportedTable."""
    body = load_sealed(data, path)
    try:
        check_format(body, path)
        found = Snapshot(
            table=str(body["table"]),
            name=str(body["snapshot"]),
            base=body["base"],
            runs=tuple(manifest_of(one, path) for one in body["runs"]),
            schema_version=int(body["schema_version"]),
            files=tuple(map(RunFile.from_body, body["files"])),
            rows=int(body["rows"]),
            written_by=str(body["written_by"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise damaged(path, f"{type(error).__name__}: {error}") from error
    if found.path != path or not _NAME.fullmatch(found.name):
        raise damaged(path, f"It is that of {found.path}")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFile:
    """A file that is read for a table's rows."""

    path: str
    """Below the lake's root."""
    schema_version: int
    compacted: bool = False
    """It is a snapshot's, and says of each row of a table with a key which run brought it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRows:
    """What a table has: the snapshots that are read, and the runs that none of them has."""

    snapshots: tuple[Snapshot, ...] = ()
    manifests: tuple[Manifest, ...] = ()

    @property
    def files(self) -> tuple[LiveFile, ...]:
        """All files, snapshots' first."""
        compacted = [
            LiveFile(path=f"{one.folder}/{file.path}", schema_version=file.schema_version, compacted=True)
            for one in self.snapshots
            for file in one.files
        ]
        others = [
            LiveFile(path=f"{one.folder}/{file.path}", schema_version=file.schema_version)
            for one in self.manifests
            for file in one.files
        ]
        return (*compacted, *others)


def live_rows(manifests: Sequence[Manifest], snapshots: Mapping[str, Snapshot], at: str | None = None) -> LiveRows:
    """What is read: the newest snapshot with those it adds to, and the runs that it has not; or the snapshot `at` alone.

    Raises InvalidOption where that is not there, or not any more; CorruptTable where one lacks what it adds to.
    """
    if at is None:
        chain = _chain(snapshots, max(snapshots, default=None))
        covered = {(run.run, run.node) for one in chain for run in one.runs}
        return LiveRows(snapshots=chain, manifests=tuple(one for one in manifests if (one.run, one.node) not in covered))
    if at not in snapshots:
        raise InvalidOption(
            f"the table has no snapshot {at!r}",
            why=f"The oldest that is left is {min(snapshots)!r}"
            if snapshots
            else "It was never compacted, or no snapshot is left",
            fix="Ask for one of lake.table(…).snapshots()",
            option="snapshot",
            value=at,
        )
    return LiveRows(snapshots=_chain(snapshots, at))


def _chain(snapshots: Mapping[str, Snapshot], name: str | None) -> tuple[Snapshot, ...]:
    chain = list[Snapshot]()
    while name is not None:
        if name not in snapshots:
            raise CorruptTable(
                f"the snapshot {name!r} is gone, to which {chain[-1].name!r} only adds rows",
                why="Someone else removed it: expiry keeps what others add to",
                fix="Bring its folder back from a replica or a backup",
                path=chain[-1].path,
            )
        chain.append(snapshots[name])
        name = chain[-1].base
    return tuple(reversed(chain))
