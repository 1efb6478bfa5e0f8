"""The commit of one node's part of a run: its manifest, put if absent; for tables with a log of their own then the commit there."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from gapless.errors import (
    CommitConflict,
    ConflictError,
    CorruptTable,
    DataError,
    NotSupported,
    ObjectNotFound,
    StoreError,
    TableNotFound,
)
from gapless.lake.catalog.catalog import Catalog
from gapless.lake.catalog.rows import Lease, check_lease, record_manifest, record_schema
from gapless.lake.drift import DriftPolicy
from gapless.lake.layout.manifest import RECEIPT, Manifest, decode
from gapless.lake.layout.schema import LakeSchema
from gapless.lake.layout.settings import TableSettings, history_path, read_history
from gapless.lake.objects import create_once
from gapless.log.format import Snapshot
from gapless.model.operation import JobId
from gapless.runtime.environment import Environment
from gapless.tables.delta.lifecycle import open_table as open_delta
from gapless.tables.delta.table import DeltaTable
from gapless.tables.shared.handle import open_environment
from gapless.tables.shared.prepared import sealed
from gapless.tables.timeseries.lifecycle import open_table as open_series
from gapless.tables.timeseries.table import TimeSeriesTable

_LOGGER = logging.getLogger("gapless.lake")

LogTable = TimeSeriesTable | DeltaTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Committer:
    """Commits into one table of a lake."""

    env: Environment
    catalog: Catalog
    settings: TableSettings
    schemas: Sequence[LakeSchema] = ()
    """The versions of the table's columns, of which the catalog may lack some."""
    columns: Mapping[int, str] = field(default_factory=dict)
    """The fingerprint of each version of the columns that the rows were made for."""
    log_table: LogTable | None = None
    """The table that has the rows, where it has a log of its own."""

    def commit(self, manifest: Manifest, lease: Lease | None, rows: pa.Table | None) -> Manifest:
        """Make a run count, once; gives what is committed under its run and node.

        The lease is looked at in the transaction of the catalog that goes around the put, so that nobody else can have it meanwhile. Where the
        catalog fails once the manifest is there, the run counts all the same, and the next one tells the catalog. Raises LeaseRefused, CommitConflict where another run has the name, CommitOutcomeUnknown, StoreError, and what an append of the table's kind
        raises; then nothing is committed, unless the outcome is not known.
        """
        counts: Manifest | None = None
        try:
            with self.catalog.transaction() as connection:
                if lease is not None:
                    check_lease(connection, lease, self.env.clock.now_ns())
                check_columns(self.env, self.settings.name, self.columns)
                found = self._put(manifest)
                if self.log_table is not None and rows is not None:
                    self._append(found, rows)
                counts = found
                for schema in self.schemas:
                    record_schema(connection, self.settings.name, schema)
                record_manifest(connection, found)
        except StoreError as error:
            if counts is None:
                raise
            _LOGGER.warning("%s: run %s is committed, and the catalog lacks it: %s", self.env.store.url, counts.run, error.what)
        assert counts is not None  # else it raised
        return counts

    def _put(self, manifest: Manifest) -> Manifest:
        data = manifest.encode()
        found = create_once(self.env, manifest.path, data)
        if found == data:
            return manifest
        try:
            theirs = decode(found, manifest.path)
        except CorruptTable:
            # Torn, so that it never counted: a copy that was broken off.
            self.env.store.put(manifest.path, data, mode="overwrite")
            return manifest
        if theirs.same_rows(manifest):
            return theirs
        raise CommitConflict(
            f"run {manifest.run} of node {manifest.node!r} is committed in {manifest.table!r} already, with other rows",
            why="Two runs were given one run_id and one node",
            fix="Leave run_id out, or give each node its own name: gl.lake.open(root, node=…)",
            version=0,
            reason="another run",
        )

    def _append(self, manifest: Manifest, rows: pa.Table) -> None:
        assert self.log_table is not None
        try:
            report = self.log_table.append(rows, operation_id=manifest.operation)
        except (DataError, ConflictError):
            self.env.store.delete(manifest.path)  # nothing landed, and nothing will
            raise
        put_receipt(self.env, manifest, report.version)


