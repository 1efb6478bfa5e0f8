"""Publishing a table as Iceberg: a snapshot for each version, of the same files, in a directory or a catalog."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from gapless.errors import needs_library
from gapless.model.publishing import PublishSettings
from gapless.publish.iceberg import columns
from gapless.runtime.environment import Environment

if TYPE_CHECKING:
    from gapless.publish.iceberg.publication import IcebergPublisher


def publisher(env: Environment, settings: PublishSettings) -> IcebergPublisher:
    """The publisher of the table that `env` reaches, into the catalog that its settings name. Raises NotSupported without pyiceberg."""
    if find_spec("pyiceberg") is None:
        raise needs_library("publishing as Iceberg", "pyiceberg", "iceberg")
    from gapless.publish.iceberg.publication import IcebergPublisher

    return IcebergPublisher(env, settings)


check_columns = columns.check_columns
check_stored = columns.check_stored
