"""Changes of columns beside appends and beside each other: the interleaving is the input."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import CommitConflict, InvalidChange, SchemaMismatch, UnknownColumn
from support.faulty_store import is_commit, objects, once, open_faulty, unavailable

T0 = datetime(2024, 1, 1, tzinfo=UTC)
Change = Callable[[gl.TimeSeriesTable], object]
_counter = itertools.count()


@pytest.fixture
def place() -> str:
    """A table with one row in columns ts, a (int32), b, s {x (int32), y}, n (of unknown type), at version 2."""
    place = f"memory://evolution-races-{next(_counter)}"
    gl.create(place, index="ts", bucket="1h").append(hour(0, n=pa.nulls(1)))
    return place


def hour(number: int, **columns: Any) -> pa.Table:
    known = {
        "a": pa.array([number], pa.int32()),
        "b": [number],
        "s": pa.array([{"x": number, "y": number}], pa.struct([("x", pa.int32()), ("y", pa.int64())])),
    }
    return pa.table({"ts": pa.array([T0 + timedelta(hours=number)], pa.timestamp("us", "UTC")), **known, **columns})


def told(place: str) -> list[dict[str, Any]]:
    """Rows in order, without their time; what is null is left out."""
    table = gl.open(place)
    assert not [finding for finding in table.verify(deep=True).findings if finding.severity != "note"]
    rows = table.scan(order="index").to_arrow().drop_columns(["ts"]).to_pylist()
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


def whole(place: str) -> bool:
    """Whether all that lies in data/ is named by the log."""
    return {path for path in objects(place) if path.startswith("data/")} == {s.path for s in gl.open(place).segments()}


def overtaken(place: str, *changes: Change) -> tuple[gl.TimeSeriesTable, Any]:
    """A handle whose first commit is overtaken by these changes."""
    table, store = open_faulty(place)

    def act() -> None:
        other = gl.open(place)
        for change in changes:
            change(other)

    store.before_put = once(act, is_commit)
    return table, store


ROW = {"a": 1, "b": 1, "s": {"x": 1, "y": 1}}
STANDS: dict[str, tuple[list[Change], dict[str, Any]]] = {
    "a column more": ([lambda t: t.add_column("c", pa.int64())], ROW),
    "a default": ([lambda t: t.add_column("c", pa.int64(), default=7)], {**ROW, "c": 7}),
    "a nested default": ([lambda t: t.add_column("s.z", pa.int64(), default=7)], {**ROW, "s": {"x": 1, "y": 1, "z": 7}}),
    "another name": ([lambda t: t.rename_column("a", "c")], {"c": 1, "b": 1, "s": {"x": 1, "y": 1}}),
    "other nested names": (
        [lambda t: t.rename_column("s.x", "z"), lambda t: t.rename_column("s", "r")], {"a": 1, "b": 1, "r": {"z": 1, "y": 1}},
    ),
    "names that change places": (
        [lambda t: t.rename_column("a", "c"), lambda t: t.rename_column("b", "a"), lambda t: t.rename_column("c", "b")], ROW,
    ),
    "wider types": ([lambda t: t.widen_column("a", pa.int64()), lambda t: t.widen_column("s.x", pa.float64())], ROW),
    "another order": ([lambda t: t.reorder_columns(["s", "b"])], ROW),
    "a comment": ([lambda t: t.comment_column("a", "c"), lambda t: t.set_metadata({"k": "v"})], ROW),
    "a column less that was not written": ([lambda t: t.drop_column("n")], ROW),
}  # fmt: skip


@pytest.mark.parametrize("change", STANDS)
def test_an_append_stands_after_a_change_that_can_read_it(place: str, change: str) -> None:
    changes, row = STANDS[change]
    table, store = overtaken(place, *changes)
    report = table.append(hour(1))
    assert report.version == 3 + len(changes)
    assert sum(path.startswith("data/") for path in store.puts) == 1, "its segment is written once"
    assert told(place)[1] == row
    assert table.schema == gl.open(place).schema
    assert whole(place)


def test_an_append_that_had_no_value_of_a_column_stands_after_it_was_dropped(place: str) -> None:
    changes: list[Change] = [lambda t: t.drop_column("a"), lambda t: t.add_column("a", pa.string(), default="new")]
    table, _ = overtaken(place, *changes)
    assert table.append(hour(1).drop_columns(["a"])).version == 5
    assert told(place)[1] == {**ROW, "a": "new"}
    table, _ = overtaken(place, lambda t: t.drop_column("b"), lambda t: t.append(hour(2).drop_columns(["a", "b"])))
    rows = pa.concat_tables([hour(2), hour(3)]).drop_columns(["a", "b"])
    assert table.append(rows, on_overlap="skip").rows == 1
    assert told(place)[3] == {"a": "new", "s": {"x": 3, "y": 3}}
    assert whole(place)


def test_an_append_without_rows_loses_nothing_with_a_column(place: str) -> None:
    table, _ = overtaken(place, lambda t: t.drop_column("a"), lambda t: t.add_column("a", pa.int8()))
    assert table.append(hour(1).slice(0, 0), operation_id=("app", 1)).version == 5
    assert gl.open(place).append(hour(1).drop_columns(["a"]), operation_id=("app", 1)).already_applied
    assert whole(place)


@pytest.mark.parametrize(("type_", "default"), [(pa.int32(), 7), (pa.string(), "x"), (pa.bool_(), True), (pa.float64(), 0.5)])
def test_so_does_one_whose_rows_took_the_default_of_the_dropped_column(place: str, type_: pa.DataType, default: object) -> None:
    gl.open(place).add_column("d", type_, default=default)
    table, _ = overtaken(place, lambda t: t.drop_column("d"), lambda t: t.add_column("d", pa.int8()))
    assert table.append(hour(1)).version == 6
    assert told(place)[1] == ROW
    gl.open(place).add_column("e", type_, default=default)
    table, _ = overtaken(place, lambda t: t.drop_column("e"))
    rows = pa.concat_tables([hour(2), hour(3)]).append_column("e", pa.array([None, default], type_))
    with pytest.raises(CommitConflict, match="column 'e' was dropped"):
        table.append(rows)
    assert whole(place)


CLASHES: dict[str, tuple[list[Change], str]] = {
    "a dropped column": ([lambda t: t.drop_column("a")], "column 'a' was dropped"),
    "a column that came back as another": (
        [lambda t: t.drop_column("a"), lambda t: t.add_column("a", pa.int32())], "column 'a' was dropped",
    ),
    "a column renamed and dropped": ([lambda t: t.rename_column("a", "c"), lambda t: t.drop_column("c")], "column 'a' was dropped"),
    "a dropped nested field": ([lambda t: t.drop_column("s.x")], "column 's' is struct"),
    "a nested field that came back": ([lambda t: t.drop_column("s.x"), lambda t: t.add_column("s.x", pa.int32())], "column 's' is"),
}  # fmt: skip


@pytest.mark.parametrize("change", CLASHES)
def test_an_append_that_would_lose_values_is_a_clear_conflict(place: str, change: str) -> None:
    changes, said = CLASHES[change]
    table, _ = overtaken(place, *changes)
    with pytest.raises(CommitConflict, match=said) as conflict:
        table.append(hour(1))
    assert conflict.value.reason == "schema"
    assert len(told(place)) == 1
    assert whole(place)


def test_an_append_that_settles_a_type_stands_after_a_rename_of_that_column(place: str) -> None:
    table, _ = overtaken(place, lambda t: t.rename_column("n", "m"), lambda t: t.add_column("c", pa.int8(), default=3))
    table.append(hour(1, n=["x"]))
    assert told(place)[1] == {**ROW, "m": "x", "c": 3}
    schema = gl.open(place).schema
    assert schema is not None
    assert schema.field("m").type == pa.string()


def test_two_that_settle_a_type_unlike_are_a_conflict_unless_the_first_is_wider(place: str) -> None:
    table, _ = overtaken(place, lambda t: t.append(hour(1, n=pa.array([1], pa.int64()))))
    table.append(hour(2, n=pa.array([2], pa.int8())))
    assert [row.get("n") for row in told(place)] == [None, 1, 2]
    other = f"{place}-other"
    gl.create(other, index="ts", bucket="1h").append(hour(0, n=pa.nulls(1)))
    table, _ = overtaken(other, lambda t: t.append(hour(1, n=pa.array([1], pa.int8()))))
    with pytest.raises(CommitConflict, match="column 'n' is int64 here and int8"):
        table.append(hour(2, n=pa.array([2], pa.int64())))


def test_a_stale_handle_appends_under_the_names_it_knows(place: str) -> None:
    stale = gl.open(place)
    other = gl.open(place)
    other.rename_column("a", "c")
    other.add_column("d", pa.string(), default="x")
    stale.append(hour(1))
    assert told(place)[1] == {"c": 1, "b": 1, "s": {"x": 1, "y": 1}, "d": "x"}
    with pytest.raises(SchemaMismatch, match="it is called 'c' now"):
        stale.append(hour(2))


@pytest.mark.parametrize("spare", [True, False])
def test_skip_that_lost_is_written_again_in_the_columns_of_now(place: str, spare: bool) -> None:
    """The rows are read back from the segment that lost, whose stored names are not those of now."""
    changes: list[Change] = [
        lambda t: t.append(hour(1, b=[9])),
        lambda t: t.rename_column("a", "c"),
        lambda t: t.rename_column("s.x", "z"),
        lambda t: t.widen_column("c", pa.int64()),
        lambda t: t.add_column("a", pa.string(), default="new"),
    ]
    table, _ = overtaken(place, *changes, *([] if spare else [lambda t: t.drop_column("b")]))
    rows = pa.concat_tables([hour(1), hour(2)])
    if not spare:
        with pytest.raises(CommitConflict, match="column 'b' was dropped"):
            table.append(rows, on_overlap="skip")
        assert len(told(place)) == 2
        assert whole(place)
        return
    report = table.append(rows, on_overlap="skip")
    assert (report.rows, report.skipped_rows) == (1, 1)
    assert told(place)[1:] == [
        {"c": 1, "b": 9, "s": {"z": 1, "y": 1}, "a": "new"}, {"c": 2, "b": 2, "s": {"z": 2, "y": 2}, "a": "new"},
    ]  # fmt: skip
    assert whole(place)


# -- changes that are overtaken ----------------------------------------------------------------------------------------


def test_a_change_stands_after_an_append(place: str) -> None:
    table, _ = overtaken(place, lambda t: t.append(hour(1)))
    assert table.rename_column("a", "c") == 4
    assert [row["c"] for row in told(place)] == [0, 1]


def test_a_change_is_decided_again_after_another(place: str) -> None:
    table, _ = overtaken(
        place, lambda t: t.rename_column("a", "c"), lambda t: t.drop_column("b"), lambda t: t.add_column("e", pa.int8())
    )
    assert table.add_column("z", pa.string(), default="new", after="s") == 6
    schema = gl.open(place).schema
    assert schema is not None
    assert schema.names == ["ts", "c", "s", "z", "n", "e"]
    assert told(place) == [{"c": 0, "s": {"x": 0, "y": 0}, "z": "new"}]


def test_two_that_bring_a_dropped_name_back_do_not_share_an_identity(place: str) -> None:
    table, _ = overtaken(place, lambda t: t.drop_column("b"), lambda t: t.add_column("b", pa.string(), default="theirs"))
    assert table.rename_column("b", "mine") == 5
    assert told(place)[0]["mine"] == "theirs"


def test_a_change_whose_column_went_is_refused_as_it_would_be_now(place: str) -> None:
    table, _ = overtaken(place, lambda t: t.drop_column("b"))
    with pytest.raises(UnknownColumn, match="no column 'b'"):
        table.rename_column("b", "d")
    table, _ = overtaken(place, lambda t: t.add_column("c", pa.int8()))
    with pytest.raises(InvalidChange, match="exists already"):
        table.add_column("c", pa.int8())
    assert gl.open(place).version == 4


def test_a_change_is_made_to_the_newest_version_whichever_the_handle_sees(place: str) -> None:
    stale = gl.open(place)
    gl.open(place).rename_column("a", "c")
    with pytest.raises(UnknownColumn, match="no column 'a'"):
        stale.drop_column("a")
    assert stale.version == 3
    stale = gl.open(place)
    gl.open(place).drop_column("b")
    assert stale.reorder_columns(["ts"]) == 4, "nothing to change, but the handle has moved on"


def test_a_change_whose_answer_was_lost_is_one_commit(place: str) -> None:
    table, store = open_faulty(place)
    store.after_put = once(lambda: unavailable("the commit"), is_commit)
    assert table.drop_column("a") == 3
    assert [entry.operation for entry in gl.open(place).history()] == ["create", "append", "alter"]


def test_changes_give_up_at_the_deadline_and_say_who_was_first(place: str) -> None:
    table, store = open_faulty(place, deadline_s=0)
    number = itertools.count()

    def overtake(path: str) -> None:
        if is_commit(path):
            gl.open(place).comment_column("a", str(next(number)))

    store.before_put = overtake
    with pytest.raises(CommitConflict, match="came first"):
        table.drop_column("b")
