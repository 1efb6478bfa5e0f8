"""Appends: what goes in, what is refused, and that a refusal leaves nothing."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import (
    AccessDenied,
    CorruptTable,
    InvalidOption,
    InvalidValue,
    NullKey,
    SchemaMismatch,
    StorageFull,
    StoreError,
    StoreUnavailable,
    UnsupportedType,
)
from gapless.files.sort import run as run_module
from gapless.files.write import staged_write
from gapless.tables.timeseries.write import group, stage
from support.faulty_store import objects, open_faulty

T0 = datetime(2024, 1, 1, tzinfo=UTC)
_counter = itertools.count()

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("sym", pa.string()), ("x", pa.float64())])


@pytest.fixture
def place() -> str:
    return f"memory://append-{next(_counter)}"


def make(place: str, **options: Any) -> gl.TimeSeriesTable:
    return gl.create(place, index="ts", entity=["sym"], bucket="1h", **options)


def hours(*which: float, sym: str = "A", x: float = 0.0) -> pa.Table:
    times = [T0 + timedelta(hours=h) for h in which]
    return pa.table({"ts": times, "sym": [sym] * len(times), "x": [x] * len(times)}, schema=SCHEMA)


def batches(*tables: pa.Table) -> Iterator[pa.RecordBatch]:
    for table in tables:
        yield from table.to_batches()


def tiny_runs(monkeypatch: pytest.MonkeyPatch, run_bytes: int = 100) -> None:
    """Let an append write a segment every few rows, without gathering a small one first."""
    monkeypatch.setattr(stage, "RUN_BYTES", run_bytes)
    monkeypatch.setattr(group, "SMALL_ROWS", 0)


def test_a_report_says_what_happened(place: str) -> None:
    table = make(place)
    report = table.append(pa.concat_tables([hours(0, 0.5, 1), hours(7, sym="B")]))
    assert report == gl.AppendReport(version=2, rows=4, segments=1, buckets=3)
    assert table.version == 2
    assert table.scan().to_arrow().column("sym").to_pylist() == ["A", "A", "A", "B"]


def test_rows_come_in_any_order_and_equal_keys_stay_in_theirs(place: str) -> None:
    table = make(place)
    mixed = pa.concat_tables(
        [hours(3, sym="B", x=1), hours(1, sym="A", x=2), hours(3, sym="B", x=3), hours(0, sym="B", x=4), hours(1, sym="A", x=5)]
    )
    table.append(mixed)
    assert [(r["sym"], r["x"]) for r in table.scan().to_arrow().to_pylist()] == [
        ("A", 2.0),
        ("A", 5.0),
        ("B", 4.0),
        ("B", 1.0),
        ("B", 3.0),
    ]


def test_runs_of_bounded_memory_become_segments_of_one_commit(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny_runs(monkeypatch)
    table = make(place)
    report = table.append(hours(*range(20, -1, -1)))
    assert report.segments > 3
    assert (report.rows, report.buckets, table.version) == (21, 21, 2)
    assert table.scan().to_arrow().column("ts").to_pylist() == [T0 + timedelta(hours=h) for h in range(21)]


def test_a_refused_overlap_names_identity_range_count_and_version(place: str) -> None:
    table = make(place)
    table.append(hours(0, 1))
    table.append(hours(5, 6, sym="B"))
    with pytest.raises(gl.CoverageOverlap) as refusal:
        table.append(pa.concat_tables([hours(4, 5, 6, 8, sym="B"), hours(1, sym="C")]))
    overlap = refusal.value
    assert (overlap.identity, overlap.buckets, overlap.identities, overlap.version) == (("B",), 2, 1, 3)
    assert (overlap.start, overlap.end) == (T0 + timedelta(hours=5), T0 + timedelta(hours=7))
    assert overlap.exit_code == 4
    assert "[2024-01-01T05:00:00Z, 2024-01-01T07:00:00Z) for sym='B': 2 buckets" in str(overlap)


@pytest.mark.parametrize("index_type", ["timestamp", "int64"])
def test_cov_07_overlap_error_shows_a_range_and_the_entity(place: str, index_type: str) -> None:
    times = index_type == "timestamp"
    table = gl.create(place, index="i", entity=["a", "b"], bucket="1h" if times else 10, index_type=index_type)
    value = datetime(1970, 1, 1, 0, 10, tzinfo=UTC) if times else -11
    rows = {"i": [value], "a": ["A"], "b": ["x"]}
    table.append(rows)
    with pytest.raises(gl.CoverageOverlap) as refusal:
        table.append(rows)
    span = "[1970-01-01T00:00:00Z, 1970-01-01T01:00:00Z)" if times else "[-20, -10)"
    assert f"{span} for a='A', b='x'" in str(refusal.value)


def test_the_first_of_several_covering_commits_is_named(place: str) -> None:
    table = make(place)
    table.append(hours(0, 9))
    table.append(hours(4))
    with pytest.raises(gl.CoverageOverlap) as refusal:
        table.append(hours(4, 9))
    assert (refusal.value.version, refusal.value.buckets) == (3, 2)


class _StreamError(Exception):
    """A source's own error."""


