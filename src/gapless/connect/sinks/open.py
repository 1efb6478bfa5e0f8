"""A sink by a URL and options."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import numpy as np

from gapless.connect.identity import SinkIdentity
from gapless.connect.location import place_of
from gapless.connect.sinks.change import ALL_COLUMNS, MODES, ON_EMPTY, PARTITION_OVERWRITES, check_names, names_of
from gapless.connect.sinks.epoch import SPILL_BYTES
from gapless.connect.sinks.evolution import parse_policy
from gapless.connect.sinks.opened_table import SinkTable
from gapless.connect.sinks.table.kinds import TABLE_KINDS, Asked
from gapless.connect.sinks.table_sink import TableSink
from gapless.errors import InvalidOption, nearest, one_of
from gapless.model.time.duration import parse_duration

KINDS = tuple(TABLE_KINDS)
_BY_KEY = ("key", "order_by")
_ALWAYS = ("spill_bytes", "spill_seconds", "target_bytes", "create", "schema_evolution")
_CHANGE_OPTIONS = {
    ("timeseries", "append"): ("on_overlap",),
    ("timeseries", "overwrite"): ("start", "end", "entity", "on_empty"),
    ("delta", "append"): ("schema_mode",),
    ("delta", "overwrite"): ("where", "on_empty"),
    ("iceberg", "append"): (),
    ("hudi", "append"): (),
    ("hudi", "overwrite"): ("partition_overwrite", "on_empty"),
    ("iceberg", "overwrite"): ("on_empty",),
    **{(kind, mode): _BY_KEY for kind in KINDS for mode in ("upsert", "delete")},
    **{(kind, "cdc"): (*_BY_KEY, "change_type") for kind in KINDS},
    ("delta", "upsert"): (*_BY_KEY, "schema_mode"),
    ("delta", "cdc"): (*_BY_KEY, "change_type", "schema_mode"),
}


def sink(
    url: str | os.PathLike[str],
    *,
    pipeline: str,
    name: str = "main",
    generation: int = 1,
    mode: str = "append",
    create: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, str] | None = None,
    **options: Any,
) -> TableSink:
    """A sink into a table, for the two-phase commits of one pipeline.

    Args:
        url: "delta:", "timeseries:", "iceberg:" or "hudi:", and the path or URL of the table, as in "delta:s3://lake/trips"; or the path or URL alone of
            a time-series or Delta table that is there. Of an Iceberg table in a catalog its name: "iceberg:sales.trips".
        pipeline: Whose rows these are, and
        name: into which of its sinks: together they name the sequence of checkpoints that the table remembers.
        generation: One more each time the pipeline is made anew from nothing, with an empty checkpoint store.
        mode: "append", "upsert" (rows take the place of those with their key), "overwrite" (each checkpoint's rows take the place of all, or of a
            part), "delete" (rows are keys whose rows go) or "cdc" (rows say in a column what happened to each).
        create: How a missing table is made: the arguments of `gl.create` or `gl.delta.create` but path and schema; of an Iceberg table
            `partition_by`, `properties` and `location`; of a Hudi table `record_key` and `order_by` (those of the sink where left out),
            `partition_by`, `hive_style`, `url_encode`, `table_name`.
        storage_options: Options of the object store, in obstore's names.
        options: Of a mode: `on_overlap` (appends to time series), `schema_mode` (into Delta tables: append, upsert, cdc), `where` (overwrites of Delta tables),
            `start`, `end`, `entity` (overwrites of time series), `on_empty` (overwrites), `partition_overwrite` ("static", or "dynamic" for the partitions of the rows; Hudi tables); `key`, the columns that tell rows apart, and `order_by`, those that tell newer
            from older ones (upsert, delete, cdc); `change_type`, the column of cdc that says what happened. Of all modes `spill_bytes` of Arrow
            memory, after which rows are staged (256 MiB), and which files in the making take besides; `spill_seconds`, or a text such as
            "5m", after which files are finished at the latest, with the next rows; `target_bytes`, about how large data files become on disk.
            Of all modes but "delete" `schema_evolution`: "refuse", "add" (columns that the table lacks), or "widen" (types too).
            Of Iceberg tables `catalog_type` ("sql", "rest", "glue", "hive"; "directory" where none is said), `catalog_uri`, `catalog_name`
            (also of one that pyiceberg is configured for), `warehouse`, `namespace`, `table_name`, `catalog_properties` (what pyiceberg's catalog
            takes besides, such as a credential), and `partition_by`, such as ["day(ts)", "bucket(16, id)"], by which a missing table is made.

    Raises InvalidOption. Nothing is opened before `initialize`; where `url` says no kind, it is looked at what lies there.
    """
    kind, location = place_of(url, KINDS, storage_options)
    identity = SinkIdentity(pipeline=pipeline, sink=name, generation=generation)
    spill_bytes = parse_size("spill_bytes", options.pop("spill_bytes", SPILL_BYTES))
    spill_seconds = _parse_seconds(options.pop("spill_seconds", None))
    place = SinkPlace(kind=kind, location=location, storage_options=storage_options)
    table, change = sink_table(place, mode, options, create=create, held_bytes=spill_bytes)
    return TableSink(table, identity, change, spill_bytes=spill_bytes, spill_seconds=spill_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkPlace:
    """Where the table of a sink lies, or what its catalog calls it."""

    kind: str
    """One of `KINDS`."""
    location: str
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)


def sink_table(
    place: SinkPlace, mode: str, options: Mapping[str, Any], *, create: Mapping[str, Any] | None, held_bytes: int
) -> tuple[SinkTable, dict[str, Any]]:
    """The table of a sink with these options, which are those of `sink` without `spill_bytes` and `spill_seconds`, and the change that its
    rows are; nothing is opened. Raises InvalidOption.
    """
    kind, options = place.kind, dict(options)
    asked = options.pop("target_bytes", None)
    target_bytes = None if asked is None else parse_size("target_bytes", asked)
    evolution = parse_policy(options.pop("schema_evolution", "refuse"))
    _check_create(kind, create)
    own = {name: options.pop(name) for name in TABLE_KINDS[kind].own_options if name in options}
    change = {"mode": _parse_mode(mode), **_parse_options(kind, mode, options)}
    if (kind, mode) == ("timeseries", "append"):
        # Checkpoints know their own rows; several of them fall into one bucket.
        change.setdefault("on_overlap", "allow")
    for option, value in (
        ("create", create),
        ("partition_by", own.get("partition_by")),
        ("schema_evolution", None if evolution == "refuse" else evolution),
    ):
        if mode == "delete" and value is not None:
            raise InvalidOption(
                f'{option} is no option of mode="delete"',
                why="Rows that are keys say too little to make a table, or columns of one",
                fix="Leave it out",
                option=option,
                value=value,
            )
    sizes: dict[str, Any] = {"evolution": evolution, "target_bytes": target_bytes, "held_bytes": held_bytes}
    table = TABLE_KINDS[kind].reached(
        Asked(location=place.location, storage_options=place.storage_options, create=create, own=own, sizes=sizes)
    )
    return table, change


def parse_size(name: str, value: object) -> int:
    """A number of bytes from 1. Raises InvalidOption."""
    if type(value) is not int or value < 1:
        raise InvalidOption(
            f"{name}={value!r} is no size", why="It counts bytes", fix="Pass a whole number from 1", option=name, value=value
        )
    return value


def _parse_seconds(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e9:
        return float(value)
    seconds = parse_duration(value, "spill_seconds").total_seconds()
    if not seconds:
        raise InvalidOption(
            f"spill_seconds={value!r} is no time to wait",
            why="Rows are staged after so long at the latest",
            fix='Pass such as spill_seconds=60 or "5m"',
            option="spill_seconds",
            value=value,
        )
    return seconds


def _check_create(kind: str, create: object) -> None:
    """Raise InvalidOption for what `gl.create` or `gl.delta.create` does not take."""
    if create is None:
        return
    known = TABLE_KINDS[kind].create_options
    for name in create if isinstance(create, Mapping) else (create,):
        if not isinstance(create, Mapping) or name not in known:
            raise InvalidOption(
                f"create has {name!r}, with which no {kind} table is made",
                why=f"It is a dict of {', '.join(known)}",
                fix=nearest(str(name), known),
                option="create",
                value=create,
            )


def _parse_mode(mode: str) -> str:
    return one_of("mode", mode, MODES)


def _parse_options(kind: str, mode: str, options: Mapping[str, Any]) -> dict[str, Any]:
    known = _CHANGE_OPTIONS[kind, mode]
    for text, example in (("where", "where=\"day = '2026-01-05'\""), ("change_type", 'change_type="op"')):
        if not isinstance(options.get(text) or "", str):
            raise InvalidOption(
                f"{text}={options[text]!r} is no text",
                why="A prepared commit keeps it as text",
                fix=f"Pass {example}",
                option=text,
                value=options[text],
            )
    for name, value in options.items():
        if name not in known:
            raise InvalidOption(
                f"{name}={value!r} is no option of {mode} into {'an' if kind == 'iceberg' else 'a'} {kind} table",
                why=f"It has {', '.join(known) or 'none'}",
                fix=nearest(name, (*known, *_ALWAYS, *TABLE_KINDS[kind].own_options)),
                option=name,
                value=value,
            )
    given = {name: value for name, value in options.items() if value is not None}
    for name in given.keys() & {"key", "order_by", "change_type"}:
        check_names(name, given[name])
    one_of("on_empty", given.get("on_empty", "keep"), ON_EMPTY)
    one_of("partition_overwrite", given.get("partition_overwrite", "static"), PARTITION_OVERWRITES)
    _check_counted(mode, given)
    return {name: _told(name, value) for name, value in given.items()}


def _check_counted(mode: str, given: Mapping[str, Any]) -> None:
    """Raise InvalidOption where rows are told apart by all their values, and that makes no sense."""
    if names_of(given.get("order_by")) == (ALL_COLUMNS,) or (
        names_of(given.get("key")) == (ALL_COLUMNS,) and (mode != "cdc" or "order_by" in given)
    ):
        raise InvalidOption(
            f'"*" stands for all columns, as the key of mode="cdc" without order_by, and not of {mode} with {", ".join(sorted(given))}',
            why="Rows that all their values tell apart are never newer or older than each other, and none takes the place of another",
            fix="Name the columns of the key",
            option="key",
            value=given.get("key"),
        )


def _told(name: str, value: Any) -> Any:
    """An option as a prepared commit keeps it: plain JSON. Raises InvalidOption."""
    if isinstance(value, date | np.datetime64):
        return str(value) if isinstance(value, np.datetime64) else value.isoformat()
    if isinstance(value, Mapping):
        return {str(key): _told(name, one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_told(name, one) for one in value]
    if value is None or isinstance(value, str | bool | int):
        return value
    raise InvalidOption(
        f"{name}={value!r} cannot be kept in a prepared commit",
        why="It keeps numbers, texts and times",
        fix="Pass a time as datetime or ISO text, others as int or str",
        option=name,
        value=value,
    )
