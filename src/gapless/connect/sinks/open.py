"""A sink by a URL and options."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from datetime import date
from typing import Any, get_type_hints

import numpy as np

from gapless.connect.identity import SinkIdentity
from gapless.connect.location import split_url
from gapless.connect.sinks.change import ALL_COLUMNS, MODES, ON_EMPTY, check_names, names_of
from gapless.connect.sinks.evolution import parse_policy
from gapless.connect.sinks.table_sink import SPILL_BYTES, TableSink
from gapless.connect.sinks.tables import DeltaSinkTable, SeriesSinkTable
from gapless.errors import InvalidOption, nearest
from gapless.model.time.duration import parse_duration
from gapless.tables.delta.table import DeltaTable
from gapless.tables.timeseries.lifecycle import IndexOptions
from gapless.tables.timeseries.table import TimeSeriesTable

KINDS = ("timeseries", "delta")
_BY_KEY = ("key", "order_by")
_CHANGE_OPTIONS = {
    ("timeseries", "append"): ("on_overlap",),
    ("timeseries", "overwrite"): ("start", "end", "entity", "on_empty"),
    ("delta", "append"): ("schema_mode",),
    ("delta", "overwrite"): ("where", "on_empty"),
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
        url: "delta:" or "timeseries:", and the path or URL of the table, as in "delta:s3://lake/trips".
        pipeline: Whose rows these are, and
        name: into which of its sinks: together they name the sequence of checkpoints that the table remembers.
        generation: One more each time the pipeline is made anew from nothing.
        mode: "append", "upsert" (rows take the place of those with their key), "overwrite" (each checkpoint's rows take the place of all, or of a
            part), "delete" (rows are keys whose rows go) or "cdc" (rows say in a column what happened to each).
        create: How a missing table is made: the arguments of `gl.create` or `gl.delta.create` but path and schema.
        storage_options: Options of the object store, in obstore's names.
        options: Of a mode: `on_overlap` (appends to time series), `schema_mode` (into Delta tables: append, upsert, cdc), `where` (overwrites of Delta tables),
            `start`, `end`, `entity` (overwrites of time series), `on_empty` (overwrites); `key`, the columns that tell rows apart, and `order_by`, those that tell newer
            from older ones (upsert, delete, cdc); `change_type`, the column of cdc that says what happened. Of all modes `spill_bytes` of Arrow
            memory, after which rows are staged (256 MiB), and `spill_seconds`, or a text such as "5m", after which they are at the latest, with
            the next ones; `target_bytes`, about how large data files become on disk, where so many rows are staged at once.
            Of all modes but "delete" `schema_evolution`: "refuse", "add" (columns that the table lacks), or "widen" (types too).

    Raises InvalidOption. Nothing is opened before `initialize`.
    """
    kind, location = split_url(url, KINDS)
    identity = SinkIdentity(pipeline=pipeline, sink=name, generation=generation)
    spill_bytes = _parse_size("spill_bytes", options.pop("spill_bytes", SPILL_BYTES))
    spill_seconds = _parse_seconds(options.pop("spill_seconds", None))
    asked = options.pop("target_bytes", None)
    target_bytes = None if asked is None else _parse_size("target_bytes", asked)
    evolution = parse_policy(options.pop("schema_evolution", "refuse"))
    _check_create(kind, create)
    change = {"mode": _parse_mode(mode), **_parse_options(kind, mode, options)}
    if (kind, mode) == ("timeseries", "append"):
        # Checkpoints know their own rows; several of them fall into one bucket.
        change.setdefault("on_overlap", "allow")
    for option, value in (("create", create), ("schema_evolution", None if evolution == "refuse" else evolution)):
        if mode == "delete" and value is not None:
            raise InvalidOption(
                f'{option} is no option of mode="delete"',
                why="Rows that are keys say too little to make a table, or columns of one",
                fix="Leave it out",
                option=option,
                value=value,
            )
    table: SeriesSinkTable | DeltaSinkTable
    place: dict[str, Any] = {
        "location": location,
        "storage_options": storage_options,
        "evolution": evolution,
        "target_bytes": target_bytes,
    }
    # A Delta table is made of no options, too.
    table = DeltaSinkTable(**place, create=create) if kind == "delta" else SeriesSinkTable(**place, create=create or None)
    return TableSink(table, identity, change, spill_bytes=spill_bytes, spill_seconds=spill_seconds)


def _parse_size(name: str, value: object) -> int:
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
    make = DeltaTable.create if kind == "delta" else TimeSeriesTable.create
    taken = inspect.signature(make).parameters.values()
    known = [one.name for one in taken if one.kind is one.KEYWORD_ONLY and one.name not in ("schema", "storage_options")]
    known += [] if kind == "delta" else list(get_type_hints(IndexOptions))
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
    if mode not in MODES:
        raise InvalidOption(f"mode={mode!r} is not known", fix=nearest(str(mode), MODES), option="mode", value=mode)
    return mode


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
                f"{name}={value!r} is no option of {mode} into a {kind} table",
                why=f"It has {', '.join(known) or 'none'}",
                fix=nearest(name, (*known, "spill_bytes", "spill_seconds", "target_bytes", "create", "schema_evolution")),
                option=name,
                value=value,
            )
    given = {name: value for name, value in options.items() if value is not None}
    for name in given.keys() & {"key", "order_by", "change_type"}:
        check_names(name, given[name])
    if given.get("on_empty", "keep") not in ON_EMPTY:
        raise InvalidOption(
            f"on_empty={given['on_empty']!r} is not known",
            fix=nearest(str(given["on_empty"]), ON_EMPTY),
            option="on_empty",
            value=given["on_empty"],
        )
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
