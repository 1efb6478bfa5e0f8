"""Actions of the time-series log, commits, and the table state they make; the names of files that gapless writes. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count
from typing import Any

import pyarrow as pa

from gapless.model.column_ids import ColumnIds
from gapless.model.index import IndexSpec
from gapless.model.instant import NS_PER, format_instant, parse_instant
from gapless.model.operation import OperationId, Tally, operation_key, supersedes
from gapless.model.properties import Properties
from gapless.model.segment import Segment

WRITER_FEATURE = "gapless"
"""Keeps the writers of timeseries-table-format out, which would break our invariants; its readers go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMeta:
    """What a table is; the newest one holds."""

    index: IndexSpec
    schema: pa.Schema | None
    """Declared column types; None before the first append."""
    ids: ColumnIds = field(default_factory=ColumnIds)
    """The identities of the columns: under which names files hold them."""
    logical: Mapping[str, Any] | None = field(default=None, compare=False)
    """The `logical_schema` that an earlier commit wrote: protocol 7 lets it grow at its end and change in nothing else. None where it
    may be written anew: before the first, and in a table that protocol 7's readers do not open."""
    created_ns: int
    properties: Properties = field(default_factory=Properties)
    reader_features: frozenset[str] = frozenset()
    writer_features: frozenset[str] = frozenset()

    @property
    def is_ours(self) -> bool:
        """Whether a gapless writer has changed the table."""
        return WRITER_FEATURE in self.writer_features


@dataclass(frozen=True, slots=True)
class UpdateTableMeta:
    """Replace the table's metadata."""

    meta: TableMeta


@dataclass(frozen=True, slots=True)
class AddSegment:
    """A segment becomes live."""

    segment: Segment


@dataclass(frozen=True, slots=True)
class RemoveSegment:
    """A segment is live no more; its file stays for older versions."""

    path: str


@dataclass(frozen=True, slots=True)
class SetTransaction:
    """An operation was applied by this commit, and counted this."""

    operation: OperationId
    tally: Tally
    kind: str = ""
    """What kind of change it was, where the commit's own operation does not say it."""


@dataclass(frozen=True, slots=True)
class SetTag:
    """Name a version, which expiry and vacuum then keep; None takes the name away."""

    name: str
    version: int | None


@dataclass(frozen=True, slots=True)
class ExpireVersions:
    """Versions below `before` are kept no longer, but for those that a tag names."""

    before: int


@dataclass(frozen=True, slots=True)
class ForgetSegments:
    """These segments, which were removed before, are about to be deleted: no version that is kept has them."""

    paths: tuple[str, ...]


def kind_of_change(operation: str) -> str:
    """The kind of change that a commit's operation names: what Spark calls to overwrite a table is to replace all of its rows."""
    return "replace" if operation == "overwrite" else operation


Action = UpdateTableMeta | AddSegment | RemoveSegment | SetTransaction | SetTag | ExpireVersions | ForgetSegments


ABORT = "abort"
"""The operation of a commit that gives a prepared commit up, whose document its parameter `prepared` names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One log entry, without its version and time."""

    id: str
    """Unique per attempted change; empty for another writer's."""
    operation: str
    engine: str = ""
    parameters: Mapping[str, object] = field(default_factory=dict)
    duration_ms: int | None = None
    """From the call to the commit; None where it is not known."""
    actions: tuple[Action, ...]

    @property
    def added(self) -> tuple[Segment, ...]:
        """The segments this commit makes live."""
        return tuple(action.segment for action in self.actions if isinstance(action, AddSegment))

    @property
    def removed(self) -> tuple[str, ...]:
        """The paths of the segments this commit takes away."""
        return tuple(action.path for action in self.actions if isinstance(action, RemoveSegment))

    @property
    def operations(self) -> tuple[SetTransaction, ...]:
        """The operations this commit applied."""
        return tuple(action for action in self.actions if isinstance(action, SetTransaction))

    def applies(self, operation: OperationId) -> bool:
        """Whether it applied an operation, or a later sequence of its app."""
        return any(supersedes(one.operation, operation) for one in self.operations)

    @property
    def meta(self) -> TableMeta | None:
        """The metadata this commit sets, if it does."""
        return next((action.meta for action in reversed(self.actions) if isinstance(action, UpdateTableMeta)), None)


@dataclass(frozen=True, slots=True)
class Applied:
    """An operation that was applied: which, by which version and when, and what it counted."""

    operation: OperationId
    version: int
    time_ns: int
    tally: Tally
    kind: str = ""
    """What kind of change it was, as `kind_of_change` says; empty where the log does not say it."""

    def tally_of(self, asked: OperationId) -> Tally:
        """What the operation asked for counted: nothing, where this is a later sequence of its app."""
        return self.tally if self.operation == asked else Tally()


