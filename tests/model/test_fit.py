import math
import random
import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gapless.errors import AmbiguousTime, CorruptTable, GaplessError, InvalidValue, NullKey, SchemaMismatch
from gapless.model import fit as fit_module
from gapless.model import schema as schema_module
from gapless.model.fit import fit, to_declared
from gapless.model.index import IndexSpec, parse_bucket
from gapless.model.schema import adopt_schema, reconcile, stored_as_given, stored_schema

US = pa.timestamp("us", "UTC")
SERIES = IndexSpec(column="k", type="int64", bucket=parse_bucket(1, "int64"), entity=("id",))
PLAIN = IndexSpec(column="k", type="int64", bucket=parse_bucket(1, "int64"))
NEW_YORK = IndexSpec(
    column="ts", type="timestamp", bucket=parse_bucket("1d", "timestamp", "America/New_York"), timezone="America/New_York"
)


def rows(values: pa.Array, index: pa.Array | None = None) -> pa.RecordBatch:
    return pa.record_batch({"k": pa.array(range(len(values))) if index is None else index, "v": values})


def fitted(values: pa.Array, declared: pa.DataType, *, nullable: bool = True, first_row: int = 0) -> pa.Array:
    """The stored array of a column that the table declares as `declared`."""
    schema = adopt_schema(pa.schema([("k", pa.int64()), pa.field("v", declared, nullable=nullable)]), PLAIN)
    batch = rows(values)
    assert reconcile(schema, batch.schema, PLAIN).schema is schema
    found = fit(batch, schema, PLAIN, first_row)
    found.validate(full=True)
    assert found.schema.equals(stored_schema(schema), check_metadata=True)
    return found.column("v")


def refused(values: pa.Array, declared: pa.DataType, **options: bool) -> InvalidValue:
    with pytest.raises(InvalidValue) as caught:
        fitted(values, declared, first_row=100, **options)
    return caught.value


def through_parquet(table: pa.Table, **options: object) -> pa.Table:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **options)
    return pq.read_table(pa.BufferReader(sink.getvalue()), coerce_int96_timestamp_unit="us")


def wall(*texts: str, unit: str = "us") -> pa.RecordBatch:
    return pa.record_batch({"ts": pa.array([datetime.fromisoformat(text) for text in texts], pa.timestamp(unit))})


def local(batch: pa.RecordBatch, unit: str = "us") -> pa.Array:
    schema = adopt_schema(pa.schema([("ts", pa.timestamp(unit))]), NEW_YORK)
    return fit(batch, schema, NEW_YORK, 10).column("ts")


def test_cov_15_a_null_in_the_index_or_an_entity_column_names_its_row() -> None:
    schema = adopt_schema(pa.schema([("k", pa.int64()), ("id", pa.string())]), SERIES)
    cases = {"k": ([1, 2, None], ["a", "b", "c"]), "id": ([1, 2, 3], ["a", "b", None])}
    for column, (k, ids) in cases.items():
        for id_array in (pa.array(ids), pa.array(ids).dictionary_encode()):
            with pytest.raises(NullKey) as caught:
                fit(pa.record_batch({"k": pa.array(k), "id": id_array}), schema, SERIES, 1_000)
            assert (caught.value.column, caught.value.row) == (column, 1_002)


def test_cov_15_a_missing_or_nullable_key_is_no_way_around() -> None:
    schema = pa.schema([pa.field("k", pa.int64()), pa.field("id", pa.string())])  # as another writer declared it
    with pytest.raises(NullKey):
        fit(pa.record_batch({"k": pa.array([1, None]), "id": ["a", "b"]}), schema, SERIES, 0)
    with pytest.raises(NullKey):
        fit(pa.record_batch({"k": [1], "id": pa.nulls(1)}), schema, SERIES, 0)


