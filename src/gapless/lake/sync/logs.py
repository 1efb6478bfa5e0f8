"""Tables with a log of their own: data files first, then the log's entries in order of version."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gapless.lake.layout.settings import TableKind
from gapless.lake.sync.objects import Copier
from gapless.lake.sync.plan import Conflict, Refused
from gapless.lake.sync.side import Side

_LOGS: Mapping[TableKind, str] = {"timeseries": "_timeseries_log", "delta": "_delta_log"}
_NOT_COPIED = ("_staged", "_prepared", "_delta_log", "metadata", ".hoodie", "_iceberg")
"""Scratch, and descriptions in other formats, which name places: publish the copy anew. The table's own log comes by itself."""
_HINTS = ("CURRENT", "_last_checkpoint")
"""Not copied: they may name a version that is not; without them a log is listed."""
_COMMIT = re.compile(r"(\d+)\.json")
_NUMBERED = re.compile(r"\.?(\d+)\.")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPlan:
    """What is copied of a table's own log."""

    version: int | None
    """The version that the target has then; None where neither side has one."""
    before: int | None
    """The version that it has now."""
    data: tuple[str, ...] = ()
    entries: tuple[str, ...] = ()
    """In the order in which they are put."""


def plan_log(table: str, kind: TableKind, source: Side, target: Side) -> LogPlan:
    """What `target` lacks of the log of `source`. Raises Refused where the logs went on differently; StoreError."""
    root = f"tables/{table}/table"
    folder = f"{root}/{_LOGS[kind]}"
    limit = None if source.head is None or table not in source.head.tables else source.head.tables[table].log_version
    entries = {path: number for path, number in _numbered(source, folder) if limit is None or number is None or number <= limit}
    ours, theirs = _commits(entries, folder), _commits(dict(_numbered(target, folder)), folder)
    newest = max(theirs, default=None)
    if not ours:
        return LogPlan(version=newest, before=newest)
    _check_same_log(table, source, target, ours, theirs)
    if newest is not None and newest >= max(ours):
        return LogPlan(version=newest, before=newest)
    if newest is not None and newest + 1 not in ours:
        raise Refused(
            _conflict(
                table,
                f"the log of {table} was cleaned up past version {newest}, which is the newest of the other side: copy it into a new place",
            )
        )
    data = tuple(path for path in _data(source, root) if not path.startswith(f"{folder}/"))
    return LogPlan(version=max(ours), before=newest, data=data, entries=tuple(_ordered(entries, ours, newest)))


def copy_data(copier: Copier, plan: LogPlan) -> None:
    """Put the data files. Raises Refused, StoreError."""
    for path in plan.data:
        copier.copy(path)


def copy_entries(copier: Copier, plan: LogPlan) -> None:
    """Put the entries of the log, each of which makes a version. Raises Refused, StoreError."""
    for path in plan.entries:
        copier.copy(path)


def _numbered(side: Side, folder: str) -> Iterator[tuple[str, int | None]]:
    for info in side.env.store.list(folder):
        found = _NUMBERED.match(info.path.rpartition("/")[2])
        yield info.path, None if found is None else int(found[1])


def _commits(entries: Mapping[str, int | None], folder: str) -> dict[int, str]:
    return {
        number: path
        for path, number in entries.items()
        if number is not None and path.rpartition("/")[0] == folder and _COMMIT.fullmatch(path.rpartition("/")[2])
    }


def _ordered(entries: Mapping[str, int | None], commits: Mapping[int, str], newest: int | None) -> Iterator[str]:
    """New commits in order; what stands for commits that are gone comes before them, and else behind."""
    others = sorted((number, path) for path, number in entries.items() if number is not None and path not in commits.values())
    unnumbered = [path for path, number in entries.items() if number is None and path.rpartition("/")[2] not in _HINTS]
    yield from unnumbered
    first = min(commits)
    if newest is None and first > 1:
        base = min((number for number, _ in others if number >= first - 1), default=first)
        yield from (path for number, path in others if number == base)
        yield from (path for number, path in sorted(commits.items()) if number > base)
        yield from (path for number, path in sorted(commits.items(), reverse=True) if number <= base)
    else:
        yield from (path for number, path in sorted(commits.items()) if newest is None or number > newest)
    yield from (path for _, path in others)


def _check_same_log(table: str, source: Side, target: Side, ours: Mapping[int, str], theirs: Mapping[int, str]) -> None:
    if not theirs:
        return
    if not (common := ours.keys() & theirs.keys()):
        raise Refused(
            _conflict(table, f"the logs of {table} have no version in common that is still there: copy it into a new place")
        )
    path = ours[max(common)]
    if source.env.store.get(path) != target.env.store.get(path):
        raise Refused(
            _conflict(
                table,
                f"the log of {table} went on differently on both sides at version {max(common)} or before: a table of this kind is written by one "
                "node. Copy the rows of one side into a table of another name",
            )
        )


def _conflict(table: str, what: str) -> Conflict:
    return Conflict(kind="log", table=table, what=what)


def _data(side: Side, root: str) -> Iterator[str]:
    for info in side.env.store.list(root):
        if info.path.removeprefix(f"{root}/").split("/")[0] not in _NOT_COPIED:
            yield info.path
