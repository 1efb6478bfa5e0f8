"""Change records applied to Delta tables as Spark's `table_changes` tells them, and Spark's changes as records."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.cdc import Record
from interop.delta.engines import Ask, counted
from support.record_histories import SOURCE, told

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64()), ("s", pa.string())])
FED = {"delta.enableChangeDataFeed": "true"}


def history(records: int, rows: int) -> list[Record]:
    drawn, live, found = random.Random(7), dict[int, dict[str, Any]](), list[Record]()
    for number in range(records):
        key = drawn.randrange(rows)
        before = live.pop(key, None)
        after = None if before is not None and drawn.random() < 0.4 else {"id": key, "v": number, "s": f"s{number}"}
        op = "c" if before is None else "d" if after is None else "u"
        found.append(Record(_id=key, _seq=number, _op=op, _before=before, _after=after, _ts=number, _source=SOURCE))
        live |= {} if after is None else {key: after}
    return found


@pytest.mark.long
@pytest.mark.parametrize("vectors", ["true", "false"])
def test_spark_tells_the_changes_that_records_made_and_we_tell_sparks(vectors: str, engine: Ask, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    table = gl.delta.create(path, SCHEMA, properties=FED | {"delta.enableDeletionVectors": vectors})
    records = history(60, 25)
    for begin in range(0, 60, 20):
        gl.cdc.apply(table, records[begin : begin + 20], key="id", operation_id=("app", begin))
    spark = engine("spark")
    columns = [*SCHEMA.names, "_change_type", "_commit_version"]
    theirs = spark.do("query", text=f"select * from table_changes_by_path('{path}', 1)")
    assert counted(theirs, columns) == counted(table.changes(1).to_arrow(), columns)
    pairs = {"c": ["insert"], "u": ["update_preimage", "update_postimage"], "d": ["delete"]}
    assert sorted(theirs.column("_change_type").to_pylist()) == sorted(kind for one in records for kind in pairs[one._op])
    assert told(list(gl.cdc.changes(table, 1, key="id"))) == told(records)

    head = table.version
    rows = pa.table({"id": [0, 1, 100], "v": [7, 7, 7], "s": ["x", "x", "x"]}, schema=SCHEMA)
    spark.do("merge", rows, path=path, on="t.id = s.id")
    spark.do("update", path=path, values={"v": "-1"}, where="id % 3 = 0")
    spark.do("delete", path=path, where="id % 5 = 0")
    table.refresh()
    for version in range(head + 1, table.version + 1):
        before = {row["id"]: row for row in table.at(version - 1).scan().to_arrow().to_pylist()}
        for one in gl.cdc.changes(table, version, version, key="id"):
            assert one._before == before.get(one._id)
            before.pop(one._id, None)
            before |= {} if one._after is None else {one._id: one._after}
        assert before == {row["id"]: row for row in table.at(version).scan().to_arrow().to_pylist()}
    assert table.version == head + 3
