"""Rows that users hand to `append` and `merge`, as record batches: Arrow, pandas, Polars, DuckDB, dicts.

pandas, Polars and DuckDB are recognised by name and never imported: an object of theirs brings its library along.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from gapless.errors import UnreadableInput
from gapless.files.ingest.batches import (
    Batches,
    checked_values,
    read_once,
    rows_without_columns,
    with_schema,
    without_empty,
)
from gapless.files.ingest.plain_values import plain_array, telling_types
from gapless.files.ingest.rows import CHUNK_ROWS, MixedValues, columns_of, fit_column, merge_schema
from gapless.model.by_value import Floats
from gapless.tables.shared.inputs.frame_types import check_duckdb_types, check_pandas_types, check_polars_types
from gapless.tables.shared.library_errors import said, typed_library_errors

ReadParts = Callable[[], Sequence[Batches]]
"""Opens the input of a change, once it is certain that the change is to be made: what was applied before reads no input."""
ACCEPTED = (
    "an Arrow table, batch, reader, dataset or scanner (anything with __arrow_c_stream__ or __arrow_c_array__), "
    "a pandas or Polars DataFrame, a DuckDB relation, a dict of columns, or an iterable of dicts or of record batches"
)


def as_batches(data: object, table: pa.Schema | None = None) -> Batches:
    """Take rows from what a user has, lazily where it is lazy. `table` is the schema of the table they come to, which says where maps are.

    - Arrow tables, batches, `RecordBatchReader`s, and all that has `__arrow_c_stream__` or `__arrow_c_array__`: as they are.
    - pandas DataFrame: an index with a name becomes columns; one without is dropped if it only counts rows, else refused.
      NaN, None, NaT and NA are nulls, as pandas means them.
    - Polars DataFrame; LazyFrame, which is collected, whole, in memory.
    - DuckDB relation: read as a stream.
    - `pyarrow.dataset` Dataset or Scanner: scanned as a stream.
    - A dict of columns (lists, arrays, Series); an iterable of dicts: columns are the union of all keys, their types are
      settled by all rows. Such an iterable is held in memory whole, as Arrow, with 10,000 dicts beside it; it has no schema
      before its end. NaN stays NaN here.
    - An iterable of record batches, all of the first one's schema: read as a stream.

    An exception that `data` raises while it is read is not touched (KeyboardInterrupt stays itself); one of Arrow's or of the library that
    `data` comes from becomes UnreadableInput. A value that the type of its own column forbids raises InvalidValue as it is read. Raises
    UnreadableInput, and UnsupportedType for a column of a type of pandas, Polars or DuckDB that Arrow has none for.
    """
    for is_kind, read in _KINDS:
        if is_kind(data):
            with typed_library_errors(_name(data)):
                return checked_values(read(data))
    if isinstance(data, Mapping):
        with typed_library_errors(_name(data)):
            return checked_values(_from_columns(data, telling_types(table)))
    if isinstance(data, Iterable):
        # What an iterable of the user's raises stays what it is.
        return checked_values(_from_iterable(data, telling_types(table)))
    raise _refuse(data, f"Rows can come from {ACCEPTED}", "Turn it into one of these")


def parts_of(data: object, table: pa.Schema | None) -> list[Batches]:
    """An object's rows, or those of several open files, as the parts of one change; without those that have neither columns nor rows.
    `table` is the schema of the table.

    Raises UnreadableInput.
    """
    opened = isinstance(data, list | tuple) and any(isinstance(part, Batches) for part in data)
    parts: Iterable[object] = data if opened else (data,)  # type: ignore[assignment]  # looked at above
    return without_empty(part if isinstance(part, Batches) else as_batches(part, table) for part in parts)


def _refuse(data: object, why: str, fix: str) -> UnreadableInput:
    name = _name(data)
    return UnreadableInput(f"an object of type {name} cannot be read as rows", why=why, fix=fix, source=name)


def _name(data: object) -> str:
    kind = type(data)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _comes_from(library: str, *names: str) -> Callable[[object], bool]:
    """Whether an object is, or descends from, one of a library's classes."""

    def check(data: object) -> bool:
        return any(one.__module__.partition(".")[0] == library and one.__name__ in names for one in type(data).__mro__)

    return check


