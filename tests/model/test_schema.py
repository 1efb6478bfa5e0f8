import pyarrow as pa
import pytest

from gapless.errors import NullKey, SchemaMismatch, UnsupportedType
from gapless.model.index import IndexSpec, IndexType, parse_bucket
from gapless.model.schema import adopt_schema, entity_types, reconcile, stored_schema

MARKET = IndexSpec(column="ts", type="timestamp", bucket=parse_bucket("1m", "timestamp"), entity=("symbol",))
US = pa.timestamp("us", "UTC")


def timed(bucket: str = "1s", timezone: str | None = None) -> IndexSpec:
    return IndexSpec(column="ts", type="timestamp", bucket=parse_bucket(bucket, "timestamp", timezone), timezone=timezone)


def numbered(type_: IndexType) -> IndexSpec:
    return IndexSpec(column="k", type=type_, bucket=parse_bucket(10, type_))


def one(type_: pa.DataType, **field: object) -> pa.Schema:
    return pa.schema([("ts", US), pa.field("v", type_, **field)])


def adopted(type_: pa.DataType) -> pa.DataType:
    return adopt_schema(one(type_), timed()).field("v").type


def table_of(type_: pa.DataType, *, nullable: bool = True) -> pa.Schema:
    return adopt_schema(one(type_, nullable=nullable), timed())


def line(table: pa.DataType, given: pa.DataType) -> str:
    with pytest.raises(SchemaMismatch) as caught:
        reconcile(table_of(table), one(given), timed())
    (difference,) = caught.value.differences
    assert caught.value.why == difference, "the message holds what differs, not the schemas"
    return difference


def accepts(table: pa.DataType, given: pa.DataType) -> bool:
    schema = table_of(table)
    try:
        found = reconcile(schema, one(given), timed())
    except SchemaMismatch:
        return False
    assert found.schema is schema
    assert found.resolved == ()
    return True


@pytest.mark.parametrize(
    ("given", "declared"),
    [
        (pa.dictionary(pa.int8(), pa.large_string()), pa.string()),
        (pa.large_string(), pa.string()),
        (pa.string_view(), pa.string()),
        (pa.large_binary(), pa.binary()),
        (pa.binary_view(), pa.binary()),
        (pa.run_end_encoded(pa.int32(), pa.int16()), pa.int16()),
        (pa.list_view(pa.string_view()), pa.list_(pa.string())),
        (pa.large_list_view(pa.int8()), pa.large_list(pa.int8())),
        (pa.list_(pa.dictionary(pa.int32(), pa.string()), 2), pa.list_(pa.string(), 2)),
        (pa.map_(pa.large_string(), pa.list_view(pa.int8())), pa.map_(pa.string(), pa.list_(pa.int8()))),
        (pa.struct([("a", pa.large_binary()), ("b", pa.timestamp("s", "Z"))]),
         pa.struct([("a", pa.binary()), ("b", pa.timestamp("s", "UTC"))])),
        (pa.uuid(), pa.binary(16)),
    ],
)  # fmt: skip
def test_encodings_are_adopted_as_the_type_of_their_values(given: pa.DataType, declared: pa.DataType) -> None:
    assert adopted(given).equals(declared)


@pytest.mark.parametrize("zone", ["UTC", "+00:00", "-00:00", "Etc/UTC", "Z", "Zulu"])
def test_cov_20_every_spelling_of_utc_is_one_zone(zone: str) -> None:
    schema = adopt_schema(pa.schema([("ts", pa.timestamp("us", zone))]), timed())
    assert schema.field("ts").type.tz == "UTC"


def test_cov_20_other_zones_and_units_fit_a_utc_table() -> None:
    schema = adopt_schema(pa.schema([("ts", US)]), timed())
    for type_ in (pa.timestamp("us", "+00:00"), pa.timestamp("us", "Europe/Paris"), pa.timestamp("ns", "UTC")):
        assert reconcile(schema, pa.schema([("ts", type_)]), timed()).schema is schema


def test_an_extension_leaves_its_name_so_that_it_comes_back_across_the_c_interface() -> None:
    schema = adopt_schema(pa.schema([("ts", US), ("v", pa.uuid()), ("n", pa.list_(pa.json_()))]), timed())
    assert schema.field("n").type == pa.list_(pa.string())
    assert pa.schema(_Exported(schema)).types == [US, pa.uuid(), pa.list_(pa.json_())]


class _Exported:
    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def __arrow_c_schema__(self) -> object:
        return self._schema.__arrow_c_schema__()


