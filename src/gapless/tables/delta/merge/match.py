"""Join the source of a MERGE to the table in DuckDB, some files at a time, and evaluate its clauses on the matched rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gapless.errors import DuplicateKey, GaplessError, InvalidQuery
from gapless.files.compare.keys import same_rows
from gapless.files.ingest.batches import table_without_columns
from gapless.files.read.row_filter import EVERYTHING
from gapless.formats.delta.actions import AddFile, TableState
from gapless.formats.delta.deletion_vector import Positions
from gapless.model.by_value import Floats
from gapless.predicate import predicate as p
from gapless.predicate.predicate import Predicate
from gapless.predicate.range import NameIndex, conjunction, key_bounds
from gapless.tables.delta.expressions.assignments import Assignments, InferredColumns
from gapless.tables.delta.expressions.evaluate import true_rows
from gapless.tables.delta.expressions.sql import parse_expression
from gapless.tables.delta.files.open_file import POSITION, Projection
from gapless.tables.delta.merge.plan import SIDES, Clause, KeyPair, Names, Side, key_pairs, target_terms
from gapless.tables.delta.write.inputs import changed_rows, given_rows
from gapless.tables.delta.write.rewrite import BaseVersion
from gapless.tables.delta.write.row_edit import Edit, known_rows
from gapless.tables.shared.duckdb_session import FEW_ROWS, duck_session
from gapless.tables.shared.scan import Condition, parse_condition
from gapless.tables.shared.sql import quoted

Numbers = npt.NDArray[np.int64]
FILE = "file"
"""The column with the number of a row's file, from 0."""
CHUNK_BYTES = 64 << 20
"""Arrow memory of the rows that are matched at a time."""


def numbered_rows(
    before: BaseVersion, files: Sequence[AddFile], columns: Sequence[int], predicate: Predicate = EVERYTHING
) -> Iterator[pa.Table]:
    """The files' rows that a predicate keeps, about `CHUNK_BYTES` at a time, with `FILE`, `POSITION` and these columns by index, the one
    at 3 called c3. Raises CorruptTable, StoreError.
    """
    schema = before.schema
    wanted = Projection(columns=tuple(schema.names[at] for at in columns), predicate=predicate, position=True)
    fields = [pa.field(f"c{at}", schema.field(at).type) for at in columns]
    shape = pa.schema([pa.field(FILE, pa.int32()), *fields, pa.field(POSITION, pa.int64())])
    held: list[pa.RecordBatch] = []
    size = 0
    for number, file in enumerate(files):
        for batch in before.reader.batches(file, wanted):
            told = pa.repeat(pa.scalar(number, pa.int32()), batch.num_rows)
            held.append(pa.RecordBatch.from_arrays([told, *batch.columns], schema=shape))
            size += held[-1].nbytes
            if size >= CHUNK_BYTES:
                yield pa.Table.from_batches(held, shape)
                held, size = [], 0
    yield pa.Table.from_batches(held, shape)


def by_file(found: pa.Table, files: int) -> list[tuple[Numbers, ...]]:
    """The columns of an answer, which are a file's number and positions in it first, as sorted arrays for each file."""
    columns: list[npt.NDArray[Any]] = [column.to_numpy() for column in found.columns]
    order = np.lexsort(tuple(reversed(columns)))
    number, *others = (column[order] for column in columns)
    ends = np.searchsorted(number, np.arange(files + 1))
    return [tuple(column[begin:end] for column in others) for begin, end in pairwise(ends)]


_ROW = "row"


@dataclass(frozen=True, slots=True)
class Pairs:
    """Rows of one file with the source's rows that belong to them, by position."""

    positions: Positions
    """Ascending; a position comes as often as rows belong to it."""
    rows: npt.NDArray[np.int64]
    """The source's rows, from 0."""


def source_bounds_condition(on: str, names: Names, source: pa.Table, chars: Mapping[str, int]) -> Condition:
    """What is true of every row of the target that a row of `source` may belong to; maybe of others too. `chars` as in `match_rows`."""
    terms: list[p.Predicate] = []
    for pair in key_pairs(on, names):
        keys = source.column(pair.source)
        # Of a `char` it is not known how many spaces a file has at its end.
        if pair.target not in chars and _compares_alike(keys.type, names.target.field(pair.target).type):
            # SQL's equality matches no null.
            terms.append(key_bounds(pa.table({pair.target: keys.drop_null()}), (pair.target,)))
    for text in target_terms(on, names):
        try:
            terms.append(parse_condition(text, names.target).predicate)
        except GaplessError:
            # SQL that only DuckDB understands; the join asks it.
            continue
    predicate = conjunction(terms)
    named = p.columns_of(predicate)
    return Condition(
        schema=names.target, predicate=predicate, columns=tuple(name for name in names.target.names if name in named)
    )


