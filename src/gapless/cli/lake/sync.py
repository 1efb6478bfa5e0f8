"""`lake sync`: copies of a lake, pushed, pulled and compared."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from gapless.cli.lake.commands import LakeRef, parse_partitions
from gapless.cli.options import JsonFlag, argument, flag, option, parse_mapping
from gapless.cli.show.console import print_line, print_table, write_json
from gapless.draw.label import printable
from gapless.errors import InvalidOption, SyncConflict
from gapless.lake.opening import pull as pull_into
from gapless.lake.sync.report import ReplicaInfo, SyncReport
from gapless.lake.table import KEEP_S
from gapless.tables.shared.findings import count

OUT_OF_SYNC = 1
"""Exit code of `lake sync status` where a push or a pull would copy something, or cannot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteRef:
    """The other place of a lake."""

    url: Annotated[str, argument("URL", "The other place: a directory or a bucket, such as s3://bucket/lake.")]
    storage_option: Annotated[
        list[str] | None, option("KEY=VALUE", "Option for the bucket's storage, by obstore's names; repeatable.")
    ] = None

    @property
    def storage(self) -> dict[str, str] | None:
        """Its storage options. Raises InvalidOption."""
        return parse_mapping("storage-option", self.storage_option) or None


Tables = Annotated[list[str] | None, option("TABLE", "Only this table; repeatable.")]
Config = Annotated[str, option("SIDE", "Which lake.toml stays where both were changed: ours or theirs; else it is shown.")]


Expire = Annotated[
    bool, flag("--expire", "Then remove from the copy runs and snapshots whose rows its newest snapshot has had for a day.")
]


def push(
    lake: LakeRef,
    remote: RemoteRef,
    table: Tables = None,
    config: Config = "refuse",
    expire: Expire = False,
    json: JsonFlag = False,
) -> None:
    """Copy what another place of a lake lacks: a directory or a bucket, from which others pull.

    Example: gapless lake sync push warehouse s3://bucket/warehouse
    """
    opened = lake.open()
    kept = KEEP_S if expire else None
    _emit(
        lambda: opened.push(remote.url, tables=table, config=config, expire_s=kept, storage_options=remote.storage), json=json
    )


def pull(
    root: Annotated[str, argument("PATH", "The lake or replica, or where a new one is to lie.")],
    remote: RemoteRef,
    table: Tables = None,
    snapshot: Annotated[
        list[str] | None, option("TABLE=NAME", "Only this snapshot of a table, for a partial replica; repeatable.")
    ] = None,
    partition: Annotated[
        list[str] | None,
        option(
            "TABLE=FOLDER", "Only this partition of a table's newest snapshot, such as events=ts_day=2026-11-30; repeatable."
        ),
    ] = None,
    writable: Annotated[
        bool, typer.Option("--writable", help="A new copy is not a replica, but another node's lake, into which runs write.")
    ] = False,
    config: Config = "refuse",
    expire: Expire = False,
    json: JsonFlag = False,
) -> None:
    """Copy what a lake lacks from another place of it; where there is no lake yet, make a replica.

    Example: gapless lake sync pull replica s3://bucket/warehouse --table orders
    """
    snapshots = parse_mapping("snapshot", snapshot) or None
    parts = parse_partitions(partition)
    tables = {**dict.fromkeys(table or ()), **parts} if parts else table

    def pulled() -> SyncReport:
        return pull_into(
            remote.url,
            root,
            tables=tables,
            snapshots=snapshots,
            writable=writable,
            config=config,
            expire_s=KEEP_S if expire else None,
            storage_options=remote.storage,
        )

    _emit(pulled, json=json)


