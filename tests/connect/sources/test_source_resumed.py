"""A source that is started again at a cursor goes on, whatever became of the table since: new columns, compaction, other checkpoints."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gapless as gl
from gapless.connect import CheckpointStore, Cursor, Runner, sink, source
from gapless.errors import InvalidOption, SchemaMismatch
from support.pipelines import KINDS, SCHEMA, made, opened, rows


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def values(polled: Any) -> list[int]:
    return [value for batch in polled for value in batch.column("v").to_pylist()]


def with_column(kind: str, path: Path, name: str) -> Any:
    table = opened(kind, path)
    (table.alter.add_column if kind == "delta" else table.add_column)(name, pa.int64())
    return table


def test_columns_that_changed_twice_behind_the_cursor_are_taken_up_one_after_the_other(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "t"
    made(kind, path).append(rows(0, 2))
    begun = source(f"{kind}:{path}", start="earliest").cursor
    with_column(kind, path, "w").append(rows(2, 2).append_column("w", pa.array([2, 3])))
    with_column(kind, path, "x").append(rows(4, 1).append_column("w", pa.array([4])).append_column("x", pa.array([4])))
    reader, found = source(f"{kind}:{path}"), []
    for columns in (SCHEMA.names, [*SCHEMA.names, "w"], [*SCHEMA.names, "w", "x"]):
        reader.start(begun)
        assert reader.schema.names == columns
        polled = reader.poll()
        found.append(values(polled))
        assert all(batch.schema.names == columns for batch in polled)
        begun = Cursor.from_json(reader.cursor.to_json())
        if columns[-1] != "x":
            with pytest.raises(SchemaMismatch, match="other columns"):
                reader.poll()
            assert reader.cursor.state == begun.state
    assert found == [[0, 1], [2, 3], [4]]


def test_a_pipeline_commits_the_rows_before_a_commit_that_stops_it(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = made(kind, path)
    target = made(kind, tmp_path / "out")

    def runner() -> Runner:
        sinks = {"out": sink(f"{kind}:{tmp_path / 'out'}", pipeline="orders", name="out")}
        return Runner(source(f"{kind}:{path}", start="earliest"), None, sinks, CheckpointStore(tmp_path / "checkpoints"))

    table.append(rows(0, 2))
    table.delete("v = 1")
    table.append(rows(2, 1))
    for _ in range(2):
        with pytest.raises(InvalidOption, match="changed rows"):
            runner().run()
    assert sorted(values(target.refresh().scan().to_batches())) == [0, 1]


def test_a_cursor_behind_all_rows_of_a_version_needs_nothing_of_it(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = made(kind, path)
    table.append(rows(0, 3))
    first = {file.relative_to(path) for file in path.rglob("*.parquet")}
    reader = source(f"{kind}:{path}")
    assert values(reader.poll(3)) == [0, 1, 2]
    at = reader.cursor
    table.append(rows(3, 1))
    table.compact()
    table.append(rows(4, 1))
    for file in first:
        (path / file).unlink()
    again = source(f"{kind}:{path}")
    again.start(at)
    assert values(again.poll()) == [3, 4]


def test_leaving_changed_rows_out_needs_no_change_data_feed(tmp_path: Path) -> None:
    table = made("delta", tmp_path / "t")
    table.append(rows(0, 2))
    table.delete("v = 1")
    table.append(rows(2, 1))
    reader = source(f"delta:{tmp_path / 't'}", start="earliest", on_change="skip")
    assert values(reader.poll()) == [0, 1, 2]
    stopped = source(f"delta:{tmp_path / 't'}", start="earliest")
    assert values(stopped.poll()) == [0, 1]
    with pytest.raises(InvalidOption, match="changed rows"):
        stopped.poll()


def shuffled(path: Path) -> Iterator[list[int]]:
    """The values of a version from its start, by cursors of row after row, with the log checkpoint's rows in another order each time."""
    stored = next((path / "_delta_log").glob("*.checkpoint*.parquet"))
    actions, before = pq.read_table(stored).replace_schema_metadata(None), source(f"delta:{path}")
    before.start()
    cursor, found = before.cursor, list[int]()
    while True:
        order = list(range(actions.num_rows))
        random.shuffle(order)
        pq.write_table(actions.take(order), stored)
        reader = source(f"delta:{path}")
        reader.start(cursor)
        polled = values(reader.poll(2))
        if not polled:
            break
        found += polled
        cursor = reader.cursor
    yield found


def test_rows_of_a_version_come_in_one_order_however_a_log_checkpoint_has_its_files(tmp_path: Path) -> None:
    """Spark writes the files of a log checkpoint in the order of their hashes."""
    path = tmp_path / "t"
    table = made("delta", path)
    for first in range(0, 24, 3):
        table.append(rows(first, 3))
    table.checkpoint()
    (path / "_delta_log" / "_last_checkpoint").unlink()
    for number in range(1, 8):
        (path / "_delta_log" / f"{number:020d}.json").unlink()
    (found,) = shuffled(path)
    assert sorted(found) == list(range(24))


def test_a_place_that_is_none_is_refused(kind: str, tmp_path: Path) -> None:
    made(kind, tmp_path / "t")
    for until in ("x", 1.5, True):
        with pytest.raises(InvalidOption, match="until"):
            source(f"{kind}:{tmp_path / 't'}", until=until)
    reader = source(f"{kind}:{tmp_path / 't'}")
    state = dict(reader.cursor.state)
    for wrong in ({"version": "1"}, {"row": None}, {"version": -1}, {"row": True}):
        with pytest.raises(InvalidOption, match="no place"):
            reader.start(Cursor(source="table", state={**state, **wrong}))
    with pytest.raises(InvalidOption, match="cannot start"):
        reader.start("x")  # type: ignore[arg-type]  # what is refused
    for text in ("[1]", "x", None):
        with pytest.raises(InvalidOption, match="no cursor"):
            Cursor.from_json(text)  # type: ignore[arg-type]  # what is refused


def test_the_feed_of_a_table_that_is_read_by_its_commits_needs_no_change_feed_either(tmp_path: Path) -> None:
    table: Any = gl.delta.create(tmp_path / "t", SCHEMA, partition_by=["id"])
    table.append(rows(0, 5))
    table.overwrite(rows(5, 5))
    reader = source(f"delta:{tmp_path / 't'}", start="earliest", on_change="skip")
    assert sorted(values(reader.poll())) == [0, 1, 2, 3, 4]
    assert source(f"delta:{tmp_path / 't'}").poll().rows == 5
