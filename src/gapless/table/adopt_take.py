"""Files on their way into a table's store: placed by one thread while another reads their keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from gapless.coverage.bitmap import CoverageMap
from gapless.coverage.bucket import Grid
from gapless.dialects.timeseries.actions import TableState
from gapless.dialects.timeseries.file_names import segment_path
from gapless.errors import InvalidOption
from gapless.model.fit import restore
from gapless.model.formats import Parquet, parse_format
from gapless.model.index import IndexSpec
from gapless.model.schema import entity_types
from gapless.model.segment import Segment
from gapless.parquet.adopt_keys import KeyScan
from gapless.parquet.adopt_place import Adopt, Placed, Placing, check_movable
from gapless.parquet.adopt_source import Source
from gapless.parquet.adopt_stats import adopted_stats
from gapless.parquet.attempt import Attempt, only_identity
from gapless.parquet.batches import Progress
from gapless.parquet.files import format_of


def open_sources(files: Sequence[Path], file_format: object, how: Adopt) -> list[Source]:
    """The files that are to become segments; raises InvalidOption for one that is no Parquet, UnreadableInput, InvalidPath."""
    given = parse_format(file_format)
    for path in files:
        if not isinstance(format_of(path, given), Parquet):
            raise InvalidOption(
                f"{path} cannot be adopted",
                why="Segments are Parquet files, and adopt takes a file as it is",
                fix="Append it without adopt: its rows are then read and written",
                option="adopt",
                value=how,
            )
        if how == "move":
            check_movable(path)
    return [Source.open(path) for path in files]


@dataclass(frozen=True, slots=True, kw_only=True)
class Surveyed:
    """A file whose key columns were read."""

    source: Source
    scan: KeyScan
    coverage: CoverageMap

    def keys(self, schema: pa.Schema, index: IndexSpec) -> Iterator[pa.RecordBatch]:
        """Its index and entity columns once more, as `schema` declares them; raises UnreadableInput where the file changed since."""
        keyed = pa.schema([schema.field(name) for name in index.keys])
        for batch in self.source.keys(index):
            yield restore(batch, keyed)


@dataclass(frozen=True, slots=True)
class Taken:
    """A file that lies in the store as a segment, and is not committed yet."""

    surveyed: Surveyed
    segment: Segment

    @property
    def coverage(self) -> CoverageMap:
        """What its rows cover."""
        return self.surveyed.coverage


@dataclass(frozen=True, slots=True)
class _Begun:
    """A file that is being placed."""

    file_id: str
    path: str
    """Relative to the table root."""
    placed: Future[Placed]


@dataclass(frozen=True, slots=True, kw_only=True)
class Taking:
    """Takes files in for one version of a table."""

    state: TableState
    schema: pa.Schema
    """The table's once it has taken the files, which `check_layout` accepted."""
    grid: Grid
    how: Adopt
    progress: Progress | None = None

    def take(self, sources: Sequence[Source], attempt: Attempt, judge: Callable[[Sequence[Surveyed]], object]) -> list[Taken]:
        """The files that have rows, as segments that `attempt` has written.

        `judge` is asked as soon as all keys are known; where it raises, no more is copied. Raises NullKey and the other DataErrors,
        InvalidOption where a file cannot be linked, StoreError, with the attempt to be discarded.
        """
        holding = [source for source in sources if source.rows]
        with Placing(attempt.rim.store, self.how) as placing:
            begun = [self._begin(source, number, attempt, placing) for number, source in enumerate(holding)]
            surveyed = list(self._survey(holding))
            judge(surveyed)
            return [self._taken(one, place, attempt) for one, place in zip(surveyed, begun, strict=True)]

    def _begin(self, source: Source, number: int, attempt: Attempt, placing: Placing) -> _Begun:
        file_id = attempt.rim.ids.uuid()
        path = segment_path(file_id, number, attempt.instant)
        # Named before it is stored, so that it is removed whatever comes.
        attempt.written.append(path)
        return _Begun(file_id, path, placing.begin(source, path))

    def _survey(self, sources: Sequence[Source]) -> Iterator[Surveyed]:
        index, total = self.state.meta.index, sum(source.rows for source in sources)
        done = 0
        for source in sources:
            scan = KeyScan(index, self.grid)
            for batch in source.keys(index):
                scan.add(batch)
                if self.progress is not None:
                    self.progress(done + scan.rows, total)
            done += scan.rows
            yield Surveyed(source=source, scan=scan, coverage=scan.coverage)

    def _taken(self, one: Surveyed, begun: _Begun, attempt: Attempt) -> Taken:
        file, layout, scan = begun.placed.result(), one.source.layout, one.scan
        meta, schema, index = self.state.meta, self.schema, self.state.meta.index
        types = entity_types(schema, index)
        identity, identity_types = only_identity(one.coverage, types)
        assert scan.bounds is not None
        segment = Segment(
            path=begun.path,
            rows=scan.rows,
            size=file.size,
            bounds=scan.bounds,
            index_type=index.type,
            identity=identity,
            identity_types=identity_types,
            coverage=attempt.put_coverage(begun.file_id, one.coverage, types),
            stats=adopted_stats(layout.metadata, layout.schema.names, schema, meta.ids, index, one.coverage.identities()),
            checksum=file.checksum,
            footer_checksum=file.footer_checksum,
            sorted_by=index.keys if scan.in_order else (),
        )
        return Taken(one, segment)
