"""Making, opening and describing tables."""

from __future__ import annotations

import itertools
import pickle
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import GaplessError, InvalidOption, InvalidPath, SchemaMismatch, TableExists, TableNotFound, UnsupportedType
from support.faulty_store import objects

_counter = itertools.count()


@pytest.fixture
def place() -> str:
    return f"memory://create-{next(_counter)}"


def test_a_new_table_says_what_it_is(place: str) -> None:
    table = gl.TimeSeriesTable.create(
        place, index="ts", entity="sym", bucket="15m", properties={"on_overlap": "skip", "codec": "snappy"}
    )
    for handle in (table, gl.TimeSeriesTable.open(place)):
        assert (handle.version, handle.schema, handle.entity, handle.segments()) == (1, None, ("sym",), ())
        assert (handle.properties.on_overlap, handle.properties.codec) == ("skip", "snappy")
        assert handle.index.column == "ts"
        assert handle.identities() == []
        assert handle.scan().to_arrow().num_rows == 0
        assert handle.coverage().gaps() == []
        assert "bucket='15m'" in repr(handle)
        assert "rows=0" in repr(handle)


def test_a_schema_given_at_birth_is_the_tables(place: str) -> None:
    schema = pa.schema(
        [("i", pa.int64()), ("d", pa.dictionary(pa.int8(), pa.string())), ("t", pa.timestamp("ms", "Asia/Tokyo"))]
    )
    gl.create(place, index="i", index_type="int64", bucket=5, schema=schema)
    found = gl.open(place).schema
    assert found == pa.schema(
        [pa.field("i", pa.int64(), nullable=False), ("d", pa.string()), ("t", pa.timestamp("ms", "Asia/Tokyo"))]
    )
    assert gl.open(place).scan().to_arrow().schema == found


WRONG: dict[str, tuple[dict[str, Any], type[GaplessError], str]] = {
    "bucket": ({"bucket": "7 parsecs"}, InvalidOption, "parsecs"),
    "no bucket at all": ({"bucket": "0s"}, InvalidOption, "0s"),
    "bucket of the other kind": ({"bucket": "1h", "index_type": "int64"}, InvalidOption, "1h"),
    "index_type": ({"index_type": "int46"}, InvalidOption, "int64"),
    "timezone": ({"timezone": "Mars/Olympus"}, InvalidOption, "Mars"),
    "timezone of integers": ({"timezone": "UTC", "index_type": "int64", "bucket": 1}, InvalidOption, "timestamp index"),
    "property": ({"properties": {"codek": "zstd"}}, InvalidOption, "codec"),
    "codec": ({"properties": {"codec": "zsdt"}}, InvalidOption, "zstd"),
    "policy": ({"properties": {"on_overlap": "slip"}}, InvalidOption, "skip"),
    "schema without the index": ({"schema": pa.schema([("x", pa.int8())])}, SchemaMismatch, "ts: missing"),
    "schema of another index": ({"schema": pa.schema([("ts", pa.string())])}, SchemaMismatch, "ts"),
    "schema that Parquet lacks": (
        {"schema": pa.schema([("ts", pa.timestamp("us")), ("x", pa.month_day_nano_interval())])},
        UnsupportedType,
        "'x'",
    ),
    "an entity that is the index": ({"entity": ["ts"]}, InvalidOption, "ts"),
    "an entity twice": ({"entity": ["a", "a"]}, InvalidOption, "a"),
    "an entity that is no name": ({"entity": None}, InvalidOption, "entity=None names no columns"),
    "an entity that is a number": ({"entity": ["a", 1]}, InvalidOption, "names no columns"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_option_is_refused_before_anything_is_made(place: str, name: str) -> None:
    options, error, words = WRONG[name]
    with pytest.raises(error, match=words):
        gl.create(place, **{"index": "ts", "bucket": "1h", **options})
    assert objects(place) == []


def test_places_that_are_none(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for wrong in ("", "nope://x", tmp_path / "file", "s3://", "memory://"):
        with pytest.raises(InvalidPath):
            gl.create(wrong, index="ts", bucket="1h")
    with pytest.raises(InvalidOption):
        gl.create(place, index="ts", bucket="1h", storage_options={"region": "x"})
    with pytest.raises(TableNotFound):
        gl.open(place)
    gl.create(place, index="ts", bucket="1h")
    with pytest.raises(TableExists):
        gl.create(place, index="other", bucket="1d")


def test_history_tells_every_commit(place: str) -> None:
    table = gl.create(place, index="i", index_type="int64", bucket=1)
    table.append({"i": [1, 2]})
    table.append({"i": [2, 3]}, on_overlap="skip")
    table.append({"i": [3]}, on_overlap="allow")
    entries = gl.open(place).history()
    assert [(e.version, e.operation, e.rows, e.segments) for e in entries] == [
        (1, "create", 0, 0), (2, "append", 2, 1), (3, "append", 1, 1), (4, "append", 1, 1),
    ]  # fmt: skip
    assert [e.parameters.get("on_overlap") for e in entries[1:]] == ["reject", "skip", "allow"]
    assert all(entry.time.tzinfo is UTC and entry.engine.startswith("gapless/") for entry in entries)
    assert [e.time for e in entries] == sorted({e.time for e in entries}), "commit times only grow"
    assert len({e.commit_id for e in entries}) == 4


def test_errors_survive_pickling(place: str) -> None:
    table = gl.create(place, index="ts", bucket="1h")
    table.append({"ts": [datetime(2024, 1, 1)]})
    with pytest.raises(gl.CoverageOverlap) as refusal:
        table.append({"ts": [datetime(2024, 1, 1)]})
    copy = pickle.loads(pickle.dumps(refusal.value))
    assert (str(copy), copy.version, copy.identity) == (str(refusal.value), 2, ())
