"""Rows on their way into a table: record batches of one schema, from one source."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa

from gapless.errors import DataError, InvalidValue, SchemaMismatch, UnreadableInput
from gapless.model.by_value import Floats
from gapless.model.types import is_any_list
from gapless.model.valid_values import ForbiddenValue, forbidden_values, may_be_forbidden


@dataclass(frozen=True, slots=True, kw_only=True)
class Batches:
    """One source of rows. Iterate to get its record batches, one after the other, all of `schema`.

    A file can be read again; an object that can be read only once says so with UnreadableInput when asked twice.
    """

    source: str
    """What it is, for messages: a path, or a kind of object."""
    schema: pa.Schema
    read: Callable[[], Iterator[pa.RecordBatch]]
    """Start reading; each call starts anew."""
    rows_hint: int | None = None
    """Rows in all, where known beforehand."""
    bytes_hint: int | None = None
    """Size of the file, where it is one."""
    inferred: Mapping[str, Floats] = field(default_factory=dict)
    """The columns whose type nobody declared: it was found from their values, and a table's column takes each value that it holds.
    Such rows can be read again.
    """

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """The record batches, read as they are asked for."""
        return self.read()


_COUNTED_ROWS = 1 << 16
"""Rows without columns in one batch: what fills the columns of a table in for them takes memory by the row."""


def rows_without_columns(count: int) -> Iterator[pa.RecordBatch]:
    """Batches of so many rows in all that have no columns, as mappings without keys are."""
    for start in range(0, count, _COUNTED_ROWS):
        rows = min(_COUNTED_ROWS, count - start)
        # Arrow makes no batch of rows alone; one that loses its columns keeps its rows.
        yield pa.RecordBatch.from_arrays([pa.nulls(rows)], [""]).select([])


def table_without_columns(count: int) -> pa.Table:
    """So many rows without columns, as a table."""
    return pa.Table.from_batches(list(rows_without_columns(count)), pa.schema([]))


def with_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch under a schema of the same types, such as one without metadata; rows without columns stay as many."""
    return pa.RecordBatch.from_arrays(batch.columns, schema=schema) if batch.num_columns else batch.select([])


def without_empty(parts: Iterable[Batches]) -> list[Batches]:
    """The parts but those that have neither columns nor rows. Of one without columns the rows are counted here, and none is held."""
    kept = []
    for part in parts:
        if part.schema.names:
            kept.append(part)
            continue
        rows = sum(batch.num_rows for batch in part) if part.rows_hint is None else part.rows_hint
        if rows:
            kept.append(replace(part, read=partial(rows_without_columns, rows), rows_hint=rows))
    return kept


def read_once(source: str, batches: Iterator[pa.RecordBatch]) -> Callable[[], Iterator[pa.RecordBatch]]:
    """A `read` for a source that cannot start anew: the second call raises UnreadableInput instead of giving no rows."""
    left = [batches]

    def read() -> Iterator[pa.RecordBatch]:
        if not left:
            raise UnreadableInput(
                f"{source} was read already",
                why="A stream gives its rows once",
                fix="Make a new stream, or collect it into a table first",
                source=source,
            )
        return left.pop()

    return read


def checked_values(part: Batches) -> Batches:
    """The same rows, of which none holds a value that its column's own type forbids.

    For rows from elsewhere, whose buffers nobody looked at; those that are missing are there then. InvalidValue, as they are read, names
    column, row and value.
    """
    if not any(may_be_forbidden(field.type) or field.type.num_fields for field in part.schema):
        return part

    def read() -> Iterator[pa.RecordBatch]:
        row = 0
        for batch in map(_with_buffers, part):
            for column, found in forbidden_values(batch):
                raise refuse_forbidden(column, batch.schema.field(column).type, found, row, part.source)
            row += batch.num_rows
            yield batch

    return replace(part, read=read)


