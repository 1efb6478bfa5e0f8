"""Which task of a correction takes which segments, and which arriving ones go into the table as they are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from gapless.coverage.bitmap import CoverageMap
from gapless.coverage.codec import encode
from gapless.dialects.timeseries.conflict import meeting_coverage
from gapless.model.segment import Segment
from gapless.scan.plan import prune
from gapless.spark.packing import packs_of
from gapless.spark.revise import ByKey, Rest, RevisionTask, Touched
from gapless.spark.wishes import Arrived
from gapless.table.before import Before, Filter
from gapless.table.placement import homes_of
from gapless.table.revision import Touch


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionPlan:
    """What executors do."""

    adopted: tuple[int, ...]
    """The places of the arriving segments that become live as they are: none of their rows belongs to a segment that is there."""
    tasks: tuple[RevisionTask, ...]


@dataclass(frozen=True, kw_only=True)
class RevisionPlanner:
    """Plans one correction of one version."""

    before: Before
    touch: Touch
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
        return homes_of(self.arrived.coverage, self.touch.lasting)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {segment.path: place for place, segment in enumerate(self._arriving)}

    def _rests(self) -> tuple[list[Rest], list[int]]:
        """Of the arriving segments what no live one takes in, and those of which none takes anything."""
        homed, rests, adopted = CoverageMap.union_of(self._homes.values()), [], []
        for place, coverage in enumerate(self.arrived.attempt.coverage):
            rest = coverage.difference(homed)
            if rest == coverage:
                adopted.append(place)
            elif rest:
                rests.append(Rest(place, encode(rest, self.before.entity_types)))
        return rests, adopted

    def _touched(self) -> list[Touched]:
        checked = {s.path for s, _ in self.touch.lasting} if self._checks_all else set[str]()
        paths = self.touch.reached | self._homes.keys() | checked
        segments = [segment for segment in self.before.state.segments if segment.path in paths]
        keys_from = self._keys_from(segments)
        return [self._one(segment, keys_from[segment.path]) for segment in segments]

    @property
    def _checks_all(self) -> bool:
        return isinstance(self.goes, ByKey) and self.goes.unique

    def _one(self, segment: Segment, keys_from: tuple[int, ...]) -> Touched:
        home = self._homes.get(segment.path)
        wanted = self.before.coverage(segment) if self._checks_all else home
        return Touched(
            segment=segment,
            reached=segment.path in self.touch.reached,
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
        near = meeting_coverage(self._arriving, coverage, self.before.grid)
        places = [self._places[segment.path] for segment in near]
        return tuple(place for place in places if not self.arrived.attempt.coverage[place].is_disjoint(coverage))
