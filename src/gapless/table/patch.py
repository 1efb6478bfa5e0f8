"""Corrections that give rows other values and leave them where they are: then a segment's file is patched, and not written anew."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gapless.dialects.timeseries.actions import TableMeta
from gapless.dialects.timeseries.schema_codec import METADATA_FEATURE
from gapless.model.fit import restore
from gapless.model.segment import Segment
from gapless.parquet.keys import KeyIds
from gapless.parquet.narrow import Stage, kept_positions
from gapless.parquet.patch import Change, PatchedSource
from gapless.parquet.row_filter import RowFilter
from gapless.parquet.segment_encoder import EncodedSegment
from gapless.scan.predicate import terms_on
from gapless.scan.range import conjunction
from gapless.table.before import Before
from gapless.table.cut import KeyCut


@dataclass(frozen=True, slots=True)
class Patched:
    """A segment in which rows have other values."""

    encoded: EncodedSegment
    hits: KeyIds
    """The numbers of their keys, each once; as many rows have changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patcher:
    """Patches segments of one version for a change by key."""

    before: Before
    meta: TableMeta
    """The table's metadata after the change."""
    cut: KeyCut

    def patch(self, segment: Segment, arrivals: pa.Table, stored: pa.Table) -> Patched | None:
        """The segment with rows that take the place of those with their keys, `stored` as files hold them; None where it must be written anew.

        That is where its file is not as we would write it now, or a row goes for which none of `arrivals` comes to the same place.
        Raises CorruptTable, StoreError.
        """
        before, keys = self.before, self.cut.keys
        if (
            set(keys.columns) != set(before.keys)
            or segment.sorted_by != before.keys
            or METADATA_FEATURE in self.meta.reader_features
        ):
            return None
        source = PatchedSource.open(before.store, segment, stored.schema, self.meta.properties.codec)
        if source is None:
            return None
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
        return Patched(source.patched(changes, before.coverage(segment)), hits)

    def _found(self, source: PatchedSource) -> Iterator[tuple[int, KeyIds, KeyIds]]:
        """By row group that may hold a key: the positions of the rows that have one, and its number."""
        schema, ids, groups = self.before.schema, self.meta.ids, source.footer.groups
        keyed = pa.schema([schema.field(name) for name in self.before.keys])
        stats = [groups.of(number, schema, ids) for number in range(len(groups.rows))]
        stages = [self._stage(name, source.segment) for name in self.before.keys]
        for number, _ in RowFilter(schema=schema, predicate=self.cut.seen.predicate).matching(stats, groups.rows):
            near = source.near(number, stages)
            if near[0] < near[1]:
                stored = source.between(number, keyed.names, near)
                matched = self.cut.keys.match(restore(stored, keyed, ids=ids, path=source.segment.path))
                found = np.flatnonzero(matched >= 0)
                yield number, found + near[0], matched[found]

    def _stage(self, name: str, segment: Segment) -> Stage:
        """How rows with a key's value in one column are found."""
        one, terms = pa.schema([self.before.schema.field(name)]), conjunction(terms_on(self.cut.seen.predicate, name))
        ids = self.meta.ids
        return Stage(name=name, keep=lambda rows: kept_positions(terms, restore(rows, one, ids=ids, path=segment.path)))
