"""What a Delta table that is published in other formats must be, and stay: looked at before each commit that could make it another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gapless.errors import NotSupported
from gapless.formats.delta.actions import Action, AddFile, Metadata, RemoveFile, TableState
from gapless.formats.delta.conflict import RESTORE
from gapless.formats.delta.properties import Settings
from gapless.formats.delta.publishing import publish_settings
from gapless.formats.delta.schema.types import StructType
from gapless.model.publishing import PublishedFormat
from gapless.publish.publishers import check_files, check_publishable, unpublishable
from gapless.publish.sources.delta import columns_of, files_of
from gapless.runtime.environment import Environment
from gapless.tables.shared.publication.publications import Publications

_VECTORS = "delta.enableDeletionVectors"


def check_commit(env: Environment, state: TableState, operation: str, actions: Sequence[Action]) -> None:
    """Raise where a commit of ours would make a table, of this state, one that cannot be described in a format that it is published in.

    Looks at columns and properties where they change; at the footers of all live files where the table becomes published or types change,
    and at those that a restore brings back. Raises NotSupported, UnsupportedType, InvalidChange, SchemaMismatch, TableExists, CorruptTable, StoreError.
    """
    metadata = next((one for one in actions if isinstance(one, Metadata)), state.metadata)
    settings = publish_settings(metadata.configuration)
    if not settings.formats or (metadata is state.metadata and operation != RESTORE):
        return
    _check_vectors(metadata, settings.formats)
    places, known = settings.places(), publish_settings(state.configuration).places()
    fresh: list[PublishedFormat] = [name for name in settings.formats if known.get(name) != places[name]]
    went_on = [name for name in settings.formats if name not in fresh]
    columns = columns_of(metadata)
    check_publishable(fresh, columns)
    # What a restore brings back need not follow: its files are looked at.
    check_publishable(went_on, columns, None if operation == RESTORE else columns_of(state.metadata))
    gone = {one.key for one in actions if isinstance(one, RemoveFile)}
    live = [file for key, file in state.files.items() if key not in gone]
    added = [one for one in actions if isinstance(one, AddFile)] if operation == RESTORE else []
    changed = _changes_types(state.metadata.schema, metadata.schema)
    check_files(env.store, fresh, columns, files_of(env.store, metadata, [*live, *added]))
    check_files(env.store, went_on, columns, files_of(env.store, metadata, [*(live if changed else []), *added]))
    Publications(env).check_place(fresh, settings)


def check_new(metadata: Metadata) -> None:
    """Raise for a table to be made that cannot be published as its properties ask: NotSupported, UnsupportedType, SchemaMismatch."""
    formats = publish_settings(metadata.configuration).formats
    if formats:
        _check_vectors(metadata, formats)
        check_publishable(formats, columns_of(metadata))


def files_to_rewrite(env: Environment, state: TableState, configuration: Mapping[str, str]) -> frozenset[str]:
    """The keys of live files that must be written anew before the table can be published as these properties ask. Raises CorruptTable, StoreError."""
    metadata = replace(state.metadata, configuration=configuration)
    formats = publish_settings(configuration).formats
    if not formats:
        return frozenset()
    check_publishable(formats, columns_of(metadata))
    by_path = dict(zip((one.path for one in files_of(env.store, metadata, state.files.values())), state.files, strict=True))
    found = unpublishable(env.store, formats, columns_of(metadata), files_of(env.store, metadata, state.files.values()))
    return frozenset(by_path[path] for path in found)


def _changes_types(before: StructType, after: StructType) -> bool:
    """Whether a column that was there, by its physical name, has another type now."""
    known = {field.physical_name: field.type for field in before}
    return any(known.get(field.physical_name, field.type) != field.type for field in after)


def _check_vectors(metadata: Metadata, formats: Sequence[str]) -> None:
    if Settings.of(metadata.configuration).deletion_vectors:
        raise NotSupported(
            f"a table with {_VECTORS}=true cannot be published as {' and '.join(formats)}",
            why="Readers of other formats do not know Delta's deletion vectors, and would show deleted rows",
            fix=f"Set {_VECTORS!r}: False together with 'publish': deletes then write files anew",
            feature=_VECTORS,
        )
