"""The lock under which a Hudi table is changed: Hudi's own objects, so that writers of it that lock wait for ours, and ours for them.

On every store `.hoodie/.locks/table_lock.json`, as Hudi's StorageBasedLockProvider has it; on a disk besides `.hoodie/lock`, as its
FileSystemBasedLockProvider has it. What a lock that is lost does not break is decided by `claim.py`.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from gapless.errors import CommitConflict, ObjectExists, ObjectNotFound
from gapless.model.instant import NS_PER
from gapless.model.protocols import TaggedObject
from gapless.runtime.conditional_puts import replaced, tagged
from gapless.runtime.environment import Environment

LOCK_OBJECT = ".hoodie/.locks/table_lock.json"
LOCK_FILE = ".hoodie/lock"
VALID_S = 45.0
"""After so long without a renewal others take the lock over."""
_OURS = "gapless:"
_PAUSE_S = 0.05


class LockLost(Exception):
    """Another writer took the lock over, since it was not renewed for too long."""


@dataclass(slots=True)
class HeldLock:
    """A lock that is held."""

    env: Environment
    owner: str
    state: TaggedObject
    renewed_s: float = field(default=0.0)

    def renew(self) -> None:
        """Hold it for longer, where some of its time has passed. Raises LockLost, StoreError."""
        now_s = self.env.clock.monotonic()
        if now_s - self.renewed_s < VALID_S / 4:
            return
        state = replaced(self.env, LOCK_OBJECT, _held(self.env, self.owner), self.state)
        if state is None:
            raise LockLost
        self.state, self.renewed_s = state, now_s


@contextlib.contextmanager
def locked(env: Environment) -> Iterator[HeldLock]:
    """Hold the table's lock. Raises CommitConflict where another writer holds it until the deadline, StoreError."""
    owner = f"{_process()}:{env.ids.uuid()}"
    lock = _acquired(env, owner)
    try:
        on_disk = env.store.local_path(LOCK_FILE) is not None
        if on_disk:
            _lock_file(env, lock)
        try:
            yield lock
        finally:
            if on_disk:
                _unlock_file(env, owner)
    finally:
        replaced(env, LOCK_OBJECT, _told(owner, env.clock.now_ns() // NS_PER["ms"], expired=True), lock.state)


def _acquired(env: Environment, owner: str) -> HeldLock:
    until = env.clock.monotonic() + max(env.deadline_s, 2 * VALID_S)
    while True:
        found = tagged(env, LOCK_OBJECT)
        if found is None or _is_free(found.data, env.clock.now_ns()):
            now_s = env.clock.monotonic()
            state = replaced(env, LOCK_OBJECT, _held(env, owner), found)
            if state is not None:
                return HeldLock(env, owner, state, now_s)
        if env.clock.monotonic() >= until:
            raise _refuse(env, "" if found is None else _owner(found.data))
        env.clock.sleep(_PAUSE_S * (0.5 + env.ids.jitter()))


def _lock_file(env: Environment, lock: HeldLock) -> None:
    """Create the file that Hudi's writers on a disk look at; one of ours is of a writer that lost the lock, or died."""
    until = env.clock.monotonic() + max(env.deadline_s, 2 * VALID_S)
    while True:
        try:
            env.store.put(LOCK_FILE, lock.owner.encode(), durable=False)
        except ObjectExists:
            theirs = _content(env)
            if theirs is not None and theirs.startswith(_OURS):
                env.store.delete(LOCK_FILE)
                continue
            if env.clock.monotonic() >= until:
                raise _refuse(env, theirs or "another writer") from None
            lock.renew()
            env.clock.sleep(_PAUSE_S)
        else:
            return


def _unlock_file(env: Environment, owner: str) -> None:
    if _content(env) == owner:
        env.store.delete(LOCK_FILE)


def _content(env: Environment) -> str | None:
    try:
        return env.store.get(LOCK_FILE).decode(errors="replace")
    except ObjectNotFound:
        return None


def _held(env: Environment, owner: str) -> bytes:
    return _told(owner, env.clock.now_ns() // NS_PER["ms"] + int(VALID_S * 1000), expired=False)


def _told(owner: str, until_ms: int, *, expired: bool) -> bytes:
    return json.dumps({"owner": owner, "validUntil": until_ms, "expired": expired}).encode()


def _is_free(data: bytes, now_ns: int) -> bool:
    try:
        told = json.loads(data)
        if told.get("expired") or int(told["validUntil"]) * NS_PER["ms"] <= now_ns:
            return True
    except (ValueError, KeyError, TypeError, AttributeError):
        return False
    return is_dead(str(told.get("owner")))


def _owner(data: bytes) -> str:
    with contextlib.suppress(ValueError, AttributeError):
        return str(json.loads(data).get("owner"))
    return "another writer"


def _process() -> str:
    return f"{_OURS}{_machine()}:{os.getpid()}"


@cache
def _machine() -> str:
    """What numbers of processes are of: the machine, and its container."""
    try:
        space = str(Path("/proc/self/ns/pid").readlink())
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return f"{socket.gethostname()}/"
    return f"{socket.gethostname()}/{boot}/{space.strip('pid:[]')}"


def is_dead(owner: str) -> bool:
    """Whether it was a process of this machine that is no more."""
    prefix = f"{_OURS}{_machine()}:"
    number = owner.removeprefix(prefix).partition(":")[0]
    if not owner.startswith(prefix) or not number.isdigit() or _machine().endswith("/"):
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def _refuse(env: Environment, owner: str) -> CommitConflict:
    return CommitConflict(
        f"the Hudi table at {env.store.url} is locked by {owner}",
        why="One writer changes a Hudi table at a time; nothing was committed",
        fix=f"Try again once that writer is done; where it died, remove {LOCK_FILE}",
        version=0,
        reason="locked",
    )
