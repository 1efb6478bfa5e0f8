"""The commit that makes a table."""

from __future__ import annotations

from gapless.errors import GaplessError
from gapless.log.commit import CommitOptions, Committed, Unknown, commit
from gapless.log.effects import Conversation
from gapless.log.format import Conflicting, Entry, Snapshot, State, TableFormat
from gapless.log.snapshot import advance
from gapless.runtime.committer import outcome_unknown
from gapless.runtime.environment import Environment
from gapless.runtime.metrics import COMMITS, UNKNOWN
from gapless.store.open import probe_put_if_absent


def commit_first(
    env: Environment,
    table_format: TableFormat[Entry, State],
    entry: Entry,
    exists: GaplessError,
    *,
    time_ns: int | None = None,
) -> Snapshot[State]:
    """Commit a table's first version, and return what the log then holds. `time_ns` is as in `Proposal`. Raises `exists` where another made
    one first, StoreError, and CommitOutcomeUnknown.
    """
    probe_put_if_absent(env.store)
    match env.drive(
        commit(table_format, table_format.first - 1, 0, entry, _follows_none, options=CommitOptions(time_ns=time_ns))
    ):
        case Committed(version, entries):
            COMMITS.add(1, table_format.kind, table_format.operation_of(entry), env.store.url)
            first = Snapshot(version, entries[0][2], table_format.replay(None, entries[:1]))
            return advance(table_format, first, entries[1:])
        case Unknown(version):
            UNKNOWN.add(1, table_format.kind, table_format.operation_of(entry), env.store.url)
            raise outcome_unknown(version, table_format.id_of(entry))
        case _:
            raise exists


def _follows_none(_mine: object, _version: int, _theirs: object) -> Conversation[Conflicting]:
    """A first version never follows another commit."""
    yield from ()
    return Conflicting("exists")
