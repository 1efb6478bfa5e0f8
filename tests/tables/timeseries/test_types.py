"""Every Arrow type that Parquet holds, through a real table: declared type and values come back, bit by bit."""

from __future__ import annotations

import itertools
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gapless as gl
from gapless.errors import GaplessError, SchemaMismatch, UnsupportedType

_counter = itertools.count()
A = pa.array
YEARS = {"s": (-62_135_596_800, 253_402_300_799), "ms": (-62_135_596_800_000, 253_402_300_799_999)}
YEARS |= {"us": (-62_135_596_800_000_000, 253_402_300_799_999_999), "ns": (-(2**63), 2**63 - 1)}
LEAF = pa.struct([("t", pa.timestamp("s", "Europe/Paris")), ("m", pa.map_(pa.string(), pa.list_(pa.decimal128(5, 1))))])

CASES: dict[str, pa.Array] = {
    "bool": A([True, False, None]),
    **{
        str(t): A([-(2 ** (t.bit_width - 1)), 2 ** (t.bit_width - 1) - 1, None], t)
        for t in (pa.int8(), pa.int16(), pa.int32(), pa.int64())
    },
    **{str(t): A([0, 2**t.bit_width - 1, None], t) for t in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())},
    **{str(t): A([math.nan, -0.0, 0.0, math.inf, -math.inf, None], t) for t in (pa.float16(), pa.float32(), pa.float64())},
    **{str(t): A(["", "a\0b é日本🎉", None], t) for t in (pa.string(), pa.large_string(), pa.string_view())},
    **{str(t): A([b"", b"\0\xff", None], t) for t in (pa.binary(), pa.large_binary(), pa.binary_view())},
    "dictionary": A(["a", "", None, "a"]).dictionary_encode(),
    "dictionary of integers": A([1, 2, None], pa.int16()).dictionary_encode(),
    "runs": pa.RunEndEncodedArray.from_arrays([2, 3], A([1, None], pa.int64())),
    "fixed binary": A([b"abc", b"\0\0\0", None], pa.binary(3)),
    "date32": A([date(1, 1, 1), date(1582, 10, 4), date(9999, 12, 31), None], pa.date32()),
    "date64": A([date(1, 1, 1), date(1582, 10, 15), date(9999, 12, 31), None], pa.date64()),
    "time32[s]": A([0, 86_399, None], pa.time32("s")),
    "time32[ms]": A([0, 86_399_999, None], pa.time32("ms")),
    "time64[us]": A([0, 86_399_999_999, None], pa.time64("us")),
    "time64[ns]": A([0, 86_399_999_999_999, None], pa.time64("ns")),
    **{f"duration[{u}]": A([-(2**60), 2**60, -1, None], pa.duration(u)) for u in ("s", "ms", "us", "ns")},
    **{
        f"timestamp[{u}, {z}]": A([*ends, -1, None], pa.timestamp(u, z))
        for u, ends in YEARS.items()
        for z in (None, "UTC", "America/New_York", "+05:30")
    },
    "decimal32": A([Decimal("-999.99"), Decimal("0.01"), None], pa.decimal32(5, 2)),
    "decimal64": A([Decimal("-9.99"), None], pa.decimal64(15, 2)),
    "decimal128": A([Decimal("-" + "9" * 36 + ".99"), None], pa.decimal128(38, 2)),
    "decimal256": A([Decimal("-" + "9" * 74 + ".99"), None], pa.decimal256(76, 2)),
    "narrow decimal256": A([Decimal("9.9"), None], pa.decimal256(3, 1)),
    "list": A([[1, None], [], None], pa.list_(pa.int16())),
    "large list": A([["a"], [], None], pa.large_list(pa.string())),
    "list view": A([[1], [], None], pa.list_view(pa.int8())),
    "fixed list": A([[1.5, math.nan], [0, -0.0], None], pa.list_(pa.float32(), 2)),
    "list of durations": A([[1], [], None], pa.list_(pa.duration("ms"))),
    "struct": A([{"a": 1, "b": "x"}, {"a": None, "b": ""}, None], pa.struct([("a", pa.int8()), ("b", pa.string())])),
    "struct of half floats": A([{"a": math.nan}, {"a": -0.0}, None], pa.struct([("a", pa.float16())])),
    "map": A([[("a", 1)], [], None], pa.map_(pa.string(), pa.int32())),
    "deep": A([[{"t": 5, "m": [("k", [Decimal("1.1")])]}, None], [], None], pa.list_(LEAF)),
    "null": pa.nulls(3),
    "uuid": pa.ExtensionArray.from_storage(pa.uuid(), A([b"0" * 16, None], pa.binary(16))),
    "json": pa.ExtensionArray.from_storage(pa.json_(), A(["{}", None])),
}
PLAIN = {
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
}


