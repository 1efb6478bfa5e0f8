"""Plan the compaction of a time-series table: which segments are rewritten, together with which others and why. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Literal

import pyarrow as pa

from gapless.coverage.bucket import grid_of
from gapless.errors import InvalidOption, one_of
from gapless.model.column_ids import PLAIN, ColumnIds
from gapless.model.index import Bucket, Identity, IndexSpec, parse_bucket
from gapless.model.properties import CODECS, Codec
from gapless.model.schema import stored_schema
from gapless.model.segment import Segment
from gapless.predicate.plan import index_windows, plan_groups, row_bytes
from gapless.tables.shared.compaction import TARGET_BYTES, FileBin, cluster_columns, parse_target_size
from gapless.tables.shared.compaction_plan import plan_text
from gapless.tables.shared.findings import count

SMALL = 0.5
"""A segment below this share of what one may hold is small."""

Cause = Literal["small", "inlined", "not sorted", "overlapping", "other codec", "not clustered", "asked for"]
"""Why a segment is written again."""
Rest = Literal["large enough", "alone", "across a window's edge", "left for later", "given up"]
"""Why a segment is left as it is."""

_RESTS: dict[Rest, str] = {
    "large enough": "large enough as they are",
    "alone": "small, but with no other small one to go with",
    "across a window's edge": "with rows on both sides of a window's edge: to split them would make more files",
    "left for later": "beyond the bytes that this run may read",
    "given up": "tried in this run already, to no avail",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin(FileBin[Segment]):
    """Segments that become one, or as many as their rows need; of the index where none overlaps another, else in order of arrival."""

    causes: Mapping[Cause, int]
    """Why, with how many of its segments each cause holds for."""
    cluster_by: tuple[str, ...] = ()
    """Stored names of columns along whose z-order the rows shall lie; none for the order of entity and index."""
    windows: tuple[tuple[int, int], ...] = ()
    """Index ranges `[start, end)` to read and sort one by one, where the segments overlap and do not fit in memory."""

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Its segments, in the order in which they are read."""
        return self.files

    @property
    def rows(self) -> int:
        """Rows."""
        return sum(segment.rows for segment in self.segments)

    @property
    def must_shrink(self) -> bool:
        """Whether it is only worth while where fewer segments come out."""
        return set(self.causes) <= {"small"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPlan:
    """What to rewrite, and what to leave."""

    bins: tuple[Bin, ...]
    left: Mapping[str, Rest]
    """The other segments, by path, with why they stay."""
    target_size: int

    @property
    def segments(self) -> int:
        """How many segments would be replaced."""
        return sum(len(one.segments) for one in self.bins)

    def explain(self) -> str:
        """The plan in words, a line for each bin and for each reason to leave segments alone."""
        return plan_text(self.bins, self.left, self.target_size, noun="segment", rests=_RESTS, how=_how)


def _how(one: Bin) -> str:
    along = f", along the z-order of {', '.join(one.cluster_by)}" if one.cluster_by else ""
    return along + (f", in {count(len(one.windows), 'window')} of the index" if one.windows else "")


def plan_compaction(
    segments: Sequence[Segment],
    index: IndexSpec,
    schema: pa.Schema,
    options: CompactOptions,
    *,
    ids: ColumnIds = PLAIN,
    codecs: Mapping[str, Codec] | None = None,
    settled: Collection[str] = frozenset(),
    hopeless: Collection[str] = frozenset(),
) -> CompactionPlan:
    """Put segments, given in order of arrival, into bins.

    Bins hold neighbours in the index and are filled up to `target_size` bytes of Parquet and, where rows of several identities
    must be sorted, `sort_bytes` of memory. They never mix windows, nor segments that are clustered with others. Where the table is laid
    out by identity (every segment of at least half the target size, and there are some, holds just one), they never mix identities.

    `schema` is the declared one, `ids` the table's. `codecs` names each segment's codec, by path, where `options.codec` is to be compared with it. Paths that are
    `settled` were written by this run: only their size still counts; `hopeless` ones are left alone.
    """
    stored = stored_schema(schema, ids)
    rules = _Rules(
        index=index,
        schema=stored,
        options=options,
        cluster_by=tuple(ids.stored_name(name) for name in options.cluster_by),
        codecs=codecs or {},
        settled=frozenset(settled),
        by_identity=_is_laid_out_by_identity(segments, index, options),
        row_bytes=row_bytes(stored),
    )
    left: dict[str, Rest] = {segment.path: "given up" for segment in segments if segment.path in hopeless}
    bins: list[Bin] = []
    arrival = {segment.path: place for place, segment in enumerate(segments)}
    for key, members in rules.keyed(segment for segment in segments if segment.path not in hopeless).items():
        if isinstance(key, str):
            left |= dict.fromkeys((segment.path for segment in members), key)
            continue
        overlapping = rules.overlapping(members)
        causes = rules.causes(members, overlapping)
        left |= {segment.path: "large enough" for segment in members if segment.path not in causes}
        for packed in rules.packed([segment for segment in members if segment.path in causes], overlapping):
            if len(packed) == 1 and causes[packed[0].path] == "small":
                left[packed[0].path] = "alone"
            else:
                bins.append(rules.bin(packed, causes, key.cluster_by, arrival))
    kept = _within_budget(bins, options.max_bytes)
    left |= {segment.path: "left for later" for one in bins[len(kept) :] for segment in one.segments}
    return CompactionPlan(bins=kept, left=left, target_size=options.target_size)


def _within_budget(bins: Sequence[Bin], max_bytes: int | None) -> tuple[Bin, ...]:
    """The first bins that together read no more."""
    totals = accumulate(one.size for one in bins)
    return tuple(one for one, total in zip(bins, totals, strict=True) if max_bytes is None or total <= max_bytes)


def _is_laid_out_by_identity(segments: Iterable[Segment], index: IndexSpec, options: CompactOptions) -> bool:
    large = [s for s in segments if (s.size or 0) >= SMALL * options.target_size]
    return bool(index.entity and large) and all(s.identity is not None for s in large)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Key:
    """What the segments of one bin have in common."""

    window: int | None
    identity: Identity | None
    cluster_by: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rules:
    """What holds for all segments of one plan."""

    index: IndexSpec
    schema: pa.Schema
    """What files hold, by stored names."""
    options: CompactOptions
    cluster_by: tuple[str, ...]
    """Stored names of the columns that the options name."""
    codecs: Mapping[str, Codec]
    settled: frozenset[str]
    by_identity: bool
    row_bytes: int
    """A guess of one row's Arrow memory."""

    def keyed(self, segments: Iterable[Segment]) -> dict[_Key | Rest, list[Segment]]:
        """The segments that may lie in one bin together, and those that may lie in none, with why."""
        grid = None if self.options.window is None else grid_of(self.options.window, signed=self.index.type != "uint64")
        keyed: dict[_Key | Rest, list[Segment]] = defaultdict(list)
        for segment in segments:
            first, last = (None if grid is None else grid.id_of(end) for end in (segment.bounds.first, segment.bounds.last))
            identity = segment.identity if self.by_identity else None
            key = _Key(window=first, identity=identity, cluster_by=self._cluster_of(segment))
            keyed[key if first == last else "across a window's edge"].append(segment)
        return keyed

    def overlapping(self, members: Iterable[Segment]) -> list[tuple[Segment, ...]]:
        """Segments that a scan must sort, where they are to be sorted once for all: those that overlap together, else by themselves."""
        if not self.options.resort:
            return []
        fresh = [segment for segment in members if segment.path not in self.settled]
        groups = plan_groups(fresh, self.index, self.schema, by_index=False)
        return [group.segments for group in groups if group.sort]

    def causes(self, members: Sequence[Segment], overlapping: Sequence[tuple[Segment, ...]]) -> dict[str, Cause]:
        """Why segments that share a key are to be written again, by path; the others are fine."""
        found: dict[str, Cause] = {segment.path: "small" for segment in members if self._is_small(segment)}
        found |= {segment.path: "inlined" for segment in members if segment.data is not None}
        fresh = [segment for segment in members if segment.path not in self.settled]
        wanted = self.options.codec
        found |= {s.path: "other codec" for s in fresh if wanted is not None and self.codecs.get(s.path, wanted) != wanted}
        for group in overlapping:
            found |= dict.fromkeys((s.path for s in group), "overlapping" if len(group) > 1 else "not sorted")
        found |= {s.path: "asked for" for s in fresh if self.options.only is not None}
        asked = self.cluster_by
        return found | {s.path: "not clustered" for s in fresh if asked and s.clustered_by != asked}

    def packed(self, chosen: Sequence[Segment], overlapping: Sequence[tuple[Segment, ...]]) -> Iterator[tuple[Segment, ...]]:
        """The chosen segments, neighbour by neighbour, filled up to what one segment may hold."""
        held: list[Segment] = []
        size = memory = 0.0
        for unit in _units(chosen, overlapping):
            more_size, more_memory = (sum(shares) for shares in zip(*map(self._shares, unit), strict=True))
            if held and (size + more_size > 1 or memory + more_memory > 1):
                yield tuple(held)
                held, size, memory = [], 0.0, 0.0
            held += unit
            size, memory = size + more_size, memory + more_memory
        if held:
            yield tuple(held)

    def bin(
        self, packed: Sequence[Segment], causes: Mapping[str, Cause], cluster_by: tuple[str, ...], arrival: Mapping[str, int]
    ) -> Bin:
        """The bin of these segments."""
        packed = sorted(packed, key=lambda s: (s.bounds.first, s.bounds.last))
        apart = _are_apart(packed)
        memory, rows = sum(map(self._memory, packed)), sum(segment.rows for segment in packed)
        in_order = apart and not any(self._is_unsorted(segment) for segment in packed)
        by_window = not in_order and not cluster_by and memory > self.options.sort_bytes
        return Bin(
            files=tuple(packed if apart else sorted(packed, key=lambda s: arrival[s.path])),
            causes=Counter(causes[segment.path] for segment in packed),
            cluster_by=cluster_by,
            windows=index_windows(packed, max(1, self.options.sort_bytes * rows // memory)) if by_window else (),
        )

    def _cluster_of(self, segment: Segment) -> tuple[str, ...]:
        if self.cluster_by or self.options.resort:
            return self.cluster_by
        # A column that is gone since can order nothing.
        return segment.clustered_by if set(segment.clustered_by) <= set(self.schema.names) else ()

    def _is_unsorted(self, segment: Segment) -> bool:
        return segment.sorted_by != self.index.keys

    def _is_small(self, segment: Segment) -> bool:
        return max(self._shares(segment)) < SMALL

    def _shares(self, segment: Segment) -> tuple[float, float]:
        """The shares of the size and of the memory of one output that a segment takes."""
        memory = self._memory(segment)
        size = memory if segment.size is None else segment.size
        # Rows of one identity that lie in index order stream through without a sort.
        alone = not self.index.entity or (self.by_identity and segment.identity is not None)
        streams = alone and not segment.clustered_by and not self.cluster_by
        return size / self.options.target_size, 0.0 if streams else memory / self.options.sort_bytes

    def _memory(self, segment: Segment) -> int:
        """A guess of the Arrow memory of its rows."""
        return max(1, segment.rows * self.row_bytes, segment.size or 0)


def _are_apart(segments: Sequence[Segment]) -> bool:
    """Whether all rows of each of these segments, in index order, come before those of the next."""
    return all(one.bounds.last < other.bounds.first for one, other in pairwise(segments))


def _units(chosen: Sequence[Segment], overlapping: Sequence[tuple[Segment, ...]]) -> list[tuple[Segment, ...]]:
    """What must not be torn apart, in index order: the overlapping ones together, each other segment by itself."""
    bound = {segment.path for group in overlapping for segment in group}
    units = [*overlapping, *((segment,) for segment in chosen if segment.path not in bound)]
    return sorted(units, key=lambda unit: (unit[0].bounds.first, unit[0].bounds.last, unit[0].path))


SORT_BYTES = 256 << 20
"""Arrow memory of the rows that are sorted at once; a compaction holds up to about three times as much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactOptions:
    """How segments are rewritten, and which; checked by `parse`."""

    target_size: int = TARGET_BYTES
    """Bytes of Parquet that a segment shall have."""
    window: Bucket | None = None
    """No segment that a compaction writes crosses an edge of these windows of the index."""
    codec: Codec | None = None
    """Segments of another codec are written again with this one; None keeps them, and takes the table's for the new."""
    cluster_by: tuple[str, ...] = ()
    """Rows lie along the z-order of these columns, in place of entity and index; segments that do not are written again."""
    resort: bool = False
    """Segments of any size that scans must sort, by themselves or because they overlap, are written again."""
    max_bytes: int | None = None
    """Bytes of Parquet to read at most; what is left over waits for another time."""
    only: frozenset[str] | None = None
    """The paths of segments to write again, whatever they are like, and no others; None for those that need it."""
    sort_bytes: int = SORT_BYTES

    @classmethod
    def parse(
        cls,
        *,
        target_size: object = TARGET_BYTES,
        window: object = None,
        codec: object = None,
        cluster_by: object = (),
        resort: bool = False,
        index: IndexSpec,
        schema: pa.Schema | None,
    ) -> CompactOptions:
        """Check options as a user gave them: `window` as a bucket is spelled, `cluster_by` one to four columns.

        Raises InvalidOption, UnknownColumn, and UnsupportedType for a column whose values have no order.
        """
        chosen = None if codec is None else one_of("codec", codec, CODECS)
        columns = cluster_columns(cluster_by, schema or pa.schema([]))
        if columns and resort:
            raise InvalidOption(
                "resort=True with cluster_by",
                why="Rows lie either by entity and index, or along the z-order of other columns",
                fix="Pass one of the two",
                option="resort",
                value=resort,
            )
        return cls(
            target_size=parse_target_size(target_size),
            window=None if window is None else _window(window, index),
            codec=chosen,
            cluster_by=columns,
            resort=resort,
        )


def _window(given: object, index: IndexSpec) -> Bucket:
    text = given if isinstance(given, int) and not isinstance(given, bool) else str(given)
    try:
        return parse_bucket(text, index.type, index.timezone)
    except InvalidOption as error:
        what = f"window {given!r} is no stretch of the index {index.column!r}"
        raise InvalidOption(what, why=error.why, fix='Pass one such as window="1d"', option="window", value=given) from error