@dataclass(frozen=True, slots=True)
class LiveSegment:
    """A segment and the version that made it live."""

    segment: Segment
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """A segment that is live no more and whose files may still be there, for the versions `[added, removed)`."""

    path: str
    sidecars: tuple[str, ...] = ()
    """Its coverage objects, relative to the table root."""
    size: int | None = None
    rows: int = 0
    added: int
    removed: int
    removed_ns: int
    """Commit time of `removed`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """A time-series table at one version."""

    meta: TableMeta
    live: Mapping[str, LiveSegment]
    """By path, in the order they became live."""
    applied: Mapping[str, Applied] = field(default_factory=dict)
    """By `operation_key`: the highest sequence of each app, and every job."""
    removed: Mapping[str, Removed] = field(default_factory=dict)
    """By path, until vacuum forgets them; a segment that a restore made live again may still be here, for its earlier life."""
    tags: Mapping[str, int] = field(default_factory=dict)
    """Named versions."""
    earliest: int = 1
    """Versions below are expired, but for those that a tag names."""
    inlined_bytes: int = 0
    """The size of those live segments that lie in commits, in bytes of Parquet."""

    def recognise(self, operation: OperationId) -> Applied | None:
        """The operation, or the app's higher sequence, if this or a later one was applied."""
        known = self.applied.get(operation_key(operation))
        return known if known is not None and supersedes(known.operation, operation) else None

    def keeps(self, version: int) -> bool:
        """Whether a version up to this one can be read: it is not expired, or a tag names it."""
        return version >= self.earliest or version in self.tags.values()

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The live segments."""
        return tuple(entry.segment for entry in self.live.values())


DATA_FOLDER = "data"
COVERAGE_FOLDER = "_coverage"
STAGED_FOLDER = "_staged"
CLAIMS_FOLDER = f"{STAGED_FOLDER}/instants"

STEP_MS, CLAIMED_MS, SHARED_MS, PUBLISHERS_MS = 4, 2, 2, 3
"""Of each four milliseconds the first two are for attempts that claim their instant, the next is for all others, and the last for publishers:
no file of one kind has an instant of another by chance.
"""

_UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_SEGMENT = re.compile(rf"data/({_UUID})-0_0-0-\d+_(\d{{17}})\.parquet", re.ASCII)
_COPY = re.compile(rf"data/{_UUID}-0_1-0-\d+_\d{{17}}\.parquet", re.ASCII)
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


def copy_path(file_id: str, number: int, instant: str) -> str:
    """Where the copy of a segment lies that is published in its place; no segment is called so."""
    return f"{DATA_FOLDER}/{file_id}-0_1-0-{number}_{instant}.parquet"


def is_copy(path: str) -> bool:
    """Whether a path is one of `copy_path`."""
    return _COPY.fullmatch(path) is not None


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


def shared_instant(ns: int) -> str:
    """The instant that an attempt which begins at `ns` names its files with, where others may have it too: the last one that is for these.

    >>> shared_instant(5_999_999), shared_instant(6_000_000)
    ('19700101000000002', '19700101000000006')
    """
    ms = ns // NS_PER["ms"]
    return instant_digits((ms - (ms - SHARED_MS) % STEP_MS) * NS_PER["ms"])


def is_shared(instant: str) -> bool:
    """Whether an instant is one of `shared_instant`."""
    return int(instant[-3:]) % STEP_MS == SHARED_MS


def is_publishers(instant: str) -> bool:
    """Whether an instant is one that publishers have to themselves."""
    return int(instant[-3:]) % STEP_MS == PUBLISHERS_MS


def claimed_instants(ns: int) -> Iterator[str]:
    """The instants of which an attempt that begins at `ns` and has files alone takes the first one that is free.

    >>> from itertools import islice
    >>> list(islice(claimed_instants(3_000_000), 3))
    ['19700101000000001', '19700101000000004', '19700101000000005']
    """
    ms = ns // NS_PER["ms"]
    first = ms - max(0, ms % STEP_MS - CLAIMED_MS + 1)
    return (instant_digits(one * NS_PER["ms"]) for one in count(first) if one % STEP_MS < CLAIMED_MS)


def claim_path(instant: str) -> str:
    """The object whose creator alone names files with an instant, relative to the table root."""
    return f"{CLAIMS_FOLDER}/{instant}"


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
