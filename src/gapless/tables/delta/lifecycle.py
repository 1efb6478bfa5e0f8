"""Create and open Delta tables."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from gapless.errors import InvalidOption, LogWarning, TableExists, TableNotFound, UnknownColumn, nearest
from gapless.formats.delta.actions import Commit, Metadata, Protocol, TableState
from gapless.formats.delta.features import check_readable, check_writable, needed_protocol
from gapless.formats.delta.format import DELTA
from gapless.formats.delta.properties import Settings, parse_properties, stored
from gapless.formats.delta.publishing import UNIVERSAL_FORMATS, check_together
from gapless.formats.delta.schema.arrow_types import from_arrow, to_arrow
from gapless.formats.delta.schema.column_mapping import assign, check_names
from gapless.formats.delta.schema.types import PrimitiveType, StructType
from gapless.formats.delta.variant.declared import check_shredded
from gapless.log.format import Snapshot
from gapless.log.snapshot import load
from gapless.model.instant import NS_PER
from gapless.runtime.committer import ENGINE
from gapless.runtime.environment import Environment
from gapless.runtime.first_commit import commit_first
from gapless.tables.delta.expressions.checks import constraints
from gapless.tables.delta.expressions.sql import parse_expression
from gapless.tables.delta.published import check_new
from gapless.tables.delta.write.commits import check_text
from gapless.tables.delta.write.merge_schema import MAX_ID
from gapless.tables.shared.handle import kind_of, kind_of_any, not_opened, parse_schema, table_exists


def new_metadata(
    env: Environment, schema: pa.Schema | None, partition_by: Sequence[str] | str, properties: Mapping[str, Any]
) -> tuple[Metadata, Protocol]:
    """The metadata and protocol of a new table. Raises UnsupportedType, UnknownColumn, InvalidOption, NotSupported."""
    given = parse_schema(schema)
    columns = StructType(fields=()) if given is None else from_arrow(given)
    wanted = parse_properties(properties, constraints=True)
    kept = stored(wanted)
    check_together(kept)
    settings = Settings.of(kept)
    check_names(columns, mapped=settings.column_mapping != "none", feed=settings.change_data_feed)
    check_shredded((name for name, _ in settings.shredded), columns, allowed=settings.variant_shredding)
    columns, highest = assign(columns, settings.column_mapping, 0, lambda: f"col-{env.ids.uuid()}")
    ids = {} if settings.column_mapping == "none" else {MAX_ID: str(highest)}
    protocol = needed_protocol(columns, wanted)
    metadata = Metadata(
        id=env.ids.uuid(),
        schema=columns,
        partition_by=_checked_partition_by((partition_by,) if isinstance(partition_by, str) else tuple(partition_by), columns),
        configuration=kept | ids,
        created_ms=env.clock.now_ns() // NS_PER["ms"],
    )
    _check_expressions(TableState(protocol=protocol, metadata=metadata))
    check_new(metadata)
    return metadata, protocol


def create_table(  # what a table is, said once, at its birth
    env: Environment,
    path: str,
    schema: pa.Schema | None,
    *,
    partition_by: Sequence[str] | str = (),
    properties: Mapping[str, Any] | None = None,
    name: str | None = None,
    description: str | None = None,
) -> Snapshot[TableState]:
    """Commit version 0. Raises TableExists, StoreError, and as `new_metadata`."""
    check_text("name", name, optional=True)
    check_text("description", description, optional=True)
    if kind_of(env.store) is not None:
        raise _exists(path)
    metadata, protocol = new_metadata(env, schema, partition_by, properties or {})
    metadata = replace(metadata, name=name, description=description)
    check_writable(protocol, path, metadata)
    entry = Commit(
        id=env.ids.uuid(),
        operation="CREATE TABLE",
        engine=ENGINE,
        blind_append=True,
        in_commit_time=Settings.of(metadata.configuration).in_commit_timestamps,
        actions=(protocol, metadata),
    )
    return commit_first(env, DELTA, entry, _exists(path))


def open_table(env: Environment, path: str) -> Snapshot[TableState]:
    """The newest snapshot; raises TableNotFound where there is no Delta table, UnsupportedTable for one this release cannot read."""
    snapshot = env.drive(load(DELTA))
    if snapshot is None:
        raise no_table(env, path)
    metadata = snapshot.state.metadata
    check_readable(snapshot.state.protocol, path, metadata)
    if formats := metadata.configuration.get(UNIVERSAL_FORMATS):
        what = (
            f"{path} is kept as {formats} too ({UNIVERSAL_FORMATS}), and gapless does not bring that up to what it commits here"
        )
        warnings.warn(f"{what}: readers of {formats} will see older rows until another writer does", LogWarning, stacklevel=3)
    return snapshot


def no_table(env: Environment, path: str) -> TableNotFound:
    """The error for a place that holds no Delta table."""
    found = kind_of_any(env.store)
    if found in ("iceberg", "hudi"):
        return not_opened(path, found)
    why, fix = {
        "timeseries": (", but is a time-series table", "Open it with gl.open(path)"),
        "delta": (", but other objects in that folder", "Bring its commits back from a backup, or delete what is left of it"),
        None: ("", "Make one with gl.delta.create(path, schema), or check the path"),
    }[found]
    return TableNotFound(
        f"there is no Delta table at {path}", why=f"It has no {DELTA.folder}/ with commits{why}", fix=fix, path=path
    )


def _checked_partition_by(names: tuple[str, ...], columns: StructType) -> tuple[str, ...]:
    for name in names:
        check_text("partition_by", name)
        field = columns.field(name)
        if field is None:
            raise UnknownColumn(
                f"partition_by names a column {name!r} that the schema does not have",
                fix=nearest(name, columns.names), column=name, columns=columns.names,
            )  # fmt: skip
        if not isinstance(field.type, PrimitiveType) or field.type.name in ("variant", "void"):
            raise _wrong_partition(names, f"{name!r} holds no single values", "Take a column of numbers, texts, dates or times")
    if len(set(names)) < len(names):
        raise _wrong_partition(names, "It names a column twice", "Name each once")
    if names and len(names) == len(columns.fields):
        raise _wrong_partition(names, "Its files would have no column left", "Leave one out")
    return names


def _wrong_partition(names: tuple[str, ...], why: str, fix: str) -> InvalidOption:
    what = f"partition_by={list(names)!r} cannot be"
    return InvalidOption(what, why=why, fix=fix, option="partition_by", value=names)


def _check_expressions(state: TableState) -> None:
    """Raise InvalidQuery or UnknownColumn for a constraint or generated column that rows could not be held against."""
    declared = to_arrow(state.metadata.schema)
    for one in constraints(state):
        parse_expression(one.condition, declared, "spark")


def _exists(path: str) -> TableExists:
    fix = "Use gl.delta.open(path) or, for a time-series table, gl.open(path); or take another path"
    return table_exists(path, "There are objects in its log's folder", fix)
