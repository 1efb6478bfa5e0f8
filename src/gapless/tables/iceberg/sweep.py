"""Files under an Iceberg table's location that no snapshot and no prepared commit names: what interrupted writers left."""

from __future__ import annotations

from datetime import timedelta

from gapless.errors import NotSupported
from gapless.model.instant import NS_PER
from gapless.tables.iceberg.table import IcebergTable
from gapless.tables.shared.prepared import PREPARED_FOLDER, prepared_paths

DATA = "data/"
LEAST_AGE = timedelta(hours=24)
"""Younger files may be of a writer at work."""


def remove_orphans(table: IcebergTable, older_than: timedelta = LEAST_AGE, *, dry_run: bool = True) -> list[str]:
    """Remove data files and staged rows of writers that died, if they are so old; returns the paths, which with `dry_run` stay.

    What a prepared commit names stays, however old it is. Only `data/` and `_prepared/` are looked through. Raises NotSupported where the table
    says `gc.enabled=false`, CorruptTable, StoreError.
    """
    table.refresh()
    if table.metadata.properties.get("gc.enabled", "true").lower() == "false":
        raise NotSupported(
            f"{table.options.place} says gc.enabled=false, so that no file of it is removed",
            why="Its files may be another table's",
            fix="Set the property to true where they are not",
            feature="removal of files with gc.enabled=false",
        )
    store, now_ns = table.env.store, table.env.clock.now_ns()
    # In this order: what a commit takes over from a prepared one meanwhile is named by one of the two.
    kept = prepared_paths(store, lambda one: (last := table.last(one.app)) is not None and last >= one.sequence)
    old_ns = older_than // timedelta(microseconds=1) * NS_PER["us"]
    old = [
        info.path
        for folder in (DATA.rstrip("/"), PREPARED_FOLDER)
        for info in store.list(folder)
        if info.path not in kept and now_ns - info.modified_ns >= old_ns
    ]
    named = _named(table) if any(path.startswith(DATA) for path in old) else frozenset()
    gone = [path for path in old if path not in named]
    for path in gone if not dry_run else ():
        store.delete(path)
    return gone


def _named(table: IcebergTable) -> frozenset[str]:
    """The paths of all data and delete files below the root that snapshots which are kept name, in whichever spelling."""
    table.refresh()
    seen, found = set[str](), set[str | None]()
    for snapshot in table.metadata.snapshots:
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path not in seen:
                seen.add(manifest.manifest_path)
                found |= {table.io.path(one.data_file.file_path) for one in manifest.fetch_manifest_entry(table.io)}
    return frozenset(path for path in found if path is not None)
