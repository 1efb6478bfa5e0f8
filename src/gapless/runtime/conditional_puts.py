"""Objects that several processes put or replace, of which one wins, though answers are lost."""

from __future__ import annotations

from gapless.errors import ObjectChanged, ObjectExists, ObjectNotFound, StoreUnavailable
from gapless.log.effects import Conversation, Get, Put, PutNew, Wait, perform
from gapless.model.protocols import ReplacesIfMatch, Store, TaggedObject, replaces_if_match
from gapless.runtime.environment import Environment
from gapless.store.open import probe_put_if_match


def put_once(env: Environment, path: str, data: bytes, fix: str) -> bytes:
    """Store an object that no one changes, unless it is there; what is stored then. Raises StoreError, whose advice is `fix` where no answer
    came.
    """
    found = try_put_once(env, path, data)
    if found is None:
        raise StoreUnavailable(
            f"whether {path} is stored is not known",
            why="The store did not answer, or refused it though nothing is there",
            fix=fix,
            path=path,
        )
    return found


def try_put_once(env: Environment, path: str, data: bytes) -> bytes | None:
    """As `put_once`, but None where no usable answer came until the deadline. Raises StoreError."""
    return env.drive(_put_once(path, data))


def _put_once(path: str, data: bytes) -> Conversation[bytes | None]:
    attempt = 0
    while True:
        if (yield from perform(PutNew(path, data))) in (Put.DONE, Put.LATE):
            return data
        # Ours, whose answer was lost, or another's; nothing where a request is in flight still.
        found = yield from perform(Get(path))
        if found is not None:
            return found
        attempt += 1
        if not (yield from perform(Wait(attempt))):
            return None


def tagged(env: Environment, path: str) -> TaggedObject | None:
    """An object with its etag; None where there is none. Raises StoreError, also for a store without a conditional replace."""
    try:
        return _replacing(env.store).get_tagged(path)
    except ObjectNotFound:
        return None


def _replacing(store: Store) -> ReplacesIfMatch:
    return store if replaces_if_match(store) else probe_put_if_match(store)


def replaced(env: Environment, path: str, data: bytes, known: TaggedObject | None) -> TaggedObject | None:
    """Put an object where there is none, or in the place of the state `known`: as it is then, or None where another was first.

    The store was probed once (`store.open.probe_put_if_match`).

    `data` is never put by anybody else, so that a put without an answer is found by looking. Raises StoreError.
    """
    store = _replacing(env.store)
    until = env.clock.monotonic() + env.deadline_s
    while True:
        try:
            if known is not None:
                return TaggedObject(data=data, etag=store.put_if_match(path, data, known.etag))
            store.put(path, data)
        except (ObjectChanged, ObjectExists):
            found = tagged(env, path)
            if found is not None and found.data == data:
                return found
            if found is not None or known is not None:
                return None
        except StoreUnavailable:
            found = tagged(env, path)
            if found is not None and found.data == data:
                return found
            if (found is None) != (known is None) or (found is not None and known is not None and found.etag != known.etag):
                return None
        else:
            return tagged(env, path)
        if env.clock.monotonic() >= until:
            raise StoreUnavailable(
                f"whether {path} was replaced is not known",
                why="The store did not answer",
                fix="Try again once the store answers: what landed is found",
                path=path,
            )
        env.clock.sleep(0.05 * env.ids.jitter())
