"""Whether a store keeps the promise that a commit rests on."""

from __future__ import annotations

import contextlib
import os
import uuid

from gapless.errors import ObjectExists, StoreError, StoreUnavailable
from gapless.model.protocols import Store

_KEPT: set[tuple[str, int]] = set()
"""Stores that passed, by URL and process."""


def probe_put_if_absent(store: Store) -> None:
    """Check once a process that a store refuses to create what exists; raises StoreError where it does not.

    Writes one small object under `_staged/`, where no reader looks, and removes it. A store that gives no answer has broken no
    promise: it is asked again the next time. Raises AccessDenied or StorageFull where nothing can be written.
    """
    key = (store.url, os.getpid())
    if key in _KEPT:
        return
    path = f"_staged/probe-{uuid.uuid4().hex}"
    try:
        store.put(path, b"first", durable=False)
        _create_again(store, path)
    except StoreUnavailable:
        return
    finally:
        with contextlib.suppress(StoreError):
            store.delete(path)
    _KEPT.add(key)


def _create_again(store: Store, path: str) -> None:
    try:
        store.put(path, b"second", durable=False)
    except ObjectExists:
        if store.get(path) == b"first":
            return
    raise StoreError(
        f"{store.url} let a second create replace {path!r}",
        why="Two writers could then overwrite each other's commits, which loses data",
        fix="Set conditional_put='etag' in storage_options, or use a service that honours If-None-Match",
        path=path,
    )
