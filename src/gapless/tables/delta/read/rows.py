"""Scans of Delta tables: lazy rows, the live files behind them, and a version as a dataset for DuckDB."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gapless.files.read.scan import Pinned, pin
from gapless.formats.delta.actions import AddFile
from gapless.formats.delta.file_path import RelativePath, locate
from gapless.formats.delta.schema.arrow_types import MARK
from gapless.formats.delta.stats_codec import FileStats
from gapless.formats.delta.variant.decode import decode_variant
from gapless.model.stats import ColumnStats
from gapless.model.types import children, is_any_list
from gapless.predicate.plan import expression_columns
from gapless.tables.delta.expressions.evaluate import true_rows
from gapless.tables.delta.files.open_file import Projection
from gapless.tables.delta.files.reading import FileReader
from gapless.tables.delta.read.scan import Candidate, Planner, RowCondition, whole_files
from gapless.tables.delta.read.versions import VersionFiles
from gapless.tables.shared.scan import Condition, Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFile:
    """A live data file, by the log."""

    path: str
    """Where it lies: relative to the table root, not encoded; or a URI."""
    partition_values: Mapping[str, Any]
    """Python values by logical names, in the order of the partition columns."""
    size: int
    """Bytes."""
    rows: int | None
    """Live rows, those that a deletion vector deletes left out; None where the log does not say."""
    deleted_rows: int
    """Rows that its deletion vector deletes."""
    action: AddFile
    """The log's action that added it."""
    _stats: FileStats = field(repr=False)

    @property
    def stats(self) -> dict[str, ColumnStats]:
        """Statistics by logical names, nested ones dotted; deleted rows count too. Columns of which nothing is known are left out."""
        return {".".join(path): known for path, known in self._stats.columns.items()}


def live_rows(file: AddFile, stored: int | None) -> int | None:
    """The live rows of a file that holds `stored` rows; None where that is not known."""
    return None if stored is None else stored - deleted_rows(file)


def deleted_rows(file: AddFile) -> int:
    """The rows that a file's deletion vector deletes."""
    return 0 if file.deletion_vector is None else file.deletion_vector.cardinality


@dataclass(frozen=True, slots=True)
class DeltaRows(Rows):
    """A lazy result over one pinned version of a Delta table; each call reads anew.

    Rows come file by file in the log's order, in bounded memory: about 32 MiB, or one row group where that is larger.
    """

    live: Callable[[], list[LiveFile]] = list
    """Lists the live files."""

    def files(self) -> list[LiveFile]:
        """The live files that may hold a row of the result, in the log's order, by the log alone: no file is opened, nor need it be there."""
        return self.live()

    def to_pylist(self) -> list[dict[str, Any]]:
        """All rows as dicts of Python values; a variant is the plain value that it holds, a map a list of pairs.

        Raises CorruptTable for a variant that is damaged.
        """
        plain = {one.name: _plainer(one) for one in self.schema}
        found = []
        for batch in self.to_batches():
            found += [
                {name: value if (change := plain[name]) is None else change(value) for name, value in row.items()}
                for row in batch.to_pylist()
            ]
        return found


Change = Callable[[Any], Any]


def _plainer(one: pa.Field) -> Change | None:
    """What makes a Python value of a field plain, where there is a variant in it; None where there is none."""
    if one.metadata and MARK in one.metadata:
        return lambda value: None if value is None else decode_variant(value["metadata"], value["value"])
    below = [_plainer(child) for child in children(one.type)]
    if not any(below):
        return None
    if is_any_list(one.type):
        (element,) = below
        return lambda value: None if value is None else [_applied(element, item) for item in value]
    if pa.types.is_map(one.type):
        key, item = below
        return lambda value: None if value is None else [(_applied(key, k), _applied(item, v)) for k, v in value]
    named = dict(zip((child.name for child in one.type), below, strict=True))
    return lambda value: None if value is None else {name: _applied(named[name], item) for name, item in value.items()}


def _applied(change: Change | None, value: Any) -> Any:
    return value if change is None else change(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileScan:
    """Reads files of one version under a condition; picklable."""

    reader: FileReader
    condition: RowCondition
    columns: tuple[str, ...]

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        return self.reader.schema(self.condition.projection(self.columns))

    def tables(self, found: Sequence[Candidate], columns: tuple[str, ...] | None = None) -> Iterator[pa.Table]:
        """The wanted rows of files, in their order, in `columns` or those of the scan. Raises as `FileReader.read`, and InvalidQuery."""
        names, residual = self.columns if columns is None else columns, self.condition.residual
        projection = self.condition.projection(tuple(dict.fromkeys([*names, *self.condition.residual_columns])))
        for _, table in self.reader.read([one.file for one in found], projection, whole=whole_files(found)):
            yield table if residual is None else table.filter(pa.array(true_rows(table, residual))).select(names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """The reading of one version under a condition."""

    planner: Planner
    files: FileScan
    stored: VersionFiles

    @property
    def condition(self) -> RowCondition:
        """Which rows are read."""
        return self.files.condition

    def rows(self) -> DeltaRows:
        """The rows, not read yet."""
        return DeltaRows(self.files.schema, self._read, self._count, self._live)

    def _select(self) -> list[Candidate]:
        return self.planner.select(self.condition.pushed)

    def _read(self) -> Iterator[pa.RecordBatch]:
        found = self._select()
        with self.stored.reading([one.file for one in found]):
            for table in self.files.tables(found):
                yield from table.to_batches()

    def _count(self) -> int:
        known, unsure = 0, []
        for one in self._select():
            whole = self.condition.takes_whole(one)
            rows = live_rows(one.file, self.planner.stats(one.file).rows) if whole else None
            if rows is None:
                unsure.append(one)
            else:
                known += rows
        with self.stored.reading([one.file for one in unsure]):
            return known + self._count_rows(unsure)

    def _count_rows(self, found: Sequence[Candidate]) -> int:
        if self.condition.residual is None:
            projection = self.condition.projection(self.files.columns)
            return self.files.reader.count([one.file for one in found], projection)
        return sum(int(table.num_rows) for table in self.files.tables(found, self.condition.residual_columns))

    def _live(self) -> list[LiveFile]:
        return [live_file(self.planner, one) for one in self._select()]


def live_file(planner: Planner, one: Candidate) -> LiveFile:
    """A live file as users see it."""
    file = one.file
    stats = planner.stats(file)
    place = locate(file.path)
    return LiveFile(
        path=place.path if isinstance(place, RelativePath) else place.url,
        partition_values={name: planner.parts.value(file, name).as_py() for name in planner.parts.columns},
        size=file.size,
        rows=live_rows(file, stats.rows),
        deleted_rows=deleted_rows(file),
        action=file,
        _stats=stats,
    )


def pin_version(planner: Planner, reader: FileReader, stored: VersionFiles, schema: pa.Schema) -> Pinned:
    """All rows of a version as a dataset of `schema`, some of its columns in types that hold all their values."""

    def scan(columns: tuple[str, ...], expression: pc.Expression | None) -> Iterator[pa.RecordBatch]:
        named = () if expression is None else expression_columns(expression, schema)
        found = planner.select(Condition(schema=schema, expression=expression, columns=named))
        files, projection = [one.file for one in found], Projection(columns=columns, expression=expression, cast_to=schema)
        with stored.reading(files):
            for _, table in reader.read(files, projection, whole=whole_files(found)):
                yield from table.to_batches()

    return pin(schema, scan)
