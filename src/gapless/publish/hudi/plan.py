"""A table in Hudi's words: its files as data files, its commits as instants. Pure."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from gapless.errors import CorruptTable, ForeignCommit, NotSupported
from gapless.formats.hudi.commits import DataFile, HudiCommit
from gapless.formats.hudi.names import GENESIS, parse_file_name
from gapless.formats.timeseries.actions import (
    DATA_FOLDER,
    PUBLISHERS_MS,
    SHARED_MS,
    STEP_MS,
    copy_path,
    instant_digits,
    is_copy,
    parse_own_name,
)
from gapless.model.instant import NS_PER
from gapless.publish.source import SourceChange, SourceFile

VERSION = "gapless.version"
_COPIES, _OLD_COPIES, _STRAYS = "gapless.copies", "gapless.old_copies", "gapless.strays"

_OPERATIONS: Mapping[str, str] = {
    "append": "INSERT",
    "overwrite": "INSERT_OVERWRITE_TABLE",
    "replace": "INSERT_OVERWRITE",
    "upsert": "UPSERT",
    "delete": "DELETE",
    "drop_before": "DELETE",
    "compact": "CLUSTER",
    "restore": "INSERT_OVERWRITE_TABLE",
    "alter": "ALTER_SCHEMA",
}
"""What Hudi calls the changes that it has names for; any other is UNKNOWN there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """What each commit tells of the table besides its own change, so that the newest says all."""

    version: int
    """That of the table which the commit publishes."""
    copies: Mapping[str, str] = field(default_factory=dict)
    """By the path of a live segment the name of the copy that is published in its place."""
    old_copies: Mapping[str, int] = field(default_factory=dict)
    """Copies that are seen no more, with the version that no longer had them."""
    strays: frozenset[str] = frozenset()
    """File ids that were hidden, and that no version had then: of attempts that failed, or that are still at work."""

    def encode(self) -> dict[str, str]:
        """As a commit has it beside its schema."""
        told: dict[str, object] = {_COPIES: self.copies, _OLD_COPIES: self.old_copies, _STRAYS: sorted(self.strays)}
        return {VERSION: str(self.version), **{key: json.dumps(value) for key, value in told.items() if value}}


def carried_of(commit: HudiCommit, instant: str, path: str) -> Carried:
    """What a commit tells of the table. Raises ForeignCommit for one without our mark, CorruptTable."""
    if VERSION not in commit.extra:
        raise foreign_commit(f"its commit {instant} was not made by gapless", instant)
    try:
        return Carried(
            version=int(commit.extra[VERSION]),
            copies=json.loads(commit.extra.get(_COPIES, "{}")),
            old_copies=json.loads(commit.extra.get(_OLD_COPIES, "{}")),
            strays=frozenset(json.loads(commit.extra.get(_STRAYS, "[]"))),
        )
    except ValueError as error:
        raise CorruptTable(
            f"{path} does not say what it publishes",
            why=str(error),
            fix="`gapless repair` begins the description of the table anew",
            path=path,
        ) from error


def foreign_commit(why: str, instant: str) -> ForeignCommit:
    """The error for a description that another writer changed, with its newest instant that is known."""
    return ForeignCommit(
        f"the Hudi table that describes the table was changed by another writer: {why}",
        why="It only describes files of the table, which another writer would damage, and its readers may miss our commits",
        fix="`gapless repair` begins the description anew; write to the table itself, with gl.open",
        format="hudi",
        published_version=int(instant),
    )


def operation_of(change: SourceChange) -> str:
    """What Hudi calls a change."""
    return _OPERATIONS.get(change.operation, "UNKNOWN")


@dataclass(frozen=True, slots=True)
class BasePath:
    """The base path of a Hudi table."""

    folder: str
    """Relative to the table root."""

    @property
    def has_copies_alone(self) -> bool:
        """Whether the table's files lie elsewhere, or under names that Hudi does not read, so that all are published as copies."""
        return self.folder != DATA_FOLDER

    def own_name(self, path: str) -> str | None:
        """The name of a file where it lies already; None where a copy must be made. Raises NotSupported for one that should lie there and cannot
        be read.
        """
        return None if self.has_copies_alone else base_name(path)

    def path(self, name: str) -> str:
        """Where a file of the base path lies."""
        return f"{self.folder}/{name}"


def is_copy_name(name: str) -> bool:
    """Whether a file of the base path is a copy."""
    return is_copy(f"{DATA_FOLDER}/{name}")


def base_name(path: str) -> str:
    """The name in the base path of a segment. Raises NotSupported for one that Hudi cannot read where it lies."""
    if parse_own_name(path) is None or not path.startswith(f"{DATA_FOLDER}/"):
        raise NotSupported(
            f"the segment {path} cannot be published as Hudi",
            why=f"Readers of Hudi look for files right in {DATA_FOLDER}/ alone, under names that say a file id and an instant",
            fix="Write its rows anew under a name of gapless: compact(resort=True), or an upsert of them; then expire and vacuum",
            feature="Hudi over files of other writers",
        )
    return path.removeprefix(f"{DATA_FOLDER}/")


