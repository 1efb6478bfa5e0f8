"""Iceberg tables as sinks need them, loaded when one is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from gapless.connect.sinks.opened_table import SinkTable
from gapless.errors import needs_library
from gapless.tables.iceberg.options import IcebergOptions


def open_iceberg(options: IcebergOptions, *, create: Mapping[str, Any] | None, partition_by: object, **sizes: Any) -> SinkTable:
    """The table of a sink; nothing is opened. Said how it is partitioned, it is made where it is missing. Raises NotSupported without pyiceberg."""
    if find_spec("pyiceberg") is None:
        raise needs_library("a sink into an Iceberg table", "pyiceberg", "iceberg")
    from gapless.connect.sinks.table.iceberg_table import IcebergSinkTable

    made = {} if create is None and partition_by is not None else create
    partitions = (create or {}).get("partition_by", partition_by)
    return IcebergSinkTable(options=options, create=made, partition_by=partitions, **sizes)
