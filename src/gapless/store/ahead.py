"""Files of a local store that were written and are not durable yet."""
# pathlib has no fsync.
# ruff: noqa: PTH120

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gapless.store.publish import NO_FOLDER_SYNC, open_folder
from gapless.store.sync import sync_all


@dataclass(slots=True)
class _Written:
    """A whole file under its name."""

    handle: int
    """That it was written by: the system tells it what went wrong with the data since."""
    folder: str
    failure: OSError | None = None


class Ahead:
    """What was written ahead of being durable, by path; a file that could not be synced once counts as lost for ever."""

    def __init__(self, folders: Folders) -> None:
        """`folders` are those of the store."""
        self._folders = folders
        self._written: dict[str, _Written] = {}

    def add(self, path: str, handle: int, folder: str) -> None:
        """Keep an open file, whole and under its name, which lies in `folder`."""
        self._written[path] = _Written(handle, folder)

    def forget(self, paths: Iterable[str]) -> None:
        """Give up files that are among these."""
        for path in paths:
            if (known := self._written.pop(path, None)) is not None:
                _close(known.handle)

    def settle(self, paths: Iterable[str], beside: int | None = None) -> tuple[str, OSError] | None:
        """Make those of these paths durable that are kept here, with their folders, and sync the file `beside` in the same breath.

        Gives back one that failed, with the reason; then the others may be durable or not. Raises OSError where `beside` failed.
        """
        mine = [(path, self._written[path]) for path in paths if path in self._written]
        failed = next(((path, one.failure) for path, one in mine if one.failure is not None), None)
        if failed is not None:
            return failed
        folders = self._folders.unsettled(one.folder for _, one in mine)
        own = [] if beside is None else [beside]
        try:
            with _opened(folders) as opened:
                errors = sync_all([*(one.handle for _, one in mine), *opened, *own])
        except OSError as unopened:  # a folder: nothing was synced
            return mine[0][0], unopened
        folder_error = next(
            (e for e in errors[len(mine) : len(mine) + len(opened)] if e and e.errno not in NO_FOLDER_SYNC), None
        )
        for (path, one), error in zip(mine, errors, strict=False):
            one.failure = error or folder_error
            if one.failure is not None:
                failed = failed or (path, one.failure)
            else:
                self.forget([path])
        if folder_error is None:
            self._folders.settled.update(folders)
        if failed is None and beside is not None and errors[-1] is not None:
            raise errors[-1]
        return failed


class Folders:
    """The folders of a store below its root, as far as their own names must still be made durable."""

    def __init__(self, root: str) -> None:
        """`root` is an absolute path."""
        self._root = root
        self.settled: set[str] = set()
        """Those whose own names were synced."""

    def unsettled(self, of: Iterable[str]) -> list[str]:
        """What to sync so that new names in these folders last: each, and the first time also those above it, which another process may
        have just made.
        """
        found: dict[str, None] = {}
        for folder in of:
            found[folder] = None
            while folder not in self.settled and folder != self._root:
                folder = os.path.dirname(folder)  # noqa: PLW2901
                found[folder] = None
        return list(found)


@contextlib.contextmanager
def _opened(folders: Iterable[str]) -> Iterator[list[int]]:
    """Handles by which folders can be synced."""
    with contextlib.ExitStack() as stack:
        handles: list[int] = []
        for folder in folders:
            if (handle := open_folder(folder)) is not None:
                stack.callback(_close, handle)
                handles.append(handle)
        yield handles


def _close(handle: int) -> None:
    """Close what was synced, or what no one needs."""
    with contextlib.suppress(OSError):
        os.close(handle)
