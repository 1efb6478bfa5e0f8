"""What a lake holds, for whoever is to ask it: tables, columns, fingerprints, snapshots, newest runs."""

from __future__ import annotations

from dataclasses import dataclass

from gapless.lake.sync.report import ReplicaInfo
from gapless.lake.table import LakeTable
from gapless.lake.views import sql_type


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnDescription:
    """A column as a query sees it."""

    name: str
    type: str | None
    """DuckDB's type; None where no value has told the type: a query has no such column yet."""
    arrow: str
    """The declared type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDescription:
    """A run that committed rows."""

    run: str
    node: str
    status: str
    rows: int
    source: str
    finished_ns: int
    """Nanoseconds since 1970 UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDescription:
    """A table, which queries know by its name."""

    table: str
    kind: str
    key: tuple[str, ...]
    fingerprint: str
    """Names the columns and their types, as queries are to say them."""
    columns: tuple[ColumnDescription, ...]
    view: str | None
    """The file of the view's SQL below the lake; None for a table with a log of its own, without columns, or of which only partitions are here."""
    snapshots: tuple[str, ...]
    runs: tuple[RunDescription, ...]
    """The newest that are not only in snapshots, newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeDescription:
    """A lake."""

    lake: str
    replica: ReplicaInfo | None
    """Which state of which lake this copy has; None for a lake that runs write into."""
    tables: tuple[TableDescription, ...]
    lacking: tuple[str, ...]
    """Tables of the lake that this partial copy has not."""


def describe_table(table: LakeTable, runs: int) -> TableDescription:
    """A table with its newest `runs`. Raises CorruptTable, StoreError."""
    # In this order: columns that a manifest names are in the history by then.
    manifests = table.manifests()
    history = table.history
    known = [ColumnDescription(name=one.name, type=sql_type(one.type), arrow=str(one.type)) for one in history.schema.columns]
    return TableDescription(
        table=table.name,
        kind=history.settings.kind,
        key=history.settings.key,
        fingerprint=history.schema.fingerprint,
        columns=tuple(known),
        view=f"views/{table.name}.sql" if history.settings.kind == "runs" and known else None,
        snapshots=tuple(one.name for one in table.snapshots()),
        runs=tuple(
            RunDescription(
                run=one.run, node=one.node, status=one.status, rows=one.rows, source=one.source, finished_ns=one.finished_ns
            )
            for one in manifests[::-1][: max(runs, 0)]
        ),
    )
