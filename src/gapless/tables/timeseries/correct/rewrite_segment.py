"""Copy-on-write of one segment: a new file without some rows or with others, or a patched one where only values change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gapless.errors import NullKey
from gapless.files.adopt.patch import Change, PatchedSource
from gapless.files.compare.bits import same_bits
from gapless.files.compare.keys import KeyIds
from gapless.files.read.page_pruning import KeyFilter, kept_positions
from gapless.files.read.row_filter import RowFilter
from gapless.files.sort.run import Run, gather_runs, merge_runs, sort_run
from gapless.files.write.segment_encoder import EncodedSegment, SegmentEncoder
from gapless.files.write.staged_write import StagedWrite
from gapless.formats.timeseries.codec.schema import METADATA_FEATURE
from gapless.model.fit import fit, to_declared
from gapless.model.schema import stored_schema
from gapless.model.segment import Segment
from gapless.model.stats import distinct
from gapless.predicate.predicate import conjuncts_on
from gapless.predicate.range import conjunction
from gapless.tables.timeseries.correct.row_selection import BaseVersion, KeySelector, RowSplitter
from gapless.tables.timeseries.write import stage
from gapless.tables.timeseries.write.stage import as_written


@dataclass(frozen=True, slots=True)
class Patched:
    """A segment in which rows have other values."""

    encoded: EncodedSegment | None
    """None where they have the values already."""
    hits: KeyIds
    """The numbers of their keys, each once; as many rows have changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patcher:
    """Patches segments of one version for a change by key."""

    before: BaseVersion
    cut: KeySelector

    def open(self, segment: Segment, stored: pa.Schema) -> PatchedSource | None:
        """The segment, whose rows may be changed; None where its file is not as we would write it now. Raises CorruptTable, StoreError."""
        before = self.before
        if (
            set(self.cut.keys.columns) != set(before.keys)
            or segment.sorted_by != before.keys
            or METADATA_FEATURE in before.after.reader_features
        ):
            return None
        return PatchedSource.open(before.store, segment, stored, before.meta.properties.codec)

    def patch(self, source: PatchedSource, arrivals: pa.Table, stored: pa.Table) -> Patched | None:
        """The segment with rows that take the place of those with their keys, `stored` as files hold them; None where it must be written anew.

        That is where a row goes for which none of `arrivals` comes to the same place. Raises CorruptTable, StoreError.
        """
        before, keys = self.before, self.cut.keys
        found = list(self._found(source))
        hits, coming = np.concatenate([np.zeros(0, dtype=np.int64), *(ids for _, _, ids in found)]), keys.match(arrivals)
        if len(np.unique(hits)) != len(hits) or not np.array_equal(np.sort(hits), np.sort(coming)):
            return None
        by_key = np.argsort(coming)
        values = stored.drop_columns(list(before.keys))
        changes = {
            group: Change(positions=positions, rows=values.take(pa.array(by_key[np.searchsorted(coming[by_key], ids)])))
            for group, positions, ids in found
            if len(ids)
        }
        return Patched(source.patched(changes, before.coverage(source.segment)), hits)

    def standing(self, segment: Segment, arrivals: pa.Table) -> KeyIds | None:
        """The numbers of the keys of `arrivals`, where each of them is a row of the segment already, the only one there with its key, and
        no other row goes. Else None, as soon as that shows. Raises CorruptTable, StoreError.
        """
        keys = self.cut.keys
        coming = keys.match(arrivals)
        by_key = np.argsort(coming)
        hits: list[KeyIds] = []
        for rows in self.before.rows(segment, replace(self.cut.seen, columns=tuple(arrivals.column_names))):
            ids = keys.match(rows)
            at = np.flatnonzero(ids >= 0)
            places = np.searchsorted(coming[by_key], ids[at])
            known = places < len(coming)
            if not known.all() or not np.array_equal(coming[by_key][places], ids[at]):
                return None
            if not same_bits(rows.take(pa.array(at)), arrivals.take(pa.array(by_key[places]))):
                return None
            hits.append(ids[at])
        found = np.concatenate([np.zeros(0, dtype=np.int64), *hits])
        return found if np.array_equal(np.sort(found), coming[by_key]) else None

    def _found(self, source: PatchedSource) -> Iterator[tuple[int, KeyIds, KeyIds]]:
        """By row group that may hold a key: the positions of the rows that have one, and its number."""
        schema, ids, groups = self.before.schema, self.before.meta.ids, source.footer.groups
        keyed = pa.schema([schema.field(name) for name in self.before.keys])
        stats = [groups.of(number, schema, ids) for number in range(len(groups.rows))]
        stages = [self._stage(name, source.segment) for name in self.before.keys]
        for number, _ in RowFilter(schema=schema, predicate=self.cut.seen.predicate).matching(stats, groups.rows):
            near = source.near(number, stages)
            if near[0] < near[1]:
                stored = source.between(number, keyed.names, near)
                matched = self.cut.keys.match(to_declared(stored, keyed, ids=ids, path=source.segment.path))
                found = np.flatnonzero(matched >= 0)
                yield number, found + near[0], matched[found]

    def _stage(self, name: str, segment: Segment) -> KeyFilter:
        """How rows with a key's value in one column are found."""
        one, terms = pa.schema([self.before.schema.field(name)]), conjunction(conjuncts_on(self.cut.seen.predicate, name))
        ids = self.before.meta.ids
        return KeyFilter(name=name, keep=lambda rows: kept_positions(terms, to_declared(rows, one, ids=ids, path=segment.path)))


