"""Copies of a lake: which state they are of, what they refuse."""

from __future__ import annotations

from gapless.errors import NotReplicated, ReadOnlyReplica
from gapless.lake.layout.head import HEAD, Head
from gapless.lake.sync.report import ReplicaInfo
from gapless.lake.sync.side import read_head
from gapless.runtime.environment import Environment


def replica_info(env: Environment, head: Head) -> ReplicaInfo:
    """What a head says, and how old it is by this machine's clock."""
    return ReplicaInfo(
        source=head.source,
        number=head.number,
        time_ns=head.time_ns,
        age_s=max(0.0, (env.clock.now_ns() - head.time_ns) / 1e9),
        tables=tuple(sorted(head.tables)),
        snapshots=dict(head.snapshots),
        lacking=tuple(head.lacking),
    )


def check_writable(env: Environment) -> None:
    """Raise ReadOnlyReplica for a copy; StoreError."""
    head = read_head(env)
    if head is None:
        return
    raise ReadOnlyReplica(
        f"{env.store.url} is a copy of a lake, and is not written into",
        why=f"It was pulled from {head.source}" if head.source else "Lakes are pushed to it",
        fix=f"Write into the lake itself, or into a node's copy: gapless lake sync pull NEW_PATH {head.source or env.store.url} --writable",
        source=head.source,
    )


def not_replicated(env: Environment, head: Head, table: str) -> NotReplicated:
    """The error for a table that a partial copy lacks."""
    return NotReplicated(
        f"{env.store.url} has no copy of the table {table!r}",
        why=f"It was pulled from {head.source} without it",
        fix=f"Bring it: gapless lake sync pull {env.store.local_path(HEAD) or env.store.url} {head.source} --table {table}".replace(
            f"/{HEAD}", ""
        ),
        path=table,
    )
