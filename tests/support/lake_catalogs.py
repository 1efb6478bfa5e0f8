"""Lakes whose catalog lies in SQLite or in PostgreSQL: fixture `backend` says which, and tests make lakes by what is here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gapless.lake.catalog.catalog import Catalog
from gapless.lake.catalog.postgres import PostgresCatalog
from gapless.lake.lake import Lake
from gapless.lake.opening import init
from gapless.lake.place import check_config, lake_catalog, lake_environment
from support.postgres import Postgres

PASSWORD = "CATALOG_PASSWORD"  # the name of a variable
_CATALOG: list[str | None] = [None]
"""The URL by which lakes are made now; None for SQLite."""


@pytest.fixture(params=["sqlite", "postgres"])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Where the catalogs of the lakes of a test lie."""
    if request.param == "postgres":
        server: Postgres = request.getfixturevalue("postgres")
        monkeypatch.setenv(PASSWORD, "s3cret")
        _CATALOG[0] = url_of(server)
    yield request.param
    _CATALOG[0] = None


def url_of(server: Postgres, database: str = "postgres") -> str:
    """A catalog's URL, as `lake.toml` has it."""
    return f"postgresql://gapless:${{{PASSWORD}}}@127.0.0.1:{server.port}/{database}"


def new_lake(root: Path, node: str = "main") -> Lake:
    """A lake whose catalog is where the fixture says."""
    return init(root, node=node, catalog=_CATALOG[0])


def catalog_of(root: Path) -> Catalog:
    """The catalog of a lake, as its `lake.toml` says."""
    env = lake_environment(root)
    return lake_catalog(env, check_config(env))


def wipe_catalog(root: Path) -> None:
    """Lose it."""
    found: Any = catalog_of(root)
    if isinstance(found, PostgresCatalog):
        with found.transaction() as connection:
            connection.execute(f'DROP SCHEMA "{found.schema}" CASCADE')
        return
    for path in root.glob("meta.sqlite*"):
        path.unlink()