def _with_buffers(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with those nested columns copied of which a child has no values: it may lack buffers, and whoever counts its bytes, or
    casts it, crashes (pyarrow 26.0).
    """
    places = {place for place, column in enumerate(batch.columns) if batch.num_rows and _has_empty_child(column)}
    if not places:
        return batch
    arrays = [_copied(column) if place in places else column for place, column in enumerate(batch.columns)]
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


def _copied(column: pa.Array) -> pa.Array:
    try:
        return pa.concat_arrays([column])
    except pa.ArrowException:
        # Arrow cannot copy a list whose child has no offsets.
        return pa.array(column.to_pylist(), column.type)


def _has_empty_child(array: pa.Array) -> bool:
    if pa.types.is_struct(array.type):
        below = [array.field(at) for at in range(array.type.num_fields)]
    elif pa.types.is_map(array.type) or is_any_list(array.type):
        below = [array.values]
    else:
        return False
    return any(not len(child) or _has_empty_child(child) for child in below)


def refuse_forbidden(column: str, type_: pa.DataType, found: ForbiddenValue, first_row: int, source: str) -> InvalidValue:
    """The error for a value that a column's own type forbids; `first_row` is the number of the first row of the array it was found in."""
    row = first_row + found.row
    return InvalidValue(
        f"column {column!r} holds {found.value!r} in row {row} (from 0) of {source}",
        why=f"As {type_}: {found.why}",
        fix=found.fix, column=column, row=row, value=found.value, source=source,
    )  # fmt: skip


def bytes_of(rows: pa.RecordBatch | pa.Table, enough: int) -> int:
    """The Arrow memory of rows, exactly where it is more than `enough` bytes; where it is not, some number up to that and no less.

    Memory that several chunks of a column share may be counted once.
    """
    # To measure takes longer than to sort a few rows. No column holds more than all buffers do, whose size is known at once.
    most: int = rows.get_total_buffer_size() * rows.num_columns
    return most if most <= enough else int(rows.nbytes)


@contextlib.contextmanager
def naming(part: Batches) -> Iterator[None]:
    """Name the source in an error about its rows or columns; rows count within it."""
    try:
        yield
    except DataError as error:
        raise with_source(error, part.source) from error


def with_source(error: DataError, source: str) -> DataError:
    """The same error, whose message begins with the source of the rows."""
    return type(error)(f"{source}: {error.what}", why=error.why, fix=error.fix, **error.facts)


Progress = Callable[[int, int | None], None]
"""Told the rows read so far, and all rows there are where that is known."""


def watched(parts: Sequence[Batches], progress: Progress) -> list[Batches]:
    """The same sources; as they are read, `progress` is told after each batch, counting over all of them. One that is read again counts anew."""
    hints = [part.rows_hint for part in parts]
    known = [hint for hint in hints if hint is not None]
    total = sum(known) if len(known) == len(hints) else None
    done = [0] * len(parts)

    def watch(place: int, part: Batches) -> Iterator[pa.RecordBatch]:
        done[place] = 0
        for batch in part:
            yield batch
            done[place] += batch.num_rows
            progress(sum(done), total)

    return [replace(part, read=partial(watch, place, part)) for place, part in enumerate(parts)]


def merge_types(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """The narrowest type that holds the values of both without loss; raises TypeError where there is none.

    An int64 and a double make a double: an integer that it cannot hold exactly fails later, when it is cast.
    """
    if left.equals(right) or pa.types.is_null(right):
        return left
    if pa.types.is_null(left):
        return right
    if {left, right} == {pa.int64(), pa.uint64()}:
        return pa.uint64()
    for one, other in ((left, right), (right, left)):
        if (pa.types.is_decimal(one) and pa.types.is_floating(other)) or (_is_text(one) and not _is_text(other)):
            raise TypeError(f"{left} and {right} have no common type")
    schemas = [pa.schema([("x", left)]), pa.schema([("x", right)])]
    return pa.unify_schemas(schemas, promote_options="permissive").field(0).type


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_))


def unified_schema(parts: Sequence[Batches]) -> pa.Schema:
    """One schema for all parts of an append: columns by name in order of first sight, types widened where nothing is lost.

    For a table without a schema; each part's batches must still be fitted to it. Raises SchemaMismatch that names the part.
    """
    fields: dict[str, pa.Field] = {}
    origin: dict[str, str] = {}
    for part in parts:
        for given in part.schema:
            seen = fields.get(given.name)
            if seen is None:
                fields[given.name], origin[given.name] = given, part.source
                continue
            try:
                merged = merge_types(seen.type, given.type)
            except (TypeError, ValueError) as clash:
                raise SchemaMismatch(
                    f"column {given.name!r} is {given.type} in {part.source}, but {seen.type} in {origin[given.name]}",
                    why="The files of one append make one table, and these types have no common one that loses nothing",
                    fix="Append them to tables of their own, or state the type (schema= at create, types= for CSV)",
                    differences=(f"{given.name}: {seen.type} against {given.type}",),
                ) from clash
            fields[given.name] = pa.field(given.name, merged, nullable=seen.nullable or given.nullable)
    return pa.schema(list(fields.values()))
