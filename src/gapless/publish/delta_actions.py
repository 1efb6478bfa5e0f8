"""A time-series table in Delta's words: its columns, its segments as data files, its commits. Pure (PROTOCOL.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from gapless.errors import UnsupportedType
from gapless.formats.delta.actions import Action, AddFile, Commit, Metadata, Protocol, RemoveFile, log_path, txn_of
from gapless.formats.delta.commit_codec import SOURCE_VERSION
from gapless.formats.delta.features import needed_protocol, raised
from gapless.formats.delta.schema.arrow_types import from_arrow
from gapless.formats.delta.schema.changes import TYPE_CHANGES, may_widen
from gapless.formats.delta.schema.column_mapping import ID, NAME, max_field_id, needs_mapping
from gapless.formats.delta.schema.types import (
    ArrayType,
    DeltaType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    encode_type,
    every_field,
)
from gapless.formats.delta.stats_codec import encode_stats
from gapless.formats.timeseries.actions import TableMeta, parse_own_name
from gapless.model.column_ids import ColumnIds, ColumnPath
from gapless.model.instant import NS_PER
from gapless.model.operation import SequenceId
from gapless.model.segment import Segment
from gapless.model.stats import ColumnStats
from gapless.publish.source_changes import SourceChange

GUARD = "gapless"
"""The writer feature that keeps other writers of Delta out: OPTIMIZE and VACUUM would delete the table's segments."""

_OPERATIONS: Mapping[str, tuple[str, dict[str, str]]] = {
    "append": ("WRITE", {"mode": "Append"}),
    "overwrite": ("WRITE", {"mode": "Overwrite"}),
    "replace": ("WRITE", {"mode": "Overwrite"}),
    "upsert": ("MERGE", {}),
    "delete": ("DELETE", {}),
    "drop_before": ("DELETE", {}),
    "compact": ("OPTIMIZE", {}),
    "restore": ("RESTORE", {}),
}
"""What Delta's log calls the changes that it has names for; others keep theirs, in capitals."""


def published_operation(version: int) -> SequenceId:
    """The operation id of the commit that publishes a version: any reader of Delta finds it as an application's transaction."""
    return SequenceId(SOURCE_VERSION, version)


