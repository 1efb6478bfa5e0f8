"""What a read of a version of a Delta table asks for, and how executors read it with our own reader: values that are pickled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from gapless.errors import UnsupportedType
from gapless.formats.delta.actions import AddFile, TableState
from gapless.formats.delta.schema.arrow_types import holds_variant
from gapless.model.protocols import Store
from gapless.spark.reading.arrow_columns import shown_batches, shown_schema
from gapless.spark.setup.job_context import delta_job_context
from gapless.tables.delta.files.reading import FileReader
from gapless.tables.delta.read.rows import FileScan
from gapless.tables.delta.read.scan import Candidate, Planner, RowCondition
from gapless.tables.delta.read.view import DeltaView
from gapless.tables.shared.scan import parse_columns


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFile:
    """A data file that is read, and whether the condition keeps all of its rows."""

    file: AddFile
    whole: bool

    @property
    def size(self) -> int:
        """Bytes."""
        return self.file.size


Pack = tuple[PlannedFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaScan:
    """What a read of a version of a Delta table asks for."""

    store: Store
    version: int
    state: TableState
    rows: FileScan

    @classmethod
    def of(cls, view: DeltaView, where: str | pc.Expression | None, columns: Sequence[str] | None) -> DeltaScan:
        """Raises UnknownColumn, InvalidFilter, InvalidQuery, InvalidOption, UnsupportedType for a column that Spark cannot hold exactly."""
        known = delta_job_context(view)
        state, schema = known.snapshot.state, view.schema
        names = parse_columns(columns, schema)
        refuse_variants(schema, names)
        reader = FileReader.of(known.store, state.metadata)
        rows = FileScan(reader=reader, condition=RowCondition.parse(where, schema), columns=names)
        shown_schema(rows.schema)
        return cls(store=known.store, version=known.snapshot.version, state=state, rows=rows)

    @property
    def declared(self) -> pa.Schema:
        """The columns, in the table's types."""
        return self.rows.schema

    @property
    def reader(self) -> PackReader:
        """What executors read with."""
        return PackReader(rows=self.rows)

    def files(self) -> list[PlannedFile]:
        """The live files that may hold a wanted row, by partition values and statistics. Raises CorruptTable."""
        condition = self.rows.condition
        found = Planner.of(self.state).select(condition.pushed)
        return [PlannedFile(file=one.file, whole=condition.takes_whole(one)) for one in found]


@dataclass(frozen=True, slots=True, kw_only=True)
class PackReader:
    """Reads the wanted rows of files on an executor, deleted ones left out and partition columns filled in; picklable."""

    rows: FileScan

    @property
    def shown(self) -> pa.Schema:
        """The columns as Spark has them."""
        return shown_schema(self.rows.schema)

    def read(self, pack: Pack) -> Iterator[pa.RecordBatch]:
        """The rows of some files, in Spark's types. Raises CorruptTable, StoreError, InvalidValue."""
        tables = self._tables(pack)
        yield from shown_batches((batch for table in tables for batch in table.to_batches()), self.shown)

    def count(self, files: Sequence[PlannedFile]) -> int:
        """How many rows these are."""
        return sum(table.num_rows for table in self._tables(files))

    def _tables(self, files: Sequence[PlannedFile]) -> Iterator[pa.Table]:
        return self.rows.tables([Candidate(file=one.file, whole=one.whole) for one in files])


def refuse_variants(schema: pa.Schema, names: Sequence[str]) -> None:
    """Raise UnsupportedType for the first of some columns that is a variant, or holds one."""
    for name in names:
        if holds_variant(schema.field(name)):
            raise UnsupportedType(
                f"column {name!r} is or holds a variant, which cannot be handed to Spark",
                why="It would come as a struct of bytes, and not as what it means",
                fix="Leave it out with columns=[…], or read it with table.scan()",
                column=name,
                type="variant",
            )
