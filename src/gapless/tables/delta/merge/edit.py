"""Evaluate the clauses of a MERGE on matched rows: pure, over rows in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.errors import DuplicateKey
from gapless.files.compare.keys import same_rows
from gapless.formats.delta.actions import TableState
from gapless.formats.delta.deletion_vector import Positions
from gapless.predicate.range import matching
from gapless.tables.delta.expressions.assignments import Assignments
from gapless.tables.delta.expressions.evaluate import true_rows
from gapless.tables.delta.merge.match import Pairs, keys_of
from gapless.tables.delta.merge.plan import SIDES, Clause, KeyPair, Names, Side
from gapless.tables.delta.write.inputs import changed_rows, given_rows
from gapless.tables.delta.write.row_edit import Edit

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class BoundClause:
    """A clause whose SQL is over the columns of `Names.schema`."""

    clause: Clause
    where: str | None
    assignments: Assignments | None
    """None for a deletion."""

    @classmethod
    def of(cls, clause: Clause, names: Names) -> BoundClause:
        """Raises InvalidQuery, InvalidOption, UnknownColumn, InvalidValue, SchemaMismatch."""
        sides = SIDES[clause.match]

        def flat(text: str) -> str:
            return names.flat(text, sides)

        where = None if clause.where is None else flat(clause.where)
        if clause.act == "delete":
            return cls(clause, where, None)
        values = same_named(names) if clause.values is None else clause.values
        return cls(clause, where, Assignments.parse(values, names.target, sql=flat, target=names.target_alias))


def same_named(names: Names) -> Mapping[str, object]:
    """For each column of the target the source's of that name, as SQL, where it has one."""
    found = {name: matching(name, names.source.names) for name in names.target.names}
    return {name: _quoted(names.source_alias, known[0]) for name, known in found.items() if len(known) == 1}


def _quoted(*parts: str) -> str:
    doubled = (part.replace('"', '""') for part in parts)
    return ".".join(f'"{part}"' for part in doubled)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeEdit:
    """The clauses of a merge, for one version of the table."""

    state: TableState
    """Whose columns are written."""
    names: Names
    source: pa.Table
    keys: Sequence[KeyPair]
    clauses: Sequence[BoundClause]

    def edit(self, pairs: Pairs, rows: pa.Table, positions: Positions) -> Edit:
        """What becomes of rows of one file, whose pairs these are. Raises DuplicateKey, InvalidQuery, InvalidValue."""
        begin = np.searchsorted(pairs.positions, positions)
        counts = np.searchsorted(pairs.positions, positions, side="right") - begin
        mine = np.repeat(np.arange(len(positions)), counts)
        theirs = pairs.rows[_ranges(begin, counts)]
        gone = np.zeros(rows.num_rows, dtype=bool)
        updates: list[tuple[Numbers, pa.Table]] = []
        alone = np.flatnonzero(counts == 0)
        for at, seen, clauses in (
            (mine, self._seen(rows, mine, theirs), self._of("matched")),
            (alone, self._seen(rows, alone, None), self._of("not_matched_by_source")),
        ):
            chosen = choose(seen, clauses)
            if clauses and at is mine:
                self._check_single(mine, theirs, chosen, clauses)
            for number, one in enumerate(clauses):
                taken = np.flatnonzero(chosen == number)
                if one.assignments is None:
                    gone[at[taken]] = True
                elif len(taken):
                    updates.append((at[taken], self._updated(one.assignments, _take(rows, at[taken]), _take(seen, taken))))
        return _edit(rows, gone, updates)

    def inserts(self, unmatched: Numbers) -> pa.Table | None:
        """The rows that the clauses make of these rows of the source; None where they make none. Raises as `edit`."""
        clauses = self._of("not_matched")
        chosen = choose(seen := self._flat(_take(self.source, unmatched), "source"), clauses)
        made = []
        for number, one in enumerate(clauses):
            taken = np.flatnonzero(chosen == number)
            if len(taken) and one.assignments is not None:
                made.append((taken, self._new_rows(one.assignments, _take(seen, taken))))
        return _in_order(made) if made else None

    def _of(self, match: str) -> list[BoundClause]:
        return [one for one in self.clauses if one.clause.match == match]

    def _seen(self, rows: pa.Table, mine: Numbers, theirs: Numbers | None) -> pa.Table:
        flat = self._flat(_take(rows, mine), "target")
        if theirs is None:
            return flat
        for name, column in zip(self.names.source.names, _take(self.source, theirs).columns, strict=True):
            flat = flat.append_column(self.names.flat_name("source", name), column)
        return flat

    def _flat(self, rows: pa.Table, side: Side) -> pa.Table:
        return rows.rename_columns([self.names.flat_name(side, name) for name in rows.column_names])

    def _updated(self, assignments: Assignments, rows: pa.Table, seen: pa.Table) -> pa.Table:
        return changed_rows(assignments.apply(rows, seen), self.state, assignments.columns)

    def _new_rows(self, assignments: Assignments, seen: pa.Table) -> pa.Table:
        given = [field for field in self.names.target if field.name in assignments.columns]
        empty = pa.table(
            [pa.nulls(seen.num_rows, field.type) for field in given], pa.schema([f.with_nullable(True) for f in given])
        )
        return given_rows(assignments.apply(empty, seen), self.state, "the merge's new rows")

    def _check_single(self, mine: Numbers, theirs: Numbers, chosen: Numbers, clauses: Sequence[BoundClause]) -> None:
        """Raise DuplicateKey where several rows of the source would change one row, and not all by deleting it."""
        acting = np.flatnonzero(chosen >= 0)
        updates = np.array([one.assignments is not None for one in clauses])[chosen[acting]]
        times = np.bincount(mine[acting], minlength=1)
        twice = acting[updates & (times[mine[acting]] > 1)]
        if not len(twice):
            return
        columns = tuple(pair.target for pair in self.keys)
        found = dict.fromkeys(keys_of(self.keys, self.source, [int(theirs[at]) for at in twice[:100]]))
        shown = ", ".join(map(str, list(found)[:3])) if columns else f"rows {sorted(set(theirs[twice[:4]].tolist()))}"
        raise DuplicateKey(
            f"several rows of the source would change one row of the table: {shown}",
            why="Which of them wins would be chance; nothing was written",
            fix="Leave one row of the source for each row of the table, by its latest for instance",
            columns=columns,
            keys=tuple(found)[:3] if columns else (),
        )