def test_a_null_in_a_non_null_column_names_its_row() -> None:
    error = refused(pa.array([1, None], pa.int8()), pa.int8(), nullable=False)
    assert (error.column, error.row) == ("v", 101)
    nested = pa.struct([pa.field("a", pa.list_(pa.field("item", pa.int8(), nullable=False)))])
    error = refused(pa.array([None, {"a": [1]}, {"a": [1, None]}], pa.struct([("a", pa.list_(pa.int8()))])), nested)
    assert error.row == 102


def test_columns_come_in_table_order_and_missing_ones_as_null() -> None:
    schema = adopt_schema(pa.schema([("k", pa.int64()), ("a", pa.int8()), ("b", pa.string()), ("c", pa.null())]), PLAIN)
    found = fit(pa.record_batch({"b": pa.array(["x"]), "k": pa.array([1])}), schema, PLAIN, 0)
    assert found.to_pylist() == [{"k": 1, "a": None, "b": "x"}]
    assert found.schema.names == ["k", "a", "b"]


def test_type_20_append_matches_by_name() -> None:
    schema = adopt_schema(pa.schema([("k", pa.int64()), ("a", pa.int8()), ("b", pa.int8())]), PLAIN)
    batch = pa.record_batch({"b": pa.array([2], pa.int8()), "a": pa.array([1], pa.int8()), "k": [0]})
    assert fit(batch, schema, PLAIN, 0).to_pylist() == [{"k": 0, "a": 1, "b": 2}]


@pytest.mark.parametrize("width", [0, 1])
def test_zero_rows_keep_every_type(width: int) -> None:
    types = [pa.int8(), pa.list_(pa.int8(), 2), pa.map_(pa.string(), pa.int8()), pa.struct([("a", pa.large_list(pa.date64()))])]
    for type_ in types:
        assert len(fitted(pa.nulls(width, type_), type_)) == width


@pytest.mark.parametrize("kind", [pa.timestamp, pa.duration])
def test_coarser_units_must_divide_and_finer_ones_must_fit(kind: type) -> None:
    assert fitted(pa.array([1_000, None], kind("ns")), kind("us")).cast(pa.int64()).to_pylist() == [1, None]
    assert refused(pa.array([1_000, 1_001], kind("ns")), kind("us")).row == 101
    assert refused(pa.array([1_000, 1_001], kind("us")), kind("ms")).row == 101
    assert refused(pa.array([0, 2**62], kind("s")), kind("ns")).row == 101
    assert refused(pa.array([0, -(2**62)], kind("s")), kind("ns")).row == 101


def test_the_declared_unit_counts_and_not_the_stored_one() -> None:
    assert refused(pa.array([1_000, 1_500], pa.timestamp("us")), pa.timestamp("ms")).value == "1970-01-01T00:00:00.001500"
    assert refused(pa.array([2**62], pa.timestamp("s")), pa.timestamp("s")).row == 100  # µs do not reach that far


def test_times_and_dates_of_day_parts_are_never_cut() -> None:
    assert refused(pa.array([1_000, 1_001], pa.time64("ns")), pa.time64("us")).row == 101
    assert refused(pa.array([1_000, 1_001], pa.time32("ms")), pa.time32("s")).row == 101
    assert refused(pa.array([0, 3_000_000], pa.int32()).view(pa.time32("s")), pa.time32("ms")).row == 101  # Arrow's cast wraps
    assert refused(pa.array([86_400_000, 1], pa.int64()).view(pa.date64()), pa.date32()).row == 101
    assert refused(pa.array([86_400_000, 1], pa.int64()).view(pa.date64()), pa.date64()).row == 101


def test_values_that_python_cannot_hold_are_named_as_arrow_counts_them() -> None:
    assert refused(pa.array([2**62], pa.duration("s")), pa.duration("ns")).value == f"{2**62} s"
    assert refused(pa.array([2**62], pa.int64()).view(pa.date64()), pa.date32()).value == f"{2**62} as date64[ms]"
    assert refused(pa.array([1_001], pa.time64("ns")), pa.time64("us")).value == "1001 ns"


