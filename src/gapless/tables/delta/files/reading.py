"""Read the rows of a Delta table's data files, as the table declares them.

Small files of a near store are read in sets, step by step: handed over one by one, they would take longer than to be read.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import groupby
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gapless.files.pages.footer import Footer
from gapless.files.read.page_pruning import FEW_ROWS, KeyFilter, kept_positions
from gapless.files.read.row_filter import EVERYTHING, RowFilter, within
from gapless.files.read.row_group_batches import read_row_group_batches
from gapless.files.read.scan import PIECE_BYTES
from gapless.files.read.source import parse_source, segment_footer
from gapless.formats.delta.actions import AddFile, Metadata
from gapless.formats.delta.deletion_vector import Positions
from gapless.model.protocols import Store
from gapless.model.segment import StoredFile
from gapless.predicate.expression import to_expression
from gapless.predicate.plan import expression_columns, row_bytes
from gapless.predicate.predicate import Predicate, columns_of, conjuncts_on
from gapless.predicate.range import conjunction
from gapless.runtime.concurrency import WIDTH, Call, in_order, one_ahead
from gapless.tables.delta.files.layout import Layout
from gapless.tables.delta.files.open_file import (
    POSITION,
    FilePiece,
    OpenDataFile,
    PathResolver,
    Projection,
    ReadRequest,
    read_vector,
)

R = TypeVar("R")

NEAR_WIDTH, MANY_FILES = 2, 8
"""So many files of a near store are read side by side, where there are so many."""
FEW_FILES = 8
"""So many small files are fetched without a thread."""
SET_FILES = 32
SET_STORED_BYTES = 2 << 20
"""What the files of a set have together, or its one file."""
SET_BYTES = 8 << 20
"""What a set holds in Arrow's memory, by a guess; what comes after it in the set is read when it is asked for."""
_POSITION_FIELD = pa.field(POSITION, pa.int64(), nullable=False)


@dataclass(slots=True)
class _FirstError:
    """The error that ended the reading of a set of files."""

    error: Exception | None = None

    def before(self, results: Iterable[R]) -> list[R]:
        """The results of one step, up to the one that raises. An earlier step's error came farther, and is replaced."""
        done: list[R] = []
        try:
            for result in results:
                done.append(result)  # noqa: PERF402  # what came before an error is kept
        except Exception as error:  # noqa: BLE001  # raised where it belongs, after what comes before it
            self.error = error
        return done


