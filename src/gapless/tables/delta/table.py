"""The Delta table that users hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import pyarrow as pa

from gapless.errors import UnsupportedTable
from gapless.formats.delta.actions import TableState
from gapless.formats.delta.features import check_writable
from gapless.formats.delta.format import DELTA
from gapless.formats.delta.publishing import FORMATS
from gapless.log.format import Snapshot
from gapless.log.snapshot import refresh
from gapless.model.publishing import PublishedFormat
from gapless.runtime.environment import Environment
from gapless.store.open import table_name
from gapless.tables.delta.alter.alter import Altering
from gapless.tables.delta.care.compact import Compacting
from gapless.tables.delta.care.restore import Restoring
from gapless.tables.delta.care.vacuum import Checkpointing, Vacuuming
from gapless.tables.delta.care.verify import Verifying
from gapless.tables.delta.lifecycle import create_table, open_table
from gapless.tables.delta.merge.merge import Merging
from gapless.tables.delta.read.view import DeltaView
from gapless.tables.delta.write.append import Appending
from gapless.tables.delta.write.dedup import Deduping
from gapless.tables.delta.write.delete import Deleting, Updating
from gapless.tables.delta.write.overwrite import Overwriting
from gapless.tables.shared.handle import Location, kind_of, open_environment
from gapless.tables.shared.publication.publishing import Publishing


class DeltaTable(
    DeltaView,
    Appending,
    Overwriting,
    Deleting,
    Updating,
    Merging,
    Deduping,
    Compacting,
    Vacuuming,
    Restoring,
    Checkpointing,
    Altering,
    Verifying,
    Publishing[TableState],
):
    """A Delta table at one version.

    A handle stays at the version it has seen until `refresh` or a change of its own moves it on. Make one with `gl.delta.create` or
    `gl.delta.open`.
    """

    _formats: ClassVar[tuple[PublishedFormat, ...]] = FORMATS
    _how_to_publish: ClassVar[str] = "table.alter.set_properties"

    def __init__(self, env: Environment, location: Location, snapshot: Snapshot[TableState]) -> None:
        """Use `create` or `open`."""
        super().__init__(env, table_name(location), snapshot)
        self._beside_series: bool | None = None

    @classmethod
    def _made(cls, env: Environment, snapshot: Snapshot[TableState], newest: Snapshot[TableState] | None) -> Self:  # noqa: ARG003
        return cls(env, env.store.url, snapshot)

    @classmethod
    def create(  # what a table is, said once, at its birth
        cls,
        path: Location,
        schema: pa.Schema | None = None,
        *,
        partition_by: Sequence[str] | str = (),
        properties: Mapping[str, Any] | None = None,
        name: str | None = None,
        description: str | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> DeltaTable:
        """Make a table.

        Args:
            path: Where: a local path (str or Path, `~` is the home directory, relative to the current directory), or a URL `file://`,
                `s3://`, `gs://`, `az://`, `memory://`.
            schema: Columns, as Arrow has them; without it the first append's are adopted.
            partition_by: Columns by whose values files are kept apart.
            properties: Table properties by their names in Delta, such as `{"delta.enableChangeDataFeed": True}`, and any of your own.
                `delta.constraints.<name>` holds a condition that every row must meet, in Spark's SQL. The protocol is the lowest that
                serves; `delta.feature.<name>` asks for more.
            name: What other tools may call the table.
            description: And say of it.
            storage_options: Options of the object store, in obstore's names.

        Raises:
            TableExists, InvalidOption, InvalidPath, UnknownColumn, UnsupportedType, NotSupported, InvalidQuery, StoreError.
        """
        env = open_environment(path, storage_options)
        snapshot = create_table(
            env, str(path), schema, partition_by=partition_by, properties=properties, name=name, description=description
        )
        made = cls(env, path, snapshot)
        made._follow(snapshot)
        return made

    @classmethod
    def open(cls, path: Location, *, storage_options: Mapping[str, str] | None = None) -> DeltaTable:
        """Open a table at its newest version. Raises TableNotFound, UnsupportedTable, CorruptTable, StoreError.

        Where a time-series table lies at the same place, its Delta log only describes it to others: it can be read, not written.
        """
        env = open_environment(path, storage_options)
        return cls(env, path, open_table(env, str(path)))

    def refresh(self) -> DeltaTable:
        """Move to the newest version, reading only the commits since; returns the table itself.

        Raises UnsupportedTable where the newest version needs what this release cannot read, CorruptTable, StoreError.
        """
        self._move_to(self._env.drive(refresh(DELTA, self._snapshot)))
        return self

    def _check_writable(self) -> None:
        if self._beside_series is None:
            self._beside_series = kind_of(self._env.store) == "timeseries"
        if self._beside_series:
            raise UnsupportedTable(
                f"the Delta log of {self.url} is not to be written",
                why="A time-series table lies there, whose files this log tells others of",
                fix="Write to that with gl.open(path); what it publishes follows",
                needs="a table of its own",
            )
        check_writable(self._state.protocol, self.url, self._state.metadata)


create, open = DeltaTable.create, DeltaTable.open  # noqa: A001  # what users call them: gl.delta.create, gl.delta.open
