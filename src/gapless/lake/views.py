"""The SQL by which DuckDB reads a lake table: the files that manifests name, each column cast, of each key the newest row. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from gapless.lake.layout.schema import LakeSchema
from gapless.lake.layout.settings import TableHistory, part_of
from gapless.lake.layout.snapshots import LiveFile
from gapless.model.types import is_any_list
from gapless.tables.shared.sql import quoted

ORDER, ROW = "_gapless_run", "_gapless_row"
"""The columns by which of two rows of a key one is newer: the path of its file from the run on, and its place in it."""
_PLAIN: Mapping[pa.DataType, str] = {
    pa.bool_(): "BOOLEAN", pa.int8(): "TINYINT", pa.int16(): "SMALLINT", pa.int32(): "INTEGER", pa.int64(): "BIGINT",
    pa.uint8(): "UTINYINT", pa.uint16(): "USMALLINT", pa.uint32(): "UINTEGER", pa.uint64(): "UBIGINT", pa.float16(): "FLOAT",
    pa.float32(): "FLOAT", pa.float64(): "DOUBLE", pa.string(): "VARCHAR", pa.binary(): "BLOB", pa.date32(): "DATE", pa.date64(): "DATE",
}  # fmt: skip
_WIDEST = 38


def sql_type(type_: pa.DataType) -> str | None:
    """DuckDB's name of the type that it reads a declared type as; None where it has none that a cast could name.

    >>> sql_type(pa.list_(pa.struct({"a": pa.int64()})))
    'STRUCT("a" BIGINT)[]'
    """
    t = pa.types
    if (plain := _PLAIN.get(type_)) is not None:
        return plain
    if t.is_timestamp(type_):
        fine = type_.unit == "ns"
        if type_.tz is not None:
            return "TIMESTAMPTZ_NS" if fine else "TIMESTAMPTZ"
        return "TIMESTAMP_NS" if fine else "TIMESTAMP"
    if t.is_time(type_):
        return "TIME_NS" if getattr(type_, "unit", "") == "ns" else "TIME"
    if t.is_decimal(type_):
        return f"DECIMAL({type_.precision}, {type_.scale})" if type_.precision <= _WIDEST else None
    if t.is_fixed_size_binary(type_):
        return "BLOB"
    return _nested(type_)


def _nested(type_: pa.DataType) -> str | None:
    t = pa.types
    if t.is_struct(type_):
        parts = [(child.name, sql_type(child.type)) for child in type_]
        return (
            None
            if any(sql is None for _, sql in parts)
            else f"STRUCT({', '.join(f'{quoted(name)} {sql}' for name, sql in parts)})"
        )
    if t.is_map(type_):
        key, value = sql_type(type_.key_type), sql_type(type_.item_type)
        return None if key is None or value is None else f"MAP({key}, {value})"
    if is_any_list(type_):
        item = sql_type(type_.value_type)
        return None if item is None else f"{item}[]"
    return None


def select_rows(history: TableHistory, live: Sequence[LiveFile], *, whole: bool = False, root: str = "") -> str | None:
    """The query for all rows of a table; None while it has no columns. Paths are relative to the lake's root, or begin with `root`. With `whole`
    each row of a table with a key also says which run brought it, as snapshots store it.

    Of files of one version of the columns there is one `read_parquet`, in which each column is cast to what it is now. Folders are called after
    partitions, and not so that a value could be read from the name: DuckDB is told to leave them alone.
    """
    known = [one for one in history.schema.columns if not pa.types.is_null(one.type)]
    if not known:
        return None
    keyed = bool(history.settings.key)
    parts = list(_parts(history, live, known, keyed=keyed, root=root))
    if not parts:
        return f"SELECT {', '.join(f'{_null(one)} AS {quoted(one.name)}' for one in known)} WHERE false"
    union = "\nUNION ALL\n".join(parts)
    if not keyed:
        return union
    names = "*" if whole else ", ".join(quoted(one.name) for one in known)
    key = ", ".join(quoted(name) for name in history.settings.key)
    return f"SELECT {names} FROM (\n{union}\n)\nQUALIFY row_number() OVER (PARTITION BY {key} ORDER BY {ORDER} DESC, {ROW} DESC) = 1"  # noqa: S608


def _parts(
    history: TableHistory, live: Sequence[LiveFile], known: Sequence[pa.Field], *, keyed: bool, root: str
) -> Iterator[str]:
    files = defaultdict[tuple[int, bool], list[str]](list)
    for file in live:
        files[history.meant(part_of(file.path), file.schema_version), file.compacted and keyed].append(file.path)
    for (version, says_run), paths in sorted(files.items()):
        columns = _columns(history.version(version), known)
        listed = ", ".join(text_literal(root + path) for path in paths)
        yield f"SELECT {columns}{_order(says_run=says_run) if keyed else ''} FROM read_parquet([{listed}], hive_partitioning = false)"  # noqa: S608  # quoted


def _order(*, says_run: bool) -> str:
    if says_run:
        return f", {ORDER}, {ROW}"
    return f", regexp_extract(filename, 'run-[^/]+/[^/]+/[^/]+$') AS {ORDER}, file_row_number AS {ROW}"


def _columns(stored: LakeSchema, known: Sequence[pa.Field]) -> str:
    there = {one.name: one.type for one in stored.columns if not pa.types.is_null(one.type)}
    return ", ".join(f"{_cast(one) if one.name in there else _null(one)} AS {quoted(one.name)}" for one in known)


def _cast(column: pa.Field) -> str:
    sql = sql_type(column.type)
    return quoted(column.name) if sql is None else f"CAST({quoted(column.name)} AS {sql})"


def _null(column: pa.Field) -> str:
    return f"CAST(NULL AS {sql_type(column.type) or 'VARCHAR'})"


def text_literal(text: str) -> str:
    """A text in standard SQL."""
    return "'" + text.replace("'", "''") + "'"


def view_file(history: TableHistory, live: Sequence[LiveFile]) -> str | None:
    """What `views/<table>.sql` holds; None while the table has no columns."""
    select = select_rows(history, live)
    if select is None:
        return None
    name = quoted(history.settings.name)
    return (
        f"-- fingerprint: {history.schema.fingerprint} (version {history.schema.version} of the columns), {len(live)} files\n"
        "-- Paths are relative to the lake: run DuckDB there, or SET file_search_path to it.\n"
        f"CREATE OR REPLACE VIEW {name} AS\n{select};\n"
    )
