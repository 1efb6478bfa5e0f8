"""What `info`, `history`, `log` and `schema` tell of a Delta table."""

from __future__ import annotations

from datetime import timedelta

from gapless.cli.texts import Plain
from gapless.cli.values import plain_index_value
from gapless.table import delta


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