def test_the_row_of_a_bad_value_is_found_at_any_depth() -> None:
    deep = pa.list_(pa.struct([("t", pa.map_(pa.string(), pa.timestamp("ns")))]))
    good, bad = {"t": [("a", 1_000)]}, {"t": [("a", 1_000), ("b", 1_001)]}
    values = pa.array([[good, good], None, [], [good, None, {"t": None}, bad], [bad]], deep)
    declared = pa.list_(pa.struct([("t", pa.map_(pa.string(), pa.timestamp("us")))]))
    error = refused(values.slice(1), declared)
    assert (error.row, error.value) == (102, "1970-01-01T00:00:00.000001001")


def test_values_behind_nulls_are_not_looked_at() -> None:
    hidden = pa.StructArray.from_arrays([pa.array([1_001], pa.timestamp("ns"))], ["a"], mask=pa.array([True]))
    assert fitted(hidden, pa.struct([("a", pa.timestamp("us"))])).to_pylist() == [None]
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), pa.array([1_001, 1_000], pa.timestamp("ns")),
                                     mask=pa.array([True, False]))  # fmt: skip
    assert fitted(lists, pa.list_(pa.timestamp("us"))).cast(pa.list_(pa.int64())).to_pylist() == [None, [1]]


def test_nan_payloads_negative_zero_and_infinities_are_kept_bit_by_bit() -> None:
    payload = struct.unpack("<d", b"\x01\x00\x00\x00\x00\x00\xf4\x7f")[0]
    values = pa.array([payload, -0.0, math.inf, -math.inf, None])
    assert fitted(values, pa.float64()).buffers()[1].to_pybytes() == values.buffers()[1].to_pybytes()
    wider = fitted(pa.array([-0.0, math.nan], pa.float32()), pa.float64()).to_pylist()
    assert (math.copysign(1, wider[0]), math.isnan(wider[1])) == (-1, True)


def test_type_01_dates_far_from_1970_are_exact_and_refused_as_nanoseconds() -> None:
    far = [datetime(1, 1, 1), datetime(1677, 1, 1), datetime(2400, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999)]
    assert fitted(pa.array(far, pa.timestamp("us")), pa.timestamp("us")).to_pylist() == far
    assert refused(pa.array(far, pa.timestamp("us")), pa.timestamp("ns")).value == "0001-01-01T00:00:00"
    days = [date(1, 1, 1), date(1677, 1, 1), date(2400, 1, 1), date(9999, 12, 31)]
    assert fitted(pa.array(days, pa.date32()), pa.date32()).to_pylist() == days


def test_type_02_int96_read_as_microseconds_fits_and_our_files_have_none() -> None:
    table = pa.table({"k": [1], "v": pa.array([datetime(1000, 1, 1)], pa.timestamp("us"))})
    legacy = through_parquet(table, use_deprecated_int96_timestamps=True)
    assert to_declared(legacy, table.schema).equals(table)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_batches([fit(table.to_batches()[0], table.schema, PLAIN, 0)]), sink)
    assert pq.ParquetFile(pa.BufferReader(sink.getvalue())).schema.column(1).physical_type == "INT64"


def test_type_06_lists_with_other_child_names_fit_and_come_back_under_the_first() -> None:
    declared = pa.list_(pa.field("item", pa.list_(pa.field("item", pa.struct([("x", pa.int8())])))))
    other = pa.list_(pa.field("element", pa.list_(pa.field("element", pa.struct([("x", pa.int8())])))))
    values: list[object] = [[[{"x": 1}]], None, [None, []]]
    stored = fitted(pa.array(values, other), declared)
    assert (stored.type.value_field.name, stored.to_pylist()) == ("item", values)
    table = through_parquet(pa.table({"v": pa.array(values, other)}))
    back = to_declared(table, pa.schema([("v", declared)]))
    assert back.column("v").type.equals(declared, check_metadata=True)
    assert back.to_pylist() == table.to_pylist()