def _broken(error: BaseException) -> Callable[[], object]:
    def stream() -> Iterator[pa.RecordBatch]:
        yield from batches(hours(0, 1, 2), hours(3, 4, 5))
        raise error

    return stream


def _null_entity() -> object:
    late = pa.table({"ts": [T0 + timedelta(hours=9)] * 3, "sym": ["A", "A", None], "x": [0.0] * 3}, schema=SCHEMA)
    return batches(hours(*range(9)), late)


BAD: dict[str, tuple[Callable[[], object], type[BaseException]]] = {
    "overlap in the last run": (lambda: batches(hours(*range(1, 9)), hours(0, sym="Z")), gl.CoverageOverlap),
    "null entity in the last run": (_null_entity, NullKey),
    "the source raises": (_broken(_StreamError("down")), _StreamError),
    "the user interrupts": (_broken(KeyboardInterrupt()), KeyboardInterrupt),
    "the program ends": (_broken(SystemExit(3)), SystemExit),
}


@pytest.mark.parametrize("name", BAD)
def test_a_refused_append_leaves_nothing(name: str, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny_runs(monkeypatch)
    monkeypatch.setattr(staged_write, "INLINE_COVERAGE_BYTES", 0)
    make(place).append(hours(0, sym="Z"))
    table, store = open_faulty(place)
    before = objects(place)
    data, error = BAD[name]
    with pytest.raises(error):
        table.append(data())
    assert len([path for path in store.puts if path.startswith("data/")]) >= 1, "it failed after a segment was written"
    assert any(path.startswith("_coverage/") for path in store.puts)
    assert objects(place) == before
    assert (table.version, gl.open(place).version) == (2, 2)
    table.append(hours(30))
    assert table.version == 3, "the handle still works"


def test_an_error_of_the_source_is_the_very_same(place: str) -> None:
    error = _StreamError("down")
    with pytest.raises(_StreamError) as caught:
        make(place).append(_broken(error)())
    assert caught.value is error


@pytest.mark.parametrize("column", ["ts", "sym"])
@pytest.mark.parametrize("run_bytes", [100, 1 << 20])
def test_cov_15_a_null_key_is_refused_with_its_row(
    place: str, monkeypatch: pytest.MonkeyPatch, column: str, run_bytes: int
) -> None:
    tiny_runs(monkeypatch, run_bytes)
    table = make(place)
    rows: dict[str, list[Any]] = {"ts": [T0 + timedelta(hours=h) for h in range(12)], "sym": ["A"] * 12}
    rows[column] = [None if row == 10 else value for row, value in enumerate(rows[column])]
    data = pa.table(rows, schema=SCHEMA.remove(2))
    for given in (data, iter(data.to_batches(max_chunksize=4)), data.to_pandas(), data.to_pylist()):
        with pytest.raises(NullKey) as refusal:
            table.append(given)
        assert (refusal.value.column, refusal.value.row) == (column, 10)
    assert table.version == 1


def test_a_null_in_another_non_null_column_is_refused_with_its_row(place: str) -> None:
    table = make(place, schema=pa.schema([*list(SCHEMA)[:2], pa.field("x", pa.float64(), nullable=False)]))
    with pytest.raises(InvalidValue) as refusal:
        table.append(iter([*hours(0, 1).to_batches(), pa.record_batch([[T0], ["B"], [None]], schema=SCHEMA)]))
    assert (refusal.value.column, refusal.value.row) == ("x", 2)
    with pytest.raises(SchemaMismatch, match="x: missing"):
        table.append(hours(0).select(["ts", "sym"]))
    table.append(hours(0))


def test_a_schema_mismatch_lists_the_differences_and_no_more(place: str) -> None:
    table = make(place)
    table.append(hours(0))
    wrong = pa.table({"ts": [T0], "sym": ["A"], "x": ["1.5"], "y": [1]})
    with pytest.raises(SchemaMismatch) as refusal:
        table.append(wrong)
    assert [line.partition(":")[0] for line in refusal.value.differences] == ["x", "y"]
    with pytest.raises(SchemaMismatch, match="ts: missing"):
        table.append({"sym": ["A"]})


def test_type_20_columns_match_by_name_and_missing_ones_are_null(place: str) -> None:
    table = make(place)
    table.append(hours(0, x=1))
    table.append(hours(1, x=2).select(["x", "sym", "ts"]))
    table.append(hours(2).select(["sym", "ts"]))
    assert table.schema is not None
    assert table.schema.names == ["ts", "sym", "x"]
    assert table.scan().to_arrow().column("x").to_pylist() == [1.0, 2.0, None]


def test_type_10_a_wider_integer_is_refused_at_write_and_the_table_reads_on(place: str) -> None:
    table = make(place)
    table.append({"ts": [T0], "sym": ["A"], "v": pa.array([1], pa.int32()), "f": pa.array([1.5], pa.float32())})
    for column, wide in (
        ("v", pa.array([5], pa.int64())),
        ("v", pa.array([2**40], pa.int64())),
        ("f", pa.array([0.1], pa.float64())),
    ):
        with pytest.raises(SchemaMismatch, match=f"{column}: "):
            table.append({"ts": [T0 + timedelta(hours=1)], "sym": ["A"], column: wide})
    table.append({"ts": [T0 + timedelta(hours=1)], "sym": ["A"], "v": pa.array([-7], pa.int8())})
    assert table.scan().to_arrow().column("v").to_pylist() == [1, -7]


@pytest.mark.parametrize("new", [pa.array(["n/a"]), pa.array([7.8]), pa.array([True]), pa.array([T0]), pa.array(["25"])])
def test_type_11_no_silent_cast_from_append_to_append(place: str, new: pa.Array) -> None:
    table = make(place)
    table.append({"ts": [T0], "sym": ["A"], "v": [2**53 + 1]})
    with pytest.raises(SchemaMismatch, match="v: int64 in the table"):
        table.append({"ts": [T0 + timedelta(hours=1)], "sym": ["A"], "v": new})
    assert table.scan().to_arrow().column("v").to_pylist() == [2**53 + 1]


def test_type_12_mixed_signs_never_meet_in_a_float(place: str) -> None:
    table = make(place)
    table.append({"ts": [T0], "sym": ["A"], "v": pa.array([-1], pa.int8()), "w": pa.array([-1], pa.int64())})
    for column, other in (("v", pa.array([200], pa.uint8())), ("w", pa.array([2**64 - 1], pa.uint64()))):
        with pytest.raises(SchemaMismatch, match=f"{column}: "):
            table.append({"ts": [T0 + timedelta(hours=1)], "sym": ["A"], column: other})
    assert table.scan().to_arrow().select(["v", "w"]).to_pylist() == [{"v": -1, "w": -1}]


@pytest.mark.parametrize("values", [[1, 2], ["a", "b"], [{"k": 1}, {"k": None}]])
@pytest.mark.parametrize("nulls_first", [True, False])
def test_type_07_a_column_of_nulls_takes_the_type_of_the_first_real_value(
    place: str, values: list[Any], nulls_first: bool
) -> None:
    table = make(place)
    order = [[None], values, [None]] if nulls_first else [values, [None]]
    for hour, column in enumerate(order):
        table.append({"ts": [T0 + timedelta(hours=hour)] * len(column), "sym": ["A"] * len(column), "v": column})
    found = table.scan().to_arrow().column("v")
    assert found.type == pa.array(values).type
    assert found.to_pylist() == [value for column in order for value in column]
    assert gl.open(place).schema == table.schema


def test_type_22_decimals_widen_into_the_table_and_never_the_scale(place: str) -> None:
    from decimal import Decimal

    table = make(place)
    at = itertools.count()

    def append(type_: pa.DataType, value: Any) -> None:
        table.append({"ts": [T0 + timedelta(hours=next(at))], "sym": ["A"], "d": pa.array([value], type_)})

    append(pa.decimal128(12, 2), Decimal("9999999999.99"))
    append(pa.decimal128(10, 2), Decimal("1.25"))
    for type_, value in ((pa.decimal128(14, 4), Decimal("1.2345")), (pa.int64(), 1002)):
        with pytest.raises(SchemaMismatch, match="d: decimal128"):
            append(type_, value)
    assert table.scan(where="d = 1.25").to_arrow().column("d").to_pylist() == [Decimal("1.25")]
    assert table.scan().count() == 2


def test_type_06_names_of_list_children_do_not_matter(place: str) -> None:
    table = make(place)
    for hour, child in enumerate(("item", "element", "array")):
        inner = pa.list_(pa.field(child, pa.struct([("a", pa.int8())])))
        outer = pa.list_(pa.field(child, inner))
        table.append({"ts": [T0 + timedelta(hours=hour)], "sym": ["A"], "l": pa.array([[[{"a": hour}]]], outer)})
    assert table.scan().to_arrow().column("l").to_pylist() == [[[{"a": hour}]] for hour in range(3)]


def test_type_13_parts_that_old_segments_lack_are_null(place: str) -> None:
    """The schema comes from the log, so the order in which segments are read does not matter."""
    full = pa.schema(
        [
            *SCHEMA,
            ("s", pa.struct([("x", pa.int8()), ("y", pa.int8())])),
            ("l", pa.list_(pa.struct([("x", pa.int8()), ("y", pa.int8())]))),
        ]
    )
    table = make(place, schema=full)
    narrow = pa.struct([("x", pa.int8())])
    table.append(
        {
            "ts": [T0 + timedelta(hours=5)],
            "sym": ["A"],
            "s": pa.array([{"x": 1}], narrow),
            "l": pa.array([[{"x": 2}]], pa.list_(narrow)),
        }
    )
    table.append({"ts": [T0], "sym": ["A"], "s": pa.array([{"x": 3, "y": 4}], full.field("s").type)})
    table.append({"ts": [T0 + timedelta(hours=9)], "sym": ["A"]})
    found = table.scan().to_arrow()
    assert found.schema.field("s").type == full.field("s").type
    assert found.column("s").to_pylist() == [{"x": 3, "y": 4}, {"x": 1, "y": None}, None]
    assert found.column("l").to_pylist() == [None, [{"x": 2, "y": None}], None]
    assert table.scan(where="x IS NULL").count() == 3
    assert table.scan(where="s.y IS NULL").count() == 2


def test_lists_of_lists_and_unsupported_types(place: str) -> None:
    table = make(place)
    with pytest.raises(UnsupportedType) as refusal:
        table.append({"ts": [T0], "sym": ["A"], "v": pa.array([(1, 2, 3)], pa.month_day_nano_interval())})
    assert (refusal.value.column, objects(place)) == ("v", ["_timeseries_log/0000000001.json"])


def test_zero_rows_settle_the_schema_once(place: str) -> None:
    table = make(place)
    report = table.append(hours())
    assert (report.version, report.rows, report.segments, report.buckets) == (2, 0, 0, 0)
    assert table.append(hours()).version == 2, "nothing changed, so nothing is committed"
    assert table.schema is not None
    assert table.scan().to_arrow().schema == table.schema
    assert table.append([]).version == 2


def test_skip_leaves_covered_buckets_out_and_counts(place: str) -> None:
    table = make(place)
    table.append(pa.concat_tables([hours(0, 1, x=1), hours(0, sym="B", x=1)]))
    report = table.append(pa.concat_tables([hours(1, 1.5, 2, x=2), hours(0, 3, sym="B", x=2)]), on_overlap="skip")
    assert (report.rows, report.buckets, report.skipped_rows, report.skipped_buckets) == (2, 2, 3, 2)
    assert [row["x"] for row in table.scan(entity={"sym": "A"}).to_arrow().to_pylist()] == [1.0, 1.0, 2.0]
    assert [row["x"] for row in table.scan(entity={"sym": "B"}).to_arrow().to_pylist()] == [1.0, 2.0]
    again = table.append(hours(0, 1, 2), on_overlap="skip")
    assert (again.version, again.rows, again.segments, again.skipped_rows, again.skipped_buckets) == (3, 0, 0, 3, 3)
    assert table.version == 3


def test_skip_does_not_skip_rows_of_its_own_runs(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs of one append may share a bucket: what is covered is judged by the table alone."""
    tiny_runs(monkeypatch)
    table = make(place)
    report = table.append(hours(*[0] * 20), on_overlap="skip")
    assert (report.rows, report.skipped_rows) == (20, 0)
    assert report.segments > 1
    assert report.buckets == 1


def test_allow_holds_both(place: str) -> None:
    table = make(place)
    table.append(hours(0, x=1))
    report = table.append(hours(0, 1, x=2), on_overlap="allow")
    assert (report.rows, report.buckets, report.skipped_rows) == (2, 2, 0)
    assert table.scan().count() == 3
    assert table.coverage().covered == 2


@pytest.mark.parametrize(
    ("kept", "call", "rows"), [("skip", None, 1), ("allow", None, 2), ("skip", "allow", 2), ("allow", "skip", 1)]
)
def test_the_tables_policy_holds_unless_the_call_has_one(place: str, kept: str, call: Any, rows: int) -> None:
    make(place, properties={"on_overlap": kept})
    table = gl.open(place)
    table.append(hours(0))
    table.append(hours(0), on_overlap=call)
    assert table.scan().count() == rows
    with pytest.raises(gl.CoverageOverlap):
        table.append(hours(0), on_overlap="reject")


def test_policies_that_are_none(place: str) -> None:
    table = make(place)
    with pytest.raises(InvalidOption, match="rejct") as refusal:
        table.append(hours(0), on_overlap="rejct")  # type: ignore[arg-type]  # what the test is about
    assert "reject" in refusal.value.fix
    with pytest.raises(InvalidOption, match="unique"):
        make(f"{place}-unique", properties={"unique": "yes"})
    assert objects(place) == ["_timeseries_log/0000000001.json"]


@pytest.mark.parametrize("error", [StorageFull, AccessDenied, StoreUnavailable])
@pytest.mark.parametrize("folder", ["data/", "_coverage/"])
def test_a_store_that_fails_a_data_put_is_left_as_it_was(
    place: str, monkeypatch: pytest.MonkeyPatch, error: type[StoreError], folder: str
) -> None:
    tiny_runs(monkeypatch)
    monkeypatch.setattr(staged_write, "INLINE_COVERAGE_BYTES", 0)
    make(place).append(hours(0))
    table, store = open_faulty(place)
    before = objects(place)

    def fail(path: str) -> None:
        if path.startswith(folder) and sum(put.startswith(folder) for put in store.puts) == 3:
            raise error("no", path=path)

    store.before_put = fail
    with pytest.raises(error):
        table.append(hours(*range(1, 20)))
    assert objects(place) == before
    store.before_put = lambda _path: None
    assert table.append(hours(*range(1, 20))).rows == 19


@pytest.mark.parametrize("error", [StorageFull, AccessDenied])
def test_a_commit_put_that_fails_whole_leaves_nothing(place: str, error: type[StoreError]) -> None:
    make(place)
    table, store = open_faulty(place)

    def fail(path: str) -> None:
        if path.endswith(".json"):
            raise error("no", path=path)

    store.before_put = fail
    with pytest.raises(error):
        table.append(hours(0))
    assert objects(place) == ["_timeseries_log/0000000001.json"]


def test_deletes_that_fail_do_not_hide_the_refusal(place: str) -> None:
    make(place)
    table, store = open_faulty(place)

    def fail(path: str) -> None:
        raise StoreUnavailable("no", path=path)

    store.before_delete = fail
    with pytest.raises(_StreamError):
        table.append(_broken(_StreamError())())


def test_a_huge_batch_is_cut(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    sort_run = run_module.sort_run

    def spy(table: pa.Table, *rest: Any) -> Any:
        sizes.append(table.nbytes)
        return sort_run(table, *rest)

    monkeypatch.setattr("gapless.files.sort.run.sort_run", spy)
    tiny_runs(monkeypatch, 10_000)
    make(place).append(hours(*range(5_000)))
    assert len(sizes) > 5
    assert max(sizes) < 2 * 10_000


def test_a_few_huge_rows_are_not_gathered(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "SMALL_BYTES", 1_000)
    monkeypatch.setattr(stage, "RUN_BYTES", 1_000)
    table = make(place)
    pulled: list[int] = []

    def stream() -> Iterator[pa.RecordBatch]:
        for number in range(5):
            pulled.append(len(objects(place)))
            yield pa.record_batch({"ts": [T0 + timedelta(hours=number)], "sym": ["A"], "b": [b"x" * 2_000]})

    assert table.append(stream()).segments == 5
    assert pulled[-1] > pulled[0], "segments are written while the source is still read"


def test_cov_10_a_late_batch_fills_the_gap_in_order(place: str) -> None:
    table = gl.create(place, index="ts", bucket="1d")
    for day in (1, 3, 2):
        table.append({"ts": [datetime(2024, 1, day, 12)], "x": [day]})
    assert table.scan().to_arrow().column("x").to_pylist() == [1, 2, 3]
    assert table.scan("2024-01-02", "2024-01-03").to_arrow().column("x").to_pylist() == [2]
    assert table.coverage().gaps() == []


def test_cov_14_times_before_1970(place: str) -> None:
    table = gl.create(place, index="ts", bucket="1h")
    seconds = [-1, -3600, -3601, -(2**40), 0, -7200]
    table.append({"ts": pa.array(seconds, pa.timestamp("s"))})
    assert table.scan().to_arrow().column("ts").cast(pa.int64()).to_pylist() == sorted(seconds)
    assert table.coverage(datetime(1969, 12, 31, 22), datetime(1970, 1, 1, 1)).gaps() == []
    with pytest.raises(gl.CoverageOverlap, match=re.escape("[1969-12-31T22:00:00, 1969-12-31T23:00:00)")):
        table.append({"ts": pa.array([-3602], pa.timestamp("s"))})


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata", "America/New_York"])
def test_cov_02_buckets_do_not_depend_on_the_zone_of_the_process(
    place: str, monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    import time

    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        table = gl.create(place, index="ts", bucket="1d")
        table.append({"ts": [datetime(2024, 1, 1, 20, tzinfo=UTC)]})
        (bucket,) = table.coverage().buckets()
        assert bucket.start == datetime(2024, 1, 1, tzinfo=UTC)
        with pytest.raises(gl.CoverageOverlap):
            table.append({"ts": pa.array([datetime(2024, 1, 1, 1, tzinfo=UTC)], pa.timestamp("us", "Asia/Kolkata"))})
    finally:
        monkeypatch.undo()
        time.tzset()


def test_cov_20_one_instant_in_many_zones_is_one_time(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        table = gl.create(place, index="ts", bucket="1h")
        instants = pa.array([T0])
        table.append({"ts": instants.cast(pa.timestamp("us", "UTC"))})
        for type_ in (pa.timestamp("us", "+00:00"), pa.timestamp("us", "Europe/Paris"), pa.timestamp("ns", "UTC")):
            with pytest.raises(gl.CoverageOverlap):
                table.append({"ts": instants.cast(type_)})
            table.append({"ts": instants.cast(type_)}, on_overlap="allow")
        found = table.scan().to_arrow().column("ts")
        assert found.type == pa.timestamp("us", "UTC")
        assert found.to_pylist() == [T0] * 4
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("count", [1440089182, 1682049219172428000, 1463412366717])
def test_cov_16_an_integer_needs_its_unit_declared(place: str, count: int) -> None:
    table = gl.create(place, index="ts", bucket="1h")
    with pytest.raises(SchemaMismatch, match="An integer has no unit of time"):
        table.append({"ts": [count]})
    assert objects(place) == ["_timeseries_log/0000000001.json"]


def test_cov_18_the_ends_of_the_ns_range_have_whole_buckets(place: str) -> None:
    table = gl.create(place, index="ts", bucket="1d")
    table.append({"ts": pa.array([-(2**63), 2**63 - 1], pa.timestamp("ns"))})
    low, high = table.coverage().gaps()[0].start, table.coverage().gaps()[0].end
    assert str(low).startswith("1677-09-22")
    assert str(high).startswith("2262-04-11")
    assert table.scan("2262-01-01").count() == 1
    assert table.scan(end="1700-01-01").count() == 1
    with pytest.raises(gl.CoverageOverlap, match=r"\[2262-04-11T00:00:00, 2262-04-12T00:00:00\)"):
        table.append({"ts": pa.array([2**63 - 2], pa.timestamp("ns"))})


def test_corrupt_coverage_refuses_an_append_and_skip(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged_write, "INLINE_COVERAGE_BYTES", 0)
    make(place).append(hours(0))
    table, store = open_faulty(place)
    (sidecar,) = [path for path in objects(place) if path.startswith("_coverage/")]
    store.inner.delete(sidecar)
    for policy in ("reject", "skip"):
        with pytest.raises(CorruptTable) as refusal:
            table.append(hours(0), on_overlap=policy)
        assert refusal.value.path == sidecar
    assert table.append(hours(90)).rows == 1, "what cannot meet the lost coverage is not held up by it"


def test_append_file_is_one_commit_or_nothing(place: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("ts,sym,x\n2024-01-01T00:00:00Z,A,1\n")
    (tmp_path / "b.csv").write_text("ts,sym,x\n2024-01-01T01:00:00Z,A,2\n2024-01-01T02:00:00Z,,2\n")
    table = make(place)
    with pytest.raises(NullKey) as refusal:
        table.append_file(tmp_path)
    assert refusal.value.row == 1
    assert "b.csv" in str(refusal.value)
    assert objects(place) == ["_timeseries_log/0000000001.json"]
    (tmp_path / "b.csv").write_text("ts,sym,x\n2024-01-01T01:00:00Z,A,2\n")
    assert table.append_file(tmp_path / "*.csv").rows == 2
    assert table.version == 2