def _plain(schema: pa.Schema) -> pa.Schema:
    return schema.remove_metadata()


def _check_names(schema: pa.Schema, source: str) -> None:
    """Raise UnreadableInput where a column's name is not UTF-8, as a foreign producer may have it."""
    try:
        schema.names  # noqa: B018  # decoded as it is asked for
    except UnicodeDecodeError as error:
        raise UnreadableInput(
            f"a column name of {source} is not UTF-8",
            why=f"Its bytes are {error.object[:60]!r}",
            fix="Rename it where the data are made",
            source=source,
        ) from error


def _from_reader(source: str, reader: Any, *, foreign: bool = True) -> Batches:
    """Rows of a reader; one of the user's own may raise what it likes, such as an OSError."""
    schema = _plain(reader.schema)
    _check_names(schema, source)

    def batches() -> Iterator[pa.RecordBatch]:
        # Through Arrow's C stream the errors of its producer come as OSError.
        with typed_library_errors(source, (OSError,) if foreign else ()):
            yield from (with_schema(batch, schema) for batch in reader)

    return Batches(source=source, schema=schema, read=read_once(source, batches()))


def _from_table(table: pa.Table, source: str | None = None) -> Batches:
    if not table.num_columns:
        # Arrow drops the rows of a table without columns together with its metadata.
        return _without_columns(source or _name(table), table.num_rows)
    plain = table.replace_schema_metadata(None)
    _check_names(plain.schema, source or _name(table))
    batches = plain.to_batches
    return Batches(source=source or _name(table), schema=plain.schema, read=lambda: iter(batches()), rows_hint=plain.num_rows)


def _without_columns(source: str, rows: int) -> Batches:
    return Batches(source=source, schema=pa.schema([]), read=partial(rows_without_columns, rows), rows_hint=rows)


def _from_batch(batch: pa.RecordBatch) -> Batches:
    return _from_table(pa.Table.from_batches([batch]), _name(batch))


def _from_stream(data: object) -> Batches:
    try:
        reader = pa.RecordBatchReader.from_stream(data)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as cause:
        raise _refuse(data, f"Its Arrow stream is not one of rows: {cause}", f"Pass {ACCEPTED}") from cause
    return _from_reader(_name(data), reader)


def _from_c_array(data: object) -> Batches:
    try:
        batch = pa.record_batch(data)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as cause:
        raise _refuse(data, f"Its Arrow array is not one of rows: {cause}", f"Pass {ACCEPTED}") from cause
    return _from_table(pa.Table.from_batches([batch]), _name(data))


def _from_pandas(frame: Any) -> Batches:
    names = list(frame.index.names)
    counts_rows = frame.index.nlevels == 1 and names == [None] and frame.index.dtype.kind in "iu"
    if None in names and not counts_rows and len(frame):
        raise _refuse(
            frame,
            f"Its index (of {frame.index.dtype}) has no name, so it is no column",
            'Name it: df.rename_axis("ts"); or drop it: df.reset_index(drop=True)',
        )
    named = None not in names
    check_pandas_types(frame)
    columns = [str(name) for name in (*(names if named else ()), *frame.columns)]
    if not columns:
        return _without_columns(_name(frame), len(frame))
    twice = sorted(name for name, count in Counter(columns).items() if count > 1)
    if twice:
        raise _refuse(frame, f"Several of its columns (or its index) are named {', '.join(map(repr, twice))}", "Rename them")
    dtypes = {str(name): frame.index.get_level_values(name).dtype for name in (names if named else ())}
    dtypes |= {str(name): dtype for name, dtype in frame.dtypes.items()}
    for name in names if named else ():
        _check_objects(str(name), frame.index.get_level_values(name), _name(frame))
    for at, name in enumerate(frame.columns):
        _check_objects(str(name), frame.iloc[:, at], _name(frame))
    try:
        table = pa.Table.from_pandas(frame, preserve_index=named)
    except (pa.ArrowException, OverflowError, UnicodeError, TypeError, ValueError) as cause:
        why = f"{_failing_column(frame)}: {said(cause)}"
        fix = "Give every column one type that Arrow has (astype), or leave the column out"
        raise _refuse(frame, why, fix) from cause
    # What pandas holds as objects are Python's own values. Arrow's types, and only they, were declared.
    inferred: dict[str, Floats] = {
        name: "nearest" if str(dtype) == "object" else "exact"
        for name, dtype in dtypes.items()
        if not hasattr(dtype, "pyarrow_dtype")
    }
    return replace(_from_table(table, _name(frame)), inferred=inferred)


