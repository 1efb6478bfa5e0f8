"""Which Iceberg table is meant, and how its catalog and its files are reached. Nothing is opened."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from gapless.errors import InvalidOption, shorten
from gapless.store.location import parse_location

CatalogType = Literal["directory", "sql", "rest", "glue", "hive"]
EXTRAS: Mapping[CatalogType, str] = {
    "directory": "gapless[iceberg]",
    "sql": "gapless[iceberg] sqlalchemy",
    "rest": "gapless[iceberg]",
    "glue": "gapless[iceberg] boto3",
    "hive": "pyiceberg[hive]",
}
"""What pip installs for each kind of catalog; a directory has none."""
_SPELLINGS: Mapping[str, CatalogType] = {
    "hadoop": "directory",
    "jdbc": "sql",
    "polaris": "rest",
    "nessie": "rest",
    "unity": "rest",
}
OPTIONS = ("catalog_type", "catalog_uri", "catalog_name", "catalog_properties", "warehouse", "namespace", "table_name")
CREATE_OPTIONS = ("partition_by", "properties", "location")
"""How a missing table is made: how it is partitioned, its properties, and where a catalog's lies, if not where the catalog says."""
_S3 = {
    "access_key_id": "s3.access-key-id",
    "secret_access_key": "s3.secret-access-key",
    "session_token": "s3.session-token",
    "token": "s3.session-token",
    "region": "s3.region",
    "endpoint": "s3.endpoint",
    "endpoint_url": "s3.endpoint",
    "virtual_hosted_style_request": "s3.force-virtual-addressing",
    "skip_signature": "s3.anonymous",
}
_AZURE = {
    "account_name": "adls.account-name",
    "account_key": "adls.account-key",
    "access_key": "adls.account-key",
    "sas_token": "adls.sas-token",
    "sas_key": "adls.sas-token",
    "tenant_id": "adls.tenant-id",
    "client_id": "adls.client-id",
    "client_secret": "adls.client-secret",
}
_GOOGLE = {"service_account": "gcs.service-account-path", "service_account_path": "gcs.service-account-path"}


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergOptions:
    """One table. Its repr names it, and no secret."""

    catalog_type: CatalogType | None
    """None: as pyiceberg's configuration of `catalog_name` says."""
    location: str = ""
    """Of a table in a directory: where."""
    identifier: tuple[str, ...] = ()
    """Of a catalog's: namespace and name."""
    catalog_name: str = "default"
    catalog_uri: str | None = field(default=None, repr=False)
    """It may hold a password."""
    warehouse: str | None = None
    catalog_properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Of the object store, in gapless' names."""

    @property
    def place(self) -> str:
        """What messages call it."""
        return without_password(self.location) if self.catalog_type == "directory" else ".".join(self.identifier)

    @property
    def properties(self) -> dict[str, str]:
        """All that pyiceberg's catalog is made with."""
        told = {"type": self.catalog_type, "uri": self.catalog_uri, "warehouse": self.warehouse}
        given = {name: value for name, value in told.items() if value is not None}
        return {**file_io_properties(self.storage_options), **given, **self.catalog_properties}

    def shown(self, error: BaseException) -> str:
        """What an exception says, in one line, without a secret of these options."""
        text = without_password(" ".join(str(error).split()) or type(error).__name__)
        for value in (*self.storage_options.values(), *self.catalog_properties.values()):
            if len(str(value)) > 3:
                text = text.replace(str(value), "…")
        return f"{type(error).__name__}: {text[:300]}"


def parse_iceberg_options(
    location: str, options: Mapping[str, Any], storage_options: Mapping[str, str] | None
) -> IcebergOptions:
    """What a caller gave: `location` is what follows "iceberg:", a place or `namespace.table`; `options` are of `OPTIONS`. Raises InvalidOption."""
    given = {name: value for name, value in options.items() if value is not None}
    properties = given.pop("catalog_properties", {})
    if not isinstance(properties, Mapping) or not all(isinstance(one, str) for pair in properties.items() for one in pair):
        raise InvalidOption(
            "catalog_properties is no mapping of texts to texts",
            why="They are what pyiceberg's catalog is made with, such as a credential",
            fix='Pass such as {"credential": "id:secret"}',
            option="catalog_properties",
            value=None,
        )
    for name, value in given.items():
        if not isinstance(value, str) or not value:
            raise InvalidOption(
                f"{name}={'…' if name == 'catalog_uri' else shorten(value)} is no text",
                fix="Pass a text",
                option=name,
                value=None,
            )
    is_named = any(name in given for name in ("catalog_uri", "catalog_name", "warehouse"))
    asked = given.get("catalog_type")
    kind = _parse_type(asked) if asked is not None else None if is_named else "directory"
    if kind == "directory":
        _check_directory(location, given)
        parse_location(location)
        return IcebergOptions(catalog_type=kind, location=location, storage_options=dict(storage_options or {}))
    return IcebergOptions(
        catalog_type=kind,
        identifier=_identifier(location, given),
        catalog_name=given.get("catalog_name", "default"),
        catalog_uri=given.get("catalog_uri"),
        warehouse=given.get("warehouse"),
        catalog_properties=dict(properties),
        storage_options=dict(storage_options or {}),
    )


