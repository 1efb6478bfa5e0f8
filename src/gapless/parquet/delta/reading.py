"""One read of a Delta table's data files."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gapless.dialects.delta.actions import AddFile
from gapless.dialects.delta.deletion_vector import Positions
from gapless.model.column_ids import ColumnIds
from gapless.model.data_file import StoredFile
from gapless.model.protocols import Store
from gapless.parquet.ahead import WIDTH, Call, in_order
from gapless.parquet.delta.layout import Layout
from gapless.parquet.delta.places import Place, Places
from gapless.parquet.delta.sets import Steps, read_in_sets
from gapless.parquet.delta.vectors import read_vector
from gapless.parquet.footer import LOST, Footer, missing
from gapless.parquet.narrow import FEW_ROWS, Stage, kept_positions
from gapless.parquet.pieces import Piece, read_pieces
from gapless.parquet.row_filter import EVERYTHING, RowFilter, within
from gapless.parquet.scan import PIECE_BYTES
from gapless.parquet.source import segment_footer
from gapless.scan.expression import to_expression
from gapless.scan.opaque import expression_columns
from gapless.scan.plan import row_bytes
from gapless.scan.predicate import Predicate, columns_of, terms_on
from gapless.scan.prune import StatsOf
from gapless.scan.range import conjunction

POSITION = "__gapless_position"
"""The name of the column that counts a file's rows from 0: int64, never null, last."""
SMALL_BYTES = 256 << 10
"""Files of so many bytes are fetched as a whole: that is one request, and one file that is opened."""
NEAR_WIDTH, MANY_FILES = 2, 8
"""So many small files of a near store are read side by side, where there are so many: most of what they take is setting up."""
_POSITION_FIELD = pa.field(POSITION, pa.int64(), nullable=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is read of files and given back."""

    columns: tuple[str, ...] | None = None
    """Logical names of the columns to give back, in order; None for all, in the table's order."""
    predicate: Predicate = EVERYTHING
    """Rows for which it is true are kept; over logical columns, partition columns too."""
    expression: pc.Expression | None = None
    """A further filter, in Arrow's own semantics."""
    shown: pa.Schema | None = None
    """The types under which `expression` sees the columns and they are given back, where these are not the declared ones."""
    position: bool = False
    """Whether `POSITION` comes behind the columns."""
    deleted: bool = False
    """Whether rows come that a deletion vector deletes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A file whose footer and deletion vector were read."""

    file: AddFile
    place: Place
    stored: StoredFile
    footer: Footer
    ids: ColumnIds
    gone: Positions | None = None
    """Rows that are not given back; None for none."""
    only: Positions | None = None
    """The only rows that are; None for all."""

    def asked(self) -> list[bool]:
        """Of each row group, whether it may have rows that are given back, by their places."""
        rows = self.footer.groups.rows
        if self.only is None:
            return [True] * len(rows)
        ends = np.searchsorted(self.only, np.cumsum([0, *rows]))
        return list(np.diff(ends) > 0)

    def stays(self, positions: Positions) -> np.ndarray | None:
        """Of ascending positions, which are given back; None where all are."""
        if self.only is not None:
            return _among(positions, self.only)
        return None if self.gone is None else ~_among(positions, self.gone)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePiece(Piece):
    """Row groups of a file of the table."""

    opened: Opened
    columns: pa.Schema
    """The logical columns that are read."""

    @property
    def positions(self) -> Positions:
        """Where the rows lie in the file."""
        rows, ends = self.footer.groups.rows, np.cumsum(self.footer.groups.rows)
        return np.concatenate([np.arange(ends[number] - rows[number], ends[number]) for number in self.numbers])


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What is wanted of files of one version."""

    places: Places
    layout: Layout
    wanted: Wanted

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of what is read."""
        names = self.layout.declared.names if self.wanted.columns is None else self.wanted.columns
        fields = [self._shown.field(name) for name in names]
        return pa.schema([*fields, _POSITION_FIELD] if self.wanted.position else fields, metadata=self._shown.metadata)

    def open(self, place: Place, file: AddFile, only: Positions | None = None) -> Opened:
        """A file's footer and what is deleted of it: all but `only`, where that is given. Raises CorruptTable, StoreError."""
        stored = StoredFile(path=place.path, size=file.size, data=_fetched_whole(place) if file.size <= SMALL_BYTES else None)
        footer = segment_footer(place.store, stored)
        ids, vector = self.layout.ids(file, footer), file.deletion_vector
        vector = None if only is not None or self.wanted.deleted else vector
        gone = None if vector is None else read_vector(self.places, vector)
        return Opened(file=file, place=place, stored=stored, footer=footer, ids=ids, gone=gone, only=only)

    def rows(self, calls: Sequence[Call[Opened]]) -> Iterator[tuple[AddFile, pa.Table]]:
        """The rows of files that lie in one store, none of the tables without rows; `calls`, of which there is one at least, open them. Their
        sizes are those of files that are fetched as a whole, 0 for others.
        """
        opened = calls[0].act()
        store = opened.place.store
        if store.capabilities.concurrent or len(calls) < MANY_FILES:
            yield from self._streamed(store, opened, calls[1:], WIDTH if store.capabilities.concurrent else 1)
            return
        steps = Steps(pieces=self._pieces, answers=self._answers, row_bytes=self._row_bytes)
        for small, together in groupby([Call(lambda: opened, calls[0].size), *calls[1:]], key=lambda call: call.size > 0):
            some = list(together)
            if small:
                yield from read_in_sets(store, some, steps)
            else:
                yield from self._streamed(store, some[0].act(), some[1:], NEAR_WIDTH)

    def _answers(self, piece: FilePiece, rows: pa.Table) -> list[tuple[AddFile, pa.Table]]:
        table = self._filtered(self._table(rows, piece), piece).select(self.schema.names)
        return [(piece.opened.file, table)] if table.num_rows else []

    def _streamed(
        self, store: Store, opened: Opened, calls: Sequence[Call[Opened]], width: int
    ) -> Iterator[tuple[AddFile, pa.Table]]:
        """The rows of a file that is open, and of those that `calls` open."""

        def pieces() -> Generator[FilePiece]:
            yield from self._pieces(opened)
            # An error's traceback may outlive the scan, and generators that it holds on to.
            with closing(in_order(calls, width=width)) as following:
                for one in following:
                    yield from self._pieces(one)

        with closing(pieces()) as planned:
            for piece, rows in read_pieces(store, planned, near_width=width):
                yield from self._answers(piece, rows)

    @cached_property
    def _shown(self) -> pa.Schema:
        return self.layout.declared if self.wanted.shown is None else self.wanted.shown

    @cached_property
    def _kept(self) -> RowFilter:
        expression = self.wanted.expression
        return RowFilter(
            schema=self.layout.declared,
            predicate=self.wanted.predicate,
            expression=expression,
            columns=() if expression is None else expression_columns(expression, self._shown),
            shown=self.wanted.shown,
        )

    @cached_property
    def _answered(self) -> pa.Schema:
        """The columns that are given back, as files have them."""
        return pa.schema([one for one in self.layout.declared if one.name in self.schema.names])

    @cached_property
    def _fetched(self) -> pa.Schema:
        """Those, and what is needed to filter."""
        names = {*self.schema.names, *columns_of(self.wanted.predicate), *self._kept.columns}
        return pa.schema([one for one in self.layout.declared if one.name in names])

    @cached_property
    def _limit(self) -> int:
        """Rows of a piece, at most."""
        return max(1, PIECE_BYTES // self._row_bytes)

    @cached_property
    def _row_bytes(self) -> int:
        return row_bytes(self._fetched)

    def _pieces(self, opened: Opened) -> Iterator[FilePiece]:
        """What is read of a file: row groups that may hold a row the filter keeps, as many together as `PIECE_BYTES` hold."""
        footer, rows = opened.footer, opened.footer.groups.rows
        stages = self._stages(opened)
        stats = [] if self._kept.keeps_all else self._stats(opened)
        asked = opened.asked()
        matching = [found for found in self._kept.matching(stats, rows) if asked[found[0]]]
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
                    stages=stages if alone else (),
                    opened=opened,
                    columns=columns,
                )

    def _stats(self, opened: Opened) -> list[StatsOf]:
        groups = range(len(opened.footer.groups.rows))
        return [self.layout.group_stats(opened.file, opened.footer, opened.ids, number) for number in groups]

    def _stages(self, opened: Opened) -> tuple[Stage, ...]:
        """How near rows are found in a file's row groups; none where that is not worth its while, or places in the file are asked for."""
        placed = self._kept.keeps_all or self.wanted.position or opened.gone is not None or opened.only is not None
        if placed or max(opened.footer.groups.rows, default=0) <= FEW_ROWS:
            return ()
        names = [name for name in self._fetched.names if name not in self.layout.parts.columns]
        asked = [(name, terms) for name in names if (terms := terms_on(self.wanted.predicate, name))]
        held = [(name, terms) for name, terms in asked if opened.ids.stored_name(name) in opened.footer.names]
        return tuple(
            Stage(name=opened.ids.stored_name(name), keep=partial(self._positions, conjunction(terms), name, opened))
            for name, terms in held
        )

    def _positions(self, predicate: Predicate, name: str, opened: Opened, rows: pa.Table) -> Positions:
        """The rows of a table of the column `name`, as the file holds it, that a predicate on it alone keeps."""
        columns = pa.schema([self.layout.declared.field(name)])
        return kept_positions(
            predicate, pa.table(self.layout.rows(rows, columns, opened.file, opened.footer, opened.ids), columns)
        )

    def _table(self, stored: pa.Table, piece: FilePiece) -> pa.Table:
        """A piece's rows in its columns and, where it is asked for or there are no others, `POSITION`; without those that are deleted."""
        opened, columns = piece.opened, piece.columns
        arrays = self.layout.rows(stored, columns, opened.file, opened.footer, opened.ids)
        if self.wanted.position or not arrays or opened.gone is not None or opened.only is not None:
            at = piece.positions
            table, stays = (
                pa.Table.from_arrays([*arrays, pa.array(at)], schema=columns.append(_POSITION_FIELD)),
                opened.stays(at),
            )
            return table if stays is None else table.filter(pa.array(stays))
        return pa.Table.from_arrays(arrays, schema=columns)

    def _filtered(self, table: pa.Table, piece: FilePiece) -> pa.Table:
        if self.wanted.predicate != EVERYTHING and not piece.certain:
            table = table.filter(to_expression(self.wanted.predicate, table.schema))
        if self.wanted.shown is not None:
            fields = [one if one.name == POSITION else self._shown.field(one.name) for one in table.schema]
            table = table.cast(pa.schema(fields))
        return table if self.wanted.expression is None or piece.certain else table.filter(self.wanted.expression)


def _fetched_whole(place: Place) -> bytes:
    try:
        return place.store.get(place.path)
    except LOST as error:
        raise missing(StoredFile(path=place.path)) from error


def _among(positions: Positions, chosen: Positions) -> np.ndarray:
    """Of ascending positions, which are among some, ascending too."""
    if not len(chosen):
        return np.zeros(len(positions), dtype=np.bool_)
    at = np.searchsorted(chosen, positions)
    at[at == len(chosen)] = 0
    among: np.ndarray = chosen[at] == positions
    return among
