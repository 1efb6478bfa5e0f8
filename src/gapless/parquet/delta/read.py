"""Rows of a Delta table's data files, as the table declares them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import groupby

import pyarrow as pa

from gapless.dialects.delta.actions import AddFile, Metadata
from gapless.dialects.delta.deletion_vector import Positions
from gapless.model.protocols import Store
from gapless.parquet.delta.layout import Layout
from gapless.parquet.delta.opened import POSITION, Asked, Wanted
from gapless.parquet.delta.places import Places
from gapless.parquet.delta.reading import Reading

__all__ = ["ALL", "POSITION", "FileReader", "Wanted"]

ALL = Wanted()
"""All live rows in all columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReader:
    """Reads data files of one version."""

    places: Places
    layout: Layout

    @classmethod
    def of(cls, store: Store | Places, metadata: Metadata) -> FileReader:
        """The reader of the files of a table in `store`, whose columns are those of `metadata`, whatever version wrote them.

        Raises CorruptTable where the table is partitioned by what is no column.
        """
        return cls(places=store if isinstance(store, Places) else Places(store), layout=Layout.of(metadata))

    def schema(self, wanted: Wanted = ALL) -> pa.Schema:
        """The columns of what is read."""
        return self._reading(wanted).schema

    def read(
        self, files: Iterable[AddFile], wanted: Wanted = ALL, *, whole: AbstractSet[str] = frozenset()
    ) -> Iterator[tuple[AddFile, pa.Table]]:
        """The files' rows, file by file in their order and in the order of their rows, each with its file; no tables without rows.

        `whole` are the keys of files of which it is known that the filters keep every row, so that no row is asked.

        Held in memory at a time: about 32 MiB of rows, or one row group where that is larger, and of small files those that follow, 16 MiB
        of them. On a store where requests take long, what follows is fetched meanwhile. Raises CorruptTable where a file is missing or damaged, StoreError, UnsupportedTable.
        """
        reading = self._reading(wanted)
        asked = (Asked(file=file, place=self.places.of(file.path), whole=bool(whole) and file.key in whole) for file in files)
        for _, together in groupby(asked, key=lambda one: id(one.place.store)):
            some = list(together)
            yield from reading.rows(some[0].place.store, some)

    def batches(self, file: AddFile, wanted: Wanted = ALL, *, only: Positions | None = None) -> Iterator[pa.RecordBatch]:
        """One file's rows; with `only`, those at these positions (ascending), whatever its deletion vector says. Raises as `read`."""
        place = self.places.of(file.path)
        for _, table in self._reading(wanted).rows(place.store, [Asked(file=file, place=place, only=only)]):
            yield from table.to_batches()

    def count(self, files: Iterable[AddFile], wanted: Wanted = ALL) -> int:
        """How many rows `read` gives; of row groups of which the filters keep every row, no more than the footer is read."""
        return sum(table.num_rows for _, table in self.read(files, replace(wanted, columns=(), position=False)))

    def _reading(self, wanted: Wanted) -> Reading:
        return Reading(places=self.places, layout=self.layout, wanted=wanted)
