"""A change of documents as a change of the rows of a Delta table, decided again on each version that it is made to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa

from gapless.documents.collections.steps import Outcome, Place, Step, Stored, View
from gapless.documents.collections.storage import DOCUMENT_COLUMN, ID_COLUMN, Index, columns_of, read_indexes, rows_of
from gapless.documents.filters.prune import to_predicate
from gapless.documents.filters.tree import Condition
from gapless.documents.values.codec import decode_document
from gapless.formats.delta.actions import AddFile, Json, TableState
from gapless.formats.delta.conflict import Reads
from gapless.formats.delta.deletion_vector import Positions
from gapless.predicate import predicate as sql
from gapless.predicate.predicate import Predicate
from gapless.predicate.predicate import columns_of as columns_named
from gapless.tables.delta.files.open_file import POSITION, Projection
from gapless.tables.delta.files.reading import FileReader
from gapless.tables.delta.read.scan import Planner
from gapless.tables.delta.write.inputs import given_rows
from gapless.tables.delta.write.rewrite import BaseVersion, RowChangePlan, reads_of
from gapless.tables.delta.write.row_edit import AffectedFile, Edit
from gapless.tables.shared.scan import Condition as RowCondition

Rewritten = Mapping[int, Stored | None]
"""What documents of a file become, by their positions; None for those that go."""


@dataclass(slots=True, kw_only=True)
class DocumentFiles:
    """The documents of one version in its files, and what was asked of them."""

    planner: Planner
    reader: FileReader
    schema: pa.Schema
    columns: Mapping[tuple[str, ...], str]
    asked: list[Predicate] = field(default_factory=list)
    read: dict[str, AddFile] = field(default_factory=dict)

    def documents(self, condition: Condition) -> Iterator[Stored]:
        """See `steps.Source`. Raises CorruptTable, StoreError."""
        return self.stored(to_predicate(condition, self.columns))

    def stored(self, predicate: Predicate) -> Iterator[Stored]:
        """The documents of the rows for which a predicate is true. Raises CorruptTable, StoreError."""
        for file, batch in self._batches(predicate, (ID_COLUMN, DOCUMENT_COLUMN)):
            ids, data, positions = (batch.column(name).to_pylist() for name in (ID_COLUMN, DOCUMENT_COLUMN, POSITION))
            for text, document, position in zip(ids, data, positions, strict=True):
                yield Stored(text, document, Place(file.key, position))

    def ids(self, texts: Predicate) -> Iterator[str]:
        """See `steps.Source`. Raises CorruptTable, StoreError."""
        for _, batch in self._batches(texts, (ID_COLUMN,)):
            yield from batch.column(ID_COLUMN).to_pylist()

    def reads(self, state: TableState) -> Reads:
        """All that was looked at."""
        anything = self.asked[0] if len(self.asked) == 1 else sql.Or(terms=tuple(self.asked))
        wanted = wanted_rows(anything if self.asked else sql.Constant(value=False), self.schema)
        return reads_of(state, wanted, self.read.values())

    def _batches(self, predicate: Predicate, columns: tuple[str, ...]) -> Iterator[tuple[AddFile, pa.RecordBatch]]:
        self.asked.append(predicate)
        wanted = wanted_rows(predicate, self.schema)
        files = [one.file for one in self.planner.select(wanted)]
        self.read |= {file.key: file for file in files}
        projection = Projection(columns=columns, predicate=predicate, position=True)
        for file in files:
            for batch in self.reader.batches(file, projection):
                yield file, batch


def wanted_rows(predicate: Predicate, schema: pa.Schema) -> RowCondition:
    """A predicate over a collection's columns as a scan takes it."""
    named = columns_named(predicate)
    return RowCondition(schema=schema, predicate=predicate, columns=tuple(name for name in schema.names if name in named))


@dataclass(slots=True, kw_only=True)
class DocumentChange:
    """Steps that are made in one commit. `outcomes` are those of the version that it was decided on last."""

    steps: Sequence[Step]
    url: str
    operation: str = "MERGE"
    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def parameters(self) -> Mapping[str, Json]:
        """What the log says of it, beside counts: nothing, since filters and values are the user's data."""
        return {}

    def fit(self, state: TableState) -> TableState:
        """The version itself. Raises UnsupportedTable where it is no collection."""
        read_indexes(state.configuration, self.url)
        return state

    def decide(self, before: BaseVersion) -> RowChangePlan:
        """Which documents come, go and change. Raises DuplicateKey, InvalidValue, CorruptTable, StoreError."""
        indexes = read_indexes(before.after.configuration, self.url)
        planner = Planner.of(before.state)
        source = DocumentFiles(planner=planner, reader=before.reader, schema=before.schema, columns=columns_of(indexes))
        view = View(source)
        self.outcomes = [step.apply(view) for step in self.steps]
        return RowChangePlan(
            affected=list(_affected(view, planner, before, indexes)),
            inserts=lambda: _inserts(view, before, indexes),
            reads=source.reads(before.state),
        )


def _affected(view: View, planner: Planner, before: BaseVersion, indexes: Sequence[Index]) -> Iterator[AffectedFile]:
    rewritten: dict[str, dict[int, Stored | None]] = {}
    for text, place in view.places.items():
        rewritten.setdefault(place.file, {})[place.position] = view.changed[text]
    for file in planner.files:
        if (found := rewritten.get(file.key)) is not None:
            positions = np.array(sorted(found), dtype=np.int64)
            yield AffectedFile(file=file, positions=positions, edit=partial(_edit, found, before.after, indexes))


def _edit(rewritten: Rewritten, state: TableState, indexes: Sequence[Index], rows: pa.Table, positions: Positions) -> Edit:
    now = [rewritten[position] for position in positions.tolist()]
    gone = np.array([one is None for one in now], dtype=bool)
    fresh = _rows([one for one in now if one is not None], indexes)
    return Edit(gone=gone, changed=~gone, after=with_columns(rows.filter(pa.array(~gone)), fresh, state))


def with_columns(rows: pa.Table, fresh: pa.Table, state: TableState) -> pa.Table:
    """Rows of a version with other values in some columns, as they may be written. Raises InvalidValue."""
    for name in fresh.column_names:
        rows = rows.set_column(rows.column_names.index(name), rows.schema.field(name), fresh.column(name))
    others = frozenset(rows.column_names) - frozenset(fresh.column_names)
    return given_rows(rows, state, "changed documents", kept=others)


def _inserts(view: View, before: BaseVersion, indexes: Sequence[Index]) -> Iterable[pa.RecordBatch]:
    fresh = [one for text, one in view.changed.items() if one is not None and text not in view.places]
    for start in range(0, len(fresh), _ROWS):
        rows = _rows(fresh[start : start + _ROWS], indexes)
        yield from given_rows(rows, before.after, "new documents").to_batches()


_ROWS = 10_000
"""Documents that are made rows at a time."""


def _rows(stored: Sequence[Stored], indexes: Sequence[Index]) -> pa.Table:
    documents = [decode_document(one.data) for one in stored] if indexes else [{}] * len(stored)
    return rows_of([one.id for one in stored], documents, [one.data for one in stored], indexes)
