"""Where a lake lies, and what its `lake.toml` says."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from gapless.errors import CorruptTable, InvalidOption, NotSupported, ObjectNotFound, TableNotFound, UnsupportedTable, nearest
from gapless.lake.catalog.catalog import Catalog
from gapless.lake.catalog.postgres import PostgresCatalog, passwords_of
from gapless.lake.catalog.sqlite import FILE, SqliteCatalog
from gapless.lake.layout.manifest import FORMAT
from gapless.lake.query import is_local
from gapless.lake.sync.side import read_head
from gapless.runtime.environment import Environment
from gapless.tables.shared.handle import Location, open_environment

CONFIG = "lake.toml"
_VARIABLE = re.compile(r"\$\{(\w+)\}")


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


def lake_environment(root: Location, storage_options: Mapping[str, str] | None = None) -> Environment:
    """What reaches a lake's root, whether there is a lake or not. Raises InvalidPath, InvalidOption."""
    return open_environment(root, storage_options)


def lake_catalog(env: Environment, told: Mapping[str, Any]) -> Catalog:
    """The catalog that a `lake.toml` names; a replica has one of its own, in SQLite, and never the writers'.

    Raises InvalidOption, NotSupported without psycopg, CorruptTable, StoreError.
    """
    given = told.get("catalog")
    if given is None or read_head(env) is not None:
        return local_catalog(env)
    if not isinstance(given, Mapping):
        raise _refuse_catalog("it is no table", 'Write [catalog] and url = "postgresql://…" below it', given)
    for name in given:
        if name != "url":
            raise _refuse_catalog(f"it has {name!r}", nearest(name, ("url",)), name)
    return catalog_at(given.get("url"), str(told["lake"].get("id", "")))


def local_catalog(env: Environment) -> SqliteCatalog:
    """The catalog in SQLite beside the tables. Raises NotSupported for a bucket."""
    path = env.store.local_path(FILE)
    if path is None:
        raise NotSupported(
            f"a lake at {env.store.url} needs a catalog in PostgreSQL",
            why="SQLite's is a file, which works on a disk of this machine only; a replica has no other",
            fix="Name one: gl.lake.init(root, catalog='postgresql://…'), or pass a directory, of which copies may lie in buckets",
            feature="a lake in a bucket without a catalog in PostgreSQL",
        )
    return SqliteCatalog(path)


def check_kind(env: Environment, kind: str) -> None:
    """Raise NotSupported for a table of a lake in a bucket that has a log of its own."""
    if kind == "runs" or is_local(env.store):
        return
    raise NotSupported(
        f"a lake at {env.store.url} has no tables of kind {kind!r}",
        why="They are opened by their paths, without what the lake was opened with",
        fix="Take kind='runs', or make the table by itself, at a place of its own, with gl.create or gl.delta.create",
        feature="tables with a log in a lake in a bucket",
    )


def catalog_at(url: object, lake: str) -> PostgresCatalog:
    """The catalog of the lake of an id at a URL, in which `${NAME}` is the environment's. Raises InvalidOption, NotSupported without psycopg."""
    if not isinstance(url, str):
        raise _refuse_catalog("its url is no text", 'Write such as url = "postgresql://user:${PASSWORD}@host/database"', "…")
    if any(not _VARIABLE.fullmatch(one) for one in passwords_of(url)):
        raise _refuse_catalog(
            "its url has a password",
            "Write ${NAME} in its place, and set NAME in the environment: lake.toml is copied with the lake",
            "…",
        )
    compact = "".join(letter for letter in lake.lower() if letter.isalnum())
    if (whole := _VARIABLE.fullmatch(url)) is not None:
        filled = _from_environment(whole[1])
    else:
        filled = _VARIABLE.sub(lambda match: quote(_from_environment(match[1]), safe=""), url)
    return PostgresCatalog(filled, f"gapless_{compact}"[:63])


def _from_environment(name: str) -> str:
    found = os.environ.get(name)
    if found is None:
        raise _refuse_catalog(
            f"its url names ${{{name}}}, which the environment lacks", f"Set {name} where the lake is opened", name
        )
    return found


def _refuse_catalog(what: str, fix: str, value: object) -> InvalidOption:
    return InvalidOption(f"[catalog] in {CONFIG} cannot be taken: {what}", fix=fix, option="catalog", value=value)
