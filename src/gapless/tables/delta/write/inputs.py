"""Input rows as rows of a Delta table: columns by name, values converted without loss, generated columns and constraints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gapless.errors import GaplessError, InvalidQuery, SchemaMismatch, UnknownColumn, UnsupportedTable
from gapless.files.ingest.batches import Batches, naming, table_without_columns
from gapless.files.sort.run import pieces
from gapless.formats.delta.actions import TableState
from gapless.formats.delta.schema.arrow_types import to_arrow
from gapless.formats.delta.schema.char_varchar import TextLengths, text_lengths
from gapless.formats.delta.schema.types import StructField
from gapless.model.convert import Misfit
from gapless.model.fit import refuse_misfit
from gapless.tables.delta.expressions.checks import GENERATED, checked, names_in
from gapless.tables.delta.expressions.evaluate import evaluate, fitted_values, why_unfit
from gapless.tables.delta.write.text_lengths import sized
from gapless.tables.shared.inputs.columns import matched_columns

PIECE_BYTES = 32 << 20
"""Arrow memory of the rows that are converted and checked at a time."""
DEFAULT, IDENTITY = "CURRENT_DEFAULT", "delta.identity.start"
"""Metadata of a field: what a row has that lacks the column, as Spark's SQL; and that its values are counted."""
_MAY_BE_GIVEN = "delta.identity.allowExplicitInsert"


def fitted(part: Batches, state: TableState, *, kept: AbstractSet[str] = frozenset()) -> Iterator[pa.RecordBatch]:
    """An input's rows with all columns of the table, in its order and types (`arrow_types.to_arrow`), checked (`checks.checked`).

    Columns are found by name: exactly, else without regard to case. Missing ones are generated, take their default, or are null. Raises
    SchemaMismatch at once, and InvalidValue as rows are asked for (names column and row); both name the source.
    """
    fitter = Fitter.of(part, state, kept=kept)
    return _fitted(part, fitter)


def _fitted(part: Batches, fitter: Fitter) -> Iterator[pa.RecordBatch]:
    row = 0
    for piece in (piece for batch in part for piece in pieces(batch, PIECE_BYTES)):
        if not piece.num_rows:
            continue
        with naming(part):
            rows = fitter.fit(piece, row)
        row += piece.num_rows
        yield rows