@pytest.mark.parametrize(
    ("type_", "where"),
    [
        (pa.month_day_nano_interval(), "v"),
        (pa.dense_union([pa.field("a", pa.int8())]), "v"),
        (pa.struct([]), "v"),
        (pa.binary(0), "v"),
        (pa.list_(pa.int8(), 0), "v"),
        (pa.decimal128(5, -2), "v"),
        (pa.decimal128(3, 5), "v"),
        (pa.timestamp("us", "Mars/Phobos"), "v"),
        (pa.opaque(pa.int8(), "a", "b"), "v"),
        (pa.list_(pa.null()), "v.item"),
        (pa.struct([("a", pa.null())]), "v.a"),
        (pa.struct([("a", pa.int8()), ("a", pa.int8())]), "v"),
        (pa.struct([("a", pa.list_(pa.field("x", pa.month_day_nano_interval())))]), "v.a.x"),
    ],
)  # fmt: skip
def test_what_parquet_cannot_hold_is_refused_by_name_and_type(type_: pa.DataType, where: str) -> None:
    with pytest.raises(UnsupportedType) as caught:
        adopted(type_)
    assert caught.value.column == where
    assert caught.value.type


def test_field_ids_and_pandas_metadata_go_and_other_metadata_stays() -> None:
    field = pa.field("v", pa.int8(), metadata={"PARQUET:field_id": "3", "unit": "V"})
    given = pa.schema([("ts", US), field], metadata={"pandas": "{}", "owner": "me"})
    schema = adopt_schema(given, timed())
    assert schema.metadata == {b"owner": b"me"}
    assert schema.field("v").metadata == {b"unit": b"V"}
    stored = stored_schema(schema)
    assert (stored.metadata, stored.field("v").metadata) == (None, None)


@pytest.mark.parametrize("name", ["TEST:A1.RAW-1", "$data", "my/col", "#event", "a b", "päivä", "x`y", 'a"b', "1st", "TS"])
def test_type_19_any_name_is_kept(name: str) -> None:
    schema = adopt_schema(pa.schema([("ts", US), (name, pa.int8())]), timed())
    assert schema.names == stored_schema(schema).names == ["ts", name]


def test_type_19_empty_and_doubled_names_are_refused() -> None:
    given = pa.schema([("ts", US), ("", pa.int8()), ("a", pa.int8()), ("a", pa.int8())])
    with pytest.raises(SchemaMismatch) as caught:
        adopt_schema(given, timed())
    assert caught.value.differences == ("a: comes 2 times", "'': a column needs a name")
    with pytest.raises(SchemaMismatch):
        reconcile(table_of(pa.int8()), pa.schema([("ts", US), ("v", pa.int8()), ("v", pa.int8())]), timed())


def test_a_missing_index_or_entity_column_is_named() -> None:
    with pytest.raises(SchemaMismatch) as caught:
        adopt_schema(pa.schema([("time", US)]), MARKET)
    assert caught.value.differences == ("ts: missing", "symbol: missing")


def test_index_and_entities_become_non_null_and_others_stay_as_given() -> None:
    schema = adopt_schema(pa.schema([("ts", US), ("symbol", pa.string()), pa.field("v", pa.int8(), nullable=False)]), MARKET)
    assert [field.nullable for field in schema] == [False, False, False]
    assert adopt_schema(one(pa.int8()), timed()).field("v").nullable


@pytest.mark.parametrize("type_", [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32()])
def test_integer_indexes_are_int64(type_: pa.DataType) -> None:
    assert adopt_schema(pa.schema([("k", type_)]), numbered("int64")).field("k").type == pa.int64()


def test_unsigned_indexes_are_uint64_and_signed_inputs_do_not_fit() -> None:
    for type_ in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()):
        assert adopt_schema(pa.schema([("k", type_)]), numbered("uint64")).field("k").type == pa.uint64()
    with pytest.raises(SchemaMismatch):
        adopt_schema(pa.schema([("k", pa.int64())]), numbered("uint64"))
    with pytest.raises(SchemaMismatch):
        adopt_schema(pa.schema([("k", pa.uint64())]), numbered("int64"))


def test_cov_16_an_integer_time_needs_its_unit_declared() -> None:
    with pytest.raises(SchemaMismatch, match=r"unit.*pa\.timestamp\('ms', 'UTC'\)"):
        adopt_schema(pa.schema([("ts", pa.int64())]), timed())
    with pytest.raises(SchemaMismatch, match="an integer has no unit of time"):
        reconcile(adopt_schema(pa.schema([("ts", US)]), timed()), pa.schema([("ts", pa.int64())]), timed())


