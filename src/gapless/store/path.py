"""Object paths and byte ranges: the rules that all stores share."""

from __future__ import annotations

import re

from gapless.errors import CorruptTable, InvalidOption, InvalidPath

_UNFINISHED = re.compile(r"(?:.*/)?\.[0-9a-f]{16}\.tmp|_staged/probe-[0-9a-f]{32}", re.ASCII | re.DOTALL)


def check_path(path: str) -> str:
    """Give back the path of an object; raises InvalidPath where it could lie outside the store or be no object.

    A path is relative and `/`-separated, without NUL and without empty, `.` or `..` parts.

    >>> check_path("data/a b%20.parquet")
    'data/a b%20.parquet'
    """
    parts = path.split("/")
    if "" in parts or "." in parts or ".." in parts or "\0" in path:
        raise InvalidPath(
            f"{path!r} names no object",
            why="An object's path is relative, '/'-separated, without NUL and without empty, '.' or '..' parts",
            fix="Give a path below the table root",
            path=path,
        )
    return path


def check_new_path(path: str) -> str:
    """Give back a path that an object may be written to; raises InvalidPath, also for the names of unfinished writes."""
    if is_unfinished(check_path(path).rpartition("/")[2]):
        raise InvalidPath(
            f"{path!r} may not be written",
            why="Names from '.' to '.tmp' are kept for writes that are not finished, which no listing shows",
            fix="Choose another name",
            path=path,
        )
    return path


def is_unfinished(name: str) -> bool:
    """Whether the last part of a path is the name of a write that was not finished."""
    return name.startswith(".") and name.endswith(".tmp")


def is_own_unfinished(path: str) -> bool:
    """Whether a path is that of a write which gapless began and has not finished: a temporary file on a disk, a probe of a store."""
    return _UNFINISHED.fullmatch(path) is not None


def folder_prefix(folder: str) -> str:
    """What the paths of all objects in a folder start with: `folder` and one slash, or nothing for the root.

    Raises InvalidPath.

    >>> folder_prefix("data")
    'data/'
    """
    return f"{check_path(folder.rstrip('/'))}/" if folder.rstrip("/") else ""


def check_range(start: int, length: int | None) -> None:
    """Raise InvalidOption where no object could hold such a range: `length` is negative."""
    if length is not None and length < 0:
        raise InvalidOption(
            f"a range of {length} bytes from {start} is no range",
            why="A length counts bytes",
            fix="Pass a length of 0 or more, or None for all up to the end",
            option="length", value=length,
        )  # fmt: skip


def resolve_range(path: str, size: int, start: int, length: int | None) -> tuple[int, int]:
    """The half-open range `[begin, end)` in bytes that `start` and `length` mean in an object of `size` bytes.

    A negative `start` counts from the end; without `length` the range runs to the end. Raises CorruptTable where
    the object does not hold all of it.

    >>> resolve_range("a", 10, -4, 2)
    (6, 8)
    """
    begin = start if start >= 0 else size + start
    end = size if length is None else begin + length
    if not 0 <= begin <= end <= size:
        asked = f"from {start}" if length is None else f"{length} from {start}"
        raise truncated(path, f"bytes {asked} were asked of an object that has {size}")
    return begin, end


def truncated(path: str, found: str) -> CorruptTable:
    """The error for an object that is shorter than what points at it says; `found` is the fact in words."""
    return CorruptTable(
        f"{path!r} is truncated: {found}",
        why="Something wrote or copied it only in part, or what points into it belongs to another object",
        fix="Restore this file from a copy; reading on would give wrong rows",
        path=path,
    )
