"""Maintenance of a Delta table in a bucket, with partition values of every kind of character."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pytest

from gapless.errors import VersionNotFound
from gapless.tables.delta.table import DeltaTable
from support.delta_tables import replayed, rows_of

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string())])
DAYS = ["a", "é/ü", "100 %", "x=y z", "%25", "🦆", None]


def rows(first: int) -> pa.Table:
    return pa.table({"id": range(first, first + len(DAYS)), "day": DAYS}, SCHEMA)


def test_a_bucket_is_kept_in_shape(s3_options: tuple[str, dict[str, str]]) -> None:
    url, options = s3_options
    properties = {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "true"}
    table = DeltaTable.create(url, SCHEMA, partition_by="day", properties=properties, storage_options=options)
    for first in (0, 10, 20):
        table.append(rows(first))
    table.delete("id between 11 and 12")
    before, version = rows_of(table), table.version
    assert replayed(table) == before
    report = table.compact()
    assert (report.bins, report.segments_after, report.given_up) == (len(DAYS), len(DAYS), ())
    assert table.compact().bins == 0
    table.zorder("id", curve="hilbert")
    assert rows_of(table) == before
    assert table.at(time=table.history()[1].time).count() == len(DAYS)
    assert table.restore(1).restored == 1
    assert table.restore(version).added_rows == before.total() - len(DAYS)
    assert rows_of(table) == before
    table.checkpoint()
    plan = table.vacuum(timedelta(0), enforce_retention=False)
    done = table.vacuum(timedelta(0), dry_run=False, enforce_retention=False)
    assert {entry.path for entry in done.deleted} == {entry.path for entry in plan.deleted}
    assert {entry.path for entry in table.vacuum().entries} == {file.path for file in table.files()}
    assert rows_of(DeltaTable.open(url, storage_options=options)) == before
    with pytest.raises(VersionNotFound, match="can be read no longer"):
        table.at(version + 1).scan().to_arrow()
    with pytest.raises(VersionNotFound, match="the earliest version that can be restored is"):
        table.restore(version + 1)
