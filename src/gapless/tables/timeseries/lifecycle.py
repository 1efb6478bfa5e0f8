"""Create and open time-series tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

import pyarrow as pa

from gapless.coverage.bucket import grid_of
from gapless.coverage.local_days import parse_zone
from gapless.errors import InvalidOption, TableExists, TableNotFound, one_of
from gapless.formats.timeseries.actions import Commit, TableMeta, TableState, UpdateTableMeta
from gapless.formats.timeseries.codec.metadata import with_features
from gapless.formats.timeseries.format import TIME_SERIES
from gapless.log.format import Snapshot
from gapless.log.snapshot import load
from gapless.model.index import INDEX_TYPES, IndexSpec, parse_bucket
from gapless.model.properties import Properties
from gapless.model.schema import adopt_schema
from gapless.publish.publishers import check_publishable
from gapless.publish.sources.timeseries import check_partition, columns_of
from gapless.runtime.committer import ENGINE
from gapless.runtime.environment import Environment
from gapless.runtime.first_commit import commit_first
from gapless.tables.shared.handle import LOG_FOLDERS, Kind, kind_of, kind_of_any, not_opened, parse_schema, table_exists


class IndexOptions(TypedDict, total=False):
    """What `gl.create` may say of the index beside its column and its buckets."""

    entity: Sequence[str] | str
    index_type: str
    timezone: str | None


INDEX_DEFAULTS: IndexOptions = {"entity": (), "index_type": "timestamp", "timezone": None}


def parse_index(index: str, index_type: str, bucket: str | int, entity: Sequence[str] | str, timezone: str | None) -> IndexSpec:
    """The index of a new table from what the caller typed; raises InvalidOption."""
    kind = one_of("index_type", index_type, INDEX_TYPES)
    if timezone is not None and kind != "timestamp":
        raise InvalidOption(
            f"timezone={timezone!r} with index_type={kind!r}",
            why="Only a timestamp index has a time zone",
            fix="Leave it out",
            option="timezone",
            value=timezone,
        )
    if timezone is not None:
        parse_zone(timezone)
    spec = IndexSpec(
        column=index,
        type=kind,
        bucket=parse_bucket(bucket, kind, timezone),
        entity=_entity_columns(entity),
        timezone=timezone,
    )
    grid_of(spec.bucket, signed=kind != "uint64")  # a width that the grid cannot have is refused here, not at the first append
    return spec


def _entity_columns(entity: object) -> tuple[str, ...]:
    """The entity columns as a caller typed them, a name or several; raises InvalidOption."""
    if isinstance(entity, str):
        return (entity,)
    names = tuple(entity) if isinstance(entity, Iterable) else (entity,)
    if not all(isinstance(name, str) for name in names):
        raise InvalidOption(
            f"entity={entity!r} names no columns",
            why="The columns whose values together identify a series are named by strings",
            fix="Give a list of names, or one name; leave it out for a table of one series",
            option="entity",
            value=entity,
        )
    return names


def create_table(
    env: Environment, path: str, index: IndexSpec, schema: pa.Schema | None, properties: Mapping[str, Any]
) -> Snapshot[TableState]:
    """Commit version 1. Raises TableExists, also where a Delta table lies, SchemaMismatch, UnsupportedType, InvalidOption, StoreError."""
    if env.drive(load(TIME_SERIES)) is not None:
        raise _exists(path)
    if kind_of(env.store) == "delta":
        raise _exists(path, "gl.delta.open(path)")
    given = parse_schema(schema)
    meta = TableMeta(
        index=index,
        schema=None if given is None else adopt_schema(given, index),
        created_ns=env.clock.now_ns(),
        properties=Properties.parse(properties),
    )
    check_publishable(meta.properties.publish, columns_of(meta))
    check_partition(meta)
    entry = Commit(id=env.ids.uuid(), operation="create", engine=ENGINE, actions=(UpdateTableMeta(with_features(meta)),))
    return commit_first(env, TIME_SERIES, entry, _exists(path))


def open_table(env: Environment, path: str) -> Snapshot[TableState]:
    """The newest snapshot; raises TableNotFound where there is no table."""
    snapshot = env.drive(load(TIME_SERIES))
    if snapshot is None:
        raise no_table(path, kind_of_any(env.store))
    return snapshot


def no_table(path: str, kind: Kind | None = None) -> TableNotFound:
    """The error for a place that holds no time-series table; `kind` is that of the table that it holds instead."""
    if kind == "delta":
        return TableNotFound(
            f"the table at {path} is a Delta table, and no time-series table",
            why=f"It has a {LOG_FOLDERS[kind]}/ and no {TIME_SERIES.folder}/",
            fix=f"Open it with gl.delta.open({path!r})",
            path=path,
        )
    if kind in ("iceberg", "hudi"):
        return not_opened(path, kind)
    return TableNotFound(
        f"there is no table at {path}",
        why=f"It has no {' and no '.join(f'{folder}/' for folder in LOG_FOLDERS.values())} with commits",
        fix='Make one with gl.create(path, index="ts", bucket="1h") or gl.delta.create(path, schema), or check the path',
        path=path,
    )


def _exists(path: str, opening: str = "gl.open(path)") -> TableExists:
    return table_exists(path, "Its log has commits", f"Use {opening}, or another path")
