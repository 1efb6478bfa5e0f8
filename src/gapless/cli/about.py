"""`info`, `history` and `schema`."""

from __future__ import annotations

from dataclasses import asdict

from gapless.cli.commits import commit_document
from gapless.cli.console import print_facts, print_table, say, write_json
from gapless.cli.delta_about import delta_columns, delta_facts, delta_history
from gapless.cli.options import JsonFlag, StorageOptions, TablePath, open_any
from gapless.cli.texts import Plain
from gapless.cli.values import moment_text, zone_of
from gapless.model.index import format_bucket
from gapless.table import delta
from gapless.table.table import TimeSeriesTable


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
