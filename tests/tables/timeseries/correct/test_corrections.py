"""Upsert, delete, replace: the cases from the field, and what each is refused for."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import gapless as gl
from gapless.errors import (
    DuplicateKey,
    InvalidOption,
    InvalidTime,
    InvalidValue,
    NullKey,
    SchemaMismatch,
    UnknownColumn,
    UpgradeNeeded,
)
from gapless.store.open import open_store

T0 = datetime(2024, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
_counter = itertools.count()


def days(*which: float, k: str | None = None, v: float | None = 0.0, seg: int | None = None) -> list[dict[str, Any]]:
    return [{"ts": T0 + timedelta(days=d), "k": k or f"k{d}", "seg": seg, "v": v} for d in which]


SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.string()), ("seg", pa.int64()), ("v", pa.float64())])


@pytest.fixture
def table() -> gl.TimeSeriesTable:
    return gl.create(f"memory://corrections-unit-{next(_counter)}", index="ts", bucket="1d", schema=SCHEMA)


def told(table: gl.TimeSeriesTable) -> list[tuple[float, str, float | None]]:
    rows = table.scan(order="index").to_arrow().to_pylist()
    return [((row["ts"] - T0) / DAY, row["k"], row["v"]) for row in rows]


def covered(table: gl.TimeSeriesTable) -> list[float]:
    return [(bucket.start - T0) / DAY for bucket in table.coverage().buckets()] if table.segments() else []


def files(table: gl.TimeSeriesTable) -> set[str]:
    return {info.path for info in open_store(table.url).list("data")}


def check_sound(table: gl.TimeSeriesTable) -> None:
    assert [finding.what for finding in table.verify(deep=True).findings if finding.code != "orphan"] == []


# -- keys --------------------------------------------------------------------------------------------------------------


def test_ups_01_null_in_a_key_matches_null(table: gl.TimeSeriesTable) -> None:
    for value in (1.0, 2.0, 3.0):
        report = table.upsert(days(0, k="a", v=value), key=["k", "seg"])
    assert told(table) == [(0.0, "a", 3.0)]
    assert (report.rows, report.inserted_rows, report.updated_rows, report.removed_rows) == (1, 0, 1, 1)


def test_ups_01_a_key_column_that_the_input_lacks_is_refused(table: gl.TimeSeriesTable) -> None:
    table.append(days(0))
    with pytest.raises(SchemaMismatch, match="seg"):
        table.upsert([{"ts": T0, "k": "k0", "v": 1.0}], key=["k", "seg"])
    assert table.refresh().version == 2


@pytest.mark.parametrize("there", [[], [9.0]])
def test_ups_03_two_rows_with_one_key_in_one_input(table: gl.TimeSeriesTable, there: list[float]) -> None:
    table.append([row for v in there for row in days(0, k="1", v=v)])
    source = [*days(0, k="1", v=1.0), *days(1, k="1", v=2.0), *days(2, k="2", v=3.0)]
    version = table.version
    with pytest.raises(DuplicateKey, match=r"1 key found more than once in the input: \(k=1\)") as refusal:
        table.upsert(source, key="k")
    assert (refusal.value.columns, refusal.value.keys) == (("k",), (("1",),))
    assert gl.open(table.url).version == version, "nothing was written"
    table.upsert(source, key="k", on_duplicate="last")
    assert told(table) == [(1.0, "1", 2.0), (2.0, "2", 3.0)]


def test_ups_03_identical_rows_are_duplicates_too(table: gl.TimeSeriesTable) -> None:
    with pytest.raises(DuplicateKey):
        table.upsert(days(0) + days(0))
    table.upsert(days(0) + days(0), on_duplicate="last")
    assert told(table) == [(0.0, "k0", 0.0)]


def test_ups_05_a_row_moves_to_another_bucket_by_its_key(table: gl.TimeSeriesTable) -> None:
    table.append([*days(1.1, k="a"), *days(1.2, k="b")])
    table.append(days(2.5, k="c"))
    report = table.upsert(days(2.1, k="a", v=5.0), key="k")
    assert told(table) == [(1.2, "b", 0.0), (2.1, "a", 5.0), (2.5, "c", 0.0)]
    assert covered(table) == [1.0, 2.0]
    assert report.removed_segments == 2, "it left one segment, and came into the one that covers its new day"
    table.upsert(days(7.0, k="b", v=6.0), key="k")
    assert covered(table) == [2.0, 7.0], "the day that it left alone is not covered any more"
    check_sound(table)


def test_ups_08_all_rows_that_have_the_key_already_give_way(table: gl.TimeSeriesTable) -> None:
    for value in (1.0, 2.0, 3.0):
        table.append(days(0, k="1", v=value), on_overlap="allow")
    report = table.upsert(days(0, k="1", v=9.0))
    assert told(table) == [(0.0, "1", 9.0)]
    assert (report.updated_rows, report.removed_rows) == (1, 3)
    check_sound(table)


def test_ups_11_of_equal_keys_the_last_that_arrives_wins(table: gl.TimeSeriesTable) -> None:
    versions = [*days(0, k="oldest", v=1.0), *days(0, k="older", v=2.0), *days(0, k="current", v=3.0)]
    table.upsert(versions, on_duplicate="last")
    assert told(table) == [(0.0, "current", 3.0)]
    halves = [pa.Table.from_pylist(versions[:2], SCHEMA), pa.Table.from_pylist(versions[2:], SCHEMA)]
    table.upsert(pa.concat_tables(halves), on_duplicate="last")
    assert told(table) == [(0.0, "current", 3.0)], "over the batches of one input as well"


def test_ups_12_numbers_are_not_compared_as_text(table: gl.TimeSeriesTable) -> None:
    """There is no order column: arrival decides. A key of another type than its column is refused, naming it."""
    table.append([*days(0, k="10"), *days(1, k="9")])
    with pytest.raises(SchemaMismatch, match="k: string in the table, int64 in the input"):
        table.upsert([{"ts": T0, "k": 9, "seg": None, "v": 1.0}], key="k")


def test_nan_is_one_key_and_both_zeros_are_one(table: gl.TimeSeriesTable) -> None:
    table.append([*days(0, v=math.nan), *days(1, v=0.0), *days(2, v=None)])
    table.upsert([*days(3, v=math.nan), *days(4, v=-0.0), *days(5, v=None)], key="v")
    assert [row[:2] for row in told(table)] == [(3.0, "k3"), (4.0, "k4"), (5.0, "k5")]


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        ([1, 2], pa.duration("ns")),
        ([1.0, math.nan], pa.float16()),
        ([b"a", b""], pa.binary()),
        ([True, None], pa.bool_()),
        (["1.10", None], pa.decimal128(9, 2)),
        ([1, 3], pa.timestamp("s", "America/New_York")),
        ([1, 2**64 - 1], pa.uint64()),
        ([1, 2], pa.time64("ns")),
        ([1, 2], pa.date64()),
    ],
)
def test_keys_of_every_plain_type(values: list[Any], type_: pa.DataType) -> None:
    place = f"memory://corrections-types-{next(_counter)}"
    made = (
        pa.array(values).cast(type_)
        if pa.types.is_decimal(type_)
        else pa.array(values, pa.int64() if pa.types.is_date64(type_) else type_)
    )
    column = (made.view(type_) if pa.types.is_date64(type_) else made).take(pa.array([0, 1] * 20))
    if pa.types.is_date64(type_):
        column = pa.array([86_400_000 * v for v in values] * 20, pa.int64()).view(type_)
    both = pa.table({"at": pa.array(range(40), pa.int64()), "key": column})
    table = gl.create(place, index="at", index_type="int64", bucket=10)
    table.append(both)
    table.upsert(both.slice(0, 2), key="key")
    assert table.scan().to_arrow().column("at").to_pylist() == [0, 1]


def test_more_keys_than_are_named_one_by_one(table: gl.TimeSeriesTable) -> None:
    table.append(days(*range(40)))
    table.upsert(days(*range(5, 25), v=1.0), key="k")
    assert sum(v == 1.0 for _, _, v in told(table)) == 20
    assert len(told(table)) == 40


def test_keys_that_cannot_be(table: gl.TimeSeriesTable) -> None:
    table.append(days(0))
    with pytest.raises(UnknownColumn, match="kk"):
        table.upsert(days(0), key="kk")
    with pytest.raises(InvalidOption, match="names no columns"):
        table.upsert(days(0), key=[])
    with pytest.raises(InvalidOption, match="on_duplicate"):
        table.upsert(days(0), on_duplicate="first")  # type: ignore[arg-type]  # what the test is about
    nested = gl.create(f"memory://corrections-nested-{next(_counter)}", index="ts", bucket="1d")
    nested.append([{"ts": T0, "s": {"x": 1}}])
    with pytest.raises(InvalidOption, match="cannot be part of a key"):
        nested.upsert([{"ts": T0, "s": {"x": 1}}], key="s")


def test_an_upsert_without_a_column_would_lose_its_values(table: gl.TimeSeriesTable) -> None:
    table.append(days(0))
    with pytest.raises(SchemaMismatch, match="lacks the columns 'seg', 'v'"):
        table.upsert([{"ts": T0, "k": "k0"}])


def test_an_upsert_makes_a_tables_columns() -> None:
    table = gl.create(f"memory://corrections-first-{next(_counter)}", index="ts", bucket="1d")
    assert table.delete("true").version == 1, "nothing to delete, and nothing is written"
    report = table.upsert(days(0, 1))
    assert (report.rows, report.updated_rows, report.version) == (2, 0, 2)
    assert covered(table) == [0.0, 1.0]


# -- conditions --------------------------------------------------------------------------------------------------------


def numbers(*values: float | None) -> list[dict[str, Any]]:
    return [row for at, value in enumerate(values) for row in days(at, v=None if value is None else float(value))]


@pytest.mark.parametrize(
    ("where", "left"),
    [
        ("v = 2", [1.0, None]),
        ("v >= 2", [1.0, None]),
        ("NOT (v = 1)", [1.0, None]),
        (pc.field("v") == 2, [1.0, None]),
        (~(pc.field("v") == 1), [1.0, None]),
        ("v IS NULL", [1.0, 2.0]),
    ],
)
def test_ups_06_a_condition_that_is_null_keeps_its_row(table: gl.TimeSeriesTable, where: Any, left: list[Any]) -> None:
    table.append(numbers(1, 2, None))
    table.delete(where)
    assert [v for _, _, v in told(table)] == left


def test_ups_06_replacing_a_row_keeps_the_null_beside_it(table: gl.TimeSeriesTable) -> None:
    table.append(numbers(1, 2, None))
    table.replace((T0 + DAY, T0 + 2 * DAY), [*days(1.1, v=3.0), *days(1.2, v=4.0)])
    assert [v for _, _, v in told(table)] == [1.0, 3.0, 4.0, None]


def test_ups_06_nan_is_the_largest_number_in_sql_and_none_in_arrow(table: gl.TimeSeriesTable) -> None:
    table.append(numbers(1, math.nan, None))
    table.delete(pc.field("v") >= 2)
    assert len(told(table)) == 3
    table.delete("v >= 2")
    assert [v for _, _, v in told(table)] == [1.0, None]


def test_ups_07_a_segment_that_loses_all_rows_has_no_successor(table: gl.TimeSeriesTable) -> None:
    table.append(numbers(1, 2))
    table.replace((T0, T0 + 2 * DAY), days(0.5, v=5.0))
    assert ([v for _, _, v in told(table)], len(table.segments())) == ([5.0], 1)
    report = table.delete("v > 0")
    assert (report.segments, report.removed_rows, report.removed_segments) == (0, 1, 1)
    assert (table.segments(), told(table), covered(table)) == ((), [], [])
    table.append(days(0.5))
    assert told(table) == [(0.5, "k0.5", 0.0)]
    check_sound(table)


def test_segments_without_a_match_stay_as_they_are(table: gl.TimeSeriesTable) -> None:
    for day in range(4):
        table.append(days(day, day + 0.5, v=float(day)))
    before = table.segments()
    report = table.delete("v = 2 AND k = 'k2.5'")
    assert (report.removed_segments, report.removed_rows, report.segments) == (1, 1, 1)
    assert [s for s in before if s in table.segments()] == [before[0], before[1], before[3]]
    again = table.delete("v = 2 AND k = 'k2.5'")
    assert (again.version, again.removed_rows) == (report.version, 0), "nothing matches, and nothing is committed"


def test_drop_before_reads_no_segment_that_falls_away(table: gl.TimeSeriesTable) -> None:
    for day in range(4):
        table.append(days(day, day + 0.5))
    for segment in table.segments()[:2]:
        open_store(table.url).delete(segment.path)
    report = table.drop_before(T0 + 2.25 * DAY)
    assert (report.removed_rows, report.removed_segments, report.segments) == (5, 3, 1)
    assert [day for day, _, _ in told(table)] == [2.5, 3.0, 3.5]
    assert covered(table) == [2.0, 3.0]
    assert table.history()[-1].operation == "drop_before"
    check_sound(table)


def test_a_whole_identity_goes_without_being_read() -> None:
    table = gl.create(f"memory://corrections-entity-{next(_counter)}", index="ts", bucket="1d", entity="k")
    table.append(days(0, 1, k="a"))
    table.append(days(0, 1, k="b"))
    open_store(table.url).delete(table.segments()[0].path)
    assert table.delete(entity={"k": "a"}).removed_rows == 2
    assert table.identities() == [("b",)]


def test_what_deletes_cannot_be(table: gl.TimeSeriesTable) -> None:
    table.append(days(0))
    with pytest.raises(InvalidOption, match="every row") as refusal:
        table.delete()
    assert 'where="true"' in refusal.value.fix
    with pytest.raises(UnknownColumn):
        table.delete("vv > 1")
    with pytest.raises(InvalidTime):
        table.delete(start=datetime(2024, 1, 1))  # what the test is about
    with pytest.raises(UnknownColumn):
        table.delete(entity={"k": 1})
    with pytest.raises(InvalidTime, match="time="):
        table.drop_before(7)
    assert table.delete("true").removed_rows == 1


# -- replacing ---------------------------------------------------------------------------------------------------------


def test_cov_11_a_range_is_replaced_by_unsorted_rows(table: gl.TimeSeriesTable) -> None:
    stamps = [datetime(2020, 12, 1, tzinfo=UTC), datetime(2021, 2, 1, tzinfo=UTC), datetime(2021, 2, 2, tzinfo=UTC)]
    new = [datetime(2021, 1, 1, tzinfo=UTC), datetime(2021, 3, 3, tzinfo=UTC), datetime(2021, 2, 2, tzinfo=UTC)]
    table.append([{"ts": ts, "k": "old", "seg": None, "v": 0.0} for ts in stamps])
    table.replace(
        (datetime(2021, 1, 1, tzinfo=UTC), datetime(2021, 3, 4, tzinfo=UTC)),
        [{"ts": ts, "k": "new", "seg": None, "v": 0.0} for ts in new],
    )
    rows = table.scan().to_arrow().to_pylist()
    assert [(row["ts"], row["k"]) for row in rows] == [(stamps[0], "old"), *((ts, "new") for ts in sorted(new))]
    check_sound(table)


def test_rows_outside_the_range_are_refused(table: gl.TimeSeriesTable) -> None:
    table.append(days(0, 1, 2))
    with pytest.raises(InvalidValue, match="row 1 lies outside") as refusal:
        table.replace((T0, T0 + DAY), [*days(0.5), *days(1.0), *days(0.1)])
    assert (refusal.value.row, refusal.value.column) == (1, "ts")
    with pytest.raises(InvalidOption, match="is no range"):
        table.replace(T0, days(0))  # type: ignore[arg-type]  # what the test is about
    assert len(told(table.refresh())) == 3


def test_replacing_within_an_entity_keeps_the_others() -> None:
    table = gl.create(f"memory://corrections-replace-{next(_counter)}", index="ts", bucket="1d", entity="k")
    table.append([*days(0, 1, k="a"), *days(0, 1, k="b")])
    with pytest.raises(InvalidValue):
        table.replace((T0, T0 + DAY), days(0.5, k="b"), entity={"k": "a"})
    report = table.replace((T0, T0 + DAY), days(0.5, k="a", v=1.0), entity={"k": "a"})
    assert sorted(told(table)) == [(0.0, "b", 0.0), (0.5, "a", 1.0), (1.0, "a", 0.0), (1.0, "b", 0.0)]
    assert (report.rows, report.removed_rows) == (1, 1)
    assert table.replace((None, None), [], entity={"k": "a"}).removed_rows == 2, "no rows delete"
    assert table.history()[-1].parameters == {"entity": {"k": ["a"]}}


def test_a_range_within_a_bucket_keeps_one_segment_a_bucket(table: gl.TimeSeriesTable) -> None:
    table.append(days(0.1, 0.9))
    table.replace((T0 + 0.4 * DAY, T0 + 0.6 * DAY), days(0.5))
    assert ([day for day, _, _ in told(table)], len(table.segments())) == ([0.1, 0.5, 0.9], 1)
    check_sound(table)


def test_new_data_supersedes_the_buckets_it_covers(table: gl.TimeSeriesTable) -> None:
    table.append(days(0.1, 0.2, 1, 2))
    report = table.append(days(0.5, 3, v=9.0), on_overlap="replace")
    assert told(table) == [(0.5, "k0.5", 9.0), (1.0, "k1", 0.0), (2.0, "k2", 0.0), (3.0, "k3", 9.0)]
    assert (report.rows, report.buckets, report.replaced_buckets, report.removed_rows, report.version) == (2, 2, 1, 2, 3)
    assert table.history()[-1].parameters == {"on_overlap": "replace"}
    check_sound(table)


def test_a_table_whose_policy_is_to_replace() -> None:
    table = gl.create(
        f"memory://corrections-policy-{next(_counter)}", index="ts", bucket="1d", properties={"on_overlap": "replace"}
    )
    table.append(days(0, 1))
    assert table.append(days(1, 2, v=1.0)).replaced_buckets == 1
    assert [v for _, _, v in told(table)] == [0.0, 1.0, 1.0]
    assert table.append([]).rows == 0


# -- every way in ------------------------------------------------------------------------------------------------------

WAYS: list[Callable[[gl.TimeSeriesTable, object], object]] = [
    lambda table, data: table.append(data),
    lambda table, data: table.append(data, on_overlap="replace"),
    lambda table, data: table.upsert(data),
    lambda table, data: table.upsert(data, key="k"),
    lambda table, data: table.replace((T0, None), data),
]


@pytest.mark.parametrize("way", range(len(WAYS)))
def test_cov_15_a_null_index_value_is_refused_on_every_way(table: gl.TimeSeriesTable, way: int) -> None:
    table.append(days(0))
    bad = pa.Table.from_pylist([*days(5), {"ts": None, "k": "x", "seg": None, "v": 1.0}], SCHEMA)
    stored = files(table)
    with pytest.raises(NullKey, match="the index column 'ts' is null in row 1") as refusal:
        WAYS[way](table, bad)
    assert (refusal.value.row, refusal.value.column) == (1, "ts")
    assert (gl.open(table.url).version, files(table)) == (2, stored)


@pytest.mark.parametrize("way", range(1, len(WAYS)))
def test_cov_15_a_null_identity_is_refused_on_every_way(way: int) -> None:
    table = gl.create(f"memory://corrections-null-{next(_counter)}", index="ts", bucket="1d", entity="k", schema=SCHEMA)
    with pytest.raises(NullKey, match="the entity column 'k' is null in row 0"):
        WAYS[way](table, pa.Table.from_pylist([{"ts": T0, "k": None, "seg": None, "v": 1.0}], SCHEMA))
    assert gl.open(table.url).version == 1


CHANGES: list[Callable[[gl.TimeSeriesTable, Any], Any]] = [
    lambda table, name: table.upsert(days(0, 7, v=1.0), operation_id=name),
    lambda table, name: table.delete("v = 0 AND k = 'k1'", operation_id=name),
    lambda table, name: table.delete("v = 77", operation_id=name),
    lambda table, name: table.replace((T0, T0 + DAY), days(0.5), operation_id=name),
    lambda table, name: table.drop_before(T0 + DAY, operation_id=name),
    lambda table, name: table.append(days(0, v=3.0), on_overlap="replace", operation_id=name),
]


@pytest.mark.parametrize("change", range(len(CHANGES)))
@pytest.mark.parametrize("name", [("app", 7), "job"])
def test_a_change_sent_again_changes_nothing(table: gl.TimeSeriesTable, change: int, name: Any) -> None:
    table.append(days(0, 1, 2))
    first = CHANGES[change](table, name)
    rows = told(table)
    again = CHANGES[change](gl.open(table.url), name)
    assert (first.already_applied, again.already_applied, again.version) == (False, True, first.version)
    counts = [field for field in first.__dataclass_fields__ if field != "already_applied"]
    assert [getattr(again, field) for field in counts] == [getattr(first, field) for field in counts]
    assert (told(table.refresh()), table.version) == (rows, 3)


def test_a_table_of_another_writer_asks_before_its_first_correction(
    table: gl.TimeSeriesTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise UpgradeNeeded("not ours", path="x")

    monkeypatch.setattr("gapless.tables.timeseries.handle.check_writable", refuse)
    acts: list[Callable[[], object]] = [
        lambda: table.upsert(days(0)),
        lambda: table.delete("true"),
        lambda: table.drop_before(T0),
    ]
    for act in acts:
        with pytest.raises(UpgradeNeeded):
            act()


# -- unique tables -----------------------------------------------------------------------------------------------------


@pytest.fixture
def unique() -> gl.TimeSeriesTable:
    place = f"memory://corrections-unique-{next(_counter)}"
    return gl.create(
        place, index="ts", bucket="1d", entity="k", schema=SCHEMA, properties={"unique": True, "on_overlap": "allow"}
    )


def test_a_unique_table_refuses_a_key_that_comes_twice(unique: gl.TimeSeriesTable) -> None:
    with pytest.raises(DuplicateKey, match="1 key found more than once in the input") as refusal:
        unique.append([*days(0.5, k="a"), *days(0.5, k="b"), *days(0.5, k="a")])
    assert refusal.value.keys == (("a", T0 + DAY / 2),)
    unique.append([*days(0.5, k="a"), *days(0.5, k="b")])
    with pytest.raises(DuplicateKey, match="in the table already"):
        unique.append([*days(0.6, k="a"), *days(0.5, k="b")])
    assert unique.append(days(0.6, k="a")).rows == 1, "the bucket may be covered: the key is new"
    assert unique.upsert(days(0.5, k="a", v=1.0)).updated_rows == 1
    with pytest.raises(DuplicateKey):
        unique.upsert(days(0.5, k="b", v=7.0, seg=3), key="seg")
    with pytest.raises(DuplicateKey):
        unique.replace((T0, T0 + DAY), days(0.1, k="a") + days(0.1, k="a"))


def test_a_table_becomes_unique_only_if_it_is(table: gl.TimeSeriesTable) -> None:
    table.append(days(0, 1, 1.5))
    table.append(days(1, v=2.0), on_overlap="allow")
    with pytest.raises(
        DuplicateKey, match=r"the key \(ts=2024-01-02 00:00:00\+00:00\) are in the table more than once|more than once"
    ):
        table.set_properties({"unique": True})
    table.upsert(days(1, v=3.0))
    version = table.set_properties({"unique": True, "codec": "snappy"})
    assert (table.version, table.properties.unique, table.properties.codec) == (version, True, "snappy")
    assert table.set_properties({"unique": True}) == version, "nothing differs"
    assert table.history()[-1].operation == "set_properties"
    table.set_properties({"codec": None, "unique": None})
    assert table.properties == gl.open(table.url).properties == gl.create(f"{table.url}-2", index="ts", bucket="1d").properties
    with pytest.raises(InvalidOption, match="codecs"):
        table.set_properties({"codecs": "zstd"})


@pytest.mark.parametrize("entity", [["day"], ["k", "day"]])
def test_tables_with_dates_as_entities_are_corrected_without_input_rows(entity: list[str]) -> None:
    place = f"memory://corrections-unit-{next(_counter)}"
    table = gl.create(place, index="ts", bucket="1d", entity=entity)
    table.append([row | {"day": row["ts"].date()} for row in days(0, 1, 2, 3, 4)])
    assert table.delete("v = 1").removed_rows == 0
    assert table.delete(entity={"day": T0.date()}).removed_rows == 1
    assert table.replace((T0 + DAY, T0 + 2 * DAY), []).removed_rows == 1
    assert table.drop_before(T0 + 3 * DAY).removed_rows == 1
    assert covered(table) == [3, 4]
    check_sound(table)
