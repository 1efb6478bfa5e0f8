"""Looks at rows of a change by key before they are staged: what `finalize` could not apply is refused when it is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.connect.sinks.change import KeyedChange
from gapless.connect.sinks.change_kinds import PUT
from gapless.errors import InvalidOption, InvalidValue, NullKey, SchemaMismatch, nearest
from gapless.files.compare.keys import can_match
from gapless.files.compare.ordering import can_order
from gapless.model.convert import Misfit, convert, opened
from gapless.model.fit import refuse_misfit
from gapless.predicate.range import matching

Mask = npt.NDArray[np.bool_]
Convert = Callable[[pa.Array, pa.DataType], pa.Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCheck:
    """The check of one sink's rows: called with some it gives what is to be stored of them."""

    change: KeyedChange
    fields: tuple[pa.Field, ...]
    """The table's columns of the key and of `order_by`, under their names in the rows; none of a table that has no columns yet."""
    filled: frozenset[str]
    """Those of the key that no row of the table lacks."""
    fit: Callable[[pa.Table], object] | None
    """Raises DataError for rows that the table does not take; None where no row comes into the table."""
    convert: Convert
    """Values as the table's type; raises Misfit."""

    @classmethod
    def of(
        cls,
        change: KeyedChange,
        rows: pa.Schema,
        table: pa.Schema,
        *,
        filled: Sequence[str] = (),
        fit: Callable[[pa.Table], object] | None,
        convert: Convert = convert,
    ) -> RowCheck:
        """For rows with the columns `rows`, the one of `change_type` left out, into a table with the columns `table`.

        Raises InvalidOption for a key or order that these columns are not, SchemaMismatch where they have types that do not fit the table's, or a
        deletion comes with columns that the table does not have.
        """
        if fit is None and table.names:
            _check_columns(rows, table)
        fields = []
        for option, names in (("key", change.key), ("order_by", change.order_by)):
            for name in names:
                field = _field_of(option, name, rows, table)
                if field is not None:
                    fields.append(field.with_name(name))
        check = cls(change=change, fields=tuple(fields), filled=frozenset(filled), fit=fit, convert=convert)
        for field in check.fields:
            check._check_values(pa.chunked_array([], rows.field(field.name).type), field)
        return check

    def __call__(self, rows: pa.Table) -> pa.Table:
        """What is to be stored of rows. Raises InvalidValue for a kind of change that is not known, a value that the table cannot hold, or a
        null that orders rows, NullKey, and what `fit` raises; each names the row.
        """
        kinds, change = self.change.kinds(rows), self.change
        for name in change.order_by:
            if rows.column(name).null_count:
                raise _refuse_unordered(name, int(np.argmax(rows.column(name).is_null().to_numpy(zero_copy_only=False))))
        for field in self.fields:
            self._check_values(rows.column(field.name), field)
        if self.fit is None:
            return rows.select(change.known)
        puts = kinds == PUT if change.key else np.ones(rows.num_rows, dtype=bool)
        if puts.any():
            self.fit(_others_hidden(change.without_kind(rows), puts))
        return rows

    def _check_values(self, column: pa.ChunkedArray, field: pa.Field) -> None:
        array = pa.concat_arrays([opened(chunk) for chunk in column.chunks]) if column.num_chunks else pa.nulls(0, column.type)
        if field.name in self.filled and array.null_count:
            row = int(np.argmax(array.is_null().to_numpy(zero_copy_only=False)))
            raise NullKey(
                f"column {field.name!r} is null in row {row}",
                why="Each row of the table has its index value and its identity, so that no row has this key",
                fix="Fill it in, or leave the row out",
                column=field.name,
                row=row,
            )
        try:
            self.convert(array, field.type)
        except Misfit as misfit:
            raise refuse_misfit(misfit, array, field, 0) from None


def _others_hidden(rows: pa.Table, shown: Mask) -> pa.Table:
    """Rows with copies of one that is shown in the places of the others, so that each keeps its number."""
    if shown.all():
        return rows
    places = np.maximum.accumulate(np.where(shown, np.arange(rows.num_rows), -1))
    places[places < 0] = int(np.argmax(shown))
    return rows.take(pa.array(places))


def _field_of(option: str, name: str, rows: pa.Schema, table: pa.Schema) -> pa.Field | None:
    """The table's column; None where that has no columns. Raises InvalidOption."""
    if name not in rows.names:
        raise _refuse(option, name, f"The rows have {', '.join(map(repr, rows.names)) or 'none'}", nearest(name, rows.names))
    known = matching(name, table.names)
    if table.names and len(known) != 1:
        raise _refuse(
            option, name, "Rows of the table are compared by it, and it has no such column", nearest(name, table.names)
        )
    field = table.field(known[0]) if known else rows.field(name)
    fits = can_order if option == "order_by" else can_match
    kind = opened(pa.nulls(0, rows.field(name).type)).type
    if not fits(field.type) or not (fits(kind) or pa.types.is_null(kind)):
        what = "cannot tell newer from older" if option == "order_by" else "are not compared"
        fix = "Name columns of numbers, times or texts" if option == "order_by" else "Name columns of plain types"
        raise _refuse(option, name, f"Values of {field.type} {what}", fix)
    return field if known else None


def _check_columns(rows: pa.Schema, table: pa.Schema) -> None:
    unknown = [name for name in rows.names if len(matching(name, table.names)) != 1]
    if unknown:
        raise SchemaMismatch(
            f"the table has no column {unknown[0]!r}",
            why="Rows of a deletion are keys of the table; other columns of it may come along",
            fix=nearest(unknown[0], table.names),
            differences=tuple(f"{name}: not in the table" for name in unknown),
        )


def check_whole(rows: pa.Schema, table: pa.Schema, why: str) -> None:
    """Raise SchemaMismatch where rows lack columns of the table."""
    missing = [field.name for field in table if not pa.types.is_null(field.type) and not matching(field.name, rows.names)]
    if missing:
        raise SchemaMismatch(
            f"the rows lack the column{'s' * (len(missing) > 1)} {', '.join(map(repr, missing))}",
            why=why,
            fix="Add the columns: the values that should be there, or nulls where that is what you mean",
            differences=tuple(f"{name}: missing" for name in missing),
        )


def check_no_kind(column: str, table: pa.Schema) -> None:
    """Raise InvalidOption where the table has a column of the name in which rows say what happened to them."""
    if column in table.names:
        raise InvalidOption(
            f"change_type={column!r} is a column of the table",
            why="It says what happened to a row, and is not stored",
            fix="Give the rows another column for it, and name that one",
            option="change_type",
            value=column,
        )


def _refuse(option: str, name: str, why: str, fix: str) -> InvalidOption:
    return InvalidOption(f"{option} names {name!r}, by which rows cannot be told", why=why, fix=fix, option=option, value=name)


def _refuse_unordered(name: str, row: int) -> InvalidValue:
    return InvalidValue(
        f"column {name!r} is null in row {row}",
        why="order_by tells by it whether the row is newer than others of its key",
        fix="Fill it in, or leave the row out",
        column=name,
        row=row,
        value=None,
    )
