"""A time-series table in Delta's words: its columns, its segments as data files, its commits. Pure (PROTOCOL.md)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from gapless.formats.delta.actions import Action, AddFile, Commit, Metadata, Protocol, RemoveFile
from gapless.formats.delta.commit_codec import SOURCE_VERSION
from gapless.formats.delta.features import needed_protocol, raised
from gapless.formats.delta.file_path import log_path
from gapless.formats.delta.operation_ids import txn_of
from gapless.formats.delta.schema.changes import TYPE_CHANGES
from gapless.formats.delta.schema.column_mapping import NAME, max_field_id
from gapless.formats.delta.schema.types import every_field
from gapless.formats.timeseries.actions import parse_own_name
from gapless.model.instant import NS_PER
from gapless.model.operation import SequenceId
from gapless.publish.delta.schema import published_schema
from gapless.publish.delta.stats import INDEXED, INDEXED_COUNT, stats_writer, with_indexed
from gapless.publish.source import SourceChange, SourceColumns, SourceFile
from gapless.publish.stored_types import OlderTypes

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


_OWN_PROPERTIES = frozenset(
    {
        "delta.enableInCommitTimestamps",
        "delta.inCommitTimestampEnablementVersion",
        "delta.inCommitTimestampEnablementTimestamp",
        "delta.columnMapping.mode",
        "delta.columnMapping.maxColumnId",
        "delta.enableTypeWidening",
    }
)


def own_part(found: Metadata, *, indexed: bool = False) -> Metadata:
    """What another writer may have left, with the properties alone that we set; those of statistics only where `indexed`."""
    own = _OWN_PROPERTIES | {INDEXED, INDEXED_COUNT} if indexed else _OWN_PROPERTIES
    return replace(found, configuration={k: v for k, v in found.configuration.items() if k in own}, partition_by=())


def published_operation(version: int) -> SequenceId:
    """The operation id of the commit that publishes a version: any reader of Delta finds it as an application's transaction."""
    return SequenceId(SOURCE_VERSION, version)


def published_metadata(
    columns: SourceColumns,
    before: Metadata | None,
    table_id: str,
    *,
    older: OlderTypes | None = None,
    added: Sequence[SourceFile] = (),
    anew: bool = False,
) -> Metadata:
    """What the table is from here on; `before` is what was published last. The same value where nothing of it changed.

    `older` says which types live files hold, where that was looked at; `added` are the files that are published now, and with `anew` all
    that there are. Raises UnsupportedType for a column that a Delta table cannot have.
    """
    if columns.schema is None and before is not None:
        return before  # a restore brought the time back when there were no columns, nor rows
    last_id = 0 if before is None else int(before.configuration.get("delta.columnMapping.maxColumnId", "0"))
    schema = published_schema(columns, None if before is None else before.schema, last_id, older)
    mapped = any(NAME in field.metadata for field in schema)
    configuration = {**({} if before is None else before.configuration), "delta.enableInCommitTimestamps": "true"}
    if mapped:
        known = int(configuration.get("delta.columnMapping.maxColumnId", "0"))
        last = str(max(known, max_field_id(schema)))
        configuration |= {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": last}
    if any(TYPE_CHANGES in field.metadata for field in every_field(schema)):
        configuration["delta.enableTypeWidening"] = "true"
    configuration = with_indexed(configuration, schema, None if anew else before, added, columns.ids)
    if before is not None and (before.schema, before.configuration) == (schema, configuration):
        return before
    created_ms = columns.created_ns // NS_PER["ms"]
    return Metadata(id=table_id, schema=schema, configuration=configuration, created_ms=created_ms)


def published_protocol(metadata: Metadata, before: Protocol | None) -> Protocol:
    """What the published table asks of its readers and writers: of these a feature that no one but gapless has."""
    needed = raised(needed_protocol(metadata.schema, metadata.configuration), GUARD)
    return needed if before is None else raised(before, *needed.writer_features, *needed.reader_features)


def data_files(files: Iterable[SourceFile], metadata: Metadata, change: SourceChange) -> Iterator[AddFile]:
    """Files as the log has them, with their statistics: what the commit of version `change.version` says of them."""
    stats_of = stats_writer(metadata, change.columns.ids)
    for file in files:
        own = parse_own_name(file.path)
        written_ns = change.time_ns if own is None or own.instant_ns is None else own.instant_ns
        yield AddFile(
            path=log_path(file.path),
            size=file.size or 0,
            modified_ms=written_ns // NS_PER["ms"],
            data_change=change.changes_rows,
            stats=stats_of(file),
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
