"""The end of prepared commits: taken back, unless the table has them, and removed with the files that nobody needs."""

from __future__ import annotations

from collections.abc import Collection

from gapless.connect.sinks.change import acts
from gapless.connect.sinks.epoch import RunningEpoch
from gapless.connect.sinks.opened_table import SinkTable
from gapless.errors import CommitConflict
from gapless.tables.shared.handle import is_stored
from gapless.tables.shared.prepared import PreparedCommit, forget_prepared, mark_aborted, prepared_commits


def take_back(table: SinkTable, prepared: PreparedCommit, running: RunningEpoch | None) -> bool:
    """Abort a prepared commit; False where it was committed. Files of the checkpoint in the making stay. Raises CommitConflict, StoreError."""
    if not _is_committed(table, prepared) and acts(prepared) and prepared.table_id == table.table_id:
        store = table.env.store
        # In this order: who finalizes it and has not seen the mark has read a version before the entry of `give_up`, and meets that.
        if mark_aborted(store, prepared) or any(is_stored(store, path) for path in prepared.needs):
            table.give_up(prepared)
    # In this order: who finalizes another one that names the same files removes its document once the table has them.
    shared = shared_files(table, prepared, running)
    committed = _is_committed(table, prepared)
    forget(table, prepared, but=shared)
    return not committed


def take_back_tries(table: SinkTable, running: RunningEpoch) -> None:
    """Abort documents of the checkpoint in the making that are stored, though no answer came: its rows go into another one.

    Raises CommitConflict where another process committed one, StoreError.
    """
    while running.tried:
        tried = running.tried[0]
        # Finalized elsewhere, it is gone, and its files are the table's.
        found = is_stored(table.env.store, tried.path) or (
            table.last(tried.operation) is not None and table.held(tried.data_files)
        )
        if found and not take_back(table, tried, running):
            raise CommitConflict(
                f"checkpoint {tried.checkpoint_id} of {tried.operation.app} was committed by another process, and its prepare failed here",
                why="The document was stored, though no answer came; its rows are in the table, and those that came since are not",
                fix="Call abort(None), and go on after last_committed() with the rows that are not in the table",
                version=table.version,
                reason="committed by another process",
            )
        del running.tried[0]


def shared_files(table: SinkTable, prepared: PreparedCommit, running: RunningEpoch | None) -> frozenset[str]:
    """Files that another prepared commit of the sink names, too, or will: it is a further try of the checkpoint, and this one came late."""
    others = prepared_commits(table.env.store, prepared.operation.app)
    named = (path for other in others if other.path != prepared.path and not other.aborted for path in other.needs)
    return frozenset((*named, *(() if running is None else running.epoch.attempt.written)))


def forget(table: SinkTable, prepared: PreparedCommit, *, but: Collection[str] = ()) -> None:
    """Remove the document, and files that no version has: rows that were read back and written anew, or were never the table's files.

    Those of `but` stay.
    """
    if acts(prepared):
        unneeded = () if table.held(prepared.data_files) else [path for path in prepared.needs if path not in but]
        forget_prepared(table.env.store, prepared, unneeded)


def _is_committed(table: SinkTable, prepared: PreparedCommit) -> bool:
    known = table.known(prepared.operation, prepared.change["mode"])
    if bool(table.held(prepared.data_files)):
        return True
    return known is not None and not table.was_given_up(prepared)
