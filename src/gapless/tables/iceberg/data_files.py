"""Data files of an Iceberg table: Parquet with field ids, and what manifests say of each, which a prepared commit keeps as JSON."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import DoubleType, FloatType, PrimitiveType

from gapless.publish.iceberg.manifests import described_file
from gapless.tables.iceberg.columns import stored_schema

_CODECS = {"zstd": "zstd", "snappy": "snappy", "gzip": "gzip", "lz4": "lz4", "brotli": "brotli", "uncompressed": "none"}
_COUNTS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts")
_BOUNDS = ("lower_bounds", "upper_bounds")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFormatOf:
    """What data files of one version of a table hold, and how they are described."""

    schema: Schema
    spec: PartitionSpec
    stored: pa.Schema
    properties: Mapping[str, str]

    @classmethod
    def of(cls, metadata: TableMetadata) -> FileFormatOf:
        """Of the current columns and partitions."""
        schema = metadata.schema()
        return cls(schema=schema, spec=metadata.spec(), stored=stored_schema(schema), properties=metadata.properties)

    def encode(self, rows: pa.Table) -> pa.Buffer:
        """Rows in plain types as a Parquet file."""
        onto = pa.BufferOutputStream()
        codec = _CODECS.get(self.properties.get("write.parquet.compression-codec", "zstd").lower(), "zstd")
        columns = [column.combine_chunks() for column in rows.columns]
        with pq.ParquetWriter(onto, self.stored, compression=codec, store_schema=False) as writer:
            writer.write_table(pa.Table.from_arrays(columns, schema=self.stored))
        return onto.getvalue()

    def describe(self, location: str, data: pa.Buffer, values: Sequence[Any], rows: pa.Table) -> DataFile:
        """What manifests say of a file of these bytes and rows, with its partition values."""
        told = data_file_statistics_from_parquet_metadata(
            pq.read_metadata(pa.BufferReader(data)),
            compute_statistics_plan(self.schema, dict(self.properties)),
            parquet_path_to_id_mapping(self.schema),
        ).to_serialized_dict()
        self._mind_nans(told, rows)
        return described_file(location, data.size, self.spec.spec_id, values, told)

    def _mind_nans(self, told: dict[str, Any], rows: pa.Table) -> None:
        """Leave out upper bounds of columns that may hold NaN, and count NaN where there is none: readers leave files out by both, and
        engines take NaN for the largest number. Parquet's bounds do not know it.
        """
        floats = {one.field_id: one.name for one in self.schema.fields if isinstance(one.field_type, FloatType | DoubleType)}
        for number in list(told["upper_bounds"]):
            if not isinstance(self.schema.find_type(number), FloatType | DoubleType):
                continue
            name = floats.get(number)
            if name is None or pc.any(pc.is_nan(rows.column(name))).as_py():
                del told["upper_bounds"][number]
            else:
                told["nan_value_counts"][number] = 0


def file_to_json(file: DataFile, spec: PartitionSpec, schema: Schema) -> dict[str, Any]:
    """What a prepared commit keeps of a file beside its path, rows and size."""
    types = _types(spec, schema)
    values = [
        None if value is None else _text(to_bytes(type_, value)) for type_, value in zip(types, _values(file), strict=True)
    ]
    counts = {name: {str(number): count for number, count in (getattr(file, name) or {}).items()} for name in _COUNTS}
    bounds = {name: {str(number): _text(bound) for number, bound in (getattr(file, name) or {}).items()} for name in _BOUNDS}
    return {"partition": values, **counts, **bounds, "split_offsets": list(file.split_offsets or ())}


def file_from_json(
    location: str, rows: int, size: int, told: Mapping[str, Any], *, spec: PartitionSpec, schema: Schema
) -> DataFile:
    """Read it back. Raises KeyError, ValueError or TypeError for what makes no sense."""
    types = _types(spec, schema)
    decoded = (None if text is None else base64.b64decode(text) for text in told["partition"])
    values = [None if data is None else from_bytes(type_, data) for type_, data in zip(types, decoded, strict=True)]
    counts = {name: {int(number): int(count) for number, count in told[name].items()} for name in _COUNTS}
    bounds = {name: {int(number): base64.b64decode(text) for number, text in told[name].items()} for name in _BOUNDS}
    known = {"record_count": rows, **counts, **bounds, "split_offsets": [int(one) for one in told["split_offsets"]]}
    return described_file(location, size, spec.spec_id, values, known)


def _types(spec: PartitionSpec, schema: Schema) -> list[PrimitiveType]:
    return [cast("PrimitiveType", one.field_type) for one in spec.partition_type(schema).fields]


def _values(file: DataFile) -> list[Any]:
    return [file.partition[place] for place in range(len(file.partition))]


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
