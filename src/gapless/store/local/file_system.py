"""File system calls of the local store: publish a finished file under its name (exclusively, durably), list, reflink, OSErrors as StoreErrors."""

# pathlib costs as much as the system calls.
# pathlib has no exclusive rename, no fsync and no errno-exact link.
# ruff: noqa: PTH102, PTH105, PTH108, PTH116, PTH118, PTH120

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache

from gapless.errors import AccessDenied, ObjectNotFound, StorageFull, StoreError, StoreUnavailable
from gapless.model.protocols import ObjectInfo
from gapless.store.location import is_unfinished

_FULL = (
    StorageFull,
    "No space, inodes or quota are left, or the file grew past a limit",
    "Free space or raise the quota, then try again",
)
_DENIED = (
    AccessDenied,
    "The place is read-only, or this user lacks the permission",
    "Change the mount or the permission, or write as another user",
)
_ABSENT = (
    ObjectNotFound,
    "Nothing is stored under this path",
    "Check the path; a file that a table names was removed by someone else",
)
_HANDLES = (StoreError, "Too many files are open", "Close files or raise the limit (ulimit -n), then try again")
_LENGTH = (StoreError, "The name or the whole path is longer than the file system allows (mostly 255 bytes a name, 4096 a path)", "Use a shorter table path")  # fmt: skip
_FOLDER = (
    StoreError,
    "A file stands where a folder is needed, or a folder where a file is",
    "Move it away; the table needs this name",
)
_INCAPABLE = (StoreError, "This file system lacks an operation that a safe write needs", "Put the table on another file system")
_SILENT = (StoreUnavailable, "The device or the network behind it failed, which does not say whether the effect took place", "Check the disk and the mount, then look whether it is there")  # fmt: skip
_OTHER = (StoreError, "The operating system refused", "Mend the cause it names, then try again")

_KINDS = {
    errno.ENOSPC: _FULL, errno.EDQUOT: _FULL, errno.EFBIG: _FULL,
    errno.EACCES: _DENIED, errno.EPERM: _DENIED, errno.EROFS: _DENIED,
    errno.ENOENT: _ABSENT,
    errno.EMFILE: _HANDLES, errno.ENFILE: _HANDLES,
    errno.ENAMETOOLONG: _LENGTH,
    errno.EISDIR: _FOLDER, errno.ENOTDIR: _FOLDER,
    errno.ENOSYS: _INCAPABLE, errno.ENOTSUP: _INCAPABLE, errno.EOPNOTSUPP: _INCAPABLE,
    errno.EIO: _SILENT, errno.ESTALE: _SILENT, errno.ETIMEDOUT: _SILENT,
}  # fmt: skip


def store_error(error: OSError, *, act: str, path: str, url: str) -> StoreError:
    """The error of a store that says what an OSError means; `act` is what was done, such as "writing"."""
    kind, why, fix = _KINDS.get(error.errno or 0, _OTHER)
    reason = os.strerror(error.errno) if error.errno else str(error)
    code = errno.errorcode.get(error.errno or 0, type(error).__name__)
    return kind(f"{act} {path!r} in {url} failed: {reason} ({code})", why=why, fix=fix, path=path)


@contextmanager
def typed_os_errors(act: str, path: str, url: str) -> Iterator[None]:
    """Within it, an OSError leaves as the StoreError that `store_error` makes of it."""
    try:
        yield
    except OSError as error:
        raise store_error(error, act=act, path=path, url=url) from error


def files_below(root: str, folder: str, after: str, *, unfinished: bool = False) -> Iterator[ObjectInfo]:
    """Files below `folder` ("" or with a slash at its end) of the store at `root`, past the path `after`: finished ones, or those that are
    not. Sorting folders as "name/" gives the order of whole paths. Raises StoreError.
    """
    for path, entry in _entries(root, folder, after):
        if path.endswith("/"):
            if path > after or after.startswith(path):
                yield from files_below(root, path, after, unfinished=unfinished)
        elif path > after and is_unfinished(entry.name) is unfinished:
            try:
                info = entry.stat()
            except FileNotFoundError:  # removed since the folder was read
                continue
            yield ObjectInfo(path=path, size=info.st_size, modified_ns=info.st_mtime_ns)


