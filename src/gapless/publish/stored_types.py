"""The types in which files of a table hold columns that were widened since: our reader converts them, others may not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from gapless.files.read.source import segment_footer
from gapless.model.column_ids import ColumnIds, ColumnPath, steps
from gapless.model.protocols import Store
from gapless.model.segment import DataFile
from gapless.model.types import FIELD_ID, bare_type, children, stored_type
from gapless.publish.source import SourceChange, SourceColumns, check_described
from gapless.runtime.concurrency import WIDTH, Call, in_order

OlderTypes = Mapping[ColumnPath, Mapping[pa.DataType, tuple[str, ...]]]
"""By declared path the types in which files hold its values that are not the one it is stored in now, each with the paths of such files."""
_FOOTER_BYTES = 64 << 10
"""What a footer takes, about."""


@dataclass(frozen=True, slots=True)
class StoredColumns:
    """What some files hold, as far as it is not what the table declares."""

    older: OlderTypes
    other_ids: tuple[str, ...] = ()
    """The paths of files that carry field ids which are not the table's: readers that go by ids take other columns out of them."""

    def __bool__(self) -> bool:
        """Whether there is anything."""
        return bool(self.older or self.other_ids)


def check_change(store: Store, change: SourceChange, check_stored: Callable[[SourceColumns, StoredColumns], None]) -> None:
    """Raise where files that a change adds cannot be described: NotSupported, UnsupportedType, CorruptTable, StoreError.

    `check_stored` is the format's. Footers are read where nobody has looked into them.
    """
    check_described(change.added)
    if not change.looked_at:
        check_stored(change.columns, stored_columns(store, change.columns, change.added))


def older_types(store: Store, columns: SourceColumns, files: Iterable[DataFile]) -> OlderTypes:
    """The types alone of what `stored_columns` finds."""
    return stored_columns(store, columns, files).older


def stored_columns(store: Store, columns: SourceColumns, files: Iterable[DataFile]) -> StoredColumns:
    """Look into the footers of some files of a table that has these columns. Raises CorruptTable where one is missing or damaged, StoreError."""
    found: dict[ColumnPath, dict[pa.DataType, list[str]]] = {}
    other_ids = []
    listed = [] if columns.schema is None else list(files)
    footers = in_order(
        (Call(partial(segment_footer, store, file), _FOOTER_BYTES) for file in listed),
        width=WIDTH if store.capabilities.concurrent else 1,
    )
    for file, footer in zip(listed, footers, strict=True):
        if any(columns.field_ids.get(path) != number for path, number in _field_ids(footer.schema, ())):
            other_ids.append(file.path)
        for field in columns.schema or ():
            name = columns.ids.stored_name(field.name)
            if name not in footer.names:
                continue  # it came later
            for path, type_ in _older(footer.schema.field(name).type, field.type, (field.name,), columns.ids):
                found.setdefault(path, {}).setdefault(type_, []).append(file.path)
    older = {path: {type_: tuple(paths) for type_, paths in types.items()} for path, types in found.items()}
    return StoredColumns(older, tuple(other_ids))


def _field_ids(fields: Iterable[pa.Field], above: ColumnPath) -> Iterator[tuple[ColumnPath, int]]:
    """The ids that a file carries, by stored path."""
    for field in fields:
        path = (*above, field.name)
        if field.metadata and FIELD_ID in field.metadata:
            yield path, int(field.metadata[FIELD_ID])
        below = zip(steps(field.type), children(field.type), strict=True)
        yield from _field_ids((child.with_name(step) for step, child in below), path)


def _older(
    held: pa.DataType, declared: pa.DataType, path: ColumnPath, ids: ColumnIds
) -> Iterator[tuple[ColumnPath, pa.DataType]]:
    """The leaves of a column that a file holds in another type than new ones will."""
    if not steps(declared):
        if bare_type(held) != bare_type(stored_type(declared)):
            yield path, bare_type(held)
        return
    by_name = pa.types.is_struct(declared)
    there = {child.name if by_name else step: child.type for step, child in zip(steps(held), children(held), strict=True)}
    for step, child in zip(steps(declared), children(declared), strict=True):
        at = (*path, step)
        stored = ids.stored_name(*at) if by_name else step
        if stored in there:
            yield from _older(there[stored], child.type, at, ids)
