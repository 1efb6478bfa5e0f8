"""Paths of data files as a Delta log has them: URIs, percent-encoded, relative to the table root or absolute (PROTOCOL.md, "Add File")."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

from gapless.errors import CorruptTable, UnsupportedTable

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_FILE = re.compile(r"file:/*(?=/)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class RelativePath:
    """Below the table root."""

    path: str
    """Decoded: what the store calls it."""


@dataclass(frozen=True, slots=True)
class AbsolutePath:
    """Anywhere."""

    url: str
    """Decoded: `file:///…`, `s3://bucket/…` and the like; one that begins with a slash is of the table's own file system or bucket."""


def log_path(store_path: str) -> str:
    """The log's text for a file whose path is relative to the table root.

    All but ASCII letters, digits and `_-.~=/` is encoded, which every reader decodes alike, and which writers that encode a path anew
    (deltalake, when it removes a file) leave as it is for the names that we give.

    >>> log_path("site=%C3%BC/part-0.parquet")
    'site=%25C3%25BC/part-0.parquet'
    """
    return quote(store_path, safe="/=")


def locate(path: str) -> RelativePath | AbsolutePath:
    """Where the file of a log's path lies.

    Raises CorruptTable for what is no such path, UnsupportedTable for one with a drive or back-slashes, which Windows alone has.

    >>> locate("site=%25C3%25BC/part-0.parquet")
    RelativePath(path='site=%C3%BC/part-0.parquet')
    >>> locate("file:/data/part-0.parquet")
    AbsolutePath(url='file:///data/part-0.parquet')
    """
    scheme = _SCHEME.match(path)
    if "\\" in path or (scheme is not None and len(scheme[1]) == 1):
        raise UnsupportedTable(
            f"the log names a data file {path!r}, by a path of Windows",
            why="Paths in a Delta log are URIs, with slashes and no drives",
            fix="Read the table with the tool that wrote it",
            needs="Windows paths",
        )
    decoded = _decoded(path)
    if scheme is not None or decoded.startswith("/"):
        return AbsolutePath(_FILE.sub("file://", decoded, count=1))
    if decoded in ("", ".") or "\0" in decoded or ".." in decoded.split("/"):
        raise _damaged(path, "It does not lie below the table's root")
    return RelativePath(decoded)


def canonical(path: str) -> str:
    """One text for all spellings of a path: what a file's identity goes by, since writers may spell it differently in `remove`.

    >>> canonical("/data/b%2Da.parquet") == canonical("file:///data/b-a.parquet")
    True
    """
    if "%" not in path and ":" not in path and not path.startswith("/"):
        return path
    decoded = unquote(path)
    local = _FILE.sub("", decoded, count=1)
    return f"file://{local}" if local.startswith("/") else decoded


def _decoded(path: str) -> str:
    try:
        return unquote(path, errors="strict")
    except UnicodeDecodeError as error:
        raise _damaged(path, f"It is no UTF-8 when decoded: {error}") from error


def _damaged(path: str, why: str) -> CorruptTable:
    return CorruptTable(f"the log names a data file {path!r}, which is no path", why=why, fix="Restore the log", path=path)
