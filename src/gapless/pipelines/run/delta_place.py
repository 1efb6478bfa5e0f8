"""The Delta table of a sink: made as its options say, and held to them where it is there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import pyarrow as pa

from gapless.errors import InvalidOption, TableExists, TableNotFound
from gapless.formats.delta.publishing import PUBLISH
from gapless.pipelines.options.storage import storage_options
from gapless.tables.delta.table import DeltaTable

_FILE_SIZE = "delta.targetFileSize"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaPlace:
    """Where a table lies, and what the options of the sink say of it."""

    location: str
    partition_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    """Those that it is to have, as the log has them."""
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """Of the options of a sink of type='delta'."""
        properties = {}
        if options["uniform_iceberg"] is not None:
            properties[PUBLISH] = "iceberg" if options["uniform_iceberg"] else ""
        if options["target_file_size"] is not None:
            properties[_FILE_SIZE] = str(options["target_file_size"])
        return cls(
            location=options["location"],
            partition_by=options["partition_by"] or (),
            properties=properties,
            storage=storage_options(options),
        )

    def ready(self, columns: Callable[[], pa.Schema]) -> None:
        """Open the table, or make it, with these columns.

        Raises InvalidOption for one that is partitioned otherwise, or says otherwise whether it is published as Iceberg or how large files
        become; and as `gl.delta.open` and `gl.delta.create`.
        """
        try:
            table = DeltaTable.open(self.location, storage_options=self._storage)
        except TableNotFound:
            made = {name: value for name, value in self.properties.items() if value}
            try:
                DeltaTable.create(
                    self.location, columns(), partition_by=self.partition_by, properties=made, storage_options=self._storage
                )
            except TableExists:  # made by another one just now
                table = DeltaTable.open(self.location, storage_options=self._storage)
            else:
                return
        self._check(table)

    @property
    def _storage(self) -> dict[str, str] | None:
        return dict(self.storage) or None

    def _check(self, table: DeltaTable) -> None:
        if self.partition_by and tuple(table.partition_by) != self.partition_by:
            raise _other("partition_by", ", ".join(self.partition_by), ", ".join(table.partition_by), table.url)
        wanted = self.properties.get(PUBLISH)
        published = "iceberg" in table.properties.get(PUBLISH, "").split(",")
        if wanted is not None and published != bool(wanted):
            raise _other("uniform_iceberg", str(bool(wanted)).upper(), str(published).upper(), table.url)
        size = self.properties.get(_FILE_SIZE)
        if size is not None and table.properties.get(_FILE_SIZE) != size:
            raise _other("target_file_size", size, table.properties.get(_FILE_SIZE, "none"), table.url)


def _other(option: str, wanted: str, present: str, url: str) -> InvalidOption:
    return InvalidOption(
        f"{option}={wanted!r}, and the Delta table at {url} has {present or 'none'!r}",
        why="The option says how a missing table is made, and this one is there",
        fix="Leave it out; or change the table, with table.alter.set_properties"
        if option != "partition_by"
        else "Leave it out",
        option=option,
        value=wanted,
    )