def match_rows(
    before: BaseVersion,
    files: Sequence[AddFile],
    on: str,
    names: Names,
    source: pa.Table,
    near: Condition,
    chars: Mapping[str, int],
) -> list[Pairs]:
    """For each file the rows that belong together. `near` is `source_bounds_condition`'s.

    `chars` are the lengths of the target's `char(n)` columns: where `on` asks that one equals a column of the source, both are filled with
    spaces first, as Spark compares them, whether or not their writers did so. Raises InvalidQuery, UnknownColumn, CorruptTable, StoreError.
    """
    import duckdb

    padded = [(pair, chars[pair.target]) for pair in key_pairs(on, names) if pair.target in chars]
    source = reduce(lambda held, one: _padded(held, one[0].source, one[1]), padded, source)

    flat = names.flat(on)
    true_rows(names.schema().empty_table(), flat)  # which a number is refused by, that a join would take
    understood = parse_expression(flat, names.schema(), "duckdb")
    width = len(names.target)
    read = [at for at in understood.columns if at < width]
    sql = f"SELECT t.{FILE}, t.{POSITION}, s.{_ROW} FROM t JOIN s ON {understood.sql}"  # noqa: S608  # columns c0, c1, …
    found: list[pa.Table] = []
    with duck_session(source.num_rows + sum(known_rows(file) or FEW_ROWS for file in files)) as engine:
        for rows in numbered_rows(before, files, read, near.predicate):
            try:
                if not found:
                    engine.register("given", _numbered(source, [at for at in understood.columns if at >= width], width))
                    engine.execute("CREATE TEMP TABLE s AS SELECT * FROM given")
                own = [(f"c{names.target.names.index(pair.target)}", length) for pair, length in padded]
                engine.register("t", reduce(lambda held, one: _padded(held, *one), own, rows))
                found.append(engine.sql(sql).to_arrow_table())
            except duckdb.Error as error:
                why = str(error).partition("\n")[0]
                raise InvalidQuery(f"on={on!r} cannot be answered", why=why, fix="Mend the condition", sql=on) from error
    return [Pairs(*columns) for columns in by_file(pa.concat_tables(found), len(files))]


def _padded(rows: pa.Table, name: str, length: int) -> pa.Table:
    """The rows with a column's texts filled with spaces to a length."""
    at = rows.schema.get_field_index(name)
    if not _is_text(rows.schema.field(at).type):
        return rows
    return rows.set_column(at, rows.schema.field(at), pc.utf8_rpad(rows.column(at), length, " "))


def _compares_alike(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether equal values of both are equal as filters compare them, which round nothing."""
    both = (source, target)
    return source == target or any(all(map(test, both)) for test in (pa.types.is_integer, _is_text))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _numbered(source: pa.Table, columns: Sequence[int], width: int) -> pa.Table:
    held = source.select([at - width for at in columns]).rename_columns([f"c{at}" for at in columns])
    return held.append_column(_ROW, pa.array(np.arange(source.num_rows)))


def keys_of(pairs: Sequence[KeyPair], source: pa.Table, rows: Sequence[int]) -> tuple[tuple[object, ...], ...]:
    """The keys of some of the source's rows, for messages."""
    return tuple(tuple(source.column(pair.source)[row].as_py() for pair in pairs) for row in rows)


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
        if clause.values is None and not names.source.names:
            # Rows without any field give no column a value.
            return cls(clause, where, Assignments(schema=names.target, each=()))
        values = same_named(names) if clause.values is None else clause.values
        return cls(clause, where, Assignments.parse(values, names.target, sql=flat, target=names.target_alias))


def same_named(names: Names) -> Mapping[str, object]:
    """For each column of the target the source's of that name, as SQL, where it has one."""
    source = NameIndex(names.source.names)
    found = {name: source.matching(name) for name in names.target.names}
    return {name: _quoted(names.source_alias, known[0]) for name, known in found.items() if len(known) == 1}


def _quoted(*parts: str) -> str:
    return ".".join(map(quoted, parts))


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeEdit:
    """The clauses of a merge, for one version of the table."""

    state: TableState
    """Whose columns are written."""
    names: Names
    source: pa.Table
    inferred: Mapping[str, Floats]
    """The source's columns whose types nobody declared."""
    keys: Sequence[KeyPair]
    clauses: Sequence[BoundClause]
    passed_over: list[Numbers]
    """Grows by the source's rows that belong to a row of the table, and that no clause takes."""

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
                self.passed_over.append(theirs[chosen < 0])
            for number, one in enumerate(clauses):
                taken = np.flatnonzero(chosen == number)
                if one.assignments is None:
                    gone[at[taken]] = True
                elif len(taken):
                    old, inferred = _take(rows, at[taken]), self._inferred(theirs[taken]) if at is mine else None
                    new = one.assignments.apply(old, _take(seen, taken), inferred)
                    updates.append((at[taken], changed_rows(new, self.state, one.assignments.columns)))
        return _edit(rows, gone, updates)

    def inserts(self, unmatched: Numbers) -> pa.Table | None:
        """The rows that the clauses make of these rows of the source; None where they make none. Raises as `edit`."""
        clauses = self._of("not_matched")
        chosen = choose(seen := self._flat(_take(self.source, unmatched), "source"), clauses)
        made = []
        for number, one in enumerate(clauses):
            taken = np.flatnonzero(chosen == number)
            if len(taken) and one.assignments is not None:
                made.append((taken, self._new_rows(one.assignments, _take(seen, taken), unmatched[taken])))
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

    def _inferred(self, rows: Numbers) -> InferredColumns:
        """The columns of inferred types, by their names in SQL, in these rows of the source."""
        return InferredColumns(
            floats={self.names.flat_name("source", name): one for name, one in self.inferred.items()}, rows=rows
        )

    def _new_rows(self, assignments: Assignments, seen: pa.Table, rows: Numbers) -> pa.Table:
        given = [field for field in self.names.target if field.name in assignments.columns]
        empty = table_without_columns(seen.num_rows)
        for field in given:
            empty = empty.append_column(field.with_nullable(True), pa.nulls(seen.num_rows, field.type))
        new = assignments.apply(empty, seen, self._inferred(rows))
        return given_rows(new, self.state, "the merge's new rows")

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
    if whole:
        return rows
    # Arrow takes no rows of a table without columns.
    return rows.take(pa.array(at)) if rows.num_columns else table_without_columns(len(at))


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