def choose(seen: pa.Table, clauses: Sequence[BoundClause]) -> Numbers:
    """For each row the number of the first clause whose condition is true; -1 where there is none."""
    chosen = np.full(seen.num_rows, -1, dtype=np.int64)
    for number, one in enumerate(clauses):
        left = np.flatnonzero(chosen < 0)
        if not len(left):
            break
        if one.where is not None:
            left = left[true_rows(_take(seen, left), one.where)]
        chosen[left] = number
    return chosen


def _take(rows: pa.Table, at: Numbers) -> pa.Table:
    whole = len(at) == rows.num_rows and bool((at == np.arange(len(at))).all())
    return rows if whole else rows.take(pa.array(at))


def _ranges(begin: Numbers, counts: Numbers) -> Numbers:
    """The numbers of all ranges that begin at `begin` and hold `counts` numbers, one range after another."""
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(begin, counts) + within


def _in_order(made: Sequence[tuple[Numbers, pa.Table]]) -> pa.Table:
    """Rows of several tables in the order of their numbers."""
    order = np.argsort(np.concatenate([at for at, _ in made]), kind="stable")
    return _take(pa.concat_tables([rows for _, rows in made]), order)


def _edit(rows: pa.Table, gone: npt.NDArray[np.bool_], updates: Sequence[tuple[Numbers, pa.Table]]) -> Edit:
    """The edit by these updates, less those that leave their row as it is."""
    changed = np.zeros(rows.num_rows, dtype=bool)
    if not updates:
        return Edit(gone=gone, changed=changed, after=rows.slice(0, 0))
    at, after = np.sort(np.concatenate([one for one, _ in updates])), _in_order(updates)
    differ = ~same_rows(_take(rows, at), after)
    changed[at[differ]] = True
    return Edit(gone=gone, changed=changed, after=after.filter(pa.array(differ)))