def status(
    lake: LakeRef,
    url: Annotated[str | None, argument("URL", "The other place; where a replica was pulled from, if it is left out.")] = None,
    storage_option: Annotated[
        list[str] | None, option("KEY=VALUE", "Option for the bucket's storage, by obstore's names; repeatable.")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Show how a lake and another place of it stand. The exit code is 1 where a push or a pull would copy something, or cannot.

    Example: gapless lake sync status warehouse s3://bucket/warehouse
    """
    opened = lake.open()
    place = url or (None if opened.replica is None else opened.replica.source)
    if place is None:
        raise InvalidOption(
            f"with what {lake.root} is to be compared is not said",
            why="Only a replica knows where it was pulled from",
            fix="Name the other place: gapless lake sync status PATH URL",
            option="url",
            value=url,
        )
    found = opened.sync_status(place, storage_options=parse_mapping("storage-option", storage_option) or None)
    if json:
        write_json({**asdict(found), "in_sync": found.in_sync})
    else:
        for who, info in (("This lake is a copy", found.replica), ("The other place is a copy", found.remote)):
            if info is not None:
                print_line(printable(_replica_text(who, info)))
        head = ("table", "columns", "runs to push", "to pull", "snapshots to push", "to pull", "log here", "there")
        rows: Sequence[Sequence[object]] = [
            (one.table, one.columns, one.runs_to_push, one.runs_to_pull, one.snapshots_to_push, one.snapshots_to_pull, one.log_ours, one.log_theirs)
            for one in found.tables
        ]  # fmt: skip
        print_table(list(head), [["" if cell is None else str(cell) for cell in row] for row in rows])
        for one in found.tables:
            if one.conflict:
                print_line(("Conflict ", "bold red"), printable(one.conflict))
        if found.config != "same":
            print_line(printable(f"lake.toml: {found.config}."))
            print_line(printable(found.config_difference))
        print_line("In sync." if found.in_sync else "Not in sync.")
    if not found.in_sync:
        raise typer.Exit(OUT_OF_SYNC)


def reconcile(
    lake: LakeRef,
    table: Annotated[str, argument("TABLE", "The name of a table of the lake.")],
    remote: RemoteRef,
    json: JsonFlag = False,
) -> None:
    """Bring columns of a table together that two copies of a lake changed apart. It is done here; a push brings it over.

    Example: gapless lake reconcile warehouse orders s3://bucket/warehouse
    """
    report = lake.open().table(table).reconcile(remote.url, storage_options=remote.storage)
    if json:
        write_json(asdict(report))
    elif report.changed:
        print_line(printable(f"{table} has the columns {', '.join(report.columns)} now (version {report.version}): push it."))
    else:
        print_line(printable(f"The columns of {table} did not go on apart."))


def _emit(copy: Callable[[], SyncReport], *, json: bool) -> None:
    """Show what was copied, also where something else could not be."""
    try:
        report = copy()
    except SyncConflict as conflict:
        if isinstance(conflict.report, SyncReport):
            _show(conflict.report, json=json)
        raise
    _show(report, json=json)


def _show(report: SyncReport, *, json: bool) -> None:
    if json:
        write_json(asdict(report))
        return
    for one in report.tables:
        log = "" if one.log_version is None else f", version {one.log_version} of its log"
        expired = f"; {one.expired} expired and removed" if one.expired else ""
        text = f"{one.table}: {count(one.runs, 'run')}, {count(one.snapshots, 'snapshot')}, {count(one.objects, 'object')} of {one.size} bytes{log}{expired}."
        print_line(printable(text))
    for conflict in report.conflicts:
        print_line(("Conflict ", "bold red"), printable(conflict.what))
        if conflict.difference:
            print_line(printable(conflict.difference))
    state = "" if report.number is None else f" It is state {report.number}."
    done = f"Pushed to {report.url}" if report.direction == "push" else f"Pulled from {report.url}"
    print_line(printable(f"{done}.{state}"))


def _replica_text(who: str, info: ReplicaInfo) -> str:
    at = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(info.time_ns / 1e9))
    source = f" of {info.source}" if info.source else ""
    pinned = "".join(f"; of {name} only snapshot {one}" for name, one in sorted(info.snapshots.items()))
    parts = "".join(f"; of {name} only {', '.join(one)}" for name, one in sorted(info.partitions.items()))
    lacking = f"; without {', '.join(info.lacking)}" if info.lacking else ""
    return f"{who}{source}: state {info.number} of {at}, {info.age_s:.0f} s ago{pinned}{parts}{lacking}."
