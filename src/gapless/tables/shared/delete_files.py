"""The environment of vacuum: what lies in a table's folders, and deleting it."""

# pathlib costs as much as the system calls.

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from gapless.errors import StoreError
from gapless.model.protocols import Store

_TOGETHER = 16
"""Deletes under way at a time, where each is a request."""
_FEW = 64
"""So many are deleted one after the other all the same."""


def linked_folders(store: Store, paths: Iterable[str]) -> frozenset[str]:
    """The folders of these objects that are reached through a symbolic link below the table's root; none in a bucket."""
    folders = {path.rpartition("/")[0] for path in paths}
    places = {folder: place for folder in folders if (place := store.local_path(folder)) is not None}
    # The root itself is resolved, so that any difference is a link below it.
    return frozenset(folder for folder, place in places.items() if os.path.realpath(place) != place)


def _always() -> bool:
    return True


def delete_all(store: Store, paths: Sequence[str], in_time: Callable[[], bool] = _always) -> bool:
    """Delete all of these objects, or as many as can be; then raises the first StoreError, if there was any.

    Before each it asks `in_time`, and leaves what is late; whether it left none.
    """
    late: list[str] = []

    def delete(path: str) -> StoreError | None:
        if in_time():
            return _delete(store, path)
        late.append(path)
        return None

    if len(paths) > _FEW and store.local_path(paths[0]) is None:
        with ThreadPoolExecutor(_TOGETHER) as pool:
            errors = list(pool.map(delete, paths))
    else:
        errors = [delete(path) for path in paths]
    failed = [error for error in errors if error is not None]
    if failed:
        failed[0].add_note(f"{len(failed):,} of {len(paths):,} files could not be deleted; the next vacuum takes them")
        raise failed[0]
    return not late


def _delete(store: Store, path: str) -> StoreError | None:
    try:
        store.delete(path)
    except StoreError as error:
        return error
    return None
