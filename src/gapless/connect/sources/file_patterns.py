"""Which paths a pattern means. Pure."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from fnmatch import fnmatchcase

from gapless.errors import InvalidPath


def split_pattern(location: str) -> tuple[str, str]:
    """The folder that a pattern lies in, and the pattern below it. Raises InvalidPath where no file is named.

    >>> split_pattern("s3://bucket/in/2026-*/*.csv")
    ('s3://bucket/in', '2026-*/*.csv')
    >>> split_pattern("*.csv")
    ('.', '*.csv')
    """
    parts = location.split("/")
    at = next((place for place, part in enumerate(parts) if glob.has_magic(part)), len(parts) - 1)
    root, pattern = "/".join(parts[:at]), "/".join(parts[at:])
    if "" in parts[at:] or root.endswith(":/"):
        raise InvalidPath(
            f"{location!r} names no files",
            why="It ends in a pattern of the files' names, below a folder",
            fix=f"Pass such as '{location.rstrip('/')}/*.parquet'",
            path=location,
        )
    return root or ("/" if location.startswith("/") else "."), pattern


def matches(path: str, pattern: str) -> bool:
    """Whether a relative path matches, `*` within a name and `**` for any number of folders, at the end with all files in these; hidden
    parts never do.

    >>> [matches(path, "**/*.csv") for path in ("a.csv", "b/c/a.csv", "_tmp/a.csv", "a.json")]
    [True, True, False, False]
    """
    parts = path.split("/")
    return not any(part.startswith((".", "_")) for part in parts) and _matches(parts, pattern.split("/"))


def _matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    if not pattern:
        return not parts
    if list(pattern) == ["**"]:
        return bool(parts)
    if pattern[0] == "**":
        return any(_matches(parts[skipped:], pattern[1:]) for skipped in range(len(parts)))
    return bool(parts) and fnmatchcase(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])