def declared(array: pa.Array) -> pa.DataType:
    """The type that comes back, by the table in docs of "Types and units"."""
    type_ = array.type
    if isinstance(type_, pa.BaseExtensionType):
        return type_.storage_type
    if pa.types.is_dictionary(type_) or pa.types.is_run_end_encoded(type_):
        return type_.value_type
    return pa.list_(type_.value_type) if pa.types.is_list_view(type_) else PLAIN.get(type_, type_)


def exact(array: pa.Array | pa.ChunkedArray) -> list[str]:
    """Values as texts that tell -0.0 from 0.0, and show what Python's own types cannot hold."""
    whole = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    if isinstance(whole, pa.ExtensionArray):
        whole = whole.storage
    if pa.types.is_timestamp(whole.type) or pa.types.is_duration(whole.type):
        whole = whole.cast(pa.int64())
    if pa.types.is_map(whole.type):
        return [repr(None if one is None else dict(one)) for one in whole.to_pylist()]
    return [repr(value) for value in whole.to_pylist()]


def table_with(place: str | Path, array: pa.Array) -> tuple[gl.TimeSeriesTable, pa.Table]:
    given = pa.table({"i": range(len(array)), "v": array})
    table = gl.create(place, index="i", index_type="int64", bucket=1)
    table.append(given)
    return table, given