@pytest.mark.parametrize(
    ("type_", "value"), [(pa.int64(), 3), (pa.string(), ""), (pa.struct([("x", pa.int8())]), {"x": 1})], ids=str
)
def test_type_07_nulls_stay_nulls_before_and_after_the_type_is_known(type_: pa.DataType, value: object) -> None:
    schema = adopt_schema(pa.schema([("k", pa.int64()), ("v", pa.null())]), PLAIN)
    first = fit(rows(pa.nulls(2)), schema, PLAIN, 0)
    assert first.schema.names == ["k"]
    schema = reconcile(schema, rows(pa.array([value], type_)).schema, PLAIN).schema
    second = fit(rows(pa.array([value], type_)), schema, PLAIN, 2)
    third = fit(rows(pa.nulls(1)), schema, PLAIN, 3)
    back = [to_declared(part, schema) for part in (first, second, third)]
    assert pa.Table.from_batches(back).column("v").to_pylist() == [None, None, value, None]


def test_type_08_five_thousand_nulls_then_a_name() -> None:
    schema = adopt_schema(pa.schema([("k", pa.int64()), ("name", pa.null())]), PLAIN)
    first = fit(pa.record_batch({"k": range(5_000), "name": pa.nulls(5_000)}), schema, PLAIN, 0)
    late = pa.record_batch({"k": [5_000], "name": ["N"]})
    schema = reconcile(schema, late.schema, PLAIN).schema
    table = pa.Table.from_batches([to_declared(part, schema) for part in (first, fit(late, schema, PLAIN, 5_000))])
    assert (table.num_rows, table.schema.field("name").type, table.column("name").null_count) == (5_001, pa.string(), 5_000)


def test_type_10_and_11_types_that_do_not_fit_are_refused_by_fit_too() -> None:
    schema = adopt_schema(pa.schema([("k", pa.int64()), ("v", pa.int64())]), PLAIN)
    for values in (pa.array([7.8]), pa.array(["25"]), pa.array([date(2020, 1, 1)]), pa.array([True])):
        with pytest.raises(SchemaMismatch):
            fit(rows(values), schema, PLAIN, 0)
    assert fitted(pa.array([2**53 + 1]), pa.int64()).to_pylist() == [2**53 + 1]


def test_type_12_small_unsigned_values_widen_exactly() -> None:
    assert fitted(pa.array([200], pa.uint8()), pa.int16()).to_pylist() == [200]
    assert fitted(pa.array([2**32 - 1], pa.uint32()), pa.float64()).to_pylist() == [2**32 - 1]


def test_type_13_missing_parts_are_null_at_each_level() -> None:
    item = pa.struct([("x", pa.int8()), ("y", pa.string())])
    schema = pa.schema([("a", pa.int8()), ("b", pa.string()), ("s", item), ("l", pa.list_(item)), ("none", pa.int64())])
    small = pa.struct([("x", pa.int8())])
    old = pa.table(
        {"a": pa.array([1], pa.int8()), "s": pa.array([{"x": 1}], small), "l": pa.array([[{"x": 2}, None]], pa.list_(small))}
    )
    new = pa.table(
        {"b": ["B"], "l": pa.array([[{"y": "Y", "x": 3}]], pa.list_(pa.struct([("y", pa.string()), ("x", pa.int8())])))}
    )
    for order in ((old, new), (new, old)):
        back = pa.concat_tables([to_declared(through_parquet(part), schema) for part in order])
        by_a = {row["a"]: row for row in back.to_pylist()}
        assert by_a[1] == {"a": 1, "b": None, "s": {"x": 1, "y": None}, "l": [{"x": 2, "y": None}, None], "none": None}
        assert by_a[None] == {"a": None, "b": "B", "s": None, "l": [{"x": 3, "y": "Y"}], "none": None}


