"""Instants of timelines of table version 8 and later: `timeline/<requested>_<completed>.<action>`, each time 17 digits in UTC. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from gapless.model.instant import NS_PER, datetime_from_ns

TIMELINE_FOLDER = ".hoodie/timeline"
HISTORY_FOLDER = f"{TIMELINE_FOLDER}/history"
COMMITS = ("commit", "replacecommit")
"""Actions of copy-on-write tables that add files, or take file groups away."""
_COMPLETED = re.compile(r"(\d{17})_(\d{17})\.([a-z]+)", re.ASCII)
_PENDING = re.compile(r"(\d{17})\.(?:([a-z]+)\.)?(requested|inflight)", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class CompletedInstant:
    """A change that readers see, ordered by when it was begun."""

    requested: str
    """When it was begun: what names of data files have, and `_hoodie_commit_time`."""
    completed: str
    """When it could be seen first: incremental reads go by this."""
    action: str

    @property
    def path(self) -> str:
        """Its file, below the base path."""
        return f"{TIMELINE_FOLDER}/{self.requested}_{self.completed}.{self.action}"

    @property
    def is_commit(self) -> bool:
        """Whether it changed the table's files."""
        return self.action in COMMITS


@dataclass(frozen=True, slots=True, order=True)
class PendingInstant:
    """A change that is planned or under way."""

    requested: str
    action: str


def parse_completed(name: str) -> CompletedInstant | None:
    """The completed instant that a file of the timeline is.

    >>> parse_completed("20260105000000000_20260105000000007.commit")
    CompletedInstant(requested='20260105000000000', completed='20260105000000007', action='commit')
    """
    match = _COMPLETED.fullmatch(name)
    return None if match is None else CompletedInstant(*match.groups())


def parse_pending(name: str) -> PendingInstant | None:
    """The instant that a file of the timeline plans, or says to be under way.

    >>> parse_pending("20260105000000000.inflight")
    PendingInstant(requested='20260105000000000', action='commit')
    """
    match = _PENDING.fullmatch(name)
    return None if match is None else PendingInstant(match[1], match[2] or "commit")


def digits_of(time_ns: int) -> str:
    """A time as 17 digits, yyyyMMddHHmmssSSS in UTC, rounded down to milliseconds.

    >>> digits_of(1_767_571_200_007_999_999)
    '20260105000000007'
    """
    ms = time_ns // NS_PER["ms"]
    return f"{datetime_from_ns(ms * NS_PER['ms']):%Y%m%d%H%M%S}{ms % 1000:03d}"


def time_of(digits: str) -> int | None:
    """Nanoseconds since 1970 UTC of an instant; None for digits that are no time.

    >>> time_of(digits_of(1_767_571_200_007_999_999))
    1767571200007000000
    """
    try:
        seconds = datetime.strptime(digits[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return None
    return int(seconds.timestamp()) * NS_PER["s"] + int(digits[14:]) * NS_PER["ms"]


def next_digits(now_ns: int, known: str) -> str:
    """An instant of now, and after `known` (17 digits, or none).

    >>> next_digits(0, "20260105000000999")
    '20260105000001000'
    """
    after = 0 if not known or (ns := time_of(known)) is None else ns + NS_PER["ms"]
    return digits_of(max(now_ns, after))