@pytest.mark.parametrize("type_", [pa.date32(), pa.string(), pa.float64(), pa.time64("us")])
def test_an_index_of_another_kind_is_refused(type_: pa.DataType) -> None:
    with pytest.raises(SchemaMismatch):
        adopt_schema(pa.schema([("ts", type_)]), timed())


def test_entity_columns_have_names_in_the_log() -> None:
    types = {
        "utf8": pa.large_string(), "int8": pa.int8(), "int16": pa.int16(), "int32": pa.int32(), "int64": pa.int64(),
        "uint8": pa.uint8(), "uint16": pa.uint16(), "uint32": pa.uint32(), "uint64": pa.uint64(), "date": pa.date64(),
        "bool": pa.bool_(),
    }  # fmt: skip
    index = IndexSpec(column="ts", type="timestamp", bucket=parse_bucket("1s", "timestamp"), entity=tuple(types))
    schema = adopt_schema(pa.schema([("ts", US), *types.items()]), index)
    assert entity_types(schema, index) == tuple(types)
    assert schema.field("date").type == pa.date32()


@pytest.mark.parametrize("type_", [pa.float64(), pa.binary(), pa.timestamp("us"), pa.list_(pa.string()), pa.decimal128(5, 2)])
def test_other_entity_types_are_refused(type_: pa.DataType) -> None:
    with pytest.raises(UnsupportedType) as caught:
        adopt_schema(pa.schema([("ts", US), ("symbol", type_)]), MARKET)
    assert caught.value.column == "symbol"


def test_cov_15_a_key_column_of_nulls_alone_is_refused() -> None:
    with pytest.raises(NullKey) as caught:
        adopt_schema(pa.schema([("ts", US), ("symbol", pa.null())]), MARKET)
    assert (caught.value.column, caught.value.row) == ("symbol", 0)


@pytest.mark.parametrize(
    ("bucket", "unit", "fits"), [("100us", "ms", False), ("100us", "us", True), ("1ms", "s", False), ("1d", "s", True)]
)
def test_a_bucket_is_a_whole_number_of_the_index_unit(bucket: str, unit: str, fits: bool) -> None:
    given = pa.schema([("ts", pa.timestamp(unit))])
    if fits:
        adopt_schema(given, timed(bucket))
        return
    with pytest.raises(SchemaMismatch, match=f"a bucket of {bucket} is no whole number of {unit}.*finer unit"):
        adopt_schema(given, timed(bucket))


def test_a_naive_index_takes_the_zone_of_the_table_and_other_columns_do_not() -> None:
    index = timed("1d", "America/New_York")
    schema = adopt_schema(pa.schema([("ts", pa.timestamp("ms")), ("seen", pa.timestamp("ms"))]), index)
    assert schema.types == [pa.timestamp("ms", "America/New_York"), pa.timestamp("ms")]
    assert adopt_schema(pa.schema([("ts", US)]), index).field("ts").type == US
    assert reconcile(schema, pa.schema([("ts", pa.timestamp("ns")), ("seen", pa.timestamp("us"))]), index).schema is schema
    with pytest.raises(SchemaMismatch) as caught:
        reconcile(schema, pa.schema([("ts", US), ("seen", US)]), index)
    assert len(caught.value.differences) == 1
    assert caught.value.differences[0].startswith("seen: timestamp[ms] in the table")


def test_naive_against_aware_is_refused_saying_what_to_pass() -> None:
    assert "pc.assume_timezone" in line(US, pa.timestamp("us"))
    assert "pc.local_timestamp" in line(pa.timestamp("us"), US)


def test_type_20_columns_match_by_name_in_any_order() -> None:
    schema = table_of(pa.int8())
    assert reconcile(schema, pa.schema([("v", pa.int8()), ("ts", US)]), timed()).schema.names == ["ts", "v"]


def test_nullable_columns_may_be_missing_and_others_may_not() -> None:
    assert reconcile(table_of(pa.int8()), pa.schema([("ts", US)]), timed()).schema == table_of(pa.int8())
    with pytest.raises(SchemaMismatch) as caught:
        reconcile(table_of(pa.int8(), nullable=False), pa.schema([("v", pa.int8())]), timed())
    assert caught.value.differences == ("ts: missing, and it may not be null",)
    with pytest.raises(SchemaMismatch, match="v: missing"):
        reconcile(table_of(pa.int8(), nullable=False), pa.schema([("ts", US)]), timed())


def test_an_extra_column_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(SchemaMismatch) as caught:
        reconcile(table_of(pa.int8()), one(pa.int8()).append(pa.field("v2", pa.null())), timed())
    assert caught.value.differences == ("v2: not in the table. Did you mean 'v'?",)


