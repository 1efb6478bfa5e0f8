"""What pipelines are held to, one line a format and one a mode: how a table is made, and what strangers to gapless read in it.

A stranger reads a copy of all objects on disk, wherever the table lies. A further format joins by a `Target` in `TARGETS`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable as DeltaLakeTable

import gapless as gl
from support import hudi_targets, iceberg_tables
from support.pipelines import SCHEMA

Storage = Mapping[str, str] | None
Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One format."""

    make: Callable[[str, Storage], Any]
    """An empty table at a place."""
    open: Callable[[str, Storage], Any]
    rows: Callable[[Path], Rows]
    """The rows of the newest version of a copy on disk, as a stranger reads them."""
    files: Callable[[Path], set[str]]
    """The paths of the data files, and what belongs to them, of that version."""
    log: str
    """The folder of its log."""
    sweep: Callable[[Any], object]
    """Remove all files that the newest version of a table does not need, once its clock says that they are old."""


MODES: Mapping[str, Mapping[str, Any]] = {
    "append": {},
    "upsert": {"key": ["id"]},
    "delete": {"key": ["v"]},
    "cdc": {"key": ["id"]},
    "overwrite": {},
}
"""The options of a sink of each mode."""


# -- time series -------------------------------------------------------------------------------------------------------


def _live_segments(root: Path) -> list[dict[str, Any]]:
    """Of the newest version, from the commits alone."""
    live: dict[str, dict[str, Any]] = {}
    for commit in sorted(root.glob("_timeseries_log/??????????.json")):
        for action in json.loads(commit.read_text(encoding="utf-8"))["actions"]:
            ((name, body),) = action.items()
            if name == "AddSegment":
                live[body["path"]] = body
            elif name == "RemoveSegment":
                del live[body["path"]]
    return list(live.values())


def _series_rows(root: Path) -> Rows:
    """By DuckDB out of the segments, those in commits by pyarrow."""
    found: Rows = []
    for segment in _live_segments(root):
        if "data" in segment:
            table = pq.read_table(pa.BufferReader(base64.b64decode(segment["data"])))
        else:
            with duckdb.connect() as connection:
                table = connection.read_parquet(str(root / segment["path"])).to_arrow_table()
        assert table.num_rows == segment["row_count"]
        found += table.to_pylist()
    return found


def _series_files(root: Path) -> set[str]:
    named = [(one["path"], one.get("coverage_path")) for one in _live_segments(root) if "data" not in one]
    return {path for pair in named for path in pair if path is not None}


def _sweep_series(table: Any) -> None:
    table.expire(keep_versions=1)
    table.vacuum(timedelta(0), dry_run=False)


# -- Delta -------------------------------------------------------------------------------------------------------------


def _delta_rows(root: Path) -> Rows:
    """By deltalake."""
    found: pa.Table = DeltaLakeTable(str(root)).to_pyarrow_table()
    rows: Rows = found.to_pylist()
    return rows


def _delta_files(root: Path) -> set[str]:
    return {unquote(uri).removeprefix("file://").removeprefix(f"{root}/") for uri in DeltaLakeTable(str(root)).file_uris()}


TARGETS: Mapping[str, Target] = {
    "timeseries": Target(
        make=lambda place, storage: gl.create(place, index="ts", bucket="1h", schema=SCHEMA, storage_options=storage),
        open=lambda place, storage: gl.open(place, storage_options=storage),
        rows=_series_rows,
        files=_series_files,
        log="_timeseries_log",
        sweep=_sweep_series,
    ),
    "delta": Target(
        make=lambda place, storage: gl.delta.create(place, SCHEMA, storage_options=storage),
        open=lambda place, storage: gl.delta.open(place, storage_options=storage),
        rows=_delta_rows,
        files=_delta_files,
        log="_delta_log",
        sweep=lambda table: table.vacuum(timedelta(0), dry_run=False, enforce_retention=False),
    ),
    "iceberg": Target(
        make=iceberg_tables.make,
        open=iceberg_tables.Handle,
        rows=iceberg_tables.copied_rows,
        files=iceberg_tables.copied_files,
        log="metadata",
        sweep=lambda table: table.sweep(),
    ),
    "hudi": Target(
        make=lambda place, storage: hudi_targets.make(place, storage, SCHEMA),
        open=hudi_targets.HudiTarget,
        rows=hudi_targets.rows,
        files=hudi_targets.files,
        log=".hoodie",
        sweep=hudi_targets.sweep,
    ),
}
