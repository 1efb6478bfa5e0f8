"""File system calls of the local store: files below a folder, reflinks, and OSErrors as StoreErrors."""

# pathlib costs as much as the system calls.
# ruff: noqa: PTH118

from __future__ import annotations

import errno
import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from gapless.errors import AccessDenied, ObjectNotFound, StorageFull, StoreError, StoreUnavailable
from gapless.model.protocols import ObjectInfo
from gapless.store.path import is_unfinished

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
