"""Which files a filter opens: by statistics and partition values as other writers leave them, never one too few."""

from __future__ import annotations

import datetime as dt
import json
import math
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless.files.read.row_filter import RowFilter
from gapless.formats.delta.actions import AddFile, Metadata, Protocol, TableState
from gapless.formats.delta.schema.types import decode_schema
from gapless.formats.delta.stats_columns import read_bounds
from gapless.tables.delta.read.scan import FEW_FILES, Planner
from gapless.tables.delta.read.view import DeltaView
from gapless.tables.delta.table import DeltaTable
from gapless.tables.shared.scan import Condition, parse_condition
from support.hand_made import Hand, column, commit, lay, simple_stats, struct

LONG = pa.int64()


def opened(view: DeltaView, where: Any) -> list[str]:
    """The files that a filter cannot tell to be without a row that it keeps."""
    return [file.path for file in view.scan(where=where).files()]


def found(view: DeltaView, where: Any) -> list[Any]:
    """The kept values of the table's first column."""
    rows = view.scan(where=where)
    values: list[Any] = rows.to_arrow().column(0).to_pylist()
    assert rows.count() == len(values)
    return values


def numbered(*groups: list[Any], type_: pa.DataType = LONG, stats: Any = None) -> list[Hand]:
    """One file a group, of one column `x`."""
    told = stats or [None] * len(groups)
    return [
        Hand(path=f"{at}.parquet", rows=pa.table({"x": pa.array(group, type_)}), stats=one)
        for at, (group, one) in enumerate(zip(groups, told, strict=True))
    ]


def test_stat_01_delta_a_largest_time_that_was_cut_to_milliseconds_still_holds_its_file(tmp_path: Path) -> None:
    instant = dt.datetime(2023, 3, 29, 23, 59, 59, 807126, tzinfo=dt.UTC)
    cut = "2023-03-29T23:59:59.807Z"
    view = lay(
        tmp_path,
        [column("x", "timestamp")],
        numbered([instant], type_=pa.timestamp("us", "UTC"), stats=[simple_stats(1, x=(cut, cut, 0))]),
    )
    for where in ("x = timestamptz '2023-03-29T23:59:59.807126Z'", "x >= timestamptz '2023-03-29T23:59:59.807100Z'"):
        assert found(view, where) == [instant]
    assert opened(view, "x >= timestamptz '2023-03-29T23:59:59.808Z'") == []


def test_stat_02_delta_a_nan_takes_no_other_row_with_it(tmp_path: Path) -> None:
    groups = [[0.0, 9.0], [100.0, 109.0], [200.0, 209.0], [300.0, math.nan]]
    stats = [simple_stats(2, x=(low, high, 0)) for low, high in ((0.0, 9.0), (100.0, 109.0), (200.0, 209.0), (300.0, None))]
    view = lay(tmp_path, [column("x", "double")], numbered(*groups, type_=pa.float64(), stats=stats))
    for where in ("x > 250", "x >= 300"):
        assert [value for value in found(view, where) if not math.isnan(value)] == [300.0]
    assert found(view, "x < 5") == [0.0]
    assert opened(view, "x < 5") == ["0.parquet"]
    assert [math.isnan(value) for value in found(view, "isnan(x)")] == [True]


def test_stat_04_delta_a_zero_bound_is_both_zeros(tmp_path: Path) -> None:
    stats = [simple_stats(1, x=(-0.0, -0.0, 0)), simple_stats(2, x=(0.0, 1.0, 0))]
    view = lay(tmp_path, [column("x", "double")], numbered([-0.0], [0.0, 1.0], type_=pa.float64(), stats=stats))
    assert [len(found(view, where)) for where in ("x = 0.0", "x >= 0.0", "x < 0.0")] == [2, 3, 0]


def test_stat_05_delta_nulls_bound_nothing(tmp_path: Path) -> None:
    stats = [
        simple_stats(4, x=(1, 2, 2)),
        simple_stats(2, x=(None, None, 2)),
        {"numRecords": 1, "minValues": {"x": None}, "maxValues": {"x": None}, "nullCount": {"x": 1}},
    ]
    view = lay(tmp_path, [column("x", "long")], numbered([1, 2, None, None], [None, None], [None], stats=stats))
    assert opened(view, "x = 2") == ["0.parquet"]
    assert found(view, "x = 2") == [2]
    assert found(view, "x is null") == [None] * 5


