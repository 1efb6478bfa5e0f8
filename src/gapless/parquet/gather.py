"""Rows gathered into sorted runs of bounded memory: what an append and a compaction have in common."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from gapless.coverage.bucket import Grid
from gapless.dialects.timeseries.actions import TableMeta
from gapless.dialects.timeseries.schema_codec import METADATA_FEATURE
from gapless.model.index import IndexSpec
from gapless.model.schema import annotated_schema
from gapless.parquet.run import Run, sort_run


def gather_runs(
    batches: Iterable[pa.RecordBatch], stored: pa.Schema, index: IndexSpec, grid: Grid, limit: int
) -> Iterator[Run]:
    """Runs of up to `limit` bytes of Arrow memory each, or of one batch that has more, from batches of the stored schema; none without rows.

    Equal keys of one run stay in the order in which they came. What a run was made of is let go before the run is given out.
    """
    held: list[pa.RecordBatch] = []
    held_bytes = 0
    for batch in batches:
        if held:
            # To measure a batch takes longer than to sort a small one, and one alone need not be.
            size, held_bytes = batch.nbytes, held_bytes or held[0].nbytes
            if held_bytes + size > limit and any(one.num_rows for one in held):
                run = sort_run(pa.Table.from_batches(held, stored), index, grid)
                held, held_bytes = [], 0
                yield run
                del run
            else:
                held_bytes += size
        held.append(batch)
    if any(batch.num_rows for batch in held):
        run = sort_run(pa.Table.from_batches(held, stored), index, grid)
        held = []
        yield run


def pieces(batch: pa.RecordBatch, limit: int) -> Iterator[pa.RecordBatch]:
    """A batch in slices of one length and about `limit` bytes at most, so that one huge batch costs no huge copies."""
    # No column holds more than all buffers do, whose size is known at once.
    if batch.get_total_buffer_size() * batch.num_columns <= limit:
        yield batch
        return
    rows = max(1, -(-batch.num_rows // max(1, -(-batch.nbytes // limit))))
    for start in range(0, max(1, batch.num_rows), rows):
        yield batch.slice(start, rows)


def as_written(run: Run, meta: TableMeta) -> Run:
    """The run with the schema that files of this table have: with its metadata, where they must repeat them."""
    if METADATA_FEATURE not in meta.reader_features or meta.schema is None:
        return run
    schema = annotated_schema(run.rows.schema, meta.ids.physical_schema(meta.schema))
    return run.with_rows(run.rows.with_schema(schema))
