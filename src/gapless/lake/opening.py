"""Lakes are made, opened and copied here: what reaches one in a directory or a bucket, with its catalog."""

from __future__ import annotations

import json
from collections.abc import Mapping

from gapless.errors import ObjectExists, TableExists
from gapless.lake.lake import DEFAULT_NODE, Lake
from gapless.lake.layout.manifest import FORMAT
from gapless.lake.layout.names import check_node
from gapless.lake.place import CONFIG, catalog_at, check_config, lake_catalog, lake_environment, local_catalog
from gapless.lake.sync.partial import Tables
from gapless.lake.sync.report import SyncReport
from gapless.lake.sync.transfer import pull as pull_into
from gapless.store.open import probe_put_if_absent
from gapless.tables.shared.handle import Location, open_environment


def init(
    root: Location,
    *,
    node: str = DEFAULT_NODE,
    catalog: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Lake:
    """Make a lake in a directory of this machine, or with a `catalog` in a bucket.

    Args:
        root: The directory, or the URL of the bucket's.
        node: Names this writer among several that write into copies of it.
        catalog: `postgresql://user:${PASSWORD}@host/database` for a catalog that copies on other machines share, where `${NAME}` is the
            environment's; without it the catalog is `meta.sqlite` in the directory.
        storage_options: Those of the bucket, by obstore's names.

    Raises TableExists, InvalidPath, InvalidOption, NotSupported for a bucket without a catalog, StoreError.
    """
    env = lake_environment(root, storage_options)
    id_ = env.ids.uuid()
    found = local_catalog(env) if catalog is None else catalog_at(catalog, id_)
    if catalog is not None:
        found.newest_run()  # so that a database that cannot be reached leaves no lake behind
    probe_put_if_absent(env.store)
    text = (
        f'# A lake of gapless; docs/reference/lake-layout.md says what lies where.\n[lake]\nformat = {FORMAT}\nid = "{id_}"\n'
    )
    text += f"\n[catalog]\nurl = {json.dumps(catalog, ensure_ascii=False)}\n" if catalog is not None else ""
    try:
        env.store.put(CONFIG, text.encode())
    except ObjectExists:
        raise TableExists(
            f"there is a lake at {env.store.url} already",
            why=f"It has a {CONFIG}",
            fix="Open it: gl.lake.open(root)",
            path=env.store.url,
        ) from None
    return Lake(env, found, check_node(node), storage_options)


def open_lake(
    root: Location, *, node: str = DEFAULT_NODE, read_only: bool = False, storage_options: Mapping[str, str] | None = None
) -> Lake:
    """The lake in a directory or bucket. What its catalog lacks is made anew from the manifests; with `read_only` nothing is written to open it.

    Raises TableNotFound where there is none, UnsupportedTable for one of a newer release, CorruptTable, InvalidPath, NotSupported, StoreError.
    """
    env = lake_environment(root, storage_options)
    lake = Lake(env, lake_catalog(env, check_config(env)), check_node(node), storage_options)
    if not read_only:
        lake.refresh()
    return lake


def pull(
    url: Location,
    root: Location,
    *,
    tables: Tables | None = None,
    snapshots: Mapping[str, str] | None = None,
    writable: bool = False,
    config: str = "refuse",
    expire_s: float | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> SyncReport:
    """Copy the lake at `url`, a directory or a bucket, into a directory of this machine, or what is not there yet.

    The copy is a replica, which is read and not written into; with `writable` it is another node's lake, whose runs are pushed and pulled.
    `tables` makes a partial replica, of whole tables or by name of partitions of their newest snapshot, as in {"events": ["ts_day=2026-11-30"]};
    `snapshots` name for tables the one snapshot that is wanted; `expire_s` is as for `Lake.push`, of a replica. `storage_options` are those of `url`.
    Raises as `Lake.pull`, and TableNotFound where there is no lake.
    """
    env = lake_environment(root)
    local_catalog(env)  # raises for a bucket, which is pushed to
    remote = open_environment(url, storage_options)
    return pull_into(env, remote, tables=tables, snapshots=snapshots, writable=writable, config=config, expire_s=expire_s)
