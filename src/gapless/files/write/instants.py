"""The instants that attempts name their files with: one that a single process commits whole, or not at all, has one of its own."""

from __future__ import annotations

from itertools import islice

from gapless.errors import ObjectExists, ObjectNotFound, StoreUnavailable
from gapless.formats.timeseries.actions import claim_path, claimed_instants
from gapless.model.protocols import Store
from gapless.runtime.environment import Environment

_TRIES = 1_000


def claim_instant(env: Environment) -> str:
    """An instant of now, 17 digits, UTC, that no other attempt ever has: for one that commits all files which it names so, or none.

    Where many begin within milliseconds, some get one that is milliseconds ahead. Raises StoreError.
    """
    for instant in islice(claimed_instants(env.clock.now_ns()), _TRIES):
        try:
            # Not synced: who begins after a power cut begins later.
            env.store.put(claim_path(instant), b"", durable=False)
        except ObjectExists:  # or a bucket's answer to our own put that its client sent twice
            continue
        return instant
    raise StoreUnavailable(
        f"no instant is free for an attempt to write to {env.store.url}",
        why=f"{_TRIES} of them, from now on, are claimed by attempts that began within this second, or by ones whose clock runs ahead",
        fix="Set the clocks of all writers right, and try again",
        path=claim_path(instant),
    )


def is_claimed(store: Store, instant: str) -> bool:
    """Whether the attempt that named files with an instant claimed it: it has no file that it did not commit. False where that is not known any
    more. Raises StoreError.
    """
    try:
        store.head(claim_path(instant))
    except ObjectNotFound:
        return False
    return True
