"""Iceberg tables as sources, loaded when one is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from gapless.connect.sources.table.options import TableSourceOptions
from gapless.connect.sources.table.source import TableSource
from gapless.errors import InvalidOption, needs_library
from gapless.tables.iceberg.options import OPTIONS, parse_iceberg_options

READ_OPTIONS = ("ref", "snapshot_id")
"""Of Iceberg tables alone: a branch or tag, and the id of a snapshot."""


def open_iceberg_source(location: str, storage_options: Mapping[str, str] | None, options: Mapping[str, Any]) -> TableSource:
    """A source out of an Iceberg table. Raises InvalidOption, NotSupported without pyiceberg, TableNotFound, VersionNotFound, StoreError."""
    given = dict(options)
    catalog = {name: given.pop(name) for name in OPTIONS if name in given}
    ref, snapshot_id = given.pop("ref", None), given.pop("snapshot_id", None)
    _check(ref, snapshot_id, given)
    told = parse_iceberg_options(location, catalog, storage_options)
    if snapshot_id is not None:
        given = {**given, "mode": "batch"}
    asked = TableSourceOptions.parse(given, (*READ_OPTIONS, *OPTIONS))
    if find_spec("pyiceberg") is None:
        raise needs_library("a source out of an Iceberg table", "pyiceberg", "iceberg")
    from gapless.connect.sources.table.iceberg_table import MAIN, IcebergSourceTable
    from gapless.tables.iceberg.table import open_iceberg_table

    table = IcebergSourceTable(
        open_iceberg_table(told),
        ref=ref or MAIN,
        snapshot_id=snapshot_id,
        columns_of_now=asked.mode == "batch" and snapshot_id is None,
        pass_missing=asked.on_missing_versions == "earliest",
    )
    return TableSource(table, asked)


def _check(ref: object, snapshot_id: object, given: Mapping[str, Any]) -> None:
    if ref is not None and (not isinstance(ref, str) or not ref):
        raise InvalidOption(f"ref={ref!r} names no branch or tag", fix='Pass such as ref="audit"', option="ref", value=ref)
    if snapshot_id is None:
        return
    if type(snapshot_id) is not int:
        raise InvalidOption(
            f"snapshot_id={snapshot_id!r} is no id of a snapshot",
            why="It is a whole number",
            fix="Pass such as snapshot_id=3051729675574597004",
            option="snapshot_id",
            value=snapshot_id,
        )
    other = next((name for name in ("version", "time", "start", "since", "until") if given.get(name) is not None), None)
    if other is not None or ref is not None or given.get("mode", "snapshot") not in ("batch", "snapshot"):
        raise InvalidOption(
            f"snapshot_id= does not go with {other or ('ref' if ref is not None else 'mode')}=",
            why="It is all rows of one snapshot",
            fix="Leave one of them out",
            option="snapshot_id",
            value=snapshot_id,
        )