@pytest.mark.parametrize("name", ["TEST:A1.RAW-1", "$data", "my/col", "#event", "a b", "päivä", "x`y", 'a"b', "1st"])
def test_type_19_names_survive_the_file(name: str) -> None:
    schema = adopt_schema(pa.schema([("k", pa.int64()), (name, pa.int8())]), PLAIN)
    batch = fit(pa.record_batch({"k": [1], name: pa.array([7], pa.int8())}), schema, PLAIN, 0)
    assert to_declared(through_parquet(pa.Table.from_batches([batch])), schema).to_pylist() == [{"k": 1, name: 7}]


def test_type_21_old_dates_keep_their_proleptic_day_number() -> None:
    days = [date(1001, 1, 1), date(1582, 10, 4), date(1582, 10, 15), date(1000, 2, 28)]
    for values in (pa.array(days), pa.array(days).dictionary_encode()):
        stored = fitted(values, pa.date32())
        assert stored.cast(pa.int32())[0].as_py() == -353_920
        assert stored.to_pylist() == days
    at = [datetime(d.year, d.month, d.day) for d in days]
    assert fitted(pa.array(at, pa.timestamp("us")), pa.timestamp("s")).to_pylist() == at


def test_type_22_a_wider_decimal_keeps_the_value() -> None:
    values = [Decimal("12345678.90"), None, Decimal("-0.01")]
    assert fitted(pa.array(values, pa.decimal128(10, 2)), pa.decimal128(12, 2)).to_pylist() == values
    assert fitted(pa.array(values, pa.decimal64(10, 2)), pa.decimal256(50, 4)).type == pa.decimal256(50, 4)


def test_cov_20_any_zone_and_unit_is_stored_as_the_same_utc_instant() -> None:
    schema = adopt_schema(
        pa.schema([("ts", US)]), IndexSpec(column="ts", type="timestamp", bucket=parse_bucket("1s", "timestamp"))
    )
    at = datetime(2024, 7, 1, 12, tzinfo=UTC)
    index = IndexSpec(column="ts", type="timestamp", bucket=parse_bucket("1s", "timestamp"))
    for type_ in (US, pa.timestamp("us", "+00:00"), pa.timestamp("us", "Europe/Paris"), pa.timestamp("ns", "UTC")):
        stored = fit(pa.record_batch({"ts": pa.array([at], type_)}), schema, index, 0).column("ts")
        assert stored.equals(pa.array([at], US))


def test_a_naive_index_is_wall_time_of_the_table_and_stored_as_utc() -> None:
    found = local(wall("2024-01-15T12:00", "2024-07-15T12:00", "0001-01-02T00:00", "2100-07-01T00:00"))
    zone = ZoneInfo("America/New_York")
    expected = [datetime(2024, 1, 15, 12), datetime(2024, 7, 15, 12), datetime(1, 1, 2), datetime(2100, 7, 1)]
    assert found.to_pylist() == [at.replace(tzinfo=zone).astimezone(UTC) for at in expected]
    encoded = pa.record_batch({"ts": wall("2024-01-15T12:00").column("ts").dictionary_encode()})
    assert local(encoded).to_pylist() == [datetime(2024, 1, 15, 17, tzinfo=UTC)]


@pytest.mark.parametrize(
    ("text", "verb"), [("2024-03-10T02:30", "skips"), ("2024-11-03T01:30", "repeats"), ("2024-03-10T02:00", "skips")]
)
def test_a_wall_time_that_a_clock_change_skips_or_repeats_is_refused(text: str, verb: str) -> None:
    with pytest.raises(AmbiguousTime, match=f"America/New_York {verb}") as caught:
        local(wall("2024-01-01T00:00", text), "s")
    assert (caught.value.row, caught.value.timezone) == (11, "America/New_York")
    assert str(caught.value.value).startswith(text)


@pytest.mark.parametrize("text", ["2024-03-10T01:59:59", "2024-03-10T03:00", "2024-11-03T00:59:59", "2024-11-03T02:00"])
def test_wall_times_around_a_clock_change_are_single_instants(text: str) -> None:
    at = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo("America/New_York"))
    assert local(wall(text)).to_pylist() == [at.astimezone(UTC)]