@pytest.mark.parametrize("local", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_type_01_every_type_comes_back_as_declared(tmp_path: Path, name: str, local: bool) -> None:
    array = CASES[name]
    place = str(tmp_path / "t") if local else f"memory://types-{next(_counter)}"
    table, _ = table_with(place, array)
    for handle in (table, gl.open(place)):
        found = handle.scan().to_arrow()
        found.validate(full=True)
        assert found.schema.equals(handle.schema)
        assert found.schema.field("v").type == declared(array)
        assert exact(found.column("v")) == exact(array)
    empty = table.scan(end=0).to_arrow()
    assert (empty.num_rows, empty.schema) == (0, table.schema)


@pytest.mark.parametrize("name", CASES)
def test_other_libraries_hold_it_or_say_so(name: str) -> None:
    table, _ = table_with(f"memory://types-{next(_counter)}", CASES[name])
    rows = len(CASES[name])
    for turn in (table.scan().to_pandas, table.scan().to_polars, lambda: table.scan().to_duckdb().fetchall()):
        try:
            assert len(turn()) == rows
        except GaplessError as refusal:
            assert "cannot hold these rows" in str(refusal)  # noqa: PT017  # it may hold it as well
    try:
        assert table.sql("SELECT v FROM this").count() == rows
    except gl.errors.InvalidQuery as refusal:
        assert "Column 'v' is" in str(refusal) or "out of bounds" in str(refusal)  # noqa: PT017  # it may hold it as well
    assert table.sql("SELECT count(*) AS n FROM this").to_arrow().to_pylist() == [{"n": rows}]


def test_integers_with_nulls_stay_exact_in_pandas() -> None:
    table, _ = table_with(f"memory://types-{next(_counter)}", A([2**53 + 1, None, -(2**63)]))
    frame = table.scan().to_pandas()
    assert frame["v"].tolist()[0] == 2**53 + 1
    assert str(frame["v"].dtype) == "Int64"
    assert str(frame["i"].dtype) in ("int64", "Int64")


def test_type_01_far_dates_do_not_wrap_in_pandas() -> None:
    far = [datetime(1, 1, 1), datetime(1677, 1, 1), datetime(2400, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999)]
    table, _ = table_with(f"memory://types-{next(_counter)}", A(far, pa.timestamp("us")))
    assert [moment.to_pydatetime() for moment in table.scan().to_pandas()["v"]] == far
    assert table.scan(where="v > TIMESTAMP '2399-01-01'").count() == 2
    assert table.sql("SELECT v FROM this WHERE v < TIMESTAMP '1700-01-01'").count() == 2
    with pytest.raises(pa.ArrowInvalid):
        table.scan().to_arrow().column("v").cast(pa.timestamp("ns"))


def test_type_21_old_dates_are_proleptic_gregorian() -> None:
    days = [date(1001, 1, 1), date(1582, 10, 4), date(1582, 10, 15), date(1000, 2, 28)]
    table, _ = table_with(f"memory://types-{next(_counter)}", A(days))
    found = table.scan().to_arrow().column("v")
    assert found.to_pylist() == days
    assert found.cast(pa.int32())[0].as_py() == -353_920
    assert [row[0] for row in table.scan(columns=["v"]).to_duckdb().fetchall()] == days


@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Tokyo"])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_every_index_unit_naive_and_zoned(unit: str, zone: str | None) -> None:
    type_ = pa.timestamp(unit, zone)
    counts = [-1, 0, 1, *YEARS[unit]]
    table = gl.create(f"memory://types-{next(_counter)}", index="ts", bucket="1h")
    table.append({"ts": A(counts, type_), "n": counts})
    assert table.schema is not None
    assert table.schema.field("ts") == pa.field("ts", type_, nullable=False)
    found = table.scan(order="index").to_arrow()
    assert found.column("n").to_pylist() == sorted(counts)
    assert found.column("ts").cast(pa.int64()).to_pylist() == sorted(counts)
    epoch = datetime(1970, 1, 1, tzinfo=None if zone is None else UTC)
    assert table.scan(epoch).count() == 3
    assert table.scan(end=epoch).count() == 2
    with pytest.raises(gl.CoverageOverlap):
        table.append({"ts": A([0], type_), "n": [0]})
    assert table.coverage().covered == len(
        {count // (3_600 * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]) for count in counts}
    )


@pytest.mark.parametrize(
    ("index_type", "values"), [("int64", [-(2**63), -1, 0, 2**63 - 1]), ("uint64", [0, 1, 2**63, 2**64 - 1])]
)
@pytest.mark.parametrize("width", [1, 10, 2**62])
def test_the_ends_of_integer_indexes(index_type: str, values: list[int], width: int) -> None:
    table = gl.create(f"memory://types-{next(_counter)}", index="i", index_type=index_type, bucket=width)
    table.append({"i": A(values, pa.type_for_alias(index_type))})
    assert table.scan(order="index").to_arrow().column("i").to_pylist() == values
    assert table.scan(values[-1]).to_arrow().column("i").to_pylist() == values[-1:]
    assert table.scan(values[0], values[1]).count() == 1
    covered = [(bucket.start, bucket.end) for bucket in table.coverage().buckets()]
    assert len(covered) == len({value // width for value in values})
    assert all(end - start == width for start, end in covered)
    assert table.coverage().covered == len(covered)
    with pytest.raises(gl.CoverageOverlap):
        table.append({"i": A(values[-1:], pa.type_for_alias(index_type))})
    assert [row["i"] for row in table.sql("SELECT i FROM this ORDER BY i").to_arrow().to_pylist()] == values


ENTITIES: dict[str, list[Any]] = {
    "string": ["", "a", "ü", "null"], "int8": [-128, 0, 127], "int16": [-(2**15), 5], "int32": [-(2**31), 5], "int64": [-(2**63), 2**63 - 1],
    "uint8": [0, 255], "uint16": [0, 2**16 - 1], "uint32": [0, 2**32 - 1], "uint64": [0, 2**64 - 1],
    "date32": [date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31)], "bool": [False, True],
}  # fmt: skip


@pytest.mark.parametrize("name", ENTITIES)
def test_every_entity_type(name: str) -> None:
    values, type_ = ENTITIES[name], pa.bool_() if name == "bool" else pa.type_for_alias(name)
    table = gl.create(f"memory://types-{next(_counter)}", index="i", index_type="int64", entity=["e"], bucket=1)
    table.append({"i": [1] * len(values), "e": A(values, type_)})
    assert gl.open(table.url).identities() == [(value,) for value in sorted(values)]
    for value in values:
        assert table.scan(entity={"e": [value]}).to_arrow().column("e").to_pylist() == [value]
        assert table.coverage(identities=[value]).ratio == 1.0
        with pytest.raises(gl.CoverageOverlap) as refusal:
            table.append({"i": [1], "e": A([value], type_)})
        assert refusal.value.identity == (value,)


@pytest.mark.parametrize("type_", [pa.float64(), pa.binary(), pa.timestamp("us"), pa.decimal128(5, 1), pa.list_(pa.int8())])
def test_types_that_identify_nothing(type_: pa.DataType) -> None:
    table = gl.create(f"memory://types-{next(_counter)}", index="i", index_type="int64", entity=["e"], bucket=1)
    with pytest.raises(UnsupportedType, match="entity column 'e'"):
        table.append({"i": [1], "e": pa.nulls(1, type_)})


NAMES = [
    "TEST:A1.RAW-1",
    "$data",
    "my/col",
    "#event",
    "a b",
    "päivä",
    "x`y",
    'a"b',
    "1st",
    "select",
    "ä",
    "Ä",
    "日本🎉",
    "new\nline",
    "it's",
    "a.b",
    "%s",
    "\\",
    "x" * 500,
]


def test_type_19_any_column_name_reads_back_and_filters(tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="i i", index_type="int64", entity=["e.e"], bucket=1)
    table.append({"i i": [1, 2], "e.e": ["x", "y"], **{name: [number, None] for number, name in enumerate(NAMES)}})
    again = gl.open(tmp_path / "t")
    found = again.scan().to_arrow()
    assert found.schema.names == ["i i", "e.e", *NAMES]
    for number, name in enumerate(NAMES):
        quoted = name.replace('"', '""')
        assert found.column(name).to_pylist() == [number, None]
        assert again.scan(where=f'"{quoted}" = {number}', columns=[name]).count() == 1
        assert again.scan(where=pa.compute.field(name) == number, columns=[name]).to_arrow().column(name).to_pylist() == [
            number
        ]
        assert again.sql(f'SELECT max("{quoted}") AS m FROM this WHERE "{quoted}" IS NOT NULL').to_arrow().to_pylist() == [
            {"m": number}
        ]
    assert again.scan().to_polars().columns == found.schema.names


@pytest.mark.parametrize("names", [["i", ""], ["i", "x", "x"], ["i", "a\0b"]])
def test_type_19_names_that_are_none(names: list[str]) -> None:
    table = gl.create(f"memory://types-{next(_counter)}", index="i", index_type="int64", bucket=1)
    with pytest.raises(SchemaMismatch):
        table.append(pa.Table.from_arrays([A([1])] * len(names), names=names))


def test_a_thousand_columns(tmp_path: Path) -> None:
    columns = {f"c{number}": A([number, None], pa.int32()) for number in range(1_000)}
    table = gl.create(tmp_path / "t", index="i", index_type="int64", bucket=1)
    table.append({"i": [1, 2], **columns})
    found = gl.open(tmp_path / "t").scan().to_arrow()
    assert found.num_columns == 1_001
    assert found.column("c999").to_pylist() == [999, None]
    assert table.scan(where="c998 = 998", columns=["c7"]).to_arrow().to_pylist() == [{"c7": 7}]
    assert table.sql("SELECT c5 FROM this WHERE c999 > 1").to_arrow().to_pylist() == [{"c5": 5}]


values_of = st.lists(st.none() | st.floats(width=32), max_size=20)


@given(parts=st.lists(values_of, max_size=4), type_=st.sampled_from([pa.float32(), pa.float64()]))
def test_floats_of_several_appends_are_bit_for_bit(parts: list[list[float | None]], type_: pa.DataType) -> None:
    table = gl.create(
        f"memory://types-{next(_counter)}",
        index="i",
        index_type="int64",
        bucket=1,
        schema=pa.schema([("i", pa.int64()), ("x", type_)]),
    )
    first = 0
    for part in parts:
        table.append({"i": A(range(first, first + len(part)), pa.int64()), "x": A(part, type_)})
        first += len(part)
    assert exact(table.scan().to_arrow().column("x")) == [repr(value) for part in parts for value in part]
