"""A store in a bucket: S3 and compatible (R2), Google Cloud Storage, Azure."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from gapless.errors import (
    AccessDenied,
    GaplessError,
    InvalidOption,
    InvalidPath,
    ObjectExists,
    ObjectNotFound,
    StoreError,
)
from gapless.model.instant import ns_from_datetime
from gapless.model.protocols import Capabilities, ObjectInfo, PutMode, TaggedObject
from gapless.store.background_writes import BackgroundWrites
from gapless.store.credentials import are_named
from gapless.store.location import (
    RETRY_OPTIONS,
    Location,
    check_new_path,
    check_options,
    check_path,
    check_range,
    folder_prefix,
    is_unfinished,
    object_changed,
    resolve_range,
    retry_setting,
    truncated,
    unknown_option,
)
from gapless.store.object_store_errors import no_credentials_error, object_store_error
from gapless.store.r2 import r2_options

if TYPE_CHECKING:
    from obstore import ObjectMeta, PutResult, UpdateVersion
    from obstore.store import ObjectStore as Client


_LOGGER = logging.getLogger("gapless.store")

_MAX_RETRIES = 6
_RETRY_TIMEOUT_S = 30
_FIRST_RETRIES = 1
"""Retries of the first request of a client without credentials. A metadata service is given a second each time: it is near, or absent."""
_LIST_CHUNK = 1000
_FOUND: set[tuple[str, frozenset[tuple[str, str]]]] = set()
"""Places and options that name no credentials, for which a metadata service gave some in this process."""
_USED_IN: list[int] = []
"""The process that first used a bucket, if any did: its client's threads serve all stores, and no forked child has them."""


