"""Delta tables written by hand, byte by byte and without gapless: what any other writer might leave."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gapless.tables.delta.lifecycle import open_table
from gapless.tables.delta.read.view import DeltaView
from gapless.tables.shared.handle import open_environment


@dataclass(frozen=True, kw_only=True)
class Hand:
    """A data file and what the log says of it."""

    path: str
    """On disk, relative to the table root."""
    rows: pa.Table
    """What the file holds, by physical names."""
    stats: Mapping[str, Any] | str | None = None
    values: Mapping[str, str | None] = field(default_factory=dict)
    logged: str | None = None
    """The path as the log has it, where that is another text."""
    vector: Mapping[str, Any] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    """How pyarrow writes the file."""


def column(name: str, type_: Any, **metadata: Any) -> dict[str, Any]:
    """A field as `schemaString` has it."""
    return {"name": name, "type": type_, "nullable": True, "metadata": metadata}


def struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


def lay(
    root: Path,
    columns: Sequence[dict[str, Any]],
    files: Sequence[Hand],
    *,
    partition_by: Sequence[str] = (),
    features: Sequence[str] = (),
    configuration: Mapping[str, str] | None = None,
) -> DeltaView:
    """Write a table of one commit and open it."""
    protocol: dict[str, Any] = {"minReaderVersion": 1, "minWriterVersion": 2}
    if features:
        protocol = {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": list(features),
            "writerFeatures": list(features),
        }
    meta = {
        "id": "hand",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(struct(*columns)),
        "partitionColumns": list(partition_by),
        "configuration": dict(configuration or {}),
    }
    actions: list[dict[str, Any]] = [{"commitInfo": {"timestamp": 1_700_000_000_000, "operation": "WRITE"}}]
    actions += [{"protocol": protocol}, {"metaData": meta}, *({"add": added(root, one)} for one in files)]
    commit(root, 0, actions)
    return view(root)


def commit(root: Path, version: int, actions: Sequence[Mapping[str, Any]]) -> None:
    """One more log entry."""
    log = root / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    (log / f"{version:020}.json").write_text("\n".join(map(json.dumps, actions)), encoding="utf-8")


def view(root: Path) -> DeltaView:
    """The newest version."""
    env = open_environment(root, None)
    return DeltaView(env, root.name, open_table(env, str(root)))


def added(root: Path, one: Hand) -> dict[str, Any]:
    """Write a data file; what the log says of it."""
    file = root / one.path
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(one.rows, file, **one.options)
    stats = one.stats if one.stats is None or isinstance(one.stats, str) else json.dumps(one.stats)
    add = {
        "path": one.logged or one.path,
        "partitionValues": dict(one.values),
        "size": file.stat().st_size,
        "modificationTime": 1_700_000_000_000,
        "dataChange": True,
    }
    return (
        add | ({} if stats is None else {"stats": stats}) | ({} if one.vector is None else {"deletionVector": dict(one.vector)})
    )


def simple_stats(rows: int, **columns: tuple[Any, Any, int | None]) -> dict[str, Any]:
    """Statistics of columns as (smallest, largest, nulls), None for what is left out."""
    return {
        "numRecords": rows,
        "minValues": {name: low for name, (low, _, _) in columns.items() if low is not None},
        "maxValues": {name: high for name, (_, high, _) in columns.items() if high is not None},
        "nullCount": {name: nulls for name, (_, _, nulls) in columns.items() if nulls is not None},
    }
