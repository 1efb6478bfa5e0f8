"""A Delta table as the source of an import, read by our own reader."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa

from gapless.errors import InvalidOption
from gapless.files.ingest.batches import Batches
from gapless.formats.delta.actions import AddFile, TableState
from gapless.formats.delta.properties import Settings, constraints_of
from gapless.formats.delta.schema.arrow_types import VARIANT
from gapless.formats.delta.schema.char_varchar import text_lengths
from gapless.formats.delta.schema.column_mapping import ids_by_name
from gapless.formats.delta.schema.types import StructField
from gapless.model.protocols import Store
from gapless.tables import delta
from gapless.tables.delta.expressions.checks import GENERATED, INVARIANTS
from gapless.tables.delta.files.open_file import PathResolver, Projection
from gapless.tables.delta.files.reading import FileReader
from gapless.tables.delta.handle import context_of
from gapless.tables.delta.read.rows import LiveFile
from gapless.tables.delta.write.inputs import DEFAULT, IDENTITY
from gapless.tables.shared.handle import Location
from gapless.tables.shared.scan import parse_columns
from gapless.tables.transfer.sources.foreign import ForeignFile, ForeignTable


def open_delta(
    location: Location, version: int | str | None, exclude: Collection[str] | None, storage_options: Mapping[str, str] | None
) -> ForeignTable:
    """A version of a Delta table, the newest where none is named; raises as `gl.delta.open_at`, and UnknownColumn."""
    view = (
        delta.open(location, storage_options=storage_options)
        if version is None
        else delta.open_at(location, parse_version(version), storage_options=storage_options)
    )
    context, names = context_of(view), parse_columns(None, view.schema, exclude)
    state = context.snapshot.state
    schema = pa.schema([view.schema.field(name) for name in names])
    reader, always = FileReader.of(context.store, state.metadata), tuple(_of_table(state, names))

    def read(file: AddFile) -> Iterator[pa.RecordBatch]:
        return reader.batches(file, Projection(columns=names))

    files = [_file(one, context.store, always, partial(read, one.action), schema) for one in view.files()]
    return ForeignTable(
        format="delta",
        url=view.url,
        id=state.metadata.id,
        version=str(view.version),
        schema=schema,
        files=files,
        not_kept=tuple(line for _, line in delta_features(state, view.version, names)),
    )


def parse_version(given: int | str) -> int:
    """A version as a caller, or the target of an import, names it; raises InvalidOption."""
    text = str(given)
    if text.isascii() and text.isdigit():
        return int(text)
    raise InvalidOption(
        f"source_version={given!r} is no version",
        why="Versions of a Delta table count from 0",
        fix="Pass such as source_version=41, or leave it out for the newest",
        option="source_version",
        value=given,
    )


def _file(
    live: LiveFile, home: Store, always: tuple[str, ...], read: Callable[[], Iterator[pa.RecordBatch]], schema: pa.Schema
) -> ForeignFile:
    place = PathResolver(home).of(live.action.path)
    local = place.store.local_path(place.path)
    deleted = live.action.deletion_vector is not None
    vector = (f"a deletion vector deletes {live.deleted_rows:,} of its rows",) if deleted else ()
    return ForeignFile(
        name=live.path,
        size=live.size,
        path=None if local is None else Path(local),
        live=Batches(source=live.path, schema=schema, read=read, rows_hint=live.rows),
        must_rewrite=(*always, *vector),
        has_deleted_rows=deleted,
    )


def _of_table(state: TableState, names: tuple[str, ...]) -> Iterator[str]:
    """Why no file of a version can be taken as it is."""
    for name in state.metadata.partition_by:
        if name in names:
            yield f"the partition column {name!r} is not in the file"
    mapping = Settings.of(state.configuration).column_mapping
    if mapping == "id":
        yield "column mapping: the file has its columns by field id"
    elif mapping == "name" and ids_by_name(state.metadata.schema):
        yield "column mapping: the file has its columns under other names"


def delta_features(state: TableState, version: int, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What a Delta table has beside its rows and the columns in `names`, by name, with a sentence for whoever finds it missing."""
    settings = Settings.of(state.configuration)
    for name, text in constraints_of(state.configuration).items():
        yield "constraint", f"the constraint {name}: {text}"
    for field in state.metadata.schema:
        if field.name in names:
            yield from _of_column(field)
    if by := state.metadata.partition_by:
        yield (
            "partitioning",
            f"partitioning by {', '.join(by)}: {'these columns stay' if set(by) <= set(names) else 'without them'}",
        )
    if settings.append_only:
        yield "append-only", "delta.appendOnly: rows can be deleted"
    if settings.change_data_feed:
        yield "feed", "the change data feed of commits before"
    if settings.row_tracking:
        yield "row ids", "row ids"
    if state.domains:
        yield "domains", f"metadata domains: {', '.join(sorted(state.domains))}"
    if version:
        yield "history", f"history: versions 0 to {version - 1} of the source"


def _of_column(field: StructField) -> Iterator[tuple[str, str]]:
    name = field.name
    if (text := field.metadata.get(GENERATED)) is not None:
        yield "generated", f"column {name!r} is generated as {text}: its values stay, later rows bring their own"
    if IDENTITY in field.metadata:
        yield "identity", f"column {name!r} counts rows by itself: its values stay, later rows bring their own"
    if (text := field.metadata.get(DEFAULT)) is not None:
        yield "default", f"the default {text} of column {name!r}: its values stay, later rows that lack it get null"
    if (text := field.metadata.get(INVARIANTS)) is not None:
        yield "invariant", f"the invariant {text} of column {name!r}"
    if text_lengths(field):
        yield "lengths", f"the length of the texts of column {name!r}"
    if field.type == VARIANT:
        yield (
            "variant",
            f"that column {name!r} is a variant: it becomes a struct of its metadata and value, as they are encoded",
        )
