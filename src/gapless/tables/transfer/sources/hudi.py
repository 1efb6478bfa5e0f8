"""A Hudi table as the source of an import, read by hudi-rs: copy on write, and merge on read with its log files merged."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa

from gapless.errors import VersionNotFound
from gapless.files.ingest.batches import Batches
from gapless.model.types import declared_field
from gapless.tables.hudi.library import hudi_errors
from gapless.tables.shared.library_errors import missing_library
from gapless.tables.shared.scan import parse_columns
from gapless.tables.transfer.sources.foreign import ForeignFile, ForeignTable

EMPTY = "none"
"""The version of a table without a completed instant."""


def open_hudi(
    location: str, version: int | str | None, exclude: Collection[str] | None, options: Mapping[str, str] | None
) -> ForeignTable:
    """A Hudi table as of an instant, the newest where none is named, without the columns that Hudi adds to each row.

    Raises NotSupported where hudi-rs is not installed, VersionNotFound, UnknownColumn, UnreadableInput.
    """
    try:
        from hudi import HudiReadOptions, HudiTable
    except ImportError as error:
        raise missing_library("Hudi tables", "hudi", "hudi") from error
    with hudi_errors(location):
        table = HudiTable(location, dict(options or {}))
        timeline = table.get_timeline()
        kinds = (timeline.get_completed_commits, timeline.get_completed_deltacommits, timeline.get_completed_replacecommits)
        instants = sorted({one.timestamp for completed in kinds for one in completed()})
        instant = _instant(instants, version, location)
        at = HudiReadOptions() if instant == EMPTY else HudiReadOptions().with_as_of_timestamp(instant)
        columns = pa.schema([declared_field(one) for one in (*table.get_schema(), *_parts(table))])
        names = parse_columns(None, columns, exclude)
        schema = pa.schema([columns.field(name) for name in names])
        reader = table.create_file_group_reader_with_options(at)
        slices = [] if instant == EMPTY else sorted(table.get_file_slices(at), key=lambda one: one.base_file_relative_path())
        files = [_file(location, one, partial(_rows, reader, one, at, schema), schema) for one in slices]
        return ForeignTable(
            format="hudi",
            url=location,
            id=sha256(f"{location}\n{table.table_name}".encode(errors="surrogateescape")).hexdigest()[:16],
            version=instant,
            schema=schema,
            files=files,
            not_kept=tuple(_not_kept(table, instants, instant)),
        )


def _instant(instants: list[str], version: int | str | None, location: str) -> str:
    if version in (None, EMPTY):
        return instants[-1] if instants and version is None else EMPTY
    if str(version) in instants:
        return str(version)
    raise VersionNotFound(
        f"the Hudi table at {location} has no completed instant {version}",
        why=f"Its timeline goes from {instants[0]} to {instants[-1]}" if instants else "Its timeline is empty",
        fix="Pass an instant as source_version, such as '20260105120000000', or leave it out for the newest",
        version=0,
    )


def _parts(table: Any) -> Iterator[pa.Field]:
    """The partition columns that are in no file."""
    held = table.get_schema().names
    return (one for one in table.get_partition_schema() if one.name not in held)


def _file(root: str, found: Any, read: Any, schema: pa.Schema) -> ForeignFile:
    """One file slice: a base file, and the log files that are merged with it."""
    name = found.base_file_relative_path()
    logs = len(found.log_file_names)
    path = Path(root) / name
    merged = (f"{logs} log file{'s' if logs > 1 else ''} change rows of it",) if logs else ()
    return ForeignFile(
        name=name,
        size=found.total_size_bytes() or (path.stat().st_size if path.is_file() else 0),
        path=path if "://" not in root else None,
        live=Batches(source=name, schema=schema, read=read),
        must_rewrite=merged,
        has_deleted_rows=bool(logs),
        complete=True,
    )


def _rows(reader: Any, found: Any, at: Any, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    with hudi_errors(found.base_file_relative_path()):
        for batch in reader.read_file_slice_stream(found, at):
            missing = [one for one in schema if one.name not in batch.schema.names]
            for one in missing:
                batch = batch.append_column(one.name, pa.nulls(batch.num_rows, one.type))  # noqa: PLW2901  # the same rows
            yield batch.select(schema.names).cast(schema)


def _not_kept(table: Any, instants: list[str], instant: str) -> Iterator[str]:
    found: Mapping[str, str] = table.hudi_options()
    if keys := found.get("hoodie.table.recordkey.fields"):
        yield f"the record key {keys}: properties={{'unique': True}} keeps index and entity unique"
    if parts := found.get("hoodie.table.partition.fields"):
        yield f"partitioning by {parts}: these columns stay"
    if found.get("hoodie.populate.meta.fields", "true").lower() != "false":
        yield "the columns that Hudi adds to each row (_hoodie_…)"
    if before := [one for one in instants if one < instant]:
        yield f"history: {len(before)} instants before {instant}"
