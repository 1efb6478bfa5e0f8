"""Planning a correction by executors: which task rewrites which segments, and which arriving ones are committed as they are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from gapless.coverage.bitmap import CoverageMap
from gapless.coverage.codec import encode
from gapless.errors import InvalidValue
from gapless.files.compare.keys import KeySet
from gapless.files.write.staged_write import StagedWrite
from gapless.formats.timeseries.conflict.rows import overlapping_coverage
from gapless.model.segment import Segment
from gapless.predicate.plan import prune
from gapless.predicate.predicate import Or, Predicate
from gapless.spark.correct.revise import AffectedSegment, ByKey, RevisionTask, UnmatchedRows
from gapless.spark.setup.packs import packs_of
from gapless.tables.timeseries.correct.operations import Delete, Replace, Upsert, condition_cut
from gapless.tables.timeseries.correct.rewrite import CommitInfo
from gapless.tables.timeseries.correct.rewrite_affected import AffectedFiles, homes_of
from gapless.tables.timeseries.correct.row_selection import BaseVersion, Filter, KeySelector, RowSelector
from gapless.tables.timeseries.read.scan import select_identities
from gapless.tables.timeseries.read.values import format_index_value, parse_index_value


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """Rows that executors wrote as segments which no commit names yet."""

    attempt: StagedWrite
    coverage: CoverageMap
    """What all of them cover."""
    bounds: tuple[Predicate, ...] = ()
    """For each segment what its keys say of rows that have one of them; of those whose keys were looked at."""


class CorrectionRequest(CommitInfo, Protocol):
    """One intended change of rows, of which the driver never holds any."""

    def check(self, before: BaseVersion) -> None:
        """Raise what wrong arguments and columns deserve, before any row is looked at."""
        ...

    def distinct(self, before: BaseVersion) -> tuple[tuple[str, ...], ...]:
        """Lists of columns each of which no two arriving rows may have alike."""
        ...

    def decide(self, before: BaseVersion, arrived: Arrived) -> tuple[RowSelector, ByKey | Filter]:
        """Which rows of a version go: for the driver, which sees only what the log says, and for executors.

        Raises InvalidValue for rows that may not arrive.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class UpsertRequest:
    """An upsert."""

    upsert: Upsert
    operation: str = "upsert"

    @property
    def parameters(self) -> Mapping[str, object]:
        """What the log says of it."""
        return self.upsert.parameters

    def check(self, before: BaseVersion) -> None:
        """See `CorrectionRequest.check`."""
        self.upsert.check(before)

    def distinct(self, before: BaseVersion) -> tuple[tuple[str, ...], ...]:
        """See `CorrectionRequest.distinct`."""
        columns = self.upsert.columns(before)
        return (columns, before.keys) if self._is_unique_beside(before) else (columns,)

    def decide(self, before: BaseVersion, arrived: Arrived) -> tuple[RowSelector, ByKey]:
        """See `CorrectionRequest.decide`."""
        columns = self.upsert.columns(before)
        covered = set(before.keys) <= set(columns)
        cut = KeySelector(
            before=before,
            # Only executors look at rows.
            keys=KeySet.of(before.schema.empty_table(), columns),
            seen=Filter(columns=columns, predicate=Or(terms=arrived.bounds)),
            coverage=arrived.coverage if covered else None,
        )
        return cut, ByKey(columns=columns, covered=covered, unique=self._is_unique_beside(before))

    def _is_unique_beside(self, before: BaseVersion) -> bool:
        """Whether the table wants identity and index to be unique, and the key does not say that."""
        return before.meta.properties.unique and set(self.upsert.columns(before)) != set(before.keys)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionRequest:
    """A deletion, or a replacement of a range."""

    correction: Delete | Replace

    @property
    def operation(self) -> str:
        """What the log calls it."""
        return self.correction.operation

    @property
    def parameters(self) -> Mapping[str, object]:
        """What the log says of it."""
        return self.correction.parameters

    def check(self, before: BaseVersion) -> None:
        """See `CorrectionRequest.check`."""
        condition_cut(before, self.correction.request)

    def distinct(self, before: BaseVersion) -> tuple[tuple[str, ...], ...]:
        """See `CorrectionRequest.distinct`."""
        return (before.keys,) if before.meta.properties.unique else ()

    def decide(self, before: BaseVersion, arrived: Arrived) -> tuple[RowSelector, Filter]:
        """See `CorrectionRequest.decide`."""
        for segment, coverage in zip(arrived.attempt.segments, arrived.attempt.coverage, strict=True):
            self._check_inside(before, segment, coverage)
        cut = condition_cut(before, self.correction.request)
        return cut, cut.seen

    def _check_inside(self, before: BaseVersion, segment: Segment, coverage: CoverageMap) -> None:
        request, index = self.correction.request, before.index
        start, end = (
            None if value is None else parse_index_value(value, index, before.schema, name=name)
            for name, value in (("start", request.start), ("end", request.end))
        )
        chosen = select_identities(request.entity, index, before.schema)
        outside: object = next((identity for identity in coverage.identities() if not chosen(identity)), None)
        if start is not None and segment.bounds.first < start:
            outside = format_index_value(segment.bounds.first, index, before.schema)
        elif end is not None and segment.bounds.last >= end:
            outside = format_index_value(segment.bounds.last, index, before.schema)
        if outside is not None:
            raise InvalidValue(
                f"a row of the DataFrame lies outside what is to be replaced: {outside}",
                why="The range is half-open, and `entity` bounds it too",
                fix="Leave such rows out, or replace a range that holds them",
                column=index.column,
                row=-1,  # Its place is not known any more.
                value=str(outside),
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionPlan:
    """What executors do."""

    adopted: tuple[int, ...]
    """The places of the arriving segments that become live as they are: none of their rows belongs to a segment that is there."""
    tasks: tuple[RevisionTask, ...]


@dataclass(frozen=True, kw_only=True)
class RevisionPlanner:
    """Plans one correction of one version."""

    before: BaseVersion
    affected: AffectedFiles
    arrived: Arrived
    goes: ByKey | Filter

    def plan(self, room: Callable[[], int]) -> RevisionPlan:
        """The plan; `room` says how many tasks run at once, if it is asked. Raises CorruptTable, StoreError."""
        rests, adopted = self._rests()
        touched = {one.segment.path: one for one in self._touched()}
        segments = sorted((one.segment for one in touched.values()), key=lambda s: (s.bounds.first, s.path))
        leaving = {self._arriving[rest.number].path: rest for rest in rests}
        cores = room() if len(touched) + len(rests) > 1 else 1
        tasks = [RevisionTask(touched=tuple(touched[one.path] for one in pack)) for pack in packs_of(segments, cores)]
        packs = packs_of([self._arriving[rest.number] for rest in rests], cores)
        tasks += [RevisionTask(rests=tuple(leaving[one.path] for one in pack)) for pack in packs]
        return RevisionPlan(adopted=tuple(adopted), tasks=tuple(tasks))

    @property
    def _arriving(self) -> list[Segment]:
        return self.arrived.attempt.segments

    @cached_property
    def _homes(self) -> dict[str, CoverageMap]:
        return homes_of(self.arrived.coverage, self.affected.lasting)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {segment.path: place for place, segment in enumerate(self._arriving)}

    def _rests(self) -> tuple[list[UnmatchedRows], list[int]]:
        """Of the arriving segments what no live one takes in, and those of which none takes anything."""
        homed, rests, adopted = CoverageMap.union_of(self._homes.values()), [], []
        for place, coverage in enumerate(self.arrived.attempt.coverage):
            rest = coverage.difference(homed)
            if rest == coverage:
                adopted.append(place)
            elif rest:
                rests.append(UnmatchedRows(place, encode(rest, self.before.entity_types)))
        return rests, adopted

    def _touched(self) -> list[AffectedSegment]:
        checked = {s.path for s, _ in self.affected.lasting} if self._checks_all else set[str]()
        paths = self.affected.reached | self._homes.keys() | checked
        segments = [segment for segment in self.before.state.segments if segment.path in paths]
        keys_from = self._keys_from(segments)
        return [self._one(segment, keys_from[segment.path]) for segment in segments]

    @property
    def _checks_all(self) -> bool:
        return isinstance(self.goes, ByKey) and self.goes.unique

    def _one(self, segment: Segment, keys_from: tuple[int, ...]) -> AffectedSegment:
        home = self._homes.get(segment.path)
        wanted = self.before.coverage(segment) if self._checks_all else home
        return AffectedSegment(
            segment=segment,
            reached=segment.path in self.affected.reached,
            home=b"" if home is None else encode(home, self.before.entity_types),
            rows_from=() if wanted is None else self._meeting(wanted),
            keys_from=keys_from,
        )

    def _keys_from(self, segments: list[Segment]) -> defaultdict[str, tuple[int, ...]]:
        """By segment, the places of the arriving ones that may hold a key of its rows."""
        found: defaultdict[str, tuple[int, ...]] = defaultdict(tuple)
        if not isinstance(self.goes, ByKey):
            return found
        if self.goes.covered:
            found.update({segment.path: self._meeting(self.before.coverage(segment)) for segment in segments})
            return found
        before = self.before
        for place, bounds in enumerate(self.arrived.bounds):
            for segment in prune(segments, bounds, before.index, before.schema, before.meta.ids):
                found[segment.path] += (place,)
        return found

    def _meeting(self, coverage: CoverageMap) -> tuple[int, ...]:
        """The places of the arriving segments that cover a bucket of `coverage`."""
        near = overlapping_coverage(self._arriving, coverage, self.before.grid)
        places = [self._places[segment.path] for segment in near]
        return tuple(place for place in places if not self.arrived.attempt.coverage[place].is_disjoint(coverage))
