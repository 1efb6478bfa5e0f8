"""Overwrites of all rows and of a part, by checkpoints with rows and without."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.connect import PreparedCommit, sink
from gapless.connect.sinks.table_sink import TableSink
from gapless.errors import CallError, InvalidOption, InvalidTime, InvalidValue, UnsupportedTable
from gapless.tables.shared.prepared import sealed
from support.pipelines import KINDS, SCHEMA, START, made, opened, rows

SITES = pa.schema([SCHEMA.field("ts"), ("site", pa.string()), ("v", pa.int64())])


def hour(number: int) -> datetime:
    return START + timedelta(hours=number)


def at(number: int, site: str, value: int = 9) -> dict[str, Any]:
    return {"ts": hour(number), "site": site, "v": value}


@pytest.fixture
def series(tmp_path: Path) -> Any:
    table = gl.create(tmp_path / "t", index="ts", bucket="1h", entity=["site"], schema=SITES)
    table.append([at(n, site, n) for n in range(4) for site in "abc"])
    return table


def ready(place: Path, schema: pa.Schema = SITES, kind: str = "timeseries", **options: Any) -> TableSink:
    mine = sink(f"{kind}:{place}", pipeline="p", name="s", mode="overwrite", **options)
    mine.initialize(schema)
    return mine


def told(table: Any) -> list[tuple[int, str, int]]:
    found = table.refresh().scan().to_arrow().to_pylist()
    return sorted(((one["ts"] - START) // timedelta(hours=1), one["site"], one["v"]) for one in found)


@pytest.mark.parametrize("start", [hour(1), hour(1).isoformat()])
@pytest.mark.parametrize("entity", [{"site": ["a", "b"]}, {"site": ("a", "b")}])
def test_a_part_of_a_series_is_overwritten_by_range_and_entity(series: Any, tmp_path: Path, start: Any, entity: Any) -> None:
    mine = ready(tmp_path / "t", start=start, end=hour(3), entity=entity)
    for outside in (at(0, "a"), at(3, "a"), at(1, "c")):
        with pytest.raises(InvalidValue, match="row 1 lies outside"):
            mine.write([at(1, "a"), outside])
    mine.write([at(1, "a")])
    prepared = PreparedCommit.from_json(mine.prepare(1).to_json())
    series.append([at(2, "a", 50)], on_overlap="allow")
    mine.finalize(prepared)
    kept = [(n, site, n) for n in range(4) for site in "abc" if n in (0, 3) or site == "c"]
    assert told(series) == sorted([*kept, (1, "a", 9)])
    assert series.verify(deep=True).ok


def test_an_open_end_and_one_entity(series: Any, tmp_path: Path) -> None:
    mine = ready(tmp_path / "t", start=hour(1), entity={"site": "b"})
    mine.write([at(7, "b")])
    mine.finalize(mine.prepare(1))
    assert told(series) == sorted([*((n, s, n) for n in range(4) for s in "ac"), (0, "b", 0), (7, "b", 9)])


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"start": START.replace(tzinfo=None)}, InvalidTime),
        ({"start": "yesterday"}, InvalidTime),
        ({"entity": {"sight": "a"}}, CallError),
        ({"entity": {"site": 3}}, CallError),
        ({"start": object()}, InvalidOption),
        ({"on_empty": "empty"}, InvalidOption),
        ({"where": "v = 1"}, InvalidOption),
    ],
)
def test_a_part_that_no_series_has_is_refused_before_the_first_row(
    series: Any, tmp_path: Path, options: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        ready(tmp_path / "t", **options)


def test_a_range_of_an_integer_index(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("n", pa.int64(), nullable=False), ("v", pa.int64())])
    table = gl.create(tmp_path / "t", index="n", index_type="int64", bucket=10, schema=schema)
    table.append([{"n": n, "v": n} for n in range(30)])
    mine = ready(tmp_path / "t", schema, start=10, end=20)
    with pytest.raises(InvalidValue):
        mine.write([{"n": 20, "v": 0}])
    mine.write([{"n": 19, "v": 0}])
    mine.finalize(mine.prepare(1))
    assert sorted(table.refresh().scan().to_arrow()["n"].to_pylist()) == [*range(10), 19, *range(20, 30)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("on_empty", ["keep", "clear", None])
def test_a_checkpoint_without_rows_empties_a_table_where_that_is_asked_for(
    kind: str, on_empty: str | None, tmp_path: Path
) -> None:
    table = made(kind, tmp_path / "t")
    table.append(rows(0, 3))
    mine = ready(tmp_path / "t", SCHEMA, kind, **({} if on_empty is None else {"on_empty": on_empty}))
    prepared = mine.prepare(1)
    assert opened(kind, tmp_path / "t").scan().count() == 3
    info = mine.finalize(prepared)
    assert opened(kind, tmp_path / "t").scan().count() == (0 if on_empty == "clear" else 3)
    assert info.version == opened(kind, tmp_path / "t").version
    table.refresh().append(rows(7, 1))
    assert mine.finalize(prepared).already_committed is (on_empty == "clear")
    assert opened(kind, tmp_path / "t").scan().count() == (1 if on_empty == "clear" else 4)
    mine.write(rows(20, 2))
    mine.finalize(mine.prepare(2))
    assert opened(kind, tmp_path / "t").scan().count() == 2
    assert not list((tmp_path / "t" / "_prepared").rglob("*.*"))


def test_only_the_part_is_emptied(series: Any, tmp_path: Path) -> None:
    mine = ready(tmp_path / "t", end=hour(2), entity={"site": "a"}, on_empty="clear")
    mine.finalize(mine.prepare(1))
    assert told(series) == sorted((n, s, n) for n in range(4) for s in "abc" if s != "a" or n >= 2)
    table = gl.delta.create(tmp_path / "d", SCHEMA)
    table.append(rows(0, 5))
    part = ready(tmp_path / "d", SCHEMA, "delta", where="id < 2", on_empty="clear")
    part.finalize(part.prepare(1))
    assert sorted(table.refresh().scan().to_arrow()["id"].to_pylist()) == [2, 3, 4]


def test_a_change_of_a_newer_release_is_not_taken_for_another(series: Any, tmp_path: Path) -> None:
    mine = ready(tmp_path / "t")
    mine.write([at(1, "a")])
    prepared = mine.prepare(1)
    newer = PreparedCommit.from_json(sealed({**_body(prepared), "change": {"mode": "merge-all"}}))
    for act in (mine.finalize, mine.abort):
        with pytest.raises(UnsupportedTable, match="merge-all"):
            act(newer)
    assert series.refresh().scan().count() == 12


def _body(prepared: PreparedCommit) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(prepared.to_json())
    del body["checksum"]
    return body


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", ["append", "upsert", "delete", "cdc", "overwrite"])
def test_batches_without_rows_are_no_rows(kind: str, mode: str, tmp_path: Path) -> None:
    """As a transform gives them that keeps none: of a checkpoint of such batches nothing is stored and nothing committed."""
    table = made(kind, tmp_path / "t")
    table.append(rows(0, 3))
    schema = SCHEMA.append(pa.field("_change_type", pa.string())) if mode == "cdc" else SCHEMA
    options: dict[str, Any] = {"key": "id", "order_by": "v"} if mode in ("upsert", "delete", "cdc") else {}
    mine = sink(f"{kind}:{tmp_path / 't'}", pipeline="p", name="s", mode=mode, **options)
    mine.initialize(schema)
    version = table.refresh().version
    for none in (schema.empty_table(), pa.RecordBatch.from_pylist([], schema)):
        assert mine.write(none) == 0
    prepared = mine.prepare(1)
    assert (prepared.files, mine.pending()) == ((), [])
    assert mine.finalize(prepared).version == version
    assert (table.refresh().version, table.scan().count()) == (version, 3)