def test_stat_06_delta_a_bound_that_is_absent_is_not_null(tmp_path: Path) -> None:
    stats = [{"numRecords": 2, "nullCount": {"x": 0}}, {"numRecords": 2}, None]
    view = lay(tmp_path, [column("x", "long")], numbered([1, 9], [2, 8], [3, 7], stats=stats))
    assert sorted(found(view, "x > 5")) == [7, 8, 9]
    assert opened(view, "x is null") == ["1.parquet", "2.parquet"]


def test_stat_07_delta_is_null_finds_nulls_beside_values(tmp_path: Path) -> None:
    stats = [simple_stats(2, x=(12, 12, 1)), simple_stats(2, x=(None, None, 2)), simple_stats(2, x=(15, 67, 0))]
    view = lay(tmp_path, [column("x", "long")], numbered([12, None], [None, None], [15, 67], stats=stats))
    assert found(view, "x is null") == [None] * 3
    assert sorted(found(view, "not (x is null)")) == [12, 15, 67]
    assert opened(view, "x is not null") == ["0.parquet", "2.parquet"]


@pytest.mark.parametrize("bad", ['"\\ud83d"', "12", "{}", '"�"'])
def test_stat_10_delta_a_bound_that_is_none_of_its_type_is_passed_over(tmp_path: Path, bad: str) -> None:
    text = f'{{"numRecords": 1, "minValues": {{"x": {bad}}}, "maxValues": {{"x": {bad}}}, "nullCount": {{"x": 0}}}}'
    many = [simple_stats(1, x=("m", "m", 0))] * FEW_FILES
    groups = [["é"], *[["m"]] * FEW_FILES]
    view = lay(tmp_path, [column("x", "string")], numbered(*groups, type_=pa.string(), stats=[text, *many]))
    if bad != '"�"':  # a text like any other, though an odd one
        assert found(view, "x = 'é'") == ["é"]
    assert len(opened(view, "x = 'm'")) >= FEW_FILES


def test_a_text_that_is_longer_than_its_bound_is_found(tmp_path: Path) -> None:
    long = "a" * 32 + "z"
    stats = [simple_stats(1, x=("a" * 32, "a" * 32 + "\U0010ffff", 0))]
    view = lay(tmp_path, [column("x", "string")], numbered([long], type_=pa.string(), stats=stats))
    assert found(view, f"x = '{long}'") == [long]


def test_a_field_of_a_struct_prunes(tmp_path: Path) -> None:
    kind = pa.struct([("a", pa.int64()), ("b", pa.struct([("c", pa.string())]))])
    rows = [[{"a": at, "b": {"c": f"k{at}"}}, None] for at in range(3)]
    files = [
        Hand(
            path=f"{at}.parquet",
            rows=pa.table({"s": pa.array(group, kind)}),
            stats={
                "numRecords": 2,
                "minValues": {"s": {"a": at, "b": {"c": f"k{at}"}}},
                "maxValues": {"s": {"a": at, "b": {"c": f"k{at}"}}},
                "nullCount": {"s": {"a": 1, "b": {"c": 1}}},
            },
        )
        for at, group in enumerate(rows)
    ]
    view = lay(tmp_path, [column("s", struct(column("a", "long"), column("b", struct(column("c", "string")))))], files)
    assert opened(view, "s.a = 1") == ["1.parquet"]
    assert opened(view, "s.b.c >= 'k2'") == ["2.parquet"]
    assert [value["a"] for value in found(view, "s.a = 1 or s.b.c = 'k2'")] == [1, 2]
    assert len(found(view, "s.a is null")) == 3


# -- partitions ------------------------------------------------------------------------------------------------------------


def parted(root: Path, type_: str, texts: list[str | None]) -> DeltaView:
    files = [
        Hand(path=f"{at}.parquet", rows=pa.table({"x": pa.array([at], pa.int64())}), values={"k": text})
        for at, text in enumerate(texts)
    ]
    return lay(root, [column("x", "long"), column("k", type_)], files, partition_by=["k"])


def test_path_06_delta_words_for_nothing_are_values_like_any_other(tmp_path: Path) -> None:
    texts = [None, "", "null", "None", "NULL", "__HIVE_DEFAULT_PARTITION__", " "]
    view = parted(tmp_path, "string", texts)
    assert view.scan().to_arrow().column("k").to_pylist() == [None, None, *texts[2:]]
    assert found(view, "k is null") == [0, 1]
    assert found(view, "k = 'null'") == [2]
    assert opened(view, "k = 'null'") == ["2.parquet"]


