"""Cleaning and archiving behind commits, as Hudi's defaults do it: old files go, and old instants move into the archive.

Files go first that an instant of the timeline hides: readers take files of before the timeline's first instant for committed.
"""

from __future__ import annotations

from collections.abc import Sequence

from gapless.formats.hudi.cleans import encode_clean
from gapless.formats.hudi.history import VERSION_FILE, encode_instants, encode_manifest, manifest_path
from gapless.formats.hudi.instants import TIMELINE_FOLDER, CompletedInstant, next_digits
from gapless.formats.hudi.slices import BaseFile
from gapless.tables.hudi.claim import oldest_attempt
from gapless.tables.hudi.lock import HeldLock
from gapless.tables.hudi.timeline import HudiState, HudiTimeline

RETAINED_COMMITS = 10
"""As of so many commits before the newest the table can be read: Hudi's hoodie.clean.commits.retained."""
MIN_INSTANTS, MAX_INSTANTS = 20, 30
"""Where the timeline has more commits than the second, it is archived down to the first: hoodie.keep.min.commits and .max.commits."""
_WAIT_FOR = ("savepoint", "restore")
"""Where the timeline has one of these, nothing is removed."""


def tidied(timeline: HudiTimeline, lock: HeldLock) -> None:
    """Clean and archive, where it is due. Only under the lock. Raises StoreError, and LockLost (of `lock`)."""
    state = timeline.load()
    if len(state.commits) > MAX_INSTANTS:
        cleaned(timeline, state, lock, RETAINED_COMMITS)
        state = timeline.load()
        archived(timeline, state, lock, MIN_INSTANTS)


def cleaned(timeline: HudiTimeline, state: HudiState, lock: HeldLock, retained: int) -> int:
    """Remove files that no read as of one of the newest `retained` commits asks for, and say so in the timeline; how many.

    Nothing where a savepoint keeps files, or a clean of another writer is under way. Raises StoreError, and LockLost (of `lock`).
    """
    if len(state.commits) < retained or _has_savepoints(state):
        return 0
    if any(one.action == "clean" for one in state.pending):
        return 0
    earliest = state.commits[-retained]
    files = timeline.files()
    gone = unneeded(timeline, state, files, earliest)
    if not gone:
        return 0
    env = timeline.env
    requested = next_digits(env.clock.now_ns(), state.newest)
    clean = CompletedInstant(requested, next_digits(env.clock.now_ns(), requested), "clean")
    lock.renew()
    # First it is said that they may be missing: as of instants before, readers would else see fewer rows.
    env.store.put(clean.path, encode_clean(requested, earliest.requested), mode="overwrite")
    for file in gone:
        lock.renew()
        env.store.delete(file.path)
    return len(gone)


def unneeded(timeline: HudiTimeline, state: HudiState, files: Sequence[BaseFile], earliest: CompletedInstant) -> list[BaseFile]:
    """Files that no read as of `earliest` or later asks for: followed by another of their group that is completed by then, or replaced by
    then.
    """
    kept = [one for one in state.commits if one.requested <= earliest.requested]
    replaced = {
        (partition, one)
        for instant in kept
        if instant.action == "replacecommit"
        for partition, ids in timeline.commit(instant).replaced.items()
        for one in ids
    }
    completed = {one.requested for one in state.commits}
    first = min(completed)
    seen = [one for one in files if one.instant < first or one.instant in completed]
    newest: dict[tuple[str, str], str] = {}
    for one in seen:
        if one.instant <= earliest.requested:
            newest[one.group] = max(one.instant, newest.get(one.group, ""))
    return [one for one in seen if one.group in replaced or one.instant < newest.get(one.group, "")]


def archived(timeline: HudiTimeline, state: HudiState, lock: HeldLock, kept: int) -> int:
    """Move all but about the newest `kept` commits, and cleans of before them, into the archive; how many instants.

    Never an instant that still hides files, or that comes after one of which files may come. Raises StoreError, and LockLost (of `lock`).
    """
    env = timeline.env
    if len(state.commits) <= kept or _has_savepoints(state):
        return 0
    bounds = [state.commits[-kept].requested, *(one.requested for one in state.pending)]
    attempt = oldest_attempt(env)
    bounds += [] if attempt is None else [attempt]
    bound = min([*bounds, *_hiding(timeline, state)])
    old = [one for one in state.completed if one.requested < bound and (one.is_commit or one.action in ("clean", "rollback"))]
    if not old or not any(one.is_commit for one in old):
        return 0
    lock.renew()
    # Whoever archived them before may have died before it removed them.
    known = {one for one, _ in timeline.archived(old[0].requested, old[-1].requested)}
    if new := [(one, timeline.raw(one)) for one in old if one not in known]:
        _put_history(timeline, new)
    _removed(timeline, old)
    return len(old)


def _has_savepoints(state: HudiState) -> bool:
    actions = {*(one.action for one in state.completed), *(one.action for one in state.pending)}
    return not actions.isdisjoint(_WAIT_FOR)


def _put_history(timeline: HudiTimeline, instants: Sequence[tuple[CompletedInstant, bytes]]) -> None:
    env = timeline.env
    number, files = timeline.history()
    file, data = encode_instants(instants)
    # In this order: readers of the archive find a file once the version names the manifest that names it.
    env.store.put(file.path, data, mode="overwrite")
    env.store.put(manifest_path(number + 1), encode_manifest([*files, file]), mode="overwrite")
    env.store.delete(f"{VERSION_FILE.rpartition('/')[0]}/.{VERSION_FILE.rpartition('/')[2]}.crc")
    env.store.put(VERSION_FILE, str(number + 1).encode(), mode="overwrite")


def _hiding(timeline: HudiTimeline, state: HudiState) -> list[str]:
    """The instants whose commits hide files that lie there still."""
    there = {one.group for one in timeline.files()}
    found = []
    for one in state.commits:
        if one.action == "replacecommit":
            replaced = timeline.commit(one).replaced
            if any((partition, file) in there for partition, ids in replaced.items() for file in ids):
                found.append(one.requested)
    return found


def _removed(timeline: HudiTimeline, old: Sequence[CompletedInstant]) -> None:
    """Take archived instants out of the timeline, oldest first: what planned them goes after what completed them."""
    env = timeline.env
    gone = {one.requested for one in old}
    for one in old:
        env.store.delete(one.path)
    for info in list(env.store.list(TIMELINE_FOLDER)):
        name = info.path.removeprefix(f"{TIMELINE_FOLDER}/")
        if name[:17] in gone and "/" not in name:
            env.store.delete(info.path)
