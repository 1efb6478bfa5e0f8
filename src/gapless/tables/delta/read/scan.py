"""File skipping: the files that a condition may touch, and those of which it keeps every row, by partition values and statistics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gapless.errors import InvalidFilter
from gapless.files.read.row_filter import EVERYTHING
from gapless.formats.delta.actions import AddFile, TableState
from gapless.formats.delta.deletion_vector import Positions
from gapless.formats.delta.partitions import MANY, Partitions
from gapless.formats.delta.replay import FileStatsView, LiveFiles, Places, stats_column
from gapless.formats.delta.stats_codec import FileStats, StatsReader
from gapless.formats.delta.stats_columns import read_many
from gapless.model.stats import ColumnStats, ManyStats
from gapless.predicate.expression import to_expression
from gapless.predicate.plan import Mask, matches_all, matches_none
from gapless.predicate.predicate import And, Predicate, columns_of, paths_of
from gapless.predicate.prune import StatsOf, compile_pruner
from gapless.predicate.range import conjunction
from gapless.tables.delta.expressions.evaluate import true_rows
from gapless.tables.delta.expressions.sql import columns_read, parsed, terms
from gapless.tables.delta.files.open_file import POSITION, GroupFilter, Projection
from gapless.tables.delta.files.reading import FileReader
from gapless.tables.shared.scan import Condition, parse_condition

FEW_FILES = 64
"""Of so many the statistics are read one by one without a quick look at all before."""
FEW_OF = 20
"""Of one file in so many or fewer values are made one by one, where the log has them in another form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A live file that may hold a row which a condition keeps."""

    file: AddFile
    whole: bool
    """Whether the condition certainly keeps every one of its rows."""


def whole_files(found: Iterable[Candidate]) -> frozenset[str]:
    """The keys of those files of which a condition certainly keeps every row."""
    return frozenset([one.file.key for one in found if one.whole])


@dataclass(frozen=True, kw_only=True)
class Planner:
    """Plans reads of one version; what it parsed of the log is kept, so that a second plan is quicker."""

    state: TableState
    parts: Partitions
    _stats: dict[str, FileStats] = field(default_factory=dict, repr=False)
    """Of files, by their keys."""
    _bounds: dict[tuple[str, ...], ManyStats | None] = field(default_factory=dict, repr=False)
    """Of all files, in their order, by the column's path."""

    @classmethod
    def of(cls, state: TableState) -> Planner:
        """The planner of a version; raises CorruptTable where it is partitioned by what is no column."""
        return cls(state=state, parts=Partitions.of(state.metadata))

    @cached_property
    def files(self) -> list[AddFile]:
        """The live files, in the log's order."""
        return list(self.state.files.values())

    def select(self, condition: Condition) -> list[Candidate]:
        """The live files that may hold a row for which the condition is true, by partition values and statistics; opens none.

        Raises CorruptTable for a partition value that is none.
        """
        if condition.predicate == EVERYTHING and condition.expression is None:
            return [Candidate(file=file, whole=True) for file in self.files]
        files, proven = self._near(condition)
        verdicts: list[bool | None] = [True if sure else None for sure in proven]
        unsure = [at for at, sure in enumerate(proven) if not sure]
        for at, sure in self._judged([files[at] for at in unsure], condition):
            verdicts[unsure[at]] = sure
        return [Candidate(file=file, whole=sure) for file, sure in zip(files, verdicts, strict=True) if sure is not None]

    def _judged(self, files: Sequence[AddFile], condition: Condition) -> list[tuple[int, bool]]:
        """Files looked at one by one: the places of those that may hold a row, and whether the condition certainly keeps all of theirs."""
        stored = any(name not in self.parts.columns for name in condition.columns)
        found = [self.stats(file) for file in files] if stored else [FileStats()] * len(files)
        known = [self._known(file, stats) for file, stats in zip(files, found, strict=True)]
        rows = [MANY if stats.rows is None else stats.rows for stats in found]
        return condition.filter.matching(known, rows)

    @cached_property
    def _stats_reader(self) -> StatsReader:
        return StatsReader(self.state.metadata.schema)

    def stats(self, file: AddFile) -> FileStats:
        """What the log says of a file's rows and columns."""
        if (found := self._stats.get(file.key)) is None:
            found = self._stats[file.key] = self._stats_reader.parse(file.stats, deleted=file.deletion_vector is not None)
        return found

    @cached_property
    def _stats_view(self) -> FileStatsView:
        files = self.state.files
        found = files.stats_view() if isinstance(files, LiveFiles) and "files" not in self.__dict__ else None
        return FileStatsView(texts=stats_column(self.files), files=self._files_at) if found is None else found

    def _near(self, condition: Condition) -> tuple[list[AddFile], Sequence[bool]]:
        """The live files but for those that a look at all at once drops, and of which it proves that every row is kept."""
        count = len(self.state.files)
        if count <= FEW_FILES:
            return self.files, [False] * count
        self._read_bounds(condition.predicate)
        near = self._in_partitions(condition) & ~matches_none(condition.predicate, self._bounds.get, condition.schema, count)
        found = np.flatnonzero(near)
        sure = np.zeros(len(found), dtype=np.bool_)
        if condition.expression is None:
            sure = matches_all(condition.predicate, self._bounds.get, condition.schema, count)[found]
        few = "files" not in self.__dict__ and len(found) <= count // FEW_OF
        return (self._stats_view.files if few else self._files_at)(found), sure.tolist()

    def _files_at(self, places: Places) -> list[AddFile]:
        return [self.files[at] for at in places.tolist()]

    def _in_partitions(self, condition: Condition) -> Mask:
        """The files whose partition values the condition's terms on partition columns alone may keep; of each partition one is evaluated."""
        named = [name for name in condition.columns if name in self.parts.columns]
        terms = condition.predicate.terms if isinstance(condition.predicate, And) else (condition.predicate,)
        near = conjunction([term for term in terms if (of := columns_of(term)) and of <= self.parts.columns.keys()])
        if near == EVERYTHING:
            return np.ones(len(self.state.files), dtype=np.bool_)
        keeps = compile_pruner(near, condition.schema)
        kept_of: dict[tuple[str | None, ...], bool] = {}
        physical = [self.parts.columns[name].physical_name for name in named]
        mask = np.empty(len(self.files), dtype=np.bool_)
        for at, file in enumerate(self.files):
            texts = tuple([file.partition_values.get(name) for name in physical])
            if (kept := kept_of.get(texts)) is None:
                kept = kept_of[texts] = keeps(self._known(file, FileStats()), MANY)
            mask[at] = kept
        return mask

    def _read_bounds(self, predicate: Predicate) -> None:
        """Read the bounds of the columns that a predicate names, all at once."""
        paths = [path for path in paths_of(predicate) if path not in self._bounds and path[0] not in self.parts.columns]
        if paths:
            self._bounds.update(read_many(self._stats_view.texts, paths, self.state.metadata.schema))

    def _known(self, file: AddFile, stats: FileStats) -> StatsOf:
        def known(name: str) -> ColumnStats | None:
            return self.parts.stats(file, name) if name in self.parts.columns else stats.columns.get(tuple(name.split("\0")))

        return known


