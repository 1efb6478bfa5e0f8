"""Where a lake lies, and what its `lake.toml` says."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

from gapless.errors import CorruptTable, NotSupported, ObjectNotFound, TableNotFound, UnsupportedTable
from gapless.lake.catalog import FILE, Catalog
from gapless.lake.layout.manifest import FORMAT
from gapless.runtime.environment import Environment
from gapless.tables.shared.handle import Location, open_environment

CONFIG = "lake.toml"


def check_config(env: Environment) -> Mapping[str, Any]:
    """What `lake.toml` says. Raises as `open_lake`."""
    try:
        told = tomllib.loads(env.store.get(CONFIG).decode())
        found = int(told["lake"]["format"])
    except ObjectNotFound:
        raise TableNotFound(
            f"there is no lake at {env.store.url}",
            why=f"It has no {CONFIG}",
            fix="Check the path, or make one: gl.lake.init(root)",
            path=env.store.url,
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptTable(
            f"{CONFIG} cannot be read", why=f"{type(error).__name__}: {error}", fix="Mend it by hand", path=CONFIG
        ) from error
    if found > FORMAT:
        raise UnsupportedTable(
            f"the lake at {env.store.url} has format {found}",
            why=f"This release knows format {FORMAT}",
            fix="Read it with a newer gapless",
            needs=f"lake format {found}",
        )
    return told


def lake_place(root: Location) -> tuple[Environment, Catalog]:
    """Its store and its catalog, whether there is a lake or not. Raises NotSupported for a bucket, InvalidPath."""
    env = open_environment(root, None)
    path = env.store.local_path(FILE)
    if path is None:
        raise NotSupported(
            f"a lake cannot lie at {env.store.url}",
            why="Its catalog is an SQLite file, which works on a disk of this machine only",
            fix="Pass a directory; copies of it may lie in buckets",
            feature="a lake in a bucket",
        )
    return env, Catalog(path)