class ObjectStore:
    """A Store over what lies under one key of a bucket or container.

    `options` go by obstore's names. A request that fails is sent again up to `max_retries` times (6), for at most
    `retry_timeout` seconds (30); a create whose answer was lost may so come back as ObjectExists though it is our own,
    or though nothing is stored: read it back. Raises InvalidOption, and as the Store protocol says.
    """

    def __init__(self, location: Location, options: Mapping[str, str] | None = None) -> None:
        self._location = location
        self._options = dict(options or {})
        self._given = {**dict(location.options), **check_options(self._options)}
        if location.service == "r2":
            self._given = r2_options(location.url, self._given, os.environ)
        self._client = _make_client(location, self._given)
        self._has_credentials = are_named(location.kind, self._given, os.environ)
        self._key_prefix = f"{location.path}/" if location.path else ""
        # S3 and GCS list in the order of keys; directory buckets and Azure's hierarchical namespaces need not.
        express = str(self._options.get("s3_express", "")).lower() == "true" or location.container.endswith("--x-s3")
        self._lists_in_order = location.kind != "az" and not express
        self._pid = os.getpid()
        self._later = BackgroundWrites(self._overwrite)
        _check_key(self._key_prefix)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle as the place and its options, credentials among them; the copy makes its own client."""
        return ObjectStore, (self._location, self._options)

    @property
    def url(self) -> str:
        """The URL that was opened."""
        return self._location.url

    @property
    def options(self) -> Mapping[str, str]:
        """What it was opened with, credentials among them."""
        return self._options

    @property
    def capabilities(self) -> Capabilities:
        """Exclusive and durable; a forked child must open its own, since the client's threads do not follow it."""
        return Capabilities(put_if_absent=True, durable=True, survives_fork=False, put_if_match=True, concurrent=True)

    def get(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """Bytes `[start, start + length)` of an object; see `Store.get`."""
        check_range(start, length)
        self._await("reading", path)
        if length == 0:
            resolve_range(path, self.head(path).size, start, length)
            return b""
        try:
            shift, size, data = self._fetch(path, _asked(start, length))
        except (ObjectNotFound, AccessDenied):
            raise
        except StoreError as error:
            shift, size, data = self._fetch_resolved(path, start, length, error)
        begin, end = resolve_range(path, size, start, length)
        if len(data) < end - shift:
            raise truncated(path, f"{len(data)} bytes came of {end - shift}")
        return data if len(data) == end - begin else data[begin - shift : end - shift]

    def put(self, path: str, data: bytes | memoryview, *, mode: PutMode = "create", durable: bool = True) -> None:
        """Store an object in one request; see `Store.put`. A hint (not durable, overwritten) is stored by and by, in the background."""
        if durable or mode == "create":
            self._put(path, data, mode)
            return
        self._refuse_after_fork("writing", path)
        self._key(check_new_path(path))
        self._later.put_hint(path, bytes(data))

    def put_deferred(self, path: str, *pieces: bytes | memoryview) -> None:
        """Begin to store an object under a name that no one else takes; see `DefersWrites.put_deferred`."""
        self._refuse_after_fork("writing", path)
        self._key(check_new_path(path))
        self._later.put_deferred(path, pieces[0] if len(pieces) == 1 else b"".join(pieces))

    def put_after(self, path: str, data: bytes | memoryview, after: Iterable[str]) -> None:
        """Create an object once others are stored; see `DefersWrites.put_after`."""
        self._refuse_after_fork("writing", path)
        self._later.settle(after)
        self._put(path, data, "create")

    def settle(self, paths: Iterable[str]) -> None:
        """Wait until objects are stored that were deferred; see `DefersWrites.settle`."""
        self._refuse_after_fork("writing to", "")
        self._later.settle(paths)

    def forget(self, paths: Iterable[str]) -> None:
        """Give up objects that were deferred, once they are stored or not; see `DefersWrites.forget`."""
        if os.getpid() == self._pid:
            self._later.forget(paths)

    def get_tagged(self, path: str) -> TaggedObject:
        """An object whole and its etag; see `ReplacesIfMatch.get_tagged`."""
        key = self._key(path)
        self._await("reading", path)
        with self._typed("reading", path) as obstore:
            found = obstore.get(self._client, key)
            return TaggedObject(data=found.bytes().to_bytes(), etag=_etag(found.meta))

    def put_if_match(self, path: str, data: bytes | memoryview, etag: str) -> str:
        """Replace one state of an object; see `ReplacesIfMatch.put_if_match`. A request whose answer was lost is sent again, and then
        finds its own object: that comes as ObjectChanged.
        """
        self._await("writing", path)
        state: UpdateVersion = {}
        e_tag, _, version = etag.partition("\n")
        if e_tag:
            state["e_tag"] = e_tag
        if version:
            state["version"] = version
        try:
            return _etag(self._put(path, data, state))
        except ObjectExists as error:
            raise object_changed(path, self.url) from error

    def _overwrite(self, path: str, data: bytes | memoryview) -> None:
        self._put(path, data, "overwrite")

    def _put(self, path: str, data: bytes | memoryview, mode: PutMode | UpdateVersion) -> PutResult:
        key = self._key(check_new_path(path))
        view = memoryview(data)
        body = view.cast("B") if view.nbytes else b""
        with self._typed("writing", path) as obstore:
            try:
                done: PutResult = obstore.put(self._client, key, body, mode=mode, use_multipart=False)
            except FileNotFoundError as error:
                if not isinstance(mode, str) and "NoSuchBucket" not in str(error):
                    raise object_changed(path, self.url) from error
                raise StoreError(
                    f"writing {path!r} in {self.url} failed: {str(error).partition(chr(10))[0]}",
                    why="The bucket or container does not exist",
                    fix="Check its name, region and endpoint, or make it",
                    path=path,
                ) from error
        return done

    def head(self, path: str) -> ObjectInfo:
        """Size and time of an object; see `Store.head`. Services give the time in whole seconds here."""
        key = self._key(path)
        self._await("looking at", path)
        with self._typed("looking at", path) as obstore:
            return _info(path, obstore.head(self._client, key))

    def list(self, prefix: str = "", after: str = "") -> Iterator[ObjectInfo]:
        """Objects in the folder `prefix`, in path order; see `Store.list`."""
        start = folder_prefix(prefix)
        self._refuse_after_fork("listing", prefix)
        self._later.await_all()
        found = self._list(start, after)
        return found if self._lists_in_order else iter(sorted(found, key=lambda info: info.path))

    def delete(self, path: str) -> None:
        """Remove an object; no error where there is none."""
        key = self._key(path)
        self._refuse_after_fork("deleting", path)
        self._later.forget([path])
        with self._typed("deleting", path) as obstore:
            try:
                obstore.delete(self._client, key)
            except FileNotFoundError:
                return

    def local_path(self, path: str) -> None:  # noqa: ARG002 - the same answer for every path
        """None: nothing here is a file of this machine."""
        return

    def _key(self, path: str) -> str:
        return _check_key(self._key_prefix + check_path(path))

    def _fetch(self, path: str, asked: Any) -> tuple[int, int, bytes]:
        """Where the answer begins in the object, the object's size, and the bytes that came."""
        key = self._key(path)
        with self._typed("reading", path) as obstore:
            found = obstore.get(self._client, key, options=asked and {"range": asked})
            return found.range[0], found.meta["size"], found.bytes().to_bytes()

    def _fetch_resolved(self, path: str, start: int, length: int | None, error: StoreError) -> tuple[int, int, bytes]:
        """After `error`: services refuse a range that is not there in many ways, and Azure knows none from the end."""
        if start == 0 and length is None:
            raise error
        size = self.head(path).size
        begin, end = resolve_range(path, size, start, length)
        if begin == end:
            return begin, size, b""
        if start >= 0:
            raise error
        return self._fetch(path, (begin, end))

    def _list(self, start: str, after: str) -> Iterator[ObjectInfo]:
        folder = (self._key_prefix + start).rstrip("/") or None
        offset = self._key_prefix + after if after and after.isprintable() else None
        with self._typed("listing", start) as obstore:
            chunks = iter(obstore.list(self._client, folder, offset=offset, chunk_size=_LIST_CHUNK))
        while True:
            with self._typed("listing", start):
                chunk = next(chunks, None)
            if chunk is None:
                return
            for meta in chunk:
                path = meta["path"].removeprefix(self._key_prefix)
                if path > after and not is_unfinished(path.rpartition("/")[2]):
                    yield _info(path, meta)

    def _await(self, act: str, path: str) -> None:
        """Wait for what is under way to this path; in a forked child no one would ever end it."""
        self._refuse_after_fork(act, path)
        self._later.await_path(path)

    def _refuse_after_fork(self, act: str, path: str) -> None:
        """Raise StoreError in a process whose parent made this store or used any: there every request would hang."""
        here = os.getpid()
        if self._pid == here and not _USED_IN:
            _USED_IN.append(here)
        if here != self._pid or here not in _USED_IN:
            raise StoreError(
                f"{act} {path!r} in {self.url} failed: process {here} was forked from one that uses buckets",
                why="A forked child does not inherit the threads of an object store's client, so it would wait for ever",
                fix='Start processes with multiprocessing.get_context("spawn"), or fork before a bucket is first used',
                path=path,
            )

    @contextmanager
    def _typed(self, act: str, path: str) -> Iterator[Any]:
        """Give the obstore module; within it, its exceptions leave as ours."""
        self._refuse_after_fork(act, path)
        import obstore

        if not self._has_credentials:
            self._look_for_credentials(act, path)
        try:
            yield obstore
        except GaplessError:
            raise
        except Exception as error:
            raise object_store_error(error, act=act, path=path, url=self.url) from error

    def _look_for_credentials(self, act: str, path: str) -> None:
        """Raise AccessDenied where options and environment name no credentials, and no metadata service gives any.

        A client of its own asks with fewer retries, which takes seconds: whoever has credentials here keeps all retries for later, when
        their service may not answer for a while.
        """
        import obstore

        key = f"{self._location.kind}:{self._location.container}", frozenset(self._given.items())
        if key not in _FOUND:
            retries = min(retry_setting(self._given, "max_retries", _MAX_RETRIES), _FIRST_RETRIES)
            client = _make_client(self._location, {**self._given, "max_retries": str(retries)})
            try:
                obstore.head(client, f"{self._key_prefix}_credentials")
            except Exception as error:
                if none := no_credentials_error(error, act=act, path=path, url=self.url):
                    raise none from error
            _LOGGER.info("%s: no credentials are named; those of the machine's metadata service are taken", self.url)
            _FOUND.add(key)
        self._has_credentials = True


def _asked(start: int, length: int | None) -> Any:
    """A range as obstore takes it, None for the whole object; one from the end is read to the end."""
    if start == 0 and length is None:
        return None
    if start < 0:
        return {"suffix": -start}
    return {"offset": start} if length is None else (start, start + length)


def _info(path: str, meta: ObjectMeta) -> ObjectInfo:
    return ObjectInfo(path=path, size=meta["size"], modified_ns=ns_from_datetime(meta["last_modified"]))


def _etag(meta: ObjectMeta | PutResult) -> str:
    """One text of the two by which services tell the states of an object apart."""
    return f"{meta['e_tag'] or ''}\n{meta['version'] or ''}"


def _check_key(key: str) -> str:
    """Refuse what no key can hold, which S3's listings could not show either: control characters and broken Unicode."""
    if any(ord(c) < 32 or ord(c) == 127 or 0xD800 <= ord(c) < 0xE000 for c in key):
        raise InvalidPath(
            f"{key!r} is no key of an object store",
            why="It holds a control character, or half of one beyond the Basic Multilingual Plane",
            fix="Use other characters in the path",
            path=key,
        )
    return key


_NAME_ACCOUNT = (
    'Pass storage_options={"account_name": …}, set AZURE_STORAGE_ACCOUNT_NAME, or write container@account.dfs.core.windows.net'
)


def _make_client(location: Location, options: dict[str, str]) -> Client:
    from obstore.exceptions import BaseError, UnknownConfigurationKeyError
    from obstore.store import AzureStore, GCSStore, S3Store

    kinds: dict[str, Any] = {"s3": S3Store, "gs": GCSStore, "az": AzureStore}
    config = {name: value for name, value in options.items() if name not in RETRY_OPTIONS}
    retry = {
        "max_retries": retry_setting(options, "max_retries", _MAX_RETRIES),
        "retry_timeout": timedelta(seconds=retry_setting(options, "retry_timeout", _RETRY_TIMEOUT_S)),
    }
    try:
        client: Client = kinds[location.kind](location.container, config=config, retry_config=retry)
    except UnknownConfigurationKeyError as error:
        raise unknown_option(location.kind, location.url, config) from error
    except (BaseError, ValueError) as error:
        raise InvalidOption(
            f"the storage options for {location.url} are refused: {str(error).partition(chr(10))[0]}",
            why="obstore cannot make a client of them",
            fix=_NAME_ACCOUNT if "Account must be" in str(error) else "Correct the option it names, in storage_options or in the environment",
            option="storage_options", value=tuple(options),
        ) from error  # fmt: skip
    return client
