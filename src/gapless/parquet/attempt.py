"""One staged change: the segments written for it, and not committed yet."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from gapless.coverage.bitmap import CoverageMap
from gapless.coverage.codec import encode
from gapless.coverage.sidecar_index import index_sidecar
from gapless.dialects.timeseries.actions import TableState
from gapless.dialects.timeseries.file_names import instant_digits, segment_path, sidecar_path
from gapless.errors import StoreError
from gapless.model.index import EntityType
from gapless.model.report import Tally
from gapless.model.segment import CoverageRef, InlineCoverage, Segment, SidecarCoverage
from gapless.parquet.checksum import checksum
from gapless.parquet.segment_encoder import EncodedSegment
from gapless.runtime.driver import Rim
from gapless.store.probe import probe_put_if_absent

INLINE_COVERAGE_BYTES = 4_096
"""Encoded coverage up to this size lies in the commit; larger in a sidecar."""


@dataclass(slots=True)
class Attempt:
    """One staged change: the segments written for it, all named with its one instant."""

    rim: Rim
    instant: str
    segments: list[Segment] = field(default_factory=list)
    coverage: list[CoverageMap] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
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
    def begin(cls, rim: Rim) -> Attempt:
        """An attempt with nothing in it; its instant is now, 17 digits, UTC.

        The first one in a process tries the store; raises StoreError where that lets two creates of one object win.
        """
        probe_put_if_absent(rim.store)
        return cls(rim, instant_digits(rim.clock.now_ns()))

    def write(self, encoded: EncodedSegment, state: TableState, types: tuple[EntityType, ...]) -> None:
        """Store a segment and its coverage."""
        file_id = self.rim.ids.uuid()
        path = segment_path(file_id, len(self.segments), self.instant)
        self._put(path, encoded.data)
        ref = self._put_coverage(file_id, encode(encoded.coverage, types), types)
        index = state.meta.index
        identities = encoded.coverage.identities()
        alone = len(identities) == 1
        self.coverage.append(encoded.coverage)
        self.segments.append(
            Segment(
                path=path,
                rows=encoded.rows,
                size=len(encoded.data),
                bounds=encoded.bounds,
                index_type=index.type,
                identity=identities[0] if alone else None,
                identity_types=types if alone else (),
                coverage=ref,
                stats=encoded.stats,
                checksum=encoded.checksum,
                footer_checksum=encoded.footer_checksum,
                sorted_by=index.keys,
            )
        )

    def _put_coverage(self, file_id: str, sidecar: bytes, types: tuple[EntityType, ...]) -> CoverageRef:
        if len(sidecar) <= INLINE_COVERAGE_BYTES:
            return InlineCoverage(sidecar)
        index = index_sidecar(sidecar, types)
        ref = SidecarCoverage(sidecar_path(file_id), checksum(sidecar), None if index is None else checksum(index))
        self._put(ref.path, sidecar)
        if index is not None:
            self._put(ref.index_path, index)
        return ref

    def _put(self, path: str, data: bytes | memoryview) -> None:
        # Named before it is stored: a put without an answer may have landed.
        self.written.append(path)
        # The name is unique, and a bucket may answer "exists" to our own write that its client sent twice.
        self.rim.store.put(path, data, mode="overwrite")

    @contextlib.contextmanager
    def discarded_on_error(self) -> Iterator[None]:
        """For work on an attempt of which no commit was tried, or one that certainly lost: nothing can need its files if it fails."""
        try:
            yield
        except BaseException:
            self.discard()
            raise

    def discard(self) -> None:
        """Remove what was written; only for a change that certainly was not and will not be committed."""
        for path in self.written:
            with contextlib.suppress(StoreError):
                self.rim.store.delete(path)
