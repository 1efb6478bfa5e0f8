"""The files below a folder of a local store, in the order of their paths."""
# pathlib costs as much as the system calls.
# ruff: noqa: PTH118

from __future__ import annotations

import os
from collections.abc import Iterator

from gapless.model.protocols import ObjectInfo
from gapless.store.os_errors import typed_os_errors
from gapless.store.path import is_unfinished


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