def test_path_07_delta_a_filter_lets_no_null_partition_through(tmp_path: Path) -> None:
    view = parted(tmp_path, "integer", [None, "2450824"])
    wheres = ("k > 0", "k != 2450824", "k is not null", "k is null")
    assert [found(view, where) for where in wheres] == [[1], [], [1], [0]]
    assert [opened(view, where) for where in wheres] == [["1.parquet"], [], ["1.parquet"], ["0.parquet"]]


def test_path_08_delta_partition_texts_compare_as_their_type(tmp_path: Path) -> None:
    view = parted(tmp_path / "numbers", "integer", ["06", "10"])
    assert (found(view, "k = 6"), found(view, "k < 9"), found(view, "k > 9")) == ([0], [0], [1])
    assert found(parted(tmp_path / "texts", "string", ["007", "7"]), "k = '007'") == [0]


def test_path_10_delta_a_folder_above_is_no_column(tmp_path: Path) -> None:
    view = parted(tmp_path / "Year=2022" / "x=1", "string", ["a"])
    assert view.scan().to_arrow().to_pylist() == [{"x": 0, "k": "a"}]


def test_path_14_delta_a_date_partition_says_nothing_of_an_instant(tmp_path: Path) -> None:
    instant = dt.datetime(2024, 5, 1, 10, tzinfo=dt.UTC)
    rows = pa.table({"ts": pa.array([instant], pa.timestamp("us", "UTC"))})
    view = lay(
        tmp_path,
        [column("ts", "timestamp"), column("day", "date")],
        [Hand(path="a.parquet", rows=rows, values={"day": "2024-05-01"})],
        partition_by=["day"],
    )
    for where in (
        "ts = timestamptz '2024-05-01T10:00:00Z'",
        "ts >= timestamptz '2024-05-01T09:00:00Z'",
        "ts < date '2024-05-02'",
    ):
        assert found(view, where) == [instant]
    assert opened(view, "day > date '2024-05-01'") == []


def test_a_filter_on_partitions_alone_reads_no_statistics_and_counts_by_the_log(tmp_path: Path) -> None:
    rows = pa.table({"x": [1, 2, 3]})
    files = [Hand(path=f"{k}.parquet", rows=rows, values={"k": k}, stats={"numRecords": 3}) for k in "abc"]
    view = lay(tmp_path, [column("x", "long"), column("k", "string")], files, partition_by=["k"])
    for file in tmp_path.glob("*.parquet"):
        file.unlink()
    assert view.scan(where="k in ('a', 'c')").count() == 6
    assert view.scan(where=pc.field("k") == "b").count() == 3
    assert view.count() == 9


# -- the quick look at all files at once ------------------------------------------------------------------------------------

TYPES = {"a": "long", "b": "double", "c": "string", "d": "timestamp"}
OPS = ("=", "!=", "<", "<=", ">", ">=")


def said(name: str, number: int) -> Any:
    """A bound as statistics have it."""
    return {"a": number, "b": number + 0.5, "c": str(number), "d": f"2026-01-0{number + 1}T00:00:00.000Z"}[name]


def literal(name: str, number: int) -> str:
    """The same in SQL."""
    return {"a": f"{number}", "b": f"{number}.5", "c": f"'{number}'", "d": f"timestamptz '2026-01-0{number + 1}T00:00:00Z'"}[
        name
    ]


def stats_text(draw: Random) -> str | None:
    """Statistics as they may come, most of them whole."""
    if not draw.randrange(40):
        return None
    rows = draw.randrange(4)
    told: dict[str, Any] = {
        "numRecords": rows,
        "minValues": {},
        "maxValues": {},
        "nullCount": {},
        "tightBounds": draw.random() < 0.8,
    }
    for name in TYPES:
        low = draw.randrange(6)
        high = low + draw.randrange(-1, 3)
        for kind, value in (("minValues", said(name, low)), ("maxValues", said(name, max(high, 0)))):
            if draw.random() < 0.9:
                told[kind][name] = value
        if draw.random() < 0.9:
            told["nullCount"][name] = draw.randrange(rows + 1)
    if draw.random() < 0.7:
        told["nanCount"] = {"b": draw.choice((0, 0, 1))}
    return json.dumps({key: value for key, value in told.items() if draw.random() < 0.95})


