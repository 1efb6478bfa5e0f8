"""`info`, `history` and `schema`.

What `info`, `history`, `log` and `schema` tell of a Delta table.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta

from gapless.cli.options import JsonFlag, StorageOptions, TablePath, open_any
from gapless.cli.show.console import Plain, print_facts, print_table, say, write_json
from gapless.cli.show.values import commit_document, moment_text, plain_index_value, zone_of
from gapless.model.index import format_bucket
from gapless.tables import delta
from gapless.tables.timeseries.table import TimeSeriesTable


def delta_facts(table: delta.DeltaTable) -> dict[str, Plain]:
    """All that `info` tells. `rows` is null where the log does not say how many each file has."""
    files, protocol = table.files(), table.protocol
    rows = [file.rows for file in files]
    return {
        "table": table.url,
        "format": "delta",
        "version": table.version,
        "columns": len(table.schema),
        "partition_by": list(table.partition_by),
        "rows": None if None in rows else sum(count or 0 for count in rows),
        "deleted_rows": sum(file.deleted_rows for file in files),
        "files": len(files),
        "bytes": sum(file.size for file in files),
        "reader_version": protocol.reader,
        "writer_version": protocol.writer,
        "features": sorted(protocol.reader_features | protocol.writer_features),
        "properties": table.properties,
    }


def delta_history(table: delta.DeltaView, limit: int | None = None) -> list[dict[str, Plain]]:
    """Its commits as JSON has them, oldest first; `duration_s` is in seconds, and null where the writer did not say."""
    return [
        {
            "version": entry.version,
            "time": plain_index_value(entry.time, aware=True),
            "operation": entry.operation,
            "parameters": dict(entry.parameters),
            "metrics": dict(entry.metrics),
            "files": entry.files,
            "removed_files": entry.removed_files,
            "bytes": entry.bytes,
            "duration_s": None if entry.duration is None else entry.duration / timedelta(seconds=1),
            "isolation": entry.isolation,
            "user": entry.user,
            "message": entry.message,
            "engine": entry.engine,
            "commit_id": entry.commit_id,
        }
        for entry in table.history(limit)
    ]


def delta_columns(table: delta.DeltaView) -> list[dict[str, Plain]]:
    """Its columns, as `schema` lists them."""
    return [
        {
            "name": field.name,
            "type": str(field.type),
            "nullable": field.nullable,
            "role": "partition" if field.name in table.partition_by else None,
        }
        for field in table.schema
    ]


def info(path: TablePath, storage_option: StorageOptions = None, json: JsonFlag = False) -> None:
    """Say what the table is: its index or its partitions, its size, its ends. It may be of either kind.

    Example: gapless info prices
    """
    table = open_any(path, storage_option)
    facts = facts_of(table) if isinstance(table, TimeSeriesTable) else delta_facts(table)
    if json:
        write_json(facts)
        return
    print_facts([(name.replace("_", " "), _fact_text(value)) for name, value in facts.items() if value is not None])


def facts_of(table: TimeSeriesTable) -> dict[str, Plain]:
    """All that `info` tells. `inlined_bytes` are those of `bytes` that lie in commits. `first` and `last` are the smallest and largest index value, null in an empty table."""
    segments, index = table.segments(), table.index
    sizes = [segment.size for segment in segments]
    return {
        "table": table.url,
        "version": table.version,
        "index": index.column,
        "index_type": index.type,
        "bucket": format_bucket(index.bucket),
        "entity": list(table.entity),
        "timezone": index.timezone,
        "columns": None if table.schema is None else len(table.schema),
        "rows": sum(segment.rows for segment in segments),
        "segments": len(segments),
        "bytes": None if None in sizes else sum(size or 0 for size in sizes),
        "inlined_bytes": sum(segment.inlined_bytes for segment in segments),
        "identities": len(table.identities()),
        "first": _bound(table, min((s.bounds.first for s in segments), default=None)),
        "last": _bound(table, max((s.bounds.last for s in segments), default=None)),
        "properties": asdict(table.properties),
    }


def _bound(table: TimeSeriesTable, value: int | None) -> Plain:
    if value is None or table.schema is None or table.index.type != "timestamp":
        return value
    return moment_text(value, zone_of(table.index.timezone or table.schema.field(table.index.column).type.tz))


def _fact_text(value: Plain) -> str:
    match value:
        case dict():
            return ", ".join(f"{name}={one}" for name, one in value.items())
        case list():
            return ", ".join(value) or "none"
        case int():
            return f"{value:,}"
    return str(value)


def history(path: TablePath, storage_option: StorageOptions = None, json: JsonFlag = False) -> None:
    """List the commits of a table of either kind, oldest first.

    Example: gapless history prices
    """
    table = open_any(path, storage_option)
    entries = commit_documents(table)
    if json:
        write_json(entries)
        return
    held = ("rows", "segments") if isinstance(table, TimeSeriesTable) else ("files", "removed_files")
    names = ("version", "time", "operation", *held, "engine", "commit_id")
    print_table(names, [[entry[name] for name in names] for entry in entries])


def commit_documents(table: TimeSeriesTable | delta.DeltaTable, limit: int | None = None) -> list[dict[str, Plain]]:
    """The newest `limit` commits of a table of either kind as JSON has them, oldest first."""
    if isinstance(table, TimeSeriesTable):
        return [commit_document(entry) for entry in table.history(limit)]
    return delta_history(table, limit)


def schema(path: TablePath, storage_option: StorageOptions = None, json: JsonFlag = False) -> None:
    """List the columns of a table of either kind, their types and their roles.

    Example: gapless schema prices
    """
    table = open_any(path, storage_option)
    columns = columns_of(table) if isinstance(table, TimeSeriesTable) else delta_columns(table)
    if json:
        write_json(columns)
    elif columns:
        print_table(
            ("column", "type", "nulls", "role"),
            [[c["name"], c["type"], "yes" if c["nullable"] else "no", c["role"] or ""] for c in columns],
        )
    else:
        say("The table has no columns yet: its first append brings them.")


def columns_of(table: TimeSeriesTable) -> list[dict[str, Plain]]:
    """The columns of a time-series table, with what is the index and what tells series apart."""
    roles = {table.index.column: "index"} | dict.fromkeys(table.entity, "entity")
    return [
        {"name": field.name, "type": str(field.type), "nullable": field.nullable, "role": roles.get(field.name)}
        for field in table.schema or ()
    ]
