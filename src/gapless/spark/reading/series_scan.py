"""What a read of a version of a time-series table asks for, and how executors read it with our own reader: values that are pickled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from gapless.files.read.scan import ReadPlan, read
from gapless.formats.timeseries.actions import TableState
from gapless.model.protocols import Store
from gapless.model.segment import Segment
from gapless.predicate.plan import ReadGroup
from gapless.predicate.range import identity_value
from gapless.spark.reading.arrow_columns import shown_batches, shown_schema
from gapless.spark.setup.job_context import job_context
from gapless.spark.setup.options import SourceOptions
from gapless.tables.timeseries.read.scan import ScanRequest
from gapless.tables.timeseries.read.view import TableView


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesScan:
    """What a read asks for, of one version."""

    store: Store
    version: int
    plan: ReadPlan | None
    """None while the table has no columns."""

    @classmethod
    def of(cls, view: TableView, options: SourceOptions) -> SeriesScan:
        """Plan the read; raises as `table.scan` does, and NotSupported for a table in memory."""
        known = job_context(view)
        state = known.snapshot.state
        request = ScanRequest(
            start=options.start,
            end=options.end,
            where=None,
            entity=_entity(options.entity, state),
            columns=options.columns,
            order=None,
        )
        return cls(store=known.env.store, version=known.snapshot.version, plan=request.plan(state))

    @property
    def declared(self) -> pa.Schema:
        """The columns, in the table's types; none while it has none."""
        return pa.schema([]) if self.plan is None else self.plan.result_schema

    @property
    def reader(self) -> SegmentReader:
        """What executors read with. Raises UnsupportedType."""
        shown = shown_schema(self.declared)
        return SegmentReader(store=self.store, plan=None if self.plan is None else self.plan.over(()), shown=shown)

    def files(self) -> list[Segment]:
        """The segments that may hold a wanted row."""
        return [] if self.plan is None else [segment for group in self.plan.groups for segment in group.segments]


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentReader:
    """Reads the wanted rows of segments on an executor; picklable."""

    store: Store
    plan: ReadPlan | None
    """Of no segments."""
    shown: pa.Schema
    """The columns as Spark has them."""

    def read(self, pack: tuple[Segment, ...]) -> Iterator[pa.RecordBatch]:
        """The rows of some segments, in Spark's types, a row group in memory at a time."""
        if self.plan is None:
            return
        plan = self.plan.over(tuple(ReadGroup(segments=(one,), sort=False) for one in pack))
        yield from shown_batches(read(self.store, plan), self.shown)


def _entity(given: Mapping[str, object], state: TableState) -> Mapping[str, object]:
    """An entity filter whose texts became what the columns hold; raises InvalidOption."""
    schema, entity = state.meta.schema, state.meta.index.entity
    if schema is None:
        return given
    return {
        name: [
            identity_value(name, schema.field(name).type, one) if isinstance(one, str) else one
            for one in (values if isinstance(values, list) else [values])
        ]
        if name in entity
        else values
        for name, values in given.items()
    }
