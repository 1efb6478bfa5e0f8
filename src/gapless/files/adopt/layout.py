"""Check that a Parquet file of another writer has a table's columns as its segments hold them, so that it can be one unchanged. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

import pyarrow as pa
import pyarrow.parquet as pq

from gapless.errors import SchemaMismatch
from gapless.files.pages.file_assembly import empty_file
from gapless.model.column_ids import PLAIN, ColumnIds
from gapless.model.schema import stored_schema
from gapless.model.types import FIELD_ID, bare_type, children, is_any_list, normal_zone

_READABLE = frozenset({"UNCOMPRESSED", "SNAPPY", "GZIP", "BROTLI", "ZSTD", "LZ4", "LZ4_RAW"})
_COARSE = frozenset({pa.time32("s")})


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a file holds its columns."""

    source: str
    """What it is called, for messages."""
    schema: pa.Schema
    """Its columns as Arrow reads them."""
    metadata: pq.FileMetaData


def refuse_layout(file: Layout, differences: Sequence[str]) -> SchemaMismatch:
    """The error for a file that does not lie as a table's files do."""
    return SchemaMismatch(
        f"{file.source} cannot become a file of the table as it is",
        why="; ".join(differences),
        fix="Append it without adopt: its rows are then read, and written as the table holds them",
        differences=tuple(differences),
    )


def column_differences(
    file: Layout, schema: pa.Schema, ids: ColumnIds = PLAIN, *, checked: Collection[str] = ()
) -> Iterator[str]:
    """A line for each column of a file that does not lie as files of a table with the columns of `schema` hold it.

    The file's columns are all in `schema`. Of those in `checked` it is found out elsewhere whether they hold nulls.
    """
    yield from _of_file(file.metadata)
    stored = stored_schema(schema, ids)
    expected, found = _leaves(_parquet_schema(stored), stored), _leaves(file.metadata.schema, file.schema)
    for field in file.schema:
        declared = schema.field(field.name)
        reason = (
            _of_type(field, declared, ids)
            or _of_leaves(found[field.name], expected[field.name])
            or ("" if field.name in checked else _of_nulls(file.metadata, found[field.name], declared))
        )
        if reason:
            yield f"{field.name}: {reason}"


def _is_coarse(type_: pa.DataType) -> bool:
    if pa.types.is_timestamp(type_):
        return type_.unit in ("s", "ms")
    return type_ in _COARSE or any(_is_coarse(child.type) for child in children(type_))


def _of_file(metadata: pq.FileMetaData) -> Iterator[str]:
    if metadata.num_row_groups:
        group = metadata.row_group(0)
        codecs = {group.column(at).compression for at in range(group.num_columns)}
        if strange := sorted(codecs - _READABLE):
            yield f"it is compressed with {strange[0]}, which is not read here"


def _of_type(field: pa.Field, declared: pa.Field, ids: ColumnIds) -> str:
    """Why a file's column is not what segments hold for a declared one; empty where it is."""
    stored = ids.physical(declared)
    if stored.name != field.name or any(len(path) > 1 and path[0] == field.name for path in ids.stored):
        return "the table knows it, or a field in it, by another name in its files, since it was renamed or dropped once"
    if pa.types.is_null(bare_type(field.type)):
        return "it holds nothing but nulls, without a type"
    if _is_coarse(declared.type):
        # Values of the finer unit in which segments hold it are looked at one by one, else.
        return f"{declared.type} in the table, which its files hold in a finer unit"
    wanted = stored_schema(pa.schema([declared]), ids).field(0).type
    if not _is_same(field.type, wanted):
        return f"{field.type} in the file, {wanted} in the table's"
    return "it has Parquet field ids, by which other readers would look for it" if _has_ids(field) else ""


