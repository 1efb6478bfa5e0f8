"""For `foreachBatch`: each batch of a streaming query into a table, once, in every output mode."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from gapless.errors import InvalidOption, LogWarning, one_of
from gapless.model.operation import AppendReport, ChangeReport, parse_operation_id
from gapless.model.properties import OnOverlap, parse_on_overlap
from gapless.spark.setup.coded import coded
from gapless.spark.setup.options import NewTable
from gapless.spark.setup.tables import Table, open_to_write, refuse_given
from gapless.spark.stream.batch_dedup import check_batch, note_name, output_mode_of, stream_of
from gapless.spark.stream.batch_tables import BatchTable, LoggedTable, Mode, SinkBatches, refuse_options, sink_place
from gapless.spark.writing.staging import target_of
from gapless.store.open import open_store
from gapless.tables.shared.handle import Location

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def batch_writer(
    table: Table | Location,
    mode: Mode = "append",
    key: Sequence[str] | str | None = None,
    app_id: str | None = None,
    on_overlap: OnOverlap | None = None,
    *,
    index: str | None = None,
    entity: Sequence[str] | str = (),
    bucket: str | int | None = None,
    **options: Any,
) -> BatchWriter:
    """What `df.writeStream.foreachBatch(…)` takes: writes each batch as one commit, once, however often Spark sends it.

    Args:
        table: A time-series table or a Delta table, or the path or URL of one; or what `gapless.connect.sink` calls a table:
            "iceberg:", "hudi:", "delta:" or "timeseries:" and its path or URL, or its name in an Iceberg catalog ("iceberg:sales.trips").
        mode: "append" adds the rows; "complete" has them take the place of all rows; "update" upserts them. The query's output mode must
            be the same, but for "update", which takes what any query brings.
        key: With "update": the columns that tell rows apart, as in `gapless.spark.upsert`; Delta and Iceberg tables need them, and a Hudi
            table is asked for its own where none are given.
        app_id: What the batches are known by in the table's log, with their numbers; the query's id where not given. Whoever gives it
            promises that a number always names the same rows: batches whose number the table has under this name, or a higher one, are
            passed over, whatever rows they bring, which one LogWarning says. So a query with a new checkpoint location goes on where the
            one before stopped, if it gets the same batches again from its source.
        on_overlap: With "append": as in `table.append`, but "allow" where not given.
        index: With `entity` and `bucket`: how a table that is missing is made, as in `gl.create`. One that is there must be so.
        entity: Its entity columns.
        bucket: Its bucket.
        options: `storage_options`, of the object store, where the table is given by its place. Of Iceberg and Hudi tables, as in `gapless.connect.sink`: `create` and `partition_by` for a missing one, `schema_evolution`,
            `target_bytes`, `order_by` (with "update"), `spill_bytes` (Arrow memory of the rows that a task holds, 128 MiB
            where not given), and the catalog of an Iceberg table (`catalog_type`, `catalog_uri`, `warehouse`, `namespace`, `table_name`, …).

    Batches that hold no rows are recorded too. A batch is one write: where it goes to one table in parts, each part needs an `app_id`
    of its own: without one what comes second in a run of the query raises InvalidOption, and under one name it is passed over, with a
    LogWarning. Partitions are written as they come, each to files of
    its own: repartition before, where batches are large. What "append" and "complete" bring into an Iceberg table executors write as data
    files. What "update" brings, and all that goes into a Hudi table, they store beside the table, and the driver writes it into files of the
    table, file by file; of an "update" it holds the rows of a batch in memory. Rows of an "update" that share a key raise DuplicateKey where
    no `order_by` tells the newer one. In Spark Connect a query beside others of its session needs an `app_id`, and
    neither its output mode nor a second write is known.

    The batches raise StreamRestarted where rows could be in the table already (a query id that it does not know, at a checkpoint location
    that another query used, or with a first batch above 0) and no `app_id` is given; and as `write`, `overwrite` and `upsert` do.
    Raises InvalidOption here, NotSupported for a table in memory, and as `gl.open` for a table given by neither path nor URL.
    """
    _check(mode, key, app_id, on_overlap)
    new = _new_table(index, entity, bucket)
    policy = None if on_overlap is None else parse_on_overlap(on_overlap)
    if (at := sink_place(table, options)) is not None:
        told = {"index": None if new is None else new.index, "on_overlap": on_overlap}
        refuse_given(told, f"{'an Iceberg' if at.kind == 'iceberg' else 'a Hudi'} table", "Leave it out")
        asked = {**options} if key is None else {**options, "key": key}
        return BatchWriter(table=SinkBatches(at=at, mode=mode, options=asked), mode=mode, app_id=app_id, on_overlap=None)
    storage = options.pop("storage_options", None)
    refuse_options(options, _KNOWN, "a time-series or Delta table")
    if isinstance(table, str) and table.startswith(("timeseries:", "delta:")):
        table = table.partition(":")[2]
    handle = None if isinstance(table, str | os.PathLike) else open_to_write(table)
    into = LoggedTable(
        place=open_store(table, storage).url if isinstance(table, str | os.PathLike) else table.url,
        store=None if handle is None else target_of(handle).context.env.store,
        handle=handle,
        mode=mode,
        key=(key,) if isinstance(key, str) else None if key is None else tuple(key),
        on_overlap=policy,
        new=new,
        storage_options=storage,
    )
    if handle is not None:
        into.check(handle)
    return BatchWriter(table=into, mode=mode, app_id=app_id, on_overlap=policy)


_KNOWN = ("mode", "key", "app_id", "on_overlap", "index", "entity", "bucket", "storage_options")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BatchWriter:
    """Writes batches of a stream; it may be pickled, and then opens the table anew where it is unpickled. Make it with `batch_writer`."""

    table: BatchTable
    mode: Mode
    app_id: str | None
    on_overlap: OnOverlap | None

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Write one batch; see `write`. Gives nothing back, as `foreachBatch` wants it."""
        self.write(frame, batch_id)

    @coded()
    def write(self, frame: DataFrame, batch_id: int) -> AppendReport | ChangeReport:
        """Write one batch of the query that calls; its report says `already_applied` where the table has it."""
        _check_output(self.mode, output_mode_of(frame))
        target, place = self.table.opened(frame), self.table.place
        stream = stream_of(frame, self.app_id, place, batch_id)
        admitted = check_batch(target, stream, batch_id, on_overlap=self.on_overlap or "allow")
        if isinstance(admitted, AppendReport):
            if stream.app in stream.parts:
                if self.app_id is None:
                    raise _two_writers(place, batch_id)
                warnings.warn(_comes_twice(place, batch_id), LogWarning, stacklevel=2)
            note_name(frame, place, stream, batch_id)
            # A query with state fails where a batch of it was not computed.
            frame.write.format("noop").mode("overwrite").save()
            return admitted
        report = self.table.write(frame, admitted)
        note_name(frame, place, stream, batch_id)
        return report