def _check_objects(name: str, values: Any, source: str) -> None:
    """Refuse a column of pandas or numpy that holds Python's objects of which Arrow would change some. Raises UnreadableInput."""
    if str(getattr(values, "dtype", None)) == "object":
        MixedValues(column=name, source=source, row=0, nan_is_null=True).check(values.tolist(), nanoseconds=True)


def _failing_column(frame: Any) -> str:
    """The first column of a pandas frame that Arrow does not take, with its dtype, for a message."""
    for at, name in enumerate(frame.columns):
        try:
            pa.Array.from_pandas(frame.iloc[:, at])
        except (pa.ArrowException, OverflowError, UnicodeError, TypeError, ValueError):
            return f"Arrow does not take its column {str(name)!r} of {frame.dtypes.iloc[at]}"
    return "Arrow does not take one of its columns"


def _from_duckdb(relation: Any) -> Batches:
    check_duckdb_types(relation)
    open_reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_record_batch
    return _from_reader(_name(relation), open_reader(1 << 16))


def _from_polars(frame: Any) -> Batches:
    check_polars_types(frame)
    return _from_stream(frame)


def _from_lazy(frame: Any) -> Batches:
    return _from_polars(frame.collect())


def _from_dataset(dataset: Any) -> Batches:
    scanner = dataset.scanner() if hasattr(dataset, "scanner") else dataset
    return _from_reader(_name(dataset), scanner.to_reader())


def _from_columns(data: Mapping[str, Any], told: Mapping[str, pa.DataType]) -> Batches:
    source = "a dict of columns"
    arrays: dict[str, pa.Array | pa.ChunkedArray] = {}
    for name, values in data.items():
        if not _is_column(name, values):
            why = f"Under {name!r} it holds {str(values)[:60]!r}, a {type(values).__name__}"
            raise _refuse(data, why, "Give each column as a list or an array; give one row as [row]")
        plain = isinstance(values, list | tuple)
        arrays[name] = plain_array(values, name, (source, 0), told) if plain else _to_arrow(data, name, values)
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise _refuse(data, f"Its columns have different lengths: {lengths}", "Give all columns the same length")
    inferred = {name: floats for name, values in data.items() if (floats := _floats_of(values)) is not None}
    return replace(_from_table(pa.table(arrays), source), inferred=inferred)


def _floats_of(values: object) -> Floats | None:
    """How the floats of a column are taken where its type was not declared; None where it was: by Arrow, and what hands over Arrow's types."""
    if isinstance(values, list | tuple):
        return "nearest"
    declared = isinstance(values, pa.Array | pa.ChunkedArray) or hasattr(getattr(values, "dtype", None), "pyarrow_dtype")
    if declared or _comes_from("polars", "Series")(values):
        return None
    return "nearest" if str(getattr(values, "dtype", None)) == "object" else "exact"


def _is_column(name: object, values: object) -> bool:
    return isinstance(name, str) and not isinstance(values, str | bytes | Mapping) and hasattr(values, "__len__")


