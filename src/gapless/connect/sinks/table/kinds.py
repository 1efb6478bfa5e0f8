"""The kinds of tables that sinks go into: what each takes, and how it is reached. A further kind joins by a line in `TABLE_KINDS`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_type_hints

from gapless.connect.sinks.opened_table import SinkTable
from gapless.connect.sinks.table.delta_table import DeltaSinkTable
from gapless.connect.sinks.table.hudi_table import HudiSinkTable
from gapless.connect.sinks.table.iceberg import open_iceberg
from gapless.connect.sinks.table.series_table import SeriesSinkTable
from gapless.formats.iceberg.partitioning import parse_partition_by
from gapless.tables.delta.table import DeltaTable
from gapless.tables.hudi.table import CREATE_OPTIONS as HUDI_CREATE_OPTIONS
from gapless.tables.iceberg.options import CREATE_OPTIONS as ICEBERG_CREATE_OPTIONS
from gapless.tables.iceberg.options import OPTIONS as ICEBERG_OPTIONS
from gapless.tables.iceberg.options import parse_iceberg_options
from gapless.tables.timeseries.lifecycle import IndexOptions
from gapless.tables.timeseries.table import TimeSeriesTable

PARTITION_BY = "partition_by"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a caller says of the table of a sink."""

    location: str
    storage_options: Mapping[str, str] | None
    create: Mapping[str, Any] | None
    own: Mapping[str, Any]
    """Those of `TableKind.own_options` that are given."""
    sizes: Mapping[str, Any]
    """The arguments that tables of every kind take."""

    @property
    def place(self) -> dict[str, Any]:
        """The arguments of a table by its path or URL."""
        return {"location": self.location, "storage_options": self.storage_options, **self.sizes}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableKind:
    """One kind of table."""

    reached: Callable[[Asked], SinkTable]
    """The table; nothing is opened. Raises InvalidOption, NotSupported without its library."""
    create_options: tuple[str, ...]
    """What `create` takes."""
    own_options: tuple[str, ...] = ()
    """Options of a sink that say which table it is, or how a missing one is made."""


def _series(asked: Asked) -> SinkTable:
    # It cannot be made of no options.
    return SeriesSinkTable(**asked.place, create=asked.create or None)


def _delta(asked: Asked) -> SinkTable:
    return DeltaSinkTable(**asked.place, create=asked.create)


def _iceberg(asked: Asked) -> SinkTable:
    catalog = {name: value for name, value in asked.own.items() if name != PARTITION_BY}
    partition_by = asked.own.get(PARTITION_BY)
    parse_partition_by(partition_by or ())
    options = parse_iceberg_options(asked.location, catalog, asked.storage_options)
    return open_iceberg(options, create=asked.create, partition_by=partition_by, **asked.sizes)


def _hudi(asked: Asked) -> SinkTable:
    create = asked.create
    if asked.own.get(PARTITION_BY) is not None:
        create = {PARTITION_BY: asked.own[PARTITION_BY], **(create or {})}
    return HudiSinkTable(**asked.place, create=create)


def _arguments(make: Callable[..., object]) -> Iterator[str]:
    taken = inspect.signature(make).parameters.values()
    return (one.name for one in taken if one.kind is one.KEYWORD_ONLY and one.name not in ("schema", "storage_options"))


TABLE_KINDS: Mapping[str, TableKind] = {
    "timeseries": TableKind(
        reached=_series, create_options=(*_arguments(TimeSeriesTable.create), *get_type_hints(IndexOptions))
    ),
    "delta": TableKind(reached=_delta, create_options=tuple(_arguments(DeltaTable.create))),
    "iceberg": TableKind(
        reached=_iceberg, create_options=tuple(ICEBERG_CREATE_OPTIONS), own_options=(*ICEBERG_OPTIONS, PARTITION_BY)
    ),
    "hudi": TableKind(reached=_hudi, create_options=HUDI_CREATE_OPTIONS, own_options=(PARTITION_BY,)),
}
