"""The documents of one version: read, counted, and gathered by columns where these tell it exactly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gapless.documents.aggregation.groups import Group
from gapless.documents.aggregation.pushed import (
    KINDS,
    ROWS,
    PushedGroup,
    document_of,
    is_double,
    not_of_kind,
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
from gapless.documents.values.codec import decode_document
from gapless.formats.delta.actions import AddFile
from gapless.predicate.predicate import Predicate
from gapless.tables.delta.files.open_file import Projection
from gapless.tables.delta.files.reading import FileReader
from gapless.tables.delta.read.rows import FileScan, Scan
from gapless.tables.delta.read.scan import Planner, RowCondition
from gapless.tables.delta.read.versions import VersionFiles
from gapless.tables.shared.duckdb_session import open_duckdb

_LEAST_DUCKDB = 128_000_000
"""Bytes without which DuckDB does not work well."""
_FETCHED = 2_000


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
        predicate = to_predicate(condition, self.columns)
        wanted = equalities(condition, self.columns)
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

    def _kinds(self, condition: Condition, exact: Exact, pushed: PushedGroup) -> Mapping[str, int] | None:
        """The types of numbers in the columns of which values come out; None where statistics do not prove that columns tell it all."""
        possible = to_predicate(condition, self.columns)
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

    def _gathered(self, predicate: Predicate, pushed: PushedGroup, kinds: Mapping[str, int]) -> Iterator[Document]:
        failed: list[Exception] = []
        source = _source(self._scan(predicate, pushed.columns).rows().to_batches(), pushed, failed)
        with TemporaryDirectory(prefix="gapless-") as folder:
            settings = {"memory_limit": f"{max(self.memory_limit, _LEAST_DUCKDB)}B", "temp_directory": folder}
            with open_duckdb(**settings) as connection:
                connection.register(ROWS, source)
                try:
                    connection.execute(query_of(pushed))
                    while rows := connection.fetchmany(_FETCHED):
                        yield from (document_of(pushed, row, kinds) for row in rows)
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


def _source(batches: Iterable[pa.RecordBatch], pushed: PushedGroup, failed: list[Exception]) -> pa.RecordBatchReader:
    """Rows as the query takes them. What reading raises is put aside, since DuckDB tells it in other words."""
    names = source_names(pushed)
    types = {"number": pa.float64(), "kind": pa.int8(), "text": pa.string(), "date": pa.int64()}
    schema = pa.schema([*((name, types[field]) for _, field, name in names), ("seen", pa.int64())])

    def read() -> Iterator[pa.RecordBatch]:
        seen = 0
        try:
            for batch in batches:
                numbers = pa.array(np.arange(seen, seen + batch.num_rows))
                seen += batch.num_rows
                arrays = [pc.struct_field(batch.column(column), field).cast(types[field]) for column, field, _ in names]
                yield pa.record_batch([*arrays, numbers], schema=schema)
        except Exception as error:
            failed.append(error)
            raise

    return pa.RecordBatchReader.from_batches(schema, read())