def select_files(state: TableState, condition: Condition) -> list[Candidate]:
    """The live files of a version that may hold a row for which the condition is true: see `Planner.select`."""
    return Planner.of(state).select(condition)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCondition:
    """A `where` in two parts, both of which must be true for a row: what is pushed down to files, and the residual."""

    pushed: Condition
    """Prunes files and row groups, and filters rows while they are read."""
    residual: str | None = None
    """SQL that only DuckDB evaluates, row by row; None where there is none."""
    groups: GroupFilter | None = None
    """What leaves out row groups whose rows nobody wants, though the condition may be true of them."""

    @classmethod
    def parse(cls, where: str | pc.Expression | None, schema: pa.Schema) -> RowCondition:
        """Read a `where`: what a scan takes, or any SQL expression over a row.

        Raises InvalidFilter, UnknownColumn, InvalidTime, InvalidQuery.
        """
        try:
            return cls(pushed=parse_condition(where, schema))
        except InvalidFilter:
            if not isinstance(where, str):
                raise
        pushed, residual = [], []
        for term in terms(parsed(where)):
            text = str(term.sql(dialect="duckdb"))
            try:
                pushed.append(parse_condition(text, schema).predicate)
            except InvalidFilter:
                residual.append(f"({text})")
        predicate, text = conjunction(pushed), " AND ".join(residual)
        columns_read(text, schema)
        named = columns_of(predicate)
        columns = tuple(name for name in schema.names if name in named)
        return cls(pushed=Condition(schema=schema, predicate=predicate, columns=columns), residual=text)

    def takes_whole(self, candidate: Candidate) -> bool:
        """Whether it is certainly true for every row of a file."""
        return candidate.whole and self.residual is None

    @property
    def columns(self) -> tuple[str, ...]:
        """The top-level columns that it reads, in the schema's order."""
        read = {*self.pushed.columns, *self.residual_columns}
        return tuple(name for name in self.pushed.schema.names if name in read)

    @property
    def residual_columns(self) -> tuple[str, ...]:
        """The top-level columns that the residual reads, in the schema's order."""
        return () if self.residual is None else columns_read(self.residual, self.pushed.schema)

    def projection(self, columns: tuple[str, ...], *, position: bool = False) -> Projection:
        """These columns of the rows that the pushed part keeps."""
        pushed = self.pushed
        return Projection(
            columns=columns, predicate=pushed.predicate, expression=pushed.expression, groups=self.groups, position=position
        )

    def mask(self, rows: pa.Table) -> Mask:
        """For each of these rows, which have the schema's columns, whether it is true. Raises InvalidQuery."""
        kept = np.zeros(rows.num_rows, dtype=bool)
        numbered = rows.append_column(POSITION, pa.array(np.arange(rows.num_rows)))
        found = numbered.filter(to_expression(self.pushed.predicate, self.pushed.schema))
        found = found if self.pushed.expression is None else found.filter(self.pushed.expression)
        kept[found.column(POSITION).to_numpy()] = True
        return kept if self.residual is None else kept & true_rows(rows, self.residual)

    def positions(self, reader: FileReader, file: AddFile) -> Positions:
        """The positions of a file's live rows for which it is true. Raises InvalidQuery, CorruptTable, StoreError."""
        return np.concatenate([np.empty(0, np.int64), *self._positions(reader, file)])

    def _positions(self, reader: FileReader, file: AddFile) -> Iterator[Positions]:
        for batch in reader.batches(file, self.projection(self.residual_columns, position=True)):
            positions: Positions = batch.column(POSITION).to_numpy()
            if self.residual is not None:
                positions = positions[true_rows(pa.Table.from_batches([batch]), self.residual)]
            yield positions
