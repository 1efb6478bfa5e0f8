"""Columns of a lake table that two copies changed apart, brought together on one side. The other side's versions stay; ours get new numbers.

Manifests are not touched: the line that reconciles says which version each of ours means.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import takewhile

import pyarrow as pa

from gapless.errors import NotSupported
from gapless.lake.catalog.catalog import Catalog
from gapless.lake.catalog.rows import forget_table
from gapless.lake.drift import common_type
from gapless.lake.layout.schema import LakeSchema
from gapless.lake.layout.settings import (
    TableHistory,
    history_path,
    part_of,
    read_history,
    reconciled_line,
    schema_line,
    settings_line,
)
from gapless.lake.sync.config import check_lake, no_lake
from gapless.lake.sync.objects import is_behind
from gapless.lake.sync.plan import Refused
from gapless.lake.sync.replica import check_writable
from gapless.lake.sync.side import Contents, Side
from gapless.runtime.conditional_puts import replaced, tagged
from gapless.runtime.environment import Environment


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileReport:
    """What one reconciliation did."""

    table: str
    changed: bool
    """Whether the columns had gone on apart."""
    version: int
    """The newest version of the columns now."""
    columns: tuple[str, ...]
    renumbered: int
    """Manifests of ours whose versions have other numbers now."""


def reconcile(local: Environment, catalog: Catalog, remote: Environment, table: str) -> ReconcileReport:
    """Let the history of a table here go on as the other side's does, with our columns behind. A push brings it over then.

    Raises NotSupported for columns that no type holds, or that are named differently on both sides, and for a table with a log of its own;
    ReadOnlyReplica, InvalidPath, TableNotFound, CorruptTable, StoreError.
    """
    check_writable(local)
    ours, theirs = Side.at(local), Side(env=remote)
    config = theirs.config()
    if config is None:
        raise no_lake(theirs.url)
    check_lake(ours.config(), config, theirs.url)
    while True:
        # No run commits meanwhile, so that none names a version whose number is another's by then.
        with catalog.transaction() as connection:
            known, other = tagged(local, history_path(table)), theirs.history(table)
            assert known is not None, table
            history = read_history(known.data, table)
            if other is None or not _diverged(table, known.data, other):
                return _report(history, 0, changed=False)
            if history.settings.kind != "runs":
                raise _refused(table, f"a table of kind {history.settings.kind!r} has a log of its own, which one node writes")
            parts = _own_versions(ours.contents(table), theirs.contents(table))
            merged = merge_histories(table, known.data, other, parts)
            if replaced(local, history_path(table), merged, known) is not None:
                forget_table(connection, table)
                return _report(read_history(merged, table), len(parts), changed=True)


def merge_histories(table: str, ours: bytes, theirs: bytes, parts: Mapping[str, frozenset[int]]) -> bytes:
    """Their history, then what ours has that it has not. `parts` has the versions that our manifests name, by their folder. Raises NotSupported,
    CorruptTable.
    """
    ours_lines, theirs_lines = ours.splitlines(keepends=True), theirs.splitlines(keepends=True)
    common = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(ours_lines, theirs_lines, strict=False))))
    if not common:
        raise _refused(table, "it was made on both sides, and is two tables")
    before = read_history(b"".join(ours_lines[:common]), table)
    one, other = read_history(ours, table), read_history(theirs, table)
    shared = {schema.version for schema in before.all_schemas}
    own = [schema for schema in one.all_schemas if schema.version not in shared]
    first = max((schema.version for schema in other.all_schemas), default=0) + 1
    numbers = {schema.version: first + place for place, schema in enumerate(own)}
    told = {
        part: mapped
        for part, versions in sorted(parts.items())
        if (mapped := {raw: numbers[now] for raw in sorted(versions) if (now := one.meant(part, raw)) in numbers})
    }
    added = reconciled_line([replace(schema, version=numbers[schema.version]) for schema in own], told)
    schema = _merged(table, other.schema, one.schema, first + len(own))
    if schema is not None:
        added += schema_line(schema)
    if one.settings not in (before.settings, other.settings):
        if other.settings != before.settings:
            raise _refused(table, "its settings were changed on both sides: set one policy on both first")
        added += settings_line(one.settings)
    return theirs + added


def _merged(table: str, theirs: LakeSchema, ours: LakeSchema, version: int) -> LakeSchema | None:
    """All columns of both; None where theirs has them."""
    _check_names(table, theirs.fields, ours.fields)
    columns = {one.name: one.type for one in theirs.columns}
    changes = []
    for one in ours.columns:
        there = columns.get(one.name)
        type_ = one.type if there is None else common_type(there, one.type)
        if type_ is None:
            raise _refused(
                table,
                f"column {one.name!r} is {there} there and {one.type} here: let a run bring the wider type on the side that has the narrower",
            )
        if type_ != there:
            changes.append(f"{one.name}: {there or 'a new column'}, {type_} since both sides came together")
        columns[one.name] = type_
    if not changes and set(ours.fields) <= set(theirs.fields):
        return None
    return LakeSchema(
        version=version,
        columns=pa.schema([pa.field(name, type_) for name, type_ in columns.items()]),
        fields={**theirs.fields, **ours.fields},
        changes=tuple(changes),
    )


def _check_names(table: str, theirs: Mapping[str, str], ours: Mapping[str, str]) -> None:
    for field in theirs.keys() & ours.keys():
        if theirs[field] != ours[field]:
            raise _refused(table, f"the field {field!r} is column {theirs[field]!r} there and {ours[field]!r} here")
    for column in set(theirs.values()) & set(ours.values()):
        fields = [{field for field, name in side.items() if name == column} for side in (theirs, ours)]
        if not fields[0] & fields[1]:
            raise _refused(table, f"the column {column!r} is the field {min(fields[0])!r} there and {min(fields[1])!r} here")


def _own_versions(ours: Contents, theirs: Contents) -> dict[str, frozenset[int]]:
    """The versions that manifests of ours name which the other side has not, by folder."""
    found = {}
    for run in ours.manifests.values():
        if run.path not in theirs.data:
            found[part_of(run.path)] = frozenset(
                {run.schema_version, *(file.schema_version for file in (*run.files, *run.quarantined))}
            )
    for one in ours.snapshots.values():
        if one.path not in theirs.data:
            found[part_of(one.path)] = frozenset({one.schema_version, *(file.schema_version for file in one.files)})
    return found


def _diverged(table: str, ours: bytes, theirs: bytes) -> bool:
    try:
        is_behind(table, theirs, ours)
    except Refused:
        return True
    return False


def _report(history: TableHistory, renumbered: int, *, changed: bool) -> ReconcileReport:
    return ReconcileReport(
        table=history.settings.name,
        changed=changed,
        version=history.schema.version,
        columns=tuple(history.schema.columns.names),
        renumbered=renumbered,
    )


def _refused(table: str, why: str) -> NotSupported:
    return NotSupported(
        f"both sides of {table!r} cannot be reconciled",
        why=why,
        fix="Else copy the rows of one side into a table of another name",
        feature="reconciling such a table",
    )
