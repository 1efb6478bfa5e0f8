"""Which files below a Delta table's root are such as its writers make, and which path of the log means which of them. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import unquote

from gapless.dialects.delta.file_path import RelativePath, locate

CHANGES_FOLDER = "_change_data"
_UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_DATA = re.compile(rf"(?:part|cdc)-\d+-{_UUID}.*\.parquet", re.ASCII | re.DOTALL)
_VECTOR = re.compile(rf"deletion_vector_{_UUID}\.bin", re.ASCII)
_DIGEST = re.compile("[0-9a-f]{32}", re.ASCII)
_LOGS = ("_delta_log", "_timeseries_log", ".hoodie")
_ICEBERG = re.compile(r"(.*/)?metadata/[^/]*\.metadata\.json", re.DOTALL)
_SCHEMES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfs": "az", "abfss": "az"}
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/]*)(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A file that the log names by a path which does not begin as the table's root does."""

    name: str
    """The last part of its path."""


def place_of(path: str, root: str) -> str | Elsewhere:
    """Where the file of a log's path lies, relative to the table's root, whose URL is `root`; raises CorruptTable, UnsupportedTable.

    >>> place_of("s3a://b//t/day=%C3%BC/x.parquet", "s3://b/t")
    'day=ü/x.parquet'
    """
    found = locate(path)
    if isinstance(found, RelativePath):
        return posixpath.normpath(found.path)
    bucket, below = _normal(found.url)
    root_bucket, root_path = _normal(root)
    inside = bucket in ("", root_bucket) and below.startswith(f"{root_path.rstrip('/')}/")
    return below[len(root_path.rstrip("/")) + 1 :] if inside else Elsewhere(posixpath.basename(below))


def _normal(url: str) -> tuple[str, str]:
    """A URL's bucket, with its scheme, and its path: one text for spellings that mean the same."""
    match = _URL.fullmatch(url)
    if match is None or match[1].lower() == "file":
        return "", posixpath.normpath("/" + (url if match is None else match[3]).lstrip("/"))
    scheme = match[1].lower()
    return f"{_SCHEMES.get(scheme, scheme)}://{match[2]}", posixpath.normpath("/" + match[3].lstrip("/"))


def is_written_here(path: str, partitions: Collection[str]) -> bool:
    """Whether a path (relative to the root) is such as writers give to data files, change files and deletion vectors of a table with these
    partition columns.
    """
    *folders, name = path.removeprefix(f"{CHANGES_FOLDER}/").split("/")
    if _VECTOR.fullmatch(name) is not None:
        return len(folders) <= 1 and not any(folder.startswith((".", "_")) for folder in folders)
    return _DATA.fullmatch(name) is not None and all(_is_partition(folder, partitions) for folder in folders)


def _is_partition(folder: str, partitions: Collection[str]) -> bool:
    name, equals, _ = folder.partition("=")
    return bool(equals and unquote(name) in partitions) or bool(partitions and _DIGEST.fullmatch(folder))


def nested_tables(paths: Collection[str]) -> frozenset[str]:
    """The folders below the root in which another table lies, as far as objects with these paths show it."""
    found = set()
    for path in paths:
        parts = path.split("/")
        found |= {"/".join(parts[:at]) for at, part in enumerate(parts[:-1]) if at and part in _LOGS}
        if match := _ICEBERG.fullmatch(path):
            found |= {match[1].rstrip("/")} if match[1] else set()
    return frozenset(found)


def folders_of(path: str) -> list[str]:
    """The folders that a path lies in, the outermost first.

    >>> folders_of("a/b/c.parquet")
    ['a', 'a/b']
    """
    parts = path.split("/")[:-1]
    return ["/".join(parts[: at + 1]) for at in range(len(parts))]
