"""Sinks and sources by a place alone, what they are called, and that a block closes them."""

from __future__ import annotations

from pathlib import Path

import pytest

import gapless as gl
from gapless.connect import sink, source
from gapless.errors import GaplessError, InvalidOption
from support.pipelines import KINDS, SCHEMA, made, rows


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_the_kind_of_a_table_that_is_there_need_not_be_said(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made(kind, "t")
    mine = sink("t", pipeline="orders")
    mine.initialize(SCHEMA)
    mine.write(rows(0, 2))
    mine.finalize(mine.prepare(1))
    for place in ("t", tmp_path / "t", f"file://{tmp_path / 't'}"):
        reader = source(place)
        reader.start()
        assert reader.poll().rows == 2
    with pytest.raises(InvalidOption, match="start"):
        source("t", start="nonsense")


def test_a_published_table_is_the_time_series(tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1h", schema=SCHEMA, properties={"publish": ["delta"]})
    table.append(rows(0, 2))
    assert repr(source(tmp_path / "t")) == f"<TableSource timeseries:{tmp_path / 't'}>"


@pytest.mark.parametrize("place", ["nothing", "s/nothing", "memory://nothing"])
def test_where_no_table_lies_the_spelling_is_told(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for call in (lambda: source(place), lambda: sink(place, pipeline="orders", create={})):
        with pytest.raises(InvalidOption, match=f"no table lies at '{place}', and no kind is said.*'delta:{place}'") as caught:
            call()
        assert caught.value.option == "url"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", ["detla:trips", "", 5, None, "mysql://a:b@host/c"])
def test_what_names_no_place_is_refused(place: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for call in (lambda: source(place), lambda: sink(place, pipeline="orders")):  # type: ignore[arg-type]
        with pytest.raises(GaplessError) as caught:
            call()
        assert "a:b" not in str(caught.value)


def test_they_are_called_by_their_place(kind: str, tmp_path: Path) -> None:
    made(kind, tmp_path / "t")
    mine = sink(f"{kind}:{tmp_path / 't'}", pipeline="orders", name="trips", generation=2, mode="upsert", key="id")
    assert repr(mine) == f"<TableSink {kind}:{tmp_path / 't'}, orders/trips#2, upsert>"
    assert repr(sink("delta:s3://me:secret@host/trips", pipeline="orders")).startswith("<TableSink delta:s3://…@host/trips")
    assert repr(source(f"{kind}:{tmp_path / 't'}")) == f"<TableSource {kind}:{tmp_path / 't'}>"
    (tmp_path / "landing").mkdir()
    with source(f"files:{tmp_path}/landing/*.csv") as files:
        assert repr(files).endswith("landing/*.csv>")


def test_a_block_gives_up_what_was_not_prepared(kind: str, tmp_path: Path) -> None:
    made(kind, tmp_path / "t")
    with sink(f"{kind}:{tmp_path / 't'}", pipeline="orders", spill_bytes=1) as mine:
        mine.initialize(SCHEMA)
        mine.write(rows(0, 2))
        prepared = mine.prepare(1)
        mine.write(rows(2, 2))
    assert mine.finalize(prepared).checkpoint_id == 1
    with source(f"{kind}:{tmp_path / 't'}") as reader:
        reader.start()
        assert reader.poll().rows == 2
    staged = {path for path in (tmp_path / "t").rglob("*.parquet") if "_log" not in str(path.relative_to(tmp_path))}
    assert len(staged) == 1
