"""What finalize does with rows that find others by key: delete, changes, and newer rows against older ones, in both kinds of tables."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.connect import CommitInfo, sink
from gapless.connect.sinks.protocol import Sink
from gapless.connect.sinks.table_sink import TableSink
from gapless.errors import InvalidOption, InvalidValue, NotSupported, NullKey, RetractingInput, SchemaMismatch, UnsupportedType
from support.pipelines import KINDS, SCHEMA, START, made, opened, rows

CHANGES = SCHEMA.append(pa.field("_change_type", pa.string()))
Row = Mapping[str, Any]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def path(kind: str, tmp_path: Path) -> Path:
    made(kind, tmp_path / "t")
    return tmp_path / "t"


def ready(kind: str, path: Path, schema: pa.Schema = SCHEMA, **options: Any) -> TableSink:
    mine = sink(f"{kind}:{path}", pipeline="orders", name="main", **options)
    mine.initialize(schema)
    return mine


def sent(mine: Sink, number: int, given: pa.Table | Sequence[Row], schema: pa.Schema = SCHEMA) -> CommitInfo:
    """The rows as one checkpoint, finalized."""
    mine.write(given if isinstance(given, pa.Table) else pa.Table.from_pylist(list(given), schema))
    return mine.finalize(mine.prepare(number))


def by_id(kind: str, path: Path) -> dict[Any, int]:
    """`v` by `id`; every id is there once."""
    found = opened(kind, path).scan().to_arrow().to_pylist()
    told = {row["id"]: row["v"] for row in found}
    assert len(told) == len(found)
    return told


def row(number: int, key: int | None, value: int | None, change: str | None = None) -> Row:
    told = {"ts": START + timedelta(hours=number), "id": key, "v": value}
    return told if change is None else {**told, "_change_type": change}


def keys(*values: int | None) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64())})


def test_a_delete_takes_the_rows_of_its_keys_in_the_newest_version(kind: str, path: Path) -> None:
    table = opened(kind, path)
    table.append([row(0, 0, 10), row(1, 1, 11), row(2, None, 12)])
    mine = ready(kind, path, keys().schema, mode="delete", key="id")
    mine.write(keys(1, 7, 1))
    mine.write(keys(None))
    prepared = mine.prepare(1)
    table.append([row(3, 7, 13), row(4, 2, 14)])
    assert by_id(kind, path) == {0: 10, 1: 11, None: 12, 7: 13, 2: 14}
    info = mine.finalize(prepared)
    assert by_id(kind, path) == {0: 10, 2: 14}
    assert mine.finalize(prepared).already_committed
    assert (info.late_rows, opened(kind, path).verify(deep=True).ok) == (0, True)
    assert not list((path / "_prepared").rglob("*.*"))


def test_a_delete_by_a_series_own_keys_and_by_several_columns(tmp_path: Path) -> None:
    schema = pa.schema([SCHEMA.field("ts"), ("site", pa.string()), ("v", pa.int64())])
    table = gl.create(tmp_path / "t", index="ts", bucket="1h", entity=["site"], schema=schema)
    table.append([{"ts": START, "site": site, "v": 1} for site in "abc"])
    mine = ready("timeseries", tmp_path / "t", schema.remove(2), mode="delete")
    sent(mine, 1, [{"ts": START, "site": "b"}, {"ts": START + timedelta(minutes=1), "site": "c"}], schema.remove(2))
    assert table.refresh().scan().to_arrow()["site"].to_pylist() == ["a", "c"]
    with pytest.raises(NullKey, match="row 1"):
        mine.write(pa.table({"ts": [START, START], "site": ["a", None]}, schema=schema.remove(2)))


def test_changes_of_a_feed_are_applied(kind: str, path: Path) -> None:
    opened(kind, path).append([row(0, 0, 10), row(1, 1, 11), row(2, 2, 12), row(3, None, 13)])
    mine = ready(kind, path, CHANGES, mode="cdc", key="id")
    assert mine.capabilities.takes_changes
    given = [
        row(0, 0, 10, "update_preimage"),
        row(0, 0, 20, "update_postimage"),
        row(1, 1, 11, "delete"),
        row(5, 5, 15, "insert"),
        row(6, 6, 16, "insert"),
        row(6, 6, 16, "delete"),
        row(3, None, 23, "update_postimage"),
        row(2, 2, 12, "delete"),
        row(7, 2, 22, "insert"),
    ]
    sent(mine, 1, given, CHANGES)
    assert by_id(kind, path) == {0: 20, 5: 15, None: 23, 2: 22}
    assert opened(kind, path).verify(deep=True).ok


def test_an_update_that_gives_a_row_another_key_leaves_no_row_under_the_old_one(kind: str, path: Path) -> None:
    opened(kind, path).append([row(0, 0, 10), row(1, 1, 11)])
    mine = ready(kind, path, CHANGES, mode="cdc", key="id")
    gone, new = (
        [row(n, n, 10 + n, "update_preimage") for n in (0, 1)],
        [row(n, n + 1, 10 + n, "update_postimage") for n in (0, 1)],
    )
    sent(mine, 1, [*gone, *new], CHANGES)
    assert by_id(kind, path) == {1: 10, 2: 11}


@pytest.mark.parametrize(
    "told", [("c", "r", "u", "d"), ("+I", "+I", "+U", "-D"), ("I", "I", "U", "D"), ("insert", "upsert", "update", "delete")]
)
def test_the_spellings_of_other_feeds_are_known(kind: str, path: Path, told: Sequence[str]) -> None:
    schema = SCHEMA.append(pa.field("op", pa.dictionary(pa.int8(), pa.string())))
    mine = ready(kind, path, schema, mode="cdc", key="id", change_type="op")
    assert not mine.capabilities.takes_changes
    values = [(0, 0, 1), (1, 1, 2), (0, 0, 3), (1, 1, None)]
    given = [{**row(*value), "op": op} for value, op in zip(values, told, strict=True)]
    sent(mine, 1, given, schema)
    assert by_id(kind, path) == {0: 3}


def test_a_kind_of_change_that_is_not_known_is_named_with_its_row(kind: str, path: Path) -> None:
    mine = ready(kind, path, CHANGES, mode="cdc", key="id")
    with pytest.raises(InvalidValue, match=r"row 1 has _change_type='inserted'.*Did you mean 'insert'") as caught:
        mine.write(pa.Table.from_pylist([row(0, 0, 1, "insert"), row(1, 1, 1, "inserted")], CHANGES))
    assert (caught.value.row, caught.value.value) == (1, "inserted")
    with pytest.raises(InvalidValue, match="row 0"):
        mine.write(pa.Table.from_pylist([row(0, 0, 1)], CHANGES))
    assert mine.prepare(1).records_written == 0


def test_cdc_09_a_tombstone_is_ignored_after_a_delete_deletes_alone_and_has_a_key(kind: str, tmp_path: Path) -> None:
    schema = SCHEMA.set(0, SCHEMA.field(0).with_nullable(True)) if kind == "delta" else SCHEMA
    table = gl.delta.create(tmp_path / "t", schema) if kind == "delta" else made(kind, tmp_path / "t")
    table.append([row(n, n, n) for n in range(4, 8)])
    came = pa.schema([one.with_nullable(True) for one in CHANGES])
    mine = ready(kind, tmp_path / "t", came, mode="cdc", key="id")
    tombstones = [{"ts": None, "id": key, "v": None, "_change_type": None} for key in (5, 6)]
    sent(mine, 1, [row(5, 5, 5, "delete"), *tombstones, row(6, 6, 66, "insert")], came)
    assert by_id(kind, tmp_path / "t") == {4: 4, 6: 66, 7: 7}
    sent(mine, 2, [{**tombstones[0], "id": 7}], came)
    assert by_id(kind, tmp_path / "t") == {4: 4, 6: 66}
    with pytest.raises(NullKey, match="row 1 says neither"):
        mine.write(pa.Table.from_pylist([row(8, 8, 8, "insert"), {**tombstones[0], "id": None}], came))


def test_of_several_rows_of_a_key_the_highest_stands_and_late_ones_are_counted(
    kind: str, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mine = ready(kind, path, mode="upsert", key="id", order_by="ts")
    assert sent(mine, 1, [row(5, 0, 1), row(3, 0, 2), row(5, 0, 3), row(1, 1, 4)]).late_rows == 1
    assert by_id(kind, path) == {0: 3, 1: 4}
    with caplog.at_level(logging.INFO, logger="gapless.connect"):
        info = sent(mine, 2, [row(4, 0, 5), row(2, 0, 6), row(1, 1, 7), row(0, 2, 8)])
    # Key 0 has rows of hours 4 and 2, and the table one of hour 5. Equal to the table's is applied.
    assert info.late_rows == 2
    assert "left out 2 rows" in caplog.text
    assert by_id(kind, path) == {0: 3, 1: 7, 2: 8}
    assert opened(kind, path).verify(deep=True).ok


def test_a_late_checkpoint_is_committed_and_known_though_it_changes_nothing(kind: str, path: Path) -> None:
    mine = ready(kind, path, mode="upsert", key="id", order_by=["ts"])
    sent(mine, 1, [row(5, 0, 1)])
    mine.write(pa.Table.from_pylist([row(4, 0, 2)], SCHEMA))
    prepared = mine.prepare(2)
    first, again = mine.finalize(prepared), mine.finalize(prepared)
    assert (first.late_rows, again.late_rows, again.already_committed) == (1, 1, True)
    assert by_id(kind, path) == {0: 1}


def test_order_is_decided_against_the_newest_version(kind: str, path: Path) -> None:
    mine = ready(kind, path, mode="upsert", key="id", order_by="ts")
    mine.write(pa.Table.from_pylist([row(4, 0, 1), row(4, 1, 1)], SCHEMA))
    prepared = mine.prepare(1)
    opened(kind, path).append([row(5, 0, 2), row(3, 1, 2)])
    assert mine.finalize(prepared).late_rows == 1
    assert by_id(kind, path) == {0: 2, 1: 1}


def test_a_null_in_the_table_is_older_than_anything_and_none_may_come(kind: str, path: Path) -> None:
    opened(kind, path).append([row(0, 0, None), row(1, 1, 5)])
    mine = ready(kind, path, mode="upsert", key="id", order_by="v")
    assert sent(mine, 1, [row(2, 0, -1), row(3, 1, 4)]).late_rows == 1
    assert by_id(kind, path) == {0: -1, 1: 5}
    with pytest.raises(InvalidValue, match="'v' is null in row 1"):
        mine.write(pa.Table.from_pylist([row(2, 0, 1), row(2, 0, None)], SCHEMA))


def test_deletes_are_ordered_too(kind: str, path: Path) -> None:
    opened(kind, path).append([row(5, 0, 1), row(5, 1, 1), row(5, 2, 1)])
    schema = pa.schema([SCHEMA.field("id"), SCHEMA.field("ts")])
    mine = ready(kind, path, schema, mode="delete", key="id", order_by="ts")
    given = [{"id": n, "ts": START + timedelta(hours=hour)} for n, hour in ((0, 4), (1, 5), (2, 6), (3, 9))]
    assert sent(mine, 1, given, schema).late_rows == 1
    assert by_id(kind, path) == {0: 1}
    changes = ready(kind, path, CHANGES, mode="cdc", key="id", order_by="ts", generation=2)
    given_changes = [row(8, 7, 1, "delete"), row(7, 7, 1, "insert"), row(3, 0, 1, "delete"), row(6, 0, 9, "update_postimage")]
    assert sent(changes, 1, given_changes, CHANGES).late_rows == 1
    assert by_id(kind, path) == {0: 9}


EVENTS = [(1, 10, 0), (1, 10, 1), (1, 10, 0), (1, 9, 0), (2, 4, 0)]


def test_cdc_08_positions_are_compared_as_tuples_and_late_events_are_counted(kind: str, tmp_path: Path) -> None:
    names = ("file", "pos", "row")
    schema = pa.schema([SCHEMA.field("ts"), ("id", pa.int64()), *((name, pa.int64()) for name in names)])
    given = [{"ts": START, "id": 1, **dict(zip(names, event, strict=True))} for event in EVENTS]
    for at, splits in enumerate(([given], [[one] for one in given], [given[:2], given[2:]])):
        place = tmp_path / str(at)
        table = gl.delta.create(place, schema) if kind == "delta" else gl.create(place, index="ts", bucket="1h", schema=schema)
        mine = ready(kind, place, schema, mode="upsert", key="id", order_by=names)
        late = sum(sent(mine, number, some, schema).late_rows for number, some in enumerate(splits))
        # (1, 10, 0) again and (1, 9, 0), both after (1, 10, 1); in the last of these (2, 4, 0) replaced the first of them.
        assert late == (1 if at == 2 else 2)
        assert [tuple(one[name] for name in names) for one in table.refresh().scan().to_arrow().to_pylist()] == [(2, 4, 0)]
        each = ready(kind, place, schema, mode="upsert", key=names, generation=2)
        sent(each, 1, given, schema)
        told = sorted(tuple(one[name] for name in names) for one in table.refresh().scan().to_arrow().to_pylist())
        assert told == sorted(set(EVENTS))


def test_rows_that_tell_of_changes_are_refused_where_all_would_be_written(kind: str, path: Path, tmp_path: Path) -> None:
    for mode, options in (("append", {}), ("overwrite", {}), ("upsert", {"key": "id"}), ("delete", {"key": "id"})):
        with pytest.raises(RetractingInput, match="_change_type") as caught:
            ready(kind, path, CHANGES, mode=mode, **options)
        assert (caught.value.code, caught.value.column) == ("retracting-input", "_change_type")
    new: dict[str, Any] = {} if kind == "delta" else {"index": "ts", "bucket": "1h"}
    with pytest.raises(RetractingInput):
        ready(kind, tmp_path / "new", CHANGES, create=new)
    assert not (tmp_path / "new").exists()
    sent(ready(kind, tmp_path / "new", CHANGES, create=new, mode="cdc", key="id"), 1, [row(0, 0, 1, "insert")], CHANGES)
    assert opened(kind, tmp_path / "new").schema.names == SCHEMA.names


def test_what_finalize_could_not_do_is_refused_before_the_first_row(kind: str, path: Path) -> None:
    wrong: list[tuple[pa.Schema, dict[str, Any], type[Exception]]] = [
        (SCHEMA, {"mode": "cdc", "key": "id"}, InvalidOption),
        (CHANGES, {"mode": "cdc", "key": "nope"}, InvalidOption),
        (CHANGES, {"mode": "cdc"}, InvalidOption),
        (CHANGES, {"mode": "cdc", "key": "id", "change_type": 3}, InvalidOption),
        (CHANGES, {"mode": "cdc", "key": "*", "order_by": "v"}, InvalidOption),
        (CHANGES.remove(2), {"mode": "cdc", "key": "*"}, SchemaMismatch),
        (SCHEMA, {"mode": "upsert", "key": "*"}, InvalidOption),
        (SCHEMA, {"mode": "upsert", "key": ["id", "id"]}, InvalidOption),
        (SCHEMA, {"mode": "upsert", "key": []}, InvalidOption),
        (SCHEMA, {"mode": "upsert", "key": "id", "order_by": "nope"}, InvalidOption),
        (SCHEMA.append(pa.field("x", pa.int64())), {"mode": "delete", "key": "id"}, SchemaMismatch),
        (keys().schema, {"mode": "delete", "key": "v"}, InvalidOption),
        (keys().schema, {"mode": "delete", "key": "id", "create": {}}, InvalidOption),
        (keys().schema, {"mode": "delete", "key": "id", "change_type": "op"}, InvalidOption),
        (SCHEMA, {"mode": "append", "order_by": "v"}, InvalidOption),
        (pa.schema([("id", pa.string())]), {"mode": "delete", "key": "id"}, SchemaMismatch),
        (pa.schema([("ts", pa.timestamp("us"))]), {"mode": "delete", "key": "ts"}, SchemaMismatch),
    ]
    if kind == "timeseries":
        wrong.append((SCHEMA.remove(2), {"mode": "upsert", "key": "id"}, SchemaMismatch))
    for schema, options, error in wrong:
        with pytest.raises(error):
            ready(kind, path, schema, **options)


def test_keys_of_other_widths_are_taken_by_their_value(kind: str, path: Path) -> None:
    opened(kind, path).append([row(0, 0, 10), row(1, 1, 11), row(2, 2, 12)])
    schema = pa.schema([("id", pa.dictionary(pa.int8(), pa.int16())), ("ts", pa.timestamp("ms", "Asia/Tokyo"))])
    mine = ready(kind, path, schema, mode="delete", key=["ts", "id"])
    sent(mine, 1, [{"id": 1, "ts": START + timedelta(hours=1)}, {"id": 2, "ts": START}], schema)
    assert by_id(kind, path) == {0: 10, 2: 12}
    wide = pa.schema([("id", pa.uint64())])
    other = ready(kind, path, wide, mode="delete", key="id", generation=2)
    with pytest.raises(InvalidValue, match="row 1"):
        other.write(pa.table({"id": [2, 2**63]}, schema=wide))
    sent(other, 1, [{"id": 2}], wide)
    assert by_id(kind, path) == {0: 10}


def test_half_floats_and_append_only_tables_are_refused_before_the_first_row(tmp_path: Path) -> None:
    halves = SCHEMA.append(pa.field("h", pa.list_(pa.float16())))
    gl.delta.create(tmp_path / "h", SCHEMA.append(pa.field("h", pa.list_(pa.float32()))))
    with pytest.raises(UnsupportedType, match="'h'"):
        ready("delta", tmp_path / "h", halves, mode="upsert", key="id")
    gl.delta.create(tmp_path / "a", SCHEMA, properties={"delta.appendOnly": "true"})
    for mode in ("upsert", "delete", "overwrite"):
        with pytest.raises(NotSupported, match="append-only"):
            ready("delta", tmp_path / "a", mode=mode, **({} if mode == "overwrite" else {"key": "id"}))
    ready("delta", tmp_path / "a")


def test_a_value_that_does_not_fit_is_refused_by_its_row_though_others_go(kind: str, path: Path) -> None:
    came = CHANGES.set(0, CHANGES.field(0).with_nullable(True))
    mine = ready(kind, path, came, mode="cdc", key="id")
    given = [
        row(0, 0, 1, "delete"),
        row(1, 1, 1, "insert"),
        {**row(2, 2, 1, "delete"), "ts": None},
        {**row(3, 3, 1, "insert"), "ts": None},
    ]
    with pytest.raises((InvalidValue, NullKey), match="row 3"):
        mine.write(pa.Table.from_pylist(given, came))
    mine.write(pa.Table.from_pylist(given[:3], came))
    mine.finalize(mine.prepare(1))
    assert by_id(kind, path) == {1: 1}


def test_rows_and_what_remains_of_them_survive_many_small_files(kind: str, path: Path) -> None:
    opened(kind, path).append(rows(0, 5))
    mine = ready(kind, path, CHANGES, mode="cdc", key="id", order_by="v", spill_bytes=1)
    for number in range(20):
        mine.write(
            pa.Table.from_pylist([row(number, number % 5, 100 - number, "delete" if number == 4 else "insert")], CHANGES)
        )
    prepared = mine.prepare(1)
    assert len(prepared.data_files) == 20
    assert mine.finalize(prepared).late_rows == 15
    assert by_id(kind, path) == {0: 100, 1: 99, 2: 98, 3: 97}


@pytest.mark.parametrize("mode", ["upsert", "cdc"])
def test_columns_that_were_added_since_keep_what_the_table_has_in_them(kind: str, path: Path, mode: str) -> None:
    table = opened(kind, path)
    table.append([row(0, 0, 10), row(1, 1, 11), row(2, 2, 12)])
    mine = ready(kind, path, CHANGES if mode == "cdc" else SCHEMA, mode=mode, key="id")
    given = [row(5, 0, 20), row(6, 7, 21), row(1, 1, 22)]
    mine.write([{**one, "_change_type": "insert"} if mode == "cdc" else one for one in given])
    prepared = mine.prepare(1)
    (table.alter if kind == "delta" else table).add_column("w", pa.list_(pa.int32()))
    changed = [{**row(0, 0, 10), "w": [5, None]}, {**row(2, 2, 12), "w": [7]}]
    if kind == "delta":
        merge = table.merge(pa.Table.from_pylist(changed, table.refresh().schema), "t.id = s.id")
        merge.when_matched_update_all().execute()
    else:
        table.upsert(changed, key="id")
    mine.finalize(prepared)
    found = {one["id"]: (one["v"], one["w"]) for one in table.refresh().scan().to_arrow().to_pylist()}
    assert found == {0: (20, [5, None]), 1: (22, None), 2: (12, [7]), 7: (21, None)}
    assert table.verify(deep=True).ok


def test_columns_that_are_gone_since_are_a_typed_error(kind: str, path: Path) -> None:
    table = opened(kind, path)
    table.append([row(0, 0, 10)])
    mine = ready(kind, path, mode="upsert", key="id")
    mine.write([row(0, 0, 20)])
    prepared = mine.prepare(1)
    if kind == "delta":
        table.alter.set_properties({"delta.columnMapping.mode": "name"})
    (table.alter if kind == "delta" else table).drop_column("v")
    with pytest.raises(SchemaMismatch, match=r"v'?[: ]"):
        mine.finalize(prepared)
    assert mine.abort(prepared)
