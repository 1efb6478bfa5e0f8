"""The names that gapless gives to a table's files, and no one else does. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from gapless.model.instant import NS_PER, format_instant, parse_instant

DATA_FOLDER = "data"
COVERAGE_FOLDER = "_coverage"
STAGED_FOLDER = "_staged"

_UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_SEGMENT = re.compile(rf"data/({_UUID})-0_0-0-\d+_(\d{{17}})\.parquet", re.ASCII)
_SIDECAR = re.compile(rf"_coverage/segments/({_UUID})\.(?:roar|idx)", re.ASCII)


@dataclass(frozen=True, slots=True)
class OwnName:
    """What the name of a file of ours says."""

    file_id: str
    """Shared by a segment and its coverage."""
    instant_ns: int | None
    """When the attempt that wrote the segment began, nanoseconds since 1970 UTC; None for coverage."""


def segment_path(file_id: str, number: int, instant: str) -> str:
    """Where a segment lies, relative to the table root; `number` counts those of its attempt, `instant` is as `instant_digits` says it."""
    return f"{DATA_FOLDER}/{file_id}-0_0-0-{number}_{instant}.parquet"


def sidecar_path(file_id: str) -> str:
    """Where the coverage of the segment with this file id lies."""
    return f"{COVERAGE_FOLDER}/segments/{file_id}.roar"


def instant_digits(ns: int) -> str:
    """An instant, nanoseconds since 1970 UTC, as names say it: 17 digits, yyyyMMddHHmmssSSS.

    >>> instant_digits(1_001_999_999)
    '19700101000001001'
    """
    text = format_instant(ns // NS_PER["ms"] * NS_PER["ms"])
    return "".join(c for c in text if c.isdigit()).ljust(17, "0")


@lru_cache(256)
def parse_own_name(path: str) -> OwnName | None:
    """What a path (relative to the table root) says, if it is one that gapless gives to a segment or its coverage."""
    if match := _SIDECAR.fullmatch(path):
        return OwnName(match[1], None)
    match = _SEGMENT.fullmatch(path)
    instant_ns = None if match is None else _instant(match[2])
    return None if match is None or instant_ns is None else OwnName(match[1], instant_ns)


def _instant(digits: str) -> int | None:
    """The instant of 17 digits, yyyyMMddHHmmssSSS; None where there is no such day or time."""
    day_ns, hour, minute, second = _day_ns(digits[:8]), int(digits[8:10]), int(digits[10:12]), int(digits[12:14])
    if day_ns is None or not (hour < 24 and minute < 60 and second < 60):
        return None
    return day_ns + (hour * 3_600 + minute * 60 + second) * NS_PER["s"] + int(digits[14:]) * NS_PER["ms"]


@lru_cache(256)
def _day_ns(digits: str) -> int | None:
    """Where a day of 8 digits begins; None where there is no such day. Files have many names and few days."""
    try:
        return parse_instant(f"{digits[:4]}-{digits[4:6]}-{digits[6:]}T00:00:00Z")[0]
    except ValueError:
        return None