def condition(draw: Random, depth: int = 2) -> str:
    """A filter over the columns."""
    name, kind = draw.choice(list(TYPES)), draw.randrange(7 if depth else 3)
    if kind == 0:
        return f"{name} in ({', '.join(literal(name, draw.randrange(8)) for _ in range(draw.randrange(1, 4)))})"
    if kind == 1:
        return f"{name} is {draw.choice(('', 'not '))}null"
    if kind <= 3:
        return f"{name} {draw.choice(OPS)} {literal(name, draw.randrange(8))}"
    if kind == 4:
        return f"not ({condition(draw, depth - 1)})"
    return f"({condition(draw, depth - 1)}) {draw.choice(('and', 'or'))} ({condition(draw, depth - 1)})"


@settings(max_examples=12)
@given(st.integers(0, 2**32))
def test_a_look_at_all_at_once_drops_what_a_look_at_each_would_drop(seed: int) -> None:
    draw = Random(seed)
    files = [AddFile(path=f"{at}", size=1, modified_ms=0, stats=stats_text(draw)) for at in range(FEW_FILES + 10)]
    schema = decode_schema(json.dumps(struct(*(column(name, type_) for name, type_ in TYPES.items()))), "here")
    state = TableState(
        protocol=Protocol(reader=1, writer=2),
        metadata=Metadata(id="x", schema=schema),
        files={file.key: file for file in files},
    )
    planner = Planner.of(state)
    for _ in range(20):
        asked = parse_condition(condition(draw), TABLE)
        assert [(one.file.path, one.whole) for one in planner.select(asked)] == slowly(planner, asked)


def honest_stats(draw: Random, rows: pa.Table) -> dict[str, Any]:
    """What a writer may say of these rows, some of it left out."""
    told: dict[str, Any] = {"numRecords": rows.num_rows, "minValues": {}, "maxValues": {}, "nullCount": {}, "nanCount": {}}
    for name in TYPES:
        values = [value for value in rows[name].to_pylist() if value is not None and value == value]  # noqa: PLR0124
        if values and draw.random() < 0.95:
            bounds = (min(values), max(values))
            texts = [value.strftime("%Y-%m-%dT%H:%M:%S.000Z") if name == "d" else value for value in bounds]
            told["minValues"][name], told["maxValues"][name] = texts
        if draw.random() < 0.95:
            told["nullCount"][name] = rows[name].null_count
    nans = sum(value is not None and math.isnan(value) for value in rows["b"].to_pylist())
    told["nanCount"] = {"b": nans} if draw.random() < 0.8 else {}
    if nans and not told["nanCount"]:
        told["maxValues"].pop("b", None)
    return told


def few_rows(draw: Random) -> pa.Table:
    """Rows whose values lie near each other, with odd ones among them."""
    at, spread, odd = draw.randrange(8), draw.choice((1, 1, 2, 4)), draw.random() < 0.3
    numbers = [min(7, at + draw.randrange(spread)) for _ in range(draw.randrange(1, 5))]
    day = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    columns: dict[str, list[Any]] = {
        "a": list(numbers),
        "b": [float(one) / 2 for one in numbers],
        "c": [str(one) for one in numbers],
        "d": [day + dt.timedelta(days=one) for one in numbers],
    }
    for values in columns.values() if odd else ():
        values[draw.randrange(len(values))] = None
    if odd:
        columns["b"][0] = draw.choice((math.nan, -0.0, None))
    return pa.table({name: pa.array(columns[name], TABLE.field(name).type) for name in TYPES})


def test_what_statistics_prove_of_a_file_is_true_of_its_rows(tmp_path: Path) -> None:
    """The same files without statistics give the same rows, each of which was then looked at."""
    draw = Random(7)
    groups = [few_rows(draw) for _ in range(FEW_FILES + 30)]
    columns = [column(name, type_) for name, type_ in TYPES.items()]
    told = [
        [
            Hand(path=f"{at}.parquet", rows=rows, stats=honest_stats(draw, rows) if known else None)
            for at, rows in enumerate(groups)
        ]
        for known in (True, False)
    ]
    view, bare = (lay(tmp_path / str(at), columns, files) for at, files in enumerate(told))
    sure = 0
    for _ in range(60):
        where = condition(draw)
        rows = view.scan(where=where)
        assert rows.to_arrow().to_pydict().__repr__() == bare.scan(where=where).to_arrow().to_pydict().__repr__(), where
        assert rows.count() == bare.scan(where=where).count()
        sure += sum(one.whole for one in Planner.of(view._state).select(parse_condition(where, TABLE)))
    assert sure > 500, "or nothing was proven"


