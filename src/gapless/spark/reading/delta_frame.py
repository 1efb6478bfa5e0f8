"""A version of a Delta table as a Spark DataFrame: planned here, read by Spark's Parquet reader, and by ours where that says more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from gapless.formats.delta.actions import AddFile
from gapless.formats.delta.partitions import Partitions, encode_value
from gapless.formats.delta.properties import Settings
from gapless.formats.delta.schema.arrow_types import physical_arrow
from gapless.formats.delta.schema.column_mapping import ids_by_name
from gapless.formats.delta.schema.types import PrimitiveType, StructField, StructType
from gapless.model.protocols import Store
from gapless.spark.reading.columns import ddl, file_type, literal, quoted, spark_columns, spark_type
from gapless.spark.reading.conditions import spark_condition
from gapless.spark.reading.delta_scan import DeltaScan, PackReader, PlannedFile
from gapless.spark.reading.parquet import check_names, scan_files
from gapless.spark.setup.executors import parallelism, spread_rows
from gapless.spark.setup.packs import packs_of
from gapless.tables.delta.files.open_file import PathResolver
from gapless.tables.delta.read.view import DeltaView

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_CAST_EXACTLY = frozenset({"string", "byte", "short", "integer", "long", "boolean", "date"})
"""Partition columns of these types Spark makes of the names of folders: their texts mean the same everywhere."""
_NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"


def read_delta(
    spark: SparkSession, view: DeltaView, *, where: str | pc.Expression | None, columns: Sequence[str] | None
) -> DataFrame:
    """`gapless.spark.read` of a Delta table at the version that the view sees."""
    scan = DeltaScan.of(view, where, columns)
    wanted, native, files = scan.rows.schema, NativeFiles.of(scan), scan.files()
    check_names(spark, [wanted])
    cut = None if all(one.whole for one in files) else CutFiles.of(scan)
    plain, partly, others = list[AddFile](), list[AddFile](), list[PlannedFile]()
    for one in files:
        if one.whole and native.takes(one.file):
            plain.append(one.file)
        elif cut is not None and cut.files.takes(one.file):
            partly.append(one.file)
        else:
            others.append(one)
    frames = native.frames(spark, plain)
    if cut is not None:
        frames += cut.frames(spark, partly, wanted.names)
    if others or not frames:
        frames.append(_read_here(spark, scan.reader, others))
    return reduce(_union, frames)


def _union(one: DataFrame, other: DataFrame) -> DataFrame:
    return one.unionAll(other)


def _read_here(spark: SparkSession, reader: PackReader, files: Sequence[PlannedFile]) -> DataFrame:
    """The rows of files by our own reader, on executors."""
    columns = [(field.name, spark_type(field.type, field.name)) for field in reader.rows.schema]
    packs = packs_of(files, parallelism(spark) if len(files) > 1 else 1)
    if not columns or not packs:
        # Without columns Spark would not count what Python workers give.
        rows = reader.count(files)
        return spark.range(rows).select(
            [literal(None, field.type, field.name).alias(field.name) for field in reader.rows.schema]
        )
    return spread_rows(spark, reader.read, packs, ddl(columns))


@dataclass(frozen=True, slots=True, kw_only=True)
class CutFiles:
    """Files of which Spark's own reader gives the rows that a condition keeps."""

    files: NativeFiles
    """Read with the columns of the condition beside those that are wanted."""
    condition: Column

    @classmethod
    def of(cls, scan: DeltaScan) -> CutFiles | None:
        """None where the condition is not one of Spark's, or where it would not tell its columns apart."""
        condition, schema = scan.rows.condition, scan.rows.condition.pushed.schema
        if condition.residual is not None or condition.pushed.expression is not None:
            return None
        names = tuple(dict.fromkeys((*scan.rows.columns, *condition.columns)))
        if len({name.lower() for name in names}) < len(names):
            return None
        said = spark_condition(condition.pushed.predicate, schema)
        if said is None:
            return None
        wide = replace(scan, rows=replace(scan.rows, columns=names))
        return cls(files=NativeFiles.of(wide), condition=said)

    def frames(self, spark: SparkSession, files: Iterable[AddFile], wanted: Sequence[str]) -> list[DataFrame]:
        """The wanted columns of the rows that are kept, a DataFrame for each store that holds some."""
        kept = [one.where(self.condition) for one in self.files.frames(spark, files)]
        return [one if one.columns == list(wanted) else one.select([quoted(name) for name in wanted]) for one in kept]


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeFiles:
    """Which files of a version Spark's own reader gives the wanted columns of, and how."""

    scan: DeltaScan
    fields: tuple[StructField, ...]
    """The wanted columns."""
    parts: Partitions
    here: bool
    """Whether there are any."""
    _folders: dict[tuple[str | None, ...], bool]

    @classmethod
    def of(cls, scan: DeltaScan) -> NativeFiles:
        """By the columns of the version."""
        metadata, parts = scan.state.metadata, Partitions.of(scan.state.metadata)
        known = {field.name: field for field in metadata.schema.fields}
        fields = tuple(known[name] for name in scan.rows.columns)
        by_name = Settings.of(metadata.configuration).column_mapping != "id"
        cast = all(_casts_exactly(parts.columns[one.name]) for one in fields if one.name in parts.columns)
        return cls(scan=scan, fields=fields, parts=parts, here=by_name and cast, _folders={})

    def takes(self, file: AddFile) -> bool:
        """Whether Spark's own reader gives exactly the rows of a file."""
        if not self.here or file.deletion_vector is not None:
            return False
        return not self._wanted_parts or self._tells(file)

    def frames(self, spark: SparkSession, files: Iterable[AddFile]) -> list[DataFrame]:
        """The rows of such files, a DataFrame for each store that holds some."""
        places = PathResolver(self.scan.store)
        by_store: dict[int, list[tuple[Store, str]]] = {}
        for file in files:
            place = places.of(file.path)
            by_store.setdefault(id(place.store), []).append((place.store, place.path))
        return [self._frame(spark, some) for some in by_store.values()]

    @property
    def _wanted_parts(self) -> list[StructField]:
        return [one for one in self.fields if one.name in self.parts.columns]

    def _frame(self, spark: SparkSession, files: Sequence[tuple[Store, str]]) -> DataFrame:
        stored = [one for one in self.fields if one.name not in self.parts.columns]
        held = physical_arrow(StructType(fields=tuple(stored)), field_ids=False)
        columns = [(field.name, file_type(field.type, field.name)) for field in held]
        parts = self._wanted_parts
        # All partition columns: Spark would guess the types of others.
        columns += [(one.physical_name, "string") for one in self.parts.columns.values()] if parts else []
        check_names(spark, [pa.schema([(name, pa.null()) for name, _ in columns])])
        frame = scan_files(spark, ddl(columns), files, partitioned=bool(parts))
        shown = [(field.name, spark_type(field.type, field.name)) for field in self.scan.rows.schema]
        # Each column named costs calls into Java.
        return frame if columns and columns == shown else frame.select(self._columns(held, stored))

    def _columns(self, held: pa.Schema, stored: Sequence[StructField]) -> list[Column]:
        """The wanted columns out of those of the files."""
        from pyspark.sql import functions

        schema, ids = self.scan.rows.schema, ids_by_name(self.scan.state.metadata.schema)
        declared = pa.schema([schema.field(one.name) for one in stored])
        found = dict(zip(declared.names, spark_columns(held, declared, ids), strict=True))
        for one in self._wanted_parts:
            type_ = spark_type(schema.field(one.name).type, one.name)
            found[one.name] = functions.col(quoted(one.physical_name)).cast(type_).alias(one.name)
        return [found[name] for name in schema.names]

    def _tells(self, file: AddFile) -> bool:
        """Whether the folders of a file say what its partition values are, as Spark understands them."""
        columns = self.parts.columns.values()
        texts = tuple(file.partition_values.get(one.physical_name) for one in columns)
        place = PathResolver(self.scan.store).of(file.path)
        if place.store is not self.scan.store:
            return False
        expected = [(one.physical_name, text) for one, text in zip(columns, texts, strict=True)]
        if list(map(_told, place.path.split("/")[:-1])) != expected:
            return False
        if (plain := self._folders.get(texts)) is None:
            values = [self.parts.value(file, one.name) for one in columns]
            plain = self._folders[texts] = [encode_value(value) for value in values] == list(texts)
        return plain


def _told(folder: str) -> tuple[str, str | None]:
    """The column and the value that Spark takes a folder's name for."""
    name, _, text = folder.partition("=")
    return unquote(name, "latin-1"), None if text == _NULL_FOLDER else unquote(text, "latin-1")


def _casts_exactly(field: StructField) -> bool:
    return isinstance(field.type, PrimitiveType) and field.type.name in _CAST_EXACTLY
