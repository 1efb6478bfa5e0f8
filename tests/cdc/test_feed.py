"""Change records applied to Delta tables, and change feeds read as records."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable as DeltaLakeTable
from hypothesis import given, settings
from hypothesis import strategies as st

import gapless as gl
from gapless.cdc import ChangeSource, Record
from gapless.cdc.row_values import read_rows, tell_rows
from gapless.errors import (
    CorruptTable,
    DuplicateKey,
    InvalidOption,
    InvalidRecord,
    InvalidValue,
    NullKey,
    OperationReused,
    UnknownColumn,
    UnsupportedType,
    VersionNotFound,
)
from gapless.tables.delta.table import DeltaTable
from support.delta_rows import counted_table
from support.delta_tables import LAYOUTS
from support.record_histories import SOURCE, histories, told

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64()), ("s", pa.string()), ("part", pa.string())])
FED = {"delta.enableChangeDataFeed": "true"}


def fed(place: Path, schema: pa.Schema = SCHEMA, **options: Any) -> DeltaTable:
    return gl.delta.create(place, schema, properties=FED | options.pop("properties", {}), **options)


def record(op: str, key: Any, before: Any = None, after: Any = None, seq: int = 0) -> Record:
    return Record(_id=key, _seq=seq, _op=op, _before=before, _after=after, _ts=7, _source=SOURCE)


def row(key: int, v: int | None = None, part: str = "a") -> dict[str, Any]:
    return {"id": key, "v": v, "s": None, "part": part}


def rows_of(table: DeltaTable) -> list[dict[str, Any]]:
    return sorted(table.scan().to_arrow().to_pylist(), key=lambda one: one["id"])


# -- there and back ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if "feed" in name])
@settings(max_examples=25, deadline=None)
@given(first=histories(), data=st.data())
def test_any_history_comes_back_from_the_feed_in_its_order(layout: str, first: list[Record], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(first)))
    with TemporaryDirectory() as place:
        table = fed(Path(place) / "t", properties=LAYOUTS[layout])
        gl.cdc.apply(table, first[:cut], key="id")
        gl.cdc.apply(table, first[cut:], key="id")
        back = list(gl.cdc.changes(table, 0, key="id"))
        assert told(back) == told(first)
        assert [one._seq for one in back] == sorted({one._seq for one in back})
        live = {one._id: one._after for one in first}
        assert rows_of(table) == sorted((one for one in live.values() if one is not None), key=lambda one: one["id"])


@settings(max_examples=25, deadline=None)
@given(first=histories(moves=False))
def test_in_a_table_with_partitions_the_order_is_kept_within_each(first: list[Record]) -> None:
    with TemporaryDirectory() as place:
        table = fed(Path(place) / "t", partition_by="part")
        gl.cdc.apply(table, first, key="id")
        back = told(list(gl.cdc.changes(table, 0, key="id")))
        for part in (0, 1):
            assert [one for one in back if one[1] % 2 == part] == [one for one in told(first) if one[1] % 2 == part]


def test_a_commit_has_data_and_change_file_and_each_row_once(tmp_path: Path) -> None:
    table = fed(tmp_path / "t")
    gl.cdc.apply(table, [record("c", n, after=row(n), seq=n) for n in range(4)], key="id")
    changed = [
        record("d", 3, row(3), seq=4),
        record("u", 1, row(1), row(1, 10), seq=5),
        record("c", 9, after=row(9), seq=6),
        record("u", 1, row(1, 10), row(1, 11), seq=7),
    ]
    report = gl.cdc.apply(table, changed, key="id")
    assert (report.commits, report.version) == (2, 3)
    assert (report.inserted_rows, report.updated_rows, report.deleted_rows) == (1, 2, 1)
    lines = (tmp_path / "t" / "_delta_log" / f"{2:020}.json").read_text().splitlines()
    actions = [next(iter(json.loads(line))) for line in lines]
    assert {"add", "remove", "cdc"} <= set(actions)
    (path,) = (json.loads(line)["cdc"]["path"] for line in lines if '"cdc"' in line)
    assert path.startswith("_change_data/")
    stored = pq.read_table(tmp_path / "t" / path)
    assert stored.select(["id", "_change_type"]).to_pylist() == [
        {"id": 3, "_change_type": "delete"},
        {"id": 1, "_change_type": "update_preimage"},
        {"id": 1, "_change_type": "update_postimage"},
        {"id": 9, "_change_type": "insert"},
    ]
    theirs = pa.table(DeltaLakeTable(str(tmp_path / "t")).load_cdf(starting_version=1).read_all())
    ours = table.changes(1).to_arrow()
    names = [*SCHEMA.names, "_change_type", "_commit_version"]
    assert counted_table(theirs.select(names)) == counted_table(ours.select(names))


def test_a_feed_is_read_on_behind_the_last_record(tmp_path: Path) -> None:
    table = fed(tmp_path / "t")
    gl.cdc.apply(table, [record("c", n, after=row(n), seq=n) for n in range(5)], key="id")
    gl.cdc.apply(table, [record("d", n, row(n), seq=9 + n) for n in range(2)], key="id")
    whole = list(gl.cdc.changes(table, 1, key="id"))
    for number, one in enumerate(whole):
        assert isinstance(one._seq, tuple)
        assert list(gl.cdc.changes(table, key="id", after=(one._seq[0], one._seq[1]))) == whole[number + 1 :]
    assert {one._source for one in whole} == {ChangeSource(system="gapless", collection="t")}
    times = {entry.version: entry.time for entry in table.history()}
    assert [datetime.fromtimestamp(one._ts / 1e9, UTC) for one in whole] == [times[one.order[0]] for one in whole]


def test_cdc_08_a_record_that_comes_again_or_late_is_counted_and_not_applied(tmp_path: Path) -> None:
    def at(place: tuple[int, ...], key: int, v: int) -> Record:
        return Record(_id=key, _seq=place, _op="u", _before=None, _after=row(key, v), _ts=0, _source=SOURCE)

    table = fed(tmp_path / "t")
    came = [at((1, 10, 0), 1, 1), at((1, 10, 1), 2, 2), at((1, 10, 0), 1, 1), at((1, 9, 0), 1, 9), at((2, 4, 0), 2, 3)]
    report = gl.cdc.apply(table, came, key="id")
    assert (report.repeated, report.late, report.commits) == (1, 1, 2)
    assert [(one["id"], one["v"]) for one in rows_of(table)] == [(1, 1), (2, 3)]
    with pytest.raises(InvalidRecord, match="have one _seq"):
        gl.cdc.apply(table, [at((3, 0, 0), 7, 1), at((3, 0, 0), 8, 1)], key="id")
    assert len(rows_of(table)) == 2


def test_a_handle_that_lags_applies_records_to_the_columns_of_now(tmp_path: Path) -> None:
    lags = fed(tmp_path / "t")
    gl.delta.open(tmp_path / "t").alter.add_column("more", pa.int64())
    gl.cdc.apply(lags, [record("c", 1, after=row(1) | {"more": 5})], key="id")
    assert rows_of(lags) == [row(1) | {"more": 5}]


def test_cdc_06_and_09_a_delete_of_what_is_not_there_and_an_update_of_what_is_gone(tmp_path: Path) -> None:
    table = fed(tmp_path / "t")
    report = gl.cdc.apply(table, [record("d", 111, seq=1)], key="id")
    assert (report.deleted_rows, rows_of(table)) == (0, [])
    gl.cdc.apply(table, [record("u", 111, None, row(111, 1), seq=2), record("d", 111, seq=3)], key="id")
    assert rows_of(table) == []
    assert [one[0] for one in told(list(gl.cdc.changes(table, 0, key="id")))] == ["c", "d"]


# -- sent again, and killed --------------------------------------------------------------------------------------------

KILLED = """
import os, signal, sys
import gapless as gl
import gapless.cdc.applying as at_work
place, kill_after = sys.argv[1], int(sys.argv[2])
made, inner = [0], at_work.apply_keyed_changes
def apply_keyed_changes(*given, **named):
    if made[0] == kill_after:
        os.kill(os.getpid(), signal.SIGKILL)
    made[0] += 1
    return inner(*given, **named)
