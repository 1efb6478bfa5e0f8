"""The keys of arriving rows, looked at by executors before any segment is rewritten for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gapless.errors import DuplicateKey
from gapless.parquet.keys import KeySet
from gapless.scan.key_bounds import key_bounds
from gapless.scan.plan import prune
from gapless.scan.predicate import Predicate
from gapless.spark.ground import Ground
from gapless.table.before import Before, Filter
from gapless.table.duplicates import refuse_duplicates


@dataclass(frozen=True, slots=True)
class Suspects:
    """An arriving segment, and later ones that may hold rows with its keys; places among those that arrive."""

    number: int
    others: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """Finds arriving rows that share a key; picklable."""

    ground: Ground
    distinct: tuple[tuple[str, ...], ...]
    """Lists of columns, each of which no two rows may have alike."""

    def bounds(self, suspects: Suspects) -> Predicate:
        """What the keys of the segment's rows, by the first list of columns, say of rows that have one of them.

        Raises DuplicateKey where rows of the suspects share a key with the segment's, or these among themselves.
        """
        before = self.ground.before()
        found = [self._examined(before, suspects, columns) for columns in self.distinct]
        return found[0]

    def _examined(self, before: Before, suspects: Suspects, columns: tuple[str, ...]) -> Predicate:
        segments = self.ground.arrivals
        rows = pa.concat_tables(before.rows(segments[suspects.number], Filter(columns=columns)))
        keys = KeySet.of(rows, columns)
        if keys.count < rows.num_rows:
            raise self._refused(rows.take(pa.array(keys.repeated())), columns)
        near = key_bounds(rows, columns)
        others = [segments[number] for number in suspects.others]
        for other in prune(others, near, before.index, before.schema, before.meta.ids):
            for table in before.rows(other, Filter(columns=columns, predicate=near)):
                shared = np.flatnonzero(keys.match(table) >= 0)
                if len(shared):
                    raise self._refused(table.take(pa.array(shared)), columns)
        return near

    def _refused(self, rows: pa.Table, columns: tuple[str, ...]) -> DuplicateKey:
        shown = tuple(name for name in self.ground.meta.index.keys if name in columns)
        shown += tuple(name for name in columns if name not in shown)
        error = refuse_duplicates(rows, shown, "more than once in the input", self._why(columns))
        fix = "Leave one row of each key in the DataFrame: the one that should stay"
        return DuplicateKey(error.what, why=error.why, fix=fix, **error.facts)

    def _why(self, columns: tuple[str, ...]) -> str:
        if self.ground.meta.properties.unique and set(columns) == set(self.ground.meta.index.keys):
            return "The table is unique: no two rows may have one identity and index value"
        return "Which of the rows should stay is not said"
