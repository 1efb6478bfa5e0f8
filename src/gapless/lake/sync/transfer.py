"""Push, pull and status: whole lakes, table by table, then the head that says what is there, then views and `lake.toml`."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gapless.errors import (
    InvalidPath,
    NotSupported,
    ReadOnlyReplica,
    StoreError,
    SyncConflict,
    TableNotFound,
    nearest,
)
from gapless.lake.catalog.sqlite import FILE
from gapless.lake.layout.head import HEAD, Head, TableHead
from gapless.lake.layout.settings import read_history, summary_path
from gapless.lake.layout.snapshots import live_rows
from gapless.lake.objects import table_names
from gapless.lake.sync.config import (
    base_of,
    check_keep,
    check_lake,
    config_relation,
    difference,
    no_lake,
    sync_config,
)
from gapless.lake.sync.expiry import Superseded, check_expire, superseded
from gapless.lake.sync.partial import Partial, Tables, partial_of, table_names_of
from gapless.lake.sync.plan import EVERYTHING, Conflict, Refused, Wanted
from gapless.lake.sync.replica import replica_info
from gapless.lake.sync.report import Direction, Relation, SyncReport, SyncStatus, TableStatus, TableSync
from gapless.lake.sync.side import CONFIG, Contents, Side, lake_id
from gapless.lake.sync.tables import TableCopy, plan_copy
from gapless.lake.views import view_file
from gapless.runtime.conditional_puts import replaced, tagged
from gapless.runtime.environment import Environment
from gapless.store.open import probe_put_if_absent, probe_put_if_match
from gapless.tables.shared.handle import is_stored

_TRIES = 100


@dataclass(slots=True)
class _Copied:
    """What was done so far."""

    tables: list[TableSync] = field(default_factory=list)
    heads: dict[str, TableHead] = field(default_factory=dict)
    conflicts: list[Conflict] = field(default_factory=list)
    contents: dict[str, Contents] = field(default_factory=dict)

    def table(self, name: str, source: Side, target: Side, wanted: Wanted = EVERYTHING) -> None:
        """Copy one; what keeps it is a conflict of this table alone."""
        try:
            copy = plan_copy(name, source, target, wanted)
            self.tables.append(copy.perform())
        except Refused as refused:
            self.conflicts.append(refused.conflict)
        else:
            self.heads[name] = copy.after
            self.contents[name] = copy.contents.union(copy.plan.new)

    def superseded(
        self, env: Environment, expire_s: float | None, now_ns: int, pinned: Collection[str] = ()
    ) -> dict[str, Superseded]:
        """What goes of each table, but for those of which one snapshot is wanted."""
        return {
            name: superseded(env, name, contents, expire_s, now_ns)
            for name, contents in self.contents.items()
            if name not in pinned
        }

    def expire(self, env: Environment, gone: Mapping[str, Superseded]) -> None:
        """Remove what a head names no more."""
        done = {name: one.remove(env) for name, one in gone.items()}
        self.tables = [replace(one, expired=done.get(one.table, 0)) for one in self.tables]


def push(
    local: Environment,
    remote: Environment,
    *,
    node: str,
    tables: Sequence[str] | None = None,
    config: str = "refuse",
    expire_s: float | None = None,
) -> SyncReport:
    """Copy what `remote` lacks of the lake at `local`, and remove there what its newest snapshots have had for `expire_s`. Raises SyncConflict once all else is copied, InvalidPath, ReadOnlyReplica, NotSupported,
    TableNotFound, InvalidOption, CorruptTable, StoreError.
    """
    keep = check_keep(config)
    check_expire(expire_s, copy=True)
    ours, theirs = Side.at(local), Side.at(remote)
    _check_places(ours, theirs)
    _check_pushable(ours, theirs)
    probe_put_if_absent(remote.store)
    probe_put_if_match(remote.store)
    names = _chosen(table_names(local), table_names_of(tables), ours.url)
    for _ in range(_TRIES):
        known, time_ns = tagged(remote, HEAD), local.clock.now_ns()
        theirs, copied = Side.at(remote), _Copied()
        for name in names:
            copied.table(name, ours, theirs)
        gone = copied.superseded(remote, expire_s, time_ns)
        head = _without(_pushed_head(ours, theirs, copied, node, time_ns), gone)
        if replaced(remote, HEAD, head.encode(), known) is None:
            continue  # another node pushed meanwhile: what it brought may concern ours
        copied.expire(remote, gone)
        _write_copies(Side.at(remote), copied.heads)
        return _ended("push", remote, head.number, time_ns, copied, sync_config(ours, theirs, "push", keep))
    raise StoreError(
        f"{HEAD} in {theirs.url} was changed by others {_TRIES} times in a row",
        why="Each push says which state it made on the newest one",
        fix="Push again once fewer nodes do",
        path=HEAD,
    )


def pull(
    local: Environment,
    remote: Environment,
    *,
    tables: Tables | None = None,
    snapshots: Mapping[str, str] | None = None,
    writable: bool = False,
    config: str = "refuse",
    expire_s: float | None = None,
) -> SyncReport:
    """Copy what `local` lacks of the lake at `remote`: into the lake that is there, or as a new copy, which is a replica unless `writable`.
    From a replica is removed what its newest snapshots have had for `expire_s`.

    `tables` are those of a partial replica, or say by name which partitions are, and `snapshots` name for tables the one snapshot that is wanted. A partial replica that is there
    gets what it has already and those. Raises as `push`.
    """
    keep = check_keep(config)
    ours, theirs = Side.at(local), Side.at(remote)
    their_config = theirs.config()
    if their_config is None:
        raise no_lake(theirs.url)
    our_config = ours.config()
    _check_places(ours, theirs)
    fresh, partial = our_config is None, bool(tables or snapshots)
    replica = ours.head is not None or (fresh and not writable)
    if writable and ours.head is not None:
        raise ReadOnlyReplica(
            f"{ours.url} is a replica already",
            why="Its runs would be lost on the next pull",
            fix="Pull into a new place",
            source=ours.head.source,
        )
    if partial and not replica:
        raise NotSupported(
            "tables= and snapshots= make a partial replica, and this lake is written into",
            why="What is left out could not be told from what is not there",
            fix="Leave them out, or pull into a new place",
            feature="partial copies that are written into",
        )
    check_expire(expire_s, copy=replica)
    time_ns = local.clock.now_ns() if theirs.head is None else theirs.head.time_ns
    there = table_names(remote) if theirs.head is None else sorted(theirs.head.tables)
    asked = _chosen(there, [*(table_names_of(tables) or ()), *(snapshots or ())] if partial else None, theirs.url)
    share = partial_of(ours.head, theirs.head, tables, snapshots)
    # A partial replica gets what it has, and what is asked for now.
    have = {one for one in ours.head.tables if one in there} if ours.head is not None else set()
    grows = ours.head is None or not ours.head.lacking or partial
    wanted = sorted({*have, *(asked if grows else ())})
    copied = _Copied()
    for name in wanted:
        copied.table(name, theirs, ours, share.of(name))
    number = None if theirs.head is None else theirs.head.number
    if replica:
        head = _pulled_head(ours, theirs, copied, their_config, share, time_ns)
        head = replace(
            head, lacking=tuple(sorted({*there, *(() if theirs.head is None else theirs.head.lacking)} - head.tables.keys()))
        )
        gone = copied.superseded(local, expire_s, local.clock.now_ns(), share.snapshots)
        local.store.put(HEAD, _without(head, gone).encode(), mode="overwrite")
        copied.expire(local, gone)
    _write_copies(Side.at(local), copied.heads)
    return _ended("pull", remote, number, time_ns, copied, sync_config(ours, theirs, "pull", keep))


def status(local: Environment, remote: Environment) -> SyncStatus:
    """How the lake at `local` and what is at `remote` stand; nothing is copied. Raises InvalidPath, CorruptTable, StoreError."""
    ours, theirs = Side.at(local), Side.at(remote)
    _check_places(ours, theirs)
    our_config, their_config = ours.config(), theirs.config()
    relation = config_relation(our_config, their_config, base_of(local, theirs.url))
    names = sorted({*table_names(local), *table_names(remote)})
    return SyncStatus(
        url=theirs.url,
        replica=None if ours.head is None else replica_info(local, ours.head),
        remote=None if theirs.head is None else replica_info(local, theirs.head),
        config=relation,
        config_difference="" if relation in ("same", "not there") else difference(their_config, our_config, theirs.url),
        tables=tuple(_table_status(name, ours, theirs) for name in names),
    )


def _table_status(name: str, ours: Side, theirs: Side) -> TableStatus:
    mine, other = ours.history(name), theirs.history(name)
    columns = _relation(mine, other)
    try:
        to_push = None if mine is None else plan_copy(name, ours, theirs)
        to_pull = None if other is None else plan_copy(name, theirs, ours, _as_before(ours.head, name))
    except Refused as refused:
        return TableStatus(table=name, columns=columns, conflict=refused.conflict.what)
    return TableStatus(
        table=name,
        columns=columns,
        runs_to_push=0 if to_push is None else len(to_push.plan.new.manifests),
        snapshots_to_push=0 if to_push is None else len(to_push.plan.new.snapshots),
        runs_to_pull=0 if to_pull is None else len(to_pull.plan.new.manifests),
        snapshots_to_pull=0 if to_pull is None else len(to_pull.plan.new.snapshots),
        log_ours=_log_version(to_pull, to_push),
        log_theirs=_log_version(to_push, to_pull),
    )


def _as_before(head: Head | None, table: str) -> Wanted:
    """What a copy wants of a table."""
    return EVERYTHING if head is None else Partial(ours=head, snapshots={}, partitions=_tuples(head)).of(table)


def _tuples(head: Head) -> dict[str, tuple[str, ...]]:
    return {name: tuple(one) for name, one in head.partitions.items()}


def _log_version(into: TableCopy | None, out_of: TableCopy | None) -> int | None:
    """The newest version of the log of the side that `into` copies into, and `out_of` out of."""
    if into is not None:
        return None if into.log is None else into.log.before
    return None if out_of is None or out_of.log is None else out_of.log.version


def _relation(ours: bytes | None, theirs: bytes | None) -> Relation:
    if ours is None or theirs is None:
        return "not here" if ours is None else "not there"
    if ours == theirs:
        return "same"
    if ours.startswith(theirs):
        return "ours is newer"
    return "theirs is newer" if theirs.startswith(ours) else "diverged"


def _check_places(ours: Side, theirs: Side) -> None:
    if ours.url == theirs.url:
        raise InvalidPath(
            f"{theirs.url} is this lake itself", why="A copy lies elsewhere", fix="Name another place", path=theirs.url
        )
    check_lake(ours.config(), theirs.config(), theirs.url)


def _check_pushable(ours: Side, theirs: Side) -> None:
    for side in (ours, theirs):
        if side.head is not None and (side.head.source is not None or side is ours):
            raise ReadOnlyReplica(
                f"{side.url} is a copy of a lake" + ("" if side is ours else ", which was pulled and is not pushed to"),
                why=f"It is as {side.head.source or 'those say who push to it'}",
                fix="Push from the lake that runs write into, to the place that others pull from",
                source=side.head.source,
            )
    if theirs.head is None and is_stored(theirs.env.store, FILE):
        raise NotSupported(
            f"{theirs.url} is a lake that runs may write into, and is not pushed to",
            why=f"It has a {FILE}: a push says with {HEAD} which state is there, and would hide runs that come by themselves",
            fix="Pull from it in the other direction, or push to a place of its own",
            feature="a push into a lake that is written into",
        )


def _chosen(there: Iterable[str], asked: Sequence[str] | None, url: str) -> list[str]:
    names = sorted(there)
    if asked is None:
        return names
    for name in asked:
        if name not in names:
            raise TableNotFound(f"{url} has no table {name!r}", fix=nearest(name, names), path=name)
    return sorted(set(asked))


def _pushed_head(ours: Side, theirs: Side, copied: _Copied, node: str, time_ns: int) -> Head:
    config = ours.config()
    before = {} if theirs.head is None else dict(theirs.head.tables)
    if theirs.head is None:
        # A copy that was made by other means: what is there stays.
        before = {name: theirs.contents(name).head(None) for name in table_names(theirs.env)}
    merged = {name: before[name].union(one) if name in before else one for name, one in copied.heads.items()}
    return Head(
        lake=lake_id(config or b"") or "",
        number=1 if theirs.head is None else theirs.head.number + 1,
        time_ns=time_ns,
        node=node,
        tables={**before, **merged},
    )


def _pulled_head(ours: Side, theirs: Side, copied: _Copied, config: bytes, share: Partial, time_ns: int) -> Head:
    before = {} if ours.head is None else dict(ours.head.tables)
    tables = {**before, **copied.heads}
    return Head(
        lake=lake_id(config) or "",
        number=0 if theirs.head is None else theirs.head.number,
        time_ns=time_ns,
        node="" if theirs.head is None else theirs.head.node,
        tables=tables,
        source=theirs.url,
        snapshots={name: one for name, one in share.snapshots.items() if name in tables},
        partitions=_partitions(before_pull=ours.head, share=share, done=copied.heads.keys(), tables=tables),
    )


def _partitions(
    *, before_pull: Head | None, share: Partial, done: Collection[str], tables: Mapping[str, TableHead]
) -> dict[str, tuple[str, ...]]:
    """What is here of tables in part: as it is wanted where the copy came over, else as before."""
    before = {} if before_pull is None else before_pull.partitions
    found = {name: share.partitions.get(name) if name in done else before.get(name) for name in tables}
    return {name: tuple(one) for name, one in found.items() if one is not None}


def _without(head: Head, gone: Mapping[str, Superseded]) -> Head:
    tables = {name: gone[name].without(one) if name in gone else one for name, one in head.tables.items()}
    return replace(head, tables=tables)


def _write_copies(side: Side, heads: Mapping[str, TableHead]) -> None:
    """`schema.json` and the view of each table: copies, which may lag behind."""
    for name in heads:
        contents, data = side.contents(name), side.history(name)
        if data is None:
            continue
        if side.head is not None and name in side.head.partitions:
            continue  # a view of all would name files that are not here
        history = read_history(data, name)
        live = live_rows(tuple(contents.manifests.values()), contents.snapshots)
        view = view_file(history, live.files) if history.settings.kind == "runs" else None
        with contextlib.suppress(StoreError):
            side.env.store.put(summary_path(name), history.summary, mode="overwrite", durable=False)
            if view is not None:
                side.env.store.put(f"views/{name}.sql", view.encode(), mode="overwrite", durable=False)


def _ended(
    direction: Direction, remote: Environment, number: int | None, time_ns: int, copied: _Copied, config: Conflict | None
) -> SyncReport:
    conflicts = (*copied.conflicts, *(() if config is None else (config,)))
    report = SyncReport(
        direction=direction,
        url=remote.store.url,
        number=number,
        time_ns=time_ns,
        tables=tuple(copied.tables),
        conflicts=conflicts,
    )
    if conflicts:
        raise SyncConflict(
            f"{' and '.join(one.table or CONFIG for one in conflicts)} could not be brought together: {conflicts[0].what}",
            why="All else is copied",
            fix="gapless lake sync status shows all that differs",
            tables=tuple(one.table or CONFIG for one in conflicts),
            report=report,
        )
    return report