def _parse_type(asked: str) -> CatalogType:
    kind = _SPELLINGS.get(asked.lower(), asked.lower())
    if kind not in EXTRAS:
        raise InvalidOption(
            f"catalog_type={asked!r} is not known",
            why="Known are " + ", ".join(f"{name} (pip install '{extra}')" for name, extra in EXTRAS.items()),
            fix='Many others, such as Nessie, Polaris, Unity, Lakekeeper and S3 Tables, speak REST: pass catalog_type="rest"',
            option="catalog_type",
            value=asked,
        )
    return cast("CatalogType", kind)


def _check_directory(location: str, given: Mapping[str, str]) -> None:
    for name in ("namespace", "table_name", "catalog_uri", "catalog_name"):
        if name in given:
            raise InvalidOption(
                f"{name}= is no option of a table in a directory, as {without_password(location)!r} is",
                why="It has no catalog: its newest metadata/v<N>.metadata.json says what it is",
                fix='Pass catalog_type="sql", "rest", "glue" or "hive" for a table of a catalog',
                option=name,
                value=None,
            )
    if not location:
        raise InvalidOption(
            "'iceberg:' names no table",
            why="What follows is the place of a table, or namespace and name in a catalog",
            fix="Pass such as 'iceberg:s3://lake/trips', or 'iceberg:sales.trips' with catalog_type= and catalog_uri=",
            option="url",
            value="iceberg:",
        )


def _identifier(location: str, given: Mapping[str, str]) -> tuple[str, ...]:
    """Namespace and name, which the URL, the options or both together say."""
    by_url = tuple(part for part in location.split(".") if part)
    name = given.get("table_name", by_url[-1] if by_url else "")
    namespace = tuple(given["namespace"].split(".")) if "namespace" in given else by_url[:-1]
    if "table_name" in given and "namespace" not in given and by_url and by_url[-1] != name:
        namespace = by_url
    wanted = (*namespace, name)
    agrees = not by_url or by_url in (wanted, wanted[-1:], namespace)
    if not namespace or not name or not agrees or "/" in location:
        said = ", ".join(f"{key}={given[key]!r}" for key in ("namespace", "table_name") if key in given)
        raise InvalidOption(
            f"{location!r}{said and ' with '}{said} names no table of a catalog",
            why="It has a namespace and a name" if agrees else "They name different ones",
            fix="Pass such as 'iceberg:sales.trips', or namespace='sales', table_name='trips'",
            option="table_name",
            value=name,
        )
    return wanted


def file_io_properties(storage_options: Mapping[str, str]) -> dict[str, str]:
    """Options of an object store in gapless' names, as pyiceberg's files take them; what has no name there is left out.

    >>> file_io_properties({"aws_access_key_id": "a", "endpoint": "http://127.0.0.1:9000"})
    {'s3.access-key-id': 'a', 's3.endpoint': 'http://127.0.0.1:9000'}
    """
    told: dict[str, str] = {}
    for name, value in storage_options.items():
        known = name.lower()
        for prefix, names in (("aws_", _S3), ("azure_storage_", _AZURE), ("azure_", _AZURE), ("google_", _GOOGLE)):
            bare = known.removeprefix(prefix)
            if bare in names and (known.startswith(prefix) or known == bare):
                told.setdefault(names[bare], str(value).lower() if str(value) in ("True", "False") else str(value))
                break
    return told


def without_password(text: str) -> str:
    """A text without who asks, and by which password, in its URLs.

    >>> without_password("postgresql://ada:secret@db/lake")
    'postgresql://…@db/lake'
    """
    return re.sub(r"//[^/@\s]*@", "//…@", text)
