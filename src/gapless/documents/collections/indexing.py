"""Making an index: a column for each path, filled for all documents in the commit that says that it is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa

from gapless.documents.collections.change import with_columns
from gapless.documents.collections.storage import (
    DOCUMENT_COLUMN,
    ID_COLUMN,
    INDEXED,
    INDEXES,
    Index,
    columns_of,
    new_index,
    read_indexes,
    rows_of,
    write_indexes,
)
from gapless.documents.values.codec import decode_document
from gapless.errors import InvalidOption
from gapless.files.ingest.batches import Batches
from gapless.formats.delta.actions import Json, TableState
from gapless.formats.delta.conflict import EVERYTHING
from gapless.formats.delta.deletion_vector import Positions
from gapless.tables.delta.read.scan import Planner
from gapless.tables.delta.write.merge_schema import evolve_schema
from gapless.tables.delta.write.rewrite import BaseVersion, RowChangePlan
from gapless.tables.delta.write.row_edit import AffectedFile, Edit


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexCreation:
    """An index that is to be there."""

    name: str | None
    keys: tuple[tuple[str, int], ...]
    url: str
    new_name: Callable[[], str]
    """Physical names for new columns."""
    operation: str = "UPDATE"

    @property
    def parameters(self) -> Mapping[str, Json]:
        """What the log says of it."""
        return {}

    def found(self, state: TableState) -> Index | None:
        """The index of these keys, where it is there. Raises InvalidOption where another has its name."""
        known = read_indexes(state.configuration, self.url)
        wanted = self._wanted(state)
        for one in known:
            if one.keys == self.keys and self.name in (None, one.name):
                return one
            if one.name == wanted.name or one.keys == self.keys:
                raise InvalidOption(
                    f"there is an index {one.name!r} of {dict(one.keys)!r}",
                    why="A name and keys belong to one index",
                    fix="Take another name, or leave it out",
                    option="name",
                    value=self.name,
                )
        return None

    def fit(self, state: TableState) -> TableState:
        """The version with the columns of the index, and its property. Raises InvalidOption, UnsupportedTable."""
        if self.found(state) is not None:
            return state
        wanted = self._wanted(state)
        schema = pa.schema([pa.field(name, INDEXED) for name in wanted.columns])
        part = Batches(source="the index", schema=schema, read=lambda: iter(()))
        evolved = evolve_schema(state, [part], "merge", self.new_name).state
        said = write_indexes([*read_indexes(state.configuration, self.url), wanted])
        metadata = replace(evolved.metadata, configuration={**evolved.metadata.configuration, INDEXES: said})
        return replace(evolved, metadata=metadata)

    def decide(self, before: BaseVersion) -> RowChangePlan:
        """All documents get a value in each new column."""
        known = columns_of(read_indexes(before.state.configuration, self.url))
        now = read_indexes(before.after.configuration, self.url)
        fresh = [one for one in now if not set(one.columns) <= set(known.values())]
        affected: Iterator[AffectedFile] = iter(())
        if fresh:
            edit = partial(_filled, before.after, now)
            affected = (AffectedFile(file=file, edit=edit) for file in Planner.of(before.state).files)
        return RowChangePlan(affected=affected, reads=EVERYTHING)

    def _wanted(self, state: TableState) -> Index:
        known = read_indexes(state.configuration, self.url)
        return new_index(self.name, self.keys, known, state.metadata.schema.names)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRemoval:
    """Indexes that are to be there no more. Their columns stay: without column mapping a Delta table loses none."""

    chosen: Callable[[Index], bool]
    url: str
    operation: str = "UPDATE"

    @property
    def parameters(self) -> Mapping[str, Json]:
        """What the log says of it."""
        return {}

    def fit(self, state: TableState) -> TableState:
        """The version with another property. Raises UnsupportedTable."""
        known = read_indexes(state.configuration, self.url)
        left = [one for one in known if not self.chosen(one)]
        if len(left) == len(known):
            return state
        metadata = replace(state.metadata, configuration={**state.metadata.configuration, INDEXES: write_indexes(left)})
        return replace(state, metadata=metadata)

    def decide(self, before: BaseVersion) -> RowChangePlan:  # noqa: ARG002  # as every change of rows
        """No row changes."""
        return RowChangePlan(affected=iter(()), reads=EVERYTHING)


def _filled(state: TableState, indexes: tuple[Index, ...], rows: pa.Table, _positions: Positions) -> Edit:
    ids, data = rows.column(ID_COLUMN).to_pylist(), rows.column(DOCUMENT_COLUMN).to_pylist()
    fresh = rows_of(ids, [decode_document(one) for one in data], data, indexes)
    every = np.ones(rows.num_rows, dtype=bool)
    return Edit(gone=~every, changed=every, after=with_columns(rows, fresh, state))
