"""A lake table's snapshot as a Delta or Iceberg table: the log in the table's folder is another description of the same files."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Literal

from gapless.errors import CorruptTable, ForeignCommit, GaplessError, InvalidOption, NotSupported, TableError, one_of
from gapless.formats.delta.format import DELTA
from gapless.lake.catalog.catalog import Catalog
from gapless.lake.export.source import source_of, version_of
from gapless.lake.layout.settings import TableHistory
from gapless.lake.layout.snapshots import LiveRows, Snapshot, live_rows
from gapless.log.versions import read_back
from gapless.model.instant import NS_PER
from gapless.model.publishing import PublishSettings
from gapless.publish.publishers import check_publishable, publisher_of
from gapless.runtime.environment import Environment
from gapless.store.open import open_store

_LOGGER = logging.getLogger("gapless.lake")

ExportFormat = Literal["delta", "iceberg"]
FOLDERS: Mapping[ExportFormat, str] = {"delta": DELTA.folder, "iceberg": "_iceberg"}
"""Where the description lies, below the table's folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedSnapshot:
    """What one export did."""

    table: str
    snapshot: str
    format: ExportFormat
    path: str
    """What readers open: the table's folder for Delta, `_iceberg` in it for Iceberg."""
    version: int
    """What the other format calls it: Delta's version, the id of Iceberg's snapshot."""
    rows: int
    files: int
    changed: bool
    """False where the newest version was that snapshot before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What exports keep from going."""

    snapshots: frozenset[str] = frozenset()
    waits_for: tuple[str, ...] = ()
    """Formats that keep a snapshot; those whose description cannot be read keep all."""


def table_environment(env: Environment, table: str, storage_options: Mapping[str, str] | None = None) -> Environment:
    """What reaches the folder of a table of the lake that `env` reaches."""
    return replace(env, store=open_store(f"{env.store.url}/tables/{table}", storage_options))


def check_format(format_: object) -> ExportFormat:
    """Raise InvalidOption for what is none."""
    return one_of("as_", format_, tuple(FOLDERS), "A snapshot is exported as a table of one of these")


def export_snapshot(
    env: Environment,
    catalog: Catalog,
    history: TableHistory,
    look: Callable[[], tuple[LiveRows, Mapping[str, Snapshot]]],
    format_: ExportFormat,
    *,
    mend: bool,
) -> ExportedSnapshot:
    """Describe a snapshot; `env` reaches the table's folder, and `look` gives the snapshot, and all that are there. Nothing is copied.

    The catalog is held meanwhile, so that no expiry takes what is looked at. Raises as `LakeTable.export`.
    """
    name = history.settings.name
    publisher = publisher_of(format_, env, PublishSettings(formats=(format_,)))
    with catalog.transaction():
        live, there = look()
        newest = _whole(history, live)
        before, wanted = None, version_of(newest.name)
        with _worded(env, name, format_), suppress(*((ForeignCommit, CorruptTable) if mend else ())):
            before = publisher.published()
        if before is not None and before[0] > wanted:
            raise InvalidOption(
                f"the {format_} table of {name!r} is of a newer snapshot than {newest.name!r}",
                why="Readers go from version to version, and a table that goes back shows rows anew that are gone",
                fix=f"Read that snapshot by lake.query(…, snapshots=…), or remove {FOLDERS[format_]} in the table's folder first: it is begun anew",
                option="snapshot",
                value=newest.name,
            )
        source = source_of(env, history, live, there.values(), format_)
        check_publishable((format_,), source.columns)
        with _worded(env, name, format_):
            version = publisher.publish(source, mend=mend)
    changed = before is None or before[1] != version
    _LOGGER.info("%s: %s: snapshot %s is version %d as %s", env.store.url, name, newest.name, version, format_)
    return ExportedSnapshot(
        table=name,
        snapshot=newest.name,
        format=format_,
        path=env.store.url if format_ == "delta" else f"{env.store.url}/{FOLDERS[format_]}",
        version=version,
        rows=sum(one.rows for one in source.files),
        files=len(source.files),
        changed=changed,
    )


