"""A pinned version as an Arrow dataset, for engines that push their filters and columns into one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from gapless.errors import GaplessError

if TYPE_CHECKING:
    import pyarrow.dataset as ds

Scan = Callable[[tuple[str, ...], pc.Expression | None], Iterator[pa.RecordBatch]]
"""Reads these columns of the rows that an expression keeps, in Arrow's semantics."""


@dataclass(frozen=True, slots=True)
class Pinned:
    """A dataset, and what reading it raised: an engine may pass on no more than the text of an error."""

    dataset: ds.Dataset
    failures: list[GaplessError] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Scanner:
    """As much of a `pyarrow.dataset.Scanner` as an engine uses."""

    schema: pa.Schema
    batches: Callable[[], Iterator[pa.RecordBatch]]

    def to_reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self.schema, self.batches())


def pin(schema: pa.Schema, scan: Scan) -> Pinned:
    """A dataset of `schema` whose rows `scan` reads.

    Arrow's own reader is not used: it checks neither footers nor pages, and where a file system in Python raises, DuckDB
    2.0 waits for ever.
    """
    import pyarrow.dataset as ds

    failures: list[GaplessError] = []

    class PinnedDataset(ds.FileSystemDataset):  # type: ignore[misc]  # pyarrow has no types
        """A dataset without files of its own."""

        def __init__(self) -> None:
            super().__init__([], schema, ds.ParquetFileFormat())

        def scanner(self, columns: Sequence[str] | None = None, filter: pc.Expression | None = None, **_: Any) -> _Scanner:  # noqa: A002  # Arrow's name
            names = tuple(schema.names if columns is None else columns)
            return _Scanner(pa.schema([schema.field(name) for name in names]), lambda: _noted(scan(names, filter), failures))

    return Pinned(PinnedDataset(), failures)


def _noted(batches: Iterator[pa.RecordBatch], failures: list[GaplessError]) -> Iterator[pa.RecordBatch]:
    try:
        yield from batches
    except GaplessError as error:
        failures.append(error)
        raise
