"""Where batches of a stream go: time-series and Delta tables, and tables that `gapless.connect.sink` knows besides."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, Protocol

import pyarrow as pa

from gapless.connect.sinks.open import SinkPlace, parse_size, sink_table
from gapless.errors import InvalidOption, nearest
from gapless.model.operation import AppendReport, ChangeReport, SequenceId
from gapless.model.properties import OnOverlap
from gapless.model.protocols import Store
from gapless.spark.correct.corrections import upsert_frame
from gapless.spark.setup.options import NewTable
from gapless.spark.setup.tables import Table, open_in, open_to_write
from gapless.spark.writing.append import (
    append_frame,
    arrow_schema,
    check_delivery,
    check_described,
    open_or_create,
    overwrite_frame,
)
from gapless.spark.writing.sink_target import SinkTarget, sink_target
from gapless.spark.writing.staging import target_of
from gapless.spark.writing.target import BatchTarget, Delivery
from gapless.tables.shared.handle import Location
from gapless.tables.shared.landing import AppliedOperation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Mode = Literal["append", "complete", "update"]
Report = AppendReport | ChangeReport
SINK_KINDS = ("iceberg", "hudi")
"""The kinds of tables that are reached as sinks."""
HELD_BYTES = 128 << 20
"""Arrow memory of rows that a task holds, where `spill_bytes` does not say it."""
_CHANGES: Mapping[Mode, str] = {"append": "append", "complete": "overwrite", "update": "upsert"}
_NOT_HERE = {
    "on_empty": "A batch in complete mode takes the place of all rows, also where it holds none",
    "partition_overwrite": "A batch in complete mode takes the place of all rows",
    "spill_seconds": "A batch is committed as soon as it is written",
}


class BatchTable(Protocol):
    """A table that batches go to; it may be pickled, and is then opened anew."""

    @property
    def place(self) -> str:
        """Where it is, or will be."""
        ...

    def opened(self, frame: DataFrame) -> BatchTarget:
        """What it knows of batches; it is opened, or made for rows of a DataFrame's columns, where that is still to be done."""
        ...

    def write(self, frame: DataFrame, delivery: Delivery) -> Report:
        """Commit a batch that it does not know."""
        ...


@dataclass(slots=True, kw_only=True, eq=False)
class LoggedTable:
    """A time-series or Delta table."""

    place: str
    """An absolute path or a URL."""
    store: Store | None
    """The way to it, where the table was given open."""
    mode: Mode
    key: tuple[str, ...] | None
    on_overlap: OnOverlap | None
    new: NewTable | None
    """How a missing table is made."""
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)
    """Of the object store, where the table was given by its place."""
    handle: Table | None = None
    """The table, once it is open in this process."""

    def opened(self, frame: DataFrame) -> BatchTarget:
        """See `BatchTable.opened`."""
        return target_of(self._handle(frame))

    def write(self, frame: DataFrame, delivery: Delivery) -> Report:
        """See `BatchTable.write`."""
        handle = self._handle(frame)
        match self.mode:
            case "append":
                return append_frame(frame, target_of(handle), delivery, spread=False)
            case "complete":
                return overwrite_frame(frame, target_of(handle), delivery, spread=False)
        return upsert_frame(frame, handle, key=self.key, delivery=delivery)

    def check(self, handle: Table) -> None:
        """Raise InvalidOption for a table that is otherwise than it would be made, and for a policy that its kind has no meaning for."""
        check_delivery(handle, Delivery(on_overlap=self.on_overlap))
        if self.new is not None:
            check_described(handle, self.new)

    def _handle(self, frame: DataFrame) -> Table:
        if self.handle is None or not target_of(self.handle).lies_there():
            if self.store is not None:
                self.handle = open_in(self.store, self.place)
            else:
                self.handle = open_or_create(self.place, self.new, arrow_schema(frame), self.storage_options)
                self.check(self.handle)
        return self.handle

    def __reduce__(self) -> tuple[object, ...]:
        """All but the open table, which is of this process."""
        return _rebuilt, (type(self), {one.name: getattr(self, one.name) for one in fields(self) if one.name != "handle"})


@dataclass(slots=True, kw_only=True, eq=False)
class SinkBatches:
    """An Iceberg or Hudi table."""

    at: SinkPlace
    mode: Mode
    options: Mapping[str, Any] = field(repr=False)
    """Those of `gapless.connect.sink`."""
    target: SinkTarget[Any, Any, Any] = field(init=False, repr=False)
    _given: pa.Schema = field(init=False, repr=False)
    """The columns of the batch that it was opened for."""

    def __post_init__(self) -> None:
        """Read the options; nothing is opened. Raises InvalidOption."""
        options = dict(self.options)
        for name, why in _NOT_HERE.items():
            if name in options:
                raise InvalidOption(
                    f"{name} is no option of batches of a stream",
                    why=why,
                    fix="Leave it out",
                    option=name,
                    value=options[name],
                )
        held_bytes = parse_size("spill_bytes", options.pop("spill_bytes", HELD_BYTES))
        create = options.pop("create", None)
        table, change = sink_table(self.at, _CHANGES[self.mode], options, create=create, held_bytes=held_bytes)
        self.target = sink_target(table, change, held_bytes)

    @property
    def place(self) -> str:
        """See `BatchTable.place`."""
        return self.target.url

    def opened(self, frame: DataFrame) -> BatchTarget:
        """See `BatchTable.opened`."""
        self._given = arrow_schema(frame)
        self.target.open(self._given)
        return self.target

    def write(self, frame: DataFrame, delivery: Delivery) -> Report:
        """See `BatchTable.write`."""
        assert isinstance(delivery.operation, SequenceId)
        outcome = self.target.write(frame, self._given, delivery.operation)
        return outcome.append_report if self.mode == "append" else outcome.change_report

    def __reduce__(self) -> tuple[object, ...]:
        """The place and the options."""
        return _rebuilt, (type(self), {"at": self.at, "mode": self.mode, "options": self.options})


def sink_place(table: object, options: dict[str, Any]) -> SinkPlace | None:
    """Where "iceberg:…" or "hudi:…" lies, with the `storage_options`, which are taken out of the options; None for a table of another kind."""
    kind, _, location = os.fspath(table).partition(":") if isinstance(table, str | os.PathLike) else ("", "", "")
    if kind not in SINK_KINDS:
        return None
    return SinkPlace(kind=kind, location=location, storage_options=options.pop("storage_options", None))


def applied_to(table: Table | Location, options: Mapping[str, Any]) -> Mapping[str, AppliedOperation]:
    """The operations that the newest version of a table has applied, by `operation_key`. Raises TableNotFound, InvalidOption, and as `gl.open`."""
    told = dict(options)
    if (at := sink_place(table, told)) is not None:
        return SinkBatches(at=at, mode="append", options=told).target.applied()
    storage = told.pop("storage_options", None)
    refuse_options(told, ("table", "app_id", "storage_options"), "a time-series or Delta table")
    return target_of(open_to_write(table, storage)).applied()


def refuse_options(options: Mapping[str, Any], known: tuple[str, ...], kind: str) -> None:
    """Raise InvalidOption for the first of these options, all of which tables of a kind do not take."""
    for name, value in options.items():
        raise InvalidOption(
            f"{name} is no option of batches into {kind}",
            why=f"It has {', '.join(known)}",
            fix=nearest(name, known),
            option=name,
            value=value if name in ("mode", "key") else None,
        )


def _rebuilt(kind: Callable[..., object], values: Mapping[str, Any]) -> object:
    return kind(**values)