def input_columns(given: pa.Schema, table: pa.Schema) -> dict[str, str]:
    """The input's name of each column of a table that it has; see `matched_columns`. Raises SchemaMismatch."""
    return matched_columns(given, table, _mismatch)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitter:
    """Turns batches of one input into rows of one version of a table."""

    state: TableState
    declared: pa.Schema
    sources: Mapping[str, str]
    """The input's name of each column it has."""
    constants: Mapping[str, pa.Array]
    """One value each of columns that it lacks and that are not computed."""
    generated: Mapping[str, str]
    """Expressions of columns that it lacks, in Spark's SQL."""
    kept: AbstractSet[str]
    """Columns whose values are those that the rows had in the table before."""
    lengths: Mapping[str, TextLengths]
    """Of columns whose texts have a length: `char(n)`, `varchar(n)`."""

    @classmethod
    def of(cls, part: Batches, state: TableState, *, kept: AbstractSet[str] = frozenset()) -> Fitter:
        """Raises SchemaMismatch where the input's columns do not fit, UnsupportedTable where it lacks one that this release cannot fill."""
        declared = to_arrow(state.metadata.schema)
        with naming(part):
            sources = input_columns(part.schema, declared)
            missing = [one for one in state.metadata.schema.fields if one.name not in sources]
            _check_types(part.schema, declared, sources)
            _check_missing(declared, missing)
            _check_identities(state, sources.keys() - kept)
        generated = {one.name: str(one.metadata[GENERATED]) for one in missing if GENERATED in one.metadata}
        constants = {one.name: _constant(one, declared.field(one.name)) for one in missing if one.name not in generated}
        lengths = {one.name: found for one in state.metadata.schema.fields if (found := text_lengths(one))}
        return cls(
            state=state,
            declared=declared,
            sources=sources,
            constants=constants,
            generated=generated,
            kept=kept,
            lengths=lengths,
        )

    def fit(self, batch: pa.RecordBatch, first_row: int) -> pa.RecordBatch:
        """A batch of the input, whose first row has this number, as rows of the table. Raises InvalidValue."""
        arrays = {
            name: _fit_column(batch.column(given), self.declared.field(name), first_row) for name, given in self.sources.items()
        }
        zeros = pa.array(np.zeros(batch.num_rows, np.int64))
        arrays |= {name: value.take(zeros) for name, value in self.constants.items()}
        arrays |= self._sized(arrays, first_row)
        arrays |= self._sized(self._generate(arrays, batch.num_rows, first_row), first_row)
        rows = pa.RecordBatch.from_arrays([arrays[name] for name in self.declared.names], schema=_nullable(self.declared))
        return checked(rows, self.state, first_row=first_row, kept=self.kept)

    def _sized(self, arrays: Mapping[str, pa.Array], first_row: int) -> dict[str, pa.Array]:
        """The arrays with their texts as the columns' lengths have them."""
        return {
            name: _sized_column(array, self.lengths[name], self.declared.field(name), first_row)
            if name in self.lengths
            else array
            for name, array in arrays.items()
        }

    def _generate(self, arrays: Mapping[str, pa.Array], rows: int, first_row: int) -> dict[str, pa.Array]:
        if not self.generated:
            return {}
        known = table_without_columns(rows)
        for name in self.declared.names:
            known = known.append_column(name, arrays[name]) if name in arrays else known
        try:
            made = evaluate(known, self.generated, _nullable(self.declared), dialect="spark", first_row=first_row)
        except (InvalidQuery, UnknownColumn) as error:
            name, why = next(self._uncomputable(known), (next(iter(self.generated)), error))
            raise _uncomputable("generated column", {name: self.generated[name]}, why) from why
        return {name: made.column(name).combine_chunks() for name in made.column_names}

    def _uncomputable(self, known: pa.Table) -> Iterator[tuple[str, GaplessError]]:
        """The generated columns that cannot be computed, each with why."""
        for name, text in self.generated.items():
            try:
                evaluate(known.slice(0, 0), {name: text}, _nullable(self.declared), dialect="spark")
            except (InvalidQuery, UnknownColumn) as error:
                yield name, error


def _nullable(schema: pa.Schema) -> pa.Schema:
    """The schema whose columns may be null: whether they are is checked, and Arrow does not."""
    return pa.schema([field.with_nullable(True) for field in schema])


def _check_types(given: pa.Schema, declared: pa.Schema, sources: Mapping[str, str]) -> None:
    differences = []
    for name, source in sources.items():
        target, type_ = declared.field(name).type, given.field(source).type
        if reason := why_unfit(type_, target):
            differences.append(f"{name}: {target} in the table, {type_} in the input: {reason}")
    if differences:
        raise _mismatch(differences)


def _check_identities(state: TableState, given: AbstractSet[str]) -> None:
    """Refuse values of columns that the table counts by itself and no one may give (GENERATED ALWAYS AS IDENTITY)."""
    for field in state.metadata.schema.fields:
        if IDENTITY in field.metadata and field.name in given and not field.metadata.get(_MAY_BE_GIVEN):
            raise UnsupportedTable(
                f"column {field.name!r} is GENERATED ALWAYS AS IDENTITY, so that its values cannot be given",
                why="The table's writers count them, and this release does not",
                fix="Add such rows with Spark; rows that are there can be deleted and changed, but for this column",
                needs="identityColumns",
            )