def _to_arrow(data: object, name: str, values: Any) -> pa.Array | pa.ChunkedArray:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    _check_objects(name, values, "a dict of columns")
    try:
        return pa.chunked_array(values) if hasattr(values, "__arrow_c_stream__") else pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, TypeError, OverflowError) as cause:
        raise _refuse(data, f"Column {name!r} does not have one type: {cause}", "Give every column one type") from cause


def _from_iterable(data: Iterable[object], told: Mapping[str, pa.DataType]) -> Batches:
    items = iter(data)
    first = next(items, None)
    if first is None:
        return _from_table(pa.table({}), _name(data))
    whole = chain([first], items)
    if isinstance(first, Mapping):
        return _from_rows(whole, told)
    if isinstance(first, pa.RecordBatch):
        return _from_batch_iterable(first, whole)
    why = f"Its first item is {str(first)[:60]!r}, of type {_name(first)}"
    raise _refuse(data, why, f"Rows can come from {ACCEPTED}")


def _from_batch_iterable(first: pa.RecordBatch, batches: Iterator[object]) -> Batches:
    source, schema = "an iterable of record batches", _plain(first.schema)

    def check() -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(batches):
            if not isinstance(batch, pa.RecordBatch) or not _plain(batch.schema).equals(schema):
                raise UnreadableInput(
                    f"item {number} (from 0) of {source} does not have the first one's schema",
                    why=f"It is {batch.schema.to_string() if isinstance(batch, pa.RecordBatch) else type(batch).__name__}",
                    fix="Append batches of different schemas one by one",
                    source=source,
                )
            yield with_schema(batch, schema)

    return Batches(source=source, schema=schema, read=read_once(source, check()))


def _from_rows(rows: Iterator[object], told: Mapping[str, pa.DataType]) -> Batches:
    """Read all dicts, 10,000 at a time, then give every chunk the types that the whole needs."""
    source = "an iterable of dicts"
    types: dict[str, pa.DataType] = {}
    chunks: list[tuple[int, int, dict[str, pa.Array]]] = []
    row = 0
    while chunk := list(islice(rows, CHUNK_ROWS)):
        columns = columns_of(chunk, source, row)
        arrays = {name: plain_array(values, name, (source, row), told) for name, values in columns.items()}
        types = merge_schema(types, {name: array.type for name, array in arrays.items()}, source)
        chunks.append((row, len(chunk), arrays))
        row += len(chunk)
    if not types:
        return _without_columns(source, row)
    schema = pa.schema(list(types.items()))

    def read() -> Iterator[pa.RecordBatch]:
        for first, count, arrays in chunks:
            fitted = [fit_column(arrays.get(name), type_, count, (name, source, first)) for name, type_ in types.items()]
            yield pa.RecordBatch.from_arrays(fitted, schema=schema)

    inferred: dict[str, Floats] = dict.fromkeys(types, "nearest")
    return Batches(source=source, schema=schema, read=read, rows_hint=row, inferred=inferred)


def _from_path(data: object) -> Batches:
    raise _refuse(data, "A text or path is no rows", "Use append_file(path) to read files")


_KINDS: Sequence[tuple[Callable[[object], bool], Callable[[Any], Batches]]] = (
    (lambda data: isinstance(data, str | bytes | Path), _from_path),
    (lambda data: isinstance(data, pa.Table), _from_table),
    (lambda data: isinstance(data, pa.RecordBatch), _from_batch),
    (lambda data: isinstance(data, pa.RecordBatchReader), lambda reader: _from_reader(_name(reader), reader, foreign=False)),
    (_comes_from("pandas", "DataFrame"), _from_pandas),
    (_comes_from("polars", "DataFrame"), _from_polars),
    (_comes_from("polars", "LazyFrame"), _from_lazy),
    (_comes_from("duckdb", "DuckDBPyRelation"), _from_duckdb),
    (_comes_from("pyarrow", "Dataset", "Scanner"), _from_dataset),
    (lambda data: hasattr(data, "__arrow_c_stream__"), _from_stream),
    (lambda data: hasattr(data, "__arrow_c_array__"), _from_c_array),
)
"""How to read each kind of object whose values have their types; the first that fits is taken."""
