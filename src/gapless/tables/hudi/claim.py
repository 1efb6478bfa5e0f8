"""The claim of a commit: what decides that it is made, though its writer stalls, dies, or loses the lock.

One object, `.hoodie/gapless/claim.json`, replaced only in the state in which a writer found it when it got the lock. It holds the whole commit;
who comes next completes it where its writer did not. So two writers of ours never change one table at the same time.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from dataclasses import dataclass

from gapless.errors import CorruptTable, ObjectNotFound, StoreUnavailable
from gapless.formats.hudi.instants import CompletedInstant
from gapless.formats.hudi.names import METADATA_FOLDER
from gapless.model.protocols import TaggedObject, is_old
from gapless.runtime.conditional_puts import put_once, replaced, tagged
from gapless.runtime.environment import Environment
from gapless.tables.hudi.lock import LockLost, is_dead
from gapless.tables.hudi.timeline import HudiState, HudiTimeline
from gapless.tables.shared.handle import is_stored

OWN_FOLDER = f"{METADATA_FOLDER}/gapless"
"""What is ours in a table, where neither readers nor cleaners of Hudi look."""
CLAIM = f"{OWN_FOLDER}/claim.json"
ATTEMPTS = f"{OWN_FOLDER}/attempts"
"""An object for each instant whose files are being written, so that they are found and removed where its writer dies."""
_AGAIN = "Finalize it again once the store answers: what landed is found, and nothing is committed twice"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A commit that is to be made."""

    instant: CompletedInstant
    commit: bytes
    """The content of its file."""
    files: tuple[str, ...]
    """The data files that it adds."""
    follows: tuple[str, ...]
    """The commits of the timeline that it was decided on, by their files."""

    def encode(self, nonce: str) -> bytes:
        """As it is stored while it may have to be completed."""
        one = self.instant
        told = {
            "instant": [one.requested, one.completed, one.action],
            "commit": base64.b64encode(self.commit).decode(),
            "files": self.files,
            "follows": self.follows,
        }
        return json.dumps({"open": True, "nonce": nonce, **told}).encode()


def _decode(data: bytes) -> Claim | None:
    """None for one that is done. Raises CorruptTable."""
    try:
        told = json.loads(data)
        if not told["open"]:
            return None
        return Claim(
            instant=CompletedInstant(*told["instant"]),
            commit=base64.b64decode(told["commit"]),
            files=tuple(told["files"]),
            follows=tuple(told["follows"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptTable(
            f"{CLAIM} is no claim that can be read",
            why=f"{type(error).__name__}: {error}",
            fix="Use the release that wrote it, or a newer gapless",
            path=CLAIM,
        ) from error


def settled(timeline: HudiTimeline, state: HudiState) -> tuple[TaggedObject | None, bool]:
    """Complete what a writer claimed and did not complete; the claim to be replaced next, and whether the timeline changed by it.

    Only under the lock. A claim that another writer came into, which does not ask for the lock, is given up.
    Raises StoreError, and LockLost (of `lock`).
    """
    env = timeline.env
    found = tagged(env, CLAIM)
    if found is None or (claim := _decode(found.data)) is None:
        return found, False
    if not timeline.was_completed(state, claim.instant.requested):
        came_between = {one.path for one in state.commits}.difference(claim.follows)
        whole = all(is_stored(env.store, path) for path in claim.files)
        if came_between or not whole:
            for path in claim.files:
                env.store.delete(path)
        else:
            complete(env, claim)
    return closed(env, found), True


def claimed(env: Environment, claim: Claim, before: TaggedObject | None) -> TaggedObject:
    """Decide that a commit is made. Raises StoreError, and LockLost where another writer decided something since the lock was got."""
    state = replaced(env, CLAIM, claim.encode(env.ids.uuid()), before)
    if state is None:
        raise LockLost
    return state


def complete(env: Environment, claim: Claim) -> None:
    """Make a claimed commit one that readers see. Raises StoreError."""
    path = claim.instant.path
    if put_once(env, path, claim.commit, _AGAIN) != claim.commit:
        raise StoreUnavailable(f"{path} holds another commit", why="A writer has the same instant", fix=_AGAIN, path=path)


def closed(env: Environment, claim: TaggedObject) -> TaggedObject:
    """Say that a claim is done. Raises StoreError, and LockLost (of `lock`)."""
    state = replaced(env, CLAIM, json.dumps({"open": False, "nonce": env.ids.uuid()}).encode(), claim)
    if state is None:
        raise LockLost
    return state


def swept(timeline: HudiTimeline, state: HudiState) -> None:
    """Remove data files of writers that died before they claimed their commits. Only under the lock, and once the claim is settled.

    What says that files come stays for a day where its writer may be at work still. Raises StoreError.
    """
    env = timeline.env
    begun = list(env.store.list(ATTEMPTS))
    unfinished = {one.path for one in begun if not timeline.was_completed(state, _instant(one.path))}
    if unfinished:
        left = {_instant(path) for path in unfinished}
        for file in timeline.files():
            if file.instant in left:
                env.store.delete(file.path)
    for one in begun:
        if one.path not in unfinished or is_old(env.clock.now_ns(), one.modified_ns) or _is_over(env, one.path):
            env.store.delete(one.path)


def oldest_attempt(env: Environment) -> str | None:
    """The first instant of which files may come, or lie there without a commit; None where there is none. Raises StoreError."""
    return min((_instant(info.path) for info in env.store.list(ATTEMPTS)), default=None)


def begin_attempt(env: Environment, instant: str, owner: str) -> None:
    """Say that files of an instant come, by this holder of the lock. Raises StoreError."""
    env.store.put(f"{ATTEMPTS}/{instant}.json", owner.encode(), mode="overwrite")


def end_attempt(env: Environment, instant: str, written: Iterable[str]) -> None:
    """Remove these files of an instant, and what says that they come. Raises StoreError."""
    for path in written:
        env.store.delete(path)
    env.store.delete(f"{ATTEMPTS}/{instant}.json")


def _is_over(env: Environment, path: str) -> bool:
    try:
        return is_dead(env.store.get(path).decode(errors="replace"))
    except ObjectNotFound:
        return True


def _instant(path: str) -> str:
    return path.rpartition("/")[2].removesuffix(".json")
