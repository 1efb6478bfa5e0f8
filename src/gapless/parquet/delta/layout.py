"""How the columns of a version of a table lie in its files."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from gapless.dialects.delta.actions import AddFile, Metadata
from gapless.dialects.delta.arrow_types import to_arrow
from gapless.dialects.delta.column_ids import ids_by_field_id, ids_by_name
from gapless.dialects.delta.partitions import Partitions
from gapless.dialects.delta.properties import Settings
from gapless.errors import CorruptTable
from gapless.model.column_ids import ColumnIds
from gapless.parquet.delta.declare import declared_rows
from gapless.parquet.footer import Footer
from gapless.scan.prune import StatsOf


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What a version declares, and how to find it in a file, whatever version wrote that."""

    metadata: Metadata
    declared: pa.Schema
    """All logical columns, in order."""
    parts: Partitions
    by_field_id: bool
    """Whether files are asked for columns by field id and not by name."""

    @classmethod
    def of(cls, metadata: Metadata) -> Layout:
        """That of a table with these metadata; raises CorruptTable where it is partitioned by what is no column."""
        return cls(
            metadata=metadata,
            declared=to_arrow(metadata.schema),
            parts=Partitions.of(metadata),
            by_field_id=Settings.of(metadata.configuration).column_mapping == "id",
        )

    def ids(self, file: AddFile, footer: Footer) -> ColumnIds:
        """Which column of a file is which; raises CorruptTable for a file without field ids where those tell."""
        if not self.by_field_id:
            return self._by_name
        found = ids_by_field_id(self.metadata.schema, footer.schema)
        if found is None:
            raise CorruptTable(
                f"data file {file.path} has no field ids",
                why="The table finds columns by field id (delta.columnMapping.mode is id), and so all of its columns would read as null",
                fix="Write the file anew with field ids, or take it out of the table",
                path=file.path,
            )
        return found

    def group_stats(self, file: AddFile, footer: Footer, ids: ColumnIds, number: int) -> StatsOf:
        """What a file's footer and partition values say of its row group `number`."""
        of_file, parts = footer.groups.of(number, self.declared, ids), self.parts.columns
        return lambda name: self.parts.stats(file, name) if name in parts else of_file(name)

    def rows(self, stored: pa.Table, columns: pa.Schema, file: AddFile, footer: Footer, ids: ColumnIds) -> pa.Table:
        """A file's rows in some logical columns, partition columns filled in. Raises CorruptTable, UnsupportedTable."""
        parts = self.parts.columns
        held = pa.schema([one for one in columns if one.name not in parts]) if parts else columns
        table = declared_rows(stored, held, ids, footer, file.path)
        if not parts or not len(columns):
            return table
        found = dict(zip(held.names, table.columns, strict=True))
        arrays = [
            pa.repeat(self.parts.value(file, one.name), stored.num_rows) if one.name in parts else found[one.name]
            for one in columns
        ]
        return pa.Table.from_arrays(arrays, schema=columns)

    @cached_property
    def _by_name(self) -> ColumnIds:
        return ids_by_name(self.metadata.schema)