TABLE = pa.schema([("a", pa.int64()), ("b", pa.float64()), ("c", pa.string()), ("d", pa.timestamp("us", "UTC"))])


def slowly(planner: Planner, condition: Condition) -> list[tuple[str, bool]]:
    told = [planner.stats(file) for file in planner.files]
    stats = [lambda name, one=one: one.columns.get((name,)) for one in told]
    rows = [1 << 62 if one.rows is None else one.rows for one in told]
    kept = RowFilter(schema=condition.schema, predicate=condition.predicate).matching(stats, rows)
    return [(planner.files[at].path, sure) for at, sure in kept]


def test_files_of_ours_say_that_they_hold_no_nan_and_so_are_passed_over(tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path / "t", pa.schema([("x", pa.float64()), ("s", pa.struct([("f", pa.float32())]))]))
    for value in (1.0, 2.0, math.nan, 4.0):
        table.append(pa.table({"x": [value], "s": pa.array([{"f": value}], pa.struct([("f", pa.float32())]))}))
    for where in ("x > 2", "s.f >= 3"):
        assert [math.isnan(value) or value for value in found(table, where)] == [True, 4.0]
        assert len(opened(table, where)) == 2
    assert len(opened(table, "not isnan(x)")) == 3


def test_a_plan_from_a_log_checkpoint_and_later_commits_is_that_of_its_files(tmp_path: Path) -> None:
    files = numbered(*[[at] for at in range(100)], stats=[simple_stats(1, x=(at, at, 0)) for at in range(100)])
    lay(tmp_path, [column("x", "long")], files)
    DeltaTable.open(tmp_path).checkpoint()
    gone = {at: {"remove": {"path": f"{at}.parquet", "deletionTimestamp": 1, "dataChange": True}} for at in (3, 50, 51)}
    commit(tmp_path, 1, [{"commitInfo": {"timestamp": 1_700_000_100_000}}, *gone.values()])
    told = {
        "path": "50.parquet",
        "partitionValues": {},
        "size": files[50].rows.nbytes,
        "modificationTime": 1,
        "dataChange": True,
    }
    again = [
        {"add": told | {"path": path, "stats": json.dumps(simple_stats(1, x=(51, 51, 0)))}}
        for path in ("50.parquet", "new.parquet", "7.parquet")
    ]
    commit(tmp_path, 2, [{"commitInfo": {"timestamp": 1_700_000_200_000}}, *again])
    state = DeltaTable.open(tmp_path)._state
    for where in ("x = 7", "x in (3, 50, 51, 52)", "x between 49 and 53", "x >= 0", "x is null"):
        asked = parse_condition(where, pa.schema([("x", pa.int64())]))
        plainly = Planner.of(replace(state, files=dict(state.files)))
        fresh = Planner.of(DeltaTable.open(tmp_path)._state)
        for planner in (fresh, fresh):
            assert [one.file for one in planner.select(asked)] == [one.file for one in plainly.select(asked)]
    assert sorted(opened(DeltaTable.open(tmp_path), "x = 51")) == ["50.parquet", "7.parquet", "new.parquet"]
    assert opened(DeltaTable.open(tmp_path), "x in (3, 7, 50)") == []


def test_stat_03_delta_an_infinite_bound_ends_no_look_at_all_at_once(tmp_path: Path) -> None:
    bounds: list[tuple[Any, Any]] = [(float(at), float(at)) for at in range(FEW_FILES)]
    stats = [simple_stats(1, x=(*one, 0)) for one in (*bounds, ("-Infinity", 1.0), (1.0, "Infinity"), ("NaN", "NaN"))]
    rows = [*([low] for low, _ in bounds), [-math.inf], [math.inf], [math.nan]]
    view = lay(tmp_path, [column("x", "double")], numbered(*rows, type_=pa.float64(), stats=stats))
    schema = view._state.metadata.schema
    told = read_bounds([file.action.stats for file in view.files()], ("x",), schema)
    assert told is not None
    assert told.low.to_pylist()[-3:] == [None, 1.0, None]
    assert told.high.to_pylist()[-3:] == [1.0, None, None]
    assert found(view, "x < -5") == [-math.inf]
    assert len(opened(view, "x < -5")) == 2
    assert [math.isnan(value) or value for value in found(view, "x > 1e308")] == [math.inf, True]
