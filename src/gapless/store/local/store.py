"""A store of local files below one folder."""

# pathlib costs as much as the system calls, and has no pread, fsync or exclusive link.
# ruff: noqa: PTH105, PTH108, PTH112, PTH116, PTH120

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial

from gapless.errors import ObjectExists, ObjectNotFound, StoreError, StoreUnavailable
from gapless.model.protocols import Capabilities, ObjectInfo, PutMode, TaggedObject, WriterQueue
from gapless.store.local.file_system import (
    change_hint,
    discard,
    exclusive_use,
    files_below,
    make_folder,
    publish_new,
    replace_hint,
    store_error,
    sync_folder,
    typed_os_errors,
    write_all,
)
from gapless.store.local.queue import Ticket
from gapless.store.local.sync import DeferredFiles, Folders
from gapless.store.local.temp_files import BegunFile, TempFiles, open_temp
from gapless.store.location import (
    check_new_path,
    check_path,
    check_range,
    content_etag,
    folder_prefix,
    object_changed,
    resolve_range,
    truncated,
)


class LocalStore:
    """A Store over the folder `root`, which the first put makes.

    `root` is taken literally and resolved once: later changes of the working directory or of symbolic links above it do
    not matter. A put writes a hidden temporary file next to its target and gives it its name when it is whole; a crash
    leaves at most such a file, which no listing shows. Reading writes nothing. Raises as the Store protocol says.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self._root = os.path.realpath(root)
        self._below = self._root.rstrip("/") + "/"
        self._folders = Folders(self._root)
        self._deferred = DeferredFiles(self._folders)
        self._turn = Ticket()
        self._drafts = TempFiles()

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle as the place."""
        return LocalStore, (self._root,)

    @property
    def url(self) -> str:
        """The absolute path of the root."""
        return self._root

    @property
    def capabilities(self) -> Capabilities:
        """Exclusive, durable, and usable after a fork."""
        return Capabilities(put_if_absent=True, durable=True, survives_fork=True, put_if_match=True)

    def get(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """Bytes `[start, start + length)` of a file; see `Store.get`."""
        check_range(start, length)
        try:
            handle = self._open(path)
            try:
                info = os.fstat(handle)
                if not stat.S_ISREG(info.st_mode):
                    raise _absent()
                begin, end = resolve_range(path, info.st_size, start, length)
                return _read(handle, path, begin, end)
            finally:
                os.close(handle)
        except OSError as error:
            raise store_error(error, act="reading", path=path, url=self._root) from error

    def put(self, path: str, data: bytes | memoryview, *, mode: PutMode = "create", durable: bool = True) -> None:
        """Store a file whole or not at all; see `Store.put`."""
        self._put(path, data, mode, durable=durable)

    def get_tagged(self, path: str) -> TaggedObject:
        """A file whole and its etag; see `ReplacesIfMatch.get_tagged`."""
        data = self.get(path)
        return TaggedObject(data=data, etag=content_etag(data))

    def put_if_match(self, path: str, data: bytes | memoryview, etag: str) -> str:
        """Replace one state of a file; see `ReplacesIfMatch.put_if_match`.

        Exclusive among creates and conditional replaces: an `overwrite` or a `delete` of the same path takes no lock, so keep these from it.
        """
        target = self._file(check_new_path(path))
        try:
            with exclusive_use(target) as handle:
                if content_etag(_read(handle, path, 0, os.fstat(handle).st_size)) != etag:
                    raise object_changed(path, self._root)
                self._write(target, _bytes(data), "overwrite", durable=True, after=())
        except (FileNotFoundError, NotADirectoryError) as error:
            raise object_changed(path, self._root) from error
        except OSError as error:
            raise self._put_error(error, path) from error
        self._settle(path, os.path.dirname(target))
        return content_etag(_bytes(data))

    def put_deferred(self, path: str, *pieces: bytes | memoryview) -> None:
        """Store the pieces as one file, whole, under a name that no one else takes; see `DefersWrites.put_deferred`."""
        self.begin_deferred(path).put(*pieces)

    def begin_deferred(self, path: str) -> BegunFile:
        """A file to be deferred piece by piece; see `StreamsWrites.begin_deferred`."""
        target = self._file(check_new_path(path))
        folder = os.path.dirname(target)
        try:
            opened = self._open_temp(folder, durable=True)
        except OSError as error:
            raise self._put_error(error, path) from error
        keep = partial(self._deferred.add, path, folder=folder)
        return BegunFile(opened, target, keep, partial(self._put_error, path=path))

    def put_after(self, path: str, data: bytes | memoryview, after: Iterable[str]) -> None:
        """Create a file once others are durable; see `DefersWrites.put_after`."""
        self._put(path, data, "create", durable=True, after=after)

    @contextmanager
    def turn(self, folder: str) -> Iterator[WriterQueue]:
        """Stand in line to create a file in a folder; see `TakesTurns.turn`."""
        place = self._file(folder)
        with self._drafts.ready(place), self._turn(place) as line:
            yield line

    def settle(self, paths: Iterable[str]) -> None:
        """Make files durable that were deferred; see `DefersWrites.settle`."""
        self._refuse_lost(self._deferred.settle(paths))

    def forget(self, paths: Iterable[str]) -> None:
        """Give up files that were deferred; see `DefersWrites.forget`."""
        self._deferred.forget(paths)

    def _put(self, path: str, data: bytes | memoryview, mode: PutMode, *, durable: bool, after: Iterable[str] = ()) -> None:
        target = self._file(check_new_path(path))
        try:
            self._write(target, _bytes(data), mode, durable=durable, after=after)
        except FileExistsError as error:
            raise self._exists(path, target) from error
        except OSError as error:
            raise self._put_error(error, path) from error
        if durable:
            self._settle(path, os.path.dirname(target))

    def head(self, path: str) -> ObjectInfo:
        """Size and time of a file; see `Store.head`."""
        with typed_os_errors("looking at", path, self._root):
            try:
                info = os.stat(self._file(path))
            except NotADirectoryError as error:
                raise _absent() from error
            if not stat.S_ISREG(info.st_mode):
                raise _absent()
        return ObjectInfo(path=path, size=info.st_size, modified_ns=info.st_mtime_ns)

    def list(self, prefix: str = "", after: str = "") -> Iterator[ObjectInfo]:
        """Files below the folder `prefix`, in path order; see `Store.list`. Does not follow links to folders below it."""
        return files_below(self._root, folder_prefix(prefix), after)

    def unfinished(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Temporary files below the folder `prefix`, in path order: of writes under way, or that a crash ended."""
        return files_below(self._root, folder_prefix(prefix), "", unfinished=True)

    def delete(self, path: str) -> None:
        """Remove a file; no error where there is none."""
        target = self._file(path)
        self._deferred.forget([path])
        try:
            os.unlink(target)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            if not os.path.isdir(target):
                raise store_error(error, act="deleting", path=path, url=self._root) from error

    def local_path(self, path: str) -> str:
        """The absolute path of the file that holds, or would hold, this object."""
        return self._file(path)

    def _file(self, path: str) -> str:
        return self._below + check_path(path)

    def _open(self, path: str) -> int:
        try:
            return os.open(self._file(path), os.O_RDONLY)
        except NotADirectoryError as error:
            raise _absent() from error

    def _write(self, target: str, data: memoryview, mode: PutMode, *, durable: bool, after: Iterable[str]) -> None:
        if mode == "create":
            if os.path.lexists(target):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
        elif not durable and change_hint(target, data):
            return
        folder = os.path.dirname(target)
        handle, temp = (self._drafts.take(folder) if mode == "create" else None) or self._open_temp(folder, durable=durable)
        try:
            try:
                write_all(handle, data)
                if durable:
                    self._refuse_lost(self._deferred.settle(after, handle))
            finally:
                os.close(handle)
            if mode == "create":
                publish_new(temp, target, data, durable=durable)
                self._turn.end()
            elif durable:
                os.replace(temp, target)
            else:
                replace_hint(temp, target)
        except BaseException:
            discard(temp)
            raise
        if mode == "create":
            discard(temp)

    def _refuse_lost(self, failed: tuple[str, OSError] | None) -> None:
        """Raise StoreError where a file that was deferred is not durable."""
        if failed is not None:
            path, error = failed
            raise store_error(error, act="writing", path=path, url=self._root) from error

    def _open_temp(self, folder: str, *, durable: bool) -> tuple[int, str]:
        try:
            return open_temp(folder)
        except FileNotFoundError:
            make_folder(folder, durable=durable)
            return open_temp(folder)

    def _settle(self, path: str, folder: str) -> None:
        """Sync the folder of a new name; the first time also those above it."""
        folders = self._folders.unsettled([folder])
        try:
            for one in folders:
                sync_folder(one)
            self._folders.settled.update(folders)
        except OSError as error:
            raise StoreUnavailable(
                f"{path!r} is in {self._root}, but its folder could not be synced: {os.strerror(error.errno or errno.EIO)}",
                why="It is stored, but a power cut now could lose it",
                fix="Check the disk, then look whether it is there",
                path=path,
                stored=True,
            ) from error

    def _exists(self, path: str, target: str) -> StoreError:
        if os.path.isdir(target):
            return store_error(IsADirectoryError(errno.EISDIR, ""), act="writing", path=path, url=self._root)
        return ObjectExists(
            f"{path!r} exists already in {self._root}",
            why="It was to be created, and a create replaces nothing",
            fix="Read what is there; another writer came first",
            path=path,
        )

    def _put_error(self, error: OSError, path: str) -> StoreError:
        found = store_error(error, act="writing", path=path, url=self._root)
        if not isinstance(found, ObjectNotFound):
            return found
        return StoreError(
            f"writing {path!r} in {self._root} failed: its folder vanished",
            why="Another process removed or moved the folder while we wrote",
            fix="Let nothing remove folders of a table that is written to, then try again",
            path=path,
        )


def _bytes(data: bytes | memoryview) -> memoryview:
    view = memoryview(data)
    return view.cast("B") if view.nbytes else memoryview(b"")


def _absent() -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))


def _read(handle: int, path: str, begin: int, end: int) -> bytes:
    """Bytes `[begin, end)` of an open file; raises CorruptTable if it got shorter meanwhile."""
    data = os.pread(handle, end - begin, begin)
    if len(data) == end - begin:
        return data
    parts = [data]  # one read gives at most 2 GiB
    while begin + len(parts[-1]) < end and parts[-1]:
        begin += len(parts[-1])
        parts.append(os.pread(handle, end - begin, begin))
    if not parts[-1]:
        raise truncated(path, f"it ends at byte {begin} of {end}")
    return b"".join(parts)