def _entries(root: str, folder: str, after: str) -> list[tuple[str, os.DirEntry[str]]]:
    """What lies in a folder, folders as "name/", in order of path; nothing where there is no folder. Most of what does not come after
    the path `after`, nor holds anything that does, is left out.
    """
    found: list[tuple[str, os.DirEntry[str]]] = []
    with typed_os_errors("listing", folder, root):
        try:
            scan = os.scandir(os.path.join(root, folder))
        except (FileNotFoundError, NotADirectoryError):
            return []
        with scan:
            for entry in scan:
                inside = f"{folder}{entry.name}/"
                if inside <= after and not after.startswith(inside):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    found.append((inside, entry))
                elif entry.is_file():
                    found.append((folder + entry.name, entry))
    found.sort(key=lambda item: item[0])
    return found


_CLONE = 0x40049409  # FICLONE of linux/fs.h


def clone_file(source: int, copy: int) -> bool:
    """Make the empty file `copy` share all blocks of `source`, where the file system can (XFS, Btrfs); whether it did.

    Both are open handles. Where it did not, nothing was written.
    """
    if sys.platform != "linux":
        return False
    try:
        fcntl.ioctl(copy, _CLONE, source)
    except OSError:
        return False
    return True


_NOT_OFFERED = {errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM, errno.ENOSYS, errno.EMLINK, errno.EINVAL, errno.EXDEV}
"""What a file system answers that lacks hard links or no-replace renames."""

NO_FOLDER_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EBADF}

_TELLING = 2
"""The byte of a hint that may be changed alone is so many before its end: the last digit of a line with one number."""

_RENAME_NOREPLACE = 1  # linux/fs.h
_RENAME_EXCHANGE = 2  # linux/fs.h
_RENAME_EXCL = 4  # sys/stdio.h of macOS
_AT_FDCWD = -100  # linux/fcntl.h


def publish_new(temp: str, target: str, data: memoryview, *, durable: bool) -> None:
    """Store the finished file `temp`, which holds `data`, as `target`, where nothing may be.

    Takes the first primitive the file system has: a hard link, a rename that replaces nothing, or an exclusive
    create under the final name (which a reader may see half written, and which is removed again if it fails).
    `temp` may be left. Raises FileExistsError, or OSError with nothing stored.
    """
    for primitive in (_link_new, _rename_new):
        try:
            primitive(temp, target)
        except OSError as error:
            if error.errno not in _NOT_OFFERED:
                raise
        else:
            return
    _write_new(target, data, durable=durable)


def _link_new(temp: str, target: str) -> None:
    try:
        os.link(temp, target)
    except FileExistsError:
        # Over NFS a link whose answer was lost is sent again and then refused, though it is ours.
        if os.stat(temp).st_nlink != 2:
            raise


def _rename_new(temp: str, target: str) -> None:
    rename = _exclusive_rename()
    if rename is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    ctypes.set_errno(0)
    if rename(os.fsencode(temp), os.fsencode(target)) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), target)


@cache
def _exclusive_rename() -> Callable[[bytes, bytes], int] | None:
    """The system's rename that replaces nothing, or None; answers 0 or sets errno."""
    libc = ctypes.CDLL(None, use_errno=True)
    if sys.platform == "darwin" and hasattr(libc, "renamex_np"):
        return lambda old, new: int(libc.renamex_np(old, new, ctypes.c_uint(_RENAME_EXCL)))
    if hasattr(libc, "renameat2"):
        return lambda old, new: int(libc.renameat2(_AT_FDCWD, old, _AT_FDCWD, new, ctypes.c_uint(_RENAME_NOREPLACE)))
    return None


def _write_new(target: str, data: memoryview, *, durable: bool) -> None:
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        fill(handle, data, durable=durable)
    except BaseException as error:
        try:
            os.unlink(target)  # ours: the create was exclusive
        except OSError as left:
            error.add_note(f"the torn file {target!r} could not be removed: {left}")
        raise


