"""What a table is: `info`, `schema`, `history` and `log`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Annotated

from gapless.cli.options import AnyTable, JsonFlag, TableRef, option
from gapless.cli.show.console import Plain, print_facts, print_line, print_table, write_json
from gapless.cli.show.values import moment_text, plain_index_value, zone_of
from gapless.errors import ForeignCommit
from gapless.model.index import format_bucket
from gapless.tables import delta
from gapless.tables.timeseries.table import TimeSeriesTable


def info(table: TableRef, json: JsonFlag = False) -> None:
    """Describe a table of either kind: its index or its partitions, its size, its properties.

    Example: gapless info prices
    """
    opened = table.open()
    facts = series_facts(opened) if isinstance(opened, TimeSeriesTable) else delta_facts(opened)
    if json:
        write_json(facts)
        return
    print_facts([(name.replace("_", " "), _fact_text(value)) for name, value in facts.items() if value is not None])


def series_facts(table: TimeSeriesTable) -> dict[str, Plain]:
    """What `info` prints of a time-series table.

    `inlined_bytes` are those of `bytes` that lie in commits. `first` and `last` are the smallest and largest index value, null in an
    empty table.
    """
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
        "published": _published(table),
    }


def _published(table: AnyTable) -> Plain:
    """By format the version that is published, and how many are to be; null for a table that is published in none."""
    try:
        told = table.publications()
        return None if not told else {one.format: f"version {one.version}, {one.behind} behind" for one in told}
    except ForeignCommit as error:
        return {str(error.format): error.what}


def _bound(table: TimeSeriesTable, value: int | None) -> Plain:
    if value is None or table.schema is None or table.index.type != "timestamp":
        return value
    return moment_text(value, zone_of(table.index.timezone or table.schema.field(table.index.column).type.tz))


def delta_facts(table: delta.DeltaTable) -> dict[str, Plain]:
    """What `info` prints of a Delta table. `rows` is null where the log does not say how many each file has."""
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
        "published": _published(table),
    }


def _fact_text(value: Plain) -> str:
    match value:
        case dict():
            return ", ".join(f"{name}={one}" for name, one in value.items())
        case list():
            return ", ".join(value) or "none"
        case int():
            return f"{value:,}"
    return str(value)


def schema(table: TableRef, json: JsonFlag = False) -> None:
    """List the columns of a table of either kind, their types and their roles.

    Example: gapless schema prices
    """
    columns = column_documents(table.open())
    if json:
        write_json(columns)
    elif columns:
        print_table(
            ("column", "type", "nulls", "role"),
            [[c["name"], c["type"], "yes" if c["nullable"] else "no", c["role"] or ""] for c in columns],
        )
    else:
        print_line("The table has no columns yet: its first append brings them.")


def column_documents(table: AnyTable) -> list[dict[str, Plain]]:
    """The columns as `schema --json` prints them; `role` is index, entity or partition, else null."""
    if isinstance(table, TimeSeriesTable):
        roles = {table.index.column: "index"} | dict.fromkeys(table.entity, "entity")
    else:
        roles = dict.fromkeys(table.partition_by, "partition")
    return [
        {"name": field.name, "type": str(field.type), "nullable": field.nullable, "role": roles.get(field.name)}
        for field in table.schema or ()
    ]


def history(table: TableRef, json: JsonFlag = False) -> None:
    """List the commits of a table of either kind, oldest first.

    Example: gapless history prices
    """
    opened = table.open()
    commits = commit_documents(opened)
    if json:
        write_json(commits)
        return
    held = ("rows", "segments") if isinstance(opened, TimeSeriesTable) else ("files", "removed_files")
    _print_commits(("version", "time", "operation", *held, "engine", "commit_id"), commits)


def log(
    table: TableRef,
    limit: Annotated[int | None, option("N", "The newest N commits.", least=0)] = None,
    json: JsonFlag = False,
) -> None:
    """List the commits of a table of either kind, newest first, with parameters, sizes and durations.

    Example: gapless log prices --limit 20
    """
    opened = table.open()
    commits = commit_documents(opened, limit)[::-1]
    if json:
        write_json(commits)
    else:
        _print_commits(_SERIES_LOG if isinstance(opened, TimeSeriesTable) else _DELTA_LOG, commits)


_SERIES_LOG = (
    "version", "time", "operation", "rows", "removed_rows", "bytes", "removed_bytes", "duration_s", "tags", "parameters",
)  # fmt: skip
_DELTA_LOG = ("version", "time", "operation", "files", "removed_files", "bytes", "duration_s", "metrics", "parameters")
_SERIES_COMMIT = (
    "version", "time", "operation", "parameters", "rows", "removed_rows", "segments", "removed_segments", "bytes",
    "removed_bytes", "duration_s", "tags", "engine", "commit_id",
)  # fmt: skip
_DELTA_COMMIT = (
    "version", "time", "operation", "parameters", "metrics", "files", "removed_files", "bytes", "duration_s", "isolation",
    "user", "message", "engine", "commit_id",
)  # fmt: skip


def commit_documents(table: AnyTable, limit: int | None = None) -> list[dict[str, Plain]]:
    """The newest `limit` commits as JSON has them, oldest first; `duration_s` is in seconds, and null where the writer did not say."""
    names = _SERIES_COMMIT if isinstance(table, TimeSeriesTable) else _DELTA_COMMIT
    return [{name: _plain(getattr(entry, name.removesuffix("_s"))) for name in names} for entry in table.history(limit)]


def _plain(value: object) -> Plain:
    match value:
        case datetime():
            return plain_index_value(value, aware=True)
        case timedelta():
            return value / timedelta(seconds=1)
        case tuple():
            return list(value)
        case Mapping():
            return dict(value)
    return value


def _print_commits(names: tuple[str, ...], commits: list[dict[str, Plain]]) -> None:
    print_table(names, [[_cell(commit[name]) for name in names] for commit in commits])


def _cell(value: object) -> object:
    """A list as names between commas, and nothing for what is empty."""
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "" if value == {} else value