def _is_same(found: pa.DataType, stored: pa.DataType) -> bool:
    """Whether a type is `stored`, but for large and view forms and the names of list and map children."""
    if isinstance(found, pa.BaseExtensionType) or pa.types.is_dictionary(found):
        return False
    found, stored = bare_type(found), bare_type(stored)
    if pa.types.is_timestamp(found) and pa.types.is_timestamp(stored):
        return bool(found.unit == stored.unit and normal_zone(found.tz) == stored.tz)
    pairs = list(zip(children(found), children(stored), strict=False))
    if not pairs:
        return bool(found == stored)
    if _kind(found) != _kind(stored) or found.num_fields != stored.num_fields:
        return False
    named = not pa.types.is_struct(found) or all(one.name == other.name for one, other in pairs)
    return named and all(_is_same(a.type, b.type) and (b.nullable or not a.nullable) for a, b in pairs)


def _kind(type_: pa.DataType) -> object:
    """What values a nested type has, beside its children: Parquet holds lists of every kind alike."""
    if pa.types.is_fixed_size_list(type_):
        return type_.list_size
    return "list" if is_any_list(type_) else type_.id


def _has_ids(field: pa.Field) -> bool:
    return FIELD_ID in (field.metadata or {}) or any(_has_ids(child) for child in children(field.type))


@dataclass(frozen=True, slots=True)
class _Leaf:
    """One column of values in a Parquet file."""

    path: str
    physical: str
    """Its physical type, with the length of a fixed one; for decimals that it is one, since each reader takes them all."""
    required: bool
    at: int
    """Its number among the leaves."""


def _of_leaves(found: Sequence[_Leaf], expected: Sequence[_Leaf]) -> str:
    """Where a column of one type lies in Parquet otherwise than we would write it."""
    for one, other in zip(found, expected, strict=True):
        if one.physical != other.physical:
            return f"stored as {one.physical}, {other.physical} in the table's files"
        if one.path != other.path:
            return f"its nested field is {one.path} in the file, {other.path} in the table's"
    return ""


def _of_nulls(metadata: pq.FileMetaData, leaves: Sequence[_Leaf], declared: pa.Field) -> str:
    """Whether a column that is never null may hold one; `leaves` are its."""
    if declared.nullable or leaves[0].required:
        return ""
    if len(leaves) > 1 or any(True for _ in children(declared.type)):
        return "it is never null in the table, and in the file it may be"
    nulls = [null_count(metadata, group, leaves[0].at) for group in range(metadata.num_row_groups)]
    if None in nulls:
        return "it is never null in the table, and the file does not say that it is not"
    count = sum(number or 0 for number in nulls)
    return f"it is never null in the table, and {count:,} times in the file" if count else ""


def null_count(metadata: pq.FileMetaData, group: int, leaf: int) -> int | None:
    """How many nulls a row group has in a leaf, as its statistics say; None where they do not."""
    known = metadata.row_group(group).column(leaf).statistics
    return int(known.null_count) if known is not None and known.has_null_count else None


@lru_cache(maxsize=32)
def _parquet_schema(stored: pa.Schema) -> pq.ParquetSchema:
    """How we would write these columns."""
    return pq.read_metadata(pa.BufferReader(empty_file(stored))).schema


def _leaves(schema: pq.ParquetSchema, columns: pa.Schema) -> dict[str, list[_Leaf]]:
    """The leaves of each top-level column, which `columns` has as Arrow reads them. Their paths do not tell: a name may hold dots."""
    numbers = iter(range(len(schema)))
    return {field.name: [_leaf(schema.column(at), at) for at in islice(numbers, _leaf_count(field.type))] for field in columns}


def _leaf_count(type_: pa.DataType) -> int:
    below = [_leaf_count(child.type) for child in children(bare_type(type_))]
    return sum(below) if below else 1


def _leaf(column: pq.ColumnSchema, at: int) -> _Leaf:
    return _Leaf(column.path, _physical(column), column.max_definition_level == 0, at)


def _physical(leaf: pq.ColumnSchema) -> str:
    if leaf.logical_type.type == "DECIMAL":
        return "decimal"
    return f"{leaf.physical_type}({leaf.length})" if leaf.physical_type == "FIXED_LEN_BYTE_ARRAY" else str(leaf.physical_type)