def change_hint(target: str, data: memoryview) -> bool:
    """Have the file `target` say `data` by the change of one byte, the one before its last; False where that is not all that differs.

    Who reads it meanwhile finds what it said before or what it says now. Any number of writers may do so at once, and one of them
    wins: all else in a file stays what it was, since whoever changes more gives the name to another file. Nor is one changed that has
    a second name: it may be a copy that someone keeps.
    """
    try:
        handle = os.open(target, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        info = os.fstat(handle)
        if info.st_nlink != 1 or info.st_size != len(data) or len(data) < _TELLING or not stat.S_ISREG(info.st_mode):
            return False
        found, at = os.pread(handle, len(data) + 1, 0), len(data) - _TELLING
        return found[:at] == data[:at] and found[at + 1 :] == data[at + 1 :] and os.pwrite(handle, data[at : at + 1], at) == 1
    except OSError:
        return False
    finally:
        os.close(handle)


def replace_hint(temp: str, target: str) -> None:
    """Give the finished file `temp` the name `target`, which may be taken; raises OSError.

    By an exchange of the two where the system has one: over a name that is taken, ext4 would first send the data of `temp` to the disk.
    """
    exchange = _exchange()
    if exchange is not None and exchange(os.fsencode(temp), os.fsencode(target)) == 0:
        discard(temp)
    else:
        os.replace(temp, target)


@cache
def _exchange() -> Callable[[bytes, bytes], int] | None:
    """The system's exchange of two names, or None; answers 0, or anything else where nothing was exchanged."""
    libc = ctypes.CDLL(None)
    if sys.platform == "linux" and hasattr(libc, "renameat2"):
        return lambda one, other: int(libc.renameat2(_AT_FDCWD, one, _AT_FDCWD, other, ctypes.c_uint(_RENAME_EXCHANGE)))
    return None


@contextmanager
def exclusive_use(target: str) -> Iterator[int]:
    """An open handle of the file `target`, which no other process or thread uses so until the context ends; raises OSError.

    The lock is on the file itself: it leaves nothing behind and ends with its process. Who waited for a file that was replaced
    meanwhile takes the new one.
    """
    while True:
        handle = os.open(target, os.O_RDWR)  # over NFS an exclusive lock needs a handle that may write
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if os.path.samestat(os.fstat(handle), os.stat(target)):
                yield handle
                return
        finally:
            # A child that was forked meanwhile holds the same lock; closing our handle would not free it.
            fcntl.flock(handle, fcntl.LOCK_UN)
            os.close(handle)


def fill(handle: int, data: memoryview, *, durable: bool) -> None:
    """Write all of `data` to a new file, sync it where `durable`, and close it; raises OSError unless every byte is there."""
    try:
        write_all(handle, data)
        if durable:
            os.fsync(handle)
    finally:
        os.close(handle)


def write_all(handle: int, *pieces: memoryview) -> None:
    """Write all of the pieces, one after the other, to a new file; raises OSError unless every byte is there."""
    for piece in pieces:
        left = piece
        while left:
            count = os.write(handle, left)
            if count == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            left = left[count:]
    if os.fstat(handle).st_size != sum(map(len, pieces)):
        raise OSError(errno.EIO, os.strerror(errno.EIO))


def make_folder(folder: str, *, durable: bool) -> None:
    """Make a folder and the ones above it that are missing, to stay where `durable`; raises OSError."""
    try:
        os.mkdir(folder)
    except FileNotFoundError:
        make_folder(os.path.dirname(folder), durable=durable)
        make_folder(folder, durable=durable)
    except FileExistsError:
        if not stat.S_ISDIR(os.stat(folder).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), folder) from None
    else:
        if durable:
            sync_folder(os.path.dirname(folder))


def sync_folder(folder: str) -> None:
    """Make the names in a folder survive a power cut, as far as its file system can; raises OSError."""
    handle = open_folder(folder)
    if handle is None:
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in NO_FOLDER_SYNC:
            raise
    finally:
        os.close(handle)


def open_folder(folder: str) -> int | None:
    """A handle by which a folder can be synced; None where everything was synced instead. Raises OSError."""
    try:
        return os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except PermissionError:
        os.sync()  # a folder that may be written but not read cannot be synced alone
        return None


def discard(temp: str) -> None:
    """Remove a temporary file if it is there and can be removed: left, it is hidden and harms no one."""
    with suppress(OSError):
        os.unlink(temp)
