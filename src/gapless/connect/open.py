"""Sinks and sources by a URL and options."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from gapless.connect.identity import SinkIdentity
from gapless.connect.sink_tables import DeltaSinkTable, SeriesSinkTable
from gapless.connect.source_tables import DeltaSourceTable, SeriesSourceTable
from gapless.connect.table_sink import MODES, SPILL_BYTES, TableSink
from gapless.connect.table_source import OnChange, TableSource
from gapless.errors import InvalidOption, nearest
from gapless.tables.delta.table import DeltaTable
from gapless.tables.timeseries.table import TimeSeriesTable

KINDS = ("timeseries", "delta")
_CHANGE_OPTIONS = {
    ("timeseries", "append"): ("on_overlap",),
    ("timeseries", "upsert"): ("key",),
    ("timeseries", "overwrite"): (),
    ("delta", "append"): ("schema_mode",),
    ("delta", "upsert"): ("key",),
    ("delta", "overwrite"): ("where",),
}


def sink(
    url: str | os.PathLike[str],
    *,
    pipeline: str,
    name: str,
    generation: int = 1,
    mode: str = "append",
    create: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, str] | None = None,
    **options: Any,
) -> TableSink:
    """A sink into a table, for the two-phase commits of one pipeline.

    Args:
        url: "delta:" or "timeseries:", and the path or URL of the table, as in "delta:s3://lake/trips".
        pipeline: Whose rows these are, and
        name: into which of its sinks: together they name the sequence of checkpoints that the table remembers.
        generation: One more each time the pipeline is made anew from nothing.
        mode: "append", "upsert" (rows take the place of those with their key), or "overwrite" (each checkpoint's rows take the place of all).
        create: How a missing table is made: the arguments of `gl.create` or `gl.delta.create` but path and schema.
        storage_options: Options of the object store, in obstore's names.
        options: Of a mode: `on_overlap` (appends to time series), `schema_mode` (appends to Delta tables), `key` (upserts), `where`
            (overwrites of Delta tables); `spill_bytes` and, of Delta tables, `target_bytes`.

    Raises InvalidOption. Nothing is opened before `initialize`.
    """
    kind, location = _split(url)
    identity = SinkIdentity(pipeline=pipeline, sink=name, generation=generation)
    spill_bytes = options.pop("spill_bytes", SPILL_BYTES)
    target_bytes = options.pop("target_bytes", None) if kind == "delta" else None
    change = {"mode": _parse_mode(mode), **_parse_options(kind, mode, options)}
    table: SeriesSinkTable | DeltaSinkTable
    if kind == "delta":
        table = DeltaSinkTable(location=location, storage_options=storage_options, create=create, target_bytes=target_bytes)
    else:
        table = SeriesSinkTable(location=location, storage_options=storage_options, create=create or {})
    return TableSink(table, identity, change, spill_bytes=spill_bytes)


def source(
    url: str | os.PathLike[str],
    *,
    start: object = None,
    until: int | None = None,
    on_change: OnChange = "error",
    storage_options: Mapping[str, str] | None = None,
) -> TableSource:
    """A source out of a table.

    Args:
        url: As in `sink`.
        start: None for all rows of the newest version first, and then what later commits add; "latest" for the commits after the newest version
            alone; "earliest" for those from the first that can be told; or the number of a version, inclusive.
        until: The last version that is read; None to follow the table.
        on_change: What to do with commits that changed or removed rows: "error", "skip" them whole, or "tell" the `_change_type` of each row.
        storage_options: Options of the object store, in obstore's names.

    Raises InvalidOption, TableNotFound, StoreError.
    """
    kind, location = _split(url)
    if kind == "delta":
        delta = DeltaSourceTable(DeltaTable.open(location, storage_options=storage_options))
        return TableSource(delta, start=start, until=until, on_change=on_change)
    series = SeriesSourceTable(TimeSeriesTable.open(location, storage_options=storage_options))
    return TableSource(series, start=start, until=until, on_change=on_change)


def _split(url: str | os.PathLike[str]) -> tuple[str, str]:
    kind, colon, location = os.fspath(url).partition(":")
    if not colon or kind not in KINDS or not location:
        raise InvalidOption(
            f"{os.fspath(url)!r} names no kind of table",
            why=f"What comes before the first ':' is the kind, one of {' and '.join(map(repr, KINDS))}",
            fix=f"Pass such as 'delta:trips' or 'timeseries:s3://bucket/prices'. {nearest(kind, KINDS)}",
            option="url",
            value=os.fspath(url),
        )
    return kind, location


def _parse_mode(mode: str) -> str:
    if mode not in MODES:
        raise InvalidOption(f"mode={mode!r} is not known", fix=nearest(str(mode), MODES), option="mode", value=mode)
    return mode


def _parse_options(kind: str, mode: str, options: Mapping[str, Any]) -> dict[str, Any]:
    known = _CHANGE_OPTIONS[kind, mode]
    for name, value in options.items():
        if name not in known:
            raise InvalidOption(
                f"{name}={value!r} is no option of {mode} into a {kind} table",
                why=f"It has {', '.join(known) or 'none'}",
                fix=nearest(name, (*known, "spill_bytes", "target_bytes", "create")),
                option=name,
                value=value,
            )
    return {name: list(value) if isinstance(value, tuple) else value for name, value in options.items() if value is not None}
