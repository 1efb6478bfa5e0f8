"""Sources out of both kinds of tables: every row once, in order, from any cursor; what compaction does is told to nobody."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.connect import Cursor, source
from gapless.errors import InvalidOption, SchemaMismatch, VersionNotFound
from support.pipelines import KINDS, SCHEMA, all_polled, made, opened, rows


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def path(kind: str, tmp_path: Path) -> Path:
    table = made(kind, tmp_path / "t")
    for first in (0, 3, 6):
        table.append(rows(first, 3))
    return tmp_path / "t"


def values(polled: Any) -> list[int]:
    return [value for batch in polled for value in batch.column("v").to_pylist()]


drained = partial(all_polled, read=values)


@pytest.mark.parametrize("limit", [1, 2, 4, None])
def test_all_rows_come_once_and_then_what_is_appended(kind: str, path: Path, limit: int | None) -> None:
    reader = source(f"{kind}:{path}")
    assert reader.schema == SCHEMA
    assert drained(reader, limit) == list(range(9))
    assert values(reader.poll(limit)) == []
    opened(kind, path).append(rows(9, 4))
    assert drained(reader, limit) == [9, 10, 11, 12]


@pytest.mark.parametrize("start", [None, "earliest"])
def test_a_cursor_goes_on_at_the_very_row(kind: str, path: Path, start: str | None) -> None:
    for taken in range(1, 9):
        first = source(f"{kind}:{path}", start=start)
        begun = values(first.poll(taken))
        other = source(f"{kind}:{path}", start=start)
        other.start(Cursor.from_json(first.cursor.to_json()))
        assert begun + drained(other, 2) == list(range(9))


def test_where_a_source_begins(kind: str, path: Path) -> None:
    newest = opened(kind, path).version
    assert drained(source(f"{kind}:{path}", start="earliest")) == list(range(9))
    assert drained(source(f"{kind}:{path}", start=newest)) == [6, 7, 8]
    latest = source(f"{kind}:{path}", start="latest")
    assert drained(latest) == []
    opened(kind, path).append(rows(9, 1))
    assert drained(latest) == [9]
    assert drained(source(f"{kind}:{path}", start="earliest", until=newest - 1)) == list(range(6))
    for wrong in ("first", True, -1, 1.5):
        with pytest.raises(gl.CallError):
            source(f"{kind}:{path}", start=wrong).poll()


def test_compaction_emits_nothing_and_each_row_comes_once(kind: str, path: Path) -> None:
    reader = source(f"{kind}:{path}", start="earliest")
    assert len(values(reader.poll(4))) == 4
    opened(kind, path).compact()
    opened(kind, path).append(rows(9, 2))
    assert drained(reader, 3) == [4, 5, 6, 7, 8, 9, 10]


def test_an_interrupted_poll_gives_nothing_and_the_next_all_of_it(
    kind: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for calls in range(1, 5):
        reader, left = source(f"{kind}:{path}", start="earliest"), [calls]
        at = reader.cursor
        kind_of_source: Any = type(reader)
        real = kind_of_source._next

        def interrupted(self: Any, left: list[int] = left, real: Any = real) -> Any:
            left[0] -= 1
            if not left[0]:
                raise KeyboardInterrupt
            return real(self)

        with monkeypatch.context() as patched:
            patched.setattr(kind_of_source, "_next", interrupted)
            with pytest.raises(KeyboardInterrupt):
                reader.poll()
        assert reader.cursor == at
        assert drained(reader) == list(range(9))


def test_commits_that_changed_rows_are_an_error_left_out_or_told(kind: str, tmp_path: Path) -> None:
    properties = {"delta.enableChangeDataFeed": "true"}
    place = tmp_path / "t"
    table: Any = gl.delta.create(place, SCHEMA, properties=properties) if kind == "delta" else made(kind, place)
    table.append(rows(0, 3))
    table.delete("v = 1")
    table.append(rows(3, 1))
    reader = source(f"{kind}:{place}", start="earliest")
    assert values(reader.poll(3)) == [0, 1, 2]
    at = reader.cursor
    for _ in range(2):
        with pytest.raises(InvalidOption, match="changed rows"):
            reader.poll()
        assert reader.cursor.state == at.state
    assert drained(source(f"{kind}:{place}", start="earliest", on_change="skip")) == [0, 1, 2, 3]
    telling = source(f"{kind}:{place}", start="earliest", on_change="tell")
    told = pa.Table.from_batches(telling.poll().batches, telling.schema)
    assert told.select(["_change_type", "v"]).to_pylist() == [
        {"_change_type": kind_of_change, "v": v}
        for kind_of_change, v in (("insert", 0), ("insert", 1), ("insert", 2), ("delete", 1), ("insert", 3))
    ]
    assert telling.capabilities.retracts
    assert not reader.capabilities.retracts


def test_columns_that_change_stop_the_source_where_it_is(kind: str, path: Path) -> None:
    reader = source(f"{kind}:{path}")
    assert len(drained(reader)) == 9
    table = opened(kind, path)
    (table.alter.add_column if kind == "delta" else table.add_column)("w", pa.int64())
    table.append(rows(9, 1).append_column("w", pa.array([1])))
    with pytest.raises(SchemaMismatch, match="'w' was added"):
        reader.poll()
    reader.start(reader.cursor)
    assert drained(reader) == [9]
    assert reader.schema.names == [*SCHEMA.names, "w"]


def test_a_table_that_was_made_anew_or_brought_back_is_not_the_one_that_was_read(kind: str, path: Path) -> None:
    reader = source(f"{kind}:{path}")
    assert len(drained(reader)) == 9
    path.rename(path.with_name("old"))
    made(kind, path).append(rows(0, 1))
    with pytest.raises(VersionNotFound, match="another one made in its place"):
        source(f"{kind}:{path}").start(reader.cursor)


def test_a_foreign_cursor_and_a_wrong_limit_are_refused(kind: str, path: Path) -> None:
    reader = source(f"{kind}:{path}")
    with pytest.raises(InvalidOption, match="kafka"):
        reader.start(Cursor(source="kafka", state={}))
    for limit in (0, -1, True, 1.5):
        with pytest.raises(InvalidOption, match="limit"):
            reader.poll(limit)  # type: ignore[arg-type]  # what is refused
    with pytest.raises(InvalidOption, match="no cursor"):
        Cursor.from_json("{}")
