"""Copies of a lake: which state they are of, what they refuse."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from gapless.errors import InvalidOption, NotReplicated, ReadOnlyReplica, nearest
from gapless.lake.layout.head import HEAD, Head
from gapless.lake.layout.partitions import is_within
from gapless.lake.layout.snapshots import LiveRows
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
        partitions={name: tuple(one) for name, one in head.partitions.items()},
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
        fix=f"Bring it: {_command(env, head)} --table {table}",
        path=table,
    )


def partly_replicated(env: Environment, head: Head, table: str, lacking: Sequence[str] = ()) -> NotReplicated:
    """The error for a table of which a copy has some partitions, where all are asked for, or `lacking` ones."""
    if lacking:
        what = f"{env.store.url} has no copy of the partition {lacking[0]!r} of {table!r}"
        fix = "Bring them: " if len(lacking) > 1 else "Bring it: "
        fix += _command(env, head) + "".join(f" --partition {table}={one}" for one in lacking)
    else:
        what = f"{env.store.url} has some partitions of {table!r}, and no copy of all its rows"
        here = head.partitions[table]
        fix = f"Name those that are meant, partitions={{{table!r}: {list(here)!r}}}, or bring the table: {_command(env, head)} --table {table}"
    return NotReplicated(what, why=f"It was pulled from {head.source} without the others", fix=fix, path=table)


def _is_here(partition: str, here: Sequence[str], folders: Collection[str]) -> bool:
    """Whether a copy has all of a partition: it is one of those that it has, or all parts of it are."""
    parts = [one for one in folders if is_within(one, [partition])]
    return is_within(partition, here) or (bool(parts) and all(is_within(one, here) for one in parts))


def _command(env: Environment, head: Head) -> str:
    root = (env.store.local_path(HEAD) or f"{env.store.url}/{HEAD}").removesuffix(f"/{HEAD}")
    return f"gapless lake sync pull {root} {head.source}"


def chosen_partitions(env: Environment, table: str, live: LiveRows, partitions: Sequence[str] | None) -> LiveRows:
    """What is read of a table: all of it, or these partitions of its snapshots without the runs behind them. Raises NotReplicated where this copy
    lacks what is asked for, InvalidOption for a partition that is not there.
    """
    head = read_head(env)
    here = None if head is None else head.partitions.get(table)
    if partitions is None:
        if head is None or here is None:
            return live
        raise partly_replicated(env, head, table)
    folders = {file.path.rpartition("/")[0] for one in live.snapshots for file in one.files}
    if head is not None and here is not None and (lacking := [one for one in partitions if not _is_here(one, here, folders)]):
        raise partly_replicated(env, head, table, lacking)
    for one in partitions:
        if here is None and not any(is_within(folder, [one]) for folder in folders):
            raise InvalidOption(
                f"the newest snapshot of {table!r} has no partition {one!r}",
                fix=nearest(one, folders),
                option="partitions",
                value=one,
            )
    return LiveRows(
        snapshots=tuple(
            replace(one, files=tuple(file for file in one.files if is_within(file.path, partitions))) for one in live.snapshots
        )
    )
