"""A merge on its way through one version of a Delta table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from gapless.errors import SchemaMismatch
from gapless.files.ingest.batches import Batches
from gapless.formats.delta.actions import Json, TableState
from gapless.formats.delta.deletion_vector import Positions
from gapless.model.stats import distinct
from gapless.predicate.range import matching
from gapless.tables.delta.merge.edit import BoundClause, MergeEdit
from gapless.tables.delta.merge.match import Numbers, match_rows, source_bounds_condition
from gapless.tables.delta.merge.plan import Clause, Match, Names, check_clauses, key_pairs, source_columns
from gapless.tables.delta.read.scan import select_files
from gapless.tables.delta.write.merge_schema import SchemaMode, evolve_schema
from gapless.tables.delta.write.rewrite import BaseVersion, RowChangePlan, reads_of
from gapless.tables.delta.write.row_edit import AffectedFile
from gapless.tables.shared.scan import Condition

_LOGGED: dict[Match, str] = {
    "matched": "matchedPredicates",
    "not_matched": "notMatchedPredicates",
    "not_matched_by_source": "notMatchedBySourcePredicates",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRows:
    """A merge, as it was described."""

    source: pa.Table
    on: str
    target_alias: str
    source_alias: str
    schema_mode: SchemaMode
    new_name: Callable[[], str]
    """Physical names for new columns."""
    clauses: tuple[Clause, ...] = ()
    operation: str = "MERGE"

    @property
    def parameters(self) -> Mapping[str, Json]:
        """What the log says of it, as Delta does: texts, lists of clauses as JSON."""
        said: dict[str, Json] = {"predicate": json.dumps([self.on])}
        for match, name in _LOGGED.items():
            clauses = [clause for clause in self.clauses if clause.match == match]
            told = [{"actionType": one.act} | ({} if one.where is None else {"predicate": one.where}) for one in clauses]
            said[name] = json.dumps(told)
        return said

    def fit(self, state: TableState) -> TableState:
        """The version with the source's columns added to it, where that was asked for. Raises SchemaMismatch, UnsupportedType."""
        if self.schema_mode != "merge":
            return state
        part = Batches(source="the merge's source", schema=self.source.schema, read=lambda: iter(self.source.to_batches()))
        return evolve_schema(state, [part], "merge", self.new_name).state

    def decide(self, before: BaseVersion) -> RowChangePlan:
        """Which rows change, go and come. Raises CallError where the call is wrong, DuplicateKey."""
        check_clauses(self.clauses)
        names = Names(
            target_alias=self.target_alias,
            source_alias=self.source_alias,
            target=before.schema,
            source=self.source.schema,
        )
        self._check_source(names)
        run = _Run(merge=self, before=before, names=names, edit=self._edit(before, names))
        return run.changes()

    def _edit(self, before: BaseVersion, names: Names) -> MergeEdit:
        return MergeEdit(
            state=before.after,
            names=names,
            source=self.source,
            keys=key_pairs(self.on, names),
            clauses=[BoundClause.of(clause, names) for clause in self.clauses],
        )

    def _check_source(self, names: Names) -> None:
        """Raise SchemaMismatch where a column of the source would be left out in silence by a clause that takes all."""
        if all(clause.values is not None or clause.act == "delete" for clause in self.clauses):
            return
        texts = [self.on, *(clause.where for clause in self.clauses if clause.where is not None)]
        texts += [text for clause in self.clauses for text in (clause.values or {}).values() if isinstance(text, str)]
        unknown = [name for name in names.source.names if len(matching(name, names.target.names)) != 1]
        lost = [name for name in unknown if name not in source_columns(texts, names)]
        if lost:
            raise SchemaMismatch(
                f"the source's column {lost[0]!r} is not in the table",
                why="A clause that takes all of the source's columns would leave it out",
                fix='Leave it out of the source, or pass schema_mode="merge" to add it to the table',
                differences=tuple(f"{name}: not in the table" for name in lost),
            )

    def has(self, match: Match) -> bool:
        """Whether there is a clause for these rows."""
        return any(clause.match == match for clause in self.clauses)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """A merge on its way through one version."""

    merge: MergeRows
    before: BaseVersion
    names: Names
    edit: MergeEdit

    def changes(self) -> RowChangePlan:
        merge = self.merge
        near = source_bounds_condition(merge.on, self.names, merge.source)
        read = Condition(schema=near.schema) if merge.has("not_matched_by_source") else near
        files = [one.file for one in select_files(self.before.after, read)]
        pairs = match_rows(self.before, files, merge.on, self.names, merge.source, near)
        matched = np.zeros(merge.source.num_rows, dtype=bool)
        for one in pairs:
            matched[one.rows] = True
        affected = (
            AffectedFile(file=file, positions=self._positions(found.positions), edit=partial(self.edit.edit, found))
            for file, found in zip(files, pairs, strict=True)
            if self._may_touch(len(found.positions))
        )
        return RowChangePlan(
            affected=affected,
            inserts=partial(self._inserts, np.flatnonzero(~matched)),
            reads=reads_of(self.before.after, read, files),
        )

    def _may_touch(self, pairs: int) -> bool:
        return self.merge.has("not_matched_by_source") or (pairs > 0 and self.merge.has("matched"))

    def _positions(self, found: Positions) -> Positions | None:
        return None if self.merge.has("not_matched_by_source") else distinct(found)

    def _inserts(self, unmatched: Numbers) -> Iterable[pa.RecordBatch]:
        rows = self.edit.inserts(unmatched) if self.merge.has("not_matched") else None
        return () if rows is None else rows.to_batches()
