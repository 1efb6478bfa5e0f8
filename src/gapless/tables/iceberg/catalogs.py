"""Opens pyiceberg's catalogs, and gives their errors types."""

from __future__ import annotations

from typing import NoReturn

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    ForbiddenError,
    NotInstalledError,
    UnauthorizedError,
)

from gapless.errors import AccessDenied, InvalidOption, NotSupported, StoreUnavailable
from gapless.tables.iceberg.options import EXTRAS, IcebergOptions


def open_catalog(options: IcebergOptions) -> Catalog:
    """The catalog of a table. Raises NotSupported where its library is not installed, InvalidOption, AccessDenied, StoreUnavailable."""
    try:
        return load_catalog(options.catalog_name, **options.properties)
    except (ImportError, NotInstalledError) as error:
        kind = options.catalog_type or "sql"
        raise NotSupported(
            f"a catalog of type {kind!r} needs a library that is not installed",
            why=options.shown(error),
            fix=f"pip install '{EXTRAS[kind]}'",
            feature=f"{kind} catalogs of Iceberg",
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidOption(
            f"the Iceberg catalog {options.catalog_name!r} cannot be opened",
            why=options.shown(error),
            fix='Pass catalog_type="sql", "rest", "glue" or "hive" with catalog_uri=; or a catalog_name= of .pyiceberg.yaml',
            option="catalog_type",
            value=options.catalog_type,
        ) from error
    except Exception as error:  # noqa: BLE001 - each catalog has a client with errors of its own
        refuse(options, error)


def refuse(options: IcebergOptions, error: Exception) -> NoReturn:
    """Raise AccessDenied or StoreUnavailable for an answer of a catalog that says nothing of the table. It is never "not there"."""
    if isinstance(error, ForbiddenError | UnauthorizedError | AuthorizationExpiredError):
        raise AccessDenied(
            f"the Iceberg catalog {options.catalog_name!r} does not let {options.place} be used",
            why=options.shown(error),
            fix="Check the credential among catalog_properties, and what it may do",
            path=options.place,
        ) from error
    raise StoreUnavailable(
        f"the Iceberg catalog {options.catalog_name!r} did not answer as it should",
        why=options.shown(error),
        fix="Look at the catalog, and try again",
        path=options.place,
    ) from error
