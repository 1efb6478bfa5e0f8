"""Reducing rows with equal keys to one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from gapless.errors import InvalidOption, UnsupportedType, one_of
from gapless.files.sort.curve_sort import has_rank
from gapless.formats.delta.actions import AddFile, Json, TableState
from gapless.formats.delta.partitions import Partitions
from gapless.model.operation import ChangeReport, OperationArgument
from gapless.predicate.range import find_column
from gapless.tables.delta.files.open_file import POSITION
from gapless.tables.delta.merge.match import FILE, Numbers, by_file, numbered_rows
from gapless.tables.delta.write.rewrite import BaseVersion, RowChangePlan, RowOperations, reads_of
from gapless.tables.delta.write.row_edit import AffectedFile, known_rows
from gapless.tables.shared.duckdb_session import FEW_ROWS, duck_session
from gapless.tables.shared.scan import Condition, given_names

Keep = Literal["first", "last", "latest", "earliest"]
PASS_ROWS = 1 << 24
"""Rows of which about so many are compared at a time; of more, keys are taken part by part, and their columns read again for each."""
_BY_PLACE: dict[Keep, str] = {"first": "ASC", "last": "DESC"}
_BY_VALUE: dict[Keep, Keep] = {"latest": "last", "earliest": "first"}
"""What stays by values, with the one that stays of rows with the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dedup:
    """Of rows with equal keys, all but one go."""

    keys: tuple[str, ...] | None
    """None for all columns."""
    keep: Keep
    order_by: tuple[str, ...] = ()
    """Columns whose values say which row is later; none where the place of rows does."""
    operation: str = "DEDUP"

    @property
    def parameters(self) -> Mapping[str, Json]:
        """What the log says of it."""
        said: dict[str, Json] = {"keep": self.keep}
        if self.keys is not None:
            said["keys"] = list(self.keys)
        if self.order_by:
            said["orderBy"] = list(self.order_by)
        return said

    def fit(self, state: TableState) -> TableState:
        """The version itself."""
        return state

    def decide(self, before: BaseVersion) -> RowChangePlan:
        """Which rows go. Raises UnknownColumn, UnsupportedType."""
        names = before.schema.names
        asked = names if self.keys is None else _found(self.keys, before.schema, "keys")
        order = _found(self.order_by, before.schema, "order_by")
        _check_ordered(order, before.schema)
        columns = Columns(key=tuple(sorted(map(names.index, {*asked}))), order=tuple(map(names.index, order)))
        files = list(before.state.files.values())
        return RowChangePlan(
            affected=self._affected(before, files, columns),
            reads=reads_of(before.state, Condition(schema=before.schema), files),
        )

    def _affected(self, before: BaseVersion, files: Sequence[AddFile], columns: Columns) -> Iterator[AffectedFile]:
        for group in _apart(before, files, columns.key):
            passes = 1 + _rows_of(group) // PASS_ROWS
            found = [self._surplus(before, group, columns, (number, passes)) for number in range(passes)]
            for file, *positions in zip(group, *found, strict=True):
                surplus = np.sort(np.concatenate(positions))
                if len(surplus):
                    yield AffectedFile(file=file, positions=surplus)

    def _surplus(self, before: BaseVersion, files: Sequence[AddFile], columns: Columns, part: tuple[int, int]) -> list[Numbers]:
        """For each file where the rows lie whose key another row has that stays; of one part of all keys, which its number and how many
        there are name.
        """
        key = ", ".join(f"c{at}" for at in columns.key)
        place = _BY_PLACE[_BY_VALUE.get(self.keep, self.keep)]
        order = ", ".join([*(f"c{at} {place} NULLS LAST" for at in columns.order), f"{FILE} {place}, {POSITION} {place}"])
        mine = f"hash({key}) % {part[1]} = {part[0]}"
        with duck_session(_rows_of(files)) as engine:
            for number, rows in enumerate(numbered_rows(before, files, columns.read)):
                engine.register("rows", rows)
                into = "INSERT INTO held" if number else "CREATE TEMP TABLE held AS"
                engine.execute(f"{into} SELECT * FROM rows WHERE {mine}")  # noqa: S608  # columns c0, c1, …
            same = " AND ".join(f"held.c{at} IS NOT DISTINCT FROM twice.c{at}" for at in columns.key)
            answer = engine.sql(
                f"WITH twice AS (SELECT {key} FROM held GROUP BY {key} HAVING count(*) > 1)"  # noqa: S608  # as above
                f" SELECT {FILE}, {POSITION} FROM held SEMI JOIN twice ON {same}"
                f" QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY {order}) > 1"
            )
            return [positions for (positions,) in by_file(answer.to_arrow_table(), len(files))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Columns that are read, by index."""

    key: tuple[int, ...]
    """Ascending."""
    order: tuple[int, ...]
    """The one that decides first is first."""

    @property
    def read(self) -> Sequence[int]:
        """All of them, ascending."""
        return sorted({*self.key, *self.order})


def _found(names: Sequence[str], schema: pa.Schema, option: str) -> list[str]:
    """Columns as the table spells them; raises UnknownColumn."""
    return [find_column((name,), schema, name, option).path[0] for name in names]


def _check_ordered(names: Sequence[str], schema: pa.Schema) -> None:
    """Raise UnsupportedType for a column whose values have no order."""
    for name in names:
        if not has_rank(schema.field(name).type):
            raise UnsupportedType(
                f"column {name!r} of type {schema.field(name).type} does not say which row is the latest",
                why="Its values have no order",
                fix="Name columns of numbers, texts, times or booleans in order_by",
                column=name,
                type=str(schema.field(name).type),
            )


def _rows_of(files: Sequence[AddFile]) -> int:
    """About how many rows files have; one of which the log says nothing counts for some."""
    return sum(known_rows(file) or FEW_ROWS for file in files)


def _apart(before: BaseVersion, files: Sequence[AddFile], columns: Sequence[int]) -> Iterable[Sequence[AddFile]]:
    """The files in sets of which no two share a key: those of a partition, where all partition columns are part of the key."""
    parts = Partitions.of(before.state.metadata)
    keys = {before.schema.names[at] for at in columns}
    if not parts.columns or not keys.issuperset(parts.columns):
        return [files]
    groups: dict[tuple[str | None, ...], list[AddFile]] = {}
    for file in files:
        # The two zeros are one key, in two partitions.
        same = tuple("0" if text == "-0" else text for text in parts.key(file))
        groups.setdefault(same, []).append(file)
    return groups.values()


class Deduping(RowOperations):
    """`dedup`."""

    def dedup(
        self,
        keys: str | Sequence[str] | None = None,
        *,
        order_by: str | Sequence[str] | None = None,
        keep: Keep | None = None,
        operation_id: OperationArgument = None,
    ) -> ChangeReport:
        """Of rows with equal keys keep one: null equals null there, NaN equals NaN, and -0.0 equals 0.0.

        Args:
            keys: One column or several; without it all columns, so that only rows go which another repeats.
            order_by: One column or several of numbers, texts, times or booleans, whose values say which row is later: the first of them, of
                rows equal there the next. NaN is above all numbers, the two zeros are equal. A row with null there stays only where each
                other row of the key has null too.
            keep: Which row stays. With `order_by` the "latest" (where nothing is said) or the "earliest". Without it the "first" (where nothing
                is said) or the "last" by the order in which files became part of the table, and of rows in a file.
            operation_id: As in `append`.

        Of rows that `order_by` does not tell apart, the last one stays as the latest and the first one as the earliest, by that same order of
        files and rows: one version gives one answer, but a compaction may change the order. Name columns that tell all rows of a key apart
        where that matters.

        Only these columns are read, and then the files that lose a row. A second run finds nothing and commits nothing. The report counts
        `removed_rows`. Raises UnknownColumn, InvalidOption, UnsupportedType, NotSupported (an append-only table), CommitConflict,
        CommitOutcomeUnknown, UnsupportedTable, CorruptTable, StoreError.
        """
        order = _names("order_by", order_by)
        allowed = tuple(_BY_PLACE if order is None else _BY_VALUE)
        kept = allowed[0] if keep is None else one_of("keep", keep, (*_BY_PLACE, *_BY_VALUE))
        if kept not in allowed:
            raise InvalidOption(
                f"keep={kept!r} {'without' if order is None else 'with'} order_by",
                why="Which row is the latest is said by columns, which one is the first by the place of rows",
                fix='Pass order_by="changed_at" too' if order is None else f"Pass keep={allowed[0]!r} or keep={allowed[1]!r}",
                option="keep",
                value=kept,
            )
        return self._change_rows(Dedup(keys=_names("keys", keys), keep=kept, order_by=order or ()), operation_id)


def _names(option: str, given: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """Columns as an argument names them, at least one; None for None. Raises InvalidOption."""
    names = (given,) if isinstance(given, str) else given_names(option, given)
    if names is not None and not names:
        raise InvalidOption(
            f"{option}=[] names no column", fix=f'Pass {option}="id", or leave it out', option=option, value=given
        )
    return names
