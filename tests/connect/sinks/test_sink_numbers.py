"""Numbers of checkpoints by hand: one that the table has already, one that was aborted, rows that wait while the columns change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless import metrics
from gapless.connect import CheckpointStore, PreparedCommit, Runner, sink, source
from gapless.errors import InvalidOption, LogWarning, OperationReused, PreparedFilesMissing
from support.pipelines import SCHEMA, SINK_KINDS, made, opened, rows

MODES = ("append", "upsert")


@pytest.fixture(params=SINK_KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def process(kind: str, place: Path, mode: str = "append", **options: Any) -> Any:
    """The sink as a process that starts has it."""
    given = {"key": ["ts"], **options} if mode == "upsert" else options
    made = sink(f"{kind}:{place}", pipeline="orders", name="main", mode=mode, **given)
    made.initialize(SCHEMA)
    return made


def committed(mine: Any, number: int, batch: pa.Table) -> PreparedCommit:
    mine.write(batch)
    prepared = mine.prepare(number)
    assert not mine.finalize(prepared).already_committed
    assert isinstance(prepared, PreparedCommit)
    return prepared


def values(kind: str, place: Path) -> list[int]:
    return sorted(opened(kind, place).scan().to_arrow()["v"].to_pylist())


def test_other_rows_under_a_number_that_the_table_has_are_refused(kind: str, tmp_path: Path) -> None:
    made(kind, tmp_path / "t")
    committed(process(kind, tmp_path / "t"), 1, rows(0, 3))
    mine = process(kind, tmp_path / "t")
    mine.write(rows(10, 2))
    with pytest.raises(OperationReused, match="committed with 3 rows, and was prepared again with 2") as caught:
        mine.prepare(1)
    assert (caught.value.applied, caught.value.asked) == ("append of 3 rows", "append of 2 rows")
    assert mine.pending() == []
    mine.finalize(mine.prepare(mine.last_committed() + 1))  # the rows are there still
    assert values(kind, tmp_path / "t") == [0, 1, 2, 10, 11]


@pytest.mark.parametrize("mode", MODES)
def test_rows_under_a_number_that_the_table_has_are_warned_of(kind: str, mode: str, tmp_path: Path) -> None:
    made(kind, tmp_path / "t")
    first = process(kind, tmp_path / "t", mode)
    for number in (1, 2):
        committed(first, number, rows(2 * number, 2))
    mine = process(kind, tmp_path / "t", mode)
    mine.write(rows(10, 2))
    with pytest.warns(
        LogWarning, match=r"checkpoint 2 of orders/main#1 is not new.*leave its 2 rows out.*prepare them as 3"
    ) as told:
        prepared = mine.prepare(2)
    assert told[0].filename == __file__
    assert mine.finalize(prepared).already_committed
    other = process(kind, tmp_path / "t", mode)
    other.write(rows(10, 5))
    with pytest.warns(LogWarning, match=r"checkpoint 1 of .* whose last one is 2"):
        other.prepare(1)
    assert values(kind, tmp_path / "t") == [2, 3, 4, 5]


def test_other_rows_that_were_prepared_beside_are_refused_when_they_are_finalized(kind: str, tmp_path: Path) -> None:
    made(kind, tmp_path / "t")
    first, second = (process(kind, tmp_path / "t") for _ in range(2))
    second.write(rows(10, 1))
    late = second.prepare(1)
    committed(first, 1, rows(0, 3))
    with pytest.raises(OperationReused, match="committed with 3 rows, and was prepared again with 1"):
        second.finalize(late)
    assert second.pending() == [late]


def test_checkpoints_that_are_sent_again_as_they_were_are_no_error(kind: str, tmp_path: Path) -> None:
    made(kind, tmp_path / "t")
    mine = process(kind, tmp_path / "t", **({"on_overlap": "skip"} if kind == "timeseries" else {}))
    sent = [committed(mine, number, rows(2 * number, 4)) for number in (1, 2)]
    for prepared in sent:
        assert process(kind, tmp_path / "t").finalize(prepared).already_committed


@pytest.mark.parametrize("mode", MODES)
def test_an_aborted_checkpoint_is_told_after_a_later_one_too(kind: str, mode: str, tmp_path: Path) -> None:
    made(kind, tmp_path / "t").append(rows(50, 1))
    mine = process(kind, tmp_path / "t", mode)
    mine.write(rows(0, 2))
    aborted = mine.prepare(1)
    assert mine.abort(aborted)
    committed(mine, 2, rows(10, 2))
    for one in (mine, process(kind, tmp_path / "t", mode)):
        with pytest.raises(
            PreparedFilesMissing, match=r"checkpoint 1 of orders/main#1 .* it was aborted.*as checkpoint 3 or later"
        ):
            one.finalize(aborted)
        assert one.abort(aborted)
    assert values(kind, tmp_path / "t") == [10, 11, 50]


@pytest.mark.parametrize("mode", MODES)
def test_columns_do_not_change_while_rows_wait(kind: str, mode: str, tmp_path: Path) -> None:
    made(kind, tmp_path / "t")
    mine = process(kind, tmp_path / "t", mode, schema_evolution="add", spill_bytes=1)
    wider = SCHEMA.append(pa.field("more", pa.int64()))
    mine.write(rows(0, 2))
    mine.initialize(SCHEMA)
    version = opened(kind, tmp_path / "t").version
    with pytest.raises(InvalidOption, match=r"the columns change while 2 rows wait.*prepare first") as caught:
        mine.initialize(wider)
    assert caught.value.option == "schema"
    assert opened(kind, tmp_path / "t").version == version
    mine.write(rows(2, 1))
    prepared = mine.prepare(1)
    mine.write(rows(9, 0))
    mine.initialize(wider)
    assert opened(kind, tmp_path / "t").version > version
    mine.finalize(prepared)
    mine.write(rows(3, 1).append_column("more", pa.array([7])))
    mine.abort(None)
    mine.initialize(wider.append(pa.field("most", pa.int64())))
    assert values(kind, tmp_path / "t") == [0, 1, 2]


def test_rows_that_were_skipped_are_counted(tmp_path: Path) -> None:
    made("timeseries", tmp_path / "t").append(rows(0, 2))
    metrics.enable()
    try:
        mine = process("timeseries", tmp_path / "t", on_overlap="skip")
        mine.write(rows(0, 5))
        prepared = mine.prepare(1)
        found = mine.finalize(prepared)
        assert (found.skipped_rows, found.late_rows) == (2, 0)
        again = mine.finalize(prepared)
        assert (again.already_committed, again.skipped_rows) == (True, 2)
        counted = {one.instrument.name: one.value for one in metrics.read() if one.attributes.get("operation") == "append"}
    finally:
        metrics.disable()
    assert counted["gapless.rows.skipped"] == 2
    assert counted["gapless.rows.written"] == 3
    assert gl.open(tmp_path / "t").scan().count() == 5


def test_a_higher_generation_needs_an_empty_store(kind: str, tmp_path: Path) -> None:
    made("timeseries", tmp_path / "feed").append(rows(0, 2))
    made(kind, tmp_path / "t")

    def run(generation: int, store: str) -> int:
        sinks = {"main": sink(f"{kind}:{tmp_path / 't'}", pipeline="orders", name="main", generation=generation)}
        return Runner(source(f"timeseries:{tmp_path / 'feed'}"), None, sinks, CheckpointStore(tmp_path / store)).run().rows

    assert run(1, "store") == 2
    with pytest.raises(InvalidOption, match=r"orders/main#1.*orders/main#2.*Go on with generation=1.*empty checkpoint store"):
        run(2, "store")
    assert run(2, "second") == 2