def _check(mode: object, key: object, app_id: str | None, on_overlap: object) -> None:
    """Raise InvalidOption for what a mode does not take."""
    one_of("mode", mode, get_args(Mode), "It is the output mode of a stream")
    if key is not None and mode != "update":
        raise _invalid("key", key, f"Only an update tells rows apart, and mode={mode!r}", 'Leave it out, or pass mode="update"')
    if on_overlap is not None and mode != "append":
        raise _invalid("on_overlap", on_overlap, f"Only an append looks at it, and mode={mode!r}", "Leave it out")
    if app_id is not None:
        parse_operation_id((app_id, 0))


def _check_output(mode: Mode, output: str | None) -> None:
    """Raise InvalidOption where batches of a query in this output mode, as far as it is known, would double rows or lose some."""
    if output is None or mode in ("update", output):
        return
    harm = {
        "append": "brings rows again that changed, which would be added",
        "complete": "brings only a part of the rows with each batch, and all others would go",
    }
    raise _invalid(
        "mode", mode, f"The query is in {output} mode: it {harm[mode]}", f'Pass mode="{output}", or outputMode("{mode}")'
    )


def _two_writers(url: str, batch: int) -> InvalidOption:
    return InvalidOption(
        f"batch {batch} comes to {url} a second time in one run of the query, and neither write has a name of its own",
        why="The table knows a batch by the query and its number: what comes now would be passed over, as the batch that it has",
        fix='Give each writer an app_id of its own, batch_writer(…, app_id="…"), or bring the rows in one write',
        option="app_id",
        value=None,
    )


def _comes_twice(url: str, batch: int) -> str:
    return (
        f"batch {batch} came to {url} before, in the same run of the query: what comes now is passed over. If these are other rows of "
        "the batch, write them by a batch_writer with an app_id of its own"
    )


def _new_table(index: str | None, entity: Sequence[str] | str, bucket: str | int | None) -> NewTable | None:
    """How a missing table is made; raises InvalidOption where half of it is said."""
    if index is None and bucket is None and not entity:
        return None
    if index is None or bucket is None:
        raise _invalid(
            "index" if index is None else "bucket",
            None,
            "A missing table is made of index and bucket, and entity where there are several series",
            "Give index and bucket, or leave all three out",
        )
    return NewTable(index=index, entity=(entity,) if isinstance(entity, str) else tuple(entity), bucket=str(bucket))


def _invalid(option: str, value: object, why: str, fix: str) -> InvalidOption:
    return InvalidOption(f"{option}={value!r} cannot be taken here", why=why, fix=fix, option=option, value=value)
