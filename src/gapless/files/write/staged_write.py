"""Segments written for one change of a time-series table, and not committed yet."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from gapless.coverage.bitmap import CoverageMap
from gapless.coverage.codec import encode, index_sidecar
from gapless.files.pages.footer import checksum
from gapless.files.write.instants import claim_instant
from gapless.files.write.segment_encoder import EncodedSegment
from gapless.files.write.staged_files import StagedFiles
from gapless.formats.timeseries.actions import TableState, segment_path, shared_instant, sidecar_path
from gapless.model.index import EntityType, Identity
from gapless.model.operation import Tally
from gapless.model.segment import CoverageRef, InlineCoverage, Segment, SidecarCoverage
from gapless.runtime.environment import Environment
from gapless.store.open import probe_put_if_absent

INLINE_COVERAGE_BYTES = 4_096
"""Encoded coverage up to this size lies in the commit; larger in a sidecar."""


STREAMED_BYTES = 1 << 20
"""Segments of so much Arrow memory are stored while they are encoded."""
_SHRINKS = 64
"""How many times smaller than Arrow memory a file may be, as far as one cares."""


@dataclass(frozen=True, slots=True)
class BegunSegment:
    """Where a segment will be."""

    file_id: str
    path: str
    onto: Callable[..., object] | None
    """Takes its bytes as they are made; None where they are to be held."""


@dataclass(slots=True)
class StagedWrite(StagedFiles):
    """One staged change: the segments written for it, all named with its one instant."""

    instant: str
    segments: list[Segment] = field(default_factory=list)
    coverage: list[CoverageMap] = field(default_factory=list)
    skipped_rows: int = 0
    skipped: CoverageMap = field(default_factory=CoverageMap)

    @property
    def tally(self) -> Tally:
        """What it wrote and left out."""
        return Tally(
            rows=sum(segment.rows for segment in self.segments),
            segments=len(self.segments),
            buckets=self.covered.cardinality(),
            skipped_rows=self.skipped_rows,
            skipped_buckets=self.skipped.cardinality(),
        )

    @property
    def covered(self) -> CoverageMap:
        """What its segments cover."""
        return CoverageMap.union_of(self.coverage)

    @classmethod
    def begin(cls, env: Environment, *, committed_here: bool = False) -> StagedWrite:
        """An attempt with nothing in it; its instant is now, 17 digits, UTC. Others may have the same.

        The first one in a process tries the store; raises StoreError where that lets two creates of one object win.
        """
        probe_put_if_absent(env.store)
        return cls(env, shared_instant(env.clock.now_ns()), committed_here=committed_here)

    @classmethod
    def begin_alone(cls, env: Environment, state: TableState) -> StagedWrite:
        """As `begin`, for a change of this version that is made, and committed with all of its files or none, in this process. Where readers of
        a description of the table see files by their instants, it has one of its own.
        """
        if "hudi" not in state.meta.properties.publish:
            return cls.begin(env, committed_here=True)
        probe_put_if_absent(env.store)
        return cls(env, claim_instant(env), committed_here=True)

    @contextlib.contextmanager
    def begun(self, memory_bytes: int, inline_bytes: int = 0) -> Iterator[BegunSegment]:
        """A segment to be encoded from so much Arrow memory, and then written with `write`: stored while it is encoded, unless it is small, or
        may be so small encoded that it is left to the commit.
        """
        held = self._held()
        if memory_bytes < max(STREAMED_BYTES, _SHRINKS * inline_bytes):
            yield held
            return
        with self.streamed(held.path) as file:
            yield held if file is None else replace(held, onto=file.write)

    def write(
        self,
        encoded: EncodedSegment,
        state: TableState,
        types: tuple[EntityType, ...],
        inline_bytes: int = 0,
        begun: BegunSegment | None = None,
    ) -> None:
        """Store a segment and its coverage; the first, where both have at most `inline_bytes`, is left to the commit."""
        mine = begun or self._held()
        sidecar = encode(encoded.coverage, types)
        inlined = not self.segments and mine.onto is None and encoded.size + len(sidecar) <= inline_bytes
        if not inlined and mine.onto is None:
            self.put(mine.path, *encoded.pieces)
        ref = InlineCoverage(sidecar) if inlined else self._put_coverage(mine.file_id, sidecar, types)
        index = state.meta.index
        identity, identity_types = only_identity(encoded.coverage, types)
        self.coverage.append(encoded.coverage)
        self.segments.append(
            Segment(
                path=mine.path,
                rows=encoded.rows,
                size=encoded.size,
                bounds=encoded.bounds,
                index_type=index.type,
                identity=identity,
                identity_types=identity_types,
                coverage=ref,
                stats=encoded.stats,
                checksum=encoded.checksum,
                footer_checksum=encoded.footer_checksum,
                sorted_by=index.keys,
                data=bytes(encoded.data) if inlined else None,
            )
        )

    def _held(self) -> BegunSegment:
        file_id = self.env.ids.uuid()
        return BegunSegment(file_id, segment_path(file_id, len(self.segments), self.instant), None)

    def put_coverage(self, file_id: str, coverage: CoverageMap, types: tuple[EntityType, ...]) -> CoverageRef:
        """Store what a segment covers that this attempt has placed otherwise, or leave it to the commit where it is small."""
        return self._put_coverage(file_id, encode(coverage, types), types)

    def _put_coverage(self, file_id: str, sidecar: bytes, types: tuple[EntityType, ...]) -> CoverageRef:
        if len(sidecar) <= INLINE_COVERAGE_BYTES:
            return InlineCoverage(sidecar)
        index = index_sidecar(sidecar, types)
        ref = SidecarCoverage(sidecar_path(file_id), checksum(sidecar), None if index is None else checksum(index))
        self.put(ref.path, sidecar)
        if index is not None:
            self.put(ref.index_path, index)
        return ref


def only_identity(coverage: CoverageMap, types: tuple[EntityType, ...]) -> tuple[Identity | None, tuple[EntityType, ...]]:
    """The one identity that a segment with this coverage holds, with the types of its values; None and no types where it holds several."""
    identities = coverage.identities()
    return (identities[0], types) if len(identities) == 1 else (None, ())
