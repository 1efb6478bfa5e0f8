"""Streams out of Delta tables: the reader asked as Spark asks it, held against what each version's commit did; no Spark runs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import (
    InvalidOption,
    InvalidTime,
    LogWarning,
    NotSupported,
    SchemaMismatch,
    UnsupportedType,
    VersionNotFound,
)
from spark.stream.reading import Query

pytestmark = pytest.mark.filterwarnings("ignore:this pyspark does not tell:gapless.errors.LogWarning")

SCHEMA = pa.schema([("sym", pa.string()), ("x", pa.float64())])
FED, VECTORS = {"delta.enableChangeDataFeed": True}, {"delta.enableDeletionVectors": True}


@pytest.fixture(autouse=True)
def _pyspark(require: Callable[[object, str], None]) -> None:
    require(find_spec("pyspark"), "pyspark is not installed: pip install 'gapless[spark]'")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t"


def rows(*values: float, sym: str = "A") -> dict[str, list[Any]]:
    return {"sym": [sym] * len(values), "x": [float(x) for x in values]}


def made(path: Path, **properties: Any) -> Any:
    """Versions 1 to 3: values 1, 2 and 3."""
    table = gl.delta.create(path, SCHEMA, partition_by="sym", properties=properties)
    for x in (1, 2, 3):
        table.append(rows(x))
    return table


@pytest.fixture
def table(path: Path) -> Any:
    return made(path)


def value(x: float, sym: str = "A") -> tuple[str, float]:
    return sym, float(x)


def test_all_rows_come_first_and_then_what_is_appended(path: Path, table: Any) -> None:
    query = Query(path)
    assert query.batch() == [value(1), value(2), value(3)]
    assert query.batch() == []
    table.append(rows(4, 5))
    table.compact()
    assert query.drain() == [[value(4), value(5)]]
    assert query.restart().batch() == []
    at = json.loads(query.offsets[-1])
    assert query.reader.partitions(at, at) == []


@pytest.mark.parametrize(
    ("options", "given"),
    [
        ({"startingVersion": 0}, [1, 2, 3]),
        ({"startingVersion": "earliest"}, [1, 2, 3]),
        ({"startingVersion": 2}, [2, 3]),
        ({"startingVersion": 4}, []),
        ({"startingVersion": "latest"}, []),
    ],
)
def test_a_starting_version_is_inclusive(path: Path, table: Any, options: dict[str, object], given: list[int]) -> None:
    query = Query(path, **options)
    assert query.batch() == [value(x) for x in given]
    table.append(rows(5))
    assert query.batch() == [value(5)]
    with pytest.raises(VersionNotFound, match="version 9 does not exist"):
        Query(path, startingVersion=9).batch()


def test_a_starting_time_means_the_first_version_committed_then_or_later(path: Path, table: Any) -> None:
    times = {entry.version: entry.time for entry in table.history()}
    assert Query(path, startingTimestamp=(times[0] - timedelta(days=1)).isoformat()).batch() == [value(1), value(2), value(3)]
    assert Query(path, startingTimestamp=(times[3] + timedelta(milliseconds=1)).isoformat()).batch() == []
    with pytest.raises(InvalidTime, match="lies in the future"):
        Query(path, startingTimestamp=(datetime.now(UTC) + timedelta(days=1)).isoformat()).batch()


@pytest.mark.parametrize("options", [{}, {"startingVersion": "latest"}, {"startingVersion": "earliest"}])
def test_a_first_batch_that_is_planned_again_is_the_same_whatever_came_meanwhile(
    path: Path, table: Any, options: dict[str, object]
) -> None:
    query = Query(path, **options)
    assert query.start
    table.append(rows(5))
    assert query.plan()
    before = query.rows()
    table.append(rows(6))
    table.compact()
    query.restart()
    assert query.rows() == before, "Spark keeps the end of a batch and asks again where the stream begins"
    assert query.batch() == [value(6)]


def test_limits_cut_batches_at_files_and_never_within_a_change_of_rows(path: Path) -> None:
    table = made(path, **FED)
    assert Query(path, maxFilesPerTrigger=1).drain() == [[value(1)], [value(2)], [value(3)]]
    assert Query(path, maxFilesPerTrigger=2, startingVersion=0).drain() == [[value(1), value(2)], [value(3)]]
    assert Query(path, maxBytesPerTrigger=1, startingVersion=1).drain() == [[value(1)], [value(2)], [value(3)]]
    table.update({"x": "x + 10"}, where="x >= 2")
    feed = Query(path, maxFilesPerTrigger=1, startingVersion=4, changeFeed="true")
    assert feed.drain() == [
        sorted(
            (4, change, *value(x))
            for change, x in (
                ("update_preimage", 2),
                ("update_postimage", 12),
                ("update_preimage", 3),
                ("update_postimage", 13),
            )
        )
    ]


@pytest.mark.parametrize("change", ["delete", "update", "overwrite", "merge"])
@pytest.mark.parametrize("properties", [{}, VECTORS, FED, {**FED, **VECTORS}], ids=["plain", "vectors", "fed", "both"])
def test_changes_of_rows_stop_are_passed_over_or_told(path: Path, change: str, properties: dict[str, Any]) -> None:
    table = made(path, **properties)
    table.append(rows(7, 8, 9))
    match change:
        case "delete":
            table.delete("x IN (2, 8)")
        case "update":
            table.update({"x": "-x"}, where="x = 8")
        case "overwrite":
            table.overwrite(rows(7, 70))
        case "merge":
            merge = table.merge(rows(8, 80), "t.x = s.x")
            merge.when_matched_delete().when_not_matched_insert_all().execute()
    table.append(rows(100))
    stops = Query(path, startingVersion=1)
    with pytest.raises(InvalidOption, match=r"version 5 .* changed rows that the stream may have given already"):
        stops.drain()
    given = sorted(x for batch in Query(path, startingVersion=1, onDataChange="skip").drain() for _, x in batch)
    assert given == [1, 2, 3, 7, 8, 9, 100]
    told = [row for batch in Query(path, startingVersion=0, changeFeed="true").drain() for row in batch]
    held: list[float] = []
    for _, kind, _, x in sorted(told, key=lambda row: (row[0], row[1] not in ("delete", "update_preimage"))):
        if kind in ("delete", "update_preimage"):
            held.remove(x)
        else:
            held.append(x)
    assert sorted(held) == sorted(row["x"] for row in table.scan().to_arrow().to_pylist())
    if "delta.enableChangeDataFeed" in properties:
        expected = table.changes(0).to_arrow().to_pylist()
        assert sorted(told) == sorted((row["_commit_version"], row["_change_type"], row["sym"], row["x"]) for row in expected)


def test_columns_that_change_stop_the_stream_until_it_is_made_anew(path: Path) -> None:
    table = made(path, **{"delta.columnMapping.mode": "name"})
    query = Query(path)
    query.batch()
    table.append(rows(4))
    table.alter.rename_column("x", "y")
    with pytest.raises(SchemaMismatch, match="'x' is 'y' now"):
        query.batch()
    query.restart()
    assert query.plan()
    assert query.rows() == [{"sym": "A", "y": 4.0}]
    chosen = Query(path, columns="y")
    assert chosen.plan()
    assert [sorted(row) for row in chosen.rows()] == [["y"]] * 4


def test_another_table_in_its_place_and_an_older_copy_are_refused(path: Path, tmp_path: Path, table: Any) -> None:
    query = Query(path)
    query.batch()
    shutil.copytree(path, tmp_path / "copy")
    table.append(rows(4))
    query.batch()
    shutil.rmtree(path)
    shutil.move(tmp_path / "copy", path)
    with pytest.raises(VersionNotFound, match="an older copy of it was brought back"):
        query.restart().batch()
    shutil.rmtree(path)
    made(path)
    with pytest.raises(VersionNotFound, match="is not the one that the stream has read up to version 4"):
        query.restart().batch()


def test_versions_whose_files_or_commits_are_gone_are_named_or_passed_over(path: Path, table: Any) -> None:
    table.append(rows(4))
    table.checkpoint()
    for version in (0, 1, 2):
        (path / "_delta_log" / f"{version:020}.json").unlink()
    with pytest.raises(VersionNotFound):
        Query(path, startingVersion=1).batch()
    with pytest.warns(LogWarning):
        assert Query(path, startingVersion=1, onMissingVersions="earliest").batch() == [value(4)]


def test_what_cannot_be_streamed_is_refused_by_name(tmp_path: Path) -> None:
    gl.delta.create(tmp_path / "empty")
    with pytest.raises(NotSupported, match="without columns cannot be streamed"):
        Query(tmp_path / "empty")
    marked = {b"delta.type": b"variant"}
    variant = pa.field("v", pa.struct([pa.field("metadata", pa.binary()), pa.field("value", pa.binary())]), metadata=marked)
    gl.delta.create(tmp_path / "variant", pa.schema([pa.field("n", pa.int64()), variant]))
    with pytest.raises(UnsupportedType, match="variant"):
        Query(tmp_path / "variant")
    assert Query(tmp_path / "variant", columns="n").drain() == []
