"""Names that Hudi gives a meaning: instants, data files `<file id>_<write token>_<instant>.parquet`, and the files of the timeline."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, get_args

from gapless.formats.hudi.cleans import is_clean

Action = Literal["commit", "replacecommit"]
"""What an instant of ours does: add files, or take file groups away too."""

GENESIS = "19700101000000000"
"""The first instant of a timeline. Files of before the first instant count as committed, so it comes before any file."""

METADATA_FOLDER = ".hoodie"
"""Relative to the base path, as all that Hudi knows of a table but its files."""
PROPERTIES_FILE = "hoodie.properties"
PARTITION_FILE = ".hoodie_partition_metadata"
"""Without it in the base path Spark finds no files."""

_DATA_FILE = re.compile(r"([^_/]+)_([^_/]+)_(\d{17})\.parquet", re.ASCII)
_INSTANT_FILE = re.compile(rf"(\d{{17}})\.({'|'.join(get_args(Action))})", re.ASCII)
_TIMELINE_FILE = re.compile(r"\d{17,}(?:_\d+)?\.[a-z]+(?:\.[a-z]+)?|\d+\.[a-z]+(?:\.(?:requested|inflight))", re.ASCII)


@dataclass(frozen=True, slots=True)
class FileName:
    """What the name of a data file says."""

    file_id: str
    """Names the file group, of which readers take the newest file alone."""
    token: str
    instant: str
    """Of 17 digits, yyyyMMddHHmmssSSS, UTC: the file can be seen once this is a completed instant of the timeline."""


@dataclass(frozen=True, slots=True, order=True)
class Instant:
    """A completed instant of a timeline."""

    digits: str
    action: Action

    @property
    def name(self) -> str:
        """Its file in the timeline."""
        return f"{self.digits}.{self.action}"


def parse_file_name(name: str) -> FileName | None:
    """What the name of a file in the base path says; None where Hudi could not read it.

    >>> parse_file_name("x1_0-0-0_20260105000000000.parquet")
    FileName(file_id='x1', token='0-0-0', instant='20260105000000000')
    """
    match = _DATA_FILE.fullmatch(name)
    return None if match is None else FileName(*match.groups())


def instant_in(name: str) -> str:
    """The instant in a name that `parse_file_name` can read, without a look at the rest: of many files that counts."""
    return name[-25:-8]


def file_name(file_id: str, token: str, instant: str) -> str:
    """The name of a data file."""
    return f"{file_id}_{token}_{instant}.parquet"


def parse_instant_name(name: str) -> Instant | None:
    """The completed instant that a file of the timeline is, if it is one of an action that we write."""
    match = _INSTANT_FILE.fullmatch(name)
    if match is None:
        return None
    return Instant(match[1], "commit" if match[2] == "commit" else "replacecommit")


def is_foreign(name: str) -> bool:
    """Whether what lies in the metadata folder under this name, or in a folder there whose name ends in a slash, was put there by a writer of
    Hudi tables.

    Ours writes completed instants alone: no requested or running ones, no actions but these and cleans, no metadata table, no timeline of a
    later version.

    >>> [is_foreign(name) for name in ("20260105000000000.commit", "20260105000000000.commit.requested", "timeline/x", ".aux/x")]
    [False, True, True, False]
    """
    folder, slash, _ = name.partition("/")
    if slash:
        return folder in ("metadata", "timeline")
    is_ours = parse_instant_name(name) is not None or is_clean(name)
    return not is_ours and _TIMELINE_FILE.fullmatch(name) is not None