at_work.apply_keyed_changes = apply_keyed_changes
records = [gl.cdc.Record.from_json(line) for line in open(f"{place}/records")]
report = gl.cdc.apply(gl.delta.open(f"{place}/t"), records, key="id", operation_id=("app", 7))
print(report.already_applied)
"""


def test_records_of_a_process_that_is_killed_between_its_commits_are_applied_once(tmp_path: Path) -> None:
    table = fed(tmp_path / "t")
    history = [record("c", 1, after=row(1, 0), seq=0)]
    history += [record("u", 1, row(1, n), row(1, n + 1), seq=n + 1) for n in range(3)]
    history += [record("d", 1, row(1, 3), seq=5), record("c", 1, after=row(1, 9), seq=6)]
    (tmp_path / "records").write_text("\n".join(one.to_json() for one in history))

    def run(kill_after: int) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", KILLED, str(tmp_path), str(kill_after)]
        return subprocess.run(command, check=False, capture_output=True, text=True)

    for kill_after in range(6):
        assert run(kill_after).returncode == -signal.SIGKILL
    assert run(99).stdout == "False\n"
    assert run(99).stdout == "True\n"
    table.refresh()
    assert table.version == 6
    assert told(list(gl.cdc.changes(table, 1, key="id"))) == told(history)


def test_an_operation_id_that_named_something_else_is_refused(tmp_path: Path) -> None:
    table = fed(tmp_path / "t")
    table.append([row(1)], operation_id=("app", 1))
    with pytest.raises(OperationReused):
        gl.cdc.apply(table, [record("c", 2, after=row(2))], key="id", operation_id=("app", 1))
    for wrong in ("a text", ("app", 2**50)):
        with pytest.raises(InvalidOption, match="cannot name records"):
            gl.cdc.apply(table, [record("c", 2, after=row(2))], key="id", operation_id=wrong)
    assert gl.cdc.apply(table, [], key="id").commits == 0


# -- feeds of others ---------------------------------------------------------------------------------------------------


def test_cdc_04_an_overwrite_is_deletes_before_creates(tmp_path: Path) -> None:
    table = fed(tmp_path / "t")
    table.append([row(1), row(2), row(3)])
    table.overwrite([row(3, 30), row(4)])
    found = [(one._op, one._id) for one in gl.cdc.changes(table, 2, key="id")]
    assert found[:3] == [("d", 1), ("d", 2), ("d", 3)]
    assert sorted(found[3:]) == [("c", 3), ("c", 4)]


def test_an_update_that_changes_the_key_is_a_delete_and_a_create(tmp_path: Path) -> None:
    table = fed(tmp_path / "t")
    table.append([row(1, 1), row(2, 2)])
    table.update({"id": "3 - id"})
    table.update({"id": "id + 5"}, where="id = 1")
    found = told(list(gl.cdc.changes(table, 2, key="id")))
    assert found == [
        ("u", 2, row(2, 2), row(2, 1)),
        ("u", 1, row(1, 1), row(1, 2)),
        ("d", 1, row(1, 2), None),
        ("c", 6, None, row(6, 2)),
    ]


def test_a_key_that_tells_no_rows_apart_is_refused_where_that_matters(tmp_path: Path) -> None:
    table = fed(tmp_path / "t")
    table.append([row(1, 1), row(1, 2), row(2, 1)])
    assert len(list(gl.cdc.changes(table, 1, key="id"))) == 3
    table.update({"v": "v + 1"}, where="id = 1")
    with pytest.raises(DuplicateKey, match="version 2 updated several rows with id = 1") as error:
        list(gl.cdc.changes(table, 2, key="id"))
    assert error.value.columns == ("id",)
    both = list(gl.cdc.changes(table, 1, key=("id", "part"), exclude=["s", "part"], to_version=1))
    assert both[0]._id == {"id": 1, "part": "a"}
    assert both[0]._after == {"id": 1, "v": 1}
    table.append([{"id": None}])
    with pytest.raises(NullKey, match="version 3"):
        list(gl.cdc.changes(table, 3, key="id"))


def test_ranges_and_files_that_cannot_be_told_are_typed_errors(tmp_path: Path) -> None:
    plain = gl.delta.create(tmp_path / "plain", SCHEMA)
    plain.append([row(1)])
    plain.alter.set_properties(FED)
    plain.update({"v": "1"})
    with pytest.raises(VersionNotFound, match="what version 1 changed was not recorded"):
        gl.cdc.changes(plain, 1, key="id")
    assert [one._op for one in gl.cdc.changes(plain, 2, key="id")] == ["u"]
    for beyond in ({"from_version": 5}, {"from_version": 3, "to_version": 9}, {"after": (9, 0)}):
        with pytest.raises(VersionNotFound):
            gl.cdc.changes(plain, key="id", **beyond)
    assert list(gl.cdc.changes(plain, 4, key="id")) == []
    (file,) = (tmp_path / "plain" / "_change_data").glob("*.parquet")
    whole = file.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"", whole[:8] + bytes(60) + whole[68:]):
        file.write_bytes(damaged)
        with pytest.raises(CorruptTable) as error:
            list(gl.cdc.changes(plain, 3, key="id"))
        assert file.name in str(error.value)
    file.unlink()
    with pytest.raises(VersionNotFound, match="is gone"):
        list(gl.cdc.changes(plain, 3, key="id"))


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({}, InvalidOption),
        ({"key": "nothing"}, UnknownColumn),
        ({"key": ["id", "id"]}, InvalidOption),
        ({"key": "id", "after": 3}, InvalidOption),
        ({"key": "id", "after": (0, 1), "from_version": 1}, InvalidOption),
    ],
)
def test_wrong_calls(options: dict[str, Any], error: type[Exception], tmp_path: Path) -> None:
    with pytest.raises(error):
        gl.cdc.changes(fed(tmp_path / "t"), **({"from_version": 0} if "after" not in options else {}) | options)


def test_a_time_series_tells_its_changes_as_records(tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="ts", entity=["site"], bucket="1h")
    noon = datetime(2026, 1, 5, 12, tzinfo=UTC)
    table.append({"ts": [noon, noon.replace(hour=13)], "site": ["n", "n"], "ppm": [1.5, None]})
    table.upsert({"ts": [noon], "site": ["n"], "ppm": [float("nan")]})
    table.delete(start=noon.replace(hour=13))
    first, second = "2026-01-05T12:00:00.000000Z", "2026-01-05T13:00:00.000000Z"
    found = told(list(gl.cdc.changes(table, 2)))
    assert found == [
        ("c", {"site": "n", "ts": first}, None, {"ts": first, "site": "n", "ppm": 1.5}),
        ("c", {"site": "n", "ts": second}, None, {"ts": second, "site": "n", "ppm": None}),
        (
            "u",
            {"site": "n", "ts": first},
            {"ts": first, "site": "n", "ppm": 1.5},
            {"ts": first, "site": "n", "ppm": {"$numberDouble": "NaN"}},
        ),
        ("d", {"site": "n", "ts": second}, {"ts": second, "site": "n", "ppm": None}, None),
    ]


# -- values ------------------------------------------------------------------------------------------------------------

TYPES = pa.schema(
    [
        ("i", pa.int8()), ("u", pa.uint64()), ("f", pa.float32()), ("d", pa.float64()), ("b", pa.bool_()), ("t", pa.string()),
        ("x", pa.binary()), ("m", pa.decimal128(38, 10)), ("day", pa.date32()), ("us", pa.timestamp("us", "UTC")),
        ("ns", pa.timestamp("ns")), ("clock", pa.time64("us")), ("l", pa.list_(pa.timestamp("ms", "UTC"))),
        ("st", pa.struct([("a", pa.decimal128(5, 2)), ("b", pa.list_(pa.float64()))])),
        ("by", pa.map_(pa.string(), pa.int64())), ("num", pa.map_(pa.int32(), pa.binary())),
    ]
)  # fmt: skip
INT64 = st.integers(-(2**63) + 1, 2**63 - 1)
RAW: dict[str, st.SearchStrategy[Any]] = {
    "i": st.integers(-128, 127), "u": st.integers(0, 2**64 - 1), "f": st.floats(width=32), "d": st.floats(), "b": st.booleans(),
    "t": st.text(max_size=5), "x": st.binary(max_size=5), "day": st.integers(-(2**31), 2**31 - 1), "us": INT64, "ns": INT64,
    "m": st.decimals(-(10**28) + 1, 10**28 - 1, places=10), "clock": st.integers(0, 86_400_000_000 - 1),
    "l": st.lists(st.none() | INT64, max_size=3),
    "st": st.fixed_dictionaries({"a": st.decimals(-999, 999, places=2), "b": st.lists(st.floats(), max_size=2)}),
    "by": st.dictionaries(st.text(max_size=3), st.none() | INT64, max_size=3).map(lambda one: list(one.items())),
    "num": st.dictionaries(st.integers(0, 9), st.none() | st.binary(max_size=3), max_size=3).map(lambda one: list(one.items())),
}  # fmt: skip
WIRE = {TYPES.field(name).type: pa.int64() for name in ("us", "ns", "clock")}
WIRE |= {TYPES.field("day").type: pa.int32(), TYPES.field("l").type: pa.list_(pa.int64())}


@settings(max_examples=150, deadline=None)
@given(rows=st.lists(st.fixed_dictionaries({name: st.none() | one for name, one in RAW.items()}), max_size=4))
def test_values_of_every_type_come_back_bit_for_bit(rows: list[dict[str, Any]]) -> None:
    columns = [pa.array([one[field.name] for one in rows], WIRE.get(field.type, field.type)) for field in TYPES]
    table = pa.table([one.cast(field.type) for one, field in zip(columns, TYPES, strict=True)], schema=TYPES)
    sent = [Record(_id=1, _seq=0, _op="c", _after=image, _ts=0, _source=SOURCE).to_json() for image in tell_rows(table)]
    back = read_rows([Record.from_json(text)._after or {} for text in sent], TYPES)
    for name in TYPES.names:
        assert _texts(back.column(name)) == _texts(table.column(name)), name


def _texts(column: pa.ChunkedArray) -> list[str]:
    """Values by their bits, but that a NaN is any NaN, times as numbers."""
    return [repr(one) for one in column.cast(WIRE.get(column.type, column.type)).to_pylist()]


@pytest.mark.parametrize(
    ("kind", "given", "value"),
    [
        (pa.timestamp("us", "UTC"), {"$date": "2022-12-20T13:04:03.123Z"}, datetime(2022, 12, 20, 13, 4, 3, 123000, UTC)),
        (pa.timestamp("us", "UTC"), {"$date": {"$numberLong": "1000"}}, datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        (pa.timestamp("us", "UTC"), "2022-12-20T13:04:03+01:30", datetime(2022, 12, 20, 11, 34, 3, tzinfo=UTC)),
        (pa.int64(), {"$numberLong": "9223372036854775807"}, 2**63 - 1),
        (pa.float64(), {"$numberDouble": "-Infinity"}, float("-inf")),
        (pa.decimal128(10, 2), {"$numberDecimal": "1.50"}, Decimal("1.50")),
        (pa.string(), {"$oid": "5f5e7f"}, "5f5e7f"),
        (pa.int32(), 3.0, 3),
    ],
)
def test_extended_json_fits_where_its_value_does(kind: pa.DataType, given: Any, value: Any) -> None:
    assert read_rows([{"x": given}], pa.schema([("x", kind)])).column("x").to_pylist() == [value]


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (pa.int8(), 128), (pa.int64(), 2**63), (pa.int64(), 1.5), (pa.int64(), "1"), (pa.int64(), True), (pa.float64(), 2**53 + 1),
        (pa.float32(), 1e300), (pa.bool_(), 1), (pa.string(), 1), (pa.string(), {"a": 1}), (pa.binary(), "x"),
        (pa.timestamp("us", "UTC"), 5), (pa.timestamp("us", "UTC"), "2026-01-05T00:00:00"), (pa.timestamp("us"), "2026-01-05Z"),
        (pa.timestamp("us", "UTC"), "2026-01-05T00:00:00.0000001Z"), (pa.date32(), "2026-02-30"), (pa.date32(), "2026-01-05T01:00"),
        (pa.date32(), "2026-01"), (pa.time64("us"), "24:00:00"), (pa.decimal128(4, 2), "123.45"), (pa.decimal128(4, 2), "1.234"),
        (pa.decimal128(4, 2), "NaN"), (pa.list_(pa.int64()), {"a": 1}), (pa.list_(pa.int64()), [1, "x"]),
        (pa.struct([("a", pa.int64())]), {"b": 1}), (pa.struct([("a", pa.int64())]), [1]), (pa.map_(pa.string(), pa.int64()), [1]),
        (pa.null(), 1),
    ],
)  # fmt: skip
def test_a_value_that_its_column_does_not_hold_is_named(kind: pa.DataType, given: Any) -> None:
    with pytest.raises(InvalidValue, match=r"the image of record 1 has x") as error:
        read_rows([{}, {"x": given}], pa.schema([("x", kind)]))
    assert (error.value.column, error.value.row) == ("x", 1)


def test_records_that_do_not_fit_the_table_leave_it_as_it_is(tmp_path: Path) -> None:
    table = fed(tmp_path / "t")
    for wrong, error in (
        (record("c", 1, after={"id": 2}), InvalidRecord),
        (record("c", {"other": 1}, after={"v": 2}), InvalidValue),
        (record("c", 1, after={"unknown": 2}), InvalidValue),
        (record("c", "text", after={}), InvalidValue),
    ):
        with pytest.raises(error):
            gl.cdc.apply(table, [record("c", 5, after=row(5), seq=1), wrong], key="id")
    with pytest.raises(InvalidRecord, match="which has no 'part'"):
        gl.cdc.apply(table, [record("c", 1, after=row(1))], key=["id", "part"])
    assert table.refresh().version == 0


def test_variants_are_told_by_no_record() -> None:
    fixture = gl.delta.open(Path(__file__).parents[1] / "fixtures" / "delta" / "spark_variant" / "table")
    with pytest.raises(UnsupportedType, match="holds variants"):
        gl.cdc.rows_of_records([], fixture.schema, "id")


# -- collections of documents ------------------------------------------------------------------------------------------


def test_changes_of_a_collection_are_documents_that_another_collection_can_follow(tmp_path: Path) -> None:
    place = tmp_path / "users"
    users = gl.documents.collection(place, properties={"delta.enableChangeDataFeed": True})
    noon = datetime(2026, 1, 5, 12)  # as pymongo has it, in UTC
    users.insert_many([{"_id": n, "n": n, "at": noon, "tags": [1, {"a": b"x"}]} for n in range(4)])
    users.create_index("n")
    users.update_one({"_id": 1}, {"$set": {"n": 2**53 + 1}})
    users.update_one({"_id": 1}, {"$set": {"n": 2**53 + 1}})
    users.replace_one({"_id": 2}, {"x": float("nan")})
    users.delete_one({"_id": 3})
    users.insert_one({"_id": "text", "dec": None})
    found = list(gl.cdc.changes(users.table, 1))
    assert [(one._op, one._id) for one in found] == [
        *(("c", n) for n in range(4)), ("u", 1), ("u", 2), ("d", 3), ("c", "text"),
    ]  # fmt: skip
    first = {"_id": 1, "n": 1, "at": {"$date": "2026-01-05T12:00:00Z"}}
    first["tags"] = [1, {"a": {"$binary": {"base64": "eA==", "subType": "00"}}}]
    assert (found[4]._before, found[4]._after) == (first, first | {"n": 2**53 + 1})
    assert found[5]._after == {"_id": 2, "x": {"$numberDouble": "NaN"}}
    assert found[6]._before is not None
    from bson import json_util

    followed = gl.documents.collection(tmp_path / "followed")
    for one in found:
        if one._op == "d":
            followed.delete_one({"_id": one._id})
        else:
            followed.replace_one({"_id": one._id}, json_util.loads(json.dumps(one._after)), upsert=True)
    assert repr(sorted(followed.find(), key=repr)) == repr(sorted(users.find(), key=repr))
    with pytest.raises(InvalidOption, match="told as documents"):
        gl.cdc.changes(users.table, 1, exclude=["n"])