def published_metadata(meta: TableMeta, before: Metadata | None, table_id: str) -> Metadata:
    """What the table is from here on; `before` is what was published last. The same value where nothing of it changed.

    Raises UnsupportedType for a column that a Delta table cannot have.
    """
    if meta.schema is None and before is not None:
        return before  # a restore brought the time back when there were no columns, nor rows
    last_id = 0 if before is None else int(before.configuration.get("delta.columnMapping.maxColumnId", "0"))
    schema = _schema(meta, StructType(fields=()) if before is None else before.schema, last_id)
    mapped = any(NAME in field.metadata for field in schema)
    configuration = {"delta.enableInCommitTimestamps": "true"} if before is None else dict(before.configuration)
    if mapped:
        known = int(configuration.get("delta.columnMapping.maxColumnId", "0"))
        last = str(max(known, max_field_id(schema)))
        configuration |= {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": last}
    if any(TYPE_CHANGES in field.metadata for field in every_field(schema)):
        configuration["delta.enableTypeWidening"] = "true"
    if before is not None and (before.schema, before.configuration) == (schema, configuration):
        return before
    created_ms = meta.created_ns // NS_PER["ms"]
    return Metadata(id=table_id, schema=schema, configuration=configuration, created_ms=created_ms)


def published_protocol(metadata: Metadata, before: Protocol | None) -> Protocol:
    """What the published table asks of its readers and writers: of these a feature that no one but gapless has."""
    needed = raised(needed_protocol(metadata.schema, metadata.configuration), GUARD)
    return needed if before is None else raised(before, *needed.writer_features, *needed.reader_features)


def data_file(segment: Segment, schema: StructType, ids: ColumnIds, change: SourceChange) -> AddFile:
    """A segment as a data file, with its statistics: what the commit of version `change.version` says of it."""
    own = parse_own_name(segment.path)
    written_ns = change.time_ns if own is None or own.instant_ns is None else own.instant_ns
    stats: dict[ColumnPath, ColumnStats] = {(name,): known for name, known in ids.named(segment.stats).items()}
    stats[(change.meta.index.column,)] = ColumnStats(min=segment.bounds.first, max=segment.bounds.last, nulls=0)
    return AddFile(
        path=log_path(segment.path),
        size=segment.size or 0,
        modified_ms=written_ns // NS_PER["ms"],
        data_change=change.changes_rows,
        stats=encode_stats(segment.rows, stats, schema),
    )


def removed_file(file: AddFile, change: SourceChange) -> RemoveFile:
    """The removal of a published file."""
    return RemoveFile.of(file, change.time_ns // NS_PER["ms"], data_change=change.changes_rows)


def published_commit(change: SourceChange, actions: tuple[Action, ...], commit_id: str, engine: str) -> Commit:
    """The log entry that publishes a version."""
    operation, parameters = _OPERATIONS.get(change.operation, (change.operation.upper().replace("_", " "), {}))
    published = published_operation(change.version)
    return Commit(
        id=commit_id,
        operation=operation,
        parameters=parameters,
        blind_append=change.operation == "append" and not change.removed,
        engine=engine,
        in_commit_time=True,
        operation_id=published,
        source_version=change.version,
        actions=(*actions, txn_of(published, "")),
    )


def _schema(meta: TableMeta, before: StructType, last_id: int) -> StructType:
    if meta.schema is None:
        return StructType(fields=())
    declared = from_arrow(meta.schema)
    mapped = bool(meta.ids.stored) or any(NAME in field.metadata for field in before) or needs_mapping(declared)
    numbers = iter(range(max(last_id, max_field_id(before)) + 1, 2**31))
    return _struct(declared, before, (), meta.ids if mapped else None, numbers)


def _struct(now: StructType, was: StructType, path: ColumnPath, ids: ColumnIds | None, numbers: Iterator[int]) -> StructType:
    known = {field.physical_name: field for field in was}
    fields = []
    for field in now:
        at = (*path, field.name)
        stored = field.name if ids is None else ids.stored_name(*at)
        old = known.get(stored)
        below = _type(field.type, None if old is None else old.type, at, ids, numbers)
        new = replace(field, type=below)
        if ids is not None:
            number = old.field_id if old is not None and old.field_id is not None else next(numbers)
            new = new.with_metadata(**{ID: number, NAME: stored})
        fields.append(_with_type_changes(new, old, ".".join(at)))
    return StructType(fields=tuple(fields))


def _type(now: DeltaType, was: DeltaType | None, path: ColumnPath, ids: ColumnIds | None, numbers: Iterator[int]) -> DeltaType:
    match now:
        case StructType():
            return _struct(now, was if isinstance(was, StructType) else StructType(fields=()), path, ids, numbers)
        case ArrayType():
            old = was.element if isinstance(was, ArrayType) else None
            return replace(now, element=_type(now.element, old, (*path, "element"), ids, numbers))
        case MapType():
            key, value = (was.key, was.value) if isinstance(was, MapType) else (None, None)
            return replace(
                now,
                key=_type(now.key, key, (*path, "key"), ids, numbers),
                value=_type(now.value, value, (*path, "value"), ids, numbers),
            )
    return now


def _with_type_changes(field: StructField, old: StructField | None, where: str) -> StructField:
    """The field with all changes of its type, as `delta.typeChanges` tells them. Raises UnsupportedType for one that Delta does not have."""
    if old is None:
        return field
    told = list(old.metadata.get(TYPE_CHANGES, ()))
    if may_widen(field.type, old.type):  # a restore brought the narrower type back, and with it files that hold no other
        starts = [change.get("fromType") for change in told]
        told = told[: starts.index(encode_type(field.type))] if encode_type(field.type) in starts else told
    elif isinstance(old.type, PrimitiveType) and old.type != field.type and old.type.name != "void":
        if not may_widen(old.type, field.type):
            raise UnsupportedType(
                f"column {where!r} cannot become {encode_type(field.type)} where it is published as Delta",
                why=f"Its files hold {old.type.name}, and Delta's type widening has no such step",
                fix="Leave the type as it is, or take 'delta' out of the property 'publish' first",
                column=where,
                type=str(encode_type(field.type)),
            )
        told.append({"fromType": encode_type(old.type), "toType": encode_type(field.type)})
    return field.with_metadata(**{TYPE_CHANGES: told or None})