def test_nullability_flags_do_not_matter() -> None:
    schema = table_of(pa.int8(), nullable=False)
    assert reconcile(schema, one(pa.int8()), timed()).schema is schema


def test_type_06_names_of_list_and_map_children_do_not_matter() -> None:
    def nested(item: str) -> pa.DataType:
        return pa.list_(pa.field(item, pa.struct([("a", pa.list_(pa.field(item, pa.int8())))])))

    assert accepts(nested("item"), nested("element"))
    renamed = pa.map_(pa.field("k", pa.string(), nullable=False), pa.field("v", pa.int8()))
    assert accepts(pa.map_(pa.string(), pa.int8()), renamed)


def test_type_07_a_column_of_nulls_is_settled_by_the_first_real_type() -> None:
    schema = table_of(pa.null())
    assert schema.field("v").type == pa.null()
    assert stored_schema(schema).names == ["ts"]
    assert reconcile(schema, one(pa.null()), timed()).schema is schema
    for type_ in (pa.int64(), pa.large_string(), pa.struct([("a", pa.int8())])):
        found = reconcile(schema, one(type_, nullable=False), timed())
        assert found.resolved == ("v",)
        assert found.schema.field("v").equals(pa.field("v", adopted(type_), nullable=True))
        assert reconcile(found.schema, one(pa.null()), timed()).resolved == ()
    with pytest.raises(UnsupportedType):
        reconcile(schema, one(pa.list_(pa.null())), timed())


def test_type_08_a_late_value_gives_the_column_its_type_in_place() -> None:
    given = pa.schema([("name", pa.null()), ("ts", US), ("x", pa.float64())])
    schema = adopt_schema(given, timed())
    found = reconcile(schema, pa.schema([("ts", US), ("x", pa.float64()), ("name", pa.string())]), timed())
    assert found.schema == pa.schema([("name", pa.string()), pa.field("ts", US, nullable=False), ("x", pa.float64())])


LOSSLESS = [
    (pa.int16(), pa.int8()), (pa.int16(), pa.uint8()), (pa.int64(), pa.uint32()), (pa.uint64(), pa.uint32()),
    (pa.float32(), pa.float16()), (pa.float64(), pa.float16()), (pa.float64(), pa.float32()), (pa.float16(), pa.int8()),
    (pa.float16(), pa.uint8()), (pa.float32(), pa.int16()), (pa.float32(), pa.uint16()), (pa.float64(), pa.int32()),
    (pa.float64(), pa.uint32()), (pa.decimal128(12, 2), pa.decimal128(10, 2)), (pa.decimal256(60, 2), pa.decimal32(5, 2)),
    (pa.decimal128(12, 4), pa.decimal128(10, 2)), (pa.timestamp("ns"), pa.timestamp("s")), (pa.timestamp("s"), pa.timestamp("ns")),
    (US, pa.timestamp("ns", "Asia/Tokyo")), (pa.date32(), pa.date64()), (pa.date64(), pa.date32()),
    (pa.time32("s"), pa.time64("ns")), (pa.duration("ms"), pa.duration("us")), (pa.string(), pa.dictionary(pa.int8(), pa.string())),
    (pa.string(), pa.large_string()), (pa.binary(), pa.binary_view()), (pa.large_list(pa.int64()), pa.list_(pa.int8())),
    (pa.list_(pa.int64()), pa.list_(pa.int8(), 3)), (pa.list_(pa.int64()), pa.list_(pa.null())),
    (pa.struct([("a", pa.int64()), ("b", pa.string())]), pa.struct([("a", pa.int8())])),
    (pa.map_(pa.string(), pa.int64()), pa.map_(pa.large_string(), pa.int8())), (pa.int8(), pa.null()),
]  # fmt: skip


@pytest.mark.parametrize(("table", "given"), LOSSLESS, ids=str)
def test_lossless_widening_is_accepted(table: pa.DataType, given: pa.DataType) -> None:
    assert accepts(table, given)


