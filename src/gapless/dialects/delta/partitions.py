"""The partition columns of a table's files. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from gapless.dialects.delta.actions import AddFile, Metadata
from gapless.dialects.delta.partition_values import decode_value, encode_value
from gapless.dialects.delta.schema import PrimitiveType, StructField
from gapless.errors import CorruptTable
from gapless.model.stats import ColumnStats, stats_value, supports_bounds

MANY = 1 << 62
"""More rows than any file has: the count of one of which it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitions:
    """The partition columns of one version; values that were parsed are kept."""

    columns: Mapping[str, StructField]
    """By logical name, in order."""
    _values: dict[tuple[str, str | None], pa.Scalar] = field(default_factory=dict, repr=False)
    """By column and the log's text."""
    _stats: dict[tuple[str, str | None], ColumnStats] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, metadata: Metadata) -> Partitions:
        """Those that metadata declare; raises CorruptTable where one is no column of the schema."""
        return cls(columns={name: _column(metadata, name) for name in metadata.partition_by})

    def value(self, file: AddFile, name: str) -> pa.Scalar:
        """A file's value of a partition column, by logical name. Raises CorruptTable where the log's text is none of its type."""
        text = self._text(file, name)
        if (found := self._values.get((name, text))) is None:
            type_ = self.columns[name].type
            assert isinstance(type_, PrimitiveType)
            found = self._values[name, text] = decode_value(text, type_, path=file.path)
        return found

    def key(self, file: AddFile) -> tuple[str | None, ...]:
        """A file's partition, told by texts that are alike for like values, whoever wrote them. Raises CorruptTable."""
        return tuple(encode_value(self.value(file, name)) for name in self.columns)

    def stats(self, file: AddFile, name: str) -> ColumnStats:
        """The same value as the statistics of a column that has it in each of at most `MANY` rows; raises as `value`."""
        text = self._text(file, name)
        if (found := self._stats.get((name, text))) is None:
            found = self._stats[name, text] = constant_stats(self.value(file, name))
        return found

    def _text(self, file: AddFile, name: str) -> str | None:
        return file.partition_values.get(self.columns[name].physical_name)


def constant_stats(value: pa.Scalar) -> ColumnStats:
    """The statistics of a column that has one value in each of at most `MANY` rows."""
    if not value.is_valid:
        return ColumnStats(nulls=MANY, nans=0)
    if not supports_bounds(value.type):
        return ColumnStats(nulls=0)
    bound = stats_value(value, value.type)
    nan = isinstance(bound, float) and bound != bound  # noqa: PLR0124  # NaN alone differs from itself
    return ColumnStats(nulls=0) if nan else ColumnStats(min=bound, max=bound, nulls=0, nans=0)


def _column(metadata: Metadata, name: str) -> StructField:
    found = metadata.schema.field(name)
    if found is None or not isinstance(found.type, PrimitiveType):
        raise CorruptTable(
            f"the table is partitioned by {name!r}, which is no column of a plain type",
            why=f"Its columns are {', '.join(map(repr, metadata.schema.names))}",
            fix="Do not read this table before you know who wrote its metadata",
            path="_delta_log",
        )
    return found