def check_columns(env: Environment, table: str, columns: Mapping[int, str]) -> None:
    """Raise CommitConflict where a version of the columns is another one now, as after a reconciliation; CorruptTable, StoreError."""
    history = read_history(env.store.get(history_path(table)), table)
    for version, fingerprint in columns.items():
        if version and history.version(version).fingerprint != fingerprint:
            raise CommitConflict(
                f"version {version} of the columns of {table!r} is another one now",
                why="The table was reconciled with another copy meanwhile",
                fix="Run it again: nothing was committed",
                version=version,
                reason="reconciled",
            )


def put_receipt(env: Environment, manifest: Manifest, version: int) -> None:
    """Say beside a manifest which version its commit became, for ever: the log remembers operation ids for some time only."""
    create_once(env, f"{manifest.folder}/{RECEIPT}", sealed({"operation": manifest.operation, "version": version}).encode())


def committed_version(env: Environment, manifest: Manifest, log: Snapshot[Any] | None, *, heal: bool) -> int | None:
    """The version that the commit of a manifest became in the table's own log, by its receipt or by the operation id; None where it did not.

    A receipt that is missing is put where `heal` says so. Raises StoreError.
    """
    try:
        body = json.loads(env.store.get(f"{manifest.folder}/{RECEIPT}"))
        return int(body["version"])
    except ObjectNotFound:
        pass
    except (ValueError, TypeError, KeyError):
        heal = False  # torn: the log is asked
    if log is None or (applied := log.state.recognise(JobId(str(manifest.operation)))) is None:
        return None
    version = int(log.version if applied.version is None else applied.version)
    if heal:
        put_receipt(env, manifest, version)
    return version


def log_snapshot(location: str, settings: TableSettings) -> Snapshot[Any] | None:
    """The newest version of the log of a table at a place; None where it is not made yet. Raises StoreError, CorruptTable."""
    opener = open_series if settings.kind == "timeseries" else open_delta
    try:
        return opener(open_environment(location, None), location)
    except TableNotFound:
        return None


def open_log_table(location: str, settings: TableSettings) -> LogTable | None:
    """The table at a place of a lake table that has a log of its own; None where it is not made yet. Raises StoreError."""
    opener = TimeSeriesTable if settings.kind == "timeseries" else DeltaTable
    try:
        return opener.open(location)
    except TableNotFound:
        return None


def make_log_table(location: str, settings: TableSettings, schema: LakeSchema) -> LogTable:
    """The same, made with the columns where it is not there, and with new columns added where it is. Raises NotSupported, and as create."""
    found = open_log_table(location, settings)
    columns = pa.schema([one for one in schema.columns if not pa.types.is_null(one.type)])
    options: Mapping[str, object] = settings.options
    if found is None:
        kind: type[LogTable] = TimeSeriesTable if settings.kind == "timeseries" else DeltaTable
        return kind.create(location, schema=columns, **options)  # type: ignore[arg-type]  # checked by the settings' parse
    _follow_columns(found, columns)
    return found


def _follow_columns(table: LogTable, columns: pa.Schema) -> None:
    there = {} if table.schema is None else {one.name: one.type for one in table.schema}
    for one in columns:
        if one.name not in there:
            _add_column(table, one)
        elif there[one.name] != one.type:
            raise NotSupported(
                f"column {one.name!r} is {there[one.name]} in the table, and would become {one.type}",
                why="A lake's drift policy only adds columns to tables with a log of their own",
                fix="Widen the column by the table's own means, or set the policy to refuse or quarantine such rows",
                feature="widening of a lake table with a log of its own",
            )


def _add_column(table: LogTable, column: pa.Field) -> None:
    if isinstance(table, TimeSeriesTable):
        table.add_column(column.name, column.type)
    else:
        table.alter.add_column(column.name, column.type)


def policy_of(settings: TableSettings) -> DriftPolicy:
    """The drift policy as it holds for the kind of table: one with a log of its own gets further columns, and no other types."""
    given = settings.drift
    if settings.kind == "runs":
        return given
    narrowed = {name: "refuse" if value == "allow" else value for name, value in given.body.items() if name != "add"}
    return DriftPolicy(add=given.add, **narrowed)  # type: ignore[arg-type]  # actions
