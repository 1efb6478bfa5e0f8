"""Reducing rows with equal keys to one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from gapless.errors import InvalidOption, one_of
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

Keep = Literal["first", "last"]
PASS_ROWS = 1 << 24
"""Rows of which about so many are compared at a time; of more, keys are taken part by part, and their columns read again for each."""
_ORDERS: dict[Keep, str] = {"first": "ASC", "last": "DESC"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dedup:
    """Of rows with equal keys, all but one go."""

    keys: tuple[str, ...] | None
    """None for all columns."""
    keep: Keep
    operation: str = "DEDUP"

    @property
    def parameters(self) -> Mapping[str, Json]:
        """What the log says of it."""
        return {"keep": self.keep} | ({} if self.keys is None else {"keys": list(self.keys)})

    def fit(self, state: TableState) -> TableState:
        """The version itself."""
        return state

    def decide(self, before: BaseVersion) -> RowChangePlan:
        """Which rows go. Raises UnknownColumn."""
        names = before.schema.names
        asked = names if self.keys is None else [find_column((key,), before.schema, key, "keys").path[0] for key in self.keys]
        columns = sorted({names.index(name) for name in asked})
        files = list(before.state.files.values())
        return RowChangePlan(
            affected=self._affected(before, files, columns),
            reads=reads_of(before.state, Condition(schema=before.schema), files),
        )

    def _affected(self, before: BaseVersion, files: Sequence[AddFile], columns: Sequence[int]) -> Iterator[AffectedFile]:
        for group in _apart(before, files, columns):
            passes = 1 + _rows_of(group) // PASS_ROWS
            found = [self._surplus(before, group, columns, (number, passes)) for number in range(passes)]
            for file, *positions in zip(group, *found, strict=True):
                surplus = np.sort(np.concatenate(positions))
                if len(surplus):
                    yield AffectedFile(file=file, positions=surplus)

    def _surplus(
        self, before: BaseVersion, files: Sequence[AddFile], columns: Sequence[int], part: tuple[int, int]
    ) -> list[Numbers]:
        """For each file where the rows lie whose key another row has that stays; of one part of all keys, which its number and how many
        there are name.
        """
        key = ", ".join(f"c{at}" for at in columns)
        order = _ORDERS[self.keep]
        mine = f"hash({key}) % {part[1]} = {part[0]}"
        with duck_session(_rows_of(files)) as engine:
            for number, rows in enumerate(numbered_rows(before, files, columns)):
                engine.register("rows", rows)
                into = "INSERT INTO held" if number else "CREATE TEMP TABLE held AS"
                engine.execute(f"{into} SELECT * FROM rows WHERE {mine}")  # noqa: S608  # columns c0, c1, …
            same = " AND ".join(f"held.c{at} IS NOT DISTINCT FROM twice.c{at}" for at in columns)
            answer = engine.sql(
                f"WITH twice AS (SELECT {key} FROM held GROUP BY {key} HAVING count(*) > 1)"  # noqa: S608  # as above
                f" SELECT {FILE}, {POSITION} FROM held SEMI JOIN twice ON {same}"
                f" QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY {FILE} {order}, {POSITION} {order}) > 1"
            )
            return [positions for (positions,) in by_file(answer.to_arrow_table(), len(files))]


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
        self, keys: str | Sequence[str] | None = None, *, keep: Keep = "first", operation_id: OperationArgument = None
    ) -> ChangeReport:
        """Of rows with equal keys keep one: null equals null there, NaN equals NaN, and -0.0 equals 0.0.

        Args:
            keys: One column or several; without it all columns, so that only rows go which another repeats.
            keep: Which row stays: the "first" or the "last" by the order in which files became part of the table, and of rows in a file.
            operation_id: As in `append`.

        Only the key columns are read, and then the files that lose a row. A second run finds nothing and commits nothing. The report counts
        `removed_rows`. Raises UnknownColumn, InvalidOption, NotSupported (an append-only table), CommitConflict, CommitOutcomeUnknown,
        UnsupportedTable, CorruptTable, StoreError.
        """
        one_of("keep", keep, tuple(_ORDERS))
        named = (keys,) if isinstance(keys, str) else given_names("keys", keys)
        if named is not None and not named:
            raise InvalidOption("keys=[] names no column", fix='Pass keys="id", or leave it out', option="keys", value=keys)
        return self._change_rows(Dedup(keys=named, keep=keep), operation_id)