def _check_missing(declared: pa.Schema, missing: list[StructField]) -> None:
    counted = next((one for one in missing if IDENTITY in one.metadata), None)
    if counted is not None:
        raise UnsupportedTable(
            f"column {counted.name!r} is an identity column, whose values this release does not count",
            why="The input does not have it",
            fix="Give its values, or write with Spark" if counted.metadata.get(_MAY_BE_GIVEN) else "Add rows with Spark",
            needs="identityColumns",
        )
    filled = (GENERATED, DEFAULT)
    lacking = [
        one.name for one in missing if not declared.field(one.name).nullable and not any(key in one.metadata for key in filled)
    ]
    if lacking:
        raise _mismatch([f"{name}: missing, and it may not be null" for name in lacking])


def _constant(field: StructField, declared: pa.Field) -> pa.Array:
    """What rows have that lack a column: one value."""
    if DEFAULT not in field.metadata:
        return pa.nulls(1, declared.type)
    texts = {field.name: str(field.metadata[DEFAULT])}
    try:
        made = evaluate(
            pa.table({"row": [0]}), texts, pa.schema([declared.with_nullable(True)]), dialect="spark", deterministic=False
        )
    except (InvalidQuery, UnknownColumn) as error:
        raise _uncomputable("column defaults", texts, error) from error
    return made.column(0).combine_chunks()


def _fit_column(array: pa.Array, field: pa.Field, first_row: int) -> pa.Array:
    try:
        return fitted_values(array, field.type)
    except Misfit as misfit:
        raise refuse_misfit(misfit, array, field, first_row) from None


def _sized_column(array: pa.Array, lengths: TextLengths, field: pa.Field, first_row: int) -> pa.Array:
    try:
        return sized(array, lengths)
    except Misfit as misfit:
        raise refuse_misfit(misfit, array, field, first_row) from None


def _mismatch(differences: list[str]) -> SchemaMismatch:
    return SchemaMismatch(
        "the input does not fit the table's schema",
        why="; ".join(differences),
        fix='Cast, rename or leave out what differs; schema_mode="merge" adds new columns',
        differences=tuple(differences),
    )


def _uncomputable(what: str, texts: Mapping[str, str], error: GaplessError) -> UnsupportedTable:
    shown = "; ".join(f"{name} = {text}" for name, text in texts.items())
    return UnsupportedTable(
        f"the {what} {shown} cannot be computed here",
        why=error.what,
        fix="Write with Spark; what leaves these values as they are, such as a delete, works here",
        needs=shown,
    )


def changed_rows(rows: pa.Table, state: TableState, assigned: AbstractSet[str]) -> pa.Table:
    """Rows of the table, of which these columns were given new values, as they may be written: other generated columns follow.

    Raises InvalidValue for a row that breaks a constraint.
    """
    generated = {field.name: str(field.metadata[GENERATED]) for field in state.metadata.schema if GENERATED in field.metadata}
    changed = {name.lower() for name in assigned}
    following = {name for name, text in generated.items() if name not in assigned and not changed.isdisjoint(names_in(text))}
    kept = frozenset(rows.column_names) - assigned - following
    return given_rows(rows.drop_columns(sorted(following)), state, "changed rows", kept=kept)


def given_rows(rows: pa.Table, state: TableState, source: str, *, kept: AbstractSet[str] = frozenset()) -> pa.Table:
    """Rows with some of the table's columns as they may be written: others are generated, take their default or are null.

    `kept` are columns whose values the rows had in the table before. Raises SchemaMismatch, InvalidValue for a row that breaks a
    constraint; `source` is what messages call the rows.
    """
    part = Batches(source=source, schema=rows.schema, read=lambda: iter(rows.to_batches()), rows_hint=rows.num_rows)
    return pa.Table.from_batches(list(fitted(part, state, kept=kept)), row_schema(state))


def row_schema(state: TableState) -> pa.Schema:
    """The columns of rows on their way into files: each may be null, since whether it may is checked elsewhere."""
    declared = to_arrow(state.metadata.schema)
    return pa.schema([field.with_nullable(True) for field in declared])
