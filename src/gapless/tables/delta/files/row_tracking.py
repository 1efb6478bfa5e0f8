"""Row ids and commit versions of rows that are copied from one data file to another (Row Tracking)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gapless.errors import CorruptTable
from gapless.formats.delta.actions import AddFile, Metadata, TableState
from gapless.formats.delta.row_tracking import MaterializedColumns
from gapless.formats.delta.schema.types import PrimitiveType, StructField, StructType
from gapless.tables.delta.files.open_file import POSITION

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowTracking:
    """How the rows of one version say which they are, where that is to be preserved."""

    columns: MaterializedColumns

    @classmethod
    def of(cls, state: TableState) -> Self | None:
        """That of a version; None where nothing is to be preserved."""
        columns = MaterializedColumns.of(state)
        return None if columns is None else cls(columns=columns)

    @property
    def names(self) -> tuple[str, str]:
        """The columns' names in files, which no column of the table has."""
        return self.columns.row_id, self.columns.commit_version

    @property
    def fields(self) -> tuple[StructField, ...]:
        """The columns as fields of a schema."""
        return tuple(StructField(name=name, type=PrimitiveType(name="long")) for name in self.names)

    def metadata(self, metadata: Metadata) -> Metadata:
        """A table's metadata whose last two columns are these: to read files with."""
        return replace(metadata, schema=StructType(fields=(*metadata.schema.fields, *self.fields)))

    def told(self, rows: pa.Table, file: AddFile) -> pa.Table:
        """The rows of a file, read with `POSITION` and the columns as they are stored, with every row's id and version in them.

        Raises CorruptTable for a file of which the log says no ids.
        """
        if file.base_row_id is None or file.default_row_commit_version is None:
            raise CorruptTable(
                f"the log says no row ids of {file.path}",
                why="The table has delta.enableRowTracking, which promises them for every file",
                fix="Set the property anew with Spark, which gives them",
                path=file.path,
            )
        position = rows.column(POSITION)
        by_default = (
            pc.add(position, pa.scalar(file.base_row_id, pa.int64())),
            pa.scalar(file.default_row_commit_version, pa.int64()),
        )
        for name, default in zip(self.names, by_default, strict=True):
            at = rows.schema.get_field_index(name)
            rows = rows.set_column(at, rows.schema.field(at), pc.coalesce(rows.column(name), default))
        return rows.drop_columns([POSITION])

    def kept(self, ids: pa.Table, changed: Mask) -> pa.Table:
        """The ids and versions of rows that are copied, of which these were changed: they keep their ids, and their version is the commit's."""
        at = ids.schema.get_field_index(self.columns.commit_version)
        versions = pc.if_else(pa.array(changed), pa.scalar(None, pa.int64()), ids.column(at))
        return ids.set_column(at, ids.schema.field(at), versions)

    def fresh(self, rows: pa.Table) -> pa.Table:
        """Rows that are new, with ids and versions that the commit gives."""
        for name in self.names:
            rows = rows.append_column(name, pa.nulls(rows.num_rows, pa.int64()))
        return rows
