"""A table's state while commits are folded into it."""

from __future__ import annotations

from dataclasses import dataclass

from gapless.dialects.timeseries.actions import (
    Action,
    AddSegment,
    Applied,
    ExpireVersions,
    ForgetSegments,
    LiveSegment,
    Removed,
    RemoveSegment,
    SetTag,
    SetTransaction,
    TableMeta,
    TableState,
    UpdateTableMeta,
)
from gapless.dialects.timeseries.live import LiveSegments
from gapless.model.layered import LayeredDict
from gapless.model.operation import operation_key
from gapless.model.segment import Segment, SidecarCoverage


@dataclass(slots=True)
class Draft:
    """The parts of a `TableState`, to be changed in place."""

    meta: TableMeta | None
    live: LiveSegments
    applied: LayeredDict[Applied]
    removed: LayeredDict[Removed]
    tags: dict[str, int]
    earliest: int
    inlined_bytes: int

    @classmethod
    def of(cls, state: TableState | None) -> Draft:
        """A copy of a state, or of nothing."""
        if state is None:
            return cls(None, LiveSegments(), LayeredDict(), LayeredDict(), {}, 1, 0)
        return cls(
            state.meta,
            LiveSegments.of(state.live),
            LayeredDict.of(state.applied),
            LayeredDict.of(state.removed),
            dict(state.tags),
            state.earliest,
            state.inlined_bytes,
        )

    def state(self, meta: TableMeta) -> TableState:
        """What it has become; the draft must not be changed any more."""
        return TableState(
            meta=meta,
            live=self.live,
            applied=self.applied,
            removed=self.removed,
            tags=self.tags,
            earliest=self.earliest,
            inlined_bytes=self.inlined_bytes,
        )

    def apply(self, action: Action, version: int, time_ns: int) -> None:
        """Take in one action of a commit; raises ValueError, saying what the commit does, where it cannot follow."""
        match action:
            case UpdateTableMeta(new):
                if self.meta is not None and self.meta.index != new.index:
                    raise ValueError("changes the table's index, which is fixed when it is created")
                self.meta = new
            case AddSegment(segment):
                if segment.path in self.live:
                    raise ValueError(f"adds {segment.path}, which is live already")
                self.live[segment.path] = LiveSegment(segment, version)
                self.inlined_bytes += segment.inlined_bytes
            case RemoveSegment(path):
                # timeseries-table-format ignores a removal of what is not live, and so must its readers.
                if (gone := self.live.pop(path, None)) is not None:
                    self.removed[path] = self._tombstone(gone, version, time_ns)
                    self.inlined_bytes -= gone.segment.inlined_bytes
            case SetTransaction(operation, tally):
                self.applied[operation_key(operation)] = Applied(operation, version, time_ns, tally)
            case SetTag(name, None):
                self.tags.pop(name, None)
            case SetTag(name, int(tagged)):
                self.tags[name] = tagged
            case ExpireVersions(before):
                self.earliest = max(self.earliest, before)
            case ForgetSegments(paths):
                for path in paths:
                    self.removed.pop(path, None)

    def _tombstone(self, gone: LiveSegment, version: int, time_ns: int) -> Removed:
        segment, earlier = gone.segment, self.removed.get(gone.segment.path)
        return Removed(
            path=segment.path,
            sidecars=sidecars_of(segment),
            size=segment.size,
            rows=segment.rows,
            added=gone.version if earlier is None else min(earlier.added, gone.version),
            removed=version,
            removed_ns=time_ns,
        )


def sidecars_of(segment: Segment) -> tuple[str, ...]:
    """The objects that hold a segment's coverage, relative to the table root."""
    return segment.coverage.paths if isinstance(segment.coverage, SidecarCoverage) else ()
