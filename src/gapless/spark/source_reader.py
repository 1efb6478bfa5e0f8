"""Batch reads of `format("gapless")`: planned on the driver, read by Python workers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from gapless.dialects.timeseries.actions import TableState
from gapless.errors import InvalidOption, SchemaMismatch
from gapless.model.protocols import Store
from gapless.model.segment import Segment
from gapless.parquet.scan import ReadPlan, read
from gapless.scan.plan import ReadGroup
from gapless.scan.range import identity_value
from gapless.spark.codes import coded
from gapless.spark.frame import view_of
from gapless.spark.inside import inside
from gapless.spark.options import SourceOptions
from gapless.spark.packing import packs_of
from gapless.spark.shown import shown_batches, shown_schema
from gapless.table.scan import ScanRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a read asks for, of one version."""

    store: Store
    version: int
    plan: ReadPlan | None
    """None while the table has no columns."""

    @classmethod
    def of(cls, options: SourceOptions) -> Wanted:
        """Open the table and plan the read; raises as `gl.open`, `table.at` and `table.scan` do, and NotSupported for a table in memory."""
        known = inside(view_of(options.path, options.version, options.timestamp))
        state = known.snapshot.state
        if options.columns == ():
            raise InvalidOption(
                "columns='' names no column",
                why="Spark reads no rows without columns from a source in Python",
                fix="Name one, or leave the option out",
                option="columns",
                value="",
            )
        request = ScanRequest(
            start=options.start,
            end=options.end,
            where=None,
            entity=_entity(options.entity, state),
            columns=options.columns,
            order=None,
        )
        return cls(store=known.rim.store, version=known.snapshot.version, plan=request.plan(state))

    @property
    def shown(self) -> pa.Schema:
        """The columns as Spark has them; raises UnsupportedType."""
        return shown_schema(pa.schema([]) if self.plan is None else self.plan.result_schema)


class Reader(DataSourceReader):
    """Reads the rows of one version. Has no `pushFilters`: what it pushed would stay for later scans of the same DataFrame."""

    def __init__(self, wanted: Wanted) -> None:
        plan, self.store, self.shown = wanted.plan, wanted.store, wanted.shown
        self.segments = () if plan is None else tuple(segment for group in plan.groups for segment in group.segments)
        self.plan = None if plan is None else plan.over(())

    def __getstate__(self) -> dict[str, object]:
        # Tasks get theirs with their partition. Gone and not empty, lest a copy that is asked for partitions find none.
        return {name: value for name, value in self.__dict__.items() if name != "segments"}

    def partitions(self) -> Sequence[InputPartition]:
        """The segments that may hold wanted rows, several in each partition."""
        return [InputPartition(pack) for pack in packs_of(self.segments, os.cpu_count() or 1)]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """The wanted rows of a partition's segments, a row group in memory at a time; None is what Spark makes of no partitions."""
        if self.plan is None or partition is None:
            return
        segments: tuple[Segment, ...] = partition.value
        plan = self.plan.over(tuple(ReadGroup(segments=(one,), sort=False) for one in segments))
        with coded():
            yield from shown_batches(read(self.store, plan), self.shown)


def reader_for(options: SourceOptions, schema: StructType) -> Reader:
    """A reader that gives the columns of `schema`, which is the table's, part of it, or what the user said to expect.

    Raises SchemaMismatch where a column has another type or `columns` says others, UnknownColumn, and as `Wanted.of` does.
    """
    names = tuple(schema.fieldNames())
    if options.columns not in (None, names):
        raise _mismatch(f"columns={','.join(options.columns or ())!r}", f"the schema has {', '.join(names)}")
    wanted = Wanted.of(replace(options, columns=names) if names else options)
    found = from_arrow_schema(wanted.shown, prefer_timestamp_ntz=True)
    for given, ours in zip(schema, found, strict=True):
        types = given.dataType.simpleString(), ours.dataType.simpleString()
        if types[0] != types[1]:
            raise _mismatch(f"{given.name}: {types[1]} in version {wanted.version} of the table", f"{types[0]} in the schema")
    return Reader(wanted)


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


def _mismatch(ours: str, theirs: str) -> SchemaMismatch:
    return SchemaMismatch(
        "the schema that Spark was told does not fit the table",
        why=f"{ours}, {theirs}",
        fix="Leave .schema(…) out, or make the table of the catalog anew",
        differences=(f"{ours}, {theirs}",),
    )