def file_id(name: str) -> str:
    """The file id in a name that Hudi can read."""
    parsed = parse_file_name(name)
    assert parsed is not None
    return parsed.file_id


def instant_of(files: Iterable[SourceFile], base: BasePath) -> str | None:
    """The one instant that the names of all these say; None where there is none, or several, or a name says none."""
    names = (base.own_name(one.path) for one in files)
    parsed = {None if name is None or (told := parse_file_name(name)) is None else told.instant for name in names}
    return parsed.pop() if len(parsed) == 1 else None


def copies_to_begin_with(files: Iterable[SourceFile], base: BasePath, time_ns: int) -> dict[str, str]:
    """The names of the copies with which a description begins, by path: a function of the version alone."""
    paths = sorted(one.path for one in files if base.own_name(one.path) is None)
    instant = own_instant(time_ns, GENESIS)
    return {path: copy_name(path, number, instant) for number, path in enumerate(paths)}


def data_file(file: SourceFile, name: str) -> DataFile:
    """A file under the name of itself or of its copy."""
    return DataFile(name=name, rows=file.rows, size=file.size or 0)


def own_instant(time_ns: int, newest: str) -> str:
    """An instant of a publisher's own, for a commit of the table at `time_ns`: the last one before that, or the first after the instant `newest`
    where that is not before it.

    Never later than need be: an attempt that begins after the commit has a later one. It depends on nothing else, so that publishers that
    race for one version choose the same.

    >>> own_instant(10_000_000, "19700101000000000"), own_instant(0, "19700101000000007")
    ('19700101000000007', '19700101000000011')
    """
    at = time_ns // NS_PER["ms"]
    before = at - (at - SHARED_MS) % STEP_MS  # no attempt that begins after the commit has an earlier one
    ms = max(before - (before - PUBLISHERS_MS) % STEP_MS, _next_own_ms(_ms_of(newest)))
    return instant_digits(ms * NS_PER["ms"])


def _next_own_ms(ms: int) -> int:
    return ms + 1 + (PUBLISHERS_MS - ms - 1) % STEP_MS


def _ms_of(instant: str) -> int:
    own = parse_own_name(f"{DATA_FOLDER}/{uuid.UUID(int=0)}-0_0-0-0_{instant}.parquet")
    if own is None or own.instant_ns is None:
        raise foreign_commit(f"it has an instant {instant}, which is no time", instant)
    return own.instant_ns // NS_PER["ms"]


def copy_name(path: str, number: int, instant: str) -> str:
    """What the copy of a segment is called that is published at an instant; a function of these, so that racing publishers make one."""
    file_id = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{path}#{instant}"))
    return copy_path(file_id, number, instant).removeprefix(f"{DATA_FOLDER}/")


def published_commit(
    change: SourceChange,
    before: Carried,
    names: Mapping[str, str],
    schema: str,
    *,
    base: BasePath,
    strays: Iterable[str],
    earliest: int,
) -> tuple[HudiCommit, tuple[str, ...]]:
    """The commit that publishes a change of which each added segment is published under one of `names`, by its path; and the names of copies
    that no version has which is kept, from `earliest` on.

    `strays` are file ids to be hidden besides. None is hidden twice: as of an instant between the two Spark would show it.
    """
    gone = {path: before.copies.get(path) for path in change.removed}
    named = ((copy or base.own_name(path)) for path, copy in gone.items())
    hidden = [file_id(name) for name in named if name is not None]
    old = dict(before.old_copies) | {name: change.version for name in gone.values() if name is not None}
    copied = {path: name for path, name in names.items() if name != base.own_name(path)}
    originals = {file_id(own) for path in copied if (own := base.own_name(path)) is not None}
    shown = () if change.operation == "restore" else sorted(originals - before.strays)
    carried = Carried(
        version=change.version,
        copies={path: name for path, name in before.copies.items() if path not in gone} | copied,
        old_copies={name: version for name, version in old.items() if version > earliest},
        strays=before.strays.union(strays) - originals,
    )
    commit = HudiCommit(
        operation=operation_of(change),
        added=tuple(data_file(one, names[one.path]) for one in change.added),
        replaced=tuple(dict.fromkeys([*hidden, *shown, *strays])),
        schema=schema,
        extra=carried.encode(),
    )
    return commit, tuple(name for name, version in old.items() if version <= earliest)


def without_strays(carried: Carried, there: Iterable[str]) -> Carried:
    """The same without those strays whose files are there no more; `there` are the names in the base path."""
    if not carried.strays:
        return carried
    ids = {name.file_id for one in there if (name := parse_file_name(one)) is not None}
    return replace(carried, strays=carried.strays & ids)