LOSSY = [
    (pa.int32(), pa.int64()), (pa.int8(), pa.uint8()), (pa.uint8(), pa.int8()), (pa.uint64(), pa.int8()),
    (pa.int64(), pa.uint64()), (pa.float32(), pa.float64()), (pa.float32(), pa.int32()), (pa.float64(), pa.int64()),
    (pa.float64(), pa.uint64()), (pa.int64(), pa.float64()), (pa.int64(), pa.bool_()), (pa.bool_(), pa.int8()),
    (pa.decimal128(10, 2), pa.decimal128(12, 2)), (pa.decimal128(10, 2), pa.decimal128(12, 4)),
    (pa.decimal128(10, 4), pa.decimal128(10, 2)), (pa.decimal128(38, 0), pa.int64()), (pa.int64(), pa.decimal128(5, 0)),
    (pa.string(), pa.int64()), (pa.int64(), pa.string()), (pa.string(), pa.binary()), (pa.binary(), pa.string()),
    (pa.date32(), pa.timestamp("s")), (pa.timestamp("s"), pa.date32()), (pa.int64(), pa.date32()), (pa.date32(), pa.string()),
    (pa.int64(), pa.timestamp("s")), (pa.timestamp("s"), pa.int64()), (pa.duration("s"), pa.int64()),
    (pa.binary(3), pa.binary(4)), (pa.list_(pa.int8()), pa.int8()), (pa.list_(pa.int8(), 3), pa.list_(pa.int8())),
    (pa.struct([("a", pa.int8())]), pa.struct([("a", pa.int8()), ("b", pa.int8())])),
    (pa.struct([pa.field("a", pa.int8(), nullable=False), ("b", pa.int8())]), pa.struct([("b", pa.int8())])),
    (pa.list_(pa.struct([("a", pa.int8())])), pa.list_(pa.struct([("a", pa.int16())]))),
    (pa.map_(pa.string(), pa.int8()), pa.map_(pa.string(), pa.string())),
    (pa.map_(pa.string(), pa.int8()), pa.list_(pa.struct([("key", pa.string()), ("value", pa.int8())]))),
]  # fmt: skip


@pytest.mark.parametrize(("table", "given"), LOSSY, ids=str)
def test_everything_else_is_refused_in_one_line(table: pa.DataType, given: pa.DataType) -> None:
    assert line(table, given).startswith(f"v: {adopted(table)} in the table, {given} in the input: ")


def test_type_10_int64_into_int32_is_refused_at_write_whatever_its_values() -> None:
    assert line(pa.int32(), pa.int64()) == "v: int32 in the table, int64 in the input: int32 does not hold every int64"
    assert "does not hold every double" in line(pa.float32(), pa.float64())


@pytest.mark.parametrize("given", [pa.float64(), pa.string(), pa.date32(), pa.bool_()], ids=str)
def test_type_11_a_column_does_not_drift(given: pa.DataType) -> None:
    assert not accepts(pa.int64(), given)


def test_type_12_unsigned_and_signed_never_meet_in_a_float() -> None:
    assert not accepts(pa.int8(), pa.uint8())
    assert not accepts(pa.int64(), pa.uint64())
    assert accepts(pa.int16(), pa.uint8())


def test_type_22_decimals_widen_in_front_of_the_point_only() -> None:
    assert accepts(pa.decimal128(12, 2), pa.decimal128(10, 2))
    assert "4" in line(pa.decimal128(12, 2), pa.decimal128(12, 4))
    assert not accepts(pa.decimal128(38, 0), pa.int64())


def test_all_differences_come_at_once_one_line_a_column() -> None:
    table = adopt_schema(pa.schema([("ts", US), ("symbol", pa.string()), ("a", pa.int8()), ("b", pa.int8())]), MARKET)
    given = pa.schema([("ts", pa.timestamp("us")), ("a", pa.int16()), ("b", pa.int8()), ("c", pa.int8())])
    with pytest.raises(SchemaMismatch) as caught:
        reconcile(table, given, MARKET)
    assert [text.split(":")[0] for text in caught.value.differences] == ["ts", "symbol", "a", "c"]


def test_stored_types_are_those_that_other_readers_have() -> None:
    given = pa.schema(
        [
            ("ts", pa.timestamp("s", "Asia/Tokyo")), ("a", pa.timestamp("ms")), ("b", pa.timestamp("ns", "Asia/Tokyo")),
            ("c", pa.date64()), ("d", pa.time32("s")), ("e", pa.decimal64(12, 2)), ("f", pa.decimal256(5, 1)),
            ("g", pa.struct([("x", pa.list_(pa.timestamp("s")))])), ("h", pa.int8()),
        ]
    )  # fmt: skip
    assert stored_schema(adopt_schema(given, timed())).types == [
        US, pa.timestamp("us"), pa.timestamp("ns", "UTC"), pa.date32(), pa.time32("ms"), pa.decimal128(12, 2), pa.decimal128(5, 1),
        pa.struct([("x", pa.list_(pa.timestamp("us")))]), pa.int8(),
    ]  # fmt: skip
