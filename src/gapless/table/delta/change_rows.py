"""The rows that commits of a Delta table changed, read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
import pyarrow as pa

from gapless.dialects.delta.actions import AddFile, Metadata
from gapless.dialects.delta.deletion_vector import Positions
from gapless.parquet.delta.places import Places
from gapless.parquet.delta.read import FileReader, Wanted
from gapless.parquet.delta.vectors import read_vector
from gapless.parquet.row_diff import CHANGE_TYPE, DELETE, INSERT
from gapless.table.changes import TYPE_FIELD
from gapless.table.delta.change_parts import Part, Vectors, Whole, Written, files_of, with_change_type


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What one commit changed."""

    version: int
    time_ns: int
    """Nanoseconds since 1970 UTC."""
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedRows:
    """Reads the rows of changes."""

    places: Places
    metadata: Metadata
    """Says in which columns they are shown."""

    def rows(self, told: Sequence[Told], names: tuple[str, ...]) -> Iterator[tuple[Told, pa.Table]]:
        """The changed rows in these columns, with their kind of change behind, each table with its commit."""
        parts = [(one, part) for one in told for part in one.parts]
        for (kind, parted), some in groupby(parts, key=lambda found: (type(found[1]), self._parted(found[1]))):
            reader = self._reader(parted, marked=kind is Written)
            if kind is Vectors:
                yield from ((one, rows) for one, part in some for rows in self._between(reader, part, names))
            else:
                yield from self._read(reader, list(some), (*names, CHANGE_TYPE) if kind is Written else names)

    def _parted(self, part: Part) -> tuple[str, ...]:
        """The columns whose values the log has for a part's files, by whatever the table was partitioned when they were written."""
        values = files_of(part)[0].partition_values
        return tuple(one.name for one in self.metadata.schema.fields if one.physical_name in values)

    def _reader(self, parted: tuple[str, ...], *, marked: bool) -> FileReader:
        """The reader of files so partitioned; `marked` are those that say themselves what happened to each row."""
        metadata = replace(self.metadata, partition_by=parted)
        return FileReader.of(self.places, with_change_type(metadata, CHANGE_TYPE) if marked else metadata)

    def _read(
        self, reader: FileReader, parts: Sequence[tuple[Told, Part]], names: tuple[str, ...]
    ) -> Iterator[tuple[Told, pa.Table]]:
        """The rows of whole files, in order; together, so that those that follow are fetched meanwhile."""
        # A file may come twice, when it came and when it went.
        files = [replace(files_of(part)[0]) for _, part in parts]
        known = {id(file): found for file, found in zip(files, parts, strict=True)}
        for file, rows in reader.read(files, Wanted(columns=names)):
            one, part = known[id(file)]
            yield one, _marked(rows, part.kind) if isinstance(part, Whole) else rows

    def _between(self, reader: FileReader, part: Part, names: tuple[str, ...]) -> Iterator[pa.Table]:
        """The rows that one deletion vector deletes and the other does not."""
        before, after = files_of(part)
        old, new = self._gone(before), self._gone(after)
        for kind, positions in (
            (DELETE, np.setdiff1d(new, old, assume_unique=True)),
            (INSERT, np.setdiff1d(old, new, assume_unique=True)),
        ):
            if len(positions):
                for batch in reader.batches(after, Wanted(columns=names), only=positions):
                    yield _marked(pa.Table.from_batches([batch]), kind)

    def _gone(self, file: AddFile) -> Positions:
        vector = file.deletion_vector
        return np.empty(0, dtype=np.int64) if vector is None else read_vector(self.places, vector)


def _marked(rows: pa.Table, kind: str) -> pa.Table:
    return rows.append_column(TYPE_FIELD, pa.repeat(pa.scalar(kind, pa.string()), rows.num_rows))
