"""A Delta log's bytes, read as far as they can be: which versions are lost or damaged, which checkpoints contradict it, and its state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gapless.errors import CorruptTable, GaplessError, ObjectNotFound, UnsupportedTable
from gapless.formats.delta.actions import Commit, TableState
from gapless.formats.delta.format import DELTA
from gapless.log.format import Snapshot, Stored
from gapless.runtime.environment import Environment
from gapless.tables.shared.findings import Finding, numbers_of


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
    env: Environment, stored: Sequence[Stored], found: list[Finding]
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