def test_a_wall_time_without_an_instant_in_its_unit_is_refused() -> None:
    with pytest.raises(InvalidValue) as caught:
        local(pa.record_batch({"ts": pa.array([0, 2**40], pa.timestamp("s"))}), "s")
    assert caught.value.row == 11
    with pytest.raises(InvalidValue):
        local(pa.record_batch({"ts": pa.array([2**63 - 1], pa.timestamp("ns"))}), "ns")


def test_a_null_wall_time_is_a_null_key() -> None:
    with pytest.raises(NullKey):
        local(pa.record_batch({"ts": pa.array([0, None], pa.timestamp("us"))}))


def test_restore_takes_only_the_asked_columns_in_their_order() -> None:
    table = pa.table({"a": [1, 2], "b": ["x", "y"], "c": [1.0, 2.0]})
    assert to_declared(table, pa.schema([("c", pa.float64()), ("a", pa.int64())])).column_names == ["c", "a"]
    assert to_declared(table, pa.schema([])).num_rows == 2
    assert to_declared(table.to_batches()[0], pa.schema([])).num_rows == 2
    assert to_declared(table.select([]), pa.schema([("z", pa.int8())])).to_pylist() == [{"z": None}, {"z": None}]


@pytest.mark.parametrize(
    ("in_file", "declared"),
    [
        (pa.array([1, None], pa.int16()), pa.int32()),
        (pa.array([1, None], pa.int32()), pa.int8()),
        (pa.array([1, None], pa.float32()), pa.float64()),
        (pa.array(["a", None]).dictionary_encode(), pa.string()),
        (pa.array(["a", None], pa.large_string()), pa.string()),
        (pa.array([1, None], pa.timestamp("ms", "UTC")), pa.timestamp("us", "UTC")),
        (pa.array([1_000, None], pa.timestamp("us")), pa.timestamp("ms")),
        (pa.array([1_000_000, None], pa.timestamp("us", "UTC")), pa.timestamp("s", "Asia/Tokyo")),
        (pa.array([[1, 2], None], pa.list_(pa.int8())), pa.list_(pa.int8(), 2)),
        (pa.array([[1], None], pa.list_(pa.int32())), pa.large_list(pa.int8())),
        (pa.array([Decimal("1.25"), None], pa.decimal128(5, 2)), pa.decimal32(5, 2)),
    ],
    ids=str,
)
def test_files_of_other_writers_and_older_types_come_back_as_declared(in_file: pa.Array, declared: pa.DataType) -> None:
    table = pa.table({"v": pa.chunked_array([in_file, in_file.slice(1)])})
    back = to_declared(table, pa.schema([("v", declared)])).column("v")
    back.validate(full=True)
    assert back.type.equals(declared, check_metadata=True)
    assert _as_seconds(back) == _as_seconds(table.column("v"))


def _as_seconds(column: pa.ChunkedArray) -> list[object]:
    return [value.timestamp() if isinstance(value, datetime) else value for value in column.to_pylist()]


@pytest.mark.parametrize(
    ("in_file", "declared"),
    [
        (pa.array([300]), pa.int8()),
        (pa.array([1_001], pa.timestamp("us")), pa.timestamp("ms")),
        (pa.array([1], pa.timestamp("us")), US),
        (pa.array(["1"]), pa.int64()),
        (pa.array([1.5]), pa.int64()),
        (pa.array([[1]]), pa.list_(pa.int64(), 2)),
    ],
    ids=str,
)
def test_a_file_that_does_not_hold_the_declared_values_is_corrupt(in_file: pa.Array, declared: pa.DataType) -> None:
    with pytest.raises(CorruptTable, match=r"data/x\.parquet") as caught:
        to_declared(pa.table({"v": in_file}), pa.schema([("v", declared)]), path="data/x.parquet")
    assert caught.value.path == "data/x.parquet"