@dataclass(slots=True)
class Losses:
    """What has been taken away so far."""

    rows: int = 0
    hits: list[KeyIds] = field(default_factory=list)
    """The numbers of the keys for which rows went, segment by segment."""

    @property
    def keys(self) -> int:
        """For how many keys rows went."""
        return len(distinct(np.concatenate(self.hits))) if self.hits else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRewriter:
    """Writes what remains of segments, and new rows, as segments of an attempt."""

    before: BaseVersion
    cut: RowSplitter
    attempt: StagedWrite
    losses: Losses = field(default_factory=Losses)

    def loses_rows(self, segment: Segment) -> bool:
        """Whether a row of the segment goes; reads no more columns than tell."""
        seen = self.before.rows(segment, self.cut.seen)
        return any(self.cut.split(rows).kept.num_rows < rows.num_rows for rows in seen)

    def succeed(self, segment: Segment, arrivals: Run | None) -> bool:
        """Write the segment's rows less those that go, and `arrivals`, as one segment; nothing where no row is left. False where the segment
        is to stay, since that leaves every row as it is.

        A segment whose rows are in no order, as other writers leave them, becomes as many segments as an append of its rows would.
        """
        index, grid, schema = self.before.index, self.before.grid, self.before.schema
        if arrivals is not None and isinstance(self.cut, KeySelector):
            patched = self._patched(Patcher(before=self.before, cut=self.cut), segment, arrivals)
            if patched is not None:
                self.losses.rows += len(patched.hits)
                self.losses.hits.append(patched.hits)
                if patched.encoded is not None:
                    self.attempt.write(patched.encoded, self.before.state, self.before.entity_types)
                return patched.encoded is not None
        kept = self._kept(segment)
        if segment.sorted_by == self.before.keys:
            new = sort_run(schema.empty_table(), index, grid) if arrivals is None else arrivals
            self.write(merge_runs(kept, new, index, grid))
            return True
        tables = chain(kept, () if arrivals is None else (arrivals.table,))
        batches = (batch for table in tables for batch in table.to_batches())
        for run in gather_runs(batches, schema, index, grid, stage.RUN_BYTES):
            self.write((run,))
        return True

    def _patched(self, patcher: Patcher, segment: Segment, arrivals: Run) -> Patched | None:
        """The segment with `arrivals` in the place of as many rows that have their keys; None where it has other rows, too."""
        stored = self._stored(arrivals).table
        source = patcher.open(segment, stored.schema)
        if source is not None:
            return patcher.patch(source, arrivals.table, stored)
        standing = patcher.standing(segment, arrivals.table)
        return None if standing is None else Patched(None, standing)

    def write_new(self, rows: Run) -> None:
        """Write new rows as segments of bounded size."""
        count = rows.table.num_rows
        each = max(1, count * stage.RUN_BYTES // max(1, rows.table.nbytes))
        for start in range(0, count, each):
            self.write((rows.part(start, min(count, start + each)),))

    def write(self, runs: Iterable[Run]) -> None:
        """Write runs, each of which belongs after those before it, as one segment; nothing where they hold no rows."""
        encoder: SegmentEncoder | None = None
        for run in runs:
            stored = as_written(self._stored(run), self.before.after)
            if encoder is None:
                encoder = SegmentEncoder(stored.rows.schema, self.before.index, self.before.meta.properties.codec)
            encoder.write(stored)
        if encoder is not None and encoder.rows:
            self.attempt.write(encoder.finish(), self.before.state, self.before.entity_types)

    def _kept(self, segment: Segment) -> Iterator[pa.Table]:
        first = 0
        for rows in self.before.rows(segment):
            split = self.cut.split(rows)
            self._check_keys(segment, rows, split.kept, first)
            self.losses.rows += rows.num_rows - split.kept.num_rows
            if len(split.hits):
                self.losses.hits.append(split.hits)
            first += rows.num_rows
            yield split.kept

    def _check_keys(self, segment: Segment, rows: pa.Table, kept: pa.Table, first: int) -> None:
        """Raise NullKey for a kept row without an index value or identity, which other writers may have left."""
        for name in self.before.keys:
            if kept.column(name).null_count:
                row = first + pc.index(rows.column(name).is_null(), True).as_py()
                raise NullKey(
                    f"column {name!r} is null in row {row} of segment {segment.path}, which this change would write again",
                    why="Another writer left the row, and every row that is written needs its index value and its identity",
                    fix=f'Delete such rows first: table.delete(where="{name} IS NULL")',
                    column=name, row=row,
                )  # fmt: skip

    def _stored(self, run: Run) -> Run:
        schema, ids = self.before.schema, self.before.meta.ids
        stored = stored_schema(schema, ids)
        if run.rows.schema.equals(stored):
            # Restored or fitted once already: to fit the values again would give the same.
            return run.with_rows(run.rows.with_schema(stored))
        batches = [fit(batch, schema, self.before.index, 0, ids) for batch in run.table.to_batches()]
        return run.with_rows(pa.Table.from_batches(batches, stored))
