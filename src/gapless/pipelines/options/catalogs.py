"""The options of an Iceberg table, wherever it is read or written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gapless.errors import InvalidOption
from gapless.pipelines.options.spec import OptionSpec, behind

CATALOG_PREFIX = "catalog."
"""Of options that go to the catalog as they are, such as "catalog.credential"."""
CATALOG = (
    OptionSpec(name="location", about="The path or URL of a table in a directory; of a catalog's table, namespace and name"),
    OptionSpec(name="catalog_type", about="'sql', 'rest', 'glue' or 'hive'; where not given a table in a directory is meant"),
    OptionSpec(name="catalog_uri", secret=True, about="Where the catalog is; it may hold a password"),
    OptionSpec(name="catalog_name", about="The catalog's name in pyiceberg's configuration, and among its tables"),
    OptionSpec(name="warehouse", about="The catalog's warehouse"),
    OptionSpec(name="namespace", about="The namespace of the table, its levels with dots between"),
    OptionSpec(name="table_name", about="The name of the table"),
)


def iceberg_url(options: Mapping[str, Any]) -> str:
    """The table as `gl.connect` takes it. Raises InvalidOption where options name none."""
    place = options["location"] or ".".join(one for one in (options["namespace"], options["table_name"]) if one)
    if not place:
        raise InvalidOption(
            "no Iceberg table is named",
            why="Neither location nor table_name is given",
            fix="Add location='…' of a table in a directory, or catalog_type, catalog_uri, namespace and table_name",
            option="table_name",
            value=None,
        )
    return f"iceberg:{place}"


def catalog_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """What `gl.connect.source` and `sink` take of the catalog."""
    found = {one.name: options[one.name] for one in CATALOG if one.name != "location" and options[one.name] is not None}
    passed = behind(CATALOG_PREFIX, options)
    return {**found, "catalog_properties": passed} if passed else found