def _few_first(files: Sequence[ReadRequest]) -> Iterator[Sequence[ReadRequest]]:
    """Sets that grow: whoever wants few rows stops early."""
    start, most = 0, 1
    while start < len(files):
        end, size = start + 1, files[start].file.size
        while end < min(start + most, len(files)) and (size := size + files[end].file.size) <= SET_STORED_BYTES:
            end += 1
        yield files[start:end]
        start, most = end, min(2 * most, SET_FILES)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One read of files of one version."""

    places: PathResolver
    layout: Layout
    projection: Projection

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of what is read."""
        names = self.layout.declared.names if self.projection.columns is None else self.projection.columns
        fields = [self._types.field(name) for name in names]
        return pa.schema([*fields, _POSITION_FIELD] if self.projection.position else fields, metadata=self._types.metadata)

    def rows(self, store: Store, files: Sequence[ReadRequest]) -> Iterator[tuple[AddFile, pa.Table]]:
        """The rows of files that lie in one store, none of the tables without rows. Raises CorruptTable, StoreError."""
        if store.capabilities.concurrent:
            yield from self._streamed(store, files, WIDTH)
            return
        for small, some in groupby(files, key=lambda request: request.is_small):
            if small:
                yield from self._in_sets(store, list(some))
            else:
                yield from self._streamed(store, list(some), NEAR_WIDTH if len(files) >= MANY_FILES else 1)

    def _opened(self, request: ReadRequest, data: bytes | None) -> OpenDataFile:
        """A file's footer and what is deleted of it; `data` are its bytes, where they are at hand. Raises CorruptTable, StoreError."""
        file, store = request.file, request.place.store
        stored = StoredFile(path=request.place.path, size=file.size, data=data)
        parsed = None if data is None else parse_source(pa.BufferReader(data), stored, None)
        footer = segment_footer(store, stored) if parsed is None else Footer.of(parsed.metadata)
        ids = self.layout.ids(file, footer)
        vector = None if request.only is not None or self.projection.deleted else file.deletion_vector
        deleted = None if vector is None else read_vector(self.places, vector)
        return OpenDataFile(request=request, stored=stored, footer=footer, ids=ids, parsed=parsed, deleted=deleted)

    def _rows_of(self, piece: FilePiece, rows: pa.Table) -> list[tuple[AddFile, pa.Table]]:
        table = self._filtered(self._table(rows, piece), piece).select(self.schema.names)
        return [(piece.opened.request.file, table)] if table.num_rows else []

    def _in_sets(self, store: Store, files: Sequence[ReadRequest]) -> Iterator[tuple[AddFile, pa.Table]]:
        """The rows of small files, set by set; raises in its place what one of them raises. A set is fetched while the one before is worked on."""

        def fetched() -> Generator[tuple[Sequence[ReadRequest], list[bytes | None], _FirstError]]:
            for some in _few_first(files):
                met = _FirstError()
                yield some, met.before(one.fetched() for one in some), met

        with closing(one_ahead(fetched()) if len(files) > FEW_FILES else fetched()) as coming:
            for some, data, met in coming:
                yield from self._read_set(store, some, data, met)

    def _read_set(
        self, store: Store, some: Sequence[ReadRequest], data: Sequence[bytes | None], met: _FirstError
    ) -> Iterator[tuple[AddFile, pa.Table]]:
        """Each step is done for all files before the next: what it needs in the processor's caches is there then, which saves a third."""
        opened = met.before(self._opened(one, its) for one, its in zip(some, data, strict=False))
        pieces = [piece for planned in met.before(list(self._pieces(one)) for one in opened) for piece in planned]
        held = np.cumsum([piece.rows * self._row_bytes for piece in pieces])
        near = int(np.searchsorted(held, SET_BYTES, side="right"))
        found = met.before(
            self._rows_of(piece, rows) for piece, rows in met.before(read_row_group_batches(store, pieces[:near]))
        )
        yield from (rows for of_piece in found for rows in of_piece)
        if len(found) == near:
            for piece, rows in read_row_group_batches(store, pieces[near:]):
                yield from self._rows_of(piece, rows)
        if met.error is not None:
            raise met.error

    def _streamed(self, store: Store, files: Sequence[ReadRequest], width: int) -> Iterator[tuple[AddFile, pa.Table]]:
        """The rows of files, of which several are opened ahead."""

        def opened(request: ReadRequest) -> OpenDataFile:
            return self._opened(request, request.fetched())

        def pieces() -> Generator[FilePiece]:
            first, *others = files
            yield from self._pieces(opened(first))
            calls = (Call(partial(opened, one), one.file.size if one.is_small else 0) for one in others)
            # An error's traceback may outlive the scan, and generators that it holds on to.
            with closing(in_order(calls, width=width)) as following:
                for one in following:
                    yield from self._pieces(one)

        with closing(pieces()) as planned:
            for piece, rows in read_row_group_batches(store, planned, near_width=width):
                yield from self._rows_of(piece, rows)

    @cached_property
    def _types(self) -> pa.Schema:
        return self.layout.declared if self.projection.cast_to is None else self.projection.cast_to

    @cached_property
    def _kept(self) -> RowFilter:
        expression = self.projection.expression
        return RowFilter(
            schema=self.layout.declared,
            predicate=self.projection.predicate,
            expression=expression,
            columns=() if expression is None else expression_columns(expression, self._types),
            cast_to=self.projection.cast_to,
        )

    @cached_property
    def _answered(self) -> pa.Schema:
        """The columns that are given back, as files have them."""
        names = frozenset(self.schema.names)
        return pa.schema([one for one in self.layout.declared if one.name in names])

    @cached_property
    def _fetched(self) -> pa.Schema:
        """Those, and what is needed to filter."""
        names = {*self.schema.names, *columns_of(self.projection.predicate), *self._kept.columns}
        return pa.schema([one for one in self.layout.declared if one.name in names])

    @cached_property
    def _expression(self) -> pc.Expression:
        """The predicate over those."""
        return to_expression(self.projection.predicate, self._fetched)

    @cached_property
    def _limit(self) -> int:
        """Rows of a piece, at most."""
        return max(1, PIECE_BYTES // self._row_bytes)

    @cached_property
    def _row_bytes(self) -> int:
        return row_bytes(self._fetched)

    def _pieces(self, opened: OpenDataFile) -> Iterator[FilePiece]:
        """What is read of a file: row groups that may hold a row the filter keeps, as many together as `PIECE_BYTES` hold."""
        footer, rows = opened.footer, opened.footer.groups.rows
        stages = self._stages(opened)
        may_hold = opened.may_hold()
        near = self._near(opened)
        matching = [found for found in self._matching(opened) if may_hold[found[0]] and near(found[0])]
        for certain, numbers in groupby(matching, key=lambda found: found[1]):
            columns = self._answered if certain else self._fetched
            names = (opened.ids.stored_name(name) for name in columns.names if name not in self.layout.parts.columns)
            held = tuple(name for name in names if name in footer.names)
            alone = stages and not certain
            for together in within(1 if alone else self._limit, [number for number, _ in numbers], rows):
                yield FilePiece(
                    segment=opened.stored,
                    footer=footer,
                    numbers=together,
                    names=held,
                    certain=certain,
                    file=opened.parsed,
                    stages=stages if alone else (),
                    opened=opened,
                    columns=columns,
                )

    def _matching(self, opened: OpenDataFile) -> list[tuple[int, bool]]:
        """The row groups that may hold a row the filter keeps, each with whether it certainly keeps all of its rows."""
        rows = opened.footer.groups.rows
        if opened.request.whole:
            return [(number, True) for number, count in enumerate(rows) if count]
        of = partial(self.layout.group_stats, opened.request.file, opened.footer, opened.ids)
        return self._kept.matching([] if self._kept.keeps_all else [of(number) for number in range(len(rows))], rows)

    def _near(self, opened: OpenDataFile) -> Callable[[int], bool]:
        """Whether a row group may hold what is wanted beyond the filter."""
        groups = self.projection.groups
        if groups is None:
            return lambda _number: True
        return lambda number: groups.may_match(opened.footer, number, opened.ids.stored_name)

    def _stages(self, opened: OpenDataFile) -> tuple[KeyFilter, ...]:
        """How pages are pruned in a file's row groups; not at all where that does not pay, or positions in the file are asked for."""
        placed = self._kept.keeps_all or opened.request.whole or self.projection.position or opened.picks
        if placed or max(opened.footer.groups.rows, default=0) <= FEW_ROWS:
            return ()
        names = [name for name in self._fetched.names if name not in self.layout.parts.columns]
        filtered = [(name, terms) for name in names if (terms := conjuncts_on(self.projection.predicate, name))]
        held = [(name, terms) for name, terms in filtered if opened.ids.stored_name(name) in opened.footer.names]
        return tuple(
            KeyFilter(name=opened.ids.stored_name(name), keep=partial(self._positions, conjunction(terms), name, opened))
            for name, terms in held
        )

    def _positions(self, predicate: Predicate, name: str, opened: OpenDataFile, rows: pa.Table) -> Positions:
        """The rows of a table of the column `name`, as the file holds it, that a predicate on it alone keeps."""
        columns = pa.schema([self.layout.declared.field(name)])
        return kept_positions(predicate, self.layout.rows(rows, columns, opened.request.file, opened.footer, opened.ids))

    def _table(self, stored: pa.Table, piece: FilePiece) -> pa.Table:
        """A piece's rows in its columns and, where the projection has it or there are no others, `POSITION`; without those that are deleted."""
        opened, columns = piece.opened, piece.columns
        table = self.layout.rows(stored, columns, opened.request.file, opened.footer, opened.ids)
        if not (self.projection.position or not len(columns) or opened.picks):
            return table
        at = piece.positions
        kept = opened.kept(at)
        placed = pa.Table.from_arrays([*table.columns, pa.array(at)], schema=columns.append(_POSITION_FIELD))
        return placed if kept is None else placed.filter(pa.array(kept))

    def _filtered(self, table: pa.Table, piece: FilePiece) -> pa.Table:
        if self.projection.predicate != EVERYTHING and not piece.certain:
            table = table.filter(self._expression)
        if self.projection.cast_to is not None:
            fields = [one if one.name == POSITION else self._types.field(one.name) for one in table.schema]
            table = table.cast(pa.schema(fields))
        return table if self.projection.expression is None or piece.certain else table.filter(self.projection.expression)


ALL = Projection()
"""All live rows in all columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReader:
    """Reads data files of one version."""

    places: PathResolver
    layout: Layout

    @classmethod
    def of(cls, store: Store | PathResolver, metadata: Metadata) -> FileReader:
        """The reader of the files of a table in `store`, whose columns are those of `metadata`, whatever version wrote them.

        Raises CorruptTable where the table is partitioned by what is no column.
        """
        return cls(places=store if isinstance(store, PathResolver) else PathResolver(store), layout=Layout.of(metadata))

    def schema(self, projection: Projection = ALL) -> pa.Schema:
        """The columns of what is read."""
        return self._reading(projection).schema

    def read(
        self, files: Iterable[AddFile], projection: Projection = ALL, *, whole: AbstractSet[str] = frozenset()
    ) -> Iterator[tuple[AddFile, pa.Table]]:
        """The files' rows, file by file in their order and in the order of their rows, each with its file; no tables without rows.

        `whole` are the keys of files of which it is known that the filters keep every row, so that none is filtered.

        Held in memory at a time: about 32 MiB of rows, or one row group where that is larger, and of small files those that follow, 16 MiB
        of them. On a store where requests take long, what follows is fetched meanwhile. Raises CorruptTable where a file is missing or damaged, StoreError, UnsupportedTable.
        """
        reading = self._reading(projection)
        requests = (
            ReadRequest(file=file, place=self.places.of(file.path), whole=bool(whole) and file.key in whole) for file in files
        )
        for _, together in groupby(requests, key=lambda one: id(one.place.store)):
            some = list(together)
            yield from reading.rows(some[0].place.store, some)

    def batches(
        self, file: AddFile, projection: Projection = ALL, *, only: Positions | None = None
    ) -> Iterator[pa.RecordBatch]:
        """One file's rows; with `only`, those at these positions (ascending), whatever its deletion vector says. Raises as `read`."""
        place = self.places.of(file.path)
        for _, table in self._reading(projection).rows(place.store, [ReadRequest(file=file, place=place, only=only)]):
            yield from table.to_batches()

    def count(self, files: Iterable[AddFile], projection: Projection = ALL) -> int:
        """How many rows `read` gives; of row groups of which the filters keep every row, no more than the footer is read."""
        return sum(table.num_rows for _, table in self.read(files, replace(projection, columns=(), position=False)))

    def _reading(self, projection: Projection) -> Reading:
        return Reading(places=self.places, layout=self.layout, projection=projection)
