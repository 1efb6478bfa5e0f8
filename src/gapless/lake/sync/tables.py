"""One table of a lake copied from one side to the other: files, then its history, then manifests; of a log, data before entries."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gapless.lake.layout.head import TableHead
from gapless.lake.layout.manifest import RECEIPT
from gapless.lake.layout.settings import read_history
from gapless.lake.sync.logs import LogPlan, copy_data, copy_entries, plan_log
from gapless.lake.sync.objects import Copier, is_behind
from gapless.lake.sync.plan import EVERYTHING, TablePlan, Wanted, check_complete, check_partitions, plan_table
from gapless.lake.sync.report import TableSync
from gapless.lake.sync.side import Contents, Side


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCopy:
    """What is to be copied of a table that `source` has."""

    table: str
    source: Side
    target: Side
    history: bytes
    """That of the source."""
    plan: TablePlan
    log: LogPlan | None
    """Where the table has one of its own."""
    contents: Contents
    """What the target has now."""

    @property
    def after(self) -> TableHead:
        """What it has then."""
        found = self.contents.union(self.plan.new).head(None if self.log is None else self.log.version)
        if not self.plan.chain:
            return found
        # Of older snapshots other partitions may be here.
        read = {one.path for one in self.plan.chain}
        named = {path: one for path, one in found.manifests.items() if path in read or "/runs/" in path}
        return replace(found, manifests=named)

    def perform(self) -> TableSync:
        """Copy. Raises Refused, CorruptTable, StoreError; what was copied by then is found by the next one."""
        copier = Copier(table=self.table, source=self.source, target=self.target)
        for path, file in self.plan.files:
            copier.file(path, file)
        if self.log is not None:
            copy_data(copier, self.log)
        copier.history(self.history)
        for path in self.plan.manifests:
            copier.manifest(path, self.plan.new.data[path])
        if self.log is not None:
            # A manifest counts once its commit is there; the other way round a cursor would be behind the rows.
            copy_entries(copier, self.log)
            for manifest in self.plan.new.manifests.values():
                path = f"{manifest.folder}/{RECEIPT}"
                if manifest.operation is not None and (receipt := self.source.object(path)) is not None:
                    copier.put(path, receipt)
        return TableSync(
            table=self.table,
            runs=len(self.plan.new.manifests),
            snapshots=len(self.plan.new.snapshots),
            objects=copier.objects,
            size=copier.size,
            log_version=None if self.log is None else self.log.version,
        )


def plan_copy(table: str, source: Side, target: Side, wanted: Wanted = EVERYTHING) -> TableCopy:
    """Look at both sides. Raises Refused, CorruptTable, InvalidOption for a snapshot or a partition that is not there, StoreError."""
    there = target.contents(table)
    given = source.contents(table, there)
    # In this order: columns that a manifest names are in the history by then.
    history = source.history(table)
    assert history is not None, table
    is_behind(table, target.history(table), history)
    settings = read_history(history, table).settings
    kind = settings.kind
    if source.head is not None and table in source.head.tables:
        check_complete(table, given, frozenset(source.head.tables[table].manifests))
    check_partitions(settings, given, wanted)
    return TableCopy(
        table=table,
        source=source,
        target=target,
        history=history,
        plan=plan_table(table, given, there, wanted),
        log=None if kind == "runs" else plan_log(table, kind, source, target),
        contents=there,
    )
