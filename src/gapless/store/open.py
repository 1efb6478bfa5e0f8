"""Open a store from a location, and probe that it keeps put-if-absent, which commits depend on, and put-if-match, which leases do."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator, Mapping
from urllib.parse import unquote

from gapless.errors import InvalidPath, ObjectChanged, ObjectExists, StoreError, StoreUnavailable
from gapless.model.protocols import ReplacesIfMatch, Store, replaces_if_match
from gapless.store.local.store import LocalStore
from gapless.store.location import parse_location, refuse_options
from gapless.store.memory import MemoryStore
from gapless.store.object_store import ObjectStore


def open_store(location: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None) -> Store:
    """The store at a path or URL; touches neither disk nor network beyond resolving a local path.

    A path is a text or `pathlib.Path`: relative ones are resolved now, `~` is the home directory, any other character is
    literal. URLs: `file://` (percent-decoded), `memory://name`, `s3://`, `s3a://`, `r2://`, `gs://`, `az://`, `abfss://` with all
    after the bucket as a literal key. `storage_options` go by obstore's names and only with a bucket.
    Raises InvalidPath and InvalidOption.
    """
    place = parse_location(location)
    if place.kind == "local":
        refuse_options(storage_options, place.url)
        return LocalStore(place.path)
    if place.kind == "memory":
        refuse_options(storage_options, place.url)
        return MemoryStore(place.path)
    return ObjectStore(place, storage_options)


def open_file_store(path: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None) -> tuple[Store, str]:
    """The store of the folder in which a file lies, and the file's name in it. Raises as `open_store`.

    >>> open_file_store("memory://lab/a.parquet")[1]
    'a.parquet'
    """
    text = os.fsdecode(path)
    folder, slash, name = text.rpartition("/")
    if not name or folder.endswith(":/"):
        raise InvalidPath(f"{text!r} names no file", why="It names a folder, or a bucket", fix="Add the file's name", path=text)
    # Of these URLs alone characters are encoded.
    name = unquote(name) if text.lower().startswith("file:") else name
    return open_store(folder or slash or ".", storage_options), name


def table_name(location: str | os.PathLike[str]) -> str:
    """What the table at a path or URL is called: the last part of its path. Raises InvalidPath.

    >>> table_name("s3://bucket/market/prices/")
    'prices'
    """
    return parse_location(location).name


_KEPT: set[tuple[str, int]] = set()
"""Stores that passed, by URL and process."""
_KEPT_MATCHES: set[tuple[str, int]] = set()
"""The same for put-if-match."""


def probe_put_if_absent(store: Store) -> None:
    """Check once a process that a store refuses to create what exists; raises StoreError where it does not.

    Writes one small object under `_staged/`, where no reader looks, and removes it. A store that gives no answer has broken no
    promise: it is asked again the next time. Raises AccessDenied or StorageFull where nothing can be written.
    """
    key = (store.url, os.getpid())
    if key in _KEPT:
        return
    try:
        with _first(store) as path:
            _create_again(store, path)
    except StoreUnavailable:
        return
    _KEPT.add(key)


@contextlib.contextmanager
def _first(store: Store) -> Iterator[str]:
    """The path of a new object that holds `first`, and is removed with the context."""
    path = f"_staged/probe-{uuid.uuid4().hex}"
    try:
        store.put(path, b"first", durable=False)
        yield path
    finally:
        with contextlib.suppress(StoreError):
            store.delete(path)


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


def probe_put_if_match(store: Store) -> ReplacesIfMatch:
    """The store as one with a conditional replace, after checking once a process that it replaces nothing but the named state.

    Writes one small object under `_staged/` and removes it, as `probe_put_if_absent` does. Raises StoreError where the store has no
    conditional replace or does not keep to it, AccessDenied or StorageFull where nothing can be written, StoreUnavailable where no
    answer comes.
    """
    if not replaces_if_match(store):
        raise StoreError(
            f"{store.url} has no conditional replace",
            why="Its store declares put_if_match=False, and a lease or a moving pointer needs it",
            fix="Use a disk, or a bucket with conditional writes",
            path="",
        )
    key = (store.url, os.getpid())
    if key in _KEPT_MATCHES:
        return store
    with _first(store) as path:
        first = store.get_tagged(path).etag
        store.put_if_match(path, b"second", first)
        _replace_again(store, path, first)
    _KEPT_MATCHES.add(key)
    return store


def _replace_again(store: ReplacesIfMatch, path: str, etag: str) -> None:
    try:
        store.put_if_match(path, b"third", etag)
    except ObjectChanged:
        if store.get(path) == b"second":
            return
    raise StoreError(
        f"{store.url} replaced {path!r} though it had changed",
        why="Two holders could then have one lease, which loses data",
        fix="Use a service that honours If-Match, or check the proxy before it",
        path=path,
    )