def _whole(history: TableHistory, live: LiveRows) -> Snapshot:
    """The snapshot that has the rows, each key once. Raises NotSupported."""
    name = history.settings.name
    if not live.snapshots:
        raise NotSupported(
            f"{name!r} has no snapshot that could be exported",
            why="Files of runs come and go, and hold keys more than once; those of a snapshot stay as they are",
            fix=f"Make one: gapless lake compact PATH {name}; gapless lake snapshot PATH {name} lists what there is",
            feature="export of runs",
        )
    newest = live.snapshots[-1]
    if history.settings.key and not newest.complete:
        raise NotSupported(
            f"the snapshot {newest.name!r} of {name!r} only adds rows to {newest.base!r}, and cannot be exported",
            why="Of a table with a key both hold rows of one key, and readers of the export would see all of them",
            fix=f"Make a complete one: gapless lake compact PATH {name}; gapless lake snapshot PATH {name} says which are",
            feature="export of an incremental snapshot of a table with a key",
        )
    return newest


@contextmanager
def _worded(env: Environment, table: str, format_: ExportFormat) -> Iterator[None]:
    """Errors of a description that is another's, or damaged, with what to do about it in a lake."""
    folder = FOLDERS[format_]
    fix = f"export(…, mend=True), or --mend, describes the snapshot anew; or remove {folder} in {env.store.url} and export {table!r} again"
    try:
        yield
    except ForeignCommit as error:
        raise ForeignCommit(
            error.what,
            why="It only describes files of the lake, which another writer would damage",
            fix=fix,
            format=format_,
            published_version=error.published_version,
        ) from error
    except CorruptTable as error:
        if not error.path.startswith(folder):
            raise
        raise CorruptTable(error.what, why=error.why, fix=fix, path=error.path) from error


def held_by_exports(env: Environment, snapshots: Mapping[str, Snapshot], keep_s: float) -> Held:
    """The snapshots that descriptions name, or named less than `keep_s` seconds ago: whoever began to read then may be at it still.

    `env` reaches the table's folder. Raises StoreError.
    """
    versions, waits_for = set[int](), []
    since_ns = env.clock.now_ns() - int(keep_s * NS_PER["s"])
    for format_, folder in FOLDERS.items():
        if next(iter(env.store.list(folder)), None) is None:
            continue
        waits_for.append(format_)
        try:
            told = _told(env, format_, since_ns)
        except GaplessError as error:
            _LOGGER.warning("%s: which snapshot is exported as %s cannot be told: %s", env.store.url, format_, error.what)
            return Held(snapshots=frozenset(snapshots), waits_for=(format_,))
        ends = [*(time_ns for _, time_ns in told[1:]), None]
        versions |= {version for (version, _), end in zip(told, ends, strict=True) if end is None or end > since_ns}
    named = {one.name for one in snapshots.values() if version_of(one.name) in versions}
    return Held(snapshots=frozenset(_with_bases(named, snapshots)), waits_for=tuple(waits_for))


def _with_bases(names: set[str], snapshots: Mapping[str, Snapshot]) -> set[str]:
    found = set[str]()
    for name in names:
        at: str | None = name
        while at is not None and at in snapshots:
            found.add(at)
            at = snapshots[at].base
    return found


def _told(env: Environment, format_: ExportFormat, since_ns: int) -> list[tuple[int, int]]:
    """The versions that a description has, oldest first, each with when it became the newest; those that others followed before a time may lack.

    Raises ForeignCommit, CorruptTable, NotSupported without the library that it needs, StoreError.
    """
    found = publisher_of(format_, env, PublishSettings(formats=(format_,))).published()
    if found is None:
        return []
    if format_ == "delta":
        entries = env.drive(read_back(DELTA, found[1], since_ns=since_ns))
        return [(entry.source_version, time_ns) for _, entry, time_ns in entries if entry.source_version is not None]
    versions: list[tuple[int, int]] = import_module("gapless.publish.iceberg.publication").described_versions(env)
    return versions


def wrong_exports(
    env: Environment, history: TableHistory, snapshots: Mapping[str, Snapshot]
) -> Iterator[tuple[ExportFormat, str]]:
    """How descriptions differ from the snapshots that they name, each with its format; `env` reaches the table's folder. Raises StoreError."""
    for format_, folder in FOLDERS.items():
        if next(iter(env.store.list(folder)), None) is None:
            continue
        try:
            publisher = publisher_of(format_, env, PublishSettings(formats=(format_,)))
            if (found := publisher.published()) is None:
                continue
            named = next((one for one in snapshots.values() if version_of(one.name) == found[0]), None)
            if named is None:
                yield format_, "it names a snapshot that is gone"
                continue
            live = live_rows((), snapshots, named.name)
            told = publisher.differences(source_of(env, history, live, snapshots.values(), format_))
        except (TableError, NotSupported) as error:
            told = [error.what]
        yield from ((format_, what) for what in told)
