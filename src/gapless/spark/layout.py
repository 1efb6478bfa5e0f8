"""Which columns the files of a scan hold, so that those that are alike can be read together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from gapless.errors import UnsupportedType
from gapless.model.column_ids import ColumnIds
from gapless.model.protocols import Store
from gapless.model.schema import stored_schema
from gapless.model.segment import Segment
from gapless.parquet.source import open_segment

_WORKERS = 16
"""Footers that are read at once: what is waited for is the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Segments whose files hold the wanted columns alike."""

    schema: pa.Schema
    """The wanted columns that the files hold, by stored names, in the types that the files have."""
    segments: tuple[Segment, ...]


def layouts_of(
    store: Store, segments: Sequence[Segment], wanted: pa.Schema, ids: ColumnIds, *, evolved: bool
) -> tuple[Layout, ...]:
    """The segments by what their files hold of the declared columns `wanted`; the order of segments stays within a layout.

    Footers are read, several at once, where the log does not say it: in tables whose columns changed (`evolved`), and of segments of
    another writer. Raises UnsupportedType (times stored as INT96), CorruptTable, StoreError.
    """
    plain = stored_schema(wanted, ids)
    unknown = [one for one in segments if evolved or one.footer_checksum is None]
    names = [ids.stored_name(field.name) for field in wanted]
    with ThreadPoolExecutor(_WORKERS) as pool:
        read = dict(zip((one.path for one in unknown), pool.map(partial(_file_schema, store, names), unknown), strict=True))
    grouped: dict[pa.Schema, list[Segment]] = defaultdict(list)
    for one in segments:
        grouped[read.get(one.path, plain)].append(one)
    return tuple(Layout(schema=schema, segments=tuple(held)) for schema, held in grouped.items())


def _file_schema(store: Store, names: Iterable[str], segment: Segment) -> pa.Schema:
    """The columns of a file that have one of the names, in its types; without metadata and nullability."""
    with open_segment(store, segment) as file:
        schema, physical = file.schema_arrow, file.metadata.schema
        # As Spark reads INT96, a time without a zone depends on the session's.
        old = {one.path.partition(".")[0] for one in map(physical.column, range(len(physical))) if one.physical_type == "INT96"}
    for name in names:
        if name in old:
            raise UnsupportedType(
                f"column {name!r} of segment {segment.path} is stored as INT96",
                why="What Spark makes of such times depends on its time zone",
                fix="Compact the table, which writes them as timestamps, or read it with table.scan()",
                column=name,
                type="INT96",
            )
    return pa.schema([schema.field(name).with_nullable(True).remove_metadata() for name in names if name in schema.names])