def test_a_missing_column_that_is_never_null_is_corrupt() -> None:
    with pytest.raises(CorruptTable):
        to_declared(pa.table({"a": [1]}), pa.schema([pa.field("b", pa.int64(), nullable=False)]))


def test_a_thousand_columns_fit_and_restore() -> None:
    names = [f"c{at}" for at in range(1_000)]
    schema = adopt_schema(pa.schema([("k", pa.int64()), *((name, pa.float32()) for name in names)]), PLAIN)
    batch = pa.record_batch({"k": [1], **{name: pa.array([0.5], pa.float16()) for name in reversed(names)}})
    found = to_declared(fit(batch, schema, PLAIN, 0), schema)
    assert found.schema.names == ["k", *names]
    assert found.column(1_000).to_pylist() == [0.5]


@pytest.mark.parametrize("seed", range(40))
def test_rows_that_are_stored_as_they_come_are_fitted_as_all_others_are(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The short way says and gives what the long one does, with nulls, other types, another order, renamed and missing columns too."""
    dice = random.Random(seed)
    kinds = [
        pa.int64(), pa.float64(), pa.string(), pa.large_string(), pa.int8(), pa.bool_(), US, pa.timestamp("ms"), pa.date32(), pa.date64(),
        pa.time32("s"), pa.decimal128(9, 2), pa.decimal32(5, 1), pa.binary(), pa.list_(pa.int64()), pa.struct([("a", pa.int8())]),
    ]  # fmt: skip
    columns = [pa.field(f"c{number}", dice.choice(kinds), dice.random() < 0.7) for number in range(dice.randrange(1, 5))]
    schema = adopt_schema(pa.schema([("k", pa.int64()), ("id", pa.string()), *columns]), SERIES)
    for _ in range(6):
        given = [pa.field("k", pa.int64()), pa.field("id", pa.string()), *columns]
        odd = dice.random()
        if odd < 0.2:
            given[-1] = given[-1].with_type(dice.choice(kinds))
        elif odd < 0.3:
            given.pop()
        elif odd < 0.4:
            dice.shuffle(given)
        some = dice.random() < 0.2
        arrays = [
            pa.array([None if some and dice.random() < 0.3 else {"k": 1, "id": "x"}.get(one.name)] * 2, one.type)
            if one.name in ("k", "id")
            else pa.nulls(2, one.type)
            for one in given
        ]
        batch = pa.RecordBatch.from_arrays(arrays, schema=pa.schema([one.with_nullable(True) for one in given]))
        short = _outcome(schema, batch)
        with monkeypatch.context() as patched:
            patched.setattr(schema_module, "stored_as_given", lambda *_: None)
            patched.setattr(fit_module, "stored_as_given", lambda *_: None)
            assert short == _outcome(schema, batch)


def _outcome(schema: pa.Schema, batch: pa.RecordBatch) -> object:
    try:
        reconciled = reconcile(schema, batch.schema, SERIES)
        found = fit(batch, schema, SERIES, 5)
    except GaplessError as error:
        return type(error), str(error)
    return reconciled, found.schema.to_string(show_field_metadata=True), found.to_pylist()


def test_each_table_has_its_own_short_way() -> None:
    """Many tables at once, and one whose input changes its types."""
    schemas = [adopt_schema(pa.schema([("k", pa.int64()), ("v", pa.float32())]), PLAIN) for _ in range(200)]
    whole = pa.record_batch({"k": pa.array([1], pa.int64()), "v": pa.array([0.5], pa.float32())})
    other = pa.record_batch({"k": pa.array([1], pa.int64()), "v": pa.array([2], pa.int8())})
    for schema in schemas * 2:
        for batch in (whole, other, whole):
            assert fit(batch, schema, PLAIN, 0).schema.equals(stored_schema(schema))
            assert reconcile(schema, batch.schema, PLAIN).schema is schema
        assert stored_as_given(schema, whole.schema) is not None
        assert stored_as_given(schema, other.schema) is None
