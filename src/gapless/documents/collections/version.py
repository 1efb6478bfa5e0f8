"""The documents of one version: read, counted, and gathered by columns where these tell it exactly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gapless.documents.aggregation.groups import Group
from gapless.documents.aggregation.pushed import (
    KINDS,
    ROWS,
    SEEN,
    PushedGroup,
    document_of,
    is_double,
    not_of_kind,
    order_query,
    pushed_group,
    query_of,
    source_names,
)
from gapless.documents.collections.change import wanted_rows
from gapless.documents.collections.lookups import Equalities, Lookups, equalities
from gapless.documents.collections.steps import Document
from gapless.documents.collections.storage import DOCUMENT_COLUMN
from gapless.documents.filters.exact import Exact, conjunction, disjunction, tells_not, to_exact
from gapless.documents.filters.match import holds
from gapless.documents.filters.prune import to_predicate
from gapless.documents.filters.tree import Condition, Path
from gapless.documents.find.sort import Sort
from gapless.documents.values.codec import decode_document
from gapless.formats.delta.actions import AddFile
from gapless.predicate.predicate import Predicate
from gapless.tables.delta.files.open_file import POSITION, Projection
from gapless.tables.delta.files.reading import FileReader
from gapless.tables.delta.read.rows import FileScan, Scan
from gapless.tables.delta.read.scan import Planner, RowCondition
from gapless.tables.delta.read.versions import VersionFiles
from gapless.tables.shared.duckdb_session import open_duckdb

_LEAST_DUCKDB = 128_000_000
"""Bytes without which DuckDB does not work well."""
_FETCHED = 2_000
_FILE = 1 << 40
"""More rows than a file has."""
MOST_FIRST = 1_000
"""So many documents at most are given in an order of columns."""
FEW_ROWS = 4_096
"""Fewer are read as quickly as columns are asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One version of a collection; each call reads anew."""

    planner: Planner
    reader: FileReader
    stored: VersionFiles
    schema: pa.Schema
    columns: Mapping[Path, str]
    """Those of indexed paths."""
    url: str
    memory_limit: int
    lookups: Lookups

    def documents(self, condition: Condition) -> Iterator[Document]:
        """The documents that match. Raises CorruptTable, StoreError, VersionNotFound, InvalidValue."""
        wanted = equalities(condition, self.columns)
        if wanted is not None and self.lookups.has(self.planner.files, wanted.column):
            return self._looked_up(condition, wanted, self.planner.files)
        predicate = to_predicate(condition, self.columns)
        if wanted is None:
            return self._matching(condition, predicate)
        files = [one.file for one in self.planner.select(wanted_rows(predicate, self.schema))]
        if not self.lookups.takes(wanted, files, self.planner):
            return self._matching(condition, predicate)
        return self._looked_up(condition, wanted, files)

    def count(self, condition: Condition) -> int:
        """How many documents match; those that columns tell of are not decoded. Raises as `documents`."""
        exact = to_exact(condition, self.columns)
        if exact is None:
            return sum(1 for _ in self.documents(condition))
        found: int = self._scan(exact.plain, ()).rows().count()
        rest = conjunction([to_predicate(condition, self.columns), exact.elsewhere])
        return found + (sum(1 for _ in self._matching(condition, rest)) if self._may_hold(rest) else 0)

    def grouped(self, condition: Condition, group: Group) -> Iterator[Document] | None:
        """The groups of the documents that match, by columns; None where these do not tell them exactly. Raises as `documents`."""
        exact, pushed = to_exact(condition, self.columns), pushed_group(group, self.columns)
        if exact is None or pushed is None or not pushed.columns:
            return None
        kinds = self._kinds(condition, exact, pushed)
        return None if kinds is None else self._gathered(exact.predicate, pushed, kinds)

    def first(self, condition: Condition, by: Sort, most: int) -> Iterator[Document] | None:
        """The first of the documents that match, in an order, by columns; None where these do not tell it exactly. Raises as `documents`.

        None, too, for so many that memory might not hold them, and of so few that they are read as quickly.
        """
        exact = to_exact(condition, self.columns)
        if exact is None or most > MOST_FIRST or any(path not in self.columns for path, _ in by):
            return None
        order = [(self.columns[path], descending) for path, descending in by]
        possible = to_predicate(condition, self.columns)
        if self._are_few(possible):
            return None
        needed = dict.fromkeys([*exact.columns, *(column for column, _ in order)])
        if self._may_hold(conjunction([possible, disjunction([*map(tells_not, needed)])])):
            return None
        return self._in_order(exact.predicate, order, most)

    def _kinds(self, condition: Condition, exact: Exact, pushed: PushedGroup) -> Mapping[str, int] | None:
        """The types of numbers in the columns of which values come out; None where statistics do not prove that columns tell it all.

        None, too, where there are so few documents that they are read as quickly.
        """
        possible = to_predicate(condition, self.columns)
        if self._are_few(possible):
            return None
        needed = dict.fromkeys([*exact.columns, *pushed.columns])
        others = map(tells_not, needed)
        if self._may_hold(conjunction([possible, disjunction([*others, *map(is_double, pushed.added)])])):
            return None
        kinds: dict[str, int] = {}
        for column in pushed.valued:
            of_one = (kind for kind in KINDS if not self._may_hold(conjunction([possible, not_of_kind(column, kind)])))
            kind = next(of_one, None)
            if kind is None:
                return None
            kinds[column] = kind
        return kinds

    def _in_order(self, predicate: Predicate, order: Sequence[tuple[str, bool]], most: int) -> Iterator[Document]:
        columns = tuple(dict.fromkeys(column for column, _ in order))
        projection = Projection(columns=columns, predicate=predicate, position=True)
        files = [one.file for one in self.planner.select(wanted_rows(predicate, self.schema))]

        def placed() -> Iterator[pa.RecordBatch]:
            for number, file in enumerate(files):
                for batch in self.reader.batches(file, projection):
                    # Of two files the rows of the first come first.
                    yield batch.append_column(SEEN, pc.add(batch.column(POSITION), number * _FILE))

        with self.stored.reading(files):
            query = order_query([(columns.index(column), descending) for column, descending in order], most)
            rows = [row for (row,) in self._asked(placed(), columns, query)]
            documents: dict[int, Document] = {}
            for number, of_file in groupby(sorted(rows), key=lambda row: row // _FILE):
                some = list(of_file)
                only = np.array(some, np.int64) % _FILE
                batches = self.reader.batches(files[number], Projection(columns=(DOCUMENT_COLUMN,)), only=only)
                data = (one for batch in batches for one in batch.column(0).to_pylist())
                documents |= {row: decode_document(one, self.url) for row, one in zip(some, data, strict=True)}
        yield from (documents[row] for row in rows)

    def _gathered(self, predicate: Predicate, pushed: PushedGroup, kinds: Mapping[str, int]) -> Iterator[Document]:
        rows = self._scan(predicate, pushed.columns).rows().to_batches()
        return (document_of(pushed, row, kinds) for row in self._asked(rows, pushed.columns, query_of(pushed)))

    def _asked(self, batches: Iterable[pa.RecordBatch], columns: Sequence[str], query: str) -> Iterator[tuple[Any, ...]]:
        """What DuckDB answers of some columns of rows."""
        failed: list[Exception] = []
        source = _source(batches, columns, failed)
        with TemporaryDirectory(prefix="gapless-") as folder:
            settings = {"memory_limit": f"{max(self.memory_limit, _LEAST_DUCKDB)}B", "temp_directory": folder}
            with open_duckdb(**settings) as connection:
                connection.register(ROWS, source)
                try:
                    connection.execute(query)
                    while rows := connection.fetchmany(_FETCHED):
                        yield from rows
                except Exception:
                    if failed:
                        raise failed[0] from None
                    raise

    def _matching(self, condition: Condition, predicate: Predicate) -> Iterator[Document]:
        for batch in self._scan(predicate, (DOCUMENT_COLUMN,)).rows().to_batches():
            yield from self._decoded(batch, condition)

    def _decoded(self, batch: pa.RecordBatch, condition: Condition) -> Iterator[Document]:
        for data in batch.column(0).to_pylist():
            document = decode_document(data, self.url)
            if holds(condition, document):
                yield document

    def _looked_up(self, condition: Condition, wanted: Equalities, files: Sequence[AddFile]) -> Iterator[Document]:
        with self.stored.reading(files):
            for file in files:
                places = self.lookups.of(self.reader, file, wanted.column).places(wanted)
                if not len(places):
                    continue
                for batch in self.reader.batches(file, Projection(columns=(DOCUMENT_COLUMN,)), only=places):
                    yield from self._decoded(batch, condition)

    def _are_few(self, possible: Predicate) -> bool:
        """Whether the files that may hold such rows have so few that they are read as quickly as columns are asked."""
        found = self.planner.select(wanted_rows(possible, self.schema))
        return sum(FEW_ROWS if (rows := self.planner.stats(one.file).rows) is None else rows for one in found) < FEW_ROWS

    def _may_hold(self, predicate: Predicate) -> bool:
        """Whether a row may be so; False where statistics say that none is."""
        return bool(self.planner.select(wanted_rows(predicate, self.schema)))

    def _scan(self, predicate: Predicate, columns: tuple[str, ...]) -> Scan:
        condition = RowCondition(pushed=wanted_rows(predicate, self.schema))
        return Scan(
            planner=self.planner,
            files=FileScan(reader=self.reader, condition=condition, columns=columns),
            stored=self.stored,
        )


def _source(batches: Iterable[pa.RecordBatch], columns: Sequence[str], failed: list[Exception]) -> pa.RecordBatchReader:
    """Rows as the query takes them. What reading raises is put aside, since DuckDB tells it in other words."""
    names = source_names(columns)
    types = {"number": pa.float64(), "kind": pa.int8(), "text": pa.string(), "date": pa.int64()}
    schema = pa.schema([*((name, types[field]) for _, field, name in names), (SEEN, pa.int64())])

    def read() -> Iterator[pa.RecordBatch]:
        seen = 0
        try:
            for batch in batches:
                known = SEEN in batch.schema.names
                numbers = batch.column(SEEN) if known else pa.array(np.arange(seen, seen + batch.num_rows))
                seen += batch.num_rows
                arrays = [pc.struct_field(batch.column(column), field).cast(types[field]) for column, field, _ in names]
                yield pa.record_batch([*arrays, numbers], schema=schema)
        except Exception as error:
            failed.append(error)
            raise

    return pa.RecordBatchReader.from_batches(schema, read())
