"""How the stream of a source answers what Spark asks, in the order in which 4.1 and 4.2 ask: no JVM has a part in it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import InvalidOption, ObjectNotFound, SchemaMismatch
from gapless.spark.connected.described import DescribedSource
from gapless.spark.connected.source import FIRST, ConnectStreamReader, StreamOffset

SCHEMA = pa.schema([("id", pa.int64())])
Offset = dict[str, Any]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    gl.delta.create(tmp_path / "table", SCHEMA)
    return tmp_path


def append(root: Path, *ids: int) -> None:
    gl.delta.open(root / "table").append(pa.table({"id": list(ids)}, schema=SCHEMA))


def made(root: Path, *, max_rows: int = 100, schema: pa.Schema = SCHEMA, **options: Any) -> ConnectStreamReader:
    given = {"on_schema_change": "evolve", **options}
    return ConnectStreamReader(
        DescribedSource(url=f"delta:{root}/table", options=given, schema=schema, kept=f"{root}/rows", max_rows=max_rows)
    )


def rows(reader: ConnectStreamReader, start: Offset, end: Offset) -> list[int]:
    found: list[int] = []
    for part in reader.partitions(start, end):
        for batch in reader.read(part):
            found += batch.column("id").to_pylist()
    return found


def told(offset: Offset) -> Offset:
    """As Spark writes and reads it."""
    found: Offset = json.loads(json.dumps(offset))
    return found


def kept(root: Path) -> list[Path]:
    return sorted((root / "rows").rglob("*.arrow"))


def test_batches_follow_each_other_and_are_let_go(root: Path) -> None:
    append(root, 1, 2, 3)
    reader = made(root, max_rows=2)
    ends = [reader.initialOffset()]
    found = []
    while (end := told(reader.latestOffset())) != ends[-1]:
        assert told(reader.latestOffset()) == end  # asked again, before it is planned
        found.append(rows(reader, ends[-1], end))
        if ends[1:]:
            reader.commit(ends[-1])
        ends.append(end)
    assert found == [[1, 2], [3]]
    assert len(kept(root)) == 1
    append(root, 4)
    assert rows(reader, ends[-1], told(reader.latestOffset())) == [4]


def test_a_batch_comes_again_as_it_was_when_its_table_is_gone(root: Path) -> None:
    append(root, 1, 2)
    first = told(made(root).latestOffset())
    shutil.rmtree(root / "table")
    reader = made(root)
    assert rows(reader, FIRST.to_json(), first) == [1, 2]
    reader.commit(first)
    assert reader.partitions(first, first) == []
    assert not kept(root)
    with pytest.raises(ObjectNotFound):
        rows(reader, FIRST.to_json(), first)


def test_a_query_that_goes_on_is_told_where_it_stands(root: Path) -> None:
    append(root, 1, 2)
    reader = made(root)
    first = told(reader.latestOffset())
    assert rows(reader, reader.initialOffset(), first) == [1, 2]
    append(root, 3)
    later = made(root)  # 4.1: by an empty batch
    assert later.partitions(first, first) == []
    second = told(later.latestOffset())
    assert rows(later, first, second) == [3]
    newer = made(root)  # 4.2: by each question
    third = told(newer.latestOffset(first, None))
    assert rows(newer, first, third) == [3]
    assert third != second
    later.commit(second)
    assert not kept(root)  # what the other attempt at it left, too


def test_what_a_stream_from_now_on_passed_over_stays_so(root: Path) -> None:
    append(root, 1)
    reader = made(root, start="latest")
    begin = told(reader.latestOffset())
    assert begin != reader.initialOffset()
    assert rows(reader, reader.initialOffset(), begin) == []
    append(root, 2)
    later = made(root, start="latest")
    assert later.partitions(begin, begin) == []
    end = told(later.latestOffset())
    assert rows(later, begin, end) == [2]
    assert told(later.latestOffset()) == end


def test_rows_have_the_columns_that_spark_was_told(root: Path) -> None:
    append(root, 1)
    wider = pa.schema([*SCHEMA, ("v", pa.string())])
    reader = made(root, schema=wider)
    first = told(reader.latestOffset())
    (part,) = reader.partitions(reader.initialOffset(), first)
    assert [batch.to_pydict() for batch in reader.read(part)] == [{"id": [1], "v": [None]}]
    gl.delta.open(root / "table").append(pa.table({"id": [2], "v": ["a"]}, schema=wider), schema_mode="merge")
    narrow = made(root)
    narrow.partitions(first, first)
    with pytest.raises(SchemaMismatch, match="v: is not known"):
        narrow.latestOffset()
    assert reader.partitions(first, told(reader.latestOffset()))


def test_rows_of_a_batch_are_divided_among_tasks(root: Path) -> None:
    append(root, *range(50_000))
    reader = made(root, max_rows=50_000)
    end = told(reader.latestOffset())
    assert len(reader.partitions(reader.initialOffset(), end)) > 1
    assert sorted(rows(reader, reader.initialOffset(), end)) == list(range(50_000))


def test_offsets_of_others_are_refused(root: Path) -> None:
    reader = made(root)
    for wrong in ({"gapless": 1}, {"gapless_connect": 2, "number": 0}, {"gapless_connect": 1, "number": 4, "stream": "x"}):
        with pytest.raises(InvalidOption, match="cannot be read"):
            reader.partitions(wrong, wrong)
    append(root, 1)
    first = told(reader.latestOffset())
    rows(reader, FIRST.to_json(), first)
    append(root, 2)
    second = told(reader.latestOffset())
    with pytest.raises(InvalidOption, match="begins at 1"):
        reader.partitions(FIRST.to_json(), second)
    assert StreamOffset.from_json(second).to_json() == second
    with pytest.raises(InvalidOption, match="no place for the rows"):
        ConnectStreamReader(DescribedSource(url="delta:x", options={}, schema=SCHEMA))
