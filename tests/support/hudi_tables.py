"""Copy-on-write Hudi tables of version 6, written by hand: plain Parquet files under a timeline of JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

_PROPERTIES = """\
hoodie.table.name=hours
hoodie.table.type=COPY_ON_WRITE
hoodie.table.version=6
hoodie.timeline.layout.version=1
hoodie.table.timeline.timezone=UTC
hoodie.table.base.file.format=PARQUET
hoodie.populate.meta.fields={meta}
hoodie.table.recordkey.fields=site,ts
hoodie.table.partition.fields=
hoodie.table.keygenerator.class=org.apache.hudi.keygen.NonpartitionedKeyGenerator
"""
_AVRO = {
    pa.timestamp("us", "UTC"): {"type": "long", "logicalType": "timestamp-micros"},
    pa.string(): "string",
    pa.float64(): "double",
    pa.int64(): "long",
}
META = ("_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_record_key", "_hoodie_partition_path", "_hoodie_file_name")


def hudi_table(root: Path, *, meta: bool = False) -> Path:
    """An empty table; with `meta` its files have the columns that Hudi adds."""
    (root / ".hoodie").mkdir(parents=True)
    (root / ".hoodie" / "hoodie.properties").write_text(_PROPERTIES.format(meta=str(meta).lower()))
    (root / ".hoodie_partition_metadata").write_text("commitTime=1\npartitionDepth=0\n")
    return root


def hudi_commit(root: Path, group: int, day: int, rows: pa.Table, *, meta: bool = False) -> str:
    """Commit rows as the newest file of a file group, at noon of a day of January 2026; the instant."""
    instant = f"202601{day:02}120000000"
    file_id = f"{group:08}-0000-4000-8000-000000000000-0"
    name = f"{file_id}_0-0-0_{instant}.parquet"
    if meta:
        for at, column in enumerate(META):
            rows = rows.add_column(at, column, pa.array([instant] * rows.num_rows))
    pq.write_table(rows, root / name)
    size = (root / name).stat().st_size
    stat = {
        "fileId": file_id, "path": name, "prevCommit": "null", "numWrites": rows.num_rows, "numInserts": rows.num_rows,
        "numUpdateWrites": 0, "numDeletes": 0, "totalWriteBytes": size, "fileSizeInBytes": size, "totalWriteErrors": 0,
        "partitionPath": "",
    }  # fmt: skip
    fields = [{"name": one.name, "type": ["null", _AVRO[one.type]]} for one in rows.schema if one.name not in META]
    told = {
        "partitionToWriteStats": {"": [stat]}, "compacted": False, "operationType": "INSERT",
        "extraMetadata": {"schema": json.dumps({"type": "record", "name": "hours", "fields": fields})},
    }  # fmt: skip
    for suffix in (".commit.requested", ".inflight"):
        (root / ".hoodie" / f"{instant}{suffix}").touch()
    (root / ".hoodie" / f"{instant}.commit").write_text(json.dumps(told))
    return instant
